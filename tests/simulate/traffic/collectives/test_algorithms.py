"""Every collective, played on real numbers in orders that its dependencies allow, and its closed forms."""

from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import EntryPoint

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import ArrayLike

from helpers.clusters import zoned
from helpers.collectives import crossings
from helpers.strategies import examples
from simulate.traffic.collectives import algorithms
from simulate.traffic.collectives.algorithms import (
    ALGORITHMS,
    GROUP,
    _most_messages,
    _outside,
    all_to_all,
    allreduce,
    collective,
    register,
    schedule,
)
from simulate.traffic.collectives.schedule import Schedule
from simulate.traffic.collectives.steps import (
    halving_doubling_allreduce,
    hierarchical_allreduce,
    pipeline,
    ring_all_gather,
    ring_allreduce,
    ring_reduce_scatter,
)
from simulate.traffic.collectives.trees import depths, rerooted, tree_allreduce, zone_trees
from simulate.traffic.placement import leaf_of
from topo.errors import HeddleError
from topo.graphs import double_binary_tree

PAIRS = [(kind, algorithm) for kind, by in ALGORITHMS.items() for algorithm in by]
POWERS_ONLY = ("recursive-halving", "recursive-doubling")


def played(plan: Schedule, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    start = rng.integers(-1000, 1000, (plan.n_ranks, plan.n_blocks)).astype(float)
    return start, plan.played(start, rng)


def longest_chain(plan: Schedule) -> np.ndarray:
    """Steps of all messages by relaxation over the dependencies."""
    step = np.zeros(len(plan), int)
    for _ in range(len(plan) + 1):
        after = step.copy()
        np.maximum.at(after, plan.waiter, step[plan.awaited] + 1)
        if np.array_equal(after, step):
            return step
        step = after
    raise AssertionError("circle")


def blocks_sent(plan: Schedule) -> np.ndarray:
    return np.bincount(plan.src, weights=plan.count, minlength=plan.n_ranks)


@pytest.mark.parametrize(("collective", "algorithm"), PAIRS)
@given(n=st.integers(1, 20), chunks=st.integers(1, 4), group_size=st.integers(1, 5), seed=st.integers(0, 2**32))
@examples(40)
def test_plays_right(collective: str, algorithm: str, n: int, chunks: int, group_size: int, seed: int) -> None:
    if algorithm in POWERS_ONLY:
        n = 1 << (n.bit_length() - 1)
    groups = np.random.default_rng(seed).permutation(np.arange(n) // group_size)
    plan = schedule(collective, algorithm, n, chunks=chunks, groups=groups)
    start, end = played(plan, seed)
    own = np.repeat(np.eye(n, dtype=bool), plan.n_blocks // n, axis=1) if plan.n_blocks % n == 0 else None

    match collective:
        case "allreduce":
            np.testing.assert_array_equal(end, np.broadcast_to(start.sum(axis=0), start.shape))
        case "reduce-scatter":
            np.testing.assert_array_equal(end[own], start.sum(axis=0))
        case "all-gather":
            np.testing.assert_array_equal(end, np.broadcast_to(start[own], start.shape))
        case "broadcast":
            np.testing.assert_array_equal(end, np.broadcast_to(start[0], start.shape))
        case "reduce":
            np.testing.assert_array_equal(end[0], start.sum(axis=0))
        case "all-to-all":
            np.testing.assert_array_equal(end, start.T)
        case "pipeline":
            np.testing.assert_array_equal(end[-1, :chunks], start[0, :chunks])
            np.testing.assert_array_equal(end[:, chunks:], np.broadcast_to(start[-1, chunks:], end[:, chunks:].shape))


@pytest.mark.parametrize(("collective", "algorithm"), PAIRS)
@pytest.mark.parametrize("n", [1, 2, 8, 16])
@pytest.mark.parametrize("chunks", [1, 3])
def test_steps_are_the_longest_chain(collective: str, algorithm: str, n: int, chunks: int) -> None:
    plan = schedule(collective, algorithm, n, chunks=chunks, groups=np.arange(n) // 4)

    np.testing.assert_array_equal(longest_chain(plan), plan.step)


@pytest.mark.parametrize("n", [2, 3, 4, 7, 16, 64])
@pytest.mark.parametrize("chunks", [1, 5])
def test_ring_sends_what_the_closed_form_says(n: int, chunks: int) -> None:
    allreduce, scatter, gather = ring_allreduce(n, chunks), ring_reduce_scatter(n, chunks), ring_all_gather(n, chunks)

    np.testing.assert_array_equal(blocks_sent(allreduce) * n, 2 * (n - 1) * allreduce.n_blocks)
    np.testing.assert_array_equal(blocks_sent(scatter) * n, (n - 1) * scatter.n_blocks)
    np.testing.assert_array_equal(blocks_sent(gather) * n, (n - 1) * gather.n_blocks)
    assert allreduce.n_steps == 2 * (n - 1) * chunks
    np.testing.assert_array_equal(allreduce.dst, (allreduce.src + 1) % n)


@pytest.mark.parametrize("k", range(1, 8))
def test_halving_doubling_sends_as_little_as_a_ring_in_fewer_steps(k: int) -> None:
    n = 1 << k
    plan = halving_doubling_allreduce(n)

    np.testing.assert_array_equal(blocks_sent(plan), 2 * (n - 1))
    assert plan.n_blocks == n
    assert plan.n_steps == 2 * k


def test_halving_doubling_folds_what_is_above_a_power_of_two() -> None:
    plan = halving_doubling_allreduce(13)

    assert plan.n_steps == 2 * 3 + 2
    np.testing.assert_array_equal(blocks_sent(plan)[:10], [14 + 8, 8] * 5)
    np.testing.assert_array_equal(blocks_sent(plan)[10:], 14)


@pytest.mark.parametrize("n", [3, 6, 12, 100])
@pytest.mark.parametrize("case", [("reduce-scatter", "recursive-halving"), ("all-gather", "recursive-doubling")])
def test_halving_refuses_other_numbers_of_ranks(n: int, case: tuple[str, str]) -> None:
    with pytest.raises(HeddleError, match=f"power of two of ranks and cannot take {n}; take"):
        schedule(*case, n)


@given(n=st.integers(2, 300))
def test_double_binary_tree_is_nccls(n: int) -> None:
    trees = double_binary_tree(n)

    children = [np.bincount(tree[tree >= 0], minlength=n) for tree in trees]
    for tree, below in zip(trees, children, strict=True):
        assert depths(tree).max() <= np.ceil(np.log2(n)) + (n > 2)
        assert below.max() <= 2
        assert below[tree == -1] == 1
    # Complementary: no rank has two children in both trees, and none sends more than two buffers in an allreduce.
    assert not np.any((children[0] == 2) & (children[1] == 2))
    sent = blocks_sent(tree_allreduce(trees))
    assert sent.max() <= 4  # of half a buffer each
    assert sent.sum() == 2 * 2 * (n - 1)


def test_double_binary_tree_of_fourteen_as_drawn_in_nccl() -> None:
    first, second = double_binary_tree(14)

    assert first.tolist() == [-1, 2, 4, 2, 8, 6, 4, 6, 0, 10, 12, 10, 8, 12]
    assert second.tolist() == [13 - p if p >= 0 else -1 for p in reversed(first.tolist())]
    first, second = double_binary_tree(5)
    assert first.tolist() == [-1, 2, 4, 2, 0]
    assert second.tolist() == [1, -1, 3, 0, 3]


@pytest.mark.parametrize(("n", "times"), [(64, 2), (1024, 2), (160, 4), (1160, 6), (1200, 8), (1250, 5)])
def test_a_contiguous_double_tree_crosses_the_zones_often_and_zone_trees_once(n: int, times: int) -> None:
    zones = np.arange(n) >= n // 2

    assert crossings(double_binary_tree(n), zones) == [times, times]
    assert crossings(zone_trees(zones), zones) == [1, 1]


@given(sizes=st.lists(st.integers(1, 30), min_size=1, max_size=4), seed=st.integers(0, 2**32))
def test_zone_trees_join_each_zone_by_one_pair(sizes: list[int], seed: int) -> None:
    zones = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))
    trees = zone_trees(zones)

    edges = [{(r, p) for r, p in enumerate(tree.tolist()) if p >= 0 and zones[r] != zones[p]} for tree in trees]
    assert edges[0] == edges[1]
    assert len(edges[0]) == len(sizes) - 1
    for tree in trees:
        depths(tree)
        assert np.bincount(tree[tree >= 0], minlength=len(zones)).max(initial=0) <= 3


@given(n=st.integers(1, 60), data=st.data())
def test_rerooting_keeps_the_edges(n: int, data: st.DataObject) -> None:
    tree, root = double_binary_tree(n)[0], data.draw(st.integers(0, n - 1))
    turned = rerooted(tree, root)

    assert depths(turned)[root] == 0
    assert {frozenset(edge) for edge in enumerate(tree.tolist()) if edge[1] >= 0} == {
        frozenset(edge) for edge in enumerate(turned.tolist()) if edge[1] >= 0
    }


def test_what_is_no_tree_is_refused() -> None:
    with pytest.raises(HeddleError, match="ranks 0 and 2 are both roots"):
        depths(np.array([-1, 0, -1], np.int32))
    with pytest.raises(HeddleError, match="rank 1 is not connected to the root"):
        depths(np.array([-1, 2, 1], np.int32))


@pytest.mark.parametrize(("n_groups", "size"), [(2, 4), (5, 3), (1, 6), (6, 1)])
def test_hierarchical_sends_one_share_between_groups(n_groups: int, size: int) -> None:
    groups = np.tile(np.arange(n_groups), size)
    plan = hierarchical_allreduce(groups)

    between = groups[plan.src] != groups[plan.dst]
    sent = np.bincount(plan.src[between], weights=plan.count[between], minlength=len(groups)) / plan.n_blocks
    np.testing.assert_allclose(sent, 2 * (n_groups - 1) / n_groups / size, rtol=1e-12)
    np.testing.assert_allclose(blocks_sent(plan) / plan.n_blocks, 2 * (1 - 1 / len(groups)), rtol=1e-12)
    assert plan.n_steps == 2 * (size - 1) + 2 * (n_groups - 1)


@given(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=5), chunks=st.integers(1, 2), seed=st.integers(0, 99))
@examples(40)
def test_hierarchical_of_uneven_groups_sends_no_more_than_it_must(sizes: list[int], chunks: int, seed: int) -> None:
    groups = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))
    plan = hierarchical_allreduce(groups, chunks)
    _, end = played(plan, seed)
    start, _ = played(plan, seed)

    between = groups[plan.src] != groups[plan.dst]
    sent = np.bincount(groups[plan.src[between]], weights=plan.count[between], minlength=len(sizes)) / plan.n_blocks
    np.testing.assert_array_equal(end, np.broadcast_to(start.sum(axis=0), start.shape))
    np.testing.assert_allclose(sent, 2 * (len(sizes) - 1) / len(sizes), rtol=1e-12)  # of each group, once
    own = blocks_sent(plan) / plan.n_blocks
    share = np.array(sizes)[groups]
    np.testing.assert_allclose(own, 2 * (1 - 1 / share) + 2 * (1 - 1 / len(sizes)) / share, rtol=1e-12)


