"""Every export has a reader that notices each key, column or word of its form that is renamed or left out.

`READERS` reads each export with the consumer's own code where that is Python, else with plain code that repeats what
the consumer's manual or source says; what needs other programs is in ``tests/peers``. `docs/validation/exports.md` says
by whom each is read, and the last test holds it to that.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import networkx as nx
import openpyxl
import pytest
from ruamel.yaml import YAML

import plan
import routing
import topo
from plan.checksums import read_sums
from plan.export.registry import EXPORTS, OF_BUILD
from plan.pipeline import Plan
from plan.staging import chunks
from topo.floor.racks import FloorPlan

Read = dict[str, bytes]
Links = frozenset[frozenset[tuple[str, int]]]


@pytest.fixture(scope="module")
def built() -> Plan:
    spec = topo.preset("lab-20").spec
    return plan.build(topo.compile(spec.model_copy(update={"floor": FloorPlan()})))


def files_of(built: Plan, name: str) -> Read:
    return {path: b"".join(chunks(content)) for path, content in EXPORTS[name].make(built).items()}


def one(files: Read, suffix: str) -> str:
    (text,) = (data.decode() for path, data in files.items() if path.endswith(suffix))
    return text


def links_of(fabric: topo.Fabric, name: Callable[[int], str] | None = None) -> Links:
    """Both ends of each link as node and number of port."""
    label = name or fabric.label
    ends = [(label(node), int(number)) for node, number in zip(fabric.port_node, fabric.port_number, strict=True)]
    return frozenset(frozenset(ends[port] for port in link) for link in fabric.links.tolist())


# What a reader gives, and what it must be by the fabric itself.


def table(text: str, columns: str) -> list[tuple[str, ...]]:
    """Rows of CSV whose columns are known by name, as the manual lists them."""
    rows = list(csv.DictReader(io.StringIO(text)))
    assert rows
    return [tuple(row[column] for column in columns.split()) for row in rows]


BOM = "kind item place count unit unit_price_low unit_price_high low high source"
CABLES = (
    "cable_id a_rack a_u a_device a_port b_rack b_u b_device b_port type part_number length_m rate_gbps bundle "
    "label_a label_b a_port_guid b_port_guid role a_transceiver b_transceiver"
)
P2P = ("Rack", "U", "Name", "HCA/Port", "Rack", "U", "Name", "Port")
BOOK = {
    "Summary": (None, "unit", "how sure", "amount", "up to", "note"),
    "Bill": ("kind", "item", "description", "place", "count", "price, low", "price, high", "amount, low",
             "amount, high", "source"),
    "Power": ("kind", "item", "description", "place", "count", "typical W", "in the maximum, W", "typical W, all",
              "in the maximum, W, all", "source"),
    "Cables": ("kind", "item", "description", "length, m", "in use", "spare", "to order"),
    "Racks": ("rack", "units in use", "of", "power", "W", "devices, from below"),
}  # fmt: skip


def bom_csv(files: Read) -> Any:
    counted = Counter[str]()
    for kind, _, _, count, *_ in table(one(files, "bom.csv"), BOM):
        counted[kind] += int(count)
    return counted["switch"], counted["node"], counted["cable"]


def bom_xlsx(files: Read) -> Any:
    book, counted = openpyxl.load_workbook(io.BytesIO(files["bom.xlsx"])), Counter[str]()
    for sheet in book:
        head = next(sheet.iter_rows(values_only=True))
        assert [cell for cell, known in zip(head, BOOK[sheet.title], strict=True) if known not in (None, cell)] == []
    for row in book["Bill"].iter_rows(min_row=2, values_only=True):
        if isinstance(row[4], int):
            counted[str(row[0])] += row[4]
    return counted["switch"], counted["node"], counted["cable"]


def amounts(built: Plan) -> Any:
    fabric = built.fabrics[0]
    return fabric.n_switches, len(fabric.hosts), len(fabric.links)


def cables(files: Read) -> Any:
    rows = table(one(files, "cables.csv"), CABLES)
    return {frozenset(((row[3], row[4], row[16]), (row[7], row[8], row[17]))) for row in rows}


def cable_ends(built: Plan) -> Any:
    fabric = built.fabrics[0]

    def end(port: int) -> tuple[str, str, str]:
        node, number = int(fabric.port_node[port]), int(fabric.port_number[port])
        guid = f"0x{int(fabric.port_guid[port]):016x}"
        if node < fabric.n_switches:
            return fabric.label(node), str(number), guid
        host, device = fabric.names[node].split(" ")
        return host, device, guid  # of one port, as lab-20's are

    return {frozenset(map(end, link)) for link in fabric.links.tolist()}


class Rows(HTMLParser):
    """Counts rows of tables and headings of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags = Counter[str]()
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags[tag] += 1


