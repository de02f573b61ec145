"""Passes say what they need and add, and the page of passes says what they say."""

import re
from dataclasses import fields, replace
from pathlib import Path

import pytest

import topo
from plan import pipeline
from plan.pipeline import BUILD, ROUTE, Pass, Plan

LAB = topo.preset("lab-20")
INPUTS = {"name", "cluster", "source", "fabric_sha256", "options"}
GROUPS = ("DESIGN", "CHECK", "BUILD", "ROUTE", "STUDY")


def test_the_page_of_passes(repository: Path) -> None:
    page = (repository / "docs" / "dev" / "passes.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line[:3] == "| `"]
    passes = [*dict.fromkeys((*BUILD, *ROUTE))]
    assert [row for row in rows if len(row) == 4] == [
        [f"`{one.name}`", one.purpose, *(", ".join(f"`{name}`" for name in names) or "-"
                                         for names in (one.needs, (*one.adds, *one.refines)))]
        for one in passes
    ]  # fmt: skip
    groups = {row[0].strip("`"): re.findall(r"`(\w+)`", row[2]) for row in rows if len(row) == 3}
    assert groups == {name: [one.name for one in getattr(pipeline, name)] for name in GROUPS}


@pytest.mark.parametrize(
    ("given", "passes"), [(Plan(LAB.name, LAB), BUILD), (Plan("found", fabrics=(LAB.fabric,)), ROUTE)], ids="BR"
)
def test_a_pass_needs_and_adds_what_it_says(given: Plan, passes: tuple[Pass, ...]) -> None:
    """On a plan that has the inputs and what the pass needs, and nothing else, it fills what it says, and nothing else.

    What it completes it needs only as far as that is there.
    """
    empty = {one.name: getattr(Plan(""), one.name) for one in fields(Plan)}
    whole = given
    for one in passes:
        bare = replace(whole, **{name: value for name, value in empty.items() if name not in INPUTS | {*one.needs}})
        made, whole = one(bare), one(whole)
        changed = {name for name in empty if getattr(made, name) is not getattr(bare, name)}
        assert changed <= {*one.adds, *one.refines}, one.name
        for name in one.adds:
            assert type(getattr(made, name)) is type(getattr(whole, name)), (one.name, name)
    assert {name for one in passes for name in one.adds} <= {*empty}


def test_a_group_has_what_each_of_its_passes_needs() -> None:
    for name in GROUPS:
        there = INPUTS | ({"fabrics"} if name == "ROUTE" else {"fabrics", "routed"} if name == "STUDY" else set())
        for one in getattr(pipeline, name):
            assert {*one.needs} <= there, (name, one.name)
            there |= {*one.adds}
