"""3FS: closed forms of one read and one write, who sends when, and where chunks lie."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

import routing
import topo
from helpers.clusters import CATALOG, tree, zoned
from helpers.fluids import routed
from routing.routed import Routed
from simulate.engines.simpy_bridge import NetworkEnvironment
from simulate.traffic.network import Network
from simulate.traffic.placement import zone_of
from simulate.workload.spec import StorageSpec
from simulate.workload.storage import Client, Storage, _chains
from topo.errors import HeddleError
from topo.fabric import Role

RATE = 25e9
MODEL = CATALOG.node("storage-3fs")
SAMPLE = 2.0**20


@pytest.fixture(scope="module")
def network() -> Network:
    fabric = zoned(leaves=4, spines=2, n_gpus=12, n_storage=8, joints=1, ports=1)
    return Network.of(Routed(fabric, routed(fabric)), latency_s=0)


def world(network: Network, seed: int = 0, **options: object) -> tuple[NetworkEnvironment, Storage, list[Client]]:
    env = NetworkEnvironment(network)
    storage = Storage(env, MODEL, StorageSpec(**options))
    fabric = network.fabric
    ends = np.arange(fabric.n_switches, fabric.n_end_ports)
    ends = ends[fabric.role[fabric.end_node[ends]] == Role.COMPUTE]
    rngs = np.random.default_rng(seed).spawn(len(ends))
    return env, storage, [Client(storage, end, rng) for end, rng in zip(ends.tolist(), rngs, strict=True)]


def test_one_read_takes_what_its_parts_take(network: Network) -> None:
    for senders, messages in ((None, 1), (4, 3)):
        env, storage, (client, *_) = world(network, senders=senders)
        file = storage.file(np.random.default_rng(0))
        env.run(until=env.process(client.read(file, 5, SAMPLE)))

        parts = messages * 3e-6 + 100e-6 + SAMPLE / 6.8e9 + SAMPLE / RATE
        assert env.now == pytest.approx(parts)
        (reading,) = storage.readings
        assert reading.finish_s - reading.begin_s == pytest.approx(SAMPLE / RATE)
        assert reading.senders == 1


@pytest.mark.parametrize("replicas", [1, 2, 3])
def test_one_write_passes_along_the_chain(network: Network, replicas: int) -> None:
    env, storage, (client, *_) = world(network, replicas=replicas)
    file = storage.file(np.random.default_rng(0))
    env.run(until=env.process(client.write(file, 5, SAMPLE)))

    once = SAMPLE / RATE + 21e-6 + SAMPLE / 3.8e9
    assert env.now == pytest.approx(3e-6 + replicas * (once + 3e-6))
    assert storage.written_bytes == SAMPLE
    flows = env.outcome().flows
    assert flows.src[0] == client.end
    assert flows.src[1:].tolist() == flows.dst[:-1].tolist()
    assert len(set(flows.dst.tolist())) == replicas


@pytest.mark.parametrize("senders", [1, 3, None])
def test_a_client_lets_only_so_many_send(network: Network, senders: int | None) -> None:
    env, storage, (client, *_) = world(network, senders=senders)
    files = [storage.file(np.random.default_rng(1))]
    env.run(until=env.process(client.load(files, 40, SAMPLE, batches=2)))

    assert len(storage.readings) == 80
    most = max(reading.senders for reading in storage.readings)
    assert most == senders if senders else most > 8
    # Counted on the wire, not by the client.
    outcome = env.outcome()
    begins, ends = np.sort(outcome.start_s), np.sort(outcome.finish_s)
    under_way = np.arange(1, 81) - np.searchsorted(ends, begins, side="right")
    assert under_way.max() == most


def test_incast_takes_the_share_of_another_flow(network: Network) -> None:
    shares = {}
    for senders in (1, 7):
        env, storage, clients = world(network, senders=senders, message="0 s")  # who ends is replaced at once
        zone = zone_of(network.fabric, [client.end for client in clients])
        mine, other = clients[0], clients[1 + int(np.argmax(zone[1:] == zone[0]))]
        files = [storage.file(np.random.default_rng(1))]
        for _ in range(4):
            env.process(mine.load(files, 64, SAMPLE))
        env.run(until=2e-3)  # until the pipe is full
        begin_s = env.now
        env.run(until=env.transfer(other.end, mine.end, RATE * 1e-3))
        shares[senders] = 1e-3 / (env.now - begin_s)

    assert shares[1] == pytest.approx(1 / 2)
    assert shares[7] == pytest.approx(1 / 8)


def test_a_zone_reads_in_itself(network: Network) -> None:
    env, storage, clients = world(network)
    files = [storage.file(np.random.default_rng(1))]
    for client in clients:
        env.process(client.load(files, 8, SAMPLE, batches=1))
        env.process(client.save(files[0], 3.5 * SAMPLE, depth=2))
    env.run()
    flows = env.outcome().flows

    assert zone_of(network.fabric, flows.src).tolist() == zone_of(network.fabric, flows.dst).tolist()
    assert {int(zone) for zone in zone_of(network.fabric, flows.src)} == {0, 1}
    assert storage.written_bytes == pytest.approx(len(clients) * 3.5 * SAMPLE)
    assert flows.size_bytes.sum() == pytest.approx(len(clients) * (8 + 2 * 3.5) * SAMPLE)


@pytest.mark.slow
def test_same_seed_same_bytes(network: Network) -> None:
    def play(seed: int) -> bytes:
        env, storage, clients = world(network, seed)
        files = [storage.file(np.random.default_rng(seed)) for _ in range(3)]
        for client in clients:
            env.process(client.load(files, 16, SAMPLE))
        env.run(until=2e-3)
        return np.array(storage.readings).tobytes()

    assert play(1) == play(1) != play(2)


def test_files_take_the_chains_in_turn(network: Network) -> None:
    _, storage, _ = world(network, stripe=32)
    rng = np.random.default_rng(0)
    used = np.concatenate([storage.file(rng) for _ in range(8)])
    assert np.bincount(used).tolist() == [2] * 128  # 8 servers with 16 SSDs


@given(st.integers(1, 40), st.integers(1, 20), st.integers(1, 5))
def test_chains_use_every_ssd_alike(servers: int, ssds: int, replicas: int) -> None:
    if replicas > servers:
        with pytest.raises(HeddleError, match="at most one per server"):
            _chains(servers, ssds, replicas)
        return
    chains = _chains(servers, ssds, replicas)
    assert all(len(set(chain[:, 0].tolist())) == replicas for chain in chains)
    for replica in range(replicas):
        places = chains[:, replica, 0] * ssds + chains[:, replica, 1]
        assert np.sort(places).tolist() == list(range(servers * ssds))


def test_refuses_what_cannot_be(network: Network) -> None:
    with pytest.raises(ValidationError, match="senders"):
        StorageSpec(senders=0)
    with pytest.raises(ValidationError, match="greater than 0"):
        StorageSpec(chunk="0 B")
    with pytest.raises(HeddleError, match="storage-3fs: ssd_read_gbyte_per_s is unknown"):
        Storage(NetworkEnvironment(network), replace(MODEL, ssd_read_gbyte_per_s=None))
    fabric = tree(40, leaves=2, spines=2)
    with pytest.raises(HeddleError, match="no storage servers"):
        Storage(NetworkEnvironment(Network.of(Routed(fabric, routed(fabric)), latency_s=0)), MODEL)


def test_clients_use_all_ports_of_a_server() -> None:
    nodes = {"gpu": {"model": "pcie-a100", "count": 16}, "st": {"model": "storage-3fs", "count": 4}}
    network = {"shape": "fat-tree", "switch": "QM8700", "leaves": 2, "spines": 2}
    fabric = topo.parse({"name": "f", "nodes": nodes, "network": network}).fabric
    storage = Storage(NetworkEnvironment(Network.of(routing.route(fabric, "balanced"))), MODEL)
    clients = fabric.ends(role="compute").tolist()
    for server, ports in enumerate(storage.adapters):
        used = [storage.adapter(server, client) for client in clients]
        assert np.bincount(used)[ports].tolist() == [len(clients) // 2] * 2


def test_a_server_answers_on_the_plane_of_the_client() -> None:
    nodes = {"gpu": {"model": "hgx-h800", "count": 8}, "st": {"model": "storage-3fs", "count": 4}}
    network = {"shape": "planes", "planes": 2, "tree": {"switch": "QM8700"}}
    both = routing.studies.join_fabrics(topo.parse({"name": "p", "nodes": nodes, "network": network}).fabrics, "p")
    hashed = routing.Hashed(both)
    storage = Storage(NetworkEnvironment(Network.of(hashed)), MODEL)
    clients = both.ends(role="compute")
    for server in range(4):
        ports = np.array([storage.adapter(server, client) for client in clients.tolist()], np.int32)
        assert hashed.reaches(ports, clients).all() and len(set(ports.tolist())) == 2
