"""Collectives as NCCL's tuner takes them, played: closed forms, bytes of wires, other traffic, packets."""

from functools import cache

import numpy as np
import pytest

import routing
from helpers.clusters import CATALOG
from simulate import play
from simulate.engines.outcome import Outcome
from simulate.traffic.collectives.trees import depths, tree_allreduce
from simulate.traffic.flows import Flows
from simulate.traffic.graph import concatenate
from simulate.traffic.latency import PUBLISHED
from simulate.traffic.nccl import TunedCollective, nccl_collective, nccl_send, nccl_trees
from simulate.traffic.network import Network
from simulate.traffic.node import Servers
from simulate.traffic.placement import rails_of_hosts
from simulate.traffic.tuner import NVLS_EFFICIENCY, TREE_EFFICIENCY, TUNED_ALGORITHMS, Generation
from topo.cluster import parse
from topo.errors import HeddleError

GB = 1e9
MIB = 2.0**20


@cache
def servers_of(name: str, count: int) -> Servers:
    """Servers whose rails have a switch each, so that no two flows meet in the network."""
    model = CATALOG.node(name)
    tree = {"switch": "QM8700" if "a100" in name else "QM9700"}
    network = {"shape": "rail", "unit_nodes": 8, "tree": tree} if model.adapters > 1 else {"shape": "fat-tree", **tree}
    fabric = parse({"name": "pod", "nodes": {"gpu": {"model": name, "count": count}}, "network": network}).fabric
    return Servers(model, fabric, np.stack([*rails_of_hosts(fabric).values()]))


@cache
def network_of(servers: Servers) -> Network:
    return Network.of(routing.route(servers.fabric), devices=servers.tuned_devices, hop_latency_s=0)


def played(servers: Servers, found: TunedCollective) -> Outcome:
    return play(network_of(servers), found.flows)


MACHINES = [
    ("dgx-a100", 1),
    ("dgx-a100", 3),
    ("dgx-h100", 1),
    ("dgx-h100", 2),
    ("dgx-h100", 5),
    ("dgx-b200", 2),
    ("pcie-a100", 4),
]


@pytest.mark.slow
@pytest.mark.parametrize("collective", TUNED_ALGORITHMS)
@pytest.mark.parametrize(("name", "count"), MACHINES)
def test_on_an_idle_network_the_flows_end_at_the_time_of_the_closed_form(
    name: str, count: int, collective: str
) -> None:
    servers = servers_of(name, count)
    for algorithm in ("auto", *TUNED_ALGORITHMS[collective]):
        for size in (8.0, MIB, 8 * GB):
            try:
                found = nccl_collective(servers, collective, size, algorithm, sharp=True, every_switch=True)
            except HeddleError as error:
                assert "NCCL does no" in str(error)
                continue
            time_s = played(servers, found).makespan_s
            assert time_s == pytest.approx(found.choice.time_s, rel=1e-6), (algorithm, size)


def sent(outcome: Outcome, servers: Servers, word: str) -> np.ndarray:
    """Bytes of resources inside servers whose names contain a word."""
    names = np.array([word in name for name in servers.devices.names])
    return outcome.resource_bytes[outcome.network.fabric.n_ports :][names]


def uplinks(outcome: Outcome) -> np.ndarray:
    """Bytes that adapters send into the fabric."""
    fabric = outcome.network.fabric
    return outcome.resource_bytes[: fabric.n_ports][fabric.first_adapter_port :]


def test_bytes_of_a_ring() -> None:
    """Around three servers of eight GPUs, each adapter sends its eighth of what every GPU sends."""
    servers = servers_of("dgx-a100", 3)
    found = nccl_collective(servers, "allreduce", 8 * GB, "ring")
    outcome = played(servers, found)
    assert uplinks(outcome) == pytest.approx(np.full(24, 2 * 23 / 24 * GB))
    for collective in ("all-gather", "reduce-scatter"):
        assert uplinks(played(servers, nccl_collective(servers, collective, 8 * GB))).sum() == pytest.approx(
            23 / 24 * 3 * 8 * GB
        )


def test_bytes_of_trees() -> None:
    """Over two servers, each is the root of one tree and below the root of the other: it sends the buffer once."""
    servers = servers_of("dgx-h100", 2)
    outcome = played(servers, nccl_collective(servers, "allreduce", 8 * GB, "tree"))
    assert uplinks(outcome) == pytest.approx(np.full(16, GB))


def test_bytes_of_nvswitches() -> None:
    servers = servers_of("dgx-h100", 2)
    efficiency = NVLS_EFFICIENCY[Generation.HOPPER] * TREE_EFFICIENCY
    outcome = played(servers, nccl_collective(servers, "allreduce", 8 * GB))
    assert sent(outcome, servers, "NVLink from") == pytest.approx(np.full(16, 9 / 8 * 8 * GB / efficiency))
    assert uplinks(outcome) == pytest.approx(np.full(16, GB))


