"""Programs beside all sets of switches, on networks with much that is alike, which the programs put together."""

from itertools import product

import numpy as np
import pytest

from costmodel.optimise.demand import BisectedJobs
from costmodel.optimise.milp import least_share, spectral_share


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


def jobs_on(hosts: np.ndarray, rates: np.ndarray) -> BisectedJobs:
    """Return jobs with so many adapters on each switch, of rates in turn."""
    job, switch = (np.repeat(at, hosts.ravel()) for at in np.indices(hosts.shape).reshape(2, -1))
    return BisectedJobs.of(job, switch, np.resize(rates, len(job)), hosts.shape[1])


def worst(gbps: np.ndarray, jobs: BisectedJobs) -> float:
    """Return the least over all sets of switches: the share at which the cut is full, by halving intervals."""
    least = 1.0
    for side in product([0.0, 1.0], repeat=len(gbps)):
        inside = np.array(side)
        cut = float(((inside @ gbps) * (1 - inside)).sum())

        def short(share: float, inside: np.ndarray = inside, cut: float = cut) -> bool:
            asked = 0.0
            for row, half in zip(jobs.on_switch, jobs.half, strict=True):
                within = min(row @ inside, row.sum() - row @ inside, half)
                asked += max(0.0, within - (1 - share) * half)
            return asked > cut + 1e-9

        low, high = 0.0, least
        while short(least) and high - low > 1e-9:
            middle = (low + high) / 2
            low, high = (low, middle) if short(middle) else (middle, high)
        least = high
    return least


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_the_program_finds_the_worst_of_all_sets_and_the_spectral_bound_is_below_it(seed: int) -> None:
    draw = np.random.default_rng(seed)
    gbps, hosts = network(draw)
    jobs = jobs_on(hosts, np.array([[100.0], [100.0, 200.0, 100.0]][seed % 2]))
    if len(gbps) <= 11 and len(jobs.half):
        least = worst(gbps, jobs)
        for known in (1.0, least):
            found = least_share(gbps, jobs, known)
            assert found == (pytest.approx(least, abs=1e-5), pytest.approx(least, abs=1e-4))
            assert found[1] <= least + 1e-6
        assert spectral_share(gbps, jobs) <= least + 1e-6


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
    assert least_share(gbps + gbps.T, jobs_on(hosts, np.array([200.0])), 1.0) == (1.0, 1.0)


def test_a_job_that_the_others_starve_is_not_paid_for_with_their_share() -> None:
    """Two jobs on two leaves each; a single link joins the first two, as many as they need the others."""
    gbps = np.zeros((4, 4))
    gbps[0, 1], gbps[2, 3] = 100, 1_000
    jobs = jobs_on(np.array([[10, 10, 0, 0], [0, 0, 10, 10]]), np.array([100.0]))
    assert least_share(gbps + gbps.T, jobs, 1.0) == (pytest.approx(0.1), pytest.approx(0.1))


@pytest.mark.parametrize("seed", range(50))
def test_a_cut_has_no_surplus_just_above_the_share_and_some_below(seed: int) -> None:
    draw = np.random.default_rng(seed)
    jobs = jobs_on(draw.integers(0, 6, (int(draw.integers(1, 5)), 6)), np.full(1, 100.0))
    inside = (jobs.on_switch * draw.integers(0, 2, 6)).sum(axis=1)
    cut = float(draw.integers(1, 6)) * 100
    share = jobs.share(cut, jobs.crossing(inside))[0]
    assert jobs.surplus(np.array(cut), inside, share - 1e-6) >= 0
    assert share == 1 or jobs.surplus(np.array(cut), inside, share + 1e-6) < 0
