"""Which jobs tables are made for: each host's place on its leaf, and what all of them weigh."""

from collections import Counter
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

import simulate
import topo
from helpers.clusters import tree, zoned
from routing.engines.start import start_of, with_forms
from routing.order.destinations import empty_tables
from routing.search import problem
from routing.tables import tree_order
from topo.fabric import Fabric

LEAVES, HOSTS = 4, 13  # no k-th host is on the same place of each leaf for k up to 12
OTHERS = 11 + (2 + 3 + 4) + 4


def jobs_of(fabric: Fabric) -> list[tuple[list[int], float]]:
    """Destinations of each all-to-all, and its weight; the destination's switch sends nothing over a link."""
    posed, _ = posed_of(fabric)
    dest = np.repeat(np.arange(len(posed.samples.lid)), np.diff(posed.samples.indptr))
    jobs = [np.unique(dest[posed.samples.sample == k]) for k in range(len(posed.names))]
    return [(job.tolist(), posed.weights[k]) for k, job in enumerate(jobs) if posed.names[k] == "jobs"]


def on_one_host_of_each_leaf(fabric: Fabric, jobs: list[tuple[list[int], float]]) -> list[tuple[list[int], float]]:
    """Those with a host on each leaf, and not two; hosts are numbered along the tree, leaf by leaf."""
    return [(job, weight) for job, weight in jobs if [dest // HOSTS for dest in job] == list(range(LEAVES))]


def test_each_place_on_the_leaves_is_a_job_and_all_weigh_as_much_as_four() -> None:
    fabric = tree(LEAVES * HOSTS, leaves=LEAVES, spines=4)
    jobs = jobs_of(fabric)
    ours = on_one_host_of_each_leaf(fabric, jobs)
    assert sorted(dest % HOSTS for job, _ in ours for dest in job) == sorted(list(range(HOSTS)) * LEAVES)
    assert all(len({dest % HOSTS for dest in job}) == 1 for job, _ in ours)
    others = {weight for job, weight in jobs if (job, weight) not in ours}
    assert len(jobs) == HOSTS + OTHERS
    assert len(others) == 1
    assert sum(weight for _, weight in ours) == pytest.approx(4 * others.pop())


def test_a_job_on_small_leaves_weighs_as_much_as_any() -> None:
    jobs = jobs_of(tree(3 * 8, leaves=8, spines=4))
    assert len({round(weight, 12) for _, weight in jobs}) == 1


def test_four_places_stand_for_all_where_not_all_flows_may_be_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    fabric = tree(LEAVES * HOSTS, leaves=LEAVES, spines=4)
    monkeypatch.setattr(problem, "MOST_FLOWS", (8 * LEAVES + 20) * HOSTS * LEAVES - 1)
    jobs = jobs_of(fabric)
    ours = on_one_host_of_each_leaf(fabric, jobs)
    assert sorted({dest % HOSTS for job, _ in ours for dest in job}) == [0, 4, 8, 12]
    assert len(jobs) == 4 + OTHERS, "no other job is left out for them"
    assert len({round(weight, 12) for _, weight in jobs}) == 1


def test_all_jobs_fit_where_each_place_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight times the leaves and twenty bound all flows of a host."""
    monkeypatch.setattr(problem, "MOST_FLOWS", (8 * LEAVES + 20) * HOSTS * LEAVES)
    assert len(jobs_of(tree(LEAVES * HOSTS, leaves=LEAVES, spines=4))) == HOSTS + OTHERS


def rails(heads: int = 0) -> Fabric:
    """Two units of five servers, with a leaf for each of their ports; heads have one port."""
    nodes = {"gpu": {"model": "dgx-h100", "count": 10}}
    nodes |= {"head": {"model": "ufm-appliance", "count": heads}} if heads else {}
    tree = {"switch": "QM9700", "spines": 2, "parallel": 2}
    spec = {"name": "r", "nodes": nodes, "network": {"shape": "rail", "unit_nodes": 5, "tree": tree}}
    return topo.parse(spec).fabric


def posed_of(fabric: Fabric) -> tuple[problem.Problem, NDArray[np.int32]]:
    """The problem, and the end port of each of its destinations."""
    lids, lft = empty_tables(fabric, None)
    start = with_forms(start_of(fabric, lids, lft.shape[::-1]))
    posed = problem.pose(fabric, lids, start.order, start.dests, start.ranks)
    end_of = np.zeros(int(lids.max()) + 1, np.int32)
    end_of[lids] = np.arange(len(lids))
    return posed, end_of[posed.samples.lid]


def may_send(fabric: Fabric, a: int, b: int) -> bool:
    """Whether traffic between two adapters is looked at: by their names alone."""
    (one, port), (other, to) = (fabric.names[fabric.end_node[end]].split() for end in (a, b))
    return one.startswith("gpu") and other.startswith("gpu") and port == to


@pytest.mark.parametrize("heads", [0, 2])
def test_ports_of_a_server_send_to_their_rail(heads: int) -> None:
    """Counted adapter by adapter, by name: all pairs; whatever rails; and no job has a flow between rails."""
    fabric = rails(heads)
    posed, ends = posed_of(fabric)
    samples = posed.samples
    hosts = fabric.ends()
    assert posed.names[:2] == ("pairs", "across")
    for dest, end in enumerate(ends.tolist()):
        for sample, every in ((0, False), (1, True)):
            sends = np.zeros(fabric.n_switches)
            for host in hosts.tolist() if end >= fabric.n_switches else ():
                sends[fabric.end_switch[host]] += every or may_send(fabric, host, end)
            np.testing.assert_array_equal(
                samples.source[sample, samples.rail[dest]] * samples.weight[sample, dest], sends
            )
        for at in range(samples.indptr[dest], samples.indptr[dest + 1]):
            if posed.names[samples.sample[at]] == "shifts":  # along rails, and across
                continue
            there = hosts[fabric.end_switch[hosts] == samples.sender[at]]
            known = sum(may_send(fabric, host, end) for host in there.tolist())
            assert 0 < samples.flow[at] <= known


def test_a_job_takes_all_rails_of_its_servers() -> None:
    """So a destination gets from as many ports, at most, as there are other servers in the job."""
    fabric = rails()
    posed, ends = posed_of(fabric)
    samples = posed.samples
    dest = np.repeat(np.arange(len(samples.lid)), np.diff(samples.indptr))
    for job in np.flatnonzero(np.array(posed.names) == "jobs"):
        to = np.unique(dest[samples.sample == job])
        servers = {fabric.names[fabric.end_node[ends[one]]].split()[0] for one in to}
        if not len(to):  # all of one leaf a rail
            continue
        assert len(to) == 8 * len(servers)
        assert posed.alone[job] == len(servers) - 1
        assert np.bincount(dest[samples.sample == job], samples.flow[samples.sample == job]).max() <= len(servers) - 1


@pytest.mark.parametrize("fabric", [tree(45, leaves=5, spines=4), rails(), rails(heads=2)])
def test_hosts_in_a_row_reduce_along_the_ring_and_the_trees_that_are_played(fabric: Fabric) -> None:
    """Whole, in halves, thirds and quarters; the flows are those of `simulate.collective`, rail by rail."""
    posed, ends = posed_of(fabric)
    samples = posed.samples
    dest = np.repeat(np.arange(len(samples.lid)), np.diff(samples.indptr))
    looked_at = [
        Counter(zip(samples.sender[mine].tolist(), ends[dest[mine]].tolist(), strict=True))
        for mine in (samples.sample == job for job in np.flatnonzero(np.array(posed.names) == "allreduces"))
    ]
    gpus = tree_order(fabric, fabric.ends(role="compute"))
    _, rail = problem.servers_and_rails(fabric, gpus)
    rings = [gpus[rail == one] for one in np.unique(rail)]
    for parts, algorithm in product((1, 2, 3, 4), ("ring", "double-binary-tree")):
        for part in range(parts):
            sent = set()
            for ranks in (np.array_split(ring, parts)[part] for ring in rings):
                flows = simulate.collective("allreduce", ranks, "1 MiB", algorithm).flows(fabric)
                sent |= set(zip(fabric.end_switch[flows.src].tolist(), flows.dst.tolist(), strict=True))
            crossing = {(a, b) for a, b in sent if a != fabric.end_switch[b]}
            assert len(ranks) < 4 or any(crossing == one.keys() for one in looked_at), (parts, algorithm)


def test_a_second_port_of_storage_makes_no_rails() -> None:
    fabric = zoned(leaves=4, spines=4, n_gpus=16, n_storage=6)
    assert posed_of(fabric)[0].samples.source.shape[1] == 1
