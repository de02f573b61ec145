"""Differences of a discovered fabric from its plan, in the terms of the crew that corrects the cabling.

A port holds at most one cable in the plan and at most one in the fabric. So the cables that only one of the two has
form chains and rings in which planned and actual cables alternate, and each tells what happened: a ring of four is two
cables whose plugs are exchanged, a chain of two a plug in the wrong port, a cable alone is missing or extra.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from topo.changes.matching import Cable, Match, match_nodes
from topo.errors import plural
from topo.fabric import Fabric, Kind
from topo.hostlist import natural_order
from topo.speeds import speed_name
from topo.table import Shown, Table

DIFFERENCE_KINDS = {
    "misplaced": "a switch is in the place of another one",
    "replaced": "a node with a GUID that the plan does not know is in its place",
    "swapped": "the plugs of two cables are exchanged",
    "rotated": "the plugs of several cables are exchanged in a ring",
    "moved": "a plug is in the wrong port",
    "tangled": "plugs are moved in a chain that does not show which plug went where",
    "missing": "a planned cable does not exist",
    "extra": "a cable is not planned",
    "absent": "a planned node was not found",
    "unplanned": "a node is not planned",
    "renamed": "another node than the planned one is in its place",
    "slow": "a cable is slower than planned",
    "degraded": "a cable runs on fewer lanes than planned",
}
"""Kinds of differences, in the order of reports."""
NODE_KINDS = ("misplaced", "replaced", "absent", "unplanned", "renamed")
"""Those that are of nodes; the others are of cables."""

SHOWN_FIELDS = ("rack", "where", "kind", "planned", "found", "do", "sure")
"""Fields of a difference that tables and documents have."""
SURE = ("possible", "likely", "certain")
LIKELY = 0.5
"""Share of agreeing cables from which on the place of a switch without a name is likely."""


@dataclass(frozen=True)
class Difference:
    """One difference between fabric and plan."""

    kind: str
    """A key of `DIFFERENCE_KINDS`."""
    where: str
    """Ports to check, or a node."""
    planned: str
    found: str
    do: str
    """How to correct it."""
    sure: str
    """``certain`` where GUIDs or names identify all nodes; ``likely`` or ``possible`` where only their cables do."""
    nodes: tuple[int, ...]
    """Nodes of the plan concerned; the first is where to go."""
    ports: tuple[int, ...] = ()
    """Ports of the plan concerned."""
    rack: str = ""
    """Rack and unit of the first node, if known."""


@dataclass(frozen=True, eq=False)
class Differences(Shown):
    """All differences, in the order of a walk past the racks."""

    match: Match
    found: tuple[Difference, ...]
    cables: int
    """Links of the plan, without those to aggregation nodes; links inside frames count where the plan has them."""
    agreeing: int
    """How many of them exist as planned, at the planned speed or a higher one."""

    @property
    def table(self) -> Table:
        """The differences, one a row."""
        name = f"{self.match.found.name} beside its plan {self.match.plan.name}: {self.summary}"
        return Table.of(name, self.found, *SHOWN_FIELDS)

    @property
    def summary(self) -> str:
        """One line: how many cables are as planned, and how many differences of each kind there are."""
        found = Counter(one.kind for one in self.found)
        counts = [f"{plural(n, 'node') if kind in NODE_KINDS else f'{n:,}'} {kind}"
                  for kind in DIFFERENCE_KINDS if (n := found[kind])]  # fmt: skip
        return f"{self.agreeing:,} of {plural(self.cables, 'cable')} as planned; {', '.join(counts) or 'no difference'}"

    @property
    def marks(self) -> NDArray[np.int64]:
        """(P,) number of differences at each port of the plan, as `topo.draw` takes a load with ``marked``."""
        marks = np.zeros(self.match.plan.n_ports, np.int64)
        for one in self.found:
            marks[list(one.ports)] += 1
        return marks

    def to_dict(self) -> dict[str, object]:
        """Return the figures and all differences as plain values, ready for JSON."""
        rows = [dict(zip(SHOWN_FIELDS, row, strict=True)) for row in self.table.rows()]
        return {"cables": self.cables, "agreeing": self.agreeing, "differences": rows}


def find_differences(plan: Fabric, found: Fabric, racks: Sequence[tuple[int, str]] | None = None) -> Differences:
    """Compare a discovered fabric with its plan.

    Aggregation nodes and their links are left out. Links inside frames count if the plan has them (a dump has, a cable
    list has not). If the plan has no adapters, their cables are not compared.

    Parameters
    ----------
    plan, found : Fabric
        The plan, and the fabric as it was discovered.
    racks : (N,) sequence of (int, str), optional
        For each node of the plan the position of its rack on a walk, and the name of its rack and unit.

    Examples
    --------
    >>> import topo
    >>> fabric = topo.preset("lab-20").fabric
    >>> topo.find_differences(fabric, fabric.without(fabric.inner[:1])).found[0].where
    'leaf0:21 - spine0:1'
    """
    match = match_nodes(plan, found)
    return _Comparison(match, racks).compare()


class _Comparison:
    """Both fabrics with one numbering of ports: P of the plan, then P + p for a port p that only the fabric has.

    A cable is the frozenset of its two ports, so that cables of both can be compared as sets.
    """

    def __init__(self, match: Match, racks: Sequence[tuple[int, str]] | None) -> None:
        self.match, self.plan, self.there, self.racks = match, match.plan, match.found, racks
        self.out: list[Difference] = []
        self.owner, self.far_owner = self.plan.port_node.tolist(), self.there.port_node.tolist()
        self.place = match.node.tolist()
        port = match.port
        self.real = port.tolist()
        back = np.full(self.there.n_ports, -1)
        back[port[port >= 0]] = np.flatnonzero(port >= 0)
        beyond = np.flatnonzero(back < 0)
        back[beyond] = self.plan.n_ports + beyond
        self.back: list[int] = back.tolist()
        self.plan_of = {y: x for x, y in enumerate(self.place) if y >= 0}

    def compare(self) -> Differences:
        """Find all differences."""
        planned = {frozenset(link) for link in _cables(self.plan)}
        hosts = bool((self.plan.kind == Kind.HCA).any())
        backplanes = self.backplanes(planned)
        seen = {frozenset(self.back[port] for port in link) for link in _cables(self.there) if link not in backplanes}
        if not hosts:
            adapters = {self.back[port] for port in range(self.there.first_adapter_port, self.there.n_ports)}
            seen = {link for link in seen if not link & adapters}
        both = planned & seen
        self.places()
        self.speeds(both)
        slower = sum(one.kind in ("slow", "degraded") for one in self.out)
        only_planned, only_seen = self.absent(planned - both), self.unplanned(seen - both)
        for chain in _chains(only_planned, only_seen):
            self.classify(chain, only_planned)
        order = list(DIFFERENCE_KINDS)
        self.out.sort(key=lambda one: (self.walk(one.nodes), order.index(one.kind), one.where))
        return Differences(self.match, tuple(self.out), len(planned), len(both) - slower)

    def backplanes(self, planned: set[frozenset[int]]) -> set[Cable]:
        """Return the links inside those frames of which the plan lists no inner links, as cable lists do not."""
        both = (self.plan, self.there)
        boxes, there = ([one.frame(node).casefold() for node in range(one.n_nodes)] for one in both)
        for node, other in self.plan_of.items():
            there[node] = boxes[other]
        known = {boxes[a] for a, b in self.plan.port_node[self.plan.links].tolist() if boxes[a] == boxes[b]}
        cabled = {port for link in planned for port in link}
        owner = self.far_owner
        return {
            (a, b)
            for a, b in _cables(self.there)
            if there[owner[a]] == there[owner[b]] != ""
            and there[owner[a]] not in known
            and not cabled & {self.back[a], self.back[b]}
        }

    # Places and certainty

    def walk(self, nodes: Sequence[int]) -> tuple[int, str]:
        """Return the sort key of a walk: position of the rack, then the name of the first node."""
        if not nodes:
            return 1 << 30, ""
        return (self.racks[nodes[0]][0] if self.racks else 0), natural_order(self.plan.label(nodes[0]))

    def label(self, port: int) -> str:
        """Return the name of a port of either fabric, as the plan names its node where it has that."""
        if port < self.plan.n_ports:
            return self.plan.port_label(port)
        node, real = self.node_of(port), port - self.plan.n_ports
        return self.there.port_label(real) if node < 0 else f"{self.plan.label(node)}:{self.there.port_number[real]}"

    def node_of(self, port: int) -> int:
        """Return the node of the plan that a port belongs to, -1 for none."""
        n = self.plan.n_ports
        return self.owner[port] if port < n else self.plan_of.get(self.far_owner[port - n], -1)

    def sure(self, nodes: Iterable[int]) -> int:
        """Return how certain the places of some nodes are: an index into `SURE`."""
        level = 2
        for node in nodes:
            if node >= 0 and (there := self.place[node]) >= 0 and self.match.named[node] != there:
                adapter = node >= self.plan.n_switches
                level = min(level, 1 if adapter or self.match.agreeing[node] >= LIKELY else 0)
        return level

    def add(
        self, kind: str, ports: Sequence[int], planned: str, found: str, do: str, where: str = "", sure: int = 2
    ) -> None:
        """Add a difference at some ports, of which those of the plan are marked in drawings."""
        nodes = [self.node_of(port) for port in ports]
        known = tuple(dict.fromkeys(node for node in nodes if node >= 0))
        sure = min(self.sure(known), sure)
        rack = self.racks[known[0]][1] if self.racks and known else ""
        own = tuple(port for port in ports if port < self.plan.n_ports)
        where = where or " - ".join(map(self.label, ports))
        self.out.append(Difference(kind, where, planned, found, do, SURE[sure], known, own, rack))

    # Nodes

    def places(self) -> None:
        """Report switches in the wrong place, and nodes with another name than planned."""
        named, replaced = self.match.named.tolist(), set(self.match.replaced.tolist())
        at = {y: x for x, y in enumerate(named) if y >= 0}
        planned, seen = (Counter(fabric.names) for fabric in (self.plan, self.there))
        for x, y in enumerate(self.place):
            first = int(self.plan.port_offset[x])
            name = self.plan.label(x)
            if x in replaced:
                old, new = (f"GUID 0x{int(one.node_guid[at]):016x}" for one, at in ((self.plan, x), (self.there, y)))
                do = "take it into the plan and its tables: plan diff with --adopt"
                self.add("replaced", [first], f"{name}, {old}", f"{self.there.label(y)}, {new}", do, name)
                continue
            if y < 0 or named[x] == y:
                continue
            if y in at:  # its name belongs elsewhere
                other = self.plan.label(at[y])
                do = f"{other} stands here: exchange it and {name}, or give each the name of its place"
                self.add("misplaced", [first], name, other, do, name)
            elif named[x] < 0 and planned[self.plan.names[x]] == 1 == seen[self.there.names[y]]:
                there = self.there.label(y)
                self.add("renamed", [first], name, there, f"look whether {there} is {name}", name)

    def absent(self, planned: set[frozenset[int]]) -> set[frozenset[int]]:
        """Report planned nodes that were not found; return the planned cables that lead to none of these."""
        lost = {x for x, y in enumerate(self.place) if y < 0 and self.plan.kind[x] != Kind.AGGREGATION}
        ends: dict[int, list[Cable]] = defaultdict(list)
        for a, b in map(sorted, planned):
            for here, far in ((a, b), (b, a)):
                if self.owner[here] in lost:
                    ends[self.owner[here]].append((here, far))
        behind: dict[int, list[int]] = defaultdict(list)
        for node in sorted(lost):
            fars = {self.owner[far] for _, far in ends[node]}
            if node >= self.plan.n_switches and fars and fars <= lost:
                for far in fars:
                    behind[far].append(node)
        hidden = {node for nodes in behind.values() for node in nodes}
        for node in sorted(lost - hidden):
            name, cables = self.plan.label(node), ends[node]
            ports = [int(self.plan.port_offset[node]), *(far for _, far in cables)]
            where, led, seen = name, plural(len(cables), "cable"), "not seen"
            if len(cables) == 1:
                ((here, far),) = cables
                ports, led = [here, far], self.label(far)
                where, held = f"{name} - {led}", self.holds(far)
                seen += f"; {led} holds {held}" if held else ""
            if behind[node]:
                seen += f", nor {plural(len(behind[node]), 'adapter')} behind it"
            self.add("absent", ports, f"{name}, {led}", seen, f"look after {name}: power, cables, firmware", where)
        return {link for link in planned if not any(self.owner[port] in lost for port in link)}

    def holds(self, port: int) -> str:
        """Return the far end of what a port of the plan holds in the fabric; "" for no cable."""
        real = self.real[port] if 0 <= port < self.plan.n_ports else -1
        peer = int(self.there.peer[real]) if real >= 0 else -1
        return self.label(self.back[peer]) if peer >= 0 else ""

    def unplanned(self, seen: set[frozenset[int]]) -> set[frozenset[int]]:
        """Report nodes that the plan lacks; return the cables of the fabric that lead to none of these."""
        ends: dict[int, list[Cable]] = defaultdict(list)
        for link in seen:
            for port in link:
                if self.node_of(port) < 0:
                    (far,) = link - {port}
                    ends[self.far_owner[port - self.plan.n_ports]].append((port, far))
        for node, cables in sorted(ends.items()):
            cables.sort(key=lambda cable: self.label(cable[1]))
            known = [(port, far) for port, far in cables if self.node_of(far) >= 0]
            far = (known or cables)[0][1]
            more = f" and {plural(len(cables) - 1, 'cable')} more" if len(cables) > 1 else ""
            name = self.there.label(node)
            ports = [other for _, other in known] or [cables[0][0]]
            do, where = f"add {name} to the plan, or take it away", f"{self.label(far)} - {name}"
            self.add("unplanned", ports, self.wanted(far), f"{name}{more}", do, where)
        return {link for link in seen if all(self.node_of(port) >= 0 for port in link)}

    def wanted(self, port: int) -> str:
        """Return the planned far end of a port, or ``nothing``."""
        peer = int(self.plan.peer[port]) if port < self.plan.n_ports else -1
        return self.label(peer) if peer >= 0 else "nothing"

    # Cables

    def speeds(self, both: set[frozenset[int]]) -> None:
        """Report cables that are slower than planned.

        4xSDR on every cable is what readers write where a file tells no speeds, and nobody has built for years: then
        speeds are not compared.
        """
        if not self.there.speed[self.there.links].any() and (self.there.width[self.there.links] == 4).all():
            return
        for a, b in sorted(map(sorted, both)):
            x = self.real[a]
            wanted, got = (self.plan.width[a], self.plan.speed[a]), (self.there.width[x], self.there.speed[x])
            if wanted == got or self.there.rate_gbps[x] >= self.plan.rate_gbps[a]:
                continue
            kind = "degraded" if got[0] < wanted[0] else "slow"
            planned, there = (speed_name(*one) for one in (wanted, got))
            do = f"{there} instead of {planned}: clean or replace the cable, then the transceivers"
            self.add(kind, [a, b], planned, there, do)

    def classify(self, chain: list[int], planned: set[frozenset[int]]) -> None:
        """Classify a chain or ring of cables, given by its ports in order; a ring repeats its first port."""
        links = [frozenset(pair) for pair in pairwise(chain)]
        is_planned = [link in planned for link in links]
        label = self.label
        if chain[0] == chain[-1]:
            self.ring(chain[:-1])
        elif len(links) == 1:
            a, b = sorted(chain)
            cable = f"the cable from {label(a)} to {label(b)}"
            if is_planned[0]:
                self.add("missing", [a, b], label(b), "nothing", f"check or plug {cable}")
            else:
                self.add("extra", [a, b], "nothing", label(b), f"take away {cable}")
        elif len(links) == 2:
            a, b, c = chain if is_planned[0] else chain[::-1]  # a - b is planned, b - c is there
            wanted, seen = (f"{label(b)} to {label(port)}" for port in (a, c))
            do = f"move the plug from {label(c)} to {label(a)}"
            self.add("moved", [c, b, a], wanted, seen, do, f"{label(c)} - {label(b)}")
        else:
            cables = [f"{label(a)} to {label(b)}" for a, b in pairwise(chain)]
            wanted, seen = (", ".join(cables[is_planned.index(own) :: 2]) for own in (True, False))
            self.add("tangled", chain, wanted, seen, f"plug as planned: {wanted}", label(chain[0]), sure=1)

    def ring(self, ports: list[int]) -> None:
        """Report plugs that are permuted: ports 0 and 1 are joined in the plan, 1 and 2 in the fabric, and so on."""
        # Plugs were exchanged at either the even or the odd ports: most likely at those that are closest together.
        even, odd = ports[0::2], ports[1::2]

        def spread(some: Sequence[int]) -> tuple[int, int]:
            nodes = {self.node_of(port) for port in some}
            if not self.racks or -1 in nodes:
                return len(nodes), len(nodes)
            return len({self.racks[node][1].partition(" ")[0] for node in nodes}), len(nodes)

        wrong, other = (even, odd) if spread(even) < spread(odd) else (odd, even)
        cables = [(ports[k], ports[k + 1]) for k in range(0, len(ports), 2)]
        there = [(ports[k], ports[(k + 1) % len(ports)]) for k in range(1, len(ports), 2)]
        wanted, seen = (", ".join(f"{self.label(a)} to {self.label(b)}" for a, b in some) for some in (cables, there))
        wrong = sorted(wrong, key=lambda port: (natural_order(self.label(port)), port))
        labels = " and ".join(map(self.label, wrong))
        ports = [*wrong, *sorted(other)]
        if len(wrong) == 2:
            self.add("swapped", ports, wanted, seen, f"exchange the plugs in {labels}", labels)
        else:
            self.add("rotated", ports, wanted, seen, f"plug as planned: {wanted}", labels)


def _cables(fabric: Fabric) -> list[tuple[int, int]]:
    """Return the links without those inside a switch, to its aggregation node."""
    return [(a, b) for a, b in fabric.links[~fabric.is_internal].tolist()]


def _chains(planned: set[frozenset[int]], seen: set[frozenset[int]]) -> list[list[int]]:
    """Return the ports of each chain of alternately planned and actual cables; a ring begins with a planned one."""
    next_of: tuple[dict[int, int], dict[int, int]] = ({}, {})
    for which, links in enumerate((planned, seen)):
        for a, b in map(sorted, links):
            next_of[which][a], next_of[which][b] = b, a
    chains, done = [], set[int]()
    ports = sorted(next_of[0].keys() | next_of[1].keys())
    ends = [port for port in ports if (port in next_of[0]) != (port in next_of[1])]
    for port in [*ends, *ports]:
        if port in done:
            continue
        which = 0 if port in next_of[0] else 1
        chain = [port]
        while (other := next_of[which].get(chain[-1])) is not None:
            chain.append(other)
            which = 1 - which
            if other == port:
                break
        done.update(chain)
        chains.append(chain)
    return chains
