"""Counts the flows on channels between switches, one phase of simultaneous flows after another."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from routing.machine_code import inner, kernel

NOWHERE = -3
"""The channel that hands packets to an end port which has none."""

TILE = 64
"""Switches whose entries are laid side by side at a time, so that those of large tables stay in a processor's cache."""


@kernel
def output_ports(port_offset: NDArray[np.int32], lft: NDArray[np.uint8], lid: NDArray[np.int32]) -> NDArray[np.uint8]:
    """Return (n, S) uint8: the table entries of each LID side by side, 0 where they name no port of the switch."""
    n_switches = len(lft)
    out = np.zeros((len(lid), n_switches), np.uint8)
    for begin in range(0, n_switches, TILE):
        for rank in range(len(lid)):
            for switch in range(begin, min(begin + TILE, n_switches)):
                number = lft[switch, lid[rank]]
                if number <= port_offset[switch + 1] - port_offset[switch]:
                    out[rank, switch] = number
    return out


@inner
def _lay_flows(
    partners: NDArray[np.int32],
    switch: NDArray[np.int32],
    delivery: NDArray[np.int32],
    out: NDArray[np.uint8],
    before_first: NDArray[np.int32],
    following: NDArray[np.int32],
    load: NDArray[np.int32],
    trail: NDArray[np.int32],
    steps: NDArray[np.int32],
) -> bool:
    """Trace the flows of one phase over the channels; return False when a path is longer than ``trail`` is wide.

    ``steps`` becomes the number of channels between switches on the flow of each rank, and ``trail`` holds them; -1
    for a flow that is lost. Unsigned indices spare Numba a test for negative ones at each look-up.
    """
    width = trail.shape[1]
    n_switches = len(before_first)
    load[:] = 0
    for rank in range(len(partners)):
        to = partners[rank]
        if to < 0:
            continue
        last = delivery[to]
        node = switch[rank]
        step = 0
        port = -2
        if last != NOWHERE and node >= 0:
            while True:
                number = out[np.uint32(to), np.uint32(node)]
                if number == 0:
                    port = -1 if last == -1 and node == switch[to] else -2
                    break
                port = int(before_first[np.uint32(node)]) + int(number)
                node = following[np.uint32(port)]
                if node < 0:
                    break
                if step == width:
                    if width < n_switches:
                        return False
                    port = -2  # a path through more switches than there are is a loop
                    break
                load[np.uint32(port)] += 1
                trail[rank, step] = port
                step += 1
        if port != last:
            for i in range(step):
                load[trail[rank, i]] -= 1
            step = -1
        steps[rank] = step
    return True


@kernel
def phase_congestion(
    before_first: NDArray[np.int32],
    following: NDArray[np.int32],
    out: NDArray[np.uint8],
    switch: NDArray[np.int32],
    delivery: NDArray[np.int32],
    partners: NDArray[np.int32],
) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.int64]]:
    """Play phases of flows between ranks, each phase by itself.

    Parameters
    ----------
    before_first : (S,) int32
        Id of the first port of each switch, less one: a port number is added to it.
    following : (C,) int32
        Switch that each channel leads to, -1 for none.
    out : (n, S) uint8
        Output ports by rank and switch: `output_ports`.
    switch, delivery : (n,) int32
        Of each rank: its switch (-1: none), and the channel that must hand packets over (-1: port 0 of the switch;
        `NOWHERE`: no packet can reach it).
    partners : (K, n) int32
        Whom each rank sends to in each phase; -1 nobody.

    Returns
    -------
    max_load : (K,) int32
        Flows on the most loaded channel between switches.
    bandwidth : (K,) float64
        Mean over flows of 1 / the highest number of flows on a channel of the path; 1 for flows inside one switch, 0
        for those that do not arrive. 0 for a phase without flows.
    lost : (K,) int64
        Flows that do not arrive; they load nothing.
    """
    n_phases, n_ranks = partners.shape
    n_switches, n_channels = len(before_first), len(following)
    load = np.zeros(n_channels, np.int32)
    trail = np.empty((n_ranks, min(4, n_switches)), np.int32)
    steps = np.empty(n_ranks, np.int32)
    max_load = np.zeros(n_phases, np.int32)
    bandwidth = np.zeros(n_phases, np.float64)
    lost = np.zeros(n_phases, np.int64)
    for phase in range(n_phases):
        sends = partners[phase]
        while not _lay_flows(sends, switch, delivery, out, before_first, following, load, trail, steps):
            trail = np.empty((n_ranks, min(2 * trail.shape[1], n_switches)), np.int32)
        most, flows = 0, 0
        for c in range(n_channels):
            most = max(most, load[c])
        max_load[phase] = most
        total = 0.0
        for rank in range(n_ranks):
            if sends[rank] < 0:
                continue
            flows += 1
            if steps[rank] < 0:
                lost[phase] += 1
            elif most <= 1:
                total += 1.0
            else:
                worst = 1
                for i in range(steps[rank]):
                    worst = max(worst, load[np.uint32(trail[rank, i])])
                total += 1.0 / worst
        if flows:
            bandwidth[phase] = total / flows
    return max_load, bandwidth, lost


