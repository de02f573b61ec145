"""Service levels that the subnet manager gives: by the role of either end, unless the sender has chosen."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from helpers.fluids import routed
from helpers.strategies import tree
from routing.lanes.classes import lanes_of_classes
from routing.lanes.policy import ASK, MatchRule, PortGroup, QosPolicy, levels_of_pairs, policy_of_classes
from routing.routed import Routed
from simulate import Fluid
from simulate.traffic.flows import Flows
from simulate.traffic.network import Network
from topo.fabric import Role
from topo.spec.base import TrafficClass

FABRIC = tree(3, storage=1).fabric
ENDS = np.arange(FABRIC.n_switches, FABRIC.n_end_ports, dtype=np.int32)
IS_STORAGE = FABRIC.role[FABRIC.end_node] == Role.STORAGE
CLASSES = (
    TrafficClass(name="compute", sl=0, vl=0, weight=64),
    TrafficClass(name="bulk", sl=1, vl=1, weight=32),
    TrafficClass(name="storage", sl=5, vl=2, weight=16, roles=(Role.STORAGE,)),
)


def network() -> Network:
    lanes = lanes_of_classes(CLASSES)
    tables = replace(routed(FABRIC), sl2vl=lanes.sl2vl)
    return Network.of(Routed(FABRIC, tables, lanes, policy_of_classes(FABRIC, CLASSES)), latency_s=0)


def test_traffic_of_storage_servers_has_the_level_of_its_class_either_way() -> None:
    net = network()
    src, dst = (grid.ravel() for grid in np.meshgrid(ENDS, ENDS))
    asked = Flows.of(src, dst, 1e6, sl=ASK)
    expected = np.where(IS_STORAGE[src] | IS_STORAGE[dst], 5, 0)

    assert IS_STORAGE.any() and not IS_STORAGE[ENDS].all()
    assert net.levels(src, dst, asked.sl).tolist() == expected.tolist()
    routes = net.routes(asked.src, asked.dst, asked.sl)
    assert routes.lane[routes.route].tolist() == (expected // 5 * 2).tolist()


def test_a_level_of_its_own_stays() -> None:
    net = network()
    server, host = int(np.flatnonzero(IS_STORAGE)[0]), int(ENDS[~IS_STORAGE[ENDS]][0])

    for sl, lane in ((0, 0), (1, 1), (ASK, 2)):
        flow = Flows.of(server, host, 1e6, sl=sl)
        assert net.routes(flow.src, flow.dst, flow.sl).lane.tolist() == [lane]
        moving = Fluid(net, n_bins=2)
        moving.begin(server, host, 1e6, sl=sl)
        moving.advance()
        assert np.flatnonzero(moving.timeline.lane_bytes_s.sum(axis=(1, 2))).tolist() == [lane]


def test_without_a_policy_the_level_is_0() -> None:
    net = replace(network(), policy=QosPolicy())
    asked = Flows.of(ENDS[:-1], ENDS[1:], 1e6, sl=ASK)
    assert net.routes(asked.src, asked.dst, asked.sl).lane.max() == 0


groups = st.lists(st.sampled_from([*FABRIC.end_guid[ENDS].tolist(), 0xDEAD]), min_size=1, max_size=4)
names = st.lists(st.sampled_from(["a", "b", "c"]), max_size=2).map(tuple)


@given(
    members=st.tuples(groups, groups, groups),
    rules=st.lists(st.builds(MatchRule, st.sampled_from(["x", "y", "DEFAULT"]), names, names), max_size=5),
)
def test_the_first_rule_that_matches_decides(members: tuple[list[int], ...], rules: list[MatchRule]) -> None:
    by_name = dict(zip("abc", members, strict=True))
    port_groups = tuple(PortGroup(name, tuple(guids)) for name, guids in by_name.items())
    policy = QosPolicy((("x", 3), ("y", 9)), port_groups, tuple(rules))
    level = {"x": 3, "y": 9, "DEFAULT": 0}

    def is_in(end: int, names: tuple[str, ...]) -> bool:
        return not names or any(int(FABRIC.end_guid[end]) in by_name[name] for name in names)

    def answer(src: int, dst: int) -> int:
        fitting = [level[r.level] for r in rules if is_in(src, r.source) and is_in(dst, r.destination)]
        return fitting[0] if fitting else 0

    src, dst = (grid.ravel() for grid in np.meshgrid(ENDS[:5], ENDS))
    found = levels_of_pairs(FABRIC, policy, src, dst)
    assert found.tolist() == [answer(a, b) for a, b in zip(src.tolist(), dst.tolist(), strict=True)]
