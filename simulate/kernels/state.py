"""The state of a fluid network: flat arrays that every kernel of the simulation reads and writes.

A *resource* has a capacity that flows share: a channel of the fabric, a PCIe root port, the memory of a host. A
*route* is the list of resources from one place to another on one lane. Flows that move on one route at one time have
the same rate for ever, so they are one *class*: the solver sees a class with its number of flows. A class lives in a
*slot* from its first flow to its last. A *hop* is one resource of a class, numbered ``slot << shift | place``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "CLOCK_TIE",
    "CLOCK_TIME",
    "N_DONE",
    "N_EVENTS",
    "N_FREE_SLOTS",
    "N_QUEUE_HEAD",
    "N_QUEUE_TAIL",
    "N_SOLVES",
    "N_STAMP",
    "N_TIMERS",
    "Calendar",
    "Classes",
    "Links",
    "Moving",
    "Routes",
    "State",
    "allocate",
]

N_FREE_SLOTS, N_QUEUE_HEAD, N_QUEUE_TAIL, N_TIMERS, N_DONE, N_EVENTS, N_SOLVES, N_STAMP = range(8)
"""Places in `State.count`."""

CLOCK_TIME, CLOCK_TIE = range(2)
"""Places in `State.clock`: the time now, and the time within which events count as simultaneous, in seconds."""

BLOCK = 32
"""Ends of classes are kept as a tree of minima with this many children a node."""


class Links(NamedTuple):
    """Resources, R of them, each with the classes that cross it."""

    capacity: NDArray[np.float64]
    """(R,) bytes a second."""
    offset: NDArray[np.int64]
    """(R + 1,) room of each resource in `member` and `weight`."""
    count: NDArray[np.int32]
    """(R,) classes that cross it now."""
    member: NDArray[np.int32]
    """Hops, one a class; the first ``count[r]`` of a resource's room are in use."""
    weight: NDArray[np.float64]
    """Beside `member`: flows of the class times its use of the resource."""
    seen: NDArray[np.int64]
    """(R,) stamp of the last solve that looked at the resource. What follows belongs to that solve."""
    fixed: NDArray[np.float64]
    """(R,) bytes a second of the classes with a rate."""
    free: NDArray[np.float64]
    """(R,) weight of the classes without one."""
    key: NDArray[np.float64]
    """(R,) level at which the resource must be looked at next; its entry in the heap."""
    watched: NDArray[np.bool_]
    """(R,) whether classes that are not being solved name it as their bottleneck."""


class Routes(NamedTuple):
    """Routes, Q of them."""

    offset: NDArray[np.int64]
    """(Q + 1,) room of each route in `resource` and `use`."""
    resource: NDArray[np.int32]
    """Resources in the order in which bytes cross them."""
    use: NDArray[np.float64]
    """Beside `resource`: bytes of capacity that one byte of the flow takes; empty when 1 everywhere."""
    latency: NDArray[np.float64]
    """(Q,) seconds from the begin of a flow to its first byte's arrival."""
    lane: NDArray[np.uint8]
    """(Q,) virtual lane."""
    slot: NDArray[np.int32]
    """(Q,) slot of the class that moves on the route, -1 when none does."""


class Classes(NamedTuple):
    """Slots, K of them, each for the flows that move on one route."""

    route: NDArray[np.int32]
    """(K,) the route."""
    flows: NDArray[np.int32]
    """(K,) flows moving now."""
    solved: NDArray[np.int32]
    """(K,) flows that moved when the rate was solved."""
    rate: NDArray[np.float64]
    """(K,) bytes a second of each flow."""
    before: NDArray[np.float64]
    """(K,) rate before the solve that goes on."""
    limit: NDArray[np.int32]
    """(K,) bottleneck: the full resource on which no flow is faster."""
    served: NDArray[np.float64]
    """(K,) bytes that each flow present since the class began has moved until `since`."""
    since: NDArray[np.float64]
    """(K,) seconds, time of `served`."""
    first: NDArray[np.int32]
    """(K,) the flow that ends first, root of a heap through `Moving.left` and `Moving.right`."""
    hops: NDArray[np.int32]
    """(K,) resources on the route."""
    lane: NDArray[np.uint8]
    """(K,) virtual lane."""
    drawn: NDArray[np.float64]
    """(K,) seconds up to which the timeline has the class's load."""
    free: NDArray[np.int8]
    """(K,) in a solve: `maxmin.SETTLED`, `FREE` or `FROZEN`."""
    touched: NDArray[np.bool_]
    """(K,) whether the class is in `touched_list`."""
    touched_list: NDArray[np.int32]
    """(K,) classes that won or lost flows at this instant."""
    spare: NDArray[np.int32]
    """(K,) stack of unused slots."""
    resource: NDArray[np.int32]
    """(K << shift,) resource of each hop."""
    use: NDArray[np.float64]
    """(K << shift,) use of each hop."""
    place: NDArray[np.int32]
    """(K << shift,) place of each hop in its resource's room of `Links.member`."""


class Moving(NamedTuple):
    """Flows, F of them, and who waits for whom."""

    route: NDArray[np.int32]
    """(F,) route."""
    size: NDArray[np.float64]
    """(F,) bytes."""
    earliest: NDArray[np.float64]
    """(F,) seconds before which the flow cannot begin."""
    delay: NDArray[np.float64]
    """(F,) seconds between being ready and beginning."""
    waits: NDArray[np.int32]
    """(F,) flows that it still waits for."""
    next_offset: NDArray[np.int64]
    """(F + 1,) the flows that wait for f are ``next[next_offset[f]:next_offset[f + 1]]``."""
    next: NDArray[np.int32]
    """Flows that wait."""
    begin: NDArray[np.float64]
    """(F,) seconds at which it began, NaN before."""
    arrive: NDArray[np.float64]
    """(F,) seconds at which its bytes begin to move: begin and latency."""
    end: NDArray[np.float64]
    """(F,) seconds at which it ended, NaN before."""
    limit: NDArray[np.int32]
    """(F,) bottleneck when it ended, -1 for flows that cross nothing."""
    goal: NDArray[np.float64]
    """(F,) value of `Classes.served` at which it ends."""
    left: NDArray[np.int32]
    """(F,) heap of a class: left child."""
    right: NDArray[np.int32]
    """(F,) heap of a class: right child."""


