"""The catalog: every model of hardware that a plan can name, read from tables.

Tables are read in order: those that ship, then those of the user, which add models and override others cell by cell.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from topo.catalog.models import CableModel, HcaModel, NodeModel, Number, Price, PricePoint, Source, SwitchModel
from topo.catalog.tables import Row, read_table
from topo.errors import Finding, SpecError, did_you_mean, refusal
from topo.fabric import Fabric
from topo.files.text import config_root
from topo.spec.base import spelled
from topo.speeds import SPEEDS, WIDTHS, is_link_speed
from topo.table import Brief

OF_A_ROOM = re.compile(r"rack-\d+|pdu")
"""Racks by their units, and power distribution units: bills have them without a model, and prices may."""


def series_of(name: str) -> str:
    """Return the series of a model that comes in several lengths, by which a price may name all that have no own.

    >>> series_of("MFP7E30-N002")
    'MFP7E30'
    """
    return name.rpartition("-")[0] or name


MODEL_KINDS: dict[str, Any] = {"switches": SwitchModel, "nodes": NodeModel, "hcas": HcaModel, "cables": CableModel}
"""Model class of each table of a catalog folder; two more tables hold figures with a source each, and prices."""
FIGURE_COLUMNS = ("figure", "value")
CURRENCY = Annotated[str, *spelled("[A-Z]{3}|units", "a currency like USD or EUR, or units")]
Cells = Mapping[str, tuple[str, Source]]
"""Text of each column of a model, and where it comes from."""


@dataclass(frozen=True)
class PriceRow:
    """A row of ``prices.csv``."""

    currency: CURRENCY
    low: Number
    high: Number
    note: str = ""


Model = TypeVar("Model", bound="SwitchModel | NodeModel | HcaModel | CableModel")


@dataclass(frozen=True)
class Catalog(Brief):
    """All models by name; a name belongs to one model only."""

    switches: Mapping[str, SwitchModel]
    nodes: Mapping[str, NodeModel]
    hcas: Mapping[str, HcaModel]
    cables: Mapping[str, CableModel]
    prices: Mapping[str, Mapping[str, Price]]
    """Price of a model by currency."""

    def _brief(self) -> str:
        return f"of {len(self.switches)} switches, {len(self.nodes)} servers, {len(self.cables)} cables"

    def switch(self, name: str) -> SwitchModel:
        """Return the switch of this name; SpecError with the nearest one where there is none."""
        return _look_up(self.switches, name, "switch")

    def node(self, name: str) -> NodeModel:
        """Return the server of this name, likewise."""
        return _look_up(self.nodes, name, "node")

    def hca(self, name: str) -> HcaModel:
        """Return the adapter of this name, likewise."""
        return _look_up(self.hcas, name, "adapter")

    def cable(self, name: str) -> CableModel:
        """Return the cable of this name, likewise."""
        return _look_up(self.cables, name, "cable")

    def device(self, name: str) -> SwitchModel | NodeModel | None:
        """Return the switch or server of this name, or None for what is neither."""
        return self.switches.get(name) or self.nodes.get(name)

    def protocol_of(self, fabric: Fabric) -> str:
        """Return the protocol of the switches of a fabric, empty where the catalog has none of them."""
        models = map(fabric.model_of, range(fabric.n_switches))
        return next((self.switches[name].protocol for name in models if name in self.switches), "")

    def tables_of(self, models: Iterable[str]) -> list[str]:
        """Return the tables in which these switches and servers have their rows, such as ``nodes.csv``."""
        return sorted({"switches.csv" if model in self.switches else "nodes.csv" for model in models})

    def describe(self, name: str) -> str:
        """Return what a model is in a line (`HardwareModel.description`); nothing for what is in no table."""
        tables = (self.switches, self.nodes, self.hcas, self.cables)
        return next((models[name].description for models in tables if name in models), "")

    @property
    def parts(self) -> list[str]:
        """Names that a price can have: all models, and cables by their speed."""
        speeds = [f"{width}x{speed}" for width in WIDTHS for speed in SPEEDS]
        return [*self.switches, *self.cables, *self.hcas, *self.nodes, *speeds]

    @property
    def sha256(self) -> str:
        """Digest of every figure and price."""
        tables = (self.switches, self.nodes, self.hcas, self.cables, self.prices)
        rows = [sorted((name, repr(row)) for name, row in table.items()) for table in tables]
        return hashlib.sha256(repr(rows).encode()).hexdigest()

    def servers_sha256(self, models: Iterable[str]) -> dict[str, str]:
        """Return the digest of what each of these servers is, price and power aside; of those that the catalog has."""
        return {name: self.nodes[name].figures_sha256 for name in sorted({*models} & self.nodes.keys())}

    def price(self, name: str, currency: str) -> Price | None:
        """Return the price of a model in a currency, or None where nobody gives one."""
        return self.prices.get(name, {}).get(currency)


def load_catalog(folders: Sequence[Path] = ()) -> Catalog:
    """Read the catalog that ships, then the tables of each folder in order; a file is one table of a folder.

    A folder holds any of ``switches.csv``, ``nodes.csv``, ``hcas.csv``, ``cables.csv``, ``figures.csv`` and
    ``prices.csv``. Its cells override those that were read before; its prices of a model replace all earlier ones.
    SpecError has every finding, at its file, line and column.

    Examples
    --------
    >>> import topo
    >>> topo.load_catalog().node("pcie-a100").gpus
    8
    """
    return _read(config_root(), folders) if folders else _shipped(config_root())


@cache
def _shipped(root: Path) -> Catalog:
    """The catalog that ships, read once a process: nearly every spec takes it, and nothing can change it."""
    return _read(root, ())


def _read(root: Path, folders: Sequence[Path]) -> Catalog:
    loading = _Loading()
    loading.add_folder(root / "catalog", "configs/catalog")
    for folder in folders:
        loading.add_folder(folder, str(folder))
    return loading.finish()


@cache
def _reader(kind: Any) -> tuple[TypeAdapter[Any], tuple[str, ...]]:
    """What makes a model of its cells, and the columns that there can be."""
    return TypeAdapter(kind), tuple(item.name for item in fields(kind) if item.name not in ("name", "sources"))


class _Loading:
    """What has been read so far, and what is wrong with it."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.table: dict[str, str] = {}
        self.cells: dict[str, dict[str, tuple[str, Source]]] = {}
        self.first_row: dict[str, str] = {}
        self.prices: dict[str, dict[str, list[PricePoint]]] = {}

    def add_folder(self, folder: Path, shown: str) -> None:
        """Read the tables of a folder; ``shown`` names it in messages and sources."""
        known = [f"{table}.csv" for table in (*MODEL_KINDS, "figures", "prices")]
        try:
            if folder.is_file():
                folder, shown, present = folder.parent, str(folder.parent), [folder.name]
            else:
                present = sorted(path.name for path in folder.iterdir() if path.suffix == ".csv")
        except OSError as error:
            self.refuse(shown, f"no readable folder ({error.strerror or error})", "a folder of catalog tables")
            return
        if not present:
            self.refuse(shown, "a folder without tables", "one with any of " + ", ".join(known))
        for name in present:
            if name not in known:
                self.refuse(f"{shown}/{name}", f"the table {name}", "one of " + ", ".join(known), name, known)

        def read(table: str, columns: Sequence[str]) -> list[Row]:
            if f"{table}.csv" not in present:
                return []
            try:
                return read_table(folder / f"{table}.csv", columns, f"{shown}/{table}.csv")
            except SpecError as error:
                self.findings += error.findings
                return []

        for table, kind in MODEL_KINDS.items():
            self.add_models(table, read(table, _reader(kind)[1]))
        self.add_figures(read("figures", FIGURE_COLUMNS))
        self.add_prices(read("prices", _reader(PriceRow)[1]))  # of cables by their speed too: their lengths are unknown

    def add_models(self, table: str, rows: Sequence[Row]) -> None:
        seen: set[str] = set()
        for row in rows:
            where = row.source.where
            if row.model in seen:
                self.refuse(where, f"the model {row.model} a second time", "one row a model")
            elif self.table.setdefault(row.model, table) != table:
                self.refuse(where, f"the model {row.model}", f"a name that is not in {self.table[row.model]}.csv")
            else:
                seen.add(row.model)
                self.first_row.setdefault(row.model, where)
                self.cells.setdefault(row.model, {}).update(row.cited)

    def add_figures(self, rows: Sequence[Row]) -> None:
        seen: set[tuple[str, str]] = set()
        for row in self.known(rows):
            where, figure = row.source.where, row.cells.get("figure", "")
            columns = _reader(MODEL_KINDS[self.table[row.model]])[1]
            if figure not in columns:
                self.refuse(where, f'the figure "{figure[:60]}"', "one of " + ", ".join(columns), figure, columns)
            elif (row.model, figure) in seen:
                self.refuse(where, f"{figure} of {row.model} a second time", "each figure once")
            elif "value" not in row.cells:
                self.refuse(where, f"no value for {figure} of {row.model}", "a value; leave the row out if unknown")
            else:
                seen.add((row.model, figure))
                self.cells[row.model][figure] = row.cells["value"], row.source

    def add_prices(self, rows: Sequence[Row]) -> None:
        fresh = defaultdict[str, dict[str, list[PricePoint]]](dict)
        series = {series_of(name) for name, table in self.table.items() if table == "cables"}
        free = {row.model for row in rows if is_link_speed(row.model) or OF_A_ROOM.fullmatch(row.model)} | series
        for row in self.known(rows, free):
            where = row.source.where
            price = self.validate(PriceRow, row.model, row.cited, where)
            if price is not None and price.low > price.high:
                self.refuse(where, f"{price.low} above {price.high} for {row.model}", "low, then high")
            elif price is not None:
                point = PricePoint(price.low, price.high, price.note, row.source)
                fresh[row.model].setdefault(price.currency, []).append(point)
        for model in self.prices:  # a later row of a series replaces earlier ones of its lengths
            newer = fresh.get(series_of(model), {})
            self.prices[model] = {unit: points for unit, points in self.prices[model].items() if unit not in newer}
        self.prices |= fresh

    def known(self, rows: Iterable[Row], free: Container[str] = ()) -> Iterator[Row]:
        """Yield the rows of models that there are, and of those that are in no table of models; refuse the others."""
        for row in rows:
            if row.model in self.cells or row.model in free:
                yield row
            else:
                self.refuse(row.source.where, f"the model {row.model}", "a model of the catalog", row.model, self.cells)

    def validate(self, kind: Any, model: str, cells: Cells, where: str, **more: Any) -> Any:
        """Return an instance of a class out of cells, or None after noting what is wrong with them."""
        try:
            return _reader(kind)[0].validate_python({column: text for column, (text, _) in cells.items()} | more)
        except ValidationError as error:
            details = error.errors(include_url=False, include_input=False)
        for detail in details:
            column = str(detail["loc"][0])
            if detail["type"] != "missing":
                text, source = cells[column]
                expected = str(detail.get("ctx", {}).get("expected", detail["msg"])).replace("'", "")
                self.refuse(f"{source.where}, column {column}", f'"{text[:60]}" for {model}', expected)
        if missing := [str(detail["loc"][0]) for detail in details if detail["type"] == "missing"]:
            self.refuse(where, f"no {' and no '.join(missing)} for {model}", "a value for each")
        return None

    def finish(self) -> Catalog:
        """Build all models, or raise everything that was found."""
        built: dict[str, dict[str, Any]] = {table: {} for table in MODEL_KINDS}
        for name, cells in sorted(self.cells.items()):
            table, where = self.table[name], self.first_row[name]
            sources = MappingProxyType({column: source for column, (_, source) in cells.items()})
            built[table][name] = self.validate(MODEL_KINDS[table], name, cells, where, name=name, sources=sources)
        for model in filter(None, (*built["switches"].values(), *built["nodes"].values())):
            typical, most = model.power_typical_w, model.power_max_w
            if typical is not None and most is not None and typical > most:
                places = (model.sources[column].where for column in ("power_typical_w", "power_max_w"))
                found = f"power_typical_w {typical:g} above power_max_w {most:g} for {model.name}"
                self.refuse(" and ".join(dict.fromkeys(places)), found, "no more under load than at most")
        for switch in filter(None, built["switches"].values()):
            if switch.cages and switch.radix % switch.cages:
                places = (switch.sources[column].where for column in ("cages", "radix"))
                found = f"{switch.cages} cages for {switch.radix} ports of {switch.name}"
                self.refuse(" and ".join(dict.fromkeys(places)), found, "as many ports in each cage")
        for node in filter(None, built["nodes"].values()):
            for column in ("adapter_model", "storage_adapter_model"):
                if (adapter := getattr(node, column)) and adapter not in built["hcas"]:
                    found = f"the adapter {adapter} of {node.name}"
                    self.refuse(node.sources[column].where, found, "a model of hcas.csv", adapter, built["hcas"])
        if self.findings:
            raise SpecError(self.findings)
        prices = {
            name: MappingProxyType({currency: Price(currency, tuple(points)) for currency, points in by.items()})
            for name, by in sorted(self.prices.items())
        }
        models = {table: MappingProxyType(models) for table, models in built.items()}
        return Catalog(**models, prices=MappingProxyType(prices))

    def refuse(self, where: str, found: str, expected: str, word: str = "", names: Iterable[str] = ()) -> None:
        """Add a finding; ``word`` is a name that may be meant for one of ``names``."""
        self.findings.append(Finding(where, found, expected, did_you_mean(word, names)))


def _look_up(models: Mapping[str, Model], name: str, what: str) -> Model:
    if name in models:
        return models[name]
    raise refusal("catalog", f'no {what} "{name[:60]}"', "one of " + ", ".join(models), did_you_mean(name, models))
