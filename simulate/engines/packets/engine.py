"""Plays packets over a lossless network: buffers with credits, virtual lanes, and whoever stands behind a full buffer.

A message leaves its source packet by packet. A packet crosses a channel when the buffer at the far end has room for it
on its lane; it goes on as soon as its header is there (virtual cut-through), and what it took is free again when its
tail has left. Nothing is added by formula: head-of-line blocking, trees of saturation and deadlocks follow from that.
`docs/packets.md` says what is known of hardware and what is not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, floor, isfinite
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from routing.hashed import ALL_SHORTEST, Hashed, PortGroups
from routing.routed import Routed
from routing.studies.adaptive.nvidia_sm import manager_groups
from simulate.engines.base import FIRST_BIN_S, UNUSED, WAIT, Finished, Floats, FlowBook, Pairs, Progress, check_values
from simulate.engines.congestion import Congestion, Deadlock, DeadlockError
from simulate.engines.outcome import Outcome, Timeline
from simulate.engines.packets import steps as kernel
from simulate.engines.packets.control import OFF, CongestionControl, Dcqcn
from simulate.engines.packets.state import (
    AT_REST,
    CHANNEL,
    CLOCK,
    CREDIT_BYTES,
    EMPTY,
    EVENT,
    FLOW,
    FOREVER,
    HISTOGRAM,
    LINK,
    LINK_STEP,
    OF_FLOWS,
    PACKET_ROUTE,
    RESOLUTION,
    UNLIMITED,
    PacketState,
    Rules,
)  # fmt: skip
from simulate.traffic.flows import Flows
from simulate.traffic.network import Network, RouteTable
from topo.errors import HeddleError, plural
from topo.table import Brief

ROW = 1 << 18
"""Numbers of a row that tells what stands where (`simulate.engines.packets.fast_forward`): 2 MB, some 10,000 flows."""

FLOWLETS = 1 << 16
"""Flows at switches whose last port is remembered; of two that fall together, the later one is."""

INSTANTS_A_CALL = 10_000
"""Ticks between two reports of progress, and chances to stop interpreting: a call takes 16 us besides 150 ns for each
of its ticks, more where they have several hops, so this costs 1 % at most (``benchmarks/timings/bench_calls.py``)."""

PAUSE_BUFFER_S = 25e-6
"""What a port and lane buffers before it is paused, as time on its link: an equal part of the 160 MB that the 64 ports
of 800 Gb/s of NVIDIA's SN5600 share. Switches lend ports more while others need less, which is not in it."""
RESUME_PACKETS = 2
"""Full packets for which there must be room until a paused port sends on: the threshold is two packets below that of
the pause in the DCQCN paper (section 4)."""

BUFFER_BYTES = 8 * 4096
"""Default of a port and lane where its link needs no more: none is published, and docs/packets.md has bounds."""
UNIT_BYTES = 64
"""Unit of the weights of arbitration tables (InfiniBand Architecture Specification, volume 1, 7.6.9)."""

MTU = 4096
"""Bytes of the largest packet (likewise, 5.2); headers are not counted, as in the fluid engine."""

Inputs = Literal["fifo", "voq"]
Ints = NDArray[np.integer]


