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
from routing.hashed import SPRAY, Hashed
from routing.quality.figures import shifts
from routing.studies import hashed_rates
from routing.studies.adaptive import AdaptiveTables, Spread, compare_shares, legal_tables
from routing.studies.adaptive.shares import MOST_VARIABLES, PHASES, play_phase
from topo.fabric import Fabric


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
    rates = hashed_rates(Hashed(fabric, SPRAY, groups=groups.groups(fabric)), ranks, partners)
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


def ways_of(fabric: Fabric, groups: AdaptiveTables, source: int, dest: int) -> list[list[int]]:
    """All ways of a packet between switches, as lists of channels."""
    lid, home = int(groups.lid[dest]), int(fabric.end_switch[dest])
    allowed = groups.allowed(fabric, 0, np.array([lid]))[0]

    def go(here: int) -> list[list[int]]:
        if here == home:
            return [[]]
        ports = [port for port in fabric.ports_of(here) if allowed[port]]
        return [[port, *rest] for port in ports for rest in go(int(fabric.peer_node[port]))]

    return go(int(fabric.end_switch[source]))


@pytest.mark.slow
@examples(40)
@given(fabric=fabrics(connected=True, ports=1).filter(lambda one: (one.end_switch[one.ends()] >= 0).sum() > 2),
       seed=st.integers(0, 99))  # fmt: skip
def test_bounds_hold_for_every_choice_and_the_best_is_that_of_a_program_over_all_ways(
    fabric: Fabric, seed: int
) -> None:
    groups = legal_tables(routing.route(fabric, "balanced", lanes=1))
    ranks, rng = fabric.ends()[fabric.end_switch[fabric.ends()] >= 0], np.random.default_rng(seed)
    partners = rng.permutation(len(ranks)).astype(np.int32)
    partners[partners == np.arange(len(ranks))] = -1
    sends = np.flatnonzero(partners >= 0)
    if not len(sends):
        return
    hashed = Hashed(fabric, SPRAY, groups=groups.groups(fabric))
    rates, least, most = play_phase(hashed, ranks, partners, MOST_VARIABLES)
    source, dest = ranks[sends], ranks[partners[sends]]
    own = np.minimum(fabric.rate_gbps[fabric.port_of(source)], fabric.rate_gbps[fabric.port_of(dest)])
    ways = [ways_of(fabric, groups, int(a), int(b)) for a, b in zip(source, dest, strict=True)]
    # A variable for each way of each flow, and one for the share that all get.
    variables = [(flow, way) for flow, some in enumerate(ways) for way in some]
    capacity, equal = np.zeros((fabric.n_ports, len(variables) + 1)), np.zeros((len(sends), len(variables) + 1))
    for at, (flow, way) in enumerate(variables):
        capacity[way, at] += 1
        equal[flow, at] = 1
    equal[:, -1] = -own
    best = linprog([0.0] * len(variables) + [-1.0], capacity, fabric.rate_gbps, equal, np.zeros(len(sends)),
                   bounds=[(0, None)] * len(variables) + [(0, 1)])  # fmt: skip
    assert most == pytest.approx(-best.fun, rel=1e-5)
    assert least <= rates.min() * (1 + 1e-9) <= most * (1 + 1e-5)
    for _ in range(5):  # one way for each flow, drawn: what each gets is at least the bound
        chosen = [some[int(rng.integers(len(some)))] for some in ways]
        load, left = np.zeros(fabric.n_ports), dict(enumerate(chosen))
        free, rate = fabric.rate_gbps.copy(), np.zeros(len(sends))
        while left:
            load[:] = 0
            for way in left.values():
                load[way] += 1
            level = min([own[flow] for flow in left] + [free[c] / load[c] for c in np.flatnonzero(load)])
            full = {c for c in np.flatnonzero(load) if free[c] / load[c] <= level * (1 + 1e-9)}
            done = [flow for flow, way in left.items() if own[flow] <= level * (1 + 1e-9) or full & set(way)]
            for flow in done:
                rate[flow] = level
                free[left.pop(flow)] -= level
        assert (rate / own).min() >= least * (1 - 1e-9)
        assert (rate / own).min() <= most * (1 + 1e-5)


def test_the_worst_choice_sends_all_flows_of_a_leaf_over_one_cable_and_cuts_stand_in_for_the_program() -> None:
    fabric = grow_tree((8, 2), (1, 4), (1, 1))  # two leaves of 8 hosts with 4 cables each
    groups = legal_tables(routing.route(fabric)).groups(fabric)
    ends = fabric.ends()
    leaf = fabric.end_switch[ends]
    spread = Spread.of(Hashed(fabric, SPRAY, groups=groups), ends[leaf == leaf[0]], ends[leaf != leaf[0]])
    wanted = np.full(8, float(fabric.rate_gbps[fabric.inner[0]]))
    assert spread.worst(wanted).max() == pytest.approx(wanted.sum())
    assert spread.even(wanted).max() == pytest.approx(wanted.sum() / 4)
    assert spread.best(wanted) == pytest.approx(0.5) == spread.best(wanted, limit=0)