def test_hierarchical_refuses_groups_of_too_many_sizes() -> None:
    groups = np.repeat(np.arange(10), [11, 13, 16, 17, 19, 23, 25, 27, 29, 31])
    with pytest.raises(HeddleError, match="no small common multiple"):
        hierarchical_allreduce(groups)


@pytest.mark.parametrize(("n", "batches"), [(2, 1), (4, 8), (7, 3)])
def test_pipeline_takes_stages_and_batches(n: int, batches: int) -> None:
    forward, both = pipeline(n, batches, backward=False), pipeline(n, batches)

    assert forward.n_steps == n - 1 + batches - 1
    assert both.n_steps == 2 * (n - 1) + batches - 1
    assert len(both) == 2 * len(forward) == 2 * (n - 1) * batches


@pytest.mark.parametrize(("collective", "algorithm"), PAIRS)
def test_one_rank_sends_nothing(collective: str, algorithm: str) -> None:
    assert len(schedule(collective, algorithm, 1, chunks=3)) == 0


def test_flows_carry_the_buffer() -> None:
    plan = ring_allreduce(5, 2)
    flows = plan.flows(1000.0)

    np.testing.assert_allclose(np.bincount(flows.src, weights=flows.size_bytes), 2 * 4 / 5 * 1000, rtol=1e-12)
    np.testing.assert_array_equal(flows.tag, plan.step)


