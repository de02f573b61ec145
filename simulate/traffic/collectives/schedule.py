"""A collective as an explicit schedule: who sends which blocks to whom, after what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from simulate.traffic.flows import EAGER_BYTES, Flows, grouped_dependencies
from topo.errors import HeddleError
from topo.fabric import Frozen, owned
from topo.graphs import rows_of


@dataclass(frozen=True, eq=False)
class Schedule(Frozen):
    """M messages among ranks 0 to ``n_ranks - 1``, with D dependencies.

    Every rank holds a buffer cut into ``n_blocks`` equal blocks. A message reads ``count`` blocks from ``block`` on
    when it begins and delivers them when it ends. Nothing in a schedule depends on the size of the buffer.
    """

    n_ranks: int
    n_blocks: int
    src: NDArray[np.int32]
    """(M,) sending rank."""
    dst: NDArray[np.int32]
    """(M,) receiving rank."""
    block: NDArray[np.int32]
    """(M,) first block read from the sender."""
    to_block: NDArray[np.int32]
    """(M,) first block written at the receiver."""
    count: NDArray[np.int32]
    """(M,) blocks that the message carries."""
    reduce: NDArray[np.bool_]
    """(M,) True where the receiver adds what comes to what it has, False where it overwrites."""
    step: NDArray[np.int32]
    """(M,) round of the algorithm, from 0: a message waits for messages of earlier rounds only."""
    waiter: NDArray[np.int32]
    """(D,) messages that wait, in order."""
    awaited: NDArray[np.int32]
    """(D,) the message that each waits for."""
    in_round: NDArray[np.bool_]
    """(M,) True where the receiver is ready when it begins the round, False where it always is, with a buffer for what
    comes."""
    queued: NDArray[np.bool_]
    """(M,) True for chunks of a pipeline, which are sent as `Flows.queued` says."""
    in_place: bool = True
    """False where senders read one buffer and receivers write another, as in all-to-all."""

    @classmethod
    def of(
        cls,
        n_ranks: int,
        n_blocks: int,
        src: ArrayLike,
        dst: ArrayLike,
        block: ArrayLike,
        *,
        count: ArrayLike = 1,
        to_block: ArrayLike | None = None,
        reduce: ArrayLike = False,
        step: ArrayLike = 0,
        after: Sequence[tuple[ArrayLike, ArrayLike]] = (),
        in_round: bool = False,
        queued: bool = False,
        in_place: bool = True,
    ) -> Schedule:
        """Make a schedule from arrays that broadcast against each other and are flattened in C order.

        Parameters
        ----------
        after
            ``(waiter, awaited)`` arrays of message numbers, as many pairs of arrays as are handy, in any order.
        """
        to_block = block if to_block is None else to_block
        shape = np.broadcast_shapes(*map(np.shape, (src, dst, block, to_block, count, reduce, step)))

        def flat(values: ArrayLike, kind: DTypeLike = np.int32) -> NDArray[Any]:
            return owned(np.array(np.broadcast_to(np.asarray(values), shape), kind, order="C").reshape(-1))

        waiter, awaited = _joined(after)
        if np.any(waiter[1:] < waiter[:-1]):
            order = np.argsort(waiter, kind="stable")
            waiter, awaited = waiter[order], awaited[order]
        blocks = flat(block)
        return cls(
            n_ranks=n_ranks,
            n_blocks=n_blocks,
            src=flat(src),
            dst=flat(dst),
            block=blocks,
            to_block=blocks if to_block is block else flat(to_block),
            count=flat(count),
            reduce=flat(reduce, np.bool_),
            step=flat(step),
            waiter=owned(waiter),
            awaited=owned(awaited),
            in_round=owned(np.full(len(blocks), in_round)),
            queued=owned(np.full(len(blocks), queued)),
            in_place=in_place,
        )

    @staticmethod
    def checked(made: object, n_ranks: int, by: str) -> Schedule:
        """Return what the algorithm ``by`` has made of ``n_ranks`` ranks.

        HeddleError for what is no schedule of them, or has a message of a rank to itself or of blocks that no buffer
        has.
        """
        if not isinstance(made, Schedule) or made.n_ranks != n_ranks:
            found = f"a schedule of {made.n_ranks} ranks" if isinstance(made, Schedule) else f"{made!r:.60}"
            raise HeddleError(f"{by} returns {found}; expected a simulate.traffic.Schedule of {n_ranks} ranks")
        ends, first = np.stack([made.src, made.dst]), np.stack([made.block, made.to_block])
        last = first + made.count - 1
        astray = (ends < 0).any(axis=0) | (ends >= n_ranks).any(axis=0) | (made.src == made.dst)
        outside = (first < 0).any(axis=0) | (last >= made.n_blocks).any(axis=0) | (made.count < 0)
        for number in np.flatnonzero(astray | outside)[:1].tolist():
            found = f"message {number} of {by}"
            if astray[number]:
                a, b = ends[:, number].tolist()
                raise HeddleError(f"{found} goes from rank {a} to {b}; expected two different ones below {n_ranks}")
            (reads, writes), (end, to_end) = first[:, number].tolist(), last[:, number].tolist()
            raise HeddleError(
                f"{found} reads blocks {reads} to {end} and writes {writes} to {to_end}; expected 0 to "
                f"{made.n_blocks - 1}, which a buffer has"
            )
        return made

    def played(self, buffers: ArrayLike, rng: np.random.Generator) -> NDArray[np.float64]:
        """Return what every rank holds in the end, when messages take any time at all.

        At every turn, of the messages that could begin (all they wait for has ended) and those under way, a random one
        begins or ends. A message carries what its sender held when it began. A schedule is right when no order that its
        dependencies allow changes the outcome.

        Parameters
        ----------
        buffers : (n_ranks, n_blocks)
            What every rank holds at first, one number a block. Out of place, the receive buffers begin with the same
            numbers, so that a block which a rank keeps for itself is already there.

        Returns
        -------
        (n_ranks, n_blocks) float64

        Raises
        ------
        HeddleError
            When messages wait for each other in a circle.
        """
        held = np.array(buffers, np.float64)
        if held.shape != (self.n_ranks, self.n_blocks):
            raise HeddleError(f"buffers have shape {held.shape}; expected {(self.n_ranks, self.n_blocks)}")
        sent = held if self.in_place else held.copy()
        waiters: list[list[int]] = [[] for _ in range(len(self))]
        waits_for = [0] * len(self)
        for waiter, awaited in zip(self.waiter.tolist(), self.awaited.tolist(), strict=True):
            waiters[awaited].append(waiter)
            waits_for[waiter] += 1
        ready = [message for message, count in enumerate(waits_for) if count == 0]
        flying: list[tuple[int, NDArray[np.float64]]] = []
        ended = 0
        while ready or flying:
            turn = int(rng.integers(len(ready) + len(flying)))
            if turn < len(ready):
                ready[turn], ready[-1] = ready[-1], ready[turn]
                message = ready.pop()
                first = int(self.block[message])
                flying.append((message, sent[self.src[message], first : first + int(self.count[message])].copy()))
                continue
            turn -= len(ready)
            flying[turn], flying[-1] = flying[-1], flying[turn]
            message, payload = flying.pop()
            first = int(self.to_block[message])
            place = held[self.dst[message], first : first + int(self.count[message])]
            place[:] = place + payload if self.reduce[message] else payload
            ended += 1
            for waiter in waiters[message]:
                waits_for[waiter] -= 1
                if waits_for[waiter] == 0:
                    ready.append(waiter)
        if ended < len(self):
            raise HeddleError(f"{len(self) - ended} messages wait for each other in a circle")
        return held

    def __len__(self) -> int:
        return len(self.src)

    @property
    def n_steps(self) -> int:
        """Rounds."""
        return int(self.step.max()) + 1 if len(self) else 0

    def flows(self, size_bytes: float, eager_bytes: float = EAGER_BYTES) -> Flows:
        """Return the messages as flows between ranks, for buffers of a size; each flow's tag is its step.

        The blocks are taken as equal, down to fractions of a byte: a real library rounds blocks to elements. A message
        of more than `eager_bytes` that belongs to a round waits until its receiver begins the round.
        """
        sizes = owned(self.count * (size_bytes / self.n_blocks))
        asks = self.in_round & (sizes > eager_bytes)
        after = self.waiter, self.awaited
        if asks.any():
            after = _joined([after, self._receivers_ready(np.flatnonzero(asks))])
        flows = Flows.of(self.src, self.dst, sizes, tag=self.step, rendezvous=asks, after=after)
        return flows.queued(self.queued)

    def _receivers_ready(self, messages: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return ``(waiter, awaited)``: messages, and what the sends of their receivers in the same round wait for."""
        offset, awaited = grouped_dependencies(len(self), self.waiter.astype(np.int64), self.awaited.astype(np.int64))
        rank_round = self.step.astype(np.int64) * self.n_ranks
        at, send = _runs(rank_round + self.src, rank_round[messages] + self.dst[messages])
        count, places = rows_of(offset, send)
        return np.repeat(messages[at], count), awaited[places]

    def on_ranks(self, ranks: ArrayLike, n_ranks: int) -> Schedule:
        """Return the schedule with rank r played by rank ``ranks[r]`` out of `n_ranks`."""
        table = np.asarray(ranks, np.int32)
        return replace(self, n_ranks=n_ranks, src=table[self.src], dst=table[self.dst])

    def on_blocks(self, first: int, n_blocks: int, width: int = 1) -> Schedule:
        """Return the schedule on a part of a larger buffer.

        Each block becomes `width` blocks, and block 0 becomes block `first` of a buffer of `n_blocks`.
        """
        return replace(
            self,
            n_blocks=n_blocks,
            block=owned(self.block * np.int32(width) + np.int32(first)),
            to_block=owned(self.to_block * np.int32(width) + np.int32(first)),
            count=owned(self.count * np.int32(width)),
        )

    def in_chunks(self, chunks: int, *, runs: int) -> Schedule:
        """Return a schedule of messages of one block each with its blocks cut into chunks that follow each other.

        A message becomes one for each chunk: after the one with the chunk before, and after those that it waited for,
        with its own chunk. The messages are so many runs of one length; those of a run are numbered chunk by chunk.
        """
        n = len(self) // runs
        chunk = np.arange(chunks, dtype=np.int32)[:, None]

        def spread(column: NDArray[Any]) -> NDArray[Any]:
            return np.broadcast_to(column.reshape(runs, 1, n), (runs, chunks, n))

        message = np.arange(len(self), dtype=np.int32)
        number = message + message // max(n, 1) * (n * (chunks - 1)) + chunk * n
        return Schedule.of(
            self.n_ranks,
            self.n_blocks * chunks,
            spread(self.src),
            spread(self.dst),
            spread(self.block) * np.int32(chunks) + chunk,
            reduce=spread(self.reduce),
            step=spread(self.step) + chunk,
            after=[(number[1:], number[:-1]), (number[:, self.waiter], number[:, self.awaited])],
            queued=chunks > 1,
        )


