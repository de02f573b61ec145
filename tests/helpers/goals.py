"""GOAL schedules at random."""

import numpy as np
from hypothesis import strategies as st

from simulate.traffic.goal.schedule import Goal, Op

COLUMNS = ("op", "rank", "size", "peer", "tag", "cpu", "nic", "requires", "irequires")


def same(one: Goal, other: Goal) -> None:
    assert one.n_ranks == other.n_ranks
    for name in COLUMNS:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


@st.composite
def goals(draw: st.DrawFn) -> Goal:
    """Schedules that can run: messages in an order of time, operations that wait for earlier ones of their rank."""
    n_ranks = draw(st.integers(1, 4))
    rows: list[list[tuple[int, int, int, int]]] = [[] for _ in range(n_ranks)]  # op, size, peer, tag
    for _ in range(draw(st.integers(0, 12))):
        src, dst = draw(st.integers(0, n_ranks - 1)), draw(st.integers(0, n_ranks - 1))
        size, tag = draw(st.integers(0, 99)), draw(st.integers(0, 1))
        if draw(st.booleans()):
            rows[src].append((Op.SEND, size, dst, tag))
            rows[dst].append(
                (Op.RECV, 99, draw(st.sampled_from([src, src, -1])), draw(st.sampled_from([tag, tag, -1])))
            )
        else:
            rows[src].append((Op.CALC, size, -1, 0))
    flat = [(op, rank, *rest) for rank, ops in enumerate(rows) for op, *rest in ops]
    start = np.cumsum([0] + [len(ops) for ops in rows])
    pairs: dict[str, list[tuple[int, int]]] = {"requires": [], "irequires": []}
    for rank, ops in enumerate(rows):
        for later in range(1, len(ops)):
            for word in pairs:
                if draw(st.integers(0, 3)) == 0:
                    pairs[word].append((start[rank] + later, start[rank] + draw(st.integers(0, later - 1))))
    table = np.array(flat, np.int64).reshape(-1, 5)
    extra = np.array(draw(st.lists(st.integers(0, 2), min_size=2 * len(flat), max_size=2 * len(flat))), np.int64)
    nic = np.where(table[:, 0] == Op.CALC, 0, extra[len(flat) :])
    return Goal(
        n_ranks=n_ranks,
        op=table[:, 0].astype(np.uint8),
        rank=table[:, 1].astype(np.int32),
        size=table[:, 2],
        peer=table[:, 3].astype(np.int32),
        tag=table[:, 4],
        cpu=extra[: len(flat)],
        nic=nic,
        requires=np.array(pairs["requires"], np.int32).reshape(-1, 2),
        irequires=np.array(pairs["irequires"], np.int32).reshape(-1, 2),
        line=np.zeros(len(flat), np.int32),
    )
