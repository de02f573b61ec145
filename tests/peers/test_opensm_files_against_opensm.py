"""The real OpenSM loads every file that we write, and behaves as they say; its dumps are read back as they were."""

import re
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings

import routing
from helpers.opensm_daemon import level_of_path, run_opensm, serving
from helpers.random_fabrics import draw
from helpers.strategies import Case, cases, past_switch_0_on_lane_5, ring, seeds, tree
from plan.opensm_lab.ibsim import missing_tools, run_ibdmchk, simulated
from plan.opensm_lab.trials import rehearse
from routing.opensm.files import opensm_files
from routing.opensm.guid2lid import format_guid2lid, read_guid2lid
from routing.opensm.lfts import format_lfts, parse_lfts, read_lfts
from routing.proof import prove
from routing.routed import Routed
from topo.dumps.ibnetdiscover import parse_ibnetdiscover
from topo.errors import ToolError
from topo.fabric import Fabric, Role
from topo.spec.base import TrafficClass

pytestmark = pytest.mark.peer("ibsim", "opensm", "ibdmchk", "ibnetdiscover", "usr/lib/*/umad2sim/libumad2sim.so")

CLASSES = (
    TrafficClass(name="other", sl=0, vl=1, weight=32),
    TrafficClass(name="nccl", sl=2, vl=2, weight=128),
    TrafficClass(name="storage", sl=3, vl=3, weight=64, roles=(Role.STORAGE,)),
)


def files_in(folder: Path, case: Case, traffic: tuple[TrafficClass, ...] = ()) -> dict[str, bytes]:
    """The folder for OpenSM, with paths to where the run will have it."""
    files = opensm_files(Routed(replace(case.fabric, traffic=traffic), case.tables), directory=str(folder / "files"))
    return {name: data if isinstance(data, bytes) else b"".join(data) for name, data in files.items()}


def entries(fabric: Fabric, tables) -> np.ndarray:
    """Output ports by switch and end port, whatever the LIDs."""
    return tables.lft[:, tables.lid[fabric.end_switch >= 0]]


def named(case: Case, *names: str) -> Case:
    return Case(replace(case.fabric, names=(*names, *case.fabric.names[len(names) :])), case.tables)


def test_the_tools_are_there() -> None:
    assert missing_tools() == ()


@pytest.mark.parametrize("traffic", [(), CLASSES], ids=["one lane", "classes"])
def test_the_whole_folder_loads(traffic, tmp_path) -> None:
    case = tree(3, storage=1)
    with simulated(case.fabric, tmp_path) as subnet:
        run = subnet.opensm("file", files_in(tmp_path, case, traffic))
        printed = subnet.run(["dump_fts"])
    assert run.errors == ()
    assert run.notes == ()
    assert (run.tables.lid == case.tables.lid).all(), "guid2lid is honoured"
    assert (run.tables.lft == case.tables.lft).all()
    assert read_guid2lid(tmp_path / "cache" / "guid2lid") == {
        guid: range(lid, lid + 1)
        for guid, lid in zip(case.fabric.end_guid.tolist(), case.tables.lid.tolist(), strict=True)
    }
    report = run_ibdmchk(run)
    assert (report.pairs, report.missing, report.loops) == (72, 0, False)
    # What the other tools dump is the same.
    known = replace(case.fabric, discovered_lid=case.tables.lid)
    for tables, notes in (parse_lfts(printed.encode(), case.fabric), read_lfts(run.folder / "opensm.fdbs", known)):
        assert (tables.lid == case.tables.lid).all()
        assert (tables.lft == case.tables.lft).all()
        assert [note for note in notes if "not part of" not in note] == []


