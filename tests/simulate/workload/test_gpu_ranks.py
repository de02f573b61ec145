"""A rank is a GPU, whatever wrote the file: of SimAI, GOAL, Chakra or single flows."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import routing
import simulate
import topo
from helpers.strategies import examples
from simulate.workload.place import Workload
from topo.errors import SpecError

SERVERS, GPUS = 4, 8
Message = tuple[int, int, int]
"""Rank that sends, rank that receives, bytes."""


def cluster(count: int = SERVERS, model: str = "dgx-h100") -> topo.Cluster:
    nodes = {"gpu": {"model": model, "count": count}}
    return topo.parse(
        {"name": "c", "nodes": nodes, "network": {"shape": "rail", "unit_nodes": 4, "tree": {"switch": "QM9700"}}}
    )


FABRIC = cluster().fabric
NETWORK = simulate.Network.of(routing.route(FABRIC))
BARE = replace(FABRIC, host_model=np.full(len(FABRIC.hosts), -1, np.int16))
"""As a dump gives it."""


def write(folder: Path, kind: str, ranks: int, messages: list[Message]) -> None:
    """Write messages, each from one rank to another, as a file of a kind."""
    match kind:
        case "goal":
            lines = [f"num_ranks {ranks}"]
            for rank in range(ranks):
                sends = [f"send {size}b to {to} tag {tag}" for tag, (at, to, size) in enumerate(messages) if at == rank]
                recvs = [
                    f"recv {size}b from {at} tag {tag}" for tag, (at, to, size) in enumerate(messages) if to == rank
                ]
                lines += [f"rank {rank} {{", *sends, *recvs, "}"]
            (folder / "x").write_text("\n".join(lines) + "\n", encoding="utf-8")
        case "chakra":
            for rank in range(ranks):
                nodes = []
                for tag, (at, to, size) in enumerate(messages):
                    for mine, kinds in ((at, "COMM_SEND_NODE"), (to, "COMM_RECV_NODE")):
                        if mine == rank:
                            said = {"comm_size": size, "comm_src": at, "comm_dst": to, "comm_tag": tag}
                            attr = [{"name": name, "int64_val": str(value)} for name, value in said.items()]
                            nodes.append({"id": str(len(nodes)), "name": "m", "type": kinds, "attr": attr})
                (folder / f"x.{rank}.json").write_text(json.dumps({"workload_graph": nodes}), encoding="utf-8")
        case "flows":
            rows = "".join(f"0,{at},{to},{size}\n" for at, to, size in messages)
            (folder / "x").write_text(f"start_s,src,dst,bytes\n{rows}", encoding="utf-8")
        case "simai":
            head = f"HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: {GPUS} ep: 1 pp: 1 all_gpus: {ranks}"
            size = sum(size for *_, size in messages)
            layer = f"a -1 5 ALLREDUCE {size} 5 NONE 0 5 ALLREDUCE_DP {size} 1"
            (folder / "x").write_text(f"{head}\n1\n{layer}\n", encoding="utf-8")


def job(folder: Path, kind: str, fabric: topo.Fabric = FABRIC, **keys: object) -> Workload:
    keys = {"name": "a", "kind": kind, "file": "x", **({"rank": "gpu"} if kind == "flows" else {}), **keys}
    return simulate.parse_workload({"jobs": [keys]}, fabric, folder=folder)


def places(found: Workload, network: simulate.Network = NETWORK) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """(F, 2, 2) server and device in it at both ends of each message, and whether it crosses the fabric."""
    fabric, flows = network.fabric, found.flows
    moves = flows.src != flows.dst
    ends = np.stack([flows.src[moves], flows.dst[moves]], 1)
    devices = found.devices
    host = fabric.host[fabric.end_node[devices.end_port[ends - fabric.n_end_ports]]]
    each = len(devices.end_port) // len(found.jobs[0].servers or [0])
    with_devices = simulate.Network.of(routing.Routed(fabric, network.tables), devices=devices)
    routes = with_devices.routes(flows.src[moves], flows.dst[moves], flows.sl[moves])
    crosses = np.array(
        [(routes.resource[a:b] < fabric.n_ports).any() for a, b in zip(routes.offset, routes.offset[1:], strict=False)]
    )
    return np.stack([host, (ends - fabric.n_end_ports) % each], 2), crosses[routes.route]


@st.composite
def traffic(draw: st.DrawFn) -> tuple[int, list[Message]]:
    ranks = draw(st.integers(2, SERVERS * GPUS))
    pairs = st.tuples(st.integers(0, ranks - 1), st.integers(0, ranks - 1), st.integers(1, 10**6))
    return ranks, draw(st.lists(pairs.filter(lambda pair: pair[0] != pair[1]), min_size=1, max_size=12))


@pytest.mark.parametrize("kind", ["goal", "chakra", "flows"])
@given(traffic(), st.permutations(range(SERVERS)))
@examples(25)
def test_a_rank_is_gpu_r_mod_g_of_server_r_div_g(
    tmp_path_factory: pytest.TempPathFactory, kind: str, drawn: tuple[int, list[Message]], order: list[int]
) -> None:
    """In any order of servers: messages of a server stay in it, all others leave it, and GPUs keep their places."""
    ranks, messages = drawn
    folder = tmp_path_factory.mktemp("job")
    write(folder, kind, ranks, messages)
    plain, moved = job(folder, kind), job(folder, kind, nodes=[FABRIC.hosts[at] for at in order])
    sizes = moved.flows.size_bytes[moved.flows.src != moved.flows.dst]
    by_size = sorted(range(len(messages)), key=lambda at: messages[at][2])
    for at, row in zip(by_size, np.argsort(sizes, kind="stable").tolist(), strict=True):
        assert sizes[row] == messages[at][2]
    (here, crosses_here), (there, crosses) = places(plain), places(moved)
    server = np.array([[src // GPUS, dst // GPUS] for src, dst, _ in messages])
    assert sorted(here[:, :, 0].tolist()) == sorted(server.tolist())
    assert there[:, :, 0].tolist() == np.array(order)[here[:, :, 0]].tolist()
    assert there[:, :, 1].tolist() == here[:, :, 1].tolist()  # nothing is permuted inside
    assert crosses.tolist() == crosses_here.tolist() == (here[:, 0, 0] != here[:, 1, 0]).tolist()


@pytest.mark.parametrize("kind", ["goal", "chakra", "flows", "simai"])
def test_unknown_servers_are_refused_with_what_to_write(tmp_path: Path, kind: str) -> None:
    write(tmp_path, kind, 16, [(0, 15, 1000), (1, 2, 1000)])
    with pytest.raises(SpecError) as caught:
        job(tmp_path, kind, BARE)
    assert "The model of the servers is unknown" in str(caught.value)
    assert "as `server`" in str(caught.value)
    assert ("Write `rank: adapter` if each rank is an adapter port" in str(caught.value)) == (kind != "simai")
    assert job(tmp_path, kind, BARE, server="dgx-h100").jobs[0].n_ranks == 16
    with pytest.raises(SpecError, match="storage-3fs has no GPU"):
        job(tmp_path, kind, BARE, server="storage-3fs")
    with pytest.raises(SpecError, match="The servers of this fabric are dgx-h100, not pcie-a100"):
        job(tmp_path, kind, server="pcie-a100")


@pytest.mark.parametrize("kind", ["goal", "chakra", "flows"])
def test_a_rank_may_be_an_adapter(tmp_path: Path, kind: str) -> None:
    write(tmp_path, kind, 4, [(0, 3, 1000), (1, 2, 1000)])
    found = job(tmp_path, kind, BARE, rank="adapter")
    assert (found.jobs[0].n_ranks, len(found.devices.end_port)) == (4, 0)
    assert set(found.flows.src.tolist()) <= set(found.jobs[0].ends.tolist())
    with pytest.raises(SpecError, match="8 ports fit"):
        job(tmp_path, kind, rank="adapter", nodes=["gpu0", "gpu1", "gpu2", "gpu3"])
    with pytest.raises(SpecError, match="expected gpu, since `server`"):
        job(tmp_path, kind, BARE, rank="adapter", server="dgx-h100")


def test_flows_that_name_their_adapters_have_no_place(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("start_s,src,dst,bytes\n0,gpu0 mlx5_0,gpu1 mlx5_0,7\n", encoding="utf-8")
    spec = {"name": "a", "kind": "flows", "file": "x"}
    assert len(simulate.parse_workload({"jobs": [spec]}, FABRIC, folder=tmp_path).flows) == 1
    for key, value in (("nodes", ["gpu0"]), ("server", "dgx-h100"), ("zone", 0), ("within", "leaf")):
        with pytest.raises(SpecError, match=f"found `{key}`; expected a `rank`"):
            simulate.parse_workload({"jobs": [spec | {key: value}]}, FABRIC, folder=tmp_path)
    with pytest.raises(SpecError, match='found src "gpu0 mlx5_0"; expected a rank'):
        simulate.parse_workload({"jobs": [spec | {"rank": "gpu"}]}, FABRIC, folder=tmp_path)


def test_flows_of_ranks_keep_their_levels(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("start_s,src,dst,bytes,sl\n0,0,9,7,3\n0,1,2,7,\n", encoding="utf-8")
    assert job(tmp_path, "flows").flows.sl.tolist() == [3, -1]
    assert job(tmp_path, "flows", sl=2).flows.sl.tolist() == [2, 2]


def test_two_jobs_may_run_on_the_same_gpus(tmp_path: Path) -> None:
    """A job beside another shares its GPUs: two like it take as long as one that sends twice as much."""
    write(tmp_path, "goal", 16, [(0, 9, 10**9)])
    one = {"name": "a", "kind": "goal", "file": "x"}
    found = simulate.parse_workload({"jobs": [one, one | {"name": "b", "beside": "a"}]}, FABRIC, folder=tmp_path)
    alone = simulate.parse_workload({"jobs": [one]}, FABRIC, folder=tmp_path)
    assert found.devices.names == alone.devices.names
    assert found.flows.src[0] == found.flows.src[1] == alone.flows.src[0]
    network = simulate.Network.of(routing.Routed(FABRIC, NETWORK.tables), latency_s=0)
    assert simulate.play(network, found).makespan_s == pytest.approx(2 * simulate.play(network, alone).makespan_s)


def test_too_few_servers_are_refused(tmp_path: Path) -> None:
    write(tmp_path, "goal", 40, [(0, 39, 8)])
    with pytest.raises(SpecError, match=r"found 5 servers; expected at most 4.*\n?.*Write `rank: adapter`"):
        job(tmp_path, "goal")
    with pytest.raises(SpecError, match="found 2 servers; expected 5"):
        job(tmp_path, "goal", nodes=["gpu0", "gpu1"])


MADE = {
    "ring": {"kind": "collective", "collective": "allreduce"},
    "double-binary-tree": {"kind": "collective", "collective": "allreduce", "algorithm": "double-binary-tree"},
    "shifts": {"kind": "collective", "collective": "all-to-all"},
    "hierarchical": {"kind": "collective", "collective": "allreduce", "algorithm": "hierarchical", "group": "zone"},
    "chain": {"kind": "collective", "collective": "pipeline", "chunks": 3},
    "data": {"kind": "training", "parallel": "data", "parameters": "1 MB", "layers": 2},
    "stages": {"kind": "training", "parallel": "pipeline", "micro_batches": 3, "activations": "1 MB"},
    "servers": {"kind": "training", "parallel": "parameter-server", "servers": 3, "parameters": "1 MB"},
    "inference": {"kind": "inference", "prefill": 5, "requests": 40, "layers": 2, "prompt": "1 us", "cache": "1 MB",
                  "tokens": 1, "token": "1 us", "experts": "1 kB"},
}  # fmt: skip
"""Jobs that make their messages themselves."""


def made(name: str, fabric: topo.Fabric = FABRIC, **keys: object) -> Workload:
    job = {"name": "a", **MADE[name]} | {"collective": {"size": "1 MB"}}.get(str(MADE[name]["kind"]), {})
    job |= {"forward": "1 us", "backward": "1 us"} if MADE[name]["kind"] == "training" else {}
    return simulate.parse_workload({"jobs": [job | keys]}, fabric)


def sent(flows: simulate.Flows) -> NDArray[np.float64]:
    """(M, 3) sender, receiver and bytes of all messages, in order; computation is none."""
    rows = np.stack([flows.src, flows.dst, flows.size_bytes], 1)[flows.src != flows.dst]
    return rows[np.lexsort(np.round(rows.T, 6))]


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("ranks", [13, SERVERS * GPUS])
def test_ranks_that_make_their_messages_are_gpus_too(tmp_path: Path, name: str, ranks: int) -> None:
    """A job of ranks is the same as a file of its messages, which a job of as many adapters sends one by one."""
    if name == "hierarchical" and ranks == 13:
        ranks = 16
    by_adapter = made(name, ranks=ranks, rank="adapter")
    rank_of = {int(end): rank for rank, end in enumerate(by_adapter.jobs[0].ends)}
    flows = by_adapter.flows
    messages = [
        (rank_of[src], rank_of[dst], size)
        for src, dst, size in zip(flows.src.tolist(), flows.dst.tolist(), flows.size_bytes.tolist(), strict=True)
        if src != dst
    ]
    write(tmp_path, "flows", ranks, messages)  # type: ignore[arg-type]
    listed, found = job(tmp_path, "flows"), made(name, ranks=ranks)
    assert found.jobs[0].n_ranks == ranks
    np.testing.assert_allclose(sent(found.flows), sent(listed.flows), rtol=1e-12)


def test_all_gpus_are_ranks_where_none_are_counted() -> None:
    assert made("ring").jobs[0].n_ranks == SERVERS * GPUS
    assert made("ring", nodes=["gpu2", "gpu0"]).jobs[0].n_ranks == 2 * GPUS
    with pytest.raises(SpecError, match=r"found 5 servers; expected at most 4.*\n?.*Write `rank: adapter`"):
        made("ring", ranks=33)


@pytest.mark.parametrize("name", ["ring", "data", "inference"])
def test_ranks_of_unknown_servers_are_refused_with_what_to_write(name: str) -> None:
    with pytest.raises(SpecError, match=r"model of the servers is unknown.*as `server`. Write `rank: adapter` if each"):
        made(name, BARE, ranks=16)
    assert made(name, BARE, ranks=16, server="dgx-h100").jobs[0].n_ranks == 16
    assert len(made(name, BARE, ranks=16, rank="adapter").devices.end_port) == 0


def test_switches_add_up_what_adapters_send() -> None:
    with pytest.raises(SpecError, match=r"expected `rank: adapter` with it, or `kind: gpu-collective`"):
        made("ring", algorithm="sharp")
    assert made("ring", algorithm="sharp", rank="adapter", every_switch=True).jobs[0].n_ranks == 32
