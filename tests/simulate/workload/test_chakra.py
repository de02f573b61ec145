import contextlib
import sys
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.chakra import node, trace
from helpers.clusters import tree
from routing.engines.base import route
from simulate import play
from simulate.traffic.flows import Flows
from simulate.traffic.network import Network
from simulate.workload.chakra import ChakraNode, NodeType, Roofline, flows_of_chakra
from simulate.workload.formats.chakra import message_types, parse_chakra, read_chakra
from topo.errors import FormatError, HeddleError


def flows(*ranks: bytes, **algorithms: str) -> Flows:
    return flows_of_chakra([parse_chakra(data, f"t.{rank}.et") for rank, data in enumerate(ranks)], algorithms)


def finishes(plan: Flows) -> np.ndarray:
    """When each flow ends if a byte takes a microsecond and nothing is shared."""
    end = np.zeros(len(plan))
    waiter = np.repeat(np.arange(len(plan)), np.diff(plan.dep_offset))
    for _ in range(len(plan) + 1):
        begin = np.zeros(len(plan))
        np.maximum.at(begin, waiter, end[plan.dep])
        end = begin + np.rint(plan.delay_s * 1e6) + np.where(plan.src == plan.dst, 0, plan.size_bytes)
    return end


def test_reads_the_wire_format() -> None:
    comm = {"comm_type": 0, "comm_size": 1 << 40, "pg_name": "dp"}
    nodes = parse_chakra(trace(node(7, 4, us=12), node(8, 7, (7, 7), **comm)))

    assert nodes[0] == ChakraNode(7, "n7", NodeType.COMP, (), 12, {})
    assert nodes[1] == ChakraNode(8, "n8", NodeType.COMM_COLL, (7,), 0, comm)
    assert set(message_types()) == {"AttributeProto", "GlobalMetadata", "Node"}


def test_computation_and_messages() -> None:
    # Rank 0 computes 5, sends 10; rank 1 computes 20 before it receives, then computes 1.
    plan = flows(
        trace(node(1, 4, us=5), node(2, 5, (1,), comm_dst=1, comm_src=0, comm_size=10, comm_tag=3)),
        trace(node(1, 4, us=20), node(2, 6, (1,), comm_src=0, comm_size=10, comm_tag=3), node(3, 4, (2,), us=1)),
    )

    assert plan.src.tolist() == [0, 0, 0, 1, 1, 1]
    assert plan.dst.tolist() == [0, 0, 1, 1, 1, 1]
    assert finishes(plan).tolist() == [5, 5, 15, 20, 20, 21]


def test_a_large_message_waits_for_its_receive() -> None:
    size = 70_000
    ranks = (
        trace(node(1, 4, us=5), node(2, 5, (1,), comm_dst=1, comm_size=size), node(3, 4, (2,), us=1)),
        trace(node(1, 4, us=20), node(2, 6, (1,), comm_src=0, comm_size=size), node(3, 4, (2,), us=1)),
    )
    traces = [parse_chakra(data) for data in ranks]

    large, small = flows_of_chakra(traces), flows_of_chakra(traces, eager_bytes=size)
    assert large.rendezvous.sum() == 1
    assert sorted(finishes(large).tolist()) == [5, 5, 20, 20, 20 + size, 20 + size + 1, 20 + size + 1]
    assert sorted(finishes(small).tolist()) == [5, 5, 6, 20, 5 + size, 5 + size, 5 + size + 1]


@pytest.mark.parametrize(("eager", "ends"), [(8, [108, 100]), (7, [108, 108])])
def test_small_messages_of_a_collective_wait_for_nobody(eager: int, ends: list[int]) -> None:
    # Rank 1 is late: what rank 0 sent is there already, and its own message is in a buffer, or both wait for all.
    ranks = [trace(node(1, 4, us=100 * rank), node(2, 7, (1,), comm_type=2, comm_size=8)) for rank in range(2)]
    plan = flows_of_chakra([parse_chakra(rank) for rank in ranks], eager_bytes=eager)

    end = finishes(plan)
    assert [end[(plan.src == rank) & (plan.dst == rank)].max() for rank in range(2)] == ends
    assert end[(plan.src == 0) & (plan.dst == 1)].item() == (8 if eager == 8 else 108)


