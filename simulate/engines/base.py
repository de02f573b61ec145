"""What an engine owes: the seam between traffic and whatever moves its bytes over a network."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from simulate.engines.congestion import Congestion
from simulate.engines.outcome import Outcome, Timeline
from simulate.traffic.flows import Flows
from simulate.traffic.network import Network

Progress = Callable[[int, float], None]
"""Called now and then with the number of flows that have ended and the simulated time in seconds."""


class Finished(NamedTuple):
    """A flow that has ended."""

    flow: int
    """The number that `Engine.begin` gave."""
    start_s: float
    """When it began to wait for its latency: no dependency, start time or delay held it back any more."""
    finish_s: float
    """When its last byte arrived."""
    bottleneck: int
    """The engine's certificate: the resource that held the flow back when it ended, -1 for none."""


class Engine(Protocol):
    """Plays flows over a network, in simulated time that never goes back.

    An engine is made for one `Network` and owes the following. Flows follow the network's forwarding tables on the
    virtual lane of their service level, and no resource carries more than its capacity. Flow f begins at
    ``max(start, end of all flows that it waits for) + delay``, ends when its last byte has arrived, and one between an
    end port and itself ends as it begins. One that asks its receiver first begins two latencies of its route later. The
    flows of a connection move one after another, each when its latency has passed and no flow of the connection moves;
    of those begun by one call whose latencies pass at one instant, the one with the lowest number is first. All that
    happens is decided by what was begun, in which order: the same calls give the same times, to the last bit.

    A flow has a number from 0, in the order in which flows were begun.
    """

    network: Network

    def __init__(self, network: Network, *, n_bins: int = 0) -> None:
        """Make the engine of a network, with so many bins of the timeline of loads, an even number."""

    @property
    def now_s(self) -> float:
        """Time of the last event, or until which `advance` was asked to play."""

    @property
    def next_event_s(self) -> float:
        """A time before which no flow ends, infinite when none is under way."""

    @property
    def n_events(self) -> int:
        """Instants at which something happened: a measure of the work."""

    @property
    def timeline(self) -> Timeline | None:
        """Load of each resource over time, until now; None when no bins were asked for."""

    def begin(self, src: int, dst: int, size_bytes: float, *, at_s: float | None = None, sl: int = 0) -> int:
        """Begin a flow at a time from now on; return its number.

        Raises
        ------
        HeddleError
            When the time has passed, the size is negative, an end port does not exist or the tables do not connect it.
        """

    def begin_all(self, flows: Flows, *, at_s: float | None = None) -> range:
        """Begin flows that wait for times, counted from `at_s`, and for each other; return their numbers.

        Raises
        ------
        HeddleError
            As `begin`.
        """

    def advance(self, until_s: float = np.inf) -> list[Finished]:
        """Play until flows end, but no longer than until a time; return those that ended, all at one instant."""

    def loads(self) -> NDArray[np.float64]:
        """Return the (R,) bytes that flows which have ended moved over each resource, times their use of it."""

    def congestion(self) -> Congestion | None:
        """Return what packets met until now; None where there are no packets."""

    def play(self, flows: Flows, progress: Progress | None = None) -> Outcome:
        """Play a set of flows from time 0 until the last has ended, where nothing was begun before.

        The times are those of `begin_all` and `advance`; all at once may be faster.
        """
