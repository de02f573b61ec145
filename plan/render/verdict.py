"""The first line of a result: whether the plan holds, what one failure takes away, and what would cure it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from plan.cures import cure
from topo import Verdict, plural

if TYPE_CHECKING:
    from plan.pipeline import Plan
    from topo import Losses

WORDS = {Verdict.HOLDS: "holds", Verdict.EXCEEDED: "does not hold", Verdict.CANNOT_TELL: "cannot be judged"}


def verdict_line(plan: Plan) -> str:
    """Return the verdict on a plan in one sentence."""
    named = f"{plan.source}: " if plan.source and plan.source != plan.name else ""
    text = f"{named}{plan.name or 'the fabric'} {WORDS[plan.verdict]}"
    failure = one_failure(plan)
    but = plan.verdict.holds and failure.startswith("one ")
    return text if not failure else f"{text}{', but' if but else ';'} {failure}"


def one_failure(plan: Plan) -> str:
    """Return what one failure takes, but for the servers in a rack, and the cure; empty for a fabric without a spec."""
    if plan.losses is None:
        return ""
    taken = list(_taken(plan, plan.losses))
    if taken:
        return "; ".join(taken)
    kinds = ["switch", "link", *(loss.kind for loss in plan.losses.worst if loss.kind in ("rack", "feed"))]
    any_one = " or ".join((", ".join(kinds[:-1]), kinds[-1]))
    return f"any one {any_one} may fail: all servers left reach one another"


def _taken(plan: Plan, losses: Losses) -> Iterator[str]:
    """Yield what one part of each kind takes away, but for the servers in a rack, the worst first."""
    for loss in sorted(losses.worst, key=lambda loss: loss.weight, reverse=True):
        effects = []
        inside = loss.kind == "rack"  # it takes its own servers with it, which no network can cure
        if inside and not loss.together:
            continue  # switches of it that are named themselves take as much
        if not loss.survived:
            pairs = f"parts {plural(loss.beyond, 'pair')} of {'other ' * inside}servers"
            effects.append(f"cuts off {plural(loss.servers, 'server')}" if loss.servers and not inside else pairs)
        if loss.zones == 1.0:
            effects.append("takes all bandwidth between zones")
        if effects:
            yield f"one {loss.kind} {' and '.join(effects)} ({cure(plan, loss)})"
