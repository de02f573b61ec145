"""Storage as long runs see it: a node's reads and writes of a minute or more, as a few streams.

`simulate.workload.storage` plays every read; a day of them would be thousands of millions. Here a stream stands for all
that a
node reads from one server, and server and replica are drawn as there. SSDs are left out: those of a 3FS server read and
write faster than its adapters send and take in (`simulate.workload.storage`), and where that is not so this must not be
used.
"""

from __future__ import annotations

import numpy as np
import simpy
from numpy.typing import ArrayLike, NDArray

from simulate.engines.environment import NetworkEnvironment
from simulate.traffic.placement import zone_of
from simulate.workload.storage import storage_adapters
from topo.errors import HeddleError
from topo.fabric import frozen


class BulkStorage:
    """The storage servers of a fabric.

    Parameters
    ----------
    streams
        Servers among which a node's bytes are dealt, each time others.
    replicas
        Servers that keep what is written.
    """

    def __init__(self, env: NetworkEnvironment, *, streams: int = 4, replicas: int = 2, sl: int = 0) -> None:
        adapters = storage_adapters(env.network.fabric)
        if not 1 <= replicas <= len(adapters) or streams < 1:
            raise HeddleError(
                f"found {streams} streams and {replicas} replicas on {len(adapters)} storage servers; expected at "
                f"least one stream, and a server for each replica"
            )
        self.env = env
        self.streams, self.replicas, self.sl = streams, replicas, sl
        zones = sorted({zone for ends in adapters for zone in ends})
        self._adapter = frozen(
            np.array([[ends.get(zone, next(iter(ends.values()))) for ends in adapters] for zone in zones], np.int32)
        )
        """(Z, servers) end port over which each server serves a zone; zones in order."""
        self._row = {zone: at for at, zone in enumerate(zones)}

    def read(self, ends: ArrayLike, size_bytes: float, rng: np.random.Generator) -> simpy.Event:
        """Let each of these nodes read so many bytes."""
        node = np.repeat(np.asarray(ends, np.int64), self.streams)
        server = rng.integers(self._adapter.shape[1], size=len(node))
        return self.env.transfer_all(self._at(node, server), node, size_bytes / self.streams, sl=self.sl)

    def write(self, ends: ArrayLike, size_bytes: float, rng: np.random.Generator) -> simpy.Event:
        """Let each of these nodes write so many bytes: to the first server of a chain, from it to the next, and so on.

        A chain passes on a chunk while it takes in the next, so that all of it moves at a time.
        """
        node = np.repeat(np.asarray(ends, np.int64), self.streams)
        first = rng.integers(self._adapter.shape[1], size=len(node))
        step = 1 + rng.integers(max(self._adapter.shape[1] // self.replicas, 1), size=len(node))
        chain = (first + np.arange(self.replicas)[:, None] * step) % self._adapter.shape[1]
        dst = self._at(node, chain)
        src = np.concatenate([node[None, :], dst[:-1]])
        return self.env.transfer_all(src.ravel(), dst.ravel(), size_bytes / self.streams, sl=self.sl)

    def _at(self, node: ArrayLike, server: ArrayLike) -> NDArray[np.int32]:
        """Return the adapter of a server in the zone of a node."""
        zones = zone_of(self.env.network.fabric, node).tolist()
        row = np.array([self._row.get(zone, 0) for zone in zones])
        found: NDArray[np.int32] = self._adapter[row, np.asarray(server)]
        return found
