"""What playing flows gives: when each began and ended, and what held it back."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from simulate.network import Network, RouteTable
from simulate.traffic.flows import Flows
from topo.fabric import freeze_arrays, frozen


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
    """What became of F flows on a network with R resources (`Network.resource_label` names them)."""

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
