"""The cable book beside the schedule: every end and every label once, whatever names hold."""

import re
from collections import Counter
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.clusters import CATALOG, tree, zoned
from helpers.strategies import fabrics
from plan.export.cables import HEADER, cable_rows, format_cable_book
from topo.fabric import Fabric
from topo.floor.cables import choose_cables
from topo.floor.racks import FloorPlan, Layout, place_devices


class Reader(HTMLParser):
    """Reads the sections of a book: headings, and rows of cells."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.sections: list[tuple[str, list[list[str]]]] = [("", [])]
        self.tags: Counter[str] = Counter()
        self.inside = ""
        self.tooltips: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.inside = tag
        if tag == "h2":
            self.sections.append(("", []))
        elif tag == "tr":
            self.sections[-1][1].append([])
        elif tag in ("td", "th"):
            self.sections[-1][1][-1].append("")

    def handle_data(self, data: str) -> None:
        name, rows = self.sections[-1]
        if self.inside == "h2" and not name:
            self.sections[-1] = (data, rows)
        elif self.inside == "title":
            self.tooltips.append(data)
        elif rows and rows[-1] and self.inside in ("td", "th", "span"):
            rows[-1][-1] += data

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""


def book(fabric: Fabric, floor: bool = True) -> tuple[Reader, list[dict[str, str]], Layout | None]:
    layout = place_devices([fabric], CATALOG, FloorPlan()) if floor else None
    cablings = choose_cables([fabric], layout, CATALOG) if layout else ()
    rows = list(cable_rows([fabric], CATALOG, layout, cablings or None))
    read = Reader(format_cable_book("some", rows, CATALOG, [fabric], layout, cablings))
    return read, [dict(zip(HEADER, map(str, row), strict=True)) for row in rows], layout


def ends(read: Reader) -> Counter[tuple[str, str, str]]:
    """Rack or device, cable and other end of each plug."""
    found: Counter[tuple[str, str, str]] = Counter()
    for name, rows in read.sections[1:]:
        if name != "Bundle by bundle":
            found.update((name, row[1], far) for row in rows if len(row) == 8 for far in row[5].split(", "))
    return found - Counter({end: 1 for end in found if end[2] == "other end"})


def expected(rows: list[dict[str, str]]) -> Counter[tuple[str, str, str]]:
    return Counter(
        (row[f"{a}_rack"] or row[f"{a}_device"], row["cable_id"], f"{row[f'{b}_device']} {row[f'{b}_port']}")
        for row in rows
        for a, b in (("a", "b"), ("b", "a"))
    )


def test_every_rack_has_its_ends_and_every_bundle_its_cables() -> None:
    read, rows, layout = book(tree(160, switch="QM9700"))
    assert layout is not None
    assert ends(read) == expected(rows)
    racks = dict(read.sections[1:-1])
    for rack in range(layout.n_racks):
        assert layout.rack_name(rack) in racks
    assert read.tags["svg"] == 1 + layout.n_racks
    stand = Counter(re.match(r"(\S+) \(.*\), U(\d+)", words).groups() for words in read.tooltips if ", U" in words)
    assert stand == Counter(
        (device.name, str(unit)) for device, unit in zip(layout.devices, layout.unit.tolist(), strict=True)
    )
    parts = Counter(
        (name, port, row[2])
        for name, listed in read.sections[1:-1]
        for row in listed
        if len(row) == 8
        for port in row[0].split(", ")
    )
    assert {part: count for part, count in parts.items() if part[2] != "part"} == Counter(
        (row[f"{side}_rack"], row[f"{side}_port"], row["part_number"] + (f" in {optic}" if optic else ""))
        for row in rows
        for side in "ab"
        for optic in [row[f"{side}_transceiver"]]
    )
    assert any(" in " in part for _, _, part in parts), "transceivers are told"
    listed = [row for row in read.sections[-1][1] if row]
    assert sorted((row[0], row[1]) for row in listed) == sorted(
        (row["cable_id"], row["label_a"]) for row in rows if row["bundle"]
    )


@pytest.mark.slow
def test_without_a_floor_plan_it_goes_device_by_device() -> None:
    fabric = zoned()
    read, rows, _ = book(fabric, floor=False)
    assert ends(read) == expected(rows)
    assert len(read.sections) - 1 == fabric.n_switches + len(fabric.hosts)


@pytest.mark.slow
@given(fabrics(), st.sampled_from(["<script>x</script>", "a&b", '"', "</style>", "{{ x }}", "\u202e"]))
@settings(max_examples=20)
def test_a_name_is_text_whatever_it_holds(fabric: Fabric, name: str) -> None:
    rows = [
        [f"{name}{cell}" if key.endswith(("device", "port", "part_number")) else cell
         for key, cell in zip(HEADER, row, strict=True)]
        for row in cable_rows([fabric], CATALOG)
    ]  # fmt: skip
    read = Reader(format_cable_book(name, map(tuple, rows), CATALOG))
    assert read.tags["script"] == 0
    assert read.tags["style"] == 1
    assert ends(read).total() == 2 * len(rows)
    assert all(section.startswith(name) for section, _ in read.sections[1:])
