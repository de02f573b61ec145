"""Finite fields of few elements, for graphs that are built on them.

The field of q = p^n elements: polynomials over the integers modulo p, modulo a polynomial of degree n that has no
factors. Element number a0 + a1 p + a2 p^2 + ... is the polynomial with these coefficients; 0 and 1 are what they are.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import NDArray


class FiniteField:
    """The field of q elements, which are the numbers 0 to q - 1.

    Raises
    ------
    ValueError
        When q is no power of a prime.
    """

    add: NDArray[np.int64]
    """(q, q) sums."""
    times: NDArray[np.int64]
    """(q, q) products."""

    def __init__(self, q: int) -> None:
        p, n = _factor(q)
        self.q = q
        digits = np.array([[number // p**place % p for place in range(n)] for number in range(q)])
        weight = p ** np.arange(n)
        self.add = (digits[:, None] + digits[None, :]) % p @ weight
        # The first polynomial that leaves no divisors of zero has no factors.
        for low in product(range(p), repeat=n):
            self.times = _products(digits, np.array(low), p) @ weight
            if (self.times[1:, 1:] > 0).all():
                break

    def powers(self) -> list[int]:
        """Return 1, g, g^2, ... for the least element g whose powers are all elements but 0."""
        for element in range(1, self.q):
            found = [1]
            while (following := int(self.times[found[-1], element])) != 1:
                found.append(following)
            if len(found) == self.q - 1:
                return found
        raise AssertionError("the elements of a finite field but 0 are a cyclic group")


def prime_powers(most: int) -> list[int]:
    """Return the powers of primes up to a number."""
    return [q for q in range(2, most + 1) if _smallest_factor(q) ** _exponent(q) == q]


def _products(digits: NDArray[np.int64], low: NDArray[np.int64], p: int) -> NDArray[np.int64]:
    """Return (q, q, n) products of polynomials modulo x^n + low."""
    n = digits.shape[1]
    full = np.zeros((len(digits), len(digits), 2 * n - 1), np.int64)
    for place in range(n):
        full[:, :, place : place + n] += digits[:, None, place, None] * digits[None, :, :]
    for place in range(2 * n - 2, n - 1, -1):  # x^place = -low x^(place - n)
        full[:, :, place - n : place] -= full[:, :, place, None] * low
    return full[:, :, :n] % p


def _factor(q: int) -> tuple[int, int]:
    p, n = _smallest_factor(q), _exponent(q)
    if q < 2 or p**n != q:
        raise ValueError(f"{q} is no power of a prime")
    return p, n


def _smallest_factor(number: int) -> int:
    return next((divisor for divisor in range(2, int(number**0.5) + 1) if number % divisor == 0), number)


def _exponent(number: int) -> int:
    """How often the smallest factor of a number divides it."""
    factor, times = _smallest_factor(number), 0
    while factor > 1 and number % factor == 0:
        number, times = number // factor, times + 1
    return times
