"""topograph's model and labels of nodes: the same tree as Slurm gets, out of a plan and out of a live fabric."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from ruamel.yaml import YAML

import topo
from helpers.twins import path
from plan.cli import plan
from plan.export.scheduling import find_leaves, format_node_labels, format_topograph_model, label_value

LABEL = "network.topology.nvidia.com/"


def load(text: str) -> list:
    return list(YAML(typ="safe", pure=True).load_all(text))


@pytest.mark.parametrize("preset", ["lab-20", pytest.param("fire-flyer-2", marks=pytest.mark.slow)])
def test_every_compute_node_has_one_place(preset: str) -> None:
    fabrics = topo.preset(preset).fabrics
    (model,) = load(format_topograph_model(fabrics))
    leaves = find_leaves(fabrics)
    below = [node for switch in model["switches"].values() for node in switch.get("nodes", ())]
    hosts = {
        fabrics[0].hosts[fabrics[0].host[n]] for n in fabrics[0].end_node[fabrics[0].ends(role="compute")].tolist()
    }
    assert sorted(below) == sorted(hosts) == sorted(model["nodes"])
    named = [name for switch in model["switches"].values() for name in switch.get("switches", ())]
    assert len(named) == len(set(named))
    assert {leaf.name for leaf in leaves} <= set(named) <= set(model["switches"])
    labels = {one["metadata"]["name"]: one["metadata"]["labels"] for one in load(format_node_labels(fabrics)) if one}
    assert labels.keys() == hosts
    for leaf in leaves:
        for node in leaf.nodes:
            assert labels[node][LABEL + "leaf"] == leaf.name


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
