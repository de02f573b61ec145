"""Rounds that are alike: proofs beside the full play, on trees that are whole, tapered, damaged and relabelled."""

from dataclasses import replace

import numpy as np
import pytest

import routing
from helpers.benchmarks import load
from helpers.relabel import relabelled
from helpers.trees import damage, grow_tree
from routing.routed import Routed
from routing.tables import select_endpoints, tree_order
from simulate import collective, find_bottlenecks, parse_workload, play
from simulate.traffic.collectives import algorithms
from simulate.traffic.network import Network
from simulate.workload import bare_flows, format_as_goal, format_trace_csv
from simulate.workload.place import Workload
from simulate.workload.rounds import bound_shifts, prove_rounds
from topo.errors import FlowError, HeddleError
from topo.table import format_seconds

SHAPES = (
    ((4, 4), (1, 4), (1, 1)),
    ((4, 5), (1, 2), (1, 1)),  # tapered
    ((3, 4), (1, 3), (1, 2)),
    ((2, 3, 3), (1, 2, 2), (1, 1, 1)),
    ((2, 2, 4), (1, 2, 2), (1, 1, 2)),
)
KINDS = ("allreduce", "reduce-scatter", "all-gather", *("all-to-all",) * 4)


def draw(seed: int) -> tuple[Network, algorithms.Collective]:
    """Return a collective on a routed tree: half of them of all hosts in the order of the tree."""
    rng = np.random.default_rng(seed)
    fabric = grow_tree(*SHAPES[seed % len(SHAPES)])
    engine = "fat-tree"
    if rng.random() < 0.4:
        fabric, engine = damage(fabric, rng, 0.15), "balanced"
    if rng.random() < 0.5:
        fabric = relabelled(fabric, rng).fabric
    routed = routing.route(fabric, engine)
    hosts = tree_order(fabric, select_endpoints(fabric, routed.tables))
    if rng.random() < 0.3:
        hosts = rng.permutation(hosts)
    if rng.random() < 0.3:
        hosts = hosts[: rng.integers(3, len(hosts))]
    kind = str(rng.choice(KINDS))
    chunks = int(rng.integers(1, 4)) if kind != "all-to-all" else 1
    hop_s = rng.choice([0, 1e-6]) * rng.random(fabric.n_ports) * (rng.random() < 0.3)
    network = Network.of(routed, latency_s=rng.choice([0, 2e-6]), hop_latency_s=hop_s)
    if rng.random() < 0.3:  # ports of hosts at different rates
        capacity = network.capacity_bytes_s * rng.choice([1, 0.5], len(network.capacity_bytes_s), p=[0.9, 0.1])
        network = replace(network, capacity_bytes_s=capacity)
    size = rng.choice([1e5, 1e8])
    return network, collective(kind, hosts, size, chunks=chunks, repeat=int(rng.integers(1, 3)))


@pytest.mark.slow
def test_proven_rounds_are_those_of_the_full_play() -> None:
    proven = {"ring": 0, "shift": 0}
    seeds = 40
    for seed in range(seeds):
        network, task = draw(seed)
        first = task.first_round(network.fabric)
        try:
            whole = play(network, task)
        except FlowError:  # damage has cut hosts off
            with pytest.raises(HeddleError):
                prove_rounds(network, task, first)
            continue
        assert task.messages == np.count_nonzero(whole.flows.src != whole.flows.dst)
        try:
            rounds = prove_rounds(network, task, first)
        except HeddleError:
            continue
        found = replace(play(network, first), rounds=rounds)
        proven[task.algorithm] += 1
        assert found.makespan_s == pytest.approx(whole.makespan_s, rel=1e-12), seed
        np.testing.assert_allclose(found.resource_bytes, whole.resource_bytes, rtol=1e-12, err_msg=str(seed))
        np.testing.assert_allclose(found.lane_bytes, whole.lane_bytes, rtol=1e-12)
        if task.chunks > 1:  # how long chunks wait for their connection differs from round to round
            continue
        lasted = whole.duration_s[whole.flows.src != whole.flows.dst].reshape(rounds.count, -1)
        same = np.sort(found.duration_s), np.sort(lasted, axis=1)
        np.testing.assert_allclose(np.broadcast_to(same[0], same[1].shape), same[1], rtol=1e-9, err_msg=str(seed))
    assert proven["ring"] > 8 and proven["shift"] > 3 and sum(proven.values()) < seeds * 0.8, proven


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.slow
def test_no_shift_has_more_messages_than_the_bound(seed: int) -> None:
    network, task = draw(seed)
    fabric, tables, hosts = network.fabric, network.tables, task.hosts
    own = fabric.port_of(hosts)
    home, group, size = np.unique(fabric.peer_node[own], return_inverse=True, return_counts=True)
    ranks = [np.flatnonzero(group == at) for at in range(len(home))]
    first, last = (np.array([row[at] for row in ranks], np.int32) for at in (0, -1))
    loads, bound = bound_shifts(
        *(fabric.port_offset, fabric.peer, fabric.peer_node, tables.lft, tables.lid[hosts], own),
        *(home.astype(np.int32), first, last, size),
    )

    shifts = np.zeros((len(hosts), fabric.n_ports), np.int64)
    for shift in range(1, len(hosts)):
        routes = network.routes(hosts, np.roll(hosts, -shift), np.zeros(len(hosts), np.int8))
        shifts[shift] = np.bincount(routes.resource, minlength=fabric.n_ports)
    of_switch = slice(fabric.first_adapter_port)
    np.testing.assert_array_equal(loads[of_switch], shifts.sum(axis=0)[of_switch])
    assert np.all(bound[of_switch] >= shifts.max(axis=0)[of_switch])


