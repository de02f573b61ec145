"""Fat-trees of one, two and three levels (sketch: docs/shapes.md); nodes and radix give what a spec leaves open.

Every leaf is linked to every spine of its pod. Where neither ``spines`` nor ``parallel`` is given, a leaf has as many
uplinks as its nodes need, over two spines at least: ports that are free buy none. The spines of all pods are linked to
the cores group by group: spines of equal number in their pods, and as many numbers as make the counts whole, share
their cores, each of which gets a link from every pod at least. What fits in one switch is one switch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from math import ceil
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from topo.builder import FabricBuilder
from topo.catalog.load import Catalog
from topo.errors import DesignError
from topo.fabric import Fabric, Role
from topo.shapes.base import (
    Box,
    HostGroup,
    ShapeModel,
    Split,
    SwitchPorts,
    add_boxes,
    add_switches,
    apportion,
    attach_hosts,
    each_adapter,
    numbers,
    place_adapters,
    ports_wanted,
    refuse_uneven,
    require_ports,
)
from topo.shapes.graft import Graft, Pods, SizedGraft, add_grafts, links_onto, size_grafts
from topo.spec.base import SwitchName
from topo.speeds import LinkSpeed, slower

Count = Annotated[int, Field(gt=0, le=10_000)]
Ratio = Annotated[float, Field(ge=1.0, le=100.0)]
ROUNDING = 1e-9
"""Parts of a link that are none: quotients of rates, of which 32 links should stay 32."""


class FatTree(ShapeModel):
    """A fat-tree of one to three levels; what is left out is worked out from the nodes and the radix."""

    shape: Literal["fat-tree"] = "fat-tree"
    switch: SwitchName
    """Model of every switch, or a frame switch, which is a complete tree of two levels in one box."""
    spine_switch: SwitchName | None = None
    """Model of the spines, if different; on two levels it may be a frame, which is built whole."""
    core_switch: SwitchName | None = None
    """Model of the cores, if different; it may be a frame, which is built whole."""
    split: Split = False
    """``true``: every port of the switches is split in two of half the width, such as 400G of an 800G port. ``nodes``:
    only the ports of leaves towards nodes are, and uplinks stay whole, such as HDR100 and NDR200."""
    levels: Annotated[int, Field(ge=1, le=3)] | None = None
    """Levels of switches; by default one switch if everything fits in it, otherwise two levels."""
    leaves: Count | None = None
    """Total number of leaves; by default as many as the nodes need."""
    spines: Count | None = None
    """Spines of a pod (a tree of two levels is one pod); as few as carry all uplinks when left out, two at least; with
    two ports in a cage, links to a spine come in pairs."""
    parallel: Count | None = None
    """Links between each leaf and each spine of its pod; with neither this nor `spines`, as many as the nodes of the
    fullest leaf need. With one of them, all ports of a leaf that are not for nodes are uplinks."""
    leaves_per_pod: Count | None = None
    """Leaves that share their spines, on three levels; when left out, equal parts of all leaves in as few pods as the
    ports of a spine allow."""
    cores: Count | None = None
    """Cores, on three levels; as few as carry all uplinks of the spines when left out."""
    oversubscription: Ratio = 1.0
    """Ports of a leaf towards nodes for each uplink: 1.0 is non-blocking, 3.0 is 3:1."""
    spine_oversubscription: Ratio = 1.0
    """Ports of a spine towards leaves for each uplink, on three levels."""
    grafts: Annotated[tuple[Graft, ...], Field(max_length=16, strict=False)] = ()
    """Leaves of another kind on ports that the tree has free, for slower or older nodes."""

    def compile(self, groups: Sequence[HostGroup], catalog: Catalog, name: str) -> tuple[Fabric, ...]:
        """Compile one fat-tree; see `ShapeModel.compile`."""
        return (self.compile_one(groups, catalog, name),)

    def compile_one(self, groups: Sequence[HostGroup], catalog: Catalog, name: str, prefix: str = "") -> Fabric:
        """Compile the tree as one subnet; names of its switches begin with ``prefix``."""
        builder = FabricBuilder(name)
        own, grafts = size_grafts(self.grafts, each_adapter(groups), catalog)
        on_leaves = links_onto(grafts, "leaves")
        ports = sum(rail.count for rail in own) + on_leaves
        tree = self.for_ports(ports, catalog)
        each = groups[0].adapters if len(groups) == 1 else 1
        size = tree.size(ports, catalog, grafted=links_onto(grafts, "spines"), each=each)
        require_ports(
            ports,
            size.leaves * size.down,
            ports_wanted(own) + (f" + {on_leaves} for grafts" if on_leaves else ""),
            f"{size.leaves:,} leaves x {size.down} = {size.leaves * size.down:,}",
            f"Take {f'{-(-ports // size.down):,}' if size.down else 'more'} leaves, a larger switch, or fewer nodes",
            "leaf ports",
        )
        add_tree(builder, tree, size, own, catalog, grafts=grafts, prefix=prefix)
        return builder.build()

    def for_ports(self, ports: int, catalog: Catalog) -> FatTree:
        """Return the tree of one level if that is left open and one switch has ``ports`` ports; else this one.

        >>> from topo.catalog.load import load_catalog
        >>> [FatTree(switch="QM8700").for_ports(ports, load_catalog()).levels for ports in (40, 41)]
        [1, None]
        """
        wanted = self.levels is None and not self.grafts and self.leaves in (None, 1)
        if not wanted or self._of_more_levels() or catalog.switch(self.switch).chips > 1:
            return self
        leaf = SwitchPorts(catalog, self.switch, split=self.split, leaf=True)
        return self if ports > leaf.radix * leaf.parts else self.model_copy(update={"levels": 1})

    def _of_more_levels(self) -> list[str]:
        """Return the keys that are given and have no meaning for a single switch."""
        keys = ("spines", "spine_switch", "parallel", "leaves_per_pod", "cores", "core_switch")
        return [key for key in keys if getattr(self, key) is not None]

    def size(self, ports: int, catalog: Catalog, *, grafted: int = 0, each: int = 1) -> TreeSize:
        """Work out a tree of at least ``ports`` leaf ports for nodes, joints and grafts, where the spec leaves it open.

        Spines of two levels have ``grafted`` ports left. A DesignError has the numbers of the tree, the nearest that
        can be built, and how many servers of ``each`` ports that is.

        >>> from topo.catalog.load import load_catalog
        >>> size = FatTree(switch="QM8700", levels=3).size(1_600, load_catalog())
        >>> size.leaves, size.spines, size.cores
        (80, 80, 40)
        """
        model = catalog.switch(self.switch)
        if model.leaf_chips and model.spine_chips and model.chip_radix:
            return _size_frame(self, model.leaf_chips, model.spine_chips, model.chip_radix)
        leaf = SwitchPorts(catalog, self.switch, split=self.split, leaf=True)
        leaf_radix = leaf.radix
        if self.levels == 1:
            if given := [*self._of_more_levels(), *(["leaves"] if self.leaves not in (None, 1) else [])]:
                raise DesignError(f"`{given[0]}` belongs to a tree of more levels than one: take `levels: 2`")
            if grafted:
                raise DesignError("a tree of one level has no spines for grafts: take `levels: 2`, or `onto: leaves`")
            return TreeSize(1, 1, 0, 0, leaf_radix * leaf.parts, leaf_radix, 0)
        try:
            spine_radix, core_radix = (upper.radix for upper in self.upper(catalog))
        except DesignError as error:
            if leaf.uplinks and ports > leaf_radix:
                few = f"{ports} ports for nodes are more than the {leaf_radix} of one {self.switch}"
                way = f"take a network for each {leaf_radix} of them at most, or a tree"
                raise DesignError(f"{few}: {way}. {error}") from None
            raise
        for key in ("cores", "core_switch", "leaves_per_pod"):
            if self.levels != 3 and getattr(self, key) is not None:
                raise DesignError(f"`{key}` belongs to a tree of three levels: add `levels: 3` or leave it out", key)
        up = leaf.uplinks or _up(leaf_radix, self.oversubscription)
        if self.spines and self.parallel:
            up = self.spines * self.parallel
        if leaf.uplinks:
            links = f"{self.spines} spines x {self.parallel} links"
            require_ports(up, leaf.uplinks, links, f"a {self.switch} has {leaf.uplinks} for uplinks", "Take fewer")
        down = leaf_radix if leaf.uplinks else leaf_radix - up
        if self.oversubscription > 1:
            down = min(down, int(up * self.oversubscription))
        if down < 1 or up < 1:
            raise DesignError(
                f"a leaf of {leaf_radix} ports ({self.switch}) with {up} uplinks has {max(down, 0)} ports left for "
                "nodes: take fewer spines or links in parallel, or a larger switch"
            )
        down *= leaf.parts
        leaves = self.leaves or max(-(-ports // down), 1)
        if self.levels != 3:
            spines, parallel = _size_two(self, leaves, up, down, spine_radix, grafted, each)
            return TreeSize(leaves, leaves, spines, parallel, down, leaf_radix, spine_radix)
        return _size_three(self, leaves, up, down, (leaf_radix, spine_radix, core_radix))

    def for_load(self, size: TreeSize, load: float, catalog: Catalog, *, grafted: int = 0) -> TreeSize:
        """Return the size with as few uplinks as carry ``load``, what the nodes of the fullest leaf send in Gb/s.

        The size itself where the spec counts spines or links, where uplinks are ports of their own, and where fewer
        uplinks would take more switches.

        >>> from topo.catalog.load import load_catalog
        >>> tree, catalog = FatTree(switch="QM9700"), load_catalog()
        >>> tree.for_load(tree.size(128, catalog), 16 * 400, catalog).up
        16
        """
        leaf = SwitchPorts(catalog, self.switch, split=self.split, leaf=True, frame=True)
        if self.spines or self.parallel or self.cores or not size.spines or leaf.uplinks or leaf.model.chips > 1:
            return size
        rate = slower(leaf.uplink_speed, self.upper(catalog)[0].speed).gbps
        up = max(ceil(load / rate / self.oversubscription - ROUNDING), min(2, size.up))  # one spine may fail
        if up >= size.up:
            return size
        room = size.spine_radix - (_up(size.spine_radix, self.spine_oversubscription) if size.cores else 0)
        least = max(-(-(size.leaves_per_pod * up + grafted) // room), min(2, up))
        for spines in range(least, up + 1):
            parallel = -(-up // (spines * leaf.plug)) * leaf.plug  # whole fibres
            if spines * parallel <= size.up and spines * (room - size.leaves_per_pod * parallel) >= grafted:
                break
        else:
            return size
        if not size.cores:
            return replace(size, spines_per_pod=spines, parallel=parallel)
        stated = {"spines": spines, "parallel": parallel, "leaves_per_pod": size.leaves_per_pod}
        radix = size.leaf_radix, size.spine_radix, size.core_radix
        fewer = _size_three(self.model_copy(update=stated), size.leaves, spines * parallel, size.down, radix)
        return min(fewer, size, key=lambda one: (one.switches, one.switch_links))

    def upper(self, catalog: Catalog) -> tuple[SwitchPorts, SwitchPorts]:
        """Return the ports of a spine and of a core; only what is at the top may be a frame."""

        def ports(name: str, top: bool) -> SwitchPorts:
            return SwitchPorts(catalog, name, split=self.split is True, frame=top and name != self.switch)

        three, spine = self.levels == 3, self.spine_switch or self.switch
        return ports(spine, not three), ports((self.core_switch or self.switch) if three else spine, True)


@dataclass(frozen=True)
class TreeSize:
    """A fat-tree in numbers. A tree of two levels is one pod without cores, and one switch a pod without spines."""

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
    spines_per_group: int = 1
    """Spines of a pod that share their cores."""

    @property
    def up(self) -> int:
        """Uplinks of each leaf."""
        return self.spines_per_pod * self.parallel

    @property
    def spine_down(self) -> int:
        """Ports of a spine that are not uplinks."""
        return self.spine_radix - self.spine_up

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
        return self.cores * self.spines_per_group // self.spines_per_pod

    def fill_cages(self, cage: int) -> tuple[int, int]:
        """Return the links between a leaf and a spine that fill cages of ``cage`` ports, and the rest of them.

        The two have ports of their own, so that an odd link leaves no other in half a cage: those that fill cages from
        the first port up, the rest of a spine from its last port down, where later leaves do not move it.

        >>> TreeSize(8, 8, 8, 9, 72, 144, 144).fill_cages(2)
        (8, 1)
        """
        rest = self.parallel % cage if self.parallel > cage else 0
        return self.parallel - rest, rest

    @property
    def switches(self) -> int:
        """All switches. A full tree of switches of k ports has 3k/2 on two levels, 5k^2/4 on three."""
        return self.leaves + self.spines + self.cores

    @property
    def switch_links(self) -> int:
        """Links between switches."""
        return self.leaves * self.up + self.spines * self.spine_up


def _up(radix: int, ratio: float) -> int:
    """Uplinks of a switch whose ports divide as ``ratio`` down to 1 up."""
    return radix - int(radix * ratio / (1 + ratio))


def _size_frame(tree: FatTree, leaf_chips: int, spine_chips: int, radix: int) -> TreeSize:
    """Size a frame switch: a tree of two levels whose chips and links come in the box."""
    set_by_hand = [key for key in ("leaves", "spines", "parallel", "spine_switch") if getattr(tree, key) is not None]
    if set_by_hand or tree.levels not in (None, 2):
        raise DesignError(
            f"{tree.switch} is a complete tree in one box ({leaf_chips} leaf chips, {spine_chips} spine chips of "
            f"{radix} ports): leave out {', '.join(f'`{key}`' for key in set_by_hand) or '`levels: 3`'}"
        )
    parallel = radix // 2 // spine_chips
    return TreeSize(leaf_chips, leaf_chips, spine_chips, parallel, radix - spine_chips * parallel, radix, radix)


def _size_two(tree: FatTree, leaves: int, up: int, down: int, radix: int, grafted: int, each: int) -> tuple[int, int]:
    """Spines of two levels, and the links that each has to a leaf."""
    if tree.spines:
        parallel = tree.parallel or up // tree.spines
        if not tree.parallel and up % tree.spines:
            fits = [spines for spines in range(1, up + 1) if up % spines == 0 and leaves * (up // spines) <= radix]
            less = up // tree.spines  # which leaves uplinks without a cable
            works = f": {less}" if less and leaves * less <= radix else ""
            refuse_uneven(f"{up} uplinks of a leaf", f"{tree.spines} spines", fits, f", or give `parallel{works}`")
        spines = tree.spines
    else:
        wanted = max(-(-(leaves * up + grafted) // radix), min(2, up))
        fits = [spines for spines in range(wanted, up + 1) if up % spines == 0]
        if tree.parallel:
            fits = [spines for spines in fits if up // spines == tree.parallel]
        if not fits:
            links = f"{leaves} leaves x {up} uplinks" + (f" + {grafted} of grafts" if grafted else "")
            servers = f", that is {radix * down // each:,} of these servers," if each > 1 else ""
            raise DesignError(
                f"{links} need at least {wanted} spines of {radix} ports, and a leaf reaches at most {up}: two levels "
                f"hold {radix * down:,} adapter ports{servers} at most with these switches; take zones or `levels: 3`"
            )
        spines, parallel = fits[0], up // fits[0]
    most = radix // parallel
    require_ports(
        leaves * parallel,
        radix,
        f"{leaves} leaves x {parallel} links to each spine",
        f"a spine has {radix}",
        f"Take at most {most} leaves" if most else "Take fewer links in parallel",
    )
    return spines, parallel


def _size_three(tree: FatTree, leaves: int, up: int, down: int, radix: tuple[int, int, int]) -> TreeSize:
    """Size a tree of three levels: pods of leaves and spines, and cores above them."""
    leaf_radix, spine_radix, core_radix = radix
    spine_up = _up(spine_radix, tree.spine_oversubscription)
    spine_down = spine_radix - spine_up
    parallel = tree.parallel or (up // tree.spines if tree.spines else 1)
    spines = tree.spines or up // parallel
    if tree.leaves_per_pod and not tree.spines and not tree.parallel:  # as few as carry the uplinks of a pod
        least = -(-tree.leaves_per_pod * up // max(spine_down, 1))
        spines = next((count for count in range(least, up) if up % count == 0), up)
        parallel = up // spines
    if spines * parallel != up:
        raise DesignError(f"{up} uplinks of a leaf do not divide over {spines} spines with {parallel} links to each")
    most = spine_down // parallel
    # As few pods as hold the leaves, and all alike: a spine of a full pod beside one of few leaves has idle uplinks.
    per_pod = tree.leaves_per_pod or -(-leaves // -(-leaves // max(most, 1)))
    require_ports(
        per_pod * parallel,
        spine_down,
        f"{per_pod} leaves a pod x {parallel} links",
        f"a spine has {spine_down} of {spine_radix} towards leaves",
        f"Take at most {most} leaves a pod" if most else "Take fewer links in parallel",
    )
    # A pod smaller than the spines allow needs fewer uplinks.
    spine_up = min(spine_up, ceil(per_pod * parallel / tree.spine_oversubscription))
    pods = -(-leaves // per_pod)
    total = pods * spines * spine_up

    def group_of(cores: int) -> int:
        shared = partial(_spines_per_group, cores, spines, spine_up, pods, core_radix)
        return shared(alike=True) or shared(alike=False)

    least = -(-total // core_radix)
    fitting = (count for count in range(least, total + 1) if group_of(count))
    cores = tree.cores or next(fitting, least)
    if not group_of(cores):
        near = sorted(fitting, key=lambda count: (abs(count - cores), count))[:3]
        raise DesignError(
            f"{pods} pods x {spines} spines x {spine_up} uplinks = {total:,} links, and {cores} cores of {core_radix} "
            f"ports = {cores * core_radix:,} cannot take them evenly, one from each pod at least: "
            f"{numbers(near) if near else 'no number of'} cores would do"
            + ("" if near else f"; a core of {core_radix} ports reaches at most {core_radix} pods")
        )
    size = TreeSize(leaves, per_pod, spines, parallel, down, leaf_radix, spine_radix, core_radix, cores, spine_up)
    return replace(size, spines_per_group=group_of(cores))


def _spines_per_group(cores: int, spines: int, spine_up: int, pods: int, radix: int, *, alike: bool) -> int:
    """Return the fewest spines of a pod that can share their cores, 0 where no number can.

    A group has a whole number of cores, each of them gets a link from every pod, and none more links than it has ports:
    where all pods are ``alike``, as many from each.
    """
    for group in range(1, spines + 1):
        share, links = cores * group // spines, group * spine_up
        whole = spines % group == 0 and cores * group % spines == 0 and 0 < share <= links
        if whole and (_even(pods, links, share, radix) if alike else pods * links <= share * radix):
            return group
    return 0


def _even(pods: int, links: int, cores: int, radix: int) -> bool:
    """Whether cores have the ports for as many links from each pod, of which each has so many to spread."""
    return pods * -(-links // cores) <= radix


def add_tree(
    builder: FabricBuilder,
    tree: FatTree,
    size: TreeSize,
    groups: Sequence[HostGroup],
    catalog: Catalog,
    *,
    grafts: Sequence[SizedGraft] = (),
    kept: NDArray[np.int64] | None = None,
    placed: Sequence[NDArray[np.int64]] | None = None,
    at: NDArray[np.int64] | None = None,
    zone: int = 0,
    prefix: str = "",
) -> list[tuple[int, int]]:
    """Add a tree's switches, links and hosts to a builder; names of switches begin with ``prefix``, ``z0-`` in zone 0.

    Hosts (``groups`` and ``placed`` as `place_adapters` takes them) take the first ports of a leaf, then come
    those of ``grafts``, those that are ``kept`` free (leaves,), and the uplinks. Leaf i is number ``at[i]`` of all
    pods, one after the other; number i by default. Return key and number of each port that was kept, leaf by leaf.
    """
    kept = np.zeros(size.leaves, np.int64) if kept is None else kept
    low = base_level(grafts)
    leaf_ports = SwitchPorts(catalog, tree.switch, split=tree.split, leaf=True, frame=True)
    free = size.down - kept
    onto_leaves, unused = links_onto(grafts, "leaves"), free - sum(placed or ())
    if onto_leaves > (left := int(unused.sum())):
        raise DesignError(
            f"grafts onto leaves need {onto_leaves} leaf ports, and {size.leaves} leaves have {left} left: short of "
            f"{onto_leaves - left}. Take fewer uplinks, or `onto: spines`"
        )
    grafted = apportion(onto_leaves, unused)
    load = (kept + grafted) * leaf_ports.node_speed.gbps
    places = place_adapters(groups, free - grafted, placed)
    for group, on in zip(groups, places, strict=True):
        load = load + np.bincount(on, minlength=size.leaves) * slower(group.speed, leaf_ports.node_speed).gbps
    size = tree.for_load(size, float(load.max()), catalog, grafted=links_onto(grafts, "spines"))
    whole = leaf_ports.model.chips == 1  # else all switches are chips of one frame
    spine_ports, core_ports = tree.upper(catalog) if whole and size.spines else (leaf_ports, leaf_ports)
    leaves = add_switches(
        builder, leaf_ports, size.leaves, f"{prefix}leaf", level=low, zone=zone,
        radix=leaf_ports.numbered(size.down) if whole else size.leaf_radix,
    )  # fmt: skip
    spines = add_boxes(
        builder, spine_ports, size.spines, f"{prefix}spine", role=Role.SPINE, level=low + 1, zone=zone,
        radix=None if whole else size.spine_radix,
    )  # fmt: skip
    spare = free - grafted - sum(np.bincount(on, minlength=size.leaves) for on in places)
    attach_hosts(builder, leaves, groups, places, leaf_ports.node_speed, leaf_ports.cage * leaf_ports.parts, spare)
    speed = slower(leaf_ports.uplink_speed, spine_ports.speed)
    numbered_leaves = enumerate(leaves) if at is None else zip(at.tolist(), leaves, strict=True)
    first, cage = leaf_ports.first_uplink(size.down), min(leaf_ports.cage, spine_ports.cage)
    full, rest = size.fill_cages(cage)
    further = size.spines_per_pod * rest
    ahead = further if (first - 1) % cage and not (first - 1 + further) % cage else 0  # so that cages begin whole
    for (leaf, key), spine, link in product(numbered_leaves, range(size.spines_per_pod), range(size.parallel)):
        pod, place = divmod(leaf, size.leaves_per_pod)
        up, down = ahead + spine * full + link, place * full + link
        if link >= full:
            up = (0 if ahead else size.spines_per_pod * full) + spine * rest + link - full
            down = size.spine_down - 1 - place * rest - (link - full)
        above, port = spines[pod * size.spines_per_pod + spine][down]
        builder.link(key, first + up, above, port, speed)
    if size.cores:
        cores = add_boxes(builder, core_ports, size.cores, f"{prefix}core", role=Role.CORE, level=low + 2, zone=zone)
        _link_cores(builder, size, spines, cores, slower(core_ports.speed, spine_ports.speed))
    if grafts:
        on_leaves = [  # a port of each leaf in turn, so that a grafted leaf's uplinks go to different ones
            (key, own - ports + 1 + turn)
            for turn in range(int(grafted.max()))
            for key, own, ports in zip(leaves, free.tolist(), grafted.tolist(), strict=True)
            if turn < ports
        ]
        speeds = {"spines": spine_ports.speed, "leaves": leaf_ports.node_speed}
        pods = _free_spine_ports(size, spines, cage)
        add_grafts(builder, grafts, pods, on_leaves, speeds, zone=zone, prefix=prefix, level=low)
    return [
        (leaf, size.down - keep + 1 + number)
        for leaf, keep in zip(leaves, kept.tolist(), strict=True)
        for number in range(keep)
    ]


def base_level(grafts: Sequence[SizedGraft]) -> int:
    """Level of a tree's own leaves: 2 where others are grafted on them, since those are below."""
    return 2 if links_onto(grafts, "leaves") else 1