def test_what_the_host_does_to_launch_traffic_is_no_traffic() -> None:
    launch = node(1, 7, us=9, is_cpu_op=True)
    rank = trace(launch, node(2, 7, (1,), comm_type=0, comm_size=8, is_cpu_op=False))
    plan = flows(rank, rank)

    assert plan.size_bytes.sum() == 2 * 8
    assert np.count_nonzero(np.isclose(plan.delay_s, 9e-6)) == 2


@pytest.mark.parametrize("n", [2, 3, 5])
@pytest.mark.parametrize(
    ("kind", "moved"), [(0, lambda n: 2 * (n - 1)), (2, lambda n: n * (n - 1)), (7, lambda n: n - 1)]
)
def test_sizes_are_what_a_rank_puts_in(n: int, kind: int, moved: Callable[[int], int]) -> None:
    # Of an all-gather its own part, which each of the others must get; of an allreduce and a reduce-scatter all of it.
    plan = flows(*[trace(node(1, 7, comm_type=kind, comm_size=600))] * n)

    assert plan.size_bytes.sum() == pytest.approx(moved(n) * 600)


def test_operations_take_what_the_roofline_says() -> None:
    rank = trace(node(1, 4, num_ops=6_000_000, tensor_size=2_000_000), node(2, 4, us=3, num_ops=1))
    traces = [parse_chakra(rank)]

    assert flows_of_chakra(traces, roofline=Roofline(1e12)).delay_s.tolist() == pytest.approx([6e-6, 3e-6])
    assert flows_of_chakra(traces, roofline=Roofline(1e12, 1e11)).delay_s[0] == pytest.approx(20e-6)
    with pytest.raises(FormatError, match="node 1: found 6,000,000 operations and no duration; expected `flops`"):
        flows_of_chakra(traces)


def test_computations_of_a_rank_take_turns() -> None:
    # The least id of those that may begin comes first; recorded durations overlap, and so do ranks.
    first = trace(
        node(9, 4, us=50),
        node(5, 4, num_ops=30, tensor_size=1),
        node(3, 4, num_ops=20, tensor_size=1),
        node(2, 4, (5,), num_ops=10, tensor_size=1),
    )
    second = trace(node(1, 4, num_ops=15, tensor_size=1))
    plan = flows_of_chakra([parse_chakra(first), parse_chakra(second)], roofline=Roofline(1e6))
    assert finishes(plan).tolist() == [50, 50, 20, 60, 15]


@pytest.mark.parametrize("seed", range(10))
def test_turns_make_no_circle_and_no_overlap(seed: int) -> None:
    # The same graph at every rank, in any order in the file, with computations of other lengths and two groups.
    rng = np.random.default_rng(seed)
    n, ranks = 30, [[] for _ in range(4)]
    for number in range(n):
        deps = tuple(rng.integers(0, number, int(rng.integers(0, 3))).tolist()) if number else ()
        collective, group, kind = rng.random() < 0.4, bool(rng.integers(2)), int(rng.choice([0, 2, 5, 6, 7]))
        for rank, nodes in enumerate(ranks):
            if collective:
                pg = {"pg_name": f"half{rank // 2}"} if group else {}
                nodes.append(node(number, 7, (*deps[:1], *deps), comm_type=kind, comm_size=8, **pg))
            else:
                work = {"num_ops": int(rng.integers(1, 50)), "tensor_size": 1}
                nodes.append(node(number, 4, (*deps[:1], *deps), **work))
    order = rng.permutation(n)
    traces = [parse_chakra(trace(*(nodes[at] for at in order))) for nodes in ranks]
    plan = flows_of_chakra(traces, roofline=Roofline(1e6), port_bytes_s=1e6)

    end = finishes(plan)
    took = np.rint(plan.delay_s * 1e6)
    for rank in range(len(ranks)):
        mine = np.flatnonzero((plan.src == rank) & (plan.dst == rank) & (took > 0))
        mine = mine[np.argsort(end[mine])]
        assert np.all(end[mine[1:]] - took[mine[1:]] >= end[mine[:-1]])


