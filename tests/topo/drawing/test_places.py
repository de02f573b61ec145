"""Where words and shapes of a drawing stand, read from the SVG: on the page, apart, in proportion to what they show."""

import base64
import re
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import cast
from xml.etree import ElementTree

import numpy as np
import pytest

import topo
from helpers.presets import read_preset
from helpers.trees import grow_tree
from topo import palette
from topo.catalog.load import load_catalog
from topo.drawing import HEAD, HEADLINE, MARGIN
from topo.drawing.bands import _pods
from topo.drawing.charts import Axes, chart
from topo.drawing.direct import _circle
from topo.drawing.floor import THICK, _fitted, draw_floor, draw_racks
from topo.drawing.scene import Area, Scene, Stroke, longest_label, short, text_width
from topo.drawing.svg import MARK, WIDER, Shades, _labels, _mark
from topo.fabric import Kind
from topo.floor.racks import FloorPlan, place_devices

SVG = "{http://www.w3.org/2000/svg}"


def placed(root: ElementTree.Element) -> Iterator[tuple[float, float, ElementTree.Element]]:
    """Every element with where its group is moved to."""

    def walk(element: ElementTree.Element, x: float, y: float) -> Iterator[tuple[float, float, ElementTree.Element]]:
        if moved := re.match(r"translate\((\S+) (\S+)\)", element.get("transform", "")):
            x, y = x + float(moved[1]), y + float(moved[2])
        yield x, y, element
        for inside in element:
            yield from walk(inside, x, y)

    yield from walk(root, 0.0, 0.0)


def words_of(svg: str) -> list[tuple[float, float, str, str]]:
    """Place, kind and words of each text."""
    return [
        (x + float(one.get("x", 0)), y + float(one.get("y", 0)), one.get("class", ""), "".join(one.itertext()))
        for x, y, one in placed(ElementTree.fromstring(svg))
        if one.tag == f"{SVG}text"
    ]


def network(shape: dict[str, object], servers: int = 16, model: str = "pcie-a100") -> topo.Cluster:
    return topo.parse({"name": "t", "nodes": {"gpu": {"model": model, "count": servers}}, "network": shape})


BIGRAPH = network({"shape": "bigraph", "switch": "SB7800", "side": 12, "parallel": 1}).fabric


@pytest.mark.parametrize("loaded", [False, True])
def test_labels_are_apart_and_a_bundle_has_its_words_and_its_load(loaded: bool) -> None:
    """One bundle, and room for both lines: as many links as there are, and what they carry."""
    loads = np.where(BIGRAPH.peer >= 0, 5, 0).astype(np.int64) if loaded else None
    svg = topo.draw(BIGRAPH, loads).svg
    labels = [(x, y, words) for x, y, kind, words in words_of(svg) if kind == "b"]
    (first, *more) = labels
    assert first[2] == "144 links: 1 from each of 12 to each of 12"
    assert len(more) == loaded
    for x, y, words in more:
        assert (x, words) == (first[0], words)
        assert 10 <= y - first[1] <= 20  # the next line
    boxes = [
        (x - WIDER * text_width(words, 10) / 2, y, x + WIDER * text_width(words, 10) / 2) for x, y, words in labels
    ]
    assert all(a[2] <= b[0] or b[2] <= a[0] or abs(a[1] - b[1]) >= 10 for a in boxes for b in boxes if a is not b)


@pytest.mark.parametrize("name", ["slow-subtrees", "fire-flyer-2"])
def test_labels_of_links_lie_on_none_of_their_kind_and_on_no_name_of_an_area(name: str) -> None:
    svg = topo.draw(read_preset(name)).svg
    found = [(x, y, kind, words) for x, y, kind, words in words_of(svg) if kind in ("b", "z o")]
    boxes = []
    for x, y, kind, words in found:
        wide = WIDER * text_width(words, 10 if kind == "b" else 12)
        left = x - wide / 2 if kind == "b" else x
        boxes.append((left, y - 9, left + wide, y + 3, kind))
    assert any(box[4] == "b" for box in boxes)
    for number, one in enumerate(boxes):
        for other in boxes[number + 1 :]:
            apart = one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
            assert apart or "b" not in (one[4], other[4])


