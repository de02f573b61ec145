"""Max-min fair rates by linear programming: raise the least, fix what cannot rise further, and again."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linprog

from helpers.fluids import hosts, moving, routed, uses
from helpers.strategies import slow_but
from helpers.trees import grow_tree
from routing.routed import Routed
from simulate import Fluid
from simulate.traffic.flows import Flows
from simulate.traffic.network import Devices, Network


def fair_by_programs(capacity: np.ndarray, use: np.ndarray) -> np.ndarray:
    """Return (F,) rates, in units of the largest capacity inside, as HiGHS is happiest."""
    n = len(use)
    unit = capacity.max()
    fixed = np.full(n, np.nan)
    crossed = use.any(axis=0)
    limits, loads = capacity[crossed] / unit, use[:, crossed].T

    def best(aim: np.ndarray, floor: float) -> float:
        """The most that an aim can reach when no free flow falls below a floor; variable n is the least rate."""
        free = np.isnan(fixed)
        bounds = [(floor, None) if free[f] else (fixed[f], fixed[f]) for f in range(n)] + [(0, None)]
        least = np.column_stack([-np.eye(n), np.ones(n)])[free]
        found = linprog(
            -aim,
            np.vstack([np.column_stack([loads, np.zeros(len(loads))]), least]),
            np.concatenate([limits, np.zeros(free.sum())]),
            bounds=bounds,
            method="highs",
        )
        assert found.status == 0, found.message
        return float(-found.fun)

    while np.isnan(fixed).any():
        level = best(np.eye(n + 1)[n], 0.0)
        stuck = [
            f for f in np.flatnonzero(np.isnan(fixed)) if best(np.eye(n + 1)[f], level * (1 - 1e-9)) < level + 1e-6
        ]
        assert stuck
        fixed[stuck] = level
    return fixed * unit


@pytest.mark.parametrize("seed", slow_but(range(12), 0, 1, 2))
def test_rates_are_those_of_the_programs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    fabric = grow_tree(*[((3, 3), (1, 2), (1, 1)), ((2, 2, 2), (1, 2, 1), (1, 1, 1)), ((5,), (1,), (1,))][seed % 3])
    ends = np.array(hosts(Network.of(Routed(fabric, routed(fabric)), latency_s=0)))
    n_devices, n_resources = 4, 3
    devices = Devices(
        end_port=rng.choice(ends, n_devices),
        capacity_bytes_s=rng.uniform(5e9, 40e9, n_resources),
        names=("a", "b", "c"),
        send_offset=np.arange(n_devices + 1),
        send_resource=rng.integers(0, n_resources, n_devices),
        send_use=rng.uniform(0.5, 3, n_devices),
        receive_offset=np.arange(n_devices + 1),
        receive_resource=rng.integers(0, n_resources, n_devices),
        receive_use=rng.uniform(0.5, 3, n_devices),
    )
    network = Network.of(Routed(fabric, routed(fabric)), devices=devices, latency_s=0)
    places = np.concatenate([ends, fabric.n_end_ports + np.arange(n_devices)])
    src, dst = rng.choice(places, (2, 14))
    src, dst = src[src != dst], dst[src != dst]
    flows = Flows.of(src, dst, 1e9)
    net = Fluid(network)
    for flow in range(len(flows)):
        net.begin(int(src[flow]), int(dst[flow]), 1e9)
    net.advance(0.0)
    now = moving(net)
    rates = np.zeros(len(flows))
    rates[now.flow] = now.rate_bytes_s

    # HiGHS lets constraints be broken by 1e-7.
    assert rates == pytest.approx(fair_by_programs(network.capacity_bytes_s, uses(network, flows)), rel=1e-6)


def test_the_worked_system_of_three_flows() -> None:
    """The example of `simulate.engines.fluid.maxmin`: x1 + x2 <= 10 and x1 + x3 <= 25."""
    network = Network.of(Routed(fabric := grow_tree((5,), (1,), (1,)), routed(fabric)), latency_s=0)
    a, b, c, d, _ = hosts(network)
    capacity = np.full_like(network.capacity_bytes_s, 100e9)
    capacity[fabric.port_of(a)] = 10e9  # crossed by flows 1 and 2
    capacity[fabric.peer[fabric.port_of(d)]] = 25e9  # by flows 1 and 3
    net = Fluid(replace(network, capacity_bytes_s=capacity))
    for src, dst in ((a, d), (a, c), (b, d)):
        net.begin(src, dst, 1e9)
    net.advance(0.0)
    now = moving(net)
    assert dict(zip(now.flow.tolist(), now.rate_bytes_s.tolist(), strict=True)) == pytest.approx(
        {0: 5e9, 1: 5e9, 2: 20e9}
    )


@pytest.mark.parametrize("uses_of_bus", [1.0, 4.0])
def test_a_flow_alone_is_held_back_by_what_it_takes_most_of(uses_of_bus: float) -> None:
    """A bus twice as fast as the link, of which the flow takes one or four bytes for each that it sends."""
    fabric = grow_tree((3, 3), (1, 2), (1, 1))
    plain = Network.of(Routed(fabric, routed(fabric)), latency_s=0)
    one, other = list(hosts(plain))[:2]
    link = plain.capacity_bytes_s[0]
    devices = Devices(
        end_port=np.array([one]),
        capacity_bytes_s=np.array([2 * link]),
        names=("bus",),
        send_offset=np.array([0, 1]),
        send_resource=np.array([0]),
        send_use=np.array([uses_of_bus]),
        receive_offset=np.array([0, 0]),
        receive_resource=np.zeros(0, np.int64),
        receive_use=np.zeros(0),
    )
    net = Fluid(Network.of(Routed(fabric, routed(fabric)), devices=devices, latency_s=0))
    net.begin(fabric.n_end_ports, other, 1e9)
    net.advance(0.0)
    assert moving(net).rate_bytes_s == pytest.approx([min(link, 2 * link / uses_of_bus)])
