"""From one plan to a larger one: what stays, which cables move, and in which order no host loses its path.

Switches are matched by name and model, servers by the switches that they hang on. A cable that joins the same two nodes
in both plans stays in its ports, and the target's other cables take the ports that are left, so that no cable is moved
for its number alone.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from topo.builder import stable_guid
from topo.errors import HeddleError, plural
from topo.fabric import Fabric, Role, freeze_arrays, frozen
from topo.table import Shown, Table, plain

Cable = tuple[int, int]
"""Two ports of the grown fabric, or of the old one behind these, the lower first."""


@dataclass(frozen=True)
class Work:
    """One cable that is unplugged or plugged."""

    step: int
    do: str
    """``unplug`` or ``plug``."""
    a: str
    b: str
    """Ports, with the names of the target; of what the target has not, the old ones."""
    a_place: str
    b_place: str
    """Where the two nodes stand, in today's room when it is unplugged, in the target's when it is plugged."""
    length_m: float | None
    """Length of the cable; None where no plan knows it."""
    cut: tuple[str, ...] = ()
    """Hosts that have no path to the others until the end of the step, as no order spares them."""


@dataclass(frozen=True, eq=False)
class Growth(Shown):
    """The way from one subnet to a larger one."""

    old: Fabric
    grown: Fabric
    """The target, with old cables in the ports that they have."""
    was: NDArray[np.int32]
    """(N,) node of the old fabric that each node of the grown one is, -1 for what is new."""
    works: tuple[Work, ...]
    """In order. In each step, all of it is unplugged and then plugged; tables that lead around what is unplugged come
    first."""
    kept: int
    """Cables that stay."""
    tight: int = field(default=0)
    """Steps that cut hosts off."""

    def __post_init__(self) -> None:
        freeze_arrays(self)

    @property
    def steps(self) -> int:
        """How many steps there are."""
        return max((work.step for work in self.works), default=0)

    @property
    def new(self) -> list[str]:
        """Names of the nodes that are new."""
        return [self.grown.label(node) for node in np.flatnonzero(self.was < 0).tolist()]

    @property
    def gone(self) -> list[str]:
        """Names of the nodes that the target has not."""
        return [self.old.label(node) for node in sorted(set(range(self.old.n_nodes)) - set(self.was.tolist()))]

    def with_lids(self, lid: NDArray[np.uint16]) -> Fabric:
        """Return the grown fabric, in which end ports that stay have the (E,) LIDs of the old one."""
        found = np.zeros(self.grown.n_end_ports, np.uint16)
        switches = np.flatnonzero(self.was[: self.grown.n_switches] >= 0)
        found[switches] = lid[self.was[switches]]
        ends = np.arange(self.grown.n_switches, self.grown.n_end_ports)
        ports = self.grown.port_of(ends)
        node = self.was[self.grown.port_node[ports]]
        there = self.old.port_offset[np.maximum(node, 0)] + self.grown.port_number[ports] - 1
        found[ends[node >= 0]] = lid[self.old.end_of(there[node >= 0])]
        return replace(self.grown, discovered_lid=frozen(found))

    @property
    def renamed(self) -> list[tuple[str, str]]:
        """Old and new name of each node that has another one."""
        pairs = [
            (self.old.label(was), self.grown.label(node)) for node, was in enumerate(self.was.tolist()) if was >= 0
        ]
        return [pair for pair in pairs if pair[0] != pair[1]]

    @property
    def cut(self) -> list[str]:
        """Hosts that lose their path in some step."""
        return sorted({name for work in self.works for name in work.cut})

    def _brief(self) -> str:
        unplugged = sum(work.do == "unplug" for work in self.works)
        return (
            f"{plural(self.kept, 'cable')} stay, {unplugged:,} unplugged, {len(self.works) - unplugged:,} plugged in "
            f"{plural(self.steps, 'step')}"
        )

    @property
    def table(self) -> Table:
        """The works, one a row."""
        placed = [
            name for name in ("a_place", "b_place", "length_m") if any(getattr(work, name) for work in self.works)
        ]
        names = ("step", "do", "a", "b", *placed)
        title = f"from {self.old.name} to {self.grown.name}: {self._brief()}"
        return Table.of(title, self.works, *names, (lambda work: " ".join(work.cut), "cut off"))

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values, ready for JSON."""
        return {
            "name": self.grown.name,
            "kept": self.kept,
            "steps": self.steps,
            "new": self.new,
            "gone": self.gone,
            "renamed": [list(pair) for pair in self.renamed],
            "cut": self.cut,
            "works": plain(self.works),
        }


