"""SimAI's workloads against closed forms, over a network that is nowhere full but at the ranks."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import simulate
import topo
from helpers.clusters import tree
from helpers.strategies import examples
from routing.engines.base import route
from simulate.traffic.collectives.algorithms import ALGORITHMS, schedule
from simulate.traffic.flows import Flows
from simulate.traffic.graph import concatenate
from simulate.traffic.tuner import Tuner
from simulate.workload.formats.simai import parse_simai
from simulate.workload.simai import flows_of_simai, groups_of_ranks
from topo.errors import FormatError, HeddleError, SpecError

RATE = 25e9
HEAD = "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 4 ep: 2 pp: 1 vpp: 1 ga: 1 all_gpus: 16"
NOTHING = "0 NONE 0"


def text(*layers: str, head: str = HEAD) -> str:
    return "\n".join([head, str(len(layers)), *(f"layer\t-1\t{layer}\t100" for layer in layers)])


def by_rings(collective: str, groups: np.ndarray, size: float) -> Flows:
    """Each exchange by the first algorithm of its kind, message by message."""
    plan = schedule(collective, next(iter(ALGORITHMS[collective])), groups.shape[1])
    return concatenate([plan.flows(size).placed(group) for group in groups])


def sends(src: np.ndarray, dst: np.ndarray, size: float) -> Flows:
    return Flows.of(src, dst, size)


def played_s(*layers: str, head: str = HEAD) -> float:
    network = simulate.Network.of(route(tree(16, leaves=1, spines=1)), latency_s=0)
    flows = flows_of_simai(parse_simai(text(*layers, head=head).split("\n")), by_rings, sends)
    return simulate.play(network, flows.placed(network.fabric.ends())).makespan_s


@pytest.mark.parametrize(
    ("exchange", "share"),
    [
        ("ALLREDUCE", 2 * 3 / 4),
        ("ALLGATHER", 3 / 4),
        ("REDUCESCATTER", 3 / 4),
        ("ALLTOALL", 3 / 4),
        ("BROADCAST", (64 + 2) / 64),  # from rank to rank, in 64 chunks
        ("ALLTOALL_EP", 1 / 2),
        ("ALLGATHER_DP_EP", 1 / 2),
        ("ALLREDUCE_DP", 2 * 3 / 4),
    ],
)
def test_an_exchange_takes_what_its_group_sends(exchange: str, share: float) -> None:
    """Four ranks in tensor parallel, two in expert and four in data parallel, of which two with other experts each."""
    assert played_s(f"0 {exchange} 100000000 {NOTHING} {NOTHING}") == pytest.approx(share * 1e8 / RATE)


def test_weights_are_summed_beside_what_follows() -> None:
    of_weights = f"{NOTHING} {NOTHING} 1000000 ALLREDUCE 100000000"  # 1 ms, then 6 ms
    alone = played_s(of_weights)
    assert alone == pytest.approx(7e-3)
    assert played_s(f"{NOTHING} 2000000 NONE 0 {NOTHING}", of_weights) == pytest.approx(7e-3)
    assert played_s(f"{NOTHING} 2000000 ALLREDUCE 100000000 {NOTHING}", of_weights) > 10e-3
    assert played_s(f"3000000 NONE 0 {NOTHING} {NOTHING}", of_weights) == pytest.approx(10e-3)


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4))
@examples(30)
def test_every_rank_is_in_one_group_of_each_kind(tensor: int, expert: int, data: int) -> None:
    head = f"{HEAD.split()[0]} model_parallel_NPU_group: {tensor} ep: {expert} all_gpus: {tensor * expert * data}"
    workload = parse_simai(text(head=head).split("\n"))
    size = {"TP": tensor, "EP": expert, "DP": expert * data, "DP_EP": data}
    for among, members in size.items():
        groups = groups_of_ranks(workload, among)
        assert groups.shape[1] == members
        assert sorted(groups.ravel().tolist()) == list(range(workload.ranks))
    of_rank = {among: np.argsort(groups_of_ranks(workload, among).ravel()) // size[among] for among in ("TP", "DP")}
    assert len({*zip(of_rank["TP"].tolist(), of_rank["DP"].tolist(), strict=True)}) == workload.ranks


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda it: "", "nothing"),
        (lambda it: it.replace("HYBRID_TRANSFORMER_FWD_IN_BCKWD", "MICRO"), "MICRO"),
        (lambda it: it.replace("pp: 1 ", "pp: 2 "), "0 layers called embedding_layer"),
        (lambda it: it.replace("pp: 1 ", "pp: 3 "), "on 3 stages; expected a multiple"),
        (lambda it: it.replace("all_gpus: 16", "all_gpus: 12"), "multiple"),
        (lambda it: it.replace("all_gpus: 16", ""), "found no all_gpus; expected it, or `gpus` of the job"),
        (lambda it: it.replace("ep: 2", "ep: x"), "above 0"),
        (lambda it: it.replace("\n1\n", "\n2\n"), "1 layer"),
        (lambda it: it.replace("\n1\n", "\n0\n"), "more than"),
        (lambda it: it.replace("ALLREDUCE", "GATHER"), "exchange GATHER"),
        (lambda it: it.replace("\t100", ""), "11 words"),
        (lambda it: it.replace(" 7 ", " -7 "), "size -7"),
    ],
)
def test_refuses_and_says_where(change: Callable[[str], str], message: str) -> None:
    with pytest.raises(FormatError, match=message) as caught:
        parse_simai(change(text(f"5 ALLREDUCE 7 {NOTHING} {NOTHING}")).split("\n"), "w.txt")
    assert caught.value.line > 0


def servers_of(count: int) -> topo.Cluster:
    nodes = {"gpu": {"model": "dgx-h100", "count": count}}
    return topo.parse(
        {"name": "c", "nodes": nodes, "network": {"shape": "rail", "unit_nodes": 4, "tree": {"switch": "QM9700"}}}
    )


def job_in(folder: Path, *layers: str, fabric: topo.Fabric, head: str = HEAD, **keys: object) -> simulate.Workload:
    (folder / "w.txt").write_text(text(*layers, head=head), encoding="utf-8")
    job = {"name": "step", "kind": "simai", "file": "w.txt", **keys}
    return simulate.parse_workload({"jobs": [job]}, fabric, folder=folder)


EIGHT = HEAD.replace("NPU_group: 4 ep: 2", "NPU_group: 8 ep: 1")


def test_a_rank_is_a_gpu(tmp_path: Path) -> None:
    """Eight ranks in tensor parallel are one server, and use no link of the fabric; data parallel ranks do."""
    routed = route(servers_of(4).fabric)
    for exchange, among_servers in (("ALLREDUCE", False), ("ALLREDUCE_DP", True)):
        found = job_in(tmp_path, f"5 {exchange} 100000000 {NOTHING} {NOTHING}", fabric=routed.fabric, head=EIGHT)
        assert found.jobs[0].n_ranks == 16
        outcome = simulate.play(routed, found).outcome
        assert bool(outcome.resource_bytes[: routed.fabric.n_ports].any()) == among_servers


@pytest.mark.parametrize("algorithm", ["auto", "ring"])
def test_exchanges_take_the_time_of_the_tuner(tmp_path: Path, algorithm: str) -> None:
    """One after another: within servers, among servers on each rail, among all ranks of 4 experts."""
    routed = route(servers_of(4).fabric)
    head = HEAD.replace("NPU_group: 4 ep: 2", "NPU_group: 8 ep: 2").replace("all_gpus: 16", "all_gpus: 32")
    layers = [f"5000 {what} 100000000 {NOTHING} {NOTHING}" for what in ("ALLREDUCE", "ALLGATHER_DP", "ALLTOALL_EP")]
    found = job_in(tmp_path, *layers, fabric=routed.fabric, head=head, algorithm=algorithm)
    servers = found.jobs[0].servers
    assert servers is not None
    tuner = Tuner.of(servers)
    among = [("allreduce", 1, 8, algorithm), ("all-gather", 4, 1, algorithm), ("all-to-all", 2, 1, "auto")]
    times = [
        replace(tuner, servers=m, gpus=g, rails=1 if g == 1 else 8).choose(name, 1e8, by).time_s
        for name, m, g, by in among
    ]
    network = simulate.Network.of(routed, hop_latency_s=0)
    assert simulate.play(network, found).jobs[0].time_s == pytest.approx(sum(times) + 15e-6, rel=1e-6)


@pytest.mark.parametrize("order", [["gpu0", "gpu1"], ["gpu3", "gpu1"]])
def test_another_order_of_servers_permutes_nothing_inside_them(tmp_path: Path, order: list[str]) -> None:
    fabric = servers_of(4).fabric
    layer = f"5 ALLREDUCE 1000000 {NOTHING} 5 ALLREDUCE 1000000"
    found = job_in(tmp_path, layer, fabric=fabric, head=EIGHT, nodes=order)
    plain = job_in(tmp_path, layer, fabric=fabric, head=EIGHT)
    assert np.array_equal(found.flows.src, plain.flows.src)
    servers = found.jobs[0].servers
    assert servers is not None
    hosts = fabric.host[fabric.end_node[servers.ends]]
    assert [[fabric.hosts[host] for host in row] for row in hosts] == [[name] * 8 for name in order]


BLOCK = ("1000 NONE 0 2000 NONE 0 0 NONE 0",) * 2  # of a micro-batch, us: 2 forward, 4 backward


def pipeline(stages: int, batches: int, chunks: int = 1, sent: int = 1, block: tuple[str, ...] = BLOCK) -> str:
    """A file as AICB writes it: gradients, the micro-batches of a stage, what comes after."""
    head = f"{HEAD.split()[0]} model_parallel_NPU_group: 1 ep: 1 pp: {stages} vpp: {chunks} ga: {batches} "
    layers = ["grads -1 1 NONE 0 1 NONE 0 7000 NONE 0 100"]
    for _ in range(batches):
        layers += [f"{'attention' if at else 'embedding_layer'} -1 {layer} 100" for at, layer in enumerate(block)]
    layers += ["cross_entropy1 -1 3000 NONE 0 0 NONE 0 0 NONE 0 100"]
    return "\n".join([f"{head} all_gpus: {2 * stages} pp_comm: {sent}.0", str(len(layers)), *layers])


def stepped_s(file: str) -> float:
    network = simulate.Network.of(route(tree(16, leaves=1, spines=1)), latency_s=0)
    flows = flows_of_simai(parse_simai(file.split("\n")), by_rings, sends)
    return simulate.play(network, flows.placed(network.fabric.ends())).makespan_s


@pytest.mark.parametrize(
    ("stages", "batches", "chunks"),
    [(1, 4, 1), (2, 4, 1), (4, 8, 1), (4, 2, 1), (4, 8, 2), (2, 6, 2)],
)
def test_pipelines_have_the_bubble_that_simai_counts(stages: int, batches: int, chunks: int) -> None:
    """(p - 1) / v times what a micro-batch takes on a stage, beside what is done before and after all of them."""
    found = stepped_s(pipeline(stages, batches, chunks))
    work = batches * 6e-6 + 7e-6 + 3e-6
    assert found == pytest.approx(work + (stages - 1) / chunks * 6e-6, abs=3e-9)


def test_stages_send_what_the_file_says() -> None:
    """Two stages of two ranks, one micro-batch: the activations and their gradients each take 4 ms."""
    assert stepped_s(pipeline(2, 1, sent=100_000_000)) - stepped_s(pipeline(2, 1)) == pytest.approx(8e-3)


def test_interleaved_micro_batches_are_a_multiple_of_stages() -> None:
    with pytest.raises(HeddleError, match="expected a multiple of stages"):
        stepped_s(pipeline(4, 6, 2))


def test_a_job_says_how_many_gpus_train_where_the_file_does_not(tmp_path: Path) -> None:
    fabric = servers_of(4).fabric
    layer = f"5 ALLREDUCE 1000 {NOTHING} 5 ALLREDUCE 1000"
    said = job_in(tmp_path, layer, fabric=fabric, head=EIGHT)
    asked = job_in(tmp_path, layer, fabric=fabric, head=EIGHT.replace("all_gpus: 16", ""), gpus=16)
    assert np.array_equal(said.flows.src, asked.flows.src)
    other = job_in(tmp_path, layer, fabric=fabric, head=EIGHT, gpus=24)  # the file is right
    assert len(other.flows) == len(said.flows)


def test_unknown_or_too_few_servers_are_refused(tmp_path: Path) -> None:
    layer = f"5 ALLREDUCE 1000 {NOTHING} {NOTHING}"
    bare = servers_of(4).fabric
    bare = replace(bare, host_model=np.full(len(bare.hosts), -1, np.int16))  # as a dump gives it
    with pytest.raises(SpecError, match="The model of the servers is unknown"):
        job_in(tmp_path, layer, fabric=bare)
    assert job_in(tmp_path, layer, fabric=bare, server="dgx-h100").jobs[0].n_ranks == 16
    with pytest.raises(SpecError, match="2 servers; expected at most 1"):
        job_in(tmp_path, layer, fabric=servers_of(1).fabric)
