"""Destination-modulo choice among legal channels."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from routing.kernels.legal import legal_choices

__all__ = ["fill_modulo"]

Int32s = NDArray[np.int32]


@njit(cache=True, nogil=True)
def fill_modulo(
    first: Int32s,
    sender: Int32s,
    receiver: Int32s,
    reverse: Int32s,
    rank: Int32s,
    falling: Int32s,
    run: Int32s,
    number: Int32s,
    level: Int32s,
    group: Int32s,
    first_goal: Int32s,
    lid: Int32s,
    quotient: NDArray[np.uint32],
    limit: Int32s,
    lft: NDArray[np.uint8],
) -> tuple[int, int]:
    """Fill forwarding tables by closed form.

    Parameters
    ----------
    first, sender, receiver, reverse, rank, falling, run, number
        As in `routing.channel_order.ChannelOrder`.
    level : (S,) int32
        Levels of the switches, from 1.
    group, first_goal, lid
        `group`, `first` and `lid` of `routing.destinations.Destinations`.
    quotient : (L + 1, D) uint32
        Row k: index of each destination, divided by the product of the up choices of the levels up to k.
    limit : (S,) int32
        For switches with hosts, the most hops that a path between two of them may have; -1 for other switches.
    lft : (S, T) uint8, out

    Returns
    -------
    tuple of int
        The first two switches with hosts whose path is longer than that, or -1 twice.
    """
    n = len(first) - 1
    hops, order = np.empty(n, np.int32), np.empty(n, np.int32)
    choice, ways = np.empty(len(receiver), np.int32), np.empty(n, np.int32)
    scratch = np.empty((6, n), np.int32)
    bundle = np.empty(len(receiver) + 1, np.int32)
    for g in range(n):
        target = group[g]
        count = legal_choices(
            target, first, sender, receiver, reverse, rank, falling, run, hops, order, choice, ways, scratch
        )
        for i in range(1, count):
            here = order[i]
            if limit[target] >= 0 and limit[here] >= 0 and hops[here] > limit[target]:
                return here, target
            # Channels to one neighbour stand together: a bundle of parallel cables.
            bundles = 0
            previous = -1
            upper = level[here]
            end = first[here] + ways[here]
            for k in range(first[here], end):
                there = receiver[choice[k]]
                if there != previous:
                    bundle[bundles] = k
                    bundles += 1
                    previous = there
                    upper = max(upper, level[there])
            bundle[bundles] = end
            lower = max(level[receiver[choice[first[here]]]] - 2, 0)
            for d in range(first_goal[g], first_goal[g + 1]):
                b = 0 if bundles == 1 else np.int32(quotient[lower, d] % np.uint32(bundles))
                width = bundle[b + 1] - bundle[b]
                cable = 0 if width == 1 else np.int32(quotient[upper - 1, d] % np.uint32(width))
                lft[here, lid[d]] = number[choice[bundle[b] + cable]]
    return -1, -1
