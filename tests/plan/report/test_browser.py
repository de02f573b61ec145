"""Reports in a real Chromium: nothing fails, nothing is fetched, and what a reader does has its effect."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import simulate
import topo
from helpers.presets import routed_lab
from plan.inputs import find_preset
from plan.pipeline import BUILD, ROUTE, Plan, run_passes
from plan.report.document import Report, page_of, run_page, simulation_page
from plan.report.page import format_report

pytestmark = [pytest.mark.slow, pytest.mark.peer("chromium")]
playwright = pytest.importorskip("playwright.sync_api")

HOSTILE = "</script><script>document.title='stolen'</script><img src=x onerror=\"document.title='stolen'\">"


@pytest.fixture(scope="module")
def chromium() -> Iterator["playwright.Browser"]:
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Reports of Fire-Flyer 2, of a fabric with hostile names, and of two plans beside one another."""
    out = tmp_path_factory.mktemp("reports")
    pages = {}
    for name in ("fire-flyer-2", "lab-20"):
        cluster = topo.preset(name)
        pages[name] = page_of(run_passes(Plan(cluster.name, cluster), BUILD))
    fabric = topo.preset("lab-20").fabric
    names = tuple(f"{name} {HOSTILE}" for name in fabric.names)
    spoilt = replace(fabric, name=HOSTILE, names=names, hosts=tuple(f"{host}{HOSTILE}" for host in fabric.hosts))
    pages["hostile"] = page_of(run_passes(Plan(HOSTILE, fabrics=(spoilt,)), ROUTE))
    for name, page in pages.items():
        (out / f"{name}.html").write_text(format_report(Report([page], [])), encoding="utf-8")
    routed = routed_lab()
    played = simulate.play(routed, simulate.read_workload(find_preset("workloads", "allreduce", "-w"), routed.fabric))
    job = {"name": "a", "nodes": 12, "steps": 200, "forward": "1 s", "backward": "1 s", "copies": 2}
    day = simulate.cluster.ClusterRun(
        simulate.Network.of(routed, latency_s=0), simulate.cluster.parse_queue({"jobs": [job]})
    )
    day.play(3600)
    plays = [simulation_page(played, "allreduce"), run_page(day, "day")]
    (out / "plays.html").write_text(format_report(Report([pages["lab-20"]], plays)), encoding="utf-8")
    both = Report([pages["fire-flyer-2"], pages["lab-20"]], [])
    (out / "both.html").write_text(format_report(both), encoding="utf-8")
    return out


@pytest.fixture
def faults() -> list[str]:
    """What a page complained of, and what it asked for besides itself."""
    return []


@pytest.fixture(params=["light", "dark"])
def opened(chromium, folder, faults, request):
    """Return what opens a page and waits until its scripts have run."""
    context = chromium.new_context(color_scheme=request.param, viewport={"width": 1300, "height": 900})

    def load(name: str):
        page = context.new_page()
        address = (folder / f"{name}.html").as_uri()
        page.on("console", lambda message: faults.append(message.text))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on(
            "request", lambda asked: asked.url in (address,) or asked.url[:5] == "data:" or faults.append(asked.url)
        )
        page.goto(address)
        page.locator("html[data-ready=yes]").wait_for(state="attached")
        page.locator(".map[data-drawn]").first.wait_for()
        return page

    yield load
    context.close()


@pytest.mark.parametrize("name", ["fire-flyer-2", "hostile", "both", "plays"])
def test_a_page_opens_without_a_fault_and_fetches_nothing(opened, faults, name):
    page = opened(name)
    assert faults == []
    assert page.title() != "stolen"
    assert page.evaluate("[...document.scripts].filter((script) => script.type !== 'text/plain').length") == 1
    assert page.locator("img").count() == 0


