"""Growth of a plan into a larger one: which cables stay, which move, and in which order no host loses its path.

Switches are matched by name and model; servers by name where they stand at the same place, else by the switches that
they are attached to. A cable between the same two nodes in both plans stays in its ports; the other cables of the
target take the remaining ports. So no cable is moved only because its port number differs.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from topo.builder import stable_guid
from topo.changes.matching import Cable, map_lids, map_ports, match_keys
from topo.errors import HeddleError, plural
from topo.fabric import Fabric, Frozen, Role, frozen
from topo.table import Shown, Table, plain

Bought = Sequence[tuple[str, str]]
"""Part number of the cable at each port, and the transceiver in it."""
Places = tuple[Sequence[str], Sequence[str]] | None
Moves = NDArray[np.int64]
"""(P,) new port of each port of a target, -1 where that is free to choose."""


@dataclass(frozen=True)
class Work:
    """One cable that is unplugged or plugged."""

    step: int
    do: str
    """``unplug`` or ``plug``."""
    a: str
    b: str
    """Its two ports, as the target names them; as the old plan does where the target lacks their node."""
    a_place: str
    b_place: str
    """Places of the two nodes: on the floor of the old plan for ``unplug``, on that of the target for ``plug``."""
    length_m: float | None
    """Length of the cable in metres; None where the plan has no floor."""
    cut: tuple[str, ...] = ()
    """Hosts without a path to the others until the step ends; no order avoids that."""
    part: str = ""
    """Part number of the cable; empty where the plan has no floor, as the next two."""
    a_transceiver: str = ""
    b_transceiver: str = ""
    """Transceivers in its two ports, empty where the cable needs none."""


@dataclass(frozen=True, eq=False)
class Growth(Frozen, Shown):
    """Changes that turn one subnet into a larger one."""

    old: Fabric
    grown: Fabric
    """The target, with the cables that stay in their present ports."""
    was: NDArray[np.int32]
    """(N,) node of the old fabric for each node of the grown one, -1 for a new node."""
    works: tuple[Work, ...]
    """Changes of cables in order. Each step begins with tables that avoid the cables to unplug; then all of these are
    unplugged, and then new ones plugged."""
    kept: int
    """Cables that stay."""

    @property
    def steps(self) -> int:
        """Number of steps."""
        return max((work.step for work in self.works), default=0)

    @property
    def new(self) -> list[str]:
        """Names of the new nodes."""
        return [self.grown.label(node) for node in np.flatnonzero(self.was < 0).tolist()]

    @property
    def gone(self) -> list[str]:
        """Names of the nodes that are absent from the target."""
        return [self.old.label(node) for node in sorted(set(range(self.old.n_nodes)) - set(self.was.tolist()))]

    def with_lids(self, lid: NDArray[np.uint16]) -> Fabric:
        """Return the grown fabric where end ports that stay keep their LIDs: ``lid``, (E,) of the old fabric."""
        port = map_ports(self.grown, self.old, self.was)
        return replace(self.grown, discovered_lid=frozen(map_lids(self.grown, self.old, self.was, port, lid)))

    @property
    def renamed(self) -> list[tuple[str, str]]:
        """Old and new name of each node that stays and is renamed."""
        stay = [(was, node) for node, was in enumerate(self.was.tolist()) if was >= 0]
        pairs = [(self.old.label(was), self.grown.label(node)) for was, node in stay]
        return [pair for pair in pairs if pair[0] != pair[1]]

    @property
    def names(self) -> dict[str, str]:
        """Name of each switch and server that stays, by its name in the grown fabric."""
        stay = ((was, node) for node, was in enumerate(self.was.tolist()) if was >= 0)
        return {self.grown.server_of(node): self.old.server_of(was) for was, node in stay}

    @property
    def cut(self) -> list[str]:
        """Hosts that are disconnected in some step."""
        return sorted({name for work in self.works for name in work.cut})

    def _brief(self) -> str:
        unplugged = sum(work.do == "unplug" for work in self.works)
        plugged = f"{unplugged:,} unplugged, {len(self.works) - unplugged:,} plugged"
        return f"{plural(self.kept, 'cable')} stay, {plugged} in {plural(self.steps, 'step')}"

    @property
    def table(self) -> Table:
        """The changes of cables, one a row."""
        known = ("a_place", "b_place", "length_m", "part", "a_transceiver", "b_transceiver")
        placed = [name for name in known if any(getattr(work, name) for work in self.works)]
        names = ("step", "do", "a", "b", *placed)
        title = f"from {self.old.name} to {self.grown.name}: {self._brief()}"
        return Table.of(title, self.works, *names, (lambda work: " ".join(work.cut), "cut off"))

    def to_dict(self) -> dict[str, Any]:
        """Return names and changes as plain values, ready for JSON."""
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


def plan_growth(
    old: Fabric,
    target: Fabric,
    places: tuple[Sequence[str], Sequence[str]] | None = None,
    parts: tuple[Bought, Bought] | None = None,
    known: Mapping[str, str] = MappingProxyType({}),
) -> Growth:
    """Plan the changes of cables from a fabric to a larger one.

    Parameters
    ----------
    old, target : Fabric
        Present and larger fabric. If both have the lengths of cables, a cable stays only where it is long enough.
    places : pair of sequences of str, optional
        Place of each node of the old fabric, and of each node of the target.
    parts : pair of sequences of pairs of str, optional
        Part number of the cable at each port, and the transceiver there, of the old fabric and of the target.
    known : mapping of str to str, optional
        Name in the old fabric of servers of the target, as other networks of the same plans have it.

    Returns
    -------
    Growth
        In each step every host stays connected, if any order allows it.

    Raises
    ------
    HeddleError
        When the two have no switch in common.

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
    was = _match(old, target, places, known)
    if not (was[: target.n_switches] >= 0).any():
        raise HeddleError(f"found no switch of {old.name} in {target.name}; expected a plan that it grows into")
    moved_to, at, stay = _settle(old, target, was)
    grown, back = _moved(target, moved_to)
    bought = None if parts is None else (parts[0], [parts[1][port] for port in back] if parts[1] else ())
    removed = [(a, b) for a, b in old.links.tolist() if (a, b) not in stay]
    held = {tuple(sorted((at[a], at[b]))) for a, b in stay}
    added = [(a, b) for a, b in grown.links.tolist() if (a, b) not in held]
    works = _order(old, grown, was, at, removed, added, places, bought)
    return Growth(old, _adopt(old, grown, was), was, tuple(works), len(stay))


