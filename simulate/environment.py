"""SimPy processes on a network: a process waits for bytes to arrive as it waits for any other event of SimPy."""

from __future__ import annotations

from typing import cast

import numpy as np
import simpy

from simulate.flows import Flows
from simulate.fluid_network import Finished, FluidNetwork
from simulate.kernels.order import followers
from simulate.network import Network
from simulate.outcome import Outcome

__all__ = ["NetworkEnvironment"]


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
    n_bins
        Bins of the timeline of loads, an even number; 0 for none.
    """

    def __init__(self, network: Network, *, n_bins: int = 0) -> None:
        super().__init__()
        self.network = network
        self.fluid = FluidNetwork(network, n_bins=n_bins)
        self._n_bins = n_bins
        self._next_s = np.inf
        """No event of the network is earlier."""
        self._waiting: dict[int, simpy.Event] = {}
        """By flow under way: what succeeds when it ends."""
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
        flow = self.fluid.begin(src, dst, size_bytes, at_s=max(self.now, self.fluid.now_s), sl=sl)
        self._next_s = min(self._next_s, self.fluid.now_s, self.now)
        self._begun.append((src, dst, size_bytes, sl, tag))
        arrival = self._waiting[flow] = self.event()
        return arrival

    def play(self, flows: Flows) -> simpy.Event:
        """Play flows that wait for one another, times counted from now; the event succeeds when all have ended."""
        end, begin_s = self.event(), self.now
        if not len(flows):
            return end.succeed()
        waits, offset, follower = followers(flows.dep_offset, flows.dep)
        left = len(flows)

        def begin(flow: int) -> None:
            wait = max(0.0, begin_s + flows.start_s[flow] - self.now) + flows.delay_s[flow]
            if wait > 0:
                self.timeout(wait).callbacks.append(lambda _: move(flow))
            else:
                move(flow)

        def move(flow: int) -> None:
            column = (flows.src, flows.dst, flows.size_bytes, flows.sl, flows.tag)
            src, dst, size, sl, tag = (array[flow].item() for array in column)
            self.transfer(src, dst, size, sl=sl, tag=tag).callbacks.append(lambda _: ended(flow))

        def ended(flow: int) -> None:
            nonlocal left
            left -= 1
            for next_one in follower[offset[flow] : offset[flow + 1]].tolist():
                waits[next_one] -= 1
                if waits[next_one] == 0:
                    begin(next_one)
            if left == 0:
                end.succeed()

        for flow in np.flatnonzero(waits == 0).tolist():
            begin(flow)
        return end

    def step(self) -> None:
        """Process the next event, after what the network does before it."""
        upcoming = super().peek()
        while self._next_s < upcoming:
            ended = self.fluid.advance(upcoming)
            self._next_s = self.fluid.next_event_s
            if ended:
                self._ended += ended
                self.timeout(max(0.0, self.fluid.now_s - self.now), ended).callbacks.append(self._tell)
                upcoming = super().peek()
        super().step()

    def peek(self) -> float:
        """Return the time of the next event, infinite when there is none."""
        return min(float(super().peek()), self._next_s)

    def outcome(self) -> Outcome:
        """Return what became of the flows that have ended, in the order in which they began."""
        ended = sorted(self._ended)
        figures = np.array([finished[1:] for finished in ended], np.float64).reshape(-1, 3)
        begun = np.array([self._begun[finished.flow] for finished in ended], np.float64).reshape(-1, 5)
        src, dst, size, sl, tag = begun.T
        flows = Flows.of(src, dst, size, start_s=figures[:, 0], sl=sl, tag=tag)
        return Outcome(
            network=self.network,
            flows=flows,
            routes=self.network.routes(flows),
            start_s=figures[:, 0],
            finish_s=figures[:, 1],
            bottleneck=figures[:, 2].astype(np.int32),
            n_events=self.fluid.n_events,
            n_solves=self.fluid.n_solves,
            timeline=self.fluid.timeline if self._n_bins else None,
        )

    def _tell(self, instant: simpy.Event) -> None:
        for finished in cast(list[Finished], instant.value):
            self._waiting.pop(finished.flow).succeed(finished)