def page(files: Read) -> Any:
    (text,) = files.values()
    found = Rows(text.decode())
    assert found.tags["html"] == 1 and found.tags["tr"] > 4
    return True


def dot(files: Read) -> Any:
    """Nodes and edges by the grammar of Graphviz's manual; an edge without a label is one link."""
    text = one(files, ".dot")
    assert re.match(r'graph "[^"]*" \{', text)
    names = dict(re.findall(r'^  (n\d+) \[label="([^"]*)"\];$', text, re.MULTILINE))
    assert len(re.findall(r"^  \{rank=same( n\d+)+\}$", text, re.MULTILINE)) == 3
    edges = re.findall(r"^  (n\d+) -- (n\d+)(?: \[label=(\d+), penwidth=\d\])?;$", text, re.MULTILINE)
    assert re.search(r"^  rankdir=TB; ranksep=2; splines=line; node \[shape=box\];$", text, re.MULTILINE)
    return {(*sorted((names[a], names[b])), int(n or 1)) for a, b, n in edges}


def bundles(built: Plan) -> Any:
    fabric = built.fabrics[0]
    pairs = Counter(tuple(sorted(map(fabric.label, ends))) for ends in fabric.port_node[fabric.links].tolist())
    return {(*pair, n) for pair, n in pairs.items()}


def graphml(files: Read) -> Any:
    graph = nx.read_graphml(io.BytesIO(files["exports/fabric.graphml"]), node_type=int)
    assert all(
        {"name", "kind", "level", "zone", "role", "model", "guid"} <= data.keys() for _, data in graph.nodes.data()
    )
    assert all({"rate_gbps", "load"} <= data.keys() for *_, data in graph.edges.data())
    return frozenset(
        frozenset(((graph.nodes[a]["name"], data["a_port"]), (graph.nodes[b]["name"], data["b_port"])))
        for a, b, data in graph.edges.data()
    )


def full_names(built: Plan) -> Any:
    return links_of(built.fabrics[0], lambda node: built.fabrics[0].names[node])


def fabric_json(files: Read) -> Any:
    return _read_back(files, "fabric.json")


def ibnetdiscover(files: Read) -> Any:
    """Lines as ``ibnetdiscover.c`` prints them; then Heddle's own reader, which real dumps have judged."""
    forms = (
        r"#.*", r"", r"(vendid|devid|sysimgguid|caguid)=0x[0-9a-f]+", r"switchguid=0x([0-9a-f]+)\(\1\)",
        r'Switch\t\d+ "S-[0-9a-f]{16}"\t\t# "[^"]*" enhanced port 0 lid \d+ lmc \d',
        r'Ca\t\d+ "H-[0-9a-f]{16}"\t\t# "[^"]*"',
        r'\[\d+\](\([0-9a-f]+\))? ?\t"[SH]-[0-9a-f]{16}"\[\d+\](\([0-9a-f]+\))? ?\t\t#'
        r'( lid \d+ lmc \d)? "[^"]*" lid \d+ \dx[A-Z]+',
    )  # fmt: skip
    for line in one(files, "fabric.ibnetdiscover").splitlines():
        assert any(re.fullmatch(form, line) for form in forms), line
    return _read_back(files, "fabric.ibnetdiscover")


