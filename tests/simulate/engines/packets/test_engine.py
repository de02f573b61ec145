"""Packets, credits and lanes: laws whose values are known exactly."""

from dataclasses import replace

import numpy as np
import pytest

from helpers.packets import RATE, SLOT_S, line, network, steady
from helpers.strategies import slow_but
from simulate import Flows, PacketModel, Packets

LONG = 1e9
FIFO, VOQ = PacketModel(inputs="fifo"), PacketModel()


@pytest.mark.slow
@pytest.mark.parametrize(("n", "expected"), [(2, 0.75), (3, 0.6825), (4, 0.6553), (6, 0.6302), (8, 0.6184)])
def test_one_queue_for_each_input_saturates_where_karol_hluchyj_and_morgan_found(n: int, expected: float) -> None:
    # "Input versus output queueing on a space-division packet switch", 1987, table I
    net, packets = network(line(2 * n), hop_s=1e-12), 12_000
    first = net.fabric.n_switches
    rng = np.random.default_rng(n)
    src = np.repeat(first + np.arange(n), packets)
    flows = Flows.of(src, first + n + rng.integers(0, n, len(src)), 4096)
    finish = Packets(net, FIFO).play(flows).finish_s.reshape(n, packets)
    until = finish.max(axis=1).min()
    assert np.count_nonzero(finish <= until) * SLOT_S / (n * until) == pytest.approx(expected, rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "load"), [(2, 0.5), (4, 0.8), (8, 0.6)])
def test_output_queues_make_packets_wait_as_long_as_arrivals_in_slots_do(n: int, load: float) -> None:
    # The same paper: (N - 1) / N * p / (2 (1 - p)) slots
    net, slots = network(line(2 * n), hop_s=1e-12), 60_000
    first = net.fabric.n_switches
    rng = np.random.default_rng(n)
    slot, sender = np.nonzero(rng.random((slots, n)) < load)
    flows = Flows.of(first + sender, first + n + rng.integers(0, n, len(slot)), 4096, start_s=slot * SLOT_S)
    outcome = Packets(net, replace(VOQ, buffer_bytes=256 * 4096)).play(flows)
    wait = outcome.duration_s.mean() / SLOT_S - 1
    assert wait == pytest.approx((n - 1) / n * load / (2 * (1 - load)), rel=0.03)


@pytest.mark.parametrize(
    ("credits", "far", "more"), [(1, 0.1, 0.0), (1, 0.5, 0.25), (2, 0.75, 0.5), (3, 2.0, 0.0), (3, 0.5, 0.0)]
)
def test_few_credits_cap_a_long_link(credits: int, far: float, more: float) -> None:
    net = network(line(2), hop_s=far * SLOT_S)
    model = PacketModel(buffer_bytes=credits * 4096, credit_s=more * SLOT_S)
    rate = steady(net, model, Flows.of(1, 2, LONG))
    assert rate == pytest.approx(min(1.0, credits / (1 + 2 * far + more)), rel=1e-3)


@pytest.mark.parametrize("model", [FIFO, VOQ, PacketModel(window_packets=4)])
@pytest.mark.parametrize("n", [2, 3, 7])
def test_flows_into_one_port_get_equal_parts(n: int, model: PacketModel) -> None:
    rates = steady(network(line(n + 1)), model, Flows.of(1 + np.arange(n), n + 1, LONG))
    assert rates == pytest.approx(np.full(n, 1 / n), rel=5e-3)


def test_parking_lot() -> None:
    rates = steady(network(line(4, 3)), FIFO, Flows.of([2, 3, 4, 5, 6, 7], 8, LONG), 24_000)
    assert rates == pytest.approx([1 / 12] * 4 + [1 / 3] * 2, rel=1e-3)


@pytest.mark.parametrize(
    ("model", "victim", "near"), [(FIFO, 1 / 10, 0.35), (replace(VOQ, window_packets=0), 1 / 9, 1 / 3)]
)
def test_a_victim_behind_a_hot_spot_gets_no_more_than_those_who_cause_it(
    model: PacketModel, victim: float, near: float
) -> None:
    flows = Flows.of([2, 3, 4, 5, 6, 7], [8, 8, 8, 9, 8, 8], LONG)
    rates = steady(network(line(4, 4)), model, flows, 24_000)
    assert rates == pytest.approx([victim] * 4 + [near] * 2, rel=1e-3)


def test_windows_leave_a_victim_more_than_those_who_cause_it() -> None:
    flows = Flows.of([2, 3, 4, 5, 6, 7], [8, 8, 8, 9, 8, 8], LONG)
    rates = steady(network(line(4, 4)), VOQ, flows, 24_000)
    assert rates == pytest.approx([1 / 9] * 3 + [1 / 6] + [1 / 3] * 2, rel=1e-3)


def test_a_lane_of_its_own_frees_the_victim() -> None:
    flows = Flows.of([2, 3, 4, 5, 6, 7], [8, 8, 8, 9, 8, 8], LONG, sl=[0, 0, 0, 1, 0, 0])
    rates = steady(network(line(4, 4), weights=[64, 64]), FIFO, flows, 24_000)
    assert rates == pytest.approx([1 / 9] * 3 + [2 / 3] + [1 / 3] * 2, rel=2e-3)


@pytest.mark.parametrize("switches", [1, 2, 5])
def test_latency_without_load_is_that_of_the_links_and_one_packet(switches: int) -> None:
    hosts = [1] * switches
    hosts[-1] += 1
    net = network(line(*hosts), hop_s=100e-9)
    for size in (0, 64, 4096):
        outcome = Packets(net).play(Flows.of(switches, net.fabric.n_end_ports - 1, size))
        assert outcome.makespan_s == pytest.approx((switches + 1) * 100e-9 + size / RATE, abs=1e-9)


