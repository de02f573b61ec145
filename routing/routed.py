"""A routed fabric: its tables, and what its ports do with service levels."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import routing  # methods that lead to other rooms go through the front door
from routing.lanes.classes import LanePlan, lanes_of_classes, lanes_of_levels
from routing.lanes.policy import QosPolicy, policy_of_classes
from routing.tables import RoutingTables
from topo.errors import plural
from topo.fabric import Fabric
from topo.table import Column, Shown, Table

if TYPE_CHECKING:
    from routing.tables import EndpointSet
    from topo.drawing import Drawing

OF_TABLES = LanePlan((), ())
"""Stands for the lanes that tables and classes of traffic need."""


@dataclass(frozen=True)
class Candidate:
    """What an engine's tables are worth; an engine that refuses the fabric says why."""

    engine: str
    refusal: str = ""
    missing: int = 0
    """Pairs of adapters that cables connect and its tables do not."""
    credit_loops: int = 0
    """Channels in credit loops on the lanes that the tables have: between hosts, or if these have none, between all."""
    lanes: int = 1
    max_hops: int = 0
    """Switches on the longest path."""
    stretch: int = 0
    """Most switches of a path beyond the shortest."""
    max_load: int = 0
    """Pairs over the fullest link."""
    shared_load: int = 0
    """Pairs over the fullest of the links that lead to several hosts: on a link to one, no flows meet that do not meet
    at that host."""
    role_load: float = 0.0
    """What hosts of one role meet of each other's on those links: most pairs to one role over any, without those to its
    busiest host there, and as many as hosts, which that one is sent; in the geometric mean over roles."""
    ebb: float = 0.0
    permutation: float = 0.0
    """Bandwidth of random permutations."""
    shift: float = 0.0
    """Bandwidth of shifts along the tree."""
    role_shift: float = 0.0
    """The same among the hosts of one role, in the mean over all hosts."""
    mean_shift: float = 0.0
    """Flows on the fullest link of a shift, in the mean over all of them."""
    role_mean_shift: float = 0.0
    """The same among the hosts of one role, in the mean over all hosts."""
    worst_shift: int = 0
    """The same in the worst of them."""

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain values, ready for JSON."""
        if self.refusal:
            return {"engine": self.engine, "refusal": self.refusal}
        return {name: value for name, value in vars(self).items() if name != "refusal"}


@dataclass(frozen=True, eq=False)
class Routed(Shown):
    """A fabric with forwarding tables, by whomever they were made.

    Lanes and policy that are not given are those of the tables, where these give paths a service level; else those of
    the fabric's classes of traffic; and without any, one lane.

    Examples
    --------
    >>> import topo, routing
    >>> routed = routing.route(topo.preset("lab-20").fabric)
    >>> routed.tables.engine, routed.lanes.lanes
    ('balanced', 2)
    """

    _made_by = "`routing.route(fabric)`"

    fabric: Fabric
    tables: RoutingTables
    lanes: LanePlan = OF_TABLES
    """Lane of each service level, and how lanes share a cable."""
    policy: QosPolicy = field(default_factory=QosPolicy)
    """Which service level the subnet manager gives to a path, where the tables leave it open."""
    why: str = "as given"
    """Why these tables: the reason for the engine."""
    candidates: tuple[Candidate, ...] = ()
    """What each engine was worth that was tried, where they were chosen among several."""

    def __post_init__(self) -> None:
        if self.lanes.sl2vl:
            return
        traffic, tables = self.fabric.traffic, self.tables
        if traffic and (tables.path_sl is None or not tables.path_sl.any()):
            object.__setattr__(self, "lanes", lanes_of_classes(traffic))
            object.__setattr__(self, "policy", policy_of_classes(self.fabric, traffic))
        else:
            object.__setattr__(self, "lanes", lanes_of_levels(tables.sl2vl))

    def _brief(self) -> str:
        return (
            f"{self.fabric.name}: {self.tables.engine}, {plural(len(self.fabric.hosts), 'host')} on "
            f"{plural(self.fabric.n_switches, 'switch', 'switches')}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return what is known of the tables as plain values, ready for JSON."""
        return {
            "name": self.fabric.name,
            "engine": self.tables.engine,
            "engine_reason": self.why,
            "candidates": [row.to_dict() for row in self.candidates],
        }

    def draw(self, endpoints: EndpointSet = "hca") -> Drawing:
        """Draw the fabric, each link coloured by the pairs of end ports that go over it.

        Parameters
        ----------
        endpoints : str
            Whose pairs are counted, as `routing.prove` takes it.

        Examples
        --------
        >>> import topo, routing
        >>> routing.route(topo.preset("lab-20").fabric).draw().svg[:4]
        '<svg'
        """
        return self.fabric.draw(routing.prove(self, endpoints).load)

    @property
    def table(self) -> Table:
        """Which engine made the tables, why, and for what."""
        figures: dict[str, str | int] = {"name": self.fabric.name, "engine": self.tables.engine}
        figures |= {"engine reason": self.why, "switches": self.fabric.n_switches, "lanes": self.lanes.lanes}
        return Table("routed fabric", (Column("of", list(figures)), Column("value", list(figures.values()))))

    def _shown(self) -> tuple[Table, ...]:
        return (self.table, *((routing.candidate_table(self.candidates),) if self.candidates else ()))
