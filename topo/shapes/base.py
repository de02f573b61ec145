"""What all shapes share: groups of servers, ports of switches, the attachment of servers, and errors."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise, product
from typing import Any, ClassVar, Literal, NoReturn, get_args

import numpy as np
from numpy.typing import NDArray

from topo.builder import FabricBuilder
from topo.catalog.devices import vendor_name
from topo.catalog.load import Catalog
from topo.catalog.models import HcaModel
from topo.errors import DesignError
from topo.fabric import Fabric, Role
from topo.graphs import turns_in_groups
from topo.spec.base import SpecModel
from topo.speeds import LinkSpeed, slower


@dataclass(frozen=True)
class HostGroup:
    """Servers of one model that are placed in the same way."""

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
    """Number of the adapter that is placed, the first of several: ``mlx5_0``, ``mlx5_1``, ..."""
    step: int = 1
    """From the number of an adapter to that of the next."""
    device_name: str = "mlx5"
    """Prefix of that number."""
    on_rail: bool = False
    """Whether an adapter stays on the leaf of its rail, beside others of its server."""
    first: int = 0
    """Number of the first server, where this is a part of a larger group."""
    total: int = 0
    """Servers in the whole group; 0 where this is the whole group."""
    devices: tuple[str, ...] = ()
    """Names of devices, where these are no servers: each has a port for management."""

    @property
    def hosts(self) -> list[str]:
        """Names of the servers, numbered from 0 with as many digits as the whole group needs: ``gpu0000``."""
        if self.devices:
            return list(self.devices[self.first : self.first + self.count])
        digits = len(str(max((self.total or self.count) - 1, 0)))
        return [f"{self.name}{number:0{digits}d}" for number in range(self.first, self.first + self.count)]

    @property
    def port_name(self) -> str:
        """Name of the adapter that is placed: ``mlx5_0``; ``bmc`` where a server has one of its kind."""
        return f"{self.device_name}_{self.device}" if self.device or self.device_name == "mlx5" else self.device_name

    def with_adapters(self, adapter: HcaModel, count: int, device: int) -> HostGroup:
        """Return the group with so many adapters of a model, numbered from ``device`` on."""
        return replace(self, adapters=count, adapter_model=adapter.name, speed=adapter.speed, device=device,
                       device_name=adapter.device)  # fmt: skip

    def divide(self, parts: int) -> list[HostGroup]:
        """Split the group into consecutive parts whose sizes differ by at most one, the larger ones first."""
        bounds = [part * (self.count // parts) + min(part, self.count % parts) for part in range(parts + 1)]
        whole = replace(self, total=self.total or self.count)
        return [replace(whole, count=end - start, first=self.first + start) for start, end in pairwise(bounds)]


@dataclass(frozen=True)
class GridStyle:
    """How a drawing shows switches on a grid, where `ShapeModel.arrangement` has sizes."""

    arcs: bool = True
    """Whether links over more than one place of a row or column are arcs; else they are two short ends."""
    lines: bool = False
    """Whether links between layers are lines; else they are two short ends."""
    layer: str = "layer"
    """What a layer is called."""


GRID_STYLES: dict[str, GridStyle] = {}
"""By the name of the shape, which an arrangement with sizes begins with."""


class ShapeModel(SpecModel):
    """A family of topologies: what a spec may say of it, how it is compiled, and how it is drawn."""

    layout: ClassVar[str] = "levels"
    """How a drawing arranges the switches."""
    grid: ClassVar[GridStyle] = GridStyle()
    """How it is drawn where its `arrangement` has sizes."""

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        if "shape" in cls.model_fields:
            (name,) = get_args(cls.model_fields["shape"].annotation)
            GRID_STYLES[name] = cls.grid

    @property
    def arrangement(self) -> str:
        """The layout, or for a grid the name of the shape and the sizes: `topo.fabric.Fabric.arrangement`."""
        return self.layout

    def compile(self, groups: Sequence[HostGroup], catalog: Catalog, name: str) -> tuple[Fabric, ...]:
        """Compile the network with every adapter of every group attached, into one fabric for each subnet.

        ``name`` is that of the network, and of its subnet if there is only one. DesignError, with the arithmetic, when
        ports run out or numbers do not divide.
        """
        raise NotImplementedError

    def builder(self, name: str) -> FabricBuilder:
        """Return an empty fabric of this family."""
        return FabricBuilder(name, self.arrangement)


Split = bool | Literal["nodes"]
"""Whether ports are split in two of half the width: all of them, or those towards nodes only."""


class SwitchPorts:
    """Ports of a switch model as a design uses it: whole, each split into two of half the width, or only for ``nodes``.

    A ``leaf`` with uplinks may have ports of two kinds. A ``frame`` counts with the ports of its panel, and
    `add_boxes` builds it whole. DesignError for ports that cannot be split, for ports of two kinds of what is no leaf,
    and for a frame where a single switch is meant.
    """

    def __init__(
        self, catalog: Catalog, name: str, *, split: Split = False, leaf: bool = False, frame: bool = False
    ) -> None:
        model = catalog.switch(name)
        if model.chips > 1 and not frame:
            raise DesignError(
                f"{model.name} is a frame, a whole tree with {model.chips} switches inside, and no single switch: it "
                "can be the `switch` of a fat-tree of two levels, or the top of a tree, its `spine_switch` or, with "
                "three levels, its `core_switch`"
            )
        self.model, self.name, self.radix, self.speed = model, model.name, model.radix, model.speed
        self.uplinks = model.uplink_ports
        """Separate uplink ports, numbered after the others; 0 where all ports are of one kind."""
        self.uplink_speed = model.uplink_speed or self.speed
        if self.uplinks and not leaf:
            others = catalog.switches.values()
            above = [one.name for one in others if (one.protocol, one.speed) == (model.protocol, self.uplink_speed)]
            such = f", such as `spine_switch: {above[0]}`" if above else " (`spine_switch`, `core_switch`)"
            raise DesignError(
                f"{model.name} has ports of two kinds, {self.radix} of {self.speed} and {self.uplinks} of "
                f"{self.uplink_speed} for uplinks: it can be a leaf of a fat-tree whose other switches are another "
                f"model{such}"
            )
        self.node_speed = self.speed
        """Of a port towards nodes."""
        self.parts = 1
        """Ports for nodes that a whole port makes."""
        self.plug = 1
        """Ports, of those that are counted, in one plug."""
        self.cage = model.radix // (model.cages or model.radix) if model.chips == 1 else 1
        """Ports, of those that are counted, in one cage."""
        if split:
            if not model.split_radix:
                raise DesignError(f"the ports of {model.name} cannot be split, as far as the catalog knows")
            parts = model.split_radix // self.radix
            self.node_speed = LinkSpeed(model.speed.width // parts, model.speed.generation)
            if split == "nodes":
                self.parts = parts
            else:
                self.radix, self.speed, self.plug = model.split_radix, self.node_speed, parts
                self.cage *= parts
        if not self.uplinks:
            self.uplink_speed = self.speed

    def first_uplink(self, down: int) -> int:
        """Return the number of the first uplink port of a leaf whose first ``down`` ports are for nodes."""
        return (self.radix * self.parts if self.uplinks else down) + 1

    def numbered(self, down: int) -> int:
        """Return how many ports are numbered on a switch of whose ports ``down`` lead to nodes."""
        return self.radix + self.uplinks + down - -(-down // self.parts)

    def require(self, wanted: int, terms: str, advice: str) -> None:
        """Raise DesignError for more ports than a switch has; see `require_ports`."""
        require_ports(wanted, self.radix, terms, f"a {self.name} has {self.radix} ports", advice)


def require_ports(wanted: int, available: int, terms: str, have: str, advice: str, what: str = "ports") -> None:
    """Raise DesignError, with the arithmetic, for a design that wants more ports than are available.

    ``terms`` and ``have`` say how both numbers are made up: ``8 hosts + 34 links = 42 ports, and a QM8700 has 40 ports:
    short of 2. Take fewer hosts``, of which the last sentence is the ``advice``.
    """
    if wanted > available:
        raise DesignError(f"{terms} = {wanted:,} {what}, and {have}: short of {wanted - available:,}. {advice}")


def refuse_uneven(terms: str, parts: str, fitting: Sequence[int], advice: str = "", *keys: str) -> NoReturn:
    """Raise DesignError for a count that does not divide, naming the nearest that do."""
    raise DesignError(f"{terms} do not divide over {parts}: {numbers(fitting)} would do{advice}", *keys)


def numbers(values: Sequence[int]) -> str:
    """Format numbers as text: ``19 or 23``, ``1, 2, 4``, ``none``."""
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
    """Add switches ``leaf00``, ``leaf01``, ... and return their keys; ``radix`` where only some ports are split."""
    add = partial(builder.switch, model=ports.name, radix=radix or ports.radix + ports.uplinks, role=role, level=level)
    return [add(f"{name}/U1", zone=zone) for name in _descriptions(stem, count, ports.name)]


def _descriptions(stem: str, count: int, model: str) -> Iterator[str]:
    """Yield NodeDescriptions as NVIDIA's tools expect them, but for the chip: ``MF0;leaf01:MQM8700``.

    One by one, since the builder refuses what is too large on the way.
    """
    digits, name = len(str(max(count - 1, 0))), vendor_name(model)
    return (f"MF0;{stem}{number:0{digits}d}:{name}" for number in range(count))


Box = Sequence[tuple[int, int]]
"""Key and number of each port of a switch, or of each port on the panel of a frame, in order."""


def add_boxes(
    builder: FabricBuilder,
    ports: SwitchPorts,
    count: int,
    stem: str,
    *,
    role: Role,
    level: int,
    zone: int,
    radix: int | None = None,
) -> list[Box]:
    """Add switches as `add_switches` does, or whole frames; return the ports of each.

    A frame of the tree's top is what a subnet manager sees of it: its leaf chips at ``level``, two on a card
    (``spine0/L01/U1`` and ``U2``), and its spine chips above (``spine0/S01/U1``). Consecutive ports of its panel are on
    different leaf chips, so that the links of a leaf hang on several.
    """
    model = ports.model
    if model.chips == 1 or not (model.leaf_chips and model.spine_chips and model.chip_radix) or radix:
        keys = add_switches(builder, ports, count, stem, role=role, level=level, zone=zone, radix=radix)
        return [[(key, number) for number in range(1, (radix or ports.radix) + 1)] for key in keys]
    down = model.radix // model.leaf_chips
    parallel = (model.chip_radix - down) // model.spine_chips
    add = partial(builder.switch, model=model.name, radix=model.chip_radix, zone=zone)
    boxes: list[Box] = []
    for name in _descriptions(stem, count, model.name):
        lower = [add(f"{name}/L{at // 2 + 1:02d}/U{at % 2 + 1}", role=role, level=level)
                 for at in range(model.leaf_chips)]  # fmt: skip
        upper = [add(f"{name}/S{at + 1:02d}/U1", role=Role.CORE, level=level + 1) for at in range(model.spine_chips)]
        for (i, a), (j, b), link in product(enumerate(lower), enumerate(upper), range(parallel)):
            builder.link(a, down + j * parallel + link + 1, b, i * parallel + link + 1, ports.speed)
        boxes.append([(key, number) for number in range(1, down + 1) for key in lower])
    return boxes


def link_in_order(builder: FabricBuilder, pairs: Iterable[tuple[int, int]], first_port: int, speed: LinkSpeed) -> None:
    """Connect each pair of switches by their lowest free ports, from ``first_port`` on."""
    free: defaultdict[int, int] = defaultdict(lambda: first_port)
    for a, b in pairs:
        builder.link(a, free[a], b, free[b], speed)
        free[a] += 1
        free[b] += 1


def each_adapter(groups: Iterable[HostGroup]) -> list[HostGroup]:
    """Return one group for each adapter, for servers whose adapters are all attached to the same network."""
    return [replace(group, device=group.device + n * group.step) for group in groups for n in range(group.adapters)]


def attach_hosts(
    builder: FabricBuilder,
    leaves: Sequence[int],
    groups: Sequence[HostGroup],
    places: Sequence[NDArray[np.int64]],
    speed: LinkSpeed,
    cage: int = 1,
    spare: NDArray[np.int64] | None = None,
) -> None:
    """Attach servers to leaves (keys in the builder), from port 1 up, where `place_adapters` has placed them.

    ``speed`` is the fastest of the ports of the leaves. Where a leaf has (leaves,) ``spare`` ports, links of another
    speed begin in another cage of ``cage`` ports: no cable or transceiver of the catalog runs at two.
    """
    next_port = np.ones(len(leaves), np.int64)
    spare = np.zeros(len(leaves), np.int64) if spare is None else spare.copy()
    last: dict[int, LinkSpeed] = {}
    for group, on in zip(groups, places, strict=True):
        link_speed = slower(group.speed, speed)
        add = partial(builder.adapter, device=group.port_name, host_model=group.model, role=group.role)
        for name, leaf in zip(group.hosts, on.tolist(), strict=True):
            begun = -int(next_port[leaf] - 1) % cage
            if last.get(leaf, link_speed) != link_speed and begun <= spare[leaf]:
                next_port[leaf] += begun
                spare[leaf] -= begun
            last[leaf] = link_speed
            made = builder.device if group.devices else add
            key = made(name, model=group.adapter_model, zone=builder.zone_of(leaves[leaf]))
            builder.link(key, 1, leaves[leaf], int(next_port[leaf]), link_speed)
            next_port[leaf] += 1


def place_adapters(
    groups: Sequence[HostGroup], free: NDArray[np.int64], placed: Sequence[NDArray[np.int64]] | None = None
) -> list[NDArray[np.int64]]:
    """Return for each group the (count,) leaf of each server.

    Each group is spread evenly over the leaves in order, so that consecutive servers share a leaf, or as ``placed``
    says: for each group (leaves,) servers. The adapters of a server that are not on rails are spread over the leaves as
    evenly as the ports allow, so that the failure of one leaf takes as few of them as can be. Where the number of
    leaves divides that of a compute server's adapters, those with one number share a leaf, as NCCL's rings send.
    DesignError if the (leaves,) ``free`` ports do not suffice.
    """
    leaves, places = np.arange(len(free)), dict[int, NDArray[np.int64]]()
    together = defaultdict[int | str, list[int]](list)
    for index, group in enumerate(groups):
        together[index if group.on_rail else group.name].append(index)
    for adapters in together.values():
        servers, left, turned = groups[adapters[0]], free, list[NDArray[np.int64]]()
        count, (each, more) = servers.count, divmod(len(adapters), number := max(len(free), 1))
        if placed is None and servers.role is Role.COMPUTE and each and not more and (free >= count * each).all():
            places |= {index: np.full(count, turn % number) for turn, index in enumerate(adapters)}
            free = free - count * each
            continue
        for index in adapters:
            counts = apportion(count, left) if placed is None else placed[index]
            turned.append(_apart(np.repeat(leaves, counts), turned, left if placed is None else counts))
            left = left - np.bincount(turned[-1], minlength=len(free))
        # Leaf by leaf, one server after the other, each has the same share of every leaf, or one adapter more.
        filled = apportion(count * len(adapters), free if placed is None else free - left)
        on = min(np.array(turned), np.repeat(leaves, filled).reshape(len(adapters), count), key=_most_on_a_leaf)
        free = free - np.bincount(on.ravel(), minlength=len(free))
        places |= dict(zip(adapters, on, strict=True))
    return [places[index] for index in range(len(groups))]


def _most_on_a_leaf(on: NDArray[np.int64]) -> int:
    """Return the most adapters of one server on one leaf, where ``on`` has the (adapters, servers) leaves."""
    servers = on.shape[1]
    return int(turns_in_groups((on * servers + np.arange(servers)).ravel()).max(initial=-1)) + 1


def _apart(on: NDArray[np.int64], others: Sequence[NDArray[np.int64]], most: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the leaf of each server, on which few have one of their ``others``; (leaves,) ``most`` adapters fit.

    Those of the first adapters, moved on by one leaf for each adapter, where they fit; else ``on``, turned by as many
    servers as a leaf has until the fewest share a leaf with their others.
    """
    if not others:
        return on
    moved = (others[0] + len(others)) % len(most)
    if (np.bincount(moved, minlength=len(most)) <= most).all():
        return moved
    step = max(int(np.bincount(on).max(initial=0)), 1)
    best, fewest = on, len(on) + 1
    for turn in range(0, len(on) + 1, step):
        turned = np.roll(on, turn)
        shared = int(np.count_nonzero((turned == others).any(axis=0)))
        if shared < fewest:
            best, fewest = turned, shared
        if not fewest:
            break
    return best


