"""``bom.csv``: the bill of materials, a line a part, each price with its source."""

from __future__ import annotations

import csv
import io

from costmodel.price import Cost

HEADER = ("kind", "item", "place", "count", "unit", "unit_price_low", "unit_price_high", "low", "high", "source")


def format_bom_csv(cost: Cost) -> str:
    """Return the bill as CSV. What has no price has none here: an empty cell is a gap, never a zero."""
    out = io.StringIO()
    write = csv.writer(out, lineterminator="\n").writerow
    write(HEADER)
    for priced in cost.lines:
        line, price, amount = priced.line, priced.unit_price, priced.amount
        source = priced.source or (f"comes with the {priced.included}" if priced.included else "no price known")
        prices = (
            ("", "", "", "") if price is None or amount is None else (price.low, price.high, amount.low, amount.high)
        )
        write((line.kind, line.item, line.place, line.count, cost.unit, *prices, source))
    return out.getvalue()
