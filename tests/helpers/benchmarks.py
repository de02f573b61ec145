"""Modules of benchmarks, for tests of them."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType


def load(name: str) -> ModuleType:
    """Return a module of ``benchmarks`` that needs no other of them."""
    spec = spec_from_file_location(name, Path(__file__).parents[2] / "benchmarks" / f"{name}.py")
    assert spec and spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
