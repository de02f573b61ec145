"""Collectives of GPUs as jobs: the ceilings of docs/validation/fire-flyer.md, beside other jobs, and refusals."""

import numpy as np
import pytest

from helpers.clusters import CATALOG, zoned
from helpers.fluids import routed
from routing.engines.base import route as route_fabric
from routing.names import find_part
from routing.routed import Routed
from simulate.traffic.network import Network
from simulate.traffic.tuner import Tuned, Tuner
from simulate.workload.formats.flow_trace import format_trace_csv
from simulate.workload.place import Workload, place_workload
from simulate.workload.play import play
from simulate.workload.read import format_as_goal
from simulate.workload.spec import WorkloadSpec
from topo.cluster import parse
from topo.errors import HeddleError, SpecError
from topo.files.yaml import parse_yaml
from topo.spec.validation import validate

FABRIC = zoned(leaves=4, spines=20, n_gpus=24, n_storage=4, joints=1, ports=1)
NETWORK = Network.of(Routed(FABRIC, routed(FABRIC)), latency_s=0)
GIB = 2.0**30
MIB = 2.0**20


def placed(*jobs: str) -> Workload:
    document = parse_yaml("jobs:\n" + "".join(f"- {{{job}}}\n" for job in jobs), "w.yaml")
    return place_workload(
        validate(WorkloadSpec, document), document, FABRIC, {}, np.random.default_rng(0), CATALOG.nodes
    )


def job(name: str, algorithm: str, **keys: object) -> str:
    said = {"name": name, "kind": "gpu-collective", "algorithm": algorithm, "size": "186 MiB", "ranks": 8} | keys
    return ", ".join(
        f"{key}: {str(value).lower() if isinstance(value, bool) else value}" for key, value in said.items()
    )


@pytest.mark.parametrize(
    ("algorithm", "nvlink", "ceiling"),
    [
        ("hfreduce", False, 37.5e9 / 4),  # the root port that two GPUs share, in and out
        ("hfreduce", True, 12.5e9),  # a server inside a tree sends everything twice
        ("ring", False, 9 * GIB * 64 / (2 * 63)),  # the way from GPU to adapter
    ],
)
def test_comes_near_its_ceiling(algorithm: str, nvlink: bool, ceiling: float) -> None:
    (result,) = play(NETWORK, placed(job("sum", algorithm, nvlink=nvlink))).jobs
    assert result.ranks == 64
    assert result.collective == "allreduce"
    assert result.algorithm_gbytes_per_s is not None
    assert 0.97 * ceiling / 1e9 < result.algorithm_gbytes_per_s <= 1.01 * ceiling / 1e9


def test_jobs_on_other_servers_do_not_meet() -> None:
    jobs = (job("first", "hfreduce", ranks=4), job("second", "ring", ranks=3, nvlink=True))
    workload = placed(*jobs)
    both = play(NETWORK, workload, alone=True).jobs
    for number, result in enumerate(both):
        (alone,) = play(NETWORK, placed(jobs[number])).jobs
        assert result.time_s == pytest.approx(alone.time_s, rel=1e-9)
        assert result.slowdown == pytest.approx(1.0, rel=1e-9)


def test_repeats_and_computes() -> None:
    once, twice = (
        play(NETWORK, placed(job("sum", "hfreduce", ranks=2, repeat=repeat, compute="10 ms"))).jobs[0]
        for repeat in (1, 2)
    )
    assert twice.time_s == pytest.approx(2 * once.time_s, rel=1e-9)
    assert once.once_s == pytest.approx(once.time_s - 10e-3, rel=1e-9)


def test_a_flow_of_others_shares_the_adapter() -> None:
    """NCCL over adapters has 9 GiB/s of them; a stream of 25 GB/s beside it leaves enough, and gets the rest."""
    beside = "name: flows, kind: collective, rank: adapter, collective: broadcast, size: 1 GB, beside: sum"
    workload = placed(job("sum", "ring", ranks=2, repeat=4), beside)
    summed, stream = play(NETWORK, workload).jobs
    assert stream.ranks == 2
    assert stream.time_s > 1e9 / 25e9 * 1.2
    assert summed.algorithm_gbytes_per_s == pytest.approx(9 * GIB * 16 / 30 / 1e9, rel=0.03)


def test_the_trace_names_devices() -> None:
    workload = placed(job("sum", "hfreduce", ranks=2, size="1 MiB"))
    outcome = play(NETWORK, workload).outcome
    text = b"".join(format_trace_csv(workload, outcome)).decode()
    assert "shared root port" in text
    assert "gpu00 mlx5_0 device 0" in text or "gpu00 device 0" in text
    with pytest.raises(HeddleError, match="looks into servers, which GOAL cannot say"):
        format_as_goal(workload, FABRIC)


