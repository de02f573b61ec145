"""HFReduce against closed forms: what each resource carries, and which one binds when."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import costmodel
from helpers.clusters import zoned
from helpers.servers import PCIE_A100, binding, ends, model, outcome_of, routed_tree
from simulate.engines.outcome import Outcome
from simulate.traffic.collectives.trees import chain_tree
from simulate.traffic.hfreduce import HFReduce, Stage
from simulate.traffic.nccl import nccl_collective
from simulate.traffic.node import Servers
from topo.catalog.models import NodeModel
from topo.errors import HeddleError
from topo.graphs import double_binary_tree

MIB = 2.0**20
LONG = 512 * MIB
"""Long enough for the first chunk's way through the stages not to matter."""
AMPLE = {"memory_gbyte_per_s": 1e3}
FREE = {"gpus_on_shared_root_port": None, "first_gpu_on_shared_root_port": None}


def run(n: int, size: float = 64 * MIB, *, on: NodeModel = PCIE_A100, links: float = 1, **options: object) -> Outcome:
    reduce = HFReduce(**options)
    servers = reduce.servers(on, routed_tree()[0], ends(n))
    return outcome_of(servers, reduce.flows(servers, size), links)


def gbyte_per_s(outcome: Outcome, size: float) -> float:
    return size / outcome.makespan_s / 1e9


def bytes_of(outcome: Outcome, resource: str) -> np.ndarray:
    """Bytes at this resource of each server."""
    first = outcome.network.fabric.n_ports
    names = outcome.network.devices.names
    return outcome.resource_bytes[first:][[name.split(" ", 1)[1] == resource for name in names]]


@pytest.mark.parametrize(
    ("options", "operations"), [({}, 24), ({"gdrcopy": False}, 30), ({"nvlink": True}, 16)], ids=str
)
def test_memory_operations_are_those_published(options: dict[str, bool], operations: int) -> None:
    """24 and, with plain copies, 30: section IV-D3 of arXiv 2408.14158v2. With NVLink 16, by the same count."""
    outcome = run(16, **options)
    taken = bytes_of(outcome, "host memory") / (64 * MIB)

    # Servers that are a leaf in one tree and have two children in the other, which is all but a few.
    assert np.median(taken) == pytest.approx(operations)
    assert taken.max() == pytest.approx(operations)


def test_a_server_sends_and_receives_the_buffer_twice_at_most() -> None:
    outcome = run(16)
    fabric = outcome.network.fabric
    adapters = slice(fabric.first_adapter_port, fabric.first_adapter_port + 16)

    assert outcome.resource_bytes[adapters].max() == pytest.approx(2 * 64 * MIB)
    assert outcome.resource_bytes[fabric.peer[adapters]].max() == pytest.approx(2 * 64 * MIB)


def test_each_gpu_copies_the_buffer_once_each_way() -> None:
    outcome = run(4)

    for gpu in range(8):
        for way in ("from", "to"):
            assert bytes_of(outcome, f"PCIe {way} GPU {gpu}")[0] == pytest.approx(64 * MIB)


def test_of_bridged_gpus_one_copies_in_and_both_copy_out() -> None:
    """GPU 5 and GPU 6 share a root port, so that the GPUs bridged to them copy what they have added up."""
    outcome = run(4, nvlink=True)

    for gpu in range(8):
        copies = gpu in (0, 2, 4, 7)
        carried = {"PCIe from": 64 * copies, "PCIe to": 32, "NVLink from": 32 if copies else 96}
        carried |= {"NVLink to": 128 - carried["NVLink from"]}
        for way, size in carried.items():
            assert bytes_of(outcome, f"{way} GPU {gpu}")[0] == pytest.approx(size * MIB)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "nvlink", "figures", "links", "ceiling", "resource"),
    [
        ("as it is: two GPUs, two ways, one root port", False, {}, 1, 37.5 / 4, "shared root port"),
        ("a root port for each GPU: the network, twice", False, FREE, 1, 25 / 2, "link"),
        ("and a faster network: 24 memory operations", False, FREE, 4, 320 / 24, "host memory"),
        ("bridged, as it is: the network, twice", True, {}, 1, 25 / 2, "link"),
        ("and a faster network and memory: the lanes of GPUs that copy", True, AMPLE, 4, 27, "PCIe from GPU 0"),
        ("and a root port for each: 16 memory operations", True, FREE, 4, 320 / 16, "host memory"),
    ],
)
def test_the_tightest_resource_binds(
    what: str, nvlink: bool, figures: dict[str, float | None], links: int, ceiling: float, resource: str
) -> None:
    """The ceilings that section IV-D3 names, each where all others are out of the way."""
    outcome = run(8, LONG, on=model(**figures), nvlink=nvlink, links=links)

    assert binding(outcome) == resource
    assert ceiling * 0.985 < gbyte_per_s(outcome, LONG) < ceiling  # the first chunk fills the pipeline