@dataclass(frozen=True)
class PacketModel(Brief):
    """What packets meet. The defaults are those of the InfiniBand switch that Mellanox modelled.

    Examples
    --------
    >>> import simulate
    >>> simulate.PacketModel().label.split(", ")[1:3]
    ['inputs voq', 'buffers that fill a link']
    """

    packet_bytes: int = MTU
    """The MTU, or a multiple of it: trains of packets are fewer events, and each hop takes longer."""
    inputs: Inputs = "voq"
    """Whether the packets of an input and lane wait for each output by themselves (``voq``), or leave in order
    (``fifo``). All queues of an input and lane share its credits. So does the input buffer of the model that Mellanox
    contributed to OMNeT++ (``ib_flit_sim``, ``ibuf.h``: a queue per lane and output, credits per lane). Uniform traffic
    saturates at 100 % with one and 59 % with the other."""
    buffer_bytes: int | None = None
    """Bytes of the buffer of a port on each lane; each 64 of them are a credit of its sender, and a packet takes one
    for each 64 bytes that it begins. By default 32 KiB, or more where a link needs more to be full (`Packets` has the
    formula). No maker publishes it."""
    credit_s: float = 0.0
    """Seconds until a free place becomes a credit; on its way back a credit takes as long as a header did."""
    window_packets: int | None = None
    """Packets of a message that may be on their way between servers; 0 for any number. By default as many as fill its
    path while no other is there: the slowest channel for the time there and back (`Packets` has the formula). A packet
    is acknowledged when its tail is there."""
    adapter_packets: int = 0
    """Packets that a port of an adapter may have on its way over all its messages, until they are acknowledged; 0 for
    any number. Messages wait in line for them. No maker publishes it; docs/packets.md has what HFReduce bounds."""
    high: tuple[tuple[int, float], ...] = ()
    """Lane and weight of each entry of the high-priority table; the low-priority table has the lanes of the network."""
    high_limit: int = 255
    """How many 4 KiB of high priority go before one packet of low priority: 0 is one packet, 255 any number."""
    adaptive: bool = False
    """Whether switches send packets to the least loaded port of a group, one of several at random, in place of the port
    of the tables. The groups are those of fluid flows: `routing.studies.adaptive.manager_groups`."""
    flowlet_s: float = 0.0
    """With adaptive routing, how long a flow must pause at a switch until it may take another port; 0 for each
    packet."""
    control: CongestionControl | Dcqcn | None = None
    """Congestion control. By default off on InfiniBand, as on Fire-Flyer 2, and `Dcqcn` on Ethernet;
    ``CongestionControl(mark_at=0)`` is none."""
    pauses: bool | None = None
    """Whether ports pause their senders (PFC), in place of credits: one that has no room for a full packet is told
    so at once, and sends on when there is room for two. By default on Ethernet, where buffers hold 25 us of their link
    and messages have no windows unless they are given."""
    seed: int = 0
    """Of the choice among ports of equal load."""

    def __post_init__(self) -> None:
        if self.pauses and self.window_packets is None:
            object.__setattr__(self, "window_packets", 0)
        least = 1 + bool(self.pauses)
        room = least if self.buffer_bytes is None else self.buffer_bytes / max(1, self.packet_bytes)
        check_values(
            self,
            ("packet_bytes", "a multiple of 64", self.packet_bytes > 0 and self.packet_bytes % 64 == 0),
            ("inputs", "fifo or voq", self.inputs in ("fifo", "voq")),
            (
                "buffer_bytes",
                f"{plural(least, 'packet')} to 64 GiB",
                least <= room and (self.buffer_bytes or 0) <= UNLIMITED * CREDIT_BYTES,
            ),
            ("credit_s", "seconds, not negative", 0 <= self.credit_s < np.inf),
            ("window_packets", "0 or more", self.window_packets is None or self.window_packets >= 0),
            ("adapter_packets", "0 or more", self.adapter_packets >= 0),
            ("flowlet_s", "seconds, not negative", 0 <= self.flowlet_s < np.inf),
            ("high_limit", "0 to 255", 0 <= self.high_limit <= 255),
        )

    @property
    def label(self) -> str:
        """What every result says of it."""
        parts = [f"packets of {self.packet_bytes} bytes", f"inputs {self.inputs}"]
        if self.buffer_bytes is None:
            parts.append("buffers of 25 us and pauses" if self.pauses else "buffers that fill a link")
        else:
            parts.append(f"{self.buffer_bytes} bytes of buffer a port and lane")
        if self.window_packets is None:
            parts.append("windows that fill a path")
        else:
            parts.append(f"window of {self.window_packets}" if self.window_packets else "no windows")
        if self.adapter_packets:
            parts.append(f"at most {self.adapter_packets} packets of an adapter on their way")
        if self.adaptive:
            parts.append(f"adaptive routing by {'flowlet' if self.flowlet_s else 'packet'}")
        parts += [self.control.label] if self.control and self.control.label else []
        return ", ".join(parts)

    def _brief(self) -> str:
        return self.label

    def on(self, network: Network) -> PacketModel:
        """Return the same with what the network decides where nothing is said."""
        ethernet = isinstance(network.tables, Hashed) and not network.tables.is_grouped
        pauses = ethernet if self.pauses is None else self.pauses
        return replace(self, pauses=pauses, control=self.control or (Dcqcn() if ethernet else None))

    def __call__(self, network: Network, *, n_bins: int = 0) -> Packets:
        """Return the engine of a network."""
        return Packets(network, self, n_bins=n_bins)


