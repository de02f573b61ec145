"""Rank r of a collective, of training and of inference is GPU r mod G of server r div G, unless it is an adapter."""

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest

import routing
import topo
from simulate import Network, Simulation, Workload, parse_workload, play
from topo.errors import SpecError

FABRIC = topo.parse(
    {
        "name": "c",
        "nodes": {"gpu": {"model": "dgx-h100", "count": 4}},
        "network": {"shape": "rail", "unit_nodes": 4, "tree": {"switch": "QM9700"}},
    }
).fabric
NETWORK = Network.of(routing.route(FABRIC), latency_s=0)
NVLINK = 370.8e9
ADAPTER = 48.5e9
ALLREDUCE = {"name": "a", "kind": "collective", "collective": "allreduce", "size": "1 GB"}
TRAINING = {"name": "a", "kind": "training", "parallel": "tensor", "layers": 2, "forward": "1 ms", "backward": "1 ms"}
INFERENCE = {
    "name": "a", "kind": "inference", "prefill": 4, "requests": 8, "layers": 2, "prompt": "1 ms", "cache": "1 MB",
    "tokens": 1, "token": "1 ms", "experts": "1 MB",
}  # fmt: skip


def made(*jobs: dict[str, object]) -> Workload:
    return parse_workload({"jobs": [*jobs]}, FABRIC)


def played(*jobs: dict[str, object]) -> Simulation:
    return play(NETWORK, made(*jobs))


def gpus(workload: Workload, job: int = 0) -> list[set[tuple[str, int]]]:
    """The servers and numbers of the GPUs that the messages of each flow are between."""
    servers = workload.jobs[job].servers
    assert servers is not None
    gpu: dict[int, tuple[str, int]] = {}
    for server, row in enumerate(servers.ends):
        host = FABRIC.hosts[FABRIC.host[FABRIC.end_node[row[0]]]]
        for number in range(servers.gpus):
            ends = [servers.gpu_over_nvlink[server, number], *servers.gpu_at_adapter[server, number]]
            gpu |= dict.fromkeys(map(int, ends), (host, number))
    flows = workload.flows.part(workload.span(job).start, workload.span(job).stop)
    return [{gpu[src], gpu[dst]} for src, dst in zip(flows.src.tolist(), flows.dst.tolist(), strict=True)]


@pytest.mark.parametrize("job", [ALLREDUCE, TRAINING | {"activations": "1 MB"}, INFERENCE], ids=lambda job: job["kind"])
def test_ranks_of_a_server_never_use_the_fabric(job: dict[str, object]) -> None:
    simulation = played(job | {"ranks": 8})
    assert simulation.jobs[0].ranks == 8
    assert simulation.jobs[0].flows == 0 or simulation.outcome.link_classes == ()
    assert simulation.outcome.link_classes == ()
    assert played(job | {"ranks": 9}).outcome.link_classes


@pytest.mark.parametrize(
    ("ranks", "seconds"),
    [
        (8, 2 * 7 / 8 * 1e9 / NVLINK),  # each half over NVLink
        (16, 2 * (1 / 2 * 1e9 / ADAPTER + 7 / 16 * 1e9 / NVLINK)),  # the first half of the buffer between servers
        (32, 2 * (3 / 4 * 1e9 / ADAPTER + 7 / 32 * 1e9 / NVLINK)),
    ],
)
def test_halving_and_doubling_in_closed_form(ranks: int, seconds: float) -> None:
    """Partners 8 and more apart are on other servers, each over the adapter of its own GPU."""
    job = ALLREDUCE | {"algorithm": "halving-doubling", "ranks": ranks}
    assert played(job).jobs[0].time_s == pytest.approx(seconds, rel=2e-4)


def test_an_adapter_is_a_rank_where_it_is_asked_for() -> None:
    """Eight adapters of one server send to one another over the fabric."""
    simulation = played(ALLREDUCE | {"nodes": [f"gpu0 mlx5_{rail}" for rail in range(8)], "rank": "adapter"})
    assert (simulation.jobs[0].rank, simulation.jobs[0].servers) == ("adapter", 1)
    assert simulation.outcome.link_classes
    assert any("between adapters alone" in said for said in simulation.caveats)
    assert any("one schedule of messages between GPUs" in said for said in played(ALLREDUCE).caveats)