@settings(max_examples=8, suppress_health_check=[HealthCheck.too_slow])
@given(case=cases(corrupt=False, lanes=False, connected=True))
def test_any_tables_come_back_entry_for_entry(case: Case) -> None:
    fabric = case.fabric
    first = [int(fabric.port_offset[node]) for node in range(fabric.n_switches, fabric.n_nodes)]
    assume(any(fabric.peer[port] >= 0 for port in first))
    with TemporaryDirectory() as name:
        folder = Path(name)
        run = run_opensm(fabric, folder, "file", files_in(folder, case))
    assert run.errors == ()
    assert (run.tables.lid == case.tables.lid).all()
    assert (run.tables.lft == case.tables.lft).all()


def test_tables_survive_another_lid_assignment(tmp_path) -> None:
    case = tree(3)
    lids = case.tables.lid.tolist()
    other = format_guid2lid(zip(case.fabric.end_guid.tolist(), lids[::-1], [1] * len(lids), strict=True)).encode()
    run = run_opensm(case.fabric, tmp_path, "file", files_in(tmp_path, case) | {"guid2lid": other})
    assert run.tables.lid.tolist() == lids[::-1]
    assert (entries(case.fabric, run.tables) == entries(case.fabric, case.tables)).all()
    bare = re.sub(rb" # portguid .*", b" ", format_lfts(case.fabric, case.tables))
    run = run_opensm(case.fabric, tmp_path, "file", {"lfts": bare, "guid2lid": other})
    assert (entries(case.fabric, run.tables) != entries(case.fabric, case.tables)).any(), "which is why each has a GUID"


@pytest.mark.parametrize("lmc", [1, 2, 3])
def test_every_lid_of_a_port_loads_and_is_told(lmc: int, tmp_path) -> None:
    fabric = tree(3, storage=1).fabric
    routed = routing.route(fabric, lmc=lmc)
    rehearsal = rehearse(routed, routing.prove(routed))
    assert rehearsal.holds
    assert rehearsal.entries == fabric.n_switches * (fabric.n_switches + 9 * 2**lmc)
    files = opensm_files(routed, directory=str(tmp_path / "files"))
    with simulated(fabric, tmp_path) as subnet:
        run = subnet.opensm("file", files)
        found = parse_ibnetdiscover(subnet.ibnetdiscover()).fabric
    assert (run.tables.lmc, found.lmc) == (lmc, lmc)
    assert (run.tables.lft == routed.tables.lft).all()
    assert sorted(found.discovered_lid) == sorted(routed.tables.lid)
    assert sorted(routing.route(found).tables.lid) == sorted(routed.tables.lid), "a dump keeps its LIDs"


@pytest.mark.parametrize("seed", seeds(10))
def test_paths_to_several_lids_are_as_disjoint_as_those_of_opensm(seed: int, tmp_path) -> None:
    fabric = draw(seed)
    for lmc in (1, 2):
        ours = routing.studies.measure_lids(routing.route(fabric, "balanced", lmc=lmc))
        theirs = run_opensm(fabric, tmp_path / str(lmc), "minhop", options=["--lmc", str(lmc)])
        found = routing.studies.measure_lids(Routed(fabric, theirs.tables))
        assert (found.lids, found.pairs) == (ours.lids, ours.pairs)
        # minhop may close credit loops for it: in tori and HyperX it has up to .14 more.
        safe = not prove(Routed(fabric, theirs.tables), "adapters").credit_loops
        assert ours.disjointness >= found.disjointness - (0.04 if safe else 0.15)


def test_odd_names_break_nothing(tmp_path) -> None:
    case = named(tree(2), "Unicast lids guid 0x1 \n0x0001 001", 'leaf "1" # two', "MF0;" + 70 * "x" + ":", "SELF,ALL;")
    with simulated(case.fabric, tmp_path) as subnet:
        run = subnet.opensm("file", files_in(tmp_path, case, CLASSES))
    assert run.errors == ()
    assert (run.tables.lft == case.tables.lft).all()


