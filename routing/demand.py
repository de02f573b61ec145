"""A demand: how much each end port sends to each other, and tables that are made for it.

Any tables that are free of credit loops on one lane have an order of channels along which all their paths rise
(`routing.proof`). Flows are moved among the paths that rise along the same order (`routing.search`), so that nothing
can deadlock afterwards either, whichever engine made the tables; no path gets longer, and the fullest link no fuller.
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from routing.engines.multipath import legal_order
from routing.names import EndNames
from routing.order.channel_order import switch_levels, taken_channels, write_ports
from routing.order.destinations import destinations_of
from routing.order.legal import ChannelOrder
from routing.proof import prove_order
from routing.routed import Routed
from routing.search.move import AS_THEY_ARE
from routing.search.problem import DENSE, Dense, Sample, assemble, in_number_order, numbers_of
from routing.search.search import TableSearch
from routing.tables import EndpointSet, select_endpoints
from topo.errors import FormatError, HeddleError, plural
from topo.fabric import Frozen, frozen
from topo.files.text import read_lines
from topo.table import Brief

MAX_ROWS = 10_000_000
"""Rows of a demand."""


@dataclass(frozen=True, eq=False)
class Demand(Frozen, Brief):
    """How much is sent, in any unit; pairs that are not named send nothing."""

    source: NDArray[np.int32]
    """(n,) end ports."""
    destination: NDArray[np.int32]
    """(n,) end ports."""
    weight: NDArray[np.float64]
    """(n,) above 0; a pair that is named twice sends the sum."""

    def _brief(self) -> str:
        return plural(len(self.weight), "pair")

    @classmethod
    def read(cls, path: str | Path, routed: Routed) -> Demand:
        r"""Read a demand from a CSV file with the columns src, dst and weight.

        Parameters
        ----------
        path : str or Path
        routed : Routed
            Whose end ports are named, as `find_end` takes names.

        Raises
        ------
        FormatError
            With the line, where a row cannot be.

        Examples
        --------
        >>> import pathlib, tempfile, topo, routing
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "demand.csv"
        >>> _ = path.write_text("src,dst,weight\ngpu00,gpu08,10\n")
        >>> routing.Demand.read(path, routing.route(topo.preset("lab-20").fabric)).weight
        array([10.])
        """
        names, known = EndNames.of(routed), dict[str, int]()
        rows: list[tuple[int, int, float]] = []
        reader = csv.reader(read_lines(path), strict=True)
        try:
            header = [name.strip() for name in next(reader, [])]
            if header != ["src", "dst", "weight"]:
                raise FormatError(f"found the columns {','.join(header)[:60]!r}; expected src,dst,weight", str(path), 1)
            for row in filter(None, reader):
                if len(row) != 3 or len(rows) >= MAX_ROWS:
                    expected = f"expected src,dst,weight, and at most {MAX_ROWS:,} rows"
                    raise FormatError(f"found {len(row)} columns; {expected}", str(path), reader.line_num)
                for name in row[:2]:
                    if name not in known:
                        known[name] = names.find(name)
                weight = float(row[2])
                if not (math.isfinite(weight) and weight >= 0):
                    raise ValueError(f"found the weight {row[2][:20]!r}; expected a number from 0")
                rows.append((known[row[0]], known[row[1]], weight))
        except FormatError:
            raise
        except (HeddleError, csv.Error, ValueError) as error:
            raise FormatError(str(error), str(path), reader.line_num) from None
        values = np.array(rows, np.float64).reshape(len(rows), 3)
        values = values[(values[:, 2] > 0) & (values[:, 0] != values[:, 1])]
        if not len(values):
            raise FormatError("found no weight above 0; expected a pair of end ports with a weight above 0", str(path))
        return cls(values[:, 0].astype(np.int32), values[:, 1].astype(np.int32), values[:, 2])


def fit_traffic(routed: Routed, demand: Demand | EndpointSet) -> Routed:
    """Move paths such that the fullest link under a demand gets less full.

    Parameters
    ----------
    routed : Routed
        Free of credit loops on one lane.
    demand : Demand or str
        A set of end ports stands for 1 from each of them to each other.

    Returns
    -------
    Routed
        As complete, free of credit loops on one lane, no path longer; ``why`` says what was gained: what goes over the
        fullest link, times the fastest rate over that of the link. The same tables where nothing was.

    Raises
    ------
    RoutingError
        When the tables have credit loops, or need several lanes.

    Examples
    --------
    >>> import numpy as np, topo, routing
    >>> routed = routing.route(topo.preset("lab-20").fabric)
    >>> hosts = routed.fabric.ends(role="compute")
    >>> demand = routing.Demand(hosts[:8], hosts[8:], np.ones(8))
    >>> routing.fit_traffic(routed, demand).why.split("; ")[-1]
    'fullest link under the demand 1'
    """
    fabric, tables = Routed.given(routed).fabric, routed.tables
    order = legal_order(fabric, prove_order(routed, "no traffic can be moved in them", "or --lanes 1"))
    search, unit = _search(routed, order, demand)
    next_hop = taken_channels(order, tables.lft)
    found = search.improve(order, next_hop, turns=AS_THEY_ARE, high=1.0)
    before, least = (float(search.loads(one).max(initial=0.0)) * unit for one in (next_hop, found.next_hop))
    if least >= before:
        return replace(routed, why=f"{routed.why}; fullest link under the demand {before:,.4g}")
    lft = tables.lft.copy()
    write_ports(order, next_hop, found.next_hop, lft)
    why = f"{routed.why}; fullest link under the demand {least:,.4g} instead of {before:,.4g}"
    return replace(routed, tables=replace(tables, lft=frozen(lft)), why=why)


def _search(routed: Routed, order: ChannelOrder, demand: Demand | EndpointSet) -> tuple[TableSearch, float]:
    """Return the search for tables under a demand alone, and the unit of its loads."""
    fabric, tables, n = routed.fabric, routed.tables, routed.fabric.n_switches
    dests = destinations_of(fabric, tables.lid, switch_levels(fabric))
    number = numbers_of(dests)
    if isinstance(demand, str):
        ends = select_endpoints(fabric, tables, demand)
        ends = ends[(fabric.end_switch[ends] >= 0) & (tables.lid[ends] > 0)]
        receives = np.zeros(len(dests.lid))
        receives[number[tables.lid[ends]]] = 1.0
        sends = np.bincount(fabric.end_switch[ends], minlength=n).astype(float)
        every = Dense("demand", sends, receives, 1.0)
        return TableSearch(assemble(order, *in_number_order(dests), [every], [], {"demand": 1.0}), order), 1.0
    source, destination = demand.source, demand.destination
    known = (fabric.end_switch[source] >= 0) & (fabric.end_switch[destination] >= 0) & (tables.lid[destination] > 0)
    unit = float(demand.weight.sum()) / max(len(demand.weight), 1) or 1.0
    key = fabric.end_switch[source][known].astype(np.int64) * len(dests.lid) + number[tables.lid[destination[known]]]
    pairs, row = np.unique(key, return_inverse=True)
    flow = np.bincount(row, demand.weight[known] / unit).astype(np.float32)
    sample = Sample("demand", (pairs // len(dests.lid)).astype(np.int32), pairs % len(dests.lid), flow, 1.0)
    return TableSearch(assemble(order, *in_number_order(dests), [], [sample], {"demand": 1.0}, DENSE), order), unit
