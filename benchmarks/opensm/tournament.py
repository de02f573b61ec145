"""Random fabrics, routed by us and by every engine of a real OpenSM: in how many are we best, equal, behind?

Run from the repository, with opensm, ibsim-utils and the rest installed (scripts/install-test-tools):

    python benchmarks/opensm/tournament.py                              seeds 0 to 299: 20 minutes on two free cores
    python benchmarks/opensm/tournament.py --first 60 --count 30        others
    python benchmarks/opensm/tournament.py --save found.jsonl           keep what is found, and play no seed twice
    python benchmarks/opensm/tournament.py --save found.jsonl --again   only ours again, beside what OpenSM made

``helpers.random_fabrics.draw(seed)`` draws the fabric of a seed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[2] / "tests")]

import routing
from helpers.random_fabrics import draw
from plan.opensm_lab.trials import Contender, compare_with_opensm
from routing.lanes.classes import DATA_LANES
from topo.errors import HeddleError
from topo.fabric import Fabric

FIGURES = {
    "fullest link": -1,
    "bisection": 1,
    "permutations": 1,
    "shifts": 1,
    "mean shift": -1,
    "worst shift": -1,
}
"""What is compared, and whether more of it is better."""

EQUAL = 0.005
"""Part of a figure by which it may differ and still be called equal."""


class Beside(NamedTuple):
    """Which tables are compared."""

    wide: bool
    """Whether ours may take several lanes."""
    safe: bool
    """Whether those of OpenSM have no credit loop on one lane."""
    title: str
    mark: str
    """What is said of those of OpenSM in a list."""


BESIDE = (
    Beside(False, True, "Ours on one lane, beside the best complete engine without credit loops on one lane", ""),
    Beside(
        False, False, "Ours on one lane, beside the best complete engine with credit loops on one lane", ", with loops"
    ),
    Beside(
        True,
        False,
        f"Ours on up to {DATA_LANES} lanes, beside the best complete engine that has credit loops on one lane",
        ", with loops",
    ),
)


class Result(NamedTuple):
    """One figure of ours beside the best of the engines of OpenSM of one kind."""

    fabric: str
    figure: str
    beside: Beside
    ours: float
    best: float
    by: str

    @property
    def lead(self) -> float:
        """Part of the better figure by which ours is better; negative where it is worse."""
        return lead(self.figure, self.ours, self.best)


def lead(figure: str, ours: float, theirs: float) -> float:
    """Return the part of the better one of two by which ours is better; negative where it is worse."""
    over, under = (ours, theirs) if FIGURES[figure] > 0 else (theirs, ours)
    ratio = over / under if under else 1.0
    return ratio - 1 if ratio < 1 else 1 - 1 / ratio


def play(seed: int, limit_s: float = 120.0) -> dict[str, Any]:
    """Route the fabric of a seed by all, and return what each is worth; ours is the first."""
    fabric = draw(seed)
    found = {"seed": seed, "fabric": fabric.name, "switches": fabric.n_switches, "hosts": len(fabric.ends())}
    try:
        routed = routing.route(fabric, "auto")
        proof, quality = routing.prove(routed), routing.measure(routed)
        rows = [worth(row) for row in compare_with_opensm(routed, proof, quality, limit_s=limit_s)]
        return found | {"why": routed.why, "engines": rows} | on_lanes(fabric, rows)
    except HeddleError as error:
        return found | {"failure": str(error), "engines": []}


def play_again(game: dict[str, Any]) -> dict[str, Any]:
    """Return a game with what we make of its fabric now."""
    fabric = draw(game["seed"])
    try:
        routed = routing.route(fabric, "auto")
        rows = [ours(routed), *game["engines"][1:]]
        return game | {"why": routed.why, "engines": rows} | on_lanes(fabric, rows)
    except HeddleError as error:
        return game | {"failure": str(error), "engines": []}


def on_lanes(fabric: Fabric, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return what ours on several lanes are worth where others need those, too."""
    if not any(row.get("missing") == 0 and row["loops"] for row in rows[1:]):
        return {}
    return {"wide": ours(routing.route(fabric, "auto", lanes=DATA_LANES))}


def ours(routed: routing.Routed) -> dict[str, Any]:
    """Return what tables of ours are worth."""
    proof = routing.prove(routed)
    return worth(Contender(f"{routed.tables.engine}, ours", None, proof.lanes, proof, routing.measure(routed)))


def worth(row: Contender) -> dict[str, Any]:
    """Return what an engine's tables are worth."""
    if row.proof is None or row.quality is None:
        return {"engine": row.engine, "failure": row.failure}
    proof, quality = row.proof, row.quality
    return {
        "engine": row.engine,
        "lanes": row.lanes,
        "missing": proof.lost,
        "loops": proof.credit_loops,
        "switches": proof.max_hops,
        "seconds": row.seconds,
        "fullest link": quality.max_load,
        "bisection": quality.ebb,
        "permutations": quality.permutation.bandwidth,
        "shifts": quality.shift.bandwidth,
        "mean shift": quality.shift.max_load_mean,
        "worst shift": quality.shift.max_load_worst,
    }


