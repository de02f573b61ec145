"""Drawings of racks and floor: every rack and device, the fullest tray marked, names as text, the same bytes."""

import json
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest

from helpers.presets import read_preset
from plan.cli import run
from topo.catalog.load import config_root
from topo.cluster import Cluster, parse
from topo.drawing.floor import draw_each_rack, draw_floor, draw_rack_index, draw_racks
from topo.palette import LOADS

SVG = "{http://www.w3.org/2000/svg}"
NAME = "dgx-h100-48"


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    return read_preset(NAME)


def texts(svg: str) -> list[str]:
    return ["".join(found.itertext()) for found in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_every_device_stands_in_its_rack(cluster: Cluster) -> None:
    layout = cluster.layout
    assert layout is not None
    fronts = draw_each_rack(cluster.fabrics, layout)
    for rack, front in enumerate(fronts):
        here = [device.name for device, where in zip(layout.devices, layout.rack, strict=True) if where == rack]
        shown = texts(front.svg)
        assert shown[0] == layout.rack_name(rack)
        assert set(here) <= set(shown)
        boxes = [box for box in ElementTree.fromstring(front.svg).iter(f"{SVG}rect") if box.get("class") == "v"]
        spans = sorted((float(box.get("y", 0)), float(box.get("height", 0))) for box in boxes)
        assert len(spans) == len(here)
        assert all(y + tall < below for (y, tall), (below, _) in pairwise(spans))
    together = [text for page in draw_racks(cluster.fabrics, layout) for text in texts(page.svg)]
    names = [layout.rack_name(rack) for rack in range(layout.n_racks)]
    assert [text for text in together if text in names] == sorted(names)


def in_trays(cluster: Cluster) -> Counter[tuple[int, int]]:
    """Cables by row and left rack of a section; one between rows lies along the row of the lower number."""
    layout, counted, told = cluster.layout, Counter[tuple[int, int]](), set()
    assert layout is not None and cluster.cablings is not None
    for subnet, (fabric, cabling) in enumerate(zip(cluster.fabrics, cluster.cablings, strict=True)):
        for link, ends in enumerate(fabric.port_node[fabric.links].tolist()):
            a, b = (int(layout.rack[layout.node_device[subnet][end]]) for end in ends)
            if (number := (subnet, int(cabling.cable[link]))) not in told:
                told.add(number)
                left, right = sorted((int(layout.column[a]), int(layout.column[b])))
                row, pieces = int(min(layout.row[a], layout.row[b])), cabling.parts[cabling.part[link]].pieces
                counted.update({(row, place): pieces for place in range(left, right)})
    return counted


def test_the_floor_has_every_rack_and_marks_the_fullest_tray(cluster: Cluster) -> None:
    layout, cablings = cluster.layout, cluster.cablings
    assert layout is not None and cablings is not None
    svg = draw_floor(cluster.fabrics, layout, cablings).svg
    shown = texts(svg)
    assert {layout.rack_name(rack) for rack in range(layout.n_racks)} <= set(shown)
    (((row, place), most),) = in_trays(cluster).most_common(1)
    assert f"the fullest: {most} cables" in shown
    root = ElementTree.fromstring(svg)
    marked = [group for group in root.iter(f"{SVG}g") if any(p.get("stroke") == LOADS[-1][1] for p in group)]
    section = " to ".join(f"R{row + 1:02d}-{column + 1:02d}" for column in (place, place + 1))
    assert f"{section}: {most} cables" in [group.findtext(f"{SVG}title") for group in marked]
    assert draw_floor(cluster.fabrics, layout, cablings).svg == svg


@pytest.mark.slow
def test_names_are_text(cluster: Cluster) -> None:
    layout = cluster.layout
    assert layout is not None
    hostile = "<script>alert(1)</script>\x00" * 9
    spoilt = replace(layout, devices=tuple(replace(device, name=hostile) for device in layout.devices))
    for drawing in [
        *draw_racks(cluster.fabrics, spoilt),
        draw_rack_index(spoilt, [hostile, "b", "c"], hostile),
        draw_floor(cluster.fabrics, spoilt, cluster.cablings or ()),
    ]:
        assert not list(ElementTree.fromstring(drawing.svg).iter(f"{SVG}script"))


@pytest.mark.slow
@pytest.mark.parametrize("view", ["racks", "floor"])
def test_plan_draw_draws_the_room(view: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = config_root() / f"{NAME}.yaml"
    for suffix, magic in ((".svg", b"<svg"), (".pdf", b"%PDF")):
        out = tmp_path / f"room{suffix}"
        assert run(["draw", str(spec), "--view", view, "-o", str(out)]) == 0
        assert out.read_bytes().startswith(magic)
    capsys.readouterr()
    assert run(["draw", str(config_root() / "lab-20.yaml"), "--view", view, "-o", str(tmp_path / "no.svg")]) == 2
    assert "found no racks; expected a spec with `floor`" in capsys.readouterr().err
    assert run(["draw", str(spec), "--view", view, "--tables", str(tmp_path), "-o", str(tmp_path / "no.svg")]) == 2
    assert not (tmp_path / "no.svg").exists()


@pytest.mark.parametrize(
    ("rows", "servers", "units"),
    [(1, 3, 42), pytest.param(1, 30, 42, marks=pytest.mark.slow), (3, 41, 52), (7, 60, 48)],
)
def test_racks_are_on_pages_that_an_a3_holds(rows: int, servers: int, units: int) -> None:
    """Each rack is on one page, racks of a page stand side by side, and A3 is 1,587 x 1,123 pixels at 96 an inch."""
    spec = {
        "name": "room",
        "nodes": {"gpu": {"model": "dgx-h100", "count": servers}},
        "network": {"shape": "fat-tree", "switch": "QM9700"},
        "floor": {"rows": rows, "rack_units": units, "rack_power": "11 kW"},
    }
    cluster = parse(spec)
    layout = cluster.layout
    assert layout is not None
    pages = [ElementTree.fromstring(page.svg) for page in draw_racks(cluster.fabrics, layout)]
    seen = [
        [int(group.get("data-rack", -1)) for group in page.iter(f"{SVG}g") if group.get("data-rack")] for page in pages
    ]
    assert sorted(rack for racks in seen for rack in racks) == list(range(layout.n_racks))
    for page, racks in zip(pages, seen, strict=True):
        assert float(page.get("width", 0)) <= 1587 and float(page.get("height", 0)) <= 1123
        assert {int(layout.row[rack]) for rack in racks} == {int(layout.row[racks[0]])}
        columns = [int(layout.column[rack]) for rack in racks]
        assert columns == list(range(columns[0], columns[0] + len(columns)))
    files = [f"page-{number} of ten.svg" for number in range(len(pages))]
    index = ElementTree.fromstring(draw_rack_index(layout, files, "room").svg)
    assert [link.get("href") for link in index.iter(f"{SVG}a")] == [file.replace(" ", "%20") for file in files]


def test_pages_of_racks_are_files_beside_their_index(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = config_root() / f"{NAME}.yaml"
    assert run(["draw", str(spec), "--view", "racks", "-o", str(tmp_path / "r.svg"), "--json"]) == 0
    names = json.loads(capsys.readouterr().out)["pages"]
    assert names == ["r-1.svg", "r-2.svg", "r-3.svg"]
    assert {path.name for path in tmp_path.iterdir()} == {"r.svg", *names}
    index = texts((tmp_path / "r.svg").read_text(encoding="utf-8"))
    assert set(names) <= set(index)
    (tmp_path / "r-2.svg").write_text("mine", encoding="utf-8")
    assert run(["draw", str(spec), "--view", "racks", "-o", str(tmp_path / "r.svg")]) == 2
    assert (tmp_path / "r-2.svg").read_text(encoding="utf-8") == "mine"
