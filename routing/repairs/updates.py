"""The order in which new forwarding tables are written over old ones while the fabric works.

A subnet manager writes blocks of 64 entries, and nobody knows which packet meets which block. Writes come in *stages*:
within one, blocks may be written in any order, and the next one begins a packet lifetime after all are written, when
every packet that was sent before has left the network. Every mixture of old and new entries that can occur so

- delivers each packet that both tables deliver on the cables that are up, and
- is free of credit loops, with all mixtures before it: every turn between two channels that a packet can take climbs
  one order of the channels (Dally and Seitz, IEEE Trans. Computers C-36(5), 1987).

This holds for packets on their way, too: a turn depends on two entries, each read at its own moment of one stage, and
both readings together are a mixture of that stage.

An entry waits for another of the same destination in three cases. A switch is not led to one whose old entry would drop
the packet, or would turn it against the order, before that one has its new entry. A switch whose new entry would turn
packets of the old table against the order waits until those who send them have theirs. And so does a switch whose new
entry drops them. If no order of channels serves both tables, some destinations are *drained*: nothing may be sent to
them from before the first write until after the last.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from routing.order.dependencies import topological_order
from routing.routed import Routed
from routing.tables import LFT_BLOCK, NO_PATH, RoutingTables, lid_owners
from topo.errors import RoutingError, plural
from topo.fabric import MAX_UNICAST_LID, Fabric, Frozen, frozen
from topo.table import Shown, Table

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Int32s = NDArray[np.int32]
HOME = 1 << 30
"""Rank at a destination's own switch, where packets have arrived."""

CHUNK = 1024
"""Destinations per block."""


@dataclass(frozen=True, eq=False)
class Updates(Frozen, Shown):
    """Stages in which new entries are written, and the order of channels that proves them."""

    fabric: Fabric
    """The fabric while entries are written."""
    entries: Int32s
    """(n, 3) stage, switch and LID of each entry that is written, in this order; stages count from 0."""
    drained: Int32s
    """LIDs to which nothing may be sent until all stages are written."""
    rank: Int32s
    """(P,) position of each channel between switches, which rises along every path to another LID in any mixture; -1
    where no path goes."""
    longest: Ints
    """(stages,) most switches that a packet to a LID that changes and is not drained passes in a mixture of the stage;
    0 where all are drained."""

    @property
    def stages(self) -> int:
        """Number of stages."""
        return int(self.entries[:, 0].max(initial=-1)) + 1

    @property
    def writes(self) -> Ints:
        """(w, 4) stage, switch, number of the block of 64 LIDs, and entries that change in it, in order."""
        stage, switch, lid = self.entries.astype(np.int64).T
        blocks = (MAX_UNICAST_LID + 1) // LFT_BLOCK
        key = (stage * self.fabric.n_switches + switch) * blocks + lid // LFT_BLOCK
        keys, count = np.unique(key, return_counts=True)
        of_stage, block = np.divmod(keys, blocks)
        return np.stack([*np.divmod(of_stage, self.fabric.n_switches), block, count], axis=1)

    @property
    def table(self) -> Table:
        """What is written, stage by stage."""
        writes = self.writes
        parts = [writes[writes[:, 0] == stage] for stage in range(self.stages)]
        counts = [(len(np.unique(part[:, 1])), len(part), int(part[:, 3].sum())) for part in parts]
        rows = [(at, *row, far) for at, (row, far) in enumerate(zip(counts, self.longest.tolist(), strict=True), 1)]
        return Table.of_rows("order of updates", ("stage", "switches", "blocks", "entries", "longest path"), rows)

    @property
    def write_table(self) -> Table:
        """Every block that is written, in order."""
        fabric, guid = self.fabric, self.fabric.node_guid
        rows = [
            (stage + 1, fabric.label(switch), f"0x{guid[switch]:016x}", block, block * LFT_BLOCK, count)
            for stage, switch, block, count in self.writes.tolist()
        ]
        names = ("stage", "switch", "guid", "block", "first LID", "entries that change")
        return Table.of_rows("blocks to write", names, rows)

    def _brief(self) -> str:
        text = f"{plural(len(self.writes), 'block')} in {plural(self.stages, 'stage')}"
        return f"{text}, {plural(len(self.drained), 'LID')} drained" if len(self.drained) else text

    def to_dict(self) -> dict[str, Any]:
        """Return the stages as plain values, ready for JSON."""
        names = ("stage", "switch", "guid", "block", "first_lid", "entries")
        writes = [dict(zip(names, row, strict=True)) for row in self.write_table.rows()]
        return {"stages": self.stages, "drained_lids": self.drained.tolist(), "writes": writes}


