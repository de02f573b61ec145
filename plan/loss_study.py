"""What a user asks of tables besides their proof, and the answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from routing import EndpointSet, Routed, Trace
    from routing.studies import AdaptiveStudy, LinkUse, LossStudy


@dataclass(frozen=True)
class Questions:
    """Parts of the fabric by name."""

    paths: tuple[tuple[str, str], ...] = ()
    """Pairs of end ports, each asked in both directions, to all LIDs."""
    over: tuple[str, ...] = ()
    """Links."""
    without: tuple[str, ...] = ()
    """Switches and links."""
    adaptive: bool = False
    """Whether to prove groups of ports around the tables."""


@dataclass(frozen=True)
class Answers:
    """One for each question; a path has one for each direction and LID."""

    paths: tuple[Trace, ...] = ()
    over: tuple[LinkUse, ...] = ()
    without: tuple[LossStudy, ...] = ()
    adaptive: AdaptiveStudy | None = None

    @property
    def given(self) -> bool:
        """Whether anything was asked of parts of the fabric."""
        return bool(self.paths or self.over or self.without)

    def to_dict(self) -> dict[str, Any]:
        """Return the answers by question as plain values, ready for JSON; without those that nobody asked."""
        parts = {
            "paths": [path.to_dict() for path in self.paths],
            "over": [use.to_dict() for use in self.over],
            "without": [study.to_dict() for study in self.without],
        }
        found: dict[str, Any] = {name: part for name, part in parts.items() if part}
        return found | ({"adaptive": self.adaptive.to_dict()} if self.adaptive else {})


def answer(routed: Routed, asked: Questions, endpoints: EndpointSet) -> Answers:
    """Answer the questions about tables.

    Raises
    ------
    HeddleError
        When the fabric has no such part.
    """
    import numpy as np

    import routing

    ends = [tuple(routing.find_end(routed, name) for name in pair) for pair in asked.paths]
    return Answers(
        tuple(
            routing.trace(routed, *pair, lid)
            for a, b in ends
            for pair in ((a, b), (b, a))
            for lid in routed.tables.lids_of(np.array(pair[1:]))[1].tolist()
        ),
        tuple(routing.studies.link_use(routed, link, endpoints) for link in asked.over),
        tuple(routing.studies.study_loss(routed, part, endpoints=endpoints) for part in asked.without),
        routing.studies.study_adaptive(routed) if asked.adaptive else None,
    )
