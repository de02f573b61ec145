"""Fit start-up time, rate and knees to a log of nccl-tests or of perftest (``ib_write_bw``).

Hockney's line, ``time = overhead + size / rate``, holds as long as protocol and algorithm stay; a log in which they
change has a line for each, and a knee where one ends and the next begins.

A line of nccl-tests has size, elements, type, operation, perhaps a root, then time in microseconds, algorithm and bus
bandwidth, twice: out of place, which is taken, and in place. A line of perftest has size, iterations, the highest and
the mean bandwidth, in MB/s of 2^20 bytes unless its heading says Gb/s, and the rate of messages. All else is passed
over: launchers, libraries and people write between the lines. The rank that ``srun -l`` (``3: ``) and ``mpirun
--tag-output`` (``[1,3]<stdout>: ``) put before each line is taken off.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls
from scipy.stats import f
from scipy.stats import t as student

from topo.errors import FormatError, HeddleError, plural
from topo.files.text import read_lines
from topo.table import Column, Shown, Table

CONFIDENCE = 0.95
CHANCE = 0.01
"""Probability with which a further line may be one too many."""
MAX_LINES = 3
"""NCCL has three protocols."""
MIN_SIZES = 3
"""Of a line: two determine it, and the third says how far off it is."""
MAX_CUTS = 64
"""Places at which lines are tried to begin."""
PRINTED = 1e-3
"""Relative error that is no reason for another line: logs print three or four digits."""

SIZE, NUMBER = r"(\d{1,15})", r"(\d{1,12}(?:\.\d{1,9})?)"
NCCL_TESTS = re.compile(
    rf"\s*{SIZE}\s+\d+\s+[a-z]\w+\s+\w+\s+(?:-?\d+\s+)?{NUMBER}\s+{NUMBER}\s+{NUMBER}\s+\S+.*", re.ASCII
)
PERFTEST = re.compile(rf"\s*{SIZE}\s+\d+\s+{NUMBER}\s+{NUMBER}\s+{NUMBER}\s*", re.ASCII)
LAUNCHER = re.compile(r"\A\s*(?:\d{1,9}|\[\d{1,9},\d{1,9}\]<\w{1,9}>): ?", re.ASCII)
HEADING = re.compile(r"\s*#bytes\s+#iterations\s+BW peak\[(.+?)\]")
UNITS = {"MB/sec": 2.0**20, "MiB/sec": 2.0**20, "Gb/sec": 1e9 / 8}
"""Bytes a second of what perftest prints; its MB are 2^20 bytes."""


class Measurement(NamedTuple):
    """One line of a log."""

    size_bytes: float
    time_s: float
    bus_factor: float = 1.0
    """Bus bandwidth divided by algorithm bandwidth."""


class Estimate(NamedTuple):
    """A figure and its 95 % confidence interval."""

    value: float
    low: float
    high: float


class Line(NamedTuple):
    """``time = overhead + size * byte_s``, for sizes up to the last that it was fitted to."""

    last_bytes: float
    overhead_s: float
    byte_s: float


@dataclass(frozen=True)
class Calibration(Shown):
    """Hockney's model, one line or several, fitted to measurements.

    Hockney, "The communication challenge for MPP", 1994.
    """

    source: str
    measurements: int
    overhead_s: Estimate
    """Latency (alpha): time of an operation of size 0, on the first line."""
    bus_gbytes_per_s: Estimate
    """Asymptotic bus bandwidth (1 / beta) of the last line; the highest that was measured, where that is more."""
    half_bytes: float
    """Size at which half of the asymptotic bandwidth is reached (n 1/2)."""
    scatter: float
    """Relative standard deviation of the times around the lines."""
    lines: tuple[Line, ...]
    """From small sizes to large ones; all but the last end at a knee."""

    def time_s(self, size_bytes: float) -> float:
        """Return the time of an operation of a size."""
        line = next((line for line in self.lines if size_bytes <= line.last_bytes), self.lines[-1])
        return line.overhead_s + size_bytes * line.byte_s

    def _brief(self) -> str:
        return f"{self.source}: {self.bus_gbytes_per_s.value:.4g} GB/s after {self.overhead_s.value * 1e6:.4g} us"

    @property
    def table(self) -> Table:
        """Each figure with its interval."""
        rows = [
            ("latency", *(1e6 * value for value in self.overhead_s), "us"),
            ("asymptotic bus bandwidth", *self.bus_gbytes_per_s, "GB/s"),
            ("size at half of that", self.half_bytes / 2**10, None, None, "KiB"),
            *(("knee", line.last_bytes / 2**10, None, None, "KiB") for line in self.lines[:-1]),
            (f"scatter around the {plural(len(self.lines), 'line')}", 100 * self.scatter, None, None, "%"),
        ]
        what, value, low, high, unit = zip(*rows, strict=True)
        figures = (Column(name, part, digits=",.3f") for name, part in (("value", value), ("from", low), ("to", high)))
        title = f"calibrated on {plural(self.measurements, 'measurement')} of {self.source}"
        return Table(title, (Column("figure", what), *figures, Column("unit", unit)))


def calibrate(measurements: Sequence[Measurement], source: str = "measurements") -> Calibration:
    """Fit ``time = overhead + size / rate`` to measured times by least squares of relative errors.

    There are as many lines as explain the times better than by chance: a line more must pass an F test at 1 %, shared
    among all places where it may begin.

    Parameters
    ----------
    measurements
        Of one operation on one set of machines.

    Raises
    ------
    HeddleError
        When there are fewer than three sizes, larger ones do not take longer, or the times scatter too much.

    Examples
    --------
    >>> from simulate.workload import Measurement, calibrate
    >>> found = calibrate([Measurement(size, 20e-6 + size / 10e9) for size in (1e3, 1e5, 1e7)])
    >>> f"{found.overhead_s.value * 1e6:.1f} us, {found.bus_gbytes_per_s.value:.1f} GB/s, {found.half_bytes:.0f} bytes"
    '20.0 us, 10.0 GB/s, 200000 bytes'
    """
    size, time_s, factor = np.array(sorted(measurements), np.float64).reshape(-1, 3).T
    if len(np.unique(size)) < MIN_SIZES:
        raise HeddleError(f"found {plural(len(np.unique(size)), 'size')}; expected three or more, to fit a line")
    fits = _lines(size, time_s)
    first, last = fits[0], fits[-1]
    if last.byte_s <= 0:
        raise HeddleError("larger operations do not take longer; expected sizes large enough to fill the network")
    if last.byte_s <= last.spread[1]:
        raise HeddleError("cannot tell the rate, as times scatter too much; expected more measurements, or larger ones")
    reached, spread = float((size / time_s).max()), last.spread[1]
    rates = [max(1 / last.byte_s, reached), 1 / (last.byte_s + spread), max(1 / (last.byte_s - spread), reached)]
    free = len(size) - 2 * len(fits)
    lines = tuple(Line(float(size[fit.stop - 1]), fit.overhead_s, fit.byte_s) for fit in fits)
    overheads = (first.overhead_s + sign * first.spread[0] for sign in (0, -1, 1))
    return Calibration(
        source=source,
        measurements=len(size),
        overhead_s=Estimate(*(max(0.0, value) for value in overheads)),
        bus_gbytes_per_s=Estimate(*(float(factor[-1]) * rate / 1e9 for rate in rates)),
        half_bytes=_reaches(lines, rates[0] / 2),
        scatter=float(np.sqrt(sum(fit.squares for fit in fits) / free)),
        lines=lines,
    )


class _Fit(NamedTuple):
    """A line through the measurements before `stop`, from where the line before it stops."""

    stop: int
    overhead_s: float
    byte_s: float
    spread: tuple[float, float]
    """Half of the intervals of both."""
    squares: float
    """Of relative errors, summed."""


def _fit(size: NDArray[np.float64], time_s: NDArray[np.float64], first: int, stop: int) -> _Fit:
    rows = np.stack([1 / time_s[first:stop], size[first:stop] / time_s[first:stop]], axis=1)
    scale = np.linalg.norm(rows, axis=0)
    part, residual = nnls(rows / scale, np.ones(len(rows)))
    overhead, per_byte = (part / scale).tolist()
    free = len(rows) - 2
    cosine = float(np.prod(rows / scale, axis=1).sum())  # of the angle between what the two figures explain
    apart = max(1 - cosine**2, np.finfo(np.float64).tiny)
    spread = residual / np.sqrt(free * apart) / scale * student.ppf((1 + CONFIDENCE) / 2, free)
    return _Fit(stop, overhead, per_byte, (float(spread[0]), float(spread[1])), residual**2)


def _lines(size: NDArray[np.float64], time_s: NDArray[np.float64]) -> list[_Fit]:
    """Return the lines from small sizes to large ones; `size` rises."""
    starts = [*np.unique(size, return_index=True)[1].tolist(), len(size)]
    n = len(starts) - 1
    cuts = range(MIN_SIZES, n - MIN_SIZES + 1)
    cuts = cuts[:: max(1, -(-len(cuts) // MAX_CUTS))]
    fit = cache(lambda first, stop: _fit(size, time_s, starts[first], starts[stop]))

    def squares(stops: Sequence[int]) -> float:
        return sum(fit(*part).squares for part in pairwise(stops))

    chosen = [0, n]
    for more in range(1, MAX_LINES):
        tried = [[0, *at, n] for at in combinations(cuts, more)]
        tried = [stops for stops in tried if all(b - a >= MIN_SIZES for a, b in pairwise(stops))]
        free = len(size) - 2 * (more + 1)
        if not tried or free < 1:
            break
        best = min(tried, key=squares)
        errors = [squares(stops) + len(size) * PRINTED**2 for stops in (chosen, best)]
        if f.sf((errors[0] / errors[1] - 1) * free / 2, 2, free) * len(cuts) > CHANCE:
            break
        chosen = best
    return [fit(*part) for part in pairwise(chosen)]


def _reaches(lines: Sequence[Line], rate: float) -> float:
    """Return the least size that is moved at a rate, in bytes a second."""
    begin = 0.0
    for line in lines:
        left = 1 / rate - line.byte_s
        size = line.overhead_s / left if left > 0 else np.inf
        if size <= line.last_bytes:
            return max(size, begin)
        begin = line.last_bytes
    return float(size)


def read_benchmark_log(path: str | Path) -> tuple[Measurement, ...]:
    """Read what a benchmark measured.

    Parameters
    ----------
    path
        A log of nccl-tests or of perftest, unpacked when its name ends in ``.gz``.

    Raises
    ------
    FormatError
        When no line is a measurement, or the file cannot be read.

    Examples
    --------
    >>> import simulate
    >>> simulate.workload.read_benchmark_log("no-such-file")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    topo.errors.FormatError: no-such-file: cannot be read: found no such file; ...
    """
    found = tuple(parse_benchmark_log(read_lines(path)))
    if not found:
        raise FormatError("found no measurement; expected a log of nccl-tests or of ib_write_bw", str(path))
    return found


def parse_benchmark_log(lines: Iterable[str]) -> Iterable[Measurement]:
    """Yield the measurements of a log; lines of nothing and of no time are left out."""
    unit = UNITS["MB/sec"]
    for line in lines:
        text = LAUNCHER.sub("", line[:400])
        if heading := HEADING.match(text):
            unit = UNITS.get(heading.group(1), unit)
        elif match := NCCL_TESTS.fullmatch(text):
            size, time_us, algorithm, bus = map(float, match.groups())
            if size and time_us:
                yield Measurement(size, time_us * 1e-6, bus / algorithm if algorithm else 1.0)
        elif match := PERFTEST.fullmatch(text):
            size, _, mean, _ = map(float, match.groups())
            if size and mean:
                yield Measurement(size, size / (mean * unit))
