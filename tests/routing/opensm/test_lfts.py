"""Forwarding tables as text: what we write we read, what the tools print we read, what is broken is refused."""

import dataclasses
import os
import re
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import routing
from helpers.ibdmchk import fdbs_sections
from helpers.random_fabrics import draw
from helpers.strategies import Case, cases, ring, spoil, tree
from routing.opensm import lfts
from routing.opensm.lfts import format_lfts, lfts_sections, parse_lfts, read_lfts
from routing.tables import NO_PATH, RoutingTables, assign_lids
from topo.budget import Budget
from topo.builder import FabricBuilder
from topo.errors import FormatError, HeddleError, RoutingError
from topo.fabric import Fabric, Role

HEAD = b"Unicast lids [0x0001-0x0008] of switch Lid 1 guid 0x%016x (sw0):\n"


@pytest.fixture
def small() -> Case:
    return tree(2)


def with_lids(case: Case) -> Fabric:
    return dataclasses.replace(case.fabric, discovered_lid=case.tables.lid)


def head(case: Case, switch: int = 0) -> bytes:
    return HEAD % int(case.fabric.node_guid[switch])


def entry(case: Case, end: int, port: int) -> bytes:
    return b"0x%04x %03d # portguid 0x%016x:\n" % (case.tables.lid[end], port, case.fabric.end_guid[end])


def test_the_text_of_one_switch() -> None:
    builder = FabricBuilder("one")
    builder.switch("MF0;lone:MQM8700/U1", model="MQM8700", radix=40, role=Role.LEAF, level=1, guid=0xABC)
    fabric = builder.build()
    tables = RoutingTables(assign_lids(fabric), np.array([[NO_PATH, 0]], np.uint8), engine="none")
    assert format_lfts(fabric, tables).decode() == (
        "# Forwarding tables of one, engine none\n"
        "Unicast lids [0x0001-0x0001] of switch Lid 1 guid 0x0000000000000abc (MF0;lone:MQM8700/U1):\n"
        "0x0001 000 # portguid 0x0000000000000abc:\n"
    )


@given(case=cases(corrupt=False))
def test_what_is_written_is_read_again(case: Case) -> None:
    text = format_lfts(case.fabric, case.tables)
    tables, notes = parse_lfts(text, case.fabric)
    assert (tables.lid == case.tables.lid).all()
    assert (tables.lft == case.tables.lft).all()
    assert notes == ()
    assert b"".join(lfts_sections(case.fabric, tables)).partition(b"\n")[2] == text.partition(b"\n")[2]


@given(case=cases(corrupt=False))
def test_tables_without_guids_are_read_by_the_lids_of_the_fabric(case: Case) -> None:
    """opensm.fdbs names LIDs alone."""
    text = "".join(fdbs_sections(case.fabric, case.tables)).encode()
    if not (case.fabric.peer[: case.fabric.first_adapter_port] >= 0).any():
        return  # no switch with a cable: nothing is listed
    tables, _ = parse_lfts(text, with_lids(case))
    listed = np.unique(case.fabric.port_node[case.fabric.peer >= 0])
    listed = listed[listed < case.fabric.n_switches]
    assert (tables.lid == case.tables.lid).all()
    assert (tables.lft[listed] == case.tables.lft[listed]).all()


CLOTHES = {
    "byte-order mark": lambda text: b"\xef\xbb\xbf" + text,
    "CR LF": lambda text: text.replace(b"\n", b"\r\n"),
    "no newline at the end": lambda text: text[:-1],
    "capitals": lambda text: text.replace(b"a", b"A").replace(b"c", b"C").replace(b"UniCAst", b"Unicast"),
    "indented": lambda text: text.replace(b"\n0x", b"\n  0x"),
    "as dump_fts": lambda text: text.replace(b" # port", b" : (Switch port").replace(b":\n", b": 'h')\n"),
    "counts": lambda text: text.replace(b"\nUnicast", b"\n695 lids dumped\n\nUnicast"),
    "multicast": lambda text: text.replace(b"\nUni", b"\nMulticast mlids [0xc000-0xc001] of ...\n0xc000 : 1 2\nUni"),
}


@pytest.mark.parametrize("changed", CLOTHES.values(), ids=CLOTHES)
def test_the_same_tables_in_other_clothes(small: Case, changed) -> None:
    tables, notes = parse_lfts(changed(format_lfts(small.fabric, small.tables)), small.fabric)
    assert (tables.lft == small.tables.lft).all()
    assert (tables.lid == small.tables.lid).all()
    assert notes == ()


