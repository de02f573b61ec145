"""Who uses a link, and what is lost without a part, against a plain walk of every pair on random fabrics."""

import re
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from helpers.strategies import Case, cases, examples, tree
from helpers.walks import plain_walk
from routing.engines.base import route
from routing.proof import prove
from routing.routed import Routed
from routing.studies.loss import link_use, pairs_over, study_loss
from routing.tables import select_endpoints
from routing.trace import trace
from topo.fabric import Fabric, Kind


def walked(case: Case, endpoints: str) -> dict[int, set[tuple[int, int]]]:
    """Pairs that arrive, by channel of their path."""
    fabric, tables = case.fabric, case.tables
    kinds = {"hca": {Kind.HCA}, "adapters": set(Kind) - {Kind.SWITCH}, "all": set(Kind)}[endpoints]
    ends = [end for end in range(fabric.n_end_ports) if tables.lid[end] and fabric.kind[fabric.end_node[end]] in kinds]
    users = defaultdict(set)
    for pair in ((a, b) for a in ends for b in ends if a != b):
        for channel in plain_walk(fabric, tables, *pair)[0] or ():
            users[channel].add(pair)
    return users


@given(case=cases(), endpoints=st.sampled_from(("hca", "adapters", "all")), data=st.data())
def test_a_link_is_used_by_the_pairs_that_a_plain_walk_finds_on_it(case: Case, endpoints: str, data) -> None:
    fabric, routed, users = case.fabric, Routed(case.fabric, case.tables), walked(case, endpoints)
    assume(len(fabric.links))
    port = data.draw(st.sampled_from(fabric.links.ravel().tolist()))
    use = link_use(routed, port, endpoints)
    for pairs, channel in ((use.forth, port), (use.back, int(fabric.peer[port]))):
        assert len(pairs) == len(users[channel])
        assert set(map(tuple, pairs.tolist())) == users[channel]
    rows = use.to_dict()["directions"]
    assert [sum(row["pairs"] for row in one["by_role"]) for one in rows] == [len(use.forth), len(use.back)]
    assert link_use(routed, fabric.port_label(port), endpoints).port == port
    assert link_use(routed, fabric.channel_label(port), endpoints).port == port


@given(case=cases())
@examples(20)
def test_the_users_of_all_links_are_the_hops_of_all_pairs(case: Case) -> None:
    routed = Routed(case.fabric, case.tables)
    proof = prove(routed, "adapters")
    uses = [link_use(routed, int(port), "adapters") for port in case.fabric.links[:, 0]]
    channels = sum(len(use.forth) + len(use.back) for use in uses)
    # A path over n switches has n + 1 links, its two ends' included.
    assert channels == sum((length + 1) * int(count) for length, count in enumerate(proof.hops) if length)


@pytest.mark.slow
@given(case=cases(connected=True), data=st.data())
@examples(20)
def test_without_a_part_exactly_those_pairs_are_lost_that_a_plain_walk_loses(case: Case, data) -> None:
    fabric, routed = case.fabric, Routed(case.fabric, case.tables)
    users = walked(case, "adapters")
    switch = data.draw(st.integers(0, fabric.n_switches - 1))
    part, ports = fabric.label(switch), set(range(*fabric.port_offset[switch : switch + 2].tolist()))
    if data.draw(st.booleans()) and len(fabric.inner_links):
        port = int(data.draw(st.sampled_from(fabric.inner_links[:, 0].tolist())))
        part, ports = fabric.port_label(port), {port}
    gone = ports | {int(fabric.peer[port]) for port in ports if fabric.peer[port] >= 0}
    study = study_loss(routed, part, endpoints="adapters")
    lost = set(map(tuple, study.lost.tolist()))
    assert lost == set().union(*(users[channel] for channel in gone))
    left = fabric.without(np.array([port for port in ports if fabric.peer[port] >= 0], np.int64))
    ends = select_endpoints(fabric, case.tables, "adapters")
    ends = ends[(left.end_switch[ends] >= 0) | (fabric.end_switch[ends] < 0)].tolist()
    arrive = {(a, b) for a in ends for b in ends if a != b and plain_walk(left, case.tables, a, b)[0] is not None}
    assert study.static[0].missing == len(ends) * (len(ends) - 1) - len(arrive)
    assert not lost & arrive
    assert study.rerouted[0].missing == study.rerouted[0].disconnected  # the new tables are complete
    assert [row["missing"] for row in study.to_dict()["states"]] == [*study.table.columns[1].values]


