"""Profiles of PyTorch against clocks: what is replayed without traffic takes as long as it took, to the kernel."""

import contextlib
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import routing
import simulate
import topo
from helpers.strategies import examples
from simulate.workload.chakra import ChakraNode, NodeType, flows_of_chakra
from simulate.workload.formats.chakra import parse_chakra, read_chakra
from topo.errors import FormatError

Event = dict[str, object]


def kernel(ts: float, dur: float, stream: int, name: str = "gemm", **args: object) -> Event:
    return {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": stream, "ts": ts, "dur": dur, "args": args}


def nccl(ts: float, dur: float, called: str, nelems: int, ranks: list[int], dtype: str = "BFloat16", **more) -> Event:
    args = {"Collective name": called, "In msg nelems": nelems, "dtype": dtype, "Group size": len(ranks),
            "Process Group Name": "1", "Process Group Ranks": str(ranks), **more}  # fmt: skip
    return kernel(ts, dur, 20, "ncclDevKernel_Generic", **args)


def profile(events: list[Event], rank: int = 0) -> bytes:
    host = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 0, "dur": 9, "tid": 1}
    return json.dumps({
        "schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": 4},
        "traceEvents": [{"ph": "M", "name": "process_name"}, host, *events],
    }).encode()  # fmt: skip


def streams(rng: np.random.Generator) -> list[Event]:
    """Kernels on three streams, each behind the last of its stream; times in nanoseconds, as Kineto writes them."""
    found, free = [], {stream: float(rng.integers(1000, 2000)) for stream in (7, 13, 20)}
    for _ in range(int(rng.integers(2, 40))):
        stream = int(rng.choice([*free]))
        ts = round(free[stream] + rng.choice([0, float(rng.integers(1, 9000)) / 1000]), 3)
        dur = round(float(rng.integers(1, 9000)) / 1000, 3)
        free[stream] = round(ts + dur, 3)
        found.append(kernel(ts, dur, stream))
    return [found[at] for at in rng.permutation(len(found))]


def nodes_of(events: list[Event], rank: int = 0) -> tuple[ChakraNode, ...]:
    return parse_chakra(profile(events, rank), f"step.{rank}.json")


@pytest.mark.parametrize("seed", range(20))
def test_each_kernel_begins_and_ends_when_it_did(seed: int) -> None:
    """By hand, node for node: a node ends when all that it waits for has ended, and its own time is over."""
    rng = np.random.default_rng(seed)
    events = streams(rng)
    silent = nccl(1e6, 1, "barrier", 0, [0])  # so that it is a profile of NCCL
    ended: dict[int, float] = {}
    for node in (found := nodes_of([*events, silent])):
        ended[node.id] = max((ended[dep] for dep in node.deps), default=0.0) + node.duration_us
    origin = min(float(event["ts"]) for event in events)
    wanted = sorted(float(event["ts"]) + float(event["dur"]) - origin for event in events)
    got = sorted(ended[node.id] for node in found if node.name == "gemm")
    assert got == pytest.approx(wanted, abs=1e-6)


