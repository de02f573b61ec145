"""What a routing engine owes, the registry of engines, and tables by one of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray

from routing.candidates import Candidate
from routing.lanes.classes import DATA_LANES
from routing.routed import Routed
from routing.tables import RoutingTables, assign_lids
from topo.errors import HeddleError, RoutingError, did_you_mean
from topo.fabric import Fabric

GROUP = "heddle.engines"
"""Entry points of distributions that bring engines of their own: name of the engine, and the object."""


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
    BuiltIn(
        "balanced", "any topology, joined zones too, evenly loaded; complete and free of loops on one lane", DATA_LANES
    ),
    BuiltIn("jobs", "any topology, even for jobs on every k-th host and on parts of the fabric; complete, on one lane"),
    BuiltIn("shortest", "any topology over shortest paths, evenly loaded, freed of credit loops by lanes", DATA_LANES),
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


def route(fabric: Fabric, engine: str | None = None, *, lanes: int | None = None, lmc: int | None = None) -> Routed:
    """Make the forwarding tables of a fabric.

    Parameters
    ----------
    fabric : Fabric
    engine : str, optional
        Name of an engine in `ENGINES`; the one that the fabric's spec asks for when left out. ``auto`` lets
        all route that take the fabric, judges their tables, and hands out the best (`routing.engines.auto`).
    lanes : int, optional
        Most data lanes that the tables may need to be free of credit loops; by default as many as the engine takes,
        which is one for all but ``shortest`` and ``dfsssp``.
    lmc : int, optional
        LID mask control: so that each port of an adapter has 2^lmc LIDs, each on paths of its own
        (`routing.engines.multipath`). That of the fabric, or of its spec, when left out.

    Returns
    -------
    Routed
        The tables, in ``why`` the reason for the engine, and in ``candidates`` what each was worth that was tried.

    Raises
    ------
    HeddleError
        When there is no such engine.
    RoutingError
        When the fabric has no switch, or the engine cannot route it, or not on so few lanes.

    Examples
    --------
    >>> import topo, routing
    >>> fabric = topo.preset("lab-20").fabric
    >>> routed = routing.route(fabric)
    >>> routed.tables.engine, [row.engine for row in routed.candidates if not row.refusal]
    ('balanced', ['balanced', 'fat-tree', 'minhop', 'dfsssp'])
    >>> routing.prove(routing.route(fabric, "updn")).holds
    True
    """
    why = "as asked" if engine is not None else "as the spec says"
    engine = Fabric.given(fabric).engine if engine is None else engine
    lmc = fabric.lmc if lmc is None else lmc
    if not fabric.n_switches:
        raise RoutingError(f"{fabric.name}: found no switch, so there are no tables to compute")
    lids = assign_lids(fabric, lmc)
    candidates: tuple[Candidate, ...] = ()
    if engine == "auto":
        from routing.engines.auto import choose  # compiled kernels, which the names of engines do not need

        def tables_of(name: str, lanes: int) -> RoutingTables:
            return ENGINES[name].route(fabric, lids, lanes=lanes)

        tables, why, candidates = choose(fabric, tables_of, 1 if lmc and lanes is None else lanes)
    else:
        tables = find_engine(engine).route(fabric, lids, lanes=lanes)
    if lanes is not None:
        from routing.lanes.fit import fit_lanes

        tables = fit_lanes(fabric, tables, lanes)
    if lmc > fabric.lmc and fabric.discovered_lid.size:
        why += f"; new LIDs: those of LMC {fabric.lmc} leave no room for LMC {lmc}"
    routed = Routed(fabric, tables, why=why, candidates=candidates)
    if lmc:
        from routing.engines.multipath import add_lids

        routed = add_lids(routed, lmc)
    return routed
