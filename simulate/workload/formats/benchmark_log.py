"""Logs of nccl-tests and of perftest (``ib_write_bw``), as they print them.

A line of nccl-tests has size, elements, type, operation, perhaps a root, then time in microseconds, algorithm and bus
bandwidth, twice: out of place, which is taken, and in place. A line of perftest has size, iterations, the highest and
the mean bandwidth, in MB/s of 2^20 bytes unless its heading says Gb/s, and the rate of messages. All else is passed
over: launchers, libraries and people write between the lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from simulate.workload.calibration import Measurement
from topo.errors import FormatError
from topo.files.text import read_lines

SIZE, NUMBER = r"(\d{1,15})", r"(\d{1,12}(?:\.\d{1,9})?)"
NCCL_TESTS = re.compile(
    rf"\s*{SIZE}\s+\d+\s+[a-z]\w+\s+\w+\s+(?:-?\d+\s+)?{NUMBER}\s+{NUMBER}\s+{NUMBER}\s+\S+.*", re.ASCII
)
PERFTEST = re.compile(rf"\s*{SIZE}\s+\d+\s+{NUMBER}\s+{NUMBER}\s+{NUMBER}\s*", re.ASCII)
HEADING = re.compile(r"\s*#bytes\s+#iterations\s+BW peak\[(.+?)\]")
UNITS = {"MB/sec": 2.0**20, "MiB/sec": 2.0**20, "Gb/sec": 1e9 / 8}
"""Bytes a second of what perftest prints; its MB are 2^20 bytes."""


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
    >>> simulate.workload.read_benchmark_log("no-such-file")
    Traceback (most recent call last):
    topo.errors.FormatError: no-such-file: cannot be read: No such file or directory
    """
    found = tuple(parse_benchmark_log(read_lines(path)))
    if not found:
        raise FormatError("found no measurement; expected a log of nccl-tests or of ib_write_bw", str(path))
    return found


def parse_benchmark_log(lines: Iterable[str]) -> Iterable[Measurement]:
    """Yield the measurements of a log; lines of nothing and of no time are left out."""
    unit = UNITS["MB/sec"]
    for line in lines:
        text = line[:400]
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