def _read_back(files: Read, name: str) -> Any:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        (path := Path(folder, name)).write_bytes(files[name])
        fabric = topo.read_fabric(path)
    assert not fabric.notes
    arrays = ("node_guid", "port_guid", "kind", "peer", "width", "speed", "port_offset")
    return {key: getattr(fabric, key).tolist() for key in arrays} | {"names": fabric.names, "hosts": fabric.hosts}


def whole(built: Plan) -> Any:
    with_lids = {"fabric.json": EXPORTS["fabric"].make(built)["fabric.json"]}
    return _read_back({path: b"".join(chunks(text)) for path, text in with_lids.items()}, "fabric.json")


def infragraph(files: Read) -> Any:
    """Instances that are neighbours; keys of a description by ``docs/openapi.yaml`` of InfraGraph 3.1.0."""
    document = json.loads(one(files, ".json"))
    for device in document["devices"]:
        assert device.keys() == {"name", "components", "links", "edges"}
        for part in device["components"]:
            assert part.keys() == {"name", "count", "choice", part["choice"]}
            assert part["choice"] in {"cpu", "xpu", "nic", "switch", "port", "memory", "custom", "device"}
        for edge in device["edges"]:
            assert edge.keys() == {"ep1", "ep2", "scheme", "link"}
            assert edge["ep1"].keys() == edge["ep2"].keys() == {"component"}
            assert edge["link"] in {link["name"] for link in device["links"]}
    known = {device["name"] for device in document["devices"]}
    assert document["name"]
    for instance in document["instances"]:
        assert instance.keys() == {"name", "description", "device", "count"} and instance["device"] in known
    for link in document["links"]:
        rate = link["physical"]["bandwidth"]
        assert rate[rate["choice"]] == 200.0
    for edge in document["edges"]:
        assert edge.keys() == {"ep1", "ep2", "scheme", "link"}
        assert edge["link"] in {link["name"] for link in document["links"]}
    return {frozenset(edge[end]["instance"].partition("[")[0] for end in ("ep1", "ep2")) for edge in document["edges"]}


def multicast(files: Read) -> Any:
    fabric = topo.preset("lab-20").fabric
    return sorted(
        (group.members, group.holds) for group in routing.studies.parse_mcfdbs(one(files, ".mcfdbs"), fabric).groups
    )


def topo_links(text: str, arrow: str) -> Links:
    """Links of a ``.topo`` file; a system begins at the left with its type, a port follows it."""
    line, links, system = re.compile(rf"   P(\d+) {arrow} (\S+) (\S+) (?:\S+/)?P(\d+)"), set(), ""
    for text_line in text.splitlines():
        if match := line.fullmatch(text_line):
            assert re.fullmatch(r"M?QM8700|HCA_mlx5_[01]", match[2])
            links.add(frozenset([(system, int(match[1])), (_system(match[3], text_line), int(match[4]))]))
        elif text_line and not text_line.startswith("#"):
            kind, system = text_line.split()
            assert re.fullmatch(r"M?QM8700|HCA_mlx5_[01]", kind)
    return frozenset(links)


def _system(name: str, line: str) -> str:
    device = re.search(r"(mlx5_\d+)/P\d+$", line)
    return f"{name} {device[1]}" if device else name


def ibdm(files: Read) -> Any:
    """Links, and what each type of system is made of: words of ``ibnl_parser.yy`` of ibutils 1.5.7."""
    types = set(re.findall(r"^(\w+) \S+$", one(files, ".ibdm.topo"), re.MULTILINE))
    assert types <= {data.decode().split()[1] for path, data in files.items() if path.endswith(".ibnl")}
    used = set(re.findall(r"-> (\w+) ", one(files, ".ibdm.topo")))
    assert used == {data.decode().split()[1] for path, data in files.items() if path.endswith(".ibnl")}
    for path, data in files.items():
        if path.endswith(".ibnl"):
            head, node, *ports = [line for line in data.decode().splitlines() if line.strip()]
            assert re.fullmatch(r"TOPSYSTEM \S+", head) and re.fullmatch(r"NODE (SW|CA) \d+ MT\d+ \S+", node)
            assert all(re.fullmatch(r"NODE CA \d+ MT\d+ \S+|    \d+ -> \S+", port) for port in ports)
    return topo_links(one(files, ".ibdm.topo"), "->")


