"""Paths of single pairs: the length of the fabric is the only bound."""

import numpy as np
import pytest

import routing
from helpers.strategies import ring
from routing.routed import Routed
from simulate import play
from simulate.traffic.flows import Flows
from simulate.traffic.network import Network
from simulate.traffic.walks import number_keys, walk


def test_a_chain_of_seventy_switches_is_routed_proven_and_played() -> None:
    circle = ring(70).fabric
    fabric = circle.without(circle.inner_links[:1, 0])
    routed = routing.route(fabric)
    proof = routing.prove(routed)
    assert proof.holds
    assert (proof.pairs, proof.max_hops) == (70 * 69, 70)
    hosts = fabric.ends()
    first, last = hosts[:1], hosts[1:2]  # the cut is between them
    assert len(routing.trace(routed, int(first[0]), int(last[0])).switches) == 70
    outcome = play(Network.of(Routed(fabric, routed.tables), latency_s=0), Flows.of(first, last, [1e6]))
    assert outcome.makespan_s > 0


@pytest.mark.parametrize("count", [90, 9_000])
@pytest.mark.parametrize("largest", [10, 1 << 33, 1 << 62])
def test_keys_are_numbered_as_they_first_occur(largest: int, count: int) -> None:
    keys = np.random.default_rng(0).integers(0, largest, count)
    keys = np.concatenate([keys, keys[::2]])
    known: dict[int, int] = {}
    expected = [known.setdefault(key, len(known)) for key in keys.tolist()]
    number, first = number_keys(keys)
    assert number.tolist() == expected
    assert keys[first].tolist() == list(known)


@pytest.mark.slow
def test_each_path_is_that_of_a_trace_and_a_loop_ends_the_walk() -> None:
    case = ring(5)
    fabric, tables = case.fabric, case.tables
    near, far = (ends.ravel().astype(np.int32) for ends in np.meshgrid(*[np.arange(fabric.n_end_ports)] * 2))
    given = fabric.port_offset, fabric.peer, fabric.peer_node, tables.lid
    offset, channel = walk(*given, tables.lft, near, far)
    for i, (src, dst) in enumerate(zip(near.tolist(), far.tolist(), strict=True)):
        path = routing.trace(routing.Routed(fabric, tables), src, dst).channels if src != dst else ()
        assert tuple(channel[offset[i] : offset[i + 1]].tolist()) == path
    endless = np.where(tables.lft == 3, 1, tables.lft)
    ends = fabric.ends()
    assert len(walk(*given, endless.astype(np.uint8), ends[[0, 0]], ends[[0, 1]])[0]) == 2, "to itself, and no further"
