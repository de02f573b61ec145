"""What the tables of engines are worth, side by side: the figures by which they are compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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
    """Channels in credit loops on the lanes that the tables have: between hosts, or if these have none, between all."""
    lanes: int = 1
    max_hops: int = 0
    """Switches on the longest path."""
    stretch: int = 0
    """Most switches of a path beyond the shortest."""
    max_load: int = 0
    """Pairs over the fullest link."""
    shared_load: int = 0
    """Pairs over the fullest link that leads to several hosts. On a link to one host, all flows end at that host and
    meet there anyway."""
    role_load: float = 0.0
    """Load by role, as a geometric mean over roles: n_hosts + max over shared links of (pairs to the role - pairs to
    its busiest host)."""
    ebb: float = 0.0
    permutation: float = 0.0
    """Mean bandwidth in random permutations, as a share of a link."""
    shift: float = 0.0
    """Mean bandwidth in shifts along the tree, as a share of a link."""
    role_shift: float = 0.0
    """The same among the hosts of one role, in the mean over all hosts."""
    mean_shift: float = 0.0
    """Flows on the fullest link of a shift, mean over all shifts."""
    role_mean_shift: float = 0.0
    """The same among the hosts of one role, in the mean over all hosts."""
    worst_shift: int = 0
    """Flows on the fullest link of the worst shift."""

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain values, ready for JSON."""
        if self.refusal:
            return {"engine": self.engine, "refusal": self.refusal}
        return {name: value for name, value in vars(self).items() if name != "refusal"}


class Figure(NamedTuple):
    """What tables are judged by."""

    name: str
    field: str
    """Attribute of a candidate."""
    sign: int
    """1 where more is better, -1 where less is."""
    weight: float
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
    Figure("fullest link", "max_load", -1, 0.0, ",.0f"),
    Figure("fullest shared link", "shared_load", -1, 2.0, ",.0f"),
    Figure("load by role", "role_load", -1, 1.0, ",.0f"),
    Figure("bisection", "ebb", 1, 2.0, ".3f"),
    Figure("permutations", "permutation", 1, 1.0, ".3f"),
    Figure("shifts", "shift", 1, 0.75, ".3f"),
    Figure("shifts by role", "role_shift", 1, 0.5, ".3f"),
    Figure("mean shift", "mean_shift", -1, 0.5, ".2f"),
    Figure("mean shift by role", "role_mean_shift", -1, 0.5, ".2f"),
    Figure("worst shift", "worst_shift", -1, 0.08, ".0f"),
)


def candidate_table(candidates: Sequence[Candidate]) -> Table:
    """Return candidates side by side; those that refuse the fabric are left out."""
    rows = [row for row in candidates if not row.refusal]
    columns = {"missing": "missing", "loops": "credit_loops", "lanes": "lanes", "switches": "max_hops"}
    plain = (Column(name, [getattr(row, field) for row in rows]) for name, field in columns.items())
    judged = (
        Column(figure.name, [getattr(row, figure.field) for row in rows], digits=figure.digits)
        for figure in telling_figures(rows)
    )
    return Table("engines that were tried", (Column("engine", [row.engine for row in rows]), *plain, *judged))


def telling_figures(rows: Sequence[Candidate]) -> list[Figure]:
    """Return the figures, without those that equal another figure in every row."""
    again = {"shared_load": "max_load", "role_load": "shared_load"}
    again |= {"role_shift": "shift", "role_mean_shift": "mean_shift"}
    return [
        figure
        for figure in FIGURES
        if figure.field not in again
        or any(figure.text(row) != figure._replace(field=again[figure.field]).text(row) for row in rows)
    ]
