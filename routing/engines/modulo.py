"""Destination-modulo choice among legal channels.

Leaves of one pod have the same neighbours, and so have cores of one plane: what leads to one of such *twins* leads to
each. Legal paths are found once for all of them, which halves the time on a tree of three levels.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from routing.machine_code import inner, kernel
from routing.order.legal import ChannelOrder, empty_paths, legal_choices
from routing.tables import NO_PATH

Int32s = NDArray[np.int32]


@kernel
def fill_modulo(
    order: ChannelOrder,
    number: Int32s,
    level: Int32s,
    group: Int32s,
    indptr: Int32s,
    lid: Int32s,
    quotients: NDArray[np.uint32],
    plane: Int32s,
    planes: Int32s,
    limit: Int32s,
    turns: Int32s,
    next_hop: NDArray[np.uint8],
) -> tuple[int, int]:
    """Choose a channel at every switch to every destination by closed form.

    Parameters
    ----------
    order : ChannelOrder
    number : (C,) int32
        What stands for each channel in the result.
    level : (S,) int32
        Levels of the switches, from 1; 0 for those that join zones and are no choice of a climb.
    group, indptr, lid
        `group`, `indptr` and `lid` of `routing.order.destinations.Destinations`.
    quotients : (2, L + 1, D) uint32
        Row k: index of each destination, divided by the product of the up choices of the levels up to k; the second
        index is that for switches outside its zone.
    plane, planes : (S,) int32
        Number of each switch among those that a switch of the level below may see, and how many it may see above it.
    limit : (S,) int32
        For switches with hosts, the most hops that a path between two of them may have; -1 for other switches.
    turns : (2, S) int32
        Zone of each switch, -1 for those that join zones; and its number among its like there. Towards other zones the
        choices of who climbs turn by so much, and who descends takes the channel of this number; -1: no choice does so.
    next_hop : (T, S) uint8, out
        By LID and switch: the number of the channel taken.

    Returns
    -------
    tuple of int
        The first two switches with hosts whose path is longer than that, or -1 twice.
    """
    first, receiver, rank = order.indptr, order.receiver, order.rank
    n = len(first) - 1
    paths = empty_paths(order)
    hops, choice, n_choices = paths.hops, paths.choice, paths.n_choices
    bundle = np.empty(len(receiver) + 1, np.uint32)
    turn = np.empty(quotients.shape[2], np.uint32)
    most_planes, n_joints, zone, like = 0, 0, -1, -1
    for here in range(n):
        most_planes, n_joints = max(most_planes, planes[here]), n_joints + (level[here] == 0)
        zone, like = max(zone, turns[0, here]), max(like, turns[1, here])
    bundle_of = np.empty(most_planes, np.int32)
    # Where the same digit leads from everywhere to a joint, only the next ones tell apart what comes there.
    joints = np.uint32(n_joints if zone >= 0 and like < 0 and n_joints > 0 else 1)
    # Seen as unsigned, what is an index needs no look whether it counts from the end.
    start, after_channel, chosen = first.view(np.uint32), receiver.view(np.uint32), choice.view(np.uint32)
    g = 0
    while g < n:
        target = group[g]
        count = legal_choices(target, order, paths)
        pinned, after = False, g + 1
        for here in range(n):
            pinned = pinned or paths.pinned[here] >= 0
        while (
            after < n
            and not pinned
            and limit[group[after]] == limit[target]
            and _are_twins(target, group[after], order)
        ):
            after += 1
        twins = after > g + 1
        if twins:  # to the others the first of them takes what leads on from their neighbours
            n_choices[target] = 0
            for channel in range(first[target], first[target + 1]):
                if rank[channel] < paths.label[receiver[channel]]:
                    choice[first[target] + n_choices[target]] = channel
                    n_choices[target] += 1
        known_row, known_bundles, known_outside = -1, -1, 0
        for i in range(0 if twins else 1, count):
            here = paths.nearest[i]
            if limit[target] >= 0 and limit[here] >= 0 and hops[here] > limit[target]:
                return here, target
            if twins and hops[here] == 1:
                continue
            # Channels to one neighbour stand together: a bundle of parallel cables.
            bundles = 0
            previous = np.uint32(len(level))
            upper, aside = level[here], False
            end = start[here] + np.uint32(n_choices[here])
            for k in range(start[here], end):
                there = after_channel[chosen[k]]
                if there != previous:
                    bundle[bundles] = k
                    bundles += 1
                    previous = there
                    upper = max(upper, level[there])
                    if level[there] <= level[here]:
                        aside = True
            bundle[bundles] = end
            row = max(level[after_channel[chosen[start[here]]]] - 2, 0)
            outside = 1 if turns[0, here] != turns[0, target] else 0
            quotient = quotients[outside]
            climbs_by_plane = planes[here] > 0 and (bundles < planes[here] or (aside and upper > level[here]))
            if climbs_by_plane and _find_planes(here, bundle[:bundles], choice, receiver, level, plane, bundle_of):
                known_row, row = -1, max(upper - 2, 0)
                for d in range(indptr[g], indptr[after]):
                    turn[d] = _turn(quotient[row, d], planes[here], bundles, bundle_of)
            elif row != known_row or bundles != known_bundles or outside != known_outside:
                # Most switches ask for what the last one did.
                known_row, known_bundles, known_outside = row, bundles, outside
                for d in range(indptr[g], indptr[after]):
                    turn[d] = quotient[row, d] % np.uint32(bundles)
            if level[here] == 0 and joints > 1:
                known_row = -1
                for d in range(indptr[g], indptr[after]):
                    turn[d] = quotient[row, d] // joints % np.uint32(bundles)
            if turns[1, here] >= 0 and outside:
                known_row = -1
                for d in range(indptr[g], indptr[after]):
                    own = turn[d] if upper > level[here] else 0
                    turn[d] = (own + np.uint32(turns[1, here])) % np.uint32(bundles)
            for d in range(indptr[g], indptr[after]):
                k = bundle[turn[d]]
                width = bundle[turn[d] + 1] - k
                if width > 1 and level[after_channel[chosen[k]]] > 0 and level[here] > 0:
                    k += quotient[upper - 1, d] % width
                elif width > 1:
                    digit = quotient[row, d] // joints if level[here] == 0 else quotient[row, d]
                    k += digit // np.uint32(bundles) % width
                next_hop[lid[d], here] = number[chosen[k]]
        if twins:
            for twin in range(g, after):
                dests = slice(indptr[twin], indptr[twin + 1])
                _hand_over(group[twin], order, number, level, lid[dests], quotients[0][:, dests], next_hop)
        g = after
    return -1, -1


@inner
def _find_planes(
    here: int,
    bundle: NDArray[np.uint32],
    choice: Int32s,
    receiver: Int32s,
    level: Int32s,
    plane: Int32s,
    bundle_of: Int32s,
) -> bool:
    """Find the bundle to each plane, -1 where none leads; return whether some lead up, each to another plane."""
    bundle_of[:] = -1
    found = False
    for b in range(len(bundle)):
        there = receiver[choice[bundle[b]]]
        if level[there] <= level[here]:  # who can climb does not go by the side, as over what joins zones
            continue
        if level[there] != level[here] + 1 or bundle_of[plane[there]] >= 0:
            return False
        bundle_of[plane[there]] = b
        found = True
    return found


@inner
def _turn(index: int, planes: int, bundles: int, bundle_of: Int32s) -> int:
    """Return the bundle to the plane of a destination; where none leads there, one that its next digit finds."""
    found = int(bundle_of[index % planes])
    if found >= 0:
        return found
    skip = index // planes % bundles
    for p in range(planes):  # the one of that number among the planes that some lead to
        if bundle_of[p] >= 0:
            found = int(bundle_of[p])
            if skip == 0:
                break
            skip -= 1
    return found


@inner
def _are_twins(a: int, b: int, order: ChannelOrder) -> bool:
    """Whether two switches have the same neighbours, who may descend to each of them after the other has climbed.

    No shortest path to one of them leads over the other then, since its neighbours are next to the target already; and
    the ranks with which neighbours are left, all that matters to those farther away, are the same for both.
    """
    first, receiver, reverse, rank = order.indptr, order.receiver, order.reverse, order.rank
    if first[a + 1] - first[a] != first[b + 1] - first[b]:
        return False
    previous, down = -1, -1
    for k in range(first[a + 1] - first[a]):
        x, y = first[a] + k, first[b] + k
        if receiver[x] != receiver[y]:
            return False
        if receiver[x] != previous:
            previous, down = receiver[x], rank[reverse[x]]
        if rank[reverse[x]] != down or rank[reverse[y]] != down or rank[x] >= down or rank[y] >= down:
            return False
    return previous >= 0


@inner
def _hand_over(
    target: int,
    order: ChannelOrder,
    number: Int32s,
    level: Int32s,
    lid: Int32s,
    quotient: NDArray[np.uint32],
    next_hop: NDArray[np.uint8],
) -> None:
    """Let the neighbours of a switch hand over to it over their parallel cables, and the switch itself to none."""
    first, receiver = order.indptr, order.receiver
    next_hop[lid, target] = NO_PATH
    previous = -1
    for back in range(first[target], first[target + 1]):
        here = receiver[back]
        if here == previous:
            continue
        previous = here
        begin = first[here]
        while receiver[begin] != target:
            begin += 1
        width = 1
        while begin + width < first[here + 1] and receiver[begin + width] == target:
            width += 1
        upper = max(level[here], level[target], 1)
        for d in range(len(lid)):
            next_hop[lid[d], here] = number[begin + np.int32(quotient[upper - 1, d] % np.uint32(width))]
