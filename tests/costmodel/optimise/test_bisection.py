from dataclasses import replace
from itertools import permutations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import routing
import simulate
import topo
from costmodel.optimise import cuts
from costmodel.optimise.bisection import Bisection, bisection, flow_gbps, serving_gbps
from helpers.clusters import tree, zoned
from helpers.networks import HDR, Plain, plain
from helpers.strategies import examples, fabrics
from routing.hashed import SPRAY
from topo.fabric import Fabric, Kind
from topo.speeds import SPEEDS


@pytest.mark.slow
@given(fabrics(), st.data())
def test_flow_is_what_networkx_finds(fabric: Fabric, data: st.DataObject) -> None:
    adapters = np.flatnonzero(fabric.kind == Kind.HCA).tolist()
    side = data.draw(st.lists(st.booleans(), min_size=len(adapters), max_size=len(adapters)))
    sources, sinks = np.zeros(fabric.n_nodes, bool), np.zeros(fabric.n_nodes, bool)
    graph = nx.DiGraph([("source", "sink", {"capacity": 0.0})])
    for node, is_source in zip(adapters, side, strict=True):
        (sources if is_source else sinks)[node] = True
        graph.add_edge(*(("source", node) if is_source else (node, "sink")))  # no capacity is an infinite one
    for a, b in fabric.links.tolist():
        for here, there in ((a, b), (b, a)):
            ends = int(fabric.port_node[here]), int(fabric.port_node[there])
            known = graph.get_edge_data(*ends, {"capacity": 0.0})["capacity"]
            if ends[0] != ends[1]:
                graph.add_edge(*ends, capacity=known + min(fabric.rate_gbps[a], fabric.rate_gbps[b]))
    assert flow_gbps(fabric, sources, sinks) == pytest.approx(nx.maximum_flow_value(graph, "source", "sink"))


@pytest.mark.slow
def test_fire_flyer_2() -> None:
    fabric = zoned()
    assert bisection([fabric], 600, with_storage=True).share == 1.0
    assert bisection([fabric]).share == 20 / 600  # 20 joint ports a zone carry what 600 GPU nodes send
    assert serving_gbps([fabric]) == 360 * 200.0  # 9 TB/s


@pytest.mark.parametrize(("taper", "share"), [(1.0, 1.0), (3.0, 1 / 3)])
def test_a_full_tapered_tree(taper: float, share: float) -> None:
    # 8 leaves full of hosts: half of them send over the uplinks of 4 leaves.
    down = 20 if taper == 1 else 30
    assert bisection([tree(8 * down, oversubscription=taper)]) == Bisection(pytest.approx(share), pytest.approx(share))


def test_a_job_on_one_leaf_needs_no_uplink() -> None:
    assert bisection([tree(20, leaves=1, oversubscription=3.0)]) == Bisection(1.0, 1.0)
    assert bisection([tree(20)], 1) == Bisection(1.0, 1.0)


def test_planes_add_up() -> None:
    plane = tree(240, oversubscription=3.0)
    assert bisection([plane, plane]) == bisection([plane])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_jobs_at_once_of_several_rates_are_proven_as_all_sets_of_switches_have_it(seed: int) -> None:
    fabric, draw = plain(seed).fabric(), np.random.default_rng(seed)
    speed = fabric.speed.copy()
    speed[fabric.ends()[draw.random(len(fabric.ends())) < 0.4]] = SPEEDS.index("EDR")
    fabric = replace(fabric, speed=speed)
    for job in (None, 2, {3: 0.5, 2: 0.5}):
        exact = bisection([fabric], job)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(cuts, "MOST_ENUMERATED", -1)
            proven = bisection([fabric], job)
        assert exact.exact
        assert (proven.share, proven.least) == (pytest.approx(exact.share), pytest.approx(exact.share, abs=1e-5))


@given(st.integers(0, 100_000), st.integers(2, 4))
@examples(15)
def test_jobs_at_once_get_no_more_than_the_worst_of_them_alone(seed: int, job: int) -> None:
    fabric = plain(seed).fabric()
    if len(fabric.ends()) >= job:
        alone, at_once = (bisection([fabric], job, alone=alone) for alone in (True, False))
        assert at_once.share <= alone.share + 1e-9


