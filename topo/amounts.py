"""Amounts: how shares and bounds are written, sums of what is known, and what a limit says of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from math import ceil, floor
from typing import Any

DECIMAL_ROUNDING = 1e-9
"""Parts of the last decimal that are none: 3 kW of 30 devices of 0.1 kW should stay 3.0 kW when it is rounded up."""


def decimals_apart(figure: float, other: float, least: int = 0) -> int:
    """Return with how many decimals two figures that differ look different, ``least`` or more, at most 6.

    >>> [decimals_apart(figure, 700.0, 1) for figure in (708.9, 700.04, 700.0)]
    [1, 2, 1]
    """
    if abs(figure - other) <= DECIMAL_ROUNDING * max(abs(figure), abs(other)):
        return least
    return next((n for n in range(least, 6) if f"{figure:.{n}f}" != f"{other:.{n}f}"), 6)


def rounded(figure: float, decimals: int, *, up: bool) -> str:
    """Write a bound with so many decimals, never beyond itself: an upper one is rounded up, a lower one down.

    >>> rounded(708.91, 1, up=True), rounded(708.99, 1, up=False), rounded(3 * 0.1, 1, up=True)
    ('709.0', '708.9', '0.3')
    """
    scaled = figure * 10**decimals
    spare = DECIMAL_ROUNDING * max(abs(scaled), 1.0)
    whole = ceil(scaled - spare) if up else floor(scaled + spare)
    return f"{whole / 10**decimals:.{decimals}f}"


def percent(share: float, *, bound: str = "", beside: float | None = None) -> str:
    """Write a share of 1.0 in per cent with one decimal: the one way in which shares are printed.

    What is not nothing is never "0.0%", and what is less than all never "100.0%".

    Parameters
    ----------
    bound : str
        ``least`` for a lower bound, which is rounded down, ``most`` for an upper one, which is rounded up.
    beside : float, optional
        A share that is shown beside it: more decimals where both would look equal and are not.

    Examples
    --------
    >>> import topo
    >>> [topo.percent(share) for share in (0.125, 1.0, 0.0004, 0.99996)]
    ['12.5%', '100.0%', 'under 0.1%', 'over 99.9%']
    >>> topo.percent(0.4999, beside=0.5), topo.percent(0.43218, bound="least"), topo.percent(0.43218, bound="most")
    ('49.99%', '43.2%', '43.3%')
    """
    decimals = 1 if beside is None else decimals_apart(100 * share, 100 * beside, 1)
    if bound:
        return f"{rounded(100 * share, decimals, up=bound == 'most')}%"
    text, step = f"{100 * share:.{decimals}f}", 10.0**-decimals
    if 0 < share < 1 - DECIMAL_ROUNDING and float(text) in (0.0, 100.0):
        return f"under {step:.{decimals}f}%" if share < 0.5 else f"over {100 - step:.{decimals}f}%"
    return f"{text}%"


@dataclass(frozen=True)
class Range:
    """An amount that is known to lie between two bounds.

    Examples
    --------
    >>> import topo
    >>> print(topo.Range(14_000, 18_700) * 2 + topo.Range(1_000, 1_000))
    29,000 to 38,400
    """

    low: float
    high: float

    def __add__(self, other: Range) -> Range:
        return Range(self.low + other.low, self.high + other.high)

    def __mul__(self, factor: float) -> Range:
        return Range(self.low * factor, self.high * factor)

    @property
    def middle(self) -> float:
        """The middle of the range: what one number has to stand for it."""
        return (self.low + self.high) / 2

    def __format__(self, digits: str) -> str:
        digits = digits or ",.0f"
        return format(self.low, digits) if self.low == self.high else f"{self.low:{digits}} to {self.high:{digits}}"

    def __str__(self) -> str:
        return format(self, "")


@dataclass(frozen=True)
class Sum:
    """A sum with gaps: what is known of it, and the items that it lacks. An unknown item is never counted as 0.

    Examples
    --------
    >>> import topo
    >>> switches, servers = topo.Sum(topo.Range(600, 700)), topo.Sum(None, ("4 x dgx-b200",))
    >>> print(switches)
    600 to 700
    >>> print(switches + servers)
    at least 600 to 700
    >>> print(servers)
    unknown
    """

    known: Range | None = Range(0.0, 0.0)
    """Of the items that are known; None where there are items and none of them is known."""
    missing: tuple[str, ...] = ()
    """The items whose amount is unknown, in words."""
    mostly_unknown: bool = False
    """Whether so much is missing that what is known would be read as the whole: it is then "unknown" wherever it is
    shown. A limit may still be exceeded by what is known alone."""

    @classmethod
    def of(cls, amounts: Iterable[tuple[Range | float | None, str]]) -> Sum:
        """Add up amounts, each with the name of its item; None is unknown.

        >>> import topo
        >>> print(topo.Sum.of([(250.0, "a switch"), (None, "a server")]))
        at least 250
        """
        known, missing = [], []
        for amount, name in amounts:
            if amount is None:
                missing.append(name)
            else:
                known.append(amount if isinstance(amount, Range) else Range(amount, amount))
        return cls(sum(known, Range(0.0, 0.0)) if known or not missing else None, tuple(missing))

    def __add__(self, other: Sum) -> Sum:
        # A sum of no items at all is 0, and adds nothing to what is known of the other.
        empty = Sum()
        if empty in (self, other):
            return other if self == empty else self
        known = [part.known for part in (self, other) if part.known is not None]
        whole = sum(known, Range(0.0, 0.0)) if known else None
        return Sum(whole, self.missing + other.missing, self.mostly_unknown or other.mostly_unknown)

    def __mul__(self, factor: float) -> Sum:
        return replace(self, known=None if self.known is None else self.known * factor)

    @property
    def middle(self) -> float | None:
        """The middle of the range, where no item is missing."""
        return None if self.missing or self.known is None else self.known.middle

    def against(self, limit: float) -> Verdict:
        """Compare the sum with an upper limit.

        >>> import topo
        >>> some = topo.Sum(topo.Range(600, 700), ("4 x dgx-b200",))
        >>> print(some.against(500), some.against(1_000), topo.Sum(some.known).against(1_000), sep=", ")
        exceeded, cannot tell, holds
        """
        if self.known is not None and self.known.low > limit:
            return Verdict.EXCEEDED
        return Verdict.CANNOT_TELL if self.missing or self.known is None or self.known.high > limit else Verdict.HOLDS

    def __format__(self, spec: str) -> str:
        """Write it as ``spec`` says, digits and a unit such as ``,.1f kW``; what is unknown has no unit."""
        digits, _, unit = spec.partition(" ")
        if self.known is None or self.mostly_unknown or (self.missing and not self.known.high):
            return "unknown"  # at least 0 says nothing
        return f"{'at least ' if self.missing else ''}{self.known:{digits}}{unit and f' {unit}'}"

    def __str__(self) -> str:
        return format(self, "")

    @property
    def bounds(self) -> list[float] | None:
        """Least and highest amount of what is known; None where nothing or too little is."""
        return None if self.known is None or self.mostly_unknown else [self.known.low, self.known.high]


class Verdict(StrEnum):
    """Whether a limit holds, is exceeded, or cannot be checked because an item is unknown."""

    HOLDS = "holds"
    EXCEEDED = "exceeded"
    CANNOT_TELL = "cannot tell"

    @property
    def holds(self) -> bool | None:
        """Whether the limit holds; None if unknown."""
        return None if self is Verdict.CANNOT_TELL else self is Verdict.HOLDS

    @classmethod
    def all_of(cls, verdicts: Iterable[Verdict]) -> Verdict:
        """Return the verdict on several limits at once: exceeded if one is, else cannot tell if one cannot.

        >>> import topo
        >>> print(topo.Verdict.all_of([topo.Verdict.HOLDS, topo.Verdict.CANNOT_TELL]))
        cannot tell
        """
        given = set(verdicts)
        return next((verdict for verdict in (cls.EXCEEDED, cls.CANNOT_TELL) if verdict in given), cls.HOLDS)


def sums_to_dict(sums: Mapping[str, Sum]) -> dict[str, Any]:
    """Return sums by name as plain values: the middle of what is known, null where that is too little, and which lack.

    >>> sums_to_dict({"network": Sum(Range(600, 700)), "total": Sum(Range(600, 700), ("4 x dgx-b200",))})
    {'network': 650.0, 'total': 650.0, 'ranges': {'network': [600, 700], 'total': [600, 700]}, 'at_least': ['total']}
    """
    return {
        **{name: bounds and sum(bounds) / 2 for name, bounds in ((name, one.bounds) for name, one in sums.items())},
        "ranges": {name: amount.bounds for name, amount in sums.items()},
        "at_least": [name for name, amount in sums.items() if amount.missing],
    }


def listed(names: Iterable[str], shown: int = 4) -> str:
    """Return names as text, the first of them if there are many.

    >>> listed("abcdef")
    'a, b, c, d and 2 more'
    """
    all_names = list(names)
    more = len(all_names) - shown
    return ", ".join(all_names[:shown]) + (f" and {more} more" if more > 0 else "")
