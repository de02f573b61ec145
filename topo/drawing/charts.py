"""Charts in the language of the drawings: curves, bars, points and heat maps over scales, as plain SVG."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from topo import palette
from topo.drawing import HEAD, LEAST_WIDTH, MARGIN, Drawing, frame
from topo.drawing.scene import LINE, short, text_width
from topo.drawing.svg import WIDER, Mark, element, format_marks, text, told
from topo.errors import plural
from topo.table import Brief

TICKS = 7
"""Numbers along a scale, or somewhat fewer."""
GAP = 20.0
"""Between charts that stand side by side, and between the legend and what is above it."""


@dataclass
class Axes(Brief):
    """A rectangle with a scale on each side; what is put into it is in the units of these scales."""

    title: str
    x: tuple[float, float]
    y: tuple[float, float]
    """Left and right, bottom and top; a bottom above the top turns the scale over."""
    height: float
    width: float = 640.0
    x_words: str | None = ""
    """What the numbers below are; None leaves them out, as another chart below has them."""
    names: Sequence[tuple[float, str]] | None = None
    """Words beside heights in place of numbers."""
    columns: Sequence[tuple[float, str]] | None = None
    """Words below places in place of numbers."""
    digits: str = "g"
    """How numbers on the left are written."""
    inside: list[str] = field(default_factory=list)

    def _brief(self) -> str:
        return f"{self.title!r}: {plural(len(self.inside), 'mark')}"

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Return where a point is on the picture."""
        across = (x - self.x[0]) / ((self.x[1] - self.x[0]) or 1.0)
        up = (y - self.y[0]) / ((self.y[1] - self.y[0]) or 1.0)
        return across * self.width, (1 - up) * self.height

    def stairs(
        self, edges: NDArray[np.float64], values: NDArray[np.float64], shade: str, *, words: str, dashed: bool = False
    ) -> None:
        """Add a curve that has each value between two edges; (n + 1,) and (n,)."""
        step = np.flatnonzero(np.diff(values, prepend=np.nan) != 0).tolist()
        path = f"M{self.at(edges[0], 0)[0]:.1f} "
        for low, high in zip(step, [*step[1:], len(values)], strict=True):
            (_, y), (right, _) = self.at(edges[low], values[low]), self.at(edges[high], 0)
            path += f"{'V' if low else ''}{y:.1f}H{right:.1f}"
        dashes = {"stroke_dasharray": "5 3"} if dashed else {}
        line = element("path", class_="k", d=path, stroke=shade, stroke_width=1.5, **dashes)
        self.inside.append(told(words, line))

    def bar(self, begin: float, end: float, row: float, shade: str, words: str) -> None:
        """Add a bar from one place to another, as high as a unit of the scale on the left."""
        (left, y), (right, _) = self.at(begin, row), self.at(end, row)
        high = 0.7 * abs(self.height / (self.y[1] - self.y[0]))
        size = {"x": left, "y": y - high / 2, "width": max(right - left, 1.0), "height": high}
        self.inside.append(told(words, element("rect", **size, fill=shade, rx=2)))

    def dot(self, x: float, y: float, shade: str, words: str, radius: float = 3.0) -> None:
        """Add a point."""
        left, top = self.at(x, y)
        self.inside.append(told(words, element("circle", cx=left, cy=top, r=radius, fill=shade)))

    def cells(self, values: NDArray[np.float64]) -> None:
        """Fill the rectangle with cells from the top, a colour of `palette.HEAT` each, from 0 to 1; NaN is paper."""
        size = {"width": self.width, "height": self.height}
        rows, columns = values.shape
        # Viewers smooth what they enlarge: with two pixels a unit there is nothing left to smooth.
        pixels = shaded(values).repeat(int(2 * self.height / rows) + 1, axis=0)
        pixels = pixels.repeat(int(2 * self.width / columns) + 1, axis=1)
        image = base64.b64encode(_png(pixels)).decode()
        href = f"data:image/png;base64,{image}"
        self.inside.append(element("image", **size, preserveAspectRatio="none", class_="p", href=href))

    def say(self, x: float, y: float, words: str, shade: str) -> None:
        """Add words around a point."""
        left, top = self.at(x, y)
        self.inside.append(text(left, top + 3.5, words, "m", style=f"fill:{shade}"))

    @property
    def left(self) -> float:
        """Room for the words on the left."""
        return WIDER * max((text_width(words, 11) for _, words in self._up()), default=0.0) + 10

    @property
    def room(self) -> tuple[float, float]:
        """Width and height with all words."""
        below = 0.0 if self.x_words is None else 18.0 + LINE * bool(self.x_words)
        across = max(self.width, WIDER * text_width(self.title, 12))
        return self.left + across, self.height + 22 + below

    def svg(self) -> str:
        """Return it as SVG elements, its upper left corner at (0, 0)."""
        lines, words = [], [text(self.left, 12, self.title, "z")]
        for value, label in self._up():
            y = self.at(self.x[0], value)[1]
            if self.names is None:
                lines.append(element("path", class_="k q", d=f"M0 {y:.1f}h{self.width:g}"))
            words.append(text(self.left - 6, y + 26, label, "e l"))
        for value, label in self.columns or ():
            x = self.left + self.at(value, self.y[0])[0]
            words.append(text(x, self.height + 38, short(label), "m l"))
        for value in [] if self.x_words is None or self.columns is not None else ticks(*self.x):
            x, y = self.at(value, self.y[0])
            lines.append(element("path", class_="k q", d=f"M{x:.1f} {self.height:.1f}v4"))
            words.append(text(self.left + x, self.height + 38, f"{value:,g}", "m l"))
        if self.x_words:
            words.append(text(self.left + self.width, self.height + 38 + LINE, self.x_words, "e l"))
        box = element("rect", class_="k q", width=self.width, height=self.height)
        moved = element("g", *lines, box, *self.inside, transform=f"translate({self.left:.1f} 22)")
        return element("g", moved, *words)

    def _up(self) -> list[tuple[float, str]]:
        if self.names is not None:
            return [(at, short(words)) for at, words in self.names]
        return [(value, f"{value:{self.digits}}") for value in ticks(*self.y)]


