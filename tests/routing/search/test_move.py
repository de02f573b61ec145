"""Laws of the one move: loads stay as they are from scratch, a sweep lowers what it should, nothing loops."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.random_fabrics import draw
from helpers.strategies import examples, fabrics, nightly
from routing.engines import dfsssp
from routing.engines.balanced import _closed, _open
from routing.engines.start import Begin, Start, start_of, with_forms
from routing.machine_code import Kernel, _interpreter
from routing.order.channel_order import port_numbers, taken_channels
from routing.order.destinations import empty_tables, finish_tables
from routing.order.legal import ChannelOrder
from routing.order.turns import ALLOWED
from routing.proof import prove
from routing.routed import Routed
from routing.search.move import (
    AMENDED,
    ANY,
    AS_THEY_ARE,
    Allowed,
    _begin,
    _clear_own,
    _gather,
    _hand_on,
    _promises,
    _weigh,
    allow_used,
    find_crowds,
    move_flows,
    recall,
    sum_terms,
)
from routing.search.problem import pose
from routing.search.search import TableSearch
from routing.tables import NO_PATH
from topo.fabric import Fabric

SEEDS = [2, 3, 5, 11, *map(nightly, range(20, 60))]


def begun(fabric: Fabric) -> tuple[Start, TableSearch]:
    lids, lft = empty_tables(fabric, None)
    start = with_forms(start_of(fabric, lids, lft.shape[::-1]))
    return start, TableSearch(pose(fabric, lids, start.order, start.dests, start.ranks), start.order)


def begins(start: Start, search: TableSearch) -> Iterator[Begin]:
    for begin in _closed(start):  # of zones that are joined they may miss pairs: then the engine leaves them, too
        if search.weigh(*begin[:2]).missing == 0:
            yield begin
    if not start.tree:
        yield from _open(start, search)


def plain_loads(search: TableSearch, start: Start, next_hop: np.ndarray) -> np.ndarray:
    """Loads by following each flow alone, link by link."""
    samples, order = search.problem.samples, start.order
    load = np.zeros((len(order.sender), len(search.problem.weights)))

    def follow(sender: int, dest: int, sample: int, flow: float) -> None:
        here, home, lid = sender, samples.switch[dest], samples.lid[dest]
        while here != home:
            channel = order.indptr[here] + next_hop[lid, here]
            load[channel, sample] += flow
            here = order.receiver[channel]

    for dest in range(len(samples.lid)):
        for u in range(len(samples.source)):
            for sender in np.flatnonzero(samples.source[u, samples.rail[dest]]):
                follow(sender, dest, u, samples.source[u, samples.rail[dest], sender] * samples.weight[u, dest])
        for i in range(samples.indptr[dest], samples.indptr[dest + 1]):
            follow(samples.sender[i], dest, samples.sample[i], samples.flow[i])
    return load


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_a_sweep(seed: int) -> None:
    start, search = begun(draw(seed))
    begin = next(begins(start, search))
    samples, state = search.problem.samples, search.state
    next_hop, turns = begin.next_hop.copy(), search._turns(begin.order)
    count = len(search.problem.weights)
    search_sums = search._sum(turns, next_hop)
    used = search.used.copy()
    assert search_sums.missing == 0
    assert np.allclose(state.load, plain_loads(search, start, next_hop), rtol=1e-5)
    allow_used(turns, used)
    terms = search._lowered(search_sums, 0.5, 0.0)
    bounds = Allowed(search.problem.hops, 2, used, np.zeros((0, 0), bool), AMENDED)
    fullest = state.load[:, 0].max()
    square, high = np.empty(count), np.empty(count)
    sum_terms(samples, state, square, high)
    before = float(terms.square @ square + terms.high @ high)
    moves, gained = move_flows(samples, turns, bounds, terms, state, next_hop, search.turn)
    assert moves > 0
    kept, counted, met = state.load.copy(), used.copy(), state.met.copy()
    search.summed = np.zeros((0, 0), np.uint8)  # so that all is summed anew
    again = search._sum(turns, next_hop)
    assert again.missing == 0
    assert np.allclose(kept, state.load, rtol=1e-4, atol=1e-4), "kept as they are from scratch"
    assert np.allclose(met, state.met, rtol=1e-4), "so is what goes to one destination alone"
    assert np.array_equal(counted, search.used), "turns are counted as they are taken"
    assert (turns.state == ALLOWED)[used > 0].all()
    assert not (turns.state == ALLOWED)[used == 0].any(), "what no path takes is given up"
    sum_terms(samples, state, square, high)
    after = float(terms.square @ square + terms.high @ high)
    assert after <= before + 1e-9 * abs(before)
    assert before - after == pytest.approx(gained, rel=1e-3, abs=1e-9 * abs(before)), "moves gain what they say"
    assert state.load[:, 0].max() <= fullest * (1 + 1e-6), "the fullest link of all pairs is no fuller"


@pytest.mark.slow
@pytest.mark.parametrize("detour", [0, 2])
@pytest.mark.parametrize("seed", SEEDS)
def test_paths_are_bounded_by_the_shortest_or_by_what_they_were(seed: int, detour: int) -> None:
    fabric = draw(seed)
    start, search = begun(fabric)
    begin = next(begins(start, search))
    lids, _ = empty_tables(fabric, None)
    graph = nx.Graph(list(zip(start.order.sender.tolist(), start.order.receiver.tolist(), strict=True)))
    shortest = dict(nx.all_pairs_shortest_path_length(graph))
    found = search.improve(begin.order, begin.next_hop, detour=detour)
    for lid, home in zip(start.dests.lid.tolist(), start.dests.switch.tolist(), strict=True):
        for here in range(fabric.n_switches):
            longest = max(shortest[here][home] + detour, hops(start, begin.next_hop, lid, here, home))
            assert hops(start, found.next_hop, lid, here, home) <= longest
    tables = finish_tables(start.dests, port_numbers(start.order, found.next_hop), lids, "test")
    assert prove(Routed(fabric, tables), "all").holds


def hops(start: Start, next_hop: np.ndarray, lid: int, here: int, home: int) -> int:
    """Links from a switch to another; -1 where tables lead round in a circle."""
    count = 0
    while here != home:
        if count > len(start.level):
            return -1
        here = start.order.receiver[start.order.indptr[here] + next_hop[lid, here]]
        count += 1
    return count


@pytest.mark.slow
@examples(20)
@given(
    fabrics(max_switches=9, max_adapters=12, connected=True),
    st.sampled_from([0, 1, 2]),
    st.sampled_from([AS_THEY_ARE, AMENDED]),
)
def test_any_graph_keeps_its_pairs_and_gets_no_loop(fabric: Fabric, detour: int, turns: int) -> None:
    start, search = begun(fabric)
    lids, _ = empty_tables(fabric, None)
    if not len(start.order.sender):
        return
    for begin in begins(start, search):
        found = search.improve(begin.order, begin.next_hop, turns=turns, detour=detour)
        before, after = (
            prove(Routed(fabric, finish_tables(start.dests, port_numbers(start.order, each), lids, "test")), "all")
            for each in (begin.next_hop, found.next_hop)
        )
        assert after.missing <= before.missing
        assert after.credit_loops == 0
        assert found.score <= search.weigh(begin.order, begin.next_hop).score + 1e-9
        assert search.weigh(found.order, found.next_hop).score == pytest.approx(found.score, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_without_detours_any_turn_leaves_shortest_paths_as_short(seed: int) -> None:
    fabric = draw(seed)
    start, search = begun(fabric)
    plain = taken_channels(start.order, dfsssp.route(fabric, start.lids, lanes=1).lft)
    found = search.improve(start.order, plain, turns=ANY)
    assert found.missing == 0
    for lid, home in zip(start.dests.lid.tolist(), start.dests.switch.tolist(), strict=True):
        for here in range(fabric.n_switches):
            assert hops(start, found.next_hop, lid, here, home) == hops(start, plain, lid, here, home)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.05, 0.5, 3.0])
@pytest.mark.parametrize("seed", SEEDS)
def test_little_time_is_spent_where_channels_are_fullest(
    seed: int, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, search = begun(draw(seed))
    begin, samples = next(begins(start, search)), search.problem.samples
    before = search.weigh(begin.order, begin.next_hop)
    load = search.loads(begin.next_hop)[:, 0]
    crowd = np.zeros(len(samples.lid))
    for dest in range(len(samples.lid)):
        for sender in np.flatnonzero(samples.source[0, samples.rail[dest]]):
            here = sender
            while here != samples.switch[dest]:
                channel = start.order.indptr[here] + begin.next_hop[samples.lid[dest], here]
                crowd[dest], here = max(crowd[dest], load[channel]), start.order.receiver[channel]
    most = max(int(share * len(samples.lid)), 1)
    found = search.improve(begin.order, begin.next_hop, effort=most * len(start.order.sender))
    moved = np.flatnonzero((found.next_hop != begin.next_hop).any(axis=1)[samples.lid])
    assert found.score <= before.score and found.missing == before.missing and found.fullest <= before.fullest + 1e-6
    assert len(moved) <= most
    if len(moved) and most < len(samples.lid):
        assert crowd[moved].min() >= np.sort(crowd)[-most] - 1e-6
    full = float(np.median(crowd))
    monkeypatch.setattr("routing.search.search.SWEEPS", 1)  # the next one looks at those that are full then
    found = search.improve(begin.order, begin.next_hop, full=full)
    moved = np.flatnonzero((found.next_hop != begin.next_hop).any(axis=1)[samples.lid])
    assert crowd[moved].min(initial=full) >= full - 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_moves_that_must_gain_much_are_few(seed: int) -> None:
    start, search = begun(draw(seed))
    begin = next(begins(start, search))
    free, dear = (search.improve(begin.order, begin.next_hop, least=least) for least in (0.0, 1e-4))
    assert (dear.next_hop != begin.next_hop).sum() <= (free.next_hop != begin.next_hop).sum()
    assert search.improve(begin.order, begin.next_hop, least=np.inf).score == search.weigh(*begin[:2]).score


@pytest.mark.parametrize("seed", range(10))
def test_what_is_behind_a_settled_switch_is_behind_the_next_one_that_is_not(seed: int) -> None:
    """Switches of a random tree are settled from its leaves on; lists of flows are joined as Python's are."""
    rng, n, flows = np.random.default_rng(seed), 9, 14
    parent = np.array([0, *(rng.integers(at) for at in range(1, n))])  # channel s leads from switch s to its parent
    behind = [[] for _ in range(n)]
    head, tail, following = np.full(n, -1), np.full(n, -1), np.full(flows, -1)
    for flow, at in enumerate(rng.integers(n, size=flows).tolist()):
        if behind[at]:
            following[tail[at]] = flow
        else:
            head[at] = flow
        tail[at] = flow
        behind[at].append(flow)
    dense = rng.integers(5, size=(2, n)).astype(float)
    state = SimpleNamespace(
        onward=np.arange(n), sibling=np.full(n, -1), child=np.full(n, -1), settled=np.zeros(n, bool),
        room=rng.integers(9, size=n), dense=dense.copy(), head=head, tail=tail, following=following,
    )  # fmt: skip
    room, turns = state.room.copy(), SimpleNamespace(order=SimpleNamespace(receiver=parent))
    for here in rng.permutation(np.arange(1, n)).tolist():
        _hand_on.py_func(SimpleNamespace(source=dense), turns, state, here)
        there = int(parent[here])
        while state.settled[there]:
            there = int(parent[there])
        behind[there] += behind[here]
        dense[:, there] += dense[:, here]
        room[there] = min(room[there], room[here])
    found, at = [], int(state.head[0])
    while at >= 0 and len(found) <= flows:
        found.append(at)
        at = int(following[at])
    assert sorted(found) == sorted(behind[0])
    assert state.dense[:, 0].tolist() == dense[:, 0].tolist()
    assert state.room[0] == room[0]


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_what_differs_from_the_last_tables_is_summed_as_all_is(seed: int) -> None:
    """Tables of random destinations are exchanged for others; some have no path any more."""
    start, search = begun(draw(seed))
    begin, rng = next(begins(start, search)), np.random.default_rng(seed)
    other = search.improve(*begin[:2]).next_hop.copy()
    lids = search.problem.samples.lid
    other[lids[rng.integers(len(lids))], rng.integers(other.shape[1])] = NO_PATH
    for share in (0.0, 0.1, 0.4, 0.9):
        tables = begin.next_hop.copy()
        some = lids[rng.random(len(lids)) < share]
        tables[some] = other[some]
        found = search.weigh(begin.order, tables)
        kept = search.state.load.copy(), search.used.copy(), search.state.met.copy()
        anew = TableSearch(search.problem, start.order)
        plain = anew.weigh(begin.order, tables)
        assert found.missing == plain.missing
        assert found.score == pytest.approx(plain.score, rel=1e-6)
        for ours, theirs in zip(kept, (anew.state.load, anew.used, anew.state.met), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-3)


