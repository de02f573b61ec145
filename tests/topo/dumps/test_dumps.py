"""Readers of what ibdiagnet and iblinkinfo write: every machine comes back as ibnetdiscover has it."""

import csv
from pathlib import Path

import numpy as np
import pytest

import topo
from helpers.dumps import assert_same, format_db_csv, format_iblinkinfo, format_net_dump, format_port_list, lids_of
from helpers.twins import MACHINES, path
from topo.dumps.db_csv import parse_db_csv
from topo.dumps.fabric_file import read_dump
from topo.dumps.iblinkinfo import parse_iblinkinfo
from topo.dumps.ibnetdiscover import parse_port_list
from topo.dumps.net_dump import parse_net_dump
from topo.errors import FormatError
from topo.fabric import Fabric

LAB = topo.preset("lab-20").fabric
SMALL = ("fdr10-mesh", "ndr-pod", "frame")


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in SMALL else pytest.mark.slow) for n in MACHINES])
def test_a_database_reads_back_equal(name: str) -> None:
    machine = read_dump(path(name)).fabric
    for twice in (False, True)[: 1 + (name in SMALL)]:
        found = parse_db_csv(format_db_csv(machine, twice=twice))
        assert found.skipped == ()
        assert_same(found.fabric, machine)


@pytest.mark.parametrize("name", SMALL)
def test_our_database_says_what_that_of_another_hand_says(name: str) -> None:
    """Row by row but for the system image GUID, which no dump has; counters are a table of their own."""
    machine = read_dump(path(name)).fabric
    ours, theirs = topo.format_db_csv(machine), format_db_csv(machine)

    def rows(text: str, table: str, columns: list[str]) -> set[tuple[str, ...]]:
        lines = text.partition(f"START_{table}\n")[2].partition("END_")[0].splitlines()
        return {tuple(row[column] for column in columns) for row in csv.DictReader(lines)}

    columns = {
        "NODES": ["NodeDesc", "NumPorts", "NodeType", "NodeGUID", "DeviceID"],
        "PORTS": ["NodeGuid", "PortGuid", "PortNum", "LID", "LinkWidthActv", "LinkSpeedActv", "PortState"],
        "LINKS": ["NodeGuid1", "PortNum1", "NodeGuid2", "PortNum2"],
    }
    for table, names in columns.items():
        assert rows(ours, table, names) == rows(theirs, table, names) != set()
    assert cables(parse_db_csv(ours).fabric) == cables(machine)
    counted = topo.format_db_csv(machine, {3: {"PortRcvErrors": 7, "PortXmitWait": 8}})
    place = f"0x{int(machine.node_guid[machine.port_node[3]]):016x}", str(machine.port_number[3])
    assert rows(counted, "PM_INFO", ["NodeGUID", "PortNumber", "PortRcvErrors", "PortXmitWait"]) == {(*place, "7", "8")}


@pytest.mark.nightly
@pytest.mark.parametrize("name", MACHINES)
def test_a_database_of_a_real_dump_reads_back_equal(name: str, originals: Path, tmp_path: Path) -> None:
    dump = read_dump(originals / MACHINES[name].dump).fabric
    (tmp_path / "ibdiagnet2.db_csv").write_text(format_db_csv(dump))
    assert_same(read_dump(tmp_path / "ibdiagnet2.db_csv").fabric, dump)


def cables(fabric: Fabric) -> set:
    """Cables by the GUIDs and LIDs of both ends, in whatever order; nobody but the node tells its own GUID."""
    lids = lids_of(fabric)

    def end(port: int) -> tuple:
        node, lid = int(fabric.port_node[port]), lids[int(fabric.end_of(np.array(port)))]
        number = int(fabric.port_number[port]) if node < fabric.n_switches else 0
        return int(fabric.port_guid[port]), number, lid, fabric.names[node]

    return {frozenset([end(a), end(b), (int(fabric.width[a]), int(fabric.speed[a]))]) for a, b in fabric.links.tolist()}


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in SMALL else pytest.mark.nightly) for n in MACHINES])
def test_lists_of_links_tell_the_same_cables(name: str) -> None:
    machine = read_dump(path(name)).fabric
    lids = [lid for lid in lids_of(machine) if lid]
    texts = [(parse_iblinkinfo, format_iblinkinfo(machine, line=True)), (parse_port_list, format_port_list(machine))]
    if len(lids) > machine.n_nodes:  # without LIDs, blocks do not tell who is at the other end
        texts.append((parse_iblinkinfo, format_iblinkinfo(machine)))
    if (np.diff(machine.port_offset[machine.n_switches :]) == 1).all() and not np.any(
        machine.port_guid[machine.first_adapter_port :] != machine.node_guid[machine.n_switches :]
    ):
        texts.append((parse_net_dump, format_net_dump(machine)))
    for parse, text in texts:
        assert cables(parse(text).fabric) == cables(machine), parse


