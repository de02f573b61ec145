"""Roots, trees and victims where they are known by construction."""

from dataclasses import replace

import numpy as np
import pytest

from helpers.packets import line, network
from simulate import Flows, PacketModel, find_saturation, play
from topo.errors import HeddleError

TO_8 = ([2, 3, 4, 5, 6, 7], [8, 8, 8, 9, 8, 8])


@pytest.mark.parametrize("inputs", ["fifo", "voq"])
def test_the_flow_beside_a_hot_spot_is_its_victim_until_it_has_a_lane(inputs: str) -> None:
    model = PacketModel(inputs=inputs, window_packets=0)
    found = find_saturation(play(network(line(4, 4)), Flows.of(*TO_8, 1e6), engine=model))
    assert found.victim.tolist() == [False, False, False, True, False, False]
    assert found.cause.tolist() == [True, True, True, False, True, True]
    assert found.roots.to_dict()["link"] == ["switch1:3 -> host1-2 mlx5_0:1"]
    # The trunk and the links of all six sources stand still.
    assert found.tree.sum() == 7
    assert "<svg" in found.draw().svg
    laned = network(line(4, 4), weights=[64, 64])
    apart = find_saturation(play(laned, Flows.of(*TO_8, 1e6, sl=[0, 0, 0, 1, 0, 0]), engine=model))
    assert not apart.victim.any()
    assert apart.slowdown[3] < found.slowdown[3] / 2


def test_where_nothing_is_shared_nothing_stands_still() -> None:
    found = find_saturation(play(network(line(4, 4)), Flows.of([2, 6], [3, 7], 1e6), engine="packets"))
    assert not found.tree.any()
    assert not found.root.any()
    assert found.slowdown == pytest.approx(np.ones(2), rel=0.01)


def test_buffers_fill_before_a_hot_spot_and_nowhere_else() -> None:
    net = network(line(4, 4))
    outcome = PacketModel(buffer_bytes=8 * 4096, window_packets=0)(net, n_bins=8).play(Flows.of(*TO_8, 1e6))
    met = outcome.congestion
    assert met is not None
    found = find_saturation(outcome)
    half = met.filled.shape[2] // 2
    filled = met.filled[:, : net.fabric.n_ports, 1:half].mean(axis=2)
    assert filled[found.tree].min() > 6 * 4096
    assert met.filled.max() <= 8 * 4096
    assert met.latency_s(50) <= met.latency_s(99) <= met.latency_s(100) <= outcome.makespan_s


def test_fluid_flows_have_none() -> None:
    with pytest.raises(HeddleError, match="expected an outcome of packets"):
        find_saturation(play(network(line(2)), Flows.of(1, 2, 1), engine="fluid"))


@pytest.mark.parametrize(("victims", "worst"), [([1, 3], "1.80"), ([1], "1.20"), ([], "1.00")])
def test_the_worst_victim_is_told(victims: list[int], worst: str) -> None:
    found = find_saturation(play(network(line(4, 4)), Flows.of(*TO_8, 1e6), engine="packets"))
    slowdown = np.array([1.0, 1.2, 9.0, 1.8, 9.0, 9.0])
    shown = replace(found, slowdown=slowdown, victim=np.isin(np.arange(6), victims)).table
    assert f"{worst} times as long" in [row[1] for row in shown.rows()]
