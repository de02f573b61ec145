"""The engine `balanced`: any topology, complete, without credit loops on one lane, even for jobs on parts of it.

1. A whole tree gets destination-modulo routing by closed form, whose shifts (along rails) are free of contention.
2. Elsewhere some tables are made that are complete and free of loops. On a damaged tree that is the closed form again;
   where trees are joined, closed forms under the order of `routing.order.joined`, with hosts counted in several ways;
   where there is no tree, or zones are small and none keeps its paths, closed forms under several orders of channels,
   most of them grown for plain shortest paths.
3. The best of them by the score of `routing.search` is searched from: traffic moves as long as that lowers the score.
4. Where a detour of a link or two takes load off the fullest link, it is taken, and the search goes on from there.
5. Of all ends, those count whose fullest link is the least, but for one per cent; of these the best by the score.
6. Small fabrics are searched from what lowers the fullest link most, too, unless tables are for jobs or permutations.
   That end is taken where the fullest link gains more than the score loses, one per cent for one per cent.
7. In these, what was kept is searched after all, and zones whose shortest paths make a tree are searched as other
   zones, too.

Searches take switches and ports in an order that no labels alter but ranks (`routing.order.structure`).

Where the order bars shortest paths and more lanes are allowed, tables of the engine `shortest` are taken instead if
their fullest link is less full.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from routing.engines import dfsssp, minhop, shortest
from routing.engines.fat_tree import closed_form
from routing.engines.start import Begin, Start, closed_in_a_row, start_of, with_forms
from routing.order.channel_order import port_numbers, taken_channels
from routing.order.destinations import empty_tables, finish_tables
from routing.order.legal import ChannelOrder
from routing.order.structure import Turned, in_structure_order
from routing.order.turn_order import Wish, grow_channel_order, two_sided_order
from routing.proof import prove
from routing.quality.figures import congestion, shifts_in
from routing.routed import Routed
from routing.search.move import AMENDED, AS_THEY_ARE
from routing.search.problem import all_pairs_alone, pose, rings_of, servers_and_rails
from routing.search.search import EFFORT, Found, TableSearch
from routing.tables import NO_PATH, RoutingTables
from topo.errors import RoutingError
from topo.fabric import Fabric, frozen

MOST_DETOUR = 2
"""Links that a path may have beyond the shortest: one detour in bipartite wiring, where every detour takes two."""

SHIFTS = 100
"""Shifts, spread evenly, that tell a whole tree."""

GUARD = 0.01
"""What the fullest link of all pairs may lose for the sake of other traffic. Where there is no tree, what it comes to
before any other traffic is looked at is the same under all labels, so this bounds how far labels matter."""

LABELS = 0.03
"""How far labels may move the fullest link of all pairs in small fabrics, by the ranks that they give hosts."""

TRIALS, TRIAL_SIZE, NOISE = 8, 1 << 22, 0.5
"""Orders that are grown with the wishes of plain engines disturbed at random, by a factor of e to the power of this at
one standard deviation, and destinations times channels of all of them together. Which one serves best cannot be told
beforehand: the fullest links differ by a third, up and down. Where there is no time for all of them, there is none to
search from the best order twice, before and after all pairs have moved, and none to search what was kept."""


def route(fabric: Fabric, lid: NDArray[np.uint16] | None = None, *, lanes: int = 1) -> RoutingTables:
    """Forwarding tables of any fabric.

    Parameters
    ----------
    fabric : Fabric
    lid : (E,) uint16, optional
        LIDs of the end ports; `assign_lids` when left out.
    lanes : int
        Data lanes that the tables may need.

    Returns
    -------
    RoutingTables
        Complete for every LID that cables connect, on one lane unless more are allowed and worth it.
    """
    lids, lft = empty_tables(fabric, lid)
    start = start_of(fabric, lids, lft.shape[::-1])
    if not len(start.order.sender):
        return finish_tables(start.dests, lft, lids, "balanced")
    tables = _perfect(start)
    if tables is None:
        ends, kept = [], False
        if start.tree or start.may_keep:
            ranked = _turned(start, ranked=True)
            kept = any(form.kept is not None for form in ranked[1].forms)
            ends = [_searched(start, *ranked, lft)] if start.tree or kept else []
        if not ends or (start.zones is not None and not kept and _few(start)):
            turned, other = _turned(start, ranked=False)
            ends.append(_searched(start, turned, other._replace(tree=False), lft))
        tables = _finish(start, ends[_best(ends)].next_hop)
    return _on_lanes(fabric, tables, lanes) if lanes > 1 else tables


def _turned(start: Start, *, ranked: bool) -> tuple[Turned, Start]:
    """Return a fabric with its switches in an order that no labels alter but ranks, and what searches of it start from.

    Closed forms need the order of ranks.
    """
    turned = in_structure_order(start.fabric, start.ranks, ranked=ranked)
    lids = np.concatenate([start.lids[turned.switch], start.lids[start.fabric.n_switches :]])
    return turned, with_forms(start_of(turned.fabric, lids, start.closed.shape))._replace(ranks=start.ranks)


def _searched(start: Start, turned: Turned, other: Start, lft: NDArray[np.uint8]) -> Found:
    """Return what the search of a turned fabric ends with, as tables of the fabric itself."""
    found = _search(other)
    lft[turned.switch] = port_numbers(turned.channels(other.order), found.next_hop)
    return found._replace(next_hop=taken_channels(start.order, lft))


def _few(start: Start) -> bool:
    """Whether there is time to search several times."""
    return TRIALS * start.size <= TRIAL_SIZE


def _finish(start: Start, next_hop: NDArray[np.uint8]) -> RoutingTables:
    return finish_tables(start.dests, port_numbers(start.order, next_hop), start.lids, "balanced")


def _perfect(start: Start) -> RoutingTables | None:
    """Return the closed form by which no shift among hosts of a role has flows that meet; None without a whole tree."""
    if not start.tree or start.order.rate_gbps.min() < start.order.rate_gbps.max():
        return None
    role, found = start.fabric.role[start.fabric.end_node[start.ranks]], []
    _, rail = servers_and_rails(start.fabric, start.ranks)
    for next_hop in (start.closed, closed_in_a_row(start)):
        if next_hop is None:
            continue
        routed = Routed(start.fabric, _finish(start, next_hop))
        # The first shift alone tells most damaged trees.
        played = (
            congestion(routed, frozen(start.ranks[role == each]), some)
            for each in np.unique(role)
            for some in np.split(shifts_in(rings_of(rail[role == each]), SHIFTS), [1])
        )
        if all(most.max(initial=0) <= 1 for most, _, _ in played):
            found.append(routed)
    if len(found) < 2:
        return found[0].tables if found else None
    return min(found, key=lambda routed: prove(routed).load[start.fabric.inner].max()).tables


def _search(start: Start) -> Found:
    """Return the tables that a search from the best start ends with, or from two: of least score, and with `GUARD`."""
    order = start.order
    search = TableSearch(pose(start.fabric, start.lids, order, start.dests, start.ranks), order)
    pairs = TableSearch(all_pairs_alone(search.problem), order)
    apart = int((search.problem.hops[search.problem.samples.switch] < 0).sum())
    forms = starts = list(_closed(start))
    if not start.tree or len(forms) > 1:  # that of a tree misses no pairs
        worth = [(search.weigh(*form[:2]), form) for form in forms]
        worth = sorted((one for one in worth if one[0].missing == apart), key=lambda one: one[0].score)
        forms = [worth[n][1] for n in sorted({0, _best([found for found, _ in worth])})] if worth else []
    turns, detour = (AS_THEY_ARE if start.tree else AMENDED), 0 if forms else MOST_DETOUR
    begins, few = [*forms], _few(start)
    if not forms or (few and not start.tree and all(begin.kept is None for begin in begins)):
        # Which order serves best shows once all pairs have moved.
        once = partial(pairs.improve, turns=AS_THEY_ARE, detour=MOST_DETOUR, effort=start.size)
        tried = [(once(*begin[:2]), begin) for begin in _open(start, pairs)]
        moved, begin = min(tried, key=lambda one: (one[0].missing, one[0].score))
        begins += [Begin(moved.order, moved.next_hop), *([begin] if few else [])]
        starts = [*starts, *(Begin(moved.order, moved.next_hop) for moved, _ in tried)]
    ends: list[tuple[Found, Begin]] = []
    # Where there is time for one start, and no closed form, all traffic moves once before the fullest link is lowered.
    sweeps = EFFORT if few or forms else min(start.size, EFFORT)
    for begin in begins:
        level = partial(pairs.improve, kept=begin.kept, high=1.0)
        end = search.improve(*begin[:2], turns=turns, detour=detour, kept=begin.kept, effort=sweeps)
        pairs.begin_with(search)
        # In a large tree, to try the turns of detours takes long, and few of them can be allowed. Between zones leaves
        # have few cables to joints, some more than others, which only detours even out.
        lower = (
            end
            if few or not start.tree
            else level(end.order, end.next_hop, turns=turns, effort=min(start.size, EFFORT))
        )
        if start.zones is not None or lower.fullest > end.fullest * (1 - GUARD):
            lower = level(lower.order, lower.next_hop, detour=MOST_DETOUR)
        ends.append((end, begin))
        if lower.fullest < end.fullest or sweeps < EFFORT:
            again = search.improve(lower.order, lower.next_hop, turns=turns, detour=detour, kept=begin.kept)
            ends.append((again, begin))
    best, begin = ends[_best([end for end, _ in ends])]
    for_pairs = start.fabric.purpose in ("any", "all-pairs")
    if few and for_pairs and (low := _lowered(pairs, starts, apart, best.fullest * (1 - LABELS))) is not None:
        again = search.improve(*low[:2], turns=turns, detour=detour, kept=low.kept)
        if again.score - best.score < np.log(best.fullest / again.fullest):
            best, begin = again, low
    return search.improve(best.order, best.next_hop, turns=turns) if few and begin.kept is not None else best


def _lowered(pairs: TableSearch, starts: Sequence[Begin], missing: int, most: float) -> Begin | None:
    """Return what lowers the fullest link of all pairs most from some tables; None where it is not below `most`.

    Jobs number hosts by rank, so that under other ranks their traffic leads searches to other ends. None of it is
    looked at here.
    """
    level = partial(pairs.improve, high=1.0, detour=MOST_DETOUR)
    found = [(level(*start[:2], kept=start.kept), start.kept) for start in starts]
    found = [(low, kept) for low, kept in found if low.missing == missing and low.fullest < most]
    if not found:
        return None
    low, kept = found[_best([low for low, _ in found])]
    return Begin(low.order, low.next_hop, kept)


def _best(tables: Sequence[Found]) -> int:
    """Return the number of those with the least score, of those whose fullest link is the least but for `GUARD`."""
    most = min(one.fullest for one in tables) * (1 + GUARD)
    return min((n for n, one in enumerate(tables) if one.fullest <= most), key=lambda n: tables[n].score)


def _closed(start: Start) -> Iterator[Begin]:
    """Yield closed forms: of a tree, and of zones that are joined, where they may miss pairs."""
    if start.tree:
        yield Begin(start.order, start.closed)
        if (row := closed_in_a_row(start)) is not None:
            yield Begin(start.order, row)
    yield from start.forms


def _open(start: Start, pairs: TableSearch) -> Iterator[Begin]:
    """Yield closed forms under orders that fit any wiring."""
    for order in _orders(start, pairs):
        next_hop = np.full(start.closed.shape, NO_PATH, np.uint8)
        closed_form(order, start.dests, start.climbs, start.own, next_hop)
        yield Begin(order, next_hop)


def _orders(start: Start, pairs: TableSearch) -> Iterator[ChannelOrder]:
    """Yield the orders of channels that are worth a try where there is no tree."""
    order = start.order
    yield order
    if (sides := two_sided_order(order)) is not None:
        yield sides
    plain = (dfsssp.route(start.fabric, start.lids, lanes=1), minhop.route(start.fabric, start.lids))
    wishes = [Wish(*pairs.taken_turns(taken_channels(order, tables.lft))) for tables in plain]
    rng = np.random.default_rng(0)
    for trial in range(2 + min(TRIALS, TRIAL_SIZE // start.size)):
        wish = wishes[trial % 2]
        if trial > 1:
            wish = wish._replace(flows=wish.flows * np.exp(NOISE * rng.standard_normal(len(wish.flows))))
        yield grow_channel_order(order, start.hosts, wish)


def _on_lanes(fabric: Fabric, tables: RoutingTables, lanes: int) -> RoutingTables:
    """Return tables on several lanes where these make detours and a fuller link than those; else these."""
    proof, inner = prove(Routed(fabric, tables)), fabric.inner
    if proof.stretch == 0:
        return tables
    try:
        others = shortest.route(fabric, tables.lid, lanes=lanes)
    except RoutingError:  # more lanes would be needed
        return tables
    less = prove(Routed(fabric, others)).load[inner].max() < proof.load[inner].max()
    return replace(others, engine=tables.engine) if less else tables
