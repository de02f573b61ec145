"""A steady state that is repeated by arithmetic gives what playing it gives, bit by bit."""

import numpy as np
import pytest

import simulate
from helpers.packets import SLOT_S, line, network
from helpers.presets import read_preset, routed
from helpers.strategies import slow_but
from simulate import Flows, PacketModel, Packets
from simulate.engines.outcome import Outcome
from simulate.engines.packets.state import RESOLUTION
from simulate.traffic.network import Network


def both(net: Network, model: PacketModel, flows: Flows, n_bins: int = 0) -> tuple[Outcome, Outcome, Packets]:
    """The outcome without repeats, and with them, and the engine of that."""
    plain, engine = Packets(net, model, n_bins=n_bins), Packets(net, model, n_bins=n_bins)
    plain._rules = plain._rules._replace(repeats=False)
    outcomes = plain.play(flows), engine.play(flows)
    assert plain.n_repeated_hops == 0
    return *outcomes, engine


def assert_same(one: Outcome, other: Outcome) -> None:
    """Times, counts, latencies and timelines are the same bytes."""
    assert one.start_s.tobytes() == other.start_s.tobytes()
    assert one.finish_s.tobytes() == other.finish_s.tobytes()
    assert one.bottleneck.tobytes() == other.bottleneck.tobytes()
    for name in ("hops", "sent_bytes", "stalled_s", "waited_s", "latency_packets", "filled"):
        assert np.array_equal(getattr(one.congestion, name), getattr(other.congestion, name)), name
    if one.timeline is not None:
        assert one.timeline.lane_bytes_s.tobytes() == other.timeline.lane_bytes_s.tobytes()


@pytest.mark.parametrize("seed", slow_but(range(40), *range(10)))
def test_random_traffic(seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights = [64.0, 128.0][: rng.integers(1, 3)]
    net, n = network(line(3, 2, 3), rng.choice([0.01, 0.3, 2.0]) * SLOT_S, weights), int(rng.integers(2, 40))
    model = PacketModel(
        window_packets=int(rng.choice([0, 3])),
        inputs=str(rng.choice(["fifo", "voq"])),
        buffer_bytes=int(rng.integers(1, 9)) * 4096,
        credit_s=float(rng.choice([0, 0.4])) * SLOT_S,
    )
    src, dst = rng.integers(3, 11, (2, n))
    waits = np.flatnonzero(rng.random(n) < 0.4)[1:]
    flows = Flows.of(
        src,
        dst,
        rng.integers(0, 3_000_000, n),
        start_s=rng.integers(0, 400, n) * SLOT_S,
        sl=rng.integers(0, len(weights), n),
        rendezvous=rng.random(n) < 0.3,
        after=(waits, [int(rng.integers(0, flow)) for flow in waits]),
    ).in_order(str(rng.choice(["none", "peer", "adapter"])))
    played, repeated, _ = both(net, model, flows, n_bins=int(rng.choice([0, 16])))
    assert_same(played, repeated)


def test_long_messages_that_block_each_other_are_hardly_played() -> None:
    flows = Flows.of([2, 3, 4, 5, 6, 7], [8, 8, 8, 9, 8, 8], [1e8, 1e8, 3e7, 1e8, 1e8, 5e7])
    played, repeated, engine = both(network(line(4, 4)), PacketModel(window_packets=0), flows)
    assert_same(played, repeated)
    assert engine.n_hops > 20 * (engine.n_hops - engine.n_repeated_hops)


@pytest.mark.slow
def test_links_of_several_speeds() -> None:
    """A period need not be a number of packets of the fastest link."""
    fabric = read_preset("hdr-on-ndr").fabric
    net, rng = Network.of(routed(fabric), hop_latency_s=200e-9, latency_s=0), np.random.default_rng(0)
    hosts = fabric.ends()[:24]
    src, dst = rng.choice(hosts, (2, 30))
    played, repeated, engine = both(
        net, PacketModel(window_packets=0), Flows.of(src, dst, rng.integers(1, 5_000_000, 30))
    )
    assert_same(played, repeated)
    assert engine.n_repeated_hops > 0


@pytest.mark.slow
def test_a_training_step_of_128_gpus_is_played_in_a_twentieth_of_its_packets() -> None:
    fabric = read_preset("fire-flyer-2").fabric
    job = {
        "name": "step",
        "kind": "training",
        "rank": "adapter",
        "parallel": "data",
        "model": "vgg16",
        "ranks": 16,
        "within": "zone",
    }
    job |= {"forward": "42.5 ms", "backward": "85 ms", "algorithm": "ring", "bucket": "25 MiB"}
    flows = simulate.parse_workload({"jobs": [job]}, fabric).flows
    net = Network.of(routed(fabric), hop_latency_s=200e-9, latency_s=0)
    played, repeated, engine = both(net, PacketModel(), flows)
    assert_same(played, repeated)
    assert engine.n_hops > 20 * (engine.n_hops - engine.n_repeated_hops)


def test_when_credits_are_looked_up_makes_no_period_longer() -> None:
    """Of eight credits some are on their way, so the sender looks after six or seven packets; all else repeats in one.

    The rows of the first packets fit into what may be written at first, so that the first bin is hardly played.
    """
    engine = Packets(network(line(3, 2, 3), 0.3 * SLOT_S), PacketModel())
    for src, dst in ((3, 5), (5, 7), (7, 9)):
        engine.begin(src, dst, 1e8)
    assert not engine.advance(1000 * SLOT_S)
    assert engine._state.now["period"] == RESOLUTION
    assert engine.n_hops - engine.n_repeated_hops < engine.n_hops / 20