def test_unknown_algorithms_are_refused() -> None:
    with pytest.raises(HeddleError, match=r"found the algorithm 'butterfly' for 'allreduce'; expected one of .*ring"):
        schedule("allreduce", "butterfly", 4)
    with pytest.raises(HeddleError, match="found 0 ranks"):
        schedule("allreduce", "ring", 0)
    with pytest.raises(HeddleError, match="0 chunks"):
        schedule("allreduce", "ring", 4, chunks=0)
    with pytest.raises(HeddleError, match="49,151 ranks in 1 chunks has some 4,831,543,300 messages"):
        schedule("allreduce", "ring", 49_151)


@pytest.mark.parametrize(("collective", "algorithm"), PAIRS)
@pytest.mark.parametrize(("n", "chunks"), [(2, 1), (8, 3), (64, 2)])
def test_the_bound_on_messages_holds(collective: str, algorithm: str, n: int, chunks: int) -> None:
    plan = schedule(collective, algorithm, n, chunks=chunks, groups=np.arange(n) // 2)

    assert len(plan) <= _most_messages(collective, algorithm, n, chunks)


@pytest.mark.parametrize(("kind", "algorithm"), PAIRS)
@given(data=st.data(), n=st.sampled_from([2, 4, 8]), chunks=st.integers(1, 3))
@examples(10)
def test_a_wrong_message_of_an_algorithm_from_outside_is_refused(
    data: st.DataObject, kind: str, algorithm: str, n: int, chunks: int
) -> None:
    """Heddle's own, handed over as a stranger's, are taken; with one message that adds or overwrites they are not."""

    def stranger(n_ranks: int, chunks: int, groups: ArrayLike) -> Schedule:
        return ALGORITHMS[kind][algorithm](n_ranks, chunks, groups)

    def spoilt(n_ranks: int, chunks: int, groups: ArrayLike) -> Schedule:
        plan = stranger(n_ranks, chunks, groups)
        at = data.draw(st.integers(0, len(plan) - 1))
        return replace(plan, reduce=plan.reduce ^ (np.arange(len(plan)) == at))

    fabric = zoned(leaves=2, spines=2, n_gpus=8, n_storage=0, joints=1, ports=1)
    hosts = fabric.ends(role="compute")[:n]
    task = collective(kind, hosts, 1e6, stranger, chunks=chunks, group="zone")
    own = collective(kind, hosts, 1e6, algorithm, chunks=chunks, group="zone")
    assert len(task.flows(fabric)) == len(own.flows(fabric))
    if kind != "pipeline":
        with pytest.raises(HeddleError, match=f"spoilt is no {kind}: block .* is wrong in the end"):
            collective(kind, hosts, 1e6, spoilt, chunks=chunks).flows(fabric)


def test_an_algorithm_from_outside_that_fails_or_does_too_little_is_refused() -> None:
    fabric = zoned(leaves=2, spines=2, n_gpus=8, n_storage=0, joints=1, ports=1)

    def lazy(n_ranks: int, chunks: int, groups: ArrayLike) -> Schedule:
        return Schedule.of(n_ranks, 1, src=[0], dst=[1], block=0, reduce=[True], step=[0])

    def broken(n_ranks: int, chunks: int, groups: ArrayLike) -> Schedule:
        raise KeyError(n_ranks)

    for algorithm, message in ((lazy, "lazy is no allreduce"), (broken, "broken of allreduce fails: KeyError: 4")):
        with pytest.raises(HeddleError, match=message):
            allreduce(fabric.ends(role="compute")[:4], "1 MB", algorithm).flows(fabric)
    with pytest.raises(HeddleError, match="found the algorithm None; expected a function"):
        register("allreduce", "x", None)


def test_a_circle_is_found_when_played() -> None:
    plan = Schedule.of(2, 1, [0, 1], [1, 0], 0, after=[([0, 1], [1, 0])])
    with pytest.raises(HeddleError, match="2 messages wait for each other"):
        plan.played(np.zeros((2, 1)), np.random.default_rng(0))
    with pytest.raises(HeddleError, match="buffers have shape"):
        plan.played(np.zeros((3, 1)), np.random.default_rng(0))


def test_a_collective_among_hosts_is_its_schedule_on_their_end_ports() -> None:
    fabric = zoned(leaves=2, spines=2, n_gpus=8, n_storage=0, joints=1, ports=1)
    hosts = fabric.ends(role="compute")[::-1]
    for kind, known in ALGORITHMS.items():
        for algorithm in known:
            found = collective(kind, hosts, "3 MB", algorithm, chunks=2, group="leaf").flows(fabric)
            wanted = schedule(kind, algorithm, 8, chunks=2, groups=leaf_of(fabric, hosts)).flows(3e6).placed(hosts)
            for name in ("src", "dst", "size_bytes", "dep_offset", "dep", "tag"):
                np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))


