"""Programs beside all sets of switches, on networks with much that is alike, which the programs put together."""

from itertools import product

import numpy as np
import pytest

from costmodel.optimise.demand import BisectedJobs
from costmodel.optimise.milp import CutProgram, spectral_share


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


def quotient(gbps: np.ndarray, jobs: BisectedJobs, inside: np.ndarray) -> float:
    """Return links over what the jobs ask of them, infinite where they ask nothing; halves are sums of adapters."""
    asked = 0.0
    for row, half in zip(jobs.on_switch, jobs.half, strict=True):
        asked += min(row @ inside, row.sum() - row @ inside, half)
    return float(((inside @ gbps) * (1 - inside)).sum()) / asked if asked else np.inf


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_the_program_finds_a_worse_set_if_there_is_one_and_the_spectral_bound_is_below_all(seed: int) -> None:
    draw = np.random.default_rng(seed)
    gbps, hosts = network(draw)
    jobs = jobs_on(hosts, np.array([[100.0], [100.0, 200.0, 100.0]][seed % 2]))
    if len(gbps) <= 11 and len(jobs.half):
        sides = [np.array(side) for side in product([0.0, 1.0], repeat=len(gbps))]
        least = min(quotient(gbps, jobs, side) for side in sides)
        program = CutProgram(gbps, jobs)
        assert program.solvable
        assert program.solve(min(least, 1.0)) == (None, True)
        inside, excluded = program.solve(1.1 * least + 0.1)
        assert not excluded
        used = jobs.on_switch.any(axis=0)
        like = [quotient(gbps, jobs, side) for side in sides if ((side > 0) == inside)[used].all()]
        assert min(like) < 1.1 * least + 0.1
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
    assert CutProgram(gbps + gbps.T, jobs_on(hosts, np.array([200.0]))).solve(1.0) == (None, True)


def test_a_job_that_others_leave_less_shares_their_cut() -> None:
    """Two jobs on two leaves each; a single link joins the first two, ten join the others."""
    gbps = np.zeros((4, 4))
    gbps[0, 1], gbps[2, 3] = 100, 1_000
    program = CutProgram(gbps + gbps.T, jobs_on(np.array([[10, 10, 0, 0], [0, 0, 10, 10]]), np.array([100.0])))
    assert program.solve(0.1) == (None, True)
    inside, _ = program.solve(0.2)
    assert inside[0] != inside[1]
