"""The published designs, computed again, each figure beside the printed one.

An et al., "Fire-Flyer AI-HPC", SC'24 (arXiv 2408.14158 v2), compare three systems of 10,000 GPUs: their own two zones
of PCIe nodes, the same nodes on one tree of three levels, and DGX A100 on three levels. Table II compares the nodes,
Table III what the systems cost in units whose worth is not printed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from costmodel.designs import Size, size_fat_tree, size_zones
from costmodel.price import UNITS
from topo.errors import Finding, SpecError
from topo.formats.catalog_csv import CONVERTERS, Row, parse_table, read_table
from topo.hardware.catalog import Catalog
from topo.hardware.models import NodeModel
from topo.shapes.fat_tree import FatTree
from topo.shapes.zones import Joints, Zones

SWITCH = "QM8700"
COLUMNS = ("table", "figure", "value")


@dataclass(frozen=True)
class Published:
    """Printed figures by table, system and name."""

    values: dict[tuple[str, str, str], float]

    def value(self, table: str, system: str, figure: str) -> float:
        """Return a printed figure."""
        return self.values[table, system, figure]


@dataclass(frozen=True)
class Cell:
    """One cell of a table, computed and printed."""

    table: str
    system: str
    figure: str
    computed: float
    published: float
    note: str = ""
    """Where the two differ, why; where a figure is an input, that it is."""

    @property
    def difference(self) -> float:
        """Computed over printed, less 1."""
        return self.computed / self.published - 1


@dataclass(frozen=True)
class Baseline:
    """A published system."""

    name: str
    node: str
    """Model of its GPU nodes."""
    nodes: int
    size: Size
    note: str

    def node_power_w(self, catalog: Catalog) -> float:
        """What all GPU nodes draw while they train, network and storage not counted."""
        return self.nodes * _known(catalog.node(self.node), "power_typical_w")


def read_published(path: Path) -> Published:
    """Read printed figures; see `parse_published`."""
    return _publish(read_table(path, COLUMNS, path.name))


def parse_published(text: str, path: str) -> Published:
    """Parse printed figures: CSV with ``model`` (the system), `COLUMNS`, and a citation in each row.

    Raises
    ------
    SpecError
        When a row has no value, or two rows give the same cell.
    """
    return _publish(parse_table(text, path, COLUMNS))


def _publish(rows: Sequence[Row]) -> Published:
    findings: list[Finding] = []
    values: dict[tuple[str, str, str], float] = {}
    for row in rows:
        key = (row.cells.get("table", ""), row.model, row.cells.get("figure", ""))
        text = row.cells.get("value", "")
        if key in values:
            findings.append(Finding(row.source.where, f"{key[2]} of {key[1]} again", "each cell of a table once"))
        try:
            values[key] = CONVERTERS[float](text)
        except ValueError as error:
            findings.append(Finding(f"{row.source.where}, column value", repr(text), str(error)))
    if findings:
        raise SpecError(findings)
    return Published(values)


def baselines(catalog: Catalog, published: Published) -> tuple[Baseline, ...]:
    """Return the three systems, sized by the formulas of their topologies."""
    zone = FatTree(switch=SWITCH, leaves=40, spines=20)
    two_zones = Zones(shape="zones", zones=2, tree=zone, joints=Joints(switch=SWITCH, count=2, ports=20))

    def nodes(system: str) -> int:
        return int(published.value("I", system, "nodes"))

    return (
        Baseline(
            "fire-flyer",
            "pcie-a100",
            nodes("fire-flyer"),
            size_zones(two_zones, 780, catalog),
            "2 zones x (40 leaf + 20 spine) + 2 joints = 122. The count is the same whether a zone is 60 boxes of 40 "
            "ports or one frame of 800 ports, which has 60 chips of 40 ports inside (inferred: the paper names both).",
        ),
        Baseline(
            "pcie-three-level",
            "pcie-a100",
            nodes("pcie-three-level"),
            size_fat_tree(FatTree(switch=SWITCH, levels=3), 1_600, catalog),
            "1,600 ports: 80 leaf + 80 spine + 40 core.",
        ),
        Baseline(
            "dgx-a100",
            "dgx-a100",
            nodes("dgx-a100"),
            size_fat_tree(FatTree(switch=SWITCH, levels=3, cores=320), 10_000, catalog),
            "10,000 ports: 500 leaf + 500 spine; 250 cores would carry all uplinks, the paper counts 320 and does not "
            "say why (16 for each of the 20 spines of a pod, or 40 for each of 8 rails, would be 320).",
        ),
    )


def table_ii(catalog: Catalog, published: Published) -> list[Cell]:
    """Compare the nodes: performance from the measured GEMM rates, cost-performance, power.

    Performance is the mean of the TF32 and the FP16 rate over those of DGX A100. The price of a node is an input here.
    """
    dgx = catalog.node("dgx-a100")
    cells = []
    for system, model in (("fire-flyer", "pcie-a100"), ("dgx-a100", "dgx-a100")):
        node = catalog.node(model)
        tf32, fp16 = _known(node, "gemm_tf32_tflops"), _known(node, "gemm_fp16_tflops")
        ratios = (tf32 / _known(dgx, "gemm_tf32_tflops"), fp16 / _known(dgx, "gemm_fp16_tflops"))
        performance = sum(ratios) / 2
        price = published.value("II", system, "node_relative_price")
        rows = (
            ("gemm_tf32_tflops", tf32, "measured by the authors: an input"),
            ("gemm_fp16_tflops", fp16, "measured by the authors: an input"),
            ("relative_performance", performance, "mean of the two GEMM ratios"),
            ("node_relative_price", price, "printed: an input; the server prices of Table III make it 59.2 %"),
            ("cost_performance", performance / price, "relative performance / relative price"),
            ("node_power_w", _known(node, "power_typical_w"), "measured by the authors, mean of ResNet training"),
        )
        cells += [
            Cell("II", system, name, value, published.value("II", system, name), note) for name, value, note in rows
        ]
    return cells


def table_iii(systems: Sequence[Baseline], catalog: Catalog, published: Published) -> list[Cell]:
    """Compare the systems in the paper's units: one price for every switch with its links, one for a node.

    Raises
    ------
    SpecError
        When the catalog has no price in units for the switch or a node.
    """
    switch = _price_in_units(catalog, SWITCH)
    cells = []
    for system in systems:
        node = _price_in_units(catalog, system.node)
        network, servers = system.size.switches * switch, system.nodes * node
        rows = (
            ("switches", float(system.size.switches), system.note),
            ("network", network, f"{system.size.switches:,} switches x {switch:g}, all links included"),
            ("servers", servers, f"{system.nodes:,} nodes x {node:g}"),
            ("total", network + servers, "network + servers"),
        )
        cells += [
            Cell("III", system.name, name, value, published.value("III", system.name, name), note)
            for name, value, note in rows
        ]
    return cells


def _price_in_units(catalog: Catalog, model: str) -> float:
    price = catalog.price(model, UNITS)
    if price is None:
        raise SpecError([Finding("catalog, prices.csv", f"no price of {model} in {UNITS}", "one, to compare with")])
    return (price.low + price.high) / 2


def _known(node: NodeModel, figure: str) -> float:
    value = getattr(node, figure)
    if value is None:
        raise SpecError([Finding("catalog", f"no {figure} of {node.name}", "a figure, to compare with")])
    return float(value)
