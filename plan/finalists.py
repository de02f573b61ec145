"""Designs that won a search, routed as they would be loaded: fullest link, effective bisection, and jobs played."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

from topo import Column, HeddleError, Table

if TYPE_CHECKING:
    from costmodel import Design, Needs

WORKERS = 2
"""Processes side by side."""
BYTES = 64 << 20
"""That each adapter sends to its partner in the other half of its job."""


@dataclass(frozen=True)
class Finalist:
    """What the tables of a design give, in the worst of its subnets."""

    name: str
    engine: str
    """That `auto` took."""
    proven: bool
    fullest_link: float
    """Pairs of hosts over the fullest link, by those over the mean one in use."""
    effective_bisection: float
    """Mean share of its rate at which a random half sends to the other."""
    jobs: float
    """Share of its rate at which the last pair of the halves of all jobs, at once, ends in the fluid engine."""


def judge_finalists(designs: Sequence[Design], needs: Needs) -> list[Finalist]:
    """Route designs by `auto`, prove and measure their tables, and play the jobs, in processes side by side.

    Raises
    ------
    HeddleError
        When a design cannot be routed.
    """
    sizes = needs.job.sizes
    asked = [(design.name, _spec(design, needs), sizes) for design in designs]
    if len(asked) < 2:
        return [_judge(*each) for each in asked]
    with ProcessPoolExecutor(min(WORKERS, len(asked)), mp_context=get_context("spawn")) as pool:
        return list(pool.map(_judge, *zip(*asked, strict=True)))


def finalists_table(found: Sequence[Finalist]) -> Table:
    """Show them beside one another."""
    names = ("design", "engine", "proof", "fullest link", "effective bisection", "halves of jobs")
    rows = [
        (each.name, each.engine, "holds" if each.proven else "FAILS",
         f"{each.fullest_link:.2f} x mean", f"{each.effective_bisection:.1%}", f"{each.jobs:.1%}")
        for each in found
    ]  # fmt: skip
    columns = (Column(name, values) for name, values in zip(names, zip(*rows, strict=True), strict=True))
    return Table("what the tables of finalists give", tuple(columns))


def finalists_dict(found: Sequence[Finalist]) -> list[dict[str, Any]]:
    """Return them as plain values."""
    return [asdict(each) for each in found]


def _spec(design: Design, needs: Needs) -> dict[str, Any]:
    catalog = {"catalog": needs.catalog} if needs.catalog else {}
    return {**design.spec.model_dump(mode="json", exclude_unset=True), **catalog}


def _judge(name: str, spec: dict[str, Any], sizes: dict[int, float]) -> Finalist:
    """Judge one design; in a process of its own where there are several."""
    import numpy as np

    import routing
    import simulate
    import topo
    from costmodel import job_windows

    figures = []
    for fabric in topo.parse(spec).subnets:
        tables = routing.route(fabric, "auto")
        proof = routing.prove(tables)
        quality = routing.measure(tables, proof=proof)
        ends = fabric.ends(role="compute")
        names = np.array([fabric.hosts[host] for host in fabric.host[fabric.port_node[ends]]])
        _, rank = np.unique(names, return_inverse=True)
        windows = job_windows(int(rank.max()) + 1, sizes)
        flows = [*_halves(ends, rank, windows, np.random.default_rng(0))]
        share = 1.0
        if flows:
            src, dst = (np.concatenate(side) for side in zip(*flows, strict=True))
            outcome = simulate.play(tables, simulate.Flows.of(src, dst, float(BYTES)))
            slowest = fabric.rate_gbps[ends].min() * 1e9 / 8
            share = min(BYTES / slowest / outcome.makespan_s, 1.0)
        engine = tables.tables.engine
        figures.append((engine, proof.holds, quality.balance, quality.ebb, share))
    if not figures:
        raise HeddleError(f"{name} has no subnet that a subnet manager runs, and so no tables")
    engines, proven, balance, ebb, jobs = zip(*figures, strict=True)
    return Finalist(name, ", ".join(dict.fromkeys(engines)), all(proven), max(balance), min(ebb), min(jobs))


def _halves(ends: Any, rank: Any, windows: Any, draw: Any) -> Iterator[tuple[Any, Any]]:
    """Yield senders and receivers: the halves of each job at random, each adapter with a partner, both ways."""
    for first, last in windows.tolist():
        mine = draw.permutation(ends[(rank >= first) & (rank < last)])
        half = len(mine) // 2
        yield mine[:half], mine[half : 2 * half]
        yield mine[half : 2 * half], mine[:half]
