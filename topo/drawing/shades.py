"""Colours of links: by how busy they are beside the mean, or by speed where no load is known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from topo import palette
from topo.fabric import Fabric


class Shades:
    """Colours of the links of one subnet.

    ``load`` is (P,) pairs, bytes or flows (``unit``) over each channel: a link is as busy as its busier channel, a slow
    one the busier for it, beside the mean of the links between switches that carry any. With ``marked`` any load at all
    is the most that there can be. ``speeds`` are the rates of links between switches in the whole drawing in Gb/s,
    fastest first.
    """

    def __init__(
        self,
        fabric: Fabric,
        load: NDArray[np.int64] | None,
        speeds: Sequence[float],
        unit: str = "pairs",
        *,
        marked: bool = False,
    ) -> None:
        self.load = load
        self.unit = unit
        self.rate = fabric.rate_gbps[fabric.links].min(axis=1)
        self._ports = fabric.links
        self._speeds = list(speeds)
        if load is None:
            return
        between = (fabric.port_node < fabric.n_switches) & (fabric.peer_node >= 0)
        between &= fabric.peer_node < fabric.n_switches
        busy = np.zeros(fabric.n_ports)
        busy[between] = load[between] / fabric.rate_gbps[between] * fabric.rate_gbps[between].max(initial=1.0)
        if marked:
            busy[busy > 0] = np.inf
        busier = busy[fabric.links].max(axis=1)
        used = busier[np.isfinite(busier) & (busier > 0)]
        self._busy = busier / (used.mean() if len(used) else 1.0)

    def busy(self, links: Sequence[int], *, mean: bool = False) -> float:
        """Return the load of the busiest of some links, or of all, in times of the mean; 1 where no load is known."""
        if self.load is None:
            return 1.0
        busy = self._busy[list(links)]
        return float(busy.mean() if mean else busy.max())

    def of(self, links: Sequence[int], *, mean: bool = False) -> str:
        """Return the colour of links that are drawn as one: by the busiest, or by all of them, or by the slowest."""
        if self.load is None:
            rate = float(self.rate[list(links)].min())
            place = self._speeds.index(rate) if rate in self._speeds else 0
            return palette.SPEED_SHADES[min(place, len(palette.SPEED_SHADES) - 1)]
        busy = self.busy(links, mean=mean)
        return next(colour for most, colour, _ in palette.LOADS if busy <= most)

    def words(self, links: Sequence[int]) -> str:
        """Say how fast links are, and how busy where that is known."""
        rates = sorted(set(self.rate[list(links)].tolist()))
        speed = " to ".join(f"{rate:g}" for rate in dict.fromkeys([rates[0], rates[-1]])) + " Gb/s"
        if self.load is None:
            return speed
        loads = self.load[self._ports[list(links)]].max(axis=1)
        least, most = int(loads.min()), int(loads.max())
        return f"{speed}, {f'{least:,} to ' if least < most else ''}{most:,} {self.unit}"
