"""End ports, switches and links by the names that people and other programs give them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from routing.routed import Routed
from routing.trace import end_label
from topo.errors import HeddleError, did_you_mean
from topo.fabric import Fabric, Kind
from topo.hostlist import runs

LISTED = 4
"""Candidates that a message lists."""


def find_end(routed: Routed, text: str) -> int:
    """Return the end port that has a name, a LID or a GUID.

    Parameters
    ----------
    routed : Routed
    text : str
        ``gpu0001 mlx5_0:1``, or the name of an adapter, a server or a switch that has one end port with a LID; a LID
        (``193``, ``0xc1``); the GUID of a port or node (``0x`` and 16 digits).

    Raises
    ------
    HeddleError
        When there is none, or there are several.

    Examples
    --------
    >>> import topo, routing
    >>> routed = routing.route(topo.preset("lab-20").fabric)
    >>> routing.end_label(routed.fabric, routing.find_end(routed, "gpu07"))
    'gpu07 mlx5_0:1'
    """
    return EndNames.of(routed).find(text)


@dataclass(frozen=True)
class EndNames:
    """The end ports of a routed fabric that have a LID, by every name."""

    routed: Routed
    ends: dict[str, list[int]]
    """By name of the end port, its node and its server."""
    guids: dict[int, list[int]]
    """By GUID of the port and its node."""
    lids: dict[int, list[int]]

    @classmethod
    def of(cls, routed: Routed) -> EndNames:
        """Collect the names."""
        fabric, lid = Routed.given(routed).fabric, routed.tables.lid
        found = cls(routed, {}, {}, {})
        for end in np.flatnonzero(lid).tolist():
            node = int(fabric.end_node[end])
            names = {end_label(fabric, end), fabric.label(node), fabric.names[node]}
            names |= {fabric.hosts[fabric.host[node]]} if fabric.host[node] >= 0 else set()
            for name in names:
                found.ends.setdefault(name, []).append(end)
            for guid in {int(fabric.end_guid[end]), int(fabric.node_guid[node])}:
                found.guids.setdefault(guid, []).append(end)
        for end, each in zip(*(part.tolist() for part in routed.tables.lids_of(np.flatnonzero(lid))), strict=True):
            found.lids.setdefault(each, []).append(end)
        return found

    def find(self, text: str) -> int:
        """Return one end port, as `find_end` does."""
        wanted = text.strip()
        number = _number(wanted)
        found = self.ends.get(wanted, [])
        if not found and number is not None:
            found = (self.guids if len(wanted) > 6 else self.lids).get(number, [])
        if not found:
            hint = did_you_mean(wanted, self.ends)
            raise HeddleError(f"found no end port {text!r}; expected a name, a LID or a GUID. {hint}".strip())
        fabric, lid = self.routed.fabric, self.routed.tables.lid
        labels = [f"{end_label(fabric, end)} (LID {lid[end]})" for end in found]
        return _only(text, "end port", np.array(found), labels)


def find_switch(fabric: Fabric, text: str) -> int:
    """Return the switch that has a name or a GUID.

    Raises
    ------
    HeddleError
        When there is none, or there are several.

    Examples
    --------
    >>> import topo, routing
    >>> routing.find_switch(topo.preset("lab-20").fabric, "leaf1")
    1
    """
    found = _nodes(fabric, text)
    found = found[fabric.kind[found] == Kind.SWITCH]
    if not len(found):
        hint = did_you_mean(text, (fabric.label(switch) for switch in range(fabric.n_switches)))
        raise HeddleError(f"found no switch {text!r}; expected its name or GUID. {hint}".strip())
    return _only(text, "switch", found, _guids(fabric, found))


def find_link(fabric: Fabric, text: str) -> int:
    """Return the port that a link is named by: ``leaf01:21``, ``leaf01:21 -> spine01:1``, or a GUID before the colon.

    Raises
    ------
    HeddleError
        When there is no such port, no cable in it, or one that leads elsewhere.

    Examples
    --------
    >>> import topo, routing
    >>> fabric = topo.preset("lab-20").fabric
    >>> fabric.channel_label(routing.find_link(fabric, "leaf0:21"))
    'leaf0:21 -> spine0:1'
    """
    near, _, far = (part.strip() for part in text.partition("->"))
    name, _, number = near.rpartition(":")
    found = _nodes(fabric, name)
    if not re.fullmatch(r"[0-9]{1,9}", number) or not len(found):
        hint = did_you_mean(name, (fabric.label(node) for node in range(fabric.n_nodes)))
        raise HeddleError(f"found no link {text!r}; expected a node and a port, as in leaf01:21. {hint}".strip())
    node = _only(name, "node", found, _guids(fabric, found))
    last = int(fabric.port_offset[node + 1] - fabric.port_offset[node])
    if not 1 <= int(number) <= last:
        raise HeddleError(f"found the port {near}; {fabric.label(node)} has ports 1 to {last}")
    port = fabric.port_id(node, int(number))
    if fabric.peer[port] < 0:
        first = fabric.port_id(node, 1)
        plugged = [other for other in range(1, last + 1) if fabric.peer[first + other - 1] >= 0]
        ports = ", ".join(str(a) if a == b else f"{a} to {b}" for a, b in runs(plugged)) or "none"
        raise HeddleError(f"no cable is plugged into {near}; ports of {fabric.label(node)} with a cable: {ports}")
    if far and far != (there := fabric.port_label(int(fabric.peer[port]))):
        raise HeddleError(f"found the link {text!r}; the cable in {near} leads to {there}")
    return port


def find_part(fabric: Fabric, text: str) -> tuple[NDArray[np.int32], str]:
    """Return the ports that hold the cables of a switch, of a host or its adapter, or one port of a link; and its name.

    Raises
    ------
    HeddleError
        When there is no such part.

    Examples
    --------
    >>> import topo, routing
    >>> fabric = topo.preset("lab-20").fabric
    >>> ports, name = routing.find_part(fabric, "spine0")
    >>> len(ports), name, routing.find_part(fabric, "gpu07")[1]
    (20, 'spine0', 'gpu07')
    """
    if text in fabric.hosts:
        nodes, name = np.flatnonzero(fabric.host == fabric.hosts.index(text)), text
    else:
        nodes = _nodes(fabric, text)
        if not len(nodes):
            try:
                port = find_link(fabric, text)
            except HeddleError as no_link:
                if ":" in text:
                    raise
                hint = did_you_mean(text, [*(fabric.label(node) for node in range(fabric.n_nodes)), *fabric.hosts])
                raise HeddleError(f"found no switch, link or host {text!r}. {hint}".strip()) from no_link
            return np.array([port], np.int32), fabric.channel_label(port).replace("->", "-")
        name = fabric.label(_only(text, "node", nodes, _guids(fabric, nodes)))
    ports = np.flatnonzero(np.isin(fabric.port_node, nodes) & (fabric.peer >= 0))
    return ports.astype(np.int32), name


def _number(text: str) -> int | None:
    """Return a decimal number, or one in hexadecimal digits after ``0x``; None if it is neither."""
    if re.fullmatch(r"[0-9]{1,5}", text):
        return int(text)
    return int(text, 16) if re.fullmatch(r"0[xX][0-9a-fA-F]{1,16}", text) else None


def _nodes(fabric: Fabric, text: str) -> NDArray[np.intp]:
    """Return the nodes that have a label, a description or a GUID."""
    guid = _number(text)
    if guid is not None and len(text) > 6:
        return np.flatnonzero(fabric.node_guid == guid)
    named = np.array([text in (fabric.label(node), fabric.names[node]) for node in range(fabric.n_nodes)], bool)
    return np.flatnonzero(named)


def _guids(fabric: Fabric, nodes: NDArray[np.intp]) -> list[str]:
    return [f"0x{guid:016x}" for guid in fabric.node_guid[nodes].tolist()]


def _only(text: str, what: str, found: NDArray[np.integer], names: Iterable[str]) -> int:
    """Return the one that was found."""
    if len(found) == 1:
        return int(found[0])
    if not len(found):
        raise HeddleError(f"found no {what} {text!r}")
    listed = list(names)
    more = f" and {len(listed) - LISTED:,} more" if len(listed) > LISTED else ""
    raise HeddleError(f"{text!r} is the name of {len(found):,}; name one: {', '.join(listed[:LISTED])}{more}")
