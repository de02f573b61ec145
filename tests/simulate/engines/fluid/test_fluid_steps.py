"""The network step by step: fair at every instant, the same as in a batch, and never too small."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from helpers.audit import audit
from helpers.fluids import fair_rates, hosts, moving, routed, uses
from helpers.strategies import nightly
from helpers.trees import grow_tree
from routing.routed import Routed
from simulate import Fluid, play
from simulate.engines.fluid.aggregates import _find_share, _list_share, _unlist_share
from simulate.traffic.flows import Flows, Order
from simulate.traffic.network import Network
from topo.errors import HeddleError


@pytest.fixture(scope="module")
def network() -> Network:
    fabric = grow_tree((4, 4), (1, 3), (1, 1))
    return Network.of(Routed(fabric, routed(fabric)), latency_s=0)


def some_flows(network: Network, n: int, seed: int, *, ties: bool) -> Flows:
    rng = np.random.default_rng(seed)
    ends = np.array(hosts(network))
    src = rng.choice(ends, n)
    dst = (src - ends[0] + rng.integers(1, len(ends), n)) % len(ends) + ends[0]
    size = rng.choice([1e6, 2e6, 3e6], n) if ties else rng.exponential(2e6, n)
    start = rng.choice(np.arange(8) * 1e-4, n) if ties else rng.uniform(0, 8e-4, n)
    return Flows.of(src, dst, size, start_s=start)


@pytest.mark.slow
@pytest.mark.parametrize("order", ["peer", "adapter", "none"])
@pytest.mark.parametrize("seed", [0, 1, nightly(2), nightly(3)])
def test_order_is_the_same_in_a_batch_and_in_steps(network: Network, order: Order, seed: int) -> None:
    flows = some_flows(network, 300, seed, ties=True)
    rng = np.random.default_rng(seed)
    flows = flows.waiting(np.arange(20, 300), rng.integers(0, 20, 280)).in_order(order)
    batch, net = play(network, flows), Fluid(network, aggregate_from=0)
    ends: dict[int, float] = {}
    for turn in range(2):  # places and connections are used again
        begun = net.begin_all(flows)
        at = net.now_s
        while net.under_way:
            ended = net.advance()
            audit(net)
            ends |= {item.flow - begun.start: item.finish_s - at for item in ended}
            net = Fluid.restored(network, net.snapshot()) if len(ends) % 50 == turn else net
        assert [ends[flow] for flow in range(300)] == pytest.approx(batch.finish_s, rel=1e-9)
    held = np.array([ends[flow] for flow in range(300)])
    key = flows.src * 1000 + flows.dst * (order == "peer")
    if order != "none":  # nobody on a connection ends together with another
        assert len(np.unique(np.stack([key, np.round(held, 12)]), axis=1).T) == 300


def with_odd_links(network: Network, rng: np.random.Generator) -> Network:
    """The same with links of many rates: some hold back many routes, others are never full."""
    rate = network.capacity_bytes_s * rng.choice([0.05, 0.3, 1.0, 4.0], len(network.capacity_bytes_s))
    return replace(network, capacity_bytes_s=rate)


@pytest.mark.slow
@pytest.mark.parametrize("aggregate", [0, 2])
@pytest.mark.parametrize("ties", [True, False])
@pytest.mark.parametrize("seed", [0, 1, nightly(2), nightly(3)])
def test_rates_are_max_min_fair_at_every_event(network: Network, seed: int, ties: bool, aggregate: int) -> None:
    flows = some_flows(network, 150, seed, ties=ties)
    network = with_odd_links(network, np.random.default_rng(seed)) if aggregate else network
    use = uses(network, flows)
    net = Fluid(network, aggregate_from=aggregate)
    for flow in np.argsort(flows.start_s):
        net.begin(int(flows.src[flow]), int(flows.dst[flow]), flows.size_bytes[flow], at_s=flows.start_s[flow])
    of_number = np.argsort(flows.start_s)
    while net.under_way:
        net.advance(net.next_event_s)
        number, rate, bottleneck = moving(net)
        flow = of_number[number]
        load = rate @ use[flow]

        assert rate == pytest.approx(fair_rates(network.capacity_bytes_s, use[flow]), rel=1e-9)
        # The certificate: no link too full, each bottleneck full and no flow on it faster.
        assert np.all(load <= network.capacity_bytes_s * (1 + 1e-11))
        assert load[bottleneck] == pytest.approx(network.capacity_bytes_s[bottleneck], rel=1e-11)
        for mine, link in zip(rate, bottleneck, strict=True):
            assert rate[use[flow][:, link] > 0].max() <= mine * (1 + 1e-11)


@pytest.mark.slow
def test_equals_a_batch_and_grows(network: Network) -> None:
    flows = some_flows(network, 1500, 9, ties=False)
    net = Fluid(network, n_bins=16)
    finish = np.zeros(len(flows))
    order = np.argsort(flows.start_s)
    for flow in order:
        while net.next_event_s < flows.start_s[flow]:
            for ended in net.advance(flows.start_s[flow]):
                finish[order[ended.flow]] = ended.finish_s
        net.begin(int(flows.src[flow]), int(flows.dst[flow]), flows.size_bytes[flow], at_s=flows.start_s[flow])
    while net.under_way:
        for ended in net.advance():
            finish[order[ended.flow]] = ended.finish_s
    batch = play(network, flows, n_bins=64)

    assert finish == pytest.approx(batch.finish_s, rel=1e-12)
    assert net.loads() == pytest.approx(batch.resource_bytes)
    for timeline in (net.timeline, batch.timeline):
        assert timeline is not None
        assert timeline.load_bytes_s.sum(axis=1) * timeline.bin_s == pytest.approx(batch.resource_bytes, rel=1e-9)
        assert np.all(timeline.load_bytes_s <= network.capacity_bytes_s[:, None] * (1 + 1e-9))


def test_time_passes_without_flows(network: Network) -> None:
    net = Fluid(network)
    assert net.next_event_s == np.inf
    assert net.advance(2.0) == []
    assert net.now_s == 2.0

    first, second = (host for host in hosts(network)[:2])
    number = net.begin(first, second, 25e9)
    assert [ended.flow for ended in net.advance()] == [number]
    assert net.now_s == pytest.approx(3.0)


def test_refuses_the_past_and_the_unknown(network: Network) -> None:
    net = Fluid(network)
    net.advance(1.0)
    first, second = (host for host in hosts(network)[:2])
    with pytest.raises(HeddleError, match="already"):
        net.begin(first, second, 1.0, at_s=0.5)
    with pytest.raises(HeddleError, match="-1"):
        net.begin(first, second, -1.0)
    with pytest.raises(HeddleError, match="service level 16"):
        net.begin(first, second, 1.0, sl=16)
    with pytest.raises(HeddleError, match="end ports are 0 to"):
        net.begin(first, 10_000, 1.0)


def test_many_flows_begin_as_one_by_one(network: Network) -> None:
    flows = some_flows(network, 700, 3, ties=True)
    one, many = Fluid(network), Fluid(network)
    assert many.begin_all(replace(flows, start_s=np.zeros(700))) == range(700)
    for flow in range(700):
        one.begin(int(flows.src[flow]), int(flows.dst[flow]), flows.size_bytes[flow])
    while one.under_way:
        assert sorted(one.advance()) == sorted(many.advance())
    assert many.under_way == 0
    with pytest.raises(HeddleError, match="already"):
        Fluid(network).begin_all(Flows.of([1], [2], 1.0), at_s=-1.0)


@pytest.mark.slow
def test_goes_on_from_a_snapshot_to_the_last_bit(network: Network) -> None:
    flows = some_flows(network, 600, 5, ties=False)

    def play(stop: int | None) -> list[object]:
        net = Fluid(network, n_bins=8, aggregate_from=0)
        found: list[object] = []
        for part, time in ((slice(0, 300), 0.0), (slice(300, 600), 3e-4)):
            while net.next_event_s < time:
                found += net.advance(time)
            net.begin_all(Flows.of(flows.src[part], flows.dst[part], flows.size_bytes[part]))
            for _ in range(100):
                if len(found) == stop:
                    net = Fluid.restored(network, net.snapshot())
                found += net.advance()
        while net.under_way:
            found += net.advance()
            audit(net)
        return [found, net.loads().tobytes(), net.timeline.load_bytes_s.tobytes()]

    whole = play(None)
    assert len(whole[0]) == 600  # type: ignore[arg-type]
    for stop in (1, 57, 140, 199):
        assert play(stop) == whole


def test_nothing_is_forgotten_when_arrays_grow(network: Network) -> None:
    flows = some_flows(network, 700, 11, ties=False)
    net = Fluid(network, aggregate_from=0)
    net.begin_all(Flows.of(flows.src[:100], flows.dst[:100], flows.size_bytes[:100]))
    net.advance()
    net.begin_all(Flows.of(flows.src[100:], flows.dst[100:], flows.size_bytes[100:], start_s=1.0))
    audit(net)


def test_refuses_a_snapshot_of_another_network(network: Network) -> None:
    arrays = Fluid(network, aggregate_from=0).snapshot()
    with pytest.raises(HeddleError, match="other rates"):
        Fluid.restored(Network.of(Routed(network.fabric, network.tables), host_gbps=1, latency_s=0), arrays)
    with pytest.raises(HeddleError, match="arrays of other shapes"):
        Fluid.restored(network, arrays | {"state.moves": np.zeros(3)})
    del arrays["own.sent"]
    with pytest.raises(HeddleError, match=r"own\.sent"):
        Fluid.restored(network, arrays)


def test_the_audit_sees_one_changed_number(network: Network) -> None:
    """Each column that kernels follow, spoilt in turn while flows are under way."""
    flows = some_flows(network, 300, 7, ties=False).in_order("adapter")
    net = Fluid(network, aggregate_from=0)
    net.begin_all(flows)
    for _ in range(60):
        net.advance()
    audit(net)
    slot = int(np.flatnonzero(net._state.classes["flows"])[0])
    first = slot << int(net._state.now["shift"][0])
    member = int(net._state.links["first"][net._state.hops["link"][first]])
    for array, field, at in (
        (net._state.hops, "link", first),
        (net._state.hops, "place", first),
        (net._state.members, "slot", member),
        (net._state.links, "load", int(np.argmax(net._state.links["load"]))),
        (net._state.classes, "first", slot),
        (net._state.classes, "flows", slot),
        (net._state.routes, "slot", int(net._state.classes["route"][slot])),
        (net._state.connections, "left", int(np.argmax(net._state.connections["left"]))),
        (net._state.moves, "left", int(net._state.classes["first"][slot])),
    ):
        before = array[field][at]
        array[field][at] = 10**9
        with pytest.raises((AssertionError, IndexError)):
            audit(net)
        array[field][at] = before
    audit(net)


@pytest.mark.parametrize("seed", range(10))
def test_lists_of_shares_are_lists(seed: int) -> None:
    """Shares of two aggregates enter and leave their near and far lists at random, as they would in Python's."""
    rng = np.random.default_rng(seed)
    aggregates = np.rec.array(np.full(2, -1, [("near", int), ("far", int), ("shares", int)]))
    shares = np.rec.array(np.full(8, -1, [("aggregate", int), ("next", int), ("prev", int), ("link", int)]))
    links = np.rec.array(np.zeros(10, [("first", int), ("count", int), ("unsaturated", bool)]))
    links["count"] = 9  # more than an aggregate has shares, so that its lists are looked through
    shares["link"] = np.arange(2, 10)
    state = SimpleNamespace(links=links, members=None, aggregates=aggregates, shares=shares)
    shares["aggregate"] = rng.integers(2, size=8)
    lists: dict[tuple[int, bool], list[int]] = {(one, far): [] for one in range(2) for far in (False, True)}
    where: dict[int, bool] = {}
    for _ in range(60):
        share, before = int(rng.integers(8)), shares.copy()
        owner = int(shares["aggregate"][share])
        if share in where:
            far = where.pop(share)
            lists[owner, far].remove(share)
            _unlist_share.py_func(aggregates, shares, share, far)
            others = [one for one in range(8) if shares["aggregate"][one] != owner]
            assert (shares[others] == before[others]).all()
        else:
            where[share] = links["unsaturated"][share + 2] = bool(rng.random() < 0.5)
            lists[owner, where[share]].insert(0, share)
            _list_share.py_func(aggregates, shares, share, where[share])
        for (one, far), wanted in lists.items():
            at, prev, found = int(aggregates[one].far if far else aggregates[one].near), -1, []
            while at >= 0 and len(found) < 9:
                assert shares[at].prev == prev
                found.append(at)
                at, prev = int(shares[at].next), at
            assert found == wanted
        for one in range(8):
            found_share = _find_share.py_func(state, one + 2, int(shares["aggregate"][one]))
            assert found_share == (one if one in where else -1)


@pytest.mark.parametrize("seed", range(8))
def test_times_are_as_much_longer_as_links_are_slower(seed: int) -> None:
    """Flows come to and go from links that are half empty, at 25 GB/s and at a byte in a thousand seconds."""
    rng, fabric = np.random.default_rng(seed), grow_tree((4, 3), (1, 2), (1, 1))
    network = Network.of(Routed(fabric, routed(fabric)), lane_weights=1, latency_s=0)
    slower = 25e12
    ends = np.array(hosts(network))
    src, dst = rng.choice(ends, (2, 60))
    size, start = rng.uniform(0.1, 1, 60), rng.uniform(0, 3, 60)
    slow = replace(network, capacity_bytes_s=network.capacity_bytes_s / slower)
    fast = Fluid(network, aggregate_from=2).play(Flows.of(src, dst, size * 25e9, start_s=start)).finish_s
    found = Fluid(slow, aggregate_from=2).play(Flows.of(src, dst, size * 25e9 / slower, start_s=start)).finish_s
    assert found == pytest.approx(fast, rel=1e-9)