def order_updates(before: Routed, after: Routed, rank: Int32s | None = None) -> Updates:
    """Order the writes that turn one set of tables into another.

    Parameters
    ----------
    before, after : Routed
        The tables that are loaded, and the new ones with the fabric as it is now.
    rank : (P,) int32, optional
        Position of each channel in an order that both climb, if one is known; another one is found if they do not.

    Raises
    ------
    RoutingError
        When the tables are not of one fabric with the same LIDs, or have credit loops.

    Examples
    --------
    >>> import topo, routing
    >>> routed = routing.route(topo.preset("lab-20").fabric)
    >>> repair = routing.repairs.repair(routed, "leaf0:21")
    >>> updates = routing.repairs.order_updates(repair.before, repair.after)
    >>> updates.stages, len(updates.writes), len(updates.drained)
    (1, 2, 0)
    """
    fabric, old, new = Routed.given(after).fabric, Routed.given(before).tables, after.tables
    if old.lft.shape != new.lft.shape or not np.array_equal(old.lid, new.lid) or old.lmc != new.lmc:
        expected = "tables of one fabric with the same LIDs"
        raise RoutingError(f"the two tables have other switches or LIDs; expected {expected}")
    owner = lid_owners(new)
    lids = np.flatnonzero((owner >= 0) & (fabric.end_switch[owner] >= 0))
    changed = lids[(old.lft[:, lids] != new.lft[:, lids]).any(axis=0)]
    if any(tables.path_sl is not None and tables.path_sl.any() for tables in (old, new)):
        # No order of channels serves several lanes, whose paths may change lanes, too: all are drained.
        switch, at = np.nonzero(old.lft[:, changed] != new.lft[:, changed])
        entries = np.stack([np.zeros_like(at), switch, changed[at]], axis=1).astype(np.int32)
        drained = lids[: len(lids) * bool(len(changed))].astype(np.int32)
        none = np.zeros(int(bool(len(entries))), np.int64)
        return Updates(fabric, entries, drained, frozen(np.full(fabric.n_ports, -1, np.int32)), none)
    drained = np.zeros(0, np.int32)
    parts = [lids[start : start + CHUNK] for start in range(0, len(lids), CHUNK)]
    if rank is None or not all(_climbs(_Mixture.of(before, after, part), rank) for part in parts):
        rank, drained = _common_order(before, after, parts)
    found = [np.zeros((0, 3), np.int32)]
    drain = np.isin(changed, drained)
    longest = np.zeros(0, np.int64)
    for start in range(0, len(changed), CHUNK):
        chunk = changed[start : start + CHUNK]
        mixture = _Mixture.of(before, after, chunk)
        stage = _stages(mixture, rank)
        late = (stage < 0).any(axis=1) | drain[start : start + CHUNK]  # a circle of waiting: nothing may be sent there
        drained = np.union1d(drained, chunk[late]).astype(np.int32)
        stage[late] = 0
        paths = [_longest(mixture, stage, number, ~late) for number in range(int(stage.max(initial=-1)) + 1)]
        size = max(len(longest), len(paths))
        longest = np.maximum(*(np.pad(one, (0, size - len(one))) for one in (longest, np.array(paths, np.int64))))
        row, switch = np.nonzero(mixture.changed)
        found.append(np.stack([stage[row, switch], switch, chunk[row]], axis=1).astype(np.int32))
    entries = np.concatenate(found)
    return Updates(fabric, entries[np.lexsort((entries[:, 2], entries[:, 1], entries[:, 0]))], drained, rank, longest)


