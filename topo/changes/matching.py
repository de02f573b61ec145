"""Matching of the nodes of a discovered fabric to those of its plan.

Nodes with the same GUID, or with a description that is unique on both sides, are matched first. The cabling gives the
others: each cable of a matched node votes for the pair of nodes at its planned and its actual far end. A switch takes
the place with most votes. Its name counts as half of its cables, so that nearly all of them outvote it, as when two
switches of one model are mounted in each other's place. An adapter has one cable: its name decides, or without a name
its port on the switch.

If no name is known, a first pair is guessed from the port numbers at both ends of the cables, and kept if enough other
cables agree. Exchanged symmetric parts cannot be told apart.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from topo.dumps.discovery import DEFAULT_HOSTS
from topo.errors import HeddleError, plural
from topo.fabric import Fabric, Frozen, Kind, _short_name
from topo.table import Brief

Cable = tuple[int, int]
"""Its two ports, the lower first."""
Votes = dict[tuple[int, int], int]
"""Number of votes by (node of the plan, node of the fabric)."""

ROUNDS = 5
"""Largest number of rounds of voting; two are usually enough."""
FIRST_GUESSES = 16
"""First pairs that are tried where no name is known."""
MOST_PARTS = 64
"""Largest number of unconnected parts of a fabric that are guessed."""
AGREEING = 0.25
"""Smallest share of a switch's cables that must agree with a place that no name confirms."""


@dataclass(frozen=True, eq=False)
class Match(Frozen, Brief):
    """Matched nodes of a plan and a fabric. The plan has N nodes and P ports."""

    plan: Fabric
    found: Fabric
    node: NDArray[np.int32]
    """(N,) node of the fabric in the place of each node of the plan, -1 for none."""
    named: NDArray[np.int32]
    """(N,) node of the fabric with the GUID or description of each node of the plan, -1 for none."""
    agreeing: NDArray[np.float64]
    """(N,) share of the cables at that place that are as planned, NaN where there are none."""

    def _brief(self) -> str:
        return f"{int((self.node >= 0).sum()):,} of {self.plan.n_nodes:,} nodes of {self.plan.name}"

    @property
    def port(self) -> NDArray[np.int32]:
        """(P,) port of the fabric that corresponds to each port of the plan, -1 for none."""
        return map_ports(self.plan, self.found, self.node)

    @property
    def replaced(self) -> NDArray[np.int64]:
        """(k,) nodes of the plan in whose place is a node with a GUID that the plan does not know.

        None where the fabrics have no GUID in common, because a plan or a list of cables invents its own. Some formats
        give an adapter the GUID of its port, so GUIDs of ports count as those of their nodes.
        """
        planned, there = (np.union1d(one.node_guid, one.port_guid) for one in (self.plan, self.found))
        known = np.isin(self.plan.node_guid, there)
        if not known.any():
            return np.zeros(0, np.int64)
        confirmed = (self.node >= 0) & ((self.named == self.node) | (self.agreeing > 0))
        new = ~np.isin(self.found.node_guid[self.node], planned)
        return np.flatnonzero(confirmed & ~known & new)

    @property
    def adopted(self) -> Fabric:
        """The plan with the GUIDs and LIDs of the matched nodes; nodes without a match keep their own.

        Tables for it are valid on the fabric where that is cabled as planned.
        """
        plan, found, port = self.plan, self.found, self.port
        known, plugged = self.node >= 0, port >= 0
        node_guid, port_guid = plan.node_guid.copy(), plan.port_guid.copy()
        node_guid[known] = found.node_guid[self.node[known]]
        port_guid[plugged] = found.port_guid[port[plugged]]
        lid = map_lids(plan, found, self.node, port, found.discovered_lid)
        lid, lmc = (lid, found.lmc) if lid.any() else (plan.discovered_lid, plan.lmc)
        return replace(plan, node_guid=node_guid, port_guid=port_guid, discovered_lid=lid, lmc=lmc)


