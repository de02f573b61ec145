"""How many switches and links a design takes, from its numbers alone: no fabric is compiled.

A switch of radix k gives k/2 ports down and k/2 up, and the top level gives all k down: a tree of two levels holds
k^2/2 hosts, one of three levels k^3/4 (Leiserson, "Fat-trees", 1985; Al-Fares et al., SIGCOMM 2008).
`topo.shapes.fat_tree` works out what a spec leaves open.
"""

from __future__ import annotations

from dataclasses import dataclass

from topo.hardware.catalog import Catalog
from topo.shapes.fat_tree import FatTree
from topo.shapes.zones import Zones


@dataclass(frozen=True)
class Size:
    """Switches and links of a design."""

    leaf: int
    spine: int
    core: int
    joint: int
    host_links: int
    switch_links: int
    """Links between switches, those between zones included."""

    @property
    def switches(self) -> int:
        """All switches."""
        return self.leaf + self.spine + self.core + self.joint

    @property
    def links(self) -> int:
        """All links."""
        return self.host_links + self.switch_links


def size_fat_tree(tree: FatTree, host_ports: int, catalog: Catalog) -> Size:
    """Size of a fat-tree of two or three levels.

    Raises
    ------
    DesignError
        When it cannot hold the hosts.
    """
    size = tree.size(host_ports, catalog)
    return Size(
        leaf=size.leaves,
        spine=size.spines,
        core=size.cores,
        joint=0,
        host_links=host_ports,
        switch_links=size.leaves * size.spines_per_pod * size.parallel + size.spines * size.spine_up,
    )


def size_zones(shape: Zones, host_ports: int, catalog: Catalog) -> Size:
    """Size of joined fat-trees with ``host_ports`` ports for hosts in each zone.

    Raises
    ------
    DesignError
        When a zone cannot hold the hosts and what joins it to the others.
    """
    given = shape.between.ports
    zone = size_fat_tree(shape.tree, host_ports + given, catalog)
    return Size(
        leaf=shape.zones * zone.leaf,
        spine=shape.zones * zone.spine,
        core=shape.zones * zone.core,
        joint=shape.joints.count if shape.joints else 0,
        host_links=shape.zones * host_ports,
        switch_links=shape.zones * zone.switch_links + shape.zones * given // (1 if shape.joints else 2),
    )
