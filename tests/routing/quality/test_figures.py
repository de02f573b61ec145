"""Congestion against a plain count, closed forms of trees, and published figures."""

from collections import Counter
from collections.abc import Hashable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.random_fabrics import Draft
from helpers.strategies import Case, cases, ring, tree
from routing import route
from routing.quality.figures import (
    Congestion,
    bisections,
    congestion,
    fair_rates,
    halving_doubling,
    measure,
    permutations,
    shifts,
)
from routing.routed import Routed
from routing.studies.bounds import bound
from routing.tables import select_endpoints, tree_order
from routing.trace import trace
from topo.errors import HeddleError
from topo.fabric import Role
from topo.speeds import LANE_GBPS, parse_link_speed


@given(case=cases(lanes=False), endpoints=st.sampled_from(["hca", "all"]), seed=st.integers(0, 2**32 - 1))
def test_a_plain_count_of_flows_agrees(case: Case, endpoints: str, seed: int) -> None:
    fabric, tables, rng = case.fabric, case.tables, np.random.default_rng(seed)
    ranks = select_endpoints(fabric, tables, endpoints)
    n = len(ranks)
    partners = np.concatenate([permutations(n, 3, rng), bisections(n, 2, rng), shifts(n, 3), halving_doubling(n)])
    max_load, bandwidth, lost = congestion(Routed(fabric, tables), ranks, partners)
    for phase, row in enumerate(partners.tolist()):
        paths = [trace(Routed(fabric, tables), int(ranks[i]), int(ranks[to])) for i, to in enumerate(row) if to >= 0]
        inner = [
            [c for c in path.channels if fabric.port_node[c] < fabric.n_switches > fabric.peer_node[c]]
            for path in paths
            if path.fault is None
        ]
        load = Counter(channel for path in inner for channel in path)
        assert lost[phase] == len(paths) - len(inner)
        assert max_load[phase] == max(load.values(), default=0)
        shares = [1 / max((load[channel] for channel in path), default=1) for path in inner]
        assert bandwidth[phase] == pytest.approx(sum(shares) / len(paths) if paths else 0)


def risen_together(flows: list[tuple[set[Hashable], float]], capacity: dict[Hashable, float]) -> list[float]:
    """Rates of flows, each with its resources and its limit: all rise by the same until something stops them."""
    rates, moving = [0.0] * len(flows), set(range(len(flows)))
    while moving:
        users = {r: [f for f in range(len(flows)) if r in flows[f][0]] for r in capacity}
        rooms = {r: capacity[r] - sum(rates[f] for f in users[r]) for r in capacity}
        steps = [flows[f][1] - rates[f] for f in moving]
        steps += [rooms[r] / len(on) for r in capacity if (on := moving & set(users[r]))]
        step = max(min(steps), 0.0)
        for f in moving:
            rates[f] += step
        full = {r for r in capacity if rooms[r] - step * len(moving & set(users[r])) < 1e-9}
        moving -= {f for f in moving if rates[f] > flows[f][1] - 1e-9 or flows[f][0] & full}
    return rates


@given(case=cases(lanes=False), seed=st.integers(0, 2**32 - 1))
def test_rates_are_those_that_rise_together_until_something_is_full(case: Case, seed: int) -> None:
    rng = np.random.default_rng(seed)
    plain, tables = case.fabric, case.tables
    speed = plain.speed.copy()
    speed[plain.links] = rng.choice(np.flatnonzero(LANE_GBPS), len(plain.links))[:, None]
    fabric = replace(plain, speed=speed)
    ranks = select_endpoints(fabric, tables)
    n = len(ranks)
    partners = np.concatenate([permutations(n, 3, rng), shifts(n, 3)])
    mean, least = fair_rates(Routed(fabric, tables), ranks, partners)
    for phase, row in enumerate(partners.tolist()):
        paths = [trace(Routed(fabric, tables), int(ranks[i]), int(ranks[to])) for i, to in enumerate(row) if to >= 0]
        own = [fabric.rate_gbps[fabric.port_of(ranks[[i, to]])].min() for i, to in enumerate(row) if to >= 0]
        inner = [{c for c in path.channels if fabric.is_inner[c]} if path.fault is None else None for path in paths]
        arriving = [(path, limit) for path, limit in zip(inner, own, strict=True) if path is not None]
        capacity = {channel: fabric.rate_gbps[channel] for path, _ in arriving for channel in path}
        rates = risen_together(arriving, capacity)
        shares = [rate / limit for rate, (_, limit) in zip(rates, arriving, strict=True)]
        shares += [0.0] * (len(inner) - len(arriving))
        assert mean[phase] == pytest.approx(np.mean(shares) if shares else 0.0)
        assert least[phase] == pytest.approx(min(shares, default=0.0))


