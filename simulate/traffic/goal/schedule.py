"""GOAL schedules: the operations of each rank and what they wait for; flows of them, and schedules of flows."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from simulate.traffic.flows import EAGER_BYTES, Flows, find_cycle, grouped_dependencies
from topo.errors import FormatError
from topo.fabric import Frozen
from topo.graphs import turns_in_groups

CALC_UNIT_S = 1e-9
"""Seconds of a unit of ``calc``: a nanosecond by convention of LogGOPSim."""

ANY = -1
"""Source or tag of a receive that takes what comes."""

MAX_SIZE = 2**53
"""Bytes or units of time of one operation, at most: what a float64 holds exactly."""


class Op(IntEnum):
    """What an operation does."""

    SEND = 0
    RECV = 1
    CALC = 2


@dataclass(frozen=True, eq=False)
class Goal(Frozen):
    """A schedule of N operations, rank after rank, with dependencies between operations of one rank."""

    n_ranks: int
    op: NDArray[np.uint8]
    """(N,) `Op`."""
    rank: NDArray[np.int32]
    """(N,) rank of each operation, ascending."""
    size: NDArray[np.int64]
    """(N,) bytes of a message, or units of time of a calculation."""
    peer: NDArray[np.int32]
    """(N,) rank at the other end; `ANY` for a receive from anywhere, and for calculations."""
    tag: NDArray[np.int64]
    """(N,) tag of a message; `ANY` for a receive that takes all."""
    cpu: NDArray[np.int64]
    """(N,) core that does it."""
    nic: NDArray[np.int64]
    """(N,) adapter that does it."""
    requires: NDArray[np.int32]
    """(D, 2) operation, and the operation that must have ended before it begins."""
    irequires: NDArray[np.int32]
    """(I, 2) operation, and the operation that must have begun before it begins."""
    line: NDArray[np.int32]
    """(N,) line of each operation in its file, 0 when it comes from none."""
    path: str = ""

    @classmethod
    def of(
        cls,
        n_ranks: int,
        op: ArrayLike,
        rank: ArrayLike,
        size: ArrayLike,
        peer: ArrayLike,
        tag: ArrayLike,
        cpu: ArrayLike = 0,
        nic: ArrayLike = 0,
        line: ArrayLike = 0,
        *,
        requires: ArrayLike,
        irequires: ArrayLike = (),
        path: str = "",
    ) -> Goal:
        """Return a schedule of operations in any order, which are numbered anew, rank after rank."""
        order = np.argsort(rank, kind="stable")
        position = np.empty(len(order), np.int64)
        position[order] = np.arange(len(order))

        def column(values: ArrayLike, kind: DTypeLike = np.int64) -> NDArray[Any]:
            return np.broadcast_to(np.asarray(values), order.shape)[order].astype(kind)

        def pairs(numbers: ArrayLike) -> NDArray[np.int32]:
            return position[np.asarray(numbers, np.int64)].reshape(-1, 2).astype(np.int32)

        return cls(
            *(n_ranks, column(op, np.uint8), column(rank, np.int32), column(size), column(peer, np.int32), column(tag)),
            *(column(cpu), column(nic), pairs(requires), pairs(irequires), column(line, np.int32), path),
        )

    def __len__(self) -> int:
        return len(self.op)


def flows_of_goal(goal: Goal, eager_bytes: float = EAGER_BYTES) -> Flows:
    """Return the messages of a schedule as flows between its ranks, and its calculations as delays at their rank.

    A message of at most `eager_bytes` begins when its send may, which has ended then: the bytes are in a buffer. Its
    receive has ended when the message is there and all that the receive waits for has ended. A larger message begins
    when both its send and its receive may, and both have ended when it is there. Sends and receives match by source,
    destination and tag in the order of the file; receives from anywhere, or of any tag, then take what is left, in that
    order too (a running program might match them otherwise). A flow has the tag of its send.

    Raises
    ------
    FormatError
        When a send has no receive, something waits for a receive that has no send, a receive is too small, or
        operations wait for each other in a circle: with the line.
    """
    send_of = _matched(goal)
    is_recv = goal.op == Op.RECV
    n = len(goal)
    pairs, begun = goal.requires.astype(np.int64), goal.irequires.astype(np.int64)
    eager = goal.size <= eager_bytes
    local = (eager & (goal.op == Op.SEND))[pairs[:, 1]]
    pairs, begun = pairs[~local], np.concatenate([begun, pairs[local]])
    waits = np.zeros(n, bool)
    waits[pairs[:, 0]] = waits[begun[:, 0]] = True
    awaited = pairs[:, 1]
    lost = awaited[(goal.op[awaited] == Op.RECV) & (send_of[awaited] < 0)]
    if len(lost):
        raise _refusal(goal, lost[0], f"{_shown(goal, lost[0])} without a send, and operations that wait for it")
    # Flows: first one for each operation, but receives that wait for nothing, or that their message waits for, are
    # their message itself; then one for the beginning of each operation that another may not overtake.
    own = ~is_recv | (waits & (send_of >= 0) & eager[send_of])
    flow = np.cumsum(own) - 1
    flow[~own] = np.where(send_of[~own] >= 0, flow[send_of[~own]], -1)
    watched = np.unique(begun[:, 1])
    watched = watched[waits[watched]]
    opening = np.full(n, -1)
    opening[watched] = np.count_nonzero(own) + np.arange(len(watched))
    gate = np.where(opening >= 0, opening, flow)  # what an operation's own dependencies hold back

    begun = begun[opening[begun[:, 1]] >= 0]
    joins = np.flatnonzero(is_recv & own)
    flow_side = np.concatenate([gate[pairs[:, 0]], gate[begun[:, 0]], flow[watched], flow[joins]])
    dep_side = np.concatenate([flow[pairs[:, 1]], opening[begun[:, 1]], opening[watched], flow[send_of[joins]]])
    kept = flow_side >= 0  # a receive that nothing comes to has no flow, and nothing waits for it
    flow_side, dep_side = flow_side[kept], dep_side[kept]
    ops = np.concatenate([np.flatnonzero(own), watched])
    message, calc = (
        (goal.op[ops] == kind) & (np.arange(len(ops)) < np.count_nonzero(own)) for kind in (Op.SEND, Op.CALC)
    )
    asks = message & ~eager[ops]
    _refuse_circle(goal, ops, asks, flow_side, dep_side)
    return Flows.of(
        goal.rank[ops],
        np.where(message, goal.peer[ops], goal.rank[ops]),
        np.where(message, goal.size[ops], 0),
        delay_s=np.where(calc, goal.size[ops] * CALC_UNIT_S, 0.0),
        tag=np.where(message, goal.tag[ops] & 0x7FFFFFFF, 0),
        rendezvous=asks,
        after=(flow_side, dep_side),
    )


def goal_of_flows(flows: Flows, n_ranks: int) -> Goal:
    """Return flows between ranks as a schedule: a send and a receive each, ``calc`` for delays and start times.

    Bytes are rounded to whole ones and times to nanoseconds. Each message has its flow's number as its tag. Where a
    flow waits for one that its sender has no part in, a message of no bytes tells the sender (in a real library too,
    the receiver says that its buffer is ready), so that such a flow begins one latency later than it would here.
    """
    n = len(flows)
    src, dst = flows.src.astype(np.int64), flows.dst.astype(np.int64)
    number, moves = np.arange(n), src != dst
    waiter, awaited = flows.waiter, flows.dep.astype(np.int64)
    known = (src[awaited] == src[waiter]) | (dst[awaited] == src[waiter])
    # One signal for each flow and rank that knows what the sender does not.
    (told, teller), signal = np.unique(np.stack([waiter, dst[awaited]])[:, ~known], axis=1, return_inverse=True)
    delay, start = (np.rint(time / CALC_UNIT_S).astype(np.int64) for time in (flows.delay_s, flows.start_s))
    delayed, started = np.flatnonzero((delay > 0) & moves), np.flatnonzero(start > 0)
    size = np.rint(flows.size_bytes).astype(np.int64)
    tags = n + np.arange(len(told))
    sends, sizes = np.where(moves, Op.SEND, Op.CALC), np.where(moves, size, delay)
    kinds: list[tuple[ArrayLike, ...]] = [  # operation, rank, peer, size and tag
        (sends, src, np.where(moves, dst, ANY), sizes, np.where(moves, number, 0)),
        (Op.RECV, dst[moves], src[moves], size[moves], number[moves]),
        (Op.CALC, src[delayed], ANY, delay[delayed], 0),
        (Op.CALC, src[started], ANY, start[started], 0),
        (Op.SEND, teller, src[told], 0, tags),
        (Op.RECV, src[told], teller, 0, tags),
    ]
    parts = [np.broadcast_arrays(*kind) for kind in kinds]
    op, rank, peer, size, tag = (np.concatenate(column) for column in zip(*parts, strict=True))
    begin = np.cumsum([0, *(len(part[0]) for part in parts)])
    received = begin[1] + np.cumsum(moves) - 1
    gate = number.copy()  # what a flow's dependencies hold back: its wait, if it has one
    gate[delayed] = begin[2] + np.arange(len(delayed))

    def ended(which: NDArray[np.int64], where: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return what ends flows as ranks see it: the receive, or the send (or calculation) where that is local."""
        return np.where((dst[which] == where) & moves[which], received[which], which)

    requires = [
        (gate[waiter[known]], ended(awaited[known], src[waiter[known]])),
        (delayed, gate[delayed]),
        (gate[started], begin[3] + np.arange(len(started))),
        (begin[4] + signal.ravel(), ended(awaited[~known], dst[awaited[~known]])),
        (gate[told], begin[5] + np.arange(len(told))),
    ]
    pairs = np.concatenate([np.stack(pair, axis=1) for pair in requires])
    return Goal.of(n_ranks, op, rank, size, peer, tag, requires=pairs)