def test_servers_are_named_where_there_is_room_and_dots_where_not() -> None:
    small, large = (topo.preset(name) for name in ("lab-20", "fire-flyer-2"))
    words = [text for *_, text in words_of(topo.draw(small).svg)]
    hosts = [host for fabric in small.fabrics for host in fabric.hosts]
    assert hosts and set(hosts) <= set(words)
    svg = topo.draw(large).svg
    assert not {text for *_, text in words_of(svg)} & set(large.fabrics[0].hosts)
    dots = [one.get("d", "").count("M") for *_, one in placed(ElementTree.fromstring(svg)) if one.get("class") == "h"]
    assert sum(dots) == large.fabrics[0].n_end_ports - large.fabrics[0].n_switches


def test_the_headline_of_each_subnet_stands_above_it_and_counts_what_it_has() -> None:
    cluster = network({"shape": "planes", "planes": 2, "tree": {"switch": "QM8700"}}, 20, "dgx-a100")
    spoilt = cluster.fabrics[1].without(cluster.fabrics[1].inner[:1])
    for fabrics in ([cluster.fabrics[0], spoilt], list(cluster.fabrics)):
        svg = topo.draw(fabrics).svg
        scenes = [
            y
            for _, y, one in placed(ElementTree.fromstring(svg))
            if (one.get("transform") or "").startswith(f"translate({MARGIN:g} ")
        ]
        heads = [(y, words) for _, y, kind, words in words_of(svg) if kind == "z" and "switches" in words]
        assert len(scenes) == len(heads) == (2 if spoilt in fabrics else 1)
        for (y, words), scene, fabric in zip(heads, scenes, fabrics, strict=False):
            assert scene - HEADLINE <= y <= scene
            adapters, servers = int((fabric.kind == Kind.HCA).sum()), len(fabric.hosts)
            assert f"{servers} servers, {adapters} adapters, {len(fabric.links):,} links" in words
        about = ElementTree.fromstring(svg).findtext(f"{SVG}desc") or ""
        adapters, links = (
            sum(int((one.kind == Kind.HCA).sum()) for one in fabrics),
            sum(len(one.links) for one in fabrics),
        )
        assert about.startswith("2 subnets, ") and about.endswith(f"20 servers, {adapters} adapters, {links:,} links")


@pytest.mark.parametrize("spines", [1, 2, 4])
def test_rows_of_a_group_have_one_middle(spines: int) -> None:
    shape = {"shape": "dragonfly+", "switch": "SB7800", "groups": 3, "leaves": 3, "spines": spines, "hosts": 2}
    fabric = network({**shape, "global_links": 2}, 6).fabric
    rows: dict[tuple[int, float], list[float]] = {}
    for cell in topo.lay_out(fabric).cells:
        rows.setdefault((int(fabric.zone[cell.switches[0]]), cell.y), []).append(cell.middle[0])
    middles: dict[int, set[float]] = {}
    for (zone, _), places in rows.items():
        middles.setdefault(zone, set()).add(round((min(places) + max(places)) / 2, 6))
    assert len(rows) == 6 and all(len(found) == 1 for found in middles.values())


def test_the_longest_label_is_as_wide_as_it_is() -> None:
    fabric = replace(BIGRAPH, names=("a", "much longer", *BIGRAPH.names[2:]))
    switches = range(2)
    assert longest_label(fabric, switches) == max(text_width(short(fabric.label(one))) for one in switches)


@pytest.mark.parametrize("shape", list(MARK))
def test_each_mark_has_its_shape_and_only_dashes_are_dashed(shape: str) -> None:
    found = [ElementTree.fromstring(part) for part in _mark(shape, "#123456", 10.0, 20.0)]
    tags = {"dot": "circle", "line": "path", "dashes": "path", "box": "rect", "area": "rect"}
    assert [one.tag for one in found] == ([tags[shape]] if shape else [])
    for one in found:
        assert "#123456" in (one.get("fill"), one.get("stroke"))
        assert ("stroke-dasharray" in one.attrib) == (shape == "dashes")
        assert ("opacity" in one.attrib) == (shape == "area")


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("bare", [False, True])
def test_charts_begin_below_the_title_and_end_on_the_page(beside: bool, bare: bool) -> None:
    axes = [Axes("first", (0, 10), (0, 5), 100, x_words="million"), Axes("a second one", (0, 10), (0, 5e6), 80)]
    for one in axes:
        one.dot(1, 2, palette.SERIES[0], "dot")
    svg = chart("name", "about", axes, [("dot", "#123456", "words")], beside=beside, bare=bare).svg
    root = ElementTree.fromstring(svg)
    _, _, width, height = map(float, root.get("viewBox", "").split())
    groups = [(x, y) for x, y, one in placed(root) if "transform" in one.attrib and one in list(root)]
    top = 0.0 if bare else MARGIN + HEAD
    assert groups[0][1] == top
    assert min(x for x, _ in groups[:2]) == (0.0 if bare else MARGIN)
    if beside:
        assert groups[0][1] == groups[1][1] and groups[0][0] + axes[0].room[0] <= groups[1][0]
    else:
        assert groups[0][1] + axes[0].room[1] <= groups[1][1]
    for (x, y), one in zip(groups, axes, strict=False):
        assert x + one.room[0] <= width and y + one.room[1] <= height
    (legend,) = [(x, y) for x, y, _, words in words_of(svg) if words == "words"]
    assert max(y + one.room[1] for (_, y), one in zip(groups, axes, strict=False)) <= legend[1] <= height


