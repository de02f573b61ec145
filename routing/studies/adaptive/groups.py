"""Groups of output ports for adaptive routing, and all that switches may do with them.

A switch sends each packet out of any port of a group, by rules that its maker does not publish. So a packet *arrives*
if it does whatever port each switch takes: if every port leads to a switch from which it arrives. That is the least set
of switches with this property, grown backward from the destination, as in a game against an adversary who chooses the
ports; what it leaves out may meet a dead end, a wrong adapter, or go round about for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from routing.machine_code import inner, kernel
from routing.order.legal import ChannelOrder, breadth_first, empty_paths, legal_choices
from topo.fabric import Fabric

Int32s = NDArray[np.int32]

UNSEEN, REACHED, ARRIVES = 0, 1, 2

BLOCK = 256
"""Destinations that are followed at a time: with 100,000 ports their choices take 26 MB."""


class Choices(NamedTuple):
    """What the switches of a fabric with P ports may do with packets to D destinations."""

    allowed: NDArray[np.bool_]
    """(D, P) channels that their senders may take, those with a cable alone."""
    home: Int32s
    """(D,) the switch of each destination."""
    exit: Int32s
    """(D,) the channel that hands over its packets; -1: they are there once they are at its switch."""
    sources: Int32s
    """(D, S) sources of packets at each switch."""
    stuck: NDArray[np.bool_]
    """(D, S) switches at which some packet may find no port, whatever others find."""


class Outcome(NamedTuple):
    """Sums over destinations; packets that may be lost add to dependencies, and to no load."""

    depends: NDArray[np.uint64]
    """(P, words) as in `routing.pairs.PairWalk`, of one lane."""
    load: NDArray[np.float64]
    """(P,) pairs over each channel where every switch splits its flows evenly over the group."""
    hops: NDArray[np.int64]
    """(S + 1,) pairs by the most switches that their packets may pass."""


@kernel
def port_groups(order: ChannelOrder, targets: Int32s, legal: bool) -> NDArray[np.bool_]:
    """Return (T, C) which channels lead to each target switch: on shortest legal paths, or on all shortest ones."""
    groups, paths = np.zeros((len(targets), len(order.sender)), np.bool_), empty_paths(order)
    for t in range(len(targets)):
        if legal:
            legal_choices(targets[t], order, paths)
            for here in range(len(paths.hops)):
                if here != targets[t] and paths.hops[here] >= 0:
                    for c in range(order.indptr[here], order.indptr[here] + paths.n_choices[here]):
                        groups[t, paths.choice[c]] = True
        else:
            breadth_first(targets[t], order.indptr, order.receiver, paths.hops, paths.nearest)
            for channel in range(len(order.sender)):
                here, there = order.sender[channel], order.receiver[channel]
                groups[t, channel] = paths.hops[here] >= 0 and paths.hops[there] == paths.hops[here] - 1
    return groups


def leads_to(fabric: Fabric, allowed: NDArray[np.bool_], there: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return (D, S) from which switches some choice of (D, P) allowed channels leads to (D, S) some others."""
    row, port = np.nonzero(allowed)
    here, then = fabric.port_node[port], fabric.peer_node[port]
    found = there.copy()
    while (more := found[row, then] & ~found[row, here]).any():
        found[row[more], here[more]] = True
    return found


