"""The search for the best tables under orders of channels: candidates, and the choice among them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from routing.candidates import FIGURES, Candidate
from routing.demand import even_out
from routing.engines import dfsssp, minhop
from routing.engines.fat_tree import closed_form
from routing.engines.improve import (
    EARLY_ROUNDS,
    ROUND_EFFORT,
    ROUNDS,
    SHARES,
    SHIFT_ROUNDS,
    Work,
    improve,
    part,
    relieve,
    shift_rounds,
    work_of,
)
from routing.engines.judge import judge, mark, shortfall
from routing.engines.start import Start, closed_in_a_row, count_adapters, keeps, nothing_kept, start_of
from routing.order.channel_order import order_channels, port_numbers, taken_channels
from routing.order.destinations import Destinations, finish_tables
from routing.order.legal import ANY, ChannelOrder
from routing.order.structure import structure_order, with_switches_in
from routing.order.turn_order import adjacency_orders, grow_channel_order, two_sided_order, wished_turns
from routing.routed import Routed
from routing.tables import NO_PATH, RoutingTables, tree_order
from topo.fabric import Fabric, Kind, frozen
from topo.graphs import components

TRIALS, TRIAL_SIZE, TRIAL_EFFORT = 16, 4_000_000, 1_000_000_000
"""Grown orders that are tried, and what bounds them: destinations times channels, of all of them together (2 s), and
channels squared times ports of a switch, for each (10 s)."""

NOISE = 0.3
"""Standard deviation of the logarithm by which the flows that wish for a turn are altered, for all but two orders."""

JOINED_SIZE = 2_000_000
"""Destinations times channels up to which other orders are tried where the closed form is not perfect within zones."""

SHIFT_WEIGHTS = (0.1, 0.3)
"""Share of shift permutations in the traffic that is planned for; the rest is random permutations. What the second
comes to is tried, too, and what comes of the closed form if nothing is rerouted: the best of all is kept."""

PERFECT_SIZE = 20_000_000
"""Destinations times channels from which on (half a second) a closed form whose shifts are free of contention will do,
and links that lead to one host each are not evened out any more."""

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


class View(NamedTuple):
    """How candidates are looked at."""

    ranks: NDArray[np.int32] | None
    """(n,) adapters' ports in the order of their ranks; None where that is the order of the search's own fabric."""
    yards: tuple[Candidate, ...]
    """What plain engines are worth, seen so; none where the fabric is too large to ask."""


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


def in_order_of_wiring(
    fabric: Fabric,
    lids: NDArray[np.uint16],
    shape: tuple[int, ...],
    rng: np.random.Generator,
    *,
    any_turn: bool = False,
) -> RoutingTables:
    """Return the best tables that do without a tree, whatever the labels are.

    With ``any_turn``, those over shortest paths, whatever loops they have.
    """
    turned = structure_order(fabric)
    renumbered = np.concatenate([lids[turned], lids[fabric.n_switches :]])
    start = start_of(with_switches_in(fabric, turned), renumbered, shape)
    order = start.order._replace(slack=ANY) if any_turn else start.order
    start = start._replace(order=order, tree=False, forms=() if any_turn else start.forms[:1])
    tables = best_tables(fabric, start, rng)
    return replace(tables, lid=lids, lft=frozen(tables.lft[np.argsort(turned)]))


def best_tables(fabric: Fabric, start: Start, rng: np.random.Generator) -> RoutingTables:
    """Return the tables that are best on the whole, in the order of the fabric that they start with."""
    free = nothing_kept(start.hosts)
    one_rate = start.order.rate_gbps.min() == start.order.rate_gbps.max()  # slow cables are not what it knows
    whole = start.tree and one_rate and not start.forms
    made = [_judged(start, _finish(start, start.order, free, start.closed))] if whole else []
    perfect = bool(made and made[0].row and made[0].row.worst_shift <= 1)
    row = closed_in_a_row(start) if start.tree and not perfect else None
    if made and row is not None:
        made.append(_finish(start, start.order, free, row))
    if start.size > PERFECT_SIZE and made and not count_adapters(fabric, Kind.AGGREGATION).any():
        best = _judged(start, _ranked(start, made, View(None, ()))[0])
        if best.row and best.row.worst_shift <= 1:  # what matters is done
            return best.tables
    plain = [] if start.size > TRIAL_SIZE else _plain_tables(start)
    early = _view(start, plain)
    late = early if start.fabric is fabric else _view(start, plain, tree_order(fabric, start.ranks))
    work, placed, begun = _place(start, row, plain, early, rng)
    finalists = max(min(FINALISTS, shift_rounds(start) // 2), 1)
    rounds = min(SHIFT_ROUNDS, shift_rounds(start) // finalists)
    chosen = _ranked(start, [*placed, *made], early, parted_later=rounds > 0)[:finalists]
    if begun and finalists > 1:
        chosen = [*chosen[: finalists - 1], begun]
    with ThreadPoolExecutor(2) as pool:
        found = list(chain.from_iterable(pool.map(partial(_parted, start, work, early, late, rounds), chosen)))
    return _ranked(start, found, late)[0].tables


def _view(start: Start, plain: Sequence[RoutingTables], ranks: NDArray[np.int32] | None = None) -> View:
    """Return how candidates are looked at, with plain tables as yardsticks."""
    rows = (judge(start.fabric, tables, switches=False, ranks=ranks) for tables in plain)
    return View(ranks, tuple(row for row in rows if not row.missing))


def _place(
    start: Start, row: NDArray[np.uint8] | None, plain: Sequence[RoutingTables], view: View, rng: np.random.Generator
) -> tuple[Work, list[Made], Made | None]:
    """Return what candidates are made from, those of one order, and one that begins with plain shortest paths.

    One more of the former begins with ``row``, where there is that. The latter is there where few paths are barred.
    """
    fabric, order, dests, tree = start.fabric, start.order, start.dests, start.tree
    size = start.size
    work = work_of(fabric, order, dests, start.hosts, count_adapters(fabric, Kind.AGGREGATION), tree)
    rounds = min(ROUNDS if tree else 2 * ROUNDS, max(1, ROUND_EFFORT // size))
    # Where there are levels, the closed form has done for shifts what can be done as cheaply.
    flat = start.level.min() == start.level.max()
    parts = min(EARLY_ROUNDS // 2, shift_rounds(start) // TRIALS) if flat else 0
    free, cut = work.net.kept, _cut_off(order, dests)
    wished = [] if tree or not plain else [plain[0], even_out(Routed(fabric, plain[0]), plain[0].engine)]
    results: list[Tried] = []

    def tried(kind: str, one: ChannelOrder, kept: NDArray[np.int32], begin: NDArray[np.uint8]) -> Tried:
        quality, next_hop = improve(start, work, one, kept, begin, (rounds, parts), SHIFT_WEIGHTS[0])
        lost = int(np.count_nonzero(next_hop[dests.lid] == NO_PATH)) - cut
        return Tried(lost, quality, len(results), kind, one, kept, begin, next_hop)

    for kind, form in zip(("foreseen", "in a row", "around"), start.forms, strict=False):
        results.append(tried(kind, form.order, form.kept, form.next_hop))
    enough = not tree and any(one.lost == 0 and (keeps(one.kept) or size > JOINED_SIZE) for one in results)
    for kind, one in () if enough else _orders(start, work, wished, rng):
        begin = start.closed
        if not tree:
            begin = np.full(start.closed.shape, NO_PATH, np.uint8)
            closed_form(one, dests, start.climbs, start.own, begin)
        results.append(tried(kind, one, free, begin))
    order, kept, begin, made = _first(start, work, view, results)
    next_hop = made[0]
    if size <= ROUND_EFFORT and not np.array_equal(next_hop, begin):
        for times, share in ((0, SHIFT_WEIGHTS[0]), (rounds, SHIFT_WEIGHTS[1])):
            made.append(improve(start, work, order, kept, begin, (times, parts), share)[1])
    if row is not None and order is start.order and size <= ROUND_EFFORT:
        parts = min(EARLY_ROUNDS, shift_rounds(start))
        made += [improve(start, work, order, kept, row, (0, times), SHIFT_WEIGHTS[0])[1] for times in {0, parts}]
    if order.slack:
        made += [taken_channels(order, tables.lft) for tables in wished]
    least = min(results).lost
    kinds = ("grown", "any turn", "foreseen" if tree else "")
    roomy = next((one for one in reversed(results) if one.kind in kinds and one.lost == least), None)
    begun = _begun_with(start, work, plain[0], roomy) if roomy and plain else None
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
    _, next_hop = improve(start, work, grown.order, grown.kept, begin, (int(barred.any()), 0), SHIFT_WEIGHTS[0])
    return _finish(start, grown.order, grown.kept, next_hop)


def _barred(order: ChannelOrder, dests: Destinations, next_hop: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Return (D,) the destinations to which some path takes a turn that an order bars."""
    taken = next_hop[dests.lid].astype(np.int64)
    channel = (order.indptr[:-1] + np.where(taken == NO_PATH, 0, taken)).clip(max=len(order.sender) - 1)
    then = np.take_along_axis(channel, order.receiver[channel].astype(np.int64), axis=1)
    goes_on = (taken != NO_PATH) & (order.receiver[channel] != dests.switch[:, None])
    barred: NDArray[np.bool_] = (goes_on & (order.rank[channel] >= order.rank[then] + order.slack)).any(axis=1)
    return barred


