"""ibdiagnet's ``.far``, written by another hand, and what is spoilt in it."""

from dataclasses import replace

import numpy as np
import pytest

import routing
from helpers.far import format_far
from helpers.trees import grow_tree
from routing.routed import Routed
from routing.studies.adaptive import AdaptiveTables, LidState, legal_tables, parse_far, prove_adaptive
from topo.errors import FormatError
from topo.fabric import Fabric


@pytest.fixture(scope="module")
def dump() -> tuple[Routed, AdaptiveTables, str]:
    routed = routing.route(grow_tree((3, 4), (1, 3), (1, 1)))
    tables = legal_tables(routed)
    return routed, tables, format_far(routed.fabric, tables)


def ports_of(fabric: Fabric, tables: AdaptiveTables) -> np.ndarray:  # type: ignore[type-arg]
    return tables.allowed(fabric, 0, np.arange(tables.lft.shape[2]))


def test_what_was_written_is_read(dump: tuple[Routed, AdaptiveTables, str]) -> None:
    routed, tables, text = dump
    found, notes = parse_far(text, routed.fabric, routed.tables)
    assert notes == []
    assert (found.lft == tables.lft).all()
    assert (found.state == tables.state).all()
    assert (ports_of(routed.fabric, found) == ports_of(routed.fabric, tables)).all()


def test_hashed_and_bounded_entries_and_a_second_table_are_read(dump: tuple[Routed, AdaptiveTables, str]) -> None:
    routed, _, text = dump
    text = text.replace("Free ", "HBF  ", 1).replace("Free   ", "Bounded", 1)
    second = "PLFT_NUM: 1, top: 0x0004\nLID     Static Port  Lid State  Group\n0x0003  1  Static  0\n"
    found, _ = parse_far(text.replace("# end", second), routed.fabric, routed.tables)
    assert found.n_tables == 2
    assert {LidState.HBF, LidState.BOUNDED, LidState.FREE, LidState.STATIC} <= set(np.unique(found.state).tolist())
    last = routed.fabric.n_switches - 1
    assert found.lft[1, last, 3] == 1
    assert (found.state[1, last] != LidState.ABSENT).sum() == 1
    assert np.array_equal(found.state[1, :last], found.state[0, :last]), "packets meet a table that their switch has"
    renamed, _ = parse_far(text.replace("PLFT_NUM: 0", "PLFT_NUM: 3"), routed.fabric, routed.tables)
    assert renamed.n_tables == 1 and np.array_equal(renamed.lft[0], found.lft[0])


def test_a_foreign_switch_is_noted_and_a_missing_one_too(dump: tuple[Routed, AdaptiveTables, str]) -> None:
    routed, _, text = dump
    guid = f"0x{int(routed.fabric.node_guid[0]):016x}"
    _, notes = parse_far(text.replace(guid, "0x00000000000000aa"), routed.fabric, routed.tables)
    assert len(notes) == 2
    assert "that the fabric does not have" in notes[0]
    assert routed.fabric.label(0) in notes[1]


def test_what_a_dump_leaves_out_is_unknown_or_that_of_other_tables(dump: tuple[Routed, AdaptiveTables, str]) -> None:
    """A spine that the file does not have: nothing is known of packets that get there, unless tables say it."""
    routed, tables, text = dump
    spine = int(routed.fabric.level[: routed.fabric.n_switches].argmax())
    begin = text.index(f"Switch 0x{int(routed.fabric.node_guid[spine]):016x}")
    end = text.find("Switch", begin + 1)
    partly = text[:begin] + (text[end:] if end > 0 else "")
    discovered = replace(routed.fabric, discovered_lid=routed.tables.lid)
    alone, _ = parse_far(partly, discovered)
    assert not (alone.state[0, spine] != LidState.ABSENT).any()
    assert prove_adaptive(discovered, tables).verdict is True
    proof = prove_adaptive(discovered, alone)
    assert proof.verdict is None and proof.count("lost")
    filled, _ = parse_far(partly, routed.fabric, routed.tables)
    assert (filled.lft[0, spine] == routed.tables.lft[spine]).all()
    assert (filled.lft == tables.lft).all() and prove_adaptive(discovered, filled).verdict is True


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("File version: 1", "", "the line `File version: 1` above it"),
        ("File version: 1", "File version: 2", "version 1"),
        ("Lid State", "State of LID", "the columns LID, Static Port, Lid State, Group"),
        ("Sub Group  WHBF", "WHBF  Sub Group", "the columns Group, Sub Group, WHBF, Ports"),
        ("Free ", "Loose", "a state that is known: Bounded, Free, Static, HBF"),
        (" 0     4,", " 0     44,", "ports 1 to 6"),
        (" 0     4,", " 0     0,", "ports 1 to 6"),
        ("0x0001  0", "0x0001  9", "a port from 0 to 6"),
        ("0x0001  0", "0x9001  0", "a LID from 0x0001 to"),
        ("0x0001  0", "0x0000  0", "a LID from 0x0001 to"),
        ("0x0002", "0x0001", "each LID once in a table"),
        ("Free       1", "Free", "the number of its group"),
        ("PLFT_NUM: 0", "PLFT_NUM: 9", "each of at most 8 private tables once"),
        ("LFT Definition:\n", "LFT Definition:\nwhat is this\n", "a group of ports, or an entry of a table"),
    ],
)
def test_what_is_not_known_is_refused(
    dump: tuple[Routed, AdaptiveTables, str], old: str, new: str, expected: str
) -> None:
    routed, _, text = dump
    assert old in text
    with pytest.raises(FormatError, match="expected") as raised:
        parse_far(text.replace(old, new), routed.fabric, routed.tables, "a.far")
    assert expected in str(raised.value)
    assert str(raised.value).startswith("a.far:")


def test_nothing_and_a_fabric_without_lids_are_refused(dump: tuple[Routed, AdaptiveTables, str]) -> None:
    routed, _, text = dump
    with pytest.raises(FormatError, match="no adaptive table"):
        parse_far("", routed.fabric, routed.tables)
    with pytest.raises(FormatError, match="the fabric has none"):
        parse_far(text, routed.fabric)
    twice = text.replace("# end", text)
    with pytest.raises(FormatError, match="each switch once"):
        parse_far(twice, routed.fabric, routed.tables)
