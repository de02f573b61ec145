"""The engine `auto`: each engine makes its tables, all are judged alike, and the best safe ones are returned.

Safe are tables that deliver every pair that any of them delivers, without a credit loop on the lanes that they may
take. Plain shortest paths often are not; they are judged all the same, as a yardstick: where they do better than what
is handed out, the reason says so, and on how many lanes they would be safe.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np

from routing.candidates import FIGURES, Candidate
from routing.engines.judge import Judge
from routing.lanes.classes import DATA_LANES
from routing.lanes.fit import break_loops
from routing.proof import prove
from routing.routed import Routed
from routing.tables import RoutingTables
from topo.errors import RoutingError
from topo.fabric import Fabric, frozen

ENTRANTS = ("balanced", "fat-tree", "minhop", "dfsssp")
"""Engines that are tried, in order of preference on a tie; the first takes any fabric."""

PLAIN = ("minhop", "dfsssp")
"""Baselines, which promise no safety. Their paths to switches are taken from the first engine, and proven as well."""

EQUAL, PREFERRED = 0.005, 0.01
"""Relative difference from which a figure is named; and of the score, from which another engine is taken in place of a
preferred one. Smaller differences are a matter of labels."""

HINT, WORTH, OFFER_STEPS = 0.02, 0.05, 200_000_000
"""Try several lanes where the score of a looping baseline is 2 % better; offer them from 5 %; give up after 2e8 steps
(2 s)."""


def choose(
    fabric: Fabric,
    tables_of: Callable[[str, int], RoutingTables],
    lanes: int | None = None,
    outside: Sequence[str] = (),
) -> tuple[RoutingTables, str, tuple[Candidate, ...]]:
    """Let every engine route a fabric; return the tables of the best, the reason, and the figures of each.

    Parameters
    ----------
    fabric : Fabric
    tables_of : callable
        Makes the tables of an engine by its name, and by the data lanes that there are.
    lanes : int, optional
        Most data lanes that tables may need; when left out they get one, and the reason says what more would gain.
    outside : sequence of str
        Names of engines that are not Heddle's, tried after those that are.

    Raises
    ------
    RoutingError
        When the engine that takes any fabric has a reason not to take this one.
    """
    with ThreadPoolExecutor(2) as pool:
        entrants = (*ENTRANTS, *(("shortest",) if (lanes or 1) > 1 else ()), *outside)
        made = list(pool.map(lambda name: _try(name, lambda: tables_of(name, lanes or 1)), entrants))
        first = next((tables for tables, _ in made if tables is not None), None)
        if first is None:
            raise RoutingError(made[0][1].refusal)
        judge = Judge(fabric, first.lid)
        tried: list[tuple[RoutingTables | None, Candidate]] = []
        for tables, row in made:
            tried.append((tables, _judged(judge, tables, row, tried)))
        tried = list(pool.map(lambda pair: _with_safe_switches(fabric, pair[0], pair[1], tried[0][0]), tried))
    judged = [(tables, row) for tables, row in tried if tables is not None]
    least = min(row.missing for _, row in judged)
    safe = [pair for pair in judged if pair[1].missing == least and not pair[1].credit_loops] or judged[:1]
    least_score = min(row.score for _, row in safe)
    tables, best = next(pair for pair in safe if pair[1].score <= least_score + PREFERRED)
    rows = [row for _, row in tried]
    why = _reason(best, [row for _, row in safe], [row for _, row in judged if row.missing == least])
    plain = [row for _, row in judged if row.credit_loops and row.missing == least]
    if lanes is None and (offer := _offer(judge, lambda: tables_of("shortest", 1), best, plain)):
        rows.append(offer)
        differ = [figure for figure in FIGURES if not 1 - EQUAL <= figure.share(offer, best) <= 1 / (1 - EQUAL)]
        words = ", ".join(f"{figure.name} {figure.text(offer)} instead of {figure.text(best)}" for figure in differ)
        why += f"; with --lanes {offer.lanes}, if every application asks OpenSM for its paths: {words}"
    return tables, why, tuple(rows)


def _offer(
    judge: Judge, tables_of: Callable[[], RoutingTables], best: Candidate, plain: Sequence[Candidate]
) -> Candidate | None:
    """Return the figures of shortest paths on the lanes that they need; None where these are not worth an offer.

    Where plain ones are nowhere better, whatever their loops, nothing is tried.
    """
    if not any(row.score < best.score - HINT for row in plain):
        return None
    tables = tables_of()
    row = judge.judge(tables)
    if row.missing or row.score > best.score - WORTH:
        return None
    try:
        needed = max(break_loops(judge.fabric, tables, DATA_LANES, OFFER_STEPS).sl2vl) + 1
    except RoutingError:  # more lanes than switches have, or a longer search than an offer is worth
        return None
    return replace(row, credit_loops=0, lanes=needed)


def _try(name: str, tables_of: Callable[[], RoutingTables]) -> tuple[RoutingTables | None, Candidate]:
    try:
        return tables_of(), Candidate(name)
    except RoutingError as error:
        return None, Candidate(name, refusal=str(error))


def _judged(
    judge: Judge, tables: RoutingTables | None, row: Candidate, before: Sequence[tuple[RoutingTables | None, Candidate]]
) -> Candidate:
    """Return the figures of tables; those that equal the first ones are not judged again."""
    if tables is None:
        return row
    first, known = before[0] if before else (None, row)
    same = (
        first is not None
        and (tables.path_sl is None is first.path_sl and tables.sl2vl == first.sl2vl)
        and np.array_equal(tables.lft, first.lft)
    )
    if not same or row.engine in PLAIN:  # of which less is asked
        known = judge.judge(tables, switches=row.engine not in PLAIN)
    return replace(known, engine=row.engine)


def _with_safe_switches(
    fabric: Fabric, tables: RoutingTables | None, row: Candidate, safe: RoutingTables | None
) -> tuple[RoutingTables | None, Candidate]:
    """Return baseline tables that are safe between hosts with safe paths to switches, proven for all end ports."""
    if row.engine not in PLAIN or tables is None or row.missing or row.credit_loops:
        return tables, row
    if safe is not None and tables.path_sl is None:
        lft, switches = tables.lft.copy(), tables.lid[: fabric.n_switches]
        lft[:, switches] = safe.lft[:, switches]
        tables = replace(tables, lft=frozen(lft))
    proof = prove(Routed(fabric, tables), "all")
    missing, loops = proof.lost, proof.credit_loops
    return tables, replace(row, missing=missing, credit_loops=loops, between_adapters=False)


def _reason(best: Candidate, safe: Sequence[Candidate], complete: Sequence[Candidate]) -> str:
    """Say where the best is better than all others that are safe, and where any complete one is better."""
    others = [row for row in safe if row is not best]
    words = "alone delivers every pair without credit loops"
    if others:
        ahead = [figure.name for figure in FIGURES if all(figure.share(row, best) < 1 - EQUAL for row in others)]
        names = ", ".join(f"`{row.engine}`" for row in others)
        words = f"better than {names} in {', '.join(ahead)}" if ahead else f"as good as {names}, or better overall"
    behind: dict[str, list[str]] = {}
    unsafe = {}
    for figure in FIGURES:
        leader = min(complete, key=lambda row: figure.share(best, row))
        if figure.share(best, leader) < 1 - EQUAL:
            figures = f"{figure.name} ({figure.text(best)} to {figure.text(leader)})"
            behind.setdefault(leader.engine, []).append(figures)
            if leader.credit_loops:
                unsafe[leader.engine] = "" if leader.between_adapters else " only with paths to switches"
    words += "".join(f"; behind `{name}` in {', '.join(figures)}" for name, figures in behind.items())
    if unsafe:
        words += "; credit loops in " + ", ".join(f"`{name}`{where}" for name, where in sorted(unsafe.items()))
    return words
