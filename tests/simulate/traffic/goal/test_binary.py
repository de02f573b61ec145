"""Binary schedules against the text, written here as LogGOPSim's ``Parser.hpp`` lays them out."""

import struct
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.goals import goals, same
from helpers.strategies import examples
from simulate.traffic.goal.binary import parse_goal_binary
from simulate.traffic.goal.schedule import Goal, Op, flows_of_goal
from simulate.traffic.goal.text import read_goal
from topo.errors import FormatError


def packed(goal: Goal) -> bytes:
    """The file that ``txt2bin`` writes."""
    first = np.searchsorted(goal.rank, np.arange(goal.n_ranks + 1)).tolist()
    parts = []
    for rank in range(goal.n_ranks):
        mine = range(first[rank], first[rank + 1])
        waits = dict.fromkeys(mine, 0)
        rows, listed = [], []
        after = {word: {n: [] for n in mine} for word in ("requires", "irequires")}
        for word, of in after.items():
            for waiter, awaited in getattr(goal, word).tolist():
                if waiter in waits:
                    of[awaited].append(waiter - first[rank])
                    waits[waiter] += 1
        for n in mine:
            ranges = []
            for of in after.values():
                ranges += [len(of[n]), len(listed)]
                listed += of[n]
            kind = {Op.SEND: 1, Op.RECV: 2, Op.CALC: 3}[goal.op[n]]
            peer = 0 if goal.op[n] == Op.CALC else int(goal.peer[n]) % 2**32
            core = int(goal.cpu[n]), int(goal.nic[n])
            tag = int(goal.tag[n]) % 2**32
            rows.append(struct.pack("<IBIQIBB4I", waits[n], kind, peer, goal.size[n], tag, *core, *ranges))
        free = [n - first[rank] for n in mine if not waits[n]]
        head = struct.pack(f"<{2 + len(free)}I", len(rows), len(free), *free)
        parts.append(head + b"".join(rows) + struct.pack(f"<{len(listed)}I", *listed))
    at = [6 + 16 * goal.n_ranks]
    for part in parts:
        at.append(at[-1] + len(part))
    table = b"".join(struct.pack("<QQ", *pair) for pair in pairwise(at))
    return struct.pack("<QIBB", 4223, goal.n_ranks, 0, 0) + table + b"".join(parts)


@given(goal=goals())
@examples(100)
def test_is_read_as_the_text_is(goal: Goal) -> None:
    same(parse_goal_binary(packed(goal)), goal)


def sends() -> bytes:
    column = {name: np.zeros(2, np.int64) for name in ("tag", "cpu", "nic")}
    op, rank, peer = np.array([Op.SEND, Op.RECV], np.uint8), np.arange(2, dtype=np.int32), np.array([1, 0], np.int32)
    none = np.zeros((0, 2), np.int32)
    size, line = np.array([8, 8]), np.zeros(2, np.int32)
    return packed(Goal(2, op, rank, size, peer, **column, requires=none, irequires=none, line=line))


def test_reads_files(tmp_path) -> None:
    (tmp_path / "a.bin").write_bytes(sends())
    assert flows_of_goal(read_goal(tmp_path / "a.bin")).size_bytes.tolist() == [8.0]


@pytest.mark.parametrize(
    ("at", "change", "message"),
    [
        (0, b"\1", "4223"),
        (8, b"\0\0\0\0", "0 ranks"),
        (9, b"\xff\xff", "ranks"),
        (14, b"\xff\xff", "rank 0 at bytes"),
        (46, b"\xff", "255 operations"),
        (62, b"\7", "type 7"),
        (63, b"\5", "rank 5"),
        (67, b"\xff" * 8, "size"),
        (81, b"\1", "that wait"),
    ],
)
def test_refuses_and_names_the_rank(at: int, change: bytes, message: str) -> None:
    data = sends()
    with pytest.raises(FormatError, match=message):
        parse_goal_binary(data[:at] + change + data[at + len(change) :])


@given(cut=st.integers(0, 200), at=st.integers(0, 150), byte=st.integers(0, 255))
@examples(200)
def test_any_bytes_are_read_or_refused(cut: int, at: int, byte: int) -> None:
    data = bytearray(sends()[:cut])
    data[at : at + 1] = bytes([byte])
    try:
        flows_of_goal(parse_goal_binary(bytes(data)))
    except FormatError as error:
        assert error.path
