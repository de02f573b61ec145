"""The formats that a plan is exported to: what `plan build` writes, each to be had alone by `plan export`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import plan.export
from plan.export.base import Export, Files
from plan.pipeline import Plan


def find_exports() -> dict[str, Export]:
    """Return every `Export` of the modules beside this one, by name."""
    modules = [import_module(f"{plan.export.__name__}.{found.name}") for found in iter_modules(plan.export.__path__)]
    found = {one.name: one for module in modules for one in vars(module).values() if isinstance(one, Export)}
    return dict(sorted(found.items()))


EXPORTS = find_exports()
OF_ROUTE = ("report", "fabric", "ibnetdiscover", "opensm")
"""What `plan route` writes."""


def plan_files(plan: Plan, document: Mapping[str, Any], names: Iterable[str] = EXPORTS) -> Files:
    """Return the files of an output folder: ``plan.json``, which holds ``document``, and those of some formats."""
    files: Files = {"plan.json": json.dumps(document, indent=2) + "\n"}
    for name in names:
        files |= EXPORTS[name].make(plan)
    return files
