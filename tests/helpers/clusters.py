"""Clusters that several tests compile."""

from hypothesis import strategies as st

import topo
from topo.catalog.load import load_catalog
from topo.cluster import Cluster
from topo.errors import DesignError
from topo.fabric import Fabric, Role
from topo.shapes.base import HostGroup
from topo.shapes.fat_tree import FatTree
from topo.shapes.zones import Joints, Zones
from topo.speeds import LinkSpeed, parse_link_speed

CATALOG = load_catalog()
HDR, NDR = parse_link_speed("HDR"), parse_link_speed("NDR")


def gpus(count: int, speed: LinkSpeed = HDR) -> HostGroup:
    return HostGroup("gpu", count, "pcie-a100", Role.COMPUTE, 1, "MCX653105A-HDAT", speed)


def nodes(count: int, adapters: int = 8, model: str = "dgx-a100", speed: LinkSpeed = HDR) -> HostGroup:
    """Servers with an adapter for each GPU."""
    return HostGroup("gpu", count, model, Role.COMPUTE, adapters, "MCX653105A-HDAT", speed)


def storage(count: int, adapters: int = 2) -> HostGroup:
    return HostGroup("storage", count, "storage-3fs", Role.STORAGE, adapters, "MCX653105A-HDAT", HDR)


def zoned(
    placement: str = "border",
    *,
    zones: int = 2,
    leaves: int = 40,
    spines: int = 20,
    switch: str = "QM8700",
    n_gpus: int = 1200,
    n_storage: int = 180,
    joints: int = 2,
    ports: int = 20,
) -> Fabric:
    """Joined fat-trees; as they stand, Fire-Flyer 2."""
    shape = Zones(
        shape="zones",
        zones=zones,
        tree=FatTree(switch=switch, leaves=leaves, spines=spines),
        shared=("storage",) if n_storage else (),
        joints=Joints(switch=switch, count=joints, ports=ports, placement=placement),
    )
    groups = [gpus(n_gpus)] + ([storage(n_storage, zones)] if n_storage else [])
    return shape.compile(groups, CATALOG, "test")[0]


def tree(n_gpus: int = 800, **shape: object) -> Fabric:
    """One fat-tree of QM8700, with servers as fast as its ports."""
    network = FatTree(**{"switch": "QM8700"} | shape)
    return network.compile([gpus(n_gpus, CATALOG.switch(network.switch).speed)], CATALOG, "test")[0]


SHAPES = [
    {"shape": "fat-tree", "switch": "QM8700"},
    {"shape": "fat-tree", "switch": "QM8700", "oversubscription": 3.0},
    {"shape": "rail", "unit_nodes": 4, "tree": {"switch": "QM8700"}},
    {"shape": "rail", "unit_nodes": 8, "tree": {"switch": "QM8700"}, "storage": {"switch": "QM8700"}},
    {"shape": "planes", "planes": 1, "tree": {"switch": "QM8700"}},
    {
        "shape": "zones",
        "zones": 2,
        "tree": {"switch": "QM8700"},
        "joints": {"switch": "QM8700", "count": 1, "ports": 4},
    },
    {
        "shape": "zones",
        "zones": 3,
        "tree": {"switch": "QM8700"},
        "joints": {"switch": "QM8700", "count": 2, "ports": 4},
    },
    {"shape": "torus", "switch": "QM8700", "sizes": [3], "hosts": 12},
    {"shape": "dragonfly", "switch": "QM8700", "groups": 3, "switches": 2, "hosts": 6, "global_links": 1},
]


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    """A small cluster of any shape, with storage and management or without."""
    nodes = {"gpu": {"model": draw(st.sampled_from(["pcie-a100", "dgx-a100"])), "count": draw(st.integers(1, 9))}}
    if draw(st.booleans()):
        nodes["store"] = {"model": "storage-3fs", "count": draw(st.integers(1, 4))}
    if draw(st.booleans()):
        nodes["head"] = {"model": "management", "count": draw(st.integers(1, 3))}
    spec = {"name": "x", "nodes": nodes, "network": draw(st.sampled_from(SHAPES))}
    if draw(st.booleans()):
        spec["floor"] = {"rows": 2}
    cluster = topo.parse(spec)
    try:
        _ = cluster.fabrics, cluster.layout
    except DesignError:
        return draw(clusters())
    return cluster
