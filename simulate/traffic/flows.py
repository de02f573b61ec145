"""Flows: who sends how much to whom, and after what. What traffic generators make and networks play."""

from __future__ import annotations

import sys
from copy import copy
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from routing.lanes.policy import ASK
from routing.machine_code import kernel
from simulate.traffic.walks import number_keys
from topo.errors import HeddleError, plural
from topo.fabric import frozen, owned
from topo.graphs import rows_of
from topo.spec.units import BYTES, parse_quantity
from topo.table import Brief

Order = Literal["peer", "adapter", "none"]
"""What moves one after another: messages to one peer, all that an adapter sends, or nothing."""

EAGER_BYTES = 65_536
"""Messages up to this size are sent at once, larger ones when their receiver is ready, unless asked otherwise: what
SimGrid's SMPI has (``smpi/send-is-detached-thresh``), and one byte more than LogGOPSim (``-S``). UCX chooses by
transport, and NCCL waits for every receiver."""

_NOT_NEGATIVE = (0, sys.float_info.max, "a number that is not negative")
_END = (0, np.inf, "an end port or rank from 0")
_WITHIN = {
    **dict.fromkeys(("size_bytes", "start_s", "delay_s"), _NOT_NEGATIVE),
    **dict.fromkeys(("src", "dst"), _END),
    "sl": (ASK, 15, "a service level from 0 to 15"),
    "connection": (-1, np.inf, "-1, or a number below that of flows"),
}
"""Least and most that a column may hold, and what is said where it does not; connections are numbered below flows."""


