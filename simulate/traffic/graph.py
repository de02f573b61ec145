"""Flows put together: side by side, one after another, or as a graph of operations that wait for each other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields

import numpy as np
from numpy.typing import NDArray

from simulate.traffic.flows import Flows


class Graph:
    """Sets of flows and computations, each of which begins when others have ended.

    `add` and `compute` return the number of the operation, which later ones name in `after`. Where many flows wait for
    many, a flow of size 0 from an end port to itself stands between them, which takes no time; so n flows after m flows
    cost n + m dependencies, not n times m. A flow's tag is the number of its operation.

    Examples
    --------
    Two ranks compute for 40 ms; then they exchange 25 MB at 200 Gb/s, one after another.

    >>> import topo, routing, simulate
    >>> routed = routing.route(topo.preset("lab-20").fabric)
    >>> a, b = routed.fabric.ends(role="compute")[:2]
    >>> graph = simulate.Graph()
    >>> computed = [graph.compute(rank, 0.04) for rank in (a, b)]
    >>> sent = graph.add(simulate.Flows.of(a, b, 25e6), after=computed)
    >>> answered = graph.add(simulate.Flows.of(b, a, 25e6), after=[sent])
    >>> round(simulate.play(routed, graph.flows()).makespan_s, 6)
    0.042006
    """

    def __init__(self) -> None:
        self._parts: list[Flows] = []
        self._n_flows = 0
        self._waits: list[NDArray[np.int64]] = []
        """(2, W) flows that wait, and those that they wait for."""
        self._end: list[int] = []
        """The flow that ends each operation."""

    def __len__(self) -> int:
        return len(self._end)

    def add(self, flows: Flows, after: Iterable[int] = ()) -> int:
        """Add an operation: flows that begin when the operations `after` have ended; return its number.

        Dependencies among the flows themselves stay. An operation without flows ends when those that it waits for have.

        Parameters
        ----------
        flows
            Between ranks or end ports, as those of all operations of the graph.
        after
            Numbers of operations that this graph has already.
        """
        ends = np.unique([self._end[number] for number in after])
        if not len(flows):
            flows = Flows.of(0, 0, 0.0)
        first = np.flatnonzero(np.diff(flows.dep_offset) == 0)
        if len(ends) > 1 < len(first):
            ends = np.array([self._signal(int(flows.src[0]), ends)])
        at = self._append(flows)
        self._wait(first + at, ends)
        last = np.setdiff1d(np.arange(len(flows)), flows.dep) + at
        self._end.append(int(last[0]) if len(last) == 1 else self._signal(int(flows.src[0]), last))
        return len(self._end) - 1

    def compute(self, rank: int, time_s: float, after: Iterable[int] = ()) -> int:
        """Add a computation of so many seconds on one rank; return its number."""
        return self.add(Flows.of(rank, rank, 0.0, delay_s=time_s), after)

    def flows(self) -> Flows:
        """Return the flows of all operations, in the order in which they were added."""
        waits = np.concatenate([np.zeros((2, 0), np.int64), *self._waits], axis=1)
        return concatenate(self._parts).waiting(*waits)

    def _signal(self, rank: int, awaited: NDArray[np.int64]) -> int:
        number = self._append(Flows.of(rank, rank, 0.0))
        self._wait(np.array([number]), awaited)
        return number

    def _append(self, flows: Flows) -> int:
        """Return the number of the first of these flows."""
        self._parts.append(flows.tagged(len(self._end)))
        self._n_flows += len(flows)
        return self._n_flows - len(flows)

    def _wait(self, waiter: NDArray[np.int64], awaited: NDArray[np.int64]) -> None:
        self._waits.append(np.stack([side.ravel() for side in np.broadcast_arrays(waiter[:, None], awaited)]))


def concatenate(parts: Sequence[Flows]) -> Flows:
    """Join sets of flows that run side by side; dependencies keep pointing into their own set.

    Examples
    --------
    >>> import simulate
    >>> flow = simulate.Flows.of(4, 5, 1e6)
    >>> simulate.traffic.concatenate([flow, flow]).size_bytes.tolist()
    [1000000.0, 1000000.0]
    """
    if not parts:
        return Flows.of([], [], [])
    shift = np.concatenate([[0], np.cumsum([len(part) for part in parts])])
    edges = np.concatenate([[0], np.cumsum([len(part.dep) for part in parts])])
    columns = {
        item.name: np.concatenate([getattr(part, item.name) for part in parts])
        for item in fields(Flows)
        if item.name not in ("dep", "dep_offset", "connection")
    }
    behind = np.concatenate([[0], np.cumsum([part.connection.max(initial=-1) + 1 for part in parts])])
    connection = [part.connection + at * (part.connection >= 0) for part, at in zip(parts, behind, strict=False)]
    columns["connection"] = np.concatenate(connection).astype(np.int32)
    dep = [part.dep + np.int32(at) for part, at in zip(parts, shift, strict=False)]
    offset = [np.zeros(1, np.int64), *(part.dep_offset[1:] + at for part, at in zip(parts, edges, strict=False))]
    return Flows(**columns, dep=np.concatenate(dep), dep_offset=np.concatenate(offset))


def chain(parts: Sequence[Flows]) -> Flows:
    """Join sets of flows that run one after another: each set begins when the set before it has finished.

    Between two sets stands one flow of size 0, from an end port to itself, that waits for every flow that no other
    waits for; so n flows before m flows cost n + m dependencies, not n times m. It carries the tag of the set before.

    Examples
    --------
    >>> import simulate
    >>> flow = simulate.Flows.of(4, 5, 1e6)
    >>> simulate.traffic.chain([flow, flow]).size_bytes.tolist()
    [1000000.0, 0.0, 1000000.0]
    """
    pieces: list[Flows] = []
    flow_of: list[NDArray[np.int64]] = []
    dep_of: list[NDArray[np.int64]] = []
    at = 0
    for number, part in enumerate(part for part in parts if len(part)):
        if number:
            before = pieces[-1]
            last = np.setdiff1d(np.arange(len(before)), before.dep) + at - len(before)
            pieces.append(Flows.of(before.src[0], before.src[0], 0.0, tag=before.tag[-1]))
            first = np.flatnonzero(np.diff(part.dep_offset) == 0) + at + 1
            flow_of += [np.full(len(last), at), first]
            dep_of += [last, np.full(len(first), at)]
            at += 1
        pieces.append(part)
        at += len(part)
    none = np.zeros(0, np.int64)
    return concatenate(pieces).waiting(np.concatenate([none, *flow_of]), np.concatenate([none, *dep_of]))


def repeated(flows: Flows, times: int) -> Flows:
    """Return a set of flows that runs `times` times, once or more, one after another: as `chain` joins them."""
    parts: list[Flows] = []
    doubled = flows
    while True:
        if times & 1:
            parts.append(doubled)
        times >>= 1
        if not times:
            return chain(parts) if len(parts) > 1 else parts[0]
        doubled = chain([doubled, doubled])
