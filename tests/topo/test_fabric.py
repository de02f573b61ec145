"""What a fabric answers for itself, held to its definition node by node, and to laws: relabelling permutes answers."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.relabel import relabelled
from helpers.strategies import fabrics
from topo.cluster import preset
from topo.errors import HeddleError
from topo.fabric import Fabric, Kind, Role

SEEDS = st.integers(0, 2**32 - 1)
FILTERS = [
    {},
    {"role": "compute"},
    {"role": Role.STORAGE},
    {"zone": -1},
    {"zone": 0},
    {"role": "management", "zone": -1},
    {"kind": None},
    {"kind": Kind.SWITCH},
]


@given(fabrics())
@pytest.mark.parametrize("wanted", FILTERS, ids=str)
def test_ends_are_those_that_are_plugged_in_and_match(wanted: dict, fabric: Fabric) -> None:
    role = wanted.get("role")
    if wanted.get("zone", fabric.zone[0]) not in fabric.zone:
        with pytest.raises(HeddleError, match="found the zone"):
            fabric.ends(**wanted)
        return
    role = Role[role.upper()] if isinstance(role, str) else role
    kind = wanted.get("kind", Kind.HCA)
    expected = [
        end
        for end in range(fabric.n_end_ports)
        if (node := int(fabric.end_node[end])) >= 0
        and fabric.end_switch[end] >= 0
        and kind in (None, fabric.kind[node])
        and role in (None, fabric.role[node])
        and wanted.get("zone") in (None, fabric.zone[node])
    ]

    assert fabric.ends(**wanted).tolist() == expected


@given(fabrics(), SEEDS)
def test_relabelling_permutes_ends(fabric: Fabric, seed: int) -> None:
    mixed = relabelled(fabric, np.random.default_rng(seed))

    for wanted in (one for one in FILTERS if one.get("zone", fabric.zone[0]) in fabric.zone):
        assert sorted(mixed.end[mixed.fabric.ends(**wanted)]) == fabric.ends(**wanted).tolist()


@given(fabrics(), SEEDS)
def test_relabelling_permutes_inner_channels(fabric: Fabric, seed: int) -> None:
    mixed = relabelled(fabric, np.random.default_rng(seed))

    assert sorted(mixed.port[mixed.fabric.inner]) == fabric.inner.tolist()
    assert np.array_equal(mixed.fabric.is_inner, fabric.is_inner[mixed.port])
    links = {tuple(sorted(link)) for link in mixed.port[mixed.fabric.inner_links].tolist()}
    assert links == set(map(tuple, fabric.inner_links.tolist()))


@given(fabrics())
def test_inner_channels_lead_from_one_switch_to_another(fabric: Fabric) -> None:
    graph = fabric.to_networkx()
    between = [(a, b) for a, b in graph.edges() if a != b and max(a, b) < fabric.n_switches]

    assert len(fabric.inner) == 2 * len(between)
    assert len(fabric.inner_links) == len(between)
    assert sorted(fabric.peer[fabric.inner]) == fabric.inner.tolist()


@given(fabrics())
def test_port_and_end_are_inverse(fabric: Fabric) -> None:
    ends = np.arange(fabric.n_end_ports)
    port = fabric.port_of(ends)

    assert (port[: fabric.n_switches] == -1).all()
    assert np.array_equal(fabric.end_of(port[fabric.n_switches :]), ends[fabric.n_switches :])
    every = np.arange(fabric.n_ports)
    assert np.array_equal(fabric.end_node[fabric.end_of(every)], fabric.port_node)


@given(fabrics(), SEEDS)
def test_relabelling_permutes_port_and_end(fabric: Fabric, seed: int) -> None:
    mixed = relabelled(fabric, np.random.default_rng(seed))
    ends = np.arange(fabric.n_switches, fabric.n_end_ports)

    assert np.array_equal(mixed.port[mixed.fabric.port_of(ends)], fabric.port_of(mixed.end[ends]))
    ports = np.arange(fabric.n_ports)
    assert np.array_equal(mixed.end[mixed.fabric.end_of(ports)], fabric.end_of(mixed.port[ports]))


@given(fabrics(), SEEDS)
def test_without_takes_out_these_cables_and_nothing_else(fabric: Fabric, seed: int) -> None:
    rng = np.random.default_rng(seed)
    ports = np.flatnonzero(rng.random(fabric.n_ports) < 0.3)
    left = fabric.without(ports)
    kept = [link for link in map(tuple, fabric.links.tolist()) if not set(link) & set(ports.tolist())]

    assert list(map(tuple, left.links.tolist())) == kept
    assert np.array_equal(left.role, fabric.role)
    assert np.array_equal(left.level, fabric.level)
    assert np.array_equal(left.without(ports).peer, left.peer)
    mixed = relabelled(fabric, rng)
    of_mixed = mixed.fabric.without(np.flatnonzero(np.isin(mixed.port, ports)))
    assert {tuple(sorted(link)) for link in mixed.port[of_mixed.links].tolist()} == set(kept)


@given(fabrics(), SEEDS)
def test_relabelling_changes_no_count(fabric: Fabric, seed: int) -> None:
    assert relabelled(fabric, np.random.default_rng(seed)).fabric.counts() == fabric.counts()


def test_what_a_node_is_made_of() -> None:
    fabric = preset("lab-20").fabric
    for node in range(fabric.n_nodes):
        assert [fabric.port_node[port] for port in fabric.ports_of(node)] == [node] * len(fabric.ports_of(node))
        assert fabric.server_of(node) == fabric.label(node).split(" ")[0]
    assert sum(len(fabric.ports_of(node)) for node in range(fabric.n_nodes)) == fabric.n_ports
    assert (fabric.model_of(0), fabric.server_model_of(0)) == ("QM8700", "")
    assert fabric.server_model_of(fabric.n_switches) == "pcie-a100"
    unknown = {"model": np.full(fabric.n_nodes, -1, np.int16), "host_model": np.full(len(fabric.hosts), -1, np.int16)}
    bare = dataclasses.replace(fabric, **unknown)
    assert {bare.model_of(0), bare.server_model_of(fabric.n_switches)} == {""}
