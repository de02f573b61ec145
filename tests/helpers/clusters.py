"""Clusters that several tests compile."""

from topo.fabric import Fabric, Role
from topo.hardware.catalog import load_catalog
from topo.hardware.speeds import parse_link_speed
from topo.shapes.base import HostGroup
from topo.shapes.fat_tree import FatTree
from topo.shapes.zones import Joints, Zones

CATALOG = load_catalog()
HDR = parse_link_speed("HDR")


def gpus(count: int) -> HostGroup:
    return HostGroup("gpu", count, "pcie-a100", Role.COMPUTE, 1, "MCX653105A-HDAT", HDR)


def nodes(count: int, adapters: int = 8, model: str = "dgx-a100") -> HostGroup:
    """Servers with an adapter for each GPU."""
    return HostGroup("gpu", count, model, Role.COMPUTE, adapters, "MCX653105A-HDAT", HDR)


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
    """One fat-tree of QM8700."""
    return FatTree(**{"switch": "QM8700"} | shape).compile([gpus(n_gpus)], CATALOG, "test")[0]
