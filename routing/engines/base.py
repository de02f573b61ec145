"""What a routing engine owes, the registry of engines, and the choice among them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray

from routing.lanes.classes import DATA_LANES
from routing.order.zones import zones_of
from routing.routed import Routed
from routing.tables import RoutingTables, assign_lids
from topo.errors import HeddleError, RoutingError, did_you_mean
from topo.fabric import Fabric, Kind, Role

GROUP = "heddle.engines"
"""Entry points of distributions that bring engines of their own: name of the engine, and the object."""

FALLBACK = "balanced"
"""The engine that takes any fabric."""


class Engine(Protocol):
    """What makes forwarding tables.

    An engine owes tables for every LID of the fabric, or a `RoutingError` that says what keeps it from routing this
    one. It changes nothing that it is given, keeps the LIDs, and makes the same tables from the same fabric each time.
    Its tables should connect every pair that cables connect, without credit loops; `routing.prove` says whether they
    do, so that an engine is never believed.

    An engine from outside is an object with these members, named by an entry point of the group ``heddle.engines``.
    """

    @property
    def purpose(self) -> str:
        """What the engine is for, in one line."""

    @property
    def max_lanes(self) -> int:
        """Most data lanes that its tables may take."""

    def route(
        self, fabric: Fabric, lid: NDArray[np.uint16] | None = None, *, lanes: int | None = None
    ) -> RoutingTables:
        """Return the tables.

        Parameters
        ----------
        fabric : Fabric
        lid : (E,) uint16, optional
            LID of each end port; those of `routing.tables.assign_lids` when left out.
        lanes : int, optional
            Most data lanes that the tables may need to be free of credit loops; the engine's own choice when left out.

        Raises
        ------
        RoutingError
            When the engine does not take this fabric, or needs more lanes.
        """


@dataclass(frozen=True)
class BuiltIn:
    """An engine of Heddle; its module and the kernels in it are imported at first use."""

    name: str
    purpose: str
    max_lanes: int = 1
    module: str = ""
    """Where it is, if not in the module of its name."""
    options: Mapping[str, bool] = field(default_factory=dict)
    """Further arguments of its function."""

    def route(
        self, fabric: Fabric, lid: NDArray[np.uint16] | None = None, *, lanes: int | None = None
    ) -> RoutingTables:
        """Return the tables, as `Engine.route` says."""
        module = import_module(f"routing.engines.{self.module or self.name.replace('-', '_')}")
        options = {} if lanes is None or self.max_lanes == 1 else {"lanes": lanes}
        return cast(RoutingTables, module.route(fabric, lid, **options, **self.options))


@dataclass(frozen=True)
class Outside:
    """An engine that another distribution brings; loaded at first use."""

    point: EntryPoint

    @property
    def _engine(self) -> Engine:
        try:
            return cast(Engine, self.point.load())
        except Exception as error:
            raise RoutingError(
                f"the engine {self.point.name} ({self.point.value}) cannot be loaded: {error}"
            ) from error

    @property
    def purpose(self) -> str:
        """What the engine is for."""
        return self._engine.purpose

    @property
    def max_lanes(self) -> int:
        """Most data lanes that its tables may take."""
        return self._engine.max_lanes

    def route(
        self, fabric: Fabric, lid: NDArray[np.uint16] | None = None, *, lanes: int | None = None
    ) -> RoutingTables:
        """Return the tables, as `Engine.route` says."""
        return self._engine.route(fabric, lid, lanes=lanes)


BUILT_IN = (
    BuiltIn("fat-tree", "trees of any height by closed form; every shift of a whole tree is free of contention"),
    BuiltIn("zoned", "two-level fat-trees joined at their leaves; complete and free of loops on one lane"),
    BuiltIn("balanced", "any topology, evenly loaded; complete and free of loops on one lane", DATA_LANES),
    BuiltIn("minhop", "to compare with: shortest paths by count of destinations, as OpenSM does by default"),
    BuiltIn(
        "updn",
        "to compare with: shortest paths that go up, then down; pairs without one stay unconnected",
        1,
        "minhop",
        {"up_down": True},
    ),
    BuiltIn("dfsssp", "to compare with: shortest paths by weight, freed of credit loops by lanes", DATA_LANES),
)

ENGINES: dict[str, Engine] = {engine.name: engine for engine in BUILT_IN} | {
    point.name: Outside(point) for point in entry_points(group=GROUP)
}
"""Engines by name: Heddle's own, and those that other distributions bring."""


