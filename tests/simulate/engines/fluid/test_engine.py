"""Fluid flows: finish times against a plain re-solve at every event, and closed forms."""

from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import routing
from helpers.fluids import fair_rates, hosts, routed, uses
from helpers.trees import grow_tree
from routing.routed import Routed
from routing.tables import NO_PATH, RoutingTables
from simulate import Fluid, collective, play
from simulate.engines.outcome import Outcome
from simulate.traffic.flows import Flows
from simulate.traffic.graph import chain
from simulate.traffic.network import Devices, Network
from topo.errors import HeddleError

RATE = 25e9
TREES = [((3,), (1,), (1,)), ((3, 4), (1, 2), (1, 1)), ((2, 3), (1, 3), (1, 2)), ((2, 2, 3), (1, 2, 2), (1, 1, 1))]


@pytest.fixture(scope="module", params=TREES, ids=str)
def network(request: pytest.FixtureRequest) -> Network:
    fabric = grow_tree(*request.param)
    return Network.of(Routed(fabric, routed(fabric)), latency_s=0)


def finish_times(network: Network, flows: Flows) -> np.ndarray:
    """Play flows by solving all rates again at every event."""
    routes, use = network.routes(flows.src, flows.dst, flows.sl), uses(network, flows)
    used = np.flatnonzero(use.any(axis=0))
    capacity, use = network.capacity_bytes_s[used], use[:, used]
    latency = routes.latency_s[routes.route]
    delay = flows.delay_s + 2 * latency * flows.rendezvous
    left, moves_from = flows.size_bytes.copy(), np.full(len(flows), np.inf)
    done = np.full(len(flows), np.nan)
    time = 0.0
    under_way = np.zeros(len(flows), bool)
    while np.isnan(done).any():
        for flow in range(len(flows)):
            deps = flows.dep[flows.dep_offset[flow] : flows.dep_offset[flow + 1]]
            if np.isinf(moves_from[flow]) and not np.isnan(done[deps]).any():
                ready = max([flows.start_s[flow], *done[deps]])
                moves_from[flow] = ready + delay[flow] + latency[flow]
        due = np.isnan(done) & (moves_from <= time + 1e-15)
        # Of each connection the one that moves already, or else the first of those that could.
        for number in np.unique(flows.connection[due & (flows.connection >= 0)]):
            mine = np.flatnonzero(due & (flows.connection == number))
            first = mine[np.lexsort((mine, np.round(moves_from[mine], 14), ~under_way[mine]))[0]]
            due[mine[mine != first]] = False
        moving = due
        at_once = moving & ((left <= 1e-6) | ~use.any(axis=1))
        if at_once.any():
            done[at_once] = time
            continue
        under_way = moving  # all that begins at this instant is known
        rate = np.zeros(len(flows))
        rate[moving] = fair_rates(capacity, use[moving])
        waiting = moves_from[np.isnan(done) & (moves_from > time + 1e-15)]
        step = min([*(left[moving] / rate[moving]), *(waiting[np.isfinite(waiting)] - time)])
        left -= rate * step
        left[left < 1e-6] = 0.0
        time += step
    return done


def check_certificate(network: Network, flows: Flows, outcome: Outcome) -> None:
    """Each flow's bottleneck lies on its route; bytes are conserved."""
    routes = outcome.routes
    for flow, route in enumerate(routes.route):
        on_route = routes.resource[routes.offset[route] : routes.offset[route + 1]]
        crosses = len(on_route) > 0 and flows.size_bytes[flow] > 0
        assert (outcome.bottleneck[flow] in on_route) == crosses
    sent = flows.size_bytes[flows.src != flows.dst].sum()
    at_hosts = outcome.resource_bytes[network.fabric.first_adapter_port : network.fabric.n_ports].sum()
    assert at_hosts == pytest.approx(sent)
    assert np.all(outcome.utilisation <= 1 + 1e-9)


