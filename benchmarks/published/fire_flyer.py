"""Fire-Flyer 2, routed, as the comparisons with its measurements take it."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from routing.engines.base import ENGINES
from routing.tables import RoutingTables
from topo.catalog.models import NodeModel
from topo.cluster import read
from topo.fabric import Fabric, Role

ROOT = Path(__file__).parents[2]
MIB = 2.0**20


@dataclass(frozen=True)
class Cluster:
    """Fire-Flyer 2, routed."""

    fabric: Fabric
    tables: RoutingTables
    model: NodeModel
    hop_latency_s: float

    @classmethod
    def compiled(cls) -> "Cluster":
        source = read(ROOT / "configs" / "fire-flyer-2.yaml")
        (fabric,) = source.fabrics
        latency_ns = source.catalog.switch("QM8700").latency_ns or 0.0
        model = source.catalog.node("pcie-a100")
        return cls(fabric, ENGINES["balanced"].route(fabric), model, latency_ns * 1e-9)

    def ends(self, servers: int) -> np.ndarray:
        """The first servers of zone 0."""
        ends = np.arange(self.fabric.n_switches, self.fabric.n_end_ports, dtype=np.int32)
        node = self.fabric.end_node[ends]
        return ends[(self.fabric.zone[node] == 0) & (self.fabric.role[node] == Role.COMPUTE)][:servers]
