"""Every kernel there is."""

from collections.abc import Iterator
from importlib import import_module
from pkgutil import walk_packages

import routing
import simulate
from routing.machine_code import Kernel


def kernels() -> Iterator[Kernel]:
    """Yield the kernels of all modules, each where it is written."""
    for package in (routing, simulate):
        for found in walk_packages(package.__path__, f"{package.__name__}."):
            for value in vars(import_module(found.name)).values():
                if isinstance(value, Kernel) and value.__module__ == found.name:
                    yield value
