"""The numbers of a fat-tree: what a spec leaves open is worked out from the nodes and the radix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Annotated, Literal

from pydantic import Field

from topo.errors import DesignError
from topo.hardware.catalog import Catalog
from topo.shapes.graft import Graft
from topo.shapes.seating import switch_ports
from topo.spec.base import SpecModel, SwitchName

Count = Annotated[int, Field(gt=0, le=10_000)]
Ratio = Annotated[float, Field(ge=1.0, le=100.0)]


class FatTree(SpecModel):
    """A fat-tree of two or three levels; what is left out is worked out from the nodes and the radix."""

    shape: Literal["fat-tree"] = "fat-tree"
    switch: SwitchName
    """Model of every switch, or a frame switch that is a whole tree of two levels in one box."""
    spine_switch: SwitchName | None = None
    """Model of the spines, where it is another."""
    core_switch: SwitchName | None = None
    """Model of the cores, where it is another."""
    split: bool = False
    """Whether every port of the switches is split in two of half the width: HDR100, or 400G of an 800G port."""
    levels: Literal[2, 3] = 2
    """Levels of switches."""
    leaves: Count | None = None
    """Leaves in all; as many as the nodes need when left out."""
    spines: Count | None = None
    """Spines of a pod (a tree of two levels is one pod); as few as carry all uplinks when left out."""
    parallel: Count | None = None
    """Links between each leaf and each spine of its pod."""
    leaves_per_pod: Count | None = None
    """Leaves that share their spines, on three levels; as many as a spine has ports for when left out."""
    cores: Count | None = None
    """Cores, on three levels; as few as carry all uplinks of the spines when left out."""
    oversubscription: Ratio = 1.0
    """Ports of a leaf towards nodes for each uplink: 1.0 is non-blocking, 3.0 is 3:1."""
    spine_oversubscription: Ratio = 1.0
    """Ports of a spine towards leaves for each uplink, on three levels."""
    grafts: Annotated[tuple[Graft, ...], Field(max_length=16, strict=False)] = ()
    """Leaves of another kind on ports that the tree has free, for slower or older nodes."""


@dataclass(frozen=True)
class TreeSize:
    """A fat-tree in numbers. A tree of two levels is one pod without cores."""

    leaves: int
    leaves_per_pod: int
    spines_per_pod: int
    parallel: int
    """Links between a leaf and each spine of its pod."""
    down: int
    """Ports of each leaf for hosts and joints."""
    leaf_radix: int
    spine_radix: int
    core_radix: int = 0
    cores: int = 0
    spine_up: int = 0
    """Uplinks of each spine."""
    planes_per_group: int = 1
    """Spines of a pod that share their cores."""

    @property
    def pods(self) -> int:
        """Pods; the last may have fewer leaves."""
        return -(-self.leaves // self.leaves_per_pod)

    @property
    def spines(self) -> int:
        """Spines of all pods."""
        return self.pods * self.spines_per_pod

    @property
    def cores_per_group(self) -> int:
        """Cores that the spines of a group are linked to."""
        return self.cores * self.planes_per_group // self.spines_per_pod


def size_tree(tree: FatTree, ports: int, catalog: Catalog, *, grafted: int = 0) -> TreeSize:
    """Work out a tree that has at least ``ports`` leaf ports, where the spec leaves it open.

    Parameters
    ----------
    ports : int
        Leaf ports for nodes, joints and grafts.
    grafted : int
        Ports that spines of two levels shall have left for grafts.

    Raises
    ------
    DesignError
        When the numbers do not close; the message holds them, and the nearest that do.
    """
    model = catalog.switch(tree.switch)
    if model.leaf_chips and model.spine_chips and model.chip_radix:
        return _frame_size(tree, model.leaf_chips, model.spine_chips, model.chip_radix)
    leaf_radix, spine_radix, core_radix = (
        switch_ports(catalog, name or tree.switch, split=tree.split).radix
        for name in (tree.switch, tree.spine_switch, tree.core_switch)
    )
    if tree.levels == 2:
        for key in ("cores", "core_switch", "leaves_per_pod"):
            if getattr(tree, key) is not None:
                raise DesignError(f"`{key}` belongs to a tree of three levels: add `levels: 3` or leave it out")
    up = tree.spines * tree.parallel if tree.spines and tree.parallel else _up(leaf_radix, tree.oversubscription)
    down = leaf_radix - up
    if tree.oversubscription > 1:
        down = min(down, int(up * tree.oversubscription))
    if down < 1 or up < 1:
        raise DesignError(
            f"a leaf of {leaf_radix} ports ({tree.switch}) with {up} uplinks has {max(down, 0)} ports left for nodes: "
            "take fewer spines or links in parallel, or a larger switch"
        )
    leaves = tree.leaves or max(-(-ports // down), 1)
    if tree.levels == 2:
        spines, parallel = _spines(tree, leaves, up, down, spine_radix, grafted)
        return TreeSize(leaves, leaves, spines, parallel, down, leaf_radix, spine_radix)
    return _size_three(tree, leaves, up, down, (leaf_radix, spine_radix, core_radix))


def _up(radix: int, ratio: float) -> int:
    """Uplinks of a switch whose ports divide as ``ratio`` down to 1 up."""
    return radix - int(radix * ratio / (1 + ratio))


def _frame_size(tree: FatTree, leaf_chips: int, spine_chips: int, radix: int) -> TreeSize:
    """Size a frame switch: a tree of two levels whose chips and links come in the box."""
    set_by_hand = [key for key in ("leaves", "spines", "parallel", "spine_switch") if getattr(tree, key) is not None]
    if set_by_hand or tree.levels != 2:
        raise DesignError(
            f"{tree.switch} is a whole tree in one box ({leaf_chips} leaf chips, {spine_chips} spine chips of {radix} "
            f"ports): leave out {', '.join(f'`{key}`' for key in set_by_hand) or '`levels: 3`'}"
        )
    parallel = radix // 2 // spine_chips
    return TreeSize(leaf_chips, leaf_chips, spine_chips, parallel, radix - spine_chips * parallel, radix, radix)


def _spines(tree: FatTree, leaves: int, up: int, down: int, radix: int, grafted: int) -> tuple[int, int]:
    """Spines of two levels, and the links that each has to a leaf."""
    if tree.spines:
        parallel = tree.parallel or up // tree.spines
        if not tree.parallel and up % tree.spines:
            fits = [spines for spines in range(1, up + 1) if up % spines == 0 and leaves * (up // spines) <= radix]
            raise DesignError(
                f"{up} uplinks of a leaf do not divide over {tree.spines} spines; "
                f"{_words(fits)} would do, or give `parallel`"
            )
        spines = tree.spines
    else:
        wanted = -(-(leaves * up + grafted) // radix)
        fits = [spines for spines in range(wanted, up + 1) if up % spines == 0]
        if tree.parallel:
            fits = [spines for spines in fits if up // spines == tree.parallel]
        if not fits:
            links = f"{leaves} leaves x {up} uplinks" + (f" + {grafted} of grafts" if grafted else "")
            raise DesignError(
                f"{links} need at least {wanted} spines of {radix} ports, and a leaf reaches at most {up}: two levels "
                f"hold {radix * down:,} nodes at most with these switches; take zones or `levels: 3`"
            )
        spines, parallel = fits[0], up // fits[0]
    if leaves * parallel > radix:
        raise DesignError(
            f"{leaves} leaves x {parallel} links to each spine = {leaves * parallel} ports, and a spine has {radix}: "
            f"at most {radix // parallel} leaves close"
        )
    return spines, parallel


def _size_three(tree: FatTree, leaves: int, up: int, down: int, radix: tuple[int, int, int]) -> TreeSize:
    """Size a tree of three levels: pods of leaves and spines, and cores above them."""
    leaf_radix, spine_radix, core_radix = radix
    spine_up = _up(spine_radix, tree.spine_oversubscription)
    parallel = tree.parallel or (up // tree.spines if tree.spines else 1)
    spines = tree.spines or up // parallel
    if tree.leaves_per_pod and not tree.spines and not tree.parallel:  # as few as carry the uplinks of a pod
        least = -(-tree.leaves_per_pod * up // max(spine_radix - spine_up, 1))
        spines = next((count for count in range(least, up) if up % count == 0), up)
        parallel = up // spines
    if spines * parallel != up:
        raise DesignError(f"{up} uplinks of a leaf do not divide over {spines} spines with {parallel} links to each")
    fitting = (spine_radix - spine_up) // parallel
    if tree.leaves_per_pod and tree.leaves_per_pod > fitting:
        raise DesignError(
            f"{tree.leaves_per_pod} leaves a pod x {parallel} links = {tree.leaves_per_pod * parallel} ports, and a "
            f"spine has {spine_radix - spine_up} of {spine_radix} towards leaves: at most {fitting} leaves a pod close"
        )
    per_pod = tree.leaves_per_pod or fitting
    if per_pod < 1:
        raise DesignError(f"a spine has {spine_radix - spine_up} ports towards leaves, and each leaf wants {parallel}")
    # A pod smaller than the spines allow needs fewer uplinks.
    spine_up = min(spine_up, ceil(per_pod * parallel / tree.spine_oversubscription))
    pods = -(-leaves // per_pod)
    total = pods * spines * spine_up
    cores = tree.cores or -(-total // core_radix)
    groups = [] if cores * core_radix < total else _groups(cores, spines, spine_up, pods, core_radix)
    if not groups and tree.cores is None:
        more = (count for count in range(cores, total + 1) if _groups(count, spines, spine_up, pods, core_radix))
        cores = next(more, cores)
        groups = _groups(cores, spines, spine_up, pods, core_radix)
    if not groups:
        least = -(-total // core_radix)
        near = [c for c in range(least, total + 1) if _groups(c, spines, spine_up, pods, core_radix)]
        near.sort(key=lambda c: (abs(c - cores), c))
        raise DesignError(
            f"{pods} pods x {spines} spines x {spine_up} uplinks = {total:,} links, and {cores} cores of {core_radix} "
            f"ports = {cores * core_radix:,} cannot take them evenly, one from each pod at least: {_words(near[:3])} "
            "cores close" + ("" if near else f"; a core of {core_radix} ports reaches at most {core_radix} pods")
        )
    return TreeSize(
        leaves, per_pod, spines, parallel, down, leaf_radix, spine_radix, core_radix, cores, spine_up, groups[0]
    )


def _groups(cores: int, spines: int, spine_up: int, pods: int, radix: int) -> list[int]:
    """Numbers of spines of a pod that could share their cores.

    A group has a whole number of cores, each of them gets a link from every pod, and none more links than it has ports.
    """
    return [
        group
        for group in range(1, spines + 1)
        if spines % group == 0
        and cores * group % spines == 0
        and 0 < cores * group // spines <= group * spine_up
        and pods * group * spine_up <= (cores * group // spines) * radix
    ]


def _words(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers)) or "none"
