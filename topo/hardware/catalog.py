"""The catalog: every model of hardware that a plan can name, read from tables.

Tables are read in order: those that ship, then those of the user, which add models and override others cell by cell.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar, get_args, get_type_hints

from topo.errors import Finding, SpecError, did_you_mean
from topo.formats.catalog_csv import CONVERTERS, Row, Source, read_table
from topo.hardware.models import CableModel, HardwareModel, HcaModel, NodeModel, Price, PricePoint, SwitchModel

KINDS: dict[str, type[HardwareModel]] = {
    "switches": SwitchModel,
    "nodes": NodeModel,
    "hcas": HcaModel,
    "cables": CableModel,
}
"""Model class of each table of a catalog folder; two more tables hold figures with a source each, and prices."""
FIGURE_COLUMNS = ("figure", "value")
PRICE_COLUMNS = ("currency", "low", "high", "note")
CHOICES = {
    "protocol": ("infiniband", "ethernet"),
    "kind": ("DAC", "AOC", "optic", "DAC-splitter", "AOC-splitter"),
}

Model = TypeVar("Model", bound=HardwareModel)


@dataclass(frozen=True)
class Catalog:
    """All models by name; a name belongs to one model only."""

    switches: Mapping[str, SwitchModel]
    nodes: Mapping[str, NodeModel]
    hcas: Mapping[str, HcaModel]
    cables: Mapping[str, CableModel]
    prices: Mapping[str, Mapping[str, Price]]
    """Price of a model by currency."""

    def switch(self, name: str) -> SwitchModel:
        """Return the switch of this name, or raise a SpecError with the nearest one."""
        return _look_up(self.switches, name, "switch")

    def node(self, name: str) -> NodeModel:
        """Return the server of this name, or raise a SpecError with the nearest one."""
        return _look_up(self.nodes, name, "node")

    def hca(self, name: str) -> HcaModel:
        """Return the adapter of this name, or raise a SpecError with the nearest one."""
        return _look_up(self.hcas, name, "adapter")

    def cable(self, name: str) -> CableModel:
        """Return the cable of this name, or raise a SpecError with the nearest one."""
        return _look_up(self.cables, name, "cable")

    def price(self, name: str, currency: str) -> Price | None:
        """Return the price of a model in a currency, or None where nobody gives one."""
        return self.prices.get(name, {}).get(currency)


def config_root() -> Path:
    """Return the folder of what ships beside the code: presets, and the catalog in ``catalog/``.

    An installed wheel holds it inside this package; a checkout, installed editable or not, beside it.
    """
    package = Path(__file__).parents[1]
    packaged = package / "configs"
    return packaged if packaged.is_dir() else package.parent / "configs"


def load_catalog(folders: Sequence[Path] = ()) -> Catalog:
    """Read the catalog that ships, then the tables of each folder in order.

    A folder holds any of ``switches.csv``, ``nodes.csv``, ``hcas.csv``, ``cables.csv``, ``figures.csv`` and
    ``prices.csv``. Its cells override those that were read before; its prices of a model replace all earlier ones.

    Raises
    ------
    SpecError
        With every finding, at its file, line and column.
    """
    loading = _Loading()
    loading.add_folder(config_root() / "catalog", "configs/catalog")
    for folder in folders:
        loading.add_folder(folder, str(folder))
    return loading.finish()


@cache
def _field_types(table: str) -> dict[str, type]:
    """Type of each field that a table may fill, without its None."""
    kind = KINDS[table]
    hints = get_type_hints(kind)
    result = {}
    for item in dataclasses.fields(kind):
        if item.name not in ("name", "sources"):
            parts = [part for part in get_args(hints[item.name]) if part is not type(None)]
            result[item.name] = parts[0] if parts else hints[item.name]
    return result


class _Loading:
    """What has been read so far, and what is wrong with it."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        # Table, values and sources of each model.
        self.models: dict[str, tuple[str, dict[str, Any], dict[str, Source]]] = {}
        self.first_row: dict[str, str] = {}
        self.unreadable: set[tuple[str, str]] = set()
        self.prices: dict[str, dict[str, list[PricePoint]]] = {}

    def add_folder(self, folder: Path, shown: str) -> None:
        """Read the tables of a folder; ``shown`` names it in messages and sources."""
        known = [f"{table}.csv" for table in (*KINDS, "figures", "prices")]
        try:
            present = sorted(path.name for path in folder.iterdir() if path.suffix == ".csv")
        except OSError as error:
            reason = error.strerror or str(error)
            self.findings.append(Finding(shown, f"no readable folder ({reason})", "a folder of catalog tables"))
            return
        if not present:
            self.refuse(shown, "a folder without tables", "one with any of " + ", ".join(known))
        for name in present:
            if name not in known:
                self.refuse(f"{shown}/{name}", f"the table {name}", "one of " + ", ".join(known), name, known)
        for table in KINDS:
            rows = self.read(folder / f"{table}.csv", shown, present, tuple(_field_types(table)))
            seen: set[str] = set()
            for row in rows:
                if row.model in seen:
                    self.refuse(row.source.where, f"the model {row.model} a second time", "one row a model")
                elif self.models.get(row.model, (table,))[0] != table:
                    other = self.models[row.model][0]
                    self.refuse(row.source.where, f"the model {row.model}", f"a name that is not in {other}.csv")
                else:
                    seen.add(row.model)
                    self.models.setdefault(row.model, (table, {}, {}))
                    self.first_row.setdefault(row.model, row.source.where)
                    for column, text in row.cells.items():
                        self.fill(row, column, text)
        self.add_figures(self.read(folder / "figures.csv", shown, present, FIGURE_COLUMNS))
        self.add_prices(self.read(folder / "prices.csv", shown, present, PRICE_COLUMNS))

    def read(self, path: Path, shown: str, present: Sequence[str], columns: Sequence[str]) -> list[Row]:
        if path.name not in present:
            return []
        try:
            return read_table(path, columns, f"{shown}/{path.name}")
        except SpecError as error:
            self.findings += error.findings
            return []

    def fill(self, row: Row, column: str, text: str) -> None:
        """Set one value of a model."""
        table, values, sources = self.models[row.model]
        try:
            value = CONVERTERS[_field_types(table)[column]](text)
            if column in CHOICES and text not in CHOICES[column]:
                raise ValueError("one of " + ", ".join(CHOICES[column]))
        except ValueError as error:
            self.refuse(f"{row.source.where}, column {column}", f'"{text[:60]}" for {row.model}', str(error))
            self.unreadable.add((row.model, column))
            return
        values[column] = value
        sources[column] = row.source

    def add_figures(self, rows: Sequence[Row]) -> None:
        seen: set[tuple[str, str]] = set()
        for row in rows:
            where, figure = row.source.where, row.cells.get("figure", "")
            if row.model not in self.models:
                self.refuse(where, f"the model {row.model}", "a model of the catalog", row.model, self.models)
                continue
            fields = _field_types(self.models[row.model][0])
            if figure not in fields:
                self.refuse(where, f'the figure "{figure[:60]}"', "one of " + ", ".join(fields), figure, fields)
            elif (row.model, figure) in seen:
                self.refuse(where, f"{figure} of {row.model} a second time", "each figure once")
            elif "value" not in row.cells:
                self.refuse(where, f"no value for {figure} of {row.model}", "a value; leave the row out if unknown")
            else:
                seen.add((row.model, figure))
                self.fill(row, figure, row.cells["value"])

    def add_prices(self, rows: Sequence[Row]) -> None:
        fresh: dict[str, dict[str, list[PricePoint]]] = {}
        for row in rows:
            where, cells = row.source.where, row.cells
            currency = cells.get("currency", "")
            if row.model not in self.models:
                self.refuse(where, f"the model {row.model}", "a model of the catalog", row.model, self.models)
            elif currency != "units" and not (len(currency) == 3 and currency.isascii() and currency.isupper()):
                found = f'the currency "{currency[:60]}"' if currency else "no currency"
                self.refuse(where, f"{found} for {row.model}", "a currency like USD or EUR, or units")
            else:
                bounds = {}
                for column in ("low", "high"):
                    try:
                        bounds[column] = CONVERTERS[float](cells.get(column, ""))
                    except ValueError as error:
                        found = f'"{cells.get(column, "")[:60]}" for {row.model}'
                        self.refuse(f"{where}, column {column}", found, str(error))
                if len(bounds) < 2:
                    continue
                if bounds["low"] > bounds["high"]:
                    self.refuse(where, f"{bounds['low']} above {bounds['high']} for {row.model}", "low, then high")
                    continue
                point = PricePoint(bounds["low"], bounds["high"], cells.get("note", ""), row.source)
                fresh.setdefault(row.model, {}).setdefault(currency, []).append(point)
        self.prices |= fresh

    def finish(self) -> Catalog:
        """Build all models, or raise everything that was found."""
        built: dict[str, dict[str, HardwareModel]] = {table: {} for table in KINDS}
        for name, (table, values, sources) in sorted(self.models.items()):
            kind = KINDS[table]
            missing = [
                item.name
                for item in dataclasses.fields(kind)
                if item.default is dataclasses.MISSING
                and item.default_factory is dataclasses.MISSING
                and item.name not in ("name", *values)
            ]
            told = any((name, column) in self.unreadable for column in missing)
            if missing and not told:
                self.refuse(self.first_row[name], f"no {' and no '.join(missing)} for {name}", "a value for each")
            elif not missing:
                built[table][name] = kind(name=name, sources=MappingProxyType(sources), **values)
        adapters = self.of_kind(built["hcas"], HcaModel)
        nodes = self.of_kind(built["nodes"], NodeModel)
        for node in nodes.values():
            if node.adapter_model not in adapters:
                where = node.sources["adapter_model"].where
                found = f"the adapter {node.adapter_model} of {node.name}"
                self.refuse(where, found, "a model of hcas.csv", node.adapter_model, adapters)
        if self.findings:
            raise SpecError(self.findings)
        prices = {
            name: MappingProxyType({currency: Price(currency, tuple(points)) for currency, points in by.items()})
            for name, by in sorted(self.prices.items())
        }
        return Catalog(
            switches=self.of_kind(built["switches"], SwitchModel),
            nodes=nodes,
            hcas=adapters,
            cables=self.of_kind(built["cables"], CableModel),
            prices=MappingProxyType(prices),
        )

    @staticmethod
    def of_kind(models: Mapping[str, HardwareModel], kind: type[Model]) -> Mapping[str, Model]:
        return MappingProxyType({name: model for name, model in models.items() if isinstance(model, kind)})

    def refuse(self, where: str, found: str, expected: str, word: str = "", names: Iterable[str] = ()) -> None:
        """Add a finding; ``word`` is a name that may be meant for one of ``names``."""
        self.findings.append(Finding(where, found, expected, did_you_mean(word, names)))


def _look_up(models: Mapping[str, Model], name: str, what: str) -> Model:
    if name in models:
        return models[name]
    finding = Finding("catalog", f'no {what} "{name[:60]}"', "one of " + ", ".join(models), did_you_mean(name, models))
    raise SpecError([finding])
