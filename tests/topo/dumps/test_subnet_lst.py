"""The reader of opensm-subnet.lst, and the one that tells formats apart."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import numpy as np
import pytest

import routing
from helpers.ibdmchk import format_subnet_list
from helpers.strategies import slow_but
from helpers.twins import twin
from topo.dumps.fabric_file import read_dump
from topo.dumps.subnet_lst import parse_subnet_lst
from topo.errors import FormatError
from topo.fabric import Kind
from topo.speeds import SPEEDS


def end(kind: str, guid: int, name: str, lid: int, port: int, ports: int = 40, device: str = "D2F0") -> str:
    return (
        f"{{ {kind} Ports:{ports:02X} SystemGUID:{guid:016x} NodeGUID:{guid:016x} "
        f"PortGUID:{guid + (port if kind[0] == 'C' else 0):016x} VenID:0002C9 DevID:{device} Rev:000000A1 "
        f"{{{name}}} LID:{lid:04X} PN:{port:02X} }}"
    )


LEAF = ("SW", 0x10, "MF0;leaf:MQM8700/U1", 0x1A)
SPINE = ("SW", 0x20, "spine", 0x1B)
HOST = ("CA-SM", 0x100, "gpu 1 {odd} mlx5_0", 0x1C)
LIST = "\n".join(
    [
        f"{end(*LEAF, 21)} {end(*SPINE, 1, device='D2F00000')} PHY=4x LOG=ACT SPD=50",
        f"{end(*LEAF, 1)} {end(*HOST, 1, 2, '101B0000')} PHY=2x LOG=ACT SPD=50",
        f"{end(*HOST, 1, 2, '101B')} {end(*LEAF, 1)} PHY=2x LOG=ACT SPD=50",
        f"{end(*SPINE, 1)} {end(*LEAF, 21)} PHY=4x LOG=ACT SPD=50",
        "",
    ]
)


def test_a_link_list_is_read() -> None:
    found = parse_subnet_lst(LIST)
    fabric = found.fabric
    assert found.skipped == ()
    assert fabric.names == ("MF0;leaf:MQM8700/U1", "spine", "gpu 1 {odd} mlx5_0")
    assert fabric.kind.tolist() == [Kind.SWITCH, Kind.SWITCH, Kind.HCA]
    assert fabric.links.tolist() == [[0, 80], [20, 40]]  # port numbers are hexadecimal
    assert fabric.discovered_lid.tolist() == [0x1A, 0x1B, 0x1C, 0]
    assert fabric.port_guid[80] == 0x101
    assert fabric.models == ("MQM8700", "Quantum", "ConnectX-6")
    assert fabric.rate_gbps[[0, 80, 20, 40]].tolist() == [100, 100, 200, 200]


@pytest.mark.parametrize(
    ("word", "generation"),
    [("2.5", "SDR"), ("5", "DDR"), ("10", "QDR"), ("FDR10", "FDR10"), ("14", "FDR"), ("25", "EDR"), ("100", "NDR")],
)
def test_speeds_are_those_of_a_lane(word: str, generation: str) -> None:
    fabric = parse_subnet_lst(LIST.replace("SPD=50", f"SPD={word}")).fabric
    assert {SPEEDS[speed] for speed in fabric.speed[fabric.peer >= 0].tolist()} == {generation}


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (LIST[:-40], 4, "cannot read"),
        (LIST[: LIST.rindex("{ SW", 0, LIST.rindex("{ SW"))], 1, "found 1 cable from one end only"),
        (LIST.replace("PN:15", "PN:29"), 1, "port 41 of S-0000000000000010"),
        (LIST.replace("PN:15", "PN:01"), 2, "which holds another cable in line 1"),
        (LIST.replace("Ports:02", "Ports:03", 1), 3, "2 ports of a node that has 3 in line 2"),
        (LIST.replace("Ports:28", "Ports:FFF"), 1, "4095 ports"),
        ("", 0, "no switch, adapter or router"),
    ],
)
def test_a_broken_list_is_refused_with_its_line(text: str, line: int, message: str) -> None:
    with pytest.raises(FormatError, match=message) as caught:
        parse_subnet_lst(text, "subnet.lst")
    assert caught.value.line == line


def test_what_can_be_left_out_is_counted() -> None:
    found = parse_subnet_lst("# made by hand\nhello\n" + LIST.replace("SPD=50", "SPD=warp", 1))
    assert [line for line, _ in found.skipped] == [2, 3]
    assert len(found.fabric.links) == 2
    found = parse_subnet_lst(LIST.replace("PN:15", "PN:00"))
    assert found.skipped == tuple((line, "port 0, which is a switch's own and holds no cable") for line in (1, 4))
    assert found.fabric.links.tolist() == [[0, 80]]


def test_the_format_of_a_fabric_shows_in_its_text(tmp_path: Path) -> None:
    lst = tmp_path / "fabric.gz"
    lst.write_bytes(gzip.compress(("-I- banner\n" * 50 + LIST).encode()))
    text = tmp_path / "fabric.txt"
    text.write_text(
        'Switch 40 "S-0000000000000010" # "leaf" base port 0 lid 1 lmc 0\n'
        '[1] "S-0000000000000010"[2] # "leaf" lid 1 4xEDR\n'
    )
    assert read_dump(lst).fabric.n_nodes == 3
    assert np.array_equal(read_dump(text).fabric.links, [[0, 1]])
    for content in (b"", b"name: a-spec\nversion: 1\n", b"Unicast lids [0x0-0x1] of switch guid 0x1\n", b"\x7fELF"):
        other = tmp_path / "other"
        other.write_bytes(content)
        with pytest.raises(FormatError, match="expected the output of ibnetdiscover"):
            read_dump(other)


@pytest.mark.parametrize("seed", slow_but(range(5), 0))
@pytest.mark.slow
def test_a_list_cut_at_a_line_end_is_refused_or_lacks_whole_cables(seed: int) -> None:
    """A cut list never shows a cable that the whole one has not, nor one that only one end names."""
    fabric = twin("ndr-pod")
    tables = routing.route(fabric, "minhop").tables
    lines = np.random.default_rng(seed).permutation(format_subnet_list(fabric, tables).splitlines()).tolist()
    whole = parse_subnet_lst("\n".join(lines)).fabric
    assert len(whole.links) == len(fabric.links)
    refused = 0
    for kept in range(1, len(lines), len(lines) // 40):
        named = [frozenset(re.findall(r"NodeGUID:(\w+).*? PN:(\w+)", line)) for line in lines[:kept]]
        halves = sum(named.count(cable) == 1 for cable in set(named))
        try:
            cut = parse_subnet_lst("\n".join(lines[:kept])).fabric
        except FormatError as error:
            assert f"found {halves:,} cable" in str(error)
            refused += 1
        else:
            assert halves == 0
            assert len(cut.links) == len(set(named))
    assert refused > 30
