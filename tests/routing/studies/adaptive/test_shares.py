"""Flows that are spread over groups of ports, beside fractions, a linear program and what static ports give."""

from collections import defaultdict
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

import routing
from helpers.random_fabrics import draw
from helpers.strategies import examples, fabrics, seeds
from helpers.trees import grow_tree
from routing.quality.figures import shifts
from routing.studies.adaptive import AdaptiveTables, compare_shares, legal_tables, spread_rates
from routing.studies.adaptive.shares import PHASES, fill
from topo.fabric import Fabric


@st.composite
def water(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    """Shares of flows on channels, each flow on one at least, and capacities."""
    n, m = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    parts = np.array(draw(st.lists(st.lists(st.sampled_from([0, 0, 1, 2, 3]), min_size=m, max_size=m), min_size=n,
                                   max_size=n)), float)  # fmt: skip
    parts[parts.sum(axis=1) == 0, 0] = 1
    return parts, np.array(draw(st.lists(st.integers(1, 9), min_size=m, max_size=m)), float)


@examples(60)
@given(case=water())
def test_rates_are_max_min_fair_by_a_linear_program(case: tuple[np.ndarray, np.ndarray]) -> None:  # type: ignore[type-arg]
    parts, capacity = case
    flow, channel = np.nonzero(parts)
    rates = fill(flow, channel, parts[flow, channel], capacity, len(parts))
    assert (parts.T @ rates <= capacity * (1 + 1e-9)).all()
    for one in range(len(parts)):  # no flow can have more unless one that has no more than it has less
        kept = [(rate if rate <= rates[one] and other != one else 0, None) for other, rate in enumerate(rates)]
        best = linprog(-np.eye(len(parts))[one], parts.T, capacity, bounds=kept)
        assert -best.fun == pytest.approx(rates[one], rel=1e-6)


def parts_of(fabric: Fabric, groups: AdaptiveTables, source: int, dest: int) -> dict[int, Fraction]:
    """The part of a flow on each channel between switches, packet by packet."""
    lid, home, found = int(groups.lid[dest]), int(fabric.end_switch[dest]), defaultdict(Fraction)

    def go(here: int, part: Fraction) -> None:
        if here == home:
            return
        allowed = groups.allowed(fabric, 0, np.array([lid]))[0]
        ports = [port for port in fabric.ports_of(here) if allowed[port]]
        for port in ports:
            found[port] += part / len(ports)
            go(int(fabric.peer_node[port]), part / len(ports))

    go(int(fabric.end_switch[source]), Fraction(1))
    return found


@pytest.mark.slow
@examples(30)
@given(fabric=fabrics(connected=True, ports=1).filter(lambda one: (one.end_switch[one.ends()] >= 0).sum() > 2),
       seed=st.integers(0, 99))  # fmt: skip
def test_no_channel_carries_more_than_it_can_and_each_flow_meets_a_full_one(fabric: Fabric, seed: int) -> None:
    groups = legal_tables(routing.route(fabric, "balanced", lanes=1))
    ranks = fabric.ends()[fabric.end_switch[fabric.ends()] >= 0]
    partners = np.roll(np.arange(len(ranks)), seed % (len(ranks) - 1) + 1).astype(np.int32)
    rates = spread_rates(fabric, groups, ranks, partners)
    gbps = fabric.rate_gbps[fabric.port_of(ranks)].min()
    load, uses = defaultdict(float), []
    for rank, to in enumerate(partners.tolist()):
        uses.append(parts_of(fabric, groups, int(ranks[rank]), int(ranks[to])))
        for port, part in uses[-1].items():
            load[port] += float(part) * rates[rank] * gbps
    for port, carried in load.items():
        assert carried <= fabric.rate_gbps[port] * (1 + 1e-9)
    for rank, used in enumerate(uses):
        full = [port for port in used if load[port] >= fabric.rate_gbps[port] * (1 - 1e-9)]
        fastest = [all(rates[other] <= rates[rank] * (1 + 1e-9) for other, them in enumerate(uses) if port in them)
                   for port in full]  # fmt: skip
        assert rates[rank] == pytest.approx(1) or any(fastest)


@pytest.mark.parametrize("seed", seeds(4))
def test_groups_of_one_port_give_what_static_ports_give(seed: int) -> None:
    routed = routing.route(draw(seed), "balanced", lanes=1)
    groups = legal_tables(routed)
    alone = replace(groups, lft=routed.tables.lft[None], group=np.full_like(groups.group, -1))
    for row in compare_shares(routed, alone).rows:
        assert row.spread == pytest.approx(row.static, rel=1e-9)
        assert row.spread_least == pytest.approx(row.static_least, rel=1e-9)
        assert row.static_least <= row.at_most * (1 + 1e-9)


def test_a_whole_tree_spreads_everything_and_loses_nothing_on_shifts() -> None:
    routed = routing.route(grow_tree((8, 8), (1, 8), (1, 1)))
    rows = {row.pattern: row for row in compare_shares(routed, legal_tables(routed)).rows}
    assert all(row.spread == pytest.approx(1) == row.at_most for row in rows.values())
    assert rows["shifts"].static == pytest.approx(1)
    assert rows["random permutations"].static < 0.8


def test_half_the_cables_give_half_whatever_is_chosen() -> None:
    routed = routing.route(grow_tree((8, 8), (1, 4), (1, 1)))
    row = compare_shares(routed, legal_tables(routed)).rows[2]
    leaving = [min(shift, 64 - shift, 8) for shift in shifts(64, PHASES)[:, 0].tolist()]
    assert row.spread_least == pytest.approx(row.at_most) == np.mean([min(1, 4 / out) for out in leaving])
