"""Tables and results: what every result shows in a notebook, on a terminal and in a file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import StrEnum
from html import escape
from itertools import zip_longest
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from topo.amounts import percent
from topo.errors import HeddleError, plural
from topo.files.csv import format_csv

if TYPE_CHECKING:
    import pandas as pd

SHOWN = 20
"""Rows that a notebook shows; the others are counted."""

LARGE = 1e5
"""Numbers from here on are shown as whole numbers."""


class Brief:
    """Base of what holds much: a terminal shows it in one line, such as ``<Fabric lab-20: 4 switches, 20 servers>``."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.__repr__ = Brief.__repr__  # type: ignore[method-assign]  # a dataclass keeps a repr that its class has

    _made_by: ClassVar[str] = ""
    """What returns one, for messages."""

    @classmethod
    def given(cls, value: object) -> Self:
        """Return what is one of these; HeddleError for anything else, which says what makes one.

        >>> import topo
        >>> topo.Cluster.given(topo.preset("lab-20").fabric)
        Traceback (most recent call last):
        topo.errors.HeddleError: found <Fabric lab-20: 4 switches, 20 servers>; expected a Cluster, as ...
        """
        if isinstance(value, cls):
            return value
        found = repr(value) if isinstance(value, Brief) else f"a value of type {type(value).__name__}"
        raise HeddleError(f"found {found}; expected a {cls.__name__}, as {cls._made_by} returns")

    def _brief(self) -> str:
        """Say what it holds in a few words."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._brief()}>"


@dataclass(frozen=True)
class Column(Brief):
    """One column of a table."""

    name: str
    """Heading, such as ``mean load``."""
    values: Sequence[Any]
    """One value a row; None where it is unknown."""
    unit: str = ""
    """Unit of the values, such as ``GB/s``; shown behind the heading."""
    digits: str = ""
    """Format of the values for people, as `format` takes it: ``.3f``; by default integers are grouped in thousands.
    ``time`` shows seconds in the unit that suits each value, ``share`` per cent of 1."""

    def _brief(self) -> str:
        return f"{self.heading}: {plural(len(self.values), 'value')}"

    @property
    def heading(self) -> str:
        """Name and unit: ``mean load (%)``."""
        return f"{self.name} ({self.unit})" if self.unit and self.digits != "time" else self.name

    @property
    def is_number(self) -> bool:
        """Whether the values are numbers, which are set to the right."""
        return any(_is_number(value) for value in self.values)

    def text(self, row: int) -> str:
        """Return a value as people read it; empty where it is unknown."""
        value = self.values[row]
        if value is None:
            return ""
        if self.digits == "time":
            return format_seconds(value)
        if self.digits == "share":
            return percent(value)
        if self.digits and _is_number(value):
            text = format(value, self.digits)
            return text if text.strip("-0.,") else text.removeprefix("-")  # what rounds to 0 has no sign
        if not _is_number(value):
            return str(value)
        if isinstance(value, (int, np.integer)):
            return f"{value:,}"
        return f"{value:,.0f}" if abs(float(value)) >= LARGE else f"{value:g}"


@dataclass(frozen=True)
class Table(Brief):
    """Columns of equal length under a title.

    Examples
    --------
    >>> from topo.table import Column, Table
    >>> table = Table("links", (Column("class", ["leaf", "spine"]), Column("rate", [200.0, None], "Gb/s")))
    >>> print(table.to_csv(), end="")
    class,rate (Gb/s)
    leaf,200.0
    spine,
    >>> list(table.rows())
    [('leaf', 200.0), ('spine', None)]
    """

    title: str
    columns: tuple[Column, ...]

    @classmethod
    def of(cls, title: str, rows: Iterable[object], *columns: str | tuple[Any, ...]) -> Table:
        """Return the table of some objects, one a row.

        A column is an attribute of the objects, or a function of one. In a tuple the heading follows, if it is not the
        attribute, then unit and digits, as `Column` takes them.

        >>> from topo.table import Table
        >>> powers = (1, 10, 1000)
        >>> list(Table.of("numbers", powers, ("real", "number"), (lambda n: f"{n:,}", "text")).rows())
        [(1, '1'), (10, '10'), (1000, '1,000')]
        """
        objects = list(rows)
        made = []
        for column in columns:
            value, *heading = (column,) if isinstance(column, str) else column
            read: Callable[[object], object] = attrgetter(value) if isinstance(value, str) else value
            name, *format_ = heading or [value]
            made.append(Column(name, [read(row) for row in objects], *format_))
        return cls(title, tuple(made))

    @classmethod
    def of_rows(
        cls,
        title: str,
        names: Sequence[str],
        rows: Iterable[Sequence[Any]],
        digits: Sequence[str] = (),
        units: Sequence[str] = (),
    ) -> Table:
        """Return the table of some rows, with the names of its columns and, if given, their `Column.digits` and units.

        >>> from topo.table import Table
        >>> Table.of_rows("moved", ("node", "to"), [("leaf0", "R01-02 U40")])
        <Table moved: 1 row of node, to>
        """
        values = list(zip(*rows, strict=True)) or [()] * len(names)
        return cls(title, tuple(Column(*column) for column in zip_longest(names, values, units, digits, fillvalue="")))

    def __post_init__(self) -> None:
        if len({len(column.values) for column in self.columns}) > 1:
            raise ValueError(f"table {self.title!r} has columns of unequal length")

    def _brief(self) -> str:
        return f"{self.title}: {plural(len(self), 'row')} of {', '.join(column.heading for column in self.columns)}"

    def __len__(self) -> int:
        return len(self.columns[0].values) if self.columns else 0

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield the values of each row; None is unknown."""
        return zip(*([plain(value) for value in column.values] for column in self.columns), strict=True)

    def texts(self) -> Iterator[tuple[str, ...]]:
        """Yield each row as people read it."""
        return (tuple(column.text(row) for column in self.columns) for row in range(len(self)))

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the columns as plain lists by heading, ready for JSON."""
        return {column.heading: [plain(value) for value in column.values] for column in self.columns}

    def to_csv(self) -> str:
        """Return the table as CSV, with values in full precision and one header line."""
        return format_csv([column.heading for column in self.columns], self.rows())

    def to_pandas(self) -> pd.DataFrame:
        """Return the table as a pandas data frame, which the extra ``pandas`` installs."""
        try:
            import pandas as pd
        except ImportError:
            raise HeddleError("data frames need pandas: pip install 'heddle-fabric[pandas]'") from None
        return pd.DataFrame(self.to_dict())

    def _repr_html_(self) -> str:
        """Return the table as a notebook shows it."""
        align = ["right" if column.is_number else "left" for column in self.columns]

        def row(tag: str, cells: Sequence[str]) -> str:
            pairs = zip(cells, align, strict=True)
            return "".join(f'<{tag} style="text-align:{side}">{escape(cell)}</{tag}>' for cell, side in pairs)

        head = row("th", [column.heading for column in self.columns])
        body = "".join(f"<tr>{row('td', cells)}</tr>" for cells, _ in zip(self.texts(), range(SHOWN), strict=False))
        rest = f"<p>{len(self) - SHOWN:,} more rows</p>" if len(self) > SHOWN else ""
        caption = f'<caption style="text-align:left">{escape(self.title)}</caption>'
        return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{rest}"


class Record:
    """Base of dataclasses whose fields are plain values, or have such."""

    _derived: ClassVar[tuple[str, ...]] = ()
    """Properties that `to_dict` returns behind the fields."""

    def to_dict(self) -> Any:
        """Return the fields as plain values, ready for JSON.

        >>> import topo
        >>> topo.preset("lab-20").counts.to_dict()["switches"]
        4
        """
        names = [field.name for field in fields(self)]  # type: ignore[arg-type]  # subclasses are dataclasses
        return {name: plain(getattr(self, name)) for name in (*names, *self._derived)}


class Shown(Brief, Record):
    """Base of results: a notebook shows each as its tables."""

    def _brief(self) -> str:
        return f"{self.table.title}: {plural(len(self.table), 'row')}"

    @property
    def table(self) -> Table:
        """The result as a table."""
        raise NotImplementedError

    def _shown(self) -> tuple[Table, ...]:
        """Return the tables that a notebook shows."""
        return (self.table,)

    def _repr_html_(self) -> str:
        """Return the result as a notebook shows it."""
        return "".join(table._repr_html_() for table in self._shown())


def format_seconds(value: float) -> str:
    """Return a time in the unit that suits it.

    Examples
    --------
    >>> from topo.table import format_seconds
    >>> format_seconds(0.00125), format_seconds(3.0), format_seconds(0.0)
    ('1.25 ms', '3 s', '0')
    """
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if value * scale >= 1:
            return f"{value * scale:.4g} {unit}"
    return f"{value * 1e9:.4g} ns" if value else "0"


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)


def plain(value: Any) -> Any:
    """Return a value as JSON has it: results, dataclasses and mappings as objects, arrays and tuples as lists.

    >>> import numpy as np
    >>> plain({"load": np.array([1, 2]), "mean": np.float64(1.5), "ends": ("leaf0", None)})
    {'load': [1, 2], 'mean': 1.5, 'ends': ['leaf0', None]}
    """
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if isinstance(value, StrEnum):
        return value.value
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if hasattr(value, "_asdict"):  # a named tuple
        value = value._asdict()
    if hasattr(value, "model_dump"):  # a model of a spec
        return value.model_dump(mode="json")
    if isinstance(value, Mapping):
        return {key: plain(one) for key, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, (list, tuple)) else value