def topo_file(files: Read) -> Any:
    return topo_links(one(files, ".topo"), "-4x-50G->")


NETBOX = {
    "manufacturers/": "name slug", "roles/": "name slug color vm_role", "sites.csv": "name slug status",
    "locations.csv": "site name slug status", "racks.csv": "site location name status u_height width",
    "devices.csv": "name role manufacturer device_type status site location rack position face",
    "cables.csv": "side_a_site side_a_device side_a_type side_a_name side_b_site side_b_device side_b_type side_b_name "
                  "type status profile label length length_unit",
}  # fmt: skip


def netbox(files: Read) -> Any:
    """Ends of cables; columns and keys are those of NetBox's forms, to which ``tests/peers`` holds them."""
    ends: Any = set()
    for path, data in files.items():
        name = path.removeprefix("exports/netbox/")
        if name.endswith(".csv"):
            rows = table(data.decode(), next(columns for start, columns in NETBOX.items() if name.startswith(start)))
            ends |= {frozenset([(r[1], r[3]), (r[5], r[7])]) for r in rows} if name == "cables.csv" else set()
        elif name.endswith(".yaml"):
            kind = yaml(data.decode())[0]
            assert {"manufacturer", "model", "slug", "u_height", "interfaces"} <= kind.keys()
            assert kind.keys() <= {
                "manufacturer",
                "model",
                "slug",
                "u_height",
                "interfaces",
                "part_number",
                "is_full_depth",
            }
            assert all(port.keys() == {"name", "type"} for port in kind["interfaces"])
    return ends


def panel_ends(built: Plan) -> Any:
    return {frozenset((device, port.removesuffix(":1")) for device, port, _ in ends) for ends in cable_ends(built)}


def options(text: str) -> dict[str, str]:
    """Options of a subnet manager: a word and its value a line."""
    rows = [line.partition(" ") for line in text.splitlines() if line and not line.startswith("#")]
    return {key: value for key, _, value in rows}


def nvidia_sm(files: Read) -> Any:
    """Options by the documents that the file names."""
    found = options(one(files, "opensm.conf"))
    assert found.keys() <= {"routing_engine", "root_guid_file", "find_roots_color_algorithm", "lfts_file"}
    assert found["routing_engine"] in {"ar_updn", "file"}
    return guids(one(files, "root_guids"))


def guids(text: str) -> list[int]:
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"0x[0-9a-f]{16}( # .*)?", line) for line in lines)
    return [int(line.split()[0], 16) for line in lines]


def roots(built: Plan) -> Any:
    fabric = built.fabrics[0]
    return fabric.node_guid[: fabric.n_switches][fabric.level[: fabric.n_switches] == 2].tolist()


def links_of_labels(built: Plan) -> Any:
    fabric = built.fabrics[0]
    return links_of(fabric, lambda node: fabric.label(node) if node < fabric.n_switches else fabric.names[node])


def neighbours(built: Plan) -> Any:
    fabric = built.fabrics[0]
    names = [fabric.hosts[host] if host >= 0 else fabric.label(node) for node, host in enumerate(fabric.host.tolist())]
    return {frozenset(names[node] for node in ends) for ends in fabric.port_node[fabric.links].tolist()}


def trees(built: Plan) -> Any:
    fabric = built.fabrics[0]
    return sorted((n, True) for n in (22, 16, 4, 2)) if fabric.n_end_ports == 26 else None


OPENSM = """routing_engine lfts_file reassign_lids honor_guid2lid_file lmc root_guid_file cn_guid_file io_guid_file
    partition_config_file node_name_map_name qos_policy_file qos"""
