r"""The engine `fat-tree`: forwarding tables of a tree of any height by closed form.

Destination-modulo routing (Zahavi et al., JPDC 2012): destination x leaves a switch of level l over up link number

.. math:: \lfloor x / \prod_{k<l} w_k \rfloor \bmod w_l

where w_k is the number of switches above one of level k. Parallel cables are chosen alike by the digits that follow. On
a whole tree whose leaves hold as many hosts as they have up links, the flows of any shift permutation then meet on no
cable, and each descending cable leads to one host only.

Real trees are handled as in Dmodc (Gliksberg et al. 2019): the modulus at each switch is the number of channels that
still lead nearer, so dead cables and switches, uneven pods and half-filled switches cost balance where they are and
nowhere else. Where hosts have several roles, x is such that each role is balanced for itself and all are in total (the
aim of Gxmodk, Gliksberg et al. 2018): on each leaf the most common role goes on where it ended on the leaf before, and
the others follow it, so that hosts of one leaf still descend over different cables (`routing.order.destinations`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from routing.engines.modulo import fill_modulo
from routing.order.channel_order import order_channels, switch_levels
from routing.order.destinations import Destinations, destinations_of, empty_tables, finish_tables
from routing.order.legal import ChannelOrder
from routing.tables import NO_PATH, RoutingTables
from topo.errors import RoutingError
from topo.fabric import Fabric, Role, frozen
from topo.graphs import components

NOWHERE = (-1, -1)


def route(fabric: Fabric, lid: NDArray[np.uint16] | None = None) -> RoutingTables:
    """Forwarding tables of a fat-tree, whole or degraded.

    Parameters
    ----------
    fabric : Fabric
    lid : (E,) uint16, optional
        LIDs of the end ports; `assign_lids` when left out.

    Returns
    -------
    RoutingTables
        Complete for every LID, on one lane.

    Raises
    ------
    RoutingError
        When the fabric is no tree of levels, or has leaves without a common switch above them.
    """
    level = switch_levels(fabric)
    order = order_channels(fabric, level)
    flat = np.flatnonzero(np.abs(level[order.sender] - level[order.receiver]) != 1)
    if len(flat):
        a, b = order.sender[flat[0]], order.receiver[flat[0]]
        raise RoutingError(
            f"{fabric.label(int(a))} (level {level[a]}) is linked to {fabric.label(int(b))} (level {level[b]}): the "
            "engine `fat-tree` takes links between neighbouring levels only; take `balanced`"
        )
    lids, lft = empty_tables(fabric, lid)
    dests = destinations_of(fabric, lids, level)
    port = np.full(lft.shape[::-1], NO_PATH, np.uint8)
    far = closed_form(order, dests, level, order.number, port, climb_limit(fabric, level))
    if far != NOWHERE:
        raise RoutingError(
            f"{fabric.label(far[0])} and {fabric.label(far[1])} have no switch above both: the engine `fat-tree` "
            "cannot connect their hosts; take `balanced`"
        )
    lft[:] = port.T
    return finish_tables(dests, lft, lids, "fat-tree")


def climb_limit(fabric: Fabric, level: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return (S,) for leaves with hosts: hops of a path that climbs to the top and descends; -1 for other switches."""
    hosts = np.bincount(fabric.end_switch[fabric.ends()], minlength=len(level))
    leaves = np.bincount(np.maximum(level, 0), hosts).argmax()
    return np.where((hosts > 0) & (level == leaves), 2 * (level.max(initial=1) - leaves), -1)


def closed_form(
    order: ChannelOrder,
    dests: Destinations,
    level: NDArray[np.int64],
    number: NDArray[np.int32],
    next_hop: NDArray[np.uint8],
    limit: NDArray[np.int64] | None = None,
    turns: NDArray[np.int32] | None = None,
) -> tuple[int, int]:
    """Choose by destination-modulo among legal channels.

    Parameters
    ----------
    order, dests
    level : (S,) int
    number : (C,) int32
        What shall stand for each channel: its port number, or its index among its sender's.
    next_hop : (T, S) uint8, out
        By LID and switch: a destination's entries lie together, which is faster than tables by switch.
    limit : (S,) int, optional
        For switches with hosts, the most hops that a path between two of them may have; -1 for other switches.
    turns : (2, S) int32, optional
        Zone of each switch, and how its choices for other zones turn (`routing.order.joined.Zones`).

    Returns
    -------
    tuple of int
        The first two switches whose path is longer, or `NOWHERE`.
    """
    return fill_modulo(
        order,
        frozen(number),
        frozen(level.astype(np.int32)),
        dests.group,
        dests.indptr,
        dests.lid,
        frozen(_quotients(order, dests, level)),
        *_planes(order, level),
        frozen((np.full(len(level), -1) if limit is None else limit).astype(np.int32)),
        frozen(np.full((2, len(level)), -1, np.int32) if turns is None else turns),
        next_hop,
    )


def _planes(order: ChannelOrder, level: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return (S,) the number of each switch's plane among those that a switch below may see; and how many see above."""
    n = len(level)
    plane, planes = np.zeros(n, np.int32), np.zeros(n, np.int32)
    below = np.zeros(n, np.int32)
    for height in range(1, int(level.max(initial=1)) + 1):
        inside = (level[order.sender] >= height) & (level[order.receiver] >= height)
        part = components(n, order.sender[inside], order.receiver[inside])
        here = np.flatnonzero(level == height)
        for group in np.unique(below[here]).tolist() if height > 1 else []:
            members = here[below[here] == group]
            names, plane[members] = np.unique(part[members], return_inverse=True)
            planes[(level == height - 1) & (below == group)] = len(names)
        below = part
    return frozen(plane), frozen(planes)


def _quotients(order: ChannelOrder, dests: Destinations, level: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Return (2, L + 1, D) the index of each destination, divided by the product of the up choices below each level.

    First that for its own zone, then that for others. Levels below the one where most hosts hang do not count: the
    leaves of a tree with slow subtrees below some of them spread their hosts as those of a plain tree do.
    """
    links = np.unique(order.sender.astype(np.int64) * len(level) + order.receiver)
    up = (links // len(level))[level[links % len(level)] > level[links // len(level)]]
    choices = np.bincount(up, minlength=len(level))
    widest = [
        max(int(choices[level == height].max(initial=0)), 1) for height in range(1, int(level.max(initial=1)) + 1)
    ]
    housed = np.bincount(np.maximum(level[dests.switch[dests.role < Role.AGGREGATION]], 1), minlength=2)
    base = max(int(np.argmax(housed)) - 1, 0)
    turn = np.stack([dests.turn, dests.away])
    rows = [((dests.count // widest[base]) * widest[base] + turn % widest[base]).astype(np.uint32)]
    for height, width in enumerate(widest):
        rows.append(rows[-1] // np.uint32(width) if height >= base else rows[-1])
    return np.stack(rows, axis=1)
