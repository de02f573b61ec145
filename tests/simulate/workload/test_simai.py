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
from simulate.workload.formats.simai import parse_simai
from simulate.workload.simai import flows_of_simai, groups_of_ranks
from topo.errors import FormatError, SpecError

RATE = 25e9
HEAD = "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 4 ep: 2 pp: 1 vpp: 1 ga: 1 all_gpus: 16"
NOTHING = "0 NONE 0"


def text(*layers: str, head: str = HEAD) -> str:
    return "\n".join([head, str(len(layers)), *(f"layer\t-1\t{layer}\t100" for layer in layers)])


def played_s(*layers: str) -> float:
    network = simulate.Network.of(route(tree(16, leaves=1, spines=1)), latency_s=0)
    flows = flows_of_simai(parse_simai(text(*layers).split("\n")))
    return simulate.play(network, flows.placed(network.fabric.ends())).makespan_s


@pytest.mark.parametrize(
    ("exchange", "share"),
    [
        ("ALLREDUCE", 2 * 3 / 4),
        ("ALLGATHER", 3 / 4),
        ("REDUCESCATTER", 3 / 4),
        ("ALLTOALL", 3 / 4),
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
        (lambda it: it.replace("pp: 1 ", "pp: 4 "), "stages"),
        (lambda it: it.replace("all_gpus: 16", "all_gpus: 12"), "multiple"),
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


@pytest.mark.parametrize("order", [["gpu0", "gpu1"], ["gpu3", "gpu1"]])
def test_another_order_of_servers_permutes_nothing_inside_them(tmp_path: Path, order: list[str]) -> None:
    fabric = servers_of(4).fabric
    layer = f"5 ALLREDUCE 1000000 {NOTHING} 5 ALLREDUCE 1000000"
    found = job_in(tmp_path, layer, fabric=fabric, head=EIGHT, nodes=order)
    plain = flows_of_simai(parse_simai(text(layer, head=EIGHT).split("\n")))
    server = fabric.host[fabric.end_node[found.devices.end_port[found.flows.src - fabric.n_end_ports]]]
    assert [fabric.hosts[host] for host in server] == [order[rank // 8] for rank in plain.src.tolist()]
    inner = (plain.src // 8 == plain.dst // 8) & (plain.src != plain.dst)
    routes = simulate.Network.of(route(fabric), devices=found.devices).routes(
        found.flows.src, found.flows.dst, found.flows.sl
    )
    crossed = np.add.reduceat(routes.resource < fabric.n_ports, routes.offset[:-1])[routes.route] > 0
    assert not crossed[inner].any()
    assert crossed[plain.src // 8 != plain.dst // 8].all()


def test_unknown_or_too_few_servers_are_refused(tmp_path: Path) -> None:
    layer = f"5 ALLREDUCE 1000 {NOTHING} {NOTHING}"
    bare = servers_of(4).fabric
    bare = replace(bare, host_model=np.full(len(bare.hosts), -1, np.int16))  # as a dump gives it
    with pytest.raises(SpecError, match="The model of the servers is unknown"):
        job_in(tmp_path, layer, fabric=bare)
    assert job_in(tmp_path, layer, fabric=bare, server="dgx-h100").jobs[0].n_ranks == 16
    with pytest.raises(SpecError, match="2 servers; expected at most 1"):
        job_in(tmp_path, layer, fabric=servers_of(1).fabric)