def plan_growth(old: Fabric, target: Fabric, places: tuple[Sequence[str], Sequence[str]] | None = None) -> Growth:
    """Find the way from a fabric to a larger one.

    Parameters
    ----------
    old, target : Fabric
        A cable of the old one does not stay where the target needs a longer one, as far as both know lengths.
    places : optional
        Where each node of either stands.

    Raises
    ------
    HeddleError
        When they have no switch in common.

    Examples
    --------
    >>> import topo
    >>> def plan(servers, leaves):
    ...     network = {"shape": "fat-tree", "switch": "QM8700", "leaves": leaves, "spines": 2}
    ...     nodes = {"gpu": {"model": "pcie-a100", "count": servers}}
    ...     return topo.parse({"name": "x", "nodes": nodes, "network": network}).fabric
    >>> topo.plan_growth(plan(30, 2), plan(45, 3))
    <Growth 70 cables stay, 0 unplugged, 35 plugged in 1 step>
    """
    was = _match(old, target)
    if not (was[: target.n_switches] >= 0).any():
        raise HeddleError(f"found no switch of {old.name} in {target.name}; expected a plan that it grows into")
    grown, at, stay = _settle(old, target, was)
    doomed = [link for link in old.links.tolist() if tuple(link) not in stay]
    held = {tuple(sorted((at[a], at[b]))) for a, b in stay}
    fresh = [(a, b) for a, b in grown.links.tolist() if (a, b) not in held]
    names = _Names(old, grown, places)
    works, tight = _order(old, was, at, [(a, b) for a, b in doomed], fresh, held, names)
    return Growth(old, _adopt(old, grown, was), was, tuple(works), len(stay), tight)


def _adopt(old: Fabric, grown: Fabric, was: NDArray[np.int32]) -> Fabric:
    """Give the nodes that stay their GUIDs, and those new GUIDs whose names old nodes had."""
    stays = was >= 0
    guid = grown.node_guid.copy()
    guid[stays] = old.node_guid[was[stays]]
    for node in np.flatnonzero(~stays & np.isin(guid, old.node_guid)).tolist():
        guid[node] = stable_guid(f"{grown.name}/{grown.label(node)}/grown")
    owner = grown.port_node
    counts = np.where(owner < grown.n_switches, 0, grown.port_number).astype(np.uint64)
    own = np.where(stays[owner], old.port_offset[np.maximum(was[owner], 0)] + grown.port_number - 1, -1)
    port_guid = np.where(own >= 0, old.port_guid[np.maximum(own, 0)], guid[owner] + counts)
    return replace(grown, node_guid=frozen(guid), port_guid=frozen(port_guid.astype(np.uint64)))


def _key(label: str) -> str:
    """Return a name without what depends on how many there are: leading zeros, and the number of zone 0."""
    return re.sub(r"\d+", lambda number: str(int(number[0])), label).removeprefix("z0-")