@dataclass(frozen=True, eq=False)
class Flows(Brief):
    """F flows with D dependencies. Flow f begins at ``max(start_s[f], finish of all its dependencies) + delay_s[f]``.

    The flows of a *connection* move one after another, in the order in which their latencies have passed; those of one
    instant in the order of their numbers.

    A flow from an end port to itself crosses no channel and ends when it begins: with a delay it stands for compute.

    Examples
    --------
    >>> import simulate
    >>> two = simulate.Flows.of([4, 5], [6, 7], 1e6, after=(1, 0))  # the second begins when the first has ended
    >>> len(two), two.dep.tolist()
    (2, [0])
    """

    src: NDArray[np.int32]
    """(F,) sending end port, or rank before `placed`."""
    dst: NDArray[np.int32]
    """(F,) receiving end port, or rank before `placed`."""
    size_bytes: NDArray[np.float64]
    """(F,) bytes to move; 0 is a bare signal that takes only latency."""
    start_s: NDArray[np.float64]
    """(F,) earliest time."""
    delay_s: NDArray[np.float64]
    """(F,) wait after `start_s` and the dependencies: compute, software overhead."""
    sl: NDArray[np.int8]
    """(F,) service level, 0 to 15; `ASK` for the one that the subnet manager answers with."""
    dep_offset: NDArray[np.int64]
    """(F + 1,) the dependencies of flow f are ``dep[dep_offset[f]:dep_offset[f + 1]]``."""
    dep: NDArray[np.int32]
    """(D,) flows that must have finished."""
    tag: NDArray[np.int32]
    """(F,) step, phase or job, for reports."""
    connection: NDArray[np.int32]
    """(F,) number of the connection that the flow moves on, -1 for one of its own."""
    rendezvous: NDArray[np.bool_]
    """(F,) whether the sender asks the receiver first and waits for its answer: two more latencies of the route, which
    pass before the flow begins."""

    def __post_init__(self) -> None:
        for item in fields(self):
            object.__setattr__(self, item.name, frozen(getattr(self, item.name)))
        n = len(self.src)
        for item in fields(self):
            expected = {"dep_offset": n + 1, "dep": int(self.dep_offset[-1])}.get(item.name, n)
            if getattr(self, item.name).shape != (expected,):
                raise ValueError(f"{item.name} has shape {getattr(self, item.name).shape}; expected ({expected},)")
        self._check(*(item.name for item in fields(self)))

    def _check(self, *names: str) -> None:
        """Refuse what cannot be in columns."""
        for name in names:
            value = getattr(self, name)
            low, high, expected = _WITHIN.get(name, (-np.inf, np.inf, ""))
            high = len(self) - 1 if name == "connection" else high
            if expected and len(value) and not (low <= value.min() and value.max() <= high):
                self._refuse(~((low <= value) & (value <= high)), name, expected)
        if "dep" in names:
            self._refuse_bad_dependencies()

    @classmethod
    def of(
        cls,
        src: ArrayLike,
        dst: ArrayLike,
        size_bytes: ArrayLike,
        *,
        start_s: ArrayLike = 0.0,
        delay_s: ArrayLike = 0.0,
        sl: ArrayLike = 0,
        tag: ArrayLike = 0,
        connection: ArrayLike = -1,
        rendezvous: ArrayLike = False,
        after: tuple[ArrayLike, ArrayLike] | None = None,
    ) -> Flows:
        """Make flows from arrays or scalars that broadcast against each other.

        Parameters
        ----------
        after
            ``(flow, dep)``, two arrays of equal length: flow ``flow[i]`` begins after flow ``dep[i]`` has finished.
            Any order; None when no flow waits.

        Raises
        ------
        HeddleError
            When a size or time is negative, a dependency names no flow, or flows wait for each other in a circle.
        """
        size_bytes = bytes_of(size_bytes) if isinstance(size_bytes, str) else size_bytes
        columns = {"src": src, "dst": dst, "size_bytes": size_bytes, "start_s": start_s, "delay_s": delay_s}
        try:
            (n,) = np.broadcast_shapes((1,), *map(np.shape, columns.values()))
        except ValueError:
            shapes = ", ".join(f"{name} {np.shape(values)}" for name, values in columns.items())
            raise HeddleError(f"found {shapes}; expected one value, or as many in each") from None
        dep_offset, dep = _dependencies(n, after)
        level = np.asarray(sl)
        if n and (level.min() < ASK or level.max() > 15):
            raise HeddleError(f"service level {level.min() if level.min() < ASK else level.max()}; expected 0 to 15")
        return cls(
            src=_column("src", src, n, np.int32),
            dst=_column("dst", dst, n, np.int32),
            size_bytes=_column("size_bytes", size_bytes, n, np.float64),
            start_s=_column("start_s", start_s, n, np.float64),
            delay_s=_column("delay_s", delay_s, n, np.float64),
            sl=_column("sl", level, n, np.int8),
            dep_offset=dep_offset,
            dep=dep,
            tag=_column("tag", tag, n, np.int32),
            connection=_column("connection", connection, n, np.int32),
            rendezvous=_column("rendezvous", rendezvous, n, np.bool_),
        )

    def _brief(self) -> str:
        return f"{plural(len(self), 'flow')}, {self.size_bytes.sum():.4g} bytes"

    def __len__(self) -> int:
        return len(self.src)

    @property
    def waiter(self) -> NDArray[np.int64]:
        """(D,) the flow that waits for each one of `dep`."""
        return np.repeat(np.arange(len(self)), np.diff(self.dep_offset))

    def placed(self, end_port: ArrayLike) -> Flows:
        """Return the flows with ranks replaced by end ports: rank r, which must be placed, runs on ``end_port[r]``."""
        table = np.asarray(end_port, np.int32)
        for name in ("src", "dst"):
            self._refuse(getattr(self, name) >= len(table), name, f"a rank below {len(table)}, the ranks placed")
        return self._replaced(src=table[self.src], dst=table[self.dst])

    def part(self, first: int, last: int) -> Flows:
        """Return flows `first` to ``last - 1``, which may wait only for each other, numbered from 0."""
        begin, end = int(self.dep_offset[first]), int(self.dep_offset[last])
        own = {item.name: getattr(self, item.name)[first:last] for item in fields(self)}
        own["dep_offset"] = self.dep_offset[first : last + 1] - begin
        own["dep"] = self.dep[begin:end] - np.int32(first)
        own["connection"] = _numbered(own["connection"].astype(np.int64))
        return Flows(**own)

    def delayed(self, time_s: float) -> Flows:
        """Return the flows with every earliest time `time_s` later."""
        return self._replaced(start_s=self.start_s + time_s)

    def on_level(self, sl: int) -> Flows:
        """Return the flows on one service level."""
        return self._replaced(sl=np.full(len(self), sl, np.int8))

    def in_order(self, order: Order) -> Flows:
        """Return the flows with the connections that an order asks for; a flow to its own end port has none.

        ``"peer"``: a connection for each pair of end ports, as a queue pair, a peer in MPI and a channel of NCCL
        deliver in order. ``"adapter"``: one for all that an end port sends, as LogGP has it. ``"none"``: those that go
        on together share the port, but for chunks that are queued.
        """
        if order == "none" or not len(self):
            return self
        src = self.src.astype(np.int64)
        key = src if order == "adapter" else src * (int(self.dst.max()) + 1) + self.dst
        return self._replaced(connection=_numbered(np.where(self.src == self.dst, -1, key)))

    def split(self, parts: NDArray[np.integer]) -> tuple[Flows, NDArray[np.int64]]:
        """Return the flows in equal parts side by side, (F,) 1 or more of each, and the turn of each part, from 0.

        Who waits for a flow waits for all of its parts; parts of one turn share a connection, as the flows did.

        Examples
        --------
        >>> import numpy as np, simulate
        >>> two = simulate.Flows.of([4, 5], [6, 7], 1e6, after=(1, 0))
        >>> found, turn = two.split(np.array([2, 1]))
        >>> found.size_bytes.tolist(), found.dep.tolist(), turn.tolist()
        ([500000.0, 500000.0, 1000000.0], [0, 1], [0, 1, 0])
        """
        first = np.append(0, np.cumsum(parts))
        of = np.repeat(np.arange(len(self)), parts)
        turn: NDArray[np.int64] = np.arange(len(of)) - first[of]
        if len(of) == len(self):
            return self, turn
        count, edge = rows_of(self.dep_offset, of)
        waiter = np.repeat(np.arange(len(of)), count)
        count, awaited = rows_of(first, self.dep[edge])
        offset, dep = grouped_dependencies(len(of), np.repeat(waiter, count), awaited)
        columns = {item.name: getattr(self, item.name)[of] for item in fields(self) if not item.name.startswith("dep")}
        columns["size_bytes"] = columns["size_bytes"] / parts[of]
        keys = columns["connection"] * parts.max(initial=1) + turn
        columns["connection"] = _numbered(np.where(columns["connection"] < 0, -1, keys))
        return Flows(**columns, dep_offset=offset, dep=dep), turn

    def queued(self, which: ArrayLike = True) -> Flows:
        """Return the flows with connections in place of waits for the flow before, where that has the same ends.

        A flow that waits for the end of the one before it begins to wait for its latency only then. Chunks that are
        posted one behind another let their latencies pass while those before them move, so that a pipeline, of which
        (F,) `which` are chunks, takes the latency of each step once, and not once a chunk.

        Examples
        --------
        >>> import simulate
        >>> chunks = simulate.Flows.of([4, 4, 4], [5, 5, 5], 1e6, after=([1, 2], [0, 1])).queued()
        >>> chunks.connection.tolist(), chunks.dep.tolist()
        ([0, 0, 0], [])
        """
        waiter, before = self.waiter, self.dep
        same = np.broadcast_to(which, (len(self),))[waiter] & (self.src[waiter] == self.src[before])
        same &= (self.dst[waiter] == self.dst[before]) & (self.src[waiter] != self.dst[waiter])
        same &= np.bincount(waiter[same], minlength=len(self))[waiter] == 1
        if not same.any():
            return self
        first = np.arange(len(self))
        first[waiter[same]] = before[same]
        while np.any(first[first] != first):
            first = first[first]
        chained = np.bincount(first, minlength=len(self))[first] > 1
        offset, dep = grouped_dependencies(len(self), waiter[~same], before[~same])
        return self._replaced(dep_offset=offset, dep=dep, connection=_numbered(np.where(chained, first, -1)))

    def waiting(self, waiter: ArrayLike, awaited: ArrayLike) -> Flows:
        """Return the flows with more dependencies: flow ``waiter[i]`` waits for flow ``awaited[i]`` too."""
        after = np.concatenate([self.waiter, waiter]), np.concatenate([self.dep, awaited])
        offset, dep = _dependencies(len(self), after)
        return self._replaced(dep_offset=offset, dep=dep)

    def tagged(self, tag: int) -> Flows:
        """Return the flows with one tag."""
        return self._replaced(tag=np.full(len(self), tag, np.int32))

    def waiting_first(self, time_s: float) -> Flows:
        """Return the flows with `time_s` more of delay before each one that waits for no other."""
        if not time_s:
            return self
        opening = np.diff(self.dep_offset) == 0
        return self._replaced(delay_s=self.delay_s + np.where(opening, time_s, 0.0))

    def _replaced(self, **columns: NDArray[Any]) -> Flows:
        """Return the flows with other columns, made for them; what stays has been checked."""
        result = copy(self)
        for name, column in columns.items():
            object.__setattr__(result, name, owned(column))
        result._check(*columns)
        return result

    def _refuse(self, bad: NDArray[np.bool_], name: str, expected: str) -> None:
        if bad.any():
            flow = int(np.argmax(bad))
            raise HeddleError(f"flow {flow} has {name} {getattr(self, name)[flow]}; expected {expected}")

    def _refuse_bad_dependencies(self) -> None:
        if self.dep_offset[0] != 0 or np.any(np.diff(self.dep_offset) < 0):
            raise ValueError("dep_offset must start at 0 and never fall")
        if len(self.dep) == 0:
            return
        if not 0 <= self.dep.min() <= self.dep.max() < len(self):
            raise ValueError(f"dep must name flows from 0 to {len(self) - 1}")
        circle = find_cycle(self.dep_offset, self.dep).tolist()
        if len(circle) == 1:
            raise HeddleError(f"flow {circle[0]} waits for itself; it must begin without its own end")
        if circle:
            shown = " after ".join(map(str, [*circle, circle[0]][:6])) + (" after ..." if len(circle) > 5 else "")
            raise HeddleError(
                f"{len(circle)} flows wait for each other in a circle: {shown}; one of them must begin without the next"
            )


