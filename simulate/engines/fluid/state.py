"""The state of a fluid network: arrays of records that the kernels of the simulation read and write.

A *resource* has a capacity that flows share: a channel of the fabric, a PCIe root port, the memory of a host.
A *route* is the list of resources from one place to another on one lane. Flows that move on one route at one time have
the same rate for ever, so they are one *class*: the solver sees a class with its number of flows. A class lives in a
*slot* from its first flow to its last. A *hop* is one resource of a class. Many classes with one bottleneck are one
*aggregate* (`simulate.engines.fluid.aggregates`), a unit of the solver like a class: the first slots are those of
aggregates, one for each resource.

Kernels take the state whole. Numba copies all of it at each call, some 300 words, so what an event calls is inlined.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulate.engines.base import FIRST_BIN_S, UNUSED, WAIT, Floats, Int32s, Records

BLOCK = 32
"""Ends of classes are kept as a tree of minima with this many children a node."""

NOW = np.dtype(
    [
        ("time", "f8"),  # seconds
        ("bin_s", "f8"),  # width of a bin of the timeline
        ("shift", "i8"),  # a class has room for ``1 << shift`` hops
        ("stamp", "i8"),  # counts calls of the solvers
        ("events", "i8"),  # instants played
        ("done", "i8"),  # flows in ``done``
        ("spare", "i8"),  # slots in ``spare``
        ("stale", "i8"),  # blocks in ``stale``
        ("queue_head", "i8"),  # flows that have left ``queue``
        ("queue_tail", "i8"),  # flows that have entered it
        ("timers", "i8"),  # flows in ``timer``
        ("turns", "i8"),  # connections in ``turns``
        ("members", "i8"),  # places of ``members`` that are part of a room, or were
        ("touched", "i8"),  # units in ``touched``
        ("seeds", "i8"),  # links in ``seeds``
        ("aggregates", "i8"),  # slots of aggregates: one a link, or none
        ("aggregate_from", "i8"),  # classes with one bottleneck from which they form an aggregate
        ("aggregated", "i8"),  # classes in aggregates
        ("shares", "i8"),  # shares that have been used
        ("spare_share", "i8"),  # the first of those that are unused again, -1 for none
        ("gathering", "i8"),  # links in ``gathering``
        ("laned", "i8"),  # whether routes are on several lanes: one alone gets all of every resource
    ]
)
"""One record of single values."""

RESOURCE = np.dtype(
    [
        ("capacity", "f8"),  # bytes a second; with several lanes those that the lane could have
        ("first", "i4"),  # room of the resource in ``members``
        ("room", "i4"),  # places in it
        ("count", "i4"),  # classes that cross the resource now: the first so many places
        ("limits", "i4"),  # whether units may name it as their bottleneck
        ("stamp", "i8"),  # whether `load`, `limits` and its level are known: `WEIGHED` or `QUEUED`
        ("load", "f8"),  # bytes a second
        ("times", "i8"),  # on lane 0: the last time that the parts of the lanes were computed
        ("laned", "i4"),  # whether lanes share it by weight: channels are, what hosts have inside is not
        ("unsaturated", "i4"),  # whether it cannot be full until it is looked at again (`aggregates`)
        ("change", "f8"),  # of the capacity, when the parts of the lanes were last computed
    ]
)
"""A resource; with L lanes, lane l of resource r is number ``r * L + l``."""

WEIGHED, QUEUED = 1, 2
"""`stamp` of a link: its load and level are known; it is also in the heap of a solve."""

MEMBER = np.dtype([("weight", "f8"), ("slot", "i4"), ("hop", "i4")])
"""A class or aggregate on a resource; the weight is its number of flows times their use. `hop` of an aggregate is its
share."""

ROUTE = np.dtype([("latency", "f8"), ("first", "i8"), ("hops", "i4"), ("slot", "i4"), ("lane", "i8")])
"""A route: seconds of latency, where it begins in ``route_link``, the slot of the class on it or -1, its lane."""

RATE = np.dtype([("rate", "f8"), ("limit", "i4"), ("free", "i4")])
"""What a solve reads of a class: bytes a second of each of its flows; its bottleneck, the full resource on which no
flow is faster; and whether it is being solved (`aggregates.SETTLED`, `maxmin.FREE`)."""

CLASS = np.dtype(
    [
        ("flows", "i4"),  # flows moving now
        ("solved", "i4"),  # flows that moved when the rate was solved
        ("before", "f8"),  # rate before the solve that goes on
        ("served", "f8"),  # bytes that a flow present since the class began has moved until ``since``
        ("since", "f8"),  # seconds
        ("drawn", "f8"),  # seconds until which the timeline has the load
        ("route", "i4"),
        ("first", "i4"),  # the flow that ends first, root of a heap in ``moves``
        ("hops", "i4"),
        ("touched", "i4"),  # whether it is in ``touched``
    ]
)
"""The rest of a class. Of an aggregate, `flows` is its number of classes, `served` its clock, and `first` the class
that ends first, root of a heap in ``class_heap``."""

HOP = np.dtype([("use", "f8"), ("link", "i4"), ("place", "i4")])
"""A resource of a class, and the place of the class among its members; of a class in an aggregate the share."""

AGGREGATE = np.dtype(
    [
        ("rate_cap", "f8"),  # no far share of the aggregate has a lower reserve rate
        ("reserved", "f8"),  # where its link is unsaturated: weights of the members times their reserve rates
        ("near", "i4"),  # the first share of the aggregate on a link that is not unsaturated
        ("far", "i4"),  # the first on one that is
        ("own", "i4"),  # the share on its own link
        ("shares", "i4"),  # how many there are
    ]
)
"""What an aggregate has beyond a class."""

SHARE = np.dtype(
    [
        ("reserve_rate", "f8"),  # while no aggregate is above its reserve rates, an unsaturated link cannot be full
        ("drawn", "f8"),  # clock of the aggregate until which the timeline has the load
        ("link", "i4"),
        ("place", "i4"),  # among the members of the link
        ("aggregate", "i4"),
        ("count", "i4"),  # hops of its classes
        ("first", "i4"),  # the first of them, in a list in ``siblings``
        ("next", "i4"),  # in the near or far list of the aggregate, or that of the unused
        ("prev", "i4"),
    ],
    align=True,
)
"""What an aggregate takes of a link."""

SIBLING = np.dtype([("next", "i4"), ("prev", "i4")])
"""Siblings of a hop in its share."""

CLASS_HEAP = np.dtype([("key", "f8"), ("child", "i4"), ("next", "i4"), ("prev", "i4"), ("queued", "i4")])
"""A class in the heap of its aggregate: the clock at which its first flow ends; its right sibling; its left sibling or
parent."""

MOVE = np.dtype([("due", "f8"), ("left", "i4"), ("right", "i4")])
"""A flow that is scheduled (due at a time) or moves (due when its class has served so many bytes; children in the heap
of the class)."""

ENTRY = np.dtype([("key", "f8"), ("link", "i8")])
"""An entry of the heap of a solve."""


class State(NamedTuple):
    """Everything. R resources, L lanes, Q routes, G aggregates, K slots with those of aggregates, F flows."""

    now: Records  # (1,) `NOW`
    capacity: Floats  # (R,) bytes a second of each resource
    links: Records  # (R * L,) `RESOURCE`
    members: Records
    """`MEMBER`, in the rooms of the resources. A room begins small; when it is full, one twice its size is taken."""
    routes: Records  # (Q,) `ROUTE`
    route_link: Int32s  # resources of the routes
    route_use: Floats  # beside it: bytes of capacity that one byte of the flow takes; empty when 1 everywhere
    rates: Records  # (K,) `RATE`
    classes: Records  # (K,) `CLASS`
    hops: Records  # (K - G << shift,) `HOP`
    aggregates: Records  # (G,) `AGGREGATE`
    shares: Records  # (K - G << shift,) `SHARE`
    siblings: Records  # (K - G << shift,) `SIBLING`
    class_heap: Records  # (K,) `CLASS_HEAP`

    flow_route: Int32s  # (F,) route of each flow
    size: Floats  # (F,) bytes
    earliest: Floats  # (F,) seconds before which a flow cannot begin
    delay: Floats  # (F,) seconds between being ready and beginning
    waits: Records  # (F,) `simulate.engines.base.WAIT`
    next_flow: Int32s  # flows that wait, in the runs that `waits` names
    begin: Floats  # (F,) seconds at which it began, NaN before
    end: Floats  # (F,) seconds at which it ended, NaN before
    limit: Int32s  # (F,) bottleneck when it ended, -1 for flows that cross nothing
    moves: Records  # (F,) `MOVE`
    connection: Int32s  # (F,) connection of each flow, -1 for none
    connections: Records  # (C,) `simulate.engines.base.CONNECTION`

    ends: Floats  # (K,) seconds at which the first flow of the class ends, infinite for unused slots
    blocks: Floats  # minimum of each `BLOCK` of `ends`
    tops: Floats  # minimum of each `BLOCK` of `blocks`
    roots: Floats
    """Minimum of each `BLOCK` of `tops`: few, whatever the number of slots, so that an event looks at all of them."""
    stale: Int32s  # blocks to compute again
    is_stale: NDArray[np.bool_]  # beside `blocks`: whether it is in `stale`
    queue: Int32s  # (F,) flows that were scheduled in the order of their times, as a ring
    timer: Int32s  # (F,) heap of flows that were scheduled out of order

    levels: Floats  # (R * L,) rate of the units that a weighed link holds back
    heap: Records  # `ENTRY`: heap of a solve
    freed: Int32s  # (K,) classes in a solve
    seeds: Int32s  # (2 * R * L + (K << shift),) links whose flows or capacity have changed
    gathering: Int32s  # (G,) links that hold enough classes back, after a solve
    touched: Int32s  # (K,) classes that won or lost flows, or changed their rate, at this instant; aggregates too
    spare: Int32s  # (K,) stack of unused slots
    ready: Int32s  # (F,) stack of flows to begin at this instant
    turns: Int32s  # (C,) stack of connections that may let their next flow move
    done: Int32s  # (F,) flows in the order in which they ended
    wants: Floats  # (L,) bytes a second that each lane wants of a resource
    lane_weight: Floats  # (L,) arbitration weight of each lane
    bins: Floats
    """(R * L, B) bytes that crossed each resource on each lane in each bin of time. The width of a bin doubles, and
    neighbours are joined, when time goes beyond the last."""


class Room(NamedTuple):
    """How much a state has room for."""

    flows: int
    routes: int
    links: int  # resources on all routes together
    hops: int  # resources on the longest route
    next_flow: int  # dependencies
    connections: int


PER_FLOW: dict[str, Any] = {"size": float, "earliest": float, "delay": float, "waits": WAIT, "moves": MOVE}
PER_FLOW |= dict.fromkeys(("flow_route", "queue", "timer", "ready", "done"), np.int32)
"""Type of the arrays with a place for each flow that are zeros at first."""

FIRST_MEMBERS = 4
"""Places in the first room of a resource."""

MOVED = ("now", "capacity", "members", "hops", "siblings", "queue", "spare", "lane_weight")
"""Arrays that stand elsewhere in a larger state, or belong to the network. The others are the beginning of its own."""


def aligned(n: int, record: np.dtype[np.void]) -> Records:
    """Return `n` records of zeros that begin at a line of the cache, so that one of 64 bytes lies in one line."""
    memory = np.zeros(n * record.itemsize + 64, np.uint8)
    begin = -memory.ctypes.data % 64
    return memory[begin : begin + n * record.itemsize].view(record)


def aligned_copy(array: NDArray[Any]) -> NDArray[Any]:
    """Return a copy; one of records begins at a line of the cache."""
    if array.dtype.names is None:
        return array.copy()
    result = aligned(len(array), array.dtype)
    result[:] = array
    return result


def allocate(
    capacity: Floats, lane_weight: Floats, room: Room, *,
    n_channels: int, aggregate_from: int, n_bins: int, has_uses: bool = False,
) -> State:  # fmt: skip
    """Return the state of a network on which nothing moves yet.

    Lanes share the first `n_channels` of its resources; `aggregate_from` is as in `NOW`, 0 for no aggregates, and
    `has_uses` says whether flows use resources by a factor.
    """
    n_lanes, n_flows = len(lane_weight), max(room.flows, 1)
    n_links = len(capacity) * n_lanes
    shift = max(0, int(room.hops - 1).bit_length())
    n_aggregates = n_links if aggregate_from else 0
    n_slots = max(min(n_flows, room.routes), 1)
    k = -(-(n_aggregates + n_slots) // (BLOCK * BLOCK)) * BLOCK * BLOCK
    n_hops = (k - n_aggregates) << shift
    now = np.zeros(1, NOW)
    now["bin_s"], now["shift"], now["spare"] = FIRST_BIN_S, shift, k - n_aggregates
    now["aggregates"], now["aggregate_from"], now["spare_share"] = n_aggregates, aggregate_from, -1
    aggregates = np.zeros(n_aggregates, AGGREGATE)
    for name in ("near", "far", "own"):
        aggregates[name] = -1
    now["members"] = FIRST_MEMBERS * n_links
    links = aligned(n_links, RESOURCE)
    links["capacity"] = np.repeat(capacity, n_lanes)
    links["first"] = FIRST_MEMBERS * np.arange(n_links)
    links["room"] = FIRST_MEMBERS
    links["laned"][: n_channels * n_lanes] = True
    return State(
        now=now,
        capacity=capacity,
        links=links,
        # Rooms double, so those given up are smaller in sum than the last, which is less than twice what is needed.
        members=aligned(FIRST_MEMBERS * n_links + 4 * room.links, MEMBER),
        routes=np.zeros(room.routes, ROUTE),
        route_link=np.zeros(room.links, np.int32),
        route_use=np.zeros(room.links if has_uses else 0),
        rates=aligned(k, RATE),
        classes=aligned(k, CLASS),
        hops=aligned(n_hops, HOP),
        aggregates=aggregates,
        shares=np.zeros(n_hops if n_aggregates else 0, SHARE),
        siblings=np.zeros(n_hops if n_aggregates else 0, SIBLING),
        class_heap=np.zeros(k if n_aggregates else 0, CLASS_HEAP),
        **{name: np.zeros(n_flows, kind) for name, kind in PER_FLOW.items()},
        next_flow=np.zeros(room.next_flow, np.int32),
        begin=np.full(n_flows, np.nan),
        end=np.full(n_flows, np.nan),
        limit=np.full(n_flows, -1, np.int32),
        connection=np.full(n_flows, -1, np.int32),
        connections=np.full(room.connections, UNUSED),
        ends=np.full(k, np.inf),
        blocks=np.full(k // BLOCK, np.inf),
        tops=np.full(k // BLOCK**2, np.inf),
        roots=np.full(-(-k // BLOCK**3), np.inf),
        stale=np.zeros(k // BLOCK, np.int32),
        is_stale=np.zeros(k // BLOCK, np.bool_),
        levels=np.zeros(n_links),
        heap=np.zeros(n_links, ENTRY),
        freed=np.zeros(k, np.int32),
        seeds=np.zeros(2 * n_links + 2 * n_hops, np.int32),
        gathering=np.zeros(n_aggregates, np.int32),
        touched=np.zeros(k, np.int32),
        spare=np.arange(k - 1, n_aggregates - 1, -1, dtype=np.int32),
        turns=np.zeros(room.connections, np.int32),
        wants=np.zeros(n_lanes),
        lane_weight=lane_weight,
        bins=np.zeros((n_links if n_bins else 0, n_bins)),
    )


def moved(old: State, new: State) -> State:
    """Return `new`, a state on which nothing moves yet and with at least as much room everywhere, with all of `old`.

    Only between two events.
    """
    old_now, n_classes, n_slots = old.now[0], len(old.spare), len(new.spare)
    shift, wider, spare = int(old_now["shift"]), int(new.now["shift"][0]), int(old_now["spare"])

    def renumbered(hop: Int32s) -> Int32s:  # -1 is none
        return np.where(hop < 0, hop, hop >> shift << wider | hop & (1 << shift) - 1)

    for name in set(State._fields) - set(MOVED):
        getattr(new, name)[: len(getattr(old, name))] = getattr(old, name)
    members = new.members[: old_now["members"]]
    members[:] = old.members[: len(members)]
    of_class = members["slot"] >= len(old.aggregates)
    members["hop"][of_class] = renumbered(members["hop"][of_class])
    new.shares["first"][: len(old.shares)] = renumbered(old.shares["first"])
    for place in range(1 << shift):
        new.hops[place :: 1 << wider][:n_classes] = old.hops[place :: 1 << shift]
        for name in SIBLING.names or ():
            siblings = old.siblings[name][place :: 1 << shift]
            new.siblings[name][place :: 1 << wider][: len(siblings)] = renumbered(siblings)
    new.spare[n_slots - n_classes :][:spare] = old.spare[:spare]  # below them stay the slots that are new
    queued = np.arange(old_now["queue_head"], old_now["queue_tail"])
    new.queue[: len(queued)] = old.queue[queued % len(old.queue)]
    new.now[0] = old_now
    new.now["shift"], new.now["spare"] = wider, n_slots - n_classes + spare
    new.now["queue_head"], new.now["queue_tail"] = 0, len(queued)
    return new
