"""``plan.mock``: a fabric with faults that are known, in the files that the tools of the field would write of it.

Whoever writes a check of cabling or of links tests it on these files: the answer is beside them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plan.folder import check_replaceable, write_folder
from plan.inputs import read_fabric_argument
from topo import Fabric, HeddleError, Shown, Table, format_ibnetdiscover

FAULTS = ("swapped", "rotated", "moved", "missing", "extra", "degraded", "misplaced", "replaced", "errors")
"""Kinds of faults: those of `plan diff`, and links with errors, as `plan explain` finds them."""
COUNTERS = {"SymbolErrorCounter": 16, "PortRcvErrors": 16, "LinkDownedCounter": 8}
"""Counters of links with errors, and their bits (InfiniBand Architecture Specification, volume 1, 16.1.3.5)."""
LEAST_ERRORS = 11
"""One more than tools let pass: the default of infiniband-diags is ten."""
TRIES = 10
"""For each fault that is asked for: a small fabric may have no room for more."""


@dataclass(frozen=True)
class Fault:
    """A fault that was made."""

    kind: str
    """One of `FAULTS`."""
    ports: tuple[int, ...]
    """Ports of the planned fabric, in order; of a node that is misplaced or replaced the first."""


@dataclass(frozen=True, eq=False)
class Mock(Shown):
    """A fabric with faults, beside its plan."""

    planned: Fabric
    found: Fabric
    """The same nodes and ports in the same order, with the faults."""
    faults: tuple[Fault, ...]
    counters: Mapping[int, tuple[str, int]]
    """Of each port that has counted errors the counter, and what it says."""

    @property
    def table(self) -> Table:
        """A row a fault."""
        rows = [(fault.kind, ", ".join(map(self.planned.port_label, fault.ports))) for fault in self.faults]
        return Table.of_rows("faults", ("fault", "at"), rows)

    @property
    def errors(self) -> str:
        """What ``ibqueryerrors`` prints of it: the ports whose counters are above its thresholds."""
        fabric, lines = self.found, []
        for port, (name, value) in sorted(self.counters.items()):
            node = int(fabric.port_node[port])
            guid, number = int(fabric.node_guid[node]), fabric.port_number[port]
            lines += [f'Errors for "{fabric.names[node]}"', f"   GUID 0x{guid:x} port {number}: [{name} == {value}]"]
        bad, plugged = len({int(fabric.port_node[port]) for port in self.counters}), int((fabric.peer >= 0).sum())
        lines += [
            f"## Summary: {fabric.n_nodes} nodes checked, {bad} bad nodes found",
            f"##          {plugged} ports checked, {len(self.counters)} ports have errors beyond threshold",
        ]
        return "".join(f"{line}\n" for line in lines)

    def _brief(self) -> str:
        return f"{len(self.faults)} faults"

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as plain values, ready for JSON."""
        label = self.planned.port_label
        counted = [
            {"port": label(port), "counter": name, "value": value}
            for port, (name, value) in sorted(self.counters.items())
        ]
        faults = [{"fault": one.kind, "ports": [label(port) for port in one.ports]} for one in self.faults]
        return {"fabric": self.planned.name, "faults": faults, "counted": counted}


def mock(
    fabric: str | Path | Fabric,
    output: str | Path | None = None,
    *,
    faults: int = 5,
    kinds: Sequence[str] = FAULTS,
    seed: int = 0,
    hosts: bool = True,
) -> Mock:
    """Make faults in a fabric that have nothing to do with one another, drawn from a seed.

    Parameters
    ----------
    fabric : str, Path or Fabric
        A spec, a folder of `plan build` or a dump.
    output : str or Path, optional
        Folder for ``planned.ibnetdiscover``, ``fabric.ibnetdiscover``, ``errors.txt`` and ``answer.json``.
    faults : int
        How many are wanted; a small fabric may have room for fewer.
    kinds : sequence of str
        Of `FAULTS`, drawn with equal chances.
    seed : int
        Of the draw.
    hosts : bool
        Whether cables of hosts are plugged otherwise, too.

    Raises
    ------
    HeddleError
        When the fabric cannot be read, the folder cannot be written, a kind is unknown, or nothing could be broken.

    Examples
    --------
    >>> import plan, topo
    >>> made = plan.mock(topo.preset("lab-20").fabric, faults=3, seed=6)
    >>> [fault.kind for fault in made.faults]
    ['missing', 'replaced', 'errors']
    >>> topo.find_differences(made.planned, made.found).summary
    '61 of 62 cables as planned; 1 replaced, 1 missing'
    """
    if unknown := [kind for kind in kinds if kind not in FAULTS]:
        raise HeddleError(f"kinds: found {unknown[0]!r}; expected one of {', '.join(FAULTS)}")
    if output is not None:
        check_replaceable(Path(output), *([] if isinstance(fabric, Fabric) else [Path(fabric)]), keep_plan=True)
    planned = fabric if isinstance(fabric, Fabric) else read_fabric_argument(Path(fabric))
    hands = _Hands(planned, np.random.default_rng(seed), hosts)
    for _ in range(TRIES * faults):
        if len(hands.faults) >= faults:
            break
        hands.make(kinds[int(hands.rng.integers(len(kinds)))])
    if faults and not hands.faults:
        raise HeddleError(f"{planned.name}: no fault of kind {', '.join(kinds)} can be made in this fabric")
    made = Mock(planned, hands.fabric(), tuple(hands.faults), hands.counters)
    if output is not None:
        files = {
            "planned.ibnetdiscover": format_ibnetdiscover(planned),
            "fabric.ibnetdiscover": format_ibnetdiscover(made.found),
            "errors.txt": made.errors,
            "answer.json": json.dumps(made.to_dict(), indent=2) + "\n",
        }
        write_folder(Path(output), files)
    return made