def test_no_shift_of_a_whole_tree_puts_two_flows_on_a_channel() -> None:
    """Zahavi 2010: destination-modulo routing is free of contention for every shift."""
    case = tree(5)
    quality = measure(Routed(case.fabric, case.tables), seed=1)
    assert quality.shift == Congestion(
        phases=24, bandwidth=1.0, error=0.0, max_load_median=1.0, max_load_mean=1.0, max_load_worst=1, lost=0
    )
    assert (quality.ranks, quality.max_load, quality.mean_load, quality.balance, quality.unused) == (25, 20, 20, 1, 0)
    assert quality.to_dict()["balance"] == 1


def test_effective_bisection_bandwidth_of_an_800_port_unit() -> None:
    """40 leaves under 20 spines: 0.807, and 0.661 for random permutations, as measured over the tables of OpenSM.

    No two flows of a phase meet on their way down there, so that fair rates are those of a count.
    """
    case = tree(20, leaves=40)
    quality = measure(Routed(case.fabric, case.tables), seed=1)
    assert quality.ebb == pytest.approx(0.807, abs=0.002)  # three standard errors of 200 samples
    assert quality.permutation.bandwidth == pytest.approx(0.661, abs=0.002)
    assert quality.shift.max_load_worst == 1


def test_two_hosts_behind_a_link_of_twice_their_rate_lose_nothing() -> None:
    shares = {}
    for hosts in (2, 4):
        draft = Draft()
        (spine,) = draft.add(1)
        for leaf in draft.add(3):
            draft.cable(leaf, spine, speed=parse_link_speed("4xHDR"))
            for _ in range(hosts):
                draft.host(leaf, speed=parse_link_speed("2xHDR"))
        routed = route(draft.build("halves", np.random.default_rng(0)), "minhop")
        ranks = tree_order(routed.fabric, routed.fabric.ends())
        halves = bisections(len(ranks), 200, np.random.default_rng(0))
        shares[hosts] = measure(routed).ebb
        assert (
            shares[hosts] == fair_rates(routed, ranks, halves)[0].mean() > congestion(routed, ranks, halves)[1].mean()
        )
        assert shares[hosts] <= bound(routed.fabric).ebb
    assert shares[2] == 1.0 > shares[4]


def test_destinations_of_each_role_over_the_uplinks() -> None:
    """Modulo by place: all storage of a leaf is reached over the last spines, and other spines see none."""
    case = tree(4, storage=1)
    shares = {share.role: share for share in measure(Routed(case.fabric, case.tables), seed=1).uplinks}
    assert {role: (s.uplinks, s.used, s.min, s.mean, s.max) for role, s in shares.items()} == {
        None: (16, 16, 3, 3, 3),
        Role.COMPUTE: (16, 12, 3, 3, 3),
        Role.STORAGE: (16, 4, 3, 3, 3),
    }


def test_a_ring_one_way_round() -> None:
    """Shift by s on a ring where all go clockwise: each channel carries s flows."""
    case = ring(6)
    ranks = select_endpoints(case.fabric, case.tables)
    max_load, bandwidth, lost = congestion(Routed(case.fabric, case.tables), ranks, shifts(6, 100))
    assert max_load.tolist() == [1, 2, 3, 4, 5]
    assert bandwidth.tolist() == pytest.approx([1, 1 / 2, 1 / 3, 1 / 4, 1 / 5])
    assert lost.tolist() == [0] * 5


