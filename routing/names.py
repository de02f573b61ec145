"""End ports, switches and links by the names that people and other programs give them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from routing.routed import Routed
from routing.tables import EndpointSet, select_endpoints
from topo.errors import HeddleError, did_you_mean
from topo.fabric import Fabric, Kind, frozen
from topo.hostlist import runs

LISTED = 4
"""Candidates that a message lists."""


def end_label(fabric: Fabric, end: int) -> str:
    """Name of an end port for messages: ``gpu0001 mlx5_0:1``, or ``leaf01:0`` for a switch's own.

    Examples
    --------
    >>> import topo, routing
    >>> fabric = topo.preset("lab-20").fabric
    >>> routing.end_label(fabric, 0), routing.end_label(fabric, int(fabric.ends()[0]))
    ('leaf0:0', 'gpu00 mlx5_0:1')
    """
    if _check_index(end, fabric.n_end_ports, "end port", fabric) < fabric.n_switches:
        return f"{fabric.label(end)}:0"
    return fabric.port_label(fabric.first_adapter_port + end - fabric.n_switches)


def find_end(routed: Routed, end: int | str) -> int:
    """Return the index of an end port.

    Parameters
    ----------
    routed : Routed
    end : int or str
        Its index; or a name: ``gpu0001 mlx5_0:1``, or that of an adapter, a server or a switch that has one end port; a
        LID as text (``193``, ``0xc1``); the GUID of a port or node (``0x`` and 16 digits). Of several end ports of one
        name, those without a LID do not count.

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
    fabric = Routed.given(routed).fabric
    if isinstance(end, str):
        return EndNames.of(routed).find(end)
    return _check_index(end, fabric.n_end_ports, "end port", fabric)


def find_ends(
    fabric: Fabric | Routed, ends: EndpointSet | Sequence[int | str] | NDArray[np.integer]
) -> NDArray[np.int32]:
    """Return (n,) int32 the end ports of a set, or end ports that are given one by one, as `find_end` takes each.

    It raises HeddleError when there is no such set, or no such end port.

    Examples
    --------
    >>> import topo, routing
    >>> routed = routing.route(topo.preset("lab-20").fabric)
    >>> find_ends(routed, ["gpu00", "gpu01", 6])
    array([4, 5, 6], dtype=int32)
    """
    if isinstance(ends, str):
        if not isinstance(fabric, Routed):
            raise HeddleError(f"found the set of end ports {ends!r} for a fabric without tables; expected end ports")
        return select_endpoints(fabric.fabric, fabric.tables, cast(EndpointSet, ends))
    of = fabric.fabric if isinstance(fabric, Routed) else Fabric.given(fabric)
    if not isinstance(ends, np.ndarray):
        names = EndNames.of(fabric) if any(isinstance(end, str) for end in ends) else None
        ends = np.array([names.find(end) if names and isinstance(end, str) else end for end in ends])
    return frozen(_check_indices(ends, of.n_end_ports, "end port", of).astype(np.int32))


@dataclass(frozen=True)
class EndNames:
    """The end ports of a fabric by every name: those that have a LID where any of that name has one."""

    fabric: Fabric
    lid: NDArray[np.uint16]
    """(E,) lowest LID of each; 0 for none."""
    ends: dict[str, list[int]]
    """By name of the end port, its node and its server."""
    guids: dict[int, list[int]]
    """By GUID of the port and its node."""
    lids: dict[int, list[int]]

    @classmethod
    def of(cls, fabric: Fabric | Routed) -> EndNames:
        """Collect the names."""
        tables = fabric.tables if isinstance(fabric, Routed) else None
        fabric = fabric.fabric if isinstance(fabric, Routed) else Fabric.given(fabric)
        lid = np.zeros(fabric.n_end_ports, np.uint16) if tables is None else tables.lid
        found = cls(fabric, lid, {}, {}, {})
        for end in range(fabric.n_end_ports):
            node = int(fabric.end_node[end])
            names = {end_label(fabric, end), fabric.label(node), fabric.names[node]}
            names |= {fabric.hosts[fabric.host[node]]} if fabric.host[node] >= 0 else set()
            for name in names:
                found.ends.setdefault(name, []).append(end)
            for guid in {int(fabric.end_guid[end]), int(fabric.node_guid[node])}:
                found.guids.setdefault(guid, []).append(end)
        if tables is not None:
            for end, each in zip(*(part.tolist() for part in tables.lids_of(np.flatnonzero(lid))), strict=True):
                found.lids.setdefault(each, []).append(end)
        return found

    def find(self, text: str) -> int:
        """Return one end port, as `find_end` does."""
        wanted = text.strip()
        number = _number(wanted)
        found = self.ends.get(wanted, [])
        if not found and number is not None:
            found = (self.guids if len(wanted) > 6 else self.lids).get(number, [])
        found = [end for end in found if self.lid[end]] or found
        if not found:
            hint = did_you_mean(wanted, self.ends)
            raise HeddleError(f"found no end port {text!r}; expected a name, a LID or a GUID. {hint}".strip())
        labels = [f"{end_label(self.fabric, end)} (LID {self.lid[end] or 'none'})" for end in found]
        return _only(text, "end port", np.array(found), labels)


def _check_index(index: int, count: int, what: str, fabric: Fabric) -> int:
    """Return an index that exists, from 0 to ``count`` - 1; raise HeddleError for any other."""
    if isinstance(index, int) and 0 <= index < count:  # messages name many ports
        return index
    return int(_check_indices(np.array([index]), count, what, fabric)[0])


