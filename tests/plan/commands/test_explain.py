"""`plan explain`: a slow adapter is identified by its name, and the exit status says so."""

import json
import re
from pathlib import Path

import pytest

import plan
import topo
from helpers.strategies import nightly
from helpers.twins import path
from plan.cli import run
from topo.catalog.load import config_root
from topo.fabric import Role

LAB = str(config_root() / "lab-20.yaml")
Captured = pytest.CaptureFixture[str]


def matrix(slow: str = "") -> str:
    names = [f"gpu{number:02}" for number in range(8)]
    lines = ["GB/s," + ",".join(names)]
    for a, one in enumerate(names):
        row = [one] + ["-" if a == b else str(11.0 if slow in (one, two) else 24.0 + 0.05 * ((a * b) % 5))
                       for b, two in enumerate(names)]  # fmt: skip
        lines.append(",".join(row))
    return "\n".join(lines) + "\n"


def test_a_slow_adapter_is_identified(tmp_path: Path, capsys: Captured) -> None:
    file = tmp_path / "measured.csv"
    file.write_text(matrix("gpu05"))
    assert run(["explain", LAB, str(file), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert [one["channels"] for one in found["identified"]] == [["leaf0:6 -> gpu05 mlx5_0:1"]]
    assert len(found["identified"][0]["pairs"]) == 14
    assert run(["explain", LAB, str(file)]) == 1
    assert "gpu05" in capsys.readouterr().out


@pytest.mark.slow
def test_of_ethernet_pairs_are_explained_and_counters_refused(tmp_path: Path, capsys: Captured) -> None:
    spec, file = tmp_path / "ethernet.yaml", tmp_path / "measured.csv"
    spec.write_text("name: e\nnodes: {gpu: {model: dgx-b300-spectrum, count: 16}}\n"
                    "network: {shape: fat-tree, switch: SN5600, leaves: 4, spines: 2, parallel: 8}\n")  # fmt: skip
    file.write_text(re.sub(r"gpu(\d\d)", r"gpu\1 mlx5_0:1", matrix("gpu05")))
    assert run(["explain", str(spec), str(file), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert len(found["identified"]) == 1 and "gpu05" in found["identified"][0]["channels"][0]
    file.write_text("GUID 0x1 port 1: [PortXmitWait == 5]\n")
    assert run(["explain", str(spec), str(file)]) == 2


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "no such file"), (b"", "no lines of CSV"), (b"\x00\xff,\n", "the header"), (b"GB/s,gpu00\n", "--tables")],
)
def test_of_a_dump_without_tables_it_is_the_measured_file_that_is_refused_first(
    content: bytes | None, said: str, tmp_path: Path, capsys: Captured
) -> None:
    """Counters need no tables, so that a file which is neither counters nor pairs is not the fabric's fault."""
    dump, file = tmp_path / "lab.ibnetdiscover", tmp_path / "errors.txt"
    dump.write_text(topo.format_ibnetdiscover(topo.preset("lab-20").fabric))
    if content is not None:
        file.write_bytes(content)
    assert run(["explain", str(dump), str(file)]) == 2
    assert capsys.readouterr().err.startswith(f"{dump if said == '--tables' else file}:")
    assert run(["explain", str(dump), str(file)]) == 2
    assert said in capsys.readouterr().err


def test_no_fault_is_found_where_there_is_none(tmp_path: Path, capsys: Captured) -> None:
    file = tmp_path / "measured.csv"
    file.write_text(matrix())
    assert run(["explain", LAB, str(file)]) == 0
    assert re.search(r"no fault found: 56 pairs, median 192.* of 200 Gb/s", capsys.readouterr().out)
    file.write_text(matrix().replace("GB/s", "Gb/s"))
    assert run(["explain", LAB, str(file)]) == 3
    assert "the median is 12.0% of the rate of their links" in " ".join(capsys.readouterr().out.split())


def test_a_healthy_fabric_is_one_although_not_every_port_is_counted(tmp_path: Path, capsys: Captured) -> None:
    """`ibqueryerrors` names ports with errors alone, and none here; with --data, ports that sent."""
    file, guid = tmp_path / "errors.txt", int(topo.preset("lab-20").fabric.node_guid[0])
    summary = "## Summary: 24 nodes checked, 0 bad nodes found\n##          124 ports checked, 0 ports have errors\n"
    for first in ("", f"   GUID {guid:#x} port 1: [PortXmitData == 4000] [PortXmitWait == 5]\n"):
        file.write_text(first + summary)
        assert run(["explain", LAB, str(file)]) == 0
        out = capsys.readouterr().out
        assert "no fault found" in out and ("not known" in out)
        assert run(["explain", LAB, str(file), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["bad_links"] == []
    file.write_text(summary.replace("0 bad nodes", "3 bad nodes"))  # cut, or of another fabric
    assert run(["explain", LAB, str(file)]) == 2


def check_site(fabric: topo.Fabric, kinds: list[str], seed: int, folder: Path, capsys: Captured) -> None:
    """Explain a dump and counters alone: each fault of the kinds is told, and no link without errors is bad."""
    made = plan.mock(fabric, folder / "site", faults=8, kinds=kinds, seed=seed)
    site = [str(folder / "site" / name) for name in ("fabric.ibnetdiscover", "errors.txt")]
    label, faults = made.planned.port_label, {kind: [] for kind in kinds}
    for one in made.faults:
        faults[one.kind].append(one.ports)
    assert run(["explain", *site, "--json"]) == (1 if faults.get("errors") else 0)
    told = capsys.readouterr()
    found = json.loads(told.out)
    assert "no forwarding tables are given: pairs are counted on shortest paths" in told.err
    listed = " ".join(found["slow_cables"])
    assert {one["link"] for one in found["bad_links"]} == {
        " to ".join(map(label, ports)) for ports in faults.get("errors", ())
    }
    assert all(label(port) in listed for ports in faults.get("degraded", ()) for port in ports)
    for ports in faults.get("missing", ()):
        nodes = {made.planned.label(int(made.planned.port_node[port])) for port in ports}
        assert any(all(node in line for node in nodes) for line in found["uneven_links"])
    assert "identified" not in found
    run(["explain", *site])
    shown = capsys.readouterr().out
    assert ("no fault counted, but cables are slower" in shown) == (kinds == ["degraded"])
    assert "whether packets waited" not in shown


@pytest.mark.parametrize("kinds", [["errors"], ["degraded"], ["errors", "degraded", "missing"]])
def test_an_unknown_site_needs_no_tables(kinds: list[str], tmp_path: Path, capsys: Captured) -> None:
    check_site(topo.preset("dgx-h100-48").subnets[0], kinds, 5, tmp_path, capsys)


def test_waiting_is_not_explained_without_tables(tmp_path: Path, capsys: Captured) -> None:
    fabric = topo.preset("lab-20").fabric
    (tmp_path / "lab").write_text(topo.format_ibnetdiscover(fabric))
    rows = [f"GUID {guid:#x} port 1: [PortXmitWait == 70000] [PortXmitData == 9]" for guid in fabric.node_guid.tolist()]
    (tmp_path / "counters").write_text("\n".join(rows))
    assert run(["explain", str(tmp_path / "lab"), str(tmp_path / "counters"), "--json"]) == 0
    assert {"identified", "others"}.isdisjoint(json.loads(capsys.readouterr().out))
    assert run(["explain", LAB, str(tmp_path / "counters"), "--json"]) in (1, 3)


@pytest.mark.parametrize("name", ["ndr-pod", *map(nightly, ("hdr-pod", "a100-superpod", "two-frames", "edr-frames",
                                                            "qdr-directors", "fdr10-mesh"))])  # fmt: skip
@pytest.mark.slow
def test_the_cables_to_replace_of_a_real_machine(name: str, tmp_path: Path, capsys: Captured) -> None:
    check_site(topo.read_fabric(path(name)), ["errors", "degraded"], 7, tmp_path, capsys)


@pytest.mark.slow
def test_counters_name_the_port_that_others_wait_for(tmp_path: Path, capsys: Captured) -> None:
    fabric = topo.preset("lab-20").fabric
    near = [port for port in range(int(fabric.port_offset[1])) if fabric.role[fabric.peer_node[port]] == Role.COMPUTE]

    def lines(waits: int) -> str:
        """Hosts of the first leaf wait for its port to the first of them."""
        rows = [f"GUID {fabric.node_guid[0]:#x} port {near[0] + 1}: [PortXmitData == {waits}00000]"]
        for port in near[1:]:
            guid = fabric.node_guid[fabric.peer_node[port]]
            rows.append(f"GUID {guid:#x} port 1: [PortXmitWait == {waits}00000] [PortXmitData == {waits}0000]")
        return "\n".join(rows) + "\n"

    now, before = tmp_path / "now.txt", tmp_path / "before.txt"
    now.write_text(lines(7))
    before.write_text(lines(2))
    assert run(["explain", LAB, str(now), "--before", str(before), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["identified"][0]["channels"] == [fabric.channel_label(near[0])]
    assert len(found["identified"][0]["waited"]) == len(near) - 1
    assert run(["explain", LAB, str(now)]) == 1
    assert "ports of" in capsys.readouterr().out
    (tmp_path / "pairs.csv").write_text(matrix())
    assert run(["explain", LAB, str(tmp_path / "pairs.csv"), "--before", str(before)]) == 2


def test_a_file_that_is_none_is_refused(tmp_path: Path, capsys: Captured) -> None:
    file = tmp_path / "measured.csv"
    file.write_text("what,is,this\n")
    assert run(["explain", LAB, str(file)]) == 2
    assert f"{file}:1" in capsys.readouterr().err