def _match(old: Fabric, target: Fabric) -> NDArray[np.int32]:
    """Return (N,) node of the old fabric that each node of the target is, -1 for what is new."""
    was = np.full(target.n_nodes, -1, np.int32)
    by_name = {_key(old.label(node)): node for node in range(old.n_switches)}
    for node in range(target.n_switches):
        found = by_name.get(_key(target.label(node)), -1)
        if found >= 0 and _model(old, found) == _model(target, node) and found not in was:
            was[node] = found
    place = {int(there): here for here, there in enumerate(was.tolist()) if there >= 0}
    before, after = _servers(old, place), _servers(target, {node: node for node in range(target.n_switches)})
    left = dict(before)
    for exact in (2, 1, 0):  # the same switches and name, the same switches, the same kind wherever it hangs
        free = defaultdict(list)
        for name, server in left.items():
            free[server.key(name, exact)].append(name)
        for name, server in after.items():
            if was[server.adapters[0]] >= 0 or not free[server.key(name, exact)]:
                continue
            mine = free[server.key(name, exact)].pop(0)
            was[server.adapters] = left.pop(mine).adapters
    return was


@dataclass(frozen=True)
class _Server:
    kind: tuple[object, ...]
    """Role, models, and ports of the adapters: what may take the place of what."""
    hangs: tuple[int, ...]
    """Switch of the target that each port hangs on; -1 for none, -2 for one that goes."""
    adapters: list[int]

    def key(self, name: str, exact: int) -> tuple[object, ...]:
        """What two servers must have in common to be one."""
        return (self.kind, *((self.hangs,) if exact else ()), *((_key(name),) if exact == 2 else ()))


def _servers(fabric: Fabric, place: Mapping[int, int]) -> dict[str, _Server]:
    """Return the servers by name; one that has no host is its adapter."""
    nodes: dict[str, list[int]] = defaultdict(list)
    for node in range(fabric.n_switches, fabric.n_nodes):
        host = int(fabric.host[node])
        nodes[fabric.hosts[host] if host >= 0 else fabric.label(node)].append(node)
    found = {}
    for name, mine in nodes.items():
        host = int(fabric.host[mine[0]])
        ports = [range(*fabric.port_offset[[node, node + 1]].tolist()) for node in mine]
        hangs = tuple(
            -1 if (switch := int(fabric.peer_node[port])) < 0 else place.get(switch, -2)
            for own in ports
            for port in own
        )
        model = fabric.models[fabric.host_model[host]] if host >= 0 and fabric.host_model[host] >= 0 else ""
        kind = (int(fabric.role[mine[0]]), model, tuple(_model(fabric, node) for node in mine), tuple(map(len, ports)))
        found[name] = _Server(kind, hangs, mine)
    return found


def _model(fabric: Fabric, node: int) -> tuple[str, int]:
    model = int(fabric.model[node])
    return fabric.models[model] if model >= 0 else "", int(fabric.port_offset[node + 1] - fabric.port_offset[node])


def _settle(old: Fabric, target: Fabric, was: NDArray[np.int32]) -> tuple[Fabric, dict[int, int], set[Cable]]:
    """Give old cables their ports in the target.

    Returns
    -------
    tuple
        The grown fabric; the port of it that each old port is, of nodes that stay; and the old cables that stay.
    """
    at = {
        int(old.port_offset[there]) + number: int(target.port_offset[here]) + number
        for here, there in enumerate(was.tolist())
        if there >= 0
        for number in range(int(old.port_offset[there + 1] - old.port_offset[there]))
    }
    wanted = defaultdict(list)
    for a, b in target.links.tolist():
        wanted[_joins(target, a, b)].append((a, b))
    home = np.full(target.n_ports, -1)  # where each port of the target goes
    stay: set[Cable] = set()
    for a, b in old.links.tolist():
        if a not in at or b not in at:
            continue
        x, y = at[a], at[b]
        key = _joins(target, x, y, (int(old.width[a]), int(old.speed[a])))
        long_enough = [cable for cable in wanted[key] if not _length(target, cable[0]) > _length(old, a)]
        if long_enough:
            c, d = long_enough[0]
            wanted[key].remove((c, d))
            if target.port_node[c] != target.port_node[x]:
                c, d = d, c
            home[c], home[d] = x, y
            stay.add((a, b))
    return _moved(target, home), at, stay