QOS = re.compile(r"(max_op_vls|qos_(ca_|sw0_|swe_|rtr_)?(max_vls|high_limit|vlarb_high|vlarb_low|sl2vl))")
POLICY = """port-groups port-group name: port-guid: end-port-group end-port-groups qos-levels qos-level sl:
    end-qos-level end-qos-levels qos-match-rules qos-match-rule destination: source: qos-level-name: end-qos-match-rule
    end-qos-match-rules"""
UNITS = """[Unit] [Service] [Install] [Timer] [Path] Description After Requires Wants Type ExecStart Environment
    StandardOutput Restart RestartSec OnBootSec OnUnitInactiveSec PathChanged Unit WantedBy"""


def opensm(files: Read) -> Any:
    """Words by OpenSM's manual and ``osm_qos_parser_y.y``, units by systemd's; entries, LIDs and roots come back.

    OpenSM itself loads the folder, and names what it cannot read, in ``tests/peers``.
    """
    read = {path.removeprefix("opensm/"): data.decode() for path, data in files.items()}
    found = options(read["opensm.conf"])
    assert set(OPENSM.split()) <= found.keys()
    assert all(QOS.fullmatch(key) for key in found.keys() - set(OPENSM.split()))
    words = {line.split()[0] for line in read["qos-policy.conf"].splitlines()}
    assert words == set(POLICY.split())
    assert re.search(r"^Default=0x7fff, ipoib, defmember=full : ALL=full, SELF=full ;$", read["partitions.conf"], re.M)
    for name, text in read.items():
        if name.startswith("heddle-"):
            heads = {re.split("=", line)[0] for line in text.splitlines() if line and not line.startswith(("#", " "))}
            assert heads <= set(UNITS.split()), heads - set(UNITS.split())
    lfts, at = Counter[int](), 0
    for line in read["lfts"].splitlines()[1:]:
        if head := re.fullmatch(r"Unicast lids \[\S+\] of switch Lid \d+ guid 0x([0-9a-f]{16}) \(.*\):", line):
            at = int(head[1], 16)
        elif re.fullmatch(r"0x[0-9a-f]{4} \d{3} # portguid 0x[0-9a-f]{16}:.*", line):
            lfts[at] += 1
        else:
            assert re.fullmatch(r"(\d+ lids dumped *)?", line), line
    names = re.findall(r'^0x([0-9a-f]{16}) "[^"]+"$', read["node-name-map"], re.MULTILINE)
    lids = re.findall(r"^0x([0-9a-f]{16}) (0x[0-9a-f]{4}) \2$", read["guid2lid"], re.MULTILINE)
    return dict(lfts), len(names), len(lids), guids(read["root_guids"]), len(guids(read["cn_guids"]))


def tables(built: Plan) -> Any:
    fabric = built.fabrics[0]
    entries = {int(guid): fabric.n_end_ports for guid in fabric.node_guid[: fabric.n_switches].tolist()}
    return entries, fabric.n_nodes, fabric.n_end_ports, roots(built), 16


def p2p(files: Read) -> Any:
    """Sheets with the columns of the samples in UFM's manual; ports of adapters by number, as the mapping has them."""
    mapping = dict(table(one(files, "hca_mapping.csv"), "port hca-name"))
    found = set()
    for sheet in openpyxl.load_workbook(io.BytesIO(files["exports/p2p.xlsx"])):
        head, *rows = sheet.iter_rows(values_only=True)
        assert head == P2P
        for row in rows:
            near = (row[2], mapping[str(row[3])]) if sheet.title == "hosts to switches" else (row[2], str(row[3]))
            found.add(frozenset([near, (row[6], str(row[7]))]))
    return found


def places(files: Read) -> Any:
    """Heddle reads it as the floor of the spec that it came from."""
    floor = yaml(one(files, "places.yaml"))[0]["floor"]
    assert floor["fixed"]
    spec = topo.preset("lab-20").spec
    return stands(topo.compile(spec.model_copy(update={"floor": FloorPlan.model_validate(floor)})))


