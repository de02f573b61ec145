"""What packets met on their way: where they waited, whom a hot spot slowed down, and circles of full buffers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulate.traffic.network import Network
from topo.amounts import percent
from topo.drawing import Drawing
from topo.errors import HeddleError, plural
from topo.fabric import Frozen, frozen
from topo.table import Brief, Shown, Table, format_seconds

LATENCY_PERCENTILES = (50.0, 99.0, 99.9, 100.0)
"""Percentiles of the latencies of packets that are reported; the last is the longest."""


@dataclass(frozen=True, eq=False)
class Congestion(Frozen, Shown):
    """What packets met on a network with R resources and L lanes."""

    network: Network
    model: str
    """What the engine was: `PacketModel.label`."""
    hops: int
    """Packets that crossed a channel, each as often as it did."""
    sent_bytes: NDArray[np.int64]
    """(L, R) bytes that crossed each resource."""
    stalled_s: NDArray[np.float64]
    """(L, R) how long packets stood before each resource because the buffer behind it was full."""
    waited_s: NDArray[np.float64]
    """(L, R) how long first packets of inputs waited for it, whatever the reason, summed over inputs."""
    pauses: NDArray[np.int64]
    """(L, R) how often the buffer behind it paused the sender; 0 where credits do that."""
    marked: int
    """Packets marked for congestion."""
    latency_packets: NDArray[np.int64]
    """Packets by latency, from the first bit sent to the last bit received: bin b holds latencies of
    ``(16 + b % 16) << (b // 16 - 1)`` ticks up to those of the next bin, the first 32 one tick each."""
    late: float
    """Share of the packets that arrived after one that was sent later in the same message; 0 where messages keep to one
    path."""
    farthest_late: int
    """By how many packets at most: no message needs more room to restore its order."""
    held_back: float
    """Share of the time of messages that have ended in which a packet was missing before others, and a receiver that
    keeps the order handed over nothing. A message ends none later for it: that takes all packets, in any order."""
    tick_s: float
    bin_s: float
    filled: NDArray[np.float64]
    """(L, R, B) bytes that packets take behind each resource, in its buffer or on their way to it, at the end of each
    bin of time: all blocks of 64 that they begin."""

    def _brief(self) -> str:
        return f"{self.model}: {plural(self.hops, 'hop')}"

    @property
    def table(self) -> Table:
        """What the engine was, and the latencies of packets."""
        figures: dict[str, str | int] = {"engine": self.model, "hops": self.hops}
        if self.pauses.any() or self.marked:
            figures |= {"packets marked": self.marked, "pauses": int(self.pauses.sum()), "links paused": self.paused}
        for part in LATENCY_PERCENTILES:
            figures[f"latency of packets, {part:g} %"] = format_seconds(self.latency_s(part))
        if self.late:
            figures["arrive after a later packet of their message"] = percent(self.late)
            figures["by how many packets at most"] = self.farthest_late
            figures["time in which order holds a message back"] = percent(self.held_back)
        return Table.of_rows("packets", ("figure", "value"), figures.items())

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain values, ready for JSON."""
        latency = {f"p{part:g}": self.latency_s(part) for part in LATENCY_PERCENTILES}
        order = {name: getattr(self, name) for name in ("late", "farthest_late", "held_back")}
        met = {"marked": self.marked, "pauses": int(self.pauses.sum()), "links_paused": self.paused}
        return {"model": self.model, "hops": self.hops, "latency_s": latency, **met, **order}

    @property
    def paused(self) -> int:
        """Resources whose sender was paused."""
        return int(np.count_nonzero(self.pauses.any(axis=0)))

    def latency_s(self, percent: float) -> float:
        """Return the latency that so many of a hundred packets do not exceed, to a sixteenth; 0 for no packets."""
        count = np.cumsum(self.latency_packets)
        if count[-1] == 0:
            return 0.0
        bin_ = int(np.searchsorted(count, np.ceil(count[-1] * percent / 100)))
        power, mantissa = divmod(bin_, 16)
        ticks = bin_ if power < 2 else (16 + mantissa + 1) << (power - 1)
        return ticks * self.tick_s


@dataclass(frozen=True, eq=False)
class Deadlock(Brief):
    """A circle of full buffers: the first packet in each waits for room in the next, and none will ever move."""

    network: Network
    model: str
    time_s: float
    held: int
    """Packets that are in the network."""
    channel: tuple[int, ...]
    """Channels before the buffers, by sending port."""
    lane: tuple[int, ...]

    def _brief(self) -> str:
        names = [self.network.resource_label(channel) for channel in self.channel]
        shown = "; ".join(f"{name}, lane {lane}" for name, lane in zip(names, self.lane, strict=True))
        return (
            f"deadlock after {format_seconds(self.time_s)}: {plural(len(names), 'full buffer')} wait for each other, "
            f"and {plural(self.held, 'packet')} will never arrive ({self.model}). Each buffer waits for the next, the "
            f"last for the first: {shown}"
        )

    def draw(self) -> Drawing:
        """Draw the fabric with the channels of the circle coloured."""
        load = np.zeros(self.network.fabric.n_ports, np.int64)
        load[list(self.channel)] = 1
        return self.network.fabric.draw(frozen(load), title="deadlock", unit="full buffers")


class DeadlockError(HeddleError):
    """Packets wait for each other in a circle."""

    exit_code = 1

    def __init__(self, deadlock: Deadlock) -> None:
        super().__init__(deadlock._brief())
        self.deadlock = deadlock
        self.args = (deadlock,)
