"""Names and models that somebody chose to be read for something else, in every file for other programs."""

import csv
import io
import re
from dataclasses import replace
from types import SimpleNamespace
from xml.etree import ElementTree

import openpyxl
import pytest
from ruamel.yaml import YAML

import costmodel
import routing
import topo
from helpers.presets import routed_lab
from plan.export.bom import format_bom_csv, format_bom_xlsx
from plan.export.fabric import format_dot, format_graphml
from plan.export.names import system_type, word_of, yaml_text
from plan.export.netbox import netbox_files
from plan.export.p2p import format_hca_mapping, format_p2p_xlsx
from plan.export.scheduling import (
    format_node_labels,
    format_topograph_model,
    format_topology_conf,
    format_topology_yaml,
    slurm_units,
)
from plan.export.topo_file import format_ibdm_topo, format_topo, ibnl_files
from plan.ranking import rank_files
from routing.opensm import opensm_files

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
    "a[1-9999999],b",
    "x y=z",
    "$(reboot);`id`&",
    "<b>&amp;</script>",
    "\u0663",
    "x_99999999999",
    "9" * 5000,
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
        fabric, name=name, names=tuple(names), hosts=tuple(hosts), models=tuple(name + model for model in fabric.models)
    )


def hostile_everywhere() -> topo.Fabric:
    """A fabric all of whose names are such, each with a number to tell it apart."""
    fabric = topo.preset("lab-20").fabric
    hosts = tuple(f"{NAMES[n % len(NAMES)]}{n:03d}" for n in range(len(fabric.hosts)))
    return replace(
        fabric,
        name=NAMES[0],
        hosts=hosts,
        names=tuple(
            f"{hosts[host]} {NAMES[n % len(NAMES)]}" if host >= 0 else f"{NAMES[n % len(NAMES)]}-{n:03d}"
            for n, host in enumerate(fabric.host.tolist())
        ),
    )


@pytest.mark.slow
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


@pytest.mark.parametrize("fabric", [*map(hostile, NAMES), hostile_everywhere()], ids=[*NAMES[:-1], "digits", "all"])
def test_slurm_and_ibdm(fabric):
    tree = YAML(typ="safe", pure=True).load(format_topology_yaml([fabric]))
    assert all(isinstance(entry["switch"], str) for entry in tree[0]["tree"]["switches"])
    comment, *lines = format_topology_conf([fabric]).splitlines()
    assert comment.startswith("# ")
    listed = []
    for line in lines:
        words = re.fullmatch(r"SwitchName=([^\s\"'#=,\\]+) (Nodes|Switches)=([^\s\"'#=\\]+)", line)
        assert words, line
        listed += topo.expand(words[3]) if words[2] == "Nodes" else []
    assert sorted(listed) == sorted(node for leaf in slurm_units([fabric]) for node in leaf.nodes)
    assert len(listed) == len(fabric.hosts) - 4  # without storage
    for file, text in ibnl_files(fabric).items():
        assert "/" not in file and not file.startswith(".")
        assert all(
            re.fullmatch(r"|TOPSYSTEM \S+|NODE (SW|CA) \d+ MT\d+ \S+| +\d+ -> \S+", line) for line in text.splitlines()
        )
    for text in (format_topo(fabric), format_ibdm_topo(fabric)):
        for line in text.splitlines()[1:]:
            assert re.fullmatch(r"|[^\s#]+ [^\s#]+|   P\d+ -\S*> [^\s#]+ [^\s#]+ [^\s#]+", line), line
    assert " " not in system_type(fabric, 0, {})


@pytest.mark.parametrize("name", NAMES[:-1])  # a key of YAML has 1,024 characters at most
def test_topograph(name):
    fabric = hostile(name)
    leaves = slurm_units([fabric])
    load = YAML(typ="safe", pure=True).load_all
    (model,) = load(format_topograph_model([fabric]))
    assert list(model["nodes"]) == [node for leaf in leaves for node in leaf.nodes]
    labels = [entry for entry in load(format_node_labels([fabric])) if entry]
    assert [entry["metadata"]["name"] for entry in labels] == list(model["nodes"])
    for entry in labels:
        assert entry.keys() == {"apiVersion", "kind", "metadata"}
        assert all(isinstance(value, str) for value in entry["metadata"]["labels"].values())


