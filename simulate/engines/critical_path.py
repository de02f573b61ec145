"""Critical paths: what the last of some flows waited for, back to the start."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulate.traffic.flows import Flows

if TYPE_CHECKING:
    from simulate.engines.outcome import Outcome

DELAY, LATENCY = "computation and delays", "latency"


class Segment(NamedTuple):
    """A part of a critical path."""

    flow: int
    resource: int  # what held the flow back; -1 when it did not move
    what: str
    begin_s: float
    end_s: float


def critical_segments(outcome: Outcome, span: slice | None = None) -> list[Segment]:
    """Return what the last of some flows, or of all, waited for, back to their start: segments that follow each other.

    Before a flow that moves at once stands the last to end of those that it waited for; before one that had to wait for
    its connection, the flow that moved there before it. Of several that end at the same instant, the first counts.
    """
    flows, finish = outcome.flows, outcome.finish_s
    span = slice(0, len(flows)) if span is None else span
    if span.stop == span.start:
        return []
    before = outcome.before_on_connection
    latency = outcome.routes.latency_s[outcome.routes.route]
    flow = int(finish[span].argmax()) + span.start
    until = float(finish[flow])
    found: list[Segment] = []

    def add(resource: int, what: str, since: float) -> None:
        nonlocal until
        if since < until:
            found.append(Segment(flow, resource, what, since, until))
            until = since

    for _ in range(2 * len(flows)):
        begin = float(outcome.start_s[flow])
        resource, ahead = int(outcome.bottleneck[flow]), int(before[flow])
        if ahead >= 0 and finish[ahead] > begin + latency[flow]:
            add(resource, outcome.network.resource_kind(resource), float(finish[ahead]))
            flow = ahead
            continue
        add(resource, outcome.network.resource_kind(resource), begin + float(latency[flow]))
        add(-1, LATENCY, begin)
        awaited = np.sort(flows.dep[flows.dep_offset[flow] : flows.dep_offset[flow + 1]])
        if not len(awaited) or finish[awaited].max() < flows.start_s[flow]:
            break
        last = int(awaited[finish[awaited].argmax()])
        add(-1, DELAY, float(finish[last]))
        flow = last
    add(-1, DELAY, float(flows.start_s[span].min()))
    return found[::-1]


def time_by_kind(segments: list[Segment]) -> dict[str, float]:
    """Return the seconds of a critical path by what held it back, the longest first."""
    seconds: dict[str, float] = {}
    for segment in segments:
        seconds[segment.what] = seconds.get(segment.what, 0.0) + segment.end_s - segment.begin_s
    return dict(sorted(seconds.items(), key=lambda item: -item[1]))


def before_on_connection(flows: Flows, start_s: NDArray[np.float64], finish_s: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return (F,) the flow that ended before each on its connection, -1 for none."""
    connection = flows.connection
    order = np.lexsort((start_s, finish_s, connection))
    before = np.full(len(connection), -1)
    same = (connection[order[1:]] == connection[order[:-1]]) & (connection[order[1:]] >= 0)
    before[order[1:][same]] = order[:-1][same]
    return before
