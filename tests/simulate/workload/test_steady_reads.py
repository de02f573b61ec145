"""Steady reads against closed forms: who has the narrowest port decides, and Little's law holds between the figures."""

import numpy as np
import pytest

from helpers.clusters import CATALOG, zoned
from helpers.fluids import routed
from routing.routed import Routed
from simulate.traffic.flows import Flows
from simulate.traffic.network import Network
from simulate.workload.spec import StorageSpec
from simulate.workload.storage import SteadyReads, steady_reads
from topo.errors import HeddleError
from topo.fabric import Role

RATE = 25e9
MODEL = CATALOG.node("storage-3fs")
SAMPLE = 2.0**20


def cluster(n_gpus: int, n_storage: int) -> tuple[Network, np.ndarray]:
    """Two zones, and the GPU servers of both; every storage server has an adapter in each."""
    fabric = zoned(leaves=4, spines=20, n_gpus=n_gpus, n_storage=n_storage, joints=1, ports=1)
    network = Network.of(Routed(fabric, routed(fabric)), latency_s=0)
    ends = np.arange(fabric.n_switches, fabric.n_end_ports)
    return network, ends[fabric.role[fabric.end_node[ends]] == Role.COMPUTE]


def reads(n_gpus: int, n_storage: int, senders: int | None, **options: object) -> tuple[SteadyReads, Network]:
    """All GPU servers read."""
    network, clients = cluster(n_gpus, n_storage)
    setup = StorageSpec(senders=senders, replicas=options.pop("replicas", 2), message="0 s")
    return steady_reads(network, clients, MODEL, setup, **{"time_s": 20e-3, **options}), network  # type: ignore[arg-type]


@pytest.mark.slow
def test_few_clients_fill_their_ports() -> None:
    found, network = reads(4, 40, 2, loaders=4)
    assert found.bytes_s == pytest.approx(4 * RATE, rel=0.005)
    fabric = network.fabric
    receiver = fabric.role[np.maximum(fabric.peer_node, 0)]
    into_clients = (fabric.peer >= 0) & (receiver == Role.COMPUTE)
    assert found.load[into_clients] == pytest.approx(1.0, abs=0.01)


@pytest.mark.slow
def test_without_limit_loaders_come_into_step() -> None:
    """All reads of a client share its port and end together; then the port waits for SSDs."""
    found, _ = reads(4, 40, None, loaders=4)
    busy_s = 4 * 32 * SAMPLE / RATE
    idle_s = SAMPLE / 6.8e9 + 100e-6
    assert found.bytes_s == pytest.approx(4 * RATE * busy_s / (busy_s + idle_s), rel=0.01)


@pytest.mark.slow
def test_few_servers_fill_theirs() -> None:
    found, network = reads(24, 2, None, replicas=1)
    assert found.bytes_s == pytest.approx(2 * 2 * RATE, rel=1e-3)  # an adapter in each zone
    fabric = network.fabric
    from_storage = fabric.role[fabric.port_node] == Role.STORAGE
    assert found.load[from_storage] == pytest.approx(1.0, rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("senders", [2, 8, None])
def test_little(senders: int | None) -> None:
    """Reads under way at a client are what arrives in the time that one takes."""
    found, _ = reads(4, 40, senders, loaders=4)
    under_way = found.bytes_s / 4 / SAMPLE * found.read_s
    if senders is not None:
        assert found.senders <= senders
        assert under_way == pytest.approx(senders, rel=0.05)
        assert found.read_s == pytest.approx(senders * SAMPLE / RATE, rel=0.05)
    else:
        assert under_way > 3 * 8


@pytest.mark.parametrize("senders", [1, 7])
def test_a_flow_beside_has_a_share_as_each_sender(senders: int) -> None:
    network, (mine, other, *_) = cluster(24, 40)
    size = 2e-3 * RATE
    setup = StorageSpec(senders=senders, message="0 s")
    beside = Flows.of([other], [mine], size)
    found = steady_reads(network, [mine], MODEL, setup, loaders=4, beside=beside)
    assert found.time_s == pytest.approx((senders + 1) * 2e-3, rel=0.01)
    assert found.bytes_s == pytest.approx(RATE * senders / (senders + 1), rel=0.01)


def test_refuses_too_short_a_time() -> None:
    with pytest.raises(HeddleError, match="no read ended"):
        steady_reads(cluster(4, 8)[0], [], MODEL, StorageSpec())
