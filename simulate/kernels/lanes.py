"""Fair rates where virtual lanes share a resource by weight, and then the flows of a lane share what it gets.

At each resource and lane stands a *level*: a flow moves at the least level on its route, in its lane. A flow wants of a
resource the least of its other levels; a lane wants what its flows want. Of a full resource lane l gets
``min(W_l t, wants)``, with one t for all lanes such that together they get the capacity: a lane that wants less than
its share leaves the rest to the others, by weight (generalised processor sharing, Parekh and Gallager, 1993). The level
of a lane is what one flow would get that wanted everything, if the lane got its part and the other flows no more than
they want. So no capacity is left while somebody could use it, and with one lane this is max-min fairness.

No order of levels settles one lane after another, as water-filling does: what a lane leaves may go to a lane with a
lower level. So resources are computed one by one, from the levels of the others, until none changes. Where lanes leave
to each other in a circle several solutions can be fair; then this finds the one that it comes to from the last.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simulate.kernels.compile import inlined, kernel
from simulate.kernels.state import Records

__all__ = ["solve_lanes"]

SAME = 1e-12
"""Relative change of a level that is none."""

PATIENCE = 64
"""Times that a resource is computed in one solve before its changes are halved, should it swing."""

LIMIT = 100_000
"""Times that a resource is computed in one solve before its changes go no further: so that a solve ends, come what may.
In 100,000 random events the most was 595."""


@inlined
def _elsewhere(hops: Records, levels: NDArray[np.float64], n_hops: int, first_hop: int, link: int, lane: int) -> float:
    """Return the least level of a class on its route, one resource left out."""
    least = np.inf
    for hop in range(first_hop, first_hop + n_hops):
        if hops[hop].link != link:
            least = min(least, levels[hops[hop].link, lane])
    return least


@kernel
def _sum_wants(
    links: Records,
    members: Records,
    classes: Records,
    hops: Records,
    levels: NDArray[np.float64],
    wants: NDArray[np.float64],
    shift: int,
    link: int,
) -> None:
    """Write what each lane wants of a resource; all as lane 0 where lanes do not matter."""
    for lane in range(len(wants)):
        wants[lane] = 0.0
    first = links[link].first
    for at in range(first, first + links[link].count):
        slot = members[at].slot
        lane = classes[slot].lane
        rest = _elsewhere(hops, levels, classes[slot].hops, slot << shift, link, lane)
        wants[lane if links[link].laned else 0] += members[at].weight * rest


@kernel
def _part(wants: NDArray[np.float64], lane_weight: NDArray[np.float64], capacity: float, mine: int) -> float:
    """Return what a lane would get of a resource if it wanted everything."""
    part = 0.0
    while True:
        left = capacity
        weight = 0.0
        for lane in range(len(wants)):
            if lane != mine and wants[lane] <= lane_weight[lane] * part:
                left -= wants[lane]  # content with less than its share
            elif lane == mine or wants[lane] > 0.0:
                weight += lane_weight[lane]
        higher = left / weight
        if higher <= part:
            return lane_weight[mine] * part  # type: ignore[no-any-return]
        part = higher


@kernel
def _fill(
    links: Records,
    members: Records,
    classes: Records,
    hops: Records,
    levels: NDArray[np.float64],
    lane: int,
    part: float,
    shift: int,
    link: int,
) -> float:
    """Return the level of a lane that gets a part of a resource."""
    first = links[link].first
    last = first + links[link].count
    level = 0.0
    while True:  # the level rises, since flows that want less leave more to the others, until no flow changes sides
        fixed = 0.0
        free = 0.0
        highest = 0.0
        weight = 0.0  # of those that want the highest
        for at in range(first, last):
            slot = members[at].slot
            if links[link].laned and classes[slot].lane != lane:
                continue
            rest = _elsewhere(hops, levels, classes[slot].hops, slot << shift, link, classes[slot].lane)
            if rest > level:
                free += members[at].weight
                continue
            fixed += members[at].weight * rest
            if rest > highest:
                highest = rest
                weight = 0.0
            if rest == highest:
                weight += members[at].weight
        if free == 0.0:
            return highest + max(0.0, part - fixed) / weight if weight > 0.0 else np.inf
        higher = (part - fixed) / free
        if higher <= level:
            return level
        level = higher


@kernel
def solve_lanes(
    links: Records,
    members: Records,
    rates: Records,
    classes: Records,
    hops: Records,
    queue: Records,
    levels: NDArray[np.float64],
    lane_weight: NDArray[np.float64],
    wants: NDArray[np.float64],
    freed: NDArray[np.int32],
    n_freed: int,
    seeds: NDArray[np.int32],
    n_seeds: int,
    stamp: int,
    shift: int,
) -> int:
    """Make the rates fair again, from the levels of the last solve.

    Parameters and result are those of `maxmin.solve`; `queue` is room for all resources, `levels` has (R, L) levels.
    """
    head = 0
    tail = 0
    size = len(links)
    for at in range(n_seeds):
        link = seeds[at]
        if links[link].stamp != stamp:
            links[link].stamp = stamp
            links[link].watched = True
            links[link].times = 0.0
            queue[tail % size].link = link
            tail += 1
    n_lanes = len(lane_weight)
    while head < tail:
        link = queue[head % size].link
        head += 1
        links[link].watched = False
        links[link].times += 1.0  # in this solve: how often it was computed
        _sum_wants(links, members, classes, hops, levels, wants, shift, link)
        for lane in range(n_lanes):
            of_lane = lane if links[link].laned else 0
            level = np.inf
            if wants[of_lane] > 0.0:
                part = _part(wants, lane_weight, links[link].capacity, of_lane)
                level = _fill(links, members, classes, hops, levels, of_lane, part, shift, link)
            before = levels[link, lane]
            if links[link].times > PATIENCE and level < np.inf and before < np.inf:
                level = 0.5 * (level + before)
            levels[link, lane] = level
            if level == before or abs(level - before) <= SAME * min(level, before) or links[link].times > LIMIT:
                continue
            first = links[link].first
            for at in range(first, first + links[link].count):
                slot = members[at].slot
                if classes[slot].lane != lane:
                    continue
                if rates[slot].free == 0:
                    rates[slot].free = 1
                    classes[slot].before = rates[slot].rate
                    freed[n_freed] = slot
                    n_freed += 1
                for hop in range(slot << shift, (slot << shift) + classes[slot].hops):
                    other = hops[hop].link
                    if links[other].stamp != stamp:
                        links[other].stamp = stamp
                        links[other].watched = False
                        links[other].times = 0.0
                    if other != link and not links[other].watched:
                        links[other].watched = True
                        queue[tail % size].link = other
                        tail += 1
    for at in range(n_freed):
        slot = freed[at]
        lane = classes[slot].lane
        rates[slot].rate = np.inf
        for hop in range(slot << shift, (slot << shift) + classes[slot].hops):
            link = hops[hop].link
            if levels[link, lane] < rates[slot].rate:
                rates[slot].rate = levels[link, lane]
                rates[slot].limit = link
    return n_freed
