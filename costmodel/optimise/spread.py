"""A lower bound of the worst cut by a routing: traffic that every switch of a tree spreads in fixed proportions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from costmodel.optimise.demand import BisectedJobs, Floats, Ints
from topo.graphs import components


def spread_share(a: Ints, b: Ints, gbps: Floats, level: NDArray[np.integer], jobs: BisectedJobs) -> float:
    """Lower bound of the share that every job gets over any cut, by a routing up and down a tree.

    A *container* is a connected set of switches up to a level: a leaf, a pod, the whole tree. Its *tops* are its
    switches of that level; without them it falls apart into smaller containers. Adapters are paired within the smallest
    container that holds both, so of a job the surplus of the senders leaves a container, or that of the receivers
    enters it: at most what the job asks of this cut.
    What meets in a container is spread over its tops in proportions w that are the same for all containers below, and
    goes down as it would have come up. With c(D, t) the Gb/s from the container D below to the top t, and out(D) what
    leaves D at full rate, the links carry

        share = min over D, t of  c(D, t) / (out(D) w(t))

    The largest is sum over t of (min over D of c(D, t) / out(D)), where w(t) is in proportion to the terms. In D the
    proportions of its own tops u follow: w(u) = sum over t of w(t) c(u, t) / c(D, t). For trees whose containers meet
    their tops in equal proportions this is the least of uplinks / what climbs, which is a cut, so that both are exact.

    ``a`` and ``b`` are (P,) int, the pairs of switches that are linked, each once, with Gb/s in each direction;
    ``level`` is (n,) int, the level of each switch. Links between switches of one level carry nothing. The share is 0
    where the switches are no tree, or some top does not meet all containers.

    Examples
    --------
    >>> import numpy as np
    >>> leaf, spine = np.array([0, 0, 3, 3]), np.array([1, 2, 1, 2])
    >>> jobs = BisectedJobs.of(np.zeros(8, int), np.repeat([0, 3], 4), np.full(8, 100.0), 4)
    >>> spread_share(leaf, spine, np.full(4, 100.0), np.array([1, 2, 2, 1]), jobs)
    0.5
    """

    def between(rows: NDArray[np.intp], columns: NDArray[np.intp]) -> Floats:
        """Return (rows, columns) Gb/s between some switches and others."""
        at = np.full((2, len(level)), -1)
        at[0, rows], at[1, columns] = np.arange(len(rows)), np.arange(len(columns))
        found = np.zeros((len(rows), len(columns)))
        for near, far in ((at[0, a], at[1, b]), (at[0, b], at[1, a])):
            linked = (near >= 0) & (far >= 0)
            found[near[linked], far[linked]] = gbps[linked]
        return found

    def connected(among: NDArray[np.intp]) -> list[NDArray[np.intp]]:
        """Return what of some switches is connected and has adapters of the jobs, one by one."""
        is_in = np.zeros(len(level), bool)
        is_in[among] = True
        inner = is_in[a] & is_in[b]
        of = components(len(level), a[inner], b[inner])[among]
        order = np.argsort(of, kind="stable")
        parts = np.split(among[order], np.flatnonzero(np.diff(of[order])) + 1)
        return [part for part in parts if jobs.on_switch[:, part].any()]

    def carried(container: NDArray[np.intp], wanted: Floats | None) -> float:
        """Return the share inside a container, given the proportions of its tops, if it has to keep to any."""
        highest = level[container] == level[container].max()
        tops, rest = container[highest], container[~highest]
        if len(container) == 1:
            return 1.0
        if not len(rest) or jobs.on_switch[:, tops].any():
            return 0.0
        members = connected(rest)
        own_tops = [each[level[each] == level[each].max()] for each in members]
        ends = np.cumsum([len(each) for each in own_tops])
        to_top = np.split(between(np.concatenate([rest[:0], *own_tops]), tops), ends)[:-1]
        out = [float(jobs.asked(jobs.on_switch[:, each].sum(axis=1))) for each in members]
        climbing = [up.sum(axis=0) / leaves for up, leaves in zip(to_top, out, strict=True) if leaves > 0]
        if not climbing:
            return min((carried(each, None) for each in members), default=1.0)
        least = np.min(climbing, axis=0)
        if wanted is None:
            share = float(least.sum())
            wanted = least / share if share else least
        else:
            share = float((least[wanted > 0] / wanted[wanted > 0]).min())
        if not share:
            return 0.0
        for each, up, leaves in zip(members, to_top, out, strict=True):
            below = None
            if leaves > 0:
                below = up @ np.divide(wanted, up.sum(axis=0), out=np.zeros_like(wanted), where=wanted > 0)
            share = min(share, carried(each, below))
        return share

    parts = connected(np.arange(len(level)))
    if len(parts) > 1 and any(jobs.asked(jobs.on_switch[:, part].sum(axis=1)) > 0 for part in parts):
        return 0.0
    return min((carried(part, None) for part in parts), default=1.0)
