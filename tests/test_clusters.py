"""Published clusters: each row of docs/validation/clusters.md, against its spec; a difference needs a reason."""

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import topo
from costmodel.bills import bill
from helpers.strategies import slow_but
from topo.fabric import Fabric, Role

ROOT = Path(__file__).parent.parent
TABLE = re.compile(r"\| ([a-z0-9-]+) \| ([A-Za-z ]+) \| ([\d,]+)( R)? \| ([\d,]+) \| (.*?) ?\|")
PAGE = (ROOT / "docs" / "validation" / "clusters.md").read_text(encoding="utf-8")
ROWS = [match.groups() for match in map(TABLE.fullmatch, PAGE.splitlines()) if match]
NAMES = list(dict.fromkeys(row[0] for row in ROWS))
SMALL = ("narval", "abci", "dgx-h100-4-units", "dgx-b300-spectrum", "gb200-nvl72", "hpn", "zib-genoa", "perlmutter")


def read(name: str) -> topo.Cluster:
    path = ROOT / "tests" / "clusters" / f"{name}.yaml"
    return topo.read(path if path.exists() else ROOT / "configs" / f"{name}.yaml")


def boxes(cluster: topo.Cluster, *, framed: bool) -> list[tuple[Fabric, int]]:
    """Switches of the compute network that are chips of frames, or are not."""
    main = [fabric for fabric in cluster.fabrics if "storage" not in fabric.name]
    chips = {name for name, model in cluster.catalog.switches.items() if model.chips > 1}
    return [
        (fabric, node)
        for fabric in main
        for node in range(fabric.n_switches)
        if (fabric.model_of(node) in chips) == framed
    ]


def of_role(role: Role) -> Callable[[topo.Cluster], int]:
    return lambda cluster: sum(fabric.role[node] == role for fabric, node in boxes(cluster, framed=False))


def between(cluster: topo.Cluster) -> int:
    """Links between switches of which one is no chip of a frame: cables that somebody lays."""
    plain = Counter(id(fabric) for fabric, _ in boxes(cluster, framed=False))
    found = 0
    for fabric in cluster.fabrics:
        if id(fabric) in plain:
            ends = fabric.port_node[fabric.links]
            inner = (ends < fabric.n_switches).all(axis=1)
            found += int(np.count_nonzero(inner & ~topo.backplane(fabric, cluster.catalog)))
    return found


def of_a_group(role: Role) -> Callable[[topo.Cluster], int]:
    return lambda cluster: int((cluster.fabric.role[cluster.fabric.zone == 0] == role).sum())


def on_a_leaf(cluster: topo.Cluster, *, up: bool) -> int:
    """Links of the first leaf to switches, or to servers."""
    fabric = cluster.fabric
    far = fabric.peer_node[fabric.ports_of(0)]
    return int(((far < fabric.n_switches) == up)[far >= 0].sum())


def of_two_groups(cluster: topo.Cluster) -> int:
    """Links between two groups, which are as many between any two."""
    fabric = cluster.fabric
    zones = np.sort(fabric.zone[fabric.port_node[fabric.inner_links]], axis=1)
    pairs = Counter(map(tuple, zones[zones[:, 0] != zones[:, 1]].tolist()))
    (each,) = set(pairs.values())
    groups = cluster.counts.zones
    assert len(pairs) == groups * (groups - 1) // 2
    return each


COUNTS: dict[str, Callable[[topo.Cluster], int | None]] = {
    "switches": lambda cluster: len(boxes(cluster, framed=False)),
    "leaves": of_role(Role.LEAF),
    "spines": of_role(Role.SPINE),
    "cores": of_role(Role.CORE),
    "between": between,
    "links": lambda cluster: cluster.counts.host_ports,
    "servers": lambda cluster: cluster.counts.gpu_nodes,
    "GPUs": lambda cluster: cluster.counts.gpus,
    "groups": lambda cluster: cluster.counts.zones,
    "directors": lambda cluster: sum(line.count for line in bill(cluster).lines if line.place == "frame"),
    "leaves of a group": of_a_group(Role.LEAF),
    "spines of a group": of_a_group(Role.SPINE),
    "servers on a leaf": lambda cluster: on_a_leaf(cluster, up=False),
    "uplinks of a leaf": lambda cluster: on_a_leaf(cluster, up=True),
    "links between two groups": of_two_groups,
}


def test_the_table_has_fifteen_clusters_and_every_spec() -> None:
    assert len(NAMES) >= 15
    assert {path.stem for path in (ROOT / "tests" / "clusters").glob("*.yaml")} <= set(NAMES)
    assert all(f"| {name}" in PAGE or f", {name}" in PAGE for name in NAMES)


@pytest.mark.parametrize("name", slow_but(NAMES, *SMALL))
@pytest.mark.slow
def test_counts_are_those_of_the_table(name: str) -> None:
    cluster = read(name)
    for _, count, published, _, ours, why in (row for row in ROWS if row[0] == name):
        assert COUNTS[count](cluster) == int(ours.replace(",", "")), count
        assert published == ours or len(why) > 20, f"{count}: a difference without a reason"