def test_a_network_takes_devices_on() -> None:
    devices = placed(job("sum", "hfreduce")).devices
    network = NETWORK.with_devices(devices)
    assert len(network.capacity_bytes_s) == FABRIC.n_ports + len(devices.capacity_bytes_s)


@pytest.mark.parametrize(
    ("jobs", "says"),
    [
        ([job("a", "hfreduce", server="pcie-a1000")], "w.yaml:2:89: found"),
        ([job("a", "hfreduce", server="storage-3fs")], "The servers of this fabric are pcie-a100, not storage-3fs"),
        ([job("a", "hfreduce", role="storage", ranks=2)], "storage-3fs has no GPU"),
        ([job("a", "hfreduce", server="dgx-a100")], "w.yaml:2:"),
        ([job("a", "hfreduce"), job("b", "ring", beside="a")], "w.yaml:3:3: found servers that another job looks"),
        ([job("a", "hfreduce", chunk="1 B")], "take larger chunks"),
        ([job("a", "hfreduce", chunk="0 B")], "expected more than 0"),
        ([job("a", "hfreduce", repeat=1_000_000)], "times; expected at most"),
        ([job("a", "hfreduce", ranks=25)], "found 25 servers; expected at most 24"),
        ([job("a", "rings")], "expected one of auto, ring, tree, nvls, nvls-tree, collnet, hfreduce."),
        ([job("a", "tree", collective="all-gather")], "expected one of allreduce, by tree"),
        ([job("a", "hfreduce", collective="broadcast")], "expected one of allreduce, by hfreduce"),
        ([job("a", "ring", collective="all-to-all")], "expected one of allreduce, all-gather, reduce-scatter, broad"),
        ([job("a", "nvls")], "NCCL does no allreduce by nvls on 8 x 8 GPUs like these"),
        ([job("a", "collnet", sharp=True)], "CollNet takes `sharp: true`, NVSwitches and several servers"),
    ],
)
def test_refuses(jobs: list[str], says: str) -> None:
    with pytest.raises(SpecError) as refusal:
        placed(*jobs)
    assert says in str(refusal.value)
    assert all(finding.where.startswith("w.yaml:") for finding in refusal.value.findings)


def test_a_small_message_takes_its_steps_and_a_tree_has_fewer() -> None:
    """8 bytes over 128 GPUs: tens of microseconds (62 were measured on 16 servers), and a ring has 254 steps."""
    times = {}
    for algorithm in ("auto", "tree", "ring"):
        (result,) = play(NETWORK, placed(job("sum", algorithm, size="8 B", ranks=16))).jobs
        times[algorithm] = result.time_s
    assert times["auto"] == times["tree"]
    assert 62e-6 / 1.5 < times["tree"] < 62e-6 * 1.5
    assert times["ring"] > 3 * times["tree"]


@pytest.mark.parametrize(
    ("keys", "collective", "algorithm", "protocol"),
    [
        ({"size": "8 B"}, "allreduce", "tree", "LL"),
        ({"size": "8 GB", "ranks": 2}, "allreduce", "ring", "Simple"),
        ({"collective": "all-gather"}, "all-gather", "ring", "Simple"),
        ({"collective": "broadcast"}, "broadcast", "ring", "Simple"),
        ({"collective": "all-to-all"}, "all-to-all", "p2p", "Simple"),
        ({"collective": "all-to-all", "size": "8 B"}, "all-to-all", "p2p", "LL"),
    ],
)
def test_the_tuner_chooses(keys: dict[str, object], collective: str, algorithm: str, protocol: str) -> None:
    workload = placed(job("sum", "auto", **keys))
    (result,) = play(NETWORK, workload).jobs
    assert (result.collective, result.algorithm, result.protocol) == (collective, algorithm, protocol)
    assert result.what == f"{collective} by {algorithm} ({protocol})"
    assert result.closed_form_s is not None
    assert result.time_s >= result.closed_form_s * (1 - 1e-6)
    assert (result.channels or 0) >= 1
    assert "closed form" in [column.name for column in play(NETWORK, workload).table.columns]


def test_auto_is_the_default_and_repeats_take_the_latency_each_time() -> None:
    text = "name: sum, kind: gpu-collective, size: 8 B, ranks: 2, repeat: 3, compute: 1 ms"
    (result,) = play(NETWORK, placed(text)).jobs
    assert result.once_s == pytest.approx(result.closed_form_s, rel=1e-3)