@st.composite
def traffic(draw: st.DrawFn, n_hosts: int, sizes: st.SearchStrategy[float]) -> dict[str, list[float]]:
    n = draw(st.integers(1, 40))

    def many(one: st.SearchStrategy[float]) -> list[float]:
        return draw(st.lists(one, min_size=n, max_size=n))

    pairs = st.tuples(st.integers(1, n - 1), st.integers(0, n - 1)).filter(lambda p: p[1] < p[0]) if n > 1 else None
    after = draw(st.lists(pairs, max_size=20)) if pairs is not None else []
    return {
        "src": many(st.integers(0, n_hosts - 1)),
        "dst": many(st.integers(0, n_hosts - 1)),
        "size": many(sizes),
        "start": many(st.sampled_from([0.0, 0.0, 0.0, 1e-3, 2e-3, 2.5e-3])),
        "delay": many(st.sampled_from([0.0, 0.0, 0.0, 1e-3])),
        "after": after,
        "connection": many(st.sampled_from([-1, 0, 0, 0, n // 3, n // 2])),
        "rendezvous": many(st.booleans()),
    }


def as_flows(network: Network, drawn: dict[str, list[float]]) -> Flows:
    first = hosts(network).start
    # What ends as it begins lets others begin at that instant, in whichever order connections are looked at.
    at_once = (np.array(drawn["size"]) == 0) | (np.array(drawn["src"]) == drawn["dst"])
    after = np.array(drawn["after"], np.int64).reshape(-1, 2).T
    return Flows.of(
        np.array(drawn["src"]) + first,
        np.array(drawn["dst"]) + first,
        drawn["size"],
        start_s=drawn["start"],
        delay_s=drawn["delay"],
        connection=np.where(at_once, -1, drawn["connection"]),
        rendezvous=drawn["rendezvous"],
        after=(after[0], after[1]),
    )


@pytest.mark.parametrize("latency", [0.0, 1e-6])
@given(data=st.data())
def test_equals_solving_everything_anew_at_each_event(network: Network, latency: float, data: st.DataObject) -> None:
    tied = st.sampled_from([0.0, 1e6, 2e6, 4e6, 25e6])  # symmetric trees and few sizes: ties everywhere
    sizes = data.draw(st.sampled_from([tied, st.floats(1e3, 1e8)]))
    flows = as_flows(network, data.draw(traffic(len(hosts(network)), sizes)))
    net = Network.of(Routed(network.fabric, network.tables), latency_s=latency, hop_latency_s=latency / 4)

    outcome = play(net, flows)

    assert outcome.finish_s == pytest.approx(finish_times(net, flows), rel=1e-9, abs=1e-15)
    check_certificate(net, flows, outcome)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.slow
def test_aggregates_alter_nothing(network: Network, seed: int) -> None:
    """Where some links hold back most routes and others are never full, aggregates win and lose routes all the time."""
    rng = np.random.default_rng(seed)
    rate = network.capacity_bytes_s * rng.choice([0.05, 0.3, 1.0, 4.0], len(network.capacity_bytes_s))
    net, ends, n = replace(network, capacity_bytes_s=rate), np.array(hosts(network)), 150
    size = rng.choice([1e6, 2e6, 4e6], n) if seed % 2 else rng.exponential(3e6, n)
    src = rng.choice(ends, n)
    dst = (src - ends[0] + rng.integers(1, len(ends), n)) % len(ends) + ends[0]
    flows = Flows.of(src, dst, size, start_s=rng.uniform(0, 1e-3 * (seed % 3), n))
    alone = Fluid(net, n_bins=16, aggregate_from=0).play(flows)
    for aggregate in (1, 2, 6):
        outcome = Fluid(net, n_bins=16, aggregate_from=aggregate).play(flows)
        assert outcome.finish_s == pytest.approx(alone.finish_s, rel=1e-12)
        check_certificate(net, flows, outcome)
        assert outcome.timeline is not None and alone.timeline is not None
        assert outcome.timeline.load_bytes_s == pytest.approx(alone.timeline.load_bytes_s, rel=1e-9, abs=1.0)


def test_an_aggregate_behind_two_full_links_in_series_stays(network: Network) -> None:
    """Both links are full, and either may be the bottleneck: the last of n equal flows ends when all have passed."""
    *others, last = hosts(network)
    flows = Flows.of(others * 4, last, np.arange(1.0, 4 * len(others) + 1) * 1e6)
    outcome = Fluid(network, aggregate_from=2).play(flows)
    left = len(flows) - np.arange(len(flows))
    assert outcome.finish_s == pytest.approx(np.cumsum(1e6 * left) / RATE, rel=1e-12)
    assert len(np.unique(outcome.bottleneck[:-1])) <= 2


def test_a_network_with_aggregates_is_not_saved(network: Network) -> None:
    with pytest.raises(HeddleError, match="aggregate_from=0"):
        Fluid(network).snapshot()


def test_one_flow_takes_its_latency_and_then_the_link(network: Network) -> None:
    net = Network.of(Routed(network.fabric, network.tables), latency_s=1e-6, hop_latency_s=1e-7)
    first, *_, last = hosts(network)
    outcome = play(net, Flows.of(first, last, 25e9, start_s=1.0))
    hops = np.diff(outcome.routes.offset)[0]

    assert outcome.start_s == pytest.approx([1.0])
    assert outcome.finish_s == pytest.approx([2.0 + 1e-6 + hops * 1e-7])


def test_incast_shares_the_last_link(network: Network) -> None:
    *sources, last = hosts(network)
    outcome = play(network, Flows.of(sources, last, 1e9))

    assert outcome.finish_s == pytest.approx([len(sources) * 1e9 / RATE] * len(sources))
    assert outcome.makespan_s == pytest.approx(len(sources) * 1e9 / RATE)


def test_many_flows_of_one_pair_end_in_the_order_of_their_sizes(network: Network) -> None:
    sizes = np.random.default_rng(3).permutation(1000) * 1e6
    outcome = play(network, Flows.of(hosts(network)[0], hosts(network)[1], sizes))
    # Processor sharing: the k-th smallest ends when it, all smaller ones and as much of each larger one have moved.
    ordered = np.sort(sizes)
    moved = np.cumsum(ordered) + (len(sizes) - 1 - np.arange(len(sizes))) * ordered

    assert np.sort(outcome.finish_s) == pytest.approx(moved / RATE, rel=1e-9)
    assert np.array_equal(np.argsort(outcome.finish_s), np.argsort(sizes))


def test_a_chain_of_sets_runs_one_after_another(network: Network) -> None:
    first, second, third = hosts(network)[:3]
    part = Flows.of([first, second], [second, third], [RATE, 2 * RATE])
    outcome = play(network, chain([part, part, part]))

    assert outcome.finish_s == pytest.approx([1, 2, 2, 3, 4, 4, 5, 6])


def test_compute_is_a_flow_to_oneself(network: Network) -> None:
    first, second = hosts(network)[:2]
    outcome = play(network, Flows.of([first, first], [first, second], [0, RATE], delay_s=[3, 0.5], after=([1], [0])))

    assert outcome.start_s == pytest.approx([3.0, 3.5])
    assert outcome.finish_s == pytest.approx([3.0, 4.5])


@pytest.mark.slow
def test_devices_share_what_is_inside_their_host(network: Network) -> None:
    first, second = hosts(network)[:2]
    n = network.fabric.n_end_ports
    devices = Devices(
        end_port=np.array([first, first, second]),
        capacity_bytes_s=np.array([10e9, 12e9]),
        names=("root port", "memory"),
        send_offset=np.array([0, 1, 2, 2]),
        send_resource=np.array([0, 0]),
        send_use=np.array([1.0, 1.0]),
        receive_offset=np.array([0, 1, 2, 3]),
        receive_resource=np.array([1, 1, 1]),
        receive_use=np.array([2.0, 2.0, 3.0]),
    )
    net = Network.of(Routed(network.fabric, network.tables), devices=devices, latency_s=0)

    alone = play(net, Flows.of(n, n + 2, 12e9))
    assert alone.finish_s == pytest.approx([3.0])  # memory: three bytes of 12 GB/s for each
    assert net.resource_label(int(alone.bottleneck[0])) == "memory"
    both = play(net, Flows.of([n, n + 1], [n + 2, second], 12e9))
    assert both.finish_s == pytest.approx([3.0, 2.0])  # 4 GB/s and the other 6 GB/s of the root port
    inside = play(net, Flows.of(n, n + 1, 12e9))
    assert inside.finish_s == pytest.approx([2.0])
    assert inside.resource_bytes[: network.fabric.n_ports].sum() == 0


def test_a_host_sends_and_receives_no_faster_than_it_can(network: Network) -> None:
    net = Network.of(Routed(network.fabric, network.tables), host_gbps=100, latency_s=0)
    first, second, third = hosts(network)[:3]
    outcome = play(net, Flows.of([first, second], [third, third], [RATE, 2 * RATE]))

    assert outcome.finish_s == pytest.approx([4.0, 6.0])


@pytest.mark.parametrize("slow_end", [0, 1])
def test_the_slower_end_of_a_link_decides(network: Network, slow_end: int) -> None:
    fabric = network.fabric
    first, second, third = hosts(network)[:3]
    near = fabric.first_adapter_port + third - fabric.n_switches
    ends = near, fabric.peer[near]
    width = fabric.width.copy()
    width[ends[slow_end]] = 1  # of 4 lanes, which the other end has
    net = Network.of(Routed(replace(fabric, width=width), network.tables), latency_s=0)
    outcome = play(net, Flows.of([first, third], [third, second], RATE))

    assert width[ends[1 - slow_end]] == 4
    assert net.capacity_bytes_s[list(ends)] == pytest.approx(RATE / 4)
    assert outcome.finish_s == pytest.approx([4.0, 4.0])


def test_instants_and_times_are_those_of_fractions() -> None:
    """A double tree in chunks: its instants lie close together, and no rounding joins or parts them."""
    fabric = grow_tree((4, 4), (1, 4), (1, 1))
    network = Network.of(routing.route(fabric, "fat-tree"), latency_s=0)
    flows = collective("allreduce", fabric.ends(role="compute"), "1 MiB", "double-binary-tree", chunks=8).flows(fabric)
    found = play(network, flows)

    routes, capacity = found.routes, [Fraction(rate) for rate in network.capacity_bytes_s.tolist()]
    crossed = [routes.resource[slice(*routes.offset[at : at + 2])].tolist() for at in routes.route.tolist()]
    awaited = [set(flows.dep[slice(*flows.dep_offset[at : at + 2])].tolist()) for at in range(len(flows))]
    left = [Fraction(size) for size in flows.size_bytes.tolist()]
    finish, now = dict[int, Fraction](), Fraction(0)
    while len(finish) < len(flows):
        ready = [flow for flow in range(len(flows)) if flow not in finish and awaited[flow] <= finish.keys()]
        # The first of each connection moves; chunks are ready in the order of their numbers.
        moving = [*{flows.connection[flow]: flow for flow in reversed(ready)}.values()]
        rate, room = dict[int, Fraction](), dict(enumerate(capacity))
        while len(rate) < len(moving):  # water-filling: the least level of all fills first
            users = Counter(link for flow in moving if flow not in rate for link in crossed[flow])
            level, full = min((room[link] / n, link) for link, n in users.items())
            for flow in moving:
                if flow not in rate and full in crossed[flow]:
                    rate[flow] = level
                    for link in crossed[flow]:
                        room[link] -= level
        step = min(left[flow] / rate[flow] for flow in moving)
        now += step
        for flow in moving:
            left[flow] -= step * rate[flow]
            if left[flow] == 0:
                finish[flow] = now

    assert found.n_events == 1 + len(set(finish.values()))
    exact = [float(finish[flow]) for flow in range(len(flows))]
    np.testing.assert_allclose(found.finish_s, exact, rtol=1e-13)


def test_same_flows_same_bytes(network: Network) -> None:
    rng = np.random.default_rng(1)
    ends = np.array(hosts(network))
    flows = Flows.of(rng.choice(ends, 300), rng.choice(ends, 300), rng.exponential(1e6, 300))

    assert play(network, flows).finish_s.tobytes() == play(network, flows).finish_s.tobytes()


def test_no_flows(network: Network) -> None:
    assert play(network, Flows.of([], [], [])).makespan_s == 0


def test_refuses_flows_without_a_path(network: Network) -> None:
    first, second = hosts(network)[:2]
    lft = network.tables.lft.copy()
    lft[:, network.tables.lid[second]] = NO_PATH
    broken = Network.of(Routed(network.fabric, RoutingTables(network.tables.lid, lft)), latency_s=0)

    with pytest.raises(HeddleError, match=r"flow 1 has no path: .* has no entry"):
        play(broken, Flows.of([first, first], [first, second], 1.0))
    with pytest.raises(HeddleError, match="flow 0 has dst 9999; end ports are 0 to"):
        play(network, Flows.of(first, 9999, 1.0))


def test_refuses_impossible_options(network: Network) -> None:
    for options in ({"latency_s": -1.0}, {"host_gbps": 0.0}, {"lane_weights": [1, 0]}):
        with pytest.raises(HeddleError, match="found"):
            Network.of(Routed(network.fabric, network.tables), **options)  # type: ignore[arg-type]
