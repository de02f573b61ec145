"""What the people downstream get: each file holds the whole fabric, in the form that its readers take."""

import csv
import io
import re
import subprocess
from pathlib import Path

import networkx as nx
import numpy as np
import openpyxl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

import plan
import topo
from helpers.clusters import CATALOG, nodes, zoned
from plan.export.fabric import format_dot, format_graphml
from plan.export.netbox import netbox_files
from plan.export.p2p import format_hca_mapping, format_p2p_xlsx
from plan.export.scheduling import format_topology_conf, format_topology_yaml
from plan.export.topo_file import format_ibdm_topo, format_topo, format_topoconfig, ibnl_files
from topo.fabric import Role
from topo.hostlist import compress
from topo.shapes.fat_tree import FatTree
from topo.shapes.rail import Rail

SMALL = zoned(leaves=8, spines=4, n_gpus=60, n_storage=10, ports=4)
LINE = re.compile(r"   (\S+) (-4x-50G->|->) (\S+) (\S+) (\S+)")


def topo_links(text):
    """Links of a .topo file as unordered pairs of (system, port)."""
    links, system = [], ""
    for line in text.splitlines():
        if match := LINE.fullmatch(line):
            links.append(frozenset([(system, match[1]), (match[4], match[5])]))
        elif line and not line.startswith("#"):
            system = line.split()[1]
    return links


@pytest.mark.parametrize("form", [format_topo, format_ibdm_topo])
def test_topo_files_hold_each_link_once(form):
    links = topo_links(form(SMALL))

    assert len(links) == len(set(links)) == len(SMALL.links)
    assert frozenset([("z0-leaf0", "P1"), ("gpu00", "mlx5_0/P1")]) in links
    assert frozenset([("z1-leaf0", "P5"), ("storage0", "mlx5_1/P1")]) in links


def test_the_chip_of_a_switch_of_ones_own_decides_its_device_id(tmp_path: Path) -> None:
    """A row of the spec's catalog, not of the one that ships: an NDR switch whose hosts are HDR is no HDR switch."""
    (tmp_path / "switches.csv").write_text(
        "model,protocol,chip,radix,speed,chips,source,date,confidence\n"
        "ours,infiniband,Quantum-2,64,4xNDR,1,our shelf,2026-11-29,Q\n"
    )
    spec = tmp_path / "own.yaml"
    spec.write_text(
        "name: own\ncatalog: switches.csv\nnodes: {gpu: {model: pcie-a100, count: 8}}\n"
        "network: {shape: fat-tree, switch: ours, levels: 1}\n"
    )
    plan.build(spec, tmp_path / "out")
    written = tmp_path / "out" / "exports" / "ibnl"
    assert "devid=0xd2f2" in (tmp_path / "out" / "fabric.ibnetdiscover").read_text()
    assert any(f"MT{0xD2F2}" in file.read_text() for file in written.iterdir())