def test_a_switch_of_four_planes_is_four_switches() -> None:
    """An adapter of XDR has a port on each plane; cages are called sw1p1 on every chip."""
    head = "# : IB# : Sta : PhysSta : MTU : LWA : LSA : FEC : Retran : Neighbor Guid : N# : NLID : Neighbor Description"
    up = "ACT : LINK UP : 5 : 1x : 200 : RS : NO-RTR"
    blocks = [
        f'"MF0;leaf:Q3400_RA/U{plane}", Nvidia, 0x{16 * plane:016x}, LID {plane}\n{head}\n'
        f'sw1p1 : 1 : {up} : 0x0000000000000100 : {plane} : {8 + plane} : "gpu00 mlx5_0"\n'
        "sw1p2 : 2 : DOWN : POLL : N/A : N/A : N/A : N/A : N/A : : : : \n"
        f'sw2p1 : 3 : {up} : 0x{64 + plane:016x} : sw7p2 : 7 : "MF0;spine:Q3400_RA/U{plane}"\n'
        f'"MF0;spine:Q3400_RA/U{plane}", Nvidia, 0x{64 + plane:016x}, LID {20 + plane}\n{head}\n'
        f'sw7p2 : 14 : {up} : 0x{16 * plane:016x} : sw2p1 : 3 : "MF0;leaf:Q3400_RA/U{plane}"\n'
        for plane in (1, 2, 3, 4)
    ]
    found = parse_net_dump("".join(blocks))
    assert found.skipped == ()
    fabric = found.fabric
    assert fabric.n_switches == 8
    assert fabric.hosts == ("gpu00",)
    assert len(fabric.inner_links) == 4
    assert fabric.rate_gbps[fabric.first_adapter_port :].tolist() == [200.0] * 4
    assert sorted(fabric.port_number[fabric.inner].tolist()) == [3] * 4 + [14] * 4


def test_a_database_of_four_planes_with_labels() -> None:
    """Tables that are not read do not matter, nor does an adapter with a port on each plane."""
    chips = [(name, plane, 16 * plane + at) for plane in (1, 2, 3, 4) for name, at in (("leaf", 0), ("spine", 9))]
    nodes = "".join(f'"MF0;{name}:Q3400_RA/U{plane}",145,2,0x{guid:x},0x10\n' for name, plane, guid in chips)
    links = "".join(f"0x{16 * n:x},1,0x100,{n}\n0x{16 * n:x},3,0x{16 * n + 9:x},14\n" for n in (1, 2, 3, 4))
    ports = "".join(f"0x{16 * plane:x},{port},1,4096,{plane}\n" for plane in (1, 2, 3, 4) for port in (0, 1, 3))
    labels = "0x10,0x10,1,1,sw1p1,1,0\n0x10,0x10,1,3,sw2p1,1,0\n"
    text = (
        f"START_NODES\nNodeDesc,NumPorts,NodeType,NodeGUID,SystemImageGUID\n{nodes}"
        f'"gpu00 mlx5_0",4,1,0x100,0x100\nEND_NODES\n'
        f"START_PORTS\nNodeGuid,PortNum,LinkWidthActv,LinkSpeedActv,LID\n{ports}END_PORTS\n"
        "START_PORT_HIERARCHY_INFO\nNodeGUID,PortGUID,TypeOfLabel,PortNum,ExtendedLabel,Plane,IsFNM\n"
        f"{labels}END_PORT_HIERARCHY_INFO\nSTART_LINKS\nNodeGuid1,PortNum1,NodeGuid2,PortNum2\n{links}END_LINKS\n"
    )
    fabric = parse_db_csv(text).fabric
    assert (fabric.n_switches, len(fabric.inner_links)) == (8, 4)
    leaves = fabric.peer_node[fabric.first_adapter_port :]
    assert sorted(fabric.names[leaf] for leaf in leaves) == [f"MF0;leaf:Q3400_RA/U{plane}" for plane in (1, 2, 3, 4)]
    assert set(fabric.rate_gbps[fabric.peer[fabric.first_adapter_port :]].tolist()) == {200.0}


NODES = 'START_NODES\nNodeDesc,NumPorts,NodeType,NodeGUID\n"a",2,2,0x1\n"b",1,1,0x2\nEND_NODES\n'
LINKS = "START_LINKS\nNodeGuid1,PortNum1,NodeGuid2,PortNum2\n0x1,1,0x2,1\nEND_LINKS\n"


