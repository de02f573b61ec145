"""Exports for Slurm, topograph, Kubernetes and NFD: one tree, in the words of each version, from a plan and a dump."""

import random
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

import topo
from helpers.twins import path
from plan.cli import plan
from plan.export.registry import export_files
from plan.export.scheduling import (
    compare_topologies,
    format_node_features,
    format_node_labels,
    format_topograph_model,
    format_topology_conf,
    format_topology_yaml,
    label_value,
    read_topology_conf,
)
from plan.export.units import find_units
from topo import expand

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
@pytest.mark.slow
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


def tree_of(text: str) -> tuple[dict[str, str], dict[str, str]]:
    """Parent of each switch, and switch of each node, of a ``topology.conf``."""
    switches, nodes = dict[str, str](), dict[str, str]()
    for name, kind, children in re.findall(r"^SwitchName=(\S+) (Switches|Nodes)=(\S+)$", text, re.MULTILINE):
        (switches if kind == "Switches" else nodes).update(dict.fromkeys(expand(children), name))
    return switches, nodes


def slurm_of_topograph(text: str, version: str) -> str:
    """What topograph makes of a model for Slurm, breadth first from the root: ``toTreeTopology`` in 1.0.0."""
    places = read_model(text, version)
    below: dict[str, dict[str, bool]] = {}
    for node, (*above,) in places.items():
        for child, switch in zip([node, *above], above, strict=False):
            below.setdefault(switch, {})[child] = child == node
    roots = [above[-1] for above in places.values()]
    queue, lines = list(dict.fromkeys(roots)), []
    while queue:
        switch = queue.pop(0)
        children = [child for child, is_node in below[switch].items() if not is_node]
        nodes = [child for child, is_node in below[switch].items() if is_node]
        lines += [f"SwitchName={switch} Switches={','.join(children)}"] if children else []
        lines += [f"SwitchName={switch} Nodes={','.join(nodes)}"] if nodes else []
        queue += children
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("version", ["0.5", "1.0"])
@pytest.mark.parametrize("preset", ["lab-20", "k-ary-tree", "dgx-h100-48"])
def test_over_topograph_slurm_gets_the_same_tree(preset: str, version: str) -> None:
    fabrics = topo.preset(preset).fabrics
    model, ours = format_topograph_model(fabrics), format_topology_conf(fabrics)
    assert tree_of(slurm_of_topograph(model, version)) == tree_of(ours) != ({}, {})
    moved = re.sub(r"^- switch: .*", "- switch: fabric" if version == "1.0" else r"\g<0>", model, flags=re.MULTILINE)
    assert (tree_of(slurm_of_topograph(moved, version)) == tree_of(ours)) == (version == "0.5")


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


@given(st.integers(1, 6), st.integers(1, 8), st.randoms(use_true_random=False))
def test_a_file_is_compared_with_the_fabric_whatever_its_switches_are_called(
    units: int, size: int, rng: random.Random
) -> None:
    ours = {f"n{unit:02d}-{at:02d}": f"unit{unit}" for unit in range(units) for at in range(size)}
    names = rng.sample(range(100), units)
    theirs = {node: f"sw{names[int(unit.removeprefix('unit'))]}" for node, unit in ours.items()}
    assert compare_topologies(theirs, ours) == []
    gone = rng.choice(sorted(ours))
    others = {node: switch for node, switch in theirs.items() if node != gone}
    assert any(line.startswith(f"{gone}: in the compute network") for line in compare_topologies(others, ours))
    assert any(line.startswith(f"{gone}: in the file") for line in compare_topologies(
        theirs, {node: unit for node, unit in ours.items() if node != gone}))  # fmt: skip
    if units > 1 and size > 2:
        moved = theirs | {gone: next(switch for switch in theirs.values() if switch != theirs[gone])}
        (line,) = compare_topologies(moved, ours)
        assert line.startswith(f"{gone}: under {moved[gone]}, which has nodes of ")
        assert line.endswith(f"; its leaves are {ours[gone]}'s")


def test_our_own_file_is_read_back() -> None:
    for preset in ("lab-20", "k-ary-tree", "dgx-a100-superpod"):
        fabrics = topo.preset(preset).fabrics
        assert read_topology_conf(format_topology_conf(fabrics)) == {
            node: unit.name for unit in find_units(fabrics) for node in unit.nodes
        }
    assert read_topology_conf("switchname=a nodes=x[1-2] \\\n LinkSpeed=9 # c\n\n#\nSwitchName=b Switches=a\n") == {
        "x1": "a", "x2": "a",
    }  # fmt: skip


