"""The nodes of a job by the names that a scheduler gives them, with their adapter ports rail by rail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np
from numpy.typing import NDArray

from simulate.traffic.placement import rails_of_hosts
from topo.errors import HeddleError, did_you_mean, plural
from topo.fabric import Fabric, Frozen, Role
from topo.hostlist import compress
from topo.table import Brief


@dataclass(frozen=True, eq=False)
class JobNodes(Frozen, Brief):
    """N nodes, each with the same number of adapter ports."""

    names: tuple[str, ...]
    """(N,) of the nodes, in the order of the scheduler."""
    ends: NDArray[np.int32]
    """(N, rails) their end ports."""
    adapters: tuple[str, ...]
    """(rails,) devices of the first node, such as ``mlx5_0``: the last word of their description."""

    def _brief(self) -> str:
        return f"{compress(self.names)}, {plural(len(self.adapters), 'adapter')} each"

    @classmethod
    def of(cls, fabric: Fabric, names: Iterable[str], adapters: str | None = None) -> JobNodes:
        """Find the nodes of a job.

        Parameters
        ----------
        adapters : str, optional
            Pattern of the devices that take part, such as ``mlx5_[0-7]``, which the last word of a description has to
            match; by default those of compute nodes.

        Raises
        ------
        HeddleError
            When a name is no server's, is there twice, or nodes have different numbers of adapter ports.

        Examples
        --------
        >>> import topo, simulate
        >>> simulate.traffic.JobNodes.of(topo.preset("dgx-b200-superpod").fabric, ["gpu000", "gpu001"]).adapters[:2]
        ('mlx5_0', 'mlx5_1')
        """
        names = tuple(names)
        if twice := sorted(name for name, times in Counter(names).items() if times > 1):
            raise HeddleError(f"found {_short(twice)} twice among the nodes of the job; expected each once")
        number = {name: host for host, name in enumerate(fabric.hosts)}
        rails = rails_of_hosts(fabric)
        found: list[NDArray[np.int32]] = []
        for name in names:
            if number.get(name) not in rails:
                hint = did_you_mean(name, (fabric.hosts[host] for host in rails))
                raise HeddleError(f"found the node {name!r}; expected a server of {fabric.name}. {hint}".strip())
            ends = rails[number[name]]
            node = fabric.end_node[ends]
            if adapters is not None:
                fits = [fnmatchcase(_device(fabric, at), adapters) for at in node.tolist()]
            else:
                fits = (fabric.role[node] == Role.COMPUTE).tolist()
            found.append(ends[np.array(fits, bool)])
        by_count: dict[int, list[str]] = {}
        for name, ends in zip(names, found, strict=True):
            by_count.setdefault(len(ends), []).append(name)
        if len(by_count) > 1 or 0 in by_count:
            counts = "; ".join(f"{plural(count, 'port')}: {_short(few)}" for count, few in sorted(by_count.items()))
            nodes = fabric.end_node[np.concatenate([rails[number[name]] for name in names])]
            devices = sorted({_device(fabric, at) for at in nodes.tolist()})
            raise HeddleError(
                f"found nodes with different numbers of adapter ports, or without any ({counts}); expected as many of "
                f"each: say which of their devices take part ({_short(devices)}) by a pattern (--adapters)"
            )
        first = fabric.end_node[np.concatenate([*found[:1], np.zeros(0, np.int32)])]
        return cls(names, np.array(found, np.int32), tuple(_device(fabric, node) for node in first.tolist()))


def _device(fabric: Fabric, node: int) -> str:
    return (fabric.names[node].split() or [""])[-1]


def _short(names: list[str]) -> str:
    text = compress(names)
    return text if len(text) <= 60 else f"{text[:60]}..."
