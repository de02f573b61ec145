"""Servers with ports on several subnets: who has which ports, and bytes that are all there, evenly."""

import numpy as np
import pytest

import routing
import topo
from routing.routed import Routed
from simulate.traffic.flows import Flows
from simulate.traffic.network import NO_DEVICES, Network
from simulate.traffic.servers import ComputeServers
from topo.errors import HeddleError


def rails(gpus: int, stores: int, ports: int = 2) -> Routed:
    """Servers with eight rails, and a subnet of their own to storage: `ports` of each server."""
    spec = {
        "name": "rails",
        "nodes": {"gpu": {"model": "dgx-h100", "count": gpus}, "st": {"model": "storage-ndr", "count": stores}},
        "network": {"shape": "rail", "unit_nodes": gpus, "tree": {"switch": "QM9700"}},
        "networks": {
            "storage": {
                "network": {"shape": "fat-tree", "switch": "QM9700", "leaves": 2, "spines": 1},
                "adapters": {"gpu": ports, "st": 2},
            }
        },
    }
    subnets = [routing.route(fabric, "minhop") for fabric in topo.parse(spec).fabrics]
    return routing.studies.side_by_side(subnets, "rails")


ROUTED = rails(6, 2)


def test_a_server_is_one_node_with_eight_rails_and_two_ports_to_storage() -> None:
    fabric, servers = ROUTED.fabric, ComputeServers.of(ROUTED.fabric)
    assert servers.rails.shape == (6, 8)
    assert servers.to_storage.shape == (6, 2)
    names = [{fabric.server_of(int(fabric.end_node[end])) for end in row} for row in servers.rails.tolist()]
    assert sorted(name for row in names for name in row) == [f"gpu{at}" for at in range(6)]
    assert [len(row) for row in names] == [1] * 6
    assert sorted(sum(map(len, ports.values())) for ports in servers.stores) == [2, 2]
    used = np.concatenate([servers.rails.ravel(), servers.to_storage.ravel()])
    assert sorted(used.tolist()) == sorted(fabric.ends(role="compute").tolist())  # each port has one purpose


def test_on_one_subnet_all_ports_serve_both_purposes() -> None:
    fabric = topo.preset("dgx-h100-48").fabrics[1]
    servers = ComputeServers.of(fabric)
    assert servers.rails.tolist() == servers.to_storage.tolist()
    assert sorted(servers.rails.ravel().tolist()) == fabric.ends(role="compute").tolist()


@pytest.mark.parametrize("seed", range(20))
def test_bytes_are_kept_and_every_pair_of_ports_has_a_path(seed: int) -> None:
    rng = np.random.default_rng(seed)
    fabric = ROUTED.fabric
    gone = rng.choice(fabric.ends(role="compute"), rng.integers(0, 12), replace=False)
    fabric = fabric.without(gone - fabric.n_switches + fabric.first_adapter_port)
    servers = ComputeServers.of(fabric)
    src, dst = rng.choice(servers.ends, (2, 30))
    size = rng.uniform(1, 9, 30)
    owner = {end: fabric.server_of(int(fabric.end_node[end])) for end in range(fabric.n_switches, fabric.n_end_ports)}
    try:
        spread = servers.spread(Flows.of(src, dst, size))
    except HeddleError as error:
        assert "no subnet in common" in str(error)
        return
    wanted: dict[tuple[str, str], float] = {}
    for x, y, bytes_ in zip(src.tolist(), dst.tolist(), size.tolist(), strict=True):
        wanted[owner[x], owner[y]] = wanted.get((owner[x], owner[y]), 0.0) + bytes_
    found: dict[tuple[str, str], float] = {}
    for x, y, bytes_ in zip(spread.src.tolist(), spread.dst.tolist(), spread.size_bytes.tolist(), strict=True):
        found[owner[x], owner[y]] = found.get((owner[x], owner[y]), 0.0) + bytes_
    assert found == pytest.approx(wanted)
    network = Network.of(Routed(fabric, ROUTED.tables), latency_s=0)
    network.routes(spread.src, spread.dst, spread.sl)  # FlowError where there is no path


def test_servers_without_a_common_subnet_are_named() -> None:
    nodes = {"gpu": {"model": "storage-3fs", "count": 4, "role": "compute"}}
    shape = {"shape": "planes", "planes": 2, "tree": {"switch": "QM8700"}}
    planes = topo.parse({"name": "two", "nodes": nodes, "network": shape}).fabrics
    fabric = routing.studies.side_by_side([routing.route(plane, "minhop") for plane in planes], "two").fabric
    first, second = (ends for ends in ComputeServers.of(fabric).rails[:2])
    cut = np.array([first[0], second[1]]) - fabric.n_switches + fabric.first_adapter_port
    servers = ComputeServers.of(fabric.without(cut))
    named = {fabric.server_of(int(fabric.end_node[end])): end for end in servers.ends.tolist()}
    with pytest.raises(HeddleError, match=r"gpu0 and gpu1 have no subnet in common"):
        servers.spread(Flows.of(named["gpu0"], named["gpu1"], 1.0))


def test_no_compute_server_is_an_error() -> None:
    fabric = topo.parse(
        {"name": "st", "nodes": {"st": {"model": "storage-3fs", "count": 2}},
         "network": {"shape": "fat-tree", "switch": "QM8700", "leaves": 2, "spines": 1}}
    ).fabrics[0]  # fmt: skip
    with pytest.raises(HeddleError, match="no compute nodes"):
        ComputeServers.of(fabric)


def test_devices_cannot_be_changed_afterwards() -> None:
    fields = [value for value in vars(NO_DEVICES).values() if isinstance(value, np.ndarray)]
    assert len(fields) == 9
    assert not any(value.flags.writeable for value in fields)


def test_no_devices_use_nothing() -> None:
    none = NO_DEVICES
    for offset, resource, use in (
        (none.send_offset, none.send_resource, none.send_use),
        (none.receive_offset, none.receive_resource, none.receive_use),
    ):
        assert offset.tolist() == [0]
        assert len(resource) == len(use) == 0
