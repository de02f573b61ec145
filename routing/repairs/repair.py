"""New tables after failures: complete for all that is still connected, with few entries changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from routing.engines.balanced import MOST_DETOUR
from routing.engines.base import ENGINES, route
from routing.lanes.fit import break_loops
from routing.names import find_ports
from routing.order.channel_order import order_channels, switch_levels, taken_channels, with_ranks, write_ports
from routing.order.legal import ChannelOrder
from routing.order.turn_order import regrow_channel_order
from routing.order.turns import extend_order, note_turns
from routing.repairs.basis import HOST, Channels, RepairBasis, destinations, hosts_at, prepare_repair, repair_net
from routing.repairs.trees import RepairNet, repair_trees
from routing.repairs.updates import Updates, order_updates
from routing.routed import Routed
from routing.search.move import AMENDED, AS_THEY_ARE
from routing.search.problem import Dense, assemble
from routing.search.search import TableSearch
from routing.tables import LFT_BLOCK, NO_PATH, RoutingTables
from topo.errors import RoutingError, plural
from topo.fabric import Fabric, Frozen, frozen
from topo.table import Shown, Table

WAYS = (AS_THEY_ARE, 0), (AMENDED, MOST_DETOUR)
"""Turns that moves may take at each price, and links that paths may have beyond the shortest."""

HALVINGS = 8
"""Prices that are tried: by the last one, an entry costs next to nothing."""

EFFORT = 1 << 24
"""Destinations times channels that are looked at, each of 16 times: some five seconds in all, as in
`routing.search.search`, since repairs are waited for."""


@dataclass(frozen=True, eq=False)
class Repair(Frozen, Shown):
    """Tables for a fabric after failures, beside those for the whole fabric."""

    before: Routed
    """The whole fabric and its tables."""
    after: Routed
    """What is left of the fabric, and tables for it."""
    how: str
    """``kept order``: all paths, old and new, climb one order of channels; ``extended order``: likewise, and it allows
    turns that were none before; ``order of levels``: the new ones climb that one; ``grown order``: they climb one that
    holds most turns of the old; ``lanes``: credit loops are broken by as many lanes as there were; ``routed anew``: all
    entries are new, as when repaired paths need more lanes."""
    rank: NDArray[np.int32]
    """(P,) position of each channel between switches in that order; -1 for other ports, and all -1 on several lanes."""

    @property
    def down(self) -> NDArray[np.int32]:
        """(k,) ports whose cables are down."""
        return np.flatnonzero(self.before.fabric.peer != self.after.fabric.peer).astype(np.int32)

    @property
    def ports_cut_off(self) -> NDArray[np.int32]:
        """(k,) ports of hosts whose cables are down."""
        return np.intersect1d(self.down, self.before.fabric.port_of(self.before.fabric.ends()))

    @property
    def changed(self) -> NDArray[np.int64]:
        """(n, 2) switch and LID of each entry that changes."""
        return np.argwhere(self.before.tables.lft != self.after.tables.lft)

    @property
    def updates(self) -> Updates:
        """The order in which the entries that change are written."""
        return order_updates(self.before, self.after, self.rank)

    @property
    def table(self) -> Table:
        """What changes."""
        changed = self.changed
        blocks = np.unique(changed[:, 0] * 1024 + changed[:, 1] // LFT_BLOCK)
        cut = [*map(self.before.fabric.port_label, self.ports_cut_off)]
        some = f"{len(cut):,} ({', '.join(cut[:3])}{', ...' * (len(cut) > 3)})"
        figures: dict[str, int | str] = {
            "cables down": len(self.down) // 2,
            "host ports without a cable": some if cut else 0,
            "entries": int(np.count_nonzero(self.before.tables.lft != NO_PATH)),
            "entries that change": len(changed),
            "blocks to write": len(blocks),
            "switches to write": len(np.unique(changed[:, 0])),
            "how": self.how,
        }
        return Table.of_rows("repair", ("of", "value"), figures.items())

    def _brief(self) -> str:
        changed = plural(len(self.changed), "entry", "entries")
        return f"{plural(len(self.down) // 2, 'cable')} down: {changed} changed, {self.how}"

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain values, ready for JSON, with all ports of hosts by name."""
        found = {name.replace(" ", "_"): value for name, value in self.table.rows()}
        return found | {"host_ports_without_a_cable": [*map(self.before.fabric.port_label, self.ports_cut_off)]}