def _column(name: str, values: ArrayLike, n: int, kind: DTypeLike) -> NDArray[Any]:
    """Return n values of one type, read-only: themselves where they are that, as the columns of a schedule."""
    array = _numbers(name, values, kind) if np.dtype(kind).kind == "i" else np.asarray(values)
    if array.shape == (n,) and array.dtype == kind and array.flags.c_contiguous and not array.flags.writeable:
        return array
    return owned(np.broadcast_to(array, (n,)).astype(kind))


def bytes_of(size: str) -> float:
    """Return the bytes of a text such as ``186 MiB``; HeddleError when it is none."""
    try:
        return parse_quantity(size, BYTES)
    except ValueError as error:
        raise HeddleError(f"found the size {size!r:.60}; expected {error}") from None


def _dependencies(n: int, after: tuple[ArrayLike, ArrayLike] | None) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return ``dep_offset`` and ``dep`` of n flows that wait as `Flows.of` has it."""
    flow, dep = (np.zeros(0, np.int64),) * 2 if after is None else (_numbers("after", ids).ravel() for ids in after)
    for name, ids in (("after", flow), ("dep", dep)):
        if len(ids) and not (ids.min() >= 0 and ids.max() < n):
            bad = np.flatnonzero((ids < 0) | (ids >= n))
            raise HeddleError(f"dependency {bad[0]} ({name}) names flow {ids[bad[0]]}; there are flows 0 to {n - 1}")
    return grouped_dependencies(n, flow, dep)


def _numbers(name: str, values: ArrayLike, kind: DTypeLike = np.int64) -> NDArray[np.integer]:
    """Return whole numbers that a type can hold, without a copy where they are integers; HeddleError for others."""
    array = np.asarray(values)
    kind_of = array.dtype.kind
    if array.size and kind_of not in "iu" and not (kind_of == "f" and np.array_equal(array, np.trunc(array))):
        raise HeddleError(f"found {name} {values!r:.60}; expected whole numbers")
    if array.size and (array.max() > (most := np.iinfo(kind).max) or array.min() < -most):
        raise HeddleError(f"found {name} {array.min()} to {array.max()}; expected numbers up to {most:,}")
    return array if array.dtype.kind == "i" else array.astype(np.int64)


def _numbered(keys: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return a number from 0 for each key that is not negative, -1 for the others."""
    result = np.full(len(keys), -1, np.int32)
    kept = keys >= 0
    result[kept] = number_keys(keys[kept])[0]
    return result