@pytest.mark.parametrize("backwards", [False, True])
def test_collectives_of_a_group_take_turns(backwards: bool) -> None:
    # In the order in which they may begin, whatever the order in the file.
    nodes = [node(1, 7, (2,) if backwards else (), comm_type=2, comm_size=8), node(2, 7, comm_type=2, comm_size=8)]
    apart = [node(number, 7, comm_type=2, comm_size=8, pg_name=name) for number, name in ((1, "a"), (2, "b"))]

    assert finishes(flows(trace(*nodes), trace(*nodes))).max() == 16
    assert finishes(flows(trace(*apart), trace(*apart))).max() == 8


def test_callers_in_a_trace_of_pytorch_are_not_waited_for() -> None:
    # The first dependency of a node is written as a control dependency here: it calls itself, or one that is not there.
    called = trace(node(1, 4, (1,), us=1, rf_id=5), node(2, 4, (77, 1), us=1, rf_id=6))
    (_, second) = parse_chakra(called)

    assert second.deps == (1,)
    assert finishes(flows(called)).tolist() == [1, 2]
    with pytest.raises(FormatError, match="node 2: found a dependency on node 77"):
        flows(trace(node(1, 4, us=1), node(2, 4, (77, 1), us=1)))


def test_without_protobuf_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    message_types.cache_clear()
    for name in [name for name in sys.modules if name.startswith("google")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "google", None)
    with pytest.raises(HeddleError, match="heddle-fabric\\[chakra\\]"):
        parse_chakra(trace(node(1, 4)))


@pytest.mark.parametrize("algorithm", ["ring", "double-binary-tree", "halving-doubling"])
def test_a_collective_waits_for_the_last_and_frees_all_at_their_time(algorithm: str) -> None:
    n, size = 4, 120
    ranks = [
        trace(
            node(1, 4, us=128 * (rank == 2)),
            node(2, 7, (1,), comm_type=0, comm_size=size, pg_name="all"),
            node(3, 4, (2,), us=1),
        )
        for rank in range(n)
    ]
    plan = flows(*ranks, allreduce=algorithm)
    moving = plan.src != plan.dst
    end = finishes(plan)

    assert plan.size_bytes[moving].sum() == pytest.approx(2 * (n - 1) * size)
    after = end[(plan.delay_s > 0.5e-6) & (plan.delay_s < 2e-6)]  # the last node of every rank
    assert len(after) == n
    assert after.min() > 128
    assert after.max() == pytest.approx(end[moving].max() + 1)
    # No rank sends before its own node may begin.
    waiter = np.repeat(np.arange(len(plan)), np.diff(plan.dep_offset))
    begin = np.zeros(len(plan))
    np.maximum.at(begin, waiter, end[plan.dep])
    assert begin[moving & (plan.src == 2)].min() >= 128


def test_groups_of_their_own_and_in_turn() -> None:
    def collective(number: int, group: str, deps: tuple[int, ...] = ()) -> bytes:
        return node(number, 7, deps, comm_type=7, comm_size=8, pg_name=group)

    plan = flows(
        trace(collective(1, "a"), collective(2, "a", (1,))),
        trace(collective(5, "a"), collective(3, "a", (5,))),
        trace(collective(1, "b")),
        trace(collective(1, "b")),
    )
    moving = plan.src != plan.dst

    pairs = sorted(zip(plan.src[moving].tolist(), plan.dst[moving].tolist(), strict=True))
    assert pairs == [(0, 1), (0, 1), (1, 0), (1, 0), (2, 3), (3, 2)]
    assert finishes(plan).max() == 8


def test_a_barrier_moves_nothing() -> None:
    plan = flows(
        *(trace(node(1, 4, us=rank), node(2, 7, (1,), comm_type=9), node(3, 4, (2,), us=7)) for rank in range(3))
    )

    assert plan.size_bytes.sum() == 0
    assert sorted(finishes(plan).tolist())[-3:] == [9, 9, 9]