def stands(cluster: Any) -> Any:
    return sorted(zip((device.name for device in cluster.layout.devices), cluster.layout.rack.tolist(),
                      cluster.layout.unit.tolist(), strict=True))  # fmt: skip


def slurm(files: Read) -> Any:
    """Nodes by switch in both files; keys are those of Slurm's ``parsers.c`` and manuals of 26.05 (2026-08-20)."""
    lines = [line for line in one(files, "topology.conf").splitlines() if not line.startswith("#")]
    rows = [re.fullmatch(r"SwitchName=(\S+) (Nodes|Switches)=(\S+)", line) for line in lines]
    assert all(rows)
    tree, blocks = yaml(one(files, "topology.yaml"))[0]
    assert tree.keys() == {"topology", "cluster_default", "tree"} and tree["cluster_default"] is True
    assert blocks.keys() == {"topology", "cluster_default", "block"}
    assert all(one.keys() in ({"switch", "children"}, {"switch", "nodes"}) for one in tree["tree"]["switches"])
    assert blocks["block"].keys() == {"block_sizes", "blocks"}
    read = [
        {row[1]: topo.expand(row[3]) for row in rows if row and row[2] == "Nodes"},
        {row["switch"]: topo.expand(row["nodes"]) for row in tree["tree"]["switches"] if "nodes" in row},
        {row["block"]: topo.expand(row["nodes"]) for row in blocks["block"]["blocks"]},
    ]
    assert all(a == b for a, b in pairwise(read))
    return read[0]


def topograph(files: Read) -> Any:
    """Nodes by switch for both versions; keys of ``pkg/models``, Kubernetes v1 and NFD 0.18."""
    model = yaml(one(files, "topograph.yaml"))[0]
    assert model.keys() == {"switches", "nodes", "blocks"}
    before = {name: switch["nodes"] for name, switch in model["switches"].items() if "nodes" in switch}
    assert before == {block["switch"]: block["nodes"] for block in model["blocks"]}
    assert sorted(child for switch in model["switches"].values() for child in switch.get("switches", ())) == sorted(
        before
    )
    leaf_of = {node: leaf for leaf, nodes in before.items() for node in nodes}
    for node in filter(None, yaml(one(files, "node-labels.yaml"))):
        assert node.keys() == {"apiVersion", "kind", "metadata"} and node["kind"] == "Node"
        labels = node["metadata"]["labels"]
        assert labels == {
            "fabric.topograph.run/tier-0": leaf_of[node["metadata"]["name"]], "fabric.topograph.run/tier-1": "fabric",
            "network.topology.nvidia.com/leaf": leaf_of[node["metadata"]["name"]],
            "network.topology.nvidia.com/spine": "fabric",
        }  # fmt: skip
    for feature in filter(None, yaml(one(files, "node-features.yaml"))):
        assert feature.keys() == {"apiVersion", "kind", "metadata", "spec"} and feature["kind"] == "NodeFeature"
        name = feature["metadata"]["labels"]["nfd.node.kubernetes.io/node-name"]
        assert feature["metadata"]["name"] and feature["spec"].keys() == {"features", "labels"}
        assert feature["spec"]["labels"].keys() == {"fabric.topograph.run/tier-0", "fabric.topograph.run/tier-1"}
        attributes = feature["spec"]["features"]["attributes"]
        assert attributes["system.name"]["elements"] == {"nodename": name}
        assert attributes["topograph.network"]["elements"] == {
            "fabric-tier-0": leaf_of[name],
            "fabric-tier-1": "fabric",
        }
    return before


def leaves(built: Plan) -> Any:
    fabric = built.fabrics[0]
    found: dict[str, list[str]] = {}
    for end in fabric.ends(role="compute").tolist():
        found.setdefault(fabric.label(int(fabric.end_switch[end])), []).append(
            fabric.names[fabric.end_node[end]].split()[0]
        )
    return found


