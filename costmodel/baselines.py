"""The published comparison of Fire-Flyer with two alternatives, computed again.

An et al., "Fire-Flyer AI-HPC", SC'24 (arXiv 2408.14158 v2), compare three systems of 10,000 GPUs: their own two zones
of PCIe nodes, the same nodes on one three-level tree, and DGX A100 on three levels. Table II compares the nodes.
Table III compares prices in units whose value is not printed, in which a switch includes its links. Storage has no
price in these units, is the same in all three systems, and is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from costmodel.price import UNITS
from topo.catalog.load import Catalog, load_catalog
from topo.catalog.models import NodeModel, number
from topo.catalog.tables import read_table
from topo.cluster import Cluster, preset
from topo.cluster_spec import ClusterSpec
from topo.errors import Finding, SpecError, refusal
from topo.files.text import config_root
from topo.shapes.fat_tree import FatTree, TreeSize
from topo.table import Record, Shown, Table

SWITCH, DGX, PCIE = "QM8700", "dgx-a100", "pcie-a100"
FIRE_FLYER = "fire-flyer"
"""Name of the authors' own system among the printed figures."""
PAPER = ("fire-flyer-2", "fire-flyer-2-frames", "pcie-three-level", "dgx-baseline")
"""Presets of the systems that the paper compares."""
COLUMNS = ("table", "figure", "value")
Provenance = Literal["input", "computed", "fitted", "circular"]
"""How a figure is made: taken from the paper, or from its topology and other figures of it; see `Cell.how`."""
Figure = tuple[str, float, Provenance, str]
"""Name, value, provenance and note of a figure."""


