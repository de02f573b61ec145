"""Jobs by static tables and by groups of ports, on the whole fabric and after failures: what adaptive routing changes.

Fluid flows over groups are split evenly, as per-packet choice tends to where the ports of a group are equally busy.
What stands beside that says how far off it can be: one port for all packets of a flow, drawn by a hash (HBF), is what a
switch does that looks at no queue; and no choice of ports ends a job before its bytes have crossed its fullest links,
however well they are divided.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from routing.hashed import DRAWS, SPRAY, Hashed, percentiles
from routing.lanes.classes import LanePlan
from routing.repairs.repair import repair
from routing.routed import Routed
from routing.studies.adaptive.nvidia_sm import manager_groups
from routing.studies.adaptive.shares import Spread
from routing.tables import RoutingTables
from simulate.traffic.network import GBPS, Network
from simulate.workload.draws import play_draws
from simulate.workload.place import Workload
from simulate.workload.play import JobResult, Step, play
from topo.errors import HeddleError, plural
from topo.fabric import Fabric
from topo.table import Record, Shown, Table

ALL = "all jobs"
"""What stands for all of them, from the first begin to the last end."""


@dataclass(frozen=True)
class JobTime(Record):
    """How long a job takes on paths of one kind."""

    job: str
    """Its name, or `ALL`."""
    paths: str
    time_s: float | None
    """None where flows are lost, and for what is not computed."""
    lost: int = 0
    """Flows that lose packets for good, or may."""


@dataclass(frozen=True)
class BesideAdaptive(Shown):
    """Jobs on static tables and on groups of ports."""

    groups: str
    """Which groups, as `routing.studies.adaptive.manager_groups` calls them."""
    rows: tuple[JobTime, ...]
    apart: int = 0
    """Flows between ends that no cable connects after the failure, whatever the routing."""

    @property
    def table(self) -> Table:
        """The times, job by job."""
        title = f"static tables beside adaptive routing (groups of {self.groups})"
        if self.apart:
            title += (f"; {self.apart:,} flows are of servers that the failure cuts off, whatever the routing: leave "
                      "these out (`nodes`)")  # fmt: skip
        jobs = list(dict.fromkeys(row.job for row in self.rows))
        rows = sorted(self.rows, key=lambda row: jobs.index(row.job))
        return Table.of(title, rows, "job", "paths", ("time_s", "time", "s", "time"), ("lost", "lost flows"))


def play_beside_adaptive(
    on: Network | Routed,
    workload: Workload,
    *,
    down: NDArray[np.integer] | None = None,
    draws: int = DRAWS,
    seed: int = 0,
    step: Step = lambda message, part: None,
) -> BesideAdaptive:
    """Play a workload in fluid flows on static tables and on the groups that a manager of adaptive routing makes.

    Parameters
    ----------
    down : (k,) int, optional
        Ports whose cables are down. Then follow the static tables before and after their repair, and groups that have
        lost these ports and of which nothing is loaded anew: where no switch tells its neighbours, and where each
        avoids those that can no longer reach a destination.
    draws, seed
        Of the hash, where all packets of a flow take one port.

    Raises
    ------
    HeddleError
        When there are no groups, the tables cannot be repaired, or as `simulate.play`.

    Examples
    --------
    >>> import topo, routing, simulate
    >>> routed = routing.route(topo.preset("lab-20").fabric)
    >>> beside = simulate.workload.play_beside_adaptive(routed, simulate.preset("allreduce", routed.fabric))
    >>> [(row.paths, f"{row.time_s * 1e3:.1f} ms") for row in beside.rows][:2]
    [('static', '14.7 ms'), ('adaptive, split evenly', '14.7 ms')]
    """
    network = on if isinstance(on, Network) else Network.of(on)
    static = network.tables
    if not isinstance(static, RoutingTables):
        raise HeddleError("found paths by hashes; expected forwarding tables, beside which adaptive routing stands")
    routed = Routed(network.fabric, static)
    tables, groups = manager_groups(routed)
    rows: list[JobTime] = []
    parts = [(job.spec.name, workload.span(number)) for number, job in enumerate(workload.jobs)]
    if len(parts) > 1:
        parts.append((ALL, slice(None)))

    def add(paths: str, tables: RoutingTables | Hashed, lost: NDArray[np.bool_], fabric: Fabric) -> None:
        counts = [int(np.count_nonzero(lost[part])) for _, part in parts]
        times: Sequence[float | None] = [None] * len(parts)
        here = replace(network, fabric=fabric, tables=tables)
        if not any(counts):
            if isinstance(tables, Hashed):
                drawn = play_draws(here, workload, draws=draws, seed=seed, step=step).jobs
            else:
                drawn = (play(here, workload, n_bins=0, step=step).jobs,)
            times = [percentiles(taken)[0] for taken in zip(*map(_times, drawn), strict=True)][: len(parts)]
        named = zip(parts, times, counts, strict=True)
        rows.extend(JobTime(name, paths, time_s, count) for (name, _), time_s, count in named)

    def hashed(fabric: Fabric, queue_pairs: int = SPRAY) -> Hashed:
        lanes = LanePlan(static.sl2vl, tuple((n, round(weight)) for n, weight in enumerate(network.lane_weight)))
        ports = tables.groups(fabric)
        return Hashed(fabric, queue_pairs, seed, groups=ports, lanes=lanes, policy=network.policy)

    flows = _Flows(network, workload)
    none = np.zeros(len(workload.flows), bool)
    add("static", static, none, network.fabric)
    add("adaptive, split evenly", spread := hashed(network.fabric), none, network.fabric)
    add("adaptive, one port a flow by a hash", hashed(network.fabric, 1), none, network.fabric)
    for name, part in parts:
        rows.append(JobTime(name, "no such choice of ports is faster than", flows.least_s(part, spread)))
    if down is None:
        return BesideAdaptive(groups, tuple(rows))
    left = network.fabric.without(down)
    failed = f"{plural(int(np.count_nonzero(left.peer != network.fabric.peer)) // 2, 'cable')} down: "
    apart = flows.apart(left)
    add(f"{failed}static, before repair", static, apart | flows.over(static, left), left)
    repaired = repair(routed, down).after.tables
    add(f"{failed}static, repaired", repaired, apart, left)
    untold = tables.at_risk(left, flows.source, flows.dest) & flows.between
    add(f"{failed}adaptive, no switch told", spread := hashed(left), untold, left)
    if untold.any():
        add(f"{failed}adaptive, neighbours told", spread, apart | flows.unreached(spread), left)
    return BesideAdaptive(groups, tuple(rows), int(apart.sum()))


def _times(jobs: Sequence[JobResult]) -> list[float]:
    """Return what each job takes, and from the first begin to the last end."""
    return [*(job.time_s for job in jobs), max(job.finish_s for job in jobs) - min(job.start_s for job in jobs)]


class _Flows:
    """The flows of a workload between end ports."""

    def __init__(self, network: Network, workload: Workload) -> None:
        self.network, self.workload = network.with_devices(workload.devices), workload
        end_of = self.network.end_of
        self.source, self.dest = end_of[workload.flows.src], end_of[workload.flows.dst]
        self.between = self.source != self.dest

    def apart(self, left: Fabric) -> NDArray[np.bool_]:
        """Return which have no cables between their ends."""
        near, far = left.end_switch[self.source], left.end_switch[self.dest]
        part = left.switch_part
        return np.asarray(self.between & ((near < 0) | (far < 0) | (part[near] != part[far])), np.bool_)

    def over(self, tables: RoutingTables, left: Fabric) -> NDArray[np.bool_]:
        """Return which go over a cable that is down."""
        flows = self.workload.flows
        network = replace(self.network, tables=tables)
        routes = network.routes(flows.src, flows.dst, flows.sl)
        dead = np.zeros(len(network.capacity_bytes_s), bool)
        dead[: left.n_ports] = left.peer != self.network.fabric.peer
        of_route = np.repeat(np.arange(routes.n_routes), np.diff(routes.offset))
        hit = np.bincount(of_route, dead[routes.resource], minlength=routes.n_routes) > 0
        return np.asarray(hit[routes.route], np.bool_)

    def unreached(self, hashed: Hashed) -> NDArray[np.bool_]:
        """Return which no choice of ports delivers."""
        groups, row, near = hashed.groups, hashed.groups.row[self.dest], hashed.fabric.end_switch[self.source]
        missing = (row < 0) | ((groups.group[row, near] < 0) & (near != hashed.fabric.end_switch[self.dest]))
        return np.asarray(self.between & missing, np.bool_)

    def least_s(self, mine: slice, hashed: Hashed) -> float | None:
        """Return the time in which the bytes of some flows cross their fullest links, divided as well as can be.

        Whatever else moves, they take as long. None for flows that are not known before they are played.
        """
        size = self.workload.flows.size_bytes[mine] * self.between[mine]
        some = np.flatnonzero(size)
        if not len(some):
            return None
        fabric, source, dest = hashed.fabric, self.source[mine][some], self.dest[mine][some]
        rounds = self.workload.in_rounds
        sent = size[some] * (1 if rounds is None else rounds.messages // len(size))
        capacity = self.network.capacity_bytes_s
        own = np.concatenate([fabric.port_of(source), fabric.peer[fabric.port_of(dest)]])
        ends = np.bincount(own, np.tile(sent, 2)) / capacity[: own.max() + 1]
        # Flows from one switch to end ports that packets reach alike are one.
        key = fabric.end_switch[source] * np.int64(len(hashed.groups.group)) + hashed.groups.row[dest]
        _, first, which = np.unique(key, return_index=True, return_inverse=True)
        wanted = np.asarray(np.bincount(which, sent), np.float64) / GBPS
        return float(max(ends.max(), 1 / Spread.of(hashed, source[first], dest[first]).best(wanted)))
