"""A design beside what else would serve the same GPUs: its nodes on one tree of three levels, and DGX A100 on one.

Prices are in the units of the Fire-Flyer paper, in which a switch comes with its links. Storage is left out, since it
has no price in them and is the same in all three.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from costmodel.bill import Bill, make_bill
from costmodel.designs import size_fat_tree
from costmodel.power import power_of
from costmodel.price import UNITS, price_bill
from topo.counts import count
from topo.errors import DesignError
from topo.fabric import Fabric
from topo.hardware.catalog import Catalog
from topo.shapes.fat_tree import FatTree

SWITCH = "QM8700"
DGX = "dgx-a100"


@dataclass(frozen=True)
class System:
    """One of the systems that are set side by side; None is unknown."""

    name: str
    switches: int | None
    """None where three levels of that switch cannot hold so many ports."""
    network: float | None
    """In units."""
    servers: float | None
    """GPU nodes, in units."""
    gpus: int
    node_power_w: float | None
    """Of all GPU nodes while they train."""
    gpu_performance: float | None
    """Of a GPU: mean of its measured TF32 and FP16 GEMM rates over those of DGX A100."""

    @property
    def total(self) -> float | None:
        """Network and servers, in units."""
        return None if self.network is None or self.servers is None else self.network + self.servers

    @property
    def performance_per_unit(self) -> float | None:
        """Relative GPU performance that a unit buys."""
        if self.total is None or self.gpu_performance is None:
            return None
        return self.gpus * self.gpu_performance / self.total


def compare(fabrics: Sequence[Fabric], catalog: Catalog) -> list[System]:
    """Set a design beside its nodes on one tree of three levels and beside DGX A100 on one, GPU for GPU."""
    counts = count(fabrics, catalog)
    if counts.gpus is None:
        raise DesignError("the model of a server is unknown, and so the number of GPUs to compare")
    bill = make_bill(fabrics, catalog)
    nodes = Bill(tuple(line for line in bill.of("node") if line.place == "compute"))
    switches = Bill(bill.of("switch"))
    network, servers = price_bill(switches, catalog, UNITS), price_bill(nodes, catalog, UNITS)
    power = power_of(nodes, catalog)
    mine = System(
        name="this design",
        switches=counts.switches,
        network=None if network.gaps else network.network.middle,
        servers=None if servers.gaps else servers.servers.middle,
        gpus=counts.gpus,
        node_power_w=None if any(row.typical_w is None for row in power.lines) else power.servers_w,
        gpu_performance=_performance(nodes, catalog),
    )
    on_one_tree = _on_three_levels(counts.host_ports, catalog)
    dgx = catalog.node(DGX)
    dgx_nodes = -(-counts.gpus // dgx.gpus)
    dgx_switches = _on_three_levels(dgx_nodes * dgx.adapters, catalog)
    return [
        mine,
        System(
            name=f"its nodes on one tree of three levels of {SWITCH}",
            switches=on_one_tree,
            network=_times(on_one_tree, SWITCH, catalog),
            servers=mine.servers,
            gpus=mine.gpus,
            node_power_w=mine.node_power_w,
            gpu_performance=mine.gpu_performance,
        ),
        System(
            name=f"DGX A100 on one tree of three levels of {SWITCH}",
            switches=dgx_switches,
            network=_times(dgx_switches, SWITCH, catalog),
            servers=_times(dgx_nodes, DGX, catalog),
            gpus=dgx_nodes * dgx.gpus,
            node_power_w=None if dgx.power_typical_w is None else dgx_nodes * dgx.power_typical_w,
            gpu_performance=1.0,
        ),
    ]


def _on_three_levels(ports: int, catalog: Catalog) -> int | None:
    try:
        return size_fat_tree(FatTree(switch=SWITCH, levels=3), ports, catalog).switches
    except DesignError:
        return None


def _times(number: int | None, model: str, catalog: Catalog) -> float | None:
    price = catalog.price(model, UNITS)
    return None if price is None or number is None else number * (price.low + price.high) / 2


def _performance(nodes: Bill, catalog: Catalog) -> float | None:
    """Mean over all GPUs; None when any was not measured."""
    dgx = catalog.node(DGX)
    total = gpus = 0.0
    for line in nodes.lines:
        node = catalog.nodes.get(line.item)
        if node is None or not node.gpus:
            continue
        figures = (node.gemm_tf32_tflops, dgx.gemm_tf32_tflops, node.gemm_fp16_tflops, dgx.gemm_fp16_tflops)
        tf32, dgx_tf32, fp16, dgx_fp16 = figures
        if tf32 is None or dgx_tf32 is None or fp16 is None or dgx_fp16 is None:
            return None
        total += line.count * node.gpus * (tf32 / dgx_tf32 + fp16 / dgx_fp16) / 2
        gpus += line.count * node.gpus
    return total / gpus if gpus else None