def _adopt(old: Fabric, grown: Fabric, was: NDArray[np.int32]) -> Fabric:
    """Return the grown fabric with the old GUIDs of nodes that stay, and new ones where a GUID would occur twice."""
    stays = was >= 0
    guid = grown.node_guid.copy()
    guid[stays] = old.node_guid[was[stays]]
    for node in np.flatnonzero(~stays & np.isin(guid, old.node_guid)).tolist():
        guid[node] = stable_guid(f"{grown.name}/{grown.label(node)}/grown")
    owner = grown.port_node
    counts = np.where(owner < grown.n_switches, 0, grown.port_number).astype(np.uint64)
    own = map_ports(grown, old, was)
    port_guid = np.where(own >= 0, old.port_guid[np.maximum(own, 0)], guid[owner] + counts)
    return replace(grown, node_guid=frozen(guid), port_guid=frozen(port_guid.astype(np.uint64)))


def _key(label: str) -> str:
    """Return a name without what depends on the size of the plan: leading zeros, and the prefix of zone 0."""
    return re.sub(r"\d+", lambda number: str(int(number[0])), label).removeprefix("z0-")


def _match(old: Fabric, target: Fabric, places: Places, known: Mapping[str, str]) -> NDArray[np.int32]:
    """Return (N,) the node of the old fabric for each node of the target, -1 for a new one.

    Servers are those that other networks know, else those with the same name and place, else those on like switches.
    """
    was = np.full(target.n_nodes, -1, np.int32)
    keys = ([(_key(one.label(node)), _model(one, node)) for node in range(one.n_switches)] for one in (target, old))
    was[: target.n_switches] = match_keys(*keys)
    place = {int(there): here for here, there in enumerate(was.tolist()) if there >= 0}
    before, after = _servers(old, place), _servers(target, {node: node for node in range(target.n_switches)})
    left, named = dict(before), {_key(name): name for name in before}
    floors = places if places and all(places) else None
    for name, (looks, adapters) in after.items():
        mine = known.get(name) or named.get(_key(name), "")
        if mine not in left or left[mine][0][0] != looks[0]:
            continue
        if name in known or (floors and floors[0][left[mine][1][0]] == floors[1][adapters[0]]):
            was[adapters] = left.pop(mine)[1]
    for exact in (3, 2, 1):  # same switches and name; same switches; same kind on any switch
        free = defaultdict(list)
        for name, (looks, _) in left.items():
            free[looks[:exact]].append(name)
        for looks, adapters in after.values():
            if was[adapters[0]] < 0 and free[looks[:exact]]:
                was[adapters] = left.pop(free[looks[:exact]].pop(0))[1]
    return was


