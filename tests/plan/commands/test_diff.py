"""``plan diff``: what it prints and writes, and what becomes of a plan that adopts a fabric."""

import csv
import itertools
import json
import re
import shlex
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import numpy as np
import pytest
from click import UsageError
from click.testing import CliRunner

import costmodel
import routing
import topo
from helpers.relabel import relabelled, with_guids
from plan.changes import walk_of
from plan.cli import plan
from plan.commands.spec import schema_of
from plan.export.cables import HEADER, cable_rows
from plan.mocking import mock
from topo.changes.differences import DIFFERENCE_KINDS

SPEC = topo.config_root() / "lab-20.yaml"
LAB = topo.preset("lab-20").fabric


def run(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(plan, [str(word) for word in words], standalone_mode=False)
    assert done.exception is None or isinstance(done.exception, UsageError), done.exception
    return done.exception.exit_code if done.exception else done.return_value or 0, done.output


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The lab as it was found: GUIDs, LIDs and an order of its own, and one cable less."""
    rng = np.random.default_rng(3)
    found = with_guids(relabelled(LAB.without(LAB.inner[:1]), rng, ports=False).fabric, rng)
    lids = rng.permutation(np.arange(1, found.n_end_ports + 1)).astype(np.uint16)
    path = tmp_path_factory.mktemp("dump") / "found.ibnetdiscover"
    path.write_text(topo.format_ibnetdiscover(found, lids))
    return path


def test_the_list(dump: Path, tmp_path: Path) -> None:
    status, said = run("diff", topo.config_root() / "lab-20.yaml", dump, "-o", tmp_path / "list")
    assert status == 1
    assert "check or plug the cable from leaf0:21 to spine0:1" in said
    assert "61 of 62 cables as planned; 1 missing" in said
    table = (tmp_path / "list" / "differences.csv").read_text()
    assert table.splitlines()[0] == "rack,where,kind,planned,found,do,sure"
    page = (tmp_path / "list" / "differences.html").read_text()
    assert "<td>leaf0:21 - spine0:1</td>" in page
    assert not re.search(r"<script|https?://", page)
    drawing = (tmp_path / "list" / "differences.svg").read_text()
    assert "1 differences" in drawing
    assert drawing.count(f'stroke="{topo.palette.LOADS[-1][1]}"') >= 2  # the link, and the legend
    assert "not as planned" in drawing
    (case,) = ElementTree.parse(tmp_path / "list" / "junit.xml").getroot().findall("testcase/failure/..")
    assert case.attrib["name"] == "leaf0:21 - spine0:1"


def test_the_plan_of_another_fabric(dump: Path, tmp_path: Path) -> None:
    status, said = run("diff", topo.config_root() / "torus.yaml", dump, "--adopt", tmp_path / "live")
    assert status == 1
    assert "is this the plan of this fabric?" in said
    assert "is this the plan" not in run("diff", topo.config_root() / "lab-20.yaml", dump)[1]


def test_for_programs(dump: Path) -> None:
    status, said = run("diff", topo.config_root() / "lab-20.yaml", dump, "--json")
    document = json.loads(said)
    assert (status, document["cables"], document["agreeing"]) == (1, 62, 61)
    assert document["differences"][0]["kind"] == "missing"
    schema = schema_of("diff")
    jsonschema.Draft202012Validator(schema).validate(document)
    kinds = schema["properties"]["differences"]["items"]["properties"]["kind"]["enum"]
    assert kinds == list(DIFFERENCE_KINDS)
    assert run("diff", dump, dump)[0] == 0


@pytest.mark.slow
def test_a_walk_through_the_racks(tmp_path: Path) -> None:
    """The same from a spec and from what is built of it."""
    network = {"shape": "fat-tree", "switch": "QM8700"}
    nodes = {"gpu": {"model": "pcie-a100", "count": 90}}
    spec = tmp_path / "spec.yaml"
    floor = {"rows": 2, "racks_per_row": 8, "rack_typical_power": "30 kW"}
    spec.write_text(json.dumps({"name": "x", "nodes": nodes, "network": network, "floor": floor}))
    fabric = topo.read(spec).fabric
    (tmp_path / "found").write_text(topo.format_ibnetdiscover(fabric.without(fabric.inner[::7])))
    assert run("build", spec, "-o", tmp_path / "out")[0] == 0
    walks = []
    for planned in (spec, tmp_path / "out"):
        status, said = run("diff", planned, tmp_path / "found", "--json")
        assert status == 1
        walks.append([(one["rack"], one["where"]) for one in json.loads(said)["differences"]])
    assert walks[0] == walks[1]
    racks = list(dict.fromkeys(rack.partition(" ")[0] for rack, _ in walks[0]))
    assert len(racks) > 1
    assert all(re.fullmatch(r"R\d\d-\d\d", rack) for rack in racks)
    layout = topo.read(spec).layout
    assert layout is not None
    names = [layout.rack_name(rack) for rack in range(layout.n_racks)]
    assert racks == sorted(racks, key=names.index)
    (tmp_path / "out" / "cables.csv").write_text("a,b\n1,2\n")
    with pytest.raises(topo.FormatError, match="expected the list of cables"):
        walk_of(tmp_path / "out", fabric)


@pytest.mark.parametrize("kind", ["missing", "swapped", "moved"])
@pytest.mark.parametrize("faults", [0, 3])
def test_pairs_that_adopted_tables_lose_on_the_fabric_as_it_is_are_told(kind: str, faults: int, tmp_path: Path) -> None:
    """Counted by walking each pair from switch to switch."""
    made = mock(LAB, tmp_path / "mock", faults=faults, kinds=[kind], seed=2)
    now, live = tmp_path / "mock" / "fabric.ibnetdiscover", tmp_path / "live"
    status, said = run("diff", SPEC, now, "--adopt", live, "--json")
    document = json.loads(said)
    jsonschema.Draft202012Validator(schema_of("diff")).validate(document)
    there = topo.read_fabric(now)
    tables = routing.opensm.read_lfts(live / "opensm" / "lfts", there).tables
    ends, lost = there.ends().tolist(), 0
    for source, to in itertools.permutations(ends, 2):
        at, steps = int(there.end_switch[source]), 0
        while at < there.n_switches and steps < 9:
            out = int(tables.lft[at, tables.lid[to]])
            at = int(there.peer_node[there.port_offset[at] + out - 1]) if 0 < out < 255 else -1
            steps = 9 if at < 0 else steps + 1
        lost += at != there.end_node[to]
    assert (status, len(made.faults)) == (int(faults > 0), faults)
    assert document["adopted"] == {"pairs": len(ends) * (len(ends) - 1), "missing": lost}
    remark = f"with the tables of {live}2, {lost} of 462 pairs do not arrive"
    assert (remark in " ".join(run("diff", SPEC, now, "--adopt", f"{live}2")[1].split())) == (lost > 0) == (faults > 0)


@pytest.mark.slow
def test_a_plan_adopts_the_fabric(dump: Path, tmp_path: Path) -> None:
    """Its tables are tables of the fabric: they load there and prove complete, but for the cable that is missing."""
    assert run("diff", topo.config_root() / "lab-20.yaml", dump, "--adopt", tmp_path / "out")[0] == 1
    found = topo.read_fabric(dump)
    read = routing.opensm.read_lfts(tmp_path / "out" / "opensm" / "lfts", found)
    assert [note for note in read.notes if "fabric does not have" in note] == []
    assert np.array_equal(read.tables.lid, found.discovered_lid)
    adopted = topo.read_fabric(tmp_path / "out" / "fabric.json")
    assert set(adopted.node_guid.tolist()) == set(found.node_guid.tolist())
    assert adopted.names == LAB.names
    whole = replace(found, peer=found.peer.copy())
    assert topo.find_differences(adopted, whole).found[0].kind == "missing"
    done = run("repair", tmp_path / "out", "--now", dump)
    assert done[0] == 0


@pytest.mark.slow
def test_growth_between_two_specs(tmp_path: Path) -> None:
    """What is bought is what the bills differ by, and the tables that are adopted are of old LIDs and hold."""
    text = (topo.config_root() / "lab-20.yaml").read_text()
    old, new = tmp_path / "old.yaml", tmp_path / "new.yaml"
    old.write_text(text)
    new.write_text(text.replace("count: 16", "count: 26").replace("leaves: 2", "leaves: 3"))
    status, said = run("diff", old, new, "-o", tmp_path / "works", "--adopt", tmp_path / "out", "--json")
    document = json.loads(said)
    assert status == 1
    bought = {(line["kind"], line["place"]): line["count"] for line in document["bought"]["lines"]}
    assert (bought["switch", "leaf"], bought["node", "compute"]) == (1, 10)
    assert {"works.csv", "bought.csv"} <= {path.name for path in (tmp_path / "works").iterdir()}
    (growth,) = document["subnets"]
    rows = (tmp_path / "works" / "works.csv").read_text().splitlines()
    assert len(rows) == 1 + len(growth["works"])
    lids = routing.route(LAB).tables.lid
    grown = topo.read_fabric(tmp_path / "out" / "fabric.json")
    by_guid = dict(zip(grown.end_guid.tolist(), grown.discovered_lid.tolist(), strict=True))
    assert [by_guid[guid] for guid in LAB.end_guid.tolist()] == lids.tolist()
    assert run("verify", tmp_path / "out")[0] == 0
    same = run("diff", old, old)
    assert same[0] == 0 and "nothing is bought" in same[1] and "ports of the larger plan, ports" not in same[1]
    with pytest.raises(topo.HeddleError, match="--subnet"):
        CliRunner().invoke(plan, ["diff", str(old), str(new), "--subnet", "x"], catch_exceptions=False)
    said = run("diff", old, new, "--currency", "USD")[1]
    assert "step by step" in said
    bills = [costmodel.bill(topo.read(path)) for path in (new, old)]
    bought, cost = bills[0].beyond(bills[1]).price("USD"), document["price"]
    assert f"what is bought costs {bought.sums} USD" in " ".join(said.split())
    assert cost == bought.to_dict() and all(gap in said for gap in bought.gaps)
    with (tmp_path / "works" / "bought.csv").open(newline="") as file:
        rows_bought = list(csv.DictReader(file))
    assert sum(float(row["low"] or 0) for row in rows_bought) == bought.total.known.low
    assert {row["item"] for row in rows_bought if not row["low"] and not row["source"].startswith("comes")} == {
        gap.split(" x ")[1].partition(" (")[0] for gap in bought.gaps
    }
    assert run("diff", old, tmp_path / "out", "--currency", "USD")[0] == 2
    with pytest.raises(topo.HeddleError, match="name the spec that it was built from: plan diff SPEC"):
        CliRunner().invoke(plan, ["diff", str(tmp_path / "out"), str(new)], catch_exceptions=False)


@pytest.mark.slow
def test_growth_on_two_floors(tmp_path: Path) -> None:
    """Each cable that is plugged is as long as the larger plan says, and stays only where it is long enough."""
    text = (topo.config_root() / "lab-20.yaml").read_text() + "floor: {rack_units: 42}\n"
    old, new = tmp_path / "old.yaml", tmp_path / "new.yaml"
    old.write_text(text)
    new.write_text(text.replace("count: 16", "count: 26").replace("leaves: 2", "leaves: 3"))
    assert run("diff", old, new, "-o", tmp_path / "works")[0] == 1
    target, before = topo.read(new), topo.read(old)
    layout, fabric = target.layout, target.fabric
    assert layout is not None
    assert target.cablings is not None

    def cables(cluster: topo.Cluster) -> dict[tuple[str, str], tuple[float, str]]:
        """Length and part by the names of the two nodes, of which all cables take the same way."""
        (one,), (cabling,) = cluster.fabrics, cluster.cablings or ()
        ends = [tuple(sorted(one.label(node) for node in one.port_node[link])) for link in one.links]
        taken = [(cabling.parts[part].length_m or 0, cabling.parts[part].item) for part in cabling.part.tolist()]
        return dict(zip(ends, taken, strict=True))

    wanted, had = cables(target), cables(before)
    rows = list(csv.DictReader((tmp_path / "works" / "works.csv").read_text().splitlines()))
    plugged = [row for row in rows if row["do"] == "plug"]
    node = {fabric.label(at): at for at in range(fabric.n_nodes)}
    for row in plugged:
        names = [row[end].rpartition(":")[0] for end in "ab"]
        assert (float(row["length_m"]), row["part"]) == wanted[min(names), max(names)]
        for name, end in zip(names, "ab", strict=True):
            device = layout.node_device[0][node[name]]
            assert row[f"{end}_place"] == f"{layout.rack_name(layout.rack[device])} U{layout.unit[device]}"
    new_pairs = {tuple(sorted(row[end].rpartition(":")[0] for end in "ab")) for row in plugged}
    short = {pair for pair in wanted.keys() & had.keys() if wanted[pair][0] > had[pair][0]}
    assert short <= new_pairs
    gone = {(float(row["length_m"]), row["part"]) for row in rows if row["do"] == "unplug"}
    assert gone and gone <= {*had.values()}


def test_works_name_the_transceiver_of_each_port(tmp_path: Path) -> None:
    """Servers of XDR have transceivers of one port, switches those of two, as in the cable list of the larger plan."""
    text = """name: x
nodes: {gpu: {model: dgx-b300, count: 2}}
network: {shape: rail, unit_nodes: 2, tree: {switch: Q3400, spines: 1, parallel: 2}}
floor: {rack_units: 48, racks_per_row: 2, rows: 4}
"""
    old, new = tmp_path / "old.yaml", tmp_path / "new.yaml"
    old.write_text(text)
    new.write_text(text.replace("count: 2", "count: 4"))
    assert run("diff", old, new, "-o", tmp_path / "works")[0] == 1
    cluster = topo.read(new)
    schedule = cable_rows(cluster.fabrics, cluster.catalog, cluster.layout, cluster.cablings)
    at = [HEADER.index(name) for name in ("part_number", "a_transceiver", "b_transceiver")]
    wanted = {tuple(row[place] for place in at) for row in schedule}
    rows = list(csv.DictReader((tmp_path / "works" / "works.csv").read_text().splitlines()))
    found = [(row["part"], row["a_transceiver"], row["b_transceiver"]) for row in rows if row["do"] == "plug"]
    assert {(part, *sorted(optics)) for part, *optics in found} <= {(part, *sorted(optics)) for part, *optics in wanted}
    assert any(a and b for _, a, b in found)


def test_a_plan_is_not_replaced_by_differences_nor_by_itself(dump: Path, tmp_path: Path) -> None:
    built, other = tmp_path / "plan", tmp_path / "other"
    assert run("build", topo.config_root() / "lab-20.yaml", "-o", built)[0] == 0
    was = sorted(built.rglob("*"))
    for words, why in (
        (["-o", built], "found plan.json of a plan, which would be lost"),
        (["--adopt", built], "would replace what this command reads"),
        (["-o", other, "--adopt", other], "would replace what this command reads"),
    ):
        with pytest.raises(topo.HeddleError, match=why):
            CliRunner().invoke(plan, ["diff", str(built), str(dump), *map(str, words)], catch_exceptions=False)
    spec = str(topo.config_root() / "lab-20.yaml")
    for command, file in (
        (["diff", spec, str(dump), "--adopt"], "plan.json"),
        (["diff", spec, spec, "--adopt"], "plan.json"),
        (["route", str(dump), "-o"], "bom.csv"),
        (["repair", spec, "-o"], "bom.csv"),
    ):
        with pytest.raises(topo.HeddleError, match=f"found {file} of a plan, which would be lost"):
            CliRunner().invoke(plan, [*command, str(built)], catch_exceptions=False)
    assert sorted(built.rglob("*")) == was
    assert not other.exists()


TWO = """name: two
nodes: {gpu: {model: dgx-h100, count: 2}, storage: {model: storage-ndr, count: 2}}
network: {shape: rail, unit_nodes: 4, tree: {switch: QM9700}}
networks: {storage: {network: {shape: fat-tree, switch: QM9700}, adapters: {gpu: 2, storage: 2}}}
"""


def test_what_a_readme_says_adopts_each_of_several_subnets(tmp_path: Path) -> None:
    spec, built = tmp_path / "two.yaml", tmp_path / "built"
    spec.write_text(TWO)
    assert run("build", spec, "-o", built)[0] == 0
    was = {path: path.read_bytes() for path in built.rglob("*") if path.is_file()}
    for name in ("two", "two-storage"):
        readme = (built / name / "opensm" / "README.md").read_text()
        (command,) = re.findall("^    plan (diff .*)$", readme, re.MULTILINE)
        places = {"SPEC": spec, "real.ibnetdiscover": built / name / "fabric.ibnetdiscover", "NEW": tmp_path / name}
        assert run(*(places.get(word, word) for word in shlex.split(command)))[0] == 0
        assert topo.read_fabric(tmp_path / name / "fabric.json").name == name
    assert was == {path: path.read_bytes() for path in built.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_the_works_of_each_subnet_have_the_names_that_are_told(tmp_path: Path) -> None:
    old, new = tmp_path / "old.yaml", tmp_path / "new.yaml"
    old.write_text(TWO)
    new.write_text(TWO.replace("dgx-h100, count: 2", "dgx-h100, count: 3"))
    said = run("diff", old, new, "-o", tmp_path / "works")[1]
    assert f"written to {tmp_path / 'works'}: works-SUBNET.csv of each subnet, step by step" in said
    for name in ("two", "two-storage"):
        assert (tmp_path / "works" / f"works-{name}.csv").is_file()
