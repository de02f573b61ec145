"""Effect of the failure of a single switch, link, rack or power feed, computed from the cabling.

It counts what the remaining cables can carry with any routing, since new tables are needed after a failure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from topo.amounts import Verdict, listed, percent
from topo.catalog.load import Catalog
from topo.checks import Check
from topo.errors import HeddleError, plural
from topo.fabric import Fabric, Role
from topo.failures.parts import list_parts
from topo.failures.reach import Failed, Reach
from topo.floor.racks import Layout
from topo.table import Record, Shown, Table

APART = ("link", "rack", "feed")
"""Kinds of parts that are no switches."""


@dataclass(frozen=True, kw_only=True)
class Loss(Record):
    """Effect of the failure of one part."""

    kind: str
    """``leaf``, ``spine``, ``core``, ``joint``, ``switch``, ``link``, ``rack`` or ``feed``."""
    name: str
    """Name of the part; the first of several with the same effect."""
    network: str
    """Name of the fabric of a switch or a link; empty for what spans several."""
    alike: int = 1
    """Number of parts of this kind with the same effect."""
    alike_compute: int = 1
    """Number of parts of this kind with the same effect on compute servers."""
    of: int = 1
    """Number of parts of this kind."""
    cut: str
    """Servers that are down or reach no other, as a host list."""
    servers: int
    """Number of these servers."""
    roles: str
    """How many of each role they are, of how many, without those of `inside`; empty for none."""
    inside: str = ""
    """How many of each role are in the rack that fails, of how many; empty for other parts."""
    pairs: int
    """Pairs of servers that no longer reach one another, including those of such servers; each pair counts once."""
    beyond: int
    """Those of them that count against `survived`: a rack takes its own servers with it, so theirs do not."""
    together: int = 0
    """Those of `beyond` that no switch in a rack takes alone: switches that stand in for one another are in it."""
    off: int
    """Most of the other servers that lose all their ports in one of several networks, which others may connect."""
    networks: str
    """How many servers these are in each network, of how many; empty for none."""
    ports: int
    """Ports of adapters without a working link to a working switch, but those in a rack that fails."""
    gbps: float
    """Gb/s of these ports."""
    gbps_compute: float
    """Those of them that compute servers lose."""
    share_of_all: float
    """Largest share of its bandwidth in all networks together that a compute server loses which keeps some of it."""
    share: float
    """Largest share of its bandwidth in a network that a compute server loses which keeps some of it there."""
    share_in: str
    """That network; empty for none."""
    share_other: float
    """The same of a server of another role."""
    other: str
    """Name of that server; empty where it loses no larger share than a compute server."""
    zones: float | None
    """Largest share of its bandwidth to other zones that a zone loses; None without zones."""
    bandwidth: float
    """Largest share of their bandwidth to other switches that the servers on one remaining switch lose, of the smaller
    of what they send and of what its links to other switches carry, or that those of a pod lose to the cores."""
    narrowed: str
    """Whose share that is: ``switch`` or ``pod``; empty for none."""
    between_servers: bool
    """Whether servers lose it to one another; not where all have the same share of their ports on every such switch, or
    in every such pod, as on rails of one unit: then only traffic that leaves its switch, as between rails, loses it."""
    reduced: int = 0
    """Servers that go on at reduced performance, on the feeds that are left."""
    apart: tuple[str, ...]
    """Pairs of groups of other servers that lost contact, as host lists."""

    @property
    def weight(self) -> tuple[float, ...]:
        """Sort key of failures: the largest is the worst, by what servers lose, compute servers first."""
        return (self.beyond, self.pairs, self.zones or 0.0, self.servers, self.share_of_all, self.off, self.share,
                self.bandwidth, self.gbps_compute, self.share_other, self.gbps)  # fmt: skip

    @property
    def weighed(self) -> tuple[object, ...]:
        """What failures with the same effect have in common."""
        return (*self.weight, self.roles, self.inside, self.ports)

    @property
    def survived(self) -> bool:
        """Whether all servers still run and reach one another, but for those in a rack that fails."""
        return not self.beyond and not (self.servers and self.kind != "rack")

    @property
    def effect(self) -> str:
        """What it takes away, in short, but for the servers in a rack; empty where all servers left reach others."""
        effects = []
        inside = self.kind == "rack"  # it takes its own servers with it, which no network can cure
        if not self.survived:
            pairs = f"separates {plural(self.beyond, 'pair')} of {'other ' * inside}servers"
            effects.append(f"cuts off {plural(self.servers, 'server')}" if self.servers and not inside else pairs)
        if self.zones == 1.0:
            effects.append("takes all bandwidth between zones")
        return f"one {self.kind} {' and '.join(effects)}" if effects else ""

    def __str__(self) -> str:
        also = f"each of {self.alike:,}" if self.alike > 1 else ""
        if self.alike_compute > self.alike:
            many = {"leaf": "leaves", "switch": "switches"}.get(self.kind, f"{self.kind}s")
            also = f"one of {self.alike_compute:,} {many} that cost compute servers the same"
        if self.kind == "rack":  # racks differ: this one says nothing of the others
            also = f"{f'{self.alike:,} such' if self.alike > 1 else 'one'} of {self.of:,}"
        also = also and f" ({also})"
        lost = [f"{self.roles} cut off"] if self.roles else []
        lost += [self.networks] if self.off else []
        if self.apart:
            lost.append(f"{listed(self.apart, 1)} no longer reach one another")
        if self.beyond:
            lost.append(f"{plural(self.beyond, 'pair')} of {'other ' * bool(self.inside)}servers lost")
        if self.zones:
            lost.append(f"{percent(self.zones)} of the bandwidth between zones lost")
        if self.bandwidth:
            where, others = ("on a switch", "switches") if self.narrowed == "switch" else ("in a pod", "pods")
            lost.append(f"servers {where} lose {percent(self.bandwidth)} of their bandwidth to other {others}"
                        f"{'' if self.between_servers else ', none to one another'}")  # fmt: skip
        if self.ports:
            others = " of other servers" if self.inside else ""
            lost.append(f"{plural(self.ports, 'adapter port')}{others} without a link")
            of = {"a compute server": self.share} if self.share else {}
            of |= {self.other: self.share_other} if self.other else {}
            words = [f"{percent(share)} of {whose}'s" for whose, share in of.items()]
            lost += [f"{words[0]} bandwidth in {self.share_in or 'its network'}", *words[1:]] if words else []
        if self.reduced:
            lost.append(f"{plural(self.reduced, 'server')} at reduced performance")
        taken = f"takes {self.inside} with it" if self.inside else ""
        told = "; ".join(filter(None, (taken, ", ".join(lost)))) or "nothing lost once rerouted"
        return f"{self.kind} {self.name}{also}: {told}"


@dataclass(frozen=True)
class Losses(Shown):
    """The worst failure of each kind of part, of switches in each network.

    Also those that take most servers, most servers of one network, and most bandwidth, where these are others.
    """

    worst: tuple[Loss, ...]
    unknown: tuple[str, ...]
    """Kinds of failures whose effect is unknown, and why."""
    parted: bool = False
    """Whether some servers do not reach one another with nothing failed, such as storage and management ones."""

    def _brief(self) -> str:
        return str(self.largest or "no switch")

    @property
    def largest(self) -> Loss | None:
        """The worst failure of a switch; None without switches."""
        return self.worst_of("switch")

    def survived(self, kinds: Iterable[str]) -> tuple[Check, ...]:
        """Check that all servers run and reach one another after the failure of any one part of these kinds.

        A rack's own servers do not count: they fail with it.

        Parameters
        ----------
        kinds : iterable of str
            ``switch``, ``link``, ``rack`` or ``feed``.

        Examples
        --------
        >>> import topo
        >>> cluster = topo.preset("lab-20")
        >>> losses = topo.find_losses(cluster.fabrics, cluster.catalog)
        >>> [str(check.verdict) for check in losses.survived(["switch", "rack"])]
        ['exceeded', 'cannot tell']
        """
        checks = []
        for kind in kinds:
            what, worst = f"survives {kind}", self.worst_of(kind)
            if worst is None:
                why = next((words for words in self.unknown if kind in words.partition(":")[0]), f"there is no {kind}")
                checks.append(Check(what, Verdict.CANNOT_TELL, why, "survives"))
                continue
            verdict = Verdict.HOLDS if worst.survived else Verdict.EXCEEDED
            checks.append(Check(what, verdict, str(worst), "survives", worst.effect))
        return tuple(checks)

    def worst_of(self, kind: str) -> Loss | None:
        """The worst failure of a ``switch``, ``link``, ``rack`` or ``feed``; None where there is none."""
        mine = (loss for loss in self.worst if (loss.kind if loss.kind in APART else "switch") == kind)
        return max(mine, key=lambda loss: loss.weight, default=None)

    @property
    def table(self) -> Table:
        """The worst failures, a row for each kind of part; a column of what none takes is left out."""
        figures = [
            ("servers", "servers down or cut off"),
            ("beyond", "pairs lost"),
            ("apart", "separated groups"),
            ("off", "off a network"),
            ("reduced", "servers reduced"),
            ("ports", "adapter ports"),
            ("share", "of a compute server", "", "share"),
            ("share_other", "of another", "", "share"),
            ("zones", "between zones", "", "share"),
            ("bandwidth", "of a switch or pod", "", "share"),
        ]
        taken = [column for column in figures if any(getattr(row, column[0]) for row in self.worst)]
        return Table.of(
            "what one failure takes away",
            self.worst,
            (lambda row: f"{row.kind} {row.name}", "failure of"),
            ("alike", "same effect"),
            ("of", "total"),
            *((lambda row: len(row.apart), *words) if name == "apart" else (name, *words) for name, *words in taken),
        )


def find_losses(fabrics: Sequence[Fabric], catalog: Catalog, layout: Layout | None = None) -> Losses:
    """Return the worst failure of each kind of part, of switches in each network, each part failing alone.

    Parameters
    ----------
    fabrics : sequence of Fabric
        All subnets of the plan.
    catalog : Catalog
        Hardware of the plan.
    layout : Layout, optional
        Places of the devices, which the failures of racks and feeds need.

    Examples
    --------
    >>> import topo
    >>> cluster = topo.preset("direct-zones")
    >>> print(topo.find_losses(cluster.fabrics, cluster.catalog).largest)  # doctest: +ELLIPSIS
    leaf z0-leaf9 (each of 2): ..., 19,600 pairs of servers lost, 100.0% of the bandwidth between zones lost
    """
    reach = Reach(fabrics)
    found: dict[tuple[str, str], list[Loss]] = {}
    twins: dict[object, Loss] = {}
    alone: dict[tuple[int, int], int] = {}
    for kind, name, network, failed, twin in _switches(reach):
        loss = twins.get(twin) or lose(reach, failed)
        if twin is not None:
            twins[twin] = loss
        alone |= {(subnet, node): loss.beyond for subnet, nodes in failed.switches.items() for node in nodes}
        found.setdefault((kind, network), []).append(replace(loss, kind=kind, name=name, network=network))
    racks = {} if layout is None else list_parts("rack", reach, catalog=catalog, layout=layout)
    for name, failed in racks.items():
        loss = lose(reach, failed, "rack", name)
        apart = sum(alone[subnet, node] for subnet, nodes in failed.switches.items() for node in nodes)
        found.setdefault(("rack", ""), []).append(replace(loss, together=max(loss.beyond - apart, 0)))
    parting = {loss.name for losses in found.values() for loss in losses if loss.apart}
    total = sum(len(fabric.links) for fabric in fabrics)
    links = [lose(reach, failed, "link", name, network) for name, network, failed in _links(reach, parting)]
    worst = _alike(row for losses in found.values() for row in _rows(losses))
    gathered = max(found.get(("rack", ""), ()), key=lambda loss: (loss.together, loss.weight), default=None)
    if gathered and gathered.together and not any(gathered.weight == loss.weight for loss in worst):
        worst.append(replace(gathered, of=len(racks)))
    worst += [replace(_worst(links, total), alike=1, alike_compute=1)] if links else []
    unknown = ["rack, feed: the spec has no floor"] if layout is None else []
    if layout is not None:
        try:
            feeds = list_parts("feed", reach, catalog=catalog, layout=layout)
            slow = [one.name for one in layout.devices if one.name in reach.servers
                    and catalog.node(one.model).runs_on_one_feed == "reduced"]  # fmt: skip
            worst += [replace(lose(reach, failed, "feed", name), reduced=len(slow)) for name, failed in feeds.items()]
        except HeddleError as why:
            unknown.append(str(why))
    servers = len(reach.names)
    return Losses(tuple(worst), tuple(unknown), reach.whole.pairs < servers * (servers - 1) // 2)


def find_parting_switch(reach: Reach) -> str:
    """Return a switch whose failure separates servers, other than those with no adapter elsewhere; "" for none."""
    adapters = sum(np.bincount(plugs[:, 0], minlength=len(reach.names)) for plugs in reach.plugs)
    for subnet, (cuts, plugs) in enumerate(zip(reach.cuts, reach.plugs, strict=True)):
        # A switch that leads to no other part can part servers whose other adapters have nothing in common.
        alike = {taken: switch for switch, taken in enumerate(reach.around(subnet))}
        for switch in sorted(cuts.union(alike.values())):
            left = reach.without(Failed(switches={subnet: (switch,)}))
            here = np.bincount(plugs[plugs[:, 1] == switch, 0], minlength=len(reach.names))
            if left.pairs < reach.between((here == adapters) & (here > 0)):
                return reach.fabrics[subnet].label(switch)
    return ""


def lose(reach: Reach, failed: Failed, kind: str = "", name: str = "", network: str = "") -> Loss:
    """Return the effect of the failure of some parts."""
    left = reach.without(failed)
    parted = left.pairs < reach.whole.pairs and left.pairs < reach.between(left.alone)
    stopped = np.array([name in failed.servers for name in reach.names], bool)
    cut = (left.alone & ~reach.whole.alone) | stopped
    had, has = reach.whole.gbps, left.gbps
    off = ((had > 0) & (has == 0) & ~cut[:, None]).sum(axis=0)
    rest = np.divide(has, had, out=np.ones_like(had), where=has > 0)
    share, computes = 1.0 - rest.min(axis=1, initial=1.0), reach.roles == Role.COMPUTE
    share_compute, share_other = float(share[computes].max(initial=0.0)), float(share[~computes].max(initial=0.0))
    share_in = rest[computes].min(axis=0, initial=1.0).argmin() if share_compute else 0
    all_had, all_has = had[computes].sum(axis=1), has[computes].sum(axis=1)
    bandwidth, narrowed, between_servers = reach.bandwidth_lost(failed)
    inside = stopped & (kind == "rack")
    before = reach.without(Failed(servers=failed.servers)) if inside.any() else reach.whole  # a rack takes its own
    by_zone = list(zip(reach.zones_gbps(failed), reach.whole_zones_gbps, strict=True))
    zones = max((1 - now / once for now, once in by_zone if once), default=0.0) if by_zone else None
    return Loss(
        kind=kind,
        name=name,
        network=network,
        cut=reach.named(cut),
        servers=int(cut.sum()),
        roles=reach.by_role(cut & ~inside) if (cut & ~inside).any() else "",
        inside=reach.by_role(inside) if inside.any() else "",
        pairs=reach.whole.pairs - left.pairs,
        beyond=before.pairs - left.pairs,
        apart=tuple(reach.parted(left)) if parted else (),
        off=int(off.max(initial=0)),
        networks=", ".join(
            f"{lost:,} of {plural(int(of), 'server')} off {network}"
            for network, lost, of in zip(reach.networks, off.tolist(), (had > 0).sum(axis=0), strict=True)
            if lost
        ),
        ports=before.ports - left.ports,
        gbps=float((had - has).sum()),
        gbps_compute=float((all_had - all_has).sum()),
        share_of_all=float(1.0 - (all_has[all_has > 0] / all_had[all_has > 0]).min(initial=1.0)),
        share=share_compute,
        share_in=reach.networks[share_in] if share_compute else "",
        share_other=share_other,
        other=reach.names[int(np.where(computes, 0.0, share).argmax())] if share_other > share_compute else "",
        zones=zones,
        bandwidth=bandwidth,
        narrowed=narrowed,
        between_servers=between_servers,
    )


def _worst(losses: Sequence[Loss], of: int) -> Loss:
    worst = max(losses, key=lambda loss: loss.weight)
    alike = sum(loss.weighed == worst.weighed for loss in losses)
    # The sort key up to Gb/s of compute servers.
    compute = sum((loss.weight[:-2], loss.roles) == (worst.weight[:-2], worst.roles) for loss in losses)
    return replace(worst, alike=alike, alike_compute=compute, of=of)


def _rows(losses: Sequence[Loss]) -> list[Loss]:
    """Return the worst, and those that take most servers, most servers of a network, and most bandwidth."""
    rows = [_worst(losses, len(losses))]
    for key in ("servers", "off", "zones", "bandwidth"):
        most = max(losses, key=lambda loss: (getattr(loss, key) or 0, loss.weight))
        if (getattr(most, key) or 0) > max(getattr(row, key) or 0 for row in rows):
            rows.append(_worst([loss for loss in losses if getattr(loss, key) == getattr(most, key)], len(losses)))
    return rows


def _alike(worst: Iterable[Loss]) -> list[Loss]:
    """Return the worst of each kind and network, those of one kind that lose the same in one: planes are many."""
    found: dict[tuple[object, ...], Loss] = {}
    for loss in worst:
        alike = (loss.kind, *loss.weighed)
        first = found.get(alike)
        found[alike] = loss if first is None else replace(
            first, alike=first.alike + loss.alike, alike_compute=first.alike_compute + loss.alike_compute,
            of=first.of + loss.of)  # fmt: skip
    return list(found.values())


def _switches(reach: Reach) -> Iterator[tuple[str, str, str, Failed, object]]:
    """Yield every switch, and what it has in common with those of its network whose failure takes the same.

    A switch that leads to no other part of the network takes only what hangs on it, and bandwidth of its neighbours.
    Where there are zones, or it leads to other parts, those are alike that have no servers and links of the same rates
    to the same switches.
    """
    zones = bool(reach.whole_zones_gbps)
    for subnet, (fabric, plugs) in enumerate(zip(reach.fabrics, reach.plugs, strict=True)):
        holds = np.bincount(plugs[:, 1], minlength=fabric.n_switches)
        for node, around in enumerate(reach.around(subnet)):
            kind = Role(int(fabric.role[node])).name.lower()
            twin: tuple[object, ...] | None = None
            if not zones and node not in reach.cuts[subnet]:
                twin = (subnet, kind, around)
            elif not holds[node]:
                ports = fabric.ports_of(node)
                far, rate = fabric.peer_node[ports], fabric.rate_gbps[ports]
                order = np.lexsort((rate, far))
                twin = (subnet, far[order].tobytes(), rate[order][far[order] >= 0].tobytes())
            yield kind, fabric.label(node), fabric.name, Failed(switches={subnet: (node,)}), twin


def _links(reach: Reach, parting: set[str]) -> Iterator[tuple[str, str, Failed]]:
    """Yield the links whose failure can take the most.

    Those are one of each kind of server, one of each pair of switches of which one parts servers when it fails or leads
    to a single other, and one of each pair of switches in different zones.
    """
    ports = np.bincount(np.concatenate([plugs[:, 0] for plugs in reach.plugs]), minlength=len(reach.names))
    for subnet, (fabric, plugs) in enumerate(zip(reach.fabrics, reach.plugs, strict=True)):
        alike = np.stack([ports[plugs[:, 0]], reach.kind[plugs[:, 0]], fabric.zone[plugs[:, 1]]])
        first = np.sort(np.unique(alike, axis=1, return_index=True)[1])
        kinds: dict[tuple[int, int], int] = {(-1, link): link for link in plugs[first, 2].tolist()}
        at = fabric.port_node[fabric.links]
        inner = np.flatnonzero(fabric.is_inner_link)
        joins: dict[tuple[int, int], int] = {}
        for link, a, b in zip(inner.tolist(), *at[inner].T.tolist(), strict=True):
            joins.setdefault((a, b), link)
        degree = np.bincount(np.array(list(joins), np.int64).ravel(), minlength=fabric.n_switches)
        for (a, b), link in joins.items():
            narrow = degree[a] == 1 or degree[b] == 1 or fabric.label(a) in parting or fabric.label(b) in parting
            if narrow or fabric.zone[a] != fabric.zone[b]:
                kinds[a, b] = link
        for link in kinds.values():
            yield fabric.channel_label(int(fabric.links[link, 0])), fabric.name, Failed(links={subnet: (link,)})