def _servers(fabric: Fabric, place: Mapping[int, int]) -> dict[str, tuple[tuple[object, ...], list[int]]]:
    """Return how each server looks, and its adapters, by name; an adapter without a host is a server of its own.

    Looks are its kind (role, models, and numbers of ports: only servers of one kind are matched), the switch of the
    target that each port is attached to (-1 for none, -2 for one that the target lacks), and its name.
    """
    nodes: dict[str, list[int]] = defaultdict(list)
    for node in range(fabric.n_switches, fabric.n_nodes):
        nodes[fabric.server_of(node)].append(node)
    found: dict[str, tuple[tuple[object, ...], list[int]]] = {}
    for name, mine in nodes.items():
        far = (int(fabric.peer_node[port]) for node in mine for port in fabric.ports_of(node))
        switches = tuple(-1 if switch < 0 else place.get(switch, -2) for switch in far)
        models = tuple(_model(fabric, node) for node in mine)
        kind = int(fabric.role[mine[0]]), fabric.server_model_of(mine[0]), models
        found[name] = (kind, switches, _key(name)), mine
    return found


def _model(fabric: Fabric, node: int) -> tuple[str, int]:
    return fabric.model_of(node), len(fabric.ports_of(node))


def _settle(old: Fabric, target: Fabric, was: NDArray[np.int32]) -> tuple[Moves, dict[int, int], set[Cable]]:
    """Keep the cables that join the same nodes in both fabrics in their present ports.

    Return what `_moved` takes; the target's port for each old port, of nodes that stay; and the old cables that stay.
    """
    at = {there: here for here, there in enumerate(map_ports(target, old, was).tolist()) if there >= 0}
    wanted = defaultdict(list)
    for a, b in target.links.tolist():
        wanted[_joins(target, a, b)].append((a, b))
    moved_to = np.full(target.n_ports, -1)  # port that takes over the cable of each port of the target
    stay: set[Cable] = set()
    for a, b in old.links.tolist():
        if a not in at or b not in at:
            continue
        x, y = at[a], at[b]
        candidates = wanted[_joins(target, x, y, (int(old.width[a]), int(old.speed[a])))]
        long_enough = (cable for cable in candidates if not _length(target, cable[0]) > _length(old, a))
        if cable := next(long_enough, None):
            candidates.remove(cable)
            c, d = cable if target.port_node[cable[0]] == target.port_node[x] else cable[::-1]
            moved_to[c], moved_to[d] = x, y
            stay.add((a, b))
    return moved_to, at, stay


def _length(fabric: Fabric, port: int) -> float:
    """Return the length of a port's cable in metres, NaN where it is unknown."""
    return float(fabric.length_m[port]) if len(fabric.length_m) else float("nan")


def _joins(fabric: Fabric, a: int, b: int, rate: tuple[int, int] | None = None) -> tuple[object, ...]:
    """Return what a cable joins, and its speed: ports of adapters, but whole switches, whose ports are equivalent."""
    ends = sorted(port if port >= fabric.first_adapter_port else -1 - int(fabric.port_node[port]) for port in (a, b))
    return (*ends, *(rate or (int(fabric.width[a]), int(fabric.speed[a]))))


def _moved(target: Fabric, moved_to: Moves) -> tuple[Fabric, list[int]]:
    """Return the target with its cables in other ports of the same nodes, and the port that each port was.

    Where a new port is free to choose, it is its own, or the lowest free.
    """
    for node in range(target.n_switches):
        ports = np.array(target.ports_of(node))
        own = ports[(moved_to[ports] < 0) & (target.peer[ports] >= 0) & ~np.isin(ports, moved_to[ports])]
        moved_to[own] = own
        free = ports[moved_to[ports] < 0]
        moved_to[free] = np.setdiff1d(ports, moved_to[ports])[: len(free)]
    moved_to[moved_to < 0] = np.flatnonzero(moved_to < 0)
    back = np.argsort(moved_to)
    peer = target.peer[back]
    peer = np.where(peer >= 0, moved_to[np.maximum(peer, 0)], -1).astype(np.int32)
    lengths = target.length_m if len(target.length_m) == 0 else target.length_m[back]
    width, speed = target.width[back], target.speed[back]
    return replace(target, peer=frozen(peer), width=width, speed=speed, length_m=frozen(lengths)), back.tolist()


