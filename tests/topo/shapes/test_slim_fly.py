"""Finite fields: their laws, by every element."""

from itertools import product

import pytest

from topo.shapes.slim_fly import FiniteField, prime_power


@pytest.mark.parametrize("q", [2, 3, 4, 5, 7, 8, 9, 16, 25, 27])
def test_a_field_keeps_its_laws(q):
    field = FiniteField(q)
    add, times = field.add.tolist(), field.times.tolist()

    for a, b in product(range(q), repeat=2):
        assert add[a][b] == add[b][a]
        assert times[a][b] == times[b][a]
        for c in range(0, q, max(q // 5, 1)):
            assert add[add[a][b]][c] == add[a][add[b][c]]
            assert times[times[a][b]][c] == times[a][times[b][c]]
            assert times[a][add[b][c]] == add[times[a][b]][times[a][c]]
    assert add[0] == times[1] == list(range(q))
    assert all(0 in row for row in add)
    assert all(1 in row for row in times[1:])
    assert sorted(field.powers()) == list(range(1, q))


def test_prime_powers():
    assert [q for q in range(33) if prime_power(q)] == [2, 3, 4, 5, 7, 8, 9, 11, 13, 16, 17, 19, 23, 25, 27, 29, 31, 32]
    for q in (0, 1, 6, 12, 45):
        with pytest.raises(ValueError, match="not a power of a prime"):
            FiniteField(q)
