"""What all families share: groups of servers, ports of switches, which server hangs where, and refusals."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar, NoReturn

import numpy as np
from numpy.typing import NDArray

from topo.builder import FabricBuilder
from topo.catalog.devices import vendor_name
from topo.catalog.load import Catalog
from topo.errors import DesignError
from topo.fabric import Fabric, Role
from topo.spec.base import SpecModel
from topo.speeds import LinkSpeed, slower


@dataclass(frozen=True)
class HostGroup:
    """Servers of one model that are placed alike."""

    name: str
    """Name of the group in the spec; servers are called after it."""
    count: int
    model: str
    role: Role
    adapters: int
    """Adapters a server, each with one port in use."""
    adapter_model: str
    speed: LinkSpeed
    device: int = 0
    """Number of the adapter that is placed: ``mlx5_0``, ``mlx5_1``, ..."""
    device_name: str = "mlx5"
    """What stands before that number."""
    first: int = 0
    """Number of the first server, when the group is a part of a larger one."""
    total: int = 0
    """Servers in the whole group; 0 when this is all of it."""

    @property
    def hosts(self) -> list[str]:
        """Names of the servers, numbered from 0 with as many digits as the whole group needs: ``gpu0000``."""
        digits = len(str(max((self.total or self.count) - 1, 0)))
        return [f"{self.name}{number:0{digits}d}" for number in range(self.first, self.first + self.count)]

    def divide(self, parts: int) -> list[HostGroup]:
        """Cut the group into consecutive parts whose sizes differ by at most one, larger ones first."""
        bounds = [part * (self.count // parts) + min(part, self.count % parts) for part in range(parts + 1)]
        total = self.total or self.count
        return [
            replace(self, count=end - start, first=self.first + start, total=total) for start, end in pairwise(bounds)
        ]


class ShapeModel(SpecModel):
    """A family of topologies: what a spec may say of it, and how it is compiled."""

    layout: ClassVar[str] = "levels"
    """How a drawing arranges the switches."""

    @property
    def arrangement(self) -> str:
        """The layout with the sizes that it takes: `topo.fabric.Fabric.arrangement`."""
        return self.layout

    def compile(self, groups: Sequence[HostGroup], catalog: Catalog, name: str) -> tuple[Fabric, ...]:
        """Compile the network with every adapter of every group on it.

        Parameters
        ----------
        groups : sequence of HostGroup
            The servers.
        catalog : Catalog
            Where the models of switches are looked up.
        name : str
            Name of the network, and of its subnet where there is one.

        Returns
        -------
        tuple of Fabric
            One for each subnet.

        Raises
        ------
        DesignError
            When ports run out or numbers do not divide. The message holds the arithmetic.
        """
        raise NotImplementedError

    def builder(self, name: str) -> FabricBuilder:
        """Return an empty fabric of this family."""
        return FabricBuilder(name, self.arrangement)


class SwitchPorts:
    """A switch model as it is used: whole ports, or each split in two of half the width.

    Parameters
    ----------
    leaf : bool
        Whether it is a leaf with links to switches above it, so that its ports may be of two kinds.

    Raises
    ------
    DesignError
        When its ports cannot be split, or are of two kinds where all are taken to be alike.
    """

    def __init__(self, catalog: Catalog, name: str, *, split: bool = False, leaf: bool = False) -> None:
        model = catalog.switch(name)
        self.name = model.name
        self.radix = model.chip_radix or model.radix
        self.speed = model.speed
        self.uplinks = model.uplink_ports
        """Ports of a kind of its own for links to other switches, behind the others; 0 where all are alike."""
        self.uplink_speed = model.uplink_speed or self.speed
        if self.uplinks and not leaf:
            raise DesignError(
                f"{model.name} has ports of two kinds, {self.radix} of {self.speed} and {self.uplinks} of "
                f"{self.uplink_speed} for uplinks: it can be a leaf of a fat-tree whose other switches are another "
                "model (`spine_switch`, `core_switch`)"
            )
        if split:
            if not model.split_radix:
                raise DesignError(f"the ports of {model.name} cannot be split, as far as the catalog knows")
            self.speed = LinkSpeed(model.speed.width * self.radix // model.split_radix, model.speed.generation)
            self.radix = model.split_radix
        if not self.uplinks:
            self.uplink_speed = self.speed

    def first_uplink(self, down: int) -> int:
        """Return the first port for uplinks of a leaf whose first ``down`` ports are for nodes."""
        return (self.radix if self.uplinks else down) + 1

    def require(self, wanted: int, terms: str, advice: str) -> None:
        """Refuse more ports than a switch has; see `require_ports`."""
        require_ports(wanted, self.radix, terms, f"a {self.name} has {self.radix} ports", advice)


def require_ports(wanted: int, available: int, terms: str, have: str, advice: str, what: str = "ports") -> None:
    """Refuse a design that needs more ports than there are, with the arithmetic.

    Parameters
    ----------
    wanted, available : int
        Ports.
    terms, have : str
        How both sums come about, such as ``8 hosts + 34 links`` and ``a QM8700 has 40 ports``.
    advice : str
        What would help.

    Raises
    ------
    DesignError
        ``8 hosts + 34 links = 42 ports, and a QM8700 has 40 ports: short of 2. Take fewer hosts``.
    """
    if wanted > available:
        raise DesignError(f"{terms} = {wanted:,} {what}, and {have}: short of {wanted - available:,}. {advice}")


def refuse_uneven(terms: str, parts: str, fitting: Sequence[int], advice: str = "") -> NoReturn:
    """Refuse numbers that do not divide, with those near them that do."""
    raise DesignError(f"{terms} do not divide over {parts}: {numbers(fitting)} would do{advice}")


def numbers(values: Sequence[int]) -> str:
    """Return numbers as text: ``19 or 23``, ``1, 2, 4``, ``none``."""
    return (" or " if len(values) == 2 else ", ").join(map(str, values)) or "none"


def add_switches(
    builder: FabricBuilder,
    ports: SwitchPorts,
    count: int,
    stem: str,
    *,
    role: Role = Role.LEAF,
    level: int = 1,
    zone: int = 0,
    radix: int | None = None,
) -> list[int]:
    """Add switches ``leaf00``, ``leaf01``, ... and return their keys; ``radix`` where only some ports are split.

    They get NodeDescriptions in the form that NVIDIA's tools expect: ``MF0;leaf01:MQM8700/U1``.
    """
    digits = len(str(max(count - 1, 0)))
    vendor = vendor_name(ports.name)
    return [
        builder.switch(
            f"MF0;{stem}{number:0{digits}d}:{vendor}/U1",
            model=ports.name,
            radix=radix or ports.radix + ports.uplinks,
            role=role,
            level=level,
            zone=zone,
        )
        for number in range(count)
    ]


def link_in_order(builder: FabricBuilder, pairs: Iterable[tuple[int, int]], first_port: int, speed: LinkSpeed) -> None:
    """Plug a cable for each pair of switches into the lowest free port of both, from ``first_port`` on."""
    free: defaultdict[int, int] = defaultdict(lambda: first_port)
    for a, b in pairs:
        builder.link(a, free[a], b, free[b], speed)
        free[a] += 1
        free[b] += 1


def each_adapter(groups: Iterable[HostGroup]) -> list[HostGroup]:
    """Return one group for each adapter, for servers that hang with all their adapters in the same network."""
    return [replace(group, device=group.device + number) for group in groups for number in range(group.adapters)]


def attach_hosts(
    builder: FabricBuilder,
    leaves: Sequence[int],
    room: NDArray[np.int64],
    groups: Sequence[HostGroup],
    speed: LinkSpeed,
    *,
    placed: Sequence[NDArray[np.int64]] | None = None,
    apart: bool = False,
) -> None:
    """Hang servers on leaves, from port 1 up.

    Each group is spread evenly over the leaves and in order, so that its consecutive servers hang together.

    Parameters
    ----------
    leaves : sequence of int
        Keys of the leaves in the builder.
    room : (leaves,) int64
        Ports of each leaf that servers may take.
    speed : LinkSpeed
        What a leaf's port can do.
    placed : sequence of (leaves,) int64, optional
        Servers of each group on each leaf, where that is not left to an even spread.
    apart : bool
        Whether the adapters of a server hang on different leaves, where there are enough.
    """
    next_port, taken = np.ones(len(leaves), np.int64), dict[str, list[NDArray[np.int64]]]()
    for index, group in enumerate(groups):
        counts = apportion(group.count, room) if placed is None else placed[index]
        room = room - counts
        link_speed = slower(group.speed, speed)
        on = np.repeat(np.arange(len(leaves)), counts)
        others = taken.setdefault(group.name, [])
        if others and apart:
            turns = (np.roll(on, turn) for turn in range(0, len(on) + 1, max(int(counts.max()), 1)))
            on = min(turns, key=lambda turned: int((turned == others).any(axis=0).sum()))
        others.append(on)
        for name, leaf in zip(group.hosts, on.tolist(), strict=True):
            key = builder.adapter(
                name,
                f"{group.device_name}_{group.device}",
                model=group.adapter_model,
                host_model=group.model,
                role=group.role,
                zone=builder.zone_of(leaves[leaf]),
            )
            builder.link(key, 1, leaves[leaf], int(next_port[leaf]), link_speed)
            next_port[leaf] += 1


def attach_alike(
    builder: FabricBuilder, leaves: Sequence[int], hosts: int, groups: Sequence[HostGroup], speed: LinkSpeed
) -> None:
    """Hang all adapters of all groups on leaves with ``hosts`` ports each."""
    rails = each_adapter(groups)
    needed = sum(group.count for group in rails)
    require_ports(
        needed,
        len(leaves) * hosts,
        ports_wanted(rails),
        f"{len(leaves):,} switches x {hosts} hosts = {len(leaves) * hosts:,}",
        f"Take {-(-needed // len(leaves))} hosts a switch if it has ports for them, "
        f"{f'{-(-needed // hosts):,}' if hosts else 'more'} switches, or fewer nodes",
        "ports",
    )
    attach_hosts(builder, leaves, np.full(len(leaves), hosts), rails, speed)


def apportion(count: int, room: NDArray[np.int64]) -> NDArray[np.int64]:
    """Spread servers over places so that no place has one more than another without need.

    Parameters
    ----------
    count : int
        Servers to place.
    room : (n,) int64
        Free ports of each place.

    Returns
    -------
    (n,) int64
        Servers for each place: everywhere the same number or one more, less only where there is no room. Places with
        one more are evenly spaced.

    Raises
    ------
    DesignError
        When there is not room for all.

    Examples
    --------
    >>> import numpy as np
    >>> apportion(7, np.array([4, 1, 4, 4])).tolist()
    [2, 1, 2, 2]
    """
    if count > int(room.sum()):
        raise DesignError(f"{count} servers need {count} ports and {int(room.sum())} are free")
    level = 0
    while int(np.minimum(room, level + 1).sum()) <= count and level < count:
        level += 1
    placed = np.minimum(room, level)
    more = count - int(placed.sum())
    open_places = np.flatnonzero(room > level)
    if more:
        step = np.arange(len(open_places) + 1) * more // len(open_places)
        placed[open_places[np.flatnonzero(np.diff(step))]] += 1
    return placed


def require_leaf_ports(groups: Sequence[HostGroup], leaves: int, down: int, *, grafted: int = 0) -> None:
    """Refuse more adapters, and links of grafts, than leaves have ports for."""
    needed = sum(group.count for group in groups) + grafted
    require_ports(
        needed,
        leaves * down,
        ports_wanted(groups) + (f" + {grafted} for grafts" if grafted else ""),
        f"{leaves:,} leaves x {down} = {leaves * down:,}",
        f"Take {f'{-(-needed // down):,}' if down else 'more'} leaves, a larger switch, or fewer nodes",
        "leaf ports",
    )


def ports_wanted(groups: Sequence[HostGroup]) -> str:
    """Spell a sum of leaf ports: ``600 gpu + 180 storage``."""
    totals: dict[str, int] = {}
    for group in groups:
        totals[group.name] = totals.get(group.name, 0) + group.count
    return " + ".join(f"{count:,} {name}" for name, count in totals.items()) or "no node"