def test_lost_flows_have_no_bandwidth_and_load_nothing() -> None:
    case = tree(3)
    lft = case.tables.lft.copy()
    lft[0, case.tables.lid[9]] = 255  # leaf 0 has no entry for host 0 of leaf 1
    tables = replace(case.tables, lft=lft)
    ranks = select_endpoints(case.fabric, tables)
    max_load, bandwidth, lost = congestion(Routed(case.fabric, tables), ranks, shifts(9, 100))
    assert lost.tolist() == [1, 1, 1, 0, 0, 0, 0, 0]  # ranks 2, 1 and 0 send to rank 3
    assert max_load.tolist() == [1] * 8
    assert bandwidth == pytest.approx(1 - lost / 9)


def test_patterns() -> None:
    rng = np.random.default_rng(7)
    for row in bisections(7, 20, rng):
        senders = np.flatnonzero(row >= 0)
        assert len(senders) == 3
        assert len({*senders, *row[senders]}) == 6
    for row in permutations(6, 20, rng):
        senders = np.flatnonzero(row >= 0)
        assert len(set(row[senders])) == len(senders)
        assert (row != np.arange(6)).all()
    assert shifts(4, 10).tolist() == [[1, 2, 3, 0], [2, 3, 0, 1], [3, 0, 1, 2]]
    assert (shifts(1000, 5)[:, 0]).tolist() == [1, 250, 500, 749, 999]
    assert halving_doubling(6).tolist() == [[1, 0, 3, 2, 5, 4], [2, 3, 0, 1, -1, -1], [4, 5, -1, -1, 0, 1]]
    assert [len(pattern) for pattern in (shifts(0, 5), shifts(1, 5), halving_doubling(1), halving_doubling(0))] == [
        0
    ] * 4


def test_the_same_seed_gives_the_same_figures() -> None:
    case = tree(3)
    first, second = (measure(Routed(case.fabric, case.tables), seed=3) for _ in range(2))
    assert first == second


def test_ranks_choose_who_talks_and_in_which_order() -> None:
    case = tree(4, storage=1)
    gpus = select_endpoints(case.fabric, case.tables)
    gpus = gpus[case.fabric.role[case.fabric.end_node[gpus]] == Role.COMPUTE]
    shuffled = np.random.default_rng(0).permutation(gpus)
    assert tree_order(case.fabric, shuffled).tolist() == gpus.tolist()
    assert measure(Routed(case.fabric, case.tables), gpus, seed=1).shift.max_load_worst == 1
    assert measure(Routed(case.fabric, case.tables), shuffled, seed=1).shift.max_load_worst > 1


def test_a_fabric_with_nobody_on_it() -> None:
    case = tree(2)
    quality = measure(Routed(case.fabric, case.tables), np.zeros(0, np.int32), seed=1)
    assert (quality.ranks, quality.ebb, quality.max_load, quality.balance, quality.unused) == (0, 0, 0, 1, 8)
    assert "bisection" not in repr(quality)


@pytest.mark.parametrize("tried", [{"samples": 0}, {"samples": -1}, {"max_shifts": 0}])
def test_figures_of_nothing_are_refused(tried: dict[str, int]) -> None:
    case = tree(2)
    with pytest.raises(HeddleError, match="expected 1 or more of each"):
        measure(Routed(case.fabric, case.tables), **tried)


def test_phases_without_a_flow_are_not_measured() -> None:
    """Half of all permutations of two ranks leave each where it is; in the others each has a link for itself."""
    case = tree(2)
    ranks = select_endpoints(case.fabric, case.tables)[[0, 2]]
    quality = measure(Routed(case.fabric, case.tables), ranks, seed=0)
    assert quality.permutation.bandwidth == 1.0
    assert 50 < quality.permutation.phases < 150
