"""A demand: how much each end port sends to each other, and tables that are made for it.

Any tables that are free of credit loops on one lane have an order of channels along which all their paths rise
(`routing.proof`). Flows are moved among the paths that rise along the same order, so that nothing can deadlock
afterwards either, whichever engine made the tables; no path gets longer, and the fullest link never fuller.
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from routing.demand_moves import DemandNet, load_of_demand, move_demand
from routing.names import EndNames
from routing.order.channel_order import order_channels, port_numbers, switch_levels, taken_channels
from routing.proof import Proof, prove_order
from routing.routed import Routed
from routing.tables import NO_PATH, EndpointSet, RoutingTables, select_endpoints, tree_order
from topo.errors import FormatError, HeddleError, plural
from topo.fabric import Fabric, freeze_arrays, frozen
from topo.files.text import read_lines
from topo.table import Brief

FULL = 0.98
"""Share of the fullest channel's load from which on a channel's flows are moved."""

ROUNDS = 30
"""How often each destination is looked at, at most."""

PATIENCE = 3
"""Rounds without a gain after which it ends."""

BLOCK = 20_000_000
"""Ports that kernels look at before Python hears signals again."""

MAX_ROWS = 10_000_000
"""Rows of a demand."""


@dataclass(frozen=True, eq=False)
class Demand(Brief):
    """How much is sent, in any unit; pairs that are not named send nothing."""

    source: NDArray[np.int32]
    """(n,) end ports."""
    destination: NDArray[np.int32]
    """(n,) end ports."""
    weight: NDArray[np.float64]
    """(n,) above 0; a pair that is named twice sends the sum."""

    def __post_init__(self) -> None:
        freeze_arrays(self)

    def _brief(self) -> str:
        return plural(len(self.weight), "pair")


def read_demand(path: str | Path, routed: Routed) -> Demand:
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
    >>> routing.read_demand(path, routing.route(topo.preset("lab-20").fabric)).weight
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
    return Demand(values[:, 0].astype(np.int32), values[:, 1].astype(np.int32), values[:, 2])


def demand_load(routed: Routed, demand: Demand | EndpointSet) -> NDArray[np.float64]:
    """Return how full a demand makes the channels between switches.

    Parameters
    ----------
    routed : Routed
    demand : Demand or str
        A set of end ports stands for 1 from each of them to each other.

    Returns
    -------
    (P,) float64
        What goes over each channel, times the fastest rate over that of the channel; 0 for other channels.

    Examples
    --------
    >>> import topo, routing
    >>> from routing.demand import demand_load
    >>> routed = routing.route(topo.preset("lab-20").fabric)
    >>> bool(demand_load(routed, "hca").max() == routing.prove(routed).load[routed.fabric.inner].max())
    True
    """
    net = _net(Routed.given(routed).fabric, routed, demand, np.zeros(0, np.int32))
    return _load(net, np.array(routed.tables.lft.T, order="C"))


def fit_traffic(routed: Routed, demand: Demand | EndpointSet) -> Routed:
    """Move paths such that the fullest link under a demand gets less full.

    Parameters
    ----------
    routed : Routed
        Free of credit loops on one lane.
    demand : Demand or str
        As `demand_load` takes it.

    Returns
    -------
    Routed
        As complete, free of credit loops on one lane, no path longer; ``why`` says what was gained. The same tables
        where nothing was.

    Raises
    ------
    RoutingError
        When the tables have credit loops, or need several lanes.

    Examples
    --------
    >>> import numpy as np, topo, routing
    >>> from routing.demand import demand_load
    >>> routed = routing.route(topo.preset("lab-20").fabric)
    >>> hosts = routed.fabric.ends(role="compute")
    >>> demand = routing.Demand(hosts[:8], hosts[8:], np.ones(8))
    >>> float(demand_load(routing.fit_traffic(routed, demand), demand).max())
    1.0
    """
    fabric, tables = Routed.given(routed).fabric, routed.tables
    proof = prove_order(routed, "no traffic can be moved in them", "or --lanes 1")
    net = _net(fabric, routed, demand, _positions(fabric, proof))
    by_lid, before, least = _move(net, np.array(tables.lft.T, order="C"))
    if least >= before:
        return replace(routed, why=f"{routed.why}; fullest link under the demand {before:,.4g}")
    why = f"{routed.why}; fullest link under the demand {least:,.4g} instead of {before:,.4g}"
    return replace(routed, tables=replace(tables, lft=frozen(by_lid.T)), why=why)


def even_out(routed: Routed, engine: str) -> RoutingTables:
    """Return tables whose fullest link between hosts is less full, no path longer, and whatever loops they close."""
    fabric, tables, n = routed.fabric, routed.tables, routed.fabric.n_switches
    # Channels as engines name them, so that numbers of ports decide nothing.
    order = order_channels(fabric, switch_levels(fabric), join_peaks=False)
    ends = tree_order(fabric, select_endpoints(fabric, tables, "hca"))
    ends = ends[(fabric.end_switch[ends] >= 0) & (tables.lid[ends] > 0)]
    net = DemandNet(
        offset=order.indptr,
        node=order.sender,
        peer=order.reverse,
        position=frozen(np.zeros(len(order.sender), np.int32)),
        rising=False,
        scale=frozen(order.rate_gbps.max(initial=1.0) / order.rate_gbps),
        home=frozen(fabric.end_switch[ends]),
        lid=frozen(tables.lid[ends].astype(np.int32)),
        row=frozen(np.zeros(len(ends), np.int32)),
        weight=frozen(np.bincount(fabric.end_switch[ends], minlength=n).astype(np.float64)[None, :]),
    )
    evened, _, _ = _move(net, taken_channels(order, tables.lft) + np.uint8(1))  # 0 for no path
    lft = port_numbers(order, evened - np.uint8(1))
    return replace(tables, lft=frozen(np.where(lft == NO_PATH, tables.lft, lft)), engine=engine)


def _move(net: DemandNet, by_lid: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], float, float]:
    """Move flows as long as the fullest channel gets less full; return the tables, and its load before and after."""
    load = _load(net, by_lid)
    before = least = float(load.max(initial=0.0))
    best, idle = by_lid.copy(), 0
    step = max(1, BLOCK // max(int(net.offset[by_lid.shape[1]]), 1))
    for _ in range(ROUNDS):
        moves = 0
        for begin in range(0, len(net.lid), step):
            moves += move_demand(
                net, by_lid, begin, min(begin + step, len(net.lid)), load, FULL * load.max(initial=0.0)
            )
        load = _load(net, by_lid)
        if load.max(initial=0.0) < least * (1 - 1e-9):
            least, best, idle = float(load.max()), by_lid.copy(), 0
        else:
            idle += 1
        if not moves or idle == PATIENCE:
            break
    return best, before, least


def _net(fabric: Fabric, routed: Routed, demand: Demand | EndpointSet, position: NDArray[np.int32]) -> DemandNet:
    """Return what the kernels need: the demand by switch of the source and by destination."""
    tables, n = routed.tables, fabric.n_switches
    rate = fabric.rate_gbps
    scale = np.ones(fabric.n_ports)
    scale[fabric.inner] = rate[fabric.inner].max(initial=1.0) / np.maximum(rate[fabric.inner], 1e-9)
    if isinstance(demand, str):
        ends = select_endpoints(fabric, tables, demand)
        at = fabric.end_switch[ends[fabric.end_switch[ends] >= 0]]
        weight, row = np.bincount(at, minlength=n).astype(np.float64)[None, :], np.zeros(len(ends), np.int32)
    else:
        ends, row_of = np.unique(demand.destination, return_inverse=True)
        source = fabric.end_switch[demand.source]
        sends = source >= 0
        weight, row = np.zeros((len(ends), n)), np.arange(len(ends), dtype=np.int32)
        np.add.at(weight, (row_of[sends], source[sends]), demand.weight[sends])
    kept = (fabric.end_switch[ends] >= 0) & (tables.lid[ends] < tables.lft.shape[1]) & (tables.lid[ends] > 0)
    return DemandNet(
        offset=fabric.port_offset,
        node=fabric.port_node,
        peer=fabric.peer,
        position=frozen(position),
        rising=True,
        scale=frozen(scale),
        home=frozen(fabric.end_switch[ends][kept]),
        lid=frozen(tables.lid[ends][kept].astype(np.int32)),
        row=frozen(row[kept]),
        weight=frozen(weight),
    )


def _load(net: DemandNet, by_lid: NDArray[np.uint8]) -> NDArray[np.float64]:
    load = np.zeros(len(net.node))
    step = max(1, BLOCK // max(int(net.offset[by_lid.shape[1]]), 1))
    for begin in range(0, len(net.lid), step):
        load_of_demand(net, by_lid, begin, min(begin + step, len(net.lid)), load)
    return load


def _positions(fabric: Fabric, proof: Proof) -> NDArray[np.int32]:
    """Return (P,) the order of a proof; channels that no path uses stand amid those between the same levels."""
    position = proof.order[0].copy() if len(proof.order) else np.full(fabric.n_ports, -1, np.int32)
    inner = fabric.inner
    kind = fabric.level[fabric.port_node[inner]].astype(np.int64) * 256 + fabric.level[fabric.peer_node[inner]]
    for value in np.unique(kind):
        alike = inner[kind == value]
        used = position[alike] >= 0
        if used.any():
            position[alike[~used]] = int(np.median(position[alike[used]]))
    return position