def _check_indices(indices: NDArray[np.integer], count: int, what: str, fabric: Fabric) -> NDArray[np.integer]:
    if indices.ndim != 1 or (indices.dtype.kind not in "iu" and len(indices)):
        raise HeddleError(f"found {indices!r}; expected the names or indices of {what}s, (n,) whole numbers")
    wrong = indices[(indices < 0) | (indices >= count)]
    if len(wrong):
        has = f"{what}s 0 to {count - 1:,}" if count else f"no {what}"
        raise HeddleError(f"found the {what} {wrong[0]}; {fabric.name} has {has}")
    return indices


def find_switch(fabric: Fabric, switch: int | str) -> int:
    """Return the index of a switch that is given by its index, its name or its GUID.

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
    if not isinstance(switch, str):
        return _check_index(switch, fabric.n_switches, "switch", fabric)
    found = _nodes(fabric, switch)
    found = found[fabric.kind[found] == Kind.SWITCH]
    if not len(found):
        hint = did_you_mean(switch, (fabric.label(other) for other in range(fabric.n_switches)))
        raise HeddleError(f"found no switch {switch!r}; expected its name or GUID. {hint}".strip())
    return _only(switch, "switch", found, _guids(fabric, found))


def find_link(fabric: Fabric, link: int | str) -> int:
    """Return the port that a link is given by.

    It is the index of the port; or ``leaf01:21``, ``leaf01:21 -> spine01:1``, or a GUID before the colon. It is a
    HeddleError when there is no such port, no cable in it, or one that leads elsewhere.

    Examples
    --------
    >>> import topo, routing
    >>> fabric = topo.preset("lab-20").fabric
    >>> fabric.channel_label(find_link(fabric, "leaf0:21"))
    'leaf0:21 -> spine0:1'
    """
    if not isinstance(link, str):
        port = _check_index(link, fabric.n_ports, "port", fabric)
        if fabric.peer[port] < 0:
            raise _no_cable(fabric, port)
        return port
    near, _, far = (part.strip() for part in link.partition("->"))
    name, _, number = near.rpartition(":")
    found = _nodes(fabric, name)
    if not re.fullmatch(r"[0-9]{1,9}", number) or not len(found):
        hint = did_you_mean(name, (fabric.label(node) for node in range(fabric.n_nodes)))
        raise HeddleError(f"found no link {link!r}; expected a node and a port, as in leaf01:21. {hint}".strip())
    node = _only(name, "node", found, _guids(fabric, found))
    last = int(fabric.port_offset[node + 1] - fabric.port_offset[node])
    if not 1 <= int(number) <= last:
        raise HeddleError(f"found the port {near}; {fabric.label(node)} has ports 1 to {last}")
    port = fabric.port_id(node, int(number))
    if fabric.peer[port] < 0:
        raise _no_cable(fabric, port)
    if far and far != (there := fabric.port_label(int(fabric.peer[port]))):
        raise HeddleError(f"found the link {link!r}; the cable in {near} leads to {there}")
    return port


def _no_cable(fabric: Fabric, port: int) -> HeddleError:
    node = int(fabric.port_node[port])
    first, end = int(fabric.port_offset[node]), int(fabric.port_offset[node + 1])
    plugged = (np.flatnonzero(fabric.peer[first:end] >= 0) + 1).tolist()
    ports = ", ".join(str(a) if a == b else f"{a} to {b}" for a, b in runs(plugged)) or "none"
    return HeddleError(
        f"no cable is plugged into {fabric.port_label(port)}; ports of {fabric.label(node)} with a cable: {ports}"
    )


def find_part(fabric: Fabric, part: int | str) -> tuple[NDArray[np.int32], str]:
    """Return the ports that hold the cables of a switch, of a host or its adapter, or one port of a link; and its name.

    The part is given by the name or GUID of a switch, a host or an adapter; or as `find_link` takes a link. It is a
    HeddleError when there is none.

    Examples
    --------
    >>> import topo, routing
    >>> fabric = topo.preset("lab-20").fabric
    >>> ports, name = find_part(fabric, "spine0")
    >>> len(ports), name, find_part(fabric, "gpu07")[1]
    (20, 'spine0', 'gpu07')
    """
    nodes, name = np.zeros(0, np.intp), str(part)
    if part in fabric.hosts:
        nodes = np.flatnonzero(fabric.host == fabric.hosts.index(part))
    elif isinstance(part, str):
        nodes = _nodes(fabric, part)
        if len(nodes):
            name = fabric.label(_only(part, "node", nodes, _guids(fabric, nodes)))
        elif ":" not in part:
            hint = did_you_mean(part, [*(fabric.label(node) for node in range(fabric.n_nodes)), *fabric.hosts])
            raise HeddleError(f"found no switch, link or host {part!r}. {hint}".strip())
    if not len(nodes):
        port = find_link(fabric, part)
        return np.array([port], np.int32), fabric.channel_label(port).replace("->", "-")
    ports = np.flatnonzero(np.isin(fabric.port_node, nodes) & (fabric.peer >= 0))
    return ports.astype(np.int32), name


def find_ports(fabric: Fabric, parts: int | str | Sequence[int | str] | NDArray[np.integer]) -> NDArray[np.int32]:
    """Return (n,) int32 the ports of parts of a fabric: an index is that port, a name what `find_part` returns for it.

    Raises
    ------
    HeddleError
        When there is no such part or port.

    Examples
    --------
    >>> import topo, routing
    >>> fabric = topo.preset("lab-20").fabric
    >>> len(routing.find_ports(fabric, ["spine0", "leaf0:21"]))
    21
    """
    if isinstance(parts, int | np.integer | str):
        parts = (parts,)
    if not isinstance(parts, np.ndarray):
        found = (find_part(fabric, part)[0] if isinstance(part, str) else np.array([part]) for part in parts)
        parts = np.concatenate([np.zeros(0, np.int64), *found])
    return frozen(_check_indices(parts, fabric.n_ports, "port", fabric).astype(np.int32))


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
