"""Packets deadlock where tables have credit loops and load closes them, and nowhere else."""

import numpy as np
import pytest

from helpers.zones import random_zones
from routing.engines.base import route
from routing.proof import prove
from routing.routed import Routed
from simulate import Flows, Network, PacketModel, play
from simulate.engines import DeadlockError
from topo.cluster import preset
from topo.errors import HeddleError
from topo.fabric import Fabric

PACKET = 4096


def permutations(fabric: Fabric, seed: int, times: int = 3) -> Flows:
    ends, rng = fabric.ends(role="compute"), np.random.default_rng(seed)
    return Flows.of(np.tile(ends, times), np.concatenate([rng.permutation(ends) for _ in range(times)]), 64 * PACKET)


def loaded(routed: Routed) -> Network:
    return Network.of(routed, hop_latency_s=150e-9, latency_s=0)


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "inputs"), [(2, "fifo"), (5, "voq"), (6, "fifo"), (18, "fifo"), (20, "voq")])
def test_minhop_on_joined_zones_deadlocks_in_a_circle_of_its_credit_loops(seed: int, inputs: str) -> None:
    fabric = random_zones(seed)
    routed = route(fabric, "minhop")
    assert prove(routed).credit_loops
    with pytest.raises(DeadlockError) as caught:
        play(loaded(routed), permutations(fabric, 0), engine=PacketModel(inputs=inputs))
    deadlock, depends = caught.value.deadlock, prove(routed).depends[0]
    assert caught.value.exit_code == 1
    for channel, following in zip(deadlock.channel, np.roll(deadlock.channel, -1), strict=True):
        assert fabric.peer_node[channel] == fabric.port_node[following]
        word, bit = divmod(int(fabric.port_number[following]), 64)
        assert int(depends[channel, word]) >> bit & 1, "the tables turn so"
    assert deadlock.held >= 8 * len(deadlock.channel), "every buffer of the circle is full"
    assert fabric.channel_label(deadlock.channel[0]) in str(caught.value)
    assert "<svg" in deadlock.draw().svg


@pytest.mark.slow
@pytest.mark.parametrize("name", ["zones-2", "zones-5", "hyperx", "dragonfly", "slim-fly"])
def test_tables_of_ours_never_deadlock(name: str) -> None:
    fabric = random_zones(int(name[-1])) if name.startswith("zones") else preset(name).fabric
    network = loaded(route(fabric))
    for seed in range(100):
        inputs = "voq" if seed % 2 else "fifo"
        model = PacketModel(inputs=inputs, buffer_bytes=(8, 2, 1)[seed % 3] * 4096)
        outcome = play(network, permutations(fabric, seed), engine=model)
        assert (outcome.finish_s > 0).sum() == (outcome.flows.src != outcome.flows.dst).sum()


def test_it_is_an_error_of_ours_with_a_message() -> None:
    assert issubclass(DeadlockError, HeddleError)
