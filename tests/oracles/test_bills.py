"""What a larger bill buys beyond a smaller one, counted part by part."""

from collections import Counter
from itertools import product

import numpy as np
import pytest

from costmodel.bills import Bill
from costmodel.parts import Line
from topo.catalog.load import load_catalog

CATALOG = load_catalog()
KEYS = list(product(["cable", "switch"], ["a", "b"], ["x", "y", "z"]))


def counts(rng: np.random.Generator) -> dict[tuple[str, str, str], int]:
    return {key: int(rng.integers(5)) for key in KEYS if rng.random() < 0.7}


def bill(counts: dict[tuple[str, str, str], int]) -> Bill:
    lines = [Line(kind, item, count, place) for (kind, item, place), count in counts.items()]  # type: ignore[arg-type]
    return Bill(tuple(lines), CATALOG)


@pytest.mark.parametrize("seed", range(200))
def test_what_is_bought_and_what_was_there_make_the_bill(seed: int) -> None:
    """Parts are taken one by one from where they are, then from any other place; only what is short is bought."""
    rng = np.random.default_rng(seed)
    wanted, had = counts(rng), counts(rng)
    shelf = Counter(had)
    short: Counter[tuple[str, str, str]] = Counter()
    for key, count in wanted.items():
        for _ in range(count):
            if shelf[key]:
                shelf[key] -= 1
            else:
                short[key] += 1
    bought: Counter[tuple[str, str]] = Counter()
    for (kind, item, _), count in short.items():
        bought[kind, item] += count
    for kind, item in bought:
        spare = sum(left for (other, name, _), left in shelf.items() if (other, name) == (kind, item))
        bought[kind, item] = max(bought[kind, item] - spare, 0)
    found = bill(wanted).beyond(bill(had))
    told: Counter[tuple[str, str]] = Counter()
    for line in found.lines:
        assert 0 < line.count <= short[line.kind, line.item, line.place]
        told[line.kind, line.item] += line.count
    assert +told == +bought