class Calendar(NamedTuple):
    """What happens next: ends of classes in a tree of minima, begins of flows in a queue and a heap."""

    end: NDArray[np.float64]
    """(K,) seconds at which the class's first flow ends, infinite for unused slots."""
    block: NDArray[np.float64]
    """Minimum of each `BLOCK` of `end`."""
    top: NDArray[np.float64]
    """Minimum of each `BLOCK` of `block`."""
    stale: NDArray[np.bool_]
    """Beside `block`: whether it must be computed again."""
    stale_list: NDArray[np.int32]
    """Blocks to compute again; the number of them is in ``stale_count[0]``."""
    stale_count: NDArray[np.int64]
    """(1,)"""
    queue: NDArray[np.int32]
    """(F,) flows that were scheduled in the order of their times."""
    timer: NDArray[np.int32]
    """(F,) heap of flows that were scheduled out of order."""


class State(NamedTuple):
    """Everything."""

    links: Links
    routes: Routes
    classes: Classes
    moving: Moving
    calendar: Calendar
    heap_key: NDArray[np.float64]
    """Heap of a solve: levels."""
    heap_link: NDArray[np.int32]
    """Heap of a solve: resources."""
    freed: NDArray[np.int32]
    """(K,) classes being solved."""
    seed: NDArray[np.int32]
    """Resources whose flows have changed."""
    ready: NDArray[np.int32]
    """(F,) flows to begin at this instant."""
    done: NDArray[np.int32]
    """(F,) flows in the order in which they ended."""
    lane_weight: NDArray[np.float64]
    """(L,) arbitration weight of each lane."""
    shift: int
    """A class has room for ``1 << shift`` hops."""
    bins: NDArray[np.float64]
    """(R, B) bytes that crossed each resource in each bin of time; no bins, no timeline."""
    bin_s: NDArray[np.float64]
    """(1,) width of a bin; it doubles, and neighbours are joined, when time goes beyond the last."""
    clock: NDArray[np.float64]
    count: NDArray[np.int64]


def allocate(
    capacity: NDArray[np.float64],
    room: NDArray[np.int64],
    routes: Routes,
    moving: Moving,
    n_slots: int,
    n_hops: int,
    lane_weight: NDArray[np.float64],
    n_bins: int,
    bin_s: float,
    tie_s: float,
) -> State:
    """Return the state of a network on which nothing moves yet.

    Parameters
    ----------
    room
        (R,) classes that may cross each resource at one time.
    n_slots
        Classes that may move at one time.
    n_hops
        Resources on the longest route.
    """
    n_links, n_flows = len(capacity), len(moving.route)
    shift = max(0, int(n_hops - 1).bit_length())
    k = -(-max(n_slots, 1) // (BLOCK * BLOCK)) * BLOCK * BLOCK
    offset = np.concatenate([[0], np.cumsum(room)]).astype(np.int64)

    def ints(n: int) -> NDArray[np.int32]:
        return np.zeros(n, np.int32)

    def floats(n: int) -> NDArray[np.float64]:
        return np.zeros(n, np.float64)

    links = Links(
        capacity=capacity,
        offset=offset,
        count=ints(n_links),
        member=ints(int(offset[-1])),
        weight=floats(int(offset[-1])),
        seen=np.zeros(n_links, np.int64),
        fixed=floats(n_links),
        free=floats(n_links),
        key=floats(n_links),
        watched=np.zeros(n_links, np.bool_),
    )
    classes = Classes(
        route=ints(k),
        flows=ints(k),
        solved=ints(k),
        rate=floats(k),
        before=floats(k),
        limit=ints(k),
        served=floats(k),
        since=floats(k),
        first=ints(k),
        hops=ints(k),
        lane=np.zeros(k, np.uint8),
        drawn=floats(k),
        free=np.zeros(k, np.int8),
        touched=np.zeros(k, np.bool_),
        touched_list=ints(k),
        spare=np.arange(k - 1, -1, -1, dtype=np.int32),
        resource=ints(k << shift),
        use=floats(k << shift),
        place=ints(k << shift),
    )
    calendar = Calendar(
        end=np.full(k, np.inf),
        block=np.full(k // BLOCK, np.inf),
        top=np.full(k // (BLOCK * BLOCK), np.inf),
        stale=np.zeros(k // BLOCK, np.bool_),
        stale_list=ints(k // BLOCK),
        stale_count=np.zeros(1, np.int64),
        queue=ints(max(n_flows, 1)),
        timer=ints(max(n_flows, 1)),
    )
    count = np.zeros(8, np.int64)
    count[N_FREE_SLOTS] = k
    return State(
        links=links,
        routes=routes,
        classes=classes,
        moving=moving,
        calendar=calendar,
        heap_key=floats(n_links + (k << shift)),
        heap_link=ints(n_links + (k << shift)),
        freed=ints(k),
        seed=ints(k << shift),
        ready=ints(max(n_flows, 1)),
        done=ints(max(n_flows, 1)),
        lane_weight=lane_weight,
        shift=shift,
        bins=np.zeros((n_links if n_bins else 0, n_bins)),
        bin_s=np.array([bin_s]),
        clock=np.array([0.0, tie_s]),
        count=count,
    )