def concurrent(parts: Sequence[Schedule]) -> Schedule:
    """Return schedules of the same ranks and blocks that run side by side, none waiting for another."""
    start = np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int32)
    columns: dict[str, Any] = {
        item.name: owned(np.concatenate([getattr(part, item.name) for part in parts]))
        for item in fields(Schedule)
        if isinstance(getattr(parts[0], item.name), np.ndarray)
    }
    for name in ("waiter", "awaited"):
        columns[name] = owned(
            np.concatenate([getattr(part, name) + at for part, at in zip(parts, start, strict=False)])
        )
    return replace(parts[0], **columns)


def sequence(first: Schedule, second: Schedule) -> Schedule:
    """Return two schedules of the same ranks and blocks, one after another at each rank.

    A message of the second that waited for nothing waits until its sender and its receiver are done with the first.
    """
    both = concurrent([first, replace(second, step=second.step + np.int32(first.n_steps))])
    opening = np.flatnonzero(np.bincount(second.waiter, minlength=len(second)) == 0)
    message, rank = last_of_each_rank(first)
    # Join the openers with the last messages of their two ranks.
    pairs = []
    for end in (second.src, second.dst):
        at, last = _runs(rank, end[opening])
        pairs.append((opening[at] + len(first), message[last]))
    waiter, awaited = _joined([(both.waiter, both.awaited), *pairs])
    once = np.unique(np.stack([waiter, awaited]), axis=1)
    return replace(both, waiter=once[0], awaited=once[1])