def match_nodes(plan: Fabric, found: Fabric) -> Match:
    """Match the nodes of a discovered fabric to those of its plan.

    Parameters
    ----------
    plan, found : Fabric
        The plan, and the fabric as it was discovered.

    Examples
    --------
    >>> import topo
    >>> fabric = topo.preset("lab-20").fabric
    >>> topo.match_nodes(fabric, fabric)
    <Match 26 of 26 nodes of lab-20>
    """
    work = _Matcher(plan, found)
    named = work.anchors()
    work.spread(named.items())
    work.guess()
    for _ in range(ROUNDS):
        before = dict(work.place)
        work.vote(named)
        if work.place == before:
            break
    work.prune(named)
    work.attach(named)
    node = np.full(plan.n_nodes, -1, np.int32)
    by_name = node.copy()
    node[list(work.place)] = list(work.place.values())
    by_name[list(named)] = list(named.values())
    agreeing = np.full(plan.n_nodes, np.nan)
    for x, y in work.place.items():
        if cables := max(len(work.ends[plan][x]), bool(work.ends[found][y])):
            agreeing[x] = work.agreeing(x, y) / cables
    return Match(plan, found, node, by_name, agreeing)


def match_keys(keys: Sequence[Hashable], others: Sequence[Hashable]) -> NDArray[np.int32]:
    """Return (N,) the place of each key among others; -1 for one that is falsy, or not unique on both sides.

    >>> match_keys(["a", "b", "b", None], ["b", "a", None]).tolist()
    [1, -1, -1, -1]
    """
    here, there = Counter(keys), Counter(others)
    at = {key: place for place, key in enumerate(others) if key and there[key] == 1}
    return np.array([at.get(key, -1) if here[key] == 1 else -1 for key in keys], np.int32)


def map_ports(fabric: Fabric, other: Fabric, node: NDArray[np.integer]) -> NDArray[np.int32]:
    """Return (P,) the port of another fabric that corresponds to each port, by number; -1 where there is none.

    ``node`` is (N,) the node of the other fabric that corresponds to each node, -1 for none.
    """
    there = node[fabric.port_node]
    known = (there >= 0) & (fabric.port_number <= np.diff(other.port_offset)[there])
    return np.where(known, other.port_offset[there] + fabric.port_number - 1, -1).astype(np.int32)


def map_lids(
    fabric: Fabric, other: Fabric, node: NDArray[np.integer], port: NDArray[np.integer], lid: NDArray[np.uint16]
) -> NDArray[np.uint16]:
    """Return (E,) LIDs of the end ports from those of another fabric; 0 where no node or port corresponds.

    ``node`` and ``port`` are as in `map_ports`; ``lid`` is (E,) of the other fabric, or empty where it has none.
    """
    found = np.zeros(fabric.n_end_ports, np.uint16)
    if len(lid):
        switches = np.flatnonzero(node[: fabric.n_switches] >= 0)
        found[switches] = lid[node[switches]]
        there = port[fabric.port_of(np.arange(fabric.n_switches, fabric.n_end_ports))]
        found[fabric.n_switches :][there >= 0] = lid[other.end_of(there[there >= 0])]
    return found


