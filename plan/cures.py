"""Which keys of a spec make a failure take less away."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import replace
from functools import reduce
from operator import getitem
from typing import TYPE_CHECKING, Any, cast

import numpy as np

import costmodel
from topo import Cluster, Cure, DesignError, HeddleError, Role, Verdict, compress, expand, find_losses, percent, plural

if TYPE_CHECKING:
    from costmodel import Quote
    from topo import Check, Loss, Losses


def cure(cluster: Cluster, losses: Losses, loss: Loss) -> tuple[Cure, ...]:
    """Return what to change in the spec so that a part of this kind takes less away: all of it together."""
    kind, network = loss.kind, loss.network
    spec, catalog = cluster.spec, cluster.catalog
    if kind == "feed":
        assert cluster.layout is not None
        if cluster.layout.floor.feeds and cluster.layout.floor.feeds.count == 1:
            return (Cure("floor.feeds.count", 2),)
        known = {**catalog.switches, **catalog.nodes}
        models = sorted({device.model for device in cluster.layout.devices})
        stop = [model for model in models if model in known and known[model].runs_on_one_feed is False]
        words = f"instead of {', '.join(stop)}, devices with two supplies that run on one feed"
        return (Cure("runs_on_one_feed", "yes", words),)
    if kind == "rack":
        alone = losses.largest
        if not loss.together and alone is not None and not alone.survived:
            return cure(cluster, losses, alone)  # a switch in it takes as much
        if spec.floor and spec.floor.stand_ins == "together":
            return (Cure("floor.stand_ins", "apart"),)
        return _move(cluster, loss)
    keys, shape = _network(cluster, network)
    key, tree = ".".join(keys), ".".join(_tree(keys, shape))
    if kind == "joint":
        return (Cure(f"{key}.joints.count", 2),)
    if kind in ("spine", "core"):
        return (Cure(f"{tree}.{kind}s", text=f"`{tree}.{kind}s` gives more of them"),)
    if loss.zones == 1.0:
        return (Cure(f"{key}.{'joints' if getattr(shape, 'joints', None) else 'direct'}.placement", "spread"),)
    (fabric,) = (fabric for fabric in cluster.fabrics if fabric.name == network)
    one_switch = kind != "link" and len(set(fabric.end_switch[fabric.ends()].tolist())) == 1
    found = [Cure(f"{tree}.leaves", 2)] if one_switch else []
    ends, leaf_of = fabric.port_node[fabric.port_of(fabric.ends())].tolist(), fabric.end_switch[fabric.ends()].tolist()
    adapters, on = Counter(map(fabric.server_of, ends)), Counter[str]()
    for node, leaf in zip(ends, leaf_of, strict=True):
        on[fabric.server_of(node)] += kind == "link" or fabric.label(leaf) == loss.name
    few = 1 if kind == "link" else max(adapters.values())
    cut = expand(loss.cut) if loss.cut else [name for name in adapters if on[name] == adapters[name] <= few]
    if cut and (not found or min(adapters.values()) == 1):
        more = adapters[cut[0]] + 1
        column = f"{'.'.join(keys[:2])}.adapters"
        where = f"`{column}: {more}`"
        if keys[0] == "network":  # there, the model of a server has its adapters, compute servers two kinds
            server = next(node for node in ends if fabric.server_of(node) == cut[0])
            column = "storage_adapters" if keys[1:] and fabric.role[server] == Role.COMPUTE else "adapters"
            where = f"a model with `{column}: {more}` in the catalog,"
        found.append(Cure(column, more, f"{where} for servers such as {compress(cut)}"))
    return tuple(found) or (Cure("", text="a further link around it"),)


def _move(cluster: Cluster, loss: Loss) -> tuple[Cure, ...]:
    """Return the switch of a rack to fix elsewhere so that no rack takes switches that stand in for one another.

    Each is tried, those that the spec fixes there first, in the rack with the fewest switches: the floor is planned
    again, and what its racks take is computed.
    """
    layout, spec = cluster.layout, cluster.spec
    assert layout is not None
    racks = [layout.rack_name(rack) for rack in range(layout.n_racks)]
    inside = [[layout.devices[at].name for at in rack if layout.devices[at].model in cluster.catalog.switches]
              for rack in layout.inside]  # fmt: skip
    here = racks.index(loss.name)
    place = min((len(inside[rack]), abs(rack - here), racks[rack]) for rack in range(len(racks)) if rack != here)[2]
    row = {"racks_per_row": layout.pinned.racks_per_row}
    fixed = {key: text for key, text in layout.floor.fixed.items() if text.startswith(loss.name)}
    for name in dict.fromkeys([*fixed, *inside[here]]):
        floor = layout.floor.model_copy(update={**row, "fixed": {**layout.floor.fixed, name: place}})
        changed = Cluster(spec.model_copy(update={"floor": floor}), cluster.catalog)
        with suppress(DesignError):
            worst = find_losses(changed.fabrics, cluster.catalog, changed.layout).worst_of("rack")
            if worst is not None and worst.survived:
                moved = Cure(f"floor.fixed.{name}", place)
                return (moved,) if layout.floor.racks_per_row else (Cure("floor.racks_per_row", row["racks_per_row"]), moved)
    return (Cure("floor.fixed", text=f"`floor.fixed` with {compress(inside[here])} in several racks"),)


def cures_of(cluster: Cluster, losses: Losses, quote: Quote | None, check: Check) -> Check:
    """Return a check of what a cluster survives with its cures, each with its price where the spec alone changes."""
    worst = losses.worst_of(check.what.removeprefix("survives "))
    if worst is None or check.verdict is not Verdict.EXCEEDED:
        return check
    cures = cure(cluster, losses, worst)
    return replace(check, cures=tuple(_priced(cluster, quote, one) for one in cures) if quote else cures)


def _priced(cluster: Cluster, quote: Quote, one: Cure) -> Cure:
    """Return a cure with what the cluster costs more with it: the bill of the changed spec less its own."""
    document = cluster.spec.model_dump(mode="json", exclude_unset=True)
    *above, last = one.key.split(".")
    if above[:1] not in (["network"], ["networks"], ["floor"]) or one.text:
        return one
    try:
        reduce(lambda at, key: at.setdefault(key, {}), above, document)[last] = one.value
        bought = costmodel.bill(Cluster(type(cluster.spec).model_validate(document), cluster.catalog))
    except (HeddleError, ValueError):
        return one
    unit = quote.cost.unit
    more, less = (a.beyond(b).price(unit).total for a, b in ((bought, quote.bill), (quote.bill, bought)))
    if more.missing or less.missing or more.known is None or less.known is None:
        return one
    return replace(one, price=(more.known.low - less.known.low, more.known.high - less.known.high), currency=unit)


def more_spines(cluster: Cluster, loss: Loss) -> str:
    """Return what the failure of a spine takes with more spines, and the key that gives them; empty where none helps.

    As few as make it less, and no more than twice as many. The tree with them is built, and must have the same leaves:
    it may have more uplinks, since a leaf of counted spines links all its free ports. A spine that has one link to each
    leaf has the least that it can have, and shapes that have no key ``spines`` are left out.
    """
    if loss.kind != "spine" or not loss.bandwidth:
        return ""
    keys, shape = _network(cluster, loss.network)
    keys, tree = _tree(keys, shape), getattr(shape, "tree", shape)
    document = cluster.spec.model_dump(mode="json", exclude_unset=True)
    (fabric,) = (fabric for fabric in cluster.fabrics if fabric.name == loss.network)
    leaves = np.flatnonzero(fabric.role == Role.LEAF)
    around = fabric.peer_node[fabric.ports_of(int(leaves[0]))] if hasattr(tree, "spines") else leaves[:0]
    links = Counter(node for node in around.tolist() if node >= 0 and fabric.role[node] == Role.SPINE)
    now, parallel = len(links), max(links.values(), default=0)
    for spines in range(now + 1, 2 * now + 1 if parallel > 1 else 0):
        if tree.parallel and now * parallel % spines:
            continue
        fewer = {"parallel": now * parallel // spines} if tree.parallel else {}
        reduce(getitem, keys, document).update({"spines": spines, **fewer})
        try:
            changed = Cluster(type(cluster.spec).model_validate(document), cluster.catalog).fabrics
        except DesignError:
            continue
        (built,) = (fabric for fabric in changed if fabric.name == loss.network)
        if (built.role == Role.LEAF).sum() == len(leaves):
            found = find_losses([built], cluster.catalog).worst
            least = max((one.bandwidth for one in found if one.kind == "spine"), default=0.0)
            if least < loss.bandwidth:
                also = "".join(f" and `parallel: {number}`" for number in fewer.values())
                return f"; {percent(least)} with `{'.'.join(keys)}.spines: {spines}` (now {now}){also}"
    return ""


def fewer_switches(cluster: Cluster) -> str:
    """Return why rails have as many switches as they have, and keys that give fewer; empty where none does.

    A leaf serves one rail of one unit, so that switches with many ports stay half empty. Larger units are built, the
    largest that its ports hold, and fewer rails, two at least, so that no leaf has all adapters of a server.
    """
    spec, catalog, shape = cluster.spec, cluster.catalog, cast(Any, cluster.spec.network)
    if not hasattr(shape, "unit_nodes"):
        return ""
    nodes = [group for group in spec.nodes.values() if (group.role or catalog.node(group.model).role) is Role.COMPUTE]
    count, now = sum(group.count for group in nodes), cluster.counts.switches
    units, adapters = -(-count // shape.unit_nodes), catalog.node(nodes[0].model).adapters // shape.planes
    rails, found = shape.rails or adapters, []
    for key, values in (
        ("unit_nodes", [-(-count // fewer) for fewer in range(1, units)]),
        ("rails", [less for less in range(2, rails) if adapters % less == 0 and rails % less == 0]),
    ):
        for value in values:
            with suppress(DesignError):
                changed = spec.model_copy(update={"network": shape.model_copy(update={key: value})})
                switches = Cluster(changed, catalog).counts.switches
                if switches < now:
                    found.append(f"{switches:,} with `network.{key}: {value}`")
                    break
    why = f": a leaf for each of {rails} rails in {plural(units, 'unit')}"
    return "; ".join([why, *found]) if found else ""


def _network(cluster: Cluster, name: str) -> tuple[list[str], Any]:
    """Return the keys of the network whose fabric has this name, and its shape."""
    spec = cluster.spec
    of = max((one for one in spec.networks if name.startswith(f"{cluster.name}-{one}")), key=len, default=None)
    if of is not None:
        return ["networks", of, "network"], spec.networks[of].network
    storage = getattr(spec.network, "storage", None)
    beside = storage is not None and name == f"{cluster.name}-storage"
    return (["network", "storage"], storage) if beside else (["network"], spec.network)


def _tree(keys: list[str], shape: object) -> list[str]:
    """Return the keys of the tree in a shape: its own, where it is one."""
    return [*keys, "tree"] if hasattr(shape, "tree") else keys