@pytest.mark.parametrize("slow_end", [0, 1])
def test_a_link_carries_what_its_slower_end_can(slow_end: int) -> None:
    fabric = tree(2, leaves=1)
    speed = fabric.speed.copy()
    speed[fabric.links[0, slow_end]] = SPEEDS.index("EDR")
    one, other = (fabric.end_node[end] == np.arange(fabric.n_nodes) for end in fabric.ends())
    assert flow_gbps(fabric, one, other) == 200.0
    assert flow_gbps(replace(fabric, speed=speed), one, other) == 100.0


def test_the_worst_of_the_jobs_counts() -> None:
    """Hosts 0 to 15 hang on one leaf; of hosts 16 to 31 four hang there, and a single cable leads to the others."""
    fabric = tree(40, leaves=2, spines=2)
    uplinks = fabric.inner[fabric.port_node[fabric.inner] == 1]
    assert bisection([fabric], 16).share == 1.0
    cut = fabric.without(uplinks[1:])
    for alone in (True, False):
        found = bisection([cut], 16, alone=alone)  # the first job, which needs no uplink, does not make up for it
        assert found.share == 1 / 4
        assert found.worst == "gpu16 to gpu31"
        assert found.cut.servers == 4


def test_all_jobs_that_a_cut_divides_are_named() -> None:
    """Two jobs of two servers, each with a server at either end of one cable; and five jobs of them."""
    two, five = (Plain(2, ((0, 1, HDR),), (0, 0), wide=((0,), (1,)) * jobs).fabric() for jobs in (2, 5))
    assert bisection([two], 2).worst == "wide00 to wide01, wide02 to wide03"
    assert bisection([two], 2, alone=True) == Bisection(1.0, 1.0)
    assert bisection([five], 2).worst == "wide00 to wide01, wide02 to wide03 and 3 more"
    assert bisection([five], 2).share == 1 / 5


def test_sets_that_are_cut_as_badly_are_counted() -> None:
    even, uneven = (Plain(4, ((0, 3, HDR), (1, 3, HDR), (2, 3, HDR)), (3, 3, last, 0)) for last in (3, 2))
    assert str(bisection([even.fabric()]).cut).endswith(
        "s0 (3 servers, 600 Gb/s) has 200 Gb/s to the rest, as each of 3 such sets"
    )
    assert bisection([uneven.fabric()]).cut.alike == 2
    other = Plain(2, ((0, 1, HDR),), (5, 3)).fabric()  # the other side of the same cut is no second set
    assert (bisection([other]).cut.servers, bisection([other]).cut.alike) == (3, 1)


def test_a_job_on_one_unit_of_rails_needs_no_uplink() -> None:
    """14 servers, 8 leaves: each has an adapter on each leaf, and sends to its partner over every leaf."""
    rail = {"shape": "rail", "unit_nodes": 14, "tree": {"levels": 2, "switch": "QM9700", "spines": 1, "parallel": 1}}
    spec = {"name": "r", "nodes": {"gpu": {"model": "dgx-h100", "count": 14}}, "network": rail}
    assert bisection(topo.parse(spec).fabrics) == Bisection(1.0, 1.0)
    two = {**spec, "nodes": {"gpu": {"model": "dgx-h100", "count": 28}}}  # two units: 14 adapters on a leaf, 1 uplink
    found = bisection(topo.parse(two).fabrics)
    assert found == Bisection(1 / 14, 1 / 14)
    assert (found.cut.servers, found.cut.alike) == (14, 16)  # 14 of 28 servers have an adapter on a leaf


@pytest.mark.parametrize("parallel", [1, 4])
def test_traffic_between_rails_gets_what_uplinks_carry(parallel: int) -> None:
    """12 servers on 8 leaves: a leaf has 12 adapters and so many uplinks; over the rails none is needed."""
    tree = {"levels": 2, "switch": "QM9700", "spines": 1, "parallel": parallel}
    rail = {"shape": "rail", "unit_nodes": 12, "tree": tree}
    spec = {"name": "r", "nodes": {"gpu": {"model": "dgx-h100", "count": 12}}, "network": rail}
    found = bisection(topo.parse(spec).fabrics)
    assert (found.share, found.narrower.share, found.narrower.exact) == (1.0, parallel / 12, True)
    assert str(found) == f"100.0% over the rails; between rails {topo.percent(parallel / 12)}"
    assert found.to_dict()["between_rails"]["bisection"] == parallel / 12


