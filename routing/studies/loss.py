"""Loss study: who uses a link, and what is lost without a switch or a link."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from routing.engines.base import route
from routing.names import end_label, find_ends, find_link, find_part, find_ports
from routing.proof import Proof, prove, role_name
from routing.quality.figures import Quality, measure
from routing.routed import Routed
from routing.tables import MAX_DATA_VLS, EndpointSet, select_endpoints, tree_order, walk
from topo.errors import RoutingError, plural
from topo.fabric import Fabric, Frozen, Role
from topo.graphs import rows_of
from topo.table import Shown, Table

BLOCK = 1 << 20
"""Packets that are walked at a time."""

Endpoints = EndpointSet | Sequence[int | str] | NDArray[np.integer]

MOST_PAIRS = 100_000_000
"""Pairs that are listed; 8 bytes each."""

BY_ROLE = ("from", "to", "pairs")
"""Columns of a table of pairs by role."""
LOST_PAIRS = "pairs of end ports with a cable left that the tables of today lose, each direction one"


@dataclass(frozen=True, eq=False)
class LinkUse(Frozen, Shown):
    """Who uses a link: the pairs whose path goes over it."""

    fabric: Fabric
    port: int
    """The link, by one of its ports."""
    forth: NDArray[np.int32]
    """(n, 2) source and destination of the pairs over the channel that this port sends on."""
    back: NDArray[np.int32]
    """(m, 2) the same of the other direction."""

    def _directions(self) -> list[tuple[str, NDArray[np.int32]]]:
        ports = self.port, int(self.fabric.peer[self.port])
        return list(zip(map(self.fabric.channel_label, ports), (self.forth, self.back), strict=True))

    @property
    def table(self) -> Table:
        """Pairs over each direction, by role of source and destination."""
        rows = [(name, *row) for name, pairs in self._directions() for row in _counts(self.fabric, pairs)]
        return Table.of_rows("pairs over the link", ("channel", *BY_ROLE), rows)

    @property
    def pair_table(self) -> Table:
        """Every pair."""
        rows = [(name, *pair) for name, pairs in self._directions() for pair in _labels(self.fabric, pairs)]
        return Table.of_rows("who uses the link", ("channel", "source", "destination"), rows)

    def _shown(self) -> tuple[Table, ...]:
        return self.table, self.pair_table

    def _brief(self) -> str:
        (there, forth), (_, back) = self._directions()
        return f"{there}: {plural(len(forth), 'pair')}, {len(back):,} the other way"

    def to_dict(self) -> dict[str, Any]:
        """Return all pairs as plain values, ready for JSON."""
        fabric = self.fabric
        return {
            "link": fabric.channel_label(self.port),
            "directions": [
                {"channel": name, "count": len(pairs), "by_role": _by_role(fabric, pairs)}
                | {"pairs": _labels(fabric, pairs)}
                for name, pairs in self._directions()
            ],
        }


@dataclass(frozen=True, eq=False)
class LossStudy(Frozen, Shown):
    """The loss of one switch, link or host: with the present tables, and routed anew."""

    fabric: Fabric
    """The whole fabric."""
    part: str
    """Name of the lost part."""
    lost: NDArray[np.int32]
    """(n, 2) source and destination of the pairs that the tables deliver, and no longer without it."""
    cut: NDArray[np.int32]
    """End ports, of those whose pairs count, that have no cable left."""
    whole: tuple[Proof, Quality]
    """Of the tables on the whole fabric, between the other end ports, as what follows."""
    static: tuple[Proof, Quality]
    """Of the same tables on what is left."""
    rerouted: tuple[Proof, Quality]
    """Of new tables for what is left."""
    engine: str
    """Engine of the new tables."""

    @property
    def _of_others(self) -> NDArray[np.int32]:
        """(m, 2) lost pairs of which both end ports have a cable left."""
        return self.lost[~np.isin(self.lost, self.cut).any(axis=1)]

    @property
    def apart(self) -> int:
        """Pairs of the others that no tables deliver any longer, since no cables connect them."""
        return self.rerouted[0].disconnected - self.whole[0].disconnected

    @property
    def lost_for_good(self) -> int:
        """Pairs that no tables deliver any longer: those of end ports without a cable left, and `apart`."""
        return len(self.lost) - len(self._of_others) + self.apart

    @property
    def servers(self) -> tuple[int, int]:
        """Servers with an end port that has no cable left, and how many of them have none left in this fabric."""
        fabric = self.fabric
        ends = fabric.ends()
        plugged = ends[fabric.end_switch[ends] >= 0]
        of = fabric.host[fabric.end_node[plugged]]
        hit = np.unique(fabric.host[fabric.end_node[self.cut]])
        hit = hit[hit >= 0]
        return len(hit), len(np.setdiff1d(hit, of[~np.isin(plugged, self.cut)]))

    @property
    def text(self) -> str:
        """What the part takes away: end ports, servers, and pairs of the others until they are rerouted and after."""
        (hit, off), others = self.servers, len(self.whole[0].ends)
        said = f"between {'the other ' * bool(len(self.cut))}{plural(others, 'end port')}, "
        said += f"{plural(len(self._of_others), 'pair')} (each direction one) "
        said += f"are lost until they are rerouted, {self.apart:,} stay disconnected"
        if not len(self.cut):
            return said
        whose = f", on {plural(hit, 'server')}, {f'{off:,}' if off else 'none'} of which {'are' if off > 1 else 'is'} "
        whose = f"{whose}cut off" if hit else ""
        return f"{plural(len(self.cut), 'end port')} without a cable{whose}; {said}"

    @property
    def table(self) -> Table:
        """Missing pairs, fullest link and effective bisection in each state, between end ports that keep a cable."""
        rows = self._rows()
        digits = [".3f" if name == "effective_bisection" else "" for name in rows[0]]
        names = [name.replace("_", " ") for name in rows[0]]
        title = f"without {self.part}, between the {plural(len(self.whole[0].ends), 'end port')} with a cable left"
        return Table.of_rows(title, names, [tuple(row.values()) for row in rows], digits)

    @property
    def lost_table(self) -> Table:
        """Lost pairs of end ports that keep a cable, by role."""
        return Table.of_rows(LOST_PAIRS, BY_ROLE, _counts(self.fabric, self._of_others))

    @property
    def pair_table(self) -> Table:
        """Every such pair."""
        return Table.of_rows(LOST_PAIRS, ("source", "destination"), _labels(self.fabric, self._of_others))

    def _rows(self) -> list[dict[str, Any]]:
        names = ("as it is", "without it", f"without it, routed anew by {self.engine}")
        return [
            {
                "tables": name,
                "missing": proof.missing,
                "no_cables": proof.disconnected,
                "credit_loops": proof.credit_loops,
                "fullest_link": int(proof.load[self.fabric.is_inner].max(initial=0)),
                "effective_bisection": quality.ebb,
            }
            for name, (proof, quality) in zip(names, (self.whole, self.static, self.rerouted), strict=True)
        ]

    def _shown(self) -> tuple[Table, ...]:
        return self.table, self.lost_table, self.pair_table

    def _brief(self) -> str:
        return f"without {self.part}: {plural(len(self.lost), 'pair')} lost by the tables of today"

    def to_dict(self) -> dict[str, Any]:
        """Return the figures and all lost pairs as plain values, ready for JSON."""
        return {
            "without": self.part,
            "states": self._rows(),
            "lost": len(self.lost),
            "lost_for_good": self.lost_for_good,
            "end_ports_cut": len(self.cut),
            "servers_cut_off": self.servers[1],
            "by_role": _by_role(self.fabric, self.lost),
            "pairs": _labels(self.fabric, self.lost),
        }


def link_use(routed: Routed, link: int | str, endpoints: Endpoints = "hca") -> LinkUse:
    """Say who uses a link.

    Parameters
    ----------
    routed : Routed
    link : int or str
        One of its ports, by index or by name as `find_link` takes it.
    endpoints : str or (n,) int or str
        Whose pairs are looked at, as `routing.prove` takes them.

    Returns
    -------
    LinkUse
        Of pairs that arrive.

    Raises
    ------
    HeddleError
        When there is no such link.

    Examples
    --------
    >>> import topo, routing
    >>> use = routing.studies.link_use(routing.route(topo.preset("lab-20").fabric), "leaf0:21")
    >>> len(use.forth), len(use.back)
    (11, 11)
    """
    port = find_link(Routed.given(routed).fabric, link)
    far = int(routed.fabric.peer[port])
    forth, back = (pairs_over(routed, np.array([channel], np.int32), endpoints) for channel in (port, far))
    return LinkUse(routed.fabric, port, forth, back)


def study_loss(routed: Routed, *parts: int | str, endpoints: EndpointSet = "hca") -> LossStudy:
    """Study the loss of a switch, link or host, or of several at once: which pairs are lost, and how the others fare.

    Parameters
    ----------
    routed : Routed
    *parts : int or str
        Switches, links and hosts, as `find_part` takes them.
    endpoints : str
        Whose pairs count, as `routing.prove` takes it.

    Raises
    ------
    HeddleError
        When there is no such part, or no engine routes the rest.

    Examples
    --------
    >>> import topo, routing
    >>> study = routing.studies.study_loss(routing.route(topo.preset("lab-20").fabric), "spine0")
    >>> len(study.lost), study.rerouted[0].missing
    (132, 0)
    """
    fabric = Routed.given(routed).fabric
    found = [find_part(fabric, part) for part in parts]
    ports, name = np.unique(np.concatenate([own for own, _ in found])), " and ".join(name for _, name in found)
    left = fabric.without(ports)
    again = route(left, "auto", lmc=0)  # to be judged, not to be loaded
    ends = tree_order(fabric, select_endpoints(fabric, routed.tables, endpoints))
    pairs = pairs_over(routed, np.concatenate([ports, fabric.peer[ports]]), endpoints)

    def judged(one: Routed) -> tuple[Proof, Quality]:
        return prove(one, ends), measure(one, ends)

    static = Routed(left, routed.tables)
    gone = (left.end_switch[ends] < 0) & (fabric.end_switch[ends] >= 0)
    cut, ends = ends[gone].astype(np.int32), ends[~gone]
    return LossStudy(fabric, name, pairs, cut, judged(routed), judged(static), judged(again), again.tables.engine)


def pairs_over(
    routed: Routed,
    channels: int | str | Sequence[int | str] | NDArray[np.integer],
    endpoints: Endpoints = "hca",
) -> NDArray[np.int32]:
    """Return the pairs that arrive and whose path, to any LID of the destination, goes over any of some channels.

    Parameters
    ----------
    routed : Routed
    channels : (k,) int or str
        By sending port, as `find_ports` takes them: the name of a switch stands for all channels that it sends on.
    endpoints : str or (n,) int or str
        As `routing.prove` takes them.

    Returns
    -------
    (n, 2) int32
        Source and destination, ordered by destination.

    Raises
    ------
    HeddleError
        When there is no such port or end port, or the pairs are too many to list.

    Examples
    --------
    >>> import topo, routing
    >>> routed = routing.route(topo.preset("lab-20").fabric)
    >>> len(routing.studies.pairs_over(routed, routed.fabric.inner)), routing.prove(routed).hops.tolist()
    (242, [0, 220, 0, 242])
    """
    fabric, tables = Routed.given(routed).fabric, routed.tables
    ends, channels = find_ends(routed, endpoints), find_ports(fabric, channels)
    if tables.lmc:
        each = (replace(routed, tables=tables.only(number)) for number in range(1 << tables.lmc))
        return np.unique(np.concatenate([pairs_over(one, channels, ends)[:, ::-1] for one in each]), axis=0)[:, ::-1]
    over = np.zeros(fabric.n_ports, bool)
    over[channels] = True
    senders = ends[fabric.end_switch[ends] >= 0]
    senders = senders[np.argsort(fabric.end_switch[senders], kind="stable")]
    switches, first, attached = np.unique(fabric.end_switch[senders], return_index=True, return_counts=True)
    dests = senders[tables.lid[senders] < tables.lft.shape[1]]
    own = fabric.port_of(senders)
    injects = (own >= 0) & over[own]
    if not injects.any():  # then only destinations count that an entry of the channels' switches sends there
        at = np.flatnonzero(over[: fabric.first_adapter_port])
        entries = tables.lft[fabric.port_node[at][:, None], tables.lid[dests][None, :].astype(np.int64)]
        dests = dests[(entries == fabric.port_number[at][:, None]).any(axis=0)]
    lanes = np.array([*tables.sl2vl, *[MAX_DATA_VLS] * 240])
    found = [np.zeros((0, 2), np.int32)]
    total = 0
    size = max(1, BLOCK // max(len(switches), 1))
    for start in range(0, len(dests), size):
        block = dests[start : start + size]
        to, group = (axis.ravel() for axis in np.meshgrid(block, np.arange(len(switches)), indexing="ij"))
        level = np.int64(0) if tables.path_sl is None else tables.path_sl[switches[group], tables.lid[to]]
        passes = np.zeros(len(to), bool)

        def visit(packet: NDArray[np.intp], port: NDArray[np.integer], passes: NDArray[np.bool_] = passes) -> None:
            passes[packet[over[port]]] = True

        arrives = walk(fabric, tables.lft, switches[group], to, tables.lid[to], visit) & (lanes[level] < MAX_DATA_VLS)
        # All senders of a switch whose paths pass; of the others those whose own channel is looked at.
        kept = arrives & (passes | np.logical_or.reduceat(injects, first)[group])
        to, group, passes = to[kept], group[kept], passes[kept]
        total += int(attached[group].sum())
        if total > MOST_PAIRS:
            raise RoutingError(f"more than {MOST_PAIRS:,} pairs go over it, too many to list")
        count, member = rows_of(np.append(first, len(senders)), group)
        row = np.repeat(np.arange(len(to)), count)
        wanted = (passes[row] | injects[member]) & (senders[member] != to[row])
        found.append(np.stack([senders[member[wanted]], to[row[wanted]]], axis=1).astype(np.int32))
    return np.concatenate(found)


def _counts(fabric: Fabric, pairs: NDArray[np.int32]) -> list[tuple[str, str, int]]:
    """Return how many pairs there are, and how many from each role to each."""
    roles = fabric.role[fabric.end_node[pairs]]
    kinds, counts = np.unique(roles, axis=0, return_counts=True)
    names = [[role_name(Role(role)) for role in kind] for kind in kinds.tolist()]
    each = ((near, far, count) for (near, far), count in zip(names, counts.tolist(), strict=True))
    return [("all", "all", len(pairs)), *each]


def _by_role(fabric: Fabric, pairs: NDArray[np.int32]) -> list[dict[str, str | int]]:
    """Return the same but for the sum, as plain values."""
    return [dict(zip(BY_ROLE, row, strict=True)) for row in _counts(fabric, pairs)[1:]]


def _labels(fabric: Fabric, pairs: NDArray[np.int32]) -> list[list[str]]:
    return [[end_label(fabric, end) for end in pair] for pair in pairs.tolist()]
