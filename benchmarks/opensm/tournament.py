"""Random fabrics, routed by us and by every engine of a real OpenSM: in how many are we best, equal, behind?

Run from the repository, with opensm, ibsim-utils and the rest installed (scripts/install-test-tools):

    python benchmarks/opensm/tournament.py --first 60                   seeds 60 to 159: ten minutes on two free cores
    python benchmarks/opensm/tournament.py --save found.jsonl           keep what is found, and play no seed twice
    python benchmarks/opensm/tournament.py --save found.jsonl --again   only ours again, beside what OpenSM made

``helpers.random_fabrics.draw(seed, WIDER)`` draws the fabric of a seed. All tables are judged by the figures that
`plan route` shows.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[2] / "tests")]

import routing
from helpers.random_fabrics import WIDER, draw
from plan.opensm_lab.trials import compare_with_opensm
from routing.candidates import FIGURES, Candidate, Figure
from routing.engines.judge import Judge
from routing.lanes.classes import DATA_LANES
from routing.tables import RoutingTables
from topo.errors import HeddleError
from topo.fabric import Fabric

EQUAL, BEHIND = 0.005, 0.02
"""Part of a figure by which it may differ and still be called equal; and from which a loss is listed."""


class Game(NamedTuple):
    """A fabric, and what the tables of all engines are worth."""

    seed: int
    fabric: str
    ours: Candidate
    wide: Candidate
    """Ours on several lanes; the same where no engine of OpenSM needs several."""
    theirs: tuple[Candidate, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        found = {"ours": asdict(self.ours), "wide": asdict(self.wide), "theirs": [asdict(row) for row in self.theirs]}
        return self._asdict() | found

    @classmethod
    def of(cls, found: dict[str, Any]) -> Game:
        """Return what `to_dict` gave."""
        theirs = tuple(Candidate(**row) for row in found["theirs"])
        return cls(found["seed"], found["fabric"], Candidate(**found["ours"]), Candidate(**found["wide"]), theirs)


class Beside(NamedTuple):
    """Which tables are compared."""

    title: str
    wide: bool
    """Whether ours may take several lanes."""
    loops: bool
    """Whether those of OpenSM have credit loops on one lane."""


BESIDE = (
    Beside("Ours on one lane, beside the best complete engine without credit loops on one lane", False, False),
    Beside("Ours on one lane, beside the best complete engine with credit loops on one lane", False, True),
    Beside(
        f"Ours on up to {DATA_LANES} lanes, beside the best complete engine with credit loops on one lane", True, True
    ),
)


class Result(NamedTuple):
    """One figure of ours beside the best of the engines of OpenSM of one kind."""

    fabric: str
    figure: Figure
    ours: Candidate
    best: Candidate

    @property
    def share(self) -> float:
        """Ours as a share of the best: above 1 where it is better."""
        return self.figure.share(self.ours, self.best)


def play(seed: int, limit_s: float = 120.0) -> Game:
    """Route the fabric of a seed by all."""
    fabric = draw(seed, WIDER)
    try:
        routed = routing.route(fabric, "auto")
    except HeddleError as error:
        refused = Candidate("auto", str(error))
        return Game(seed, fabric.name, refused, refused, ())
    rows = compare_with_opensm(routed, routing.prove(routed), routing.measure(routed), limit_s=limit_s)[1:]
    theirs = tuple(
        judged(fabric, row.tables) if row.tables is not None else Candidate(row.engine, row.failure) for row in rows
    )
    return with_ours(Game(seed, fabric.name, Candidate(""), Candidate(""), theirs), routed)


def again(game: Game) -> Game:
    """Return a game with what we make of its fabric now."""
    return with_ours(game, routing.route(draw(game.seed, WIDER), "auto"))


def with_ours(game: Game, routed: routing.Routed) -> Game:
    """Return a game with what tables of ours are worth, and those on several lanes."""
    ours = judged(routed.fabric, routed.tables)
    several = any(row.credit_loops for row in complete(game.theirs))
    wide = routing.route(routed.fabric, "auto", lanes=DATA_LANES).tables if several else routed.tables
    return game._replace(ours=ours, wide=judged(routed.fabric, wide) if several else ours)


def judged(fabric: Fabric, tables: RoutingTables) -> Candidate:
    """Return what tables are worth."""
    return Judge(fabric, tables.lid).judge(tables)


def complete(rows: Iterable[Candidate]) -> list[Candidate]:
    """Return those that deliver every pair."""
    return [row for row in rows if not row.refusal and not row.missing]


def results(game: Game, beside: Beside) -> list[Result]:
    """Compare ours with the best complete engine of a kind, figure by figure."""
    rivals = [row for row in complete(game.theirs) if bool(row.credit_loops) == beside.loops]
    ours = game.wide if beside.wide else game.ours
    if not rivals or ours.refusal:
        return []
    each = ((figure, max(rivals, key=lambda row: figure.share(row, rivals[0]))) for figure in FIGURES)
    return [Result(game.fabric, figure, ours, best) for figure, best in each]


def report(games: Sequence[Game]) -> Iterator[str]:
    """Yield the lines of a page: counts, all that is behind by more than `BEHIND`, and what did not work."""
    for beside in BESIDE:
        found = [result for game in games for result in results(game, beside)]
        yield f"\n{beside.title}:\n"
        yield "| | fabrics | best | equal | behind | behind by more than 2 % | ours / best, mean | worst |"
        yield "|---|--:|--:|--:|--:|--:|--:|--:|"
        for figure in FIGURES:
            shares = np.array([result.share for result in found if result.figure is figure])
            if not len(shares):
                continue
            best, behind, far = shares > 1 + EQUAL, shares < 1 - EQUAL, shares < 1 - BEHIND
            counts = (len(shares), best.sum(), len(shares) - best.sum() - behind.sum(), behind.sum(), far.sum())
            mean = float(np.exp(np.log(shares).mean()))
            yield f"| {figure.name} | {' | '.join(map(str, counts))} | {mean:.2f} | {shares.min():.2f} |"
        losses = sorted((result for result in found if result.share < 1 - BEHIND), key=lambda result: result.share)
        if losses:
            yield "\n| behind by more than 2 % | figure | ours | best | by | ours / best |"
            yield "|---|---|--:|--:|---|--:|"
        for fabric, figure, ours, best in losses:
            cells = fabric, figure.name, figure.text(ours), figure.text(best), best.engine
            yield f"| {' | '.join(cells)} | {figure.share(ours, best):.2f} |"
    lanes = Counter(game.wide.lanes for game in games if game.wide is not game.ours and not game.wide.refusal)
    each = (f"{number} on {times} fabrics" for number, times in sorted(lanes.items()))
    yield f"\nLanes that ours take of up to {DATA_LANES}: {', '.join(each)}."
    for game in games:
        for row in (game.ours, game.wide):
            if row.refusal or row.missing or row.credit_loops:
                yield f"\n{game.fabric}: {row.refusal or row.faults}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--count", type=int, default=100, help="seeds")
    parser.add_argument("--workers", type=int, default=2, help="fabrics at one time")
    parser.add_argument("--save", type=Path, help="file for what is found, a line a fabric")
    parser.add_argument(
        "--again", action="store_true", help="route the saved fabrics anew by us, and by OpenSM no more"
    )
    wish = parser.parse_args()
    lines = wish.save.read_text().splitlines() if wish.save and wish.save.exists() else []
    games = [Game.of(json.loads(line)) for line in lines]
    seeds = set(range(wish.first, wish.first + wish.count)) - {game.seed for game in games}
    with ProcessPoolExecutor(wish.workers) as pool:
        if wish.again:
            games = list(pool.map(again, games))
            wish.save.write_text("".join(json.dumps(game.to_dict()) + "\n" for game in games))
            seeds = set()
        for done in as_completed([pool.submit(play, seed) for seed in sorted(seeds)]):
            games.append(done.result())
            print(games[-1].fabric, file=sys.stderr, flush=True)
            if wish.save:
                with wish.save.open("a") as file:
                    file.write(json.dumps(games[-1].to_dict()) + "\n")
    print("\n".join(report(sorted(games, key=lambda game: game.seed))))


if __name__ == "__main__":
    main()
