"""A routed fabric: its tables, and what its ports do with service levels."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from routing.candidates import Candidate, candidate_table
from routing.lanes.classes import LanePlan, lanes_of_classes, lanes_of_levels
from routing.lanes.policy import QosPolicy, policy_of_classes
from routing.tables import RoutingTables
from topo.errors import plural
from topo.fabric import Fabric
from topo.ports import slow_cables, uneven_links
from topo.table import Shown, Table

OF_TABLES = LanePlan((), ())
"""Default: the lanes that tables and classes of traffic need."""


@dataclass(frozen=True, eq=False)
class Routed(Shown):
    """A fabric with forwarding tables, whoever made them.

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
    """Figures of each engine that was tried, where `auto` chose among several."""

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
            f"{self.fabric.name}: {self.tables.maker}, {plural(len(self.fabric.hosts), 'host')} on "
            f"{plural(self.fabric.n_switches, 'switch', 'switches')}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return what is known of the tables as plain values, ready for JSON."""
        return {
            "name": self.fabric.name,
            "engine": self.tables.engine,
            "engine_reason": self.why,
            "slow_cables": [*slow_cables(self.fabric)],
            "uneven_links": [*uneven_links(self.fabric)],
            "candidates": [row.to_dict() for row in self.candidates],
        }

    @property
    def table(self) -> Table:
        """Which engine made the tables, why, and for what."""
        figures: dict[str, str | int] = {"name": self.fabric.name, "engine": self.tables.maker}
        figures |= {"engine reason": self.why, "switches": self.fabric.n_switches, "lanes": self.lanes.lanes}
        return Table.of_rows("routed fabric", ("of", "value"), figures.items())

    @property
    def candidate_table(self) -> Table:
        """The engines that were tried, side by side; those that refuse the fabric are left out.

        Examples
        --------
        >>> import topo, routing
        >>> routing.route(topo.preset("lab-20").fabric).candidate_table.columns[0].values
        ['balanced', 'fat-tree', 'minhop', 'dfsssp']
        """
        return candidate_table(self.candidates)

    def _shown(self) -> tuple[Table, ...]:
        return (self.table, self.candidate_table) if self.candidates else (self.table,)
