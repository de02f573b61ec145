"""Figures of adaptive routing beside those of engines: laws, and all-to-alls counted pair by pair."""

from collections import defaultdict
from fractions import Fraction

import networkx as nx
import numpy as np
import pytest

import routing
from helpers.random_fabrics import draw
from helpers.strategies import nightly
from helpers.trees import grow_tree
from routing.engines.judge import Judge
from routing.studies.adaptive import AdaptiveTables, beside_adaptive, manager_groups
from topo.fabric import Fabric


def parts(fabric: Fabric, groups: AdaptiveTables, near: int, lid: int, home: int) -> dict[int, Fraction]:
    """The part of a flow over each channel, switch by switch."""
    found: dict[int, Fraction] = {}
    allowed = groups.allowed(fabric, 0, np.array([lid]))[0]
    graph = nx.MultiDiGraph()
    graph.add_node(near)
    for port in fabric.inner[allowed[fabric.inner]].tolist():
        if fabric.port_node[port] != home:
            graph.add_edge(int(fabric.port_node[port]), int(fabric.peer_node[port]), port)
    part = defaultdict(Fraction, {near: Fraction(1)})
    for here in nx.topological_sort(graph):
        ways = list(graph.out_edges(here, keys=True))
        for _, there, port in ways if part[here] else []:
            found[port] = part[here] / len(ways)
            part[there] += part[here] / len(ways)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, *map(nightly, (0, 1, 3, 4, 5))])  # 2 is small
def test_jobs_and_the_fullest_link_are_those_of_pairs_counted_one_by_one(seed: int) -> None:
    routed = routing.route(draw(seed), "balanced", lanes=1)
    fabric, lid = routed.fabric, routed.tables.lid
    even, most, least = beside_adaptive(routed).candidates[-3:]
    groups, said = manager_groups(routed)
    assert said in even.engine
    ends = fabric.ends()[fabric.end_switch[fabric.ends()] >= 0].tolist()
    home = fabric.end_switch
    fastest, load = float(fabric.rate_gbps[fabric.inner].max()), defaultdict(Fraction)
    for dest in ends:
        for near in {int(home[end]) for end in ends} - {int(home[dest])}:
            count = sum(int(home[end]) == near for end in ends)
            for port, part in parts(fabric, groups, near, int(lid[dest]), int(home[dest])).items():
                load[port] += part * count
    assert even.fullest == pytest.approx(max(float(n) * fastest / fabric.rate_gbps[c] for c, n in load.items()))
    problem, rates = Judge(fabric, lid).search.problem, []
    by_number = {number: int(of) for number, of in enumerate(problem.samples.lid)}
    end_of = {int(lid[end]): end for end in ends}
    for number in np.flatnonzero(problem.alone):
        carried, reach = defaultdict(float), defaultdict(float)
        for dest in range(len(problem.samples.lid)):
            for at in range(problem.samples.indptr[dest], problem.samples.indptr[dest + 1]):
                if problem.samples.sample[at] == number:
                    one, to = float(problem.samples.flow[at]), by_number[dest]
                    way = parts(fabric, groups, int(problem.samples.sender[at]), to, int(home[end_of[to]]))
                    for port, part in way.items():
                        slow = fastest / fabric.rate_gbps[port]
                        carried[port] += float(part) * one * slow
                        reach[port] += one * slow
        alone = float(problem.alone[number])
        rates.append([alone / max(alone, max(some.values(), default=0)) for some in (carried, reach)])
    if rates:
        split, worst = np.array(rates).T
        assert (even.jobs, even.slowest_job) == pytest.approx((split.mean(), split.min()))
        assert (least.jobs, least.slowest_job) == pytest.approx((worst.mean(), worst.min()))
        assert even.jobs <= most.jobs * (1 + 1e-5) and even.slowest_job <= most.slowest_job * (1 + 1e-5)


def test_a_whole_tree_gives_jobs_all_of_their_links_and_own_tables_stand_beside_it() -> None:
    routed = beside_adaptive(routing.route(grow_tree((4, 4), (1, 4), (1, 1)), "minhop"))
    assert [row.engine for row in routed.candidates] == [
        "minhop", "adaptive, 4 roots, split evenly", "the same, at most", "the same, at least"]  # fmt: skip
    assert routed.candidates[1].jobs == pytest.approx(1) == routed.candidates[2].jobs
    assert routed.candidates[3].slowest_job < 0.5 and routed.candidates[3].shifts is None
    assert routed.candidate_table.columns[2].values[1:] == [routed.candidates[1].fullest, None, None]


def test_where_there_are_no_groups_the_reason_says_so() -> None:
    zones = routing.route(draw(2), "minhop", lanes=1)
    assert routing.prove(zones).credit_loops and not routing.studies.adaptive.choose_roots(zones)[1].holds
    found = beside_adaptive(zones)
    assert "; no adaptive routing: " in found.why and "credit loops" in found.why
    assert [row.engine for row in found.candidates] == ["minhop"]
