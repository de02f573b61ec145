"""The first line of a result: whether the plan holds, what one failure takes away, and what would cure it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from topo import Cluster, DesignError, Role, Verdict, find_losses, plural

if TYPE_CHECKING:
    from plan.pipeline import Plan
    from topo import Loss, Losses

WORDS = {Verdict.HOLDS: "holds", Verdict.EXCEEDED: "does not hold", Verdict.CANNOT_TELL: "cannot be judged"}


def verdict_line(plan: Plan) -> str:
    """Return the verdict on a plan in one sentence."""
    named = f"{plan.source}: " if plan.source and plan.source != plan.name else ""
    text = f"{named}{plan.name or 'the fabric'} {WORDS[plan.verdict]}"
    failure = one_failure(plan)
    but = plan.verdict.holds and failure.startswith("one ")
    return text if not failure else f"{text}{', but' if but else ';'} {failure}"


def one_failure(plan: Plan) -> str:
    """Return what one failure takes from servers that still run, and the cure; empty for a fabric without a spec."""
    if plan.losses is None:
        return ""
    taken = list(_taken(plan, plan.losses))
    if taken:
        return "; ".join(taken)
    kinds = ["switch", "link", *(loss.kind for loss in plan.losses.worst if loss.kind in ("rack", "feed"))]
    any_one = " or ".join((", ".join(kinds[:-1]), kinds[-1]))
    return f"any one {any_one} may fail: all servers left reach one another"


def _taken(plan: Plan, losses: Losses) -> Iterator[str]:
    """Yield what one part of each kind takes away from servers that still run, the worst first."""
    for loss in sorted(losses.worst, key=lambda loss: loss.weight, reverse=True):
        effects = []
        inside = loss.kind in ("rack", "feed")  # it takes its own servers with it, which no network can cure
        if loss.kind == "rack" and not loss.together:
            continue  # switches of it that are named themselves take as much
        if loss.beyond:
            pairs = f"parts {plural(loss.beyond, 'pair')} of {'other ' * inside}servers"
            effects.append(f"cuts off {plural(loss.servers, 'server')}" if loss.servers and not inside else pairs)
        if loss.zones == 1.0:
            effects.append("takes all bandwidth between zones")
        if effects:
            yield f"one {loss.kind} {' and '.join(effects)} ({_cure(plan, loss)})"


def _cure(plan: Plan, loss: Loss) -> str:
    """Return what to change in the spec so that a part of this kind takes less away."""
    kind, network = loss.kind, loss.network
    spec = plan.planned.spec
    if kind in ("rack", "feed"):
        gathered = kind == "rack" and spec.floor and spec.floor.stand_ins == "together"
        return "`floor.stand_ins: apart`" if gathered else "`floor.fixed` puts a device elsewhere"
    keys, shape = _network(plan, network)
    key, tree = ".".join(keys), ".".join(_tree(keys, shape))
    if kind == "joint":
        return f"`{key}.joints.count: 2`"
    if kind in ("spine", "core"):
        return f"`{tree}.{kind}s` gives more of them"
    if loss.zones == 1.0:
        return f"`{key}.{'joints' if getattr(shape, 'joints', None) else 'direct'}.placement: spread`"
    (fabric,) = (fabric for fabric in plan.fabrics if fabric.name == network)
    one_switch = kind != "link" and len(set(fabric.end_switch[fabric.ends()].tolist())) == 1
    leaves = [f"`{tree}.leaves: 2`"] if one_switch else []
    adapters = Counter(fabric.server_of(int(node)) for node in fabric.port_node[fabric.port_of(fabric.ends())])
    if loss.cut and (not leaves or min(adapters.values()) == 1):
        leaves.append(f"another adapter, in `networks`, for servers such as {loss.cut}")
    return " and ".join(leaves) or "a further link around it"


def more_spines(plan: Plan, loss: Loss) -> str:
    """Return what the failure of a spine takes with more spines, and the key that gives them; empty where none helps.

    As few as make it less, and no more than twice as many. The tree with them is built, and must have the same leaves:
    it may have more uplinks, since a leaf of counted spines links all its free ports. A spine that has one link to each
    leaf has the least that it can have, and shapes that have no key ``spines`` are left out.
    """
    cluster = plan.cluster
    if cluster is None or loss.kind != "spine" or not loss.bandwidth:
        return ""
    keys = _tree(*_network(plan, loss.network))
    tree = _at(cluster.spec, keys)
    (fabric,) = (fabric for fabric in plan.fabrics if fabric.name == loss.network)
    leaves = np.flatnonzero(fabric.role == Role.LEAF)
    around = fabric.peer_node[fabric.ports_of(int(leaves[0]))] if hasattr(tree, "spines") else leaves[:0]
    links = Counter(node for node in around.tolist() if node >= 0 and fabric.role[node] == Role.SPINE)
    now, parallel = len(links), max(links.values(), default=0)
    for spines in range(now + 1, 2 * now + 1 if parallel > 1 else 0):
        if tree.parallel and now * parallel % spines:
            continue
        fewer = {"parallel": now * parallel // spines} if tree.parallel else {}
        try:
            changed = Cluster(_with(cluster.spec, keys, {"spines": spines, **fewer}), cluster.catalog).fabrics
        except DesignError:
            continue
        (built,) = (fabric for fabric in changed if fabric.name == loss.network)
        if (built.role == Role.LEAF).sum() == len(leaves):
            found = find_losses([built], cluster.catalog).worst
            least = max((one.bandwidth for one in found if one.kind == "spine"), default=0.0)
            if least < loss.bandwidth:
                also = "".join(f" and `parallel: {number}`" for number in fewer.values())
                return f"; {least:.0%} with `{'.'.join(keys)}.spines: {spines}` (now {now}){also}"
    return ""


def _network(plan: Plan, name: str) -> tuple[list[str], Any]:
    """Return the keys of the network whose fabric has this name, and its shape."""
    spec = plan.planned.spec
    of = max((one for one in spec.networks if name.startswith(f"{plan.name}-{one}")), key=len, default=None)
    if of is not None:
        return ["networks", of, "network"], spec.networks[of].network
    storage = getattr(spec.network, "storage", None)
    beside = storage is not None and name == f"{plan.name}-storage"
    return (["network", "storage"], storage) if beside else (["network"], spec.network)


def _tree(keys: list[str], shape: object) -> list[str]:
    """Return the keys of the tree in a shape: its own, where it is one."""
    return [*keys, "tree"] if hasattr(shape, "tree") else keys


def _at(spec: Any, keys: list[str]) -> Any:
    """Return what a spec has at some keys."""
    for key in keys:
        spec = spec[key] if isinstance(spec, Mapping) else getattr(spec, key)
    return spec


def _with(spec: Any, keys: list[str], values: Mapping[str, object]) -> Any:
    """Return the spec with other values below some keys."""
    if not keys:
        return spec.model_copy(update=values)
    inner = _with(_at(spec, keys[:1]), keys[1:], values)
    return {**spec, keys[0]: inner} if isinstance(spec, Mapping) else spec.model_copy(update={keys[0]: inner})