@pytest.mark.parametrize(
    ("parse", "text", "line", "message"),
    [
        (parse_db_csv, NODES, 0, "no table START_LINKS"),
        (parse_db_csv, LINKS, 0, "no table START_NODES"),
        (parse_db_csv, NODES.replace("NodeType,", "") + LINKS, 2, "no column nodetype of table NODES"),
        (parse_db_csv, NODES.replace(",2,0x1", ",7,0x1") + LINKS, 3, "node type 7"),
        (parse_db_csv, NODES.replace("0x1", "one") + LINKS, 3, "found 'one' in column nodeguid"),
        (parse_db_csv, NODES.replace("0x1", "0x1" + "0" * 20) + LINKS, 3, "in column nodeguid"),
        (parse_db_csv, NODES.replace(",2,2", ",2") + LINKS, 3, "found 3 cells; expected 4"),
        (parse_db_csv, NODES + LINKS.replace("0x1,1", "0x1,9"), 8, "port 9 of S-"),
        (parse_net_dump, '"a", X, 0x1, LID 1\n: x : ACT : : : : : : : : : : b\n', 2, "number of a port"),
        (
            parse_iblinkinfo,
            '  1  1[  ] ==( 4X 25.78125 Gbps Active/ LinkUp)==>  2  1[  ] "b" ( )\n',
            1,
            "without a node",
        ),
        (
            parse_iblinkinfo,
            "Switch: 0x1 a:\n"
            '  7  1[  ] ==( 4X 25.78125 Gbps Active/ LinkUp)==>  7  1[  ] "b" ( )\n'
            "Switch: 0x2 b:\n"
            '  7  1[  ] ==( 4X 25.78125 Gbps Active/ LinkUp)==>  7  1[  ] "a" ( )\n',
            2,
            "LID 7 of 2 nodes",
        ),
    ],
)
def test_what_is_broken_is_refused_with_its_line(parse, text: str, line: int, message: str) -> None:
    with pytest.raises(FormatError, match=message) as caught:
        parse(text, "x")
    assert caught.value.line == line


def test_a_database_without_speeds_says_so() -> None:
    found = parse_db_csv(NODES + LINKS.replace("END", "0x1,2,0x9,1\nEND"))
    assert [reason for _, reason in found.skipped] == [
        "2 ports of links without a row in PORTS: taken as the other end, or 4xSDR",
        "a link of 0x0000000000000009, which has no row",
    ]


def test_each_format_shows_in_its_text(tmp_path: Path) -> None:
    for number, text in enumerate(
        (format_db_csv(LAB), format_net_dump(LAB), format_iblinkinfo(LAB, line=True), format_port_list(LAB)), start=1
    ):
        dump = tmp_path / f"dump{number}"
        dump.write_text("-I- banner\n" + text)
        assert topo.read_fabric(dump).counts().links == LAB.counts().links


def test_a_switch_with_two_live_ports_is_a_switch() -> None:
    """One GUID and one LID on two ports: an adapter has a LID for each."""
    near, far = '0x{:016x} "{:>30}" {:6d} {:4d}[  ]', '0x{:016x} {:6d} {:4d}[  ] "{}" ( )'
    line = f"{near} ==( 4X 25.78125 Gbps Active/  LinkUp)==>  {far}\n"
    cables = [(9, "spine", 1, 1, 1, 11, 3, "leaf"), (9, "spine", 1, 2, 2, 12, 3, "other"),
              (7, "gpu", 5, 1, 1, 11, 4, "leaf"), (8, "gpu", 6, 2, 2, 12, 4, "other")]  # fmt: skip
    rows = []
    for guid, name, lid, port, there, far_lid, far_port, far_name in cables:
        rows += [line.format(guid, name, lid, port, there, far_lid, far_port, far_name),
                 line.format(there, far_name, far_lid, far_port, guid, lid, port, name)]  # fmt: skip
    fabric = parse_iblinkinfo("".join(rows)).fabric
    assert sorted(fabric.names[: fabric.n_switches]) == ["leaf", "other", "spine"]
    assert len(fabric.links) == 4


def test_a_port_list_says_what_it_leaves_out() -> None:
    found = parse_port_list(format_port_list(LAB).replace("CA ", "XX ", 1) + "Connection timed out\n")
    assert len(found.skipped) >= 2
    assert len(found.fabric.links) in (len(LAB.links), len(LAB.links) - 1)
    with pytest.raises(FormatError, match="no switch"):
        parse_port_list("")


def test_a_row_that_names_no_port_is_left_out_and_the_others_are_read() -> None:
    """A cable between switches is named twice, so that one row can miss it."""
    lines = format_net_dump(LAB).split("\n")
    row = next(at for at, line in enumerate(lines) if ": sw" in line)
    number = lines[row].split(" : ")[10]
    lines[row] = lines[row].replace(f" : {number} : ", " : sw999p1 : ")
    found = parse_net_dump("\n".join(lines))
    assert [str(row + 1) in str(note) and "sw999p1" in str(note) for note in found.skipped] == [True]
    assert len(found.fabric.links) == len(LAB.links)
