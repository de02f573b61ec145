"""Slurm's short form of many names: ``gpu[000-014,020]``."""

from __future__ import annotations

import re
from collections.abc import Iterable


def compress(names: Iterable[str]) -> str:
    """Return names as a hostlist: runs of equal stem and equal zero padding become ranges.

    Examples
    --------
    >>> import topo
    >>> topo.compress(["gpu08", "gpu09", "gpu10"])
    'gpu[08-10]'
    """
    stems: dict[tuple[str, int], list[int]] = {}
    plain: list[str] = []
    for name in sorted(set(names)):
        match = re.fullmatch(r"(.*?)(\d+)", name)
        if match:
            stems.setdefault((match[1], len(match[2])), []).append(int(match[2]))
        else:
            plain.append(name)
    parts = list(plain)
    for (stem, width), numbers in stems.items():
        runs = _runs(sorted(numbers))
        if len(runs) == 1 and runs[0][0] == runs[0][1]:
            parts.append(f"{stem}{numbers[0]:0{width}d}")
            continue
        spelled = (f"{a:0{width}d}" if a == b else f"{a:0{width}d}-{b:0{width}d}" for a, b in runs)
        parts.append(f"{stem}[{','.join(spelled)}]")
    return ",".join(parts)


def _runs(numbers: list[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs
