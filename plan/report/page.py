"""Makes the page of a report out of its template, and reads what it shows back out of it."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import re
import zlib
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from xml.etree import ElementTree

import topo
from plan.checksums import read_sums
from plan.render.html import render_page
from plan.report.document import ColumnText, PlanPage, Report, TableText
from topo import FormatError, HeddleError, budgets, read_text

DATA = re.compile(r'<script type="text/plain" id="data">([A-Za-z0-9+/=]*)</script>')
"""What the page shows, as JSON, packed."""


def format_report(report: Report) -> str:
    """Return the page: the same text for the same report, which loads nothing and runs no script but its own."""
    title = " beside ".join(plan.name for plan in report.plans) or ", ".join(one.name for one in report.simulations)
    return render_page(
        "plan.report",
        "page.html",
        "page.css",
        "page.js",
        title=title,
        plans=report.plans,
        simulations=report.simulations,
        beside=_beside(report.plans),
        version=version("heddle-fabric"),
        data=_pack({"report": asdict(report), "palette": PALETTE}),
    )


PALETTE = {
    "loads": [[None if most == float("inf") else most, colour, words] for most, colour, words in topo.palette.LOADS],
    "plain": topo.palette.PLAIN,
    "hosts": {role.name.lower(): colour for role, colour in topo.palette.HOSTS.items()},
}


def read_report(folder: Path) -> Report:
    """Return what the page in a folder of ours shows; HeddleError if there is none, or it was changed."""
    from pydantic import TypeAdapter, ValidationError

    path = folder / "report.html"
    text = read_text(path, budgets()["report-bytes"])
    if read_sums(folder).get(path.name) != hashlib.sha256(text.encode()).hexdigest():
        raise HeddleError(f"{path}: found a file that was changed after it was written; build the plan again")
    found = DATA.search(text)
    try:
        packed = base64.b64decode(found[1] if found else "")
        with gzip.GzipFile(fileobj=io.BytesIO(packed)) as file:
            data = json.loads(file.read(budgets()["report-bytes"].limit))
        report = TypeAdapter(Report).validate_python(data["report"])
        rooms = [plan.room for plan in report.plans if plan.room is not None]
        drawings = [svg for room in rooms for svg in (room.floor, *room.fronts)]
        for drawing in [*drawings, *(svg for simulation in report.simulations for _, svg in simulation.charts)]:
            check_drawing(drawing)
        return report
    except (OSError, EOFError, zlib.error, ValueError, ElementTree.ParseError, KeyError, TypeError, ValidationError):
        raise FormatError("found no report; expected the report.html that `plan build` wrote", str(path)) from None


DRAWN = {"svg", "title", "desc", "g", "rect", "path", "circle", "text", "image"}
"""Elements of our drawings."""
ACTIVE_ATTRIBUTES = re.compile("on|src|style$", re.IGNORECASE)
"""Attributes that do or load something, and style, which we have for colours alone."""


def check_drawing(svg: str) -> None:
    """Raise ValueError for elements or attributes that our drawings have not: anybody might have written the folder."""
    if "<!" in svg or "<?" in svg:
        raise ValueError("found a declaration in a drawing")
    for element in ElementTree.fromstring(svg).iter():
        name = element.tag.removeprefix("{http://www.w3.org/2000/svg}")
        for qualified, value in element.attrib.items():
            key = qualified.rpartition("}")[2]
            colour = key == "style" and COLOUR.fullmatch(value)
            image = key == "href" and name == "image" and IMAGE.fullmatch(value)
            if (ACTIVE_ATTRIBUTES.match(key) and not colour) or (key == "href" and not image) or "url" in value.lower():
                raise ValueError(f"found the attribute {key} in a drawing")
        if name not in DRAWN:
            raise ValueError(f"found the element {name} in a drawing")


COLOUR = re.compile("fill:#[0-9a-f]{6}")
IMAGE = re.compile("data:image/png;base64,[A-Za-z0-9+/=]*")


def _beside(plans: Sequence[PlanPage]) -> TableText:
    names = list(dict.fromkeys(name for plan in plans for name, _ in plan.facts))
    columns = [ColumnText("figure", names, None)]
    for plan in plans:
        texts = ["; ".join(text for named, text in plan.facts if named == name) for name in names]
        columns.append(ColumnText(plan.name, texts, None))
    return TableText("what is known of each", columns)


def _pack(value: object) -> str:
    """Return a value as JSON, packed, as text that needs no quoting in HTML."""
    return base64.b64encode(gzip.compress(json.dumps(value, separators=(",", ":")).encode(), 9, mtime=0)).decode()