class _Matcher:
    """Both fabrics as plain lists, and the places that are known so far.

    A cable is kept at both of its nodes: port number to (node at the far end, port number there).
    """

    def __init__(self, plan: Fabric, found: Fabric) -> None:
        self.plan, self.found = plan, found
        self.place: dict[int, int] = {}
        self.taken: dict[int, int] = {}
        self.ends: dict[Fabric, list[dict[int, tuple[int, int]]]] = {}
        for fabric in (plan, found):
            ends: list[dict[int, tuple[int, int]]] = [{} for _ in range(fabric.n_nodes)]
            owner, number, peer = fabric.port_node.tolist(), fabric.port_number.tolist(), fabric.peer.tolist()
            for port, other in enumerate(peer):
                if other >= 0 and owner[other] != owner[port]:
                    ends[owner[port]][number[port]] = owner[other], number[other]
            self.ends[fabric] = ends
        of_wire = {Kind.DEVICE: Kind.HCA}  # its neighbours see an end, as they see a host
        self.kind = {fabric: [of_wire.get(kind, kind) for kind in fabric.kind.tolist()] for fabric in (plan, found)}

    def anchors(self) -> dict[int, int]:
        """Return the pairs of nodes with the same GUID, or with a description that is unique on both sides."""
        taken: dict[int, int] = {}
        guids = [[f"{guid:x}" for guid in fabric.node_guid.tolist()] for fabric in (self.plan, self.found)]
        names = [[_name(fabric, node) for node in range(fabric.n_nodes)] for fabric in (self.plan, self.found)]
        for keys, others in (guids, names):
            gone = set(taken.values())
            here = [None if node in taken else key for node, key in enumerate(keys)]
            there = [None if node in gone else key for node, key in enumerate(others)]
            pairs = enumerate(match_keys(here, there).tolist())
            taken |= {x: y for x, y in pairs if y >= 0 and self.kind[self.plan][x] == self.kind[self.found][y]}
        return taken

    def cables(self, x: int, y: int) -> Iterator[tuple[int, int, bool]]:
        """Yield where the cables of a node of the plan lead, where those of a node of the fabric do, -1 for nowhere.

        Also whether both lead to the same port.
        """
        far = self.ends[self.found][y]
        for number, (a, there) in self.ends[self.plan][x].items():
            b, where = far.get(number, (-1, -1))
            yield a, b, where == there

    def put(self, x: int, y: int) -> None:
        """Put node y of the fabric in the place of node x of the plan."""
        self.place[x] = y
        self.taken[y] = x

    def spread(self, first: Iterable[tuple[int, int]]) -> None:
        """Match switches outward from pairs that are known, those with most votes first."""
        n, m = self.plan.n_switches, self.found.n_switches
        votes: Votes = defaultdict(int)
        heap: list[tuple[int, int, int]] = []

        def cast_votes(x: int, y: int) -> None:
            for a, b, same in self.cables(x, y):
                if 0 <= b < m and a < n and a not in self.place and b not in self.taken:
                    votes[a, b] += 1 + same
                    heappush(heap, (-votes[a, b], a, b))

        known = list(first)
        for x, y in known:
            self.put(x, y)
        for x, y in known:
            cast_votes(x, y)
        while heap:
            count, x, y = heappop(heap)
            if x not in self.place and y not in self.taken and votes[x, y] == -count:
                self.put(x, y)
                cast_votes(x, y)

    def guess(self) -> None:
        """Match parts without any name: try similar switches as first pairs, and keep what most cables confirm."""
        for _ in range(MOST_PARTS):
            lone = [x for x in range(self.plan.n_switches) if x not in self.place and self.ends[self.plan][x]]
            free = [y for y in range(self.found.n_switches) if y not in self.taken and self.ends[self.found][y]]
            kept, taken = dict(self.place), dict(self.taken)
            best: tuple[int, dict[int, int], dict[int, int]] = (0, kept, taken)
            for x, y in self._alike(lone, free):
                self.place, self.taken = dict(kept), dict(taken)
                self.spread([(x, y)])
                agreeing = sum(self.agreeing(a, b) for a, b in self.place.items() if a not in kept)
                if agreeing > best[0]:
                    best = agreeing, self.place, self.taken
            new = [x for x in best[1] if x not in kept]
            if best[0] < AGREEING * sum(len(self.ends[self.plan][x]) for x in new) or not new:
                self.place, self.taken = kept, taken
                return
            _, self.place, self.taken = best

    def _alike(self, lone: list[int], free: list[int]) -> list[tuple[int, int]]:
        """Return first pairs to try: switches whose cables are rarest, each with the most similar ones."""
        looks = {fabric: self._looks(fabric, nodes) for fabric, nodes in ((self.plan, lone), (self.found, free))}
        holders: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for y in free:
            for look in looks[self.found][y]:
                holders[look].append(y)
        pairs = []
        # A switch whose cables few others share says most; where all are the same, any switch will do.
        rarity = {x: sum(len(holders[look]) for look in looks[self.plan][x]) / len(looks[self.plan][x]) for x in lone}
        for x in sorted(lone, key=lambda x: (rarity[x] == 0, rarity[x], -len(looks[self.plan][x]), x))[:3]:
            score = Counter(y for look in looks[self.plan][x] for y in holders[look])
            most = max(score.values(), default=0)
            pairs += [(x, y) for y, count in score.most_common(FIRST_GUESSES) if 10 * count >= 9 * most]
        return pairs[: 2 * FIRST_GUESSES]

    def _looks(self, fabric: Fabric, nodes: list[int]) -> dict[int, list[tuple[int, ...]]]:
        """Return (port number, port number at the far end, kind of the far node) of each cable of some switches."""
        kind, ends = self.kind[fabric], self.ends[fabric]
        return {node: [(p, q, kind[far]) for p, (far, q) in ends[node].items()] for node in nodes}

    def agreeing(self, x: int, y: int) -> int:
        """Count the cables of a place that are as planned; an unmatched adapter agrees if its port does."""
        n = self.plan.n_switches
        return sum(
            same and b >= 0 and self.place.get(a, b if a >= n and b not in self.taken else -1) == b
            for a, b, same in self.cables(x, y)
        )

    def vote(self, named: dict[int, int]) -> None:
        """Assign the places of all switches anew by votes; a name counts as half of the cables."""
        n, m = self.plan.n_switches, self.found.n_switches
        votes: Votes = defaultdict(int)
        spoken: Counter[int] = Counter()
        # An adapter without a name was placed by its switch, so it cannot vote on the place of that.
        say = [(x, y) for x, y in self.place.items() if x < n or named.get(x) == y]
        for x, y in say:
            for a, b, same in self.cables(x, y):
                if a < n and 0 <= b < m:
                    votes[a, b] += 1 + same
                    spoken[b] += 1
        for x, y in named.items():
            if x < n:
                votes[x, y] += max(spoken[y], 1)
        self.place = {x: y for x, y in self.place.items() if x >= n}
        self.taken = {y: x for x, y in self.place.items()}
        # Names break ties.
        for x, y in sorted(votes, key=lambda pair: (-votes[pair], named.get(pair[0]) != pair[1], pair)):
            if x not in self.place and y not in self.taken:
                self.put(x, y)

    def prune(self, named: dict[int, int]) -> None:
        """Undo the places of switches that neither a name nor enough cables confirm."""
        for x, y in list(self.place.items()):
            cables = min(len(self.ends[self.plan][x]), len(self.ends[self.found][y]))
            if x < self.plan.n_switches and named.get(x) != y and self.agreeing(x, y) < AGREEING * cables:
                del self.place[x], self.taken[y]

    def attach(self, named: dict[int, int]) -> None:
        """Match the adapters without a place by the port of the switch that they are attached to."""
        n = self.plan.n_switches
        for x, y in [(x, y) for x, y in self.place.items() if x < n]:
            for a, b, same in self.cables(x, y):
                alone = a >= n and b >= self.found.n_switches and a not in self.place and b not in self.taken
                if alone and same and self.kind[self.plan][a] == self.kind[self.found][b]:
                    self.put(a, b)
        self._lone_adapters(named)

    def _lone_adapters(self, named: dict[int, int]) -> None:
        """Match an adapter that is missing from its port to the only nameless adapter in a wrong port of its switch.

        If there is only one of each in the whole fabric, the switch does not matter.
        """
        known = set(named.values())
        times = Counter(self.found.names)
        lost: dict[int, list[int]] = defaultdict(list)
        strange: dict[int, list[int]] = defaultdict(list)
        for x in range(self.plan.n_switches, self.plan.n_nodes):
            if x not in self.place and len(self.ends[self.plan][x]) == 1 and self.kind[self.plan][x] == Kind.HCA:
                ((switch, _),) = self.ends[self.plan][x].values()
                lost[self.place.get(switch, -1)].append(x)
        for y in range(self.found.n_switches, self.found.n_nodes):
            if y not in self.taken and y not in known and len(self.ends[self.found][y]) == 1:
                ((switch, _),) = self.ends[self.found][y].values()
                told = _name(self.found, y) and times[self.found.names[y]] == 1
                if self.kind[self.found][y] == Kind.HCA and not told:
                    strange[switch].append(y)
        for switch, nodes in lost.items():
            if switch >= 0 and len(nodes) == 1 == len(strange[switch]):
                self.put(nodes[0], strange[switch][0])
        left = [x for nodes in lost.values() for x in nodes if x not in self.place]
        free = [y for nodes in strange.values() for y in nodes if y not in self.taken]
        if len(left) == 1 == len(free):
            self.put(left[0], free[0])


