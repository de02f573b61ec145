"""Routing engines, one module each: a function `route` from a fabric to its tables.

They are imported when they are asked for: each brings its own kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

import numpy as np

from routing.tables import RoutingTables
from topo.errors import RoutingError
from topo.fabric import Fabric, Kind, Role

Engine = Callable[..., RoutingTables]

ENGINES = {
    "fat-tree": "trees of any height by closed form; every shift of a whole tree is free of contention",
    "zoned": "two-level fat-trees joined at their leaves; complete and free of loops on one lane",
    "balanced": "any topology; complete and free of loops on one lane, destinations where they meet the fewest flows",
    "minhop": "to compare with: shortest paths by count of destinations, as OpenSM does by default; credit loops",
    "updn": "to compare with: shortest paths that go up, then down; pairs without one stay unconnected",
    "dfsssp": "to compare with: shortest paths by weight, on as many lanes as free them of credit loops",
}
"""Names of the engines, and what each is for."""


def load_engine(name: str) -> Engine:
    """Return the function of an engine: fabric and LIDs (or None) to tables; `balanced` and `dfsssp` take lanes."""
    engine: Engine = import_module(f"routing.engines.{name.replace('-', '_')}").route
    return engine


def choose(fabric: Fabric) -> tuple[str, str]:
    """Choose an engine for a fabric; return its name, and why.

    `balanced` starts from what `fat-tree` finds and only improves it, so `fat-tree` is taken where there is nothing to
    improve: on a whole tree whose hosts are all of one role.
    """
    joints = int(np.count_nonzero(fabric.role == Role.JOINT))
    if joints:
        from routing.order.zones import zones_of

        try:
            zones, _ = zones_of(fabric)
        except RoutingError as error:
            return "balanced", f"the engine `zoned` does not take it: {error}"
        return "zoned", f"{joints} joints between {len(zones)} zones"
    flaw = _flaw(fabric)
    return ("balanced", flaw) if flaw else ("fat-tree", "a whole fat-tree")


def _flaw(fabric: Fabric) -> str:
    """Say what keeps a fabric from being a whole tree with hosts of one role; empty when nothing does."""
    n = fabric.n_switches
    level = fabric.level[:n].astype(np.int64)
    ports = np.flatnonzero((fabric.port_node < n) & (fabric.peer_node >= 0) & (fabric.peer_node != fabric.port_node))
    here, there = fabric.port_node[ports], fabric.peer_node[ports]
    hosts = fabric.kind[there] == Kind.HCA
    links = there < n
    rise = fabric.level[there].astype(np.int64) - fabric.level[here]
    if (level < 1).any():
        return "its levels are not known"
    if (np.abs(rise[links]) != 1).any():
        return "not a tree: cables within a level or past one"
    if (level[here[hosts]] > 1).any():
        return "hosts above the leaves"
    if len(np.unique(fabric.rate_gbps[ports[links]])) > 1:
        return "links of unequal speed"
    top = int(level.max(initial=1))
    for way, step, heights in (("up", 1, range(1, top)), ("down", -1, range(2, top + 1))):
        count = np.bincount(here[links & (rise == step)], minlength=n)
        for height in heights:
            if len(np.unique(count[level == height])) > 1:
                return f"not a whole tree: switches of level {height} have unequal numbers of links {way}"
    if len(np.unique(fabric.role[there[hosts]])) > 1:
        return "hosts of several roles"
    return ""