def repair(
    basis: RepairBasis | Routed,
    down: int | str | Sequence[int | str] | NDArray[np.integer],
    *,
    spare: float | None = None,
) -> Repair:
    """Repair the tables of a fabric for what is left of it.

    An entry stays as it is unless its cable is down, or leads to a switch that has no path as short as the old one any
    longer. Of the shortest paths that climb the order of the old tables, those are taken where flows meet fewest
    others. A few entries more may change until the fullest channel is no fuller than that of the old tables. Tables
    depend on what is down now and on nothing in between, so that with nothing down they are the old ones again.

    Parameters
    ----------
    basis : RepairBasis or Routed
        The whole fabric with its tables; a basis, which `prepare_repair` makes, serves any number of repairs.
    down : (k,) int or str
        Ports whose cables are down, either end of each; or names of links, switches and hosts (`find_ports`).
    spare : float, optional
        How many entries may change for the sake of the load, as a share of those that change anyway. When left out:
        1, which is seldom used up; 0 where one cable is down, or where the tables need several lanes.

    Returns
    -------
    Repair
        With a path for each entry that led to its destination before and is still connected with it.

    Raises
    ------
    HeddleError
        When there is no such part, the tables have credit loops, or what is left cannot be routed.

    Examples
    --------
    >>> import topo, routing
    >>> routed = routing.route(topo.preset("lab-20").fabric)
    >>> repair = routing.repairs.repair(routed, "leaf0:21")
    >>> len(repair.changed), routing.prove(repair.after, "all").holds
    (4, True)
    """
    basis = basis if isinstance(basis, RepairBasis) else prepare_repair(basis)
    whole, tables = basis.routed.fabric, basis.routed.tables
    left = whole.without(find_ports(whole, down))
    dead = whole.is_inner & ~left.is_inner
    dest_switches, weight, lids = destinations(left, tables)
    met = _meets(whole, tables, np.flatnonzero(dead))[lids]
    if not met.any():
        return Repair(basis.routed, replace(basis.routed, fabric=left), "kept order", _rank(basis))

    def repaired_entries(net: RepairNet, chosen: NDArray[np.bool_]) -> _Entries:
        old = frozen(basis.entries[lids[chosen]])
        new, load = old.copy(), basis.load.copy()
        sources = frozen(np.stack([hosts_at(whole), hosts_at(left)]))
        lost = repair_trees(net, old, frozen(dest_switches[chosen]), frozen(weight[chosen]), sources, load, new)
        return _Entries(lids[chosen], dest_switches[chosen], old, new, lost)

    found = repaired_entries(repair_net(whole, left, basis.rank, ordered=basis.ordered), met)
    rank, how = _rank(basis), "kept order"
    if basis.ordered and found.lost.any():
        channels = Channels.of(left)
        extended = _extend(basis, channels, found)
        if extended is not None:
            rank, how = extended, "extended order"
        else:  # levels fit trees, and what is grown anything: the one that keeps more is the better one
            grown = regrow_channel_order(channels.order, channels.start(basis.rank), *channels.turns(basis))
            both = {"order of levels": channels.order.rank, "grown order": grown.rank}
            orders = {name: channels.ranks(one) for name, one in both.items()}
            nets = {name: repair_net(whole, left, one, other=True) for name, one in orders.items()}
            tried = {name: repaired_entries(net, np.ones(len(lids), bool)) for name, net in nets.items()}
            how = min(tried, key=lambda name: (tried[name].lost.sum(), (tried[name].new != tried[name].old).sum()))
            found, rank = tried[how], orders[how]
    lft = tables.lft.copy()
    lft[:, found.lids] = found.new.T
    few = int((1.0 if spare is None and np.count_nonzero(dead) > 2 else spare or 0.0) * (found.new != found.old).sum())
    if basis.ordered and few:
        relieved = _take_off_peaks(basis, left, rank, few, lft)
        if how == "kept order" and not np.array_equal(relieved, rank):
            how = "extended order"
        rank = relieved
    lft.flags.writeable = False  # or it would be copied once more
    repaired = replace(tables, lft=lft)
    if not basis.ordered:
        lanes = len({tables.sl2vl[level] for level in np.unique(tables.path_sl).tolist()})  # type: ignore[arg-type]
        try:
            repaired, how = break_loops(left, replace(repaired, path_sl=None, sl2vl=(0,) * 16), lanes), "lanes"
        except RoutingError:  # repaired paths would need more
            return route_anew(Repair(basis.routed, replace(basis.routed, fabric=left), "", rank))
    return Repair(basis.routed, replace(basis.routed, fabric=left, tables=repaired), how, rank)


def route_anew(done: Repair) -> Repair:
    """Route what is left of a fabric anew, on the same LIDs, without regard to the old tables.

    Raises
    ------
    RoutingError
        When the engine of the old tables does not take what is left.

    Examples
    --------
    >>> import topo, routing
    >>> routed = routing.route(topo.preset("lab-20").fabric)
    >>> anew = routing.repairs.route_anew(routing.repairs.repair(routed, "leaf0:21"))
    >>> anew.how, routing.prove(anew.after).holds
    ('routed anew', True)
    """
    old, left = done.before.tables, done.after.fabric
    engine = next(name for name in (old.engine, left.engine, "balanced") if name in ENGINES)
    found = route(replace(left, discovered_lid=old.lid, lmc=old.lmc), engine, lmc=old.lmc).tables
    lft = np.full_like(old.lft, NO_PATH)
    lft[:, : found.lft.shape[1]] = found.lft
    alone = np.setdiff1d(np.arange(left.n_switches), left.port_node[left.peer >= 0])
    lft[alone] = old.lft[alone]  # nobody can write there
    after = replace(done.before, fabric=left, tables=replace(found, lid=old.lid, lft=lft))
    return Repair(done.before, after, "routed anew", np.full(left.n_ports, -1, np.int32))


