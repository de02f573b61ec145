"""Where things stand in a drawing: lines at the boxes that they link, words of a legend in its width.

Drawings as PNG and PDF are read back by other programs.
"""

import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import topo
from topo import palette
from topo.drawing.scene import text_width
from topo.drawing.svg import LEGEND_GAP, LEGEND_LINE, MARK, MOST_PIXELS, WIDER, as_kind, format_legend, format_marks
from topo.fabric import Role

LAB = topo.draw(topo.preset("lab-20")).svg
NUMBER = r"(-?[\d.]+)"
BOX = re.compile(
    rf'<g><title>([^ <]+) \([^<]*</title><rect x="{NUMBER}" y="{NUMBER}" width="{NUMBER}" height="{NUMBER}"'
)
LINE = re.compile(rf'<path class="k" d="M{NUMBER} {NUMBER}[^"]*?{NUMBER} {NUMBER}"[^>]*><title>(\S+) – (\S+?):')
LOAD_WORDS = [words for _, _, words in palette.LOADS]
NETWORKS: list[dict[str, Any]] = [
    {"shape": "torus", "switch": "SB7800", "sizes": [4, 4], "hosts": 1},
    {"shape": "torus", "switch": "SB7800", "sizes": [3, 3, 3], "hosts": 1},
    {"shape": "hyperx", "switch": "SB7800", "sizes": [4, 3], "hosts": 1},
    {"shape": "dragonfly", "switch": "SB7800", "groups": 4, "switches": 3, "hosts": 1, "global_links": 2},
    {"shape": "dragonfly+", "switch": "SB7800", "groups": 3, "leaves": 2, "spines": 2, "hosts": 2, "global_links": 2},
    {"shape": "slim-fly", "switch": "SB7800", "q": 5, "hosts": 1},
]


@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: f"{network['shape']} {network.get('sizes', '')}")
def test_every_line_begins_at_a_box_that_it_links(network: dict[str, Any]) -> None:
    """Lines around a torus are two ends, one at each box; the others lead from one box to the other."""
    nodes = {"gpu": {"model": "pcie-a100", "count": 8}}
    drawn = topo.parse({"name": "t", "nodes": nodes, "network": network}).fabric.draw().svg
    boxes = {name: tuple(map(float, box)) for name, *box in BOX.findall(drawn)}
    ends: dict[tuple[str, str], list[set[str]]] = {}
    for *place, a, b in LINE.findall(drawn):
        points = [tuple(map(float, place[:2])), tuple(map(float, place[2:]))]
        ends.setdefault((a, b), []).append({name for name in (a, b) for point in points if touches(point, boxes[name])})
    assert ends
    for pair, touched in ends.items():
        assert all(touched), pair
        assert set().union(*touched) == set(pair), pair


def touches(point: tuple[float, ...], box: tuple[float, ...]) -> bool:
    """Whether a point is in a box or on its border, but for the tenth to which numbers are written."""
    (x, y), (left, top, width, height) = point, box
    return left - 0.2 <= x <= left + width + 0.2 and top - 0.2 <= y <= top + height + 0.2


@pytest.mark.parametrize("seed", range(40))
def test_words_of_a_legend_are_filled_in_line_by_line(seed: int) -> None:
    """A group that fits in no rest of a line begins a line; what fits in no line stands alone, and is cut by nobody."""
    rng = np.random.default_rng(seed)
    x, y, width = 24.0, 10.0, float(rng.integers(80, 500))
    groups = [
        [(str(rng.choice(list(MARK))), "#123456", "w" * int(rng.integers(1, 20))) for _ in range(rng.integers(1, 5))]
        for _ in range(rng.integers(1, 5))
    ]
    svg, height = format_marks(x, y, width, groups)
    found = [(float(a), float(b)) for a, b in re.findall(rf'<text x="{NUMBER}" y="{NUMBER}"', svg)]
    wanted, at, line = [], 0.0, 0
    for group in groups:
        sizes = [MARK[shape] + WIDER * text_width(words, 11) for shape, _, words in group]
        if at and at + sum(sizes) + LEGEND_GAP * len(sizes) > width:
            at, line = 0.0, line + 1
        for (shape, _, _), size in zip(group, sizes, strict=True):
            if at and at + size > width:
                at, line = 0.0, line + 1
            wanted.append((x + at + MARK[shape], y + line * LEGEND_LINE + 12))
            at += size + LEGEND_GAP
        at += LEGEND_GAP
    assert np.allclose(found, wanted, atol=0.06)
    assert height == (line + 1) * LEGEND_LINE


