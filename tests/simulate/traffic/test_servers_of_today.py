"""Servers with NVSwitches and rails: bounds, bytes and symmetries of NCCL's collectives, on servers drawn at random."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import routing
from helpers.clusters import CATALOG, nodes
from helpers.strategies import examples
from simulate import play
from simulate.engines.outcome import Outcome
from simulate.traffic.flows import Flows
from simulate.traffic.nccl import _Communicators, nccl_collective
from simulate.traffic.network import Network
from simulate.traffic.node import Servers
from simulate.traffic.placement import rails_of_hosts
from topo.catalog.models import NodeModel
from topo.errors import HeddleError
from topo.shapes.fat_tree import FatTree
from topo.shapes.rail import Rail

LINK = 25.0
"""GB/s of an adapter's link: HDR."""
GB = 1e9
MIB = 2.0**20


def servers_of(model: NodeModel, count: int, shape: object = None, order: object = None) -> tuple[Servers, Network]:
    """Servers of a model on a fabric with a rail for each adapter, all on one level unless told otherwise."""
    shape = shape or FatTree(switch="QM8700", leaves=max(2, -(-count * model.adapters // 20)), spines=20)
    fabric = shape.compile([nodes(count, model.adapters, model.name)], CATALOG, "test")[0]
    ends = np.stack([*rails_of_hosts(fabric).values()])
    servers = Servers(model, fabric, ends if order is None else ends[order])
    return servers, Network.of(routing.route(fabric), devices=servers.devices, latency_s=0)


def played(servers: Servers, network: Network, flows: Flows) -> tuple[float, Outcome]:
    """Bus bandwidth in GB/s for a buffer of 1 GB, and what became of the flows."""
    outcome = play(network, flows)
    return outcome.makespan_s, outcome


def edges(servers: Servers, collective: str = "allreduce", algorithm: str = "ring", *, pxn: bool = True) -> Flows:
    """The flows of a collective of 1 GB without what the tuner adds: flags, latencies, practical factors."""
    found = nccl_collective(servers, collective, GB, algorithm, pxn=pxn)
    sizes = found.flows.size_bytes * GB / found.choice.moved_bytes
    return replace(found.flows, size_bytes=sizes, delay_s=np.zeros(len(sizes)))


def ring_busbw(model: NodeModel, count: int, **more: object) -> float:
    servers, network = servers_of(model, count, **more)
    time_s, _ = played(servers, network, edges(servers))
    n = count * model.gpus
    return 2 * (n - 1) / n / time_s


@st.composite
def models(draw: st.DrawFn, switched: bool = True) -> NodeModel:
    """Servers of 1 to 12 GPUs and 1 to 8 adapters; NVSwitches join the GPUs, or nothing does."""
    switches = draw(st.sampled_from([None, 1, 2, 4]))
    gpus = draw(st.integers(1, 12)) if switches is None else switches * draw(st.integers(1, 3))
    rate = st.floats(5.0, 500.0)
    return NodeModel(
        name="drawn",
        gpu="A100",
        role="compute",
        adapter_model="X",
        gpus=gpus,
        adapters=draw(st.integers(1, 8)),
        pcie_switches=switches,
        pcie_switch_gbyte_per_s=draw(rate),
        gpu_host_gbyte_per_s=draw(rate),
        gpu_adapter_gbyte_per_s=draw(st.none() | rate),
        nvlink_used_gbyte_per_s=draw(rate),
        nvlink_gpus=gpus if switched else None,
        nvswitches=4 if switched else None,
    )


def adapters_bound(model: NodeModel) -> float:
    return model.adapters * min(LINK, model.gpu_adapter_gbyte_per_s or LINK)


@pytest.mark.slow
@examples(40)
@given(models(), st.integers(2, 4))
def test_a_ring_reaches_the_least_of_adapters_nvlink_and_lanes(model: NodeModel, count: int) -> None:
    """Each rail's ring takes the lanes of the GPU next to its adapter; each GPU sends once a ring over NVLink."""
    of_gpu = np.bincount(np.arange(model.adapters) * model.gpus // model.adapters, minlength=model.gpus)
    bounds = [adapters_bound(model), model.adapters * model.gpu_host_gbyte_per_s / of_gpu.max()]
    if model.gpus > 1:
        bounds.append(model.nvlink_used_gbyte_per_s)
    busbw = ring_busbw(model, count)
    assert busbw == pytest.approx(min(bounds), rel=1e-6)


@pytest.mark.slow
@examples(25)
@given(models(switched=False), st.integers(2, 3))
def test_without_nvlink_a_ring_stays_below_adapters_and_lanes(model: NodeModel, count: int) -> None:
    busbw = ring_busbw(model, count)
    assert busbw <= adapters_bound(model) * (1 + 1e-9)
    assert busbw <= model.gpu_host_gbyte_per_s * (1 + 1e-9)


@pytest.mark.slow
@examples(25)
@given(models(), st.integers(2, 3), st.sampled_from(["ring", "tree"]))
def test_every_gpu_and_every_rail_carries_its_share(model: NodeModel, count: int, algorithm: str) -> None:
    servers, network = servers_of(model, count)
    flows = edges(servers, algorithm=algorithm)
    _, outcome = played(servers, network, flows)
    fabric, n = servers.fabric, count * model.gpus
    assert flows.size_bytes.sum() == pytest.approx(2 * (n - 1) * GB)
    ports = servers.ends - fabric.n_switches + fabric.first_adapter_port
    sent = outcome.resource_bytes[ports]
    received = outcome.resource_bytes[fabric.peer[ports]]
    assert sent.sum() == pytest.approx(received.sum())
    assert np.ptp(sent.sum(axis=0)) <= 1e-6 * GB  # every rail carries as much
    if algorithm == "ring":
        assert sent == pytest.approx(np.full(sent.shape, 2 * (n - 1) / n * GB / model.adapters))
        assert received == pytest.approx(sent)


@pytest.mark.slow
@examples(20)
@given(models(), st.data())
def test_names_of_servers_and_rails_do_not_matter(model: NodeModel, data: st.DataObject) -> None:
    """On a fabric where all hosts stand alike, rings in any order of servers and rails take the same time."""
    order = data.draw(st.permutations(range(3)))
    rails = data.draw(st.permutations(range(model.adapters)))
    crossbar = FatTree(switch="QM8700", leaves=2, spines=20)
    once = ring_busbw(model, 3, shape=crossbar)
    assert ring_busbw(model, 3, shape=crossbar, order=np.ix_(order, rails)) == pytest.approx(once, rel=1e-6)


@pytest.mark.slow
@examples(15)
@given(models())
def test_faster_parts_and_more_adapters_never_slow_a_ring(model: NodeModel) -> None:
    once = ring_busbw(model, 2) * (1 - 1e-9)
    for figure in ("gpu_host_gbyte_per_s", "nvlink_used_gbyte_per_s", "gpu_adapter_gbyte_per_s"):
        value = getattr(model, figure)
        if value is not None:
            assert ring_busbw(replace(model, **{figure: 2 * value}), 2) >= once
    if model.adapters <= 4:
        assert ring_busbw(replace(model, adapters=2 * model.adapters), 2) >= once


@pytest.mark.parametrize(
    ("name", "busbw"),
    [
        ("dgx-a100", 8 * 24),
        ("dgx-h100", 8 * LINK),  # on HDR links here
        ("hgx-h800", 160),
        ("pcie-a100", 9 * 2**30 / 1e9),
    ],
)
def test_servers_of_the_catalog(name: str, busbw: float) -> None:
    assert ring_busbw(CATALOG.node(name), 4) == pytest.approx(busbw, rel=1e-6)


def test_one_server_sends_over_nvlink_alone() -> None:
    for name, used in (("dgx-a100", 240), ("dgx-h100", 370.8), ("dgx-b200", 721.8)):
        servers, network = servers_of(CATALOG.node(name), 1)
        for algorithm in ("ring", "tree"):
            time_s, outcome = played(servers, network, edges(servers, algorithm=algorithm))
            assert outcome.resource_bytes[: servers.fabric.n_ports].sum() == 0
            assert 2 * 7 / 8 / time_s == pytest.approx(used, rel=0.15 if algorithm == "tree" else 1e-6)


def test_a_rack_of_72_gpus() -> None:
    """One rack is one server: NVLink at 721.8 GB/s; two racks have 72 adapters of 25 GB/s here, which is more."""
    model = replace(CATALOG.node("gb200-nvl72"), adapters=4)
    assert ring_busbw(model, 1) == pytest.approx(721.8, rel=1e-6)
    assert ring_busbw(model, 2) == pytest.approx(4 * LINK, rel=1e-6)


def test_trees_come_near_the_adapters() -> None:
    """A double binary tree sends each byte twice at most: 8 adapters of 24 GB/s make half of it, twice on the bus."""
    servers, network = servers_of(CATALOG.node("dgx-a100"), 6)
    time_s, _ = played(servers, network, edges(servers, algorithm="tree"))
    assert 0.9 * 192 < 2 * 47 / 48 / time_s <= 192


@examples(25)
@given(models(), st.integers(2, 4), st.booleans())
def test_an_all_to_all_sends_what_it_must(model: NodeModel, count: int, pxn: bool) -> None:
    servers, network = servers_of(model, count)
    n, gpus = count * model.gpus, model.gpus
    flows = edges(servers, "all-to-all", "auto", pxn=pxn)
    assert len(flows) == n * (n - 1) or model.adapters > gpus  # which share what a GPU gets
    time_s, outcome = played(servers, network, flows)
    fabric = servers.fabric
    sent = outcome.resource_bytes[servers.ends - fabric.n_switches + fabric.first_adapter_port]
    outside = gpus * (n - gpus) / n * GB  # of each server
    assert sent.sum(axis=1) == pytest.approx(np.full(count, outside))
    assert time_s >= outside / GB / adapters_bound(model) * (1 - 1e-9)


def test_pxn_keeps_to_the_rails() -> None:
    """In one unit of a rail fabric nothing crosses a spine with PXN, and 7 of 8 bytes do without."""
    shape = Rail(shape="rail", unit_nodes=4, tree=FatTree(switch="QM8700"))
    model = CATALOG.node("dgx-a100")
    across = {}
    for pxn in (True, False):
        servers, network = servers_of(model, 4, shape=shape)
        time_s, outcome = played(servers, network, edges(servers, "all-to-all", "auto", pxn=pxn))
        up = servers.fabric.is_inner & (servers.fabric.port_node < 8)
        across[pxn] = outcome.resource_bytes[: servers.fabric.n_ports][up].sum()
        assert 31 / 32 / time_s == pytest.approx(24 * 31 / 24, rel=0.02)  # 24 of 31 parts leave, over one adapter
    assert across[True] == 0
    assert across[False] == pytest.approx(32 * 24 / 32 * GB * 7 / 8)


def test_rings_start_next_to_their_rail() -> None:
    servers, _ = servers_of(CATALOG.node("dgx-a100"), 2)
    on = _Communicators.of(servers, None)
    assert on.orders()[6, 0].tolist() == [6, 7, 0, 1, 2, 3, 4, 5, 14, 15, 8, 9, 10, 11, 12, 13]


def test_the_way_to_another_rail() -> None:
    """Over NVLink to the GPU of that rail; without NVLink through a PCIe switch, else by the sender's own rail."""
    model = replace(CATALOG.node("dgx-a100"), pcie_switch_gbyte_per_s=27)
    for nvswitches, ways in ((6, ("", "NVLink", "NVLink")), (None, ("", "PCIe from GPU 1", "PCIe from GPU 2"))):
        servers, network = servers_of(replace(model, nvswitches=nvswitches), 2)
        names = np.array(servers.devices.names)
        for gpu, way in enumerate(ways):
            outcome = play(network, Flows.of(*servers.between([gpu], [8], 0), GB))
            used = [name for name in names[outcome.resource_bytes[servers.fabric.n_ports :] > 0] if "gpu0" in name]
            assert any(way in name for name in used)
            assert any("PCIe switch" in name for name in used) is False
            assert any("adapter 0" in name for name in used) == (gpu < 2 or nvswitches == 6)


def test_below_another_switch_bytes_cross_the_processor() -> None:
    """Without NVLink, from rail 0 to GPU 7: up from the switch of the adapter, down to that of the GPU."""
    model = replace(CATALOG.node("dgx-a100"), pcie_switch_gbyte_per_s=20, nvswitches=None)
    servers, network = servers_of(model, 2)
    outcome = play(network, Flows.of(*servers.between([0], [8 + 7], 0), GB))
    names = np.array(servers.devices.names)[outcome.resource_bytes[servers.fabric.n_ports :] > 0]
    assert {name for name in names if "switch" in name} == {
        "gpu1 PCIe switch 0 to host",
        "gpu1 PCIe switch 3 from host",
    }
    assert outcome.makespan_s == pytest.approx(GB / 20e9)


@pytest.mark.parametrize(
    ("figures", "says"),
    [
        ({"adapters": 4}, "found 8 adapters of each server in the fabric; dgx-a100 has 4"),
        ({"pcie_switches": 3}, "expected an equal part below each"),
        ({"nvlink_used_gbyte_per_s": None, "nvlink_gbyte_per_s": None}, "no nvlink_gbyte_per_s of dgx-a100"),
        ({"nvswitches": None}, "no pcie_switch_gbyte_per_s of dgx-a100"),
        ({"gpu_host_gbyte_per_s": None}, "no gpu_host_gbyte_per_s of dgx-a100"),
    ],
)
def test_refuses_what_is_not_known(figures: dict[str, object], says: str) -> None:
    servers, _ = servers_of(CATALOG.node("dgx-a100"), 2)
    with pytest.raises(HeddleError, match=says):
        Servers(replace(servers.model, **figures), servers.fabric, servers.ends)


@pytest.mark.parametrize("name", ["dgx-a100", "mi300x-8"])
def test_fixed_links_are_always_plugged_in(name: str) -> None:
    servers, _ = servers_of(CATALOG.node(name), 2)
    assert servers.bridged == 8
    with pytest.raises(HeddleError, match="are fixed"):
        Servers(servers.model, servers.fabric, servers.ends, nvlink=False)
