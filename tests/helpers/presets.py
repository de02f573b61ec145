"""The specs that ship, for tests that hold all of them to something."""

from routing.engines.base import ENGINES, choose
from routing.tables import RoutingTables
from topo.cluster import Cluster, preset
from topo.fabric import Fabric
from topo.hardware.catalog import config_root

PRESETS = sorted(path.stem for path in config_root().glob("*.yaml"))

ALIKE = {"deepseek-v3-2048", "deepseek-v3-planes", "four-planes-32k"}
"""Those whose subnets are planes of one design: what holds of one holds of all (`test_planes_are_alike`)."""


def read_preset(name: str) -> Cluster:
    return preset(name)


def subnets(name: str) -> list[Fabric]:
    """The different subnets of a preset."""
    source = read_preset(name)
    fabrics = source.fabrics
    return list(fabrics[:1] if name in ALIKE else fabrics)


def routed(name: str, fabric: Fabric) -> RoutingTables:
    """The tables of a subnet of a preset, by the engine that its spec asks for."""
    engine = read_preset(name).spec.routing.engine
    return ENGINES[choose(fabric)[0] if engine == "auto" else engine].route(fabric)