def topoconfig(files: Read) -> Any:
    line = re.compile(r"0x([0-9a-f]{16}),(\d+),0x([0-9a-f]{16}),(\d+),Any,Active")
    rows = [found.groups() for text in one(files, ".conf").splitlines() if (found := line.fullmatch(text))]
    assert len(rows) == len(one(files, ".conf").splitlines()) == 2 * len({frozenset([r[:2], r[2:]]) for r in rows})
    return frozenset(frozenset([(int(a, 16), int(p)), (int(b, 16), int(q))]) for a, p, b, q in rows)


def by_guid(built: Plan) -> Any:
    return links_of(built.fabrics[0], lambda node: int(built.fabrics[0].node_guid[node]))


@cache
def yaml(text: str) -> list[Any]:
    return list(YAML(typ="safe").load_all(text))


READERS: dict[str, tuple[Callable[[Read], Any], Callable[[Plan], Any], str]] = {
    "bom-csv": (bom_csv, amounts, ""),
    "bom-xlsx": (bom_xlsx, amounts, ""),
    "cable-book": (page, lambda built: True, ""),
    "cables": (cables, cable_ends, ""),
    "dot": (dot, bundles, r"\bgraph\b|rankdir|ranksep|splines|\bnode\b|shape|\brank\b|label|penwidth|--"),
    "fabric": (fabric_json, whole, ""),
    "graphml": (graphml, full_names, ""),
    "ibdm": (ibdm, links_of_labels, r"TOPSYSTEM|NODE|\bSW\b|\bCA\b|->|MQM8700|HCA_mlx5_0"),
    "ibnetdiscover": (ibnetdiscover, whole,
                      r"vendid|devid|sysimgguid|caguid|switchguid|Switch|Ca\b|\blid\b|\blmc\b|enhanced|\bport\b"),
    "infragraph": (infragraph, neighbours, ""),
    "multicast": (multicast, trees, r"^Switch|^0xC00"),
    "netbox": (netbox, panel_ends, ""),
    "nvidia-sm": (nvidia_sm, roots, r"^\w+(?= )"),
    "opensm": (opensm, tables, r"^ *[\w-]+:?(?= |$|=)|^\[\w+\]"),
    "p2p": (p2p, panel_ends, ""),
    "places": (places, lambda built: stands(built.planned), ""),
    "report": (page, lambda built: True, ""),
    "slurm": (slurm, leaves, r"SwitchName|Nodes|Switches"),
    "topo": (topo_file, links_of_labels, r"-4x-50G->|MQM8700|HCA_mlx5_0"),
    "topoconfig": (topoconfig, by_guid, r"Any|Active"),
    "topograph": (topograph, leaves, ""),
}  # fmt: skip
"""By export: its reader, what the plan itself says, and the words of a form that is neither table nor tree of keys."""


