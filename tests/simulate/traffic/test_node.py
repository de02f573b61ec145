"""Rates inside a server equal the figures of its model, shared as the hardware shares them."""

from dataclasses import replace

import numpy as np
import pytest

import routing
from helpers.servers import PCIE_A100, binding, ends, model, network_of, outcome_of, routed_tree
from simulate import Network, play
from simulate.traffic.collectives.steps import hierarchical_allreduce
from simulate.traffic.flows import Flows
from simulate.traffic.node import Servers
from simulate.traffic.placement import rails_of_hosts
from topo.builder import FabricBuilder
from topo.errors import HeddleError
from topo.fabric import Role
from topo.speeds import LinkSpeed

OPERATIONS = (1.0, 9.0, 0.25)
SIZE = 27e9


def servers(n: int = 2, **options: object) -> Servers:
    return Servers(PCIE_A100, routed_tree()[0], ends(n), OPERATIONS, **options)


@pytest.fixture(scope="module")
def pair() -> Servers:
    return servers()


def test_each_gpu_has_its_own_lanes_each_way(pair: Servers) -> None:
    gpus, memory = pair.gpu_over_host[0, :5], pair.memory(1)[0]
    out = outcome_of(pair, Flows.of(gpus, memory, SIZE))
    both = outcome_of(pair, Flows.of([*gpus, memory], [memory] * 5 + [gpus[0]], SIZE))

    assert out.finish_s == pytest.approx(1.0)
    assert both.finish_s == pytest.approx(1.0)
    assert out.network.resource_label(int(out.bottleneck[0])).endswith("PCIe from GPU 0")


def test_gpus_5_and_6_share_a_root_port_both_ways_together(pair: Servers) -> None:
    five, six = pair.gpu_over_host[0, [5, 6]]
    memory = pair.memory(1)[0]

    assert outcome_of(pair, Flows.of(five, memory, SIZE)).makespan_s == pytest.approx(1.0)
    one_way = outcome_of(pair, Flows.of([five, six], memory, SIZE))
    assert one_way.finish_s == pytest.approx(2 * 27 / 37.5)
    assert binding(one_way) == "shared root port"
    both_ways = outcome_of(pair, Flows.of([five, six, memory, memory], [memory, memory, five, six], SIZE))
    assert both_ways.finish_s == pytest.approx(4 * 27 / 37.5)


def test_memory_is_taken_by_operations(pair: Servers) -> None:
    sums = outcome_of(pair, Flows.of(pair.memory(9)[0], pair.processor[0], 320e9))
    reads = outcome_of(pair, Flows.of(pair.memory(0.25)[0], pair.processor[0], 320e9))

    assert sums.makespan_s == pytest.approx(9.0)
    assert reads.makespan_s == pytest.approx(0.25)
    assert binding(sums) == "host memory"


def test_between_servers_memories_take_the_network_and_their_operations(pair: Servers) -> None:
    slow, fast = (outcome_of(pair, Flows.of(pair.memory(1)[0], pair.memory(use)[1], 25e9)) for use in (9, 1))

    assert fast.makespan_s == pytest.approx(1.0)
    assert slow.makespan_s == pytest.approx(1.0)  # 225 of 320 GB/s at the receiver
    assert slow.resource_bytes.max() == pytest.approx(9 * 25e9)


def test_gpus_reach_the_adapter_at_9_gibyte_a_second(pair: Servers) -> None:
    src, dst = pair.between([0, 1], [8, 9])
    outcome = outcome_of(pair, Flows.of(src, dst, 9 * 2.0**30))

    assert outcome.finish_s == pytest.approx(2.0)
    assert {outcome.network.resource_label(int(r)) for r in outcome.bottleneck} <= {
        "gpu00 GPUs straight to adapter",
        "gpu01 adapter straight to GPUs",
    }