def test_verbs_choose_what_is_not_said() -> None:
    hosts = np.arange(8)
    assert allreduce(hosts, 1e6).algorithm == "ring"
    assert (allreduce(hosts, 1e6, "zone-tree").chunks, allreduce(hosts, 1e6).chunks) == (64, 1)
    assert all_to_all(hosts, "1 MiB").size_bytes == 2**20
    assert collective("reduce", hosts, 5, "double-binary-tree", chunks=3, repeat=2).chunks == 3


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (
            lambda: collective("allreduces", [1], 1),
            "found the collective 'allreduces'; expected one of allreduce, reduce-scatter, all-gather",
        ),
        (lambda: allreduce([1, 2], 1, "tree"), "found the algorithm 'tree'"),
        (lambda: allreduce([1, 2], "1 parsec"), "found the size '1 parsec'; expected a size in B"),
        (lambda: allreduce([1, 2], -1.0), "found the size -1.0; expected bytes, more than 0"),
        (lambda: collective("reduce", [1], float("nan")), "found the size nan; expected bytes"),
        (lambda: collective("reduce", [1], 1, repeat=0), "repeat: found 0; expected a whole number from 1"),
    ],
)
def test_verbs_refuse(call: Callable[[], object], says: str) -> None:
    with pytest.raises(HeddleError) as refusal:
        call()
    assert says in str(refusal.value)


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (5, "own returns 5; expected a simulate.traffic.Schedule of 8 ranks"),
        (Schedule.of(4, 8, [0], [1], 0), "own returns a schedule of 4 ranks; expected"),
        (Schedule.of(8, 8, [0, 2], [1, 2], 0), "message 1 of own goes from rank 2 to 2; expected two different"),
        (Schedule.of(8, 8, [0, -1], [1, 2], 0), "message 1 of own goes from rank -1 to 2; expected two different"),
        (Schedule.of(8, 8, [0, 8], [1, 2], 0), "message 1 of own goes from rank 8 to 2; expected two different"),
        (Schedule.of(8, 8, [0], [1], 99), "message 0 of own reads blocks 99 to 99 and writes 99 to 99; expected 0"),
        (Schedule.of(8, 8, [0], [1], 4, to_block=5, count=4), "reads blocks 4 to 7 and writes 5 to 8; expected 0 to 7"),
        (Schedule.of(8, 8, [0], [1], -1), "message 0 of own reads blocks -1 to -1"),
    ],
)
def test_an_algorithm_of_ones_own_is_refused_for_what_no_rank_can_do(made: object, says: str) -> None:
    fabric = zoned(leaves=2, spines=2, n_gpus=8, n_storage=0, joints=1, ports=1)

    def own(n_ranks: int, chunks: int, groups: object) -> Schedule:
        return made  # type: ignore[return-value]

    with pytest.raises(HeddleError) as refusal:
        collective("all-gather", fabric.ends(role="compute"), "1 MiB", own).flows(fabric)
    assert says in str(refusal.value)


