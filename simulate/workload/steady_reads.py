"""What storage gives to clients that read without end: bytes a second, who sends at one time, and load on links."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from simulate.engines.environment import NetworkEnvironment
from simulate.network import Network
from simulate.traffic.flows import Flows
from simulate.workload.storage import Client, Storage, StorageOptions
from topo.errors import HeddleError
from topo.fabric import frozen
from topo.hardware.models import NodeModel

FILES = 144
BINS = 256
"""Of the timeline; at least half of them hold the time until one has looked."""


@dataclass(frozen=True, eq=False)
class SteadyReads:
    """Means over a time in which reads come and go."""

    time_s: float
    """How long one has looked."""
    bytes_s: float
    """Read by all clients together."""
    read_s: float
    """From the first byte of a read to its last, of those that end in the time."""
    waited_s: float
    """From the asking to the first byte, of the same."""
    senders: float
    """Servers that send to a client as one begins to, itself included, of the same."""
    load: NDArray[np.float64]
    """(P,) load of each channel of the fabric, as a part of its capacity."""


def steady_reads(
    network: Network,
    clients: ArrayLike,
    model: NodeModel,
    options: StorageOptions,
    *,
    loaders: int = 2,
    batch: int = 32,
    sample_bytes: float = 2.0**20,
    warm_s: float = 4e-3,
    time_s: float = 8e-3,
    beside: Flows | None = None,
    sl: int = 0,
    seed: int = 0,
) -> SteadyReads:
    """Let clients read batches of random samples without end, and look at them when the pipes are full.

    Parameters
    ----------
    clients
        End ports of the clients.
    model
        What the storage servers are.
    loaders
        Loaders of each client, which ask for `batch` samples at once and go on when the last one is there.
    warm_s, time_s
        Seconds until one looks, and for how long.
    beside
        Flows that begin when one looks; then one looks until the last of them has ended.

    Raises
    ------
    HeddleError
        When storage cannot be set up so, or nothing is read in the time.
    """
    env = NetworkEnvironment(network, n_bins=BINS, keep=False)
    storage = Storage(env, model, options)
    rng = np.random.default_rng(seed)
    files = [storage.file(rng) for _ in range(FILES)]
    ends = np.asarray(clients, np.int32)
    for end, own in zip(ends.tolist(), rng.spawn(len(ends)), strict=True):
        client = Client(storage, end, own, sl=sl)
        for _ in range(loaders):
            env.process(client.load(files, batch, sample_bytes))
    env.run(until=warm_s)
    env.run(until=warm_s + time_s if beside is None else env.play(beside))
    end_s = env.now
    readings = [reading for reading in storage.readings if reading.finish_s > warm_s]
    if not readings:
        raise HeddleError(f"no read ended from {warm_s} to {end_s} s; expected a longer time")
    fabric, timeline = network.fabric, env.fluid.timeline
    end = np.arange(1, BINS + 1) * timeline.bin_s
    looked_s = np.clip(end - warm_s, 0.0, timeline.bin_s)  # of each bin; nothing is in those that are still to come
    carried = timeline.load_bytes_s[: fabric.n_ports] @ looked_s
    into = fabric.peer[ends - fabric.n_switches + fabric.first_adapter_port]
    return SteadyReads(
        time_s=end_s - warm_s,
        bytes_s=float(carried[into].sum() - _bytes_into(ends, beside)) / (end_s - warm_s),
        read_s=float(np.mean([reading.finish_s - reading.begin_s for reading in readings])),
        waited_s=float(np.mean([reading.begin_s - reading.asked_s for reading in readings])),
        senders=float(np.mean([reading.senders for reading in readings])),
        load=frozen(carried / network.capacity_bytes_s[: fabric.n_ports] / (end_s - warm_s)),
    )


def _bytes_into(ends: NDArray[np.int32], flows: Flows | None) -> float:
    """Return what flows bring to end ports from others."""
    if flows is None:
        return 0.0
    return float(flows.size_bytes[np.isin(flows.dst, ends) & (flows.src != flows.dst)].sum())