def test_graphs():
    fabric = hostile_everywhere()
    for line in format_dot(fabric).splitlines():
        text = r'"(?:[^"\\]|\\.)*"'
        assert re.fullmatch(
            rf"graph {text} \{{|  rankdir.*|  \{{rank=same( n\d+)*\}}|  n\d+ \[label={text}\];|"
            r"  n\d+ -- n\d+( \[label=\d+, penwidth=\d\])?;|\}", line
        ), line  # fmt: skip
    root = ElementTree.fromstring(format_graphml(fabric))
    texts = {data.text for data in root.iter() if data.text}
    assert texts >= set(fabric.names)
    drawn = ElementTree.fromstring(topo.draw(fabric).svg)
    assert {element.tag.rpartition("}")[2] for element in drawn.iter()} <= SVG


SVG = {"a", "circle", "clipPath", "defs", "desc", "g", "line", "path", "polygon", "polyline", "rect", "style", "svg",
       "symbol", "text", "title", "tspan", "use"}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_workbooks_and_bills_hold_text(name):
    cluster = topo.preset("lab-20")
    fabric = hostile(name)
    quote = costmodel.quote(cluster)
    line = quote.cost.lines[0]
    spoilt = replace(line, line=replace(line.line, item=name), source=name)
    cost = replace(quote.cost, unit=name, lines=(spoilt, *quote.cost.lines[1:]))
    for book, shown in (
        (format_p2p_xlsx(name, [fabric], cluster.catalog), word_of(name)),
        (format_bom_xlsx(name, cluster.catalog, cost, quote.power), name),
    ):
        found = [cell for sheet in openpyxl.load_workbook(io.BytesIO(book)) for row in sheet for cell in row]
        assert any(isinstance(cell.value, str) and shown in cell.value for cell in found)
        assert not [cell.value for cell in found if cell.data_type == "f" and name in str(cell.value)]
    for text in (format_bom_csv(cost), format_hca_mapping([fabric])):
        for row in csv.reader(io.StringIO(text, newline=""), strict=True):
            assert not any(len(cell) > 1 and cell[0] in "=@" for cell in row)


@pytest.mark.parametrize("name", NAMES)
def test_what_a_shell_reads_holds_plain_names_or_is_refused(name):
    for names, devices in (((name, "gpu01"), ("mlx5_0",)), (("gpu00", "gpu01"), (name,))):
        try:
            files = rank_files(SimpleNamespace(algorithm="ring", rails=1, names=names), devices, 2)
        except topo.HeddleError as error:
            assert "expected letters" in str(error)
        else:
            assert re.fullmatch(r"[0-9A-Za-z_.]+", name) and files


@pytest.mark.slow
def test_opensm_reads_the_lines_that_there_are():
    files = opensm_files(routing.route(hostile_everywhere()))
    plain = opensm_files(routed_lab())
    assert files.keys() == plain.keys()
    for file, content in files.items():
        text, usual = (
            (part if isinstance(part, bytes) else b"".join(part)).decode().split("\n")
            for part in (content, plain[file])
        )
        assert len(text) == len(usual), file
        for line, like in zip(text, usual, strict=True):
            if file == "node-name-map":
                assert re.fullmatch(r'0x[0-9a-f]{16} "[^"#]*"|', line), line
            elif file == "lfts":
                assert line.partition("#")[0].split()[:4] == like.partition("#")[0].split()[:4] or line[0] == "U", line
            elif file not in ("README.md",):
                assert line.partition("#")[0] == like.partition("#")[0], (file, line)


@pytest.mark.parametrize("text", [*NAMES, "\x85", "\u2028", "tab\t", "back\\slash", "\U0001f600", "\x7f"])
def test_text_in_yaml_is_that_text(text):
    for version in ((1, 1), (1, 2)):
        yaml = YAML(typ="safe", pure=True)
        yaml.version = version
        assert yaml.load(f"a: {yaml_text(text)}\n") == {"a": text}