def _length(fabric: Fabric, port: int) -> float:
    """Return the length of a port's cable; nan where it is unknown."""
    return float(fabric.length_m[port]) if len(fabric.length_m) else float("nan")


def _joins(fabric: Fabric, a: int, b: int, rate: tuple[int, int] | None = None) -> tuple[object, ...]:
    """Return what a cable joins: of adapters a port, of switches the node, as their ports are all alike."""
    ends = sorted(port if port >= fabric.first_adapter_port else -1 - int(fabric.port_node[port]) for port in (a, b))
    return (*ends, *(rate or (int(fabric.width[a]), int(fabric.speed[a]))))


def _moved(target: Fabric, home: NDArray[np.int64]) -> Fabric:
    """Return the target with its cables in other ports of their nodes: those that `home` tells, the others near."""
    for node in range(target.n_switches):
        ports = np.arange(target.port_offset[node], target.port_offset[node + 1])
        taken = set(home[ports][home[ports] >= 0].tolist())
        cabled = [port for port in ports[home[ports] < 0].tolist() if target.peer[port] >= 0]
        for port in cabled:
            if port not in taken:
                home[port] = port
                taken.add(port)
        spare = iter([port for port in ports.tolist() if port not in taken])
        for port in ports[home[ports] < 0].tolist():
            home[port] = next(spare)
    home[home < 0] = np.flatnonzero(home < 0)
    back = np.argsort(home)
    peer = target.peer[back]
    peer = np.where(peer >= 0, home[np.maximum(peer, 0)], -1).astype(np.int32)
    lengths = target.length_m if len(target.length_m) == 0 else target.length_m[back]
    return replace(
        target, peer=frozen(peer), width=target.width[back], speed=target.speed[back], length_m=frozen(lengths)
    )


class _Names:
    """Names of ports of the grown fabric, and of old ports that are none of it."""

    def __init__(self, old: Fabric, grown: Fabric, places: tuple[Sequence[str], Sequence[str]] | None) -> None:
        self.old, self.grown, self.places = old, grown, places

    def work(self, step: int, do: str, cable: Cable, old: Cable | None = None, cut: tuple[str, ...] = ()) -> Work:
        """Return the work of a cable that is plugged, or of one that is unplugged, by its ports in the old fabric."""
        fabric, ports = (self.grown, cable) if old is None else (self.old, old)
        names = [self.grown.port_label(port) if port < self.grown.n_ports else self.old.port_label(
            port - self.grown.n_ports) for port in cable]  # fmt: skip
        stand = self.places[old is None] if self.places is not None and self.places[old is None] else None
        where = [stand[fabric.port_node[port]] if stand is not None else "" for port in ports]
        length = _length(fabric, ports[0])
        return Work(step, do, names[0], names[1], where[0], where[1], None if length != length else length, cut)


