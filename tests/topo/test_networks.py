"""Several networks in one plan: what hangs where, one set of names, and tables for those with a subnet manager only."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import topo
from costmodel.bills import bill
from plan.cli import run

TREE = {"shape": "fat-tree", "switch": "QM9790"}
ETHERNET = {"shape": "fat-tree", "switch": "SN5600", "split": True}
NODES = {
    "gpu": {"model": "dgx-h100", "count": 6},
    "st": {"model": "storage-ndr", "count": 3},
    "head": {"model": "management-ndr", "count": 2},
}


def cluster(networks: dict[str, object], **more: object) -> topo.Cluster:
    network = {"shape": "rail", "unit_nodes": 4, "tree": {"switch": "QM9790"}}
    return topo.parse({"name": "pod", "nodes": NODES, "network": network, "networks": networks} | more)


@given(
    st.dictionaries(
        st.sampled_from(["storage", "in-band", "leaf", "x"]),
        st.tuples(
            st.dictionaries(st.sampled_from(sorted(NODES)), st.integers(1, 3), min_size=1),
            st.sampled_from([TREE, ETHERNET]),
        ),
        max_size=3,
    )
)
def test_every_adapter_hangs_in_one_network_and_has_a_number_of_its_own(networks):
    specs = {name: {"network": shape, "adapters": adapters} for name, (adapters, shape) in networks.items()}
    found = cluster(specs)
    adapters = Counter(name for fabric in found.fabrics for name in fabric.names[fabric.n_switches :])
    switches = Counter(fabric.label(node) for fabric in found.fabrics for node in range(fabric.n_switches))
    elsewhere = {group for own, _ in networks.values() for group in own}
    per_server = {"gpu": 8, "st": 0 if "st" in elsewhere else 2, "head": 0 if "head" in elsewhere else 1}
    for own, _ in networks.values():
        for group, count in own.items():
            per_server[group] += count
    wanted = {
        f"{group}{number} mlx5_{device}"
        for group, count in per_server.items()
        for number in range(NODES[group]["count"])
        for device in range(count)
    }

    assert set(adapters) == wanted and max(adapters.values()) == 1
    assert max(switches.values()) == 1
    assert [fabric in found.subnets for fabric in found.fabrics] == sorted(
        (fabric in found.subnets for fabric in found.fabrics), reverse=True
    )
    assert len(found.fabrics) - len(found.subnets) == sum(shape is ETHERNET for _, shape in networks.values())
    assert bill(found).count("adapter") == len(wanted)
    assert found.counts.gpu_nodes == 6 and found.counts.storage_nodes == 3


def test_a_plan_of_several_networks_has_tables_for_its_subnets_and_one_cable_list(tmp_path: Path) -> None:
    spec = {
        "name": "pod", "nodes": NODES, "network": {"shape": "rail", "unit_nodes": 4, "tree": {"switch": "QM9790"}},
        "networks": {
            "storage": {"network": TREE, "adapters": {"gpu": 2, "st": 2}},
            "in-band": {"network": ETHERNET, "adapters": {"gpu": 2, "st": 1, "head": 1}},
        },
        "floor": {"rack_units": 48},
    }  # fmt: skip
    (tmp_path / "pod.yaml").write_text(json.dumps(spec))
    out = tmp_path / "out"
    assert run(["build", str(tmp_path / "pod.yaml"), "-o", str(out)]) in (0, 3)
    document = json.loads((out / "plan.json").read_text())
    lines = (out / "cables.csv").read_text().splitlines()

    assert [subnet["name"] for subnet in document["subnets"]] == ["pod", "pod-storage"]
    assert document["without_tables"] == ["pod-in-band"]
    assert not (out / "pod-in-band").exists()
    assert len(lines) - 1 == document["counts"]["links"]
    assert any(",in-band-leaf0," in line for line in lines)


def test_ethernet_alone_is_a_plan_without_tables(tmp_path: Path, capsys) -> None:
    spec = {"name": "eth", "nodes": {"gpu": {"model": "dgx-b300-spectrum", "count": 4}},
            "network": {"shape": "fat-tree", "switch": "SN5600"}}  # fmt: skip
    (tmp_path / "eth.yaml").write_text(json.dumps(spec))
    assert run(["build", str(tmp_path / "eth.yaml"), "-o", str(tmp_path / "out")]) in (0, 3)
    assert "no subnet manager" in capsys.readouterr().out
    assert run(["export", str(tmp_path / "eth.yaml"), "opensm", "-o", str(tmp_path / "x")]) == 2
    assert "found Ethernet only" in capsys.readouterr().err


def test_switches_of_two_protocols_are_not_linked() -> None:
    network = {"shape": "fat-tree", "switch": "QM9790", "spine_switch": "SN5600", "levels": 2}
    nodes = {"gpu": {"model": "dgx-h100", "count": 6}}
    with pytest.raises(topo.DesignError, match="Ethernet and of InfiniBand"):
        _ = topo.parse({"name": "x", "nodes": nodes, "network": network}).fabrics


def test_what_is_wrong_with_a_network_says_which() -> None:
    bad = {"storage": {"network": TREE | {"levels": 1, "spines": 2}, "adapters": {"gpu": 1}}}
    with pytest.raises(topo.DesignError, match=r"networks\.storage: `spines`"):
        _ = cluster(bad).fabrics
    with pytest.raises(topo.SpecError, match=r"networks\.storage\.adapters"):
        cluster({"storage": {"network": TREE, "adapters": {"nobody": 1}}})


def test_a_twin_of_the_first_network_is_the_same_network() -> None:
    """Cables of the first network are where they were, whatever stands beside it."""
    alone = cluster({}, nodes={"gpu": NODES["gpu"]}).fabrics[0]
    beside = cluster({"storage": {"network": TREE, "adapters": {"gpu": 2, "st": 2, "head": 1}}}).fabrics[0]
    assert np.array_equal(alone.peer, beside.peer) and alone.names == beside.names
