"""The first line of a result: whether the plan holds and why not, what one failure takes away, and the cure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from plan.cures import cure, no_manager
from topo import Verdict, plural

if TYPE_CHECKING:
    from plan.pipeline import Plan
    from topo import Loss

WORDS = {Verdict.HOLDS: "holds", Verdict.EXCEEDED: "does not hold", Verdict.CANNOT_TELL: "cannot be judged"}


def verdict_line(plan: Plan) -> str:
    """Return the verdict on a plan in one sentence: why it is none that holds comes first."""
    named = f"{plan.source}: " if plan.source and plan.source != plan.name else ""
    why = "; ".join(_once(_reasons(plan)))
    apart = "" if plan.cluster else islands(sum(proof.disconnected for proof in plan.proofs))
    beside = f", but {apart}" if apart and plan.verdict.holds else ""
    beside += f", {caveat(plan)} (caveat below)" if caveat(plan) else ""
    said = dict.fromkeys(check.doubt for check in plan.budget if check.doubt)
    doubts = "; ".join(one for one in said if not any(one in other for other in said if other != one))
    doubt = f" ({doubts})" if doubts and plan.verdict is Verdict.HOLDS else ""
    text = f"{named}{plan.name or 'the fabric'} {WORDS[plan.verdict]}{doubt}{beside}{why and f': {why}'}"
    failure = one_failure(plan, told=why)
    but = plan.verdict.holds and failure.startswith("one ")
    text += f"{', but' if but else ';'} {failure}" if failure else ""
    managed = no_manager(plan.cluster, unmanaged=True) if plan.cluster else ()
    return text + (f"; only compute servers can run the subnet manager of {', '.join(managed)}" if managed else "")


def islands(pairs: int) -> str:
    """Return what no tables can connect; empty where cables connect all."""
    return f"{plural(pairs, 'pair')} disconnected: no cables lead from one to the other" if pairs else ""


def caveat(plan: Plan) -> str:
    """Return what stands beside the verdict where tables are for study alone; empty for others."""
    word = "but" if plan.verdict.holds else "and"
    return f"{word} its tables are not to be loaded" if any(one.caveat for one in plan.subnets) else ""


def one_failure(plan: Plan, told: str = "") -> str:
    """Return what one failure of a spec takes, but for servers in a rack, and the cure, without what is ``told``."""
    if plan.losses is None:
        return ""
    off: list[Loss] = []
    for rack in (False, True):  # a rack is told where it takes more than any other part
        rows = (loss for loss in plan.losses.worst if (loss.kind == "rack") is rack)
        most = max(rows, key=lambda loss: loss.off, default=None)
        off += [most] if most and most.off > max((loss.off for loss in off), default=0) else []
    networks = [f"one {loss.kind} takes {loss.networks}" for loss in off]
    if taken := dict(_taken(plan)):
        left = [(effect, cured) for effect, cured in taken.items() if effect not in told]
        return "; ".join([*_once(left, told, "cure: "), *networks])
    kinds = ["switch", "link", *dict.fromkeys(one.kind for one in plan.losses.worst if one.kind in ("rack", "feed"))]
    any_one = " or ".join((", ".join(kinds[:-1]), kinds[-1]))
    others = "those that they reach with nothing failed" if plan.losses.parted else "one another"
    return "; ".join([f"any one {any_one} may fail: once rerouted, all servers left reach {others}", *networks])


def _once(reasons: Iterable[tuple[str, str]], told: str = "", word: str = "") -> Iterator[str]:
    """Yield reasons, each with its cure where that was not ``told`` before."""
    for reason, cured in reasons:
        yield reason if cured in told else f"{reason} ({word}{cured})"
        told += cured


def _reasons(plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield why a plan does not hold, or what is unknown where it cannot be judged, and the cure of each."""
    for kind, number in Counter(refusal.where for refusal in plan.refusals).items():
        more = f" and {number - 1:,} more" if number > 1 else ""
        yield f"{kind}: {plan.refused(kind)[0]}{more}", ""
    for check in plan.budget:
        if check.verdict is plan.verdict and check.verdict is not Verdict.HOLDS:
            yield check.reason.removesuffix(f" ({check.cure})"), check.cure


def _taken(plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield what one part of each kind takes away, but for the servers in a rack, and the cure; the worst first."""
    assert plan.losses is not None
    largest = plan.losses.largest
    for loss in sorted(plan.losses.worst, key=lambda loss: loss.weight, reverse=True):
        # What the worst switch takes is named with it, not with its rack.
        if loss.effect and (loss.kind != "rack" or loss.together or largest is None or loss.beyond > largest.beyond):
            yield loss.effect, " and ".join(map(str, cure(plan.planned, plan.losses, loss)))
