"""Bare flows as CSV: ``start_s,src,dst,bytes[,sl]`` in, the same with ``finish_s`` out."""

from __future__ import annotations

import csv
import math
import re
from array import array
from collections.abc import Iterable
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from routing.lanes.policy import ASK
from simulate.traffic.flows import Flows
from simulate.traffic.placement import EndPortNames
from topo.budget import FLOWS
from topo.errors import MOST_FINDINGS, Finding, SpecError, plural, refusal
from topo.fabric import Fabric
from topo.files.csv import format_csv, plain_text
from topo.files.text import numbered_lines, read_lines

REQUIRED = ("start_s", "src", "dst", "bytes")
OPTIONAL = ("sl", "finish_s")
RANK = re.compile(r"\d{1,6}", re.ASCII)
NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d{1,3})?", re.ASCII)
LEVELS = {str(level): level for level in range(16)} | {"": ASK}
MAX_AMOUNT = 1e18
"""Seconds or bytes: an exabyte, and more years than there were. What is larger is a slip, and would overflow."""


def read_flows_csv(path: str | Path, fabric: Fabric | None) -> Flows:
    """Read flows from a CSV file, unpacked when its name ends in ``.gz``; see `parse_flows_csv`.

    Examples
    --------
    >>> import topo, simulate
    >>> path = topo.config_root() / "workloads" / "storage-incast.csv"
    >>> len(simulate.workload.read_flows_csv(path, topo.preset("fire-flyer-2").fabric))
    64
    """
    return parse_flows_csv(read_lines(path), fabric, str(path))


def parse_flows_csv(lines: Iterable[str], fabric: Fabric | None, path: str = "flows") -> Flows:
    """Parse flows between the adapter ports of a fabric, or between ranks where there is none.

    The first line names the columns ``start_s`` (seconds), ``src`` and ``dst`` (names as `EndPortNames` takes them, or
    ranks), ``bytes``, and optionally ``sl`` (0 to 15; empty for the level that the subnet manager gives to the path),
    in any order. A column ``finish_s`` of an earlier run, blank lines and lines that begin with ``#`` are skipped.

    Raises
    ------
    SpecError
        With the line, what was found and what was expected, up to `MOST_FINDINGS` times.
    """
    content = numbered_lines(lines, path)
    header = next(content, None)
    if header is None:
        raise refusal(f"{path}:1", "an empty file", f"the header {','.join(REQUIRED)}[,sl]")
    columns = _header(header[1], f"{path}:{header[0]}")
    names = None if fabric is None else EndPortNames(fabric)
    known: dict[str, int] = {}
    unknown: set[str] = set()
    findings: list[Finding] = []
    rows = array("d")  # five numbers a flow
    n_rows = 0

    def refuse(found: str, expected: str, hint: str = "") -> int:
        findings.append(Finding(where, found, expected, hint))
        return 0

    def end(column: str) -> int:
        name = cell[column]
        if name not in known:
            rank = [int(name)] if RANK.fullmatch(name) else []
            found = names.find(name) if names else rank
            if len(found) != 1:
                if not unknown:  # one finding stands for all of them
                    advice = names.advice(name) if names else ("a rank, a whole number of at most six digits",)
                    refuse(f'{column} "{name[:80]}"', *advice)
                unknown.add(name)
                return 0
            known[name] = found[0]
        return known[name]

    def amount(column: str) -> float:
        text = cell[column]
        value = float(text) if NUMBER.fullmatch(text) else math.nan
        if 0 <= value <= MAX_AMOUNT:
            return value
        return refuse(f'{column} "{text[:80]}"', f"a number that is not negative, at most {MAX_AMOUNT:g}")

    def level() -> int:
        text = cell.get("sl", "")
        return LEVELS[text] if text in LEVELS else refuse(f'sl "{text[:80]}"', "a service level from 0 to 15")

    for number, line in content:
        where = f"{path}:{number}"
        cells = _cells(line)
        if cells is None or len(cells) != len(columns):
            found = "a line that is not CSV" if cells is None else f"{len(cells)} values"
            refuse(found, f"{len(columns)} values with commas between")
        else:
            cell = dict(zip(columns, cells, strict=True))
            rows.extend((amount("start_s"), end("src"), end("dst"), amount("bytes"), level()))
            n_rows += 1
        if n_rows > FLOWS.limit:
            refuse(f"more than {FLOWS.limit:,} flows", str(FLOWS), "Play it in parts.")
        if findings and (len(findings) >= MOST_FINDINGS or n_rows > FLOWS.limit):
            break
    if findings:
        if len(unknown) > 1:
            at = next(at for at, one in enumerate(findings) if one.found.startswith(("src", "dst")))
            more = f"{findings[at].hint} {plural(len(unknown) - 1, 'other name')} cannot be found either."
            findings[at] = replace(findings[at], hint=more.strip())
        raise SpecError(findings[:MOST_FINDINGS])
    table = np.frombuffer(rows, np.float64).reshape(-1, 5)
    return Flows.of(table[:, 1], table[:, 2], table[:, 3], start_s=table[:, 0], sl=table[:, 4].astype(np.int8))


