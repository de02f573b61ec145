"""The network that flows share: capacities, and the route of every pair through the forwarding tables."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from routing.hashed import Hashed
from routing.lanes.policy import ASK, QosPolicy, levels_of_pairs
from routing.routed import Routed
from routing.tables import MAX_DATA_VLS, RoutingTables
from routing.trace import trace
from simulate.traffic.latency import PUBLISHED, Latencies, Way, told
from simulate.traffic.walks import number_keys, walk
from topo.catalog.devices import hop_latencies
from topo.catalog.load import Catalog, load_catalog
from topo.errors import FlowError, HeddleError, plural
from topo.fabric import Fabric, Frozen, Role, frozen
from topo.graphs import rows_of
from topo.table import Brief

GBPS = 1e9 / 8
"""Bytes a second of 1 Gb/s."""

GBYTE = 1e9

TUNED_LATENCIES = (
    "NCCL's tuner: start and steps of its collectives as in its tables, not this cluster's, whatever messages take"
)


@dataclass(frozen=True, eq=False)
class Devices(Frozen, Brief):
    """Places inside hosts where flows begin and end: GPUs, memory, SSDs. D devices that use X resources of their hosts.

    Device d is end port ``E + d`` to flows, on a fabric with E end ports. A flow between two devices crosses what the
    sender uses to send, the fabric from its end port to the other's (nothing when they share one), and what the
    receiver uses to receive. So a PCIe root port, or the memory of a host, is a resource like a link.
    """

    end_port: NDArray[np.int32]
    """(D,) end port over which a device reaches the fabric."""
    capacity_bytes_s: NDArray[np.float64]
    """(X,) bytes a second of each resource."""
    names: tuple[str, ...]
    """(X,) names of the resources."""
    send_offset: NDArray[np.int64]
    """(D + 1,) device d sends through ``send_resource[send_offset[d]:send_offset[d + 1]]``."""
    send_resource: NDArray[np.int32]
    """Resources, 0 to X - 1."""
    send_use: NDArray[np.float64]
    """Beside it: bytes of capacity that each byte takes, such as 2 for one that is read and written."""
    receive_offset: NDArray[np.int64]
    """(D + 1,) likewise for receiving."""
    receive_resource: NDArray[np.int32]
    receive_use: NDArray[np.float64]
    way: NDArray[np.uint8] = field(default_factory=lambda: np.zeros(0, np.uint8))
    """(D,) `Way` by which a device is reached; empty where all are host memory."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not np.all(self.capacity_bytes_s > 0):
            bad = int(np.argmin(self.capacity_bytes_s > 0))
            raise HeddleError(f"{self.names[bad]} has {self.capacity_bytes_s[bad]} bytes/s; expected more than 0")
        if not (np.all(self.send_use > 0) and np.all(self.receive_use > 0)):
            raise HeddleError("a device uses a resource 0 times or less per byte; expected more than 0")

    def _brief(self) -> str:
        return f"{plural(len(self.end_port), 'device')} with {plural(len(self.names), 'resource')}"


_NO_USE = np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0)
NO_DEVICES = Devices(np.zeros(0, np.int32), np.zeros(0), (), *_NO_USE, *_NO_USE)


@dataclass(frozen=True, eq=False)
class RouteTable(Frozen):
    """The routes of F flows, Q distinct ones."""

    route: NDArray[np.int32]
    """(F,) route of each flow."""
    offset: NDArray[np.int64]
    """(Q + 1,) route q crosses ``resource[offset[q]:offset[q + 1]]``."""
    resource: NDArray[np.int32]
    """Resources in order: channels of the fabric by sending port, and from P on those of devices."""
    use: NDArray[np.float64]
    """Beside `resource`: bytes of capacity that a byte takes; empty when 1 everywhere."""
    overhead_s: NDArray[np.float64]
    """(Q,) what the ends of a message take before it is sent."""
    latency_s: NDArray[np.float64]
    """(Q,) from the begin of a flow until its bytes move: `overhead_s`, and the latencies of the links; over several
    paths their mean."""
    lane: NDArray[np.uint8]
    """(Q,) virtual lane, 0 when the network has one lane for all."""

    @property
    def n_routes(self) -> int:
        """Distinct routes."""
        return len(self.lane)


