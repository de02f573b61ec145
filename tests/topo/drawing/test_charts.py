"""Charts: scales, curves and cells show what was put into them, and the same bytes each time."""

import base64
import io
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import topo
from plan.report.page import check_drawing
from topo import palette
from topo.drawing.charts import Axes, chart, heat_legend, shades, ticks

SVG = "{http://www.w3.org/2000/svg}"
NUMBERS = st.floats(-1e9, 1e9, allow_nan=False)


@given(NUMBERS, st.floats(1e-3, 1e9))
def test_ticks_are_round_even_and_inside(low: float, span: float) -> None:
    found = ticks(low, low + span)
    assert 1 <= len(found) <= 8
    slack = 1e-6 * span
    assert all(low - slack <= tick <= low + span + slack for tick in found)
    if len(found) > 2:
        assert np.allclose(np.diff(found), found[1] - found[0], rtol=1e-3)


@given(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=40))
def test_a_curve_has_each_value_between_its_edges(values: list[float]) -> None:
    axes = Axes("load", (0, len(values)), (0, 1), height=100, width=10.0 * len(values))
    axes.stairs(np.arange(len(values) + 1.0), np.array(values), palette.SERIES[0], words="a & b")
    path = ElementTree.fromstring(axes.inside[0]).find("path")
    assert path is not None
    x, y = (float(part) for part in re.findall(r"-?[\d.]+", path.get("d", ""))[:2])
    assert x == 0
    drawn: list[float] = []
    for kind, number in re.findall(r"([VH])([\d.]+)", f"V{y}" + path.get("d", "").partition(f"{y:.1f}")[2]):
        if kind == "V":
            y = float(number)
        else:
            drawn += [1 - y / 100] * round((float(number) - x) / 10)
            x = float(number)
    assert np.allclose(drawn, values)


def test_cells_have_the_colours_of_their_values() -> None:
    image = pytest.importorskip("PIL.Image")
    values = np.array([[0.0, 1.0], [0.5, np.nan]])
    axes = Axes("cells", (0, 2), (2, 0), height=10, width=10)
    axes.cells(values)
    found = re.search(r"base64,([^\"]*)", axes.inside[0])
    assert found is not None
    picture = image.open(io.BytesIO(base64.b64decode(found[1]))).convert("RGB")
    corners = [picture.getpixel((x, y)) for y in (0, picture.height - 1) for x in (0, picture.width - 1)]
    assert [f"#{bytes(corner).hex()}" for corner in corners] == [*shades(values)[:3], "#ffffff"]
    assert shades(np.array([0.0, 1.0])) == [palette.HEAT[0], palette.HEAT[-1]]


def test_what_is_in_a_chart_is_in_the_picture_and_may_stand_in_a_report() -> None:
    axes = Axes("price <b>", (0, 10), (0, 5), 100, x_words="million", columns=[(1, "one"), (2, "two")])
    axes.dot(1, 2, palette.SERIES[0], "half & half")
    axes.bar(1, 3, 2, palette.SERIES[1], "a bar")
    axes.say(2, 2, "words", palette.INK)
    axes.cells(np.zeros((2, 2)))
    made = [chart("name", "about", [axes, axes], heat_legend("none"), beside=way, bare=True).svg for way in (0, 1)]
    for svg in made:
        check_drawing(svg)
        assert "<style>" not in svg
        shown = ["".join(text.itertext()) for text in ElementTree.fromstring(svg).iter(f"{SVG}text")]
        assert {"price <b>", "million", "one", "two", "words", "100%", "none"} <= set(shown)
    assert topo.palette.STYLE in chart("name", "about", [axes]).svg


@pytest.mark.parametrize(
    "svg",
    [
        "<script/>", '<g onclick="x()"/>', '<image href="https://x"/>', "<foreignObject/>", '<a href="javascript:x"/>',
        '<rect style="fill:url(https://x)"/>', '<rect fill="url(https://x)"/>', "<!-- -->", "<style/>", "<svg",
        '<g xmlns:xlink="http://www.w3.org/1999/xlink"><image xlink:href="https://x"/></g>',
    ],
)  # fmt: skip
def test_what_is_no_drawing_of_ours_is_refused(svg: str) -> None:
    with pytest.raises((ValueError, ElementTree.ParseError)):
        check_drawing(f'<svg xmlns="http://www.w3.org/2000/svg">{svg}</svg>')