def test_all_that_dump_fts_prints(small: Case) -> None:
    """Debian's infiniband-diags 44, with -a, which prints LID 0 and LIDs without a route too."""
    guid = int(small.fabric.node_guid[0])
    host = small.fabric.end_guid[4]
    text = (
        f"Unicast lids [0x0-0x8] of switch DR path slid 0; dlid 0; 0,21,25 guid 0x{guid:016x} (leaf0):\n"
        "  Lid  Out   Destination\n"
        "       Port     Info \n"
        "0x0000 255 : \n"
        f"0x0001 000 : (Switch portguid 0x{guid:016x}: 'leaf0')\n"
        "0x0002 255 : (path: <no route>)\n"
        f"0x0005 001 : (Channel Adapter portguid 0x{host:016x}: 'host0-0 mlx5_0')\n"
        "8 lids dumped \n"
    ).encode()
    tables, notes = parse_lfts(text, small.fabric)
    assert tables.lft[0].tolist() == [255, 0, 255, 255, 255, 1]
    assert tables.lid[[0, 4]].tolist() == [1, 5]
    assert notes == (
        "3 switches of the fabric have no table (leaf1, spine0, spine1)",
        "6 end ports of the fabric have no LID in the tables",
    )


def test_all_that_opensm_fdbs_holds(small: Case) -> None:
    guid = int(small.fabric.node_guid[0])
    text = (
        f"osm_ucast_mgr_dump_ucast_routes: Switch 0x{guid:016x}\nLID    : Port : Hops : Optimal\n"
        "0x0001 : 000  : 00   : yes\n0x0002 : UNREACHABLE\n0x0003 : 003  : 01   : No, optimal 2\n\n"
    ).encode()
    tables, _ = parse_lfts(text, with_lids(small))
    assert tables.lft[0, :5].tolist() == [255, 0, 255, 3, 255]
    with pytest.raises(FormatError, match="without port GUIDs of this fabric, which has no LIDs"):
        parse_lfts(text, small.fabric)


def test_lids_in_the_text_go_before_those_of_the_discovery(small: Case) -> None:
    """Tables of another LID assignment: each port is where its GUID says, and nobody owns a stranger's LID."""
    moved = np.where(small.tables.lid > 0, small.tables.lid + 100, 0).astype(np.uint16)
    lft = np.full((len(small.tables.lft), int(moved.max()) + 1), NO_PATH, np.uint8)
    lft[:, moved] = small.tables.lft[:, small.tables.lid]
    tables, _ = parse_lfts(format_lfts(small.fabric, RoutingTables(moved, lft)), with_lids(small))
    assert (tables.lid == moved).all()
    stranger = head(small) + entry(small, 0, 0) + b"0x0002 003 # portguid 0x00000000deadbeef:\n"
    tables, notes = parse_lfts(stranger, with_lids(small))
    assert (tables.lid == 2).sum() == 0
    assert notes[0] == "1 entries towards port GUIDs that the fabric does not have (from line 3)"


def test_several_lids_of_some_ports_are_read_by_the_lowest(small: Case) -> None:
    text = head(small) + b"".join(b"0x%04x 001 portguid 0x%016x\n" % (lid, small.fabric.end_guid[4]) for lid in (9, 8))
    tables, notes = parse_lfts(text, with_lids(small))
    assert (tables.lid[4], tables.lmc) == (8, 0)
    assert tables.lft[0, 8:].tolist() == [1, 1]
    text += b"".join(b"0x%04x 001 portguid 0x%016x\n" % (lid, small.fabric.end_guid[5]) for lid in (11, 12, 13))
    tables, notes = parse_lfts(text, small.fabric)
    assert (tables.lid[4], tables.lmc) == (8, 0)
    assert any("end ports do not have 2 LIDs (LMC 1) as others do" in note for note in notes)


@pytest.mark.parametrize("lmc", [1, 2, 3])
def test_tables_of_an_lmc_come_back_whole(lmc: int) -> None:
    routed = routing.route(tree(3, storage=1).fabric, lmc=lmc)
    known = replace(routed.fabric, discovered_lid=routed.tables.lid, lmc=lmc)
    bare = re.sub(rb" # portguid .*", b" ", format_lfts(routed.fabric, routed.tables))
    for text, fabric in ((format_lfts(routed.fabric, routed.tables), routed.fabric), (bare, known)):
        tables, notes = parse_lfts(text, fabric)
        assert (tables.lmc, notes) == (lmc, ())
        assert (tables.lid == routed.tables.lid).all()
        assert (tables.lft == routed.tables.lft).all()


