"""The formats that a plan is exported to, each to be had alone by `plan.export_files`; `plan build` writes most."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import plan.export
from plan.export.base import Export, Files
from plan.files import check_replaceable, check_suffix, check_writable, write_file, write_folder
from plan.inputs import CATALOG, RoleFiles, path_of, tables_of
from plan.pipeline import Plan, Progress, silent
from topo import HeddleError, did_you_mean


def find_exports() -> dict[str, Export]:
    """Return every `Export` of the modules beside this one, by name."""
    modules = [import_module(f"{plan.export.__name__}.{found.name}") for found in iter_modules(plan.export.__path__)]
    found = {one.name: one for module in modules for one in vars(module).values() if isinstance(one, Export)}
    return dict(sorted(found.items()))


EXPORTS = find_exports()
OF_BUILD = tuple(name for name, export in EXPORTS.items() if export.built)
"""What `plan build` writes."""
OF_ROUTE = ("report", "fabric", "ibnetdiscover", "opensm")
"""What `plan route` writes."""


def plan_files(plan: Plan, document: Mapping[str, Any], names: Iterable[str] = OF_BUILD) -> Files:
    """Return the files of an output folder: ``plan.json`` with ``document``, the spec's own catalog, and formats."""
    files: Files = {"plan.json": json.dumps(document, indent=2) + "\n"}
    if plan.cluster and plan.cluster.spec.catalog is not None:
        own = tables_of(plan.cluster.folder / plan.cluster.spec.catalog)
        files |= {f"{CATALOG}/{name}": text for name, text in own.items()}
    for name in names:
        files |= EXPORTS[name].make(plan)
    return files


def export_files(
    fabric: str | Path,
    format: str,
    output: str | Path | None = None,
    *,
    hosts: RoleFiles | None = None,
    subnet: str | None = None,
    step: Progress = silent,
    note: Progress = silent,
) -> Files:
    """Return the files of one of the formats of `plan.build` by their paths, and write them if asked.

    Parameters
    ----------
    fabric : str or Path
        A spec; a folder of a plan, whose files are copied; or a real fabric.
    format : str
        Such as ``slurm`` or ``netbox``: `plan export --list` has all.
    output : str or Path, optional
        File to write, or folder where the format has several files.
    hosts : RoleFiles, optional
        Files that say what hosts of a real fabric are for.
    subnet : str, optional
        One of several subnets, for which alone the files are.
    step : callable
        Progress callback, called as ``step(message)``.
    note : callable
        Called likewise with what speaks against the files, as for tables that are not to be loaded.

    Raises
    ------
    HeddleError
        When there is no such format, it needs a spec, the fabric cannot be read, or a file must not be replaced.

    Examples
    --------
    >>> import plan, topo
    >>> sorted(plan.export_files(topo.config_root() / "lab-20.yaml", "slurm"))
    ['exports/topology.conf', 'exports/topology.yaml']
    """
    if format not in EXPORTS:
        hint = did_you_mean(format, EXPORTS)
        raise HeddleError(f"found the format {format[:60]!r}; expected one of {', '.join(EXPORTS)}. {hint}".strip())
    step("reading")
    files = EXPORTS[format].files_of(path_of(fabric), step, hosts, subnet, note)
    if output is not None and len(files) > 1:
        check_replaceable(output)
        top = os.path.commonpath([Path(name).parent for name in files])
        write_folder(Path(output), {os.path.relpath(name, top): content for name, content in files.items()})
    elif output is not None:
        check_writable(Path(output), [Path(fabric)])
        check_suffix(Path(output), Path(*files).suffix)
        write_file(Path(output), *files.values())
    return files
