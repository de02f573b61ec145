"""Virtual lanes: what each lane gets of a resource, by weight.

With L lanes a resource is L links to the solver, one a lane, and link ``r * L + l`` has as its capacity what lane l
would get of resource r if it wanted everything. Of a full resource lane l gets ``min(W_l t, wants)``, with one t for
all lanes such that together they get the capacity: a lane that wants less than its share leaves the rest to the others,
by weight (generalised processor sharing, Parekh and Gallager, 1993). A lane wants everything where it holds back one of
its flows, and elsewhere what its flows take. So a flow's bottleneck is a full resource on which no flow of its lane is
faster, and no lane gets more for its weight than its lane; no capacity is left while somebody could use it.

What a lane wants depends on the rates, and the rates on what lanes get. So both are computed in turn, each only where
the other has changed, until no lane's part changes. Where lanes redistribute capacity in a cycle, several solutions can
be fair; the one found is reached from the last.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simulate.engines.base import Records
from simulate.engines.compile import inlined, inner
from simulate.engines.fluid.maxmin import FREE
from simulate.engines.fluid.state import State

SAME = 4e-12
"""Relative change of a part below which it stays as it was: more than the tolerance of the solver for ties, which would
not pass it on. Otherwise parts would drift where lanes redistribute capacity in a cycle."""

PATIENCE = 12
"""Rounds at one instant after which, every fourth round, each part is extrapolated from its last two changes (Aitken):
parts that depend on each other in a cycle converge slowly, or oscillate."""

SWING = 64
"""Rounds at one instant after which parts move only half of the way, and half of that after each four times as many
rounds, so that oscillations are damped."""

LIMIT = 10_000
"""Rounds at one instant after which parts stay as they are. Reached only when lanes redistribute capacity in a lossless
cycle, where rounding errors circulate. In 200 random plays no bottleneck was then further from full and fair than
1e-11 of its capacity."""


@inner
def _sum_wants(links: Records, members: Records, rates: Records, wants: NDArray[np.float64], at: int) -> int:
    """Write what each lane wants of the resource whose lane 0 is link `at`; return how many lanes have flows on it."""
    n_used = 0
    for lane in range(len(wants)):
        link = at + lane
        wants[lane] = 0.0
        first = links[link].first
        for place in range(first, first + links[link].count):
            slot = members[place].slot
            if rates[slot].limit == link or rates[slot].free == FREE:
                wants[lane] = np.inf
                break
            wants[lane] += members[place].weight * rates[slot].rate
        n_used += links[link].count > 0
    return n_used


@inner
def _part(wants: NDArray[np.float64], lane_weight: NDArray[np.float64], capacity: float, mine: int) -> float:
    """Return what a lane would get of a resource if it wanted everything."""
    share = 0.0  # of a lane with weight 1; it rises, since content lanes leave more to the others
    while True:
        left = capacity
        weight = 0.0
        for lane in range(len(wants)):
            if lane == mine or wants[lane] > lane_weight[lane] * share:
                weight += lane_weight[lane]
            else:
                left -= wants[lane]
        higher = left / weight
        if higher <= share:
            return lane_weight[mine] * share  # type: ignore[no-any-return]
        share = higher


@inlined
def share_lanes(state: State, n_seeds: int, stamp: int, n_rounds: int) -> int:
    """Compute the parts of lanes on the resources of links; return the length of ``seeds`` then.

    The links are its first `n_seeds`; those whose capacity changes are added. No call before has had the same `stamp`;
    `n_rounds` calls were at the same instant.
    """
    links, wants, seeds, lane_weight = state.links, state.wants, state.seeds, state.lane_weight
    n_lanes = len(lane_weight)
    step = 1.0
    swing = SWING
    while n_rounds >= swing:
        swing *= 4
        step *= 0.5
    extrapolates = PATIENCE < n_rounds < SWING and n_rounds % 4 == 0
    for at in range(n_seeds):
        lane_0 = seeds[at] // n_lanes * n_lanes
        if not links[lane_0].laned or links[lane_0].times == stamp:
            continue
        links[lane_0].times = stamp
        whole = state.capacity[seeds[at] // n_lanes]
        n_used = _sum_wants(links, state.members, state.rates, wants, lane_0)
        for link in range(lane_0, lane_0 + n_lanes):
            if links[link].count == 0:
                continue
            part = _part(wants, lane_weight, whole, link - lane_0) if n_used > 1 else whole
            before = links[link].capacity
            change = part - before
            if abs(change) <= SAME * before or n_rounds >= LIMIT:
                continue
            seeds[n_seeds] = link
            n_seeds += 1
            part = before + step * change
            if extrapolates and abs(change) < abs(links[link].change):
                heading = before + change / (1.0 - change / links[link].change)
                part = heading if 0.0 < heading < whole else part
            links[link].change = change
            links[link].capacity = part
    return n_seeds
