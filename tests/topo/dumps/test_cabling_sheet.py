"""Readers of planned cabling: what we write and what operators have published come back cable by cable."""

from io import BytesIO
from pathlib import Path

import openpyxl
import pytest

import topo
from helpers.dumps import format_ndt
from helpers.twins import twin
from plan.export.p2p import format_p2p_xlsx
from plan.export.topo_file import format_ibdm_topo, format_topo
from topo.dumps.cabling_sheet import parse_cabling_csv, parse_topo
from topo.errors import FormatError
from topo.fabric import Fabric, Kind

HEAD = "#StartDevice,StartPort,EndDevice,EndPort,LinkType\n"


def cables(fabric: Fabric, *, rates: bool = True) -> set:
    """Cables by the names of both ends; what is inside of a switch is none."""

    def end(port: int) -> tuple[str, int]:
        return fabric.label(int(fabric.port_node[port])).casefold(), int(fabric.port_number[port])

    return {
        frozenset([end(a), end(b), float(fabric.rate_gbps[a]) if rates else 0.0])
        for a, b in fabric.links.tolist()
        if Kind.AGGREGATION not in fabric.kind[fabric.port_node[[a, b]]]
    }


@pytest.mark.parametrize("preset", ["lab-20", "dgx-h100-48"])
def test_topo_files_come_back(preset: str) -> None:
    for fabric in topo.preset(preset).fabrics[:2]:
        assert cables(parse_topo(format_topo(fabric)).fabric) == cables(fabric)
        assert cables(parse_topo(format_ibdm_topo(fabric)).fabric, rates=False) == cables(fabric, rates=False)


def sheet_text(data: bytes) -> str:
    """A workbook as CSV, one sheet behind another."""
    book = openpyxl.load_workbook(BytesIO(data))
    rows = [row for sheet in book for row in sheet.iter_rows(values_only=True)]
    return "\n".join(",".join("" if cell is None else str(cell) for cell in row) for row in rows)


@pytest.mark.parametrize("preset", ["lab-20", pytest.param("fire-flyer-2", marks=pytest.mark.nightly)])
def test_our_workbook_comes_back(preset: str) -> None:
    cluster = topo.preset(preset)
    text = sheet_text(format_p2p_xlsx(cluster.name, cluster.fabrics, cluster.catalog))
    found = parse_cabling_csv(text)
    assert cables(found.fabric, rates=False) == cables(cluster.fabric, rates=False)


def test_an_ndt_comes_back() -> None:
    machine = twin("ndr-pod")
    assert cables(parse_cabling_csv(format_ndt(machine)).fabric, rates=False) == cables(machine, rates=False)


def test_ports_of_cages_and_frames() -> None:
    p2p = "Rack,U,Name,HCA/Port,Rack,U,Name,Port\n"
    p2p += "A,1,gpu0,1,B,2,leaf,sw11p2\nA,1,gpu0,3,B,2,old,7/1\nA,1,gpu1,1,B,2,old,9\n"
    fabric = parse_cabling_csv(p2p).fabric
    assert cables(fabric, rates=False) == {
        frozenset([("gpu0 mlx5_0", 1), ("leaf", 22), 0.0]),
        frozenset([("gpu0 mlx5_2", 1), ("old", 13), 0.0]),
        frozenset([("gpu1 mlx5_0", 1), ("old", 16), 0.0]),
    }
    assert fabric.hosts == ("gpu0", "gpu1")
    ndt = HEAD + "leaf,Port 21,frame,Blade 16_Port 2/20,Data\nframe,Blade 16_Port 2/20,LEAF,Port 21,Data\n"
    fabric = parse_cabling_csv(ndt).fabric
    assert cables(fabric, rates=False) == {frozenset([("leaf", 21), ("frame/l16/u2", 20), 0.0])}
    old = "MTS2400 S-1\n  P1 -> MT23108 H-1 P2\n  P24 -> MT23108 H-2 P1\n"
    assert cables(parse_topo(old).fabric, rates=False) == {
        frozenset([("s-1", 1), ("h-1 hca-1", 2), 0.0]),
        frozenset([("s-1", 24), ("h-2 hca-1", 1), 0.0]),
    }


@pytest.mark.parametrize(
    ("parse", "text", "line", "message"),
    [
        (parse_cabling_csv, "StartDevice,EndDevice,EndPort\n", 1, "no column startport"),
        (parse_cabling_csv, HEAD + "a,abra,b,cadabra,Data\n", 2, "none of which is the port of a switch"),
        (parse_cabling_csv, "Rack,U,Name,HCA/Port,Rack,U,Name,Prt\n", 1, "header without Name and Port"),
        (parse_cabling_csv, "Name,A-Node Name,Port,Name\n", 1, "no column a-port"),
        (parse_cabling_csv, "Rack,Name,EndDevice HCA/Port,Name,Port\n", 1, "header without"),
        (parse_cabling_csv, HEAD + "a,Port 1,b\n", 2, "expected a device and a port"),
        (
            parse_cabling_csv,
            HEAD + "a,Port 1,b,7/1,Data\na,7/3,b,7/2,Data\n",
            3,
            "cannot tell which port of 'a' is '7/3'",
        ),
        (parse_cabling_csv, HEAD + "a,Port 1,b,Port 1,Data\na,Port 1,b,Port 2,Data\n", 3, "second cable"),
        (parse_cabling_csv, HEAD + "a,Port 255,b,Port 1,Data\n", 2, "255 ports"),
        (parse_cabling_csv, HEAD, 0, "no switch"),
        (parse_topo, "  P1 -4x-50G-> MQM8700 leaf P1\n", 1, "before the first system"),
    ],
)
def test_what_is_broken_is_refused_with_its_line(parse, text: str, line: int, message: str) -> None:
    with pytest.raises(FormatError, match=message) as caught:
        parse(text, "x")
    assert caught.value.line == line


@pytest.mark.slow
def test_the_published_sheets(originals: Path) -> None:
    folder = originals / "azure_sat11_2021"
    planned = topo.read_fabric(folder / "planned_switch_to_switch.ndt")
    assert planned.counts().links == 3195
    assert topo.read_fabric(folder / "planned_switch_to_host.ndt").counts().links == 2223
    for path in folder.glob("negative_*.ndt"):
        with pytest.raises(FormatError):
            topo.read_fabric(path)
