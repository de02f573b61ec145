"""Parts that fail as a unit: a link, switch, line card, frame, rack or feed, a bundle or a batch of cables.

A part has a name and the set of what fails with it, so that single, random and correlated failures are handled alike.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, get_args

import numpy as np

from topo.amounts import listed
from topo.catalog.devices import list_frames
from topo.catalog.load import Catalog
from topo.errors import HeddleError
from topo.fabric import Fabric
from topo.failures.reach import Failed, Reach
from topo.floor.cables import Cabling
from topo.floor.racks import PDU, Layout

PartKind = Literal["link", "adapter", "switch", "card", "frame", "server", "rack", "feed", "bundle", "batch"]
PART_KINDS: tuple[PartKind, ...] = get_args(PartKind)
"""``link``: between switches; ``adapter``: one port of a server's adapter and its link; ``card``: the chips of one line
card of a frame; ``feed``: one of two power feeds, and the devices that need both; ``bundle``: links between the same
two racks, or the same two switches or frames without a floor plan; ``batch``: transceivers of one model, or cables
without transceivers, that are bought together."""
CARD = re.compile(r"(.+/[LS]\d+)(/U\d+)?")
"""Label of a chip on a line card or fabric board of a frame: ``core1/L08/U2``, as firmware names it."""

Parts = dict[str, Failed]
"""What fails with each part, by name of the part."""
_Found = defaultdict[str, defaultdict[int, list[int]]]
"""Switches, or links, by the name of their part and by subnet."""


def list_parts(
    kind: PartKind,
    reach: Reach,
    *,
    catalog: Catalog | None = None,
    layout: Layout | None = None,
    cablings: Sequence[Cabling] | None = None,
    batch: int | None = None,
) -> Parts:
    """List the parts of one kind, each with what fails with it.

    Parameters
    ----------
    kind : str
        One of `PART_KINDS`.
    reach : Reach
        The fabrics.
    catalog, layout, cablings : optional
        Of the cluster, if it has a spec; racks, feeds and batches need them.
    batch : int, optional
        Pieces in a batch.

    Raises
    ------
    HeddleError
        When the parts of this kind are unknown.

    Examples
    --------
    >>> import topo
    >>> reach = topo.Reach(topo.preset("lab-20").fabrics)
    >>> [len(topo.list_parts(kind, reach)) for kind in ("link", "adapter", "switch", "server", "bundle")]
    [40, 22, 4, 20, 4]
    """
    if kind in ("rack", "feed"):
        if layout is None or catalog is None:
            raise HeddleError(
                f"{kind}: a dump or a spec without a floor plan has none; expected a spec with a floor plan"
            )
        if kind == "feed":
            return _feeds(reach, catalog, layout)
        racks = [np.flatnonzero(layout.rack == rack).tolist() for rack in range(layout.n_racks)]
        return {layout.rack_name(rack): devices_down(reach, layout, inside) for rack, inside in enumerate(racks)}
    if kind == "batch":
        if cablings is None or batch is None:
            wanted = "a spec with a floor plan" if cablings is None else "the size of a batch"
            raise HeddleError(f"batch: the cables are unknown; expected {wanted}")
        return _batches(reach.fabrics, cablings, batch)
    if kind == "server":
        return {name: Failed(servers=frozenset([name])) for name in reach.names}
    found: _Found = defaultdict(lambda: defaultdict(list))
    boxed = kind in ("switch", "card", "frame")
    for subnet, fabric in enumerate(reach.fabrics):
        of = f"{fabric.name} " if len(reach.fabrics) > 1 else ""
        named = _boxes(kind, fabric, subnet, of, catalog, layout) if boxed else _links(kind, reach, subnet, of, layout)
        for name, number in named:
            found[name][subnet].append(number)
    if boxed:
        return {name: Failed(switches=dict(nodes)) for name, nodes in found.items()}
    return {name: Failed(links=dict(links)) for name, links in found.items()}


def fail_parts(fabrics: Sequence[Fabric], failed: Failed) -> tuple[Fabric, ...]:
    """Return the fabrics without the failed links and the links of failed switches and servers.

    Examples
    --------
    >>> import topo
    >>> fabrics = topo.preset("lab-20").fabrics
    >>> spine = topo.list_parts("switch", topo.Reach(fabrics))["spine0"]
    >>> len(fabrics[0].links) - len(topo.fail_parts(fabrics, spine)[0].links)
    20
    """
    left = []
    for subnet, fabric in enumerate(fabrics):
        dead = np.zeros(fabric.n_nodes, bool)
        dead[list(failed.switches.get(subnet, ()))] = True
        if failed.servers:
            dead |= [fabric.server_of(node) in failed.servers for node in range(fabric.n_nodes)]
        links = fabric.links[list(failed.links.get(subnet, ())), 0]
        ports = np.concatenate([links, np.flatnonzero(dead[fabric.port_node] & (fabric.peer >= 0))])
        left.append(fabric.without(ports) if len(ports) else fabric)
    return tuple(left)


def unite(parts: Iterable[Failed]) -> Failed:
    """Return what fails when several parts fail together.

    Examples
    --------
    >>> import topo
    >>> switches = topo.list_parts("switch", topo.Reach(topo.preset("lab-20").fabrics))
    >>> topo.unite(switches.values()).switches
    {0: [0, 1, 2, 3]}
    """
    switches: dict[int, set[int]] = defaultdict(set)
    links: dict[int, set[int]] = defaultdict(set)
    servers: set[str] = set()
    for part in parts:
        for subnet, nodes in part.switches.items():
            switches[subnet].update(nodes)
        for subnet, rows in part.links.items():
            links[subnet].update(rows)
        servers |= part.servers
    return Failed({subnet: sorted(nodes) for subnet, nodes in switches.items()},
                  {subnet: sorted(rows) for subnet, rows in links.items()}, frozenset(servers))  # fmt: skip


def devices_down(reach: Reach, layout: Layout, devices: Iterable[int]) -> Failed:
    """Return what fails with some devices of a layout."""
    chosen = np.zeros(len(layout.devices), bool)
    chosen[list(devices)] = True
    switches = {
        subnet: np.flatnonzero(chosen[layout.node_device[subnet][: fabric.n_switches]]).tolist()
        for subnet, fabric in enumerate(reach.fabrics)
    }
    names = frozenset(layout.devices[device].name for device in np.flatnonzero(chosen).tolist())
    return Failed(switches, servers=names & reach.servers.keys())


def _feeds(reach: Reach, catalog: Catalog, layout: Layout) -> Parts:
    """Return the feed whose failure matters, if what it takes is known: all are alike."""
    feeds = layout.floor.feeds
    if feeds is None:
        raise HeddleError("feed: `floor.feeds` is not stated, so what one of them supplies is unknown")
    if not feeds.spare:
        if feeds.count == 1:
            return {"the only one": devices_down(reach, layout, range(len(layout.devices)))}
        raise HeddleError("feed: none is spare, so whether the others carry its load is unknown")
    devices = [device for device in layout.devices if device.model != PDU]  # these come last
    runs = [model and model.runs_on_one_feed for model in (catalog.device(device.model) for device in devices)]
    if None in runs:
        silent = sorted({device.model for device, one in zip(devices, runs, strict=True) if one is None})
        why = (
            f"can run on one of two feeds is unknown (`runs_on_one_feed` in {' and '.join(catalog.tables_of(silent))})"
        )
        raise HeddleError(f"feed: whether {listed(silent)} {why}")
    return {f"one of {feeds.count}": devices_down(reach, layout, (at for at, one in enumerate(runs) if one == "no"))}


def _boxes(
    kind: str, fabric: Fabric, subnet: int, of: str, catalog: Catalog | None, layout: Layout | None
) -> Iterator[tuple[str, int]]:
    """Yield the name of the part that each switch belongs to, and the switch."""
    if kind == "frame" and layout is not None:
        device = layout.node_device[subnet][: fabric.n_switches]
        for node in np.flatnonzero(np.bincount(device)[device] > 1).tolist():
            yield layout.devices[device[node]].name, node
        return
    framed = {} if kind == "switch" else list_frames(fabric, subnet, catalog)
    if kind == "card" and (whole := {fabric.model_of(node) for node in framed if not fabric.frame(node)}):
        why = f"nobody knows which chips of {listed(whole)} share a line card"
        raise HeddleError(f"card: {why}; expected a dump, whose names tell, or the kind frame")
    for node in range(fabric.n_switches):
        name = fabric.label(node)
        if kind == "frame":
            name = framed.get(node) or fabric.frame(node)
        elif kind == "card":
            match = CARD.fullmatch(name)
            name = match[1] if match else ""
        if name:
            yield of + name, node


def _links(kind: str, reach: Reach, subnet: int, of: str, layout: Layout | None) -> Iterator[tuple[str, int]]:
    """Yield the name of the part that each link belongs to, and the link."""
    fabric = reach.fabrics[subnet]
    ends, nodes = fabric.links.tolist(), fabric.port_node[fabric.links]
    inner = fabric.is_inner_link
    if kind == "adapter":
        for link in reach.plugs[subnet][:, 2].tolist():
            yield of + fabric.port_label(max(ends[link])), link
    elif kind == "link":
        for link in np.flatnonzero(inner).tolist():
            yield of + " - ".join(map(fabric.port_label, ends[link])), link
    else:
        places = [fabric.frame(node) or fabric.label(node) for node in range(fabric.n_nodes)]
        if layout is not None:
            of, inner = "", np.ones(len(ends), bool)
            places = [layout.rack_name(rack) for rack in layout.rack[layout.node_device[subnet]].tolist()]
        for link in np.flatnonzero(inner).tolist():
            a, b = sorted(places[node] for node in nodes[link].tolist())
            if a != b:
                yield f"{of}{a} - {b}", link


def _batches(fabrics: Sequence[Fabric], cablings: Sequence[Cabling], size: int) -> Parts:
    """Divide the transceivers, or cables, of each model into batches, in the order of their links."""
    pieces: dict[str, dict[int, list[tuple[int, int]]]] = defaultdict(lambda: defaultdict(list))
    for subnet, (fabric, cabling) in enumerate(zip(fabrics, cablings, strict=True)):
        for link in np.flatnonzero(cabling.part >= 0).tolist():
            optics = [(cabling.optic_of(port), int(cabling.cage[port])) for port in fabric.links[link].tolist()]
            if not all(model for model, _ in optics):
                optics = [(cabling.parts[cabling.part[link]].item, int(cabling.cable[link]))]
            for model, piece in optics:
                pieces[model][piece].append((subnet, link))
    found: _Found = defaultdict(lambda: defaultdict(list))
    for model, having in pieces.items():
        for number, links in enumerate(having.values()):
            for subnet, link in links:
                found[f"{model} batch {number // size + 1}"][subnet].append(link)
    # A link may have both of its ends in one.
    return {name: unite([Failed(links=links)]) for name, links in found.items()}