def by_switch(marked: NDArray[np.bool_], begin: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return (d, S) how many ports of each switch are marked."""
    total = np.zeros((len(marked), marked.shape[1] + 1), np.int64)
    np.cumsum(marked, axis=1, out=total[:, 1:])
    return np.diff(total[:, begin], axis=1)


def follow(fabric: Fabric, n_dests: int, choices: Callable[[slice], Choices]) -> tuple[int, Outcome, NDArray[np.uint8]]:
    """Follow packets to each of D destinations from all switches with sources, out of every port that these may take.

    ``choices`` returns what a block of the destinations allows. Returns the pairs that may be lost, the `Outcome`, and
    (D, S) whether packets get to a switch: `UNSEEN`, `REACHED`, or `ARRIVES`, where all that do arrive.
    """
    n, lost, states = fabric.n_switches, 0, np.zeros((n_dests, fabric.n_switches), np.uint8)
    depends = np.zeros((fabric.n_ports, 1 + (fabric.most_ports >> 6)), np.uint64)
    found = Outcome(depends, np.zeros(fabric.n_ports), np.zeros(n + 1, np.int64))
    for block in blocks(n_dests):
        given = choices(block)
        _follow(fabric.port_offset, fabric.peer, fabric.peer_node, given, states[block], found)
        lost += int(given.sources[states[block] != ARRIVES].sum())
    return lost, found, states


def blocks(n_dests: int) -> list[slice]:
    """Return the destinations in blocks that are followed at a time."""
    return [slice(begin, begin + BLOCK) for begin in range(0, n_dests, BLOCK)]


@kernel
def _follow(
    port_offset: Int32s, peer: Int32s, peer_node: Int32s, choices: Choices, states: NDArray[np.uint8], found: Outcome
) -> int:
    """Do what `follow` says; return the pairs of a destination and a switch from which all packets arrive."""
    n, total = choices.sources.shape[1], 0
    near, left, width = np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n, np.int32)
    longest, flow = np.empty(n, np.int32), np.empty(n)
    for d in range(len(choices.home)):
        allowed, state, sources = choices.allowed[d], states[d], choices.sources[d]
        home, last = choices.home[d], choices.exit[d]
        reached = _reach(port_offset, peer_node, allowed, sources, home, last, state, near, width)
        for i in range(reached):
            here = near[i]
            if here != home or last >= 0:
                _note_dependencies(here, n, port_offset, peer_node, allowed, home, last, found.depends)
        left[:], longest[:] = width, 1
        left += choices.stuck[d]
        count = 0
        if state[home] and (last < 0 or allowed[last]):
            if last >= 0:
                left[home] -= 1
            if last < 0 or left[home] == 0:
                state[home] = ARRIVES
                near[0] = home
                count = 1
        i = 0
        while i < count:  # the switches from which all packets arrive, in an order in which each follows all its next
            there = near[i]
            i += 1
            for port in range(port_offset[there], port_offset[there + 1]):
                here = peer_node[port]
                if here < 0 or here >= n or state[here] != REACHED or not allowed[peer[port]]:
                    continue
                left[here] -= 1
                longest[here] = max(longest[here], longest[there] + 1)
                if left[here] == 0:
                    state[here] = ARRIVES
                    near[count] = here
                    count += 1
        flow[:] = sources
        for i in range(count - 1, -1, -1):
            here = near[i]
            found.hops[longest[here]] += sources[here]
            if here == home and last < 0:
                continue
            for port in range(port_offset[here], port_offset[here + 1]):
                if allowed[port]:
                    found.load[port] += flow[here] / width[here]
                    if peer_node[port] < n:
                        flow[peer_node[port]] += flow[here] / width[here]
        total += count
    return total


@inner
def _reach(
    port_offset: Int32s, peer_node: Int32s, allowed: NDArray[np.bool_], sources: Int32s, home: int, last: int,
    state: NDArray[np.uint8], near: Int32s, width: Int32s,
) -> int:  # fmt: skip
    """Find the switches that packets may get to, and of how many channels each may take one; return their number."""
    n, count = len(state), 0
    state[:] = UNSEEN
    width[:] = 0
    for here in range(n):
        if sources[here] > 0:
            state[here] = REACHED
            near[count] = here
            count += 1
    i = 0
    while i < count:
        here = near[i]
        i += 1
        if here == home and last < 0:
            continue
        for port in range(port_offset[here], port_offset[here + 1]):
            if allowed[port]:
                width[here] += 1
                there = peer_node[port]
                if there < n and state[there] == UNSEEN:
                    state[there] = REACHED
                    near[count] = there
                    count += 1
    return count


@inner
def _note_dependencies(
    here: int, n: int, port_offset: Int32s, peer_node: Int32s, allowed: NDArray[np.bool_], home: int, last: int,
    depends: NDArray[np.uint64],
) -> int:  # fmt: skip
    """Note for each channel that a switch may take, that packets use it, and which channels they may take next."""
    noted = 0
    for port in range(port_offset[here], port_offset[here + 1]):
        there = peer_node[port]
        if not allowed[port] or there < 0 or there >= n:
            continue
        depends[port, 0] |= np.uint64(1)
        noted += 1
        if there == home and last < 0:
            continue
        for then in range(port_offset[there], port_offset[there + 1]):
            if allowed[then] and peer_node[then] < n:
                number = then - port_offset[there] + 1
                depends[port, number >> 6] |= np.uint64(1) << np.uint64(number & 63)
    return noted