def test_what_cannot_be_used_is_told(small: Case) -> None:
    text = head(small) + entry(small, 0, 0) + entry(small, 4, 1) + entry(small, 4, 2)
    text += b"Unicast lids [0x0-0x2] of switch Lid 9 guid 0x0000000000000001 (gone):\n" + 2 * entry(small, 4, 1)
    text += b"what is this\n" * 5
    tables, notes = parse_lfts(text, small.fabric)
    assert tables.lft[0, small.tables.lid[4]] == 2, "the last one counts"
    assert notes[:4] == (
        "1 switches that the fabric does not have (from line 5)",
        "2 entries of switches that the fabric does not have (from line 6, 7)",
        "1 duplicate entries (the last one counts) (from line 4)",
        "5 lines that are not part of a forwarding table (from line 8, 9, 10)",
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"0x0005 257\n", "port 257, which this switch does not have"),
        (b"0x0005 5\n", "port 5, which this switch does not have"),
        (b"0x0005 99999999999999999999\n", "port|cannot be read"),
        (b"0xc000 001\n", "LID 0xc000 is outside the unicast range 0x0001 to 0xbfff"),
        (b"0xffffffffffffffff 001\n", "outside the unicast range"),
        (b"0x00000000000000000005 001\n", "cannot be read"),
        (b"0x0000 001\n", "LID 0x0000 is outside"),
        (b"0x 001\n", "cannot be read"),
        (b"0x0005\n", "cannot be read"),
        (b"0x0005 0x1\n", "cannot be read"),
        (b"0x0005 1a\n", "cannot be read"),
        (b"0x0005 -1\n", "cannot be read"),
        (b"0x0001 001 # portguid 0x1:\n", "this LID has another port GUID on line 2"),
        (b"Unicast lids [0x0-0x2] of switch Lid 1 (leaf0):\n", "opens without the GUID of its switch"),
        (b"Unicast lids [0x0-0x2] of switch Lid 1 guid 0xZ (leaf0):\n", "opens without the GUID of its switch"),
    ],
)
def test_what_is_broken_is_refused_with_its_line(small: Case, line: bytes, message: str) -> None:
    text = head(small) + entry(small, 0, 0) + line + entry(small, 4, 1)
    with pytest.raises(FormatError, match=rf"tables:3: .*({message})"):
        parse_lfts(text, small.fabric, "tables")


def test_an_entry_before_any_switch_is_refused(small: Case) -> None:
    with pytest.raises(FormatError, match="tables:1: an entry before the first switch"):
        parse_lfts(entry(small, 0, 0), small.fabric, "tables")


@pytest.mark.parametrize(
    "text", [b"", b"\n\n", b"# nothing\n", b"\xef\xbb\xbf", b"vendid=0x2c9\nSwitch 40\n", HEAD % 1]
)
def test_a_text_without_tables_is_refused(small: Case, text: bytes) -> None:
    with pytest.raises(FormatError, match="no forwarding table of any switch of this fabric"):
        parse_lfts(text, small.fabric)


@given(text=st.binary(max_size=200), cut=st.integers(0, 400), again=st.integers(0, 400))
def test_junk_is_refused_and_nothing_else_happens(text: bytes, cut: int, again: int) -> None:
    case = ring(3)
    good = format_lfts(case.fabric, case.tables)
    with suppress(FormatError):
        parse_lfts(good[:cut] + text + good[again:], case.fabric)


def test_names_cannot_break_lines() -> None:
    builder = FabricBuilder("odd\nname guid 0x1 ")
    names = ("a\n0x0001 001", "b guid 0x1 \r\n", "#", "é" * 300, "Unicast lids guid 0x2 ")
    for name in names:
        builder.switch(name, model="m", radix=4, role=Role.SWITCH, level=-1)
    fabric = builder.build()
    lft = np.full((5, 6), NO_PATH, np.uint8)
    lft[np.arange(5), np.arange(1, 6)] = 0
    text = format_lfts(fabric, RoutingTables(assign_lids(fabric), lft))
    assert max(map(len, text.splitlines())) < 1022
    assert text.count(b"\n") == 1 + 2 * len(names)
    tables, notes = parse_lfts(text, fabric)
    assert (tables.lft == lft).all()
    assert notes == ()


