"""Summaries of points: the best ones by comparing each two, and intervals of counts from the Poisson sum."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plan.sweeps.summary import front, intervals


@pytest.mark.parametrize(("one", "other"), list(product(["low", "high"], repeat=2)))
@pytest.mark.parametrize("seed", range(20))
def test_the_best_points_are_those_that_no_other_beats(seed: int, one: str, other: str) -> None:
    """Few values, so that many tie: equal points are all among them."""
    points = np.random.default_rng(seed).integers(0, 4, (12, 2)).tolist()
    documents = [{"point": {}, "figures": {"a": a, "b": b}} for a, b in points]
    signs = [1 if way == "low" else -1 for way in (one, other)]

    def beats(x, y) -> bool:
        pairs = [(sign * u, sign * v) for sign, u, v in zip(signs, x, y, strict=True)]
        return all(u <= v for u, v in pairs) and any(u < v for u, v in pairs)

    best = [at for at, point in enumerate(points) if not any(beats(rival, point) for rival in points)]
    assert sorted(front(documents, {"a": one, "b": other})) == best


def poisson_cdf(count: int, mean: float) -> float:
    return sum(math.exp(-mean + k * math.log(mean) - math.lgamma(k + 1)) for k in range(count + 1)) if mean else 1.0


def root(function, low: float, high: float) -> float:
    """Where a falling function is 0."""
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) > 0 else (low, middle)
    return low


@given(st.lists(st.integers(0, 12), min_size=2, max_size=6))
def test_the_interval_of_a_count_is_that_of_garwood(counts: list[int]) -> None:
    """Its ends are the means under which so few, or so many, are seen once in forty times."""
    documents = [
        {"point": {"seed": seed}, "figures": {"year.failures.link": count}} for seed, count in enumerate(counts)
    ]
    table = {column.name: column.values[0] for column in intervals(documents).columns}
    total, seeds = sum(counts), len(counts)
    high = root(lambda mean: poisson_cdf(total, mean) - 0.025, 0.0, 1000.0) / seeds
    low = root(lambda mean: 0.025 - (1 - poisson_cdf(total - 1, mean)), 0.0, 1000.0) / seeds if total else 0.0
    assert np.isclose(table["mean"], total / seeds) and np.isclose(table["high"], high, rtol=1e-6)
    assert np.isclose(table["low"], low, rtol=1e-6)
