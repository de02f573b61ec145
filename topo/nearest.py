"""The name that somebody meant to write."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher
from itertools import takewhile


def nearest(word: str, names: Iterable[str], *, at_least: float = 0.6) -> str | None:
    """Return the name most like ``word``, or None when none is at least so like it (0 to 1).

    Likeness is difflib's ratio without regard to case; among equals the longer common beginning wins.
    """
    word = word[:100].lower()

    def likeness(name: str) -> tuple[float, int]:
        other = name.lower()
        same = takewhile(lambda pair: pair[0] == pair[1], zip(word, other, strict=False))
        return SequenceMatcher(None, word, other).ratio(), sum(1 for _ in same)

    best = max(sorted(names), key=likeness, default=None)
    return best if best is not None and likeness(best)[0] >= at_least else None


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """Return ``Did you mean `QM8700`?``, or nothing when no name is near."""
    near = nearest(word, names)
    return f"Did you mean `{near}`?" if near else ""