def test_switches_that_add_up_get_and_give_the_buffer_once() -> None:
    servers = servers_of("dgx-h100", 5)
    for algorithm in ("collnet", "nvls"):
        found = nccl_collective(servers, "allreduce", 8 * GB, algorithm, sharp=True, every_switch=True)
        assert uplinks(played(servers, found)) == pytest.approx(np.full(40, GB))


def test_a_broadcast_leaves_its_root_and_does_not_come_back() -> None:
    servers = servers_of("dgx-a100", 3)
    outcome = played(servers, nccl_collective(servers, "broadcast", 8 * GB))
    assert sent(outcome, servers, "NVLink to GPU 0")[0] < 8 * GB  # the relays of other rails alone
    assert uplinks(outcome).sum() >= 2 * 8 * GB


def test_small_messages_by_ll_move_twice_their_bytes() -> None:
    servers = servers_of("dgx-a100", 3)
    found = nccl_collective(servers, "allreduce", 1024.0)
    assert found.choice.protocol.label == "LL"
    # The server in the middle of a tree sends one and a half times the buffer, an eighth of it on each rail.
    assert uplinks(played(servers, found)).max() == pytest.approx(2 * 1.5 * 1024 / 8)


def test_other_traffic_takes_its_share() -> None:
    """A stream of the same bytes on the way from one adapter halves it for as long as both run."""
    servers = servers_of("dgx-a100", 3)
    found = nccl_collective(servers, "allreduce", 8 * GB, "ring")
    alone_s = played(servers, found).makespan_s
    at = servers.gpu_at_adapter
    stream = Flows.of(int(at[0, 0, 0]), int(at[1, 0, 0]), 2 * 23 / 24 * GB)
    both = play(network_of(servers), concatenate([found.flows, stream]))
    assert 1.9 * alone_s < both.finish_s[:-1].max() < 2.01 * alone_s


def test_the_order_of_servers_changes_nothing_on_equal_ways() -> None:
    servers = servers_of("dgx-h100", 5)
    turned = Servers(servers.model, servers.fabric, servers.ends[[3, 1, 4, 0, 2]])
    for collective in TUNED_ALGORITHMS:
        times = [played(one, nccl_collective(one, collective, GB)).makespan_s for one in (servers, turned)]
        assert times[0] == pytest.approx(times[1], rel=1e-9)


def test_messages_take_no_latency_beside_the_tuners() -> None:
    servers = servers_of("dgx-h100", 2)
    found = nccl_collective(servers, "allreduce", 8.0)
    network = network_of(servers)
    assert play(network, found.flows).makespan_s == pytest.approx(found.choice.time_s, rel=1e-6)
    assert any(caveat.startswith("NCCL's tuner: ") for caveat in network.caveats)
    plain = Network.of(routing.route(servers.fabric), devices=servers.devices, hop_latency_s=0)
    assert play(plain, found.flows).makespan_s == pytest.approx(found.choice.time_s + PUBLISHED.gpu_s, rel=1e-5)
    assert not any(caveat.startswith("NCCL's tuner: ") for caveat in plain.caveats)


@pytest.mark.slow
@pytest.mark.parametrize("collective", ["allreduce", "all-gather"])
def test_packets_agree_where_nothing_collides(collective: str) -> None:
    servers = servers_of("pcie-a100", 4)
    found = nccl_collective(servers, collective, 16 * MIB, "ring")
    network = network_of(servers)
    fluid, packets = (play(network, found.flows, engine=engine).makespan_s for engine in ("fluid", "packets"))
    assert packets == pytest.approx(fluid, rel=0.05)


@pytest.mark.parametrize("n_servers", [1, 2, 3, 6])
def test_trees_are_chains_below_a_tree_of_servers(n_servers: int) -> None:
    for tree in nccl_trees(n_servers, 8):
        server = np.arange(len(tree)) // 8
        crossing = (tree >= 0) & (server != tree // 8)
        assert crossing.sum() == n_servers - 1
        assert depths(tree).max() < 8 + 2 * n_servers.bit_length()


def test_the_tree_sums_every_gpu() -> None:
    rng = np.random.default_rng(0)
    buffers = rng.integers(0, 100, (24, 6))
    ended = tree_allreduce(nccl_trees(3, 8), 3).played(buffers, rng)

    assert np.array_equal(ended, np.tile(buffers.sum(axis=0), (24, 1)))


@pytest.mark.parametrize("target", [1, 8])
def test_a_message_sends_its_bytes_once(target: int) -> None:
    """To a GPU of the same server and to one of another: a large one takes the protocol that adds nothing."""
    assert nccl_send(servers_of("dgx-h100", 2), [0], [target], GB).size_bytes.sum() == pytest.approx(GB)
