"""Exports for Slurm, topograph, Kubernetes and NFD: one tree, in the words of each version, from a plan and a dump."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from ruamel.yaml import YAML

import topo
from helpers.twins import path
from plan.cli import plan
from plan.export.scheduling import (
    format_node_features,
    format_node_labels,
    format_topograph_model,
    format_topology_conf,
    format_topology_yaml,
    label_value,
)
from plan.export.units import find_units

NODE = "nfd.node.kubernetes.io/node-name"


def load(text: str) -> list:
    return list(YAML(typ="safe", pure=True).load_all(text))


def read_model(text: str, version: str) -> dict[str, list[str]]:
    """Return the switches above each node as topograph reads its model: a second, plain reader of published sources.

    Keys and rules are those of ``pkg/models/model.go`` in 0.5.0 (2026-06-30) and 1.0.0 (2026-08-18): what a loader does
    not know it passes over, and what it knows must fit together.
    """
    (model,) = load(text)
    switches = {name: one or {} for name, one in model["switches"].items()}
    parent = {child: name for name, one in switches.items() for child in one.get("switches", ())}
    assert len(parent) == sum(len(one.get("switches", ())) for one in switches.values()), "one parent each"
    if version == "0.5":
        declared = list(model.get("nodes", ()))
        at = {node: name for name, one in switches.items() for node in one.get("nodes", ())}
        assert set(parent) <= set(switches)
    else:
        blocks = model.get("blocks", ())
        declared = [node for block in blocks for node in block["nodes"]]
        at = {node: block["switch"] for block in blocks for node in block["nodes"] if block.get("switch")}
        assert set(at.values()) <= set(switches)
    assert len(declared) == len(set(declared))
    assert set(at) <= set(declared)
    found = {}
    for node in declared:
        found[node], switch = [], at.get(node)
        while switch is not None:
            found[node].append(switch)
            switch = parent.get(switch)
    return found


@pytest.mark.parametrize("version", ["0.5", "1.0"])
@pytest.mark.parametrize("preset", ["lab-20", "k-ary-tree", "dgx-a100-superpod", "fire-flyer-2"])
def test_each_version_of_topograph_reads_every_node_and_its_tiers(preset: str, version: str) -> None:
    fabrics = topo.preset(preset).fabrics
    text = format_topograph_model(fabrics)
    places = {node: [unit.name, *unit.above] for unit in find_units(fabrics) for node in unit.nodes}
    assert read_model(text, version) == places
    key = {"0.5": "nodes", "1.0": "blocks"}[version]
    renamed = re.sub(rf"^{key}:", f"{key}x:", text, flags=re.MULTILINE)
    try:
        assert read_model(renamed, version) == {}
    except AssertionError:
        assert version == "0.5", "which has nodes under switches that are not declared then"


def test_labels_are_those_of_both_versions_and_of_nfd() -> None:
    fabrics = topo.preset("k-ary-tree").fabrics
    labels = {one["metadata"]["name"]: one["metadata"]["labels"] for one in load(format_node_labels(fabrics)) if one}
    features = {one["metadata"]["labels"][NODE]: one for one in load(format_node_features(fabrics)) if one}
    assert labels.keys() == features.keys() == {node for unit in find_units(fabrics) for node in unit.nodes}
    for unit in find_units(fabrics):
        places = [unit.name, *unit.above]
        tiers = {f"fabric.topograph.run/tier-{tier}": place for tier, place in enumerate(places)}
        before = dict(zip(("leaf", "spine", "core"), places, strict=True))
        for node in unit.nodes:
            assert labels[node] == tiers | {f"network.topology.nvidia.com/{key}": at for key, at in before.items()}
            feature = features[node]
            assert feature["apiVersion"] == "nfd.k8s-sigs.io/v1alpha1"
            assert feature["spec"]["labels"] == tiers
            assert feature["spec"]["features"]["attributes"] == {
                "system.name": {"elements": {"nodename": node}},
                "topograph.network": {"elements": {f"fabric-tier-{tier}": at for tier, at in enumerate(places)}},
            }


def test_slurm_reads_what_its_parsers_take() -> None:
    """Keys of ``topology.yaml`` and of a line of ``topology.conf`` as Slurm's ``parsers.c`` and manual of 26.05 list
    them (2026-08-20): a switch has children or nodes, sizes of blocks are the first one times powers of two."""
    fabrics = topo.preset("k-ary-tree").fabrics
    (tree, blocks) = load(format_topology_yaml(fabrics))[0]
    assert tree.keys() == {"topology", "cluster_default", "tree"}
    assert blocks.keys() == {"topology", "cluster_default", "block"}
    assert all(one.keys() in ({"switch", "children"}, {"switch", "nodes"}) for one in tree["tree"]["switches"])
    assert blocks["block"].keys() == {"block_sizes", "blocks"}
    assert all(one.keys() == {"block", "nodes"} for one in blocks["block"]["blocks"])
    first, *others = blocks["block"]["block_sizes"]
    assert all(size % first == 0 and (size // first).bit_count() == 1 for size in others)
    for line in format_topology_conf(fabrics).splitlines()[1:]:
        assert re.fullmatch(r"SwitchName=\S{1,64} (Nodes|Switches)=\S+", line)


@pytest.mark.parametrize("name", ["", "core1/L02/U1", "-x-", "ü" * 80, "a b\x1b", "x" * 80])
def test_values_are_those_that_kubernetes_takes(name: str) -> None:
    assert re.fullmatch(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?", label_value(name))
    assert len(label_value(name)) <= 63


@pytest.mark.slow
def test_a_live_fabric_tells_compute_and_storage_apart(tmp_path: Path) -> None:
    rules = tmp_path / "roles"
    rules.write_text("storage storage*\n")
    dump = path("two-zones")
    found = {}
    for options in ([], ["--roles", str(rules)]):
        out = tmp_path / f"out{len(options)}"
        for name in ("topograph", "slurm"):
            done = CliRunner().invoke(plan, ["export", str(dump), name, "-o", str(out / name), *options])
            assert done.exit_code == 0, done.output
        (model,) = load((out / "topograph" / "topograph.yaml").read_text())
        found[bool(options)] = set(model["nodes"]), (out / "slurm" / "topology.conf").read_text()
    assert any(node.startswith("storage") for node in found[False][0])
    assert not any(node.startswith("storage") for node in found[True][0])
    assert "storage" in found[False][1]
    assert "storage" not in found[True][1]