@pytest.mark.parametrize("fans", [False, True])
@pytest.mark.parametrize("marked", [None, ("down", "up")])
@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize("speeds", [[], [200.0], [400.0, 200.0, 100.0]])
def test_a_legend_says_what_there_is_and_nothing_else(
    speeds: list[float], loaded: bool, marked: tuple[str, str] | None, fans: bool
) -> None:
    """Colours of links have one meaning: marked, else loads, else speeds where there are several."""
    roles = [Role.COMPUTE, Role.STORAGE]
    svg, _ = format_legend(0, 0, 900, roles, speeds, loaded=loaded, marked=marked, fans=fans)
    said = re.findall("<text [^>]*>([^<]*)</text>", svg)
    links = {*marked} if marked else set(LOAD_WORDS) if loaded else {f"{rate:g} Gb/s" for rate in speeds}
    links = set() if len(speeds) < 2 and not (marked or loaded) else links
    bundles = [words for words in said if words.startswith("many links")]
    heads = [words for words in said if words.startswith("load of a link")]
    assert set(said) - {*bundles, *heads} == {"port of a compute server", "port of a storage server"} | links
    assert len(bundles) == fans and len(heads) == (loaded and not marked)
    assert all(("mean" in words) == (loaded and not marked) and ("down" in words) == bool(marked) for words in bundles)


@pytest.mark.slow
def test_a_png_has_the_shape_and_the_colours_of_the_drawing() -> None:
    picture = as_kind(LAB, ".png")
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    found = re.search(r'width="(\d+)" height="(\d+)"', LAB)
    assert found
    assert image.size == (2 * int(found[1]), 2 * int(found[2]))
    colours = {f"#{r:02x}{g:02x}{b:02x}" for _, (r, g, b) in image.getcolors(1 << 24) or []}
    assert {topo.palette.PAPER, topo.palette.GROUND, topo.palette.INK, *topo.palette.HOSTS.values()} <= colours
    # Letters of a caption are there, and not painted over.
    bare = LAB.replace(">10 links a line<", "><")
    assert bare != LAB
    assert as_kind(bare, ".png") != picture


@pytest.mark.slow
def test_a_huge_drawing_is_made_smaller() -> None:
    svg = '<svg xmlns="http://www.w3.org/2000/svg" class="heddle" width="40000" height="20" viewBox="0 0 40000 20"/>'
    picture = as_kind(svg, ".png")
    assert Image.open(io.BytesIO(picture)).size[0] <= MOST_PIXELS


@pytest.mark.slow
def test_a_pdf_is_a_pdf() -> None:
    document = as_kind(LAB, ".pdf")
    assert document.startswith(b"%PDF")
    assert document.rstrip().endswith(b"%%EOF")


@pytest.mark.parametrize(
    ("name", "begins"),
    [("x.svg", b"<svg"), ("X.SVG", b"<svg"), ("x.png", b"\x89PNG"), ("x.pdf", b"%PDF"), ("x.jpg", None), ("x", None)],
)
def test_a_saved_drawing_is_what_its_name_says_or_refused(name: str, begins: bytes | None, tmp_path: Path) -> None:
    drawing = topo.Drawing('<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>\n')
    if begins is None:
        with pytest.raises(topo.HeddleError, match=r"expected \.svg, \.png or \.pdf"):
            drawing.save(tmp_path / name)
        assert not list(tmp_path.iterdir())
    else:
        drawing.save(str(tmp_path / name))
        assert (tmp_path / name).read_bytes().startswith(begins)
