"""End ports, switches and links: by every name that they have, by index, and refused where there is none."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import routing
import topo
from helpers.presets import routed_lab
from helpers.strategies import Case, cases, examples, tree
from routing.engines.base import route
from routing.names import end_label, find_end, find_ends, find_link, find_part, find_ports, find_switch
from routing.routed import Routed
from routing.studies.loss import study_loss
from topo.errors import HeddleError

LAB = routed_lab()
HOSTS = LAB.fabric.ends()[:2].tolist()


@given(case=cases(corrupt=False))
@examples(20)
def test_every_end_port_has_a_name_a_lid_and_a_guid_that_find_it(case: Case) -> None:
    fabric, routed = case.fabric, Routed(case.fabric, case.tables)
    for end in np.flatnonzero(case.tables.lid).tolist():
        guid = int(fabric.end_guid[end])
        assert find_end(routed, end_label(fabric, end)) == end
        assert find_end(routed, str(case.tables.lid[end])) == end
        others = np.delete(fabric.node_guid, fabric.end_node[end])
        if np.count_nonzero(fabric.end_guid == guid) == 1 and guid not in others:
            assert find_end(routed, f"0x{guid:016x}") == end
    for switch in range(fabric.n_switches):
        assert find_switch(fabric, fabric.label(switch)) == find_switch(fabric, fabric.names[switch]) == switch


@pytest.mark.parametrize(
    ("find", "text", "says"),
    [
        (find_end, "gpu", "no end port 'gpu'"),
        (find_end, "60000", "no end port"),
        (find_end, "0x00000000000000ff", "no end port"),
        (lambda routed, text: find_switch(routed.fabric, text), "leaf", "no switch 'leaf'"),
        (lambda routed, text: find_link(routed.fabric, text), "leaf0", "no link 'leaf0'"),
        (lambda routed, text: find_link(routed.fabric, text), "leaf0:²", "no link"),
        (lambda routed, text: find_link(routed.fabric, text), "leaf0:99999999999999999999", "no link"),
        (lambda routed, text: find_link(routed.fabric, text), "leaf0:99999", "has ports 1 to"),
        (lambda routed, text: find_link(routed.fabric, text), "leaf0:1 -> nowhere:1", "leads to"),
        (lambda routed, text: study_loss(routed, text), "leaf7:1", "no link"),
        (lambda routed, text: study_loss(routed, text), "laef0", "no switch"),
    ],
)
def test_what_cannot_be_found_is_said(find, text: str, says: str) -> None:
    fabric = tree(3).fabric
    with pytest.raises(HeddleError, match=says.replace("(", r"\(")):
        find(route(fabric), text)


def test_a_port_without_a_cable_is_told_those_that_have_one() -> None:
    fabric = topo.preset("lab-20").fabric
    with pytest.raises(HeddleError, match="ports of leaf0 with a cable: 1 to 11, 21 to 40"):
        find_link(fabric, "leaf0:12")


def test_a_server_with_several_end_ports_is_no_name_of_one() -> None:
    fabric = tree(3).fabric
    host = next(host for host in fabric.hosts if list(fabric.hosts).count(host) == 1)
    node = int(np.flatnonzero(np.array(fabric.host) == fabric.hosts.index(host))[0])
    assert fabric.end_node[find_end(route(fabric), host)] == node


@given(case=cases(), data=st.data())
@examples(30)
def test_verbs_give_the_same_for_a_name_as_for_an_index(case: Case, data) -> None:
    fabric, routed = case.fabric, Routed(case.fabric, case.tables)
    with_lid = np.flatnonzero(case.tables.lid).tolist()
    assume(len(with_lid) > 1 and len(fabric.links))
    a, b = data.draw(st.permutations(with_lid))[:2]
    names = [end_label(fabric, end) for end in (a, b)]
    assert routing.trace(routed, *names) == routing.trace(routed, a, b)
    assert find_ends(routed, names).tolist() == [a, b]
    shared = {lid for lid, count in zip(*np.unique(case.tables.lid, return_counts=True), strict=True) if count > 1}
    lids = [hex(case.tables.lid[end]) for end in (a, b) if case.tables.lid[end] not in shared]
    assert set(find_ends(routed, lids).tolist()) <= {a, b}
    assert routing.prove(routed, names).to_dict() == routing.prove(routed, [a, b]).to_dict()
    assert routing.measure(routed, names).to_dict() == routing.measure(routed, np.array([a, b])).to_dict()

    switch = data.draw(st.integers(0, fabric.n_switches - 1))
    assert find_switch(fabric, fabric.label(switch)) == find_switch(fabric, switch) == switch
    port = data.draw(st.sampled_from(fabric.links.ravel().tolist()))
    for name in (fabric.port_label(port), fabric.channel_label(port)):
        assert find_link(fabric, name) == find_link(fabric, port) == port
        assert np.array_equal(routing.studies.pairs_over(routed, name), routing.studies.pairs_over(routed, port))
        assert routing.studies.link_use(routed, name).to_dict() == routing.studies.link_use(routed, port).to_dict()
    assert find_part(fabric, fabric.port_label(port))[0].tolist() == find_part(fabric, port)[0].tolist() == [port]
    plugged = [one for one in range(*fabric.port_offset[switch : switch + 2]) if fabric.peer[one] >= 0]
    assert find_ports(fabric, fabric.label(switch)).tolist() == plugged
    assert find_ports(fabric, [fabric.label(switch), port]).tolist() == [*plugged, port]


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["balanced", "minhop"])
def test_repairs_and_failures_take_names_too(engine: str) -> None:
    fabric = tree(3).fabric
    routed = route(fabric, engine)
    links = fabric.inner_links[[0, -1], 0].tolist()
    names = [fabric.channel_label(port) for port in links]
    by_name, by_index = (routing.repairs.repair(routed, down).after for down in (names, links))
    assert np.array_equal(by_name.tables.lft, by_index.tables.lft)
    assert np.array_equal(by_name.fabric.peer, by_index.fabric.peer)
    spine = fabric.label(int(np.argmax(fabric.level)))
    left = routing.repairs.repair(routed, spine).after.fabric
    assert np.array_equal(left.peer, fabric.without(find_ports(fabric, spine)).peer)
    study = routing.studies.study_failures(fabric, names, engine=engine)
    assert study.to_dict() == routing.studies.study_failures(fabric, links, engine=engine).to_dict()
    assert study.failed == tuple(names)
    ends = fabric.ends()
    labels = [end_label(fabric, end) for end in ends.tolist()]
    assert routing.studies.bound(fabric, labels) == routing.studies.bound(fabric, ends) == routing.studies.bound(fabric)


ENDS: dict[str, Callable[[int], object]] = {
    "trace from": lambda end: routing.trace(LAB, end, HOSTS[0]),
    "trace to": lambda end: routing.trace(LAB, HOSTS[0], end),
    "find_end": lambda end: find_end(LAB, end),
    "find_ends of a fabric": lambda end: find_ends(LAB.fabric, [HOSTS[0], end]),
    "end_label": lambda end: end_label(LAB.fabric, end),
    "prove": lambda end: routing.prove(LAB, [*HOSTS, end]),
    "prove an array": lambda end: routing.prove(LAB, np.array([*HOSTS, end])),
    "measure": lambda end: routing.measure(LAB, [*HOSTS, end]),
    "congestion": lambda end: routing.quality.congestion(LAB, [HOSTS[0], end], routing.quality.shifts(2, 1)),
    "bound": lambda end: routing.studies.bound(LAB.fabric, [*HOSTS, end]),
    "pairs_over": lambda end: routing.studies.pairs_over(LAB, 0, [*HOSTS, end]),
    "link_use": lambda end: routing.studies.link_use(LAB, 0, [*HOSTS, end]),
}
PORTS: dict[str, Callable[[int], object]] = {
    "find_link": lambda port: find_link(LAB.fabric, port),
    "find_part": lambda port: find_part(LAB.fabric, port),
    "link_use": lambda port: routing.studies.link_use(LAB, port),
    "pairs_over": lambda port: routing.studies.pairs_over(LAB, np.array([0, port])),
    "study_loss": lambda port: routing.studies.study_loss(LAB, port),
    "study_failures": lambda port: routing.studies.study_failures(LAB.fabric, [port]),
    "repair": lambda port: routing.repairs.repair(LAB, [port]),
    "without": lambda port: LAB.fabric.without(np.array([0, port])),
}
BEYOND = [
    *((verb, "end port", LAB.fabric.n_end_ports) for verb in ENDS.items()),
    *((verb, "port", LAB.fabric.n_ports) for verb in PORTS.items()),
    (("find_switch", lambda switch: find_switch(LAB.fabric, switch)), "switch", LAB.fabric.n_switches),
]


@pytest.mark.parametrize(("verb", "what", "count"), BEYOND, ids=lambda it: it[0] if isinstance(it, tuple) else "")
def test_an_index_that_does_not_exist_is_refused(verb, what: str, count: int) -> None:
    for index in (-1, -3, count, count + 7):
        with pytest.raises(HeddleError, match=rf"found the {what} {index}; lab-20 has {what}\w* 0 to {count - 1}$"):
            verb[1](index)


def test_a_lid_of_somebody_else_is_refused() -> None:
    a, b = HOSTS
    lid = LAB.tables.lid
    assert routing.trace(LAB, a, b, int(lid[b])).fault is None
    for wrong in (int(lid[a]), 60000, -1):
        with pytest.raises(HeddleError, match=f"found LID {wrong} for gpu01 mlx5_0:1, whose LIDs are: {lid[b]}"):
            routing.trace(LAB, a, b, wrong)


def test_a_name_of_two_is_refused_with_both() -> None:
    fabric = LAB.fabric
    twins = replace(fabric, names=("MF0;twin:MQM8700/U1", "MF0;twin:MQM8700/U1", *fabric.names[2:]))
    with pytest.raises(HeddleError, match=r"'MF0;twin:MQM8700/U1' is the name of 2; name one: 0x\w{16}, 0x\w{16}"):
        find_switch(twins, "MF0;twin:MQM8700/U1")
    assert find_switch(twins, f"0x{int(fabric.node_guid[1]):016x}") == 1


def test_what_is_neither_name_nor_index_is_refused() -> None:
    for verb in (
        find_end,
        lambda routed, it: find_ends(routed, [it]),
        lambda routed, it: find_switch(routed.fabric, it),
    ):
        with pytest.raises(HeddleError, match="expected the names or indices of"):
            verb(LAB, 1.5)
    with pytest.raises(HeddleError, match="the set of end ports 'hca' for a fabric without tables"):
        find_ends(LAB.fabric, "hca")


def test_a_number_above_all_lids_is_a_guid_however_short() -> None:
    """The longest LID is 0xffff, of six characters."""
    fabric = LAB.fabric
    for short in (0x10000, 0xABCDE):
        guid = fabric.node_guid.copy()
        guid[fabric.end_node[HOSTS[0]]] = short
        routed = replace(LAB, fabric=replace(fabric, node_guid=guid))
        assert find_end(routed, hex(short)) == HOSTS[0]
