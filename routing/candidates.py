"""What the tables of engines are worth, side by side: the figures by which they are compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from topo.table import Column, Table


@dataclass(frozen=True)
class Candidate:
    """What an engine's tables are worth; an engine that refuses the fabric says why."""

    engine: str
    refusal: str = ""
    missing: int = 0
    """Pairs of adapters that cables connect and the tables do not."""
    credit_loops: int = 0
    """Channels in credit loops on the lanes that there are: between adapters, or if these have none, between all."""
    between_adapters: bool = True
    """Whether the loops are there without any packets to switches."""
    lanes: int = 1
    longest: int = 0
    """Switches on the longest path."""
    score: float = 0.0
    """J of `routing.search`: the lower, the less full are links; a difference of .01 is about one per cent."""
    parts: dict[str, float] = field(default_factory=dict)
    """What each class of traffic adds to it."""
    fullest: float | None = 0.0
    """Pairs of hosts over the fullest link, counted by its rate: twice on a link of half the rate. None, as in what
    follows, where nobody knows."""
    halves: float | None = 0.0
    """Rate of a flow from one random half of the hosts to the other, mean, as a share of the hosts' links."""
    shifts: float | None = 0.0
    """The same in shifts among the hosts of one role, in the mean over all hosts."""
    jobs: float | None = None
    """Rate of an all-to-all, mean over jobs as schedulers place them, as a share of the hosts' links; None where the
    hosts are too few for a job."""
    slowest_job: float | None = None
    """The same of the slowest of them."""

    @property
    def faults(self) -> str:
        """What is wrong with the tables, in words."""
        found = [f"{self.missing:,} lost"] if self.missing else []
        if self.credit_loops:
            found.append("loops" if self.between_adapters else "loops with switches")
        return ", ".join(found) or "none"

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain values, ready for JSON."""
        if self.refusal:
            return {"engine": self.engine, "refusal": self.refusal}
        unknown = {"refusal"} if self.parts else {"refusal", "score", "parts"}  # adaptive routing has no score
        return {name: value for name, value in asdict(self).items() if name not in unknown}


class Figure(NamedTuple):
    """What tables are compared by."""

    name: str
    field: str
    """Attribute of a candidate."""
    sign: int
    """1 where more is better, -1 where less is."""
    digits: str

    def share(self, row: Candidate, other: Candidate) -> float:
        """Return the ratio of two figures: above 1 where the first is better."""
        over, under = getattr(row, self.field), getattr(other, self.field)
        if self.sign < 0:
            over, under = under, over
        return float(over / under) if under else 1.0

    def text(self, row: Candidate) -> str:
        """Return the figure of one as text."""
        return f"{getattr(row, self.field):{self.digits}}"


FIGURES = (
    Figure("fullest link", "fullest", -1, ",.0f"),
    Figure("halves", "halves", 1, ".3f"),
    Figure("shifts", "shifts", 1, ".3f"),
    Figure("jobs", "jobs", 1, ".3f"),
    Figure("slowest job", "slowest_job", 1, ".3f"),
)
"""A row of the table has these and the longest path."""


def candidate_table(candidates: Sequence[Candidate]) -> Table:
    """Return candidates side by side; those that refuse the fabric are left out."""
    rows = [row for row in candidates if not row.refusal]
    columns = [Column("engine", [row.engine for row in rows]), Column("faults", [row.faults for row in rows])]
    if any(row.lanes > 1 for row in rows):
        columns.append(Column("lanes", [row.lanes for row in rows]))
    columns += [
        Column(figure.name, [getattr(row, figure.field) for row in rows], digits=figure.digits) for figure in FIGURES
    ]
    columns.append(Column("longest path", [row.longest for row in rows]))
    return Table("engines that were tried (rates as shares of a host's link)", tuple(columns))