def _free_spine_ports(size: TreeSize, spines: Sequence[Box], cage: int) -> Pods:
    """Return the free ports of each spine, pod by pod: those between its links that fill cages and all others."""
    pods, (full, rest) = [], size.fill_cages(cage)
    for pod in range(size.pods):
        leaves = min(size.leaves_per_pod, size.leaves - pod * size.leaves_per_pod)
        mine = spines[pod * size.spines_per_pod : (pod + 1) * size.spines_per_pod]
        pods.append([ports[leaves * full : size.spine_down - leaves * rest] for ports in mine])
    return pods


def _link_cores(
    builder: FabricBuilder, size: TreeSize, spines: Sequence[Box], cores: Sequence[Box], speed: LinkSpeed
) -> None:
    """Spread the uplinks of each group of spines over its cores, as many from each pod to a core where its ports allow.

    A core that has 20 links to one pod and 19 to another carries 19 between them. Where its ports do not allow as many,
    the turn goes on from pod to pod.
    """
    of_pod = size.spines_per_group * size.spine_up
    alike = _even(size.pods, of_pod, size.cores_per_group, size.core_radix)
    for group in range(size.spines_per_pod // size.spines_per_group):
        mine = range(group * size.spines_per_group, (group + 1) * size.spines_per_group)
        used = [0] * size.cores_per_group
        for turn, (pod, number, up) in enumerate(product(range(size.pods), mine, range(size.spine_up))):
            place = (turn % of_pod if alike else turn) % size.cores_per_group
            spine, core = spines[pod * size.spines_per_pod + number], cores[group * size.cores_per_group + place]
            builder.link(*spine[size.spine_down + up], *core[used[place]], speed)
            used[place] += 1
