"""GOAL schedules in the binary form that LogGOPSim's ``txt2bin`` writes, and the simulators of ATLAHS read.

All numbers are little-endian and packed (``Parser.hpp``): the number 4223 in 8 bytes; ranks in 4, the last core and the
last adapter in 1 each; begin and end of each rank's part in 8 each, counted from byte 8. A part has the numbers of its
operations and of those that wait for none in 4 bytes each, the latter's numbers, the operations, and a list of
numbers, of which each operation has two ranges: who waits for its end, and who for its begin.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simulate.traffic.goal.schedule import ANY, MAX_SIZE, Goal, Op
from topo.budget import GOAL_OPERATIONS, GOAL_RANKS
from topo.errors import FormatError

GOAL_MAGIC = (4223).to_bytes(8, "little")
"""What a file begins with."""

HEAD = 14
"""Bytes before the table of parts."""

OPERATION = np.dtype(
    [
        *(("waits", "<u4"), ("type", "u1"), ("peer", "<u4"), ("size", "<u8"), ("tag", "<u4"), ("cpu", "u1")),
        *(("nic", "u1"), ("n_after_end", "<u4"), ("after_end", "<u4"), ("n_after_begin", "<u4")),
        ("after_begin", "<u4"),
    ]
)
OPS = np.array([255, Op.SEND, Op.RECV, Op.CALC], np.uint8)
"""Our number of each type of operation."""
NOBODY = 2**32 - 1
"""Peer or tag of a receive that takes what comes."""


def parse_goal_binary(data: bytes, path: str = "goal.bin") -> Goal:
    """Parse a schedule.

    Raises
    ------
    FormatError
        With the rank, where parts overlap the end of the file or name what is not there.
    """
    if not data.startswith(GOAL_MAGIC) or len(data) < HEAD:
        raise FormatError("found no binary schedule; expected the number 4223 and what follows it", path)
    n_ranks = int.from_bytes(data[8:12], "little")
    if not 1 <= n_ranks <= GOAL_RANKS.limit:
        raise FormatError(f"found {n_ranks:,} ranks; expected 1 to {GOAL_RANKS.limit:,}", path)
    if len(data) < HEAD + 16 * n_ranks:
        raise FormatError(f"found {len(data):,} bytes for {n_ranks:,} ranks; is the file whole?", path)
    begins, ends = np.frombuffer(data, "<u8", 2 * n_ranks, HEAD).reshape(-1, 2).T
    parts: list[NDArray[np.void]] = []
    pairs: dict[str, list[NDArray[np.int64]]] = {"end": [], "begin": []}
    count = 0
    for rank, (begin, end) in enumerate(zip(begins.tolist(), ends.tolist(), strict=True)):
        if not HEAD + 16 * n_ranks - 8 <= begin <= end - 8 <= len(data) - 16:
            raise FormatError(f"found rank {rank} at bytes {begin + 8:,} to {end + 8:,}; is the file whole?", path)
        operations, after = _part(data[begin + 8 : end + 8], rank, n_ranks, path)
        for name, waiting in after.items():
            pairs[name].append(waiting + count)
        parts.append(operations)
        if (count := count + len(operations)) > GOAL_OPERATIONS.limit:
            raise GOAL_OPERATIONS.exceeded(path)
    table = np.concatenate(parts)
    op = OPS[table["type"]]
    anything = (op == Op.RECV)[:, None] & np.stack([table["peer"] == NOBODY, table["tag"] == NOBODY], axis=1)
    peer = np.where(anything[:, 0] | (op == Op.CALC), ANY, table["peer"].astype(np.int64))
    ranks = np.repeat(np.arange(n_ranks), [len(part) for part in parts])
    tag = np.where(anything[:, 1], ANY, table["tag"].astype(np.int64))
    requires, irequires = (np.concatenate(pairs[name]) for name in ("end", "begin"))
    columns = op, ranks, table["size"], peer, tag, table["cpu"], table["nic"]
    return Goal.of(n_ranks, *columns, requires=requires, irequires=irequires, path=path)


def _part(data: bytes, rank: int, n_ranks: int, path: str) -> tuple[NDArray[np.void], dict[str, NDArray[np.int64]]]:
    """Return the operations of a rank, and the pairs of one that waits and one that it waits for, by for what."""

    def refuse(found: str, expected: str) -> FormatError:
        return FormatError(f"found {found} in rank {rank}; expected {expected}", path)

    n, free = np.frombuffer(data, "<u4", 2).tolist()
    first = 8 + 4 * free
    if first + n * OPERATION.itemsize > len(data):
        raise refuse(f"{n:,} operations in {len(data):,} bytes", "as many as there is room for")
    operations = np.frombuffer(data, OPERATION, n, first)
    rest = data[first + n * OPERATION.itemsize :]
    listed = np.frombuffer(rest, "<u4", len(rest) // 4).astype(np.int64)
    kind, peer = operations["type"], operations["peer"]
    if ((kind < 1) | (kind > 3)).any():
        raise refuse(f"an operation of type {kind[(kind < 1) | (kind > 3)][0]}", "1, 2 or 3: send, receive, calculate")
    if (lost := (peer >= n_ranks) & (kind < 3) & ~((kind == 2) & (peer == NOBODY))).any():
        raise refuse(f"a message with rank {peer[lost][0]:,}", f"0 to {n_ranks - 1:,}")
    if (operations["size"] > MAX_SIZE).any():
        raise refuse(f"size {operations['size'].max():,}", f"at most {MAX_SIZE:,}")
    if (listed >= n).any():
        raise refuse(f"operation {listed.max():,} among those that wait", f"0 to {n - 1:,}")
    after = {}
    for name in ("end", "begin"):
        length = operations[f"n_after_{name}"].astype(np.int64)
        start = np.where(length > 0, operations[f"after_{name}"], 0).astype(np.int64)
        if (start + length > len(listed)).any() or length.sum() > len(listed):
            raise refuse(f"{int(length.sum()):,} operations that wait", f"the {len(listed):,} that are listed")
        awaited = np.repeat(np.arange(n), length)
        place = np.arange(length.sum()) + np.repeat(start - (np.cumsum(length) - length), length)
        pair = np.stack([listed[place], awaited], axis=1)
        after[name] = pair[np.lexsort((pair[:, 1], pair[:, 0]))]
    return operations, after