def results(game: dict[str, Any]) -> list[Result]:
    """Compare ours with the best complete engine of each kind, figure by figure."""
    found = []
    for beside in BESIDE:
        of_us, rivals = sides(game, beside)
        for figure, sign in FIGURES.items() if rivals else ():
            best = max(rivals, key=lambda row: sign * row[figure])
            found.append(Result(game["fabric"], figure, beside, of_us[figure], best[figure], best["engine"]))
    return found


def is_beaten(game: dict[str, Any], beside: Beside) -> bool:
    """Whether one engine is ahead of ours in some figure and behind in none."""
    of_us, rivals = sides(game, beside)
    for row in rivals:
        leads = [lead(figure, of_us[figure], row[figure]) for figure in FIGURES]
        if min(leads) < -EQUAL and max(leads) <= EQUAL:
            return True
    return False


def sides(game: dict[str, Any], beside: Beside) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return ours and the complete engines that it is compared with."""
    rivals = [row for row in game["engines"][1:] if row.get("missing") == 0 and (row["loops"] == 0) == beside.safe]
    if not rivals:
        return {}, []
    return game["wide"] if beside.wide else game["engines"][0], rivals


def report(games: Sequence[dict[str, Any]], worst: int = 10) -> Iterable[str]:
    """Yield the lines of a page: counts, the worst cases, and what did not work."""
    found = [result for game in games for result in results(game)]
    for beside in BESIDE:
        yield f"\n{beside.title}:\n"
        yield "| | fabrics | best | equal | behind | behind by more than 2% |"
        yield "|---|--:|--:|--:|--:|--:|"
        for figure in FIGURES:
            leads = [result.lead for result in found if (result.beside, result.figure) == (beside, figure)]
            counts = [sum(lead > EQUAL for lead in leads), sum(abs(lead) <= EQUAL for lead in leads)]
            counts += [sum(lead < -EQUAL for lead in leads), sum(lead < -0.02 for lead in leads)]
            yield f"| {figure} | {len(leads)} | {' | '.join(map(str, counts))} |"
        beaten = sum(is_beaten(game, beside) for game in games)
        yield f"\nFabrics on which one such engine is ahead in some figure and behind in none: {beaten}."
    for wide, lanes in ((False, "one lane"), (True, f"up to {DATA_LANES} lanes")):
        yield f"\nThe {worst} worst cases of each figure with ours on {lanes}:\n"
        yield "| fabric | figure | ours | best | by | |"
        yield "|---|---|--:|--:|---|--:|"
        for figure in FIGURES:
            behind = [result for result in found if (result.figure, result.beside.wide) == (figure, wide)]
            behind = sorted((result for result in behind if result.lead < -EQUAL), key=lambda result: result.lead)
            for result in behind[:worst]:
                figures = f"{result.ours:,.6g} | {result.best:,.6g} | {result.by}{result.beside.mark}"
                yield f"| {result.fabric} | {figure} | {figures} | {result.lead:.1%} |"
    lanes = Counter(game["wide"]["lanes"] for game in games if "wide" in game)
    each = (f"{number} on {times} fabrics" for number, times in sorted(lanes.items()))
    yield f"\nLanes that ours take of up to {DATA_LANES}: {', '.join(each)}."
    for game in games:
        rows = [*game["engines"][:1], *([game["wide"]] if "wide" in game else [])]
        if "failure" in game:
            yield f"\n{game['fabric']} is not routed: {game['failure']}"
        for row in rows:
            if row["missing"] or row["loops"]:
                yield f"\n{game['fabric']}: {row['missing']:,} pairs missing, {row['loops']:,} channels in loops"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--count", type=int, default=300, help="seeds")
    parser.add_argument("--workers", type=int, default=2, help="fabrics at one time")
    parser.add_argument("--save", type=Path, help="file for what is found, a line a fabric")
    parser.add_argument(
        "--again", action="store_true", help="route the saved fabrics anew by us, and by OpenSM no more"
    )
    wish = parser.parse_args()
    games = (
        [json.loads(line) for line in wish.save.read_text().splitlines()] if wish.save and wish.save.exists() else []
    )
    seeds = set(range(wish.first, wish.first + wish.count)) - {game["seed"] for game in games}
    with ProcessPoolExecutor(wish.workers) as pool:
        if wish.again:
            games = list(pool.map(play_again, games))
            wish.save.write_text("".join(json.dumps(game) + "\n" for game in games))
            seeds = set()
        for done in as_completed([pool.submit(play, seed) for seed in sorted(seeds)]):
            games.append(done.result())
            print(games[-1]["fabric"], file=sys.stderr, flush=True)
            if wish.save:
                with wish.save.open("a") as file:
                    file.write(json.dumps(games[-1]) + "\n")
    print("\n".join(report(sorted(games, key=lambda game: game["seed"]))))


if __name__ == "__main__":
    main()