def last_of_each_rank(schedule: Schedule) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return ``(message, rank)`` pairs: the rank takes part in the message, and in none that waits for it."""
    pairs = []
    for end in (schedule.src, schedule.dst):
        rank = end[schedule.awaited]
        followed = np.zeros(len(schedule), bool)
        followed[
            schedule.awaited[(schedule.src[schedule.waiter] == rank) | (schedule.dst[schedule.waiter] == rank)]
        ] = True
        pairs.append((np.flatnonzero(~followed), end[~followed]))
    return np.concatenate([pair[0] for pair in pairs]), np.concatenate([pair[1] for pair in pairs])


def _runs(keys: NDArray[Any], sought: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return ``(i, j)`` for all pairs with ``sought[i] == keys[j]``, in the order of i, then of j."""
    order = np.argsort(keys, kind="stable")
    low, high = (np.searchsorted(keys[order], sought, side) for side in ("left", "right"))
    runs = high - low
    inside = np.arange(runs.sum()) - np.repeat(np.cumsum(runs) - runs, runs)
    return np.repeat(np.arange(len(sought)), runs), order[np.repeat(low, runs) + inside]


def _joined(pairs: Sequence[tuple[ArrayLike, ArrayLike]]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Join pairs of arrays, each flattened."""
    flat: list[tuple[NDArray[Any], ...]] = [
        tuple(array.ravel() for array in np.broadcast_arrays(*(np.asarray(side, np.int32) for side in pair)))
        for pair in pairs
    ]
    if not flat:
        return np.zeros(0, np.int32), np.zeros(0, np.int32)
    return np.concatenate([pair[0] for pair in flat]), np.concatenate([pair[1] for pair in flat])
