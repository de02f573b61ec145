"""The engine `balanced`: any topology, complete, without credit loops on one lane, and evenly loaded.

1. Only legal paths of an order of channels are used (`routing.order.channel_order`), so nothing can deadlock whatever
   is chosen among them, and every pair that cables connect has a path. Zones that are joined have an order of their own
   (`routing.order.joined`). Elsewhere, where the fabric is no tree, several orders are grown
   (`routing.order.turn_order`), and the one with the best tables is kept.
2. The choice starts from the closed form of the engine `fat-tree`: where the fabric is a whole tree, nothing is better.
3. Destinations are taken up one by one, by role and in order of the tree, and put down where their flows meet the
   fewest others (`routing.kernels.reroute`). Slow links count by their rate, so a slow subtree keeps its routes without
   slowing down anything else.
4. The load of the fullest channels is reduced (`routing.kernels.relieve`), over detours if need be and worth it.
5. Flows that meet in shifts are parted where that makes no channel fuller (`routing.kernels.shifts`).

Where the order bars shortest paths and more lanes are allowed, those of the engine `shortest` are taken instead if
their fullest link is less full by 2 %.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from routing.demand import even_out
from routing.engines import dfsssp, shortest
from routing.engines.fat_tree import NOWHERE, climb_limit, closed_form
from routing.engines.judge import FIGURES, judge, mark
from routing.kernels.legal import ChannelOrder, are_shortest_legal
from routing.kernels.relieve import Limits, relieve_peaks
from routing.kernels.reroute import reroute
from routing.kernels.shifts import part_shifts
from routing.kernels.traffic import Dests, Net, empty_tree, sum_loads
from routing.kernels.turns import fixed_turns
from routing.order.channel_order import order_channels, port_numbers, switch_levels, taken_channels
from routing.order.destinations import (
    Destinations,
    destinations_of,
    empty_tables,
    finish_tables,
    in_a_row,
    stagger,
)
from routing.order.joined import order_joined_zones, zones_of
from routing.order.structure import structure_order, with_switches_in
from routing.order.turn_order import adjacency_orders, grow_channel_order, two_sided_order, wished_turns
from routing.proof import prove
from routing.routed import Candidate, Routed
from routing.tables import NO_PATH, RoutingTables, tree_order
from topo.components import components
from topo.errors import RoutingError
from topo.fabric import Fabric, Kind, Role, frozen

HOST, AGGREGATION, SWITCH = 256.0, 64.0, 1.0
"""Weight of a host's port, of a SHARP aggregation node and of a switch itself, as source and as destination: what
hosts send to each other decides, and whole numbers add up exactly. Hosts with slower links than others weigh less."""

ROUNDS, ROUND_EFFORT, MOST_EFFORT = 2, 400_000_000, 8_000_000_000
"""How often each destination is placed anew: the first round brings most of the gain, the second a little; more wear
off what the closed form did for shifts. Where there is no tree it did little, and there are twice as many rounds.
Destinations times channels bound the time: beyond the first bound (2 s) there is one round, beyond the second
(half a minute) every second destination is left where it is."""

RELIEF_EFFORT = 400_000_000
"""What bounds the time for peaks: trees that are looked at, times channels."""

TRIALS, TRIAL_SIZE, TRIAL_EFFORT = 16, 4_000_000, 1_000_000_000
"""Grown orders that are tried, and what bounds them: destinations times channels, of all of them together (2 s), and
channels squared times ports of a switch, for each (10 s)."""

NOISE = 0.3
"""Standard deviation of the logarithm by which the flows that wish for a turn are altered, for all but two orders."""

JOINED_SIZE = 2_000_000
"""Destinations times channels up to which other orders are tried where the closed form is not perfect within zones."""

DETOUR, WORTH, WORTH_ON_TREE = 2, 0.98, 0.95
"""Switches that a path may pass beyond the shortest one; and what share of the peak must be left for that or for more
lanes to be worth it, or on a tree for any move, since shifts meet least with the closed form. Labels tip what is just
worth it."""

ROLE_WEIGHT = 0.3
"""Where hosts have several roles, what flows to the same role count more: storage spreads over all spines before it
evens out what compute left uneven."""

SHIFT_WEIGHTS = (0.1, 0.3)
"""Share of shift permutations in the traffic that is planned for; the rest is random permutations. What the second
comes to is tried, too, and what comes of the closed form if nothing is rerouted: the best of all is kept."""

LESS = 0.98
"""How full the fullest link of tables without a tree may be beside that of those along one, to be taken for it."""

PERFECT_SIZE = 20_000_000
"""Destinations times channels from which on (half a second) a closed form whose shifts are free of contention will do,
and links that lead to one host each are not evened out any more."""

SHARES, SHIFT_ROUNDS, SHIFT_EFFORT = (0.0, 1.0, 0.25), 12, 600_000_000
"""Share of shifts in the traffic for which flows of shifts are parted and relieved, one time after the other (at first
those of the worst shifts alone); how often each is looked at, at most, and what bounds it: ranks squared times channels
of a switch (1 s)."""

EARLY_ROUNDS = 4
"""How often before candidates are compared, at most: more would cost the fullest link."""

BEFORE_PARTING = tuple(
    figure for figure in FIGURES if figure.field not in ("mean_shift", "role_mean_shift", "worst_shift")
)
"""Figures that count while flows of shifts are still to be parted."""

ON_TREE = tuple(
    figure._replace(weight=figure.weight / 4) if figure.field in ("mean_shift", "role_mean_shift") else figure
    for figure in FIGURES
)
"""Figures that count in the end on a tree. There the fullest link of a shift is lowered at the cost of many others: on
a real one (Lassen) by a fifth, for which an all-to-all of 256 hosts took a tenth longer."""

FINALISTS = 3
"""Candidates whose flows of shifts are parted, where there is time to look at each flow twice: what is best before is
not best after it."""

SPARE_LOAD, SPARE_ROLE, SPARE_BANDWIDTH, SPARE_WITHOUT_TREE = 0.01, 0.2, 0.025, 0.15
"""Parts of the fullest link's load, of the load by role and of the effective bisection that better shifts may cost; of
the last, more where there is no tree: some orders there come with good shifts, others with good bisections."""

SPARE_WHERE_KEPT = 0.0005
"""The first of these where zones are kept: the fullest link joins zones there, and its load is that of its bound."""

BARRED = 0.25
"""Share of the destinations of tables over plain shortest paths that an order may bar for them to be begun with."""


class Work(NamedTuple):
    """What all candidates are made from."""

    net: Net
    dests: Dests
    reliefs: list[tuple[Net, Dests, NDArray[np.bool_], int, float]]
    """Whose flows are taken off peaks, one after the other: channels, destinations, channels that are relieved, detour,
    and the share of the peak that must be left."""
    stride: int
    effort: int


class Form(NamedTuple):
    """A closed form for zones that are joined, under an order of its own."""

    order: ChannelOrder
    kept: NDArray[np.int32]
    """(S,) zones, where no flows of shifts meet within one then; else -1."""
    next_hop: NDArray[np.uint8]
    """(T, S) what it takes."""


class Start(NamedTuple):
    """What all candidates begin with."""

    fabric: Fabric
    lids: NDArray[np.uint16]
    """(E,) those of its end ports."""
    order: ChannelOrder
    dests: Destinations
    level: NDArray[np.int64]
    own: NDArray[np.int32]
    """(C,) index of each channel among its sender's."""
    hosts: NDArray[np.int64]
    """(S,) host ports."""
    ranks: NDArray[np.int32]
    """(n,) adapters' ports that have LIDs, along the tree."""
    climbs: NDArray[np.int64]
    """(S,) levels for the closed form."""
    tree: bool
    """Whether the closed form connects all over shortest paths."""
    closed: NDArray[np.uint8]
    """(T, S) what it takes there."""
    forms: tuple[Form, ...] = ()
    """Closed forms for zones that are joined."""


