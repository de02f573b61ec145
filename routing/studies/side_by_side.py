"""Several routed subnets as one network, such as planes, over which the servers of a cluster send at the same time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from routing.routed import Routed
from routing.tables import NO_PATH, RoutingTables
from topo.errors import RoutingError
from topo.fabric import Fabric


def side_by_side(subnets: Sequence[Routed], name: str) -> Routed:
    """Return routed subnets as one fabric with one set of tables, and no link from one to another.

    A server that has adapters in several of them is one server. LIDs are counted on from subnet to subnet, so that the
    result is for simulation, and not for a subnet manager.

    Parameters
    ----------
    subnets
        One or more, of one cluster.
    name
        Name of the fabric.

    Raises
    ------
    RoutingError
        When their lanes differ, they have policies of their own, or more than 65,535 LIDs together.

    Examples
    --------
    >>> import routing, topo
    >>> planes = topo.parse({"name": "two", "nodes": {"gpu": {"model": "storage-3fs", "count": 30}},
    ...     "network": {"shape": "planes", "planes": 2, "tree": {"switch": "QM8700"}}}).fabrics
    >>> routed = routing.studies.side_by_side([routing.route(plane) for plane in planes], "two")
    >>> len(routed.fabric.hosts), len(routed.fabric.ends()), routed.fabric.n_switches
    (30, 60, 2)
    """
    first = subnets[0]
    fabric = join_fabrics([subnet.fabric for subnet in subnets], name)
    tables = [subnet.tables for subnet in subnets]
    lids = sum(each.lft.shape[1] for each in tables)
    if any(subnet.lanes != first.lanes or subnet.tables.lmc != first.tables.lmc for subnet in subnets):
        raise RoutingError(f"the subnets of {name} have other lanes, or numbers of LIDs a port, than one another")
    if not fabric.traffic and any(subnet.policy.rules for subnet in subnets):
        raise RoutingError(f"the subnets of {name} have policies for their own ports; expected the spec of all of them")
    if lids > np.iinfo(np.uint16).max:
        raise RoutingError(f"the subnets of {name} have {lids:,} LIDs together; expected at most 65,535")
    lid: list[NDArray[Any]] = []
    lft = np.full((fabric.n_switches, lids), NO_PATH, np.uint8)
    path_sl = np.zeros_like(lft)
    row = column = 0
    for each in tables:
        n, top = each.lft.shape
        lid.append(np.where(each.lid > 0, each.lid + np.int64(column), 0).astype(np.uint16))
        lft[row : row + n, column : column + top] = each.lft
        if each.path_sl is not None:
            path_sl[row : row + n, column : column + top] = each.path_sl
        row, column = row + n, column + top
    together = RoutingTables(
        lid=_together(lid, [len(each.lft) for each in tables]),
        lft=lft,
        path_sl=path_sl if path_sl.any() else None,
        sl2vl=first.tables.sl2vl,
        engine=", ".join(dict.fromkeys(each.engine for each in tables)),
        lmc=first.tables.lmc,
    )
    return Routed(fabric, together) if fabric.traffic else Routed(fabric, together, first.lanes)


def _together(arrays: Sequence[NDArray[Any]], of_switches: Sequence[int]) -> NDArray[Any]:
    """Concatenate arrays of subnets: first the rows of switches of all of them, then those of adapters."""
    parts = list(zip(arrays, of_switches, strict=True))
    return np.concatenate([*(array[:n] for array, n in parts), *(array[n:] for array, n in parts)])


def join_fabrics(fabrics: Sequence[Fabric], name: str) -> Fabric:
    """Put fabrics side by side: the switches of all of them, then the adapters of all.

    Examples
    --------
    >>> import routing, topo
    >>> planes = topo.parse({"name": "two", "nodes": {"gpu": {"model": "storage-3fs", "count": 30}},
    ...     "network": {"shape": "planes", "planes": 2, "tree": {"switch": "QM8700"}}}).fabrics
    >>> routing.studies.join_fabrics(planes, "two").n_switches
    2
    """
    switches, ports = ([fabric.n_switches for fabric in fabrics], [fabric.first_adapter_port for fabric in fabrics])
    rows = dict.fromkeys(("kind", "role", "level", "zone", "node_guid"), switches)
    rows |= dict.fromkeys(("width", "speed", "port_guid"), ports)
    same: dict[str, Any] = {
        field: _together([getattr(fabric, field) for fabric in fabrics], split) for field, split in rows.items()
    }
    models = tuple(dict.fromkeys(model for fabric in fabrics for model in fabric.models))
    hosts = {host: number for number, host in enumerate(dict.fromkeys(h for fabric in fabrics for h in fabric.hosts))}

    def model_of(fabric: Fabric, numbers: NDArray[np.int16]) -> NDArray[np.int16]:
        return np.array([*map(models.index, fabric.models), -1], np.int16)[numbers]

    host_model = np.full(len(hosts), -1, np.int16)
    for fabric in reversed(fabrics):
        host_model[[hosts[host] for host in fabric.hosts]] = model_of(fabric, fabric.host_model)
    at_switch, at_adapter, peers = 0, sum(ports), []
    for fabric, split in zip(fabrics, ports, strict=True):
        moved = np.where(fabric.peer < split, fabric.peer + at_switch, fabric.peer - split + at_adapter)
        peers.append(np.where(fabric.peer < 0, -1, moved).astype(np.int32))
        at_switch, at_adapter = at_switch + split, at_adapter + fabric.n_ports - split
    degree = _together([np.diff(fabric.port_offset) for fabric in fabrics], switches)
    number = [np.array([*(hosts[host] for host in fabric.hosts), -1], np.int32)[fabric.host] for fabric in fabrics]
    return Fabric(
        name=name,
        **same,
        model=_together([model_of(fabric, fabric.model) for fabric in fabrics], switches),
        models=models,
        names=tuple(_together([np.array(fabric.names, object) for fabric in fabrics], switches).tolist()),
        host=_together(number, switches),
        hosts=tuple(hosts),
        host_model=host_model,
        port_offset=np.concatenate([[0], np.cumsum(degree)]).astype(np.int32),
        peer=_together(peers, ports),
        traffic=fabrics[0].traffic,
        notes=tuple(note for fabric in fabrics for note in fabric.notes),
    )
