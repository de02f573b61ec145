"""Fabrics that nobody has drawn: of a seed, a family, its sizes, its faults, and an order of ports and nodes.

``draw(seed)`` makes one; fifteen seeds in a row have each family at least once, and nineteen each of `WIDER`. Levels,
zones and joints are found from the wiring, as those of any dump.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import combinations, product

import networkx as nx
import numpy as np

from helpers.twins import twin
from topo.builder import FabricBuilder
from topo.dumps.levels import find_levels
from topo.fabric import Fabric, Kind, Role
from topo.speeds import SPEEDS, LinkSpeed, parse_link_speed

HDR, HDR100 = parse_link_speed("4xHDR"), parse_link_speed("2xHDR")
Rng = np.random.Generator


class Draft:
    """Switches by number, the cables between them, and hosts with the switches that they hang on."""

    def __init__(self) -> None:
        self.switches = 0
        self.cables: list[tuple[int, int, LinkSpeed]] = []
        self.hosts: list[tuple[Role, tuple[int, ...], LinkSpeed]] = []

    def add(self, count: int) -> list[int]:
        """Return the numbers of so many new switches."""
        self.switches += count
        return list(range(self.switches - count, self.switches))

    def cable(self, a: int, b: int, count: int = 1, speed: LinkSpeed = HDR) -> None:
        self.cables += [(a, b, speed)] * count

    def host(self, *switches: int, role: Role = Role.COMPUTE, speed: LinkSpeed = HDR) -> None:
        """Add a host with an adapter at each of the switches."""
        self.hosts.append((role, switches, speed))

    def lose(self, rng: Rng, links: float, switches: float) -> None:
        """Take away a share of the cables between switches, a share of the switches, and what is cut off by that."""
        dead = set(rng.choice(self.switches, round(switches * self.switches), replace=False).tolist())
        kept = [cable for cable in self.cables if rng.random() >= links and not dead & set(cable[:2])]
        graph = nx.Graph([cable[:2] for cable in kept])
        if not graph:
            return
        whole = max(nx.connected_components(graph), key=len)
        hosts = [(role, tuple(at for at in places if at in whole), speed) for role, places, speed in self.hosts]
        hosts = [host for host in hosts if host[1]]
        if len(hosts) > 3:
            self.cables, self.hosts = [cable for cable in kept if cable[0] in whole], hosts

    def build(self, name: str, rng: Rng) -> Fabric:
        """Return the fabric: ports in random order, and nodes too in every second one."""
        degree = Counter(end for cable in self.cables for end in cable[:2])
        degree.update(place for host in self.hosts for place in host[1])
        order = sorted(degree)
        if rng.random() < 0.5:
            order = [order[i] for i in rng.permutation(len(order))]
        build = FabricBuilder(name)
        key = {at: build.switch(f"s{at}", model="", radix=degree[at], role=Role.SWITCH, level=-1) for at in order}
        ports = {at: rng.permutation(np.arange(1, degree[at] + 1)).tolist() for at in order}
        for i in rng.permutation(len(self.cables)):
            a, b, speed = self.cables[i]
            build.link(key[a], ports[a].pop(), key[b], ports[b].pop(), speed)
        for number, (role, places, speed) in enumerate(self.hosts):
            for device, at in enumerate(places):
                adapter = build.adapter(f"h{number}", f"mlx5_{device}", model="", host_model="", role=role)
                build.link(adapter, 1, key[at], ports[at].pop(), speed)
        return find_levels(build.build())


def two_levels(draft: Draft, leaves: int, spines: int, trunk: int = 1) -> tuple[list[int], list[int]]:
    """Join new leaves to new spines, each with each."""
    low, high = draft.add(leaves), draft.add(spines)
    for leaf, spine in product(low, high):
        draft.cable(leaf, spine, trunk)
    return low, high


def slow_subtree(draft: Draft, rng: Rng, free: list[int]) -> None:
    """Hang a slow switch with old hosts below one to three of the free ports."""
    (slow,) = draft.add(1)
    for _ in range(min(int(rng.integers(1, 4)), len(free) // 3)):
        draft.cable(slow, free.pop(), speed=HDR100)
    for _ in range(int(rng.integers(2, 8))):
        draft.host(slow, role=Role.MANAGEMENT, speed=HDR100)


def zones(draft: Draft, rng: Rng) -> None:
    """Draw two to five fat-trees that joints join, at leaves with hosts or at some of their own."""
    radix, count = int(rng.choice([16, 20, 24, 32, 36, 40, 48])), int(rng.integers(2, 6))
    trunk = int(rng.choice([1, 1, 2]))
    spines = max(2, round(radix * rng.choice([0.5, 0.5, 0.33, 0.25]) / trunk))
    down = radix - spines * trunk
    most = max(4, min(radix // trunk, 90 // count))
    same, unequal = int(rng.integers(4, most + 1)), rng.random() < 0.3
    joints = draft.add(int(rng.integers(1, 5)))
    placement = rng.choice(["spread", "gathered", "mixed", "border"])
    per_joint = int(rng.integers(1, max(2, min(radix // count, same * down // (3 * len(joints))) + 1)))
    free: list[list[int]] = []
    for _ in range(count):
        leaves, high = two_levels(draft, int(rng.integers(4, most + 1)) if unequal else same, spines, trunk)
        places = [leaf for leaf in leaves for _ in range(down)]
        needed = per_joint * len(joints)
        if placement == "border":
            own = draft.add(-(-needed // down))
            for leaf, spine in product(own, high):
                draft.cable(leaf, spine, trunk)
            ends = [leaf for leaf in own for _ in range(down)][:needed]
        else:
            in_turn = [leaves[i % len(leaves)] for i in range(down * len(leaves))]
            gathered = needed if placement == "gathered" else needed // 2 if placement == "mixed" else 0
            ends = places[:gathered] + [leaf for leaf in in_turn if leaf not in places[:gathered]][: needed - gathered]
            for leaf in ends:
                places.remove(leaf)
        for joint, leaf in zip([joint for _ in range(per_joint) for joint in joints], ends, strict=False):
            draft.cable(joint, leaf)
        free.append([places[i] for i in rng.permutation(len(places))])
    if rng.random() < 0.3:
        for part in free:
            slow_subtree(draft, rng, part)
    for _ in range(int(rng.integers(0, 12))):
        draft.host(*(part.pop() for part in free[:2] if part), role=Role.STORAGE)
    fill = min(rng.uniform(0.5, 1.0), 800 / sum(map(len, free)))
    for part in free:
        for leaf in part[: max(2, round(fill * len(part)))]:
            draft.host(leaf)


def tree(draft: Draft, rng: Rng) -> None:
    """Draw a tapered tree of two levels, with slow subtrees, storage, and a few cables that no tree has."""
    radix, trunk = int(rng.choice([16, 24, 36, 40])), int(rng.choice([1, 1, 2]))
    spines = max(2, round(radix * rng.choice([0.5, 0.33, 0.25]) / trunk))
    leaves, _ = two_levels(draft, int(rng.integers(4, radix // trunk + 1)), spines, trunk)
    free = [leaf for leaf in leaves for _ in range(radix - spines * trunk)]
    free = [free[i] for i in rng.permutation(len(free))]
    for _ in range(int(rng.choice([0, 0, 1, 3]))):
        slow_subtree(draft, rng, free)
    for _ in range(int(rng.choice([0, 0, 2]))):  # a cable within a level
        draft.cable(free.pop(), free.pop()) if free[-1] != free[-2] else None
    for _ in range(int(rng.integers(0, 8))):
        draft.host(free.pop(), role=Role.STORAGE)
    for leaf in free[: max(2, round(rng.uniform(0.5, 1.0) * len(free)))]:
        draft.host(leaf)


def pods(draft: Draft, rng: Rng) -> None:
    """Draw three levels with pods of unequal size; sometimes a cable skips one."""
    half, cores = int(rng.integers(4, 10)), int(rng.choice([1, 2, 3]))
    planes = [draft.add(cores) for _ in range(half)]
    every: list[int] = []
    for _ in range(int(rng.integers(2, 6))):
        leaves, high = two_levels(draft, int(rng.integers(2, half + 1)), half)
        every += leaves
        for spine, plane in zip(high, planes, strict=True):
            for core in plane:
                draft.cable(spine, core, max(1, round(half * rng.choice([1.0, 1.0, 0.5]) / cores)))
        for leaf in leaves:
            for _ in range(int(rng.integers(half // 2, half + 1))):
                draft.host(leaf, role=Role.STORAGE if rng.random() < 0.05 else Role.COMPUTE)
    if rng.random() < 0.3:
        draft.cable(int(rng.choice(every)), planes[0][0])


def graph(draft: Draft, edges: Sequence[tuple[int, int]], hosts: int, trunk: int = 1) -> None:
    """Draw a graph with as many hosts at each switch."""
    draft.add(1 + max(map(max, edges)))
    for a, b in edges:
        draft.cable(a, b, trunk)
    for at in range(draft.switches):
        for _ in range(hosts):
            draft.host(at)


def bigraph(draft: Draft, rng: Rng) -> None:
    """Draw two rows of switches with hosts, each joined to all of the other row."""
    one, other = rng.integers(4, 17, 2).tolist()
    edges = [(a, one + b) for a, b in product(range(one), range(other))]
    graph(draft, edges, int(rng.integers(4, 17)), int(rng.choice([1, 1, 2])))


def hyperx(draft: Draft, rng: Rng) -> None:
    """Draw a HyperX of two or three dimensions."""
    shape = rng.integers(3, 8, 2) if rng.random() < 0.6 else rng.integers(2, 5, 3)
    graph(draft, lattice(shape.tolist(), whole=True), int(rng.integers(2, 9)))


def torus(draft: Draft, rng: Rng) -> None:
    """Draw a torus or a mesh of two or three dimensions."""
    shape = rng.integers(3, 9, 2) if rng.random() < 0.5 else rng.integers(3, 5, 3)
    edges = lattice(shape.tolist(), whole=False, around=rng.random() < 0.7)
    graph(draft, edges, int(rng.integers(1, 5)), int(rng.choice([1, 2, 3])))


def lattice(shape: list[int], *, whole: bool, around: bool = True) -> list[tuple[int, int]]:
    """Return edges between points of a lattice that differ in one dimension: by one, or by any number."""
    points = list(product(*map(range, shape)))
    place = {point: i for i, point in enumerate(points)}
    edges = []
    for a, b in combinations(points, 2):
        differ = [(abs(x - y), n) for x, y, n in zip(a, b, shape, strict=True) if x != y]
        if len(differ) == 1 and (whole or differ[0][0] == 1 or (around and differ[0][0] == differ[0][1] - 1)):
            edges.append((place[a], place[b]))
    return edges


def jellyfish(draft: Draft, rng: Rng) -> None:
    """Draw a random regular graph."""
    n, degree = 2 * int(rng.integers(8, 36)), int(rng.integers(4, 11))
    made = nx.random_regular_graph(degree, n, seed=int(rng.integers(1 << 30)))
    graph(draft, sorted(made.edges), int(rng.integers(2, 7)))


def dragonfly(draft: Draft, rng: Rng) -> None:
    """Draw groups of switches, each with each, and about as many cables between any two groups."""
    groups, members = int(rng.integers(3, 8)), int(rng.integers(3, 8))
    edges = [(g * members + a, g * members + b) for g in range(groups) for a, b in combinations(range(members), 2)]
    turn = Counter[int]()
    for g, h in combinations(range(groups), 2):
        for _ in range(max(1, round(members * 2 / groups))):
            edges.append((g * members + turn[g] % members, h * members + turn[h] % members))
            turn.update((g, h))
    graph(draft, edges, int(rng.integers(2, 6)))


REAL = ("ndr-pod", "fdr10-mesh", "zone", "two-zones", "two-frames", "edr-frames", "a100-superpod", "qdr-directors")


def real(draft: Draft, rng: Rng) -> None:
    """Take a real machine; the small ones more often."""
    fabric = twin(str(rng.choice(REAL, p=[0.2, 0.2, 0.15, 0.15, 0.08, 0.08, 0.07, 0.07])))
    n = fabric.n_switches
    draft.add(n)
    for a, b in fabric.links.tolist():
        ends = int(fabric.port_node[a]), int(fabric.port_node[b])
        speed = LinkSpeed(int(fabric.width[a]), SPEEDS[fabric.speed[a]])
        if max(ends) < n and ends[0] != ends[1]:
            draft.cable(*ends, speed=speed)
    for end in fabric.ends(kind=Kind.HCA).tolist():
        if fabric.end_switch[end] >= 0:
            draft.host(int(fabric.end_switch[end]), role=Role(int(fabric.role[fabric.end_node[end]])))


FAMILIES: tuple[Callable[[Draft, Rng], None], ...] = (
    zones, pods, hyperx, zones, tree, torus, real, zones, bigraph, jellyfish, pods, zones, dragonfly, real, zones,
)  # fmt: skip


def units(draft: Draft, rng: Rng) -> None:
    """Draw two to four trees of two levels, joined at their spines: over joints, or by cables from spine to spine."""
    radix, count = int(rng.choice([16, 20, 24, 36])), int(rng.integers(2, 5))
    down = round(radix * rng.choice([0.5, 0.6]))
    joints = draft.add(int(rng.integers(1, 5)) if rng.random() < 0.7 else 0)
    tops = []
    for _ in range(count):
        leaves, high = two_levels(draft, int(rng.integers(3, max(4, min(radix - 2, 40 // count)) + 1)), radix - down)
        tops.append(high)
        for leaf in leaves:
            for _ in range(int(rng.integers(down // 2, down + 1))):
                draft.host(leaf)
    for high in tops if joints else ():
        for number, spine in enumerate(high):
            draft.cable(spine, joints[number % len(joints)], int(rng.integers(1, 3)))
    for one, other in combinations(tops, 2) if not joints else ():
        for a, b in zip(one, other, strict=True):
            draft.cable(a, b, int(rng.integers(1, 3)))


def thin_core(draft: Draft, rng: Rng) -> None:
    """Draw pods whose spines have one or two links to few cores."""
    half, cores = int(rng.integers(4, 12)), draft.add(int(rng.integers(1, 5)))
    for _ in range(int(rng.integers(2, 7))):
        leaves, high = two_levels(draft, int(rng.integers(2, half + 1)), half)
        for number, spine in enumerate(high):
            draft.cable(spine, cores[number % len(cores)], int(rng.integers(1, 3)))
        for leaf in leaves:
            for _ in range(half):
                draft.host(leaf)


def uneven(draft: Draft, rng: Rng) -> None:
    """Draw a tree of two levels with a few slow cables, and in every second one with slow hosts."""
    radix = int(rng.choice([16, 24, 36, 40]))
    leaves, high = draft.add(int(rng.integers(4, min(radix, 24) + 1))), draft.add(round(radix * rng.choice([0.5, 0.4])))
    share, slow_hosts = rng.choice([0.01, 0.05, 0.2]), rng.random() < 0.5
    for leaf, spine in product(leaves, high):
        draft.cable(leaf, spine, speed=HDR100 if rng.random() < share else HDR)
    for leaf in leaves:
        speed = HDR100 if slow_hosts and rng.random() < 0.3 else HDR
        for _ in range(int(rng.integers(radix // 4, radix - len(high) + 1))):
            draft.host(leaf, role=Role.STORAGE if rng.random() < 0.05 else Role.COMPUTE, speed=speed)


def mixed(draft: Draft, rng: Rng) -> None:
    """Draw a tree of two levels with leaves of three sizes, and spines to which not all leaves have as many links."""
    high, small = draft.add(int(rng.integers(4, 13))), int(rng.integers(4, 9))
    for leaf in draft.add(int(rng.integers(6, 25))):
        size = int(rng.choice([1, 1, 2, 3]))
        for number, spine in enumerate(high):
            draft.cable(leaf, spine, 1 + (number % 3 < size - 1))
        for _ in range(size * small):
            draft.host(leaf)


WIDER = (*FAMILIES, units, thin_core, uneven, mixed)
"""With units joined at spines, thin cores, cables and hosts of uneven speeds, and leaves of several sizes."""


def draw(seed: int, families: Sequence[Callable[[Draft, Rng], None]] = FAMILIES) -> Fabric:
    """Return the fabric of a seed; its name says the family."""
    rng = np.random.default_rng(seed)
    family = families[seed % len(families)]
    draft = Draft()
    family(draft, rng)
    draft.lose(rng, *rng.choice([0.0, 0.0, 0.01, 0.03, 0.1], 2) * (1, 0.4))
    return draft.build(f"{family.__name__}-{seed}", rng)