def test_one_server_reduces_without_a_network() -> None:
    outcome = run(1)

    assert outcome.resource_bytes[: outcome.network.fabric.n_ports].sum() == 0
    assert set(outcome.flows.tag.tolist()) == {Stage.COPY_IN, Stage.SUM, Stage.COPY_OUT}
    assert gbyte_per_s(outcome, 64 * MIB) == pytest.approx(37.5 / 4, rel=0.02)


@pytest.mark.parametrize("nvlink", [False, True])
@pytest.mark.parametrize("n", [1, 2, 3, 5, 8])
def test_no_copy_leaves_before_every_gpu_of_every_server_has_given_its_own(n: int, nvlink: bool) -> None:
    """Whatever the rates: each copy out waits, by way of others, for all copies in of its chunk, and no later ones."""
    reduce = HFReduce(nvlink=nvlink, chunk_bytes=MIB)
    servers = reduce.servers(PCIE_A100, routed_tree()[0], ends(n))
    flows = reduce.flows(servers, 6 * MIB)
    first = {stage: np.flatnonzero(flows.tag == stage).reshape(6, n, -1) for stage in (Stage.COPY_IN, Stage.COPY_OUT)}
    chunk = {int(flow): c for c in range(6) for flow in first[Stage.COPY_IN][c].ravel()}
    before: list[set[int]] = []
    for flow in np.argsort(topological(flows.dep_offset, flows.dep)).tolist():
        before += [set()] * (flow + 1 - len(before))
        direct = flows.dep[flows.dep_offset[flow] : flows.dep_offset[flow + 1]].tolist()
        before[flow] = set().union(*(before[dep] for dep in direct)) | {dep for dep in direct if dep in chunk}
    for c in range(6):
        for flow in first[Stage.COPY_OUT][c].ravel().tolist():
            own = set(first[Stage.COPY_IN][c].ravel().tolist())
            assert own <= before[flow]
            assert {chunk[copy] for copy in before[flow]} == {c}, "chunks before it are ahead on the connection"


def topological(offset: np.ndarray, dep: np.ndarray) -> np.ndarray:
    """A number for each flow that is above those of all it waits for."""
    number = np.zeros(len(offset) - 1, np.int64)
    waiter = np.repeat(np.arange(len(number)), np.diff(offset))
    while True:
        raised = number.copy()
        np.maximum.at(raised, waiter, number[dep] + 1)
        if np.array_equal(raised, number):
            return number
        number = raised


@pytest.mark.slow
def test_more_servers_take_longer_by_the_way_through_the_trees_alone() -> None:
    times = [run(n, 186 * MIB).makespan_s for n in (4, 16, 64)]

    assert all(a < b for a, b in pairwise(times))
    assert times[-1] / times[0] < 1.03


def test_chunks_are_at_most_as_large_as_asked_and_share_the_trees() -> None:
    reduce = HFReduce(chunk_bytes=MIB)
    servers = reduce.servers(PCIE_A100, routed_tree()[0], ends(4))
    for size, chunks in ((1.0, 2), (2 * MIB, 2), (2 * MIB + 1, 4), (7 * MIB, 8)):
        flows = reduce.flows(servers, size)
        sums = flows.size_bytes[flows.tag == Stage.SUM]
        assert len(sums) == 4 * chunks
        assert sums.sum() == pytest.approx(4 * size)


def test_any_trees_will_do() -> None:
    reduce = HFReduce()
    servers = reduce.servers(PCIE_A100, routed_tree()[0], ends(5))
    chain = outcome_of(servers, reduce.flows(servers, 8 * MIB, [chain_tree(5)]))
    trees = outcome_of(servers, reduce.flows(servers, 8 * MIB, double_binary_tree(5)))

    assert (chain.flows.tag == Stage.UP).sum() == (chain.flows.tag == Stage.DOWN).sum() == 4 * 16
    assert (trees.flows.tag == Stage.UP).sum() == 2 * 4 * 8