def _matched(goal: Goal) -> NDArray[np.int64]:
    """Return (N,) the send that each receive gets, -1 for other operations and receives without one."""
    sends, recvs = np.flatnonzero(goal.op == Op.SEND), np.flatnonzero(goal.op == Op.RECV)
    wild = (goal.peer[recvs] == ANY) | (goal.tag[recvs] == ANY)
    named = recvs[~wild]
    source = np.concatenate([goal.rank[sends], goal.peer[named]]).astype(np.int64)
    target = np.concatenate([goal.peer[sends], goal.rank[named]])
    pair = np.unique(source * goal.n_ranks + target, return_inverse=True)[1]
    group = np.unique((pair << 32) + goal.tag[np.concatenate([sends, named])], return_inverse=True)[1]
    # The k-th send of a group (source, target, tag) goes to its k-th receive.
    of_send, of_recv = (part * len(goal) + turns_in_groups(part) for part in np.split(group, [len(sends)]))
    _, given, taken = np.intersect1d(of_send, of_recv, assume_unique=True, return_indices=True)
    send_of = np.full(len(goal), -1)
    send_of[named[taken]] = sends[given]
    _match_wild(goal, recvs[wild], np.delete(sends, given), send_of)
    lost = np.setdiff1d(sends, send_of)
    if len(lost):
        raise _refusal(goal, lost[0], f"{_shown(goal, lost[0])} without a receive at rank {goal.peer[lost[0]]}")
    taken = np.flatnonzero(send_of >= 0)
    small = taken[goal.size[taken] < goal.size[send_of[taken]]]
    if len(small):
        send = send_of[small[0]]
        raise _refusal(
            goal, small[0], f"{_shown(goal, small[0])} for the {goal.size[send]} bytes of line {goal.line[send]}"
        )
    return send_of