@kernel
def fair_shares(
    before_first: NDArray[np.int32],
    following: NDArray[np.int32],
    out: NDArray[np.uint8],
    switch: NDArray[np.int32],
    delivery: NDArray[np.int32],
    rate: NDArray[np.float64],
    limit: NDArray[np.float64],
    partners: NDArray[np.int32],
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int32], NDArray[np.int64]]:
    """Share channels out fairly among the flows of each phase.

    Rates rise alike until a channel is full; its flows keep theirs, and those of the others rise on: max-min fairness
    (Bertsekas and Gallager, Data Networks, 6.5.2). So a flow that is throttled elsewhere leaves to others what it
    cannot use.

    Parameters
    ----------
    before_first, following, out, switch, delivery, partners
        As in `phase_congestion`.
    rate : (C,) float64
        Of each channel.
    limit : (n,) float64
        Rate of each rank's own link.

    Returns
    -------
    mean, least : (K,) float64
        Rate of the flows of each phase, by what their own links would let them have; 0 for a flow that is lost, and in
        a phase without flows.
    max_load, lost : (K,)
        As in `phase_congestion`.
    """
    n_phases, n_ranks = partners.shape
    n_switches, n_channels = len(before_first), len(following)
    load = np.zeros(n_channels, np.int32)
    trail = np.empty((n_ranks, min(4, n_switches)), np.int32)
    steps = np.empty(n_ranks, np.int32)
    left, used = np.empty(n_channels), np.empty(n_channels, np.int32)
    free, most = np.empty(n_ranks, np.int32), np.empty(n_ranks)
    mean, least = np.zeros(n_phases), np.zeros(n_phases)
    max_load, lost = np.zeros(n_phases, np.int32), np.zeros(n_phases, np.int64)
    for phase in range(n_phases):
        sends = partners[phase]
        while not _lay_flows(sends, switch, delivery, out, before_first, following, load, trail, steps):
            trail = np.empty((n_ranks, min(2 * trail.shape[1], n_switches)), np.int32)
        busy = 0
        for c in range(n_channels):
            if load[c] > 0:
                used[busy], left[c] = c, rate[c]
                busy += 1
                max_load[phase] = max(max_load[phase], load[c])
        flows, waiting, total, lowest = 0, 0, 0.0, 1.0
        for rank in range(n_ranks):
            if sends[rank] >= 0:
                flows += 1
                if steps[rank] < 0:
                    lowest = 0.0
                    lost[phase] += 1
                else:
                    free[waiting], most[rank] = rank, min(limit[rank], limit[sends[rank]])
                    waiting += 1
        while waiting:
            level = np.inf
            for i in range(waiting):
                level = min(level, most[free[i]])
            for i in range(busy):
                level = min(level, left[used[i]] / load[used[i]])
            full = level * (1 + 1e-9)
            for i in range(busy):  # marked before any is changed
                if left[used[i]] <= full * load[used[i]]:
                    left[used[i]] = -1.0
            rest = 0
            for i in range(waiting):
                rank = free[i]
                done = most[rank] <= full
                for j in range(steps[rank]):
                    done = done or left[trail[rank, j]] < 0.0
                if not done:
                    free[rest] = rank
                    rest += 1
                    continue
                share = level / most[rank]
                total, lowest = total + share, min(lowest, share)
                for j in range(steps[rank]):
                    c = trail[rank, j]
                    load[c] -= 1
                    if left[c] >= 0.0:
                        left[c] = max(left[c] - level, 0.0)
            waiting, still = rest, 0
            for i in range(busy):
                if load[used[i]] > 0:
                    used[still] = used[i]
                    still += 1
            busy = still
        if flows:
            mean[phase], least[phase] = total / flows, lowest
    return mean, least, max_load, lost