def defined_by_ibdmchk(folder, topo_text, ibnl):
    """What ibdmchk says that it has defined, if it ignored no line."""
    (folder / "fabric.topo").write_text(topo_text)
    for name, text in ibnl.items():
        (folder / name).write_text(text)
    command = ["ibdmchk", "-t", "fabric.topo", "-n", "gpu00/mlx5_0", "-p", "1"]
    run = subprocess.run(
        command, cwd=folder, env={"IBDM_IBNL_PATH": str(folder), "PATH": "/usr/bin:/usr/sbin"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    found = re.search(r"Defined \d+/\d+ systems/nodes", run.stdout)
    return found and "Ignoring" not in run.stdout + run.stderr and found[0]


@pytest.mark.peer("ibdmchk")
def test_ibdm_defines_every_system_and_notices_a_word_that_is_renamed(tmp_path):
    links, kinds = format_ibdm_topo(SMALL), ibnl_files(SMALL)
    # Storage servers are one system with two nodes.
    expected = f"Defined {SMALL.n_switches + 70}/{SMALL.n_switches + 80} systems/nodes"
    assert defined_by_ibdmchk(tmp_path, links, kinds) == expected
    for word in ("->", "QM8700 ", "HCA_mlx5_0 "):
        changed = links.replace(word, f"x{word}")
        assert changed != links and defined_by_ibdmchk(tmp_path, changed, kinds) != expected, word
    for word in ("TOPSYSTEM", "NODE", " SW ", " CA ", "->"):
        changed = {name: text.replace(word, f"{word.strip()}x ") for name, text in kinds.items()}
        assert changed != kinds and defined_by_ibdmchk(tmp_path, links, changed) != expected, word


def test_topoconfig_has_each_link_from_both_ends():
    line = re.compile(r"0x([0-9a-f]{16}),(\d+),0x([0-9a-f]{16}),(\d+),Any,Active")
    rows = [line.fullmatch(text).groups() for text in format_topoconfig(SMALL).splitlines()]
    node = {int(guid): at for at, guid in enumerate(SMALL.node_guid.tolist())}
    ends = [tuple(SMALL.port_id(node[int(guid, 16)], int(number)) for guid, number in ((a, p), (b, q)))
            for a, p, b, q in rows]  # fmt: skip

    assert len({*ends}) == len(ends) == 2 * len(SMALL.links)
    assert all(SMALL.peer[near] == far for near, far in ends)


def test_p2p_sheet_holds_each_cable_once_with_what_the_tool_expects():
    book = openpyxl.load_workbook(io.BytesIO(format_p2p_xlsx("small", [SMALL], CATALOG)))
    rows = [row for sheet in book for row in sheet.iter_rows(min_row=2, values_only=True)]

    assert [cell.value for cell in book["hosts to switches"][1]] == [
        "Rack", "U", "Name", "HCA/Port", "Rack", "U", "Name", "Port",
    ]  # fmt: skip
    assert len(rows) == len(set(rows)) == len(SMALL.links)
    assert (None, None, "storage0", 2, None, None, "z1-leaf0", 5) in rows
    assert format_hca_mapping([SMALL]) == "port,hca-name\n1,mlx5_0\n2,mlx5_1\n"


def test_p2p_sheet_calls_ports_for_out_of_band_management_by_name():
    oob = {"network": {"shape": "fat-tree", "switch": "SN2201"}, "adapters": {"gpu": 1}, "adapter": "BMC-1GE"}
    nodes = {"gpu": {"model": "pcie-a100", "count": 2}}
    network = {"shape": "fat-tree", "switch": "QM8700"}
    fabrics = topo.parse({"name": "x", "nodes": nodes, "network": network, "networks": {"oob": oob}}).fabrics
    book = openpyxl.load_workbook(io.BytesIO(format_p2p_xlsx("small", fabrics, CATALOG)))

    assert [row[3] for row in book["hosts to switches"].iter_rows(min_row=2, values_only=True)] == ["bmc", 1] * 2
    assert format_hca_mapping(fabrics) == "port,hca-name\n1,mlx5_0\n"


def expand(hostlist):
    """Names of a hostlist, by Slurm's rules."""
    names = []
    for stem, ranges in re.findall(r"([^,\[]+)(?:\[([^\]]*)\])?", hostlist):
        if not ranges:
            names.append(stem)
            continue
        for part in ranges.split(","):
            first, _, last = part.partition("-")
            names += [f"{stem}{number:0{len(first)}d}" for number in range(int(first), int(last or first) + 1)]
    return names


@pytest.mark.slow
@given(st.lists(st.from_regex(r"[a-z]{1,3}[0-9]{0,3}", fullmatch=True), max_size=30))
def test_hostlists_expand_to_what_was_compressed(names):
    assert sorted(expand(compress(names))) == sorted(set(names))


def test_slurm_tree_lists_compute_nodes_once_and_no_spine():
    text = format_topology_conf([SMALL])
    lines = [dict(item.split("=") for item in line.split()) for line in text.splitlines() if not line.startswith("#")]
    nodes = [name for line in lines for name in expand(line.get("Nodes", ""))]
    children = [name for line in lines for name in expand(line.get("Switches", ""))]

    assert sorted(nodes) == [f"gpu{number:02d}" for number in range(60)]
    assert "spine" not in text and "storage" not in text
    assert all(("Nodes" in line) != ("Switches" in line) for line in lines), "never both"
    assert sorted(children) == sorted({line["SwitchName"] for line in lines} - {"fabric"}), "a tree with one root"


def test_slurm_yaml_says_the_same():
    document = YAML(typ="safe", pure=True).load(format_topology_yaml([SMALL]))
    tree, blocks = document

    assert [next(iter(item)) for item in document] == ["topology", "topology"]
    leaves = {item["switch"]: expand(item["nodes"]) for item in tree["tree"]["switches"] if "nodes" in item}
    assert leaves == {item["block"]: expand(item["nodes"]) for item in blocks["block"]["blocks"]}
    assert min(map(len, leaves.values())) >= blocks["block"]["block_sizes"][0]


def test_a_rail_fabric_is_a_tree_of_units_for_slurm():
    shape = Rail(shape="rail", unit_nodes=20, tree=FatTree(switch="QM8700"))
    text = format_topology_conf(shape.compile([nodes(40)], CATALOG, "test"))

    assert [line for line in text.splitlines() if "Nodes=" in line] == [
        "SwitchName=unit0 Nodes=gpu[00-19]",
        "SwitchName=unit1 Nodes=gpu[20-39]",
    ]


def test_netbox_files_refer_to_each_other():
    files = netbox_files([SMALL], CATALOG, "lab")
    table = {name: list(csv.DictReader(io.StringIO(text))) for name, text in files.items() if name.endswith(".csv")}
    types = {name: YAML(typ="safe", pure=True).load(text) for name, text in files.items() if name.endswith(".yaml")}
    interfaces = {kind["model"]: {item["name"] for item in kind["interfaces"]} for kind in types.values()}
    devices = {row["name"]: row["device_type"] for row in table["devices.csv"]}

    assert len(devices) == SMALL.n_switches + 70
    assert {row["role"] for row in table["devices.csv"]} == {
        row["name"] for name in table if name.startswith("roles/") for row in table[name]
    }
    assert {row["site"] for row in table["devices.csv"]} == {"lab"}
    assert len(table["cables.csv"]) == len(SMALL.links)
    for row in table["cables.csv"]:
        for side in ("side_a", "side_b"):
            assert row[f"{side}_type"] == "dcim.interface"
            assert row[f"{side}_name"] in interfaces[devices[row[f"{side}_device"]]]


def test_graphml_reads_back_as_the_same_graph():
    load = np.arange(SMALL.n_ports)
    graph = nx.read_graphml(io.BytesIO(format_graphml(SMALL, load)), node_type=int)

    assert (graph.number_of_nodes(), graph.number_of_edges()) == (SMALL.n_nodes, len(SMALL.links))
    assert graph.nodes[0]["role"] == "leaf"
    assert {edge["load"] for *_, edge in graph.edges(data=True)} == set(SMALL.links.max(axis=1).tolist())


def test_dot_names_every_switch_and_bundles_parallel_links():
    text = format_dot(SMALL)

    assert text.startswith('graph "test" {') and text.endswith("}\n")
    assert all(f'label="{SMALL.label(switch)}"' in text for switch in range(SMALL.n_switches))
    assert text.count(" [label=5, penwidth=5]") == 2 * 8 * 4, "five links between each leaf and spine"
    assert Role.JOINT in SMALL.role