@pytest.mark.parametrize(
    ("ranks", "message"),
    [
        ([trace(node(1, 4, (9,)))], "rank 0, node 1: found a dependency on node 9; expected a node of this rank"),
        (
            [trace(node(1, 4, (2,)), node(2, 4, (1,)))],
            "found nodes that wait for each other in a circle: node . of rank 0 waits for node . of rank 0 waits",
        ),
        (
            [
                trace(node(1, 5, comm_dst=1 - rank, comm_size=1 << 20), node(2, 6, (1,), comm_src=1 - rank))
                for rank in range(2)
            ],
            "in a circle: .*; expected an order, or a larger `eager` if messages wait in buffers of receivers",
        ),
        (
            [trace(node(1, 5, comm_dst=1, comm_size=4)), trace()],
            "rank 0, node 1: found a send to rank 1 with tag 0; expected a receive for it",
        ),
        (
            [trace(), trace(node(4, 6, comm_src=0, comm_size=4))],
            "rank 1, node 4: found a receive from rank 0 with tag 0; expected a send for it",
        ),
        (
            [trace(node(1, 5, comm_dst=1, comm_size=4))],
            "rank 0, node 1: found comm_dst 1; expected comm_dst from 0 to 0",
        ),
        ([trace(node(1, 5, comm_dst=0))], "found no comm_size; expected comm_size from 0"),
        ([trace(node(1, 7, comm_type=3, comm_size=4))], "found comm_type 3; expected one of 0, 1, 2"),
        (
            [trace(node(1, 7, comm_type=0, comm_size=4)), trace()],
            "rank 0, node 1: found collective 1 of the group of all ranks; expected as many at rank 1, which has 0",
        ),
        (
            [trace(node(1, 7, comm_type=0, comm_size=4)), trace(node(6, 7, comm_type=0, comm_size=5))],
            r"rank 1, node 6: found comm_size 5 in .*; expected 4, as at rank 0 \(node 1\)",
        ),
    ],
)
def test_refuses_and_names_rank_and_node(ranks: list[bytes], message: str) -> None:
    with pytest.raises(FormatError, match=message):
        flows(*ranks)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "t.et: found an empty file"),
        (b"\xff\xff\xff\xff\xff\xff", "found no length of a message at byte 0"),
        (trace(node(1, 4))[:-2], "bytes left; is the file whole"),
        (trace(b"\x0f\x0f"), "found no node at byte 8"),
        (trace(node(1, 4), node(1, 4)), "found node 1 a second time"),
    ],
)
def test_refuses_what_is_no_trace(data: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        parse_chakra(data, "t.et")


@given(data=st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for whole in (data, trace(data), trace(node(1, 4)) + data):
        with contextlib.suppress(FormatError):
            flows(whole)


def test_reads_files_of_all_ranks(tmp_path) -> None:
    for rank in range(3):
        (tmp_path / f"run.{rank}.et").write_bytes(trace(node(1, 7, comm_type=0, comm_size=8)))

    assert len(read_chakra(tmp_path / "run")) == 3
    with pytest.raises(FormatError, match=r"found no walk.0.et"):
        read_chakra(tmp_path / "walk")


@pytest.mark.parametrize("kind", [0, 2, 7])
@pytest.mark.parametrize("n", [4, 8, 16])
def test_microbenchmarks_take_what_the_sources_of_astra_sim_say(kind: int, n: int) -> None:
    # 1 MiB in four parts, one after another, on its Ring (50 GiB/s, 500 ns). A message also passes a bus (10 ns) and,
    # where it is added up, the memory three times (1,600 GB/s).
    part = 2**20 // 4
    rank = trace(*(node(at + 1, 7, (at,) if at else (), comm_type=kind, comm_size=part) for at in range(4)))
    network = Network.of(route(tree(16, leaves=1, spines=1)), latency_s=510e-9, hop_latency_s=0)
    network = replace(network, capacity_bytes_s=np.full(len(network.capacity_bytes_s), 50 * 2.0**30))
    plan = flows_of_chakra([parse_chakra(rank)] * n, roofline=Roofline(memory_bytes_s=1.6e12))
    found = play(network, plan.placed(network.fabric.ends()[:n])).makespan_s

    message = part if kind == 2 else part // n
    step = 500 + int(message / (50 * 2**30 / 1e9)) + 10
    added = 3 * int(message / 1600)
    steps = (n - 1) * {0: 2 * step + added, 2: step, 7: step + added}[kind]
    assert found * 1e9 == pytest.approx(4 * steps, rel=0.003)
