"""Routing engines, one module each: a function `route` from a fabric to its tables.

They are imported when they are asked for: each brings its own kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

import numpy as np
from numpy.typing import NDArray

from routing.tables import RoutingTables
from topo.fabric import Fabric, Role

__all__ = ["ENGINES", "choose", "load_engine"]

Engine = Callable[[Fabric, NDArray[np.uint16] | None], RoutingTables]

ENGINES = {
    "zoned": "two-level fat-trees joined at their leaves; complete and free of loops on one lane",
}
"""Names of the engines, and what each is for."""


def load_engine(name: str) -> Engine:
    """Return the function of an engine: fabric and LIDs (or None) to tables."""
    engine: Engine = import_module(f"routing.engines.{name.replace('-', '_')}").route
    return engine


def choose(fabric: Fabric) -> tuple[str, str]:
    """Choose an engine for a fabric; return its name, and why."""
    joints = int(np.count_nonzero(fabric.role == Role.JOINT))
    return "zoned", f"{joints} joints between zones" if joints else "a single fat-tree"