def plain_flows(search: TableSearch, order: ChannelOrder, next_hop: np.ndarray, dest: int) -> np.ndarray:
    """Return (C, K) what goes to one destination over each channel, flow by flow."""
    samples = search.problem.samples
    flows = np.zeros((len(order.sender), len(search.problem.weights)))
    every = [
        (sender, u, samples.source[u, samples.rail[dest], sender] * samples.weight[u, dest])
        for u in range(len(samples.source))
        for sender in range(samples.source.shape[2])
    ]
    listed = range(samples.indptr[dest], samples.indptr[dest + 1])
    every += [(samples.sender[i], samples.sample[i], float(samples.flow[i])) for i in listed]
    for here, k, flow in every:
        for _ in range(samples.source.shape[2]):
            if here == samples.switch[dest]:
                break
            channel = order.indptr[here] + next_hop[samples.lid[dest], here]
            flows[channel, k] += flow
            here = order.receiver[channel]
    return flows


def plainly(part: Kernel, *given: Any) -> Any:
    """Interpret a part of a kernel, which is no kernel by itself, and all that it calls."""
    return _interpreter.run(part.py_func, given)


@pytest.mark.slow
@pytest.mark.parametrize("detour", [0, 2])
@pytest.mark.parametrize("seed", [27, 79, *map(nightly, (2, 11, 20, 30, 53, 102, 114))])
def test_no_channel_gains_more_than_is_promised(seed: int, detour: int) -> None:
    """Of each move what it lowers is summed anew, flow by flow: those that are dismissed gain nothing."""
    start, search = begun(draw(seed))
    begin, checked = next(begins(start, search)), 0
    order, samples, state = start.order, search.problem.samples, search.state
    next_hop, turns = begin.next_hop.copy(), search._turns(begin.order)
    terms = search._lowered(search._sum(turns, next_hop), 0.5, 0.0)
    bounds = Allowed(search.problem.hops, detour, search.used, np.zeros((0, 0), bool), ANY)
    to = np.array([plain_flows(search, order, next_hop, dest) for dest in range(len(samples.lid))])

    def lowered(total: np.ndarray, own: np.ndarray) -> float:
        """What a sweep lowers, but for destinations whose paths stay."""
        slow = samples.slow[:, None]
        met = (slow * (total**2 - own**2)).sum(axis=0)
        return float(terms.square @ met + terms.high @ ((total * slow) ** np.exp2(samples.doublings)).sum(axis=0))

    for channel in range(len(order.sender)):
        plainly(_weigh, samples, terms, state, channel)
    rng = np.random.default_rng(seed)
    for dest in rng.permutation(len(samples.lid))[:4].tolist():
        count, home = plainly(recall, samples, turns, state, next_hop, dest), samples.switch[dest]
        plainly(_begin, samples, turns, bounds, state, dest, count)
        state.summed[:] = False
        state.way[home], state.summed[home] = 0.0, True
        for here in state.nearest[count - 1 : 0 : -1].tolist():
            size = plainly(_gather, samples, state, dest, here)
            promised, kept = {}, {}
            for offers, least in ((promised, -1e3), (kept, 0.0)):
                n = plainly(_promises, samples, turns, bounds, terms._replace(least=least), state, home, here, size)
                offers |= dict(zip(state.offer[:n].tolist(), state.gain[:n].tolist(), strict=True))
            total = to.sum(axis=0)
            before = lowered(total, to[dest])
            for channel, promise in promised.items():
                moved = next_hop.copy()
                moved[samples.lid[dest], here] = channel - order.indptr[here]
                if hops(start, moved, samples.lid[dest], here, home) < 0:
                    continue
                after = plain_flows(search, order, moved, dest)
                gain = before - lowered(total - to[dest] + after, after)
                assert gain <= promise + 1e-8
                assert channel in kept or gain <= 1e-8
                checked += 1
            for j in range(size):
                state.place[state.items[j]] = -1
            plainly(_hand_on, samples, turns, state, here)
        plainly(_clear_own, samples, turns, state, dest, count)
    assert checked > 30


