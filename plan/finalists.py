"""The best designs of a search, routed: what their tables give to the worst halves and to random halves of jobs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from math import inf
from multiprocessing import get_context
from typing import Any

import numpy as np
from numpy.typing import NDArray

import costmodel
import routing
import simulate
import topo
from costmodel import Bisection, Needs, jobs_at_once
from topo import Check, Cluster, Fabric, HeddleError, RoutingError, Table, Verdict, percent

WORKERS = 2
"""Processes side by side."""
BYTES_PER_GBPS = 1 << 20
"""What each adapter sends, for each Gb/s of its rate: all pairs would end at the same time on links of their own."""
ROUNDING = 1e-6
"""Relative error of times of the fluid engine, within which a law of plays is held."""
OTHERS = ("balanced", "minhop", "dfsssp")
"""Engines whose tables are played where those of a finalist give less than its certificate."""
Ends = NDArray[np.integer[Any]]


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
    """Mean share of its rate at which a random half of all hosts sends to the other."""
    jobs: float
    """Share of its rate at which the last pair of random halves of the jobs ends in the fluid engine."""
    worst_job: str
    """The job of that pair."""
    worst_halves: float | None
    """The same for the halves that the worst cut divides; None where no cut takes anything from a job."""
    why: str = ""
    """Why that is less than certified, and what other tables give; empty where it is not less."""


def judge_finalists(designs: Sequence[costmodel.Design], needs: Needs) -> list[Finalist]:
    """Route designs by `auto`, prove and measure their tables, and play the jobs, in processes side by side."""
    asked = [(design.name, _spec(design, needs), needs, design.job_bisection) for design in designs]
    if len(asked) < 2:
        return [_judge(*each) for each in asked]
    with ProcessPoolExecutor(min(WORKERS, len(asked)), mp_context=get_context("spawn")) as pool:
        return list(pool.map(_judge, *zip(*asked, strict=True)))


def finalists_table(found: Sequence[Finalist]) -> Table:
    """Show them beside one another."""
    return Table.of(
        "what the tables of finalists give",
        found,
        ("name", "design"),
        "engine",
        (lambda each: "holds" if each.proven else "FAILS", "proof"),
        (lambda each: f"{each.fullest_link:.2f} x mean", "fullest link"),
        (lambda each: percent(each.effective_bisection), "effective bisection"),
        (lambda each: "none" if each.worst_halves is None else percent(each.worst_halves), "worst halves"),
        (lambda each: percent(each.jobs), "jobs"),
        ("worst_job", "worst job"),
    )


def judge_tables(needs: Needs, cluster: Cluster) -> list[Check]:
    """Route a design, and compare its proof and its effective bisection with `Needs.tables`; no checks without it."""
    if needs.tables is None:
        return []
    checks = []
    for fabric in cluster.subnets:
        tables, proof, quality = _routed(fabric)
        given, asked = percent(quality.ebb, beside=needs.tables), percent(needs.tables, beside=quality.ebb)
        text = f"the tables of `{tables.tables.engine}` give {given} to random halves, {asked} is needed"
        checks.append(Check("proof", Verdict.HOLDS if proof.holds else Verdict.EXCEEDED, f"{fabric.name}: {proof}"))
        checks.append(Check("tables", Verdict.HOLDS if quality.ebb >= needs.tables else Verdict.EXCEEDED, text))
    return checks


def _routed(fabric: Fabric) -> tuple[routing.Routed, routing.Proof, routing.quality.Quality]:
    tables = routing.route(fabric, "auto")
    proof = routing.prove(tables)
    return tables, proof, routing.measure(tables, proof=proof)


def _spec(design: costmodel.Design, needs: Needs) -> dict[str, Any]:
    catalog = {"catalog": needs.catalog} if needs.catalog else {}
    return {**design.spec.model_dump(mode="json", exclude_unset=True), **catalog}


def _judge(name: str, spec: dict[str, Any], needs: Needs, certified: Bisection) -> Finalist:
    """Judge one design; in a process of its own where there are several."""
    figures = []
    halves, why = None, ""
    for fabric in topo.parse(spec).subnets:
        tables, proof, quality = _routed(fabric)
        groups = _jobs(fabric, needs)
        played = min((_play_random(tables, jobs) for jobs in groups), default=(1.0, ""))
        figures.append((tables.tables.engine, proof.holds, quality.balance, quality.ebb, played))
        if certified.cut is not None and certified.cut.subnet == fabric.name:
            divided = [sum(certified.cut.halves(fabric, ends)[2] for ends in group.values()) for group in groups]
            jobs = list(groups[divided.index(max(divided))].values())
            halves, why = play_worst_halves(tables, jobs, certified)
    if not figures:
        raise HeddleError(f"{name} has no subnet that a subnet manager runs, and so no tables")
    engines, proven, balance, ebb, played_shares = zip(*figures, strict=True)
    engine = ", ".join(dict.fromkeys(engines))
    share, worst = min(played_shares)
    return Finalist(name, engine, all(proven), max(balance), min(ebb), share, worst, halves, why)


def _jobs(fabric: Fabric, needs: Needs) -> list[dict[str, Ends]]:
    """Return the end ports of the jobs by name, those together that have the network at the same time."""
    ends, storage = fabric.ends(role="compute"), fabric.ends(role="storage")
    hosts, rank = np.unique([fabric.server_of(node) for node in fabric.end_node[ends].tolist()], return_inverse=True)
    groups = []
    for windows in jobs_at_once(len(hosts), needs.job.sizes, alone=needs.job.alone):
        jobs = {f"{hosts[a]} to {hosts[b - 1]}": ends[(rank >= a) & (rank < b)] for a, b in windows.tolist()}
        if needs.job.with_storage and len(storage):
            jobs["the storage"] = storage
        groups.append(jobs)
    return groups


def _play_random(tables: routing.Routed, jobs: dict[str, Ends]) -> tuple[float, str]:
    """Play random halves of jobs at once. Return the share of the pair that gets least, and its job."""
    pairs = [*_random_halves(tables.fabric, jobs)]
    src, dst, names = (np.concatenate(side) for side in zip(*pairs, strict=True))
    if not len(src):
        return 1.0, ""
    share, _ = _play(tables, src, dst)
    return float(share.min()), str(names[share.argmin()])


def _random_halves(fabric: Fabric, jobs: dict[str, Ends]) -> Iterator[tuple[Ends, Ends, NDArray[np.str_]]]:
    """Yield senders, receivers and the name of the job: halves of the servers at random, each server with a partner.

    The first adapter of a server sends to the first of its partner, the second to the second, as jobs do on rails.
    """
    draw = np.random.default_rng(0)
    for name, ends in jobs.items():
        servers, server = np.unique(fabric.host[fabric.end_node[ends]], return_inverse=True)
        order = draw.permutation(len(servers))
        adapters = [ends[server == number] for number in order.tolist()]
        half = len(adapters) // 2
        partners = list(zip(adapters[:half], adapters[half : 2 * half], strict=True))
        one = np.concatenate([ends[:0], *(mine[: len(theirs)] for mine, theirs in partners)])
        other = np.concatenate([ends[:0], *(theirs[: len(mine)] for mine, theirs in partners)])
        names = np.full(len(one), name)
        yield one, other, names
        yield other, one, names


def play_worst_halves(tables: routing.Routed, jobs: Sequence[Ends], certified: Bisection) -> tuple[float, str]:
    """Play the halves of jobs that the worst cut divides. Return the share of the pair that gets least, and why.

    What crosses the cut takes at least bytes / Gb/s of the cut, so the last pair gets at most Gb/s of the cut / rate of
    all pairs that it parts, which is the certified share where all adapters have one rate. RuntimeError when a play
    breaks this law: an error of Heddle.
    """
    cut, fabric = certified.cut, tables.fabric
    assert cut is not None
    halves = [cut.halves(fabric, ends) for ends in jobs]
    one, other = (np.concatenate([half[side] for half in halves]) for side in (0, 1))
    apart = np.concatenate([np.arange(len(half[0])) < half[2] for half in halves])
    rate = _rates(fabric, one, other)
    parted = float(rate[apart].sum())
    most = cut.leaves_gbps / parted if parted else inf
    share, loads = _both_ways(tables, one, other)
    if share > most * (1 + ROUNDING):
        raise RuntimeError(f"played {share:.6f} of the rate over a cut that carries {most:.6f}: {cut}")
    if share >= certified.least * (1 - ROUNDING) or share >= most * (1 - ROUNDING):
        return share, ""
    channels = cut.channels(fabric)
    fullest = int(channels[np.argmax(loads[channels] / fabric.rate_gbps[channels])])
    mean = parted / cut.leaves_gbps
    load = float(loads[fullest]) / BYTES_PER_GBPS / float(fabric.rate_gbps[fullest])
    given = {tables.tables.engine: share}
    for engine in OTHERS:
        try:
            others = routing.route(fabric, engine)
        except RoutingError:
            continue
        if others.tables.engine not in given and routing.prove(others).holds:
            given[others.tables.engine] = _both_ways(others, one, other)[0]
    listed = ", ".join(f"`{engine}` {percent(each)}" for engine, each in given.items())
    return share, (
        f"the worst halves get {percent(share)} where the cut allows {certified}, because paths collide: "
        f"{fabric.channel_label(fullest)} would have to carry {load:.1f} times its rate, and {mean:.1f} times if all "
        f"links of the cut had the same; by tables: {listed}"
    )


def _both_ways(tables: routing.Routed, one: Ends, other: Ends) -> tuple[float, NDArray[np.float64]]:
    """Play pairs in both directions. Return the share of the one that gets least, and the bytes over each channel."""
    share, loads = _play(tables, np.concatenate([one, other]), np.concatenate([other, one]))
    return float(share.min()), loads


def _play(tables: routing.Routed, src: Ends, dst: Ends) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Play pairs at once. Return the share of its rate that each gets, and the bytes over each channel."""
    rate = _rates(tables.fabric, src, dst)
    outcome = simulate.play(
        simulate.Network.of(tables, latency_s=0), simulate.Flows.of(src, dst, np.rint(BYTES_PER_GBPS * rate))
    )
    sent = outcome.flows.size_bytes * 8e-9 / outcome.finish_s / rate
    return np.minimum(sent, 1.0), outcome.lane_bytes.sum(axis=0)


def _rates(fabric: Fabric, src: Ends, dst: Ends) -> NDArray[np.float64]:
    """Gb/s of pairs: of the slower end."""
    return np.minimum(*(fabric.rate_gbps[fabric.port_of(side)] for side in (src, dst)))
