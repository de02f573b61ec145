"""The page that a crew takes along: differences of a fabric from its plan, rack by rack, with boxes to tick."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING

import topo

if TYPE_CHECKING:
    from topo import Difference, Differences

STYLE = f"""body{{font:12px Helvetica,Arial,sans-serif;color:{topo.palette.INK};margin:1.5em}}
h1{{font-size:18px}}h2{{font-size:14px;margin:1.2em 0 .3em}}
table{{border-collapse:collapse;width:100%}}tr{{break-inside:avoid}}
td,th{{border:1px solid {topo.palette.EDGE};padding:.3em .5em;text-align:left;vertical-align:top}}
th{{background:{topo.palette.GROUND}}}.box{{width:1.2em}}
@page{{margin:12mm}}"""
HEADINGS = ("", "where", "what", "planned", "found", "do", "sure")


def format_crew_page(differences: Differences) -> str:
    """Return the page: plain HTML that loads nothing and runs nothing."""
    title = escape(differences.table.title)
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        f"<title>{title}</title><style>{STYLE}</style></head><body><h1>{title}</h1>",
    ]
    for rack, group in groupby(differences.found, key=lambda one: one.rack.partition(" ")[0]):
        parts.append(f"<h2>{escape(rack)}</h2>" if rack else "")
        parts.append(_table(group))
    return "\n".join([*filter(None, parts), "</body></html>", ""])


def _table(rows: Iterable[Difference]) -> str:
    head = "".join(f"<th>{heading}</th>" for heading in HEADINGS)
    lines = []
    for one in rows:
        unit = one.rack.partition(" ")[2]
        where = f"{unit} {one.where}" if unit else one.where
        cells = "".join(
            f"<td>{escape(text)}</td>" for text in (where, one.kind, one.planned, one.found, one.do, one.sure)
        )
        lines.append(f'<tr><td class="box">&#9744;</td>{cells}</tr>')
    return f"<table><thead><tr>{head}</tr></thead><tbody>\n" + "\n".join(lines) + "\n</tbody></table>"
