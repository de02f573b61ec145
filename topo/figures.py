"""How figures are written: shares, bounds, and two that must not look equal."""

from __future__ import annotations

from math import ceil, floor

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