class _Mixture(NamedTuple):
    """Old and new entries of S switches for n destinations, on the cables that are up."""

    channel: tuple[Ints, Ints]
    """(n, S) old and new: port that sends, -1 where a packet is dropped or has arrived."""
    then: tuple[Ints, Ints]
    """(n, S) old and new: the switch that it is sent to, or the switch itself."""
    dest_switch: Ints
    """(n,) the switch that each destination hangs on."""
    changed: Bools
    """(n, S) entries that differ."""

    @classmethod
    def of(cls, before: Routed, after: Routed, lids: NDArray[np.integer]) -> _Mixture:
        fabric = after.fabric
        n, first = fabric.n_switches, fabric.port_offset[: fabric.n_switches + 1]
        dest_switch = fabric.end_switch[lid_owners(after.tables)[lids]].astype(np.int64)
        here = np.arange(n)[None, :]
        channels, nexts = [], []
        for tables in (before.tables, after.tables):
            entry = tables.lft[:, lids].T.astype(np.int64)
            named = (entry > 0) & (entry != NO_PATH) & (entry <= np.diff(first))
            port = np.where(named, first[:-1] + entry - 1, 0)
            goes = named & fabric.is_inner[port] & (here != dest_switch[:, None])
            channels.append(np.where(goes, port, -1))
            nexts.append(np.where(goes, fabric.peer_node[port], here))
        changed = before.tables.lft[:, lids].T != after.tables.lft[:, lids].T
        return cls((channels[0], channels[1]), (nexts[0], nexts[1]), dest_switch, changed)

    def onward(self, values: NDArray[Any], which: int) -> NDArray[Any]:
        """Return (n, S) what stands at the switch that each entry, old or new, leads to."""
        return np.take_along_axis(values, self.then[which], axis=1)

    def arrives(self, which: int) -> Bools:
        """Return (n, S) from where old or new entries lead to the destination's switch."""
        found: Bools = np.arange(self.changed.shape[1])[None, :] == self.dest_switch[:, None]
        while True:  # one switch farther each time
            more = found | self.onward(found, which)
            if np.array_equal(more, found):
                return found
            found = more

    def ranks(self, rank: NDArray[np.integer], which: int) -> Ints:
        """Return (n, S) the rank of the channel of each entry, old or new; `HOME` where packets go no further."""
        return np.where(self.channel[which] >= 0, rank[self.channel[which]], HOME)

    def turns(self, which: int) -> Ints:
        """Return (m, 2) the two channels of each turn that old or new entries make, each once."""
        first = self.channel[which]
        then = self.onward(first, which)
        both = (first >= 0) & (then >= 0)
        return np.unique(np.stack([first[both], then[both]], axis=1), axis=0)


def _climbs(mixture: _Mixture, rank: Int32s) -> bool:
    """Whether all turns of both tables climb the order."""
    for which in (0, 1):
        ranks, goes = mixture.ranks(rank, which), mixture.channel[which] >= 0
        if (ranks >= mixture.onward(ranks, which))[goes].any():
            return False
    return True


