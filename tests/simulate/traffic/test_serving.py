"""Inference against closed forms: what is sent, and how long it takes where only one thing takes time."""

import numpy as np
import pytest

import simulate
from helpers.clusters import tree
from routing.engines.base import route
from topo.errors import HeddleError

RATE = 25e9
FREE = {"prompt_s": 0.0, "cache_bytes": 0.0, "tokens": 0, "token_s": 0.0, "expert_bytes": 0.0}
ONE = {"requests": 1, "rounds": 1, "layers": 1}


@pytest.fixture(scope="module")
def network() -> simulate.Network:
    return simulate.Network.of(route(tree(20, leaves=2, spines=2)), latency_s=0)


def run(network: simulate.Network, prefill: int, decode: int, **options: float) -> simulate.Outcome:
    flows = simulate.traffic.inference(prefill, decode, **{**FREE, **ONE, **options})
    return simulate.play(network, flows.placed(network.fabric.ends()[: prefill + decode]))


@pytest.mark.parametrize("seed", range(5))
def test_every_cache_and_every_exchange_is_sent_once(seed: int) -> None:
    rng = np.random.default_rng(seed)
    prefill, decode, requests, rounds, layers, tokens = rng.integers(1, 6, 6).tolist()
    flows = simulate.traffic.inference(
        *(prefill, decode),
        **{**FREE, "requests": requests, "rounds": rounds, "layers": layers, "tokens": tokens},
    )
    assert flows.size_bytes.sum() == 0
    counts = {"requests": requests, "rounds": rounds, "layers": layers, "tokens": tokens}
    flows = simulate.traffic.inference(prefill, decode, **{**FREE, **counts, "cache_bytes": 3e6, "expert_bytes": 2e6})
    caches = flows.size_bytes[flows.src < prefill].sum()
    assert caches == pytest.approx(rounds * requests * 3e6)
    exchanged = 2 * rounds * layers * tokens * 2e6 * (decode - 1)
    assert flows.size_bytes.sum() - caches == pytest.approx(exchanged)
    assert (flows.dst[flows.size_bytes > 0] >= prefill).all()


def test_where_one_thing_takes_time_all_takes_that_time(network: simulate.Network) -> None:
    assert run(network, 2, 3, requests=6, prompt_s=0.3).makespan_s == pytest.approx(0.9)
    assert run(network, 1, 3, requests=6, layers=3, cache_bytes=1e9).makespan_s == pytest.approx(6e9 / RATE)
    assert run(network, 3, 1, requests=6, layers=3, cache_bytes=1e9).makespan_s == pytest.approx(6e9 / RATE)
    assert run(network, 1, 4, layers=5, tokens=7, token_s=0.2).makespan_s == pytest.approx(1.4)
    four = run(network, 1, 4, layers=5, tokens=7, expert_bytes=4e6)
    assert four.makespan_s == pytest.approx(5 * 7 * 2 * 3e6 / RATE)


def test_a_cache_is_sent_while_the_next_layer_is_computed(network: simulate.Network) -> None:
    whole = run(network, 1, 1, prompt_s=1.0, cache_bytes=RATE)
    pieces = run(network, 1, 1, layers=10, prompt_s=1.0, cache_bytes=RATE)
    assert whole.makespan_s == pytest.approx(2.0)
    assert pieces.makespan_s == pytest.approx(1.1)


def test_the_next_round_is_prefilled_while_one_is_decoded(network: simulate.Network) -> None:
    same = {"prompt_s": 0.5, "tokens": 1, "token_s": 0.5}
    assert run(network, 1, 1, rounds=4, **same).makespan_s == pytest.approx(2.5)


def test_refuses_pools_without_ranks() -> None:
    with pytest.raises(HeddleError, match="decode"):
        simulate.traffic.inference(1, 0, **FREE, **ONE)