def test_messages_are_those_of_the_same_trace_of_chakra(tmp_path: Path) -> None:
    """Two pairs of ranks in groups of one name; an element of a bfloat16 has two bytes, and 1,000 make 2,000."""
    for rank in range(4):
        pair = [rank // 2 * 2, rank // 2 * 2 + 1]
        events = [kernel(100, 30.5, 7), nccl(130.5, 400, "_allgather_base", 1000, pair), kernel(540.5, 10, 7),
                  nccl(560, 7, "allreduce", 500, [0, 1, 2, 3], "Float")]  # fmt: skip
        (tmp_path / f"p.{rank}.json").write_bytes(profile(events, rank))
    traces = read_chakra(tmp_path / "p")
    first, gather, second, late, total = traces[0]
    assert (first.type, first.duration_us, first.deps) == (NodeType.COMP, 30.5, ())
    assert gather.deps == (first.id,) and gather.attributes["comm_size"] == 2000
    assert (second.deps, second.duration_us) == ((first.id, gather.id), 20), "10 us late, and 10 us long"
    assert (late.name, late.duration_us) == ("late", pytest.approx(9.5))
    assert total.deps == (late.id,) and total.attributes["comm_size"] == 2000
    flows = flows_of_chakra(traces)
    moved = flows.src != flows.dst
    pairs = np.stack([flows.src[moved] // 2, flows.dst[moved] // 2])[:, flows.size_bytes[moved] == 2000]
    assert (pairs[0] == pairs[1]).all() and pairs.shape[1] == 4, "a ring of two sends its part once"
    assert flows.size_bytes[moved].sum() == 4 * 2000 + 4 * 6 * 500, "a ring of four sends six quarters"
    fabric = topo.preset("lab-20").fabric
    job = {"name": "step", "kind": "chakra", "file": str(tmp_path / "p"), "rank": "adapter"}
    workload = simulate.parse_workload({"jobs": [job]}, fabric)
    network = simulate.Network.of(routing.route(fabric), latency_s=0)
    assert float(simulate.play(network, workload).outcome.finish_s.max()) > 60e-6


def test_a_kernel_waits_for_what_ended_as_it_began() -> None:
    first, second, after = nodes_of([nccl(0, 5, "barrier", 0, [0]), nccl(5, 5, "barrier", 0, [0]), kernel(10, 1, 7)])
    assert (second.deps, after.deps, after.duration_us) == ((first.id,), (second.id,), 1)


def test_what_was_launched_before_the_profile_is_of_the_step_before() -> None:
    """Kernels that were under way have no launch in it, and those of NCCL do not say what they move."""

    def launched(number: int, kind: str) -> Event:
        return {"ph": "X", "cat": kind, "name": "launch", "ts": 90, "dur": 1, "tid": 9, "args": {"correlation": number}}

    before = [kernel(80, 30, 7, correlation=1), kernel(95, 60, 20, "ncclDevKernel_Generic(x)", correlation=2)]
    ours = [kernel(120, 5, 7, correlation=3), nccl(160, 9, "broadcast", 600, [0, 1], "Long", correlation=4)]
    hosts = [launched(3, "cuda_runtime"), launched(4, "cuda_driver")]
    gemm, late, sent = nodes_of([*before, *ours, *hosts])
    assert (gemm.deps, gemm.duration_us, late.name, late.duration_us) == ((), 5, "late", 35)
    assert (sent.deps, sent.attributes["comm_type"], sent.attributes["comm_size"]) == ((late.id,), 5, 4800)
    with pytest.raises(FormatError, match=r"found 'ncclDevKernel_Generic\(x\)', which does not say what it moves"):
        nodes_of([*before, *ours])


@pytest.mark.parametrize(
    ("called", "kind"),
    [("all_to_allv", 6), ("alltoall_base", 6), ("reduce_scatter_tensor_coalesced", 7), ("_reduce_oop", 1),
     ("allreduce_coalesced", 0), ("broadcast", 5), ("barrier", 9), ("all_gather_into_tensor", 2)],
)  # fmt: skip
def test_names_of_collectives(called: str, kind: int) -> None:
    (node,) = nodes_of([nccl(5, 1, called, 8, [0, 1], "Float8_e4m3fn")])
    assert (node.attributes["comm_type"], node.attributes["comm_size"]) == (kind, 8)


def test_what_is_sent_in_a_group_of_all_has_the_ranks_that_it_says() -> None:
    ranks = list(range(4))
    send, recv = nodes_of(
        [nccl(5, 1, "send", 8, ranks, **{"Dst Rank": 2}), nccl(6, 1, "recv", 8, ranks, **{"Src Rank": 3})]
    )
    assert (send.type, send.attributes["comm_dst"], send.attributes["comm_size"]) == (NodeType.COMM_SEND, 2, 16)
    assert (recv.type, recv.attributes["comm_src"]) == (NodeType.COMM_RECV, 3)
    with pytest.raises(FormatError, match=r"found 'send' in the group \[4, 5\]; expected .* in a group of all ranks"):
        nodes_of([nccl(5, 1, "send", 8, [4, 5], **{"Dst Rank": 2})])


@pytest.mark.parametrize(
    ("events", "message"),
    [
        (
            [kernel(1, 2, 3)],
            "found 1 kernels, none of which says what it moves; expected a profile of a GPU where",
        ),
        ([kernel(-1, 2, 3), nccl(1, 2, "barrier", 0, [0])], "found 'gemm' at -1.0 for 2.0 us; expected times from 0"),
        ([nccl(1, 2, "gather", 4, [0])], "found 'gather' in the group"),
        (
            [nccl(1, 2, "barrier", 0, [0]), kernel(9, 2, 20, "ncclDevKernel_AllGather_RING_LL(x)")],
            r"found 'ncclDevKernel_AllGather_RING_LL\(x\)', which does not say what it moves",
        ),
        ([nccl(1, 2, "allreduce", 4, [0], "Quint8")], "found dtype 'Quint8'"),
        ([nccl(1, 2, "allreduce", -4, [0])], "found In msg nelems -4"),
        ([{**kernel(1, 2, 3), "dur": None}], r"found an event without one \(TypeError\); expected `ts`, `dur`"),
    ],
)
def test_refuses_and_says_what(events: list[Event], message: str) -> None:
    with pytest.raises(FormatError, match=message):
        nodes_of(events)


def test_ranks_that_were_not_profiled_are_missed(tmp_path: Path) -> None:
    (tmp_path / "p.0.json").write_bytes(profile([nccl(1, 2, "allreduce", 4, [0, 1])]))
    with pytest.raises(FormatError, match="2 ranks; expected a trace of each; it is in 1 trace"):
        flows_of_chakra(read_chakra(tmp_path / "p"))
    with pytest.raises(FormatError, match="found the profile of rank 3; expected that of rank 0"):
        parse_chakra(profile([], 3), "p.0.json")


@given(
    st.recursive(
        st.none() | st.integers(-9, 9) | st.text("tsdur", max_size=4),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["ph", "cat", "ts", "dur", "tid", "name", "args"]), inner)
        ),
        max_leaves=9,
    )
)
@examples(100)
def test_any_events_are_read_or_refused(value: object) -> None:
    for events in (value, [value], [value, nccl(1, 2, "barrier", 0, [0])]):
        with contextlib.suppress(FormatError):
            parse_chakra(json.dumps({"traceEvents": events}).encode(), "p.0.json")