@given(case=cases())
@examples(30)
def test_a_path_shows_every_hop_of_a_plain_walk(case: Case) -> None:
    fabric, routed = case.fabric, Routed(case.fabric, case.tables)
    ends = select_endpoints(fabric, case.tables, "all").tolist()
    for source, dest in ((a, b) for a in ends[:6] for b in ends[-6:] if a != b):
        path, lane = plain_walk(fabric, case.tables, source, dest)
        found = trace(routed, source, dest)
        nodes, enters, leaves, lanes = (column.values for column in found.table.columns)
        assert (found.fault is None) == (path is not None)
        if path is None:
            continue
        ids = [find_node(fabric, node) for node in nodes]
        assert [fabric.port_id(node, out) for node, out in zip(ids, leaves, strict=True) if out] == path
        entered = [fabric.port_id(node, port) for node, port in zip(ids, enters, strict=True) if port]
        assert entered == [int(fabric.peer[channel]) for channel in path]
        assert {one for one in lanes if one is not None} <= {lane}
        assert found.to_dict()["lane"] == lane


def find_node(fabric: Fabric, label: str) -> int:
    return [fabric.label(node) for node in range(fabric.n_nodes)].index(label)


@pytest.mark.slow
@given(case=cases(connected=True), data=st.data())
@examples(5)
def test_parts_that_fail_together_lose_the_pairs_of_each_and_keep_those_that_cables_join(case: Case, data) -> None:
    fabric, routed = case.fabric, Routed(case.fabric, case.tables)
    parts = data.draw(st.lists(st.integers(0, fabric.n_switches - 1), min_size=1, max_size=3, unique=True))
    names = [fabric.label(switch) for switch in parts]
    both = study_loss(routed, *names)
    alone = [study_loss(routed, name) for name in names]
    assert {*map(tuple, both.lost.tolist())} == {pair for one in alone for pair in map(tuple, one.lost.tolist())}
    assert both.to_dict()["without"] == " and ".join(names)

    def joined(switches: set[int]) -> dict[int, set[int]]:
        group = {switch: {switch} for switch in switches}
        for a, b in fabric.port_node[fabric.inner_links].tolist():
            if a in group and b in group and group[a] is not group[b]:
                group[a] |= group[b]
                group |= dict.fromkeys(group[a], group[a])
        return group

    before, group = (joined({*range(fabric.n_switches)} - gone) for gone in (set(), set(parts)))
    at = fabric.end_switch[select_endpoints(fabric, case.tables)].tolist()
    others = [a for a in at if a not in parts]
    between = sum(b in before.get(a, ()) and b not in group[a] for a in others for b in others)
    assert (len(both.cut), both.apart) == (len(at) - len(others), between)
    theirs = sum(fabric.end_switch[a] in parts or fabric.end_switch[b] in parts for a, b in both.lost.tolist())
    assert both.lost_for_good == theirs + between
    # Server by server: which lose an adapter, and which have none with a cable left.
    servers = defaultdict(list)
    for end, switch in zip(select_endpoints(fabric, case.tables).tolist(), at, strict=True):
        servers[fabric.server_of(fabric.end_node[end])].append(switch)
    hit = [own for own in servers.values() if any(switch in parts for switch in own)]
    assert both.servers == (len(hit), sum(not any(switch in group for switch in own) for own in hit))
    lost = sum(fabric.end_switch[a] in group and fabric.end_switch[b] in group for a, b in both.lost.tolist())
    told = re.search(
        r"([\d,]+) pairs? \(each direction one\) are lost until they are rerouted, ([\d,]+) stay", both.text
    )
    assert told is not None
    assert [int(found.replace(",", "")) for found in told.groups()] == [lost, between]


def test_pairs_over_no_channel_are_none() -> None:
    routed = route(tree(3).fabric)
    assert pairs_over(routed, np.zeros(0, np.int32)).shape == (0, 2)