def _name(fabric: Fabric, node: int) -> str:
    """Return the description of a node, "" for a default name of the manufacturer."""
    name = _short_name(fabric.names[node]).casefold().strip()
    return "" if name.partition(" ")[0] in DEFAULT_HOSTS or fabric.kind[node] == Kind.AGGREGATION else name


@dataclass(frozen=True, eq=False)
class Missing(Frozen, Brief):
    """What a later picture of a fabric lacks of it, and what it has instead."""

    whole: Fabric
    now: Fabric
    ports: NDArray[np.int32]
    """(k,) ports of the whole fabric that lost their cable."""
    moved: NDArray[np.int32]
    """The subset that holds a cable to another port now."""
    replaced: NDArray[np.int64]
    """(r, 2) node of the whole fabric, and the node with another GUID in its place."""
    arrived: NDArray[np.int32]
    """(a,) ports of adapters now that have a cable and are neither in the whole fabric nor of a replaced node."""
    notes: tuple[str, ...]
    """Cables and switches that the whole fabric has not."""

    def _brief(self) -> str:
        return f"{len(self.ports):,} ports of {self.whole.name}"


def find_missing(whole: Fabric, now: Fabric) -> Missing:
    """Find what a later picture of a fabric lacks.

    Nodes are matched by GUID, ports by number. A cable that now leads elsewhere is lost, and so are those of a node
    that was replaced: tables name its old GUID.

    Parameters
    ----------
    whole, now : Fabric
        The intact fabric, and the fabric as it is now.

    Raises
    ------
    HeddleError
        When they have no node GUID in common: one of them is another fabric, or a plan, whose GUIDs are made up.

    Examples
    --------
    >>> import topo
    >>> fabric = topo.preset("lab-20").fabric
    >>> missing = topo.find_missing(fabric, fabric.without(fabric.inner[:1]))
    >>> [fabric.port_label(port) for port in missing.ports], missing.notes
    (['leaf0:21', 'spine0:1'], ())
    """
    twin = match_keys(whole.node_guid.tolist(), now.node_guid.tolist())
    if not (twin >= 0).any():
        message = f"{now.name}: found no node GUID of {whole.name}; expected a later dump of the same fabric"
        raise HeddleError(f"{message}. A plan invents its GUIDs: use dumps of the real fabric for both")
    port = map_ports(whole, now, twin)
    known = port >= 0
    back = np.full(now.n_ports, -1)
    back[port[known]] = np.flatnonzero(known)
    peer = np.where(known, now.peer[port], -1)
    same = (peer >= 0) & (back[peer] == whole.peer)
    gone = np.flatnonzero((whole.peer >= 0) & ~same).astype(np.int32)
    strange = ~np.isin(now.node_guid, whole.node_guid)
    replaced = np.zeros((0, 2), np.int64)
    if strange.any() and (twin < 0).any():
        match = match_nodes(whole, now)
        replaced = np.stack([match.replaced, match.node[match.replaced]], axis=1)
    strange[replaced[:, 1]] = False
    plugged = np.flatnonzero(now.peer >= 0)
    new = plugged[~np.isin(plugged, port[same & (whole.peer >= 0)])]
    new = new[~np.isin(now.port_node[new], replaced[:, 1]) & ~np.isin(now.peer_node[new], replaced[:, 1])]
    adapter = (now.kind[now.port_node[new]] == Kind.HCA) & ~np.isin(new, port[known & (whole.peer >= 0)])
    cables = (len(new) - 2 * int(np.count_nonzero(adapter))) // 2
    switches = int(np.count_nonzero(strange & (now.kind == Kind.SWITCH)))
    notes = []
    if cables or switches:
        extra = f"{plural(cables, 'cable')} and {plural(switches, 'switch', 'switches')}"
        notes.append(f"{now.name} has {extra} that {whole.name} has not; route the fabric anew to use them")
    moved = gone[(peer[gone] >= 0) & ~np.isin(now.port_node[peer[gone]], replaced[:, 1])]
    return Missing(whole, now, gone, moved, replaced, new[adapter].astype(np.int32), tuple(notes))