def test_trays_are_as_wide_as_the_root_of_what_lies_in_them() -> None:
    cluster = read_preset("dgx-h100-48")
    assert cluster.layout is not None and cluster.cablings is not None
    root = ElementTree.fromstring(draw_floor(cluster.fabrics, cluster.layout, cluster.cablings).svg)
    wide: dict[int, float] = {}
    for group in root.iter(f"{SVG}g"):
        if found := re.search(r": ([\d,]+) cables?", group.findtext(f"{SVG}title") or ""):
            wide[int(found[1].replace(",", ""))] = float(group.findall(f"{SVG}path")[0].get("stroke-width", 0))
    fullest = max(wide)
    assert len(wide) > 2 and wide[fullest] == THICK
    for cables, width in wide.items():
        assert width == pytest.approx(max(wide[fullest] * (cables / fullest) ** 0.5, 0.8), abs=0.06)


def test_a_rack_says_what_it_draws_or_that_nobody_knows() -> None:
    fabric = network({"shape": "fat-tree", "switch": "QM8700"}, 6).fabric
    catalog = load_catalog([])
    blind = replace(catalog.node("pcie-a100"), power_typical_w=None, power_max_w=None)
    for nodes in (catalog.nodes, {**catalog.nodes, "pcie-a100": blind}):
        layout = place_devices([fabric], replace(catalog, nodes=nodes), FloorPlan(rack_units=4))
        said = [
            words for page in draw_racks([fabric], layout) for *_, words in words_of(page.svg) if " units; " in words
        ]
        expected = []
        for rack, watts in enumerate(layout.power_by_rack()):
            inside = [device for device, where in zip(layout.devices, layout.rack, strict=True) if where == rack]
            power = "power unknown" if watts.known is None else f"{watts} W"
            expected.append(f"{sum(device.rack_units for device in inside)} of 4 units; {power}")
        assert sorted(said) == sorted(expected)
        assert any("unknown" in one for one in said) == (nodes is not catalog.nodes)


def test_cells_have_two_pixels_for_each_unit() -> None:
    """So that a viewer has nothing left to smooth, however few the cells."""
    for shape in ((1, 1), (3, 7), (40, 50)):
        axes = Axes("cells", (0, 1), (1, 0), height=30, width=45)
        axes.cells(np.zeros(shape))
        data = base64.b64decode(re.findall(r'base64,([^"]*)', axes.inside[0])[0])
        width, height = (int.from_bytes(data[at : at + 4], "big") for at in (16, 20))
        assert (width >= 90, height >= 60) == (True, True)
        assert (width % shape[1], height % shape[0]) == (0, 0)


@pytest.mark.parametrize("name", ["bigraph", "fire-flyer-2"])
def test_each_link_of_a_bundle_leaves_and_enters_it_at_its_own_boxes(name: str) -> None:
    fabric = BIGRAPH if name == "bigraph" else topo.preset(name).fabric
    scene = topo.lay_out(fabric)
    spans = {switch: (cell.x, cell.x + cell.width) for cell in scene.cells for switch in cell.switches}
    assert scene.fans
    for fan in scene.fans:
        low, high = fan.corners[0][1], fan.corners[2][1]
        for links, (x, y), (to_x, to_y) in fan.spokes:
            assert (y, to_y) == (low, high)
            for a, b in fabric.port_node[fabric.links[list(links)]].tolist():
                both = [[left <= at <= right for left, right in (spans[a], spans[b])] for at in (x, to_x)]
                assert (both[0][0] and both[1][1]) or (both[0][1] and both[1][0])


