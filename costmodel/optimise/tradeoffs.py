"""Trade-offs: the search repeated with one need relaxed, or for less bandwidth."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from costmodel.optimise.needs import Amount, Needs
from costmodel.optimise.search import Search
from topo import palette
from topo.amounts import percent
from topo.drawing import Drawing
from topo.drawing.charts import Axes, chart
from topo.table import Shown, Table

SHARES = (0.98, 0.95, 0.9, 0.75, 0.5)
"""Bandwidths of a job to search for, as shares of that of the needs."""


@dataclass(frozen=True)
class Tradeoffs(Shown):
    """Searches with one need relaxed, beside the search with all needs."""

    whole: Search
    """The search with all needs."""
    relaxed: tuple[tuple[str, Search], ...]
    """Name of the relaxed need, and the search without it."""
    curve: tuple[tuple[float, Search], ...]
    """Share of its rate that a job must get, highest first, and the search for it."""

    def _shown(self) -> tuple[Table, ...]:
        return (self.table, self.curve_table)

    def _brief(self) -> str:
        return f"{self.whole.needs.name}: {len(self.relaxed)} needs relaxed, {len(self.curve)} bandwidths"

    @property
    def table(self) -> Table:
        """What leaving out each need saves."""
        return self._rows("what each need costs", "without", self.relaxed)

    @property
    def curve_table(self) -> Table:
        """What less bandwidth saves."""
        curve = [(f"{percent(share)} of its rate for a job", search) for share, search in self.curve]
        return self._rows("price over bandwidth", "with", curve)

    def _rows(self, title: str, heading: str, searches: Any) -> Table:
        """Return a table of searches by name, with the price that each saves."""
        cheapest = self.whole.winner.price if self.whole.winner else None
        rows = []
        for name, search in searches:
            design = search.winner
            saved = None if design is None or cheapest is None else cheapest - design.price
            rows.append((name, design and design.price, saved, design.name if design else "no design"))
        unit = self.whole.needs.currency
        names = (heading, "price", "saved", "design")
        return Table.of_rows(title, names, rows, ("", ",.0f", ",.0f"), ("", unit, unit))

    @property
    def drawing(self) -> Drawing:
        """Price over the bandwidth of a job, with the design of each step."""
        found = [(share, search.winner) for share, search in sorted(self.curve, key=lambda point: point[0])]
        points = [(share, design.price, design.name) for share, design in found if design is not None]
        prices = np.array([price for _, price, _ in points], float)
        needs = self.whole.needs
        span = (0.0, 1.1 * float(prices.max(initial=1.0)))
        about = f"at least so many % of its rate for {needs.job}"
        axes = Axes(f"price, {needs.currency}", (0, 105), span, 320, x_words=about, digits=",.0f")
        if points:
            edges = np.array([0.0, *(100 * share for share, _, _ in points)])
            axes.stairs(edges, prices, palette.SERIES[0], words="the cheapest design")
        designs: dict[tuple[float, str], str] = {}
        for share, price, name in reversed(points):
            colour = palette.SERIES[1 + len(designs) % (len(palette.SERIES) - 1)]
            shade = designs.setdefault((price, name), colour)
            axes.dot(100 * share, price, shade, f"{percent(share)}: {price:,.0f} {needs.currency}, {name}", 4.5)
        legend = [("dot", shade, f"{price:,.0f}: {name}") for (price, name), shade in designs.items()]
        return chart("price over bandwidth", needs.name, [axes], legend)

    def to_dict(self) -> dict[str, Any]:
        """Return the winner of each search as plain values."""
        return {
            "relaxed": {name: search.to_dict()["winner"] for name, search in self.relaxed},
            "curve": [[share, search.to_dict()["winner"]] for share, search in self.curve],
        }


def trade_off(whole: Search, search: Callable[[Needs], Search]) -> Tradeoffs:
    """Repeat a search without each need, and for less bandwidth.

    Parameters
    ----------
    whole : Search
        The search with all needs.
    search : callable
        Called with the relaxed needs, returns their search: `optimise`, or `optimise` with other options.

    Returns
    -------
    Tradeoffs
        The searches, with tables and a drawing.

    Examples
    --------
    >>> import costmodel
    >>> needs = costmodel.Needs.model_validate({
    ...     "name": "pod", "nodes": {"gpu": {"model": "pcie-a100", "count": 60}},
    ...     "job": {"nodes": 60}, "switches": ["QM8700"], "growth": 0.5,
    ... })
    >>> found = costmodel.trade_off(costmodel.optimise(needs), costmodel.optimise)
    >>> [(name, search.winner.price) for name, search in found.relaxed]
    [('growth', 9.0), ('survives_a_switch', 15.0)]
    """
    needs = whole.needs
    curve = []
    for share in SHARES:
        less = needs.job.model_copy(update={"bisection": needs.job.bisection * share})
        curve.append((less.bisection, search(needs.model_copy(update={"job": less}))))
    relaxed = tuple((name, search(without)) for name, without in _without(whole))
    return Tradeoffs(whole, relaxed, ((needs.job.bisection, whole), *curve))


def _without(whole: Search) -> Iterator[tuple[str, Needs]]:
    """Yield the name of each optional need that is stated or assumed, and the needs without it."""
    needs, job = whole.needs, whole.needs.job
    if job.with_storage and len(needs.nodes) > 1:
        yield "storage beside jobs", needs.model_copy(update={"job": job.model_copy(update={"with_storage": False})})
    for role in needs.bandwidth.asked:
        less = needs.bandwidth.model_copy(update={role.name.lower(): Amount()})
        yield f"bandwidth of {role.name.lower()}", needs.model_copy(update={"bandwidth": less})
    nothing: dict[str, object] = {"growth": 0.0, "survives_a_switch": False, "tables": None}
    if whole.winner is not None and whole.winner.job_bisection.between_rails is not None:
        nothing["between_rails"] = 0.0
    for name, value in nothing.items():
        if getattr(needs, name):
            yield name, needs.model_copy(update={name: value})