def grouped_dependencies(
    n: int, flow: NDArray[np.integer], dep: NDArray[np.integer]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return ``dep_offset`` and ``dep`` of n flows, where flow ``flow[i]`` waits for flow ``dep[i]``, in any order."""
    if len(flow) and np.any(flow[1:] < flow[:-1]):
        order = np.argsort(flow, kind="stable")
        flow, dep = flow[order], dep[order]
    offset = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(flow, minlength=n), out=offset[1:])
    return owned(offset), _column("dep", dep, len(dep), np.int32)


@kernel
def find_cycle(dep_offset: NDArray[np.int64], dep: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the flows of one circle of dependencies, each followed by one that it waits for; empty when none is.

    Depth-first search with an explicit stack; flows in an order in which nobody waits for a later one, as generators
    write them, are seen to have no circle without it.
    """
    n = len(dep_offset) - 1
    sorted_already = True
    for flow in range(n):
        for edge in range(dep_offset[flow], dep_offset[flow + 1]):
            if dep[edge] >= flow:
                sorted_already = False
    if sorted_already:
        return np.empty(0, np.int32)
    depth = np.zeros(n, np.int32)  # 0 not seen, above 0 place on the stack, -1 done
    stack = np.empty(n, np.int32)
    edge_at = np.empty(n, np.int64)
    for root in range(n):
        if depth[root] != 0:
            continue
        stack[0] = root
        depth[root] = 1
        edge_at[0] = dep_offset[root]
        top = 0
        while top >= 0:
            flow = stack[top]
            if edge_at[top] == dep_offset[flow + 1]:
                depth[flow] = -1
                top -= 1
                continue
            other = dep[edge_at[top]]
            edge_at[top] += 1
            if depth[other] > 0:
                return stack[depth[other] - 1 : top + 1].copy()
            if depth[other] == 0:
                top += 1
                stack[top] = other
                depth[other] = top + 1
                edge_at[top] = dep_offset[other]
    return np.empty(0, np.int32)