def _rank(basis: RepairBasis) -> NDArray[np.int32]:
    return basis.rank if basis.ordered else np.full(len(basis.rank), -1, np.int32)


def _meets(fabric: Fabric, tables: RoutingTables, dead: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Return (T,) whether any entry for a LID names one of some ports."""
    found = np.zeros(tables.lft.shape[1], bool)
    switches = fabric.port_node[dead]
    for switch in np.unique(switches).tolist():
        named = np.zeros(256, bool)
        named[fabric.port_number[dead[switches == switch]]] = True
        found |= named[tables.lft[switch]]
    return found


class _Entries(NamedTuple):
    """Entries for n destinations, before and after."""

    lids: NDArray[np.int32]
    dest_switches: NDArray[np.int32]
    """(n,) the switch that each hangs on."""
    old: NDArray[np.uint8]
    """(n, S)"""
    new: NDArray[np.uint8]
    """(n, S)"""
    lost: NDArray[np.bool_]
    """(n, S) the switches that cables connect and the new entries do not."""


def _extend(basis: RepairBasis, channels: Channels, entries: _Entries) -> NDArray[np.int32] | None:
    """Extend the order of the old tables by turns that reconnect lost paths; None where not all can be."""
    order, turns = channels.order, channels.growing(basis, basis.rank)
    old, new = channels.named(entries.old), channels.named(entries.new)
    note_turns(turns, frozen(old), frozen(new))
    rows = np.flatnonzero(entries.lost.any(axis=1))
    missing = entries.lost[rows]
    onward = np.where(missing, old[rows], new[rows]).astype(np.int32)
    if extend_order(turns, onward, frozen(entries.dest_switches[rows]), missing):
        return None
    row, switch = np.nonzero(entries.lost[rows])
    entries.new[rows[row], switch] = order.number[onward[row, switch]]
    return channels.ranks(turns.rank)


def _take_off_peaks(
    basis: RepairBasis, left: Fabric, rank: NDArray[np.int32], spare: int, lft: NDArray[np.uint8]
) -> NDArray[np.int32]:
    """Move flows off full channels, each entry at a price, until the fullest one is no fuller than before the failure.

    The price begins with what the failure costs for each entry that it changes: (J after - J before) / entries, with J
    the score of all pairs (`routing.search`). It is halved as long as that leaves the fullest channel too full, and
    spare entries: at most ``spare`` may differ from the old tables beyond those that do already. If the order leaves no
    other path, further turns are allowed, and detours. ``lft`` is (S, T), complete tables for what is left, in and out.
    ``rank``, and what is returned, are positions of channels in an order that all paths climb, before and afterwards.
    """
    whole, tables, channels = basis.routed.fabric, basis.routed.tables, Channels.of(left)
    order = with_ranks(channels.order, frozen(channels.start(rank)))
    of_whole = order_channels(whole, switch_levels(whole))
    were = _all_pairs(basis, left, of_whole).weigh(of_whole, taken_channels(of_whole, tables.lft), 1.0)
    search, repaired = _all_pairs(basis, left, order), taken_channels(order, lft)
    found = search.weigh(order, repaired, 1.0)
    price = (found.score - were.score) / max(int((tables.lft != lft).sum()), 1)
    held = channels.growing(basis, rank).state.astype(np.int32)  # old paths are taken while entries change
    fuller = np.nextafter(were.fullest, np.inf)
    for halved, (turns, detour) in product(range(HALVINGS if price > 0 else 0), WAYS):
        if found.fullest < fuller:
            break
        other = search.improve(
            found.order, found.next_hop, turns=turns, detour=detour, high=1.0, least=price / 2**halved,
            full=fuller, effort=EFFORT, held=held,
        )  # fmt: skip
        if np.count_nonzero(other.next_hop != repaired) <= spare:
            found = other
    write_ports(order, repaired, found.next_hop, lft)
    same = np.array_equal(found.order.rank, order.rank)
    return rank if same else channels.ranks(found.order.rank)


def _all_pairs(basis: RepairBasis, left: Fabric, order: ChannelOrder) -> TableSearch:
    """Return the search for the pairs of hosts that are left, over some channels."""
    tables = basis.routed.tables
    dest_switches, weight, lids = destinations(left, tables)
    receives = np.where(weight < HOST / (1 << tables.lmc), 0.0, weight)
    pairs = Dense("pairs", hosts_at(left), receives, 1.0)
    return TableSearch(assemble(order, dest_switches.astype(np.int32), lids, [pairs], [], {"pairs": 1.0}), order)