@pytest.mark.parametrize("line", ["Nodes=a", "SwitchName", "SwitchName=a Nodes=b[1-", "leaf0: a", "SwitchName=a x"])
def test_a_line_that_is_none_of_a_topology_conf_is_refused(line: str) -> None:
    with pytest.raises(topo.FormatError, match=":2"):
        read_topology_conf(f"# site\n{line}\n", "topology.conf")


def test_a_site_checks_its_file(tmp_path: Path) -> None:
    lab, file = str(topo.config_root() / "lab-20.yaml"), tmp_path / "topology.conf"
    file.write_text("SwitchName=s1 Nodes=gpu[00-07]\nSwitchName=s2 Nodes=gpu[08-15]\n")
    done = CliRunner().invoke(plan, ["export", lab, "slurm", "--check", str(file)], standalone_mode=False)
    assert (done.return_value, done.stdout) == (0, f"{file} agrees with the fabric: 16 nodes in 2 units\n")
    file.write_text("SwitchName=s1 Nodes=gpu[00-06,08]\nSwitchName=s2 Nodes=gpu[07,09-15]\n")
    done = CliRunner().invoke(plan, ["export", lab, "slurm", "--check", str(file)], standalone_mode=False)
    assert (done.return_value, done.stdout.splitlines()) == (1, [
        "gpu08: under s1, which has nodes of leaf0; its leaves are leaf1's",
        "gpu07: under s2, which has nodes of leaf1; its leaves are leaf0's",
    ])  # fmt: skip
    assert CliRunner().invoke(plan, ["export", lab, "dot", "--check", str(file)]).exit_code == 2


def test_a_rack_that_nvlink_joins_is_a_block_of_its_trays() -> None:
    """Every tray once, 18 to a block; the tree and the labels of tiers are those of the rack, as the network has it."""
    cluster = topo.parse({
        "name": "racks", "nodes": {"rack": {"model": "gb200-nvl72", "count": 4}},
        "network": {"shape": "rail", "rails": 4, "unit_nodes": 1, "tree": {"switch": "QM9700"}},
    })  # fmt: skip
    fabrics, catalog = cluster.fabrics, cluster.catalog
    (tree, blocks) = load(format_topology_yaml(fabrics, catalog))[0]
    named = {one["block"]: expand(one["nodes"]) for one in blocks["block"]["blocks"]}
    assert {len(nodes) for nodes in named.values()} == {18} and len(named) == 4
    assert blocks["block"]["block_sizes"] == [18, 36, 72]
    racks = {host: unit.name for unit in find_units(fabrics) for host in unit.nodes}
    assert named.keys() == racks.keys()
    leaf = read_topology_conf(format_topology_conf(fabrics, catalog))
    assert leaf == {node: racks[rack] for rack, nodes in named.items() for node in nodes}
    in_tree = [node for one in tree["tree"]["switches"] for node in expand(one.get("nodes", ""))]
    assert sorted(in_tree) == sorted(leaf)
    rack_of = {node: rack for rack, nodes in named.items() for node in nodes}
    key = "accelerator.topograph.run/domain"
    for one in load(format_node_labels(fabrics, catalog)):
        if one:
            assert one["metadata"]["labels"][key] == rack_of[one["metadata"]["name"]]
    for one in load(format_node_features(fabrics, catalog)):
        if one:
            assert one["spec"]["labels"][key] == rack_of[one["metadata"]["labels"][NODE]]
    assert set(read_model(format_topograph_model(fabrics, catalog), "1.0")) == set(rack_of)
    assert set(read_topology_conf(format_topology_conf(fabrics))) == set(racks)  # a dump does not know trays


@pytest.mark.slow
def test_one_subnet_is_exported_alone(tmp_path: Path) -> None:
    spec = str(topo.config_root() / "dgx-a100-superpod.yaml")
    for subnet, units in ((None, 7), ("dgx-a100-superpod", 7), ("dgx-a100-superpod-storage", 8)):
        files = export_files(spec, "slurm", subnet=subnet)
        assert len({*read_topology_conf(str(files["exports/topology.conf"])).values()}) == units, subnet
    assert list(export_files(spec, "dot", subnet="dgx-a100-superpod")) == ["exports/fabric.dot"]
    for name, words in (("slurm", "expected one of dgx-a100-superpod, "), ("cables", "about the whole cluster")):
        with pytest.raises(topo.HeddleError, match=words):
            export_files(spec, name, subnet="x")