@pytest.mark.parametrize("leaves", [2, 3, 5])
@pytest.mark.parametrize("servers", [4, 5, 8])
def test_over_the_rails_adapters_send_to_those_of_the_same_number_wherever_they_hang(servers: int, leaves: int) -> None:
    """A tapered tree: all ways in which servers send to one another, leaf by leaf and rail by rail, get no less.

    Of a rail, as many adapters of a leaf send elsewhere as have a partner there. What plays one such way agrees.
    """
    tree = {"shape": "fat-tree", "switch": "QM9700", "leaves": leaves, "spines": 2, "parallel": 1}
    fabric = topo.parse(
        {"name": "t", "nodes": {"gpu": {"model": "dgx-h100", "count": servers}}, "network": tree}
    ).fabric
    ends = fabric.ends()[np.argsort(fabric.host[fabric.end_node[fabric.ends()]], kind="stable")].reshape(servers, 8)
    on = fabric.end_switch[ends]
    worst, order = 1.0, [np.array(each) for each in permutations(range(servers))] if servers < 8 else []
    for leaf in np.unique(on).tolist():
        leaving = [max((on[way, rail][on[:, rail] == leaf] != leaf).sum() for way in order) if order
                   else min((on[:, rail] == leaf).sum(), (on[:, rail] != leaf).sum()) for rail in range(8)]  # fmt: skip
        worst = min(worst, 2 / max(sum(leaving), 1))
    found = bisection([fabric])
    assert found.share == pytest.approx(worst)
    if found.cut is not None:
        one, other, _ = found.cut.halves(fabric, ends.ravel())
        number = np.zeros(fabric.n_end_ports, int)
        number[ends] = np.arange(8)
        assert (number[one] == number[other]).all() and len({*one, *other}) == 2 * len(one) == servers // 2 * 16
        network = simulate.Network.of(routing.Hashed(fabric, SPRAY), latency_s=0)
        flows = simulate.Flows.of(np.append(one, other), np.append(other, one), 50e9)  # a second at full rate
        assert simulate.play(network, flows).makespan_s == pytest.approx(1 / found.share)


@given(st.data(), st.integers(2, 4))
@examples(20)
def test_between_rails_is_the_least_quotient_of_adapters_over_all_sets_of_switches(
    data: st.DataObject, job: int
) -> None:
    """Counted without the search: for each set its links, and of each job the adapters on its lesser side."""
    n = data.draw(st.integers(2, 5))
    cables = [(0, at, HDR) for at in range(1, n)]  # in one piece
    cables += data.draw(st.lists(st.sampled_from([(a, b, HDR) for a in range(n) for b in range(a)]), max_size=6))
    of_server = st.lists(st.integers(0, n - 1), min_size=2, max_size=3).map(tuple)
    wide = tuple(data.draw(st.lists(of_server, min_size=job, max_size=8)))
    found = bisection([Plain(n, tuple(cables), (0,) * n, wide=wide).fabric()], job)
    least = 1.0
    for number in range(1 << n):
        side = [bool(number >> at & 1) for at in range(n)]
        asked = 0
        for first in range(0, len(wide) - job + 1, job):
            on = [side[switch] for server in wide[first : first + job] for switch in server]
            asked += min(on.count(True), on.count(False))
        if asked:
            least = min(least, sum(side[a] != side[b] for a, b, _ in cables) / asked)
    assert found.narrower.share == pytest.approx(least)
    assert found.narrower.share <= found.share and found.narrower.least <= found.least


def test_a_bandwidth_between_its_bounds_is_neither_proven_nor_refuted() -> None:
    wide = Bisection(0.53, 0.43)
    assert wide.judged(0.5) == "not refuted (43.0% to 53.0%, 50.0% needed)"
    assert wide.judged(0.43) == "holds, proven (43.0% to 53.0%, 43.0% needed)"
    assert wide.judged(0.54) == "does not hold (43.0% to 53.0%, 54.0% needed)"
    assert Bisection(0.5).judged(0.5) == "not refuted (at most 50.0%, 50.0% needed)"


def test_odd_rates_are_counted_in_fractions() -> None:
    fabric = tree(2, leaves=1)
    slow = replace(fabric, speed=np.full_like(fabric.speed, SPEEDS.index("FDR")))
    one, other = (fabric.end_node[end] == np.arange(fabric.n_nodes) for end in fabric.ends())
    assert flow_gbps(slow, one, other) == pytest.approx(slow.rate_gbps[0], abs=0.02)
    assert slow.rate_gbps[0] % 1 > 0.1


def test_an_adapter_without_a_cable_asks_for_nothing() -> None:
    fabric = tree(20, leaves=1)
    assert bisection([fabric.without(fabric.port_of(fabric.ends()[:1]))]).share == 1.0