def test_others_have_no_tuner() -> None:
    (result,) = play(NETWORK, placed(job("sum", "hfreduce", ranks=2))).jobs
    assert (result.protocol, result.channels, result.closed_form_s) == (None, None, None)
    assert result.what == "allreduce by hfreduce"
    assert "closed form" not in [column.name for column in play(NETWORK, placed(job("sum", "hfreduce"))).table.columns]


RAIL = """
name: rails
nodes: {gpu: {model: dgx-h100, count: 4}}
network: {shape: rail, unit_nodes: 2, tree: {switch: QM9700}}
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("collective", "algorithm"),
    [("all-to-all", "auto"), ("allreduce", "auto"), ("allreduce", "ring"), ("allreduce", "tree")],
)
def test_a_failed_leaf_leaves_the_other_rails(collective: str, algorithm: str) -> None:
    """Leaf 10 is rail 2 of unit 1: nothing of the job passes over that rail, in the other unit either."""
    whole = parse(RAIL).fabric
    left = whole.without(find_part(whole, "leaf10")[0])
    text = f"jobs: [{{{job('sum', algorithm, ranks=4, collective=collective)}}}]"
    document = parse_yaml(text, "w.yaml")
    times = {}
    for fabric in (whole, left):
        network = Network.of(route_fabric(fabric, "fat-tree"), latency_s=0)
        placed = place_workload(
            validate(WorkloadSpec, document), document, fabric, {}, np.random.default_rng(0), CATALOG.nodes
        )
        simulation = play(network, placed)
        (result,) = simulation.jobs
        times[result.failed_rails] = result.time_s
        carried = simulation.outcome.resource_bytes[: fabric.n_ports] > 0
        rail = np.array([name.endswith("mlx5_2") for name in fabric.names])
        assert carried[rail[fabric.port_node]].any() == (fabric is whole)
    assert 1 < times[1] / times[0] < 8 / 7 + 0.01 if collective != "all-to-all" else times[1] > times[0]


STEP = "kind: gpu-training, forward: 10 ms, backward: 20 ms, layers: 4, ranks: 2"


@pytest.mark.parametrize(
    ("keys", "exchanges"),
    [
        ("parallel: data, parameters: 400 MB, bucket: 100 MB, overlap: false", [("allreduce", 4, 1e8)]),
        ("parallel: sharded, parameters: 400 MB", [("all-gather", 8, 1e8), ("reduce-scatter", 4, 1e8)]),
        ("parallel: tensor, activations: 20 MB", [("allreduce", 16, 2e7)]),
        ("parallel: expert, activations: 20 MB", [("all-to-all", 16, 2e7)]),
    ],
)
def test_a_step_of_gpus_exchanges_as_the_tuner_takes_it(keys: str, exchanges: list[tuple[Tuned, int, float]]) -> None:
    """What stands between computations takes the time of the closed form; nothing overlaps, or all of it does."""
    workload = placed(f"name: step, {STEP}, {keys}")
    (result,) = play(NETWORK, workload).jobs
    assert result.ranks == 16
    servers = workload.jobs[0].servers
    assert servers is not None
    tuner = Tuner.of(servers)
    exchanged_s = sum(count * tuner.choose(name, size).time_s for name, count, size in exchanges)
    if "sharded" in keys:
        assert max(exchanged_s, 30e-3) * (1 - 1e-9) <= result.time_s < exchanged_s + 30e-3
    else:
        assert result.time_s == pytest.approx(30e-3 + exchanged_s, rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("parallel", [
    "data, bucket: 1 kB, parameters: 1 GB", "sharded, parameters: 1 GB", "tensor, activations: 1 MB",
    "expert, activations: 1 MB",
])  # fmt: skip
def test_refuses_steps_of_gpus_that_fit_no_memory(parallel: str) -> None:
    keys = f"parallel: {parallel}, layers: 10000, steps: 1000"
    with pytest.raises(SpecError, match="too many; expected at most 10,000,000"):
        placed(f"name: step, kind: gpu-training, forward: 1 s, backward: 2 s, ranks: 2, {keys}")


def test_jobs_of_gpus_stand_apart_also_where_switches_add_up() -> None:
    """Devices of a second job are numbered behind those of the first; end ports of switches are not."""
    cluster = parse(RAIL)
    network = Network.of(route_fabric(cluster.fabric, "fat-tree"), latency_s=0)
    jobs = [job(name, "nvls", ranks=2, sharp=True, every_switch=True) for name in "ab"]
    document = parse_yaml("jobs:\n" + "".join(f"- {{{text}}}\n" for text in jobs), "w.yaml")
    spec = validate(WorkloadSpec, document)
    both = play(
        network, place_workload(spec, document, cluster.fabric, {}, np.random.default_rng(0), CATALOG.nodes)
    ).jobs
    assert both[0].time_s == pytest.approx(both[1].time_s, rel=1e-6)
