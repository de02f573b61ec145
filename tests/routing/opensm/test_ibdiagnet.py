"""What ibdiagnet writes of lanes: what was made for ibdmchk comes back as it was."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import routing
import topo
from helpers.ibdmchk import format_sl2vl, path_sl_sections
from plan.inputs import RoutingFiles, read_routed_argument
from routing.opensm.ibdiagnet import parse_psl, parse_slvl
from topo.errors import FormatError

ROUTED = routing.route(topo.preset("lab-20").fabric, "fat-tree")
FABRIC = ROUTED.fabric
ROW = "0x10 1 2 0x01 0x23 0x45 0x67 0x00 0x00 0x00 0x00\n"


def with_levels() -> routing.RoutingTables:
    """Tables whose paths have random levels, by switch and LID."""
    rng = np.random.default_rng(1)
    levels = rng.integers(0, 8, ROUTED.tables.lft.shape).astype(np.uint8)
    return replace(ROUTED.tables, path_sl=levels, sl2vl=(*range(8), *range(8)))


def test_levels_and_lanes_come_back(tmp_path: Path) -> None:
    tables = with_levels()
    lanes = parse_slvl(format_sl2vl(FABRIC, tables))
    assert lanes.sl2vl == tables.sl2vl
    assert lanes.arbitration == tuple((lane, 64) for lane in range(8))
    (tmp_path / "slvl").write_text(format_sl2vl(FABRIC, tables))
    assert routing.opensm.read_lanes(tmp_path / "slvl") == lanes
    (tmp_path / "psl").write_text("".join(path_sl_sections(FABRIC, tables)))
    found = routing.opensm.read_levels(tmp_path / "psl", FABRIC, ROUTED.tables)
    leaves = np.unique(FABRIC.peer_node[FABRIC.first_adapter_port :])
    leaves = leaves[(leaves >= 0) & (leaves < FABRIC.n_switches)]
    lids = tables.lid[tables.lid > 0]
    assert np.array_equal(found.path_sl[np.ix_(leaves, lids)], tables.path_sl[np.ix_(leaves, lids)])


def test_commands_take_them(tmp_path: Path) -> None:
    (tmp_path / "x.ibnetdiscover").write_text(topo.format_ibnetdiscover(FABRIC, ROUTED.tables.lid))
    (tmp_path / "lfts").write_bytes(routing.opensm.format_lfts(FABRIC, ROUTED.tables))
    (tmp_path / "slvl").write_text(ROW)
    guid = int(FABRIC.node_guid[FABRIC.n_switches])
    (tmp_path / "psl").write_text(f"0x{guid:016x} 1 3\n")
    files = RoutingFiles(tmp_path / "lfts", tmp_path / "slvl", tmp_path / "psl")
    found = read_routed_argument(tmp_path / "x.ibnetdiscover", files)
    assert found.tables.sl2vl[:8] == (0, 1, 2, 3, 4, 5, 6, 7)
    assert found.tables.path_sl is not None
    assert found.tables.path_sl.sum() == 3


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (ROW + ROW.replace("0x01", "0x10"), 2, "other lanes than in line 1"),
        (ROW + "0x10 1\n", 2, "eight bytes"),
        (ROW.replace(" 1 2 ", " 0 2 "), 0, "no lanes of any port"),
        (ROW.replace("0x01 0x23 0x45 0x67", "0xff 0xff 0xff 0xff").replace("0x00", "0xff"), 1, "lane 15"),
    ],
)
def test_lanes_that_cannot_be(text: str, line: int, message: str) -> None:
    with pytest.raises(FormatError, match=message) as caught:
        parse_slvl(text, "slvl")
    assert caught.value.line == line


def test_levels_that_cannot_be() -> None:
    hosts = FABRIC.node_guid[FABRIC.n_switches :].tolist()
    leaf = FABRIC.peer_node[FABRIC.first_adapter_port :]
    same = [guid for guid, at in zip(hosts, leaf.tolist(), strict=False) if at == leaf[0]]
    good = f"0x{same[0]:016x} 1 2\n"
    for bad, message in (
        ("0x1 1 2\n", "GUID of an adapter"),
        (good.replace(" 1 2", " 1 16"), "level of 0 to 15"),
        (good.replace(" 1 2", " 60000 2"), "a LID of the tables"),
        (f"0x{same[1]:016x} 1 3\n", "another host on"),
        ("words\n", "found 'words'"),
    ):
        with pytest.raises(FormatError, match=message) as caught:
            parse_psl(good + bad, FABRIC, ROUTED.tables, "psl")
        assert caught.value.line == 2