def test_a_registered_algorithm_is_refused_where_its_name_is_taken() -> None:
    for name in ("ring", "sharp"):
        with pytest.raises(HeddleError, match=f"found the name '{name}', which an algorithm for 'allreduce' has"):
            register("allreduce", name, ALGORITHMS["allreduce"]["ring"])
    with pytest.raises(HeddleError, match="found the collective 'scan'; expected one of allreduce"):
        register("scan", "ring", ALGORITHMS["allreduce"]["ring"])


def test_an_algorithm_of_another_distribution_is_loaded_when_it_is_played() -> None:
    steps = "simulate.traffic.collectives.steps"
    load = _outside(EntryPoint("allreduce/theirs", f"{steps}:recursive_halving_reduce_scatter", GROUP))
    with pytest.raises(TypeError):  # it was found, and takes only ranks
        load(4, 1, [0] * 4)
    with pytest.raises(HeddleError, match=r"allreduce/theirs \(.*:none\) cannot be loaded: .*none"):
        _outside(EntryPoint("allreduce/theirs", f"{steps}:none", GROUP))(4, 1, [0] * 4)


def test_as_many_messages_as_the_budget_allows_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    most = algorithms._most_messages("allreduce", "ring", 6, 6)
    monkeypatch.setattr(algorithms, "FLOWS", replace(algorithms.FLOWS, limit=most))
    assert len(algorithms.schedule("allreduce", "ring", 6, chunks=6)) == most
    monkeypatch.setattr(algorithms, "FLOWS", replace(algorithms.FLOWS, limit=most - 1))
    with pytest.raises(HeddleError, match=f"some {most} messages"):
        algorithms.schedule("allreduce", "ring", 6, chunks=6)
