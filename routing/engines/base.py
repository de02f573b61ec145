"""What a routing engine owes, the registry of engines, and tables by one of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from routing.candidates import Candidate
from routing.lanes.classes import DATA_LANES
from routing.routed import Routed
from routing.tables import RoutingTables, assign_lids
from topo.errors import HeddleError, RoutingError, did_you_mean, plural, whole
from topo.fabric import MAX_LMC, Fabric

GROUP = "heddle.engines"
"""Entry points of distributions that bring engines of their own: name of the engine, and the object."""


@runtime_checkable
class Engine(Protocol):
    """What makes forwarding tables.

    An engine owes tables for every LID of the fabric, or a `RoutingError` that says what keeps it from routing this
    one. It changes nothing that it is given, keeps the LIDs, and makes the same tables from the same fabric each time.
    Its tables should connect every pair that cables connect, without credit loops; `routing.prove` says whether they
    do, so that an engine is never believed.

    An engine from outside is any object with these members. Give it to `routing.route`, or register it by an entry
    point of the group ``heddle.engines`` under its name. `routing.route` proves its tables before it returns them.
    """

    @property
    def name(self) -> str:
        """Name of the engine, which its tables carry; not one of Heddle's own."""

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
    """An engine that is not Heddle's: held to what `Engine` says of its members, and of the shape of its tables."""

    source: EntryPoint | Engine
    """The object, or the entry point that names it and is loaded at first use."""

    @property
    def name(self) -> str:
        """Name of the engine."""
        return self.source.name

    @property
    def _engine(self) -> Engine:
        engine: object = self.source
        if isinstance(self.source, EntryPoint):
            try:
                engine = self.source.load()
            except Exception as error:
                raise RoutingError(f"the engine {self.name} ({self.source.value}) cannot be loaded: {error}") from error
        return _given(engine)

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
        """Return the tables, as `Engine.route` says.

        Raises
        ------
        RoutingError
            When the engine refuses the fabric or fails, or its tables are not of this fabric, have other LIDs or need
            more lanes than they may.
        """
        from routing.proof import check_shape  # compiled kernels, which the names of engines do not need

        lids = assign_lids(fabric) if lid is None else lid
        try:
            tables = self._engine.route(fabric, lids, lanes=lanes)
        except HeddleError:
            raise
        except Exception as error:
            raise RoutingError(
                f"the engine {self.name} failed: {type(error).__name__}: {error}; "
                "expected routing.RoutingTables, or a RoutingError that says why it does not route this fabric"
            ) from error
        if not isinstance(tables, RoutingTables):
            raise RoutingError(
                f"the engine {self.name} returned a {type(tables).__name__}; expected routing.RoutingTables"
            )
        check_shape(fabric, tables)
        if tables.lmc or not np.array_equal(tables.lid, lids):
            raise RoutingError(f"the engine {self.name} changed the LIDs; expected those that it was given, with LMC 0")
        levels = [0] if tables.path_sl is None else np.unique(tables.path_sl).tolist()
        used = len({tables.sl2vl[level] for level in levels if level < len(tables.sl2vl)})
        most = self.max_lanes if lanes is None else lanes
        if used > most:
            raise RoutingError(f"the tables of {self.name} use {plural(used, 'lane')}; expected at most {most}")
        return replace(tables, engine=self.name)


def _given(engine: object) -> Engine:
    """Return an object that is an engine; raise HeddleError for any other."""
    if not isinstance(engine, Engine) or not isinstance(engine.name, str):
        raise HeddleError(
            f"found {engine!r} for an engine; expected auto, the name of an engine ({', '.join(ENGINES)}), or an "
            "object with `name`, `purpose`, `max_lanes` and `route`, as routing.Engine says"
        )
    return engine