def find_engine(name: str) -> Engine:
    """Return an engine by its name.

    Raises
    ------
    HeddleError
        When there is none of this name.
    """
    if name not in ENGINES:
        hint = did_you_mean(name, ENGINES)
        raise HeddleError(f"found the engine {name!r}; expected auto or one of {', '.join(ENGINES)}. {hint}".strip())
    return ENGINES[name]


def route(fabric: Fabric, engine: str | None = None, *, lanes: int | None = None) -> Routed:
    """Make the forwarding tables of a fabric.

    Parameters
    ----------
    fabric : Fabric
    engine : str, optional
        Name of an engine in `ENGINES`; the one that the fabric's spec asks for when left out. ``auto`` takes the one
        that suits the fabric, and `balanced` where that one refuses it.
    lanes : int, optional
        Most data lanes that the tables may need to be free of credit loops; by default as many as the engine takes,
        which is one for all but ``dfsssp``.

    Returns
    -------
    Routed
        The tables, and in ``why`` the reason for the engine.

    Raises
    ------
    HeddleError
        When there is no such engine.
    RoutingError
        When the engine cannot route this fabric, or not on so few lanes.

    Examples
    --------
    >>> import topo, routing
    >>> fabric = topo.preset("lab-20").fabric
    >>> routing.route(fabric).why
    'hosts of several roles'
    >>> routing.prove(routing.route(fabric, "updn")).holds
    True
    """
    why = "as asked" if engine is not None else "as the spec says"
    engine = chosen = Fabric.given(fabric).engine if engine is None else engine
    if engine == "auto":
        chosen, why = choose(fabric)
    lids = assign_lids(fabric)
    if fabric.lmc:
        raise RoutingError(
            f"{fabric.name} has LMC {fabric.lmc}, that is {2**fabric.lmc} LIDs a port, and tables with one LID a port "
            "would renumber it; set `lmc 0` in opensm.conf and let OpenSM assign LIDs, then record the fabric again"
        )
    try:
        tables = find_engine(chosen).route(fabric, lids, lanes=lanes)
    except RoutingError as error:
        if engine != "auto" or chosen == FALLBACK:
            raise
        why = f"`{chosen}` does not take it: {error}"
        tables = ENGINES[FALLBACK].route(fabric, lids, lanes=lanes)
    if engine == "auto" and tables.engine == "zoned":  # else `balanced` has been taken already
        tables, why = _measured(fabric, tables, why)
    if lanes is not None:
        from routing.lanes.fit import fit_lanes  # compiled kernels, which the names of engines do not need

        tables = fit_lanes(fabric, tables, lanes)
    return Routed(fabric, tables, why=why)


def _measured(fabric: Fabric, tables: RoutingTables, why: str) -> tuple[RoutingTables, str]:
    """Return tables of `zoned`, or those of `balanced` where more arrives or random halves get over 1 % more."""
    from routing.proof import prove
    from routing.quality import measure

    other = ENGINES[FALLBACK].route(fabric, tables.lid)
    missing, left = (prove(Routed(fabric, one), "adapters").missing for one in (tables, other))
    if left < missing:
        return other, f"{why}; `{tables.engine}` leaves {missing - left:,} more pairs of adapters without a path"
    ours, theirs = (measure(Routed(fabric, one)).ebb for one in (tables, other))
    if theirs <= 1.01 * ours:
        return tables, why
    return other, f"{why}; effective bisection {theirs:.3f}, with `{tables.engine}` {ours:.3f}"


def choose(fabric: Fabric) -> tuple[str, str]:
    """Choose an engine for a fabric; return its name, and why.

    `balanced` starts from what `fat-tree` finds and only improves it, so `fat-tree` is taken where there is nothing to
    improve: on a whole tree whose hosts are all of one role.

    Examples
    --------
    >>> import topo, routing
    >>> fabric = topo.preset("lab-20").fabric
    >>> routing.choose(fabric)
    ('balanced', 'hosts of several roles')
    """
    joints = int(np.count_nonzero(Fabric.given(fabric).role == Role.JOINT))
    if joints:
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
    for direction, step, heights in (("up", 1, range(1, top)), ("down", -1, range(2, top + 1))):
        count = np.bincount(here[links & (rise == step)], minlength=n)
        for height in heights:
            if len(np.unique(count[level == height])) > 1:
                return f"not a whole tree: switches of level {height} have unequal numbers of links {direction}"
    if len(np.unique(fabric.role[there[hosts]])) > 1:
        return "hosts of several roles"
    return ""
