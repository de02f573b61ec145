"""What held the jobs of a simulation back: critical paths by resource, and what more capacity would give."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from simulate.engines.critical_path import critical_segments, time_by_kind
from simulate.engines.fluid.engine import Fluid
from simulate.workload.play import Simulation, Step
from topo.errors import HeddleError, plural
from topo.table import Shown, Table

MORE = 0.01
"""Part by which a capacity grows, to see what that changes."""
WIDE = 1e6
"""Times the capacity of a link that nothing has to share."""
LINKS = 8
"""Links between switches whose sharing is priced, those with most time on critical paths."""


@dataclass(frozen=True, eq=False)
class Bottlenecks(Shown):
    """What held each job back, and what would have helped."""

    path: Table
    """The critical path of each job, by the kind of resource that held it back; the times add up to the job's."""
    capacities: Table
    """What 1 % more of each kind of capacity saves of each job's time and 1 % less costs, in per cent: 1 where nothing
    else matters. Both directions of links change. Where two kinds hold a job back alike, more of one saves nothing."""
    sharing: Table
    """Links between switches on critical paths, and what each job would save if no flow had to share them."""

    def _brief(self) -> str:
        return f"{plural(len(self.path), 'part')} of critical paths, {plural(len(self.sharing), 'shared link')}"

    def _shown(self) -> tuple[Table, ...]:
        return (self.path, self.capacities, self.sharing)


def find_bottlenecks(simulation: Simulation, *, step: Step = lambda message, part: None) -> Bottlenecks:
    """Say what held the jobs of a simulation back, and play it again with more of each capacity.

    Raises
    ------
    HeddleError
        When the workload has storage jobs, whose flows depend on how it is played, or one round was played for all.

    Examples
    --------
    >>> import topo, routing, simulate
    >>> routed = routing.route(topo.preset("lab-20").fabric)
    >>> found = simulate.find_bottlenecks(simulate.play(routed, simulate.preset("allreduce", routed.fabric)))
    >>> for row in found.capacities.texts():
    ...     print(*row, sep=", ")
    allreduce, compute and leaf, 0.00, 1.00
    allreduce, leaf and spine, 0.00, 1.00
    allreduce, all links, 0.98, 1.00
    """
    if simulation.workload.acts:
        raise HeddleError(
            "cannot tell what held jobs back beside storage jobs, whose reads and writes depend on the run"
        )
    outcome, network = simulation.outcome, simulation.outcome.network
    if outcome.rounds is not None:
        raise HeddleError(f"cannot tell what held {plural(outcome.n_flows, 'flow')} back; take fewer ranks")
    spans = [simulation.workload.span(number) for number in range(len(simulation.jobs))]
    paths = [critical_segments(outcome, span) for span in spans]
    rows: list[tuple[str, str, float, float]] = []
    on_path: dict[int, float] = {}
    for job, segments in zip(simulation.jobs, paths, strict=True):
        for segment in segments:
            if segment.resource >= 0:
                on_path[segment.resource] = on_path.get(segment.resource, 0.0) + segment.end_s - segment.begin_s
        rows += [(job.name, what, time_s, 100 * time_s / job.time_s) for what, time_s in time_by_kind(segments).items()]

    used = np.flatnonzero(outcome.resource_bytes)
    kinds: dict[str, list[int]] = {}
    for resource in used.tolist():
        kind = network.resource_kind(resource)
        if resource < network.fabric.n_ports:
            kind = " and ".join(sorted(kind.split(" to ")))
        kinds.setdefault(kind, []).append(resource)
    fabric = network.fabric
    inner = [resource for resource in on_path if resource < fabric.n_ports and fabric.is_inner[resource]]
    inner = sorted(inner, key=lambda resource: (-on_path[resource], resource))[:LINKS]
    links = used[used < fabric.n_ports].tolist()
    kinds |= {"all links": links} if len(links) and len(kinds) > 1 else {}
    tries = [(np.array(resources), factor) for resources in kinds.values() for factor in (1 + MORE, 1 - MORE)]
    tries += [(np.array([resource]), WIDE) for resource in inner]
    saved = []
    for number, (resources, factor) in enumerate(tries):
        step(f"playing again: {number + 1} of {len(tries)}", number / len(tries))
        capacity = network.capacity_bytes_s.copy()
        capacity[resources] *= factor
        finish_s = Fluid(replace(network, capacity_bytes_s=capacity)).play(outcome.flows).finish_s
        ends = [finish_s[span].max(initial=job.start_s) for span, job in zip(spans, simulation.jobs, strict=True)]
        saved.append([job.finish_s - end for job, end in zip(simulation.jobs, ends, strict=True)])
    by_kind = [
        (job.name, kind, 100 * more[at] / job.time_s, 0.0 - 100 * less[at] / job.time_s)
        for at, job in enumerate(simulation.jobs)
        for kind, more, less in zip(kinds, saved[::2], saved[1::2], strict=False)
        if job.time_s > 0
    ]
    by_link = [
        (network.resource_label(resource), on_path[resource], job.name, part[at], 100 * part[at] / job.time_s)
        for resource, part in zip(inner, saved[2 * len(kinds) :], strict=True)
        for at, job in enumerate(simulation.jobs)
        if job.time_s > 0
    ]
    names = ("job", "what", "time", "share")
    path = Table.of_rows("critical paths", names, rows, ("", "", "time", ".2f"), ("", "", "s", "%"))
    title, names = "what capacity saves and costs", ("job", "capacity", "1 % more saves", "1 % less costs")
    capacities = Table.of_rows(title, names, by_kind, ("", "", ".2f", ".2f"), ("", "", "%", "%"))
    title = "links between switches on critical paths"
    heads = ("link", "on paths", "job", "saved if not shared", "part")
    sharing = Table.of_rows(title, heads, by_link, ("", "time", "", "time", ".2f"), ("", "s", "", "s", "%"))
    return Bottlenecks(path, capacities, sharing)
