"""Where servers hang: which leaf, which port, in which order. Shared by all families of topologies."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from topo.builder import FabricBuilder
from topo.errors import DesignError
from topo.fabric import Role
from topo.hardware.catalog import Catalog
from topo.hardware.models import SwitchModel
from topo.hardware.speeds import LinkSpeed, slower
from topo.shapes.hosts import HostGroup, apportion, host_names


class SwitchPorts:
    """A switch model as it is used: whole ports, or each split in two of half the width."""

    def __init__(self, model: SwitchModel, *, split: bool = False) -> None:
        self.name = model.name
        self.radix = model.chip_radix or model.radix
        self.speed = model.speed
        if split:
            if not model.split_radix:
                raise DesignError(f"the ports of {model.name} cannot be split, as far as the catalog knows")
            self.speed = LinkSpeed(model.speed.width * self.radix // model.split_radix, model.speed.generation)
            self.radix = model.split_radix


def switch_ports(catalog: Catalog, name: str, *, split: bool = False) -> SwitchPorts:
    """Look up a switch and how its ports are used."""
    return SwitchPorts(catalog.switch(name), split=split)


def switch_name(name: str, model: str) -> str:
    """NodeDescription of a switch in the form that NVIDIA's tools expect: ``MF0;leaf01:MQM8700/U1``."""
    vendor_model = f"M{model}" if model[:2] in ("QM", "CS", "SB", "SN") else model
    return f"MF0;{name}:{vendor_model}/U1"


def add_switches(
    builder: FabricBuilder,
    ports: SwitchPorts,
    count: int,
    stem: str,
    *,
    role: Role,
    level: int,
    zone: int = 0,
    radix: int | None = None,
) -> list[int]:
    """Add switches ``leaf00``, ``leaf01``, ... and return their keys; ``radix`` where some ports only are split."""
    digits = len(str(max(count - 1, 0)))
    return [
        builder.switch(
            switch_name(f"{stem}{number:0{digits}d}", ports.name),
            model=ports.name,
            radix=radix or ports.radix,
            role=role,
            level=level,
            zone=zone,
        )
        for number in range(count)
    ]


def seat(
    builder: FabricBuilder,
    leaves: Sequence[int],
    room: NDArray[np.int64],
    groups: Sequence[HostGroup],
    speed: LinkSpeed,
    *,
    placed: Sequence[NDArray[np.int64]] | None = None,
) -> None:
    """Hang servers on leaves, from port 1 up.

    Each group is spread evenly over the leaves and in order, so that its consecutive servers hang together.

    Parameters
    ----------
    leaves : sequence of int
        Keys of the leaves in the builder.
    room : (leaves,) int64
        Ports of each leaf that servers may take.
    speed : LinkSpeed
        What a leaf's port can do.
    placed : sequence of (leaves,) int64, optional
        Servers of each group on each leaf, where that is not left to an even spread.
    """
    next_port = np.ones(len(leaves), np.int64)
    for index, group in enumerate(groups):
        counts = apportion(group.count, room) if placed is None else placed[index]
        room = room - counts
        link_speed = slower(group.speed, speed)
        for name, leaf in zip(host_names(group), np.repeat(np.arange(len(leaves)), counts).tolist(), strict=True):
            key = builder.adapter(
                name,
                f"mlx5_{group.device}",
                model=group.adapter_model,
                host_model=group.model,
                role=group.role,
                zone=builder.zone_of(leaves[leaf]),
            )
            builder.link(key, 1, leaves[leaf], int(next_port[leaf]), link_speed)
            next_port[leaf] += 1


def refuse_overflow(groups: Sequence[HostGroup], leaves: int, down: int, *, grafted: int = 0) -> None:
    """Refuse more adapters, and links of grafts, than there are ports for, with the arithmetic and what would close."""
    needed = sum(group.count for group in groups) + grafted
    if needed > leaves * down:
        more = f" + {grafted} for grafts" if grafted else ""
        enough = f"{-(-needed // down):,}" if down else "more"
        raise DesignError(
            f"{ports_wanted(groups)}{more} = {needed:,} leaf ports, and {leaves:,} leaves x {down} = "
            f"{leaves * down:,}: short of {needed - leaves * down:,}. Take {enough} leaves, a larger switch, or fewer "
            "nodes"
        )


def ports_wanted(groups: Sequence[HostGroup]) -> str:
    """Spell a sum of leaf ports: ``600 gpu + 180 storage``."""
    totals: dict[str, int] = {}
    for group in groups:
        totals[group.name] = totals.get(group.name, 0) + group.count
    return " + ".join(f"{count:,} {name}" for name, count in totals.items()) or "no node"
