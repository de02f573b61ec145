"""Virtual lanes: a link is shared by weight, then a lane by its flows; and nothing is left that somebody could use."""

from dataclasses import replace

import numpy as np
import pytest

from helpers.fluids import hosts, moving, routed, uses
from helpers.strategies import slow_but
from helpers.trees import grow_tree
from routing.routed import Routed
from routing.tables import RoutingTables
from simulate import Fluid, play
from simulate.traffic.flows import Flows
from simulate.traffic.network import Devices, Network
from topo.errors import HeddleError
from topo.fabric import Fabric

RATE = 25e9


def laned(fabric: Fabric, weights: list[float], devices: Devices | None = None) -> Network:
    tables = routed(fabric)
    tables = RoutingTables(tables.lid, tables.lft, sl2vl=(*range(15), 0))
    options = {} if devices is None else {"devices": devices}
    return Network.of(Routed(fabric, tables), lane_weights=weights, latency_s=0, **options)


@pytest.fixture(scope="module")
def star() -> Fabric:
    return grow_tree((6,), (1,), (1,))


def rates(network: Network, flows: Flows) -> np.ndarray:
    net = Fluid(network)
    for src, dst, size, sl in zip(flows.src, flows.dst, flows.size_bytes, flows.sl, strict=True):
        net.begin(int(src), int(dst), float(size), sl=int(sl))
    net.advance(net.next_event_s)
    now = moving(net)
    result = np.zeros(len(flows))
    result[now.flow] = now.rate_bytes_s
    return result


def test_lanes_share_by_weight_and_flows_share_a_lane(star: Fabric) -> None:
    network = laned(star, [3.0, 1.0])
    a, b, c, d, e, last = hosts(network)
    flows = Flows.of([a, b, c, d, e], last, 1e9, sl=[0, 0, 0, 1, 1])

    assert rates(network, flows) / RATE == pytest.approx([1 / 4] * 3 + [1 / 8] * 2)


def test_what_a_lane_leaves_goes_to_the_others_by_weight(star: Fabric) -> None:
    network = laned(star, [2.0, 1.0, 1.0])
    a, b, c, d, last, other = hosts(network)
    # Lane 0 has one flow to the last host, and seven others leave its source: it can use an eighth of the link.
    flows = Flows.of([a] * 8 + [b, c, d], [last] + [other] * 7 + [last] * 3, 1e9, sl=[0] * 8 + [1, 2, 2])

    assert rates(network, flows)[[0, 8, 9, 10]] / RATE == pytest.approx([1 / 8, 7 / 16, 7 / 32, 7 / 32])


def test_one_lane_of_several_is_the_network_without_lanes_until_a_flow_comes_on_another(star: Fabric) -> None:
    several, one = laned(star, [2.0, 1.0, 1.0]), laned(star, [1.0])
    *senders, last = hosts(several)
    for sl in (0, 2):
        ends = [
            play(network, Flows.of(senders, last, np.arange(1, 6) * 1e8, sl=level)).finish_s
            for network, level in ((several, sl), (one, 0))
        ]
        assert np.array_equal(*ends)

    net = Fluid(several)
    net.begin(senders[0], last, 1e9, sl=1)
    net.advance(0.01)  # alone, by the whole link
    net.begin(senders[1], last, 1e9, sl=0)
    assert [ended.finish_s for ended in net.advance()] == pytest.approx([0.01 + 1e9 / (2 / 3 * RATE)])


def test_a_lane_alone_has_the_whole_link(star: Fabric) -> None:
    network = laned(star, [1.0, 100.0])
    first, second = hosts(network)[:2]

    assert play(network, Flows.of(first, second, RATE, sl=0)).finish_s == pytest.approx([1.0])


@pytest.mark.slow
def test_lanes_do_not_matter_inside_a_host(star: Fabric) -> None:
    end = star.n_switches
    one = np.array([0, 1, 2])
    nothing = np.zeros(0, np.int32)
    devices = Devices(
        end_port=np.array([end, end]),
        capacity_bytes_s=np.array([8e9]),
        names=("memory",),
        send_offset=one,
        send_resource=np.array([0, 0]),
        send_use=np.ones(2),
        receive_offset=np.zeros(3, np.int64),
        receive_resource=nothing,
        receive_use=np.zeros(0),
    )
    network = laned(star, [3.0, 1.0], devices)
    device = star.n_end_ports
    flows = Flows.of([device, device + 1], [end + 1, end + 2], 1e9, sl=[0, 1])

    assert rates(network, flows) == pytest.approx([4e9, 4e9])


