"""Groups of equal servers, and how they are dealt over zones and leaves."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from topo.errors import DesignError
from topo.fabric import Role
from topo.hardware.speeds import LinkSpeed


@dataclass(frozen=True)
class HostGroup:
    """Servers of one model that are placed alike."""

    name: str
    """Name of the group in the spec; servers are called after it."""
    count: int
    model: str
    role: Role
    adapters: int
    """Adapters a server, each with one port in use."""
    adapter_model: str
    speed: LinkSpeed
    device: int = 0
    """Number of the adapter that is placed: ``mlx5_0``, ``mlx5_1``, ..."""
    first: int = 0
    """Number of the first server, when the group is a part of a larger one."""
    total: int = 0
    """Servers in the whole group; 0 when this is all of it."""


def host_names(group: HostGroup) -> list[str]:
    """Names of the servers, numbered from 0 with as many digits as the whole group needs: ``gpu0000``."""
    digits = len(str(max((group.total or group.count) - 1, 0)))
    return [f"{group.name}{number:0{digits}d}" for number in range(group.first, group.first + group.count)]


def each_adapter(group: HostGroup) -> list[HostGroup]:
    """One group an adapter, for servers that hang with all their adapters in the same tree."""
    return [replace(group, device=group.device + number) for number in range(group.adapters)]


def deal(group: HostGroup, parts: int) -> list[HostGroup]:
    """Cut a group into consecutive parts whose sizes differ by at most one, larger ones first."""
    total = group.total or group.count
    sizes = [group.count // parts + (part < group.count % parts) for part in range(parts)]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    return [
        replace(group, count=size, first=group.first + int(start), total=total)
        for size, start in zip(sizes, starts[:-1], strict=True)
    ]


def apportion(count: int, room: NDArray[np.int64]) -> NDArray[np.int64]:
    """Spread ``count`` servers over places with ``room`` so that no place has one more than another without need.

    Parameters
    ----------
    count : int
        Servers to place.
    room : (n,) int64
        Free ports of each place.

    Returns
    -------
    (n,) int64
        Servers for each place: everywhere the same number or one more, less only where there is no room. Places with
        one more are evenly spaced.

    Raises
    ------
    DesignError
        When there is not room for all.
    """
    if count > int(room.sum()):
        raise DesignError(f"{count} servers need {count} ports and {int(room.sum())} are free")
    level = 0
    while int(np.minimum(room, level + 1).sum()) <= count and level < count:
        level += 1
    placed = np.minimum(room, level)
    more = count - int(placed.sum())
    open_places = np.flatnonzero(room > level)
    if more:
        step = np.arange(len(open_places) + 1) * more // len(open_places)
        placed[open_places[np.flatnonzero(np.diff(step))]] += 1
    return placed
