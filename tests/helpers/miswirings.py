"""Faults of a crew: cables of a fabric plugged otherwise than planned, and what should be said of each."""

from dataclasses import dataclass, field, replace

import numpy as np

from topo.fabric import Fabric


@dataclass
class Miswired:
    """A fabric under way from its plan, in the plan's numbering, and the truth about it."""

    plan: Fabric
    rng: np.random.Generator
    peer: np.ndarray = field(init=False)
    width: np.ndarray = field(init=False)
    touched: set[int] = field(default_factory=set)
    """Ports, and switches that are exchanged as a whole."""
    truth: set[tuple[str, frozenset[int]]] = field(default_factory=set)
    """Kind, and ports of the plan."""
    exchanged: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.peer, self.width = self.plan.peer.copy(), self.plan.width.copy()
        self.box = [self.plan.label(node).partition("/")[0] for node in range(self.plan.n_nodes)]
        chips = {node for node in range(self.plan.n_switches) if "/" in self.plan.label(node)}
        self.cables = [
            (a, b)
            for a, b in self.plan.inner_links.tolist()
            if not (set(self.nodes(a, b)) <= chips and self.box[self.nodes(a)[0]] == self.box[self.nodes(b)[0]])
        ]
        attached = self.plan.port_of(self.plan.ends())
        self.hosts = [(int(self.plan.peer[port]), int(port)) for port in attached.tolist()]

    def nodes(self, *ports: int) -> list[int]:
        """Nodes of ports."""
        return [int(self.plan.port_node[port]) for port in ports]

    def pick(self, cables: list[tuple[int, int]], fits=lambda a, b: True) -> tuple[int, int] | None:
        """A cable that nothing has touched yet, with its ends in either order."""
        for place in self.rng.permutation(len(cables))[:2000].tolist():
            a, b = cables[place]
            if not self.touched & {a, b, *self.nodes(a, b)} and fits(a, b):
                self.touched |= {a, b}
                return (a, b) if self.rng.random() < 0.5 else (b, a)
        return None

    def plug(self, *pairs: tuple[int, int]) -> None:
        """Plug cables into ports."""
        for a, b in pairs:
            self.peer[a], self.peer[b] = b, a

    def free(self, switch: int) -> int | None:
        """A port of a switch that is free and stays so."""
        first, end = self.plan.port_offset[switch : switch + 2].tolist()
        free = [port for port in range(first, end) if self.plan.peer[port] < 0 and port not in self.touched]
        if not free or switch in self.touched:
            return None
        self.touched.add(port := int(self.rng.choice(free)))
        return port

    def swap(self, near: bool, *, hosts: bool = False) -> bool:
        """Exchange the plugs of two cables, at one switch or at any."""
        one = self.pick(self.hosts if hosts else self.cables)
        if one is None:
            return False
        a, b = one if one[0] < self.plan.first_adapter_port else one[::-1]
        pool = self.hosts if hosts else self.cables
        other = self.pick(pool, lambda c, d: not near or self.nodes(a)[0] in self.nodes(c, d))
        if other is None:
            return False
        c, d = other if (self.nodes(other[0])[0] == self.nodes(a)[0] or not near) else other[::-1]
        if d < self.plan.first_adapter_port <= b or b < self.plan.first_adapter_port <= d:
            c, d = d, c
        self.plug((a, d), (c, b))
        self.truth.add(("swapped", frozenset([a, b, c, d])))
        return True

    def rotate(self) -> bool:
        """Exchange the plugs of three cables."""
        three = [self.pick(self.cables) for _ in range(3)]
        if None in three:
            return False
        (a, b), (c, d), (e, f) = three
        self.plug((a, d), (c, f), (e, b))
        self.truth.add(("rotated", frozenset([a, b, c, d, e, f])))
        return True

    def move(self, *, hosts: bool = False) -> bool:
        """Plug one end of a cable into a free port of the same switch, or of another."""
        one = self.pick(self.hosts if hosts else self.cables)
        if one is None:
            return False
        stays, goes = one[::-1] if hosts and one[1] >= self.plan.first_adapter_port else one
        switch = self.nodes(goes)[0]
        if self.rng.random() < 0.5 and not hosts:
            switch = int(self.rng.integers(self.plan.n_switches))
        to = self.free(switch)
        if to is None or switch == self.nodes(stays)[0]:
            return False
        self.peer[goes] = -1
        self.plug((stays, to))
        self.truth.add(("moved", frozenset([stays, goes, to])))
        return True

    def miss(self, *, hosts: bool = False) -> bool:
        """Take a cable away."""
        one = self.pick(self.hosts if hosts else self.cables)
        if one is None:
            return False
        self.peer[list(one)] = -1
        self.truth.add(("missing", frozenset(one)))
        return True

    def slow(self) -> bool:
        """Let a cable come up on one lane."""
        one = self.pick(self.cables)
        if one is None:
            return False
        self.width[list(one)] = 1
        self.truth.add(("degraded", frozenset(one)))
        return True

    def add(self) -> bool:
        """Plug in a cable that nobody planned."""
        a, b = (self.free(int(self.rng.integers(self.plan.n_switches))) for _ in range(2))
        if a is None or b is None or self.nodes(a) == self.nodes(b):
            return False
        if (
            all("/" in self.plan.label(node) for node in self.nodes(a, b))
            and len({self.box[n] for n in self.nodes(a, b)}) < 2
        ):
            return False
        self.plug((a, b))
        self.truth.add(("extra", frozenset([a, b])))
        return True

    def exchange(self) -> bool:
        """Mount two leaves in each other's place."""
        leaves = [s for s in range(self.plan.n_switches) if self.plan.level[s] == 1 and s not in self.touched]
        ports = np.diff(self.plan.port_offset)
        leaves = [s for s in leaves if not self.touched & set(range(*self.plan.port_offset[s : s + 2].tolist()))]
        if len(leaves) < 2:
            return False
        a, b = self.rng.choice(leaves, 2, replace=False).tolist()
        far = {
            int(self.plan.port_node[p])
            for s in (a, b)
            for p in self.plan.peer[slice(*self.plan.port_offset[s : s + 2])]
            if p >= 0
        }
        if ports[a] != ports[b] or "/" in self.plan.label(a) + self.plan.label(b) or far & {a, b}:
            return False
        self.touched |= {a, b}
        self.exchanged.append((a, b))
        self.truth |= {("misplaced", frozenset([int(self.plan.port_offset[s])])) for s in (a, b)}
        return True

    def fabric(self) -> Fabric:
        """The fabric as it is: exchanged switches keep names and GUIDs, and stand where the other should."""
        names, guids = list(self.plan.names), self.plan.node_guid.copy()
        port_guid = self.plan.port_guid.copy()
        for a, b in self.exchanged:
            names[a], names[b] = names[b], names[a]
            guids[[a, b]] = guids[[b, a]]
            for here, there in ((a, b), (b, a)):
                port_guid[slice(*self.plan.port_offset[here : here + 2])] = self.plan.node_guid[there]
        return replace(
            self.plan, peer=self.peer, width=self.width, names=tuple(names), node_guid=guids, port_guid=port_guid
        )


FAULTS = (
    "swap near",
    "swap far",
    "swap hosts",
    "rotate",
    "move",
    "move host",
    "miss",
    "miss host",
    "add",
    "slow",
    "exchange",
)


def miswire(plan: Fabric, rng: np.random.Generator, faults: int, *, hosts: bool = True) -> Miswired:
    """Make so many faults that have nothing to do with one another; hosts are left alone where none has a name."""
    made = Miswired(plan, rng)
    deeds = {
        "swap near": lambda: made.swap(True),
        "swap far": lambda: made.swap(False),
        "rotate": made.rotate,
        "move": made.move,
        "miss": made.miss,
        "add": made.add,
        "slow": made.slow,
        "exchange": made.exchange,
    }
    if hosts:
        deeds |= {
            "swap hosts": lambda: made.swap(False, hosts=True),
            "move host": lambda: made.move(hosts=True),
            "miss host": lambda: made.miss(hosts=True),
        }
    names = list(deeds)
    for _ in range(10 * faults):  # a small fabric has no room for more
        if len(made.truth) >= faults:
            break
        before = made.peer.copy(), made.width.copy()
        if not deeds[names[int(rng.integers(len(names)))]]():
            made.peer, made.width = before
    return made
