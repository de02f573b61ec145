"""Finds end ports by the names that people and tools write."""

from __future__ import annotations

import re

import numpy as np

from topo.errors import did_you_mean
from topo.fabric import Fabric

GUID = re.compile(r"0x[0-9a-fA-F]{1,16}")


class EndPortNames:
    """The adapter ports of a fabric by name.

    A name is a NodeDescription (``gpu0001 mlx5_0``), a host (``gpu0001``), either with a port number (``gpu0001
    mlx5_0:2``), or a port GUID (``0x98039b0300c1f2aa``), which is the way out where descriptions are not unique.
    """

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric
        self._by_name: dict[str, list[int]] = {}
        self._by_guid: dict[int, int] = {}
        plugged = np.flatnonzero(fabric.end_switch[fabric.n_switches :] >= 0) + fabric.n_switches
        ports = plugged - fabric.n_switches + fabric.first_adapter_port
        number, guid = fabric.port_number[ports].tolist(), fabric.end_guid[plugged].tolist()
        for at, (end, node) in enumerate(zip(plugged.tolist(), fabric.end_node[plugged].tolist(), strict=True)):
            host = int(fabric.host[node])
            names = {fabric.names[node]} | ({fabric.hosts[host]} if host >= 0 else set())
            for name in names:
                self._by_name.setdefault(name, []).append(end)
                self._by_name.setdefault(f"{name}:{number[at]}", []).append(end)
            self._by_guid[guid[at]] = end

    def find(self, name: str) -> list[int]:
        """Return the end ports that a name fits: one when it is good, none or several when it is not."""
        found = self._by_name.get(name, [])
        if not found and GUID.fullmatch(name):
            end = self._by_guid.get(int(name, 16))
            return [] if end is None else [end]
        return found

    def advice(self, name: str) -> tuple[str, str]:
        """Return what was expected in place of a name that `find` does not fit to one end port, and a hint."""
        found = self.find(name)
        if found:
            shown = ", ".join(f'"{self.unique_name(end)}"' for end in found[:3])
            return "the name of one adapter port", f"{len(found)} ports fit: {shown}{', ...' if found[3:] else ''}."
        # Likeness is slow to tell: of a large fabric, only look at names that begin alike.
        candidates = [known for known in self._by_name if known[:3] == name[:3]] or [*self._by_name]
        return "an adapter port of this fabric, plugged in", did_you_mean(name, candidates[:5000])

    def unique_name(self, end: int) -> str:
        """Return a name that `find` fits to this end port alone, the shortest there is."""
        fabric = self.fabric
        name = fabric.names[int(fabric.end_node[end])]
        port = end - fabric.n_switches + fabric.first_adapter_port
        for text in (name, f"{name}:{int(fabric.port_number[port])}"):
            if self._by_name.get(text) == [end]:
                return text
        return f"0x{int(fabric.end_guid[end]):016x}"
