"""Small routed fabrics, and max-min fair rates solved plainly: for tests of fluid flows."""

from functools import cache
from typing import NamedTuple

import networkx as nx
import numpy as np

from routing.tables import NO_PATH, RoutingTables
from simulate import Fluid
from simulate.engines.fluid.aggregates import AGGREGATED
from simulate.traffic.flows import Flows
from simulate.traffic.network import Network
from topo.fabric import Fabric


@cache
def routed(fabric: Fabric) -> RoutingTables:
    """Shortest paths; of several ways the one that the destination's number says."""
    lid = np.arange(1, fabric.n_end_ports + 1, dtype=np.uint16)
    lft = np.full((fabric.n_switches, fabric.n_end_ports + 1), NO_PATH, np.uint8)
    graph = nx.Graph(zip(fabric.port_node.tolist(), fabric.peer_node.tolist(), strict=True))
    graph.remove_nodes_from([-1])
    for end, node in enumerate(fabric.end_node.tolist()):
        far = nx.single_source_shortest_path_length(graph, node)
        for switch in range(fabric.n_switches):
            ports = range(fabric.port_offset[switch], fabric.port_offset[switch + 1])
            near = [p for p in ports if far.get(int(fabric.peer_node[p]), 99) < far[switch]]
            lft[switch, lid[end]] = 0 if switch == node else fabric.port_number[near[end % len(near)]]
    return RoutingTables(lid, lft)


class Moving(NamedTuple):
    """The flows that move at an instant, in no order."""

    flow: np.ndarray
    rate_bytes_s: np.ndarray
    bottleneck: np.ndarray


def moving(engine: Fluid) -> Moving:
    """The flows that move now, and their rates since the last event."""
    state = engine._state
    flow: list[int] = []
    slot: list[int] = []
    for route in state.routes[: engine._n_routes]:
        stack = [int(state.classes[route["slot"]]["first"])] if route["slot"] >= 0 else []
        while stack:
            place = stack.pop()
            if place >= 0:
                flow.append(int(engine._number[place]))
                slot.append(int(route["slot"]))
                stack += [int(state.moves[place]["left"]), int(state.moves[place]["right"])]
    of_class = np.array(slot, np.int64)
    limit = state.rates["limit"][of_class]
    unit = np.where(state.rates["free"][of_class] == AGGREGATED, limit, of_class)
    return Moving(np.array(flow, np.int64), state.rates["rate"][unit], limit // len(engine.network.lane_weight))


def hosts(network: Network) -> range:
    return range(network.fabric.n_switches, network.fabric.n_end_ports)


def fair_rates(capacity: np.ndarray, use: np.ndarray) -> np.ndarray:
    """Water-filling, all from the start: ``use[f, r]`` bytes of resource r for each byte of flow f."""
    rate = np.zeros(len(use))
    todo = np.ones(len(use), bool)
    while todo.any():
        free = use[todo].sum(axis=0)
        level = np.full(len(capacity), np.inf)
        np.divide(capacity - rate @ use, free, out=level, where=free > 1e-9)
        least = level.min()
        stuck = todo & (use[:, level <= least * (1 + 1e-12)] > 0).any(axis=1)
        rate[stuck] = least
        todo &= ~stuck
    return rate


def uses(network: Network, flows: Flows) -> np.ndarray:
    """(F, R) bytes of each resource that a byte of each flow takes."""
    routes = network.routes(flows.src, flows.dst, flows.sl)
    use = np.zeros((len(flows), len(network.capacity_bytes_s)))
    for flow, route in enumerate(routes.route):
        part = slice(routes.offset[route], routes.offset[route + 1])
        np.add.at(use[flow], routes.resource[part], routes.use[part] if len(routes.use) else 1.0)
    return use