def test_between_gpus_the_way_is_the_one_there_is() -> None:
    bare, bridged = servers(), servers(nvlink=True)
    src, dst = [4, 5, 4, 7], [5, 6, 6, 8]

    assert [outcome_of(bare, flow(bare, *ends)).makespan_s for ends in zip(src, dst, strict=True)] == pytest.approx(
        [1.0, 1.0, 1.0, 27e9 / (9 * 2.0**30)]
    )
    over_bridge, beside = (outcome_of(bridged, flow(bridged, *ends)) for ends in ((4, 5), (5, 6)))
    assert over_bridge.makespan_s == pytest.approx(27 / 300)
    assert beside.makespan_s == pytest.approx(1.0)
    assert binding(beside).startswith("PCIe")  # what turns below the root port does not cross it


def flow(on: Servers, src: int, dst: int) -> Flows:
    return Flows.of(*on.between([src], [dst]), SIZE)


def test_a_collective_of_gpus_moves_what_its_schedule_says() -> None:
    on = servers(4)
    schedule = hierarchical_allreduce(np.repeat(range(4), 8))
    outcome = outcome_of(on, on.between_gpus(schedule.flows(1e9)))
    fabric = outcome.network.fabric
    sent = outcome.resource_bytes[fabric.first_adapter_port : fabric.first_adapter_port + 4]

    assert sent == pytest.approx(2 * 3 / 4 * 1e9)


def test_devices_stand_behind_the_end_ports_and_apart(pair: Servers) -> None:
    numbers = [pair.gpu_over_host, pair.gpu_behind_port, pair.gpu_at_adapter, pair.gpu_over_nvlink, pair.processor]
    numbers += [pair.memory(use) for use in OPERATIONS]
    every = np.concatenate([number.ravel() for number in numbers])

    assert sorted(every) == list(range(routed_tree()[0].n_end_ports, network_of(pair).n_ends))


@pytest.mark.parametrize(
    ("figures", "what"),
    [
        ({"gpus": 0}, "has no GPU"),
        ({"memory_gbyte_per_s": None}, "no memory_gbyte_per_s"),
        ({"gpu_host_gbyte_per_s": None}, "no gpu_host_gbyte_per_s"),
        ({"root_port_gbyte_per_s": None}, "no root_port_gbyte_per_s"),
        ({"first_gpu_on_shared_root_port": None}, "expected both"),
        ({"first_gpu_on_shared_root_port": 7}, "within its 8 GPUs"),
    ],
)
def test_refuses_what_the_catalog_does_not_know(figures: dict[str, object], what: str) -> None:
    with pytest.raises(HeddleError, match=what):
        Servers(model(**figures), routed_tree()[0], ends(2), (1.0,))


def test_refuses_gpus_that_bridges_do_not_divide() -> None:
    with pytest.raises(HeddleError, match="3 by 3"):
        Servers(model(nvlink_gpus=3), routed_tree()[0], ends(2), nvlink=True)


@pytest.mark.parametrize("bad", [[0, 1], [8, 8], [10**6]])
def test_refuses_adapters_that_are_none(bad: list[int]) -> None:
    with pytest.raises(HeddleError, match="different end ports of hosts"):
        Servers(PCIE_A100, routed_tree()[0], bad)


def test_refuses_no_servers_and_memory_that_was_not_asked_for(pair: Servers) -> None:
    with pytest.raises(HeddleError, match="no servers"):
        Servers(PCIE_A100, routed_tree()[0], [])
    with pytest.raises(HeddleError, match="2 operations"):
        pair.memory(2)


def test_what_is_not_known_does_not_limit() -> None:
    free = Servers(model(gpu_adapter_gbyte_per_s=None), routed_tree()[0], ends(2))

    assert outcome_of(free, flow(free, 0, 8)).makespan_s == pytest.approx(27 / 25)  # the link


