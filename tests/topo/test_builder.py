"""Names over a whole plan: every server and every switch of every subnet has one that nothing else has."""

import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

import topo

TREE = {"switch": "QM8700"}
NETWORKS = {
    "tree": TREE | {"shape": "fat-tree", "levels": 2},
    "rails": {"shape": "rail", "unit_nodes": 4, "tree": TREE},
    "rails and storage": {"shape": "rail", "unit_nodes": 4, "tree": TREE, "storage": TREE | {"levels": 2}},
    "planes": {"shape": "planes", "planes": 2, "tree": TREE | {"levels": 2}},
    "dragonfly": {"shape": "dragonfly", "switch": "QM8700", "groups": 3, "switches": 3, "hosts": 14, "global_links": 2},
}
WORDS = ["gpu", "leaf", "spine", "sw-leaf", "storage-leaf", "storage-spine", "p0-leaf", "p1-spine", "g0-leaf"]


@given(st.sampled_from(sorted(NETWORKS)), st.lists(st.sampled_from(WORDS), min_size=2, max_size=2, unique=True))
def test_nothing_has_the_name_of_another(network, groups):
    storage = {"model": "storage-3fs", "count": 3}
    nodes = {groups[0]: {"model": "dgx-a100", "count": 10}, groups[1]: storage}
    fabrics = topo.parse({"name": "x", "nodes": nodes, "network": NETWORKS[network]}).fabrics
    switches = [fabric.label(switch) for fabric in fabrics for switch in range(fabric.n_switches)]
    servers = {name for fabric in fabrics for name in fabric.hosts}

    assert max(Counter([*switches, *servers]).values()) == 1
    assert not {re.sub(r"\d+$", "", name) for name in switches} & set(groups), "leaf00 beside leaf0 is one too many"
    assert max(len(name) for fabric in fabrics for name in fabric.names) < 64, "a NodeDescription has 64 bytes"


@pytest.mark.parametrize("preset", ["dgx-a100-superpod", "deepseek-v3-2048"])
def test_subnets_of_presets_differ_in_more_than_the_digits_of_a_number(preset):
    fabrics = topo.preset(preset).fabrics
    of_subnet = [{f.label(switch).rstrip("0123456789") for switch in range(f.n_switches)} for f in fabrics]
    assert max(Counter(stem for stems in of_subnet for stem in stems).values()) == 1


def test_the_first_subnet_keeps_its_names():
    compute, storage = topo.preset("dgx-a100-superpod").fabrics
    assert (compute.label(0), storage.label(0)) == ("leaf00", "storage-leaf0")
    assert storage.names[0] == "MF0;storage-leaf0:MQM8790/U1"
