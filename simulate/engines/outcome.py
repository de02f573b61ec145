"""What playing flows gives: when each began and ended, what held it back, and how full the links were."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulate.engines.congestion import Congestion
from simulate.engines.critical_path import before_on_connection, critical_segments, time_by_kind
from simulate.traffic.flows import Flows
from simulate.traffic.network import Network, RouteTable
from simulate.traffic.placement import EndPortNames
from topo.drawing import Drawing
from topo.errors import plural
from topo.fabric import Fabric, Frozen, Role, frozen
from topo.table import Brief, Column, Shown, Table, format_seconds

AS_HOT = 1e-9
"""Channels whose load differs by no more than this part are equally hot: sums of bytes in another order."""


@dataclass(frozen=True, eq=False)
class Timeline(Brief):
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

    def _brief(self) -> str:
        return f"{plural(self.lane_bytes_s.shape[2], 'bin')} of {format_seconds(self.bin_s)}"

    @property
    def load_bytes_s(self) -> NDArray[np.float64]:
        """(R, B) bytes a second that crossed each resource, on all lanes."""
        return frozen(self.lane_bytes_s.sum(axis=0))


@dataclass(frozen=True)
class LinkClass:
    """Load of the channels from nodes of one role to nodes of another, on one lane."""

    sender: Role
    receiver: Role
    lane: int
    channels: int
    used: int
    """Channels on which the lane carried anything."""
    bytes: float
    """On all of them."""
    mean: float
    """Part of the capacity of all channels of the class that the lane used until the last flow ended."""
    max: float
    """The same of the hottest channel."""
    hottest: int
    """The hottest channel, by sending port; the first of several."""
    as_hot: int
    """Channels as hot as that one, itself included."""
    peak: float | None
    """Most that the lane carried on one of the channels in a bin of the timeline, as a part of the channel's capacity;
    None without a timeline."""

    def to_dict(self, label: str) -> dict[str, Any]:
        """Return the figures as plain values, ready for JSON; `label` is the name of the hottest channel."""
        roles = {"sender": self.sender.name.lower(), "receiver": self.receiver.name.lower()}
        return vars(self) | roles | {"hottest": label}


@dataclass(frozen=True, eq=False)
class Rounds(Brief):
    """Rounds of a collective that are all alike, of which one was played."""

    count: int
    resource_bytes: NDArray[np.float64]
    """(R,) bytes over each resource in all of them."""

    def _brief(self) -> str:
        return plural(self.count, "round")


class Caveated(Shown):
    """Base of results with `caveats`."""

    @property
    def caveats(self) -> tuple[str, ...]:
        """What a reader of its times must know, each as ``keyword: explanation``.

        `to_dict`, tables, reports and the screen show them whole, `repr` the keywords.
        """
        raise NotImplementedError

    @property
    def keywords(self) -> list[str]:
        """Those of the `caveats`."""
        return [caveat.partition(":")[0] for caveat in self.caveats]

    @property
    def caveat_table(self) -> Table:
        """The `caveats`, one a row."""
        return Table("what to know of these times", (Column("caveat", list(self.caveats)),))


@dataclass(frozen=True, eq=False)
class Outcome(Frozen, Caveated):
    """What became of F flows on a network with R resources (`Network.resource_label` names them).

    Examples
    --------
    >>> import topo, routing, simulate
    >>> routed = routing.route(topo.preset("lab-20").fabric)
    >>> hosts = routed.fabric.ends(role="compute")
    >>> outcome = simulate.play(routed, simulate.allreduce(hosts, "186 MiB", "halving-doubling"))
    >>> print(*next(iter(outcome.links.texts())), sep=", ")
    compute to leaf, 0, 16, 16, 5.851, 99.5, 99.5, gpu00 mlx5_0:1 -> leaf0:1
    >>> outcome.bottlenecks.to_dict()["resource"][0]
    'compute to leaf'
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
    """(F,) the engine's certificate: the resource that held the flow back when it ended, -1 for a flow that crosses
    none. With fluid flows it is full, and no flow on it is faster (in its lane)."""
    n_events: int
    """Instants at which something began or ended."""
    timeline: Timeline | None = None
    """Load over time, when asked for."""
    congestion: Congestion | None = None
    """What packets met; None with fluid flows."""
    rounds: Rounds | None = None
    """The rounds for which these flows stand as the first; its makespan and loads are those of all, durations those of
    the first, in which chunks wait otherwise for their connection. None for itself."""

    def _brief(self) -> str:
        brief = f"{self.network.fabric.name}: {plural(self.n_flows, 'flow')} in {format_seconds(self.makespan_s)}"
        return "; ".join([brief, *self.keywords])

    def _shown(self) -> tuple[Table, ...]:
        met = (self.congestion.table,) if self.congestion else ()
        return (self.table, self.links, *met, self.caveat_table)

    @property
    def caveats(self) -> tuple[str, ...]:
        """Of latencies, of flows inside servers, of rounds, and of how bytes move."""
        said = self.network.caveats
        if self._inside_servers:
            said += (
                f"adapters, not GPUs: {self._inside_servers:,} of {plural(len(self.flows), 'flow')} join adapters of "
                "one server over the network, where GPUs have a way inside: `gpu-collective` takes it",
            )
        if self.rounds is not None:
            said += (
                f"one round for all: {plural(len(self.flows), 'message')} stand for {self.n_rounds:,} rounds, "
                "which are proven to be alike",
            )
        if self.congestion is not None:
            return (*said, f"packets: {self.congestion.model}")
        return (*said, "fluid flows: fair rates without queues")

    @cached_property
    def _inside_servers(self) -> int:
        """Flows between two adapters of one server."""
        fabric, ends = self.network.fabric, np.stack([self.flows.src, self.flows.dst])
        real = ends < fabric.n_end_ports
        host = np.where(real, fabric.host[fabric.end_node[np.where(real, ends, 0)]], -1)
        return int(np.count_nonzero((host[0] >= 0) & (host[0] == host[1]) & (ends[0] != ends[1])))

    @property
    def makespan_s(self) -> float:
        """When the last flow ended; 0 for no flows."""
        return self.after_rounds(float(self.finish_s.max(initial=0.0)))

    @property
    def n_flows(self) -> int:
        """Flows, those of all rounds."""
        return self.n_rounds * len(self.flows)

    def after_rounds(self, finish_s: float) -> float:
        """Return when what ends at a time in the flows here ends in the last of their rounds."""
        if self.rounds is None:
            return finish_s
        begin_s = float(self.flows.start_s.min())
        return begin_s + self.rounds.count * (finish_s - begin_s)

    @property
    def n_rounds(self) -> int:
        """How many rounds its flows stand for; 1 where they stand for themselves."""
        return 1 if self.rounds is None else self.rounds.count

    @property
    def duration_s(self) -> NDArray[np.float64]:
        """(F,) from begin to end of each flow."""
        return self.finish_s - self.start_s

    @cached_property
    def resource_bytes(self) -> NDArray[np.float64]:
        """(R,) bytes that crossed each resource (times their use of it)."""
        if self.rounds is not None:
            return frozen(self.rounds.resource_bytes)
        total = np.bincount(self.routes.resource, self._crossed_bytes(), minlength=len(self.network.capacity_bytes_s))
        if self.congestion is not None:  # packets may have taken other ports than those of the tables
            n = self.network.fabric.n_ports
            total[:n] = self.congestion.sent_bytes[:, :n].sum(axis=0)
        return frozen(total)

    def _crossed_bytes(self) -> NDArray[np.float64]:
        """Return the bytes over each resource of each route, times the route's use of it."""
        routes = self.routes
        on_route = np.bincount(routes.route, self.flows.size_bytes, minlength=routes.n_routes)
        crossed = np.repeat(on_route, np.diff(routes.offset)).astype(np.float64)
        return crossed * routes.use if len(routes.use) else crossed

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
            "flows": self.n_flows,
            "bytes": self.n_rounds * float(self.flows.size_bytes.sum()),
            "instants": self.n_events,
        }
        return Table.of_rows("outcome", ("figure", "value"), figures.items())

    @property
    def links(self) -> Table:
        """Load of the links by the roles of their ends and by lane, the hottest class first."""
        return links_table(self.link_classes, self.network.fabric)

    @property
    def bottlenecks(self) -> Table:
        """Kinds of resources that held the critical path back, and for how long; the longest first."""
        return Table.of(
            "bottlenecks of the critical path",
            time_by_kind(critical_segments(self)).items(),
            (itemgetter(0), "resource"),
            (lambda row: self.n_rounds * row[1], "time", "s", "time"),
            (lambda row: 100 * self.n_rounds * row[1] / self.makespan_s, "share of the makespan", "%", ".0f"),
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
            "flows": self.n_flows,
            "bytes": self.n_rounds * float(self.flows.size_bytes.sum()),
            "events": self.n_events,
            "links": self.links.to_dict(),
            "caveats": list(self.caveats),
            **({} if self.congestion is None else {"packets": self.congestion.to_dict()}),
        }

    @cached_property
    def lane_bytes(self) -> NDArray[np.float64]:
        """(L, P) bytes that crossed each channel of the fabric on each virtual lane."""
        routes, n = self.routes, self.network.fabric.n_ports
        if self.congestion is not None:
            return frozen(self.congestion.sent_bytes[:, :n].astype(np.float64))
        n_lanes = len(self.network.lane_weight)
        if self.rounds is not None:  # all on one lane
            return frozen((np.arange(n_lanes)[:, None] == routes.lane[0]) * self.rounds.resource_bytes[:n])
        in_fabric = routes.resource < n  # the others belong to devices inside hosts
        place = np.repeat(routes.lane.astype(np.int64) * n, np.diff(routes.offset)) + routes.resource
        total = np.bincount(place[in_fabric], self._crossed_bytes()[in_fabric], minlength=n_lanes * n)
        return frozen(np.asarray(total, np.float64).reshape(n_lanes, n))

    @cached_property
    def peak_utilisation(self) -> NDArray[np.float64] | None:
        """(L, P) the part of a channel that a lane used in its fullest bin; None without a timeline."""
        if self.timeline is None:
            return None
        n = self.network.fabric.n_ports
        most: NDArray[np.float64] = self.timeline.lane_bytes_s[:, :n].max(axis=2, initial=0.0)
        return frozen(most / self.network.capacity_bytes_s[:n])

    @property
    def channels(self) -> Table:
        """Load of each channel that carried anything, lane by lane, the hottest first.

        Utilisations are parts of the capacity: the mean until the last flow ended, the peak in one bin of the timeline.
        """
        fabric, capacity, peak = self.network.fabric, self.network.capacity_bytes_s, self.peak_utilisation
        lane, channel = np.nonzero(self.lane_bytes)
        carried = self.lane_bytes[lane, channel]
        mean = carried / (capacity[channel] * self.makespan_s)
        order = np.lexsort((lane, channel, -mean.round(9)))
        lane, channel = lane[order], channel[order]
        peaks = [None] * len(lane) if peak is None else peak[lane, channel].tolist()
        return Table(
            "load of channels",
            (
                Column("channel", [fabric.channel_label(port) for port in channel.tolist()]),
                Column("lane", lane.tolist()),
                Column("rate", (capacity[channel] * 8 / 1e9).tolist(), "Gb/s", "g"),
                Column("carried", carried[order].tolist(), "bytes", ".0f"),
                Column("mean utilisation", mean[order].tolist(), digits=".6f"),
                Column("peak utilisation", peaks, digits=".6f"),
            ),
        )

    @property
    def flow_table(self) -> Table:
        """Ends, size and times of each flow, and what held it back."""
        flows, network, name = self.flows, self.network, self.end_names()
        return Table(
            "flows",
            (
                Column("src", [name[end] for end in flows.src.tolist()]),
                Column("dst", [name[end] for end in flows.dst.tolist()]),
                Column("size", flows.size_bytes.tolist(), "bytes"),
                Column("start", self.start_s.tolist(), "s"),
                Column("finish", self.finish_s.tolist(), "s"),
                Column("bottleneck", [network.resource_label(resource) for resource in self.bottleneck.tolist()]),
            ),
        )

    def end_names(self) -> dict[int, str]:
        """Return the name of each end port or device that sends or receives."""
        names, devices = EndPortNames(self.network.fabric), self.network.devices
        used = np.unique(np.concatenate([self.flows.src, self.flows.dst]))
        n = self.network.fabric.n_end_ports
        found = {end: names.unique_name(end) for end in used[used < n].tolist()}
        for device in (used[used >= n] - n).tolist():
            found[n + device] = f"{names.unique_name(int(devices.end_port[device]))} device {device}"
        return found

    @property
    def inside(self) -> Table:
        """Utilisation of what is inside servers, alike in all of them, the fullest first; empty where nobody looked.

        NVLink from GPU 0 of one server is of one kind with NVLink from GPU 7 of another.
        """
        of_kind: dict[str, list[int]] = {}
        for number, name in enumerate(self.network.devices.names, start=self.network.fabric.n_ports):
            of_kind.setdefault(re.sub(r"^\S+ | \d+", "", name), []).append(number)
        part = {kind: self.utilisation[numbers] for kind, numbers in of_kind.items()}
        rows = [(kind, len(used), float(used.mean()), float(used.max())) for kind, used in part.items()]
        rows.sort(key=lambda row: -round(row[3], 9))
        names, digits = ("what", "count", "mean", "fullest"), ("", "", "share", "share")
        return Table.of_rows("inside servers, fullest first", names, rows, digits)

    @cached_property
    def link_classes(self) -> tuple[LinkClass, ...]:
        """Load of each class of channels on each lane that it used, the hottest first."""
        return link_classes(self.network, self.lane_bytes, self.makespan_s, self.peak_utilisation)

    @cached_property
    def before_on_connection(self) -> NDArray[np.intp]:
        """(F,) the flow that ended before each on its connection, -1 for none."""
        return frozen(before_on_connection(self.flows, self.start_s, self.finish_s))