@dataclass
class _Hands:
    """Faults that a crew makes one by one; what one of them has touched is left alone by the next."""

    plan: Fabric
    rng: np.random.Generator
    with_hosts: bool
    peer: NDArray[np.int32] = field(init=False)
    width: NDArray[np.uint8] = field(init=False)
    node: NDArray[np.int64] = field(init=False)
    """(N,) node that stands in the place of each; itself, or the one that it was exchanged with."""
    replaced: list[int] = field(default_factory=list)
    touched: set[int] = field(default_factory=set)
    """Ports."""
    faults: list[Fault] = field(default_factory=list)
    counters: dict[int, tuple[str, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        plan = self.plan
        self.peer, self.width, self.node = plan.peer.copy(), plan.width.copy(), np.arange(plan.n_nodes)
        ends = plan.inner_links
        inside = [self.in_frame(a, b) for a, b in plan.port_node[ends].tolist()]
        self.cables = [(a, b) for (a, b), backplane in zip(ends.tolist(), inside, strict=True) if not backplane]
        attached = plan.port_of(plan.ends())
        self.hosts = [(int(plan.peer[port]), int(port)) for port in attached.tolist()] if self.with_hosts else []

    def in_frame(self, a: int, b: int) -> bool:
        """Return whether two switches are chips of one frame."""
        return self.plan.frame(a) == self.plan.frame(b) != ""

    def make(self, kind: str) -> None:
        """Try a fault of a kind; if a part of it cannot be had, nothing has changed."""
        peer, width, touched = self.peer.copy(), self.width.copy(), set(self.touched)
        ports = _MAKERS[kind](self)
        if ports:
            apart = [[port] for port in ports] if kind == "misplaced" else [sorted(ports)]
            self.faults += [Fault(kind, tuple(one)) for one in apart]
        else:
            self.peer, self.width, self.touched = peer, width, touched

    def fabric(self) -> Fabric:
        """Return the fabric as it is: exchanged switches have kept their names and GUIDs."""
        plan = self.plan
        guid, port_guid = plan.node_guid[self.node], plan.port_guid.copy()
        for node in self.replaced:  # of the same maker, which the first 24 bits name
            guid[node] = int(guid[node]) >> 40 << 40 | int(self.rng.integers(1 << 40))
        moved = np.flatnonzero(guid != plan.node_guid)
        for node in moved.tolist():
            port_guid[plan.ports_of(node)] = guid[node]
        names = tuple(plan.names[node] for node in self.node.tolist())
        return replace(plan, peer=self.peer, width=self.width, names=names, node_guid=guid, port_guid=port_guid)

    def pick(self, cables: list[tuple[int, int]], near: int | None = None) -> tuple[int, int] | None:
        """Return a cable that nothing has touched, with its ends in either order; one of a switch, if ``near``."""
        places = np.arange(len(cables))
        if near is not None:
            places = np.flatnonzero((self.plan.port_node[np.array(cables).reshape(-1, 2)] == near).any(axis=1))
        for place in self.rng.permutation(places).tolist():
            a, b = cables[place]
            if not self.touched & {a, b}:
                self.touched |= {a, b}
                return (a, b) if self.rng.random() < 0.5 else (b, a)
        return None

    def pool(self) -> list[tuple[int, int]]:
        """Return the cables between switches, or those of hosts."""
        return self.hosts if self.hosts and self.rng.random() < 0.25 else self.cables

    def plug(self, *pairs: tuple[int, int]) -> None:
        for a, b in pairs:
            self.peer[a], self.peer[b] = b, a

    def free(self, switch: int) -> int | None:
        """Return a port of a switch that is free and stays so."""
        ports = self.plan.ports_of(switch)
        free = [port for port in ports if self.plan.peer[port] < 0 and port not in self.touched]
        if not free:
            return None
        self.touched.add(port := int(self.rng.choice(free)))
        return port

    def untouched(self, switches: NDArray[np.int64]) -> list[int]:
        """Return switches in a random order of which nothing was touched, and that are no parts of a frame.

        None if faults took a third of all switches as a whole: then there would be room for no other fault.
        """
        whole = len(self.replaced) + np.count_nonzero(self.node != np.arange(len(self.node)))
        if 3 * whole >= self.plan.n_switches:
            return []
        drawn = self.rng.permutation(switches).tolist()
        return [
            node for node in drawn if not self.plan.frame(node) and self.touched.isdisjoint(self.plan.ports_of(node))
        ]

    def seize(self, *nodes: int) -> list[int]:
        """Let nothing else touch some nodes; return the first port of each."""
        for node in nodes:
            self.touched.update(self.plan.ports_of(node))
        return [int(self.plan.port_offset[node]) for node in nodes]

    def swap(self) -> list[int]:
        """Exchange the plugs of two cables, at one switch or at any."""
        pool = self.pool()
        if (one := self.pick(pool)) is None:
            return []
        a, b = one if one[0] < self.plan.first_adapter_port else one[::-1]  # switch first
        near = int(self.plan.port_node[a]) if self.rng.random() < 0.5 else None
        if (other := self.pick(pool, near)) is None:
            return []
        c, d = other
        if pool is self.hosts:
            c, d = min(other), max(other)  # a host is plugged into a switch
        elif near is not None and self.plan.port_node[c] != near:
            c, d = d, c
        self.plug((a, d), (c, b))
        return [a, b, c, d]

    def rotate(self) -> list[int]:
        """Exchange the plugs of three cables."""
        three = [one for _ in range(3) if (one := self.pick(self.cables))]
        if len(three) < 3:
            return []
        (a, b), (c, d), (e, f) = three
        self.plug((a, d), (c, f), (e, b))
        return [a, b, c, d, e, f]

    def move(self) -> list[int]:
        """Plug one end of a cable into a free port of the same switch, or of another."""
        pool = self.pool()
        if (one := self.pick(pool)) is None:
            return []
        stays, goes = (max(one), min(one)) if pool is self.hosts else one
        switch = int(self.plan.port_node[goes])
        if pool is self.cables and self.rng.random() < 0.5:
            switch = int(self.rng.integers(self.plan.n_switches))
        if switch == self.plan.port_node[stays] or (to := self.free(switch)) is None:
            return []
        self.peer[goes] = -1
        self.plug((stays, to))
        return [stays, goes, to]

    def miss(self) -> list[int]:
        """Take a cable between switches away; without its only cable, no tool would find an adapter."""
        one = list(self.pick(self.cables) or ())
        self.peer[one] = -1
        return one

    def slow(self) -> list[int]:
        """Let a cable come up on one lane."""
        one = [port for port in self.pick(self.cables) or () if self.plan.width[port] > 1]
        self.width[one] = 1
        return one

    def add(self) -> list[int]:
        """Plug in a cable that nobody planned."""
        switches = self.rng.integers(self.plan.n_switches, size=2).tolist()
        ends = [port for switch in switches if (port := self.free(switch)) is not None]
        if len(ends) < 2 or switches[0] == switches[1] or self.in_frame(*switches):
            return []
        self.plug((ends[0], ends[1]))
        return ends

    def exchange(self) -> list[int]:
        """Mount two leaves in each other's place."""
        leaves = self.untouched(np.flatnonzero(self.plan.level[: self.plan.n_switches] == 1))
        for a, b in pairwise(leaves):
            ports = self.plan.ports_of(a)
            if len(ports) == len(self.plan.ports_of(b)) and b not in self.plan.peer_node[ports]:
                self.node[[a, b]] = b, a
                return self.seize(a, b)
        return []

    def renew(self) -> list[int]:
        """Put a new switch in the place of one, with its name."""
        names = self.plan.names
        for node in self.untouched(np.arange(self.plan.n_switches)):
            if names.count(names[node]) == 1:
                self.replaced.append(node)
                return self.seize(node)
        return []

    def err(self) -> list[int]:
        """Let one end of a cable count errors."""
        if one := self.pick(self.cables + self.hosts):
            name = list(COUNTERS)[int(self.rng.integers(len(COUNTERS)))]
            most = (1 << COUNTERS[name]) - 1
            self.counters[one[0]] = name, int(LEAST_ERRORS * (most / LEAST_ERRORS) ** self.rng.random())
        return list(one or ())


_MAKERS: Mapping[str, Callable[[_Hands], list[int]]] = {
    "swapped": _Hands.swap,
    "rotated": _Hands.rotate,
    "moved": _Hands.move,
    "missing": _Hands.miss,
    "extra": _Hands.add,
    "degraded": _Hands.slow,
    "misplaced": _Hands.exchange,
    "replaced": _Hands.renew,
    "errors": _Hands.err,
}
