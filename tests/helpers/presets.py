"""The specs that ship, for tests that hold all of them to something."""

from functools import cache

import pytest

from routing.engines.base import route
from routing.routed import Routed
from topo.catalog.load import config_root
from topo.cluster import Cluster, preset
from topo.fabric import Fabric

PRESETS = sorted(path.stem for path in config_root().glob("*.yaml"))

LARGE = {
    "deepseek-v3-planes", "dgx-a100-superpod", "dgx-baseline", "eflops-bigraph", "fire-flyer-2-frames",
    "four-planes-32k", "pcie-three-level", "torus",
}  # fmt: skip
"""Those that take half a second or more to compile, to route or to draw."""

EACH = [pytest.param(name, marks=pytest.mark.slow) if name in LARGE else name for name in PRESETS]
"""All of them, as a test of each is parametrised."""

ALIKE = {"deepseek-v3-2048", "deepseek-v3-planes", "four-planes-32k"}
"""Those whose subnets are planes of one design: what holds of one holds of all (`test_planes_are_alike`)."""


@cache
def read_preset(name: str) -> Cluster:
    """A preset, compiled once for all tests: results cannot be changed."""
    return preset(name)


@cache
def subnets(name: str) -> tuple[Fabric, ...]:
    """The different subnets of a preset."""
    fabrics = read_preset(name).fabrics
    return fabrics[:1] if name in ALIKE else fabrics


@cache
def routed_lab() -> Routed:
    """The smallest preset with its tables."""
    return routed(read_preset("lab-20").fabric)


@cache
def routed(fabric: Fabric, engine: str | None = None) -> Routed:
    """A fabric with its tables, by the engine that its spec asks for or by another, routed once for all tests."""
    return route(fabric, engine)