def format_flows_csv(fabric: Fabric, flows: Flows, finish_s: ArrayLike | None = None) -> str:
    """Return flows as CSV, with the time at which each ended when that is known.

    Dependencies and delays have no place in this format: what comes out is when each flow was *meant* to start.
    Numbers are written so that reading them gives the same again.

    Examples
    --------
    >>> import topo, simulate
    >>> fabric = topo.preset("lab-20").fabric
    >>> hosts = fabric.ends(role="compute")
    >>> flows = simulate.Flows.of(hosts[0], hosts[1], 1e6, start_s=0.5)
    >>> print(simulate.workload.format_flows_csv(fabric, flows), end="")
    start_s,src,dst,bytes,sl
    0.5,gpu00 mlx5_0,gpu01 mlx5_0,1000000,0
    """
    names = EndPortNames(fabric)
    ends = np.unique(np.concatenate([flows.src, flows.dst])).tolist()
    text = {end: names.unique_name(end) for end in ends}
    columns = [flows.start_s.tolist(), flows.src.tolist(), flows.dst.tolist(), flows.size_bytes.tolist()]
    columns.append(["" if sl == ASK else sl for sl in flows.sl.tolist()])
    if finish_s is not None:
        columns.append(np.asarray(finish_s, np.float64).tolist())
    head = [*REQUIRED, *OPTIONAL[: len(columns) - len(REQUIRED)]]
    rows = (
        (start, text[src], text[dst], int(size) if size.is_integer() else size, *rest)
        for start, src, dst, size, *rest in zip(*columns, strict=True)
    )
    return format_csv(head, rows)


def line_of_flow(path: str | Path, flow: int) -> int:
    """Return the line at which a flow of a file stands, for messages about it; flows are numbered from 0."""
    number, _ = next(islice(numbered_lines(read_lines(path)), flow + 1, None))
    return number


def _cells(line: str) -> list[str] | None:
    """Return the values of a line, None when it is not CSV."""
    try:
        cells = next(csv.reader([line], strict=True)) if '"' in line else line.split(",")
    except csv.Error:
        return None
    return [plain_text(cell.strip()) for cell in cells]


def _header(line: str, where: str) -> list[str]:
    columns = _cells(line) or []
    missing = [name for name in REQUIRED if name not in columns]
    wrong = [name for name in columns if name not in REQUIRED + OPTIONAL or columns.count(name) > 1]
    if missing or wrong:
        hint = f"Missing: {', '.join(missing)}." if missing else f"Remove {wrong[0][:60]}."
        expected = f"the columns {', '.join(REQUIRED)} and, if wanted, sl"
        raise refusal(where, f'the header "{line[:120]}"', expected, hint)
    return columns
