"""Small fabrics, and the rates at which hosts send on them, for tests of packets."""

import numpy as np

from helpers.fluids import routed
from routing.routed import Routed
from routing.tables import RoutingTables
from simulate import PacketModel
from simulate.traffic.flows import Flows
from simulate.traffic.network import Network
from topo.builder import FabricBuilder
from topo.fabric import Fabric, Role
from topo.speeds import LinkSpeed

RATE = 25e9
SLOT_S = 4096 / RATE
"""Of a packet at 200 Gb/s."""

HDR = LinkSpeed(4, "HDR")


def line(*hosts: int) -> Fabric:
    """Switches one behind the other, with so many hosts each, in order."""
    builder = FabricBuilder("line")
    for number, count in enumerate(hosts):
        builder.switch(f"switch{number}", model="switch", radix=count + 2, role=Role.SWITCH, level=1)
    for number, count in enumerate(hosts):
        for port in range(count):
            name = f"host{number}-{port}"
            adapter = builder.adapter(name, "mlx5_0", model="hca", host_model="server", role=Role.COMPUTE)
            builder.link(number, port + 1, adapter, 1, HDR)
        if number:
            builder.link(number - 1, hosts[number - 1] + 1, number, count + 2, HDR)
    return builder.build()


def network(fabric: Fabric, hop_s: float = 0.1 * SLOT_S, weights: list[float] | None = None) -> Network:
    """Shortest paths; service level l on lane l."""
    tables = routed(fabric)
    tables = RoutingTables(tables.lid, tables.lft, sl2vl=(*range(15), 0))
    return Network.of(Routed(fabric, tables), hop_latency_s=hop_s, lane_weights=weights or [64.0], latency_s=0)


def steady(network: Network, model: PacketModel, flows: Flows, slots: int = 4000) -> np.ndarray:
    """The part of 200 Gb/s that each flow gets after a while, where each has a source of its own."""
    engine = model(network, n_bins=64)
    engine.begin_all(flows)
    until_s = slots * SLOT_S
    assert engine.advance(until_s) == []
    timeline = engine.timeline
    assert timeline is not None
    full = int(until_s / timeline.bin_s)
    port = network.fabric.first_adapter_port + flows.src - network.fabric.n_switches
    return timeline.load_bytes_s[port, full // 3 : full].mean(axis=1) / RATE