def test_one_lane_of_many_is_plain_max_min(star: Fabric) -> None:
    fabric = grow_tree((4, 4), (1, 3), (1, 1))
    network = laned(fabric, [1.0, 5.0])
    plain = Network.of(Routed(fabric, network.tables), lane_weights=1, latency_s=0)
    rng = np.random.default_rng(2)
    ends = np.array(hosts(network))
    flows = Flows.of(rng.choice(ends, 200), rng.choice(ends, 200), rng.exponential(1e6, 200), sl=1)

    assert play(network, flows).finish_s == pytest.approx(play(plain, flows).finish_s, rel=1e-9)


@pytest.mark.parametrize("seed", slow_but([*range(10), 90], 1))
def test_every_bottleneck_is_full_and_fair_at_every_event(seed: int) -> None:
    """In aggregates of two routes with one seed, in none with the next."""
    rng = np.random.default_rng(seed)
    fabric = grow_tree(*[((4, 4), (1, 3), (1, 1)), ((3, 3, 3), (1, 2, 2), (1, 1, 1))][seed % 2])
    weight = rng.choice([1.0, 2.0, 8.0], 3)
    network = laned(fabric, weight.tolist())
    ends, n = np.array(hosts(network)), 120
    src = rng.choice(ends, n)
    dst = (src - ends[0] + rng.integers(1, len(ends), n)) % len(ends) + ends[0]
    size = rng.choice([1e6, 2e6], n) if seed < 3 else rng.exponential(1e6, n)
    flows = Flows.of(src, dst, size, sl=rng.integers(0, 3, n))
    use, capacity = uses(network, flows), network.capacity_bytes_s
    net = Fluid(network, n_bins=16, aggregate_from=2 * (seed % 4 > 1))
    for flow in range(n):
        net.begin(int(src[flow]), int(dst[flow]), size[flow], sl=int(flows.sl[flow]))
    while net.under_way:
        net.advance(net.next_event_s)
        flow, rate, bottleneck = moving(net)
        on_lane = np.stack([np.where(flows.sl[flow] == lane, rate, 0.0) @ use[flow] for lane in range(3)])
        assert np.all(on_lane.sum(axis=0) <= capacity * (1 + 1e-9))
        for mine, lane, link in zip(rate, flows.sl[flow], bottleneck, strict=True):
            assert on_lane[:, link].sum() == pytest.approx(capacity[link], rel=1e-9)
            assert rate[(use[flow][:, link] > 0) & (flows.sl[flow] == lane)].max() <= mine * (1 + 1e-9)
            assert np.all(on_lane[:, link] / weight <= on_lane[lane, link] / weight[lane] * (1 + 1e-9))
    moved = np.stack([size[flows.sl == lane] @ use[flows.sl == lane] for lane in range(3)])
    timeline = net.timeline
    assert timeline.lane_bytes_s.sum(axis=2) * timeline.bin_s == pytest.approx(moved, rel=1e-9)


def test_a_level_without_a_weight_is_refused(star: Fabric) -> None:
    network = laned(star, [1.0, 1.0])
    first, second = hosts(network)[:2]
    with pytest.raises(HeddleError, match=r"flow 0 has service level 2, which is virtual lane 2; .* lanes 0 to 1"):
        play(network, Flows.of(first, second, 1.0, sl=2))


def test_the_tables_say_on_which_level_a_path_goes(star: Fabric) -> None:
    tables = routed(star)
    path_sl = np.full_like(tables.lft, 3)
    tables = RoutingTables(tables.lid, tables.lft, path_sl, sl2vl=(*range(15), 0))
    network = Network.of(Routed(star, tables), lane_weights=[1.0] * 5, latency_s=0)
    first, second = hosts(network)[:2]

    flows = Flows.of([first, first], second, 1.0, sl=[0, 4])
    assert network.routes(flows.src, flows.dst, flows.sl).lane.tolist() == [3, 4]


@pytest.mark.parametrize("seed", range(6))
def test_times_are_as_much_longer_as_links_are_slower(star: Fabric, seed: int) -> None:
    """Down to a byte a second: nothing is added to what a lane wants, however little that is."""
    rng, network = np.random.default_rng(seed), laned(star, [3.0, 1.0, 1.0])
    ends = np.array(hosts(network))
    flows = Flows.of(rng.choice(ends, 12), rng.choice(ends, 12), rng.uniform(1, 2, 12), sl=rng.choice(3, 12))
    slow = replace(network, capacity_bytes_s=network.capacity_bytes_s / RATE)
    assert play(slow, flows).finish_s == pytest.approx(play(network, flows).finish_s * RATE, rel=1e-9)
