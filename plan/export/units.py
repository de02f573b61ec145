"""Which compute nodes are near each other: units of nodes on the same leaves, and tiers of units.

Only the compute network counts: of all networks in which a compute node has ports, those that give it the highest rate,
and among equals those without storage and management. Each network votes by the majority of its nodes. Planes and rails
that are networks of their own count together. A node whose leaves are most of those of a larger unit, or some of them
and no others, belongs to that unit: it lacks a cable. Units that have the same switches above them are in one group of
the next tier by the same rule. Where no switch is above another (a torus, a dragonfly), zones are that tier.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from topo import Fabric, Role, natural_order

ROOT = "fabric"
Switch = tuple[int, int]
"""Number of the subnet, and of the switch in it."""


@dataclass(frozen=True)
class Unit:
    """Nodes that share their leaves."""

    name: str
    """The leaf where it is one."""
    nodes: tuple[str, ...]
    above: tuple[str, ...]
    """Groups that it is in, the nearest first; the last is `ROOT`."""


@dataclass
class _Group:
    """Members with alike sets of switches."""

    switches: frozenset[Switch]
    members: list[str] = field(default_factory=list)


def find_units(fabrics: Sequence[Fabric]) -> list[Unit]:
    """Return the units of the compute nodes of all subnets, in the order of their first nodes.

    >>> import topo
    >>> [(unit.name, len(unit.nodes), unit.above) for unit in find_units(topo.preset("lab-20").fabrics)]
    [('leaf0', 8, ('fabric',)), ('leaf1', 8, ('fabric',))]
    """
    units = group_alike(_leaves_of_nodes(fabrics))
    width = len(str(len(units) - 1))
    tiers: list[dict[int, int]] = []
    """Of each tier above the units: the number of the group that each group of the tier below is in."""
    own = [unit.switches for unit in units]
    while 1 < len(groups := group_alike({str(at): _above(fabrics, found) for at, found in enumerate(own)})) < len(own):
        tiers.append({int(member): number for number, group in enumerate(groups) for member in group.members})
        own = [group.switches for group in groups]
    made = []
    for number, unit in enumerate(units):
        subnet, leaf = min(unit.switches)
        name = fabrics[subnet].label(leaf) if len(unit.switches) == 1 else f"unit{number:0{width}d}"
        above, at = [], number
        for tier, group_of in enumerate(tiers, start=1):
            at = group_of[at]
            above.append(f"zone{at}" if tier == 1 else f"tier{tier}-{at}")
        made.append(Unit(name, tuple(sorted(unit.members, key=natural_order)), (*above, ROOT)))
    return made


def group_alike(sets: Mapping[str, frozenset[Switch]]) -> list[_Group]:
    """Group members by similarity of their sets, in the order of their first members by name.

    The commonest sets come first. A set joins the group with which it shares most, if that is more than half of the
    larger of the two, or all of its own; else it begins a group.
    """
    exact: dict[frozenset[Switch], list[str]] = {}
    for member in sorted(sets, key=natural_order):
        exact.setdefault(sets[member], []).append(member)
    groups: list[_Group] = []
    holders: dict[Switch, list[int]] = {}
    for found in sorted(exact, key=lambda one: (-len(exact[one]), -len(one), sorted(one))):
        shared = Counter(group for switch in sorted(found) for group in holders.get(switch, ()))
        best = max(shared, key=shared.__getitem__, default=-1)
        larger = max(len(found), len(groups[best].switches)) if best >= 0 else 0
        if best < 0 or not (2 * shared[best] > larger or shared[best] == len(found)):
            best = len(groups)
            groups.append(_Group(found))
            for switch in found:
                holders.setdefault(switch, []).append(best)
        groups[best].members += exact[found]
    return sorted(groups, key=lambda group: min(map(natural_order, group.members)))


def _leaves_of_nodes(fabrics: Sequence[Fabric]) -> dict[str, frozenset[Switch]]:
    """Return the leaves of each compute node in the compute network; nodes without a port in it are left out."""
    rate: dict[tuple[int, int], dict[str, float]] = {}
    leaves: dict[tuple[int, int], dict[str, set[Switch]]] = {}
    shared: set[tuple[int, int]] = set()
    for subnet, fabric in enumerate(fabrics):
        for port in range(fabric.first_adapter_port, fabric.n_ports):
            node, leaf = int(fabric.port_node[port]), int(fabric.peer_node[port])
            if not 0 <= leaf < fabric.n_switches:
                continue
            network = (subnet, int(fabric.switch_part[leaf]))
            if fabric.role[node] in (Role.STORAGE, Role.MANAGEMENT):
                shared.add(network)
            if fabric.role[node] != Role.COMPUTE or fabric.host[node] < 0:
                continue
            host = fabric.hosts[fabric.host[node]]
            of_hosts = rate.setdefault(network, {})
            of_hosts[host] = of_hosts.get(host, 0.0) + float(fabric.rate_gbps[port])
            leaves.setdefault(network, {}).setdefault(host, set()).add((subnet, leaf))
    typical = {network: (median(rates.values()), network not in shared) for network, rates in rate.items()}
    best: dict[str, tuple[float, bool]] = {}
    for network, rates in rate.items():
        for host in rates:
            best[host] = max(best.get(host, typical[network]), typical[network])
    found: dict[str, set[Switch]] = {}
    for network, hung in leaves.items():
        votes = sum(best[host] == typical[network] for host in hung)
        for host, its in hung.items() if 2 * votes >= len(hung) else ():
            found.setdefault(host, set()).update(its)
    return {host: frozenset(its) for host, its in found.items()}


def _above(fabrics: Sequence[Fabric], switches: frozenset[Switch]) -> frozenset[Switch]:
    """Return the switches one level up or more that these have cables to; where there is none, their zones."""
    found = {
        (subnet, int(peer))
        for subnet, switch in switches
        if switch >= 0
        for fabric in [fabrics[subnet]]
        for peer in fabric.peer_node[fabric.port_offset[switch] : fabric.port_offset[switch + 1]].tolist()
        if 0 <= peer < fabric.n_switches and fabric.level[peer] > fabric.level[switch]
    }
    zones = {(subnet, -2 - int(fabrics[subnet].zone[switch])) for subnet, switch in switches if switch >= 0}
    return frozenset(found or zones)
