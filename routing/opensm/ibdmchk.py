"""The report of ``ibdmchk`` (Debian's ibutils), which judges tables.

Its verdict is in what it prints: its exit status is that of a crash on leaving, often after a whole report.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class IbdmchkReport:
    """What ibdmchk says of tables."""

    pairs: int
    """Ordered pairs of adapters that it walked."""
    missing: int
    """Those of them without a path."""
    hops: dict[int, int]
    """Pairs by number of switches on their path."""
    loops: bool | None
    """Whether it found a credit loop; None when it did not look, as where paths are missing."""


def parse_report(text: str) -> IbdmchkReport:
    r"""Read what ibdmchk prints.

    Raises
    ------
    ValueError
        When it stopped before its verdict on the paths.

    Examples
    --------
    >>> from routing import opensm
    >>> report = opensm.parse_report("-I- Scanned:380 CA to CA paths\n-I- no credit loops found\n")
    >>> report.pairs, report.missing, report.loops
    (380, 0, False)
    """
    scanned = re.search(r"-I- Scanned:(\d+) (?:CA to CA )?paths", text)
    lost = re.search(r"-E- Found (\d+) missing paths out of:(\d+) paths", text)
    if scanned is None and lost is None:
        raise ValueError(f"ibdmchk stopped before it had followed the paths: {text[-500:]!r}")
    pairs = int(scanned[1]) if scanned else int(lost[2]) if lost else 0
    # It counts cables, those of the two hosts included: one more than there are switches.
    section = re.search(r"LFT ROUTE HOP HISTOGRAM.*?HOPS NUM-CA-CA-PAIRS\n((?: +\d+ +\d+\n)*)", text, re.DOTALL)
    rows = [line.split() for line in section[1].splitlines()] if section else []
    loops = None
    if "-E- credit loops in routing" in text:
        loops = True
    elif "-I- no credit loops found" in text:
        loops = False
    return IbdmchkReport(pairs, int(lost[1]) if lost else 0, {int(hop) - 1: int(count) for hop, count in rows}, loops)