def test_another_order_of_servers_permutes_nothing_inside_them() -> None:
    def numbers(*nodes: str) -> dict[frozenset[str], list[list[int]]]:
        found = defaultdict(list)
        for pair in gpus(made(ALLREDUCE | {"nodes": [*nodes], "algorithm": "double-binary-tree", "ranks": 16})):
            if len(servers := frozenset(server for server, _ in pair)) == 1:
                found[servers].append(sorted(number for _, number in pair))
        return found

    here, there = numbers("gpu0", "gpu2"), numbers("gpu2", "gpu0")
    assert here[frozenset({"gpu0"})] == there[frozenset({"gpu2"})]
    assert here[frozenset({"gpu2"})] == there[frozenset({"gpu0"})]
    assert here.keys() == there.keys()
    assert len(here) == 2


def test_jobs_on_the_same_servers_share_their_gpus() -> None:
    """A smaller job beside another, and one that names its servers in another order, on the very same GPUs."""
    large = ALLREDUCE | {"ranks": 16, "nodes": ["gpu3", "gpu1"]}
    small = ALLREDUCE | {"name": "b", "ranks": 8, "beside": "a"}
    other = ALLREDUCE | {"name": "c", "ranks": 9, "nodes": ["gpu1", "gpu3"]}
    workload = made(large, small, other)
    assert set.union(*gpus(workload, 1)) == {("gpu3", number) for number in range(8)}
    assert set.union(*gpus(workload, 2)) == {("gpu3", 0)} | {("gpu1", number) for number in range(8)}
    assert [job.n_ranks for job in workload.jobs] == [16, 8, 9]
    alone = played(small | {"beside": None, "nodes": ["gpu3"]}).jobs[0].time_s
    beside = play(NETWORK, workload).jobs[1].time_s
    assert beside > 1.05 * alone


def test_ranks_fill_servers_and_the_last_may_be_part_of_one() -> None:
    (job,) = made(ALLREDUCE | {"ranks": 12}).jobs
    assert (job.n_ranks, np.unique(FABRIC.host[FABRIC.end_node[job.ends]]).tolist()) == (12, [0, 1])
    (every,) = made(ALLREDUCE).jobs
    assert every.n_ranks == 32


@pytest.mark.parametrize(
    ("job", "says"),
    [
        ({"ranks": 33}, "found 5 servers; expected at most 4"),
        ({"server": "dgx-b200"}, "The servers of this fabric are dgx-h100, not dgx-b200"),
        ({"server": "dgx-h100", "rank": "adapter"}, "expected gpu, since `server` says what the GPUs are in"),
        ({"algorithm": "sharp"}, "expected `rank: adapter` with it, or `kind: gpu-collective` with `sharp: true`"),
        ({"collective": "all-gather", "algorithm": "recursive-doubling", "ranks": 12}, "of 12 ranks"),
        ({"nodes": ["gpu0"], "ranks": 16}, "found 1 servers; expected 2"),
        ({"rank": "host"}, "expected one of gpu, adapter"),
    ],
)
def test_refuses(job: dict[str, object], says: str) -> None:
    with pytest.raises(SpecError) as refusal:
        made(ALLREDUCE | job)
    assert says in str(refusal.value)


def test_without_a_known_server_it_asks_for_one_or_for_adapters() -> None:
    dump = topo.preset("lab-20").fabric
    dump = replace(dump, host_model=np.full(len(dump.hosts), -1, np.int16))
    with pytest.raises(SpecError, match=r"name a model of the catalog as `server`. Write `rank: adapter` if each"):
        parse_workload({"jobs": [ALLREDUCE]}, dump)
    assert parse_workload({"jobs": [ALLREDUCE | {"server": "pcie-a100"}]}, dump).jobs[0].n_ranks == 128
    assert parse_workload({"jobs": [ALLREDUCE | {"rank": "adapter"}]}, dump).jobs[0].n_ranks == 16