FOUR_ZONES = zoned(zones=4, leaves=2, spines=20, n_gpus=40, n_storage=0, joints=1, ports=2)


@pytest.mark.slow
@given(lost=st.sets(st.integers(0, 39), max_size=38), chunks=st.integers(1, 3), seed=st.integers(0, 9))
def test_a_chunk_crosses_once_each_way_between_zones_over_one_pair_of_servers(
    lost: set[int], chunks: int, seed: int
) -> None:
    """Whatever servers are lost, and in whatever order the others are ranks; section IV-B of the paper."""
    kept = np.delete(FOUR_ZONES.ends(), [*lost])
    reduce, size = HFReduce(chunk_bytes=MIB), 2 * chunks * MIB
    servers = reduce.servers(PCIE_A100, FOUR_ZONES, np.random.default_rng(seed).permutation(kept))
    flows = reduce.flows(servers, size)

    at = np.append(np.arange(FOUR_ZONES.n_end_ports), servers.devices.end_port)
    src, dst = at[flows.src], at[flows.dst]
    zone = FOUR_ZONES.zone[FOUR_ZONES.end_node]
    across = np.flatnonzero(zone[src] != zone[dst])
    moved: dict[tuple[int, int], float] = {}
    pairs: dict[tuple[int, int], set[frozenset[int]]] = {}
    for a, b, size_bytes in zip(src[across].tolist(), dst[across].tolist(), flows.size_bytes[across], strict=True):
        zones = int(zone[a]), int(zone[b])
        moved[zones] = moved.get(zones, 0.0) + size_bytes
        pairs.setdefault((min(zones), max(zones)), set()).add(frozenset((a, b)))

    present = np.unique(FOUR_ZONES.zone[FOUR_ZONES.end_node[kept]]).tolist()
    joined = [*pairwise(present)]
    assert moved == pytest.approx({both: size for a, b in joined for both in ((a, b), (b, a))})
    assert {zones: len(found) for zones, found in pairs.items()} == dict.fromkeys(joined, 1)


@pytest.mark.parametrize(("size", "chunk"), [(0, MIB), (-1, MIB), (MIB, 0)])
def test_refuses_nothing_to_reduce(size: float, chunk: float) -> None:
    reduce = HFReduce(chunk_bytes=chunk)
    servers = reduce.servers(PCIE_A100, routed_tree()[0], ends(2))
    with pytest.raises(HeddleError, match="above 0"):
        reduce.flows(servers, size)


def test_refuses_servers_of_another_setup() -> None:
    servers = HFReduce(nvlink=True).servers(PCIE_A100, routed_tree()[0], ends(2))
    with pytest.raises(HeddleError, match="made for something else"):
        HFReduce().flows(servers, MIB)


def test_refuses_more_flows_than_memory_holds() -> None:
    servers = HFReduce().servers(PCIE_A100, routed_tree()[0], ends(2))
    with pytest.raises(HeddleError, match="larger chunks"):
        HFReduce(chunk_bytes=1.0).flows(servers, 1e9)


def test_refuses_a_model_without_sockets() -> None:
    with pytest.raises(HeddleError, match="sockets"):
        HFReduce().operations(model(sockets=None))


@pytest.mark.slow
def test_no_point_was_measured_above_the_ceiling() -> None:
    """Fig. 7 of arXiv 2408.14158v2: the model has no overhead; what is faster refutes a figure of the server."""
    published = costmodel.published("hfreduce")
    size = published.value("IV-B1", "hfreduce", "size_mib") * MIB
    above = []
    for gpus in (16, 64, 128, 512):
        servers = Servers(PCIE_A100, routed_tree()[0], ends(gpus // 8))
        nccl = nccl_collective(servers, "allreduce", size, "ring").flows
        outcomes = {
            "hfreduce": run(gpus // 8, size),
            "hfreduce-nvlink": run(gpus // 8, size, nvlink=True),
            "nccl": outcome_of(servers, replace(nccl, delay_s=np.zeros(len(nccl)))),
        }
        for system, outcome in outcomes.items():
            if published.value("Fig. 7", system, str(gpus)) > gbyte_per_s(outcome, size):
                above.append((system, gpus, binding(outcome)))

    assert not above
