"""What is inside servers is what the fabric says they are; where nobody says it, nothing is played."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import routing
import topo
from simulate import Network, parse_workload, play
from simulate.workload import JobResult
from topo.errors import SpecError
from topo.fabric import Fabric

RING = {"name": "sum", "kind": "gpu-collective", "algorithm": "ring", "size": "1 TB"}


def cluster(model: str, count: int, network: dict[str, object] | None = None) -> topo.Cluster:
    network = network or {"shape": "rail", "unit_nodes": 4, "tree": {"switch": "QM9700"}}
    return topo.parse({"name": "c", "nodes": {"gpu": {"model": model, "count": count}}, "network": network})


def dumped(fabric: Fabric) -> Fabric:
    """As a dump gives it: no models of servers."""
    return replace(fabric, host_model=np.full(len(fabric.hosts), -1, np.int16))


def ring(fabric: Fabric, **keys: object) -> JobResult:
    return play(Network.of(routing.route(fabric), latency_s=0), parse_workload({"jobs": [RING | keys]}, fabric)).jobs[0]


def refusal(fabric: Fabric, **keys: object) -> str:
    with pytest.raises(SpecError) as caught:
        parse_workload({"jobs": [RING | keys]}, fabric)
    return str(caught.value)


def test_a_server_is_what_nccl_says_of_it(tmp_path: Path) -> None:
    """On a dump and on a plan alike; with half the lanes of PCIe a ring over adapters takes twice as long."""
    fabric = topo.preset("lab-20").fabric
    took = []
    for width in (16, 8):
        pci = f'<pci busid="0000:{{:02x}}:00.0" class="{{}}" link_speed="8.0 GT/s PCIe" link_width="{width}">'
        cards = [f'{pci.format(at, "0x0302")}<gpu dev="{at}" sm="80"/></pci>' for at in range(8)]
        cards.append(f'{pci.format(9, "0x0207")}<nic><net dev="0" speed="200000"/></nic></pci>')
        (tmp_path / "mine.xml").write_text(f'<system version="1"><cpu numaid="0">{"".join(cards)}</cpu></system>')
        for one in (fabric, dumped(fabric)):
            workload = parse_workload({"jobs": [RING | {"ranks": 4, "server": "mine.xml"}]}, one, folder=tmp_path)
            assert workload.jobs[0].servers is not None
            assert workload.jobs[0].servers.model.gpu_adapter_gbyte_per_s == 12 * width / 16
            took.append(play(Network.of(routing.route(one, "minhop"), latency_s=0), workload).jobs[0].finish_s)
    assert took[0] == took[1]
    assert took[2] == took[3] == pytest.approx(2 * took[0], rel=1e-3)


@pytest.mark.slow
def test_the_servers_are_those_of_the_fabric() -> None:
    """64 B200 over eight adapters of 48.5 GB/s each, not pcie-a100 over one adapter."""
    job = ring(cluster("dgx-b200", 8).fabric)
    assert job.ranks == 64
    assert job.bus_gbytes_per_s == pytest.approx(8 * 48.5, rel=1e-3)
    assert ring(cluster("dgx-h100", 8).fabric).bus_gbytes_per_s == pytest.approx(370.8, rel=1e-3)


def test_what_is_full_inside_servers_is_told() -> None:
    """Of H100 it is NVLink, not an adapter; nothing is told where no job looks inside."""
    fabric = cluster("dgx-h100", 4).fabric
    played = play(Network.of(routing.route(fabric), latency_s=0), parse_workload({"jobs": [RING]}, fabric))
    inside = played.to_dict()["inside"]
    full = dict(zip(inside["what"], inside["fullest"], strict=True))
    assert inside["what"][:2] == ["NVLink from GPU", "NVLink to GPU"]
    assert full["NVLink from GPU"] == pytest.approx(1.0, rel=1e-3)
    assert full["GPUs straight to adapter"] == pytest.approx(370.8 / 8 / 48.5, rel=1e-3)
    assert dict(zip(inside["what"], inside["count"], strict=True))["GPUs straight to adapter"] == 32
    bare = {"name": "a", "kind": "collective", "rank": "adapter", "collective": "allreduce", "size": "1 MB", "ranks": 4}
    assert play(routing.route(fabric), parse_workload({"jobs": [bare]}, fabric)).to_dict()["inside"]["what"] == []


def test_ranks_count_servers_and_a_server_brings_all_of_its_adapters() -> None:
    fabric = cluster("dgx-b200", 8).fabric
    (job,) = parse_workload({"jobs": [RING | {"ranks": 3}]}, fabric).jobs
    assert (job.n_ranks, len(job.ends)) == (24, 24)
    assert np.unique(fabric.host[fabric.end_node[job.ends]]).tolist() == [0, 1, 2]
    two = parse_workload({"jobs": [RING | {"ranks": 3}, RING | {"name": "b", "ranks": 5}]}, fabric).jobs
    assert not set(two[0].ends.tolist()) & set(two[1].ends.tolist())
    assert "at most 8: no more compute servers with all their adapters" in refusal(fabric, ranks=9)


def test_a_server_with_an_adapter_in_use_is_not_free() -> None:
    fabric = cluster("dgx-b200", 4).fabric
    other = {"name": "a", "kind": "collective", "rank": "adapter", "collective": "broadcast", "size": "1 MB"}
    jobs = parse_workload({"jobs": [other | {"nodes": ["gpu0 mlx5_3", "gpu2 mlx5_0"]}, RING]}, fabric).jobs
    assert np.unique(fabric.host[fabric.end_node[jobs[1].ends]]).tolist() == [1, 3]


def test_servers_by_name_or_adapter_by_adapter() -> None:
    fabric = cluster("dgx-b200", 4).fabric
    by_host = parse_workload({"jobs": [RING | {"nodes": ["gpu2", "gpu0"]}]}, fabric).jobs[0].ends
    adapters = [f"gpu{host} mlx5_{rail}" for host in (2, 0) for rail in range(8)]
    each = parse_workload({"jobs": [RING | {"nodes": adapters}]}, fabric).jobs[0].ends
    assert by_host.tolist() == each.tolist()
    assert fabric.host[fabric.end_node[each]].tolist() == [2] * 8 + [0] * 8
    assert "gpu2 has 7 adapter ports" in refusal(fabric, nodes=adapters[:7])


def test_what_a_dump_does_not_know_the_workload_must_say() -> None:
    fabric = dumped(cluster("dgx-b200", 4).fabric)
    assert "The model of the servers is unknown" in refusal(fabric)
    assert ring(fabric, server="dgx-b200").bus_gbytes_per_s == pytest.approx(8 * 48.5, rel=1e-3)
    assert "has 8 adapter ports in this fabric, and pcie-a100 has 1" in refusal(fabric, server="pcie-a100")


def test_one_unknown_server_among_known_ones_is_not_guessed() -> None:
    fabric = cluster("dgx-b200", 4).fabric
    partly = replace(fabric, host_model=np.where(np.arange(4) == 2, -1, fabric.host_model).astype(np.int16))
    assert "The model of the servers is unknown" in refusal(partly)
    assert parse_workload({"jobs": [RING | {"nodes": ["gpu0", "gpu1"]}]}, partly).jobs[0].n_ranks == 16
    assert parse_workload({"jobs": [RING | {"server": "dgx-b200"}]}, partly).jobs[0].n_ranks == 32


def test_a_workload_may_not_say_something_else() -> None:
    fabric = cluster("dgx-b200", 4).fabric
    assert "The servers of this fabric are dgx-b200, not dgx-h100" in refusal(fabric, server="dgx-h100")
    assert parse_workload({"jobs": [RING | {"server": "dgx-b200"}]}, fabric).jobs[0].n_ranks == 32


def test_one_plane_of_eight_is_not_the_network() -> None:
    network = {"shape": "planes", "planes": 8, "tree": {"switch": "QM9700"}}
    plane = cluster("hgx-h800", 4, network).fabrics[0]
    assert "gpu0 has 1 adapter port in this fabric, and hgx-h800 has 8" in refusal(plane)


def test_servers_of_two_models_do_not_make_one_job() -> None:
    nodes = {"a": {"model": "dgx-b200", "count": 2}, "b": {"model": "dgx-h100", "count": 2}}
    network = {"shape": "rail", "unit_nodes": 4, "tree": {"switch": "QM9700"}}
    fabric = topo.parse({"name": "c", "nodes": nodes, "network": network}).fabric
    assert "of several models (dgx-b200, dgx-h100)" in refusal(fabric)
    assert ring(fabric, nodes=["b0", "b1"]).bus_gbytes_per_s == pytest.approx(370.8, rel=1e-3)


def test_what_the_catalog_does_not_know_is_refused() -> None:
    fabric = cluster("dgx-b200", 2).fabric
    odd = replace(fabric, models=tuple(name.replace("dgx-b200", "dgx-b900") for name in fabric.models))
    assert "The catalog has no server dgx-b900. Did you mean" in refusal(odd)
    assert "HFReduce is known on servers with one" in refusal(fabric, algorithm="hfreduce")
    assert "are fixed" in refusal(fabric, nvlink=False)


def test_storage_servers_too_are_those_of_the_fabric() -> None:
    fabric = topo.preset("lab-20").fabric
    read = {"name": "read", "kind": "storage", "ranks": 1, "batches": 1}
    assert parse_workload({"jobs": [read]}, fabric).storage_server.name == "storage-3fs"
    for spec, said in (
        ({}, "The model of the servers is unknown"),
        ({"server": "storage-9fs"}, "no server storage-9fs"),
    ):
        with pytest.raises(SpecError, match=said):
            parse_workload({"jobs": [read], "storage": spec}, dumped(fabric))
    with pytest.raises(SpecError, match="are storage-3fs, not management"):
        parse_workload({"jobs": [read], "storage": {"server": "management"}}, fabric)
