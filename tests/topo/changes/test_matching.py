"""What a later picture of a fabric lacks, however its nodes are numbered."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.relabel import relabelled
from helpers.twins import twin
from topo.changes.differences import find_differences
from topo.changes.matching import find_missing, match_keys, match_nodes
from topo.cluster import preset
from topo.errors import HeddleError, plural
from topo.fabric import Fabric, Kind


@pytest.mark.parametrize("name", ["ndr-pod", "fdr10-mesh"])
def test_cables_are_found_whatever_the_order_of_nodes(name: str) -> None:
    whole, rng = twin(name), np.random.default_rng(3)
    for size in (0, 1, 7):
        gone = rng.choice(whole.links, size, replace=False)
        now = relabelled(whole.without(gone[:, 0]), rng, ports=False).fabric
        missing = find_missing(whole, now)
        assert sorted(missing.ports.tolist()) == sorted(gone.ravel().tolist())
        assert (len(missing.moved), len(missing.replaced), len(missing.arrived)) == (0, 0, 0)
        assert missing.notes == ()


def test_what_is_new_is_told() -> None:
    whole = twin("ndr-pod")
    gone = whole.links[:2].ravel()
    missing = find_missing(whole.without(gone), whole)
    assert len(missing.ports) == 0
    adapters = int(np.count_nonzero(whole.kind[whole.port_node[gone]] == Kind.HCA))
    assert len(missing.arrived) == adapters
    assert adapters == 2 or f"has {plural(2 - adapters, 'cable')} and 0 switches" in missing.notes[0]


def with_new_guids(fabric: Fabric, nodes: np.ndarray) -> Fabric:
    """The fabric with other hardware in some places: GUIDs of nodes and of their ports change, names stay."""
    shift = np.zeros(fabric.n_nodes, np.uint64)
    shift[nodes] = 1 << 40
    return replace(fabric, node_guid=fabric.node_guid + shift, port_guid=fabric.port_guid + shift[fabric.port_node])


@pytest.mark.parametrize("name", ["ndr-pod", "fdr10-mesh", "zone"])
@pytest.mark.parametrize("seed", range(4))
def test_what_was_replaced_is_known_by_its_place(name: str, seed: int) -> None:
    """Switches and adapters at random get new GUIDs while cables elsewhere fail: each is found, and nothing else."""
    whole, rng = twin(name), np.random.default_rng(seed)
    nodes = rng.choice(whole.n_nodes, int(rng.integers(1, 4)), replace=False)
    nodes = nodes[whole.kind[nodes] != Kind.AGGREGATION]
    far = whole.links[~np.isin(whole.port_node[whole.links], nodes).any(axis=1)]
    gone = rng.choice(far, 2, replace=False)
    now = relabelled(with_new_guids(whole.without(gone[:, 0]), nodes), rng, ports=False).fabric
    missing = find_missing(whole, now)
    assert sorted(missing.replaced[:, 0].tolist()) == sorted(nodes.tolist())
    assert [now.names[there] for there in missing.replaced[:, 1]] == [
        whole.names[node] for node in missing.replaced[:, 0]
    ]
    lost = np.isin(whole.port_node, nodes) | np.isin(whole.peer_node, nodes)
    assert set(missing.ports.tolist()) == set(gone.ravel().tolist()) | set(np.flatnonzero(lost & (whole.peer >= 0)))
    assert (len(missing.moved), len(missing.arrived), missing.notes) == (0, 0, ())
    match = match_nodes(whole, now)
    assert sorted(match.replaced.tolist()) == sorted(nodes.tolist())
    assert find_missing(match.adopted, now).ports.tolist() == missing.ports[~lost[missing.ports]].tolist()
    found = find_differences(whole, now)
    assert sum(one.kind == "replaced" for one in found.found) == len(nodes)
    assert len(match_nodes(whole, with_new_guids(whole, np.arange(whole.n_nodes))).replaced) == 0  # none is known


def test_what_was_replaced_is_known_by_its_cables_alone() -> None:
    """Without names, and a known switch that takes the place of another is none that was replaced."""
    whole = twin("fdr10-mesh")
    nameless = replace(whole, names=("",) * whole.n_nodes)
    now = with_new_guids(nameless, np.array([3]))
    assert match_nodes(nameless, now).replaced.tolist() == [3]
    guid, port_guid = whole.node_guid.copy(), whole.port_guid.copy()
    guid[3], guid[4] = guid[4], 1 << 62
    port_guid[whole.port_node == 3] = guid[3]
    port_guid[whole.port_node == 4] = guid[4]
    moved = replace(nameless, node_guid=guid, port_guid=port_guid)
    moved = moved.without(np.flatnonzero((whole.port_node == 4) & (whole.peer >= 0)))
    match = match_nodes(nameless, moved)
    assert match.node[3] == 3 and 3 not in match.replaced


def test_an_adapter_under_the_guid_of_its_port_is_the_same() -> None:
    """Some formats tell no node GUID of adapters."""
    whole = twin("ndr-pod")
    guid = whole.node_guid.copy()
    for node in range(whole.n_switches, whole.n_nodes):
        guid[node] = whole.port_guid[whole.port_offset[node]]
    other = replace(whole, node_guid=guid)
    assert len(match_nodes(whole, other).replaced) == len(match_nodes(other, whole).replaced) == 0


def test_another_fabric_is_refused() -> None:
    with pytest.raises(HeddleError, match="no node GUID"):
        find_missing(preset("lab-20").fabric, twin("ndr-pod"))


@given(st.lists(st.sampled_from(["", "a", "b", "c", "d"])), st.lists(st.sampled_from(["", "a", "b", "c", "d"])))
def test_keys_match_where_both_sides_have_them_once(keys: list[str], others: list[str]) -> None:
    for key, place in zip(keys, match_keys(keys, others).tolist(), strict=True):
        once = key != "" and sum(one == key for one in keys) == 1 == sum(one == key for one in others)
        assert place == (others.index(key) if once else -1)