class Tried(NamedTuple):
    """What an order of channels allows; the less, the better."""

    lost: int
    """Entries that lack a path."""
    quality: float
    """How full channels are."""
    number: int
    kind: str
    order: ChannelOrder
    kept: NDArray[np.int32]
    """(S,) zones that keep what is taken within each."""
    begin: NDArray[np.uint8]
    """(T, S) the closed form."""
    next_hop: NDArray[np.uint8]
    """(T, S) what it comes to."""


class Made(NamedTuple):
    """A candidate."""

    order: ChannelOrder
    kept: NDArray[np.int32]
    """(S,) zones that keep what is taken within each."""
    next_hop: NDArray[np.uint8]
    """(T, S) by LID and switch: which of its channels a switch takes."""
    tables: RoutingTables
    row: Candidate | None = None
    """What they are worth, once that was asked."""


def route(
    fabric: Fabric,
    lid: NDArray[np.uint16] | None = None,
    *,
    rng: np.random.Generator | None = None,
    lanes: int = 1,
) -> RoutingTables:
    """Forwarding tables of any fabric.

    Parameters
    ----------
    fabric : Fabric
    lid : (E,) uint16, optional
        LIDs of the end ports; `assign_lids` when left out.
    rng : numpy.random.Generator, optional
        For the order in which turns are tried where the fabric is no tree; of seed 0 when left out.
    lanes : int
        Data lanes that the tables may need.

    Returns
    -------
    RoutingTables
        Complete for every LID that cables connect, on one lane unless more are allowed and worth it.
    """
    lids, lft = empty_tables(fabric, lid)
    shape, rng = lft.shape[::-1], rng or np.random.default_rng(0)
    start = _start(fabric, lids, shape)
    if not len(start.order.sender):
        return finish_tables(start.dests, lft, lids, "balanced")
    if not start.tree and not any(_keeps(form.kept) for form in start.forms):
        # No closed form is kept, so the order of the fabric is worth nothing: one that labels do not alter will do.
        tables = _in_order_of_wiring(fabric, lids, shape, rng)
    else:
        tables = _best(fabric, start, rng)
        leaves = frozen(np.flatnonzero(start.hosts).astype(np.int32))
        affordable = len(start.dests.lid) * len(start.order.sender) <= ROUND_EFFORT  # what follows takes as long again
        if start.tree and affordable and not are_shortest_legal(start.order, leaves):
            # Some paths go down and up again, as where a leaf with hosts leads on to another zone: no tree uses them.
            enough = LESS * judge(fabric, tables).shared_load
            if judge(fabric, dfsssp.route(fabric, lids, lanes=1)).shared_load < enough:
                others = _in_order_of_wiring(fabric, lids, shape, rng)
                tables = others if judge(fabric, others).shared_load < enough else tables
    return _on_lanes(fabric, tables, lanes) if lanes > 1 else tables