def attach_alike(
    builder: FabricBuilder, leaves: Sequence[int], hosts: int, groups: Sequence[HostGroup], speed: LinkSpeed
) -> None:
    """Attach all adapters of all groups to leaves with ``hosts`` ports each."""
    rails = each_adapter(groups)
    needed = sum(group.count for group in rails)
    require_ports(
        needed,
        len(leaves) * hosts,
        ports_wanted(rails),
        f"{len(leaves):,} switches x {hosts} hosts = {len(leaves) * hosts:,}",
        f"Take {-(-needed // len(leaves))} hosts a switch if it has ports for them, "
        f"{f'{-(-needed // hosts):,}' if hosts else 'more'} switches, or fewer nodes",
    )
    attach_hosts(builder, leaves, rails, place_adapters(rails, np.full(len(leaves), hosts)), speed)


def apportion(count: int, free: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return (n,) servers of each place, spread as evenly as the (n,) free ports allow.

    DesignError if there are too few ports. It is min(free, level) or one more, for one level. Places with one more are
    evenly spaced.

    >>> import numpy as np
    >>> apportion(7, np.array([4, 1, 4, 4])).tolist()
    [2, 1, 2, 2]
    """
    if count > int(free.sum()):
        raise DesignError(f"{count} servers need {count} ports and {int(free.sum())} are free")
    level = bisect_right(range(count + 1), count, key=lambda level: int(np.minimum(free, level).sum())) - 1
    placed = np.minimum(free, level)
    more = count - int(placed.sum())
    open_places = np.flatnonzero(free > level)
    if more:
        step = np.arange(len(open_places) + 1) * more // len(open_places)
        placed[open_places[np.flatnonzero(np.diff(step))]] += 1
    return placed


def ports_wanted(groups: Sequence[HostGroup]) -> str:
    """Format the sum of the adapters of all groups: ``600 gpu x 8 adapters + 180 storage``."""
    adapters = Counter((group.name, group.count) for group in groups)
    totals = (f"{count:,} {name}{f' x {n} adapters' * (n > 1)}" for (name, count), n in adapters.items())
    return " + ".join(totals) or "no node"
