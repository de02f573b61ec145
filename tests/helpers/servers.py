"""Servers with GPUs on a small fat-tree, as a network: for tests of what happens inside servers."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from helpers.clusters import CATALOG, tree
from routing.engines.base import ENGINES
from routing.routed import Routed
from routing.tables import RoutingTables
from simulate import play
from simulate.engines.outcome import Outcome
from simulate.traffic.flows import Flows
from simulate.traffic.network import Network
from simulate.traffic.node import Servers
from topo.catalog.models import NodeModel
from topo.fabric import Fabric, frozen

PCIE_A100 = CATALOG.node("pcie-a100")


@cache
def routed_tree() -> tuple[Fabric, RoutingTables]:
    """80 servers on 4 leaves."""
    fabric = tree(80, leaves=4, spines=4)
    return fabric, ENGINES["fat-tree"].route(fabric)


def ends(n_servers: int) -> np.ndarray:
    fabric, _ = routed_tree()
    return np.arange(fabric.n_switches, fabric.n_switches + n_servers)


def network_of(servers: Servers, links: float = 1) -> Network:
    """The servers on the tree, with links that many times as fast."""
    fabric, tables = routed_tree()
    network = Network.of(Routed(fabric, tables), devices=servers.devices, latency_s=0)
    times = np.where(np.arange(len(network.capacity_bytes_s)) < fabric.n_ports, links, 1)
    return replace(network, capacity_bytes_s=frozen(network.capacity_bytes_s * times))


def outcome_of(servers: Servers, flows: Flows, links: float = 1) -> Outcome:
    return play(network_of(servers, links), flows)


def binding(outcome: Outcome) -> str:
    """The fullest resource, without the server's name: ``host memory``; ``link`` for a channel of the fabric."""
    fullest = int(np.argmax(outcome.utilisation))
    if fullest < outcome.network.fabric.n_ports:
        return "link"
    return outcome.network.resource_label(fullest).split(" ", 1)[1]


def model(**figures: Any) -> NodeModel:
    """A pcie-a100 with other figures."""
    return replace(PCIE_A100, **figures)
