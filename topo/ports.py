"""How the ports of switches are used: towards servers, up, and free, by class of switch; and how far a tree tapers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topo.catalog.load import Catalog
from topo.errors import plural
from topo.fabric import Fabric, Kind, Role
from topo.graphs import components, turns_in_groups
from topo.hostlist import compress, natural_order
from topo.speeds import speed_name
from topo.table import Record, Shown, Table


@dataclass(frozen=True)
class PortClass(Record):
    """Switches of one role and model in one network: what tapers is a network, not a cluster of several."""

    network: str
    """Name of the fabric."""
    role: str
    model: str
    switches: int
    ports: int
    down: int
    """Ports to adapters, or to switches of a lower level."""
    up: int
    """Ports to switches of a higher level, but joints."""
    across: int
    """Ports to switches of the same level, and to joints, which carry what goes to other zones."""
    free: int
    """Ports without a cable, but those of `free_uplinks`."""
    free_uplinks: int
    """Ports without a cable that are for uplinks alone (`uplink_ports` of the catalog), which take no server."""
    down_gbps: float
    """Gb/s of all links down, in one direction."""
    up_gbps: float
    """Gb/s of all links up."""
    free_by_zone: dict[int, int]
    """Free ports in each zone; empty where there are not several."""
    taper: float | None
    """Oversubscription of the switch with the most: bandwidth down for what there is up, whatever the speeds; None
    where no port leads up."""

    @property
    def free_told(self) -> str:
        """Its free ports in words, by zone where there are several."""
        zones = [
            f"{number:,} {'each ' * (len(alike) > 1)}in {compress(alike)}"
            for number in sorted({*self.free_by_zone.values()} - {0}, reverse=True)
            for alike in [[f"zone{zone}" for zone, found in self.free_by_zone.items() if found == number]]
        ]
        uplinks = [f"{self.free_uplinks:,} others are for uplinks alone"] if self.free_uplinks else []
        return f"{self.free:,} of {self.ports:,} ({'; '.join([f'{self.role} {self.model}', *zones, *uplinks])})"


@dataclass(frozen=True)
class PortUse(Shown):
    """Classes of switches with the use of their ports."""

    classes: tuple[PortClass, ...]

    def _brief(self) -> str:
        return plural(len(self.classes), "class", "classes") + " of switches"

    def to_dict(self) -> list[dict[str, Any]]:
        """Return the classes as plain values, as ``plan.json`` has them."""
        return [row.to_dict() for row in self.classes]

    @property
    def table(self) -> Table:
        """The classes as a table."""
        names = ("network", "role", "model", "switches", "ports", "down", "up", "across", "free")
        more = ("free_uplinks", "free for uplinks"), ("taper", "taper", "", ".3g")
        return Table.of("ports", self.classes, *names, *more)


def count_ports(fabrics: Sequence[Fabric], catalog: Catalog) -> PortUse:
    """Count how the ports of all switches are used, by network, role and model.

    Examples
    --------
    >>> import topo
    >>> lab = topo.preset("lab-20")
    >>> leaf, spine = topo.count_ports(lab.fabrics, lab.catalog).classes
    >>> leaf.taper, leaf.free, spine.free
    (0.55, 18, 40)
    """
    classes = []
    for fabric in fabrics:
        ports = np.arange(fabric.first_adapter_port)
        node, far = fabric.port_node[ports], fabric.peer_node[ports]
        step = np.sign(fabric.level[far] - fabric.level[node]).astype(int)
        step[fabric.role[far] == Role.JOINT] = 0
        step[(far >= fabric.n_switches)] = -1
        models = [catalog.switches.get(fabric.model_of(switch)) for switch in range(fabric.n_switches)]
        ports_of = np.diff(fabric.port_offset[: fabric.n_switches + 1])
        own = np.array([model.own_ports(n) if model else n for model, n in zip(models, ports_of.tolist(), strict=True)])
        uplink = ports - fabric.port_offset[node] >= own[node]
        use = np.where(far < 0, 3 + uplink, step + 1)  # down, across, up, free, free for uplinks alone
        down_of, up_of = (np.bincount(node[use == way], fabric.rate_gbps[ports][use == way], fabric.n_switches)
                          for way in (0, 2))  # fmt: skip
        kind = np.stack([fabric.role, fabric.model], axis=1)[: fabric.n_switches]
        for role, model in np.unique(kind, axis=0).tolist():
            of_it = (kind == (role, model)).all(axis=1)
            mine = of_it[node]
            down, across, up, free, free_uplinks = np.bincount(use[mine], minlength=5).tolist()
            rising = of_it & (up_of > 0)
            zone_of_free = fabric.zone[node[mine & (use == 3)]]
            free_by_zone = {zone: int(np.count_nonzero(zone_of_free == zone))
                            for zone in np.unique(fabric.zone[node[mine]]).tolist() if zone >= 0}  # fmt: skip
            classes.append(
                PortClass(
                    network=fabric.name,
                    role=Role(role).name.lower(),
                    model=fabric.models[model] if model >= 0 else "unknown",
                    switches=int(np.count_nonzero(of_it)),
                    ports=int(np.count_nonzero(mine)),
                    down=down,
                    up=up,
                    across=across,
                    free=free,
                    free_uplinks=free_uplinks,
                    down_gbps=float(down_of[of_it].sum()),
                    up_gbps=float(up_of[of_it].sum()),
                    free_by_zone=free_by_zone if len(free_by_zone) > 1 else {},
                    taper=float((down_of[rising] / up_of[rising]).max()) if rising.any() else None,
                )
            )
    return PortUse(tuple(classes))


def rail_numbers(fabric: Fabric) -> NDArray[np.int32]:
    """Return (E,) the number of each adapter port among those of its server, with and without a link; -1 for others.

    Names decide: ``mlx5_2`` comes before ``mlx5_10``.

    Examples
    --------
    >>> import numpy as np
    >>> import topo
    >>> fabric = topo.preset("dgx-b200-superpod").fabric
    >>> np.unique(topo.rail_numbers(fabric)[fabric.ends(role="compute")]).tolist()
    [0, 1, 2, 3, 4, 5, 6, 7]
    """
    rail = np.full(fabric.n_end_ports, -1, np.int32)
    host = fabric.host[fabric.end_node]
    ends = np.flatnonzero((fabric.kind[fabric.end_node] == Kind.HCA) & (host >= 0))
    names = {node: natural_order(fabric.names[node]) for node in np.unique(fabric.end_node[ends]).tolist()}
    order = sorted(ends.tolist(), key=lambda end: (host[end], names[fabric.end_node[end]], end))
    rail[order] = turns_in_groups(host[order])
    return rail


def lacks_manager(fabric: Fabric) -> str:
    """Return why no server but those that compute can run OpenSM, in words; empty where another has a port.

    Examples
    --------
    >>> import topo
    >>> topo.lacks_manager(topo.preset("lab-20").fabric)
    ''
    >>> topo.lacks_manager(topo.preset("deepseek-v3-planes").fabrics[0])
    'all 2,048 host ports are of compute servers, and no port of a leaf is free'
    """
    ends = fabric.ends()
    if len(fabric.ends(Role.COMPUTE)) < len(ends):
        return ""
    leaves = np.unique(fabric.end_switch[ends])
    free = int(np.count_nonzero(np.isin(fabric.port_node, leaves) & (fabric.peer < 0)))
    left = f"{free:,} ports of leaves are" if free > 1 else f"{'one' if free else 'no'} port of a leaf is"
    return f"all {len(ends):,} host ports are of compute servers, and {left} free"


def idle_level(fabric: Fabric) -> str:
    """Say which cores or spines carry nothing, since all servers are connected below them; empty where none is idle.

    Examples
    --------
    >>> import topo
    >>> network = {"shape": "fat-tree", "switch": "QM8700", "levels": 3}
    >>> nodes = {"gpu": {"model": "pcie-a100", "count": 60}}
    >>> topo.idle_level(topo.parse({"name": "x", "nodes": nodes, "network": network}).fabric)
    'core[0-1] carry nothing: all servers reach one another below them'
    """
    role, ends = fabric.role[: fabric.n_switches], fabric.port_node[fabric.inner_links]
    used = np.unique(fabric.end_switch[fabric.ends()])
    for upper in (Role.CORE, Role.SPINE):
        idle = np.flatnonzero(role == upper)
        above = (role >= upper) & (role <= Role.JOINT)
        part = components(fabric.n_switches, *ends[~above[ends].any(axis=1)].T)[used[used >= 0]]
        if len(idle) and len(part) and (part == part[0]).all() and not np.isin(idle, used).any():
            names = compress(map(fabric.label, idle.tolist()))
            return f"{names} carry nothing: all servers reach one another below them"
    return ""


MOST_NAMED = 3
"""Cables, switches or bundles that a sentence names."""


def slow_cables(fabric: Fabric, named: int = MOST_NAMED) -> tuple[str, ...]:
    """Say which cables, of each kind ``named``, are slower than the fastest of those between the same roles.

    Examples
    --------
    >>> import topo
    >>> topo.slow_cables(topo.preset("lab-20").fabric)
    ()
    """
    cables = fabric.links[~fabric.is_internal]
    ends = np.sort(fabric.role[fabric.port_node[cables]], axis=1)
    slower = cables[np.arange(len(cables)), fabric.rate_gbps[cables].argmin(axis=1)]
    rate = fabric.rate_gbps[slower]
    said = []
    for pair in np.unique(ends, axis=0):
        beside = (ends == pair).all(axis=1)
        fastest = rate[beside].max()
        for gbps in np.unique(rate[beside & (rate < fastest)]):
            slow = slower[beside & (rate == gbps)]
            names = ", ".join(fabric.channel_label(port).replace(" -> ", " to ") for port in slow[:named].tolist())
            more = f" and {len(slow) - named:,} more" if len(slow) > named else ""
            a, b = (Role(role).name.lower() for role in pair)
            shown = slow[0], slower[beside & (rate == fastest)][0]
            own, usual = (speed_name(int(fabric.width[port]), int(fabric.speed[port])) for port in shown)
            said.append(
                f"{len(slow):,} of {plural(int(beside.sum()), 'cable')} between {a} and {b} "
                f"{'runs' if len(slow) == 1 else 'run'} at {own} beside {usual}: {names}{more}"
            )
    return tuple(said)


def uneven_links(fabric: Fabric, named: int = MOST_NAMED) -> tuple[str, ...]:
    """Say which switches have other numbers of links upwards than most of their peers: what differs, not what is wrong.

    Peers have the same level, role and model, and switches above them in common; links to joints do not count. Most of
    at least three must agree, both on how many links lead up and on how many lead to a switch that is named; at most
    ``named`` of them are.

    Examples
    --------
    >>> import topo
    >>> fabric = topo.preset("tapered-three-to-one").fabric
    >>> topo.uneven_links(fabric)
    ()
    >>> topo.uneven_links(fabric.without(fabric.inner_links[0, :1]))[0]
    'leaf00 has 9 links to spines where 19 of its 19 peers have 10; 1 instead of 2 to spine0'
    """
    ports = np.flatnonzero(fabric.is_inner)
    node, far = fabric.port_node[ports], fabric.peer_node[ports]
    up = (fabric.level[node] > 0) & (fabric.level[far] > fabric.level[node]) & (fabric.role[far] != Role.JOINT)
    links = defaultdict[int, Counter[int]](Counter)
    for switch, top in zip(node[up].tolist(), far[up].tolist(), strict=True):
        links[switch][top] += 1
    peers = defaultdict[tuple[int, ...], list[int]](list)
    for level in np.unique(fabric.level[node[up]]).tolist():
        mine = up & (fabric.level[node] == level)
        part = components(fabric.n_switches, node[mine], far[mine])
        for switch in np.unique(node[mine]).tolist():
            peers[level, int(part[switch]), int(fabric.role[switch]), int(fabric.model[switch])].append(switch)
    said = []
    for switches in peers.values():
        usual, agree = _most([links[switch].total() for switch in switches])
        odd = sorted((s for s in switches if agree and links[s].total() != usual), key=lambda s: links[s].total())
        tops = sorted(set().union(*(links[switch] for switch in switches))) if odd else []
        most = {top: _most([links[switch][top] for switch in switches])[0] for top in tops}
        for switch in odd[:named]:
            own = links[switch]
            roles = " and ".join(sorted({Role(role).name.lower() + "s" for role in fabric.role[list(own)].tolist()}))
            less = [f"{f'{own[top]} instead of {most[top]}' if own[top] else 'none'} to {fabric.label(top)}"
                    for top in tops if own[top] < most[top]]  # fmt: skip
            more = [f"fewer to {len(less) - named:,} more"] if len(less) > named else []
            said.append(
                f"{fabric.label(switch)} has {plural(own.total(), 'link')} to {roles} where {agree:,} of its "
                f"{len(switches) - 1:,} peers have {usual:,}{'; ' if less else ''}{', '.join(less[:named] + more)}"
            )
        if len(odd) > named:
            said.append(f"{len(odd) - named:,} more of these {len(switches):,} differ from the {agree:,}")
    return tuple(said)


def _most(numbers: list[int]) -> tuple[int, int]:
    """Return the number that most agree on, of three at least, and how many do; zeros if there is none."""
    ((number, agree),) = Counter(numbers).most_common(1)
    return (number, agree) if len(numbers) > 2 and 2 * agree > len(numbers) else (0, 0)