def passed_by_hosts(start: Start, search: TableSearch, next_hop: np.ndarray, dest: int) -> dict[int, int]:
    """The channel that each switch takes which some host's path to a destination passes."""
    samples, order, passed = search.problem.samples, start.order, {}
    for here in set(start.fabric.end_switch[start.ranks].tolist()):
        while here != samples.switch[dest]:
            passed[here] = order.indptr[here] + next_hop[samples.lid[dest], here]
            here = order.receiver[passed[here]]
    return passed


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_the_crowd_of_a_destination_is_the_fullest_link_on_the_paths_of_hosts(seed: int) -> None:
    start, search = begun(draw(seed))
    begin, samples = next(begins(start, search)), search.problem.samples
    load, crowd = np.random.default_rng(seed).random(len(start.order.sender)), np.empty(len(samples.lid))
    find_crowds(samples, search._turns(begin.order), search.state, load, begin.next_hop, crowd)
    for dest in range(0, len(samples.lid), 7):
        passed = passed_by_hosts(start, search, begin.next_hop, dest)
        assert crowd[dest] == max((load[channel] for channel in passed.values()), default=0.0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_where_time_is_short_entries_that_no_host_takes_stay(seed: int) -> None:
    start, search = begun(draw(seed))
    begin, samples = next(begins(start, search)), search.problem.samples
    found = search.improve(*begin[:2], effort=start.size)
    changed = found.next_hop != begin.next_hop
    for dest in range(len(samples.lid)):
        passed = passed_by_hosts(start, search, found.next_hop, dest)
        assert set(np.flatnonzero(changed[samples.lid[dest]]).tolist()) <= set(passed)