def ticks(low: float, high: float, most: int = TICKS) -> list[float]:
    """Return round numbers between two, ends included.

    >>> from topo.drawing.charts import ticks
    >>> ticks(0, 17)
    [0.0, 5.0, 10.0, 15.0]
    """
    low, high = min(low, high), max(low, high)
    if not high > low:
        return [low]
    rough = (high - low) / most
    size = 10.0 ** np.floor(np.log10(rough))
    step = size * next(nice for nice in (1, 2, 5, 10) if nice * size >= rough * (1 - 1e-9))
    first, last = np.ceil(low / step - 1e-9), np.floor(high / step + 1e-9)
    return [round(float(number * step), 12) + 0.0 for number in np.arange(first, last + 1)]


def chart(
    name: str,
    about: str,
    axes: Sequence[Axes],
    legend: Sequence[Mark] = (),
    *,
    beside: bool = False,
    bare: bool = False,
) -> Drawing:
    """Put charts below one another, or beside, with a title and a legend.

    Parameters
    ----------
    name, about : str
        What it shows, and of which cluster.
    axes : sequence of Axes
        The charts.
    legend : sequence of (str, str, str)
        Shape (``line``, ``dashes``, ``dot`` or ``box``), colour and words.
    beside : bool
        Whether they stand side by side.
    bare : bool
        Whether it is part of a page that has `palette.STYLE`: without title and margin.

    Examples
    --------
    >>> import topo
    >>> axes = topo.Axes("price and bisection", x=(0, 10), y=(0, 1), height=200, x_words="million USD")
    >>> axes.dot(4, 0.5, topo.palette.SERIES[0], "half the spines")
    >>> "half the spines" in topo.chart("plans", "of 16 nodes", [axes]).svg
    True
    """
    edge, y = (0.0, 0.0) if bare else (MARGIN, MARGIN + HEAD)
    x, parts, width, bottom = edge, [], 0.0, y
    widest = 0.0 if beside else max((one.left for one in axes), default=0.0)
    for one in axes:
        shift = 0.0 if beside else widest - one.left  # left edges of rectangles are in line
        parts.append(element("g", one.svg(), transform=f"translate({x + shift:.1f} {y:.1f})"))
        wide, high = one.room
        width, bottom = max(width, x - edge + shift + wide), max(bottom, y + high)
        x, y = (x + wide + GAP, y) if beside else (x, y + high + 6)
    width = max(width, LEAST_WIDTH * (not bare)) + 12
    marks, tall = format_marks(edge, bottom + GAP / 2, width, [legend]) if legend else ("", 0.0)
    return frame(name, about, [*parts, marks], width, bottom + GAP / 2 + tall, bare=bare)


def shaded(values: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Return (..., 3) colours of values from 0 to 1; NaN is the colour of paper."""
    steps = np.array([[int(shade[at : at + 2], 16) for at in (1, 3, 5)] for shade in palette.HEAT], float)
    known = np.nan_to_num(np.clip(values, 0, 1)) * (len(steps) - 1)
    low = np.minimum(known.astype(int), len(steps) - 2)
    part = (known - low)[..., None]
    mixed = steps[low] * (1 - part) + steps[low + 1] * part
    return np.where(np.isnan(values)[..., None], 255, mixed.round()).astype(np.uint8)


def shades(values: NDArray[np.float64]) -> list[str]:
    """Return the colour of each value from 0 to 1 as SVG has it."""
    return ["#" + bytes(row).hex() for row in shaded(values).reshape(-1, 3)]


def heat_legend(words: str) -> list[Mark]:
    """Return what the colours of cells mean: ``0 %`` to ``100 %``, and no colour at all."""
    parts = np.linspace(0, 1, 6)
    marks = [("box", shade, f"{part:.0%}") for part, shade in zip(parts.tolist(), shades(parts), strict=True)]
    return [*marks, ("", "", words)]


def _png(pixels: NDArray[np.uint8]) -> bytes:
    """Return (rows, columns, 3) pixels as PNG (ISO/IEC 15948): no filter, no date."""
    rows, columns, _ = pixels.shape
    plain = np.concatenate([np.zeros((rows, 1), np.uint8), pixels.reshape(rows, -1)], axis=1).tobytes()

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", columns, rows, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(plain, 9)) + chunk(b"IEND", b"")