def _in_order_of_wiring(
    fabric: Fabric, lids: NDArray[np.uint16], shape: tuple[int, ...], rng: np.random.Generator
) -> RoutingTables:
    """Return the best tables that do without a tree, whatever the labels are."""
    turned = structure_order(fabric)
    renumbered = np.concatenate([lids[turned], lids[fabric.n_switches :]])
    start = _start(with_switches_in(fabric, turned), renumbered, shape)
    tables = _best(fabric, start._replace(tree=False, forms=start.forms[:1]), rng)
    return replace(tables, lid=lids, lft=frozen(tables.lft[np.argsort(turned)]))


def _best(fabric: Fabric, start: Start, rng: np.random.Generator) -> RoutingTables:
    """Return the tables that are best on the whole, in the order of the fabric that they start with."""
    free = _nothing_kept(start.hosts)
    one_rate = start.order.rate_gbps.min() == start.order.rate_gbps.max()  # slow cables are not what it knows
    whole = start.tree and one_rate and not start.forms
    made = [_judged(start, _finish(start, start.order, free, start.closed))] if whole else []
    perfect = bool(made and made[0].row and made[0].row.worst_shift <= 1)
    row = _in_a_row(start) if start.tree and not perfect else None
    if made and row is not None:
        made.append(_finish(start, start.order, free, row))
    large = len(start.dests.lid) * len(start.order.sender) > PERFECT_SIZE
    if large and made and not _count(fabric, Kind.AGGREGATION).any():
        best = _judged(start, _ranked(start, made)[0])
        if best.row and best.row.worst_shift <= 1:  # what matters is done
            return best.tables
    work, placed, plain = _place(start, row, rng)
    finalists = max(min(FINALISTS, _shift_rounds(start) // 2), 1)
    rounds = min(SHIFT_ROUNDS, _shift_rounds(start) // finalists)
    ranks = None if start.fabric is fabric else tree_order(fabric, start.ranks)
    chosen = _ranked(start, [*placed, *made], parted_later=rounds > 0)[:finalists]
    if plain and finalists > 1:
        chosen = [*chosen[: finalists - 1], plain]
    with ThreadPoolExecutor(2) as pool:
        found = list(chain.from_iterable(pool.map(partial(_parted, start, work, ranks, rounds), chosen)))
    return _ranked(start, found, ranks)[0].tables


def _finish(start: Start, order: ChannelOrder, kept: NDArray[np.int32], next_hop: NDArray[np.uint8]) -> Made:
    """Return a candidate with its tables."""
    tables = finish_tables(start.dests, port_numbers(order, next_hop), start.lids, "balanced")
    return Made(order, kept, next_hop, tables)


def _parted(start: Start, work: Work, ranks: NDArray[np.int32] | None, rounds: int, first: Made) -> list[Made]:
    """Return a candidate and what comes of it, step by step, when flows of its shifts are parted and relieved.

    They are parted in the order of the wiring first, then in that of ``ranks``, where there is another.
    """
    found, net = [first], work.net._replace(order=first.order, kept=first.kept)
    steps = [(None, rounds)] if ranks is None else [(None, rounds // 2), (ranks, rounds - rounds // 2)]
    for one, times in steps:
        if one is not None:
            found = [made._replace(row=None) for made in found]  # judged in another order of ranks
        for share in SHARES:
            found = [_judged(start, made, one) for made in found]
            best = _ranked(start, found, one)[0]
            apart = _part(start, net, work.dests, one, times, share, best.next_hop)
            if np.array_equal(apart, best.next_hop):
                continue
            found.append(_finish(start, first.order, first.kept, apart))
            relieved = apart.copy()
            _relieve(work, first.order, first.kept, relieved)
            if not np.array_equal(apart, relieved):
                found.append(_finish(start, first.order, first.kept, relieved))
    return [_judged(start, made, ranks) for made in found]


def _shift_rounds(start: Start) -> int:
    """Return how often there is time to look at each flow of all shifts."""
    channels_each = -(-len(start.order.sender) // start.fabric.n_switches)
    return round(SHIFT_EFFORT / max(len(start.ranks) ** 2 * channels_each, 1))


def _part(
    start: Start,
    net: Net,
    dests: Dests,
    ranks: NDArray[np.int32] | None,
    rounds: int,
    share: float,
    next_hop: NDArray[np.uint8],
) -> NDArray[np.uint8]:
    """Return channels taken on which fewer flows of shifts meet."""
    if rounds == 0 or not len(start.ranks):
        return next_hop
    ranks = start.ranks if ranks is None else ranks
    rank = np.full(len(next_hop), -1, np.int32)
    rank[start.lids[ranks]] = np.arange(len(ranks))
    home, n = start.fabric.end_switch[ranks], start.fabric.n_switches
    begin = np.zeros((2, n), np.int32)
    begin[0, home[::-1]] = np.arange(len(ranks))[::-1]  # those of one switch stand together
    begin[1] = begin[0] + np.bincount(home, minlength=n)
    next_hop = next_hop.copy()
    part_shifts(net, dests, frozen(rank[dests.lid]), frozen(begin), rounds if share else 0, share, next_hop)
    return next_hop


def _judged(start: Start, made: Made, ranks: NDArray[np.int32] | None = None) -> Made:
    """Return a candidate with what its tables are worth."""
    return made if made.row else made._replace(row=judge(start.fabric, made.tables, ranks=ranks))


def _ranked(
    start: Start, made: Sequence[Made], ranks: NDArray[np.int32] | None = None, *, parted_later: bool = False
) -> list[Made]:
    """Return tables that load and share links about as well as the first, the best on the whole first.

    The fullest links of shifts do not count where flows of shifts are parted later.
    """
    distinct: list[Made] = []
    for one in made:
        same = [place for place, other in enumerate(distinct) if np.array_equal(one.next_hop, other.next_hop)]
        if not same:
            distinct.append(one)
        elif one.row:  # tables that were judged stand for all that are the same
            distinct[same[0]] = one
    if len(distinct) == 1:
        return distinct
    judged = [_judged(start, one, ranks) for one in distinct]
    rows = [one.row for one in judged if one.row]
    spare = SPARE_BANDWIDTH if start.tree else SPARE_WITHOUT_TREE
    spare_load = SPARE_WHERE_KEPT if any(_keeps(one.kept) for one in distinct) else SPARE_LOAD
    fullest, least = (1 + spare_load) * rows[0].shared_load, (1 - spare) * rows[0].ebb
    fit = [
        place
        for place, row in enumerate(rows)
        if row.shared_load <= fullest
        and row.role_load <= (1 + SPARE_ROLE) * rows[0].role_load
        and row.ebb * rows[0].shared_load >= least * row.shared_load
    ]
    rivals = [rows[place] for place in fit]
    figures = BEFORE_PARTING if parted_later else ON_TREE if start.tree else FIGURES
    return [judged[place] for place in sorted(fit, key=lambda place: -round(mark(rows[place], rivals, figures), 3))]


def _on_lanes(fabric: Fabric, tables: RoutingTables, lanes: int) -> RoutingTables:
    """Return tables on several lanes where these make detours and a fuller link than those; else these."""
    proof, inner = prove(Routed(fabric, tables)), fabric.inner
    if proof.stretch == 0:
        return tables
    try:
        others = shortest.route(fabric, tables.lid, lanes=lanes)
    except RoutingError:  # more lanes would be needed
        return tables
    if prove(Routed(fabric, others)).load[inner].max() > WORTH * proof.load[inner].max():
        return tables
    return replace(others, engine=tables.engine)


def _start(fabric: Fabric, lids: NDArray[np.uint16], shape: tuple[int, ...]) -> Start:
    """Return what all candidates begin with; the closed form is (T, S)."""
    level, n = switch_levels(fabric), fabric.n_switches
    dests, order = destinations_of(fabric, lids, level), order_channels(fabric, level)
    own = frozen((np.arange(len(order.sender)) - order.indptr[order.sender]).astype(np.int32))
    hosts, empty = _count(fabric, Kind.HCA), np.full(shape, NO_PATH, np.uint8)
    ranks = tree_order(fabric, fabric.ends()[lids[fabric.ends()] > 0])
    tree, closed = False, empty.copy()
    if (np.abs(level[order.sender] - level[order.receiver]) == 1).all():
        tree = closed_form(order, dests, level, own, closed, climb_limit(fabric, level)) == NOWHERE
    # What crosses from zone to zone is no choice of a climb within one.
    climbs, zones = np.where(fabric.role[:n] == Role.JOINT, 0, level), zones_of(fabric, order, level)
    if zones is None:
        return Start(fabric, lids, order, dests, level, own, hosts, ranks, climbs, tree, closed)
    staggered = partial(stagger, border=zones.border, gate=zones.gate, width=zones.width)
    width = _uplinks_of_leaves(order, level, hosts, zones.zone[order.sender] == zones.zone[order.receiver])
    straight, around = (in_a_row(dests, width, zones.zone, around=turn) for turn in (False, True))
    ways = [(staggered(dests),), (staggered(straight), straight)]
    if not np.array_equal(straight.turn, around.turn):
        ways.append((staggered(around), around))

    def form(each: Destinations) -> Form:
        plain, next_hop = empty.copy(), empty.copy()
        closed_form(order, each, climbs, own, plain)
        joined = order_joined_zones(order, level, hosts, zones, _descents(order, each, plain))
        closed_form(joined, each, climbs, own, next_hop, turns=zones.turns)
        alone = _alone(joined, each, zones.zone, next_hop)
        return Form(joined, zones.zone if alone else _nothing_kept(hosts), next_hop)

    # What else hosts in a row are worth, other orders give as well.
    first, *others = (map(form, way) for way in ways)
    in_turn = [next(filter(lambda one: _keeps(one.kept), way), None) for way in others]
    forms = (next(first), *filter(None, in_turn))
    return Start(fabric, lids, order, ways[0][0], level, own, hosts, ranks, climbs, tree, closed, forms)


def _place(
    start: Start, row: NDArray[np.uint8] | None, rng: np.random.Generator
) -> tuple[Work, list[Made], Made | None]:
    """Return what candidates are made from, those of one order, and one that begins with plain shortest paths.

    One more of the former begins with ``row``, where there is that. The latter is there where few paths are barred.
    """
    fabric, order, dests, tree = start.fabric, start.order, start.dests, start.tree
    size = len(dests.lid) * len(order.sender)
    work = _work(fabric, order, dests, start.hosts, _count(fabric, Kind.AGGREGATION), tree)
    rounds = min(ROUNDS if tree else 2 * ROUNDS, max(1, ROUND_EFFORT // size))
    # Where there are levels, the closed form has done for shifts what can be done as cheaply.
    flat = start.level.min() == start.level.max()
    parts = min(EARLY_ROUNDS // 2, _shift_rounds(start) // TRIALS) if flat else 0
    free, cut = work.net.kept, _cut_off(order, dests)
    plain = [] if tree or size > TRIAL_SIZE else _plain(start)
    results: list[Tried] = []

    def tried(kind: str, one: ChannelOrder, kept: NDArray[np.int32], begin: NDArray[np.uint8]) -> Tried:
        quality, next_hop = _improve(start, work, one, kept, begin, (rounds, parts), SHIFT_WEIGHTS[0])
        lost = int(np.count_nonzero(next_hop[dests.lid] == NO_PATH)) - cut
        return Tried(lost, quality, len(results), kind, one, kept, begin, next_hop)

    for kind, form in zip(("foreseen", "in a row", "around"), start.forms, strict=False):
        results.append(tried(kind, form.order, form.kept, form.next_hop))
    enough = not tree and any(one.lost == 0 and (_keeps(one.kept) or size > JOINED_SIZE) for one in results)
    for kind, one in () if enough else _orders(start, work, plain, rng):
        begin = start.closed
        if not tree:
            begin = np.full(start.closed.shape, NO_PATH, np.uint8)
            closed_form(one, dests, start.climbs, start.own, begin)
        results.append(tried(kind, one, free, begin))
    order, kept, begin, made = _first(start, work, plain, results)
    next_hop = made[0]
    if size <= ROUND_EFFORT and not np.array_equal(next_hop, begin):
        for times, share in ((0, SHIFT_WEIGHTS[0]), (rounds, SHIFT_WEIGHTS[1])):
            made.append(_improve(start, work, order, kept, begin, (times, parts), share)[1])
    if row is not None and order is start.order and size <= ROUND_EFFORT:
        parts = min(EARLY_ROUNDS, _shift_rounds(start))
        made += [_improve(start, work, order, kept, row, (0, times), SHIFT_WEIGHTS[0])[1] for times in {0, parts}]
    least = min(results).lost
    grown = next((one for one in results if one.kind == "grown" and one.lost == least), None)  # for what is wished
    begun = _begun_with(start, work, plain[0], grown) if grown else None
    return work, [_finish(start, order, kept, one) for one in made], begun


def _begun_with(start: Start, work: Work, plain: RoutingTables, grown: Tried) -> Made | None:
    """Return a candidate that begins with plain tables under an order grown for them; None where it bars too many.

    What is barred begins with the closed form, and then all destinations are rerouted once.
    """
    begin = taken_channels(grown.order, plain.lft)
    barred = _barred(grown.order, start.dests, begin)
    if barred.mean() > BARRED:
        return None
    lids = start.dests.lid[barred]
    begin[lids] = grown.begin[lids]
    _, next_hop = _improve(start, work, grown.order, grown.kept, begin, (int(barred.any()), 0), SHIFT_WEIGHTS[0])
    return _finish(start, grown.order, grown.kept, next_hop)


def _barred(order: ChannelOrder, dests: Destinations, next_hop: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Return (D,) the destinations to which some path takes a turn that an order bars."""
    taken = next_hop[dests.lid].astype(np.int64)
    channel = (order.indptr[:-1] + np.where(taken == NO_PATH, 0, taken)).clip(max=len(order.sender) - 1)
    then = np.take_along_axis(channel, order.receiver[channel].astype(np.int64), axis=1)
    goes_on = (taken != NO_PATH) & (order.receiver[channel] != dests.switch[:, None])
    barred: NDArray[np.bool_] = (goes_on & (order.rank[channel] >= order.rank[then])).any(axis=1)
    return barred


def _plain(start: Start) -> list[RoutingTables]:
    """Return tables over shortest paths, whatever loops they have: they say what is wished, and what is short of it."""
    once = dfsssp.route(start.fabric, start.lids, lanes=1)
    return [once, even_out(Routed(start.fabric, once), once.engine)]


def _in_a_row(start: Start) -> NDArray[np.uint8] | None:
    """Return the closed form by which hosts in a row, whatever their roles, take the uplinks of a leaf in turn.

    None where that is what the other closed form does.
    """
    order, level, dests = start.order, start.level, start.dests
    row = in_a_row(dests, _uplinks_of_leaves(order, level, start.hosts))
    if np.array_equal(row.count, dests.count) and np.array_equal(row.turn, dests.turn):
        return None
    next_hop = np.full(start.closed.shape, NO_PATH, np.uint8)
    closed_form(order, row, level, start.own, next_hop)
    return next_hop


def _uplinks_of_leaves(
    order: ChannelOrder, level: NDArray[np.int64], hosts: NDArray[np.int64], where: NDArray[np.bool_] | bool = True
) -> int:
    """Return how many channels lead up from the leaf of most hosts, of those that count."""
    up = (level[order.receiver] > level[order.sender]) & where
    return max(int(np.bincount(np.bincount(order.sender[up], minlength=len(level)), hosts).argmax()), 1)


def _first(
    start: Start, work: Work, plain: Sequence[RoutingTables], results: Sequence[Tried]
) -> tuple[ChannelOrder, NDArray[np.int32], NDArray[np.uint8], list[NDArray[np.uint8]]]:
    """Return the order that is best, what is kept and the closed form under it, and (T, S) what was made.

    The least full one of each kind is parted and judged: first by how far it falls short of plain shortest paths, as
    they are, since evened out they have the least fullest link and loops, and would outweigh all else.
    """
    complete = [one for one in sorted(results) if one.lost == min(results).lost]
    kinds = {one.kind: one for one in reversed(complete)}
    if len(kinds) == 1:
        best = complete[0]
        return best.order, best.kept, best.begin, [best.next_hop]
    yard = [judge(start.fabric, tables, switches=False) for tables in plain[:1]]
    rounds = min(EARLY_ROUNDS // 2, _shift_rounds(start))
    found: list[tuple[Tried, Candidate, NDArray[np.uint8]]] = []
    keeping = any(_keeps(one.kept) for one in kinds.values())
    for one in kinds.values():
        parted = _part(
            start, work.net._replace(order=one.order, kept=one.kept), work.dests, None, rounds, SHARES[-1], one.next_hop
        )
        parted = parted.copy()
        _relieve(work, one.order, one.kept, parted)
        versions = [parted]
        if keeping:  # what zones keep is best rerouted as little as can be
            _, hardly = _improve(start, work, one.order, one.kept, one.begin, (0, 0), SHIFT_WEIGHTS[0])
            versions += [one.next_hop, hardly]
        for next_hop in versions:
            tables = _finish(start, one.order, one.kept, next_hop).tables
            found.append((one, judge(start.fabric, tables, switches=False), parted))
    # What the fullest links of shifts will be, labels say in the end, unless zones are kept as they are.
    figures = FIGURES if keeping else BEFORE_PARTING
    if keeping:
        least = min((row.missing, row.shared_load) for _, row, _ in found)
        most = least[0], (1 + SPARE_WHERE_KEPT) * least[1]
        found = [item for item in found if (item[1].missing, item[1].shared_load) <= most]
    rows = [row for _, row, _ in found]
    best, _, parted = max(
        found,
        key=lambda item: (round(mark(item[1], [item[1], *yard], figures), 2), mark(item[1], rows, figures)),
    )
    return best.order, best.kept, best.begin, [best.next_hop, parted]


def _cut_off(order: ChannelOrder, dests: Destinations) -> int:
    """Return how many entries must stay empty: at the switch of a destination, and where no cable leads to it."""
    n = len(order.indptr) - 1
    component = components(n, order.sender, order.receiver)
    return int((n + 1 - np.bincount(component)[component[dests.switch]]).sum())


def _improve(
    start: Start,
    work: Work,
    order: ChannelOrder,
    kept: NDArray[np.int32],
    begin: NDArray[np.uint8],
    rounds: tuple[int, int],
    share: float,
) -> tuple[float, NDArray[np.uint8]]:
    """Return how full channels are, the less the better, and those taken once all is rerouted, parted and relieved."""
    next_hop, net = begin.copy(), work.net._replace(order=order, kept=kept)
    dests = work.dests._replace(shift_weight=float(round(share * work.dests.shift_weight)))
    reroute(net, dests, rounds[0], work.stride, next_hop)
    next_hop = _part(start, net, work.dests, None, rounds[1], SHARES[-1], next_hop)
    peak = _relieve(work, order, kept, next_hop)
    return peak * float(np.square(sum_loads(net, work.dests, empty_tree(net), next_hop)).sum()), next_hop


def _relieve(work: Work, order: ChannelOrder, kept: NDArray[np.int32], next_hop: NDArray[np.uint8]) -> float:
    """Take flows off the fullest channels; return how full those are in the end."""
    turns = fixed_turns(order)
    for net, dests, fullest, detour, worth in work.reliefs:
        net, limits = net._replace(order=order, kept=kept), Limits(detour, work.effort, worth)
        peak = relieve_peaks(net, dests, fullest, limits, turns, next_hop.copy(), next_hop)
    return peak


def _work(
    fabric: Fabric,
    order: ChannelOrder,
    dests: Destinations,
    hosts: NDArray[np.int64],
    nodes: NDArray[np.int64],
    tree: bool,
) -> Work:
    """Return what candidates are made from, for an order of the same channels each."""
    size = len(dests.lid) * len(order.sender)
    at_port = _port_weights(fabric)
    sending = np.zeros(fabric.n_switches)
    np.add.at(sending, fabric.port_node[: fabric.first_adapter_port], at_port[: fabric.first_adapter_port])
    receiving = at_port[fabric.port_offset[dests.switch] + np.maximum(dests.port, 1) - 1]
    net = _net(order, sending, nodes, AGGREGATION)
    weighted = _dests(dests, hosts, receiving, AGGREGATION, not tree)
    anywhere, fast = frozen(np.ones(len(net.scale), bool)), frozen(net.scale == 1.0)
    worth, detours = (WORTH_ON_TREE, WORTH_ON_TREE) if tree else (1.0, WORTH)
    each = _hosts_only(net, weighted, hosts)
    reliefs = [(net, weighted, anywhere, 0, worth), (*each, fast, 0, worth), (*each, fast, DETOUR, detours)]
    if nodes.any():  # also as if they were hosts, though the hosts have the last word
        as_hosts = _net(order, sending, nodes, HOST), _dests(dests, hosts, receiving, HOST, not tree)
        reliefs.insert(0, (*as_hosts, anywhere, 0, worth))
        # In the end paths to aggregation nodes alone: they turn at few leaves, and hosts are as well off as before.
        to_nodes = weighted._replace(weight=frozen(np.where(weighted.weight == AGGREGATION, 1.0, 0.0)))
        reliefs.append((net._replace(sources=frozen((hosts + nodes).astype(float))), to_nodes, anywhere, 0, 1.0))
    return Work(net, weighted, reliefs, 1 + size // MOST_EFFORT, RELIEF_EFFORT // len(order.sender))


def _descents(order: ChannelOrder, dests: Destinations, next_hop: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return (S, S) over which switch hosts are reached: how many entries lead to hosts of each over each other."""
    n = len(order.indptr) - 1
    used = np.zeros((n, n), np.int64)
    hosts = dests.role < Role.AGGREGATION
    taken = next_hop[dests.lid[hosts]].astype(np.int64)  # (hosts, switches)
    of_role = np.bincount(dests.role[hosts])[dests.role[hosts]]
    row, switch = np.nonzero(taken != NO_PATH)
    np.add.at(used, (order.receiver[order.indptr[switch] + taken[row, switch]], dests.switch[hosts][row]), of_role[row])
    return used


def _alone(order: ChannelOrder, dests: Destinations, zone: NDArray[np.int32], next_hop: NDArray[np.uint8]) -> bool:
    """Whether hosts reach each other within a zone over one switch, and over channels to each that lead to no other."""
    hosts = dests.role < Role.AGGREGATION
    home = dests.switch[hosts]
    leaves = np.unique(home)
    for number in np.unique(zone[leaves]):
        mine, sources = np.flatnonzero(zone[home] == number), leaves[zone[leaves] == number]
        reached = next_hop[dests.lid[hosts][mine]]
        row, source = np.nonzero(sources != home[mine][:, None])
        if (reached[:, sources] == NO_PATH).sum() > len(mine):  # each has none at its own leaf
            return False
        first = reached[row, sources[source]]
        above = order.receiver[order.indptr[sources[source]] + first.astype(np.int64)]
        last = reached[row, above]
        if (last == NO_PATH).any():
            return False
        channel = order.indptr[above] + last.astype(np.int64)
        if (order.receiver[channel] != home[mine][row]).any():
            return False
        pairs = np.unique(channel * len(mine) + row)
        if (np.bincount(pairs // len(mine)) > 1).any():
            return False
    return True


def _orders(
    start: Start, work: Work, plain: Sequence[RoutingTables], rng: np.random.Generator
) -> Iterator[tuple[str, ChannelOrder]]:
    """Yield the orders of channels that are worth a try: the one by levels, and where there is no tree, others."""
    order, level, hosts = start.order, start.level, start.hosts
    yield "foreseen", order
    if start.tree:
        return
    # Leaves without hosts that are linked to others join zones: whoever crosses them has climbed and then descends.
    flat = level[order.sender] == level[order.receiver]
    joining = np.isin(np.arange(len(level)), order.sender[flat]) & (hosts == 0)
    if joining.any():
        yield "foreseen", order_channels(start.fabric, np.where(joining, level.max() + 1, level))
    if (sides := two_sided_order(order)) is not None:
        yield "foreseen", sides
    trials = TRIAL_SIZE // (len(start.dests.lid) * len(order.sender))
    if trials:
        yield from (("adjacent", one) for one in adjacency_orders(order))
    effort = len(order.sender) ** 2 * int(np.diff(order.indptr).max())
    wishes = [wished_turns(work.net, work.dests, taken_channels(order, tables.lft)) for tables in plain[:trials]]
    for trial in range(min(TRIALS, trials, TRIAL_EFFORT // effort)):
        wish = wishes[trial % len(plain)]
        if trial >= len(plain):
            wish = wish._replace(flows=wish.flows * np.exp(NOISE * rng.standard_normal(len(wish.flows))))
        yield "grown", grow_channel_order(order, hosts, wish)


def _count(fabric: Fabric, kind: Kind) -> NDArray[np.int64]:
    """Return (S,) the ports of a kind of adapter at each switch."""
    return np.bincount(fabric.end_switch[fabric.ends(kind=kind)], minlength=fabric.n_switches)


def _port_weights(fabric: Fabric) -> NDArray[np.float64]:
    """Return (P,) the weight of a host at each port of a switch, by its rate; 0 at other ports."""
    holds = (fabric.kind[fabric.port_node] == Kind.SWITCH) & (fabric.peer_node >= 0)
    holds[holds] = fabric.kind[fabric.peer_node[holds]] == Kind.HCA
    rate = np.where(holds, fabric.rate_gbps, 0.0)
    weights: NDArray[np.float64] = np.rint(HOST * rate / max(rate.max(initial=0.0), 1.0))
    return weights


def _net(order: ChannelOrder, hosts: NDArray[np.float64], nodes: NDArray[np.int64], weight: float) -> Net:
    """Return what the kernels need of the fabric; hosts weigh so much at each switch, and each aggregation node."""
    return Net(
        order=order,
        scale=frozen(order.rate_gbps.max() / order.rate_gbps),
        sources=frozen(hosts + weight * nodes + SWITCH),
        leaves=frozen(np.flatnonzero(hosts).astype(np.int32)),
        kept=_nothing_kept(hosts),
    )


def _keeps(kept: NDArray[np.int32]) -> bool:
    """Whether what is taken within some zone stays."""
    return bool((kept >= 0).any())


def _nothing_kept(hosts: NDArray[np.number]) -> NDArray[np.int32]:
    """Return (S,) no zone for any switch."""
    return frozen(np.full(len(hosts), -1, np.int32))


def _hosts_only(net: Net, dests: Dests, hosts: NDArray[np.int64]) -> tuple[Net, Dests]:
    """Return both with each host counted once, whatever its link is."""
    each = frozen((dests.weight > AGGREGATION).astype(np.float64))
    return net._replace(sources=frozen(hosts.astype(np.float64))), dests._replace(weight=each)


def _dests(
    dests: Destinations, hosts: NDArray[np.int64], own: NDArray[np.float64], weight: float, everywhere: bool
) -> Dests:
    """Return what the kernels need of the destinations; hosts have weights of their own, aggregation nodes this one."""
    turn = np.argsort(dests.index)
    role = dests.role[turn]
    weights = np.select([dests.port == 0, dests.role == Role.AGGREGATION], [SWITCH, weight], own)
    neighbours = max(int(hosts.max(initial=0)), 1)
    several = len(np.unique(role[role <= Role.MANAGEMENT])) > 1
    return Dests(
        switch=frozen(dests.switch[turn]),
        lid=frozen(dests.lid[turn]),
        weight=frozen(weights[turn]),
        neighbours=neighbours,
        shift_weight=float(hosts.sum() / neighbours),
        shift_everywhere=bool(everywhere),
        segment=frozen(np.append(np.flatnonzero(np.diff(role, prepend=-1)), len(role)).astype(np.int32)),
        role_weight=ROLE_WEIGHT if several else 0.0,
    )
