"""Fit latency (alpha) and asymptotic bandwidth (1 / beta) to a log of nccl-tests or of perftest (``ib_write_bw``).

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
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.stats import t as student

from topo.errors import FormatError, HeddleError, plural
from topo.files.text import read_lines
from topo.table import Column, Shown, Table

CONFIDENCE = 0.95

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


@dataclass(frozen=True)
class Calibration(Shown):
    """Hockney's model, ``time = overhead + size / rate``, fitted to measurements.

    Hockney, "The communication challenge for MPP", 1994.
    """

    source: str
    measurements: int
    overhead_s: Estimate
    """Latency (alpha): time of an operation of size 0."""
    bus_gbytes_per_s: Estimate
    """Asymptotic bus bandwidth (1 / beta); the highest that was measured, where the line ends below it."""
    half_bytes: float
    """Size at which half of the asymptotic bandwidth is reached (n 1/2)."""
    scatter: float
    """Relative standard deviation of the times around the line."""

    def _brief(self) -> str:
        return f"{self.source}: {self.bus_gbytes_per_s.value:.4g} GB/s after {self.overhead_s.value * 1e6:.4g} us"

    def _shown(self) -> tuple[Table, ...]:
        return (self.table,)

    @property
    def table(self) -> Table:
        """Each figure with its interval."""
        rows = [
            ("latency", *(1e6 * value for value in self.overhead_s), "us"),
            ("asymptotic bus bandwidth", *self.bus_gbytes_per_s, "GB/s"),
            ("size at half of that", self.half_bytes / 2**10, None, None, "KiB"),
            ("scatter around the line", 100 * self.scatter, None, None, "%"),
        ]
        what, value, low, high, unit = zip(*rows, strict=True)
        figures = (Column(name, part, digits=",.3f") for name, part in (("value", value), ("from", low), ("to", high)))
        title = f"calibrated on {plural(self.measurements, 'line')} of {self.source}"
        return Table(title, (Column("figure", what), *figures, Column("unit", unit)))


def calibrate(measurements: Sequence[Measurement], source: str = "measurements") -> Calibration:
    """Fit ``time = overhead + size / rate`` to measured times by least squares of relative errors.

    Parameters
    ----------
    measurements
        Of one operation on one set of machines.
    source
        What they are from, for people.

    Returns
    -------
    Calibration

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
    size, time_s, factor = np.array(measurements, np.float64).reshape(-1, 3).T
    if len(np.unique(size)) < 3:
        raise HeddleError(f"found {plural(len(np.unique(size)), 'size')}; expected three or more, to fit a line")
    rows = np.stack([1 / time_s, size / time_s], axis=1)
    scale = np.linalg.norm(rows, axis=0)
    part, *_ = np.linalg.lstsq(rows / scale, np.ones(len(rows)), rcond=None)
    overhead, per_byte = (part / scale).tolist()
    if per_byte <= 0:
        raise HeddleError("larger operations do not take longer; expected sizes large enough to fill the network")
    free = len(rows) - 2
    scatter = float(np.sqrt(np.sum((rows @ [overhead, per_byte] - 1) ** 2) / free))
    cosine = float(np.prod(rows / scale, axis=1).sum())  # of the angle between what the two figures explain
    apart = max(1 - cosine**2, np.finfo(np.float64).tiny)
    spread = scatter / scale / np.sqrt(apart) * student.ppf((1 + CONFIDENCE) / 2, free)
    if per_byte <= spread[1]:
        raise HeddleError("cannot tell the rate, as times scatter too much; expected more measurements, or larger ones")
    largest = float(factor[size.argmax()])
    reached = float((size / time_s).max())
    rates = [
        largest * max(1 / slope, least) / 1e9
        for slope, least in ((per_byte, reached), (per_byte + spread[1], 0.0), (per_byte - spread[1], reached))
    ]
    return Calibration(
        source=source,
        measurements=len(rows),
        overhead_s=Estimate(max(0.0, overhead), max(0.0, overhead - spread[0]), max(0.0, overhead + spread[0])),
        bus_gbytes_per_s=Estimate(*rates),
        half_bytes=max(0.0, overhead) / per_byte,
        scatter=scatter,
    )


def read_benchmark_log(path: str | Path) -> tuple[Measurement, ...]:
    """Read what a benchmark measured.

    Parameters
    ----------
    path
        A log of nccl-tests or of perftest, unpacked when its name ends in ``.gz``.

    Returns
    -------
    tuple of Measurement

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
