"""No two texts of a drawing overlap, as Chromium lays them out: presets, and twins of real fabrics, with loads."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simulate
import topo
from helpers.presets import PRESETS, routed_lab
from plan.sweeps.summary import front, pictures, sensitivities

pytestmark = [pytest.mark.slow, pytest.mark.peer("chromium")]
playwright = pytest.importorskip("playwright.sync_api")

TWINS = sorted((Path(__file__).parents[2] / "fabrics").glob("*.ibnetdiscover.gz"))
QUICK = ["lab-20", "torus", "dgx-a100-superpod", "edr-frames", "two-zones"]
EACH = [
    pytest.param(name, marks=[] if name in QUICK else pytest.mark.nightly)
    for name in (*PRESETS, *(file.name.partition(".")[0] for file in TWINS))
]
BOXES = """() => [...document.querySelectorAll("svg text")].map((text) => {
  const box = text.getBoundingClientRect();
  return [box.left, box.top, box.right, box.bottom, text.textContent];
}).filter((box) => box[2] > box[0])"""


@pytest.fixture(scope="module")
def page() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        yield browser.new_page()
        browser.close()


def overlaps(boxes: list[list[Any]]) -> list[tuple[str, str]]:
    """Pairs of texts whose letters meet: boxes have air above and below."""
    boxes, found = sorted(boxes), []
    for number, (left, top, right, bottom, words) in enumerate(boxes):
        for left2, top2, right2, bottom2, words2 in boxes[number + 1 :]:
            if left2 >= right - 1:
                break
            if min(bottom, bottom2) - max(top, top2) > 2 and min(right, right2) - max(left, left2) > 1:
                found.append((words, words2))
    return found


@pytest.mark.parametrize("loaded", [False, True], ids=["speeds", "loads"])
@pytest.mark.parametrize("name", EACH)
def test_no_text_lies_on_another(name: str, loaded: bool, page: Any) -> None:
    file = next((file for file in TWINS if file.name.startswith(f"{name}.")), None)
    fabrics = [topo.read_fabric(file)] if file else list(topo.preset(name).fabrics)
    rng = np.random.default_rng(1)
    loads = [rng.integers(0, 10**6, fabric.n_ports) for fabric in fabrics] if loaded else None
    page.set_content(topo.draw(fabrics, loads, title=name, unit="bytes").svg)
    boxes = page.evaluate(BOXES)
    assert len(boxes) > 10
    assert overlaps(boxes) == []


@pytest.mark.parametrize("name", ["dgx-h100-48", pytest.param("fire-flyer-2", marks=pytest.mark.nightly)])
def test_no_text_of_a_room_lies_on_another(name: str, page: Any) -> None:
    cluster = topo.preset(name)
    assert cluster.layout is not None and cluster.cablings is not None
    for drawing in (
        topo.draw_floor(cluster.fabrics, cluster.layout, cluster.cablings),
        *(pages := topo.draw_racks(cluster.fabrics, cluster.layout)),
        topo.draw_rack_index(cluster.layout, [f"racks-{number}.svg" for number in range(len(pages))], name),
    ):
        page.set_content(drawing.svg)
        assert overlaps(page.evaluate(BOXES)) == []


def test_no_text_of_a_chart_lies_on_another(page: Any) -> None:
    routed = routed_lab()
    outcome = simulate.play(routed, simulate.allreduce(routed.fabric.ends(role="compute"), "1 MiB"), n_bins=20)
    points = [
        {"point": {"spines": a, "oversubscription": b, "parallel": c}, "figures": {"bisection": a * b, "price": a + c}}
        for a in (1, 2)
        for b in (3, 4)
        for c in (5, 6)
    ]
    better = {"bisection": "high", "price": "low"}
    found = pictures(points, better, front(points, better), sensitivities(points))
    drawn = [simulate.draw_timeline(outcome, [("a job", 0, 1e-5), ("another one of a long name", 0, 1e-5)]).svg]
    for svg in [*drawn, simulate.draw_ports(outcome).svg, *found.values()]:
        page.set_content(svg)
        assert len(page.evaluate(BOXES)) > 5
        assert overlaps(page.evaluate(BOXES)) == []


def test_labels_that_overlap_are_found(page: Any) -> None:
    page.set_content('<svg><text x="9" y="20">some</text><text x="20" y="22">words</text><text y="60">x</text></svg>')
    assert overlaps(page.evaluate(BOXES)) == [("some", "words")]
