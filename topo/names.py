"""Names of switches that nothing else in a plan has, however many subnets it has and whatever its groups are called."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from topo.fabric import Fabric

SWITCH = "sw-"
"""What the names of switches begin with where a group of servers has the name that they would have."""


def distinct_names(fabrics: Sequence[Fabric], cluster: str, groups: Iterable[str]) -> tuple[Fabric, ...]:
    """Return the planned subnets of a cluster with switches whose names differ from all others in more than a number.

    The first subnet that has a ``leaf0`` keeps it. Those of another begin with what sets the names of both subnets
    apart, ``storage-leaf0``, and where servers are called ``leaf0`` the switch is ``sw-leaf0``. GUIDs stay.

    Parameters
    ----------
    fabrics : sequence of Fabric
        The subnets.
    cluster : str
        What the names of all subnets begin with.
    groups : iterable of str
        Groups of servers, after which servers are called: ``gpu`` of ``gpu0042``.
    """
    taken = set(groups)
    renamed = []
    for fabric in fabrics:
        own = fabric.name.removeprefix(cluster).lstrip("-")
        stems = {_stem(fabric.label(switch)) for switch in range(fabric.n_switches)}
        prefix = f"{own}-" if own and stems & taken else ""
        while any(prefix + stem in taken for stem in stems):
            prefix = SWITCH + prefix
        taken |= {prefix + stem for stem in stems}
        renamed.append(_with_prefix(fabric, prefix) if prefix else fabric)
    return tuple(renamed)


def _stem(name: str) -> str:
    """Return a name without the number at its end: ``leaf`` of ``leaf07``."""
    return name.rstrip("0123456789")


def _with_prefix(fabric: Fabric, prefix: str) -> Fabric:
    """Return the fabric with a prefix before the name of each switch, within its NodeDescription."""
    switches = (name.replace("MF0;", f"MF0;{prefix}", 1) for name in fabric.names[: fabric.n_switches])
    return replace(fabric, names=(*switches, *fabric.names[fabric.n_switches :]))