def _plain_tables(start: Start) -> list[RoutingTables]:
    """Return tables of plain engines, whatever loops they have: they say what is wished, and what is short of it."""
    return [dfsssp.route(start.fabric, start.lids, lanes=1), minhop.route(start.fabric, start.lids)]


def _first(
    start: Start, work: Work, view: View, results: Sequence[Tried]
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
    rounds = min(EARLY_ROUNDS // 2, shift_rounds(start))
    found: list[tuple[Tried, Candidate, NDArray[np.uint8]]] = []
    keeping = any(keeps(one.kept) for one in kinds.values())
    for one in kinds.values():
        parted = part(
            start, work.net._replace(order=one.order, kept=one.kept), work.dests, None, rounds, SHARES[-1], one.next_hop
        )
        parted = parted.copy()
        relieve(work, one.order, one.kept, parted)
        versions = [parted]
        if keeping:  # what zones keep is best rerouted as little as can be
            _, hardly = improve(start, work, one.order, one.kept, one.begin, (0, 0), SHIFT_WEIGHTS[0])
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
        key=lambda item: (round(mark(item[1], [item[1], *view.yards[:1]], figures), 2), mark(item[1], rows, figures)),
    )
    return best.order, best.kept, best.begin, [best.next_hop, parted]


def _orders(
    start: Start, work: Work, plain: Sequence[RoutingTables], rng: np.random.Generator
) -> Iterator[tuple[str, ChannelOrder]]:
    """Yield the orders of channels that are worth a try: the one that there is, and where there is no tree, others."""
    order, level, hosts = start.order, start.level, start.hosts
    yield "any turn" if order.slack else "foreseen", order
    if start.tree or order.slack:
        return
    # Leaves without hosts that are linked to others join zones: whoever crosses them has climbed and then descends.
    flat = level[order.sender] == level[order.receiver]
    joining = np.isin(np.arange(len(level)), order.sender[flat]) & (hosts == 0)
    if joining.any():
        yield "foreseen", order_channels(start.fabric, np.where(joining, level.max() + 1, level))
    if (sides := two_sided_order(order)) is not None:
        yield "foreseen", sides
    trials = TRIAL_SIZE // start.size
    if trials:
        yield from (("adjacent", one) for one in adjacency_orders(order))
    effort = len(order.sender) ** 2 * int(np.diff(order.indptr).max())
    wishes = [wished_turns(work.net, work.dests, taken_channels(order, tables.lft)) for tables in plain[:trials]]
    for trial in range(min(TRIALS, trials, TRIAL_EFFORT // effort)):
        wish = wishes[trial % len(plain)]
        if trial >= len(plain):
            wish = wish._replace(flows=wish.flows * np.exp(NOISE * rng.standard_normal(len(wish.flows))))
        yield "grown", grow_channel_order(order, hosts, wish)


def _cut_off(order: ChannelOrder, dests: Destinations) -> int:
    """Return how many entries must stay empty: at the switch of a destination, and where no cable leads to it."""
    n = len(order.indptr) - 1
    component = components(n, order.sender, order.receiver)
    return int((n + 1 - np.bincount(component)[component[dests.switch]]).sum())


def _finish(start: Start, order: ChannelOrder, kept: NDArray[np.int32], next_hop: NDArray[np.uint8]) -> Made:
    """Return a candidate with its tables."""
    tables = finish_tables(start.dests, port_numbers(order, next_hop), start.lids, "balanced")
    return Made(order, kept, next_hop, tables)


def _parted(start: Start, work: Work, early: View, late: View, rounds: int, first: Made) -> list[Made]:
    """Return a candidate and what comes of it, step by step, when flows of its shifts are parted and relieved.

    They are parted in the order of the wiring first, then in that of the fabric, where that is another.
    """
    found, net = [first], work.net._replace(order=first.order, kept=first.kept)
    steps = [(late, rounds)] if late is early else [(early, rounds // 2), (late, rounds - rounds // 2)]
    for view, times in steps:
        if view is not early:
            found = [made._replace(row=None) for made in found]  # judged in another order of ranks
        for share in SHARES:
            found = [_judged(start, made, view.ranks) for made in found]
            best = _ranked(start, found, view)[0]
            apart = part(start, net, work.dests, view.ranks, times, share, best.next_hop)
            if np.array_equal(apart, best.next_hop):
                continue
            found.append(_finish(start, first.order, first.kept, apart))
            relieved = apart.copy()
            relieve(work, first.order, first.kept, relieved)
            if not np.array_equal(apart, relieved):
                found.append(_finish(start, first.order, first.kept, relieved))
    return [_judged(start, made, late.ranks) for made in found]


def _judged(start: Start, made: Made, ranks: NDArray[np.int32] | None = None) -> Made:
    """Return a candidate with what its tables are worth."""
    return made if made.row else made._replace(row=judge(start.fabric, made.tables, ranks=ranks))


def _ranked(start: Start, made: Sequence[Made], view: View, *, parted_later: bool = False) -> list[Made]:
    """Return tables that share links about as well as the first and load them the least, the best on the whole first.

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
    judged = [_judged(start, one, view.ranks) for one in distinct]
    rows = [one.row for one in judged if one.row]
    spare = SPARE_BANDWIDTH if start.tree else SPARE_WITHOUT_TREE
    shared = [
        place
        for place, row in enumerate(rows)
        if row.role_load <= (1 + SPARE_ROLE) * rows[0].role_load
        and row.ebb * rows[0].shared_load >= (1 - spare) * rows[0].ebb * row.shared_load
    ]
    spare_load = SPARE_WHERE_KEPT if any(keeps(one.kept) for one in distinct) else SPARE_LOAD
    fullest = (1 + spare_load) * min(rows[place].shared_load for place in shared)
    fit = [place for place in shared if rows[place].shared_load <= fullest]
    rivals = [rows[place] for place in fit]
    figures = BEFORE_PARTING if parted_later else ON_TREE if start.tree else FIGURES
    worth = {
        place: round(mark(rows[place], rivals, figures) - shortfall(rows[place], view.yards, figures), 3)
        for place in fit
    }
    return [judged[place] for place in sorted(fit, key=lambda place: -worth[place])]