class Packets(FlowBook):
    """The engine of packets (`simulate.engines.base.Engine`), in a batch or step by step.

    Messages of a connection are sent one behind another, each when the last packet of the one before has left; others
    of a port take turns packet by packet. The question and answer of a rendezvous take the latencies of the route, as
    they do with fluid flows, and never wait.

    Windows: on a path of channels with latencies l, whose slowest takes p seconds for a packet, a message has at most
    ``ceil((2 sum(l) + p) / p) + 1`` packets on their way between servers. That many leave until the first is
    acknowledged, and one; with fewer a message cannot fill the path, with more it only fills buffers.

    Buffers: a packet of p seconds on a link of latency l holds its place for p until its tail has left, and for 2 l
    there and back, so that ``ceil((2 l + credit_s + p) / p)`` places keep the link full.

    Parameters
    ----------
    n_bins
        Bins of the timeline of loads and of what is in buffers, an even number; 0 for none.

    Examples
    --------
    A message of two packets crosses two links of 200 Gb/s: the first packet goes on when its header is there.

    >>> import topo, routing, simulate
    >>> routed = routing.route(topo.preset("lab-20").fabric)
    >>> hosts = routed.fabric.ends(role="compute")
    >>> engine = simulate.Packets(simulate.Network.of(routed, latency_s=0, hop_latency_s=100e-9))
    >>> engine.begin(hosts[0], hosts[1], 8192)
    0
    >>> [f"{ended.finish_s * 1e9:.1f} ns" for ended in engine.advance()]
    ['527.7 ns']
    """

    def __init__(self, network: Network | Routed, model: PacketModel | None = None, *, n_bins: int = 0) -> None:
        super().__init__(network)
        network = self.network
        self.model = (model or PacketModel()).on(network)
        self._now_s = 0.0
        self._route_rows = np.zeros(0, PACKET_ROUTE)
        self._queues: dict[tuple[int, int], int] = {}
        """Queues inside servers, by the resources before and behind them."""
        self._n_route_links = 0
        self._resting: NDArray[np.int64] = np.zeros(0, np.int64)
        """Places of flows that have ended while acknowledgements are under way."""
        self._size: Floats = np.zeros(0)
        self._route: NDArray[np.int32] = np.zeros(0, np.int32)
        self._n_bins, self._bin_ticks, self._bin = n_bins, 0, 0
        n_links = len(network.capacity_bytes_s) * len(network.lane_weight)
        self._bins: Floats = np.zeros((n_links, n_bins))
        self._filled: Floats = np.zeros((n_links, n_bins))
        self._sent_before: Floats = np.zeros(n_links)
        self._start()
        if n_bins:
            self._bin_ticks = max(1, round(FIRST_BIN_S / self.tick_s))

    def _start(self) -> None:
        """Make the state of a network without flows."""
        network, model, fabric = self.network, self.model, self.network.fabric
        trains = max(1, model.packet_bytes // MTU)  # packets of the MTU that travel as one: weights count for as many
        limit_bytes = -1 if model.high_limit == 255 else max(1, model.high_limit * MTU * trains)
        groups, self._of_pair = self._choices()
        chooses, n_paths = groups is not ALL_SHORTEST, max(1, len(self._of_pair))
        n, n_ports, n_lanes = len(network.capacity_bytes_s), fabric.n_ports, len(network.lane_weight)
        n_links = n * n_lanes
        plugged = fabric.peer >= 0
        full_s = model.packet_bytes / network.capacity_bytes_s
        self.tick_s = float(full_s[:n_ports][plugged].min(initial=1.0)) / RESOLUTION
        full = np.rint(np.minimum(full_s / self.tick_s, 2**30)).astype(np.int64)
        latency = np.ones(n, np.int64)
        latency[:n_ports] = np.maximum(1, np.rint(network.hop_latency_s / self.tick_s))
        channels = np.zeros(n, CHANNEL)
        channels["full"], channels["latency"], channels["packet"] = np.maximum(full, 1), latency, -1
        channels["node"], channels["first"], channels["limit_left"] = -1, -1, limit_bytes
        channels["node"][:n_ports] = np.where(fabric.peer_node < fabric.n_switches, fabric.peer_node, -1)
        low = [(lane, weight) for lane, weight in enumerate(network.lane_weight) if lane not in dict(model.high)]
        if any(not 0 <= lane < n_lanes for lane, _ in model.high):
            lanes = [lane for lane, _ in model.high]
            raise HeddleError(f"found lanes {lanes} in the high-priority table; there are not so many")
        weights = [
            np.array([(lane, max(1, round(weight * UNIT_BYTES * trains))) for lane, weight in table], np.int32)
            for table in (low, model.high)
        ]
        channels["low_left"], channels["high_left"] = (table[0, 1] if len(table) else 0 for table in weights)
        links = np.zeros(n_links, LINK)
        credit_ticks = round(model.credit_s / self.tick_s)
        if model.buffer_bytes is not None:
            places = np.full(n_ports, float(model.buffer_bytes))
        else:
            held = 2 * channels["latency"][:n_ports] + credit_ticks + channels["full"][:n_ports]
            places = np.maximum(-(-held // channels["full"][:n_ports]) * float(model.packet_bytes), BUFFER_BYTES)
            if model.pauses:
                places = np.maximum(places, PAUSE_BUFFER_S * network.capacity_bytes_s[:n_ports])
        links["credits"], links["last"] = UNLIMITED, -1
        links["credits"][: n_ports * n_lanes] = np.repeat(np.minimum(places // CREDIT_BYTES, UNLIMITED), n_lanes)
        self._buffer_blocks = links["credits"].astype(np.int64)
        links["channel"] = np.repeat(np.arange(n), n_lanes)

        # Which queue of a buffer a packet stands in: the buffer's own, or one for each port of the switch.
        radix = np.diff(fabric.port_offset)
        outputs = np.ones(n_ports, np.int64)
        if model.inputs == "voq":
            outputs = np.where(channels["node"][:n_ports] >= 0, radix[channels["node"][:n_ports]], 1)
        queue_of = np.append(0, np.cumsum(np.repeat(outputs, n_lanes)))
        self._n_fabric_queues = int(queue_of[-1])
        port_number = np.zeros(n, np.int32)
        port_number[:n_ports] = fabric.port_number - 1

        longest = int(full[:n_ports][plugged].max(initial=1) + latency[:n_ports][plugged].max(initial=1))
        wheel = 1 << min(16, max(11, (2 * longest).bit_length()))
        now = np.zeros(1, CLOCK)
        now["free"], now["spare"], now["random"], now["n_kept"] = -1, -1, model.seed, -1
        row_of = np.full(fabric.n_switches, -1, np.int32)
        if chooses:
            known = fabric.ends()[groups.row[fabric.ends()] >= 0]
            row_of[fabric.end_switch[known]] = groups.row[known]
        slows = bool(model.control and model.control.label)
        self._rules = Rules(
            packet_bytes=model.packet_bytes,
            n_lanes=n_lanes,
            n_switches=fabric.n_switches,
            n_limited=n_ports,
            n_queues=self._n_fabric_queues,
            credit_ticks=credit_ticks,
            voq=model.inputs == "voq",
            adaptive=chooses,
            sprays=not model.adaptive,
            adapter_packets=model.adapter_packets,
            n_paths=n_paths,
            resume=RESUME_PACKETS if model.pauses else 1,
            flowlet_ticks=ceil(model.flowlet_s / self.tick_s),
            mixed=len(np.unique(full[plugged.nonzero()])) > 1 or n > n_ports,
            control=model.control.rules(self.tick_s) if model.control else OFF,
            repeats=not (chooses or n_paths > 1 or model.pauses or model.adapter_packets or slows),
            limit_bytes=limit_bytes,
        )
        self._state = PacketState(
            now=now,
            channels=channels,
            links=links,
            requesters=np.full(self._n_fabric_queues, AT_REST),
            wheel=np.full(wheel, -1, np.int32),
            after=np.zeros(n + n_links, np.int32),
            heap=np.zeros(n + n_links, EVENT),
            arbitrating=np.zeros(n, np.int32),
            link_steps=np.zeros(n_links, LINK_STEP),
            queue_seen=np.zeros(self._n_fabric_queues, np.int64),
            walked=np.zeros(n_links, np.int32),
            row=np.zeros(ROW, np.int64),
            kept=np.zeros(ROW, np.int64),
            kept_histogram=np.zeros(HISTOGRAM, np.int64),
            histogram=np.zeros(HISTOGRAM, np.int64),
            low=weights[0].reshape(-1, 2),
            high=weights[1].reshape(-1, 2),
            **{name: np.zeros(0, kind) for name, kind in EMPTY.items()},
            row_of=row_of,
            group_of=groups.group.copy(),
            group_offset=groups.offset.copy(),
            group_port=groups.port.copy(),
            load=np.zeros(n_links, np.int32),
            queue_of=queue_of[:-1].astype(np.int32),
            port_number=port_number,
            flowlets=np.full((FLOWLETS if model.flowlet_s else 1, 3), -1, np.int64),
        )
        self._add_packets(4 * n)

    def _choices(self) -> tuple[PortGroups, tuple[Network, ...]]:
        """Return what switches choose from, and the network of each queue pair where a flow has several."""
        fabric, tables = self.network.fabric, self.network.tables
        if not isinstance(tables, Hashed):
            groups = manager_groups(Routed(fabric, tables))[0].groups(fabric) if self.model.adaptive else ALL_SHORTEST
            return groups, ()
        on = f"packets on {fabric.name}"
        if tables.is_grouped:
            raise HeddleError(f"found {on} over the groups of a manager; expected its tables, and adaptive packets")
        if self.model.adaptive and tables.is_random:
            raise HeddleError(f"found adaptive {on} with {tables.engine}; expected spraying")
        if tables.is_random and tables.queue_pairs == 1:
            return ALL_SHORTEST, ()
        if tables.bond > 1:
            expected = "expected one queue pair a connection, or fluid flows"
            raise HeddleError(f"found {on} over {tables.engine}; {expected}")
        networks = tuple(replace(self.network, tables=one) for one in tables.one_by_one())
        return ALL_SHORTEST if tables.is_random else tables.next_hops(), networks

    @property
    def now_s(self) -> float:
        """Time of the last event, or until which `advance` was asked to play."""
        now = self._state.now[0]
        return max(self._now_s, float(now["tick"] + now["repeated"]) * self.tick_s)

    @property
    def next_event_s(self) -> float:
        """Time of the next event, infinite when nothing is under way."""
        tick = kernel.next_tick(self._state)
        repeated = int(self._state.now["repeated"][0])
        return np.inf if tick == FOREVER else max(self.now_s, (tick + repeated) * self.tick_s)

    @property
    def n_events(self) -> int:
        """Ticks at which something happened."""
        return int(self._state.now["instants"][0])

    @property
    def n_hops(self) -> int:
        """Packets that have crossed a channel, each as often as it did."""
        return int(self._state.now["hops"][0])

    @property
    def n_repeated_hops(self) -> int:
        """Those of them that were not played, since a steady state repeated itself."""
        return int(self._state.now["repeated_hops"][0])

    @property
    def timeline(self) -> Timeline | None:
        """Load of each resource over time, until now; None without bins."""
        if not self._n_bins:
            return None
        bins = self._bins.copy()
        if self._bin < self._n_bins:
            bins[:, self._bin] += self._sent_in_bin()
        return Timeline.of_bins(bins, self._bin_ticks * self.tick_s, len(self.network.lane_weight))

    def loads(self) -> Floats:
        """Return the (R,) bytes that flows which have ended moved over each resource, times their use of it.

        Where flows have several paths, what all sent over each channel until now.
        """
        if not self._rules.adaptive and self._rules.n_paths == 1:
            return self._sent.copy()
        n, sent = self.network.fabric.n_ports, self._state.links["sent"].reshape(len(self._sent), -1).sum(axis=1)
        return np.concatenate([sent[:n], self._sent[n:]])

    def advance(self, until_s: float = np.inf) -> list[Finished]:
        """Play until flows end, as `Engine.advance` says."""
        until = FOREVER - 1 if not isfinite(until_s) else floor(until_s / self.tick_s * (1 + 1e-15))
        while self._run(until, True) == kernel.MORE:
            pass
        state = self._state
        n = int(state.now["n_done"][0])
        if n == 0 and isfinite(until_s):
            self._now_s = max(self._now_s, until_s)
        places = state.done[:n].copy()
        state.now["n_done"] = 0
        rows = state.flows[places]
        ended = [
            Finished(int(number), float(begin) * self.tick_s, float(end) * self.tick_s, int(limit))
            for number, begin, end, limit in zip(
                self._number[places], rows["begin"], rows["end"], self._limits(places), strict=True
            )
        ]
        for place in places.tolist():
            self._count(place)
        self._close(state.flows["connection"][places])
        over = np.append(self._resting, places)
        resting = state.flows["unacknowledged"][over] > 0
        self._resting = over[resting]
        self._give_back(over[~resting][::-1])
        return ended

    def play(self, flows: Flows, progress: Progress | None = None) -> Outcome:
        """Play a set of flows, as `Engine.play` says.

        Raises
        ------
        HeddleError
            As `begin`; and `DeadlockError` when packets wait for each other in a circle.
        """
        routes = self.network.routes(flows.src, flows.dst, flows.sl)
        if self._n_bins:
            quick = float(flows.size_bytes.max(initial=1.0) / self.network.capacity_bytes_s.max(initial=1.0))
            self._bin_ticks = max(1, round(quick / self._n_bins / self.tick_s))
        self._add_paths(routes, (flows.src, flows.dst, flows.sl))
        self._enter(flows, routes.route, self._take(len(flows)), 0.0)
        while self._run(FOREVER - 1, False) == kernel.MORE:
            if progress is not None:
                progress(int(self._state.now["n_done"][0]), self.now_s)
        rows = self._state.flows[: len(flows)]
        begin, end = rows["begin"] * self.tick_s, rows["end"] * self.tick_s
        limit = self._limits(np.arange(len(flows)))
        return Outcome(self.network, flows, routes, begin, end, limit, self.n_events, self.timeline, self.congestion())

    def congestion(self) -> Congestion:
        """Return what packets met until now."""
        links, n_lanes, now = self._state.links, len(self.network.lane_weight), self._state.now[0]
        by_lane = {name: links[name].reshape(-1, n_lanes).T for name in ("sent", "stalled", "waited", "pauses")}
        filled = self._filled.reshape(len(links) // n_lanes, n_lanes, self._n_bins).transpose(1, 0, 2)
        return Congestion(
            network=self.network,
            model=self.model.label,
            hops=self.n_hops,
            sent_bytes=by_lane["sent"],
            stalled_s=by_lane["stalled"] * self.tick_s,
            waited_s=by_lane["waited"] * self.tick_s,
            pauses=by_lane["pauses"],
            marked=int(now["marked"]),
            latency_packets=self._state.histogram.copy(),
            late=int(now["late"]) / max(1, int(self._state.histogram.sum())),
            farthest_late=int(now["farthest"]),
            held_back=int(now["held_back"]) / max(1, int(now["under_way"])),
            tick_s=self.tick_s,
            bin_s=self._bin_ticks * self.tick_s,
            filled=filled[:, :, : self._bin],
        )

    def _run(self, until: int, stop_at_end: bool) -> int:
        """Play on, at most until the end of a bin; return why it stopped."""
        edge = min(until, (self._bin + 1) * self._bin_ticks) if self._n_bins else until
        why = int(kernel.run(self._rules, self._state, edge, INSTANTS_A_CALL, stop_at_end))
        if why == kernel.ROOM:
            self._add_packets(2 * len(self._state.packets))
        elif why == kernel.STUCK:
            raise DeadlockError(self._deadlock())
        elif why == kernel.IDLE and edge < until:
            if kernel.next_tick(self._state) == FOREVER:
                return kernel.IDLE
            self._end_bin()
        else:
            return why
        return kernel.MORE

    def _end_bin(self) -> None:
        """Write down a bin of the timeline; when all are full, each two become one."""
        at, sent = self._bin, self._sent_in_bin()
        self._bins[:, at] = sent
        self._filled[:, at] = self._out()
        self._sent_before += sent
        self._bin += 1
        if self._bin == self._n_bins:
            half = self._n_bins // 2
            for bins, share in ((self._bins, 1.0), (self._filled, 0.5)):
                bins[:, :half] = (bins[:, ::2] + bins[:, 1::2]) * share
                bins[:, half:] = 0.0
            self._bin, self._bin_ticks = half, 2 * self._bin_ticks

    def _sent_in_bin(self) -> Floats:
        """Return (C * L,) bytes sent since the last bin; what is still to go of a packet that began counts later."""
        by_lane = (self._state.links["sent"] - self._sent_before).reshape(len(self._sent), -1)
        most = self.network.capacity_bytes_s * self._bin_ticks * self.tick_s
        share = np.minimum(1.0, most / np.maximum(by_lane.sum(axis=1), 1e-9))
        sent: Floats = (by_lane * share[:, None]).ravel()
        return sent

    def _out(self) -> NDArray[np.int64]:
        """Return (C * L,) bytes that packets behind each link, there or on their way, take at the end of the bin."""
        links, returns = self._state.links, self._state.returns
        tick = (self._bin + 1) * self._bin_ticks - int(self._state.now["repeated"][0])
        free = links["credits"].astype(np.int64)
        left, returned = links["returning"].copy(), links["back"].copy()
        while left.any():  # the last of a ring first, then from its first on
            link = np.flatnonzero(left)
            returned[link] = returns["next"][returned[link]]
            on = returns[returned[link]]
            there = on["due"] <= tick + self._rules.credit_ticks
            free[link] += np.where(there, on["blocks"], 0)
            left[link] -= 1
        taken: NDArray[np.int64] = np.maximum(self._buffer_blocks - free, 0) * CREDIT_BYTES
        return taken

    def _deadlock(self) -> Deadlock:
        """Return the circle of full buffers that the packets wait in: each for room in the next."""
        state, then = self._state, {}
        first_of = state.requesters["head"]
        for queue in np.flatnonzero((first_of >= 0)[: self._rules.n_queues]).tolist():
            packet = state.packets[first_of[queue]]
            then[int(packet["link"])] = int(packet["out"])
        circle: list[int] = []
        for link in then:
            seen: list[int] = []
            while link in then and link not in seen:
                seen.append(link)
                link = then[link]
            if link in seen:
                circle = seen[seen.index(link) :]
                break
        lanes = len(self.network.lane_weight)
        return Deadlock(
            network=self.network,
            model=self.model.label,
            time_s=self.now_s,
            held=int(state.now["held"][0]),
            channel=tuple(link // lanes for link in circle),
            lane=tuple(link % lanes for link in circle),
        )

    def _limits(self, places: NDArray[np.integer]) -> NDArray[np.int32]:
        """Return what held flows back: where their last packets waited longest, else the slowest of their route."""
        rows = self._state.flows[places]
        slowest = self._route_rows["slowest"][self._route[places]]
        limits: NDArray[np.int32] = np.where(rows["waited"] > 0, rows["limit"], slowest)
        return limits

    def _count(self, place: int) -> None:
        """Count the bytes of a flow that has ended on all that its route crosses."""
        links, first = self._state.route_link, self._route_rows["first"][self._route[place]]
        last = first
        while links[last] >= 0:
            last += 1
        use = self._state.route_use[first:last] if len(self._state.route_use) else 1.0
        self._sent[links[first:last] // len(self.network.lane_weight)] += self._size[place] * use

    def _enter(self, flows: Flows, route: NDArray[np.int32], places: NDArray[np.int64], time_s: float) -> None:
        self._write(places, route, flows.size_bytes, time_s + flows.start_s, flows.delay_s)
        connection = self._connect(flows.connection)
        rows = self._state.flows
        if connection is not None:
            rows["connection"][places] = connection
        requests = places[flows.rendezvous]
        crosses = rows["due"][requests] > 0
        rows["delay"][requests] += np.where(crosses, 2 * (rows["latency"][requests] + rows["back"][requests]), 0)
        roots = self._link(flows, places)
        kernel.schedule_flows(self._state, places[roots])

    def _enter_one(self, place: np.int64, route: int, size_bytes: float, time_s: float) -> None:
        places = np.array([place])
        self._write(places, np.array([route]), np.array([size_bytes]), np.array([time_s]), np.zeros(1))
        kernel.schedule_flows(self._state, places)

    def _write(self, places: Ints, route: Ints, size_bytes: Floats, earliest_s: Floats, delay_s: Floats) -> None:
        """Write the rows of flows."""
        self._size[places], self._route[places] = size_bytes, route
        packet, size = self.model.packet_bytes, np.ceil(size_bytes).astype(np.int64)
        on = self._route_rows[route]
        crosses = self._state.route_link[on["first"]] >= 0
        count = np.where(crosses, np.maximum(1, -(-size // packet)), 0)
        rows = np.zeros(len(places), FLOW)
        rows["connection"] = rows["behind"] = -1
        for name in ("first", "exit", "home", "back", "window", "stride", "adapter"):
            rows[name] = on[name]
        rows["tail"], rows["left"], rows["due"] = size - (count - 1) * packet, count, count
        rows["newest"], rows["missing"] = count, -1
        rows["latency"] = on["overhead"]
        rows["earliest"], rows["delay"] = self._ticks(earliest_s), self._ticks(delay_s)
        self._state.flows[places], self._state.waits[places] = rows, np.zeros((), WAIT)
        self._state.flow_steps["slot"][places] = -1

    def _ticks(self, time_s: Floats) -> NDArray[np.int64]:
        """Return the first ticks that are not before times, but for rounding."""
        return np.ceil(np.minimum(time_s / self.tick_s, float(FOREVER // 4)) - 1e-6).astype(np.int64)

    def _add_paths(self, table: RouteTable, pairs: Pairs) -> None:
        """Add the routes of pairs, those of each queue pair behind those of the one before."""
        for one in [network.routes(*pairs) for network in self._of_pair] or [table]:
            self._add_table(one)

    def _add_table(self, table: RouteTable) -> None:
        fabric, n_lanes = self.network.fabric, len(self.network.lane_weight)
        hops, n_routes = np.diff(table.offset), table.n_routes
        n, first = len(table.resource), self._n_route_links
        of_route = np.repeat(np.arange(n_routes), hops)
        in_fabric = table.resource < fabric.n_ports
        link = table.resource.astype(np.int64) * n_lanes + np.where(in_fabric, table.lane[of_route], 0)
        # Each route ends with -1, so hop h of route r moves r places back.
        place = np.arange(n) + of_route
        before = np.append(-1, link[:-1])
        before[table.offset[:-1][hops > 0]] = -1
        queue = np.full(n, -1, np.int64)
        inner = before >= 0
        channel = np.maximum(before, 0) // n_lanes
        plain = inner & in_fabric & (channel < fabric.n_ports)
        queue[plain] = self._state.queue_of[before[plain]]
        if self._rules.voq:
            queue[plain] += self._state.port_number[table.resource[plain]]
        for at in np.flatnonzero(inner & ~plain).tolist():
            key = (int(before[at]), int(link[at]))
            queue[at] = self._queues.setdefault(key, self._n_fabric_queues + len(self._queues))
        self._grow_queues()
        self._n_route_links += n + n_routes
        self._reserve(route_link=self._n_route_links, route_queue=self._n_route_links)
        state = self._state
        state.route_link[first : self._n_route_links] = -1
        state.route_link[first + place], state.route_queue[first + place] = link, queue
        if len(table.use):
            self._reserve(route_use=self._n_route_links)
            self._state.route_use[first + place] = table.use
        elif len(state.route_use):
            self._reserve(route_use=self._n_route_links)
            self._state.route_use[first : self._n_route_links] = 1.0
        self._n_routes += n_routes
        rows = np.full(n_routes, -1, PACKET_ROUTE)
        rows["stride"] = n + n_routes
        rows["overhead"] = np.where(hops > 0, np.ceil(table.overhead_s / self.tick_s), 0)
        rows["first"] = first + table.offset[:-1] + np.arange(n_routes)
        latency, period = (state.channels[name][table.resource] for name in ("latency", "full"))
        rows["back"] = np.maximum(1, np.bincount(of_route, latency, minlength=n_routes))
        period = period * (table.use if len(table.use) else 1.0)
        longest = np.ones(n_routes)
        np.maximum.at(longest, of_route, period)
        window = self.model.window_packets
        between = np.bincount(of_route[in_fabric], minlength=n_routes) > 0  # buffers inside servers have no end
        filled = np.ceil((2 * rows["back"] + longest) / longest) + 1
        rows["window"] = np.where(between, filled if window is None else window, 0)
        if self.model.adapter_packets:
            enters, entry = np.unique(of_route[in_fabric], return_index=True)
            rows["adapter"][enters] = table.resource[in_fabric][entry]
        slow = np.lexsort((np.arange(n), self.network.capacity_bytes_s[table.resource], of_route))
        rows["slowest"][hops > 0] = table.resource[slow[table.offset[:-1][hops > 0]]]
        if self._rules.adaptive and in_fabric.any():
            self._find_exits(table, rows)
        self._route_rows = np.concatenate([self._route_rows, rows])

    def _find_exits(self, table: RouteTable, rows: NDArray[Any]) -> None:
        """Write down where routes leave their last switch, and that switch, where packets may choose."""
        fabric = self.network.fabric
        place = np.flatnonzero(table.resource < fabric.n_ports)
        of_route = np.repeat(np.arange(table.n_routes), np.diff(table.offset))[place]
        crosses, first = np.unique(of_route, return_index=True)
        last = np.append(first[1:], len(place)) - 1
        into, out = table.resource[place[first]], table.resource[place[last]]
        ends = (fabric.port_node[into] >= fabric.n_switches) & (fabric.peer_node[out] >= fabric.n_switches)
        crosses, last, near, home = crosses[ends], last[ends], fabric.peer_node[into[ends]], fabric.port_node[out[ends]]
        row = self._state.row_of[home]
        may = (near != home) & (row >= 0) & (self._state.group_of[row, near] >= 0)
        chosen = crosses[may]
        rows["exit"][chosen] = rows["first"][chosen] + place[last[may]] - table.offset[:-1][chosen]
        rows["home"][chosen] = home[may]

    def _grow_queues(self) -> None:
        """Make room for the queues inside servers that are new: flows get higher numbers among those who request."""
        old, new = self._rules.n_queues, self._n_fabric_queues + len(self._queues)
        if new == old:
            return
        new += len(self._queues)
        state = self._state
        for array, name in ((state.requesters, "next"), (state.links, "last"), (state.channels, "requester")):
            array[name][array[name] >= old] += new - old
        requesters = np.insert(state.requesters, old, np.full(new - old, AT_REST))
        self._rules, self._state = self._rules._replace(n_queues=new), state._replace(requesters=requesters)
        self._reserve(queue_seen=new)

    def _reserve(self, **needed: int) -> None:
        filled = {"route_use": 1, "connections": UNUSED, "requesters": AT_REST}
        for name, n in needed.items():
            array = getattr(self._state, name)
            if len(array) < n:
                more = np.full(max(n, 2 * len(array)) - len(array), filled.get(name, 0), array.dtype)
                self._state = self._state._replace(**{name: np.concatenate([array, more])})

    def _make_room(self, flows: int) -> int:
        old = len(self._number)
        n = max(flows, 3 * old, 256)
        self._size = np.append(self._size, np.zeros(n - old))
        self._route = np.append(self._route, np.zeros(n - old, np.int32))
        self._reserve(requesters=self._rules.n_queues + n, **dict.fromkeys(OF_FLOWS, n))
        self._grow_heap()
        return n

    def _add_packets(self, n: int) -> None:
        """Make room for so many packets more, and as many that have left a buffer."""
        state, old = self._state, len(self._state.packets)
        now, grown = state.now, {"after": np.append(state.after, np.zeros(n, np.int32))}
        for name, first, count in (("packets", "free", "n_free"), ("returns", "spare", "n_spare")):
            array = getattr(state, name)
            more = np.zeros(n, array.dtype)
            more["next"] = np.arange(old + 1, old + n + 1)
            more["next"][-1] = now[first][0]
            now[first], now[count] = old, now[count][0] + n
            grown[name] = np.concatenate([array, more])
        self._state = state._replace(**grown)
        self._grow_heap()

    def _grow_heap(self) -> None:
        """Make room for every event and every flow, twice: one that congestion control holds back is there again."""
        self._reserve(heap=len(self._state.after) + 2 * len(self._state.flows))