@pytest.mark.parametrize("seed", range(20))
def test_a_label_is_left_out_where_it_would_lie_on_another_and_only_there(seed: int) -> None:
    """Labels and areas at random: those that are shown are apart, and each other one would touch a shown one."""
    rng = np.random.default_rng(seed)
    places = [(float(x), float(y), "w" * int(rng.integers(1, 12))) for x, y in rng.uniform(0, 300, (25, 2))]
    strokes = [Stroke("M0 0", (0,), words, (x, y - 4)) for x, y, words in places]
    areas = [Area(float(x), float(y), 50.0, 50.0, "an area") for x, y in rng.uniform(0, 250, (3, 2))]
    unloaded = cast(Shades, SimpleNamespace(load=None))
    svg = "".join(_labels(Scene(strokes=strokes, areas=areas), unloaded))
    found = re.findall(r'x="([^"]*)" y="([^"]*)"[^>]*>(w+)<', svg)
    shown = {(round(float(x), 1), round(float(y), 1)) for x, y, _ in found}

    def box(x: float, y: float, words: str) -> tuple[float, float, float, float]:
        half = WIDER * text_width(words) / 2
        return x - half, y - 9, x + half, y + 3

    taken = [(a.x + 7, a.y + 3, a.x + 7 + WIDER * text_width(a.text, 12), a.y + 18) for a in areas]
    for x, y, words in places:
        mine = box(x, y, words)
        apart = all(mine[2] <= o[0] or o[2] <= mine[0] or mine[3] <= o[1] or o[3] <= mine[1] for o in taken)
        assert apart == ((round(x, 1), round(y, 1)) in shown)
        taken += [mine] if apart else []
    assert 0 < len(shown) < len(places)


@pytest.mark.parametrize("room", [0.0, 5.0, 10.0, 31.0, 60.0, 200.0])
@pytest.mark.parametrize("words", ["", "i", "leaf0", "WWWWWW", "a-long-name-of-a-device"])
def test_a_name_is_cut_no_shorter_than_the_room_asks(words: str, room: float) -> None:
    cut = [words[:most] + "…" for most in range(len(words), -1, -1)]
    fits = [words] if text_width(words) <= room else [one for one in cut if text_width(one) <= room]
    assert _fitted(words, room) == next(iter(fits), "…")


@pytest.mark.parametrize("count", [1, 2, 3, 9])
def test_links_have_the_shade_of_their_speed_and_the_slowest_share_the_last(count: int) -> None:
    own = float(BIGRAPH.rate_gbps[BIGRAPH.inner_links[0]].min())
    link = int(np.flatnonzero((BIGRAPH.links == BIGRAPH.inner_links[0]).all(axis=1))[0])
    for place in range(count):
        speeds = [own + place - at for at in range(count)]
        expected = palette.SPEED_SHADES[min(place, len(palette.SPEED_SHADES) - 1)]
        assert Shades(BIGRAPH, None, speeds, "pairs").of((link,)) == expected


@pytest.mark.parametrize("count", [3, 4, 7, 12])
def test_blocks_go_round_clockwise_from_the_top(count: int) -> None:
    """Down is positive, as in SVG: clockwise, the area that the corners enclose in turn is positive."""
    corners = _circle(count, 100.0, 40.0)
    assert corners[0][1] == min(y for _, y in corners)
    turned = sum(x * corners[at - count + 1][1] - corners[at - count + 1][0] * y for at, (x, y) in enumerate(corners))
    assert turned > 0


def test_switches_beside_the_pods_stand_after_the_last() -> None:
    fabric = grow_tree((4, 4, 3), (1, 2, 2), (1, 1, 1))
    level, zone = fabric.level[: fabric.n_switches].astype(np.int64), np.zeros(fabric.n_switches, np.int64)
    beside = np.flatnonzero(level == 3)
    level[beside] = 2
    pods = _pods(fabric, level, zone)
    others = np.setdiff1d(np.arange(fabric.n_switches), beside)
    assert len(np.unique(pods[others])) == 3
    assert set(pods[beside].tolist()) == {pods[others].max() + 1}