def _common_order(before: Routed, after: Routed, parts: list[Ints]) -> tuple[Int32s, Int32s]:
    """Return an order of channels for both tables, and the LIDs that it leaves out: those drained.

    Of the turns of both tables together, only those of the new ones that lie on a cycle are left out: a cycle that
    remained would be one of the old tables alone.
    """
    fabric, size = after.fabric, after.fabric.n_ports

    def keys(which: int) -> Ints:
        found = [_Mixture.of(before, after, part).turns(which) @ np.array([size, 1]) for part in parts]
        return np.unique(np.concatenate([*found, np.zeros(0, np.int64)]))

    old, new = keys(0), keys(1)
    first, then = np.divmod(np.union1d(old, new), size)
    from scipy.sparse import csr_matrix  # which takes long to import, and few change tables
    from scipy.sparse.csgraph import connected_components

    graph = csr_matrix((np.ones(len(first), np.int8), (first, then)), shape=(size, size))
    component = connected_components(graph, connection="strong")[1]
    barred = np.setdiff1d(new, old)
    barred = barred[component[barred // size] == component[barred % size]]
    drained = [np.zeros(0, np.int64)]
    for part in parts if len(barred) else []:
        mixture = _Mixture.of(before, after, part)
        channel = mixture.channel[1]
        turn = channel * size + mixture.onward(channel, 1)
        drained.append(part[(np.isin(turn, barred) & (channel >= 0)).any(axis=1)])
    first, then = np.divmod(np.setdiff1d(np.union1d(old, new), barred), size)
    indptr = np.searchsorted(first, np.arange(size + 1)).astype(np.int64)
    rank = topological_order(frozen(indptr), frozen(then.astype(np.int32)), frozen(fabric.is_inner))
    if (rank[fabric.inner] < 0).any():
        raise RoutingError("the loaded tables have credit loops themselves; stop traffic while new ones are written")
    return rank, np.concatenate(drained).astype(np.int32)


def _stages(mixture: _Mixture, rank: Int32s) -> Ints:
    """Return (n, S) the stage of each entry that changes; -1 where entries wait for each other in a circle."""
    n, switches = mixture.changed.shape
    row, here = np.nonzero(mixture.changed)
    delivered, kept = (mixture.arrives(which) for which in (0, 1))
    ahead = mixture.then[1]  # the first switch on the new path that changes
    for _ in range(switches):
        changes = np.take_along_axis(mixture.changed, ahead, axis=1)
        further = np.where(changes, ahead, np.take_along_axis(mixture.then[1], ahead, axis=1))
        if np.array_equal(further, ahead):
            break
        ahead = further
    following = np.where(changes, ahead, -1)
    old, new = mixture.ranks(rank, 0), mixture.ranks(rank, 1)
    edges = []

    def wait(rows: Ints, waiting: Ints, awaited: Ints) -> None:
        edges.append(np.stack([rows * switches + waiting, rows * switches + awaited], axis=1))

    on = following[row, here]
    lost = (on >= 0) & ~delivered[row, np.maximum(on, 0)]
    wait(row[lost], here[lost], on[lost])
    on = mixture.then[1][row, here]
    turned = mixture.changed[row, on] & (mixture.channel[1][row, here] >= 0) & (new[row, here] >= old[row, on])
    wait(row[turned], here[turned], on[turned])
    on = mixture.then[0][row, here]
    turned = mixture.changed[row, on] & (mixture.channel[0][row, here] >= 0) & (old[row, here] >= new[row, on])
    wait(row[turned], on[turned], here[turned])
    drops = mixture.changed & ~kept
    sends = delivered[row, here] & kept[row, here] & drops[row].any(axis=1)
    row, here, on = row[sends], here[sends], here[sends]
    while len(on):  # along the old path
        on = mixture.then[0][row, on]
        dropped = drops[row, on]
        wait(row[dropped], on[dropped], here[dropped])
        goes = on != mixture.dest_switch[row]
        row, here, on = row[goes], here[goes], on[goes]
    waits, awaited = np.concatenate(edges).T
    stage = np.zeros(n * switches, np.int64)
    for _ in range(switches + 1):
        last = stage.copy()
        np.maximum.at(stage, waits, last[awaited] + 1)
        if np.array_equal(last, stage):
            break
    unsettled = (last != stage).reshape(n, switches).any(axis=1)
    return np.where(unsettled[:, None], -1, stage.reshape(n, switches))


def _longest(mixture: _Mixture, stage: Ints, number: int, served: Bools) -> int:
    """Return the most switches on a path in any mixture of a stage, for the destinations that are ``served``.

    Mixtures climb an order, so old and new entries of one stage together have no circle.
    """
    uses = (~mixture.changed | (stage >= number), mixture.changed & (stage <= number))
    goes = [used & (channel >= 0) & served[:, None] for used, channel in zip(uses, mixture.channel, strict=True)]
    switches = np.ones(stage.shape, np.int64)
    while True:
        more = 1 + np.maximum(*(np.where(goes[which], mixture.onward(switches, which), 0) for which in (0, 1)))
        if np.array_equal(more, switches):
            return int(more[served].max(initial=0))
        switches = more


def differing_entries(a: RoutingTables, b: RoutingTables) -> Ints:
    """Return (n, 2): switch and end port of each forwarding entry in which two tables of a fabric differ.

    Entries are those for the LIDs that an end port has in each of them, by number; who has none there has no path.

    Examples
    --------
    >>> import topo, routing
    >>> fabric = topo.preset("lab-20").fabric
    >>> one, other = (routing.route(fabric, engine).tables for engine in ("balanced", "minhop"))
    >>> len(routing.repairs.differing_entries(one, other))
    69
    """
    owners = np.flatnonzero((a.lid != 0) | (b.lid != 0))

    def entries(tables: RoutingTables, ends: Ints, number: int) -> NDArray[np.uint8]:
        lids = tables.lid[ends].astype(np.int64)
        has = (lids > 0) & (number < np.where(ends < len(tables.lft), 1, 1 << tables.lmc))
        known = has & (lids + number < tables.lft.shape[1])
        return np.where(known, tables.lft[:, np.where(known, lids + number, 0)], NO_PATH)

    found = [np.zeros((0, 2), np.int64)]
    for start, number in product(range(0, len(owners), 4096), range(1 << max(a.lmc, b.lmc))):
        ends = owners[start : start + 4096]
        switch, index = np.nonzero(entries(a, ends, number) != entries(b, ends, number))
        found.append(np.stack([switch, ends[index]], axis=1))
    every = np.concatenate(found)
    return every[np.lexsort((every[:, 1], every[:, 0]))]
