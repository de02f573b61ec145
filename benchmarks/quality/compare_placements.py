"""Joint ports spread over leaves beside ports gathered on a border leaf: a table of docs/validation/tables.md.

Run from the repository: python benchmarks/quality/compare_placements.py
"""

from pathlib import Path

import numpy as np

from routing.engines.base import ENGINES
from routing.proof import prove
from routing.quality.figures import measure
from routing.routed import Routed
from routing.tables import RoutingTables
from topo.cluster import Cluster, read
from topo.fabric import Fabric, Role

SPEC = Path(__file__).parents[2] / "configs" / "fire-flyer-2.yaml"


def figures(placement: str) -> dict[str, str]:
    """Route Fire-Flyer 2 with one placement and say what that is worth."""
    source = read(SPEC)
    joints = source.spec.network.joints.model_copy(update={"placement": placement})
    spec = source.spec.model_copy(update={"network": source.spec.network.model_copy(update={"joints": joints})})
    fabric = Cluster(spec, source.catalog).fabrics[0]
    tables = ENGINES["balanced"].route(fabric)
    proof = prove(Routed(fabric, tables))
    quality = measure(Routed(fabric, tables), seed=0)
    gpus = zone_gpus(fabric, 0)
    in_zone = measure(Routed(fabric, tables), gpus, seed=0)
    mean_hops = float((np.arange(len(proof.hops)) * proof.hops).sum() / proof.pairs)
    at_leaf = channels(fabric, (Role.LEAF,), (Role.SPINE,))
    at_spine = channels(fabric, (Role.SPINE,), (Role.LEAF,))
    at_joint = channels(fabric, (Role.LEAF, Role.JOINT), (Role.JOINT, Role.LEAF))
    return {
        "pairs missing": f"{proof.missing:,}",
        "channels in credit loops": f"{proof.credit_loops:,}",
        "pairs over a joint link": spread(proof.load[at_joint]),
        "pairs over a link leaf to spine": spread(proof.load[at_leaf]),
        "pairs over a link spine to leaf": spread(proof.load[at_spine]),
        "switches on a path, mean": f"{mean_hops:.2f}",
        "switches on a path, most": f"{proof.max_hops}",
        "most flows of a shift of a zone's GPUs on a link": f"{in_zone.shift.max_load_worst}",
        "effective bisection within a zone's GPUs": f"{in_zone.ebb:.3f}",
        "effective bisection of all": f"{quality.ebb:.3f}",
        "other zone's GPUs over uplinks of an inner leaf": unevenness(fabric, tables),
    }


def zone_gpus(fabric: Fabric, zone: int) -> np.ndarray:
    """End ports of a zone's compute hosts."""
    ends = np.arange(fabric.n_switches, fabric.n_end_ports, dtype=np.int32)
    node = fabric.end_node[ends]
    return ends[(fabric.zone[node] == zone) & (fabric.role[node] == Role.COMPUTE)]


def channels(fabric: Fabric, senders: tuple[Role, ...], receivers: tuple[Role, ...]) -> np.ndarray:
    """Channels between switches of two roles."""
    sender, receiver = fabric.role[fabric.port_node], fabric.role[np.maximum(fabric.peer_node, 0)]
    return (fabric.peer >= 0) & np.isin(sender, senders) & np.isin(receiver, receivers) & (sender != receiver)


def spread(load: np.ndarray) -> str:
    """Say the least and the most."""
    return f"{load.min():,} to {load.max():,}" if load.min() < load.max() else f"{load.max():,}"


def unevenness(fabric: Fabric, tables: RoutingTables) -> str:
    """Most and least destinations of the other zone over an uplink of a leaf that sends them over spines."""
    found = []
    hosts = np.unique(fabric.end_switch[fabric.n_switches :])
    at_joint = channels(fabric, (Role.LEAF,), (Role.JOINT,))
    for leaf in np.setdiff1d(hosts, fabric.port_node[at_joint]):
        far = zone_gpus(fabric, 1 - int(fabric.zone[leaf]))
        uplinks = np.flatnonzero(channels(fabric, (Role.LEAF,), (Role.SPINE,)) & (fabric.port_node == leaf))
        port = fabric.port_offset[leaf] + tables.lft[leaf, tables.lid[far]] - 1
        found.append(np.bincount(port, minlength=fabric.n_ports)[uplinks])
    counts = np.concatenate(found)
    return f"{counts.min()} to {counts.max()}"


if __name__ == "__main__":
    columns = {placement: figures(placement) for placement in ("border", "spread")}
    print("| | gathered on a border leaf | spread over leaves with hosts |\n|---|---|---|")
    for row in columns["border"]:
        print(f"| {row} | {columns['border'][row]} | {columns['spread'][row]} |")
