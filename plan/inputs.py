"""What the command is pointed at: a spec, or a real fabric."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from topo.errors import HeddleError
from topo.fabric import Fabric

__all__ = ["FabricInput", "read_fabric_argument"]

SPEC_SUFFIXES = (".yaml", ".yml")


class FabricInput(NamedTuple):
    """A fabric, and what was passed over when it was read."""

    fabric: Fabric
    notes: tuple[str, ...]


def read_fabric_argument(path: Path, subnet: str | None = None) -> FabricInput:
    """Read a fabric out of a spec (``.yaml``) or out of a dump of a real one.

    Parameters
    ----------
    subnet : str, optional
        Which subnet of a spec that has several.

    Raises
    ------
    HeddleError
        When the file cannot be read, or it is not clear which subnet is meant.
    """
    if path.suffix not in SPEC_SUFFIXES:
        from topo.formats.fabric_file import read_fabric
        from topo.levels import find_levels

        discovery = read_fabric(path)
        passed = discovery.skipped
        notes = tuple(f"{path}{f':{line}' if line else ''}: passed over, {reason}" for line, reason in passed[:5])
        more = (f"{path}: {len(passed) - 5:,} more lines passed over",) if len(passed) > 5 else ()
        return FabricInput(find_levels(discovery.fabric), notes + more)
    from topo.compile import compile_cluster
    from topo.spec import read_spec

    source = read_spec(path)
    fabrics = {fabric.name: fabric for fabric in compile_cluster(source.spec, source.catalog)}
    if subnet is None and len(fabrics) == 1:
        subnet = next(iter(fabrics))
    if subnet not in fabrics:
        found = f"no subnet {subnet!r}" if subnet else f"{len(fabrics)} subnets"
        raise HeddleError(f"{path}: found {found}; expected --subnet with one of {', '.join(fabrics)}")
    return FabricInput(fabrics[subnet], ())
