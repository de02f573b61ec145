"""Programs beside all sets of switches, on networks with much that is alike, which the programs put together."""

from itertools import product

import numpy as np
import pytest

from costmodel.programs import least_cut, spectral_cut


def network(draw: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return links of pods of leaves and spines below cores, some of them gone, and hosts of one or two jobs."""
    pods, leaves, spines, cores = (int(draw.integers(1, most)) for most in (4, 4, 3, 3))
    size = pods * (leaves + spines) + cores
    gbps = np.zeros((size, size))
    hosts = np.zeros((int(draw.integers(1, 3)), size), np.int64)
    for pod in range(pods):
        base = cores + pod * (leaves + spines)
        for leaf, spine in product(range(leaves), range(spines)):
            gbps[base + leaf, base + leaves + spine] = 100 * draw.integers(1, 3)
        hosts[:, base : base + leaves] = draw.integers(0, 4, (len(hosts), 1))
        for spine, core in product(range(spines), range(cores)):
            gbps[core, base + leaves + spine] = 100 * draw.integers(1, 3)
    gbps[draw.random(gbps.shape) < draw.choice([0, 0, 0.1])] = 0
    return gbps + gbps.T, hosts


def worst(gbps: np.ndarray, hosts: np.ndarray) -> float:
    """Return the least over all sets of switches."""
    sets = np.array(list(product([0.0, 1.0], repeat=len(gbps))))
    cut = ((sets @ gbps) * (1 - sets)).sum(axis=1)
    for row in hosts:
        inside, total = sets @ row, row.sum()
        cut += 100.0 * np.maximum(0, np.maximum(total // 2 - inside, total // 2 - (total - inside)))
    return float(cut.min())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30))
def test_the_program_finds_the_worst_of_all_sets_and_the_spectral_bound_is_below_it(seed: int) -> None:
    draw = np.random.default_rng(seed)
    gbps, hosts = network(draw)
    if len(gbps) <= 14 and hosts.sum() > 1:
        least = worst(gbps, hosts)
        assert least_cut(gbps, hosts, 100.0) == (pytest.approx(least), pytest.approx(least))
        assert spectral_cut(gbps, hosts, 100.0) <= least + 1e-6


def test_a_tree_of_hundreds_of_switches_is_proven() -> None:
    pods, leaves, spines = 12, 20, 20
    gbps = np.zeros((spines * 20 + pods * (leaves + spines),) * 2)
    for pod in range(pods):
        base = spines * 20 + pod * (leaves + spines)
        gbps[base : base + leaves, base + leaves : base + leaves + spines] = 200
        for spine in range(spines):
            gbps[base + leaves + spine, spine * 20 : spine * 20 + 20] = 200
    hosts = np.zeros((1, len(gbps)), np.int64)
    for pod in range(pods):
        hosts[0, spines * 20 + pod * (leaves + spines) :][:leaves] = 20
    need = 200.0 * hosts.sum() / 2
    assert least_cut(gbps + gbps.T, hosts, 200.0) == (need, need)
