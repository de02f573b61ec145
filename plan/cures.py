"""Which keys of a spec make a failure take less away."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import reduce
from types import MappingProxyType
from typing import Any, cast

import numpy as np

import costmodel
import topo
from topo import Cluster, Cure, DesignError, HeddleError, Range, Role, Verdict, compress, expand, percent, plural

NO_PORT = "no port of a leaf is free"
"""What `topo.lacks_manager` ends with where leaves are full."""


def cure(cluster: Cluster, losses: topo.Losses, loss: topo.Loss) -> tuple[Cure, ...]:
    """Return what to change in the spec so that a part of this kind takes less away: all of it together."""
    kind, network = loss.kind, loss.network
    spec, catalog = cluster.spec, cluster.catalog
    if kind == "feed":
        assert cluster.layout is not None
        if cluster.layout.floor.feeds and cluster.layout.floor.feeds.count == 1:
            return (Cure("floor.feeds.count", 2),)
        models = sorted({device.model for device in cluster.layout.devices})
        stop = [model for model in models if (known := catalog.device(model)) and known.runs_on_one_feed == "no"]
        words = f"instead of {', '.join(stop)}, devices with two supplies that run on one feed"
        return (Cure("runs_on_one_feed", "yes", words),)
    if kind == "rack":
        alone = losses.largest
        if not loss.together and alone is not None and not alone.survived:
            if loss.beyond > alone.beyond and spec.floor and spec.floor.switches != "servers":
                return (Cure("floor.switches", "servers"),)  # many leaves are in it that share no server
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
        more, column = adapters[cut[0]] + 1, ".".join([*keys[:2], "adapters"])
        if keys[0] == "network":  # there, the model of a server has its adapters, compute servers two kinds
            server = next(node for node in ends if fabric.server_of(node) == cut[0])
            column = "storage_adapters" if keys[1:] and fabric.role[server] == Role.COMPUTE else "adapters"
            where = f"a model with `{column}: {more}` in the catalog,"
            if column == "adapters":
                where = " and ".join(f"`adapters.{name}: {more}`" for name in _more_adapters(cluster, more))
        elif (own := spec.networks[keys[1]].adapter) and catalog.hca(own).device == "bmc":  # a server has one of them
            groups = dict.fromkeys(max(filter(one.startswith, spec.nodes), key=len, default="") for one in cut)
            mine = [one for one in groups if one in spec.nodes and one not in spec.adapters]
            out = [one for one in mine if spec.nodes[one].role_by(catalog) is not Role.COMPUTE]
            such = " and ".join(f"`adapters.{one}: 2`" for one in out)
            column, where = "networks", f"an adapter in another network{such and f', such as {such},'}"
        else:
            fewer = [one for one, number in spec.networks[keys[1]].adapters.items() if number < more]
            where = f"{' and '.join(f'`{column}.{one}: {more}`' for one in fewer)}, or an adapter in another network,"
        words = f"{where} for servers such as {compress(cut)}"
        found.append(Cure(column, None if column == "networks" else more, words))
    return tuple(found) or (Cure("", text="a further link around it"),)


def _move(cluster: Cluster, loss: topo.Loss) -> tuple[Cure, ...]:
    """Return the switch of a rack to fix elsewhere so that no rack takes switches that stand in for one another.

    Each is tried, those that the spec fixes there first, in the rack with the fewest switches: the floor is planned
    again, and what its racks take is computed.
    """
    assert cluster.layout is not None
    inside = _switches_of_racks(cluster, cluster.layout)
    here = list(inside).index(loss.name)
    place = min((len(inside[rack]), abs(at - here), rack) for at, rack in enumerate(inside) if at != here)[2]
    fixed = [name for name, text in cluster.layout.floor.fixed.items() if text.startswith(loss.name)]
    for name in dict.fromkeys([*fixed, *inside[loss.name]]):
        moved, cures = _fix(cluster, {name: place})
        with suppress(DesignError):
            worst = topo.find_losses(moved.fabrics, cluster.catalog, moved.layout).worst_of("rack")
            if worst is not None and worst.survived:
                return cures
    return (Cure("floor.fixed", text=f"`floor.fixed` with {compress(inside[loss.name])} in several racks"),)


def fewer_racks(cluster: Cluster, losses: topo.Losses, quote: costmodel.Quote | None = None) -> str:
    """Return which racks hold a single switch, and keys that save such a rack; empty where there is none.

    The switch is fixed in each other rack with switches in turn, alone or with one of its kind that moves to a third:
    the floor is planned again, and must have fewer racks, of which none takes more than the worst takes now.
    """
    layout = cluster.layout
    if layout is None or layout.floor.switches == "servers" or layout.floor.stand_ins == "together":
        return ""
    inside, found = _switches_of_racks(cluster, layout), []
    held = np.bincount(layout.rack[[device.rack_units > 0 for device in layout.devices]])  # PDUs take no unit
    alone = [rack for rack, number in zip(inside, held.tolist(), strict=True) if len(inside[rack]) == number == 1]
    others = [rack for rack in inside if rack not in alone and inside[rack]]
    now = losses.worst_of("rack")
    for rack in alone:
        (name,) = inside[rack]
        kind = name.rstrip("0123456789")
        moves = [{name: other} for other in others]
        moves += [{name: other, second: third} for other in others for second in inside[other]
                  if second.rstrip("0123456789") == kind for third in others if third != other]  # fmt: skip
        for move in moves:
            moved, cures = _fix(cluster, move)
            with suppress(DesignError):
                if moved.layout is not None and moved.layout.n_racks < layout.n_racks:
                    worst = topo.find_losses(moved.fabrics, cluster.catalog, moved.layout).worst_of("rack")
                    if now is not None and worst is not None and worst.beyond <= now.beyond:
                        places = (map(one.rack_name, one.rack.tolist()) for one in (layout, moved.layout))
                        differ = zip(layout.devices, *places, strict=False)  # power distribution units are last
                        others = sum(here != there for device, here, there in differ if device.rack_units) - len(move)
                        also = [f"{plural(others, 'other device')} in other racks", *_dearer_words(quote, moved)]
                        found.append(f"one fewer with {' and '.join(map(str, cures))} ({', '.join(also)})")
                        break
    single = ", ".join(f"{inside[rack][0]} alone is in {rack}" for rack in alone)
    why = ": each other rack with switches has no room for it, or half of those that are redundant with it"
    return "; ".join([f"; {single}{'' if found else why}", *found]) if alone else ""


def _switches_of_racks(cluster: Cluster, layout: topo.Layout) -> dict[str, list[str]]:
    """Return the names of the switches in each rack, by the name of the rack."""
    switches, devices = cluster.catalog.switches, layout.devices
    return {
        layout.rack_name(rack): [devices[at].name for at in held if devices[at].model in switches]
        for rack, held in enumerate(layout.inside)
    }


def _fix(cluster: Cluster, places: dict[str, str]) -> tuple[Cluster, tuple[Cure, ...]]:
    """Return a cluster with devices fixed in racks, and the keys that do it: places are counted in rows as long."""
    assert cluster.layout is not None
    cures = [Cure(f"floor.fixed.{name}", rack) for name, rack in places.items()]
    if not cluster.layout.floor.racks_per_row:
        cures.insert(0, Cure("floor.racks_per_row", cluster.layout.pinned.racks_per_row))
    moved = _with(cluster, {cure.key: cure.value for cure in cures})
    vars(moved)["fabrics"] = cluster.fabrics  # a place changes none of them
    return moved, tuple(cures)


def _with(cluster: Cluster, values: Mapping[str, object]) -> Cluster:
    """Return the cluster of a spec with other values at some keys; ValueError for what no spec can be."""
    document = cluster.spec.model_dump(mode="json", exclude_unset=True)
    for key, value in values.items():
        *above, last = key.split(".")
        reduce(lambda at, name: at.setdefault(name, {}), above, document)[last] = value
    return Cluster(type(cluster.spec).model_validate(document), cluster.catalog)


def cures_of(cluster: Cluster, losses: topo.Losses, quote: costmodel.Quote | None, check: topo.Check) -> topo.Check:
    """Return a check of what a cluster survives with its cures, each with its price where the spec alone changes."""
    worst = losses.worst_of(check.what.removeprefix("survives "))
    if worst is None or check.verdict is not Verdict.EXCEEDED:
        return check
    cures = cure(cluster, losses, worst)
    return replace(check, cures=tuple(_priced(cluster, quote, one) for one in cures) if quote else cures)


def _priced(cluster: Cluster, quote: costmodel.Quote, one: Cure) -> Cure:
    """Return a cure with what the cluster costs more with it: the bill of the changed spec or catalog less its own."""
    try:
        if one.key == "storage_adapters":
            changed = replace(cluster, catalog=_with_storage_adapters(cluster, cast(int, one.value)))
        elif one.key == "adapters":
            wanted = _more_adapters(cluster, cast(int, one.value))
            changed = _with(cluster, {f"adapters.{name}": number for name, number in wanted.items()})
        elif not one.key.startswith(("network.", "networks.", "floor.")) or one.text:
            return one
        else:
            changed = _with(cluster, {one.key: one.value})
        price = _dearer(quote, changed)
    except (HeddleError, ValueError):
        return one
    return replace(one, price=price, currency=quote.cost.unit) if price else one


def _dearer(quote: costmodel.Quote, changed: Cluster) -> tuple[float, float] | None:
    """Return what a changed cluster costs more, least and most; None where a part of the difference has no price."""
    bought, unit = costmodel.bill(changed), quote.cost.unit
    more, less = (a.beyond(b).price(unit).total for a, b in ((bought, quote.bill), (quote.bill, bought)))
    if more.missing or less.missing or more.known is None or less.known is None:
        return None
    return more.known.low - less.known.low, more.known.high - less.known.high


def _dearer_words(quote: costmodel.Quote | None, changed: Cluster) -> list[str]:
    """Say what a changed cluster costs more, or less; nothing where that is not known."""
    with suppress(HeddleError):
        if quote is not None and (price := _dearer(quote, changed)):
            unit, (low, high) = quote.cost.unit, sorted(price)
            if low < 0 < high:
                return [f"{low:+,.0f} to {high:+,.0f} {unit}"]
            word = "less" if high < 0 else "more"
            return [f"{Range(*sorted((abs(low), abs(high)))):,.0f} {unit} {word}"]
    return []


def _more_adapters(cluster: Cluster, number: int) -> dict[str, int]:
    """Return this number of adapters for each group of servers that has fewer in `network`."""
    spec = cluster.spec
    found = {}
    for name, group in spec.nodes.items():
        model = cluster.catalog.node(group.model)
        if spec.in_network(name, group.role_by(cluster.catalog)) and spec.adapters.get(name, model.adapters) < number:
            found[name] = number
    return found


def _with_storage_adapters(cluster: Cluster, number: int) -> topo.Catalog:
    """Return the catalog whose compute servers in the cluster have so many storage adapters, where they have fewer."""
    nodes = dict(cluster.catalog.nodes)
    for group in cluster.spec.nodes.values():
        model = nodes[group.model]
        if model.storage_adapters < number and group.role_by(cluster.catalog) is Role.COMPUTE:
            nodes[group.model] = replace(model, storage_adapters=number)
    return replace(cluster.catalog, nodes=MappingProxyType(nodes))


def more_spines(cluster: Cluster, loss: topo.Loss, quote: costmodel.Quote | None = None) -> str:
    """Return what the failure of a spine takes with more spines, the key and its price; empty where none helps.

    As few as make it less, and no more than twice as many. The tree with them is built, and must have the same leaves:
    it may have more uplinks, since a leaf of counted spines links all its free ports. A spine that has one link to each
    leaf has the least that it can have, and shapes that have no key ``spines`` are left out.
    """
    if loss.kind != "spine" or not loss.bandwidth:
        return ""
    keys, shape = _network(cluster, loss.network)
    key, tree = ".".join(_tree(keys, shape)), getattr(shape, "tree", shape)
    (fabric,) = (fabric for fabric in cluster.fabrics if fabric.name == loss.network)
    leaves = np.flatnonzero(fabric.role == Role.LEAF)
    around = fabric.peer_node[fabric.ports_of(int(leaves[0]))] if hasattr(tree, "spines") else leaves[:0]
    links = Counter(node for node in around.tolist() if node >= 0 and fabric.role[node] == Role.SPINE)
    now, parallel = len(links), max(links.values(), default=0)
    for spines in range(now + 1, 2 * now + 1 if parallel > 1 else 0):
        if tree.parallel and now * parallel % spines:
            continue
        fewer = {f"{key}.parallel": now * parallel // spines} if tree.parallel else {}
        try:
            changed = _with(cluster, {f"{key}.spines": spines, **fewer})
            (built,) = (fabric for fabric in changed.fabrics if fabric.name == loss.network)
        except DesignError:
            continue
        if (built.role == Role.LEAF).sum() == len(leaves):
            found = topo.find_losses([built], cluster.catalog).worst
            least = max((one.bandwidth for one in found if one.kind == "spine"), default=0.0)
            if least < loss.bandwidth:
                also = "".join(f" and `parallel: {number}`" for number in fewer.values())
                then, before = changed.counts, cluster.counts  # a key changes each of several planes
                more = [f"{plural(then.switches - before.switches, 'switch', 'switches')} more"]
                more += [f"{plural(then.links - before.links, 'link')} more"] if then.links > before.links else []
                more += _dearer_words(quote, changed)
                return f"; {percent(least)} with `{key}.spines: {spines}` (now {now}){also}: {', '.join(more)}"
    return ""


def no_manager(cluster: Cluster, *, unmanaged: bool = False) -> dict[str, str]:
    """Return which subnets have no host but compute servers for OpenSM, why, and what gives them one.

    Subnets for the same reason are one row. Those ``unmanaged`` have no switch that can run a manager either.
    """
    subnets: dict[tuple[str, str], list[str]] = {}
    for fabric in cluster.subnets:
        if why := topo.lacks_manager(fabric):
            models = sorted({fabric.model_of(node) for node in range(fabric.n_switches)})
            own = [model for model in models if cluster.catalog.switch(model).managed]
            if not (own and unmanaged):
                itself = f"{' and '.join(own)} can run one itself; OpenSM, which loads tables, needs a host"
                runs = itself if own else "no host but compute servers can run it"
                subnets.setdefault((runs, why), []).append(fabric.name)
    found, spec = {}, cluster.spec
    managing = (name for name, group in spec.nodes.items() if group.role_by(cluster.catalog) is Role.MANAGEMENT)
    only = [name for name in managing if not spec.in_network(name, Role.MANAGEMENT)]
    elsewhere = f" ({' or '.join(f'`adapters.{name}: 2`' for name in only)})" if only else ""
    for (runs, why), names in subnets.items():
        found[compress(names)] = f"{runs}: {why}; attach a group of management servers to it"
        if _network(cluster, names[0])[0] == ["network"]:
            found[compress(names)] += elsewhere
            if why.endswith(NO_PORT) and (ways := cluster.ways_to_free):
                found[compress(names)] += f"; in `network`, ports for them come with {', or '.join(ways)}"
    return found


def fewer_switches(cluster: Cluster) -> str:
    """Return why rails have as many switches as they have, and keys that give fewer; empty where none does.

    A leaf serves one rail of one unit, so that switches with many ports stay half empty. Larger units are built, the
    largest that its ports hold, and fewer rails, two at least, so that no leaf has all adapters of a server.
    """
    spec, catalog, shape = cluster.spec, cluster.catalog, cast(Any, cluster.spec.network)
    if not hasattr(shape, "unit_nodes"):
        return ""
    nodes = [group for group in spec.nodes.values() if group.role_by(catalog) is Role.COMPUTE]
    count, now = sum(group.count for group in nodes), cluster.counts.switches
    units, adapters = -(-count // shape.unit_nodes), catalog.node(nodes[0].model).adapters // shape.planes
    rails, found = shape.rails or adapters, []
    for key, values in (
        ("unit_nodes", [-(-count // fewer) for fewer in range(1, units + 1)]),
        ("rails", [less for less in range(2, rails) if adapters % less == 0 and rails % less == 0]),
    ):
        for value in values:
            with suppress(DesignError):
                changed = _with(cluster, {f"network.{key}": value})
                if (switches := changed.counts.switches) < now:
                    found.append(f"{switches:,} with `network.{key}: {value}`{_less(cluster, changed)}")
                    break
    why = f": a leaf for each of {rails} rails in {plural(units, 'unit')}"
    return "; ".join([why, *found]) if found else ""


def _less(cluster: Cluster, changed: Cluster) -> str:
    """Return what servers of a changed cluster lose: bandwidth, and leaf ports for a host of the subnet manager."""
    now, then = costmodel.bisection(cluster.fabrics), costmodel.bisection(changed.fabrics)
    said = []
    if then.narrower.share < now.narrower.share:
        where = "in a job of all" if then.share < now.share else "between rails"
        said.append(f"then {percent(then.narrower.share)} {where}")
    full = [any(topo.lacks_manager(fabric).endswith(NO_PORT) for fabric in one.subnets) for one in (cluster, changed)]
    said += ["no leaf port left for a host of the subnet manager"] if full[1] > full[0] else []
    return f" ({', '.join(said)})" if said else ""


def _network(cluster: Cluster, name: str) -> tuple[list[str], Any]:
    """Return the keys of the network whose fabric has this name, and its shape."""
    spec, of = cluster.spec, cluster.network_of(name)
    if of is not None:
        return ["networks", of, "network"], spec.networks[of].network
    storage = getattr(spec.network, "storage", None)
    beside = storage is not None and name.endswith("-storage")
    return (["network", "storage"], storage) if beside else (["network"], spec.network)


def _tree(keys: list[str], shape: object) -> list[str]:
    return [*keys, "tree"] if hasattr(shape, "tree") else keys
