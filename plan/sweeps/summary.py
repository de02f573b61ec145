"""What a sweep says: a table of all points, those that no other beats, and which parameter matters to which figure."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import topo
from plan.sweeps.spec import is_figure
from topo import Axes, Column, HeddleError, Table, chart, plural

Document = Mapping[str, Any]
UNIT = "cost.unit"
"""Figure that names the currency of all that begin with ``cost.``: the same at all points."""


def table_of_points(documents: Sequence[Document]) -> Table:
    """Return one row for each point: its parameters, its figures, and its error where it failed."""
    parameters = list(dict.fromkeys(name for document in documents for name in document["point"]))
    figures = sorted({name for document in documents for name in document.get("figures", {})})
    columns = [Column(name, [_cell(document["point"].get(name)) for document in documents]) for name in parameters]
    columns += [Column(name, [document.get("figures", {}).get(name) for document in documents]) for name in figures]
    columns.append(Column("error", [document.get("error") for document in documents]))
    return Table("points", tuple(columns))


def front(documents: Sequence[Document], better: Mapping[str, str]) -> list[int]:
    """Return the points that no other beats: in no figure worse than it, and in one better; each must be known."""
    if not better:
        return []
    sign = [-1.0 if way == "high" else 1.0 for way in better.values()]
    worth = (
        np.array([[_figure(document, name) for name in better] for document in documents]).reshape(-1, len(sign)) * sign
    )
    there = {name for document in documents for name in document.get("figures", {})}
    if silent := [name for name in better if name not in there]:
        raise HeddleError(f"better: found {silent[0]!r}; expected a figure of the points, such as {_some(documents)}")
    rows = np.flatnonzero(np.isfinite(worth).all(axis=1))
    order = rows[np.lexsort(worth[rows].T[::-1])]
    kept: list[int] = []
    for row in order.tolist():
        best = worth[kept]
        if not ((best <= worth[row]).all(axis=1) & (best < worth[row]).any(axis=1)).any():
            kept.append(row)
    return kept


def sensitivities(documents: Sequence[Document]) -> Table:
    """Return for each figure the share of its variance that each parameter explains alone.

    The correlation ratio: the variance of the means over points with equal values of a parameter by that of all. Values
    that are numbers, of which there are many, are taken in ten parts. On a full grid that is the first-order index of
    Sobol; a sample of n points with k values of a parameter has some (k - 1) / (n - 1) by chance alone.
    """
    good = [document for document in documents if "figures" in document]
    parameters = list(dict.fromkeys(name for document in good for name in document["point"]))
    figures = sorted({name for document in good for name in document["figures"]})
    groups = {name: _groups([document["point"].get(name) for document in good]) for name in parameters}
    rows: list[tuple[str, list[float | None]]] = []
    for figure in figures:
        values = [document["figures"].get(figure) for document in good]
        known = np.array([is_figure(value) for value in values], bool)
        value = np.array([float(value) if ok else 0.0 for value, ok in zip(values, known, strict=True)])[known]
        if len(value) < 2 or not value.var() > 1e-18 * float(value @ value):
            continue
        shares: list[float | None] = []
        for name in parameters:
            group = groups[name][known]
            mean = np.bincount(group, value) / np.maximum(np.bincount(group), 1)
            shares.append(float(mean[group].var() / value.var()))
        rows.append((figure, shares))
    columns = [Column(name, [shares[at] for _, shares in rows], digits=".2f") for at, name in enumerate(parameters)]
    return Table(
        "share of the variance that a parameter explains", (Column("figure", [row[0] for row in rows]), *columns)
    )


def side_by_side(documents: Sequence[Document]) -> Table:
    """Return what differs between a few points, a row each, with a column for each point."""
    rows = [(column.name, column.values) for column in table_of_points(documents).columns]
    rows = [(name, values) for name, values in rows if name == UNIT or len({*map(str, values)}) > 1]
    texts = [[f"{value:,.10g}" if is_figure(value) else value for value in values] for _, values in rows]
    points = [Column(f"point {at + 1}", [row[at] for row in texts]) for at in range(len(documents))]
    return Table("what differs between the points", (Column("", [name for name, _ in rows]), *points))


def intervals(documents: Sequence[Document], prefix: str = "") -> Table:
    """Return the mean of each figure whose name begins so, over the seeds of points that are else alike.

    ``low`` and ``high`` hold the true mean 19 times in 20: Student's t; of failures and spares, which are Poisson, the
    exact interval of Garwood, "Fiducial limits for the Poisson distribution", Biometrika 28, 1936. A figure that is
    the same for all seeds has none: nobody can tell.
    """
    from scipy import stats  # it takes long to load

    groups: dict[str, list[Document]] = {}
    for document in documents:
        if "figures" in document and "seed" in document["point"]:
            point = {name: value for name, value in document["point"].items() if name != "seed"}
            groups.setdefault(json.dumps(point, sort_keys=True), []).append(document)
    rows: list[dict[str, Any]] = []
    for said, group in groups.items():
        for figure in sorted({name for document in group for name in document["figures"]}):
            values = [value for document in group if is_figure(value := document["figures"].get(figure))]
            if len(values) < 2 or len(values) < len(group) or not figure.startswith(prefix):
                continue
            mean, count, low, high = float(np.mean(values)), len(values), None, None
            if figure.startswith(COUNTED):
                total = sum(values)
                low = float(stats.chi2.ppf(0.025, 2 * total) / 2 / count) if total else 0.0
                high = float(stats.chi2.ppf(0.975, 2 * total + 2) / 2 / count)
            elif (spread := float(np.std(values, ddof=1))) > 1e-12 * abs(mean):
                width = float(stats.t.ppf(0.975, count - 1)) * spread / count**0.5
                low, high = mean - width if min(values) < 0 else max(mean - width, 0.0), mean + width
                high = min(high, 1.0) if figure.endswith(SHARES) else high
            rows.append(json.loads(said) | {"figure": figure, "seeds": count, "mean": mean, "low": low, "high": high})
    names = list(dict.fromkeys(name for row in rows for name in row))
    names = [*(name for name in names if name not in OF_INTERVALS), *OF_INTERVALS]
    return Table("means over seeds, and where they lie 19 times in 20",
                 tuple(Column(name, [_cell(row.get(name)) for row in rows]) for name in names))  # fmt: skip


OF_INTERVALS = ("figure", "seeds", "mean", "low", "high")
SHARES = (".connected", ".fewest", ".whole")
COUNTED = ("year.failures.", "year.spares_used.")


def pictures(
    documents: Sequence[Document], better: Mapping[str, str], best: Sequence[int], shares: Table
) -> dict[str, str]:
    """Return charts as SVG by the name of their file: of the points, their `front` and their `sensitivities`."""
    found: dict[str, str] = {}
    about = plural(len(documents), "point")
    if len(shares) and len(shares.columns) > 1:
        figures, *parameters = shares.columns
        values = np.array([column.values for column in parameters], float).T
        rows, columns = values.shape
        widest = max(64.0, *(7.0 * min(len(column.name), 24) + 12 for column in parameters))
        axes = Axes(
            "share of the variance of a figure that a parameter explains", (0, columns), (rows, 0), 22.0 * rows,
            width=columns * widest, names=[(row + 0.5, str(name)) for row, name in enumerate(figures.values)],
            columns=[(at + 0.5, column.name) for at, column in enumerate(parameters)],
        )  # fmt: skip
        axes.cells(values)
        for (row, column), value in np.ndenumerate(values):
            shade = topo.palette.PAPER if value > 0.55 else topo.palette.INK
            axes.say(column + 0.5, row + 0.5, f"{value:.2f}", shade)
        found["sensitivities.svg"] = chart("effect of each parameter", about, [axes]).svg
    names = list(better)[:2]
    if len(names) == 2:
        points = np.array([[_figure(document, name) for name in names] for document in documents])
        known = np.isfinite(points).all(axis=1)
        if not known.any():
            return found
        low, high = points[known].min(axis=0), points[known].max(axis=0)
        margin = np.where(high > low, 0.05 * (high - low), np.maximum(np.abs(high), 1.0) * 0.05)
        (left, bottom), (right, top) = (low - margin).tolist(), (high + margin).tolist()
        unit = next((f"{it[UNIT]}, " for document in documents if UNIT in (it := document.get("figures", {}))), "")
        title, words = (f"{name} ({unit * name.startswith('cost.')}{better[name]} is better)"
                        for name in reversed(names))  # fmt: skip
        axes = Axes(title, (left, right), (bottom, top), 320, x_words=words, digits=",g")
        fronts = set(best)
        for point in [*np.flatnonzero(known).tolist(), *best]:
            shade, size = (topo.palette.SERIES[0], 4.5) if point in fronts else (topo.palette.PLAIN, 3.0)
            told = ", ".join(f"{name} {_cell(value)}" for name, value in documents[point]["point"].items())
            x, y = points[point].tolist()
            axes.dot(x, y, shade, told, size)
        legend = [
            ("dot", topo.palette.PLAIN, "point"),
            ("dot", topo.palette.SERIES[0], "no other point is better in all"),
        ]
        found["pareto.svg"] = chart("points of the sweep", about, [axes], legend).svg
    return found


def parquet(table: Table) -> bytes | None:
    """Return a table as Parquet; None where the extra that writes it is not installed."""
    try:
        import pyarrow as pa
        from pyarrow import parquet as pq
    except ImportError:
        return None
    arrays = {}
    for column in table.columns:
        values = list(column.values)
        kinds = {type(value) for value in values if value is not None}
        arrays[column.name] = pa.array(values if kinds <= {int, float} or len(kinds) < 2 else [
            None if value is None else str(value) for value in values])  # fmt: skip
    sink = io.BytesIO()
    pq.write_table(pa.table(arrays), sink, compression="zstd")
    return sink.getvalue()


def _groups(values: Sequence[Any]) -> NDArray[np.int64]:
    """Number the values of a parameter; many numbers in ten parts of equal size."""
    words = [json.dumps(value, sort_keys=True) for value in values]
    distinct, number = np.unique(words, return_inverse=True)
    if len(distinct) > 10 and all(isinstance(value, (int, float)) for value in values):
        rank = np.argsort(np.argsort(np.array(values, float), kind="stable"), kind="stable")
        return (rank * 10 // len(values)).astype(np.int64)
    return np.asarray(number).ravel().astype(np.int64)


def _cell(value: Any) -> Any:
    return value if value is None or isinstance(value, (int, float, str)) else json.dumps(value, sort_keys=True)


def _some(documents: Sequence[Document]) -> str:
    names = sorted({name for document in documents for name in document.get("figures", {})})
    why = next((str(document["error"]) for document in documents if "error" in document), "")
    return ", ".join(names[:8]) or f"none: all points failed, the first since {why}"


def _figure(document: Document, name: str) -> float:
    value = document.get("figures", {}).get(name)
    return float(value) if isinstance(value, (int, float)) else float("nan")
