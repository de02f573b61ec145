"""Any spec compiles into a fabric whose ports are consistent, or is refused with a message that holds the numbers."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import topo
from helpers.clusters import CATALOG
from routing.engines.base import route
from topo.cluster import Cluster, validate_spec
from topo.errors import DesignError, RoutingError
from topo.fabric import Kind, Role
from topo.files.yaml import parse_yaml

SWITCHES = st.sampled_from(["QM8700", "QM9700", "SB7800", "CS8500"])
SMALL = st.integers(1, 12)


def maybe(strategy):
    return st.none() | strategy


def mapping(**keys):
    """A mapping without the keys that are left out."""
    return st.fixed_dictionaries(keys).map(
        lambda found: {key: value for key, value in found.items() if value is not None}
    )


TREE = mapping(
    switch=SWITCHES,
    levels=st.sampled_from([2, 2, 3]),
    leaves=maybe(SMALL),
    spines=maybe(SMALL),
    parallel=maybe(st.integers(1, 4)),
    cores=maybe(st.integers(1, 40)),
    leaves_per_pod=maybe(SMALL),
    oversubscription=maybe(st.sampled_from([1, 1.5, 2, 3])),
    spine_oversubscription=maybe(st.sampled_from([1, 2])),
    split=maybe(st.sampled_from([True, "nodes"])),
    spine_switch=maybe(st.sampled_from(["QM8700", "CS8500"])),
    core_switch=maybe(st.just("CS8500")),
)
OTHERS = {"nodes": st.just(["storage"]), "groups": SMALL, "hosts": SMALL, "global_links": SMALL}
ZONES = mapping(
    shape=st.just("zones"),
    zones=st.integers(2, 4),
    tree=TREE,
    shared=maybe(st.just(["storage"])),
    joints=mapping(
        switch=SWITCHES,
        count=st.integers(1, 4),
        ports=st.integers(1, 40),
        placement=st.sampled_from(["border", "spread"]),
    ),
)
SHAPES = st.one_of(
    TREE.map(lambda tree: tree | {"shape": "fat-tree"}),
    ZONES,
    mapping(shape=st.just("planes"), planes=st.integers(1, 3), tree=TREE),
    mapping(
        shape=st.just("rail"),
        unit_nodes=st.integers(1, 30),
        rails=maybe(st.sampled_from([1, 2, 4])),
        planes=maybe(st.sampled_from([1, 2])),
        tree=TREE,
        storage=maybe(TREE),
    ),
    mapping(shape=st.just("bigraph"), switch=SWITCHES, side=st.integers(1, 50), parallel=maybe(st.integers(1, 5))),
    mapping(
        shape=st.just("dragonfly"),
        switch=SWITCHES,
        groups=SMALL,
        switches=SMALL,
        hosts=SMALL,
        global_links=SMALL,
        parallel=maybe(st.integers(1, 3)),
        between=maybe(SMALL),
        split=maybe(st.sampled_from([True, "nodes"])),
        others=maybe(st.tuples(mapping(switches=SMALL, parallel=maybe(st.integers(1, 3)), **OTHERS)).map(list)),
    ),
    mapping(
        shape=st.just("dragonfly+"),
        switch=SWITCHES,
        groups=SMALL,
        leaves=SMALL,
        spines=SMALL,
        hosts=SMALL,
        global_links=SMALL,
        parallel=maybe(st.integers(1, 3)),
        between=maybe(SMALL),
        split=maybe(st.sampled_from([True, "nodes"])),
        others=maybe(st.tuples(mapping(leaves=SMALL, spines=SMALL, **OTHERS)).map(list)),
    ),
    mapping(shape=st.just("slim-fly"), switch=SWITCHES, q=st.integers(3, 9), hosts=maybe(SMALL)),
    mapping(
        shape=st.sampled_from(["hyperx", "torus"]),
        switch=SWITCHES,
        sizes=st.lists(st.integers(2, 5), min_size=1, max_size=3),
        hosts=SMALL,
    ),
    mapping(shape=st.just("k-ary-n-tree"), switch=SWITCHES, k=st.integers(2, 5), n=st.integers(1, 3)),
)
SPECS = st.fixed_dictionaries(
    {
        "name": st.just("test"),
        "nodes": st.fixed_dictionaries(
            {
                "gpu": st.fixed_dictionaries(
                    {"model": st.sampled_from(["pcie-a100", "dgx-a100"]), "count": st.integers(1, 60)}
                )
            },
            optional={"storage": st.fixed_dictionaries({"model": st.just("storage-3fs"), "count": st.integers(1, 20)})},
        ),
        "network": SHAPES,
    }
)


def compiled(spec):
    document = parse_yaml(json.dumps(spec), "spec.yaml")
    return Cluster(validate_spec(document, CATALOG), CATALOG).fabrics


@given(SPECS)
def test_ports_are_consistent_or_the_design_is_refused(spec):
    if "storage" in spec["network"].get("shared", []) and "storage" not in spec["nodes"]:
        del spec["network"]["shared"]
    if "storage" not in spec["nodes"]:
        spec["network"].pop("others", None)
    try:
        fabrics = compiled(spec)
    except DesignError as refusal:
        assert str(refusal)
        return
    wanted = sum(group["count"] for group in spec["nodes"].values())
    assert len({host for fabric in fabrics for host in fabric.hosts}) == wanted
    for fabric in fabrics:
        plugged = np.flatnonzero(fabric.peer >= 0)
        assert (fabric.peer[fabric.peer[plugged]] == plugged).all()
        assert (fabric.peer[plugged] != plugged).all()
        assert (fabric.rate_gbps[plugged] == fabric.rate_gbps[fabric.peer[plugged]]).all()
        assert len(set(fabric.names)) == len(set(fabric.node_guid.tolist())) == fabric.n_nodes
        adapters = fabric.kind == Kind.HCA
        assert (np.diff(fabric.port_offset)[adapters] == 1).all()
        assert (fabric.end_switch[fabric.n_switches :] >= 0).all()
        assert np.isin(fabric.role[adapters], (Role.COMPUTE, Role.STORAGE)).all()
        assert (fabric.zone[adapters] == fabric.zone[fabric.end_switch[fabric.n_switches :]]).all()


def test_names_and_guids_do_not_depend_on_what_else_is_in_the_cluster():
    small, large = (
        compiled({"name": "test", "nodes": {"gpu": {"model": "pcie-a100", "count": count}},
                  "network": {"shape": "fat-tree", "switch": "QM8700", "leaves": 8}})[0]
        for count in (20, 99)
    )  # fmt: skip
    guid = dict(zip(large.names, large.node_guid.tolist(), strict=True))

    assert {name: guid[name] for name in small.names} == dict(zip(small.names, small.node_guid.tolist(), strict=True))


@pytest.mark.parametrize("placement", ["border", "spread"])
def test_each_role_is_spread_evenly_over_leaves(placement):
    spec = {
        "name": "test",
        "nodes": {"gpu": {"model": "pcie-a100", "count": 1200}, "storage": {"model": "storage-3fs", "count": 180}},
        "network": {
            "shape": "zones", "zones": 2, "tree": {"switch": "QM8700", "leaves": 40, "spines": 20},
            "shared": ["storage"], "joints": {"switch": "QM8700", "count": 2, "ports": 20, "placement": placement},
        },
    }  # fmt: skip
    (fabric,) = compiled(spec)
    for role in (Role.COMPUTE, Role.STORAGE):
        ends = np.flatnonzero(fabric.role[fabric.end_node] == role)
        counts = np.bincount(fabric.end_switch[ends], minlength=fabric.n_switches)
        leaves = np.flatnonzero(np.bincount(fabric.end_switch[fabric.n_switches :], minlength=fabric.n_switches))
        assert np.ptp(counts[leaves]) <= 1


def big(text: str, count: int) -> topo.Cluster:
    return topo.parse(f"name: big\nnodes: {{a: {{model: pcie-a100, count: {count}}}}}\nnetwork: {text}\n")


@pytest.mark.slow
def test_what_nobody_builds_is_refused_before_it_fills_the_memory():
    cluster = big("{shape: torus, switch: QM9700, sizes: [100, 100, 100, 100], hosts: 4}", 10)
    with pytest.raises(DesignError, match="more than 300,000 switches and adapter ports"):
        _ = cluster.fabrics


@pytest.mark.slow
def test_what_exceeds_the_lids_of_a_subnet_is_counted_and_not_routed():
    cluster = big("{shape: fat-tree, switch: QM9700, levels: 3, oversubscription: 3}", 60_000)
    assert cluster.counts.host_ports == 60_000
    with pytest.raises(RoutingError, match="49,151 unicast LIDs"):
        route(cluster.fabric)
