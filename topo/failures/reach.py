"""Who reaches whom over the cables of a plan, all subnets together, with every part working or without some.

Compute servers must reach one another, and every storage and management server; a plan without compute servers must
connect all. A pair is connected where any subnet connects it: servers do not forward from one subnet to another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from topo.errors import plural, spell_out
from topo.fabric import Fabric, Kind, Role
from topo.graphs import components, max_flow_gbps
from topo.hostlist import compress
from topo.table import Brief

NOTHING: NDArray[np.int64] = np.zeros(0, np.int64)
MOST_ZONES = 16
"""More zones than these are groups of a dragonfly, between which bandwidth is no question of single links."""


@dataclass(frozen=True)
class Failed(Brief):
    """Parts that do not work."""

    switches: Mapping[int, Sequence[int]] = field(default_factory=dict)
    """Nodes, by subnet."""
    links: Mapping[int, Sequence[int]] = field(default_factory=dict)
    """Rows of `Fabric.links`, by subnet."""
    servers: frozenset[str] = frozenset()

    def _brief(self) -> str:
        lost = [sum(map(len, lost.values())) for lost in (self.switches, self.links)]
        return f"{plural(lost[0], 'node')}, {plural(lost[1], 'link')}, {plural(len(self.servers), 'server')}"


@dataclass(frozen=True, eq=False)
class Reached:
    """Who reaches whom. V servers, C components of switches with servers on them."""

    on: NDArray[np.bool_]
    """(V, C) which components each server has a working port on."""
    pairs: int
    """Pairs that must reach one another and do."""
    alone: NDArray[np.bool_]
    """(V,) servers that reach no other."""
    ports: int
    """Ports of working servers with a working link to a working switch."""


class Reach:
    """The cables of a plan, and the question who reaches whom without some of its parts.

    Examples
    --------
    >>> import topo
    >>> reach = topo.Reach(topo.preset("lab-20").fabrics)
    >>> reach.whole.pairs == reach.required
    True
    """

    def __init__(self, fabrics: Sequence[Fabric]) -> None:
        self.fabrics = tuple(fabrics)
        self.servers: dict[str, int] = {}
        role: list[int] = []
        self.plugs: list[NDArray[np.int64]] = []
        """Subnet by subnet, (n, 3): server, switch and link of each port that is plugged into a switch."""
        for fabric in self.fabrics:
            at = fabric.port_node[fabric.links].astype(np.int64)
            at = np.take_along_axis(at, np.argsort(at, axis=1), axis=1)  # the switch first, where there is one
            link = np.flatnonzero((at[:, 0] < fabric.n_switches) & (fabric.kind[at[:, 1]] == Kind.HCA))
            rows = []
            for number, switch, node in zip(link.tolist(), at[link, 0].tolist(), at[link, 1].tolist(), strict=True):
                host = int(fabric.host[node])
                name = fabric.hosts[host] if host >= 0 else fabric.label(node)
                if self.servers.setdefault(name, len(role)) == len(role):
                    role.append(len(Role))
                server = self.servers[name]
                role[server] = min(role[server], int(fabric.role[node]))
                rows.append((server, switch, number))
            self.plugs.append(np.array(rows, np.int64).reshape(-1, 3))
        self.names = tuple(self.servers)
        self.computes = np.array(role, np.int64) == Role.COMPUTE
        if not self.computes.any():
            self.computes[:] = True

    @cached_property
    def whole(self) -> Reached:
        """Who reaches whom with every part working."""
        return self.without(Failed())

    @property
    def required(self) -> int:
        """Pairs that must reach one another."""
        computes = int(self.computes.sum())
        return computes * (computes - 1) // 2 + computes * (len(self.names) - computes)

    def without(self, failed: Failed) -> Reached:
        """Return who reaches whom without some parts."""
        works = np.ones(len(self.names), bool)
        works[[self.servers[name] for name in failed.servers if name in self.servers]] = False
        server, component = [NOTHING], [NOTHING]
        for subnet, plugs in enumerate(self.plugs):
            label = self._components(subnet, failed)
            dead = np.isin(plugs[:, 2], list(failed.links.get(subnet, ())))
            used = plugs[works[plugs[:, 0]] & (label[plugs[:, 1]] >= 0) & ~dead]
            server.append(used[:, 0])
            component.append(label[used[:, 1]] * len(self.fabrics) + subnet)
        who = np.concatenate(server)
        components, index = np.unique(np.concatenate(component), return_inverse=True)
        on = np.zeros((len(self.names), len(components)), bool)
        on[who, index] = True
        return self._counted(on, len(who))

    def between(self, cut: NDArray[np.bool_]) -> int:
        """Return the pairs of other servers that reach one another while every part works."""
        return self._counted(self.whole.on & ~cut[:, None], 0).pairs

    def zones_gbps(self, failed: Failed) -> list[float]:
        """Return the largest rate of switches from each zone to all others; nothing where there is one zone.

        Returns
        -------
        list of float
            Gb/s, zone by zone over all subnets; of two zones, each way carries the same, and one is listed.
        """
        rates: list[float] = []
        if not any(map(len, (*failed.switches.values(), *failed.links.values()))) and "whole_zones_gbps" in vars(self):
            return self.whole_zones_gbps  # only servers fail
        for subnet, (fabric, plugs) in enumerate(zip(self.fabrics, self.plugs, strict=True)):
            zones = np.unique(fabric.zone[plugs[:, 1]])
            if not 2 <= len(zones) <= MOST_ZONES:
                continue
            n, label = fabric.n_switches, self._components(subnet, failed)
            gone = np.zeros(len(fabric.links), bool)
            gone[list(failed.links.get(subnet, ()))] = True
            rate = fabric.rate_gbps[fabric.links].min(axis=1)
            links = fabric.port_node[fabric.links]
            inner = (links < n).all(axis=1) & ~gone
            inner[inner] &= (label[links[inner]] >= 0).all(axis=1)
            used = plugs[(label[plugs[:, 1]] >= 0) & ~gone[plugs[:, 2]]]
            hosts = np.bincount(used[:, 1], rate[used[:, 2]], n)
            for zone in zones[:-1] if len(zones) == 2 else zones:
                mine = fabric.zone[:n] == zone
                rates.append(max_flow_gbps(links[inner], rate[inner], hosts * mine, hosts * ~mine))
        return rates

    @cached_property
    def whole_zones_gbps(self) -> list[float]:
        """The rates of `zones_gbps` while every part works."""
        return self.zones_gbps(Failed())

    def faults(self) -> list[str]:
        """Say which servers that must reach one another do not, and why, while every part works."""
        if self.whole.pairs == self.required:
            return []
        found = [self._fault(one, other) for one, other in self._apart(self.whole, np.zeros(len(self.names), bool))]
        return spell_out(found, "pairs of groups that do not reach one another")

    def _apart(self, reached: Reached, left_out: NDArray[np.bool_]) -> Iterator[tuple[NDArray[np.bool_], ...]]:
        """Yield pairs of groups that must reach one another and do not; a server alone is no group with itself."""
        rows, of = self._groups(reached.on)
        meets = rows.astype(np.int64) @ rows.T.astype(np.int64) > 0
        for a in range(len(rows)):
            for b in range(a, len(rows)):
                one, other = (of == a) & ~left_out, (of == b) & ~left_out
                required = (one & self.computes).any() or (other & self.computes).any()
                if meets[a, b] or not required or not one.any() or not other.any() or (a == b and one.sum() < 2):
                    continue
                yield (one, other) if (one & self.computes).any() else (other, one)

    def named(self, servers: NDArray[np.bool_]) -> str:
        """Return servers as a host list."""
        return compress(self.names[server] for server in np.flatnonzero(servers).tolist())

    def parted(self, reached: Reached) -> list[str]:
        """Say which servers no longer reach which, those left out that reach nobody."""
        apart = self._apart(reached, reached.alone)
        return [f"{self.named(one)} and {self.named(other)}" for one, other in apart]

    def _fault(self, one: NDArray[np.bool_], other: NDArray[np.bool_]) -> str:
        if (one & other).any():
            return f"{self.named(one)} do not reach one another"
        said = f"{self.named(one)} reach no server of {self.named(other)}"
        stand = [{fabric.name for fabric, plugs in zip(self.fabrics, self.plugs, strict=True)
                  if np.isin(plugs[:, 0], np.flatnonzero(servers)).any()} for servers in (one, other)]  # fmt: skip
        if stand[0] & stand[1]:
            return f"{said}: no cables connect them"
        return f"{said}: they have no adapter on {', '.join(sorted(stand[1])) or 'any network'}"

    def _components(self, subnet: int, failed: Failed) -> NDArray[np.int64]:
        """Return (S,) component of each switch; -1 of one that does not work."""
        switches, links = failed.switches.get(subnet, ()), failed.links.get(subnet, ())
        if not len(links) and len(switches) <= 1 and not self.cuts[subnet].intersection(switches):
            label = self._whole_components[subnet].copy()
            label[list(switches)] = -1
            return label
        return self._label(subnet, switches, links)

    @cached_property
    def cuts(self) -> list[set[int]]:
        """Subnet by subnet, the switches without which others fall apart (articulation points)."""
        import networkx as nx  # it takes a tenth of a second, and few ask

        return [set(nx.articulation_points(nx.Graph(pairs.T.tolist()))) for pairs, _ in self._joined]

    @cached_property
    def _whole_components(self) -> list[NDArray[np.int64]]:
        return [self._label(subnet, (), ()) for subnet in range(len(self.fabrics))]

    @cached_property
    def _joined(self) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Subnet by subnet, the pairs of switches that links join, and (L,) which pair each link joins, else -1."""
        found = []
        for fabric in self.fabrics:
            a, b = np.sort(fabric.port_node[fabric.links], axis=1).astype(np.int64).T
            inner = b < fabric.n_switches
            pairs, of = np.unique(a[inner] * fabric.n_switches + b[inner], return_inverse=True)
            pair = np.full(len(fabric.links), -1)
            pair[inner] = of
            found.append((np.stack(np.divmod(pairs, fabric.n_switches)), pair))
        return found

    def _label(self, subnet: int, switches: Iterable[int], links: Iterable[int]) -> NDArray[np.int64]:
        n = self.fabrics[subnet].n_switches
        works = np.ones(n, bool)
        works[list(switches)] = False
        (a, b), pair = self._joined[subnet]
        kept = works[a] & works[b]
        if dead := list(links):
            left = np.delete(pair, dead)
            kept &= np.bincount(left[left >= 0], minlength=len(a)) > 0
        return np.where(works, components(n, a[kept], b[kept]), -1).astype(np.int64)

    def _groups(self, on: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Return the different rows, and which of them each server has."""
        _, first, of = np.unique(np.packbits(on, axis=1), axis=0, return_index=True, return_inverse=True)
        return on[first], of.ravel()

    def _counted(self, on: NDArray[np.bool_], ports: int) -> Reached:
        if not on.size:
            return Reached(on, 0, np.ones(len(self.names), bool), ports)
        rows, of = self._groups(on)
        meets = (rows.astype(np.int64) @ rows.T.astype(np.int64) > 0).astype(np.int64)
        computes = np.bincount(of, self.computes, len(rows)).astype(np.int64)
        others = np.bincount(of, ~self.computes, len(rows)).astype(np.int64)
        to_computes, to_others = meets @ computes, meets @ others
        itself = np.diagonal(meets)
        pairs = int(computes @ (to_computes - itself)) // 2 + int(computes @ to_others)
        partners = np.where(self.computes, (to_computes + to_others - itself)[of], to_computes[of])
        return Reached(on, pairs, partners == 0, ports)