def _match_wild(goal: Goal, recvs: NDArray[np.int64], sends: NDArray[np.int64], send_of: NDArray[np.int64]) -> None:
    """Give each receive with a wildcard the first send left that fits."""
    if not len(recvs):
        return
    # Every send stands in the three queues that a wildcard could ask for; one that is gone is skipped when met.
    queues: dict[tuple[int, int, int], deque[int]] = {}
    for send in sends.tolist():
        target, source, tag = int(goal.peer[send]), int(goal.rank[send]), int(goal.tag[send])
        for key in ((target, source, ANY), (target, ANY, tag), (target, ANY, ANY)):
            queues.setdefault(key, deque()).append(send)
    gone: set[int] = set()
    for recv in recvs.tolist():
        queue = queues.get((int(goal.rank[recv]), int(goal.peer[recv]), int(goal.tag[recv])), deque())
        while queue and queue[0] in gone:
            queue.popleft()
        if queue:
            send_of[recv] = queue.popleft()
            gone.add(int(send_of[recv]))


def _refuse_circle(
    goal: Goal, ops: NDArray[np.int64], asks: NDArray[np.bool_], flow: NDArray[np.int64], dep: NDArray[np.int64]
) -> None:
    circle = find_cycle(*grouped_dependencies(len(ops), flow, dep))
    if len(circle):
        lines = [f"line {goal.line[ops[at]]}" for at in [*circle[:5].tolist(), int(circle[0])]]
        shown = " waits for ".join(lines[:-1]) + (" waits for ..." if len(circle) > 5 else f" waits for {lines[-1]}")
        why = "; messages above the threshold `eager` wait for their receives" if asks[circle].any() else ""
        raise _refusal(goal, int(ops[circle[0]]), f"operations that wait for each other in a circle: {shown}{why}")


def _shown(goal: Goal, op: int) -> str:
    size, peer, tag = goal.size[op], goal.peer[op], goal.tag[op]
    said = f"send {size}b to {peer}" if goal.op[op] == Op.SEND else f"recv {size}b from {peer}"
    return f"rank {goal.rank[op]}: {said} tag {tag}"


def _refusal(goal: Goal, op: int, found: str) -> FormatError:
    return FormatError(f"found {found}", goal.path, int(goal.line[op]))
