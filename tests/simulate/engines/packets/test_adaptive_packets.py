"""Packets that choose their ports, the order in which they arrive, and sources that slow down."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from helpers.packets import SLOT_S, line, network, steady
from helpers.random_fabrics import draw
from helpers.strategies import ring
from helpers.trees import grow_tree
from helpers.zones import random_zones
from routing.engines.base import route
from routing.hashed import SPRAY, Hashed
from routing.routed import Routed
from routing.studies.adaptive import legal_tables, manager_groups
from simulate import Flows, Fluid, Network, PacketModel, Packets, play
from simulate.engines import CongestionControl
from simulate.engines.compile import Played
from simulate.engines.packets import steps
from simulate.engines.packets.state import ACK
from topo.cluster import preset
from topo.errors import RoutingError
from topo.fabric import Fabric

ADAPTIVE = PacketModel(adaptive=True)


@pytest.fixture(scope="module")
def lab() -> Network:
    return Network.of(route(preset("lab-20").fabric), hop_latency_s=150e-9, latency_s=0)


def test_flows_on_one_uplink_spread_over_all(lab: Network) -> None:
    hosts, n = lab.fabric.ends(role="compute"), 8
    far = hosts[lab.fabric.end_switch[hosts] != lab.fabric.end_switch[hosts[0]]]
    flows = Flows.of(hosts[:n], far[:n], 400 * 4096)
    for model in (ADAPTIVE, replace(ADAPTIVE, inputs="fifo"), replace(ADAPTIVE, flowlet_s=1e-6)):
        outcome = play(lab, flows, engine=model)
        assert outcome.makespan_s < 1.5 * 400 * SLOT_S
        # All bytes have crossed the ports of their sources and targets, and as many the links between.
        assert outcome.resource_bytes.sum() == 4 * flows.size_bytes.sum()
    by_packet = play(lab, flows, engine=ADAPTIVE)
    used = [item for item in by_packet.link_classes if item.sender.name == "LEAF" and item.receiver.name == "SPINE"]
    assert used[0].used == 20
    again = play(lab, flows, engine=ADAPTIVE)
    assert again.finish_s.tobytes() == by_packet.finish_s.tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 5, 10])
def test_legal_ports_deliver_everything_on_joined_zones(seed: int) -> None:
    fabric = random_zones(seed)
    net, ends = Network.of(route(fabric), hop_latency_s=150e-9, latency_s=0), fabric.ends(role="compute")
    for inputs in ("fifo", "voq"):
        for turn in range(4):
            rng = np.random.default_rng(turn)
            dst = np.concatenate([rng.permutation(ends) for _ in range(3)])
            outcome = play(
                net,
                Flows.of(np.tile(ends, 3), dst, 50_000),
                engine=replace(ADAPTIVE, inputs=inputs, buffer_bytes=2 * 4096, seed=turn),
            )
            assert np.all(outcome.finish_s[outcome.flows.src != outcome.flows.dst] > 0)


def test_tables_with_loops_have_no_order_of_ports() -> None:
    circle = ring(5)
    with pytest.raises(RoutingError, match="credit loops"):
        play(Routed(circle.fabric, circle.tables), Flows.of([], [], 1), engine=ADAPTIVE)


@pytest.mark.slow
@pytest.mark.parametrize(("drawn", "seed"), [(draw, 2), (random_zones, 11)])
def test_packets_and_fluid_flows_divide_loads_alike_where_nobody_waits(
    drawn: Callable[[int], Fabric], seed: int
) -> None:
    """One flow over the same groups. On joined zones they are those of the joints, and others than the tables allow."""
    fabric, rng, n = drawn(seed), np.random.default_rng(0), 50_000
    routed = route(fabric)
    net, ends = Network.of(routed, hop_latency_s=150e-9, latency_s=0), fabric.ends()
    groups, kind = manager_groups(routed)
    ports, legal = (tables.groups(fabric).port for tables in (groups, legal_tables(routed)))
    assert np.array_equal(ports, legal) == (kind == "legal")
    spread = replace(net, tables=Hashed(fabric, SPRAY, groups=groups.groups(fabric)))
    for pair in rng.choice(ends, (3, 2), replace=False).tolist():
        flows = Flows.of(*([end] for end in pair), n * 4096)
        fluid, packets = Fluid(spread).play(flows), Packets(net, ADAPTIVE).play(flows)
        assert packets.makespan_s == pytest.approx(fluid.makespan_s, rel=0.05)
        share, found = fluid.resource_bytes / flows.size_bytes, packets.resource_bytes / flows.size_bytes
        # Ports that are all idle are drawn: four standard deviations of so many draws, where these are more than 5 %.
        assert np.all(np.abs(found - share) <= np.maximum(0.05 * share, 4 * np.sqrt(share * (1 - share).clip(0) / n)))


@pytest.mark.slow
@pytest.mark.parametrize("spines", [1, 2, 4])
def test_a_host_on_the_leaf_of_the_crowd_takes_turns_with_every_spine(spines: int) -> None:
    """A port serves its inputs in turn: a flow that comes by one has half of it, by all spines k of k + 1 parts."""
    fabric = grow_tree((8, 4), (1, spines), (1, 1))
    hosts = fabric.ends()
    far = hosts[fabric.end_switch[hosts] != fabric.end_switch[hosts[0]]]
    flows = Flows.of([hosts[1], far[0]], [hosts[0], hosts[0]], 1e9)
    for adaptive, inputs in ((False, 1), (True, spines)):
        model = PacketModel(adaptive=adaptive, window_packets=0)
        rates = steady(Network.of(route(fabric), hop_latency_s=150e-9, latency_s=0), model, flows)
        assert rates == pytest.approx([1 / (1 + inputs), inputs / (1 + inputs)], rel=0.02)


def recount(arrivals: list[tuple[int, int, int]], begin: list[int]) -> tuple[int, int, int, int]:
    """Packets that came after a later one, by how many at most; ticks of flows, and those with a hole."""
    by_flow, late, farthest, under_way, holes = defaultdict(list), 0, 0, 0, 0
    for flow, born, tick in arrivals:
        by_flow[flow].append((born, tick))
    for flow, packets in by_flow.items():
        number = {born: at for at, born in enumerate(sorted(born for born, _ in packets))}
        there: set[int] = set()
        for (born, tick), (_, then) in pairwise([*packets, (0, packets[-1][1])]):
            after = [one for one in there if one > number[born]]
            late, farthest = late + bool(after), max(farthest, *(one - number[born] for one in after), 0)
            there.add(number[born])
            holes += (then - tick) * (there != set(range(len(there))))
        under_way += packets[-1][1] - begin[flow]
    return late, farthest, under_way, holes


@pytest.mark.parametrize("inputs", ["fifo", "voq"])
@pytest.mark.parametrize("adaptive", [True, False])
def test_order_is_that_of_a_recount_of_all_arrivals(
    adaptive: bool, inputs: str, lab: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrivals: list[tuple[int, int, int]] = []
    arrive = steps._arrive

    def note(rules: Any, state: Any, packet: int, tick: int) -> int:
        one = state.packets[packet]
        if one.out != ACK:
            arrivals.append((one.flow, one.born, tick))
        return int(arrive(rules, state, packet, tick))

    monkeypatch.setattr(steps, "_arrive", note)
    monkeypatch.setattr(Played, "is_interpreted", lambda *_: True)
    ends = lab.fabric.ends()
    src, dst = np.random.default_rng(5).choice(ends, (2, 40))
    engine = Packets(lab, replace(ADAPTIVE, adaptive=adaptive, inputs=inputs, window_packets=0))
    begin_s = engine.play(Flows.of(src, dst, 12 * 4096)).start_s
    met = engine.congestion()
    late, farthest, under_way, holes = recount(arrivals, np.rint(begin_s / engine.tick_s).astype(int).tolist())
    assert (late > 0) == adaptive
    assert (met.late, met.farthest_late) == (pytest.approx(late / len(arrivals)), farthest)
    assert met.held_back == pytest.approx(holes / under_way)
    assert ("arrive after a later packet of their message" in met.table.columns[0].values) == adaptive


def test_congestion_control_frees_the_victim_and_keeps_the_port_busy() -> None:
    # Those of the hot port slow down until the victim finds room in the buffers of the trunk.
    flows = Flows.of([2, 3, 4, 5, 6, 7], [8, 8, 8, 9, 8, 8], 1e9)
    controlled = PacketModel(window_packets=0, control=CongestionControl(mark_at=2))
    rates = steady(network(line(4, 4)), controlled, flows, 24_000)
    assert rates[3] > 0.2
    assert rates[[0, 1, 2, 4, 5]].sum() > 0.8