@pytest.mark.parametrize("weights", [[64, 192], [64, 128, 192, 256], [255, 64]])
def test_lanes_that_are_all_busy_get_their_weights(weights: list[float]) -> None:
    n = len(weights)
    net = network(line(n + 1), weights=weights)
    # An entry is used up by whole packets of 4 KiB.
    parts = np.ceil(np.array(weights) / 64)
    rates = steady(net, FIFO, Flows.of(1 + np.arange(n), n + 1, LONG, sl=np.arange(n)))
    assert rates == pytest.approx(parts / parts.sum(), rel=0.01)
    # What an idle lane does not need goes to the others.
    rates = steady(net, FIFO, Flows.of(2 + np.arange(n - 1), n + 1, LONG, sl=1 + np.arange(n - 1)))
    assert rates == pytest.approx(parts[1:] / parts[1:].sum(), rel=0.01)


def test_high_priority_goes_first_up_to_its_limit() -> None:
    net, flows = network(line(3), weights=[64, 64]), Flows.of([1, 2], 3, LONG, sl=[0, 1])
    first = PacketModel(high=((1, 64),))
    assert steady(net, first, flows) == pytest.approx([0, 1], abs=0.01)
    for limit, part in ((0, 1 / 2), (1, 1 / 2), (3, 3 / 4)):
        rates = steady(net, replace(first, high_limit=limit), flows)
        assert rates == pytest.approx([1 - part, part], rel=0.01)


def test_the_same_seed_gives_the_same_bytes() -> None:
    net, rng = network(line(6, 6), weights=[64, 128]), np.random.default_rng(3)
    src, dst = rng.integers(2, 14, (2, 300))
    flows = Flows.of(src, dst, rng.integers(0, 40_000, 300), start_s=rng.random(300) * 1e-5, sl=rng.integers(0, 2, 300))
    one, two = (PacketModel(window_packets=3)(net, n_bins=8).play(flows) for _ in range(2))
    assert one.finish_s.tobytes() == two.finish_s.tobytes()
    assert one.timeline.lane_bytes_s.tobytes() == two.timeline.lane_bytes_s.tobytes()
    # Nothing is lost, and what every flow moved has crossed its links.
    moved = one.timeline.load_bytes_s.sum(axis=1) * one.timeline.bin_s
    assert moved == pytest.approx(one.resource_bytes)


def test_messages_of_a_connection_follow_each_other_without_a_gap() -> None:
    net, sizes = network(line(1, 1)), np.array([40_960, 100, 8192, 0, 65_536])
    apart = Packets(net).play(Flows.of(2, 3, sizes, connection=0)).finish_s
    for n in range(1, len(sizes) + 1):
        whole = Packets(net).play(Flows.of(2, 3, sizes[:n].sum())).makespan_s
        assert apart[n - 1] == pytest.approx(whole, abs=n * SLOT_S / 1000)


def test_a_rendezvous_takes_a_question_and_an_answer() -> None:
    net = network(line(1, 1), hop_s=1e-6)
    flows = Flows.of([2, 2, 2], [3, 3, 2], [4096, 4096, 0], start_s=[0, 1e-3, 0], rendezvous=[False, True, True])
    eager, asked, own = Packets(net).play(flows).finish_s - flows.start_s
    assert asked - eager == pytest.approx(2 * 3e-6, abs=1e-9)
    assert own == 0


@pytest.mark.parametrize("seed", slow_but(range(12), 0, 1, 2))
def test_connections_at_random(seed: int) -> None:
    """What is sent on a connection arrives in the order in which it was ready, in a batch as step by step."""
    rng = np.random.default_rng(seed)
    net, n = network(line(3, 2, 3), hop_s=rng.choice([0.01, 2.0]) * SLOT_S), 120
    model = PacketModel(window_packets=int(rng.choice([0, 3])), inputs=str(rng.choice(["fifo", "voq"])))
    src, dst = rng.integers(3, 11, (2, n))
    waits = np.flatnonzero(rng.random(n) < 0.3)[1:]
    after = (waits, [int(rng.integers(0, flow)) for flow in waits])
    start_s, size = rng.integers(0, 40, n) * SLOT_S, rng.integers(0, 60_000, n)
    flows = Flows.of(src, dst, size, start_s=start_s, rendezvous=rng.random(n) < 0.3, after=after).in_order("peer")
    played, engine = Packets(net, model).play(flows), Packets(net, model)
    runs = [(played.start_s, played.finish_s)]
    for _ in range(2):  # places, connections and acknowledgements of flows that have ended are used again
        base, times = engine.now_s, np.zeros((2, n))
        numbers, left = engine.begin_all(flows), n
        while left:
            for at in engine.advance():
                times[:, at.flow - numbers.start] = at.start_s - base, at.finish_s - base
                left -= 1
        runs.append((times[0], times[1]))
    assert runs[1][1] == pytest.approx(runs[0][1], abs=1e-15)
    for start_s, finish_s in runs:
        for connection in np.unique(flows.connection[flows.connection >= 0]):
            mine = np.flatnonzero(flows.connection == connection)
            in_turn = finish_s[mine[np.argsort(np.rint(start_s[mine] / SLOT_S * 1024), kind="stable")]]
            assert (np.diff(in_turn) >= 0).all()
