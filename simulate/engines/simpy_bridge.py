"""SimPy processes on a network: a process waits for bytes to arrive as it waits for any other event of SimPy."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, cast

import numpy as np
import simpy
from numpy.typing import ArrayLike

from simulate.engines.base import Engine, Finished
from simulate.engines.fluid.engine import Fluid
from simulate.engines.outcome import Outcome
from simulate.traffic.flows import Flows
from simulate.traffic.network import Network
from topo.errors import HeddleError

Process = Generator[simpy.Event, Any, None]
"""A process of SimPy."""


class NetworkEnvironment(simpy.Environment):
    """A SimPy environment whose clock is that of a network, too.

    ::

        def client(env, server, port):
            yield env.timeout(1e-6)                       # ask
            finished = yield env.transfer(server, port, 128 * 1024)

        env = NetworkEnvironment(network)
        env.process(client(env, 160, 7))
        env.run()

    What processes begin at one instant begins together: the network moves on when no process has anything left to do.
    Flows that end at the very time at which `run` is asked to stop are not told any more, as in SimPy.

    Parameters
    ----------
    make, n_bins
        What makes the engine of the network, and its bins of the timeline (`simulate.engines.Engine`).
    keep
        Whether to remember every flow for `outcome`; long runs do without.
    """

    def __init__(
        self, network: Network, *, make: Callable[..., Engine] = Fluid, n_bins: int = 0, keep: bool = True
    ) -> None:
        super().__init__()
        self.network = network
        self.engine: Engine = make(network, n_bins=n_bins)
        self._next_s = np.inf
        """No event of the network is earlier."""
        self._arrival: list[simpy.Event | None] = []
        """By transfer: what succeeds when its last flow ends, None after that."""
        self._transfer: dict[int, int] = {}
        """By flow under way: the transfer that it belongs to."""
        self._left: dict[int, int] = {}
        """By transfer: flows under way."""
        self._keep = keep
        self._begun: list[tuple[int, int, float, int, int]] = []
        """Source, target, size, level and tag of each flow, in the order in which they began."""
        self._ended: list[Finished] = []

    def transfer(self, src: int, dst: int, size_bytes: float, *, sl: int = 0, tag: int = 0) -> simpy.Event:
        """Begin a flow between end ports; the event succeeds with its `Finished` when the last byte is there.

        Raises
        ------
        HeddleError
            When the size is negative, an end port is not there or the tables do not connect it.
        """
        if self._keep:
            self._begun.append((src, dst, size_bytes, sl, tag))

        def begin(at_s: float) -> range:
            flow = self.engine.begin(src, dst, size_bytes, at_s=at_s, sl=sl)
            return range(flow, flow + 1)

        return self._start(begin)

    def transfer_all(self, src: ArrayLike, dst: ArrayLike, size_bytes: ArrayLike, *, sl: int = 0) -> simpy.Event:
        """Begin flows, arrays that broadcast against each other; the event succeeds with the `Finished` of the last.

        It raises as `transfer`, and when there are none.
        """
        flows = Flows.of(src, dst, size_bytes, sl=sl)
        if not len(flows):
            raise HeddleError("found a transfer without flows; expected at least one")
        return self.play(flows)

    def play(self, flows: Flows) -> simpy.Event:
        """Play flows that wait for one another, times counted from now; the event succeeds when all have ended."""
        if not len(flows):
            return self.event().succeed()
        if self._keep:
            columns = (flows.src, flows.dst, flows.size_bytes, flows.sl, flows.tag)
            self._begun += zip(*(column.tolist() for column in columns), strict=True)
        return self._start(lambda at_s: self.engine.begin_all(flows, at_s=at_s))

    def settle(self) -> float:
        """Play the network until it is known which event of a process is next; return its time, infinite for none."""
        self._advance()
        return float(super().peek())

    def step(self) -> None:
        """Process the next event, after what the network does before it."""
        self._advance()
        super().step()

    def peek(self) -> float:
        """Return the time of the next event, infinite when there is none."""
        return min(float(super().peek()), self._next_s)

    @property
    def n_ended(self) -> int:
        """Flows that have ended, and were to be kept."""
        return len(self._ended)

    def outcome(self) -> Outcome:
        """Return what became of the flows that have ended, in the order in which they began."""
        ended = sorted(self._ended)
        start_s, finish_s, bottleneck = np.array([one[1:] for one in ended], np.float64).reshape(-1, 3).T
        src, dst, size, sl, tag = np.array([self._begun[one.flow] for one in ended], np.float64).reshape(-1, 5).T
        flows = Flows.of(src, dst, size, start_s=start_s, sl=sl, tag=tag)
        routes, limit = self.network.routes(flows.src, flows.dst, flows.sl), bottleneck.astype(np.int32)
        engine = self.engine
        played = engine.n_events, engine.timeline, engine.congestion()
        return Outcome(self.network, flows, routes, start_s, finish_s, limit, *played)

    def _start(self, begin: Callable[[float], range]) -> simpy.Event:
        """Begin flows at the time that it is; return the event of their end."""
        number, arrival = len(self._arrival), self.event()
        self._arrival.append(arrival)
        flows = begin(max(self.now, self.engine.now_s))
        self._transfer.update(dict.fromkeys(flows, number))
        self._left[number] = len(flows)
        self._next_s = min(self._next_s, self.engine.now_s, self.now)
        return arrival

    def _advance(self) -> None:
        """Play the network until transfers end, but not beyond the next event of a process."""
        upcoming = super().peek()
        while self._next_s < upcoming:
            ended = self.engine.advance(upcoming)
            self._next_s = self.engine.next_event_s
            done = []
            for finished in ended:
                number = self._transfer.pop(finished.flow)
                self._left[number] -= 1
                if self._left[number] == 0:
                    del self._left[number]
                    done.append((number, finished))
            if self._keep:
                self._ended += ended
            if done:
                self._announce(done)
                return

    def _announce(self, done: list[tuple[int, Finished]]) -> None:
        """Let transfers end, all at one instant that is not over yet."""
        instant = self.timeout(max(0.0, done[0][1].finish_s - self.now), done)
        instant.callbacks.append(self._tell)

    def _tell(self, instant: simpy.Event) -> None:
        for number, finished in cast(list[tuple[int, Finished]], instant.value):
            arrival, self._arrival[number] = self._arrival[number], None
            if arrival is not None:
                arrival.succeed(finished)