def pairs_of_ports(*, one_card: bool, loose: bool = False) -> tuple[routing.Routed, Servers]:
    """Two servers of two GPUs with two ports each: those of one card, or two cards; each pair on two leaves.

    With `loose` the second port of the first GPU of the first server hangs on nothing.
    """
    build = FabricBuilder("dual")
    leaves = [build.switch(f"leaf{at}", model="X", radix=8, role=Role.LEAF, level=1) for at in range(2)]
    for host in range(2):
        for gpu in range(2):
            said = {"model": "C", "host_model": "H", "role": Role.COMPUTE}
            if one_card:
                card = build.adapter(f"gpu{host}", f"mlx5_{gpu}", **said, ports=2)
                ports = [(card, port) for port in (1, 2)]
            else:
                ports = [(build.adapter(f"gpu{host}", f"mlx5_{2 * gpu + at}", **said), 1) for at in range(2)]
            for leaf, (node, port) in zip(leaves, ports, strict=True):
                if not (loose and host == gpu == 0 and leaf == leaves[1]):
                    build.link(node, port, leaf, 2 * host + gpu + 1, LinkSpeed(4, "HDR"))
    build.link(leaves[0], 8, leaves[1], 8, LinkSpeed(4, "HDR"))
    fabric = build.build()
    rows = [*rails_of_hosts(fabric, unplugged=True).values()]
    figures = {"gpus": 2, "adapters": 2 if one_card else 4, "gpu_host_gbyte_per_s": 100.0, "nvlink_gpus": None}
    figures |= {"gpus_on_shared_root_port": None, "first_gpu_on_shared_root_port": None}
    servers = Servers(model(**figures, gpu_adapter_gbyte_per_s=30.0), fabric, np.stack(rows))
    return routing.route(fabric), servers


@pytest.mark.parametrize(("one_card", "rate"), [(True, 30e9), (False, 50e9)])
def test_ports_and_adapters_of_one_gpu_share_its_traffic(one_card: bool, rate: float) -> None:
    """Dual ToR: half of a message by each port; two cards carry 2 x 25 GB/s, and one card what it carries at all."""
    routed, servers = pairs_of_ports(one_card=one_card)
    flows = servers.between_gpus(Flows.of([0, 2], [2, 1], SIZE, after=(1, 0)))
    outcome = play(Network.of(routed, devices=servers.devices, latency_s=0), flows)
    assert outcome.finish_s.tolist() == pytest.approx([SIZE / rate] * 2 + [2 * SIZE / rate] * 2)  # there, then back
    fabric = routed.fabric
    sent = outcome.resource_bytes[servers.ends - fabric.n_switches + fabric.first_adapter_port]
    assert sent.tolist() == [[SIZE / 2, SIZE / 2, 0, 0]] * 2
    between = outcome.resource_bytes[: fabric.n_ports][fabric.is_inner]
    assert not between.any()  # a port of the first leaf sends to one of the first leaf


def test_the_other_port_carries_all_where_one_has_failed() -> None:
    routed, servers = pairs_of_ports(one_card=True, loose=True)
    flows = servers.between_gpus(Flows.of([0], [2], SIZE))
    assert play(Network.of(routed, devices=servers.devices, latency_s=0), flows).makespan_s == pytest.approx(27 / 25)
    assert len(servers.between_gpus(Flows.of([1], [3], SIZE))) == 2


def test_host_memory_sends_over_a_port_that_works() -> None:
    routed, servers = pairs_of_ports(one_card=True, loose=True)
    reversed_ports = np.array([ends.reshape(2, 2)[:, ::-1].ravel() for ends in servers.ends])  # the loose one first
    made = Servers(servers.model, servers.fabric, reversed_ports, (1.0,))
    flows = Flows.of(made.memory(1)[0], made.memory(1)[1], 25e9)
    assert play(Network.of(routed, devices=made.devices, latency_s=0), flows).makespan_s == pytest.approx(1.0)


def test_ports_that_are_not_those_of_the_adapters_are_refused() -> None:
    _, servers = pairs_of_ports(one_card=True)
    with pytest.raises(HeddleError, match="found 4 adapters of each server"):
        Servers(replace(servers.model, adapters=3), servers.fabric, servers.ends)
    with pytest.raises(HeddleError, match="found 4 adapters of each server"):
        Servers(servers.model, servers.fabric, servers.ends[:, [0, 2, 1, 3]])