def test_lanes_are_as_the_classes_ask(tmp_path) -> None:
    case = tree(3, storage=1)
    host = int(np.flatnonzero(case.fabric.role[case.fabric.end_node] == Role.STORAGE)[0])
    with simulated(case.fabric, tmp_path) as subnet:
        subnet.opensm("file", files_in(tmp_path, case, CLASSES))
        for end, port in ((0, 4), (3, 1), (host, 1)):
            lid = str(case.tables.lid[end])
            arbitration = subnet.run(["smpquery", "vlarb", lid, str(port)])
            lanes = [[int(text, 16) for text in re.findall("0x[0-9a-f]+", line)] for line in arbitration.splitlines()
                     if line.startswith(("VL", "WEIGHT"))]  # fmt: skip
            low, weights, _, high_weights = lanes
            assert list(zip(low, weights, strict=True))[:3] == [(1, 32), (2, 128), (3, 64)]
            assert sum(weights) == 32 + 128 + 64
            assert sum(high_weights) == 0
            rows = re.findall(r"out +\d+: \|(.*)\|", subnet.run(["smpquery", "sl2vl", lid, str(port)]))
            assert rows
            for row in rows:
                assert [int(text) for text in row.split("|")] == [1, 1, 2, 3, *[1] * 12]
            assert "OperVLs:.........................VL0-3" in subnet.run(["smpquery", "portinfo", lid, str(port)])


def test_everybody_is_a_full_member_of_the_partition(tmp_path) -> None:
    case = tree(2)
    with simulated(case.fabric, tmp_path) as subnet:
        subnet.opensm("file", files_in(tmp_path, case))
        for end in range(case.fabric.n_switches, case.fabric.n_end_ports):
            assert " 0xffff " in subnet.run(["smpquery", "pkeys", str(case.tables.lid[end])])


def test_names_are_read_by_the_tools(tmp_path) -> None:
    case = named(tree(2), "MF0;z0-leaf00:MQM8700/U1")
    (tmp_path / "names").write_bytes(files_in(tmp_path, case)["node-name-map"].replace(b"z0-leaf00", b"z0-leaf99"))
    with simulated(case.fabric, tmp_path) as subnet:
        assert '# "z0-leaf99"' in subnet.run(["ibnetdiscover", "--node-name-map", str(tmp_path / "names")])


@pytest.mark.parametrize("engine", ["updn", "ftree", "dfsssp"])
def test_guid_lists_are_read_by_the_engines_that_want_them(engine, tmp_path) -> None:
    case = tree(3, storage=1)
    files = {name: data for name, data in files_in(tmp_path, case).items() if name.endswith("_guids")}
    options = ["-Q"] if engine == "dfsssp" else []
    run = run_opensm(case.fabric, tmp_path, engine, files, options=options)
    assert run.errors == ()
    assert run_ibdmchk(run).missing == 0
    if engine == "updn":
        roots = {int(line, 16) for line in (run.folder / "opensm-updn-roots.dump").read_text().split()}
        assert roots == set(case.fabric.node_guid[3:6].tolist())
    if engine == "ftree":
        order = [line.split("\t")[1] for line in (run.folder / "opensm-ftree-ca-order.dump").read_text().splitlines()]
        compute = case.fabric.role == Role.COMPUTE
        assert {name for name in order if name.startswith("host")} == {
            name for name, is_one in zip(case.fabric.names, compute, strict=True) if is_one
        }


