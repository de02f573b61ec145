"""Counters of ports: three forms say the same; what is full or of another fabric is not taken."""

from pathlib import Path

import numpy as np
import pytest

import simulate
from helpers.presets import routed_lab
from simulate.diagnosis.counters import are_counters, parse_counters
from topo.errors import FormatError
from topo.fabric import Fabric

ROUTED = routed_lab()
FABRIC = ROUTED.fabric
RNG = np.random.default_rng(0)
PLUGGED = np.flatnonzero(FABRIC.peer >= 0)
WORDS, TICKS = RNG.integers(1 << 40, size=FABRIC.n_ports), RNG.integers(1 << 30, size=FABRIC.n_ports)


def place(fabric: Fabric, port: int) -> tuple[int, int]:
    """Return the GUID of a port's node and its number, by walking the nodes."""
    node = max(at for at in range(fabric.n_nodes) if fabric.port_offset[at] <= port)
    return int(fabric.node_guid[node]), port - int(fabric.port_offset[node]) + 1


def as_db_csv(wait: str = "PortXmitWaitExt") -> list[str]:
    rows = [(*place(FABRIC, port), port) for port in PLUGGED.tolist()]
    return ["START_NODES", "NodeDesc", "END_NODES", "START_PM_INFO", f"NodeGUID,PortGUID,PortNumber,PortXmitData,"
            f"PortXmitDataExtended,{wait}", *(f"{guid:#x},0x1,{number},4294967295,{WORDS[port]},{TICKS[port]}"
            for guid, number, port in rows), "END_PM_INFO"]  # fmt: skip


def as_queried() -> list[str]:
    lines = ['Errors for "gpu"']
    for port in PLUGGED.tolist():
        guid, number = place(FABRIC, port)
        lines.append(f"   GUID {guid:#x} port {number}: [PortXmitWait == {TICKS[port]} (1.2M)] "
                     f"[PortXmitData == {WORDS[port]} (3.4TB)]")  # fmt: skip
    return [*lines, "   GUID 0x77 port ALL: [PortXmitWait == 1]", "", "## Summary: 4 nodes checked, 4 bad nodes found"]


def as_dotted() -> list[str]:
    lines = []
    for port in PLUGGED.tolist():
        end = int(FABRIC.end_of(np.array([port]))[0])
        _, number = place(FABRIC, port)
        lines += [f"# Port extended counters: Lid {ROUTED.tables.lid[end]} port {number} (CapMask: 0x5300)",
                  f"PortSelect:......................{number}", f"PortXmitData:....................{WORDS[port]}",
                  f"PortXmitWait:....................{TICKS[port]}"]  # fmt: skip
    return lines


@pytest.mark.parametrize("lines", [as_db_csv(), as_db_csv("port_xmit_wait"), as_queried(), as_dotted()])
def test_every_form_says_the_same(lines: list[str]) -> None:
    found = parse_counters(lines, ROUTED)
    assert (found.known == (FABRIC.peer >= 0)).all()
    np.testing.assert_array_equal(found.sent_bytes[PLUGGED], 4.0 * WORDS[PLUGGED])
    np.testing.assert_array_equal(found.lost_bytes[PLUGGED], 8.0 * TICKS[PLUGGED])  # HDR: a tick is 8 bytes


def test_what_ibqueryerrors_leaves_out_is_zero() -> None:
    lines = [line.replace("[PortXmitWait", "[Other") for line in as_queried()]
    assert not parse_counters(lines, ROUTED).lost_bytes[PLUGGED].any()


def test_counters_at_their_ceiling_are_not_known() -> None:
    guid, number = place(FABRIC, int(PLUGGED[0]))
    lines = [*as_queried(), f"GUID {guid:#x} port {number}: [PortXmitWait == 4294967295] [PortXmitData == 1]"]
    found = parse_counters(lines, ROUTED)
    assert (found.full, found.known[PLUGGED[0]]) == (1, False)


def test_growth_is_what_counts() -> None:
    found = parse_counters(as_queried(), ROUTED)
    grown = simulate.diagnosis.Counters(found.sent_bytes + 7, found.lost_bytes * 0 + 3).since(found)
    assert set(grown.sent_bytes[PLUGGED]) == {7.0}
    assert set(grown.lost_bytes[PLUGGED][TICKS[PLUGGED] > 0]) == {3.0}  # cleared in between


@pytest.mark.parametrize("lines", [[], ["START_PM_INFO", "what"], ["GUID 0x1234 port 1: [PortXmitWait == 3]"]])
def test_files_without_counters_of_the_fabric_are_refused(lines: list[str]) -> None:
    with pytest.raises(FormatError, match="no port of the fabric"):
        parse_counters(lines, ROUTED)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [(["# of today", "source,destination,Gb/s"], False), ([], False), (as_queried(), True), (as_dotted(), True)],
)
def test_a_list_of_pairs_is_not_taken_for_counters(tmp_path: Path, lines: list[str], expected: bool) -> None:
    (tmp_path / "file").write_text("\n".join(lines))
    assert are_counters(tmp_path / "file") == expected
