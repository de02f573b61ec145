"""Designs that won a search, routed as they would be loaded: fullest link, effective bisection, and jobs played."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

from topo import Column, HeddleError, Table

if TYPE_CHECKING:
    from costmodel import Design, Needs
    from topo import Fabric

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
    worst_job: str
    """The job of that pair."""


def judge_finalists(designs: Sequence[Design], needs: Needs) -> list[Finalist]:
    """Route designs by `auto`, prove and measure their tables, and play the jobs, in processes side by side.

    Raises
    ------
    HeddleError
        When a design cannot be routed.
    """
    asked = [(design.name, _spec(design, needs), needs.job.sizes, needs.job.with_storage) for design in designs]
    if len(asked) < 2:
        return [_judge(*each) for each in asked]
    with ProcessPoolExecutor(min(WORKERS, len(asked)), mp_context=get_context("spawn")) as pool:
        return list(pool.map(_judge, *zip(*asked, strict=True)))


def finalists_table(found: Sequence[Finalist]) -> Table:
    """Show them beside one another."""
    names = ("design", "engine", "proof", "fullest link", "effective bisection", "jobs", "worst job")
    rows = [
        (each.name, each.engine, "holds" if each.proven else "FAILS",
         f"{each.fullest_link:.2f} x mean", f"{each.effective_bisection:.1%}", f"{each.jobs:.1%}", each.worst_job)
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


def _judge(name: str, spec: dict[str, Any], sizes: dict[int, float], with_storage: bool) -> Finalist:
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
        ends, storage = fabric.ends(role="compute"), fabric.ends(role="storage")
        hosts, rank = np.unique(_servers(fabric, ends), return_inverse=True)
        jobs = {
            f"{hosts[a]} to {hosts[b - 1]}": ends[(rank >= a) & (rank < b)] for a, b in job_windows(len(hosts), sizes)
        }
        if with_storage and len(storage):
            jobs["the storage"] = storage
        flows = [*_halves(jobs.values(), np.random.default_rng(0))]
        share, worst = 1.0, ""
        if flows:
            src, dst = (np.concatenate(side) for side in zip(*flows, strict=True))
            outcome = simulate.play(tables, simulate.Flows.of(src, dst, float(BYTES)))
            rates = (fabric.rate_gbps[fabric.port_of(side)] for side in (src, dst))
            sent = BYTES * 8e-9 / outcome.finish_s / np.minimum(*rates)
            share = min(float(sent.min()), 1.0)
            server = _servers(fabric, src[[sent.argmin()]])[0]
            worst = next(job for job, mine in jobs.items() if server in _servers(fabric, mine))
        engine = tables.tables.engine
        figures.append((engine, proof.holds, quality.balance, quality.ebb, (share, worst)))
    if not figures:
        raise HeddleError(f"{name} has no subnet that a subnet manager runs, and so no tables")
    engines, proven, balance, ebb, played = zip(*figures, strict=True)
    return Finalist(name, ", ".join(dict.fromkeys(engines)), all(proven), max(balance), min(ebb), *min(played))


def _servers(fabric: Fabric, ends: Any) -> list[str]:
    return [fabric.hosts[host] for host in fabric.host[fabric.end_node[ends]].tolist()]


def _halves(jobs: Iterable[Any], draw: Any) -> Iterator[tuple[Any, Any]]:
    """Yield senders and receivers: the halves of each job at random, each adapter with a partner, both ways."""
    for ends in jobs:
        mine = draw.permutation(ends)
        half = len(mine) // 2
        yield mine[:half], mine[half : 2 * half]
        yield mine[half : 2 * half], mine[:half]
