"""Patterns carry the bytes of the schedules that are simulated, between the same ranks."""

from collections import Counter

import numpy as np
import pytest

from simulate.traffic.collectives.algorithms import schedule
from simulate.traffic.ranks.pattern import PATTERNS, Pattern, pattern_of
from topo.errors import HeddleError

SCHEDULES = {
    "ring": ("allreduce", "ring"),
    "tree": ("allreduce", "double-binary-tree"),
    "halving-doubling": ("allreduce", "halving-doubling"),
    "all-to-all": ("all-to-all", "shift"),
}


def sent(pattern: Pattern) -> dict[tuple[int, int], float]:
    """Share of the buffer that each rank sends to each other."""
    total: Counter[tuple[int, int]] = Counter()
    for step, src, dst in zip(pattern.step.tolist(), pattern.src.tolist(), pattern.dst.tolist(), strict=True):
        total[src, dst] += pattern.share[step] * pattern.times[step]
    return {pair: round(share, 9) for pair, share in total.items()}


@pytest.mark.parametrize("algorithm", PATTERNS)
@pytest.mark.parametrize("n", [2, 3, 4, 5, 6, 7, 8, 12, 16, 17])
def test_a_pattern_sends_what_its_schedule_sends(algorithm: str, n: int) -> None:
    messages = schedule(*SCHEDULES[algorithm], n)
    total: Counter[tuple[int, int]] = Counter()
    for src, dst, count in zip(messages.src.tolist(), messages.dst.tolist(), messages.count.tolist(), strict=True):
        total[src, dst] += count / messages.n_blocks
    assert sent(pattern_of(algorithm, n)) == {pair: round(share, 9) for pair, share in total.items()}


@pytest.mark.parametrize("algorithm", ["ring", "halving-doubling", "all-to-all"])
@pytest.mark.parametrize("n", [2, 3, 8, 11])
def test_a_rank_sends_once_a_step_and_receives_once(algorithm: str, n: int) -> None:
    pattern = pattern_of(algorithm, n)
    for ends in (pattern.src, pattern.dst):
        assert len(np.unique(pattern.step.astype(np.int64) * n + ends)) == len(ends)


def test_only_all_to_all_sends_the_same_between_all_pairs() -> None:
    assert [name for name in PATTERNS if pattern_of(name, 6).all_pairs] == ["all-to-all"]


def test_refusals() -> None:
    with pytest.raises(HeddleError, match="expected one of ring"):
        pattern_of("rings", 4)
    with pytest.raises(HeddleError, match="at least two"):
        pattern_of("ring", 1)
