"""Quantities written with their unit: ``200 Gb/s``, ``3 m``, ``2.5 kW``, ``186 MiB``.

Each type reads such text into a plain number in the unit of its name, and is written back as text. A number without a
unit is refused, and so is a unit of another dimension. Capitals matter, as they do in the field: ``Gb`` is gigabits,
``GB`` gigabytes. Decimal prefixes are SI, binary ones (``KiB``) those of IEC 80000-13.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from topo.spec.base import mismatch


@dataclass(frozen=True)
class Dimension:
    """A kind of quantity, and the units that it may be written in."""

    name: str
    example: str
    units: dict[str, Fraction]
    """Size of each unit in the first one, in which numbers are kept; sizes are exact."""
    whole: bool = False
    """Whether only whole numbers of the first unit make sense."""
    written: tuple[str, ...] = ()
    """Units to choose from when writing."""

    @property
    def base(self) -> str:
        """The unit in which numbers are kept."""
        return next(iter(self.units))

    @property
    def pattern(self) -> str:
        """Regular expression of the text, for editors."""
        return rf"^\d+(\.\d+)? ?({'|'.join(map(re.escape, self.units))})$"


def _scale(unit: str, prefixes: str, step: int = 1000, infix: str = "") -> dict[str, Fraction]:
    return {f"{prefix}{infix}{unit}": Fraction(step) ** (power + 1) for power, prefix in enumerate(prefixes)}


POWER = Dimension("power", "2.5 kW", {"W": Fraction(1)} | _scale("W", "kM"), written=("W", "kW", "MW"))
LENGTH = Dimension(
    "length", "3 m", {"m": Fraction(1), "cm": Fraction(1, 100), "km": Fraction(1000)}, written=("m", "cm")
)
TIME = Dimension(
    "time",
    "90 ns",
    {"s": Fraction(1)}
    | {unit: Fraction(1, 1000**power) for power, unit in enumerate(("ms", "us", "ns"), start=1)}
    | {"min": Fraction(60), "h": Fraction(3600), "d": Fraction(86_400)},
    written=("s", "ms", "us", "ns"),
)
BYTES = Dimension(
    "size",
    "186 MiB",
    {"B": Fraction(1)} | _scale("B", "kMGTP") | _scale("B", "KMGTP", 1024, "i"),
    whole=True,
    written=("B", "kB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "TiB"),
)
RATE = Dimension(
    "rate",
    "200 Gb/s",
    {"Gb/s": Fraction(1), "Mb/s": Fraction(1, 1000), "Tb/s": Fraction(1000)}
    | {f"{unit}/s": size * 8 / 10**9 for unit, size in BYTES.units.items() if unit not in ("B", "PB", "PiB", "KiB")},
    written=("Gb/s",),
)

QUANTITY = re.compile(r"(\d{1,18}(?:\.\d{1,18})?) ?([A-Za-z/]{1,8})", re.ASCII)


def parse_quantity(text: str, dimension: Dimension) -> float:
    """Read a quantity into a number of the dimension's base unit; ValueError with what was expected."""
    exact = _exact(text, dimension)
    if exact is None:
        raise ValueError(f"a {dimension.name} in {', '.join(dimension.units)}, such as {dimension.example}")
    if dimension.whole and exact.denominator != 1:
        raise ValueError(f"a whole number of {dimension.base}, such as {dimension.example}")
    return int(exact) if dimension.whole else float(exact)


def format_quantity(value: float, dimension: Dimension) -> str:
    """Write a quantity in the unit that takes the fewest digits; `parse_quantity` gives back the same number.

    ValueError if no text within the bounds of `parse_quantity` stands for the number.
    """
    texts = [f"{Decimal(repr(value)).normalize():f} {dimension.base}"]
    texts += [f"{float(Fraction(value) / dimension.units[unit]):.12g} {unit}" for unit in dimension.written]
    exact = [text for text in texts if (size := _exact(text, dimension)) is not None and float(size) == value]
    if not exact:
        raise ValueError(f"{value!r} {dimension.base} cannot be written exactly")
    return min(exact, key=lambda text: (text.startswith("0."), sum(map(str.isdigit, text))))


def _exact(text: str, dimension: Dimension) -> Fraction | None:
    match = QUANTITY.fullmatch(text)
    return Fraction(match[1]) * dimension.units[match[2]] if match and match[2] in dimension.units else None


def _type(dimension: Dimension) -> tuple[BeforeValidator, PlainSerializer, WithJsonSchema]:
    expected = f"a {dimension.name} with its unit, such as {dimension.example}"

    def read(value: Any) -> float:
        # The serialised form is text, so a number here is one that somebody wrote without a unit.
        if isinstance(value, bool) or not isinstance(value, str):
            raise mismatch(expected)
        try:
            return parse_quantity(value, dimension)
        except ValueError as error:
            raise mismatch(str(error)) from None

    schema = {"type": "string", "pattern": dimension.pattern, "examples": [dimension.example]}
    write = PlainSerializer(lambda value: format_quantity(value, dimension), when_used="json")
    return BeforeValidator(read), write, WithJsonSchema(schema)


Watts = Annotated[float, *_type(POWER)]
"""Power in watts, written ``2.5 kW``."""
Metres = Annotated[float, *_type(LENGTH)]
"""Length in metres, written ``3 m``."""
Seconds = Annotated[float, *_type(TIME)]
"""Time in seconds, written ``90 ns``."""
GigabitsPerSecond = Annotated[float, *_type(RATE)]
"""Rate in gigabits a second, written ``200 Gb/s`` or ``25 GB/s``."""
Bytes = Annotated[int, *_type(BYTES)]
"""Size in bytes, written ``186 MiB``."""