def spoilt(path: str, data: bytes, words: str) -> Iterator[tuple[str, bytes]]:
    """Each change of one name: what was changed, and the file with it."""
    suffix = Path(path).suffix
    if suffix == ".xlsx":
        for sheet in (book := openpyxl.load_workbook(io.BytesIO(data))):
            for cell in sheet[1]:
                if (was := cell.value) is not None and (sheet.title, cell.column) != ("Summary", 1):  # the plan's name
                    changed, cell.value = io.BytesIO(), f"{was}x"
                    book.save(changed)
                    cell.value = was
                    yield f"{sheet.title}: {was}", changed.getvalue()
        return
    text = data.decode()
    if suffix == ".csv":
        rows = list(csv.reader(io.StringIO(text)))
        for at, column in enumerate(rows[0]):
            renamed = [[*rows[0][:at], f"{column}x", *rows[0][at + 1 :]], *rows[1:]]
            dropped = [row[:at] + row[at + 1 :] for row in rows]
            for what, changed_rows in (("renamed", renamed), ("dropped", dropped)):
                out = io.StringIO()
                csv.writer(out, lineterminator="\n").writerows(changed_rows)
                yield f"{column} {what}", out.getvalue().encode()
    elif suffix == ".json":
        for key in sorted({*re.findall(r'"([\w-]+)":', text)}):
            yield key, text.replace(f'"{key}":', f'"{key}x":').encode()
    elif suffix == ".yaml":
        for key in sorted({*re.findall(r"^[ -]*([\w./-]+):", text, re.MULTILINE)}):
            yield key, re.sub(rf"^([ -]*){re.escape(key)}:", rf"\1{key}x:", text, flags=re.MULTILINE).encode()
    elif suffix == ".graphml":
        tags = {element.tag.rpartition("}")[2] for element in ElementTree.fromstring(text).iter()}
        for tag in sorted(tags - {"graphml"}):  # the root, which networkx does not look at
            yield f"<{tag}>", re.sub(rf"(</?){tag}\b", rf"\1{tag}x", text).encode()
        for name in sorted({*re.findall(r'attr\.name="(\w+)"', text)}):
            yield name, text.replace(f'attr.name="{name}"', f'attr.name="{name}x"').encode()
    elif words and not re.search(r"_guids$|guid2lid|node-name-map|README", path):  # lists of numbers, names and prose
        for word in sorted({match[0] for match in re.finditer(words, text, re.MULTILINE)}):
            changed = f"{word.rstrip(':]')}x{word[len(word.rstrip(':]')) :]}"
            lines = [line if line.startswith("#") else line.replace(word, changed) for line in text.splitlines(True)]
            if "".join(lines) != text:
                yield word.strip(), "".join(lines).encode()


def reads(reader: Callable[[Read], Any], files: Read) -> Any:
    """Return what a reader gives, or that it refuses."""
    try:
        return reader(files)
    except Exception as error:  # whatever it is, the change is noticed
        return repr(error)


@pytest.mark.parametrize("name", sorted(EXPORTS))
@pytest.mark.slow
def test_a_reader_finds_the_plan_in_each_export_and_notices_a_change_of_any_name(name: str, built: Plan) -> None:
    reader, expected, words = READERS[name]
    files = files_of(built, name)
    assert reader(files) == expected(built)
    changes, missed = 0, []
    for path, data in files.items():
        for what, changed in spoilt(path, data, words):
            changes += 1
            if reads(reader, files | {path: changed}) == expected(built):
                missed.append(f"{path}: {what}")
    assert missed == []
    assert (changes == 0) == (name in WITHOUT_NAMES), changes


WITHOUT_NAMES = {"cable-book", "report"}
"""Pages for people: they have no keys that a program reads."""


def test_what_build_writes_is_some_export_of_the_list(built: Plan, tmp_path: Path) -> None:
    plan.build(topo.config_root() / "lab-20.yaml", tmp_path / "out")
    places = [path for name in OF_BUILD for path in EXPORTS[name].files]
    others = {
        path for path in read_sums(tmp_path / "out")
        if not any(path == place or (place.endswith("/") and path.startswith(place)) for place in places)
    }  # fmt: skip
    assert others == {"plan.json"}, "which has a schema and a list of its keys"


def test_the_version_that_heddle_reads_is_the_one_that_is_named(built: Plan) -> None:
    version = json.loads(one(files_of(built, "fabric"), "fabric.json"))["version"]
    assert EXPORTS["fabric"].consumer == f"Heddle, fabric.json of version {version}"


def test_a_page_says_by_whom_each_export_is_read(repository: Path) -> None:
    text = (repository / "docs" / "validation" / "exports.md").read_text(encoding="utf-8")
    found = {}
    for cells in re.findall(r"^\| (`.*?) \| (.*?) \| (.*?) \|$", text, re.MULTILINE):
        found |= dict.fromkeys(re.findall("`([^`]+)`", cells[0]), cells[1:])
    assert found.keys() == EXPORTS.keys() == READERS.keys()
    for name, (reader, why) in found.items():
        assert reader.startswith(("own code", "second reader", "people")), name
        assert reader.startswith("own code") == (why == ""), f"{name}: not read by its consumer, and no line says why"
        assert (name in WITHOUT_NAMES) == reader.startswith("people"), name
