"""Families of designs to choose from, and the bounds that spare a closer look at most of them.

`landmarks` are the designs that people would name: two and three levels, planes, zones, frames, each at a few round
taperings. `finer_trees` are all trees of two levels, alone or in zones, with any number of leaves, spines and links
between them: too many to compile, so only those that are cheaper than the best landmark and that no bound rules out.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from costmodel.needs import Needs, servers_of
from topo.errors import DesignError, plural
from topo.fabric import Role
from topo.hardware.catalog import Catalog
from topo.shapes.fat_tree import FatTree
from topo.shapes.rail import Planes
from topo.shapes.zones import Joints, Zones

TAPERS = (1.0, 1.5, 2.0, 3.0, 4.0)
"""Ports down for each port up."""
MOST_ZONES = 8

AnyShape = FatTree | Planes | Zones


def landmarks(needs: Needs, catalog: Catalog) -> Iterator[tuple[str, AnyShape]]:
    """Yield the designs that people would name, each with a name that tells its family and parameters."""
    for switch in needs.switches:
        frame = catalog.switch(switch).chips > 1
        for taper in (1.0,) if frame else TAPERS:
            tree = FatTree(shape="fat-tree", switch=switch, oversubscription=taper, levels=2)
            yield f"two levels of {switch}{_tapered(taper)}", tree
            yield from _planes(needs, catalog, tree)
            for joint in needs.switches:
                if catalog.switch(joint).chips == 1:
                    yield from _zones(needs, catalog, tree, joint)
        if not frame:
            yield f"one {switch}", FatTree(shape="fat-tree", switch=switch, levels=1)
            for leaf, spine in [(taper, 1.0) for taper in TAPERS] + [(1.0, taper) for taper in TAPERS[1:]]:
                tree = FatTree(
                    shape="fat-tree", switch=switch, levels=3, oversubscription=leaf, spine_oversubscription=spine
                )
                name = f"three levels of {switch}{_tapered(leaf)}"
                yield (name if spine == 1 else f"{name}, spines {spine:g}:1"), tree


def _planes(needs: Needs, catalog: Catalog, tree: FatTree) -> Iterator[tuple[str, Planes]]:
    """Yield as many planes as divide the adapters of every server."""
    adapters = [servers.adapters for servers in servers_of(needs, catalog)]
    for planes in range(2, min(adapters) + 1):
        if all(count % planes == 0 for count in adapters):
            name = f"{planes} planes of two levels of {tree.switch}{_tapered(tree.oversubscription)}"
            yield name, Planes(shape="planes", planes=planes, tree=tree)


def finer_trees(needs: Needs, catalog: Catalog, below: float) -> list[tuple[str, AnyShape]]:
    """List trees of two levels, alone and in zones, whose switches cost less than ``below``, cheapest first.

    Of trees with equal leaves and uplinks only the one with the fewest spines is listed, and the one with the fewest
    but at least two: they carry the same, for every leaf is linked to every spine alike.
    """
    rows: list[tuple[float, int, str, AnyShape]] = []
    for switch in needs.switches:
        model, price = catalog.switch(switch), catalog.price(switch, needs.currency)
        if model.chips > 1 or price is None:
            continue
        each = (price.low + price.high) / 2
        # One joint, one spine or one border leaf is a single switch that all would hang on.
        least = 2 if needs.survives_a_switch else 1
        for zones, joints in [(1, 0), *((zones, n) for zones in range(2, MOST_ZONES + 1) for n in range(least, 3))]:
            ports = _fewest_joint_ports(needs, catalog, zones, joints) if zones > 1 else 0
            if zones * ports > joints * model.radix:
                continue
            for placement in ("spread", "border") if joints else ("",):
                for leaves, spines, links in _trees(needs, catalog, model.radix, zones, ports, placement):
                    switches = zones * (leaves + spines) + joints
                    too_many = needs.budget.switches is not None and switches > needs.budget.switches
                    if too_many or switches * each >= below or (spines < least and leaves > 1):
                        continue
                    tree = FatTree(shape="fat-tree", switch=switch, leaves=leaves, spines=spines, parallel=links)
                    name = f"{leaves} leaves x {spines} spines x {links} of {switch}"
                    shape: AnyShape = tree
                    if joints:
                        shape = _join(needs, catalog, tree, zones, switch, joints, ports, placement)
                        name = f"{zones} zones of {name}, {joints} x {switch} on {ports} ports a zone ({placement})"
                    if not out_of_reach(shape, needs, catalog):
                        rows.append((switches * each, switches, name, shape))
    rows.sort(key=lambda row: row[:3])
    return [(name, shape) for _, _, name, shape in rows]


def out_of_reach(shape: AnyShape, needs: Needs, catalog: Catalog) -> str:
    """Say why zones cannot carry the largest job, where it is larger than a zone and the joints are too few for it."""
    if not isinstance(shape, Zones) or shape.joints is None:
        return ""
    compute = servers_of(needs, catalog, Role.COMPUTE)
    in_a_zone = -(-sum(servers.count for servers in compute) // shape.zones)
    adapters = min((servers.adapters for servers in compute), default=1)
    # One half sends to the other at most what the joint ports of all zones take, and half a zone to its other half.
    wanted, most = needs.job.bisection * (needs.job.nodes // 2) * adapters, shape.zones * shape.between.ports
    if in_a_zone >= needs.job.nodes or most + (in_a_zone + 1) // 2 * adapters >= wanted:
        return ""
    return (
        f"a job of {needs.job.nodes:,} nodes spans zones of {in_a_zone:,}, and {shape.zones} x {shape.between.ports} = "
        f"{most:,} joint ports cannot carry what half of it sends, {wanted:,.0f} times a port"
    )


def _trees(
    needs: Needs, catalog: Catalog, radix: int, zones: int, joint_ports: int, placement: str
) -> Iterator[tuple[int, int, int]]:
    """Yield (leaves, spines, links between each two) of trees that have the ports and may carry the largest job."""
    wanted = dict.fromkeys((Role.COMPUTE, Role.STORAGE, Role.MANAGEMENT), 0)
    for role in wanted:
        for servers in servers_of(needs, catalog, role):
            whole = servers.group in _shared(needs, catalog, zones)
            wanted[role] += servers.count if whole else -(-servers.count // zones) * servers.adapters
    for up in range(1, radix):
        down = radix - up
        kept = -(-joint_ports // down) * down if placement == "border" else joint_ports
        if placement == "border" and joint_ports <= down and needs.survives_a_switch:
            continue
        for leaves in range(-(-(sum(wanted.values()) + kept) // down), radix + 1):
            if not _may_carry(needs, wanted[Role.COMPUTE], wanted[Role.STORAGE], leaves, up):
                continue
            fits = [spines for spines in range(1, up + 1) if up % spines == 0 and leaves * (up // spines) <= radix]
            for spines in {fits[0], next((more for more in fits if more > 1), fits[0])} if fits else ():
                yield leaves, spines, up // spines


def _may_carry(needs: Needs, compute: int, storage: int, leaves: int, up: int) -> bool:
    """Whether leaves with ``up`` uplinks could carry the largest job, by an upper bound.

    Half of the job has ``half`` adapters, at least ``least`` on each leaf that it fills. So it sits on at most
    ``half / least + 1`` leaves, whose uplinks bound what it sends, but for what stays on the leaf in the middle. With
    the storage beside it that holds for jobs that fill the tree, half of whose leaves then have half of the storage.
    """
    fills = needs.job.nodes >= compute
    adapters = compute + storage if fills and needs.job.with_storage else compute
    half = adapters // 2 if fills else needs.job.nodes // 2
    least, most = adapters // leaves, -(-adapters // leaves)
    if not least or not half:
        return True
    return (-(-half // least) + 1) * up + most >= needs.job.bisection * half


def _fewest_joint_ports(needs: Needs, catalog: Catalog, zones: int, joints: int) -> int:
    """Ports that each zone must give to carry the bisection of the whole, evenly over the joints.

    What half of the nodes sends to the other half crosses between zones, on the ports of half the zones.
    """
    compute = sum(servers.count * servers.adapters for servers in servers_of(needs, catalog, Role.COMPUTE))
    least = max(ceil(needs.bisection * (compute // 2) / (zones / 2)), 1)
    return -(-least // joints) * joints


def _shared(needs: Needs, catalog: Catalog, zones: int) -> tuple[str, ...]:
    """Storage with an adapter for each zone is shared by all of them; the rest is divided over them."""
    storage = servers_of(needs, catalog, Role.STORAGE)
    return tuple(servers.group for servers in storage if servers.adapters == zones)


def _join(
    needs: Needs, catalog: Catalog, tree: FatTree, zones: int, joint: str, joints: int, ports: int, placement: str
) -> Zones:
    joined = Joints.model_validate({"switch": joint, "count": joints, "ports": ports, "placement": placement})
    return Zones(shape="zones", zones=zones, tree=tree, shared=_shared(needs, catalog, zones), joints=joined)


def _zones(needs: Needs, catalog: Catalog, tree: FatTree, joint: str) -> Iterator[tuple[str, Zones]]:
    """Yield zones with one joint and with two, over as few ports as carry the bisection of the whole."""
    radix = catalog.switch(joint).radix
    for zones in range(2, MOST_ZONES + 1):
        for joints in (1, 2):
            most = radix // zones * joints
            fewest = _fewest_joint_ports(needs, catalog, zones, joints)
            ports = min(_whole_leaves(fewest, joints, tree, catalog), most // joints * joints)
            if ports < fewest:
                continue
            for placement in ("border", "spread"):
                name = (
                    f"{zones} zones of two levels of {tree.switch}{_tapered(tree.oversubscription)}, "
                    f"{plural(joints, 'joint')} of {joint} on {plural(ports, 'port')} a zone ({placement})"
                )
                yield name, _join(needs, catalog, tree, zones, joint, joints, ports, placement)


def _whole_leaves(ports: int, joints: int, tree: FatTree, catalog: Catalog) -> int:
    """Round up to all ports of a leaf that is given to joints anyway, evenly over them."""
    try:
        down = tree.size(1, catalog).down
    except DesignError:
        return ports
    whole = -(-ports // down) * down
    return whole if whole % joints == 0 else ports


def _tapered(taper: float) -> str:
    return "" if taper == 1 else f", {taper:g}:1"