def test_nothing_is_wider_than_a_phone(opened):
    page = opened("fire-flyer-2")
    page.set_viewport_size({"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_paper_shows_every_figure_in_dark_letters(opened):
    """A4 is 718 pixels wide between margins of 10 mm; a page that was dark on the screen is printed black on white."""
    page = opened("fire-flyer-2")
    page.set_viewport_size({"width": 718, "height": 1000})
    page.emulate_media(media="print")
    page.wait_for_timeout(100)
    boxes = "[...document.querySelectorAll('.scroll, pre, .floor')]"
    cut = f"{boxes}.filter((one) => one.scrollWidth > one.clientWidth + 1)"
    assert page.evaluate(f"{cut}.map((one) => one.textContent.slice(0, 40))") == []
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(29, 35, 42)"
    light = """() => {
      const map = document.querySelector(".map");
      const pixels = map.getContext("2d").getImageData(0, 0, map.width, map.height).data;
      const dark = (n) => pixels[4 * n + 3] > 200 && pixels[4 * n] + pixels[4 * n + 1] + pixels[4 * n + 2] < 200;
      const letters = [...Array(pixels.length / 4).keys()].filter(dark).length;
      return letters / (map.width * map.height);
    }"""
    assert page.evaluate(light) < 0.5


def test_a_table_is_sorted_by_number_both_ways(opened):
    page = opened("fire-flyer-2")
    table = page.get_by_role("group", name="cables").locator("table")
    table.get_by_role("button", name="cables").click()
    column = table.locator("tbody tr td:last-child")
    up = [int(text.replace(",", "")) for text in column.all_inner_texts()]
    table.get_by_role("button", name="cables").click()
    down = [int(text.replace(",", "")) for text in column.all_inner_texts()]
    assert up == sorted(up)
    assert down == up[::-1]
    assert len(set(up)) > 3


def test_a_switch_is_found_by_name_and_shows_its_cables(opened):
    page = opened("fire-flyer-2")
    page.get_by_role("combobox", name="find").fill("z0-leaf05")
    page.keyboard.press("Enter")
    panel = page.locator(".fabrics .panel")
    assert panel.get_by_role("heading").inner_text() == "z0-leaf05"
    assert panel.locator("tbody tr").count() == 40
    assert "rack R" in panel.locator("p").inner_text()


def test_a_switch_is_chosen_by_a_click(opened):
    page = opened("lab-20")
    page.locator(".map").scroll_into_view_if_needed()
    box = page.locator(".map").bounding_box()
    picture = page_of(run_passes(Plan("lab-20", fabrics=(topo.preset("lab-20").fabric,)), ROUTE)).views[0].picture
    left, top, wide, high, _, (switch,), (name,) = picture.cells[2]
    scale = min((box["width"] - 26) / picture.width, (box["height"] - 26) / picture.height, 1.5)
    x = box["x"] + (box["width"] - picture.width * scale) / 2 + (left + wide / 2) * scale
    y = box["y"] + (box["height"] - picture.height * scale) / 2 + (top + high / 2) * scale
    page.mouse.click(x, y)
    assert page.locator(".fabrics .panel h4").inner_text() == name
    assert switch == topo.preset("lab-20").fabric.names.index(
        next(n for n in topo.preset("lab-20").fabric.names if name in n)
    )


def test_links_are_hidden_below_a_load_and_the_picture_zooms(opened):
    page = opened("fire-flyer-2")

    def drawn() -> int:
        page.wait_for_timeout(100)
        return int(page.locator(".map").get_attribute("data-drawn"))

    everything = drawn()
    page.get_by_label("hide links below").fill("0.9")
    assert 0 < drawn() < everything / 10  # the links of the joints alone
    page.get_by_label("hide links below").fill("0")
    assert drawn() == everything
    before = page.locator(".map").screenshot()
    page.get_by_role("button", name="zoom in").click()
    page.wait_for_timeout(100)
    assert page.locator(".map").screenshot() != before
    page.get_by_role("button", name="show all").click()
    page.wait_for_timeout(100)
    assert page.locator(".map").screenshot() == before


def test_a_rack_shows_what_stands_in_it(opened):
    page = opened("fire-flyer-2")
    page.get_by_role("combobox", name="rack").select_option(label="R01-12")
    table = page.locator(".room table")
    assert "z0-leaf05" in table.inner_text()
    assert page.locator(".rack .v").count() == table.locator("tbody tr").count()
    page.locator(".floor [data-rack='3']").click()
    assert page.get_by_role("combobox", name="rack").input_value() == "3"
    assert page.locator(".floor .chosen").get_attribute("data-rack") == "3"


@pytest.mark.nightly
def test_pictures_for_the_manual(opened, tmp_path, request):
    """`HEDDLE_PICTURES=docs/static pytest -m nightly -k pictures` makes them anew."""
    page = opened("fire-flyer-2")
    theme = request.node.callspec.params["opened"]
    file = Path(os.environ.get("HEDDLE_PICTURES", tmp_path)) / f"report-{theme}.png"
    page.get_by_role("combobox", name="find").fill("z0-leaf05")
    page.keyboard.press("Enter")
    page.locator(".fabrics").screenshot(path=file)
    assert file.stat().st_size > 20_000


def test_charts_of_simulations_open(opened, faults):
    page = opened("plays")
    charts = page.locator("svg", has_text="utilisation of the fullest link of a class")
    assert charts.first.bounding_box()["width"] > 300
    days = page.locator("svg", has_text="nodes in use, of 16")
    assert days.first.bounding_box()["width"] > 300
    assert faults == []


@pytest.mark.parametrize("name", ["fire-flyer-2", "both", pytest.param("plays", marks=pytest.mark.nightly)])
def test_axe_finds_no_barrier(opened, name):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    found = axe.Axe().run(opened(name)).response["violations"]
    assert [(rule["id"], rule["nodes"][0]["html"][:200]) for rule in found] == []


@pytest.mark.parametrize("name", ["fire-flyer-2", "plays", "both"])
def test_on_a_phone_the_page_is_as_wide_as_the_screen(chromium, folder, name: str) -> None:
    """What is wider scrolls in a box of its own, so that nothing is cut."""
    page = chromium.new_context(viewport={"width": 390, "height": 844}).new_page()
    page.goto((folder / f"{name}.html").as_uri())
    page.wait_for_timeout(300)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    cut = page.evaluate(
        """() => [...document.querySelectorAll("body *")].filter(one => {
            if (one.closest("svg") || one.getBoundingClientRect().right <= innerWidth + 1) return false;
            for (let box = one.parentElement; box; box = box.parentElement)
                if (["auto", "scroll"].includes(getComputedStyle(box).overflowX)) return false;
            return one.getBoundingClientRect().width > 0;
        }).map(one => one.outerHTML.slice(0, 200))"""
    )
    assert cut == []