def _seconds(name: str, values: ArrayLike) -> NDArray[np.float64]:
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError):
        raise HeddleError(f"found {name} {values!r:.60}; expected seconds as numbers, such as 1e-6") from None


@dataclass(frozen=True, eq=False)
class Network(Brief):
    """A fabric with tables, as flows see it: R resources, the P channels of the fabric first."""

    fabric: Fabric
    tables: RoutingTables | Hashed
    """What gives a flow its path: forwarding tables, or the hashes of Ethernet switches."""
    capacity_bytes_s: NDArray[np.float64]
    """(R,) bytes a second of each resource."""
    latency_s: Latencies
    """Seconds that a message takes before its bytes move."""
    hop_latency_s: NDArray[np.float64]
    """(P,) seconds more for each channel on its path."""
    lane_weight: NDArray[np.float64]
    """(L,) arbitration weight of each virtual lane; one lane when the network does not tell them apart."""
    devices: Devices = field(default=NO_DEVICES)
    policy: QosPolicy = field(default_factory=QosPolicy)
    """Which service level the subnet manager gives to the paths of those that ask it."""
    assumed: tuple[str, ...] = ()
    """What stands in `hop_latency_s` for figures that are not known."""

    @classmethod
    def of(
        cls,
        routed: Routed | Hashed,
        *,
        latency_s: float | Latencies | None = None,
        hop_latency_s: ArrayLike | None = None,
        host_gbps: float = np.inf,
        lane_weights: ArrayLike | None = None,
        devices: Devices = NO_DEVICES,
        catalog: Catalog | None = None,
    ) -> Network:
        """Make the network of a routed fabric, with its lanes and the levels that its policy gives.

        Parameters
        ----------
        latency_s : float or Latencies, optional
            Seconds that a message takes before its bytes move; by default published ones (`simulate.traffic.latency`).
        hop_latency_s : float or (P,), optional
            Seconds more for each channel on its path, one for all or one each; by default those of the switches in the
            catalog and of the cables in the floor plan (`topo.hop_latencies`), and 0 where `latency_s` is 0: a network
            of bandwidths alone.
        host_gbps
            What a host can inject and take in at each adapter port, where that is less than its link.
        lane_weights : (L,), optional
            Arbitration weight of virtual lanes 0, 1, ..., by default those of `routed`. Lanes with something to send
            share a link in proportion, and the flows of a lane share what it gets (`simulate.engines.fluid.lanes` has
            the formula). One weight stands for one lane: all flows share alike, whatever their service level.
        catalog
            Where the switches are looked up; by default Heddle's own.

        Raises
        ------
        HeddleError
            When a latency is negative, or a rate or weight not above 0.

        Examples
        --------
        >>> import topo, routing, simulate
        >>> routed = routing.route(topo.preset("lab-20").fabric)
        >>> network = simulate.Network.of(routed, host_gbps=50)
        >>> port = routed.fabric.port_of(routed.fabric.ends(role="compute")[0])
        >>> float(network.capacity_bytes_s[port]) * 8e-9, network.lane_weight.tolist()
        (50.0, [64.0, 64.0])
        """
        fabric, lanes = (routed if isinstance(routed, Hashed) else Routed.given(routed)).fabric, routed.lanes
        if lane_weights is None:
            weight_of = dict(lanes.arbitration)
            used = [lane for lane in lanes.sl2vl if lane < MAX_DATA_VLS]
            lane_weights = [weight_of.get(lane, 1) for lane in range(max(used, default=0) + 1)]
        assumed: tuple[str, ...] = ()
        if hop_latency_s is None and latency_s == 0:
            hop_latency_s = 0.0
        elif hop_latency_s is None:
            hop_latency_s, assumed = hop_latencies(fabric, catalog or load_catalog())
        if latency_s is None:
            latency_s = PUBLISHED
        latencies = latency_s if isinstance(latency_s, Latencies) else Latencies(*[latency_s] * 4)
        hop_latency = _seconds("hop_latency_s", hop_latency_s)
        if hop_latency.shape not in ((), (fabric.n_ports,)):
            expected = f"one for all, or one for each of {fabric.n_ports:,} channels"
            raise HeddleError(f"found hop_latency_s of shape {hop_latency.shape}; expected {expected}")
        hop_latency = np.broadcast_to(hop_latency, (fabric.n_ports,))
        for name, values in (("latency_s", _seconds("latency_s", latencies)), ("hop_latency_s", hop_latency)):
            good = np.isfinite(values) & (values >= 0)
            if not good.all():
                raise HeddleError(f"found {name} {values[~good][0]}; expected seconds, not negative")
        if not host_gbps > 0:
            raise HeddleError(f"found host_gbps {host_gbps}; expected Gb/s above 0")
        weight = np.atleast_1d(np.asarray(lane_weights, np.float64))
        if isinstance(routed, Hashed) and len(weight) > routed.lanes.lanes:
            expected = f"{routed.lanes.lanes}, for the lanes that hashed paths have"
            raise HeddleError(f"found {len(weight)} lane weights; expected {expected}")
        if not (np.all(np.isfinite(weight) & (weight > 0)) and 1 <= len(weight) <= 15):
            raise HeddleError(f"found lane weights {weight.tolist()}; expected 1 to 15 numbers above 0")
        channel = fabric.rate_gbps * GBPS
        adapter = np.arange(fabric.n_ports) >= fabric.first_adapter_port
        plugged = fabric.peer >= 0
        at_host = adapter | (plugged & adapter[fabric.peer])
        channel = np.where(at_host, np.minimum(channel, host_gbps * GBPS), channel)
        # A link runs at what both of its ends can do.
        channel = np.where(plugged, np.minimum(channel, channel[fabric.peer]), channel)
        return cls(
            fabric=fabric,
            tables=routed if isinstance(routed, Hashed) else replace(routed.tables, sl2vl=lanes.sl2vl),
            capacity_bytes_s=frozen(np.concatenate([channel, devices.capacity_bytes_s])),
            latency_s=latencies,
            hop_latency_s=frozen(hop_latency),
            lane_weight=frozen(weight),
            devices=devices,
            policy=routed.policy,
            assumed=assumed,
        )

    def _brief(self) -> str:
        return (
            f"{self.fabric.name}: {self.tables.maker}, {plural(len(self.capacity_bytes_s), 'resource')}, "
            f"{plural(len(self.lane_weight), 'lane')}"
        )

    def with_devices(self, devices: Devices) -> Network:
        """Return a network without devices with these."""
        capacity = frozen(np.concatenate([self.capacity_bytes_s, devices.capacity_bytes_s]))
        return replace(self, devices=devices, capacity_bytes_s=capacity)

    @property
    def has_uses(self) -> bool:
        """Whether a byte may take other than one byte of capacity on what it crosses."""
        return bool(len(self.devices.end_port)) or isinstance(self.tables, Hashed)

    @property
    def instant(self) -> bool:
        """Whether no message takes any time before its bytes move."""
        return not (any(self.latency_s) or self.hop_latency_s.any())

    @property
    def caveats(self) -> tuple[str, ...]:
        """What a reader of times on this network must know of its latencies, each as ``keyword: explanation``."""
        tuned = (TUNED_LATENCIES,) if np.any(self.devices.way == Way.TUNED) else ()
        if self.instant:
            return ("zero latencies: what takes many steps, or is small, ends too early", *tuned)
        said = told(self.latency_s, devices=bool(len(self.devices.end_port)))
        general = (f"published latencies, not this cluster's: {said}",) if self.latency_s == PUBLISHED else ()
        assumed = (f"assumed links: {', '.join(self.assumed)}",) if self.assumed else ()
        return general + assumed + tuned

    @property
    def n_ends(self) -> int:
        """End ports and devices: flows are between 0 and ``n_ends - 1``."""
        return self.fabric.n_end_ports + len(self.devices.end_port)

    def resource_label(self, resource: int) -> str:
        """Name of a resource for messages: ``leaf01:21 -> spine01:1``, or that of a device's resource."""
        if resource < 0:
            return "nothing"
        if resource < self.fabric.n_ports:
            return self.fabric.channel_label(resource)
        return self.devices.names[resource - self.fabric.n_ports]

    def resource_kind(self, resource: int) -> str:
        """Kind of a resource: ``leaf to spine``, or that of a device's resource without its server and GPU."""
        if resource < 0:
            return "nothing"
        if resource >= self.fabric.n_ports:
            return self.resource_label(resource).partition(" ")[2].partition(" GPU ")[0]
        ends = (self.fabric.port_node[resource], self.fabric.peer_node[resource])
        return " to ".join(Role(self.fabric.role[node]).name.lower() for node in ends)

    def routes(self, src: NDArray[np.int32], dst: NDArray[np.int32], sl: NDArray[np.int8]) -> RouteTable:
        """Return the routes of flows with these (F,) ends and service levels.

        A flow's virtual lane is that of the service level on which it travels (`levels`).
        """
        for name, ends in (("src", src), ("dst", dst)):
            if len(ends) and not 0 <= ends.min() <= ends.max() < self.n_ends:
                flow = int(np.argmax((ends < 0) | (ends >= self.n_ends)))
                raise FlowError(flow, f"has {name} {ends[flow]}; end ports are 0 to {self.n_ends - 1}")
        lane = self._lanes(src, dst, sl)
        keys = src * np.int64(self.n_ends) + dst
        if len(self.lane_weight) > 1:
            keys += lane * np.int64(self.n_ends) ** 2
        route, first = number_keys(keys)
        src, dst = src[first], dst[first]
        offset, resource, use = self._paths(self.end_of[src], self.end_of[dst])
        if len(offset) <= len(first):
            bad = len(offset) - 1
            raise FlowError(int(first[bad]), f"has no path: {self._why_not(int(src[bad]), int(dst[bad]))}")
        of_route = np.repeat(np.arange(len(first)), np.diff(offset))
        hop_s = self.hop_latency_s[resource] * (use if len(use) else 1.0)
        latency = np.bincount(of_route, hop_s, minlength=len(first))
        overhead = np.where(src == dst, 0.0, self._overhead_s(src, dst, np.diff(offset) > 0))
        if len(self.devices.end_port):
            offset, resource, use = self._with_devices(src, dst, offset, resource, use)
        return RouteTable(route, offset, resource, use, overhead, overhead + latency, lane[first])

    def _paths(
        self, src: NDArray[np.int32], dst: NDArray[np.int32]
    ) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
        """Return offsets and channels as `simulate.traffic.walks.walk`, and their uses: none where all are 1."""
        fabric, tables = self.fabric, self.tables
        if isinstance(tables, Hashed):
            return tables.paths(src, dst)
        walked = walk(fabric.port_offset, fabric.peer, fabric.peer_node, tables.lid, tables.lft, src, dst)
        return *walked, np.zeros(0)

    def _why_not(self, src: int, dst: int) -> str:
        near, far = int(self.end_of[src]), int(self.end_of[dst])
        if isinstance(self.tables, Hashed):
            return self.tables.why_not(near, far)
        return trace(Routed(self.fabric, self.tables), near, far).describe()

    def _with_devices(
        self,
        src: NDArray[np.int32],
        dst: NDArray[np.int32],
        offset: NDArray[np.int64],
        resource: NDArray[np.int32],
        own: NDArray[np.float64],
    ) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
        """Put what the senders use before the paths, and what the receivers use behind them.

        A resource that a route crosses twice is named once, with the sum of its uses; `own` are those of the paths,
        none where they are all 1.
        """
        devices, n_ports, n_routes = self.devices, self.fabric.n_ports, len(src)
        sent = rows_of(devices.send_offset, src - self.fabric.n_end_ports)
        received = rows_of(devices.receive_offset, dst - self.fabric.n_end_ports)
        counts = [sent[0], np.diff(offset), received[0]]
        of_route = np.concatenate([np.repeat(np.arange(n_routes), count) for count in counts])
        crossed = np.concatenate(
            [devices.send_resource[sent[1]] + n_ports, resource, devices.receive_resource[received[1]] + n_ports]
        )
        own = own if len(own) else np.ones(len(resource))
        use = np.concatenate([devices.send_use[sent[1]], own, devices.receive_use[received[1]]])
        order = np.argsort(of_route, kind="stable")
        keys = of_route[order] * np.int64(len(self.capacity_bytes_s)) + crossed[order]
        number, first = number_keys(keys)
        ends = np.cumsum(np.bincount(of_route[order][first], minlength=n_routes))
        use = np.asarray(np.bincount(number, use[order]), np.float64)
        return np.append(0, ends), crossed[order][first].astype(np.int32), use

    def _overhead_s(
        self, src: NDArray[np.int32], dst: NDArray[np.int32], between: NDArray[np.bool_]
    ) -> NDArray[np.float64]:
        """Return (Q,) seconds before the bytes of messages move, `between` servers or within one."""
        way = np.zeros(self.n_ends, np.uint8)
        way[self.fabric.n_end_ports :][: len(self.devices.way)] = self.devices.way
        latest = np.maximum(way[src], way[dst])
        host_s, gpu_s, pcie_s, nvlink_s = self.latency_s
        inside = np.array([0.0, pcie_s, nvlink_s, gpu_s, 0.0])[latest]
        outside = np.array([host_s, host_s, host_s, gpu_s, 0.0])[latest]
        return np.where(between, outside, inside)

    @cached_property
    def end_of(self) -> NDArray[np.int32]:
        """(n_ends,) end port over which an end port or device reaches the fabric."""
        return frozen(np.concatenate([np.arange(self.fabric.n_end_ports, dtype=np.int32), self.devices.end_port]))

    def levels(self, src: NDArray[np.int32], dst: NDArray[np.int32], sl: NDArray[np.int8]) -> NDArray[np.uint8]:
        """Return the (F,) service levels on which flows travel.

        One without a level of its own has that which the policy gives to its path. In place of level 0 it is the level
        on which the path must go, where the tables say so (`RoutingTables.path_sl`).
        """
        asked, level = sl == ASK, np.maximum(sl, 0).astype(np.uint8)
        near, far = self.end_of[src], self.end_of[dst]
        if asked.any() and self.policy.rules:
            level[asked] = levels_of_pairs(self.fabric, self.policy, near[asked], far[asked])
        if isinstance(self.tables, RoutingTables) and self.tables.path_sl is not None:
            of_path = self.tables.path_sl[self.fabric.end_switch[near], self.tables.lid[far]]
            level = np.where(level == 0, of_path, level)
        return level

    def _lanes(self, src: NDArray[np.int32], dst: NDArray[np.int32], sl: NDArray[np.int8]) -> NDArray[np.uint8]:
        if len(self.lane_weight) == 1:
            return np.zeros(len(src), np.uint8)
        level = self.levels(src, dst, sl)
        sl2vl = self.tables.lanes.sl2vl if isinstance(self.tables, Hashed) else self.tables.sl2vl
        lane = np.asarray(sl2vl, np.uint8)[level]
        if len(lane) and lane.max() >= len(self.lane_weight):
            flow = int(np.argmax(lane >= len(self.lane_weight)))
            raise FlowError(
                flow,
                f"has service level {level[flow]}, which is virtual lane {lane[flow]}; "
                f"there are weights for lanes 0 to {len(self.lane_weight) - 1}",
            )
        return lane
