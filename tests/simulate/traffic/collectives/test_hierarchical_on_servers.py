"""A hierarchical allreduce on servers whose adapters are slow, beside a flat ring: closed forms."""

from dataclasses import replace

import numpy as np
import pytest

from helpers.servers import PCIE_A100, ends, model, routed_tree
from routing.routed import Routed
from simulate import play
from simulate.engines.outcome import Outcome
from simulate.traffic.collectives.algorithms import schedule
from simulate.traffic.network import Network
from simulate.traffic.node import Servers

SIZE = 100 * 2.0**20
ADAPTER = 25e9 / 8
GROUPS = np.arange(32) // 8


def run(algorithm: str, servers: Servers) -> Outcome:
    fabric, tables = routed_tree()
    network = Network.of(Routed(fabric, tables), devices=servers.devices, host_gbps=25, latency_s=0)
    return play(network, servers.between_gpus(schedule("allreduce", algorithm, 32, groups=GROUPS).flows(SIZE)))


def gain(servers: Servers) -> float:
    return run("ring", servers).makespan_s / run("hierarchical", servers).makespan_s - 1


def test_a_flat_ring_sends_almost_twice_through_the_adapter() -> None:
    on = Servers(PCIE_A100, routed_tree()[0], ends(4))

    assert run("ring", on).makespan_s == pytest.approx(2 * 31 / 32 * SIZE / ADAPTER)


def test_with_endless_bridges_the_gain_is_that_of_the_bytes() -> None:
    """1.9375 / 1.5: the most that a hierarchical allreduce can gain here, whatever the claims."""
    on = Servers(model(nvlink_gpus=8, nvlink_gbyte_per_s=1e9), routed_tree()[0], ends(4), nvlink=True)

    assert gain(on) == pytest.approx((2 * 31 / 32) / (2 * 3 / 4) - 1)


def test_the_time_within_servers_comes_on_top() -> None:
    on = Servers(replace(PCIE_A100, nvlink_gpus=8), routed_tree()[0], ends(4), nvlink=True)
    within = 2 * 7 / 8 * SIZE / 300e9

    assert run("hierarchical", on).makespan_s == pytest.approx(2 * 3 / 4 * SIZE / ADAPTER + within)


def test_over_pcie_the_gain_is_smaller() -> None:
    """A ring within enters the root port to GPU 5 and leaves it from GPU 6, so that a step has 37.5 / 2 GB/s at least.

    Ranks go on to the next phase one by one, so the phases overlap a little.
    """
    on = Servers(PCIE_A100, routed_tree()[0], ends(4))
    across, within = 2 * 3 / 4 * SIZE / ADAPTER, 2 * 7 / 8 * SIZE / (37.5e9 / 2)

    assert across + within * 18.75 / 27 < run("hierarchical", on).makespan_s < across + within
    assert 0 < gain(on) < 0.29