def _order(
    old: Fabric,
    grown: Fabric,
    was: NDArray[np.int32],
    at: Mapping[int, int],
    removed: Sequence[Cable],
    added: Sequence[Cable],
    places: Places,
    parts: tuple[Bought, Bought] | None,
) -> list[Work]:
    """Order the changes so that hosts stay connected, where any order allows it.

    A step unplugs at most one cable of each switch, of each adapter, and of each server that does not compute.
    """
    # Ports of the old fabric follow those of the grown one where the target lacks their node; so do nodes.
    old_port = {port: at.get(port, grown.n_ports + port) for port in range(old.n_ports)}
    node_of = [*grown.port_node.tolist(), *(grown.n_nodes + old.port_node).tolist()]
    served = (grown.host >= 0) & (grown.role != Role.COMPUTE)
    server_of = {int(node): -1 - int(grown.host[node]) for node in np.flatnonzero(served)}

    def occupies(cable: Cable) -> set[int]:
        return {server_of.get(node_of[port], node_of[port]) for port in cable}

    staying = {int(node) for node in np.flatnonzero(was >= 0) if node >= grown.n_switches}
    live = _Live(node_of, [(old_port[a], old_port[b]) for a, b in old.links.tolist()], staying)
    was_of = {(old_port[a], old_port[b]): (a, b) for a, b in removed}
    out, waiting = list(was_of), list(added)
    occupied = {port for cable in live.cables for port in cable}
    works: list[Work] = []
    step, busy = 0, set[int]()

    def work(do: str, cable: Cable, before: Cable | None = None, cut: tuple[str, ...] = ()) -> Work:
        """Return the change that plugs a cable, or unplugs it if ``before`` has its ports in the old fabric.

        What is unplugged has the names of the old fabric.
        """
        fabric, ports = (grown, cable) if before is None else (old, before)
        a, b = map(fabric.port_label, ports)
        stand = places[before is None] if places else ()
        a_place, b_place = (stand[fabric.port_node[port]] if stand else "" for port in ports)
        length = _length(fabric, ports[0])
        bought = parts[before is None] if parts else ()
        (part, a_optic), (_, b_optic) = (bought[port] if bought else ("", "") for port in ports)
        metres = None if length != length else length
        return Work(step, do, a, b, a_place, b_place, metres, cut, part, a_optic, b_optic)

    def plug() -> None:
        nonlocal waiting
        ready = [cable for cable in waiting if not occupied & set(cable)]
        waiting = [cable for cable in waiting if occupied & set(cable)]
        for cable in ready:
            live.add(cable)
            occupied.update(cable)
            works.append(work("plug", cable))

    def unplug(cable: Cable, cut: tuple[str, ...] = ()) -> None:
        nonlocal busy
        live.remove(cable)
        occupied.difference_update(cable)
        busy |= occupies(cable)
        works.append(work("unplug", cable, was_of[cable], cut))

    step += bool(waiting)
    plug()
    while out:
        step += 1
        busy = set()
        for cable in out:
            if not (busy & occupies(cable) or live.disconnected_by(cable)):
                unplug(cable)
        if not busy:  # every removal disconnects hosts: take those that disconnect fewest
            least = min(len(live.disconnected_by(cable)) for cable in out)
            for cable in out:
                if not busy & occupies(cable) and len(cut := live.disconnected_by(cable)) <= least:
                    live.disconnected |= cut
                    unplug(cable, tuple(sorted(old.label(was[node]) for node in cut)))
        out = [cable for cable in out if cable in live.cables]
        plug()
        live.disconnected -= live.largest()
    return works


class _Live:
    """The cables that are plugged at some time, and the hosts that they connect."""

    def __init__(self, node_of: Sequence[int], cables: Sequence[Cable], hosts: set[int]) -> None:
        self.node_of, self.hosts = node_of, hosts
        self.cables: set[Cable] = set()
        self.graph = nx.Graph()
        self.graph.add_nodes_from(hosts)
        self.between: Counter[tuple[int, ...]] = Counter()
        for cable in cables:
            self.add(cable)
        self.disconnected = self.hosts - self.largest()
        """Hosts that are disconnected, in this step or from the beginning."""

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
        """Return the hosts of the component with most hosts."""
        return max((self.hosts & part for part in nx.connected_components(self.graph)), key=len, default=set())

    def disconnected_by(self, cable: Cable) -> set[int]:
        """Return the hosts that the removal of a cable disconnects from the majority."""
        a, b = self._pair(cable)
        if self.between[a, b] > 1:
            return set()
        self.graph.remove_edge(a, b)
        sides = [self.hosts & nx.node_connected_component(self.graph, node) for node in (a, b)]
        joined = nx.has_path(self.graph, a, b)
        self.graph.add_edge(a, b)
        return set() if joined else min(sides, key=len) - self.disconnected