def _order(
    old: Fabric,
    was: NDArray[np.int32],
    at: Mapping[int, int],
    doomed: Sequence[Cable],
    fresh: Sequence[Cable],
    held: set[tuple[int, ...]],
    names: _Names,
) -> tuple[list[Work], int]:
    """Order the works: hosts stay connected where that can be.

    At most one cable is out at a time of each switch, each adapter, and each server that does not compute.
    """
    grown = names.grown
    old_port = {port: at.get(port, grown.n_ports + port) for port in range(old.n_ports)}
    node_of = {
        **{port: int(node) for port, node in enumerate(grown.port_node.tolist())},
        **{
            old_port[port]: grown.n_nodes + int(node)
            for port, node in enumerate(old.port_node.tolist())
            if port not in at
        },
    }
    served = (grown.host >= 0) & (grown.role != Role.COMPUTE)
    busy_of = {int(node): -1 - int(grown.host[node]) for node in np.flatnonzero(served)}

    def busied(cable: Cable) -> set[int]:
        return {busy_of.get(node_of[port], node_of[port]) for port in cable}

    staying = {int(node) for node in np.flatnonzero(was >= 0) if node >= grown.n_switches}
    live = _Live(node_of, [(old_port[a], old_port[b]) for a, b in old.links.tolist()], staying)
    was_of = {(old_port[a], old_port[b]): (a, b) for a, b in doomed}
    out = list(was_of)
    waiting = list(fresh)
    occupied = {port for cable in live.cables for port in cable}
    works: list[Work] = []
    step, tight = 0, 0

    def plug() -> None:
        nonlocal waiting
        ready = [cable for cable in waiting if not occupied & set(cable)]
        waiting = [cable for cable in waiting if occupied & set(cable)]
        for cable in ready:
            live.add(cable)
            occupied.update(cable)
            works.append(names.work(step, "plug", cable))

    step += bool(waiting)
    plug()
    while out:
        step += 1
        busy: set[int] = set()
        later: list[Cable] = []
        pulled = 0
        for cable in out:
            ends = busied(cable)
            if ends & busy or not live.spares(cable):
                later.append(cable)
                continue
            live.remove(cable)
            occupied.difference_update(cable)
            busy |= ends
            pulled += 1
            works.append(names.work(step, "unplug", cable, was_of[cable]))
        if not pulled:  # no order spares them all: those that cut off the fewest
            least = min(len(live.cut_by(cable)) for cable in out)
            for cable in out:
                if busy & busied(cable) or len(cut := live.cut_by(cable)) > least:
                    continue
                later.remove(cable)
                live.remove(cable)
                live.given_up |= cut
                occupied.difference_update(cable)
                busy |= busied(cable)
                hosts = tuple(sorted(grown.label(node) for node in cut))
                works.append(names.work(step, "unplug", cable, was_of[cable], hosts))
            tight += 1
        out = later
        plug()
        live.given_up -= live.largest()
    return works, tight


class _Live:
    """The cables that are plugged at a time, and which hosts these connect."""

    def __init__(self, node_of: Mapping[int, int], cables: Sequence[Cable], hosts: set[int]) -> None:
        self.node_of, self.hosts = node_of, hosts
        self.cables: set[Cable] = set()
        self.graph = nx.Graph()
        self.graph.add_nodes_from(hosts)
        self.between: Counter[tuple[int, ...]] = Counter()
        for cable in cables:
            self.add(cable)
        self.given_up = self.hosts - self.largest()
        """Hosts that are cut off, in the step or from the beginning."""

    def _pair(self, cable: Cable) -> tuple[int, ...]:
        return tuple(sorted(self.node_of[port] for port in cable))

    def add(self, cable: Cable) -> None:
        self.cables.add(cable)
        self.between[self._pair(cable)] += 1
        self.graph.add_edge(*self._pair(cable))

    def remove(self, cable: Cable) -> None:
        self.cables.remove(cable)
        self.between[self._pair(cable)] -= 1
        if not self.between[self._pair(cable)]:
            self.graph.remove_edge(*self._pair(cable))

    def largest(self) -> set[int]:
        """Hosts of the component that has most of them."""
        return max((self.hosts & part for part in nx.connected_components(self.graph)), key=len, default=set())

    def cut_by(self, cable: Cable) -> set[int]:
        """Return the hosts that a cable's removal cuts off from most others."""
        a, b = self._pair(cable)
        if self.between[a, b] > 1:
            return set()
        self.graph.remove_edge(a, b)
        sides = [self.hosts & nx.node_connected_component(self.graph, node) for node in (a, b)]
        joined = nx.has_path(self.graph, a, b)
        self.graph.add_edge(a, b)
        return set() if joined else min(sides, key=len) - self.given_up

    def spares(self, cable: Cable) -> bool:
        """Return whether all hosts that are connected stay so without a cable."""
        return not self.cut_by(cable)