@pytest.mark.parametrize(
    ("name", "spoilt", "error"),
    [
        ("qos-policy.conf", lambda text: text.replace(b"end-qos-levels", b""), "ERR AC05"),
        ("qos-policy.conf", lambda text: text.replace(b"destination: class-", b"destination: no-"), "ERR AC"),
        ("guid2lid", lambda text: text.replace(b"0x0002", b"0x0001"), "ERR 0314"),
        ("partitions.conf", lambda text: text.replace(b"SELF=full", b"nobody"), "PARSE ERROR|bad PortGUID|ERR"),
        ("lfts", lambda text: text.replace(b" 000 ", b" 000"), "PARSE ERROR"),
        ("lfts", lambda text: text[: text.rindex(b" # portguid")], "PARSE ERROR"),
    ],
)
def test_the_log_would_tell_of_a_file_that_opensm_cannot_read(name, spoilt, error, tmp_path) -> None:
    """So a log without errors, as above, says something."""
    case = tree(2, storage=1)
    files = files_in(tmp_path, case, CLASSES)
    assert spoilt(files[name]) != files[name]
    try:
        told = " / ".join(run_opensm(case.fabric, tmp_path, "file", files | {name: spoilt(files[name])}).errors)
    except ToolError as failure:
        told = str(failure)
    assert re.search(error, told)


def levels_of_paths(case: Case, traffic: tuple[TrafficClass, ...], folder: Path) -> dict[tuple[int, int], int]:
    """The service level that OpenSM answers with for each pair of hosts."""
    hosts = range(case.fabric.n_switches, case.fabric.n_end_ports)
    lid = case.tables.lid.tolist()
    levels = {}
    with simulated(case.fabric, folder) as subnet, serving(subnet, files_in(folder, case, traffic)):
        for a in hosts:
            for b in hosts:
                if a != b:
                    levels[a, b] = level_of_path(subnet, lid[a], lid[b])
    return levels


def test_hosts_that_ask_for_a_path_are_told_the_level_of_its_class(tmp_path) -> None:
    case = tree(2, storage=1)
    role = case.fabric.role[case.fabric.end_node]
    levels = levels_of_paths(case, CLASSES, tmp_path)
    assert levels == {ends: 3 if Role.STORAGE in role[list(ends)] else 0 for ends in levels}
    assert set(levels.values()) == {0, 3}


def test_hosts_that_ask_for_a_path_are_told_the_level_that_keeps_it_from_loops(tmp_path) -> None:
    case = past_switch_0_on_lane_5(ring())
    levels = levels_of_paths(case, (), tmp_path)
    assert case.tables.path_sl is not None
    assert levels == {(a, b): case.tables.path_sl[case.fabric.end_switch[a], case.tables.lid[b]] for a, b in levels}
    assert set(levels.values()) == {0, 1}


# What goes wrong is told, and nothing is left running.


@pytest.mark.parametrize(
    ("engine", "files", "message"),
    [
        ("file", {"lfts": b"Unicast lids [0x0-0x1] of switch guid 0x1:\n"}, "PARSE ERROR"),
        ("nonsense", {}, "engine nonsense did not route this fabric"),
    ],
)
def test_an_engine_that_fails_is_told_apart(engine, files, message, tmp_path) -> None:
    with pytest.raises(ToolError, match=message):
        run_opensm(ring().fabric, tmp_path, engine, files)


def test_what_takes_too_long_is_ended(tmp_path) -> None:
    with simulated(ring().fabric, tmp_path) as subnet:
        with pytest.raises(ToolError, match=r"sleep has not finished after 0\.2 s"):
            subnet.run(["sleep", "60"], timeout_s=0.2)
        with pytest.raises(ToolError, match="opensm has not finished after 0 s"):
            subnet.opensm("minhop", timeout_s=0)
        with pytest.raises(ToolError, match="false left with status 1"):
            subnet.run(["false"])
        name = subnet.environment["IBSIM_SOCKNAME"]
        assert f"@{name}:ctl" in Path("/proc/net/unix").read_text()
    assert f"@{name}:" not in Path("/proc/net/unix").read_text()


def test_a_fabric_that_ibsim_does_not_take_is_refused(tmp_path) -> None:
    fabric = ring().fabric
    twins = replace(fabric, node_guid=np.where(np.arange(fabric.n_nodes) == 4, fabric.node_guid[5], fabric.node_guid))
    with pytest.raises(ToolError, match="ibsim"), simulated(twins, tmp_path):
        pass
