"""Names and models that somebody chose to be read for something else, in every file for other programs."""

import csv
import io
from dataclasses import replace

import pytest
from ruamel.yaml import YAML

import topo
from plan.export.netbox import netbox_files
from plan.export.slurm import format_topology_yaml
from plan.export.systems import system_type
from plan.export.text import yaml_text
from plan.export.topo_file import ibnl_files

NAMES = [
    '=cmd|"/C calc"!A0',
    "+1+1",
    "-2+3",
    "@SUM(A1)",
    "a: [b",
    "yes",
    "1e3",
    "~",
    "x # y",
    "../../etc/passwd",
    'q"q',
    "0x10",
]


def hostile(name: str) -> topo.Fabric:
    """A fabric with one name for the first switch, the first server and all models."""
    fabric = topo.preset("lab-20").fabric
    names = list(fabric.names)
    hosts = list(fabric.hosts)
    hosts[0] = name
    names[0] = name
    first = next(node for node in range(fabric.n_nodes) if fabric.host[node] == 0)
    names[first] = f"{name} mlx5_0"
    return replace(
        fabric, names=tuple(names), hosts=tuple(hosts), models=tuple(name + model for model in fabric.models)
    )


@pytest.mark.parametrize("name", NAMES)
def test_netbox_reads_the_names_that_there_are(name):
    cluster = topo.preset("lab-20")
    for file, text in netbox_files([hostile(name)], cluster.catalog, name).items():
        assert ".." not in file and not file.startswith("/")
        if file.endswith(".csv"):
            for row in csv.reader(io.StringIO(text, newline=""), strict=True):
                assert not any(len(cell) > 1 and cell[0] in "=@" for cell in row)
        elif file.endswith(".yaml"):
            for version in ((1, 1), (1, 2)):
                yaml = YAML(typ="safe", pure=True)
                yaml.version = version
                read = yaml.load(text)
                assert all(isinstance(read[key], str) for key in ("manufacturer", "model", "slug"))
                assert read["manufacturer"] in ("NVIDIA", "Server")
                assert all(isinstance(item["name"], str) for item in read["interfaces"])


@pytest.mark.parametrize("name", NAMES)
def test_slurm_and_ibdm(name):
    fabric = hostile(name)
    tree = YAML(typ="safe", pure=True).load(format_topology_yaml([fabric]))
    assert all(isinstance(entry["switch"], str) for entry in tree[0]["tree"]["switches"])
    for file in ibnl_files(fabric):
        assert "/" not in file and not file.startswith(".")
    assert " " not in system_type(fabric, 0, {})


@pytest.mark.parametrize("text", [*NAMES, "\x85", "\u2028", "tab\t", "back\\slash", "\U0001f600", "\x7f"])
def test_text_in_yaml_is_that_text(text):
    for version in ((1, 1), (1, 2)):
        yaml = YAML(typ="safe", pure=True)
        yaml.version = version
        assert yaml.load(f"a: {yaml_text(text)}\n") == {"a": text}
