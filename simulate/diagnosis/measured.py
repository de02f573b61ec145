"""Measured bandwidths of pairs, as CSV: a row for each pair, or a matrix."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from routing.hashed import Hashed
from routing.names import EndNames
from routing.routed import Routed
from topo.budget import FLOWS
from topo.errors import FormatError, HeddleError, plural
from topo.fabric import Frozen
from topo.files.csv import plain_text
from topo.files.text import numbered_lines, read_lines
from topo.table import Brief

GBPS_OF_UNIT = {"Gb/s": 1.0, "GB/s": 8.0, "MB/s": 8e-3, "MiB/s": 8 * 2**20 / 1e9}
"""Gb/s of one of each unit, of which capitals matter; nccl-tests print GB/s of 10^9 bytes, ib_write_bw MiB/s."""
MOST = 1e6
"""Gb/s of a pair, at most."""


@dataclass(frozen=True, eq=False)
class Measured(Frozen, Brief):
    """N measured pairs."""

    src: NDArray[np.int32]
    """(N,) end port that sends."""
    dst: NDArray[np.int32]
    """(N,) end port that receives."""
    gbps: NDArray[np.float64]
    """(N,) Gb/s, above 0."""
    round: NDArray[np.int32]
    """(N,) pairs with the same number were measured at once, with the same number of bytes; -1 for one alone."""

    def _brief(self) -> str:
        return plural(len(self.src), "measured pair")


def read_measured(path: str | Path, routed: Routed | Hashed) -> Measured:
    r"""Read measured bandwidths from a CSV file, unpacked when its name ends in ``.gz``; see `parse_measured`.

    Examples
    --------
    >>> import tempfile, topo, routing, simulate
    >>> from pathlib import Path
    >>> routed = routing.route(topo.preset("lab-20").fabric)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "measured.csv")
    ...     _ = file.write_text("source,destination,Gb/s,round\ngpu00,gpu01,190,\ngpu02,gpu03,95,a\n")
    ...     simulate.diagnosis.read_measured(file, routed)
    <Measured 2 measured pairs>
    """
    return parse_measured(read_lines(path), routed, str(path))


def parse_measured(lines: Iterable[str], routed: Routed | Hashed, path: str = "measured") -> Measured:
    r"""Parse measured bandwidths of pairs of end ports.

    A list begins with the header ``source,destination,UNIT`` and optionally ``round``: pairs with the same word there
    were measured at once, those without one alone. A matrix begins with ``UNIT`` and the names of the receivers; a
    line has the name of a sender, and a value for each receiver. What is empty or ``-`` was not measured. UNIT is one
    of ``Gb/s``, ``GB/s`` (10^9 bytes, as nccl-tests print), ``MB/s`` and ``MiB/s`` (as ib_write_bw prints).
    Blank lines and lines that begin with ``#`` are skipped. Names are those that `routing.find_end` takes.

    Raises
    ------
    FormatError
        With the line, what was found and what was expected.

    Examples
    --------
    >>> import topo, routing
    >>> from simulate.diagnosis.measured import parse_measured
    >>> routed = routing.route(topo.preset("lab-20").fabric)
    >>> parse_measured("GB/s,gpu00,gpu01\ngpu00,-,24.1\ngpu01,23.9,-\n".splitlines(), routed).gbps.tolist()
    [192.8, 191.2]
    """
    rows = numbered_lines(lines, path)
    head, listed, scale = _header(rows, path)
    body = [(number, _cells(line, path, number)) for number, line in rows]
    names = EndNames.of(routed.fabric if isinstance(routed, Hashed) else routed)
    known: dict[str, int] = {}

    def end(name: str, line: int) -> int:
        if name not in known:
            try:
                known[name] = names.find(name)
            except HeddleError as error:
                raise FormatError(str(error), path, line) from None
        return known[name]

    def value(text: str, line: int, scale: float) -> float:
        try:
            found = float(text) * scale
        except ValueError:
            found = math.nan
        if not 0 < found <= MOST:
            expected = f"expected a number above 0, at most {MOST:g}"
            raise FormatError(f"found the bandwidth {text[:40]!r}; {expected}", path, line)
        return found

    src, dst, gbps, played = [], [], [], []
    rounds: dict[str, int] = {}
    for line, row in body:
        if len(row) != len(head):
            raise FormatError(f"found {plural(len(row), 'value')}; expected {len(head)}", path, line)
        if listed:
            one = [(row[0], row[1], row[2], "".join(row[3:]))]
        else:
            one = [(row[0], name, text, "") for name, text in zip(head[1:], row[1:], strict=True)]
        for sender, receiver, text, together in one:
            if text in ("", "-") or (not listed and sender == receiver):
                continue
            src.append(end(sender, line))
            dst.append(end(receiver, line))
            gbps.append(value(text, line, scale))
            played.append(rounds.setdefault(together, len(rounds)) if together else -1)
            if src[-1] == dst[-1]:
                raise FormatError(f"found a pair of {sender} with itself; expected two end ports", path, line)
        if len(src) > FLOWS.limit:
            raise FormatError(f"found more than {FLOWS.limit:,} pairs; expected {FLOWS}", path, line)
    if not src:
        raise FormatError("found no measured pair; expected at least one", path)
    return Measured(np.array(src, np.int32), np.array(dst, np.int32), np.array(gbps), np.array(played, np.int32))


def check_measured(path: str | Path) -> None:
    r"""Refuse a file that does not begin as `parse_measured` takes it; a pipe, which can be read once, passes.

    Raises
    ------
    HeddleError
        As `parse_measured`, or when the file cannot be read.

    Examples
    --------
    >>> import tempfile, simulate
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "measured.csv")
    ...     _ = file.write_text("source,destination,Gb/s\ngpu00,gpu01,190\n")
    ...     simulate.diagnosis.check_measured(file)
    """
    if Path(path).is_file() or not Path(path).exists():
        _header(numbered_lines(read_lines(path), str(path)), str(path))


def _header(rows: Iterator[tuple[int, str]], path: str) -> tuple[list[str], bool, float]:
    """Return the cells of the first of some lines, whether they are of a list of pairs, and Gb/s of one of its unit."""
    for number, line in rows:
        head = _cells(line, path, number)
        listed = [cell.lower() for cell in head[:2]] == ["source", "destination"]
        scale = GBPS_OF_UNIT.get(head[2] if listed and len(head) > 2 else head[0])
        if scale is not None and (not listed or head[3:] in ([], ["round"])) and len(head) > 1:
            return head, listed, scale
        expected = "source,destination,UNIT[,round], or UNIT and names of receivers; UNIT is " + ", ".join(GBPS_OF_UNIT)
        raise FormatError(f"found the header {','.join(head)[:80]!r}; expected {expected}", path, number)
    raise FormatError("found no lines of CSV; expected the header source,destination,UNIT or a matrix", path)


def _cells(line: str, path: str, number: int) -> list[str]:
    try:
        return [plain_text(cell.strip()) for cell in next(csv.reader([line], strict=True))]
    except (csv.Error, StopIteration):
        raise FormatError("found a line that is not CSV; expected values with commas between", path, number) from None
