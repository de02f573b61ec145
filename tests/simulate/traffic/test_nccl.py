"""NCCL on servers with one adapter: closed forms of ring and tree."""

import numpy as np
import pytest

from helpers.collectives import play as play_numbers
from helpers.servers import PCIE_A100, binding, ends, outcome_of, routed_tree
from simulate.traffic.collectives.trees import depths, tree_allreduce
from simulate.traffic.nccl import nccl_ring, nccl_tree, nccl_trees
from simulate.traffic.node import Servers
from topo.errors import HeddleError

MIB = 2.0**20
DIRECT = 9 * 2.0**30
"""GPU to adapter, bytes a second."""


def servers(n: int) -> Servers:
    return Servers(PCIE_A100, routed_tree()[0], ends(n))


def test_every_gpu_sends_twice_all_but_its_own_block_around_the_ring() -> None:
    on = servers(4)
    outcome = outcome_of(on, nccl_ring(on, 64 * MIB))
    names = np.array([name.split(" ", 1)[1] for name in on.devices.names])
    sent = outcome.resource_bytes[outcome.network.fabric.n_ports :]

    for gpu in range(8):
        assert sent[names == f"PCIe from GPU {gpu}"] == pytest.approx(2 * 31 / 32 * 64 * MIB)


@pytest.mark.parametrize("n", [2, 4, 16])
def test_the_way_from_gpu_to_adapter_bounds_the_ring(n: int) -> None:
    """9 GiB/s make 4.8 GB/s of allreduce, which is what the paper finds plausible (section IV-D2)."""
    on = servers(n)
    outcome = outcome_of(on, nccl_ring(on, 1024 * MIB))
    bound = 2 * (8 * n - 1) / (8 * n) * 1024 * MIB / DIRECT

    assert "straight" in binding(outcome)
    assert bound * (1 - 1e-9) < outcome.makespan_s < 1.02 * bound


def test_the_tree_sends_twice_through_every_adapter() -> None:
    on = servers(8)
    outcome = outcome_of(on, nccl_tree(on, 1024 * MIB))

    assert "straight" in binding(outcome)
    assert 2 * 1024 * MIB / DIRECT < outcome.makespan_s < 1.02 * 2 * 1024 * MIB / DIRECT


@pytest.mark.parametrize("n_servers", [1, 2, 3, 6])
def test_trees_are_chains_below_a_tree_of_servers(n_servers: int) -> None:
    for tree in nccl_trees(n_servers, 8):
        server = np.arange(len(tree)) // 8
        crossing = (tree >= 0) & (server != tree // 8)
        assert crossing.sum() == n_servers - 1
        assert depths(tree).max() < 8 + 2 * n_servers.bit_length()


def test_the_tree_sums_every_gpu() -> None:
    rng = np.random.default_rng(0)
    buffers = rng.integers(0, 100, (24, 6))
    ended = play_numbers(tree_allreduce(nccl_trees(3, 8), 3), buffers, rng)

    assert np.array_equal(ended, np.tile(buffers.sum(axis=0), (24, 1)))


@pytest.mark.parametrize("make", [nccl_ring, nccl_tree])
def test_refuses_nothing_to_reduce(make: object) -> None:
    with pytest.raises(HeddleError, match="above 0"):
        make(servers(2), 0.0)
