"""Reachability of servers over the cables of all subnets of a plan, intact or with failed parts.

A pair is connected if any one subnet connects it: servers do not forward packets. A network of gigabit ports, which
manages servers, connects those alone that have no other port to all of it. A plan must connect compute servers
to one another and to every storage and management server, or without compute servers all servers. What a failure takes
is counted over all pairs that the plan connects, and for each network the servers that lose all their ports in it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from topo.errors import plural, spell_out
from topo.fabric import HOST_ROLES, Fabric, Kind, Role
from topo.graphs import articulation_points, components, minimum_cut
from topo.hostlist import compress
from topo.speeds import SPEEDS
from topo.table import Brief

_Ints = NDArray[np.int64]
_Floats = NDArray[np.float64]
_Bools = NDArray[np.bool_]
_Flows = dict[tuple[bytes, ...], float]
"""Maximum flows that are known, by what they depend on."""
NOTHING: _Ints = np.zeros(0, np.int64)
PLANE = re.compile(r"-plane\d+$")
"""What the names of fabrics have that are planes of one network."""
SHARE_ROUNDING = 1e-9
"""Part of a share that is no difference."""
MOST_ZONES = 16
"""Above this number zones are groups of a dragonfly, and bandwidth between them does not depend on single links."""


@dataclass(frozen=True)
class Failed(Brief):
    """Failed parts."""

    switches: Mapping[int, Sequence[int]] = field(default_factory=dict)
    """Nodes, by subnet."""
    links: Mapping[int, Sequence[int]] = field(default_factory=dict)
    """Rows of `Fabric.links`, by subnet."""
    servers: frozenset[str] = frozenset()

    def _brief(self) -> str:
        lost = [sum(map(len, lost.values())) for lost in (self.switches, self.links)]
        return f"{plural(lost[0], 'node')}, {plural(lost[1], 'link')}, {plural(len(self.servers), 'server')}"


class _Pod:
    """Switches that only cores connect to others."""

    def __init__(
        self, switches: _Ints, inside: _Ints, out: _Ints, ends: _Ints, rate: _Floats, down: _Floats, flows: _Flows
    ) -> None:
        self.switches = switches
        """(S,) nodes."""
        self.inside, self.out = inside, out
        """Links among them, and to cores: rows of `Fabric.links`."""
        self._ends, self._foot, self._flows = ends[inside], ends[out].max(axis=1), flows
        self._rates = rate[inside], rate[out]
        up = np.bincount(self._foot, self._rates[1], len(switches))
        a, b = self._ends.T
        near, far = np.concatenate([a, b]), np.concatenate([b, a])
        links = _by_switch(len(switches), near, far, np.tile(self._rates[0], 2))
        each = [repr(one).encode() for one in zip(links, down.tolist(), up.tolist(), strict=True)]
        self.alike = [bytes(hashlib.sha256(b"".join([*each, b"|", one])).digest()) for one in each]
        """Of each switch, what it has in common with those that it can be exchanged for, here or in another pod."""

    def gbps(self, sends: _Floats, works: _Bools) -> float:
        """Return the maximum flow from servers that send so much at each switch to cores over the links that work."""
        inside, out = works[self.inside], works[self.out]
        up = np.bincount(self._foot[out], self._rates[1][out], len(self.switches)).astype(np.float64)
        key = self._ends[inside].tobytes(), self._rates[0][inside].tobytes(), up.tobytes(), sends.tobytes()
        if key not in self._flows:
            self._flows[key] = minimum_cut(self._ends[inside], self._rates[0][inside], sends, up)[0]
        return self._flows[key]


@dataclass(frozen=True, eq=False)
class Reached:
    """Reachability of V servers over C connected components of switches with servers."""

    on: _Bools
    """(V, C) whether each server has a working port on each component."""
    pairs: int
    """Pairs of servers that are connected, each counted once."""
    alone: _Bools
    """(V,) servers that reach no other."""
    ports: int
    """Ports of working servers with a working link to a working switch."""
    gbps: _Floats
    """(V, N) Gb/s of these ports in each network."""
    aside: _Bools
    """(C,) whether the network of the component manages servers."""


class Reach:
    """Reachability over the cables of a plan, with or without failed parts.

    Parameters
    ----------
    fabrics : sequence of Fabric
        All subnets.

    Examples
    --------
    >>> import topo
    >>> reach = topo.Reach(topo.preset("lab-20").fabrics)
    >>> reach.whole.pairs == 20 * 19 // 2
    True
    """

    def __init__(self, fabrics: Sequence[Fabric]) -> None:
        self.fabrics = tuple(fabrics)
        self.servers: dict[str, int] = {}
        role: list[int] = []
        self.plugs: list[_Ints] = []
        """For each subnet (n, 3): server, switch and link of each adapter port that is linked to a switch."""
        for fabric in self.fabrics:
            at = fabric.port_node[fabric.links].astype(np.int64)
            at = np.take_along_axis(at, np.argsort(at, axis=1), axis=1)  # the switch first, where there is one
            link = np.flatnonzero((at[:, 0] < fabric.n_switches) & (fabric.kind[at[:, 1]] == Kind.HCA))
            rows = []
            for number, switch, node in zip(link.tolist(), at[link, 0].tolist(), at[link, 1].tolist(), strict=True):
                name = fabric.server_of(node)
                if self.servers.setdefault(name, len(role)) == len(role):
                    role.append(len(Role))
                server = self.servers[name]
                role[server] = min(role[server], int(fabric.role[node]))
                rows.append((server, switch, number))
            self.plugs.append(np.array(rows, np.int64).reshape(-1, 3))
        self.names = tuple(self.servers)
        self.roles = np.array(role, np.int64)
        """(V,) `Role` of each server."""
        slow = SPEEDS.index("GE")
        self.manages = [bool(len(plugs)) and bool((fabric.speed[fabric.links[plugs[:, 2], 0]] == slow).all())
                        for fabric, plugs in zip(self.fabrics, self.plugs, strict=True)]  # fmt: skip
        """Of each subnet, whether it manages servers."""
        self.managed = np.ones(len(role), bool)
        """(V,) servers with no port but in such subnets."""
        for plugs, manages in zip(self.plugs, self.manages, strict=True):
            self.managed[plugs[:, 0]] &= manages
        self.computes = (self.roles == Role.COMPUTE) | (self.roles != Role.COMPUTE).all()
        names = [PLANE.sub("", fabric.name) for fabric in self.fabrics]
        self.networks = tuple(dict.fromkeys(names))
        """Names of the networks: planes belong to one."""
        self.network_of = [self.networks.index(name) for name in names]
        """Place among `networks` of each subnet's own."""

    @cached_property
    def whole(self) -> Reached:
        """Reachability with every part working."""
        return self.without(Failed())

    @cached_property
    def kind(self) -> _Ints:
        """(V,) kind of each server: those of one kind have one role, and ports on the same components."""
        return self._groups(self.whole.on, np.equal(self.roles[:, None], [*HOST_ROLES.values()]))[1]

    def around(self, subnet: int) -> list[bytes]:
        """Return what the failure of each switch of a subnet takes, if it leads to no other part of the network.

        It is the kinds of its servers, the rates of their links, of all their links in the network and in all networks,
        and whether they have others in its component; and of each neighbour with servers the rate of these, the rate to
        other switches, and how much of that it loses.
        """
        fabric, plugs, n = self.fabrics[subnet], self.plugs[subnet], self.fabrics[subnet].n_switches
        label, (down, up, rate, inner) = self._whole_components[subnet], self._rates[subnet]
        server, switch, link = plugs.T
        of_server = np.unique(server * n + label[switch], return_inverse=True, return_counts=True)[1:]
        here = np.unique(server * n + switch, return_inverse=True, return_counts=True)[1:]
        only = of_server[1][of_server[0]] == here[1][here[0]]
        ends = fabric.port_node[fabric.links[inner]].astype(np.int64)
        pairs, pair = np.unique(np.concatenate([ends @ [n, 1], ends @ [1, n]]), return_inverse=True)
        near, far = np.divmod(pairs, n)
        lost = np.bincount(pair, np.tile(rate[inner], 2), len(pairs))
        alike, pod_of = [b""] * n, dict[int, int]()
        for number, pod in enumerate(self._pods[subnet]):
            pod_of |= dict.fromkeys(pod.switches.tolist(), number)
            for switch_, same in zip(pod.switches.tolist(), pod.alike, strict=True):
                alike[switch_] = same
        pods: list[dict[int, list[tuple[bytes, float]]]] = [{} for _ in range(n)]
        if pod_of:
            for a, b, gbps in zip(near.tolist(), far.tolist(), lost.tolist(), strict=True):
                if b in pod_of and a not in pod_of:
                    pods[a].setdefault(pod_of[b], []).append((alike[b], gbps))
        told = [repr((own, sorted(map(sorted, by.values())))).encode() for own, by in zip(alike, pods, strict=True)]
        feels = down[far] > 0
        near, far, lost = near[feels], far[feels], lost[feels]
        mine, of_all = self.whole.gbps[server, self.network_of[subnet]], self.whole.gbps.sum(axis=1)[server]
        servers = _by_switch(n, switch, self.kind[server], only, rate[link], mine, of_all)
        around = _by_switch(n, near, down[far], up[far], lost)
        return [b"|".join(parts) for parts in zip(servers, around, told, strict=True)]

    def without(self, failed: Failed) -> Reached:
        """Return the reachability without the failed parts."""
        works = np.ones(len(self.names), bool)
        works[[self.servers[name] for name in failed.servers if name in self.servers]] = False
        server, component = [NOTHING], [NOTHING]
        gbps = np.zeros((len(self.names), len(self.networks)))
        for subnet, plugs in enumerate(self.plugs):
            label = self._components(subnet, failed)
            dead = np.isin(plugs[:, 2], list(failed.links.get(subnet, ())))
            used = plugs[works[plugs[:, 0]] & (label[plugs[:, 1]] >= 0) & ~dead]
            server.append(used[:, 0])
            component.append(label[used[:, 1]] * len(self.fabrics) + subnet)
            rates = self._rates[subnet][2][used[:, 2]]
            gbps[:, self.network_of[subnet]] += np.bincount(used[:, 0], rates, len(self.names))
        who = np.concatenate(server)
        components, index = np.unique(np.concatenate(component), return_inverse=True)
        on = np.zeros((len(self.names), len(components)), bool)
        on[who, index] = True
        return self._counted(on, len(who), gbps, np.array(self.manages, bool)[components % len(self.fabrics)])

    def between(self, cut: _Bools) -> int:
        """Return the pairs of servers outside ``cut`` that are connected in the intact plan."""
        return self._counted(self.whole.on & ~cut[:, None], 0, self.whole.gbps, self.whole.aside).pairs

    def bandwidth_lost(self, failed: Failed) -> tuple[float, str, bool]:
        """Return the largest share of its bandwidth to the others that a switch, or a pod, loses, and which it is.

        Also whether servers lose it to one another: see `_parting`.

        That of a remaining switch is min(Gb/s of its servers, Gb/s of its links to other switches but joints). That of
        a pod, whose switches only cores connect to others, is the maximum flow from its servers on remaining switches
        to the cores.
        """
        worst = 0.0, "", False
        for subnet in {*failed.switches, *failed.links}:
            fabric, plugs = self.fabrics[subnet], self.plugs[subnet]
            down, whole, rate, inner = self._rates[subnet]
            before, label = np.minimum(down, whole), self._whole_components[subnet]
            elsewhere = np.bincount(label, down, fabric.n_switches)[label] - down  # Gb/s of servers on other switches
            dead = np.zeros(fabric.n_nodes, bool)
            dead[list(failed.switches.get(subnet, ()))] = True
            ends = fabric.port_node[fabric.links]
            works = inner & ~dead[ends].any(axis=1)
            works[list(failed.links.get(subnet, ()))] = False
            up = np.bincount(ends[works].ravel(), np.repeat(rate[works], 2), fabric.n_switches)
            judged = np.unique(plugs[:, 1])
            judged = judged[~dead[judged] & (before[judged] > 0) & (elsewhere[judged] > 0)]
            left = np.minimum(down, up)[judged] / before[judged]
            parts, pods = self._parting[subnet]
            if len(judged):
                most = left.min()
                worst = max(worst, (1.0 - float(most), "switch", bool(parts[judged[left == most]].any())))
            for pod in self._pods[subnet]:
                others = elsewhere[pod.switches[0]] > down[pod.switches[1:]].sum()
                if others and not (works[pod.inside].all() and works[pod.out].all()):
                    sends = np.where(dead[pod.switches], 0.0, down[pod.switches])
                    if once := pod.gbps(sends, np.ones(len(works), bool)):
                        part = bool(pods[pod.switches[0]])
                        worst = max(worst, (1.0 - pod.gbps(sends, works) / once, "pod", part))
        return worst if worst[0] > 0 else (0.0, "", False)

    @cached_property
    def _parting(self) -> list[tuple[_Bools, _Bools]]:
        """For each subnet (S,) whether servers at a switch need links between switches, and between pods, at full rate.

        They do not where all servers of the component have the same share of their bandwidth on each switch, or in each
        pod, as on rails of one unit: then each can send to any other over every one of them as much as it has there.
        """
        found = []
        for subnet, (fabric, plugs) in enumerate(zip(self.fabrics, self.plugs, strict=True)):
            n, label, (server, switch, link) = fabric.n_switches, self._whole_components[subnet], plugs.T
            rate, pod_of = self._rates[subnet][2][link], np.arange(n)
            of_server = np.unique(server * n + label[switch], return_inverse=True)[1]
            for pod in self._pods[subnet]:
                pod_of[pod.switches] = pod.switches[0]
            needs = []
            for part in (np.arange(n), pod_of):
                at, first, of = np.unique(server * n + part[switch], return_index=True, return_inverse=True)
                share = np.bincount(of, rate) / np.bincount(of_server, rate)[of_server[first]]
                # The shares of a server add up to 1, so that those of a component count its servers. Where one of these
                # has less than others, or nothing, those have more than the mean.
                whole = label[switch[first]]
                mean = np.bincount(at % n, share, n)[at % n] / np.bincount(whole, share, n)[whole]
                above = share > mean * (1 + SHARE_ROUNDING)
                needs.append((np.bincount(whole[above], minlength=n) > 0)[label])
            found.append((needs[0], needs[1]))
        return found

    @cached_property
    def _pods(self) -> list[list[_Pod]]:
        """For each subnet, its pods of several switches with servers."""
        found: list[list[_Pod]] = []
        flows: _Flows = {}
        for fabric, (down, _, rate, inner) in zip(self.fabrics, self._rates, strict=True):
            ends, core = fabric.port_node[fabric.links].astype(np.int64), fabric.role == Role.CORE
            found.append([])
            if not core.any():
                continue
            below = inner & ~core[ends].any(axis=1)
            label = components(fabric.n_switches, *ends[below].T)
            for part in np.unique(label[(down > 0) & ~core[: fabric.n_switches]]).tolist():
                switches = np.flatnonzero(label == part)
                at = np.full(fabric.n_nodes, -1)
                at[switches] = np.arange(len(switches))
                mine = at[ends].max(axis=1) >= 0
                inside, out = np.flatnonzero(below & mine), np.flatnonzero(inner & ~below & mine)
                if len(inside) and len(out):
                    found[-1].append(_Pod(switches, inside, out, at[ends], rate, down[switches], flows))
        return found

    @cached_property
    def _rates(self) -> list[tuple[_Floats, _Floats, _Floats, _Bools]]:
        """For each subnet (S,) Gb/s of servers, (S,) Gb/s to others, (L,) Gb/s of links, (L,) bool between switches."""
        found = []
        for fabric, plugs in zip(self.fabrics, self.plugs, strict=True):
            ends, rate = fabric.port_node[fabric.links], fabric.rate_gbps[fabric.links].min(axis=1).astype(np.float64)
            # What joints carry is told by `zones_gbps`.
            inner = fabric.is_inner_link & (fabric.role[ends] != Role.JOINT).all(axis=1)
            down = np.bincount(plugs[:, 1], rate[plugs[:, 2]], fabric.n_switches).astype(np.float64)
            up = np.bincount(ends[inner].ravel(), np.repeat(rate[inner], 2), fabric.n_switches)
            found.append((down, up.astype(np.float64), rate, inner))
        return found

    def zones_gbps(self, failed: Failed) -> list[float]:
        """Return the maximum flow in Gb/s from each zone to all others, over all subnets; nothing if there is one zone.

        For two zones both directions are equal, and one is listed.
        """
        rates: list[float] = []
        if not any(map(len, (*failed.switches.values(), *failed.links.values()))) and "whole_zones_gbps" in vars(self):
            return self.whole_zones_gbps  # only servers fail
        for subnet, (fabric, plugs) in enumerate(zip(self.fabrics, self.plugs, strict=True)):
            zones = sorted(set(fabric.zone[plugs[:, 1]].tolist()))  # np.unique loads numpy.ma: a tenth of `plan check`
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
                rates.append(minimum_cut(links[inner], rate[inner], hosts * mine, hosts * ~mine)[0])
        return rates

    @cached_property
    def whole_zones_gbps(self) -> list[float]:
        """`zones_gbps` of the intact plan."""
        return self.zones_gbps(Failed())

    def faults(self) -> list[str]:
        """Return which groups of servers of the intact plan do not reach one another, and why, as sentences."""
        found = [self._fault(one, other) for one, other in self._apart(self.whole)]
        return spell_out(found, "pairs of groups that do not reach one another")

    def _apart(self, reached: Reached, before: Reached | None = None) -> Iterator[tuple[_Bools, ...]]:
        """Yield pairs of groups that do not meet and must; a group may be paired with itself.

        Those must meet that met ``before``, without those that reach nobody now; or, of a plan, of which one computes.
        """
        split = reached.on.shape[1]
        rows, of = self._groups(*([reached.on] if before is None else [reached.on, before.on]))
        now, then, managed = rows[:, :split], rows[:, split:-1], rows[:, -1]
        computes = np.bincount(of, self.computes, len(rows)) > 0
        due = computes[:, None] | computes if before is None else _meets(then, before.aside, managed)
        judged = np.ones(len(of), bool) if before is None else ~reached.alone
        for a, b in np.argwhere(np.triu(due & ~_meets(now, reached.aside, managed))).tolist():
            one, other = (of == a) & judged, (of == b) & judged
            if one.any() and other.any() and (a != b or one.sum() > 1):
                yield (one, other) if (one & self.computes).any() else (other, one)

    def named(self, servers: _Bools) -> str:
        """Return some servers as a host list."""
        return compress(self.names[server] for server in np.flatnonzero(servers).tolist())

    def parted(self, reached: Reached) -> list[str]:
        """Return pairs of groups that lost contact, as text; isolated servers are omitted."""
        apart = self._apart(reached, self.whole)
        return [f"{self.named(one)} and {self.named(other)}" for one, other in apart]

    def by_role(self, servers: _Bools) -> str:
        """Return how many of each role some servers are: ``10 of 12 storage, 2 of 2 management servers``."""
        of_all, these = np.bincount(self.roles), np.bincount(self.roles[servers]).tolist()
        said = (f"{n:,} of {of_all[role]:,} {Role(role).name.lower()}" for role, n in enumerate(these) if n)
        return f"{', '.join(said)} servers"

    def _fault(self, one: _Bools, other: _Bools) -> str:
        if (one & other).any():
            return f"{self.named(one)} do not reach one another"
        said = f"{self.named(one)} reach no server of {self.named(other)}"
        stand = [{fabric.name for fabric, plugs in zip(self.fabrics, self.plugs, strict=True)
                  if np.isin(plugs[:, 0], np.flatnonzero(servers)).any()} for servers in (one, other)]  # fmt: skip
        if stand[0] & stand[1]:
            return f"{said}: no cables connect them"
        return f"{said}: they have no adapter on {', '.join(sorted(stand[1])) or 'any network'}"

    def _components(self, subnet: int, failed: Failed) -> _Ints:
        """Return (S,) the connected component of each switch, -1 for a failed one."""
        switches, links = failed.switches.get(subnet, ()), failed.links.get(subnet, ())
        if not len(links) and len(switches) <= 1 and not self.cuts[subnet].intersection(switches):
            label = self._whole_components[subnet].copy()
            label[list(switches)] = -1
            return label
        return self._label(subnet, switches, links)

    @cached_property
    def cuts(self) -> list[set[int]]:
        """For each subnet, the switches whose failure disconnects others."""
        joined = zip(self.fabrics, self._joined, strict=True)
        return [articulation_points(fabric.n_switches, *pairs) for fabric, (pairs, _) in joined]

    @cached_property
    def _whole_components(self) -> list[_Ints]:
        return [self._label(subnet, (), ()) for subnet in range(len(self.fabrics))]

    @cached_property
    def _joined(self) -> list[tuple[_Ints, _Ints]]:
        """For each subnet (2, n) linked pairs of switches, and (L,) the pair that each link joins, -1 for none."""
        found = []
        for fabric in self.fabrics:
            a, b = np.sort(fabric.port_node[fabric.links], axis=1).astype(np.int64).T
            inner = fabric.is_inner_link
            pairs, of = np.unique(a[inner] * fabric.n_switches + b[inner], return_inverse=True)
            pair = np.full(len(fabric.links), -1)
            pair[inner] = of
            found.append((np.stack(np.divmod(pairs, fabric.n_switches)), pair))
        return found

    def _label(self, subnet: int, switches: Iterable[int], links: Iterable[int]) -> _Ints:
        n = self.fabrics[subnet].n_switches
        works = np.ones(n, bool)
        works[list(switches)] = False
        (a, b), pair = self._joined[subnet]
        kept = works[a] & works[b]
        if dead := list(links):
            left = np.delete(pair, dead)
            kept &= np.bincount(left[left >= 0], minlength=len(a)) > 0
        return np.where(works, components(n, a[kept], b[kept]), -1).astype(np.int64)

    def _groups(self, *columns: _Bools) -> tuple[_Bools, _Ints]:
        """Return the distinct rows, of which the last column is `managed`, and (V,) the row of each server."""
        on = np.column_stack([*columns, self.managed])
        _, first, of = np.unique(np.packbits(on, axis=1), axis=0, return_index=True, return_inverse=True)
        return on[first], of.ravel()

    def _counted(self, on: _Bools, ports: int, gbps: _Floats, aside: _Bools) -> Reached:
        if not on.size:
            return Reached(on, 0, np.ones(len(self.names), bool), ports, gbps, aside)
        rows, of = self._groups(on)
        meets = _meets(rows[:, :-1], aside, rows[:, -1]).astype(np.int64)
        servers = np.bincount(of, minlength=len(rows))
        partners = meets @ servers - np.diagonal(meets)
        return Reached(on, int(servers @ partners) // 2, partners[of] == 0, ports, gbps, aside)


def _meets(on: _Bools, aside: _Bools, managed: _Bools) -> _Bools:
    """Return (R, R) whether servers on components reach one another, over those ``aside`` if either is ``managed``."""
    data, manages = on[:, ~aside].astype(np.int64), on[:, aside].astype(np.int64)
    return (data @ data.T > 0) | ((manages @ manages.T > 0) & (managed[:, None] | managed))


def _by_switch(n: int, switch: _Ints, *columns: NDArray[np.generic]) -> list[bytes]:
    """Return the rows of each switch, in an order of their own."""
    rows = np.stack(columns, axis=1).astype(np.float64)
    order = np.lexsort((*rows.T, switch))
    begins = np.searchsorted(switch[order], np.arange(n + 1)).tolist()
    return [rows[order[begin:end]].tobytes() for begin, end in pairwise(begins)]