def placed(routed: Routed, collective: str, **keys: object) -> Workload:
    job = {"name": "sum", "kind": "collective", "rank": "adapter", "collective": collective, "size": "1 MiB", **keys}
    return parse_workload({"jobs": [job]}, routed.fabric)


@pytest.mark.parametrize(("kind", "start"), [("allreduce", "0 s"), ("allreduce", "2 ms"), ("all-to-all", "30 us")])
def test_a_workload_beyond_the_budget_has_the_figures_of_the_full_play(
    monkeypatch: pytest.MonkeyPatch, kind: str, start: str
) -> None:
    routed = routing.route(grow_tree(*SHAPES[0]), "fat-tree")
    network = Network.of(routed, hop_latency_s=0 if kind == "all-to-all" else None)
    whole = play(network, placed(routed, kind, repeat=3, start=start), alone=True)
    monkeypatch.setattr(algorithms, "FLOWS", replace(algorithms.FLOWS, limit=100))
    found = play(network, placed(routed, kind, repeat=3, start=start), alone=True)

    assert whole.outcome.rounds is None and found.outcome.rounds is not None
    assert len(found.outcome.flows) == 16
    for name, value in vars(whole.jobs[0]).items():
        expected = pytest.approx(value, rel=1e-12) if isinstance(value, float) else value
        assert getattr(found.jobs[0], name) == (pytest.approx(value, rel=1e-9) if name == "flow_s" else expected), name
    for one, other in zip(whole.outcome.link_classes, found.outcome.link_classes, strict=True):
        assert (one.used, one.bytes, one.max) == pytest.approx((other.used, other.bytes, other.max), rel=1e-12)
    assert found.to_dict()["flows"] == found.jobs[0].flows
    assert sum(found.outcome.bottlenecks.to_dict()["time"]) == pytest.approx(found.jobs[0].time_s)


def test_what_needs_every_flow_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    routed = routing.route(grow_tree(*SHAPES[0]), "fat-tree")
    monkeypatch.setattr(algorithms, "FLOWS", replace(algorithms.FLOWS, limit=100))
    workload = placed(routed, "allreduce")
    found = play(routed, workload)

    with pytest.raises(HeddleError, match="take fewer ranks"):
        find_bottlenecks(found)
    with pytest.raises(HeddleError, match="take fewer ranks"):
        next(format_trace_csv(workload, found.outcome))
    with pytest.raises(HeddleError, match="too many messages"):
        format_as_goal(workload, routed.fabric)
    with pytest.raises(HeddleError, match="or the fluid engine"):
        play(routed, workload, engine="packets")
    with pytest.raises(HeddleError, match="expected at most 100 flows"):  # beside another job, or with computation
        placed(routed, "allreduce", compute="1 ms")
    assert bare_flows(workload.flows, "one round").in_rounds is None


def test_rounds_that_may_differ_are_refused_with_the_reason() -> None:
    routed = routing.route(grow_tree(*SHAPES[1]), "fat-tree")  # tapered: two shifts share an uplink
    hosts = routed.fabric.ends(role="compute")
    task = collective("all-to-all", hosts, 1e6)
    with pytest.raises(HeddleError, match=r"by shift of 20 ranks has 380 messages; .* may have to share s") as refused:
        prove_rounds(network := Network.of(routed, latency_s=0), task, task.first_round(routed.fabric))
    every = task.flows(routed.fabric)
    routes = network.routes(every.src, every.dst, every.sl)
    carried = np.zeros(len(network.capacity_bytes_s))
    for route in routes.route.tolist():
        carried[routes.resource[routes.offset[route] : routes.offset[route + 1]]] += 1e6 / 20
    least_s = (carried[carried > 0] / network.capacity_bytes_s[carried > 0]).max()
    assert str(refused.value).endswith(f"fullest link alone take {format_seconds(least_s)}")
    assert least_s <= play(network, task).makespan_s
    with pytest.raises(HeddleError, match="different latencies"):
        prove_rounds(Network.of(routed, hop_latency_s=1e-7, latency_s=0), task, task.first_round(routed.fabric))
    ring = collective("allreduce", np.random.default_rng(1).permutation(hosts), 1e6)
    with pytest.raises(HeddleError, match="may have to share"):
        prove_rounds(Network.of(routed, latency_s=0), ring, ring.first_round(routed.fabric))


@pytest.mark.nightly
@pytest.mark.parametrize(("kind", "times"), [("allreduce", 2), ("all-to-all", 1)])
def test_collectives_of_32768_ranks_take_what_their_ports_take(kind: str, times: int) -> None:
    trees = load("timings/trees")
    fabric = trees.three_level_tree(32, 32, 2)
    routed = Routed(fabric, trees.modulo_tables(fabric, 32, 32, 2))
    found = play(Network.of(routed, latency_s=0), collective(kind, fabric.ends(role="compute"), "64 MiB"))

    assert found.n_flows == times * 32_768 * 32_767
    assert found.makespan_s == pytest.approx(times * 32_767 / 32_768 * 2**26 / 25e9, rel=1e-12)