@dataclass(frozen=True)
class Published(Shown):
    """Figures printed in a paper, by table, system and name: see `published`."""

    values: Mapping[tuple[str, str, str], float]

    def value(self, table: str, system: str, figure: str) -> float:
        """Return a printed figure."""
        return self.values[table, system, figure]

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain values."""
        return self.table.to_dict()

    @property
    def table(self) -> Table:
        """The figures as a table."""
        rows = ((*key, value) for key, value in self.values.items())
        return Table.of_rows("published figures", ("table", "system", "figure", "value"), rows)


def published(source: str | Path = "fire-flyer-ai-hpc") -> Published:
    """Read the figures that were printed in a paper.

    Parameters
    ----------
    source : str or Path
        Name of a collection that ships with Heddle (``collectives``, ``fire-flyer-ai-hpc``, ``hfreduce``,
        ``nccl-tests``, ``storage``, ``training``), or the path of a CSV file with the columns ``model`` (the system),
        ``table``, ``figure``, ``value``, and those of a citation.

    Returns
    -------
    Published
        The figures; `Published.value` returns one of them.

    Raises
    ------
    topo.SpecError
        When a row has no value, or two rows have the same table, system and figure.

    Examples
    --------
    >>> import costmodel
    >>> costmodel.published().value("III", "fire-flyer", "switches")
    122.0
    """
    shipped = isinstance(source, str) and not source.endswith(".csv")
    path = config_root() / "published" / f"{source}.csv" if shipped else Path(source)
    findings: list[Finding] = []
    values: dict[tuple[str, str, str], float] = {}
    for row in read_table(path, COLUMNS, path.name):
        key = (row.cells.get("table", ""), row.model, row.cells.get("figure", ""))
        text = row.cells.get("value", "")
        if key in values:
            findings.append(Finding(row.source.where, f"{key[2]} of {key[1]} again", "each cell of a table once"))
        try:
            values[key] = number(text)
        except ValueError as error:
            findings.append(Finding(f"{row.source.where}, column value", repr(text), str(error)))
    if findings:
        raise SpecError(findings)
    return Published(values)


@dataclass(frozen=True)
class Cell(Record):
    """One cell of a table of the paper: our figure and the printed one."""

    table: str
    system: str
    figure: str
    value: float
    how: Provenance
    """Only what is ``computed`` can confirm the paper. An ``input`` is printed there; ``fitted`` holds a price that was
    fitted to this table; ``circular`` follows from the printed figure itself."""
    published: float
    note: str = ""
    """How the figure is made, and why it differs from the printed one."""

    _derived = ("difference",)

    @property
    def difference(self) -> float:
        """Relative difference: value / published - 1."""
        return self.value / self.published - 1


@dataclass(frozen=True)
class Baseline:
    """A published system."""

    name: str
    node: str
    """Model of its GPU nodes."""
    tree: TreeSize
    """Its tree, or the tree of each zone."""
    switches: int
    """Switches of all trees, and the joints between them."""
    how: Provenance
    """How the number of switches is known."""
    note: str


@dataclass(frozen=True)
class Baselines(Shown):
    """The cells of Tables II and III of the paper: see `baselines`."""

    cells: tuple[Cell, ...]

    def to_dict(self) -> list[dict[str, Any]]:
        """Return the cells as plain values."""
        return [cell.to_dict() for cell in self.cells]

    @property
    def table(self) -> Table:
        """The cells as a table."""
        figures = (("published", "published", "", ",.4g"), ("difference", "difference", "", "+.1%"))
        title = "beside what is published (SC'24, Tables II and III)"
        ours = ("value", "ours", "", ",.4g")
        return Table.of(title, self.cells, "table", "system", "figure", ours, "how", *figures, "note")


def baselines(catalog: Catalog | None = None) -> Baselines:
    """Make Tables II and III of the Fire-Flyer paper again, each figure beside the printed one, and how it is made.

    Parameters
    ----------
    catalog : topo.Catalog, optional
        Hardware and prices; by default the catalog that ships with Heddle.

    Returns
    -------
    Baselines
        A cell for each figure of each system.

    Raises
    ------
    topo.SpecError
        When the catalog lacks a figure or a price that the comparison needs.

    Examples
    --------
    >>> import costmodel
    >>> cells = costmodel.baselines().cells
    >>> [(cell.value, cell.published, cell.how) for cell in cells if cell.figure == "switches"]
    [(122.0, 122.0, 'computed'), (200.0, 200.0, 'computed'), (1320.0, 1320.0, 'circular')]
    """
    catalog, printed = catalog or load_catalog(), published()
    return Baselines((*table_ii(catalog, printed), *table_iii(catalog, printed)))


def published_systems(catalog: Catalog) -> tuple[Baseline, ...]:
    """Return the three systems; their sizes follow from the closed forms of their topologies."""
    zone = FatTree(switch=SWITCH, leaves=40, spines=20).size(780 + 20, catalog)
    three = FatTree(switch=SWITCH, levels=3)
    small, large = three.size(1_600, catalog), three.model_copy(update={"cores": 320}).size(10_000, catalog)
    return (
        Baseline(
            FIRE_FLYER,
            PCIE,
            zone,
            2 * zone.switches + 2,
            "computed",
            "2 zones x (40 leaf + 20 spine) + 2 joints = 122. The count is the same whether a zone is 60 boxes of 40 "
            "ports or one frame of 800 ports, which has 60 chips of 40 ports inside (inferred: the paper names both).",
        ),
        Baseline(
            "pcie-three-level", PCIE, small, small.switches, "computed", "1,600 ports: 80 leaf + 80 spine + 40 core."
        ),
        Baseline(
            DGX,
            DGX,
            large,
            large.switches,
            "circular",  # the 320 cores are the paper's own
            "10,000 ports: 500 leaf + 500 spine; 250 cores would carry all uplinks, the paper counts 320 and does not "
            "say why (16 for each of the 20 spines of a pod, or 40 for each of 8 rails, would be 320).",
        ),
    )


def table_ii(catalog: Catalog, printed: Published) -> list[Cell]:
    """Return the cells of Table II: performance, cost-performance and power of the nodes.

    Performance is the mean of TF32 rate / TF32 rate of DGX A100 and FP16 rate / FP16 rate of DGX A100. The relative
    price of a node is an input.
    """
    dgx = catalog.node(DGX)
    cells = []
    for system, model in ((FIRE_FLYER, PCIE), (DGX, DGX)):
        node = catalog.node(model)
        tf32, fp16 = _known(node, "gemm_tf32_tflops"), _known(node, "gemm_fp16_tflops")
        ratios = (tf32 / _known(dgx, "gemm_tf32_tflops"), fp16 / _known(dgx, "gemm_fp16_tflops"))
        performance = sum(ratios) / 2
        price = printed.value("II", system, "node_relative_price")
        ratio: Provenance = "circular" if model == DGX else "computed"  # DGX is 1 because all is relative to it
        rows: tuple[Figure, ...] = (
            ("gemm_tf32_tflops", tf32, "input", "measured by the authors"),
            ("gemm_fp16_tflops", fp16, "input", "measured by the authors"),
            ("relative_performance", performance, ratio, "mean of the two GEMM ratios"),
            ("node_relative_price", price, "input", "printed; the server prices of Table III make it 59.2 %"),
            ("cost_performance", performance / price, ratio, "relative performance / relative price"),
            ("node_power_w", _known(node, "power_typical_w"), "input", "measured, mean of ResNet training"),
        )
        cells += _cells("II", system, rows, printed)
    return cells


def table_iii(catalog: Catalog, printed: Published) -> list[Cell]:
    """Return the cells of Table III: switches * unit price of a switch with its links + nodes * unit price of a node.

    Raises
    ------
    SpecError
        When the catalog has no price in units for the switch or a node.
    """
    switch = _price_in_units(catalog, SWITCH)
    cells = []
    for system in published_systems(catalog):
        node, nodes = _price_in_units(catalog, system.node), int(printed.value("I", system.name, "nodes"))
        network, servers = system.switches * switch, nodes * node
        rows: tuple[Figure, ...] = (
            ("switches", float(system.switches), system.how, system.note),
            ("network", network, "fitted", f"{system.switches:,} switches x {switch:g}, all links included"),
            ("servers", servers, "circular", f"{nodes:,} nodes x {node:g}, which is the printed sum a node"),
            ("total", network + servers, "fitted", "network + servers"),
        )
        cells += _cells("III", system.name, rows, printed)
    return cells


def _cells(table: str, system: str, rows: Sequence[Figure], printed: Published) -> list[Cell]:
    """Return the cells of figures beside the printed ones."""
    return [
        Cell(table, system, name, value, how, printed.value(table, system, name), note)
        for name, value, how, note in rows
    ]


def _price_in_units(catalog: Catalog, model: str) -> float:
    price = catalog.price(model, UNITS)
    if price is None:
        raise refusal("catalog, prices.csv", f"no price of {model} in {UNITS}", "one, to compare with")
    return (price.low + price.high) / 2


def _known(node: NodeModel, figure: str) -> float:
    value = getattr(node, figure)
    if value is None:
        raise refusal("catalog", f"no {figure} of {node.name}", "a figure, to compare with")
    return float(value)


def is_published(cluster: Cluster) -> bool:
    """Return whether a cluster has the nodes and the network of a system that the Fire-Flyer paper compares.

    Examples
    --------
    >>> import costmodel, topo
    >>> costmodel.is_published(topo.preset("fire-flyer-2")), costmodel.is_published(topo.preset("lab-20"))
    (True, False)
    """
    return any((spec.nodes, spec.network) == (cluster.spec.nodes, cluster.spec.network) for spec in _specs_of_paper())


@cache
def _specs_of_paper() -> tuple[ClusterSpec, ...]:
    """Return the specs of the systems that the paper compares; to read them takes a quarter of a small build."""
    return tuple(preset(name).spec for name in PAPER)
