"""Names with numbers: Slurm's short form of many, ``gpu[000-014,020]``, their order, and the number of a device."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from itertools import groupby, product
from math import prod

from topo.budget import GUIDS
from topo.errors import HeddleError

PART = re.compile(r"((?:[^,\[\]]|\[[^\[\]]*\])+)(?:,|$)")
RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?", re.ASCII)


def natural_order(name: str) -> str:
    """Return a key by which names are in the order of their numbers.

    Examples
    --------
    >>> import topo
    >>> sorted(["leaf11", "leaf2"], key=topo.natural_order)
    ['leaf2', 'leaf11']
    """
    return re.sub(r"[0-9]+", lambda digits: digits[0].zfill(8), name)


def device_number(name: str) -> int | None:
    """Return the number of a device by its name; None where it has none, or one that no server comes to.

    Examples
    --------
    >>> import topo
    >>> [topo.device_number(name) for name in ("mlx5_3", "gpu01 mlx5_10", "mlx5_1000", "ib0")]
    [3, 10, None, None]
    """
    match = re.search(r"_([0-9]{1,3})\Z", name)
    return int(match[1]) if match else None


def compress(names: Iterable[str]) -> str:
    """Return names as a hostlist: runs of equal stem and equal zero padding become ranges.

    Examples
    --------
    >>> import topo
    >>> topo.compress(["gpu08", "gpu09", "gpu10"])
    'gpu[08-10]'
    """
    stems = defaultdict[tuple[str, int], list[int]](list)
    parts: list[str] = []
    for name in sorted(set(names)):
        if match := re.fullmatch(r"(.*?)([0-9]{1,18})", name):
            stems[match[1], len(match[2])].append(int(match[2]))
        else:
            parts.append(name)
    for (stem, width), numbers in stems.items():
        spans = runs(sorted(numbers))
        spelled = ",".join(f"{a:0{width}d}" if a == b else f"{a:0{width}d}-{b:0{width}d}" for a, b in spans)
        parts.append(f"{stem}[{spelled}]" if len(numbers) > 1 else stem + spelled)
    return ",".join(parts)


def expand(text: str) -> list[str]:
    """Return the names of a hostlist in its order: what `compress` writes, and several brackets in a name.

    HeddleError when it is none, or has more names than a subnet has end ports.

    Examples
    --------
    >>> import topo
    >>> topo.expand("gpu[08-10],login,rack[1-2]n[3,5]")
    ['gpu08', 'gpu09', 'gpu10', 'login', 'rack1n3', 'rack1n5', 'rack2n3', 'rack2n5']
    """
    names: list[str] = []
    at = 0
    text = text.strip()
    while at < len(text):
        part = PART.match(text, at)
        if part is None:
            raise HeddleError(f"found {text[at : at + 40]!r} in a hostlist; expected names such as gpu[08-10],gpu12")
        at = part.end()
        pieces = re.split(r"(\[[^\[\]]*\])", part[1].strip())
        choices = [_numbers(piece[1:-1]) if piece.startswith("[") else [piece] for piece in pieces]
        if len(names) + prod(map(len, choices)) > GUIDS.limit:
            raise HeddleError(f"found a hostlist of more than {GUIDS.limit:,} names; expected nodes of one fabric")
        names += map("".join, product(*choices))
    return names


def _numbers(text: str) -> list[str]:
    """Return the numbers in brackets, as wide as the first of each range is spelled."""
    found: list[str] = []
    for item in text.split(","):
        match = RANGE.fullmatch(item.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if match is None or last < first or last - first + len(found) >= GUIDS.limit:
            raise HeddleError(f"found [{text[:40]}] in a hostlist; expected numbers and ranges such as [08-10,12]")
        found += [f"{number:0{len(match[1])}d}" for number in range(first, last + 1)]
    return found


def runs(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Return ascending numbers as the first and last of each run."""
    by_run = groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0])
    spans = ([number for _, number in pairs] for _, pairs in by_run)
    return [(span[0], span[-1]) for span in spans]
