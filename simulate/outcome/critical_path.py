"""The chain of flows that decided when the last one ended, and what held each of them back."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from simulate.outcome.outcome import Outcome


def critical_path(outcome: Outcome) -> NDArray[np.int64]:
    """Return the flows of the chain, first to last: before each stands the last to end of those that it waited for.

    Of several that end at the same instant, the one with the lowest number.
    """
    flows, finish = outcome.flows, outcome.finish_s
    if len(flows) == 0:
        return np.zeros(0, np.int64)
    chain = [int(finish.argmax())]
    while True:
        first, last = flows.dep_offset[chain[-1] : chain[-1] + 2]
        if first == last:
            return np.array(chain[::-1], np.int64)
        awaited = np.sort(flows.dep[first:last])
        chain.append(int(awaited[finish[awaited].argmax()]))


def time_by_bottleneck(outcome: Outcome, kind: Callable[[int], str]) -> dict[str, float]:
    """Return the seconds of the critical path that its flows were held back by each kind of resource, longest first.

    The times add up to the makespan, less what flows waited for a start time or a delay.

    Parameters
    ----------
    kind
        Of a resource (-1 for none): resources of one kind are counted together.
    """
    path = critical_path(outcome)
    seconds: dict[str, float] = {}
    for resource, time_s in zip(outcome.bottleneck[path].tolist(), outcome.duration_s[path].tolist(), strict=True):
        seconds[kind(resource)] = seconds.get(kind(resource), 0.0) + time_s
    return dict(sorted(seconds.items(), key=lambda item: -item[1]))
