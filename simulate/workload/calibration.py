"""What a log of a benchmark says of machines: the time of an operation without bytes, and the rate without end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import t as student

from topo.errors import HeddleError, plural
from topo.table import Column, Shown, Table

CONFIDENCE = 0.95


class Measurement(NamedTuple):
    """One line of a log."""

    size_bytes: float
    time_s: float
    bus_factor: float = 1.0
    """Bus bandwidth divided by algorithm bandwidth."""


class Estimate(NamedTuple):
    """A figure, and the interval that holds it in 95 of 100 cases."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Calibration(Shown):
    """Hockney's line through what was measured: ``time = overhead + size / rate``.

    Hockney, "The communication challenge for MPP", 1994.
    """

    source: str
    measurements: int
    overhead_s: Estimate
    """Time of an operation that moves nothing."""
    bus_gbytes_per_s: Estimate
    """Bus bandwidth of an operation without end."""
    half_bytes: float
    """Size at which half of that rate is reached."""
    scatter: float
    """Standard deviation of the times around the line, as a part of them."""

    def _brief(self) -> str:
        return f"{self.source}: {self.bus_gbytes_per_s.value:.4g} GB/s after {self.overhead_s.value * 1e6:.4g} us"

    def _shown(self) -> tuple[Table, ...]:
        return (self.table,)

    @property
    def table(self) -> Table:
        """Each figure with its interval."""
        rows = [
            ("an operation without bytes", *(1e6 * value for value in self.overhead_s), "us"),
            ("bus bandwidth without end", *self.bus_gbytes_per_s, "GB/s"),
            ("size at half of that", self.half_bytes / 2**10, None, None, "KiB"),
            ("scatter around the line", 100 * self.scatter, None, None, "%"),
        ]
        what, value, low, high, unit = zip(*rows, strict=True)
        figures = (Column(name, part, digits=",.3f") for name, part in (("value", value), ("from", low), ("to", high)))
        title = f"calibrated on {plural(self.measurements, 'line')} of {self.source}"
        return Table(title, (Column("figure", what), *figures, Column("unit", unit)))

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain values, ready for JSON."""
        figures = {name: getattr(self, name)._asdict() for name in ("overhead_s", "bus_gbytes_per_s")}
        return {**asdict(self), **figures}


def calibrate(measurements: Sequence[Measurement], source: str = "measurements") -> Calibration:
    """Fit a line through measured times, each weighted by its own size, as timers err by parts.

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
    rates = [largest / slope / 1e9 for slope in (per_byte, per_byte + spread[1], per_byte - spread[1])]
    return Calibration(
        source=source,
        measurements=len(rows),
        overhead_s=Estimate(max(0.0, overhead), max(0.0, overhead - spread[0]), max(0.0, overhead + spread[0])),
        bus_gbytes_per_s=Estimate(*rates),
        half_bytes=max(0.0, overhead) / per_byte,
        scatter=scatter,
    )
