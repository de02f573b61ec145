"""Modules of benchmarks, for tests of them."""

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).parents[2] / "benchmarks"


def load(name: str) -> ModuleType:
    """Return a module of ``benchmarks``, such as ``timings/trees``, with the modules beside it that it imports."""
    path = FOLDER / name
    sys.path.insert(0, str(path.parent))
    try:
        return import_module(path.name)
    finally:
        sys.path.remove(str(path.parent))