BUILT_IN = (
    BuiltIn("fat-tree", "trees of any height by closed form; every shift of a whole tree is free of contention"),
    BuiltIn(
        "balanced", "any topology, joined zones too, evenly loaded; complete and free of loops on one lane", DATA_LANES
    ),
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

ENGINES: dict[str, Engine] = {engine.name: engine for engine in BUILT_IN}
"""Engines by name: Heddle's own, and those that other distributions register under further names."""
for _point in entry_points(group=GROUP):
    ENGINES.setdefault(_point.name, Outside(_point))


def find_engine(engine: str | Engine) -> Engine:
    """Return an engine by its name, or an engine object as `Outside` holds it to its word.

    Raises
    ------
    HeddleError
        When there is none of this name, or the object is not an engine or has the name of another one.
    """
    if not isinstance(engine, str):
        given = _given(engine)
        if isinstance(given, BuiltIn | Outside):
            return given
        if given.name in (*ENGINES, "auto"):
            raise HeddleError(f"found an engine object of the name {given.name!r}, which another engine has: rename it")
        return Outside(given)
    if engine not in ENGINES:
        hint = did_you_mean(engine, ENGINES)
        raise HeddleError(f"found the engine {engine!r}; expected auto or one of {', '.join(ENGINES)}. {hint}".strip())
    return ENGINES[engine]


def route(
    fabric: Fabric,
    engine: str | Engine | None = None,
    *,
    lanes: int | None = None,
    lmc: int | None = None,
    entrants: Sequence[Engine] = (),
    like: Iterable[Routed] = (),
) -> Routed:
    """Make the forwarding tables of a fabric.

    Parameters
    ----------
    fabric : Fabric
    engine : str or Engine, optional
        Name of an engine in `ENGINES`, or an engine object; the engine that the fabric's spec asks for when left out.
        ``auto`` lets all route that take the fabric, judges their tables, and hands out the best
        (`routing.engines.auto`).
    lanes : int, optional
        Most data lanes that the tables may need to be free of credit loops; by default as many as the engine takes,
        which is one for all but ``shortest`` and ``dfsssp``. 1 to 8.
    lmc : int, optional
        LID mask control, 0 to 7: so that each port of an adapter has 2^lmc LIDs, each on paths of its own
        (`routing.engines.multipath`). That of the fabric, or of its spec, when left out.
    entrants : sequence of Engine, optional
        Engine objects that ``auto`` tries too, beside its own and those that other distributions register.
    like : iterable of Routed, optional
        What was returned for other fabrics, with all else the same. A fabric that differs from one of these in names
        and GUIDs only (`topo.Fabric.is_copy_of`), as a plane does, gets the same tables without being routed.

    Returns
    -------
    Routed
        The tables, in ``why`` the reason for the engine, and in ``candidates`` what each was worth that was tried.

    Raises
    ------
    HeddleError
        When there is no such engine, a number is out of its bounds, or there are entrants and the engine is not
        ``auto``.
    RoutingError
        When the fabric has no switch, or the engine cannot route it, or not on so few lanes; when the engine is not
        Heddle's, and its tables do not connect every pair of adapters that cables connect, or have credit loops.

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
    lmc = fabric.lmc if lmc is None else whole("LMC", lmc, 0, MAX_LMC)
    lanes = None if lanes is None else whole("lanes", lanes, 1, DATA_LANES)
    if not fabric.n_switches:
        raise RoutingError(f"{fabric.name}: found no switch, so there are no tables to compute")
    if entrants and engine != "auto":
        raise HeddleError(
            f"found entrants for {engine!r}; only the engine auto tries several: route(fabric, 'auto', ...)"
        )
    if (copied := next((one for one in like if _is_known(one, fabric)), None)) is not None:
        return Routed(fabric, copied.tables, why=copied.why, candidates=copied.candidates)
    lids = assign_lids(fabric, lmc)
    candidates: tuple[Candidate, ...] = ()
    if engine == "auto":
        from routing.engines.auto import choose  # compiled kernels, which the names of engines do not need

        others = [found for found in ENGINES.values() if not isinstance(found, BuiltIn)]
        outside = {found.name: found for found in (*others, *map(find_engine, entrants))}

        def tables_of(name: str, lanes: int) -> RoutingTables:
            return (outside.get(name) or ENGINES[name]).route(fabric, lids, lanes=lanes)

        tables, why, candidates = choose(fabric, tables_of, 1 if lmc and lanes is None else lanes, tuple(outside))
        proven = tables.engine not in outside
    else:
        found = find_engine(engine)
        tables = found.route(fabric, lids, lanes=lanes)
        proven = isinstance(found, BuiltIn)
    if lanes is not None:
        from routing.lanes.fit import fit_lanes

        tables = fit_lanes(fabric, tables, lanes)
    if lmc > fabric.lmc and fabric.discovered_lid.size:
        why += f"; new LIDs: those of LMC {fabric.lmc} leave no room for LMC {lmc}"
    routed = Routed(fabric, tables, why=why, candidates=candidates)
    if not proven:
        _refuse_unproven(routed)
    if lmc:
        from routing.engines.multipath import add_lids

        routed = add_lids(routed, lmc)
    return routed


def _is_known(routed: Routed, fabric: Fabric) -> bool:
    """Whether a fabric gets the same tables, for the same reasons.

    Engines from outside may go by names, and who refuses a fabric may name its switches.
    """
    made = {routed.tables.engine, *(row.engine for row in routed.candidates)}
    ours = made <= {engine.name for engine in BUILT_IN} and not any(row.refusal for row in routed.candidates)
    return ours and fabric.is_copy_of(routed.fabric)


def _refuse_unproven(routed: Routed) -> None:
    """Raise RoutingError unless tables connect every pair of adapters that cables connect, without credit loops."""
    from routing.proof import prove

    proof = prove(routed, "adapters")
    if not proof.lost and not proof.credit_loops:
        return
    faults = [f"{plural(proof.lost, 'pair')} that cables connect do not arrive"] if proof.lost else []
    if proof.lost and not proof.disconnected:
        faults[0] += f" ({proof.examples[0].describe()})"
    faults += [f"{plural(proof.credit_loops, 'channel')} in credit loops"] if proof.credit_loops else []
    raise RoutingError(
        f"{routed.fabric.name}: the tables of {routed.tables.engine} fail the proof: {', '.join(faults)}; expected "
        "every pair to arrive, and no credit loop. To study them as they are, take Routed(fabric, engine.route(fabric))"
    )
