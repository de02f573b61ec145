"""Destinations: what has a LID, in the order in which engines route to it: by role, and by position in the tree."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from routing.tables import NO_PATH, RoutingTables, assign_lids, delivery_channels
from topo.fabric import Fabric, Frozen, Role
from topo.graphs import components, turns_in_groups

Ints = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Destinations(Frozen):
    """The D end ports with a LID, grouped by the switch that each hangs on or is; groups stand in tree order."""

    lid: Ints  # (D,) LID
    switch: Ints  # (D,) switch
    port: Ints  # (D,) port number on that switch, 0 for the switch itself
    role: Ints  # (D,) role of the node; that of switches comes last
    indptr: Ints  # (S + 1,) group i is ``indptr[i]`` to ``indptr[i + 1] - 1`` and belongs to switch ``group[i]``
    group: Ints  # (S,) switches in tree order
    index: Ints  # (D,) position in the order of role, then group, then port: the order in which they are rerouted
    count: Ints
    """(D,) hosts before each in the order of group, then role, the group's most common one first, then port.
    Aggregation nodes are counted by themselves, and so are switches."""
    turn: Ints
    """(D,) the same, but of the hosts in groups before, only those of the most common role of the group count. Modulo
    the uplinks of a leaf this spreads the hosts of every role evenly, and those of one leaf over different uplinks."""
    away: Ints
    """(D,) the turn for switches that are in no zone or another one."""

    def leaves(self) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.int64], NDArray[np.bool_]]:
        """Return the hosts, where those of a leaf begin, the leaf of each, and whether it has the common role."""
        hosts = np.flatnonzero(self.role < Role.AGGREGATION)
        first = np.diff(self.switch[hosts], prepend=-1) != 0
        begin, leaf = np.flatnonzero(first), np.cumsum(first) - 1
        return hosts, begin, leaf, self.role[hosts] == self.role[hosts][begin][leaf]


def destinations_of(fabric: Fabric, lids: NDArray[np.uint16], level: NDArray[np.int64]) -> Destinations:
    """Collect the destinations of a fabric with (E,) LIDs, 0 for end ports without, and (S,) levels."""
    n = fabric.n_switches
    group = _tree_order(fabric, level)
    position = np.empty(n, np.int64)
    position[group] = np.arange(n)
    ends = np.flatnonzero((lids != 0) & (fabric.end_switch >= 0))
    switch = fabric.end_switch[ends]
    attached = delivery_channels(fabric, ends)
    port = np.where(attached < 0, 0, fabric.port_number[attached]).astype(np.int64)
    role = np.minimum(fabric.role[fabric.end_node[ends]].astype(np.int64), Role.LEAF)
    # Roles of a group: (S, roles) destinations, and the one that most of its hosts have.
    tally = np.zeros((n, Role.LEAF + 1), np.int64)
    np.add.at(tally, (position[switch], role), 1)
    lead = np.argmax(tally[:, : Role.AGGREGATION], axis=1)
    order = np.lexsort((port, role, role != lead[position[switch]], role >= Role.AGGREGATION, position[switch]))
    ends, switch, port, role = ends[order], switch[order], port[order], role[order]
    index = np.empty(len(ends), np.int32)
    index[np.lexsort((np.arange(len(ends)), role))] = np.arange(len(ends))
    indptr = np.searchsorted(position[switch], np.arange(n + 1))
    before = np.cumsum(tally, axis=0) - tally
    count, turn = np.empty(len(ends), np.int64), np.empty(len(ends), np.int64)
    for kind, begin in (
        (role < Role.AGGREGATION, before[np.arange(n), lead]),
        (role == Role.AGGREGATION, before[:, Role.AGGREGATION]),
        (role == Role.LEAF, before[:, Role.LEAF]),
    ):
        passed = np.cumsum(kind) - kind
        here = position[switch[kind]]
        count[kind] = passed[kind]
        turn[kind] = begin[here] + passed[kind] - passed[indptr[here]]
    found = (lids[ends], switch, port, role, indptr, group, index, count, turn, turn)
    return Destinations(*(array.astype(np.int32) for array in found))


def in_a_row(dests: Destinations, width: int, *, closed: bool) -> Destinations:
    """Return destinations counted such that any in a row, whatever their roles, are spread over uplinks in turn.

    A shift sends from one leaf to hosts in a row. Where a leaf has more hosts than uplinks, those that share one are
    neighbours: flows that meet on it have mostly one sender, and meet only each other when they descend. Which
    neighbours share turns slowly from leaf to leaf, once over all.

    Parameters
    ----------
    dests : Destinations
    width : int
        Uplinks of a leaf.
    closed : bool
        Whether the last host and the first one are in one tree. The turns of all leaves together are a multiple of the
        uplinks then, for which leaves that have uplinks to spare leave some out.
    """
    hosts, begin, leaf, _ = dests.leaves()
    sizes = np.bincount(leaf)
    hosts = hosts[np.lexsort((dests.port[hosts], leaf))]
    used, slip = np.minimum(sizes, width), np.arange(len(sizes)) * width // max(len(sizes), 1)
    spare = np.cumsum(width - used)
    left_out = -used.sum() % width if closed else 0
    turn = np.cumsum(used) + spare * left_out // max(spare[-1:].sum(), 1)
    size, place = sizes[leaf], np.arange(len(hosts)) - begin[leaf]
    count = dests.count.copy()
    count[hosts] = np.append(0, turn)[leaf] + np.where(size > width, (place * width + slip[leaf]) // size, place)
    return replace(dests, count=count, turn=count, away=count)


def turned_in_zones(dests: Destinations, width: int, zone: Ints) -> tuple[Destinations, Destinations]:
    """Return destinations whose turns slip over a zone, and those that do so for other zones alone.

    Turns that go on from leaf to leaf reach the hosts on the same places some leaves apart over the same uplinks: every
    k-th host over few of them, at 20 uplinks every tenth over two. So the first *slip* once around the uplinks over all
    leaves of a zone. Shifts stay as they are where leaves have uplinks to spare.

    Trees and neighbours in a grid send to the leaves on either side of a leaf at once, and hosts a round apart share an
    uplink still. So the second go *back* within their zone: each leaf begins one or two uplinks before the last one
    did, and only hosts nearly two rounds apart share one. Over all leaves of a zone that makes whole rounds, so that
    all uplinks are even, and that shifts meet nothing where the first leaf follows the last.

    Parameters
    ----------
    dests : Destinations
    width : int
        Uplinks of a leaf.
    zone : (S,) int32
        Zone of each switch.
    """
    hosts, begin, leaf, _ = dests.leaves()
    home = zone[dests.switch[hosts[begin]]] + 1  # 0 at joints, which are in no zone
    leaves, number = np.bincount(home)[home], turns_in_groups(home)
    slipped, back = dests.turn.copy(), dests.turn.copy()
    slipped[hosts] += (number * width // leaves)[leaf]
    rounds = np.maximum((3 * leaves + width) // (2 * width), 1)
    back[hosts] = np.arange(len(hosts)) - begin[leaf] + (rounds * width - number * rounds * width // leaves)[leaf]
    first = replace(dests, turn=slipped, away=slipped, count=np.where(dests.count == dests.turn, slipped, dests.count))
    return first, replace(first, turn=back)


def stagger(dests: Destinations, border: NDArray[np.int64], gate: NDArray[np.int64], width: int) -> Destinations:
    """Return destinations with turns such that the uplinks over which no host of a border leaf is reached are spread.

    What leaves a zone passes there. The turns go on from leaf to leaf with a skip, and on border leaves the hosts of
    rarer roles leave one uplink out. Consecutive hosts of the most common role stay on different uplinks, since the
    skip is at most what these leave free. The uplinks of those at one gate are spread modulo its share of the `width`
    of a leaf, too, since it shares out by that digit what it passes on; `border` and `gate` are as in `joined.Zones`.
    """
    hosts, begin, leaf, lead = dests.leaves()
    gate = gate[dests.switch[hosts][begin]]
    border = np.where(np.bincount(leaf) < width, border[dests.switch[hosts][begin]], -1)
    if (border < 0).all():
        return dests
    from scipy.optimize import linear_sum_assignment  # it takes a tenth of a second, and few ask

    thin_of: list[tuple[int, list[NDArray[np.intp]]]] = []  # of each zone: the share of a gate, and the leaves of each
    for zone in np.unique(border[border >= 0]):
        here = np.flatnonzero(border == zone)
        gates = [here[gate[here] == each] for each in np.unique(gate[here])]
        thin_of.append((max(width // len(gates), 1), gates))
    best: tuple[int, int, int] | None = None
    for skip in range(max(width - int(np.bincount(leaf[lead]).max()), 0) + 1):
        tried = dests.turn[hosts] + skip * leaf
        taken = np.zeros((len(begin), width), bool)
        taken[leaf[lead], tried[lead] % width] = True
        skipped, spread = np.full(len(begin), width), 0
        for share, gates in thin_of:
            used = np.zeros(width, np.int64)
            for thin in gates:
                cost = np.full((len(thin), -(-width // share) * share), len(begin) ** 3)
                cost[:, :width] = len(begin) ** 2 * taken[thin] + len(begin) * used
                by_digit = cost.reshape(len(thin), -1, share)
                again = np.repeat(np.arange(-(-len(thin) // share)), share)  # twice costs more than once
                _, digit = linear_sum_assignment(np.tile(by_digit.min(axis=1), len(again) // share) + again)
                gap = by_digit.argmin(axis=1)[np.arange(len(thin)), digit % share] * share + digit % share
                thin, gap = thin[~taken[thin, gap]], gap[~taken[thin, gap]]
                np.add.at(used, gap, 1)
                skipped[thin] = (gap - tried[begin][thin]) % width
                spread += len(np.unique(gap % share))
            spread += int(np.count_nonzero(used))
        uneven = int(np.ptp(np.bincount(tried[lead] % width, minlength=width)))
        if best is None or (max(uneven, 1), -spread, skip) < best:
            best = max(uneven, 1), -spread, skip
            turn = tried + (~lead & (tried - tried[begin][leaf] >= skipped[leaf]))
    turns = dests.turn.copy()
    turns[hosts] = turn
    return replace(dests, turn=turns, away=turns)


def _tree_order(fabric: Fabric, level: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the switches, lower levels first, such that those of one subtree stand together."""
    n = fabric.n_switches
    a, b = fabric.port_node[fabric.inner_links].T
    keys = [np.arange(n)]
    for top in range(2, int(level.max(initial=1))):
        inside = (level[a] <= top) & (level[b] <= top)
        # Components are numbered by their first switch, so the order of the fabric is kept where it is a tree's.
        keys.append(components(n, a[inside], b[inside]).astype(np.int64))
    return np.lexsort((*keys, level))


def finish_tables(dests: Destinations, lft: NDArray[np.uint8], lids: NDArray[np.uint16], engine: str) -> RoutingTables:
    """Fill in what each switch hands over itself, and close the tables."""
    lft[dests.switch, dests.lid] = dests.port
    lft.flags.writeable = False  # or it would be copied once more
    return RoutingTables(lids, lft, engine=engine)


def empty_tables(fabric: Fabric, lid: NDArray[np.uint16] | None) -> tuple[NDArray[np.uint16], NDArray[np.uint8]]:
    """Return the LIDs, assigned where none are given, and tables without a path."""
    lids = assign_lids(fabric) if lid is None else lid
    return lids, np.full((fabric.n_switches, int(lids.max(initial=0)) + 1), NO_PATH, np.uint8)