def test_tables_that_opensm_would_reject_are_not_written(small: Case) -> None:
    with pytest.raises(RoutingError, match=r"switch leaf0 sends its own LID 0x0001 out of port 3; it must be port 0"):
        format_lfts(small.fabric, spoil(small, (0, 0, 3)).tables)
    with pytest.raises(RoutingError, match=r"switch leaf1 has ports 1 to 4, and its entry for LID 0x0005 says 5"):
        format_lfts(small.fabric, spoil(small, (1, 4, 5)).tables)
    lid = small.tables.lid.copy()
    lid[2] = 0
    with pytest.raises(RoutingError, match="switch spine0 has no LID"):
        format_lfts(small.fabric, dataclasses.replace(small.tables, lid=lid))


def test_files(small: Case, tmp_path, monkeypatch) -> None:
    path = tmp_path / "lfts"
    path.write_bytes(format_lfts(small.fabric, small.tables))
    assert (read_lfts(path, small.fabric).tables.lft == small.tables.lft).all()
    monkeypatch.setattr(lfts, "LFT_BYTES", Budget(100, "bytes", "", "", "lft-bytes"))
    with pytest.raises(FormatError, match=r"lfts: found more than 100 bytes; .*budget lft-bytes"):
        read_lfts(path, small.fabric)
    path.write_bytes(b"0x0001 1\n")
    with pytest.raises(FormatError, match="lfts:1: an entry before the first switch"):
        read_lfts(path, small.fabric)
    path.write_bytes(b"")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    threading.Thread(target=pipe.write_bytes, args=[b"0x0001 1\n"]).start()
    with pytest.raises(FormatError, match="pipe:1: an entry before the first switch"):
        read_lfts(pipe, small.fabric)
    for wrong in (path, tmp_path, tmp_path / "none", tmp_path / "a\0b"):
        with pytest.raises(HeddleError):
            read_lfts(wrong, small.fabric)


def test_an_endless_device_is_refused_before_it_fills_the_memory(small: Case) -> None:
    with pytest.raises(FormatError, match="found a device"):
        read_lfts(Path("/dev/zero"), small.fabric)


@pytest.mark.parametrize("seed", range(6))
def test_a_further_lid_is_followed_from_every_switch(seed: int) -> None:
    """As virtual ports have one; walked here switch by switch, with holes in some tables."""
    routed, rng = routing.route(draw(seed), "minhop"), np.random.default_rng(seed)
    fabric, tables = routed.fabric, routed.tables
    end, lid = int(rng.choice(fabric.ends())), int(tables.lid.max()) + 5
    lft = np.full((fabric.n_switches, lid + 1), NO_PATH, np.uint8)
    lft[:, : tables.lft.shape[1]] = tables.lft
    lft[:, lid] = lft[:, tables.lid[end]]
    holes = rng.choice(fabric.n_switches, int(rng.integers(0, fabric.n_switches)), replace=False)
    lft[holes, lid] = NO_PATH
    text = format_lfts(fabric, RoutingTables(tables.lid, lft))
    guid = int(fabric.end_guid[end])
    rows = {switch: f"0x{lid:04x} {lft[switch, lid]:03d} : (Channel Adapter portguid 0x{guid:016x}: 'vport')\n"
            for switch in range(fabric.n_switches) if lft[switch, lid] != NO_PATH}  # fmt: skip
    sections = text.decode().split("Unicast lids ")[1:]
    whole = "".join(
        "Unicast lids " + re.sub(rf"(?m)^0x{lid:04x}.*\n", "", section).rstrip("\n") + "\n" + rows.get(switch, "")
        for switch, section in enumerate(sections)
    )
    lost = 0
    for switch in range(fabric.n_switches):
        at = switch
        for _ in range(fabric.n_switches + 1):
            if lft[at, lid] == NO_PATH:
                lost += 1
                break
            port = int(fabric.peer[fabric.port_offset[at] + lft[at, lid] - 1])
            if port == int(fabric.port_of(np.array([end]))[0]):
                break
            at = int(fabric.port_node[port])
    found, notes = parse_lfts(whole.encode(), fabric)
    (note,) = [note for note in notes if "further LID" in note]
    assert found.lmc == 0
    assert note.startswith("1 further LID of end ports")
    assert note.endswith(f"0x{lid:04x} from {lost} of {fabric.n_switches} switches" if lost else "from every switch")


def test_the_last_line_is_read_however_short(small: Case) -> None:
    text = format_lfts(small.fabric, small.tables)
    assert parse_lfts(text, small.fabric).notes == ()
    (note,), lines = parse_lfts(text + b"x", small.fabric).notes, text.splitlines()
    assert note == f"1 lines that are not part of a forwarding table (from line {len(lines) + 1})"
