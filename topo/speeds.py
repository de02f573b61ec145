"""InfiniBand link speeds: generation and width to gigabits a second.

A link is ``4xHDR``: four lanes of HDR. Rates are those of the data, after the line code (8b/10b up to QDR, 64b/66b
above), rounded as the field rounds them: InfiniBand Architecture Specification, volume 2, and the rate table of
``ibstat``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SPEEDS: tuple[str, ...] = ("SDR", "DDR", "QDR", "FDR10", "FDR", "EDR", "HDR", "NDR", "XDR", "GE")
"""Generations of InfiniBand in order, then gigabit Ethernet; a port's ``speed`` is an index into this tuple."""

LANE_GBPS: NDArray[np.float64] = np.array([2.0, 4.0, 8.0, 10.0, 13.64, 25.0, 50.0, 100.0, 200.0, 1.0])
"""Gb/s of one lane, by index of generation."""
LANE_GBPS.flags.writeable = False

WIDTHS = (1, 2, 4, 8, 12)


@dataclass(frozen=True)
class LinkSpeed:
    """A generation and a number of lanes, such as ``4xHDR``.

    ValueError when there is no such speed.

    Examples
    --------
    >>> import topo
    >>> topo.LinkSpeed(4, "HDR").gbps
    200.0
    """

    width: int
    """Lanes: 1, 2, 4, 8 or 12."""
    generation: str
    """One of `SPEEDS`."""

    def __post_init__(self) -> None:
        if self.width not in WIDTHS or self.generation not in SPEEDS:
            raise ValueError(f"{self.width}x{self.generation} is not a link speed")

    @property
    def index(self) -> int:
        """Index of the generation in `SPEEDS`."""
        return SPEEDS.index(self.generation)

    @property
    def gbps(self) -> float:
        """Gb/s of data in one direction."""
        return float(self.width * LANE_GBPS[self.index])

    @property
    def as_ethernet(self) -> str:
        """Name of the lanes, and of the Ethernet that they carry.

        >>> import topo
        >>> topo.LinkSpeed(4, "NDR").as_ethernet
        '4xNDR (400GbE)'
        """
        return str(self) if self.generation == "GE" else f"{self} ({self.gbps:g}GbE)"

    def __str__(self) -> str:
        return f"{self.width}x{self.generation}"


def speed_name(width: int, index: int) -> str:
    """Return the name of a link speed by its lanes and its index in `SPEEDS`, as bills and dumps write it.

    >>> speed_name(4, SPEEDS.index("HDR"))
    '4xHDR'
    """
    return f"{width}x{SPEEDS[index]}"


def parse_link_speed(text: str) -> LinkSpeed:
    """Read ``4xHDR``, ``HDR`` (four lanes), ``HDR100`` (two lanes of HDR); ValueError for other text."""
    match = re.fullmatch(r"(?:(\d+)x)?([A-Z]+(?:10)?)(100|200|400)?", text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a link speed; expected one like 4xHDR, NDR or HDR100")
    width, generation, split = match.groups()
    if generation not in SPEEDS or (width and split):
        raise ValueError(f"{text!r} is not a link speed; generations are {', '.join(SPEEDS)}")
    lanes = int(split) / LANE_GBPS[SPEEDS.index(generation)] if split else width or 4
    return LinkSpeed(int(lanes), generation)


def is_link_speed(text: str) -> bool:
    """Whether a text is a link speed as bills write it, such as ``4xHDR``.

    >>> is_link_speed("4xHDR"), is_link_speed("HDR")
    (True, False)
    """
    try:
        return str(parse_link_speed(text)) == text
    except ValueError:
        return False


def slower(a: LinkSpeed, b: LinkSpeed) -> LinkSpeed:
    """Speed that two ports agree on: the slower generation at the smaller width."""
    return LinkSpeed(min(a.width, b.width), min(a, b, key=lambda speed: float(LANE_GBPS[speed.index])).generation)
