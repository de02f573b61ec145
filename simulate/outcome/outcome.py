"""What playing flows gives: when each began and ended, and what held it back."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulate.network import Network, RouteTable
from simulate.traffic.flows import Flows
from topo.drawing import Drawing
from topo.fabric import freeze_arrays, frozen
from topo.table import Column, Table, format_seconds


@dataclass(frozen=True, eq=False)
class Timeline:
    """Load of R resources on L lanes in B bins of time."""

    bin_s: float
    """Seconds a bin; the first begins at 0."""
    lane_bytes_s: NDArray[np.float64]
    """(L, R, B) bytes a second that crossed each resource on each lane, mean over the bin."""

    @classmethod
    def of_bins(cls, bins: NDArray[np.float64], bin_s: float, n_lanes: int) -> Timeline:
        """Make it of the bytes in each bin, (R * L, B), as kernels count them."""
        by_lane = bins.reshape(-1, n_lanes, bins.shape[1]).transpose(1, 0, 2)
        return cls(bin_s, frozen(by_lane / bin_s))

    @property
    def load_bytes_s(self) -> NDArray[np.float64]:
        """(R, B) bytes a second that crossed each resource, on all lanes."""
        return frozen(self.lane_bytes_s.sum(axis=0))


@dataclass(frozen=True, eq=False)
class Outcome:
    """What became of F flows on a network with R resources (`Network.resource_label` names them).

    Examples
    --------
    >>> import topo, routing, simulate
    >>> routed = routing.route(topo.preset("lab-20").fabric)
    >>> hosts = routed.fabric.ends(role="compute")
    >>> outcome = simulate.play(routed, simulate.allreduce(hosts, "186 MiB", "halving-doubling"))
    >>> print(outcome.links.to_csv().splitlines()[1])
    compute to leaf,0,16,16,5.85105408,100.0,100.0,gpu00 mlx5_0:1 -> leaf0:1
    >>> outcome.bottlenecks.to_dict()["resource"]
    ['compute to leaf', 'leaf to compute']
    """

    network: Network
    flows: Flows
    routes: RouteTable
    """The route of each flow."""
    start_s: NDArray[np.float64]
    """(F,) when the flow began: its dependencies ended, its start time reached, its delay over."""
    finish_s: NDArray[np.float64]
    """(F,) when its last byte arrived."""
    bottleneck: NDArray[np.int32]
    """(F,) the resource that held it back when it ended: full, with no flow on it faster (in its lane). -1 for a
    flow that crosses none."""
    n_events: int
    """Instants at which something began or ended."""
    timeline: Timeline | None = None
    """Load over time, when asked for."""

    def __post_init__(self) -> None:
        freeze_arrays(self)

    @property
    def makespan_s(self) -> float:
        """When the last flow ended; 0 for no flows."""
        return float(self.finish_s.max(initial=0.0))

    @property
    def duration_s(self) -> NDArray[np.float64]:
        """(F,) from begin to end of each flow."""
        return self.finish_s - self.start_s

    @cached_property
    def resource_bytes(self) -> NDArray[np.float64]:
        """(R,) bytes that crossed each resource (times their use of it)."""
        on_route = np.bincount(self.routes.route, self.flows.size_bytes, minlength=self.routes.n_routes)
        weight = np.repeat(on_route, np.diff(self.routes.offset)).astype(np.float64)
        if len(self.routes.use):
            weight *= self.routes.use
        total = np.bincount(self.routes.resource, weight, minlength=len(self.network.capacity_bytes_s))
        return frozen(total)

    @cached_property
    def utilisation(self) -> NDArray[np.float64]:
        """(R,) part of its capacity that each resource used until the last flow ended."""
        if self.makespan_s == 0.0:
            return frozen(np.zeros(len(self.network.capacity_bytes_s)))
        return frozen(self.resource_bytes / (self.network.capacity_bytes_s * self.makespan_s))

    @property
    def table(self) -> Table:
        """Makespan, number of flows and bytes, and the instants that were computed."""
        figures = {
            "makespan": format_seconds(self.makespan_s),
            "flows": len(self.flows),
            "bytes": float(self.flows.size_bytes.sum()),
            "instants": self.n_events,
        }
        return Table("outcome", (Column("figure", list(figures)), Column("value", list(figures.values()))))

    @property
    def links(self) -> Table:
        """Load of the links by the roles of their ends and by lane, the hottest class first."""
        from simulate.outcome.link_loads import link_table

        return link_table(self)

    @property
    def bottlenecks(self) -> Table:
        """Kinds of resources that held the critical path back, and for how long; the longest first."""
        from simulate.outcome.critical_path import time_by_bottleneck

        times = time_by_bottleneck(self, self.network.resource_kind)
        share = [100 * time_s / self.makespan_s for time_s in times.values()]
        return Table(
            "bottlenecks of the critical path",
            (
                Column("resource", list(times)),
                Column("time", list(times.values()), "s", "time"),
                Column("share of the makespan", share, "%", ".0f"),
            ),
        )

    def draw(self, title: str | None = None) -> Drawing:
        """Draw the fabric, its links coloured by the bytes that they carried."""
        fabric = self.network.fabric
        loads = np.rint(self.resource_bytes[: fabric.n_ports]).astype(np.int64)
        return fabric.draw(loads, title=title, unit="bytes")

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain values, ready for JSON."""
        return {
            "makespan_s": self.makespan_s,
            "flows": len(self.flows),
            "bytes": float(self.flows.size_bytes.sum()),
            "events": self.n_events,
            "links": self.links.to_dict(),
        }

    def _repr_html_(self) -> str:
        return "".join(table._repr_html_() for table in (self.table, self.links))