def link_classes(
    network: Network, lane_bytes: NDArray[np.float64], time_s: float, peak: NDArray[np.float64] | None = None
) -> tuple[LinkClass, ...]:
    """Return the load of each class of channels on each lane that it used, the hottest first.

    `lane_bytes` and `peak` are (L, P): the bytes that crossed each channel on each lane in `time_s`, and the part of a
    channel that a lane used in its fullest bin, where that is known.
    """
    fabric, capacity = network.fabric, network.capacity_bytes_s
    channel = np.flatnonzero(fabric.peer >= 0)
    sender = fabric.role[fabric.port_node[channel]].astype(np.int64)
    receiver = fabric.role[fabric.peer_node[channel]].astype(np.int64)
    kind = sender * len(Role) + receiver
    carried = lane_bytes[:, channel]
    part = carried / (capacity[channel] * (time_s or 1.0))
    found = []
    for number in np.unique(kind).tolist():
        mine = np.flatnonzero(kind == number)
        for lane in np.flatnonzero(carried[:, mine].any(axis=1)).tolist():
            load = part[lane, mine]
            most = int(load.argmax())
            found.append(
                LinkClass(
                    sender=Role(number // len(Role)),
                    receiver=Role(number % len(Role)),
                    lane=lane,
                    channels=len(mine),
                    used=int(np.count_nonzero(carried[lane, mine])),
                    bytes=float(carried[lane, mine].sum()),
                    mean=float(np.average(load, weights=capacity[channel[mine]])),
                    max=float(load[most]),
                    hottest=int(channel[mine[most]]),
                    as_hot=int(np.count_nonzero(load >= load[most] * (1 - AS_HOT))),
                    peak=None if peak is None else float(peak[lane, channel[mine]].max()),
                )
            )
    return tuple(sorted(found, key=lambda item: (-round(item.max, 9), item.sender, item.receiver, item.lane)))


def links_table(classes: tuple[LinkClass, ...], fabric: Fabric) -> Table:
    """Return the load of classes of links as a table."""
    return Table.of(
        "load of links",
        classes,
        (lambda item: f"{item.sender.name} to {item.receiver.name}".lower(), "links"),
        *("lane", "channels", "used"),
        (lambda item: item.bytes / 1e9, "carried", "GB", ",.4g"),
        (lambda item: 100 * item.mean, "mean load", "%", ".1f"),
        (lambda item: 100 * item.max, "highest load", "%", ".1f"),
        (lambda item: fabric.channel_label(item.hottest), "hottest"),
    )
