from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, ValidationError

from topo.spec.units import (
    BYTES,
    LENGTH,
    POWER,
    RATE,
    TIME,
    Bytes,
    Dimension,
    GigabitsPerSecond,
    Metres,
    Seconds,
    Watts,
    format_quantity,
    parse_quantity,
)

DIMENSIONS = (POWER, LENGTH, TIME, BYTES, RATE)


class Everything(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    power: Watts = 1.0
    length: Metres = 1.0
    time: Seconds = 1.0
    rate: GigabitsPerSecond = 1.0
    size: Bytes = 1


@pytest.mark.parametrize(
    ("text", "dimension", "value"),
    [
        ("200 Gb/s", RATE, 200.0),
        ("200Gb/s", RATE, 200.0),
        ("25 GB/s", RATE, 200.0),
        ("37.5 GB/s", RATE, 300.0),
        ("9 GiB/s", RATE, 9 * 2**30 * 8 / 1e9),
        ("1.6 Tb/s", RATE, 1600.0),
        ("3 m", LENGTH, 3.0),
        ("50 cm", LENGTH, 0.5),
        ("2.5 kW", POWER, 2500.0),
        ("4 MW", POWER, 4e6),
        ("90 ns", TIME, 90e-9),
        ("5 min", TIME, 300.0),
        ("186 MiB", BYTES, 186 * 2**20),
        ("15.36 TB", BYTES, 15_360_000_000_000),
    ],
    ids=str,
)
def test_quantities(text: str, dimension: Dimension, value: float) -> None:
    assert parse_quantity(text, dimension) == value


@pytest.mark.parametrize(
    "text",
    [
        "4",
        "W",
        "4 m",
        "4 mw",
        "-4 W",
        "4  W",
        " 4 W",
        "4 W ",
        "4e3 W",
        "1,5 kW",
        "nan W",
        "inf W",
        "٤ W",
        "4 w",
        "",
        "9" * 99,
    ],
)
def test_what_is_no_power(text: str) -> None:
    with pytest.raises(ValueError, match=r"a power in W, kW, MW, such as 2\.5 kW"):
        parse_quantity(text, POWER)


def test_bytes_are_whole() -> None:
    with pytest.raises(ValueError, match="a whole number of B"):
        parse_quantity("0.3 B", BYTES)


@given(
    st.sampled_from(DIMENSIONS),
    st.integers(0, 10**6),
    st.integers(0, 999),
    st.integers(0, 100),
)
def test_what_is_written_reads_the_same(dimension: Dimension, whole: int, thousandths: int, unit: int) -> None:
    units = list(dimension.units)
    text = f"{whole}.{thousandths:03d} {units[unit % len(units)]}"
    exact = (Fraction(whole) + Fraction(thousandths, 1000)) * dimension.units[units[unit % len(units)]]
    if dimension.whole and exact.denominator != 1:
        return
    value = parse_quantity(text, dimension)
    assert value == float(exact)
    assert parse_quantity(format_quantity(value, dimension), dimension) == value


@pytest.mark.parametrize(
    ("value", "dimension", "text"),
    [
        (4e6, POWER, "4 MW"),
        (2500.0, POWER, "2.5 kW"),
        (100.0, POWER, "100 W"),
        (0.0, POWER, "0 W"),
        (90e-9, TIME, "90 ns"),
        (200.0, RATE, "200 Gb/s"),
        (186 * 2**20, BYTES, "186 MiB"),
        (0.5, LENGTH, "50 cm"),
    ],
    ids=str,
)
def test_quantities_are_written_to_be_read(value: float, dimension: Dimension, text: str) -> None:
    assert format_quantity(value, dimension) == text


@pytest.mark.parametrize("value", [4, 4.0, True, None, ["4 W"], "4", "4 m"])
def test_fields_want_text_with_the_unit(value: Any) -> None:
    with pytest.raises(ValidationError, match=r"a power .* such as 2\.5 kW"):
        Everything.model_validate({"power": value})


def test_models_are_written_as_they_are_read() -> None:
    written = {"power": "2.5 kW", "length": "3 m", "time": "90 ns", "rate": "200 Gb/s", "size": "186 MiB"}
    assert Everything.model_validate(written).model_dump(mode="json") == written


def test_schema_gives_a_pattern_that_matches_the_example() -> None:
    import re

    for schema in Everything.model_json_schema()["properties"].values():
        assert schema["type"] == "string"
        for example in schema["examples"]:
            assert re.search(schema["pattern"], example)
