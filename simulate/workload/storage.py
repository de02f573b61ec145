"""3FS, the storage of Fire-Flyer: clients, servers and SSDs as SimPy processes on the network.

After An et al., "Fire-Flyer AI-HPC", SC'24, arXiv 2408.14158, section VI-B, and the design notes of 3FS
(github.com/deepseek-ai/3FS, ``docs/design_notes.md``):

- A file is cut into chunks of equal size, striped over *chains*. A chain is a row of *targets*, each on an SSD of
  another server, that hold the same chunks (CRAQ): a read goes to any of them, a write from the first to the last.
- Request to send: a server that has read a chunk from its SSD asks the client, which lets only so many servers send to
  it at a time. This keeps many servers from filling the client's link at once (incast), for some latency more.
- A server has an adapter in every zone, and serves a client over the one in the client's zone.

What the fluid network cannot show: there are no queues in switches, so nothing is lost or paused, and no flow holds up
one behind it. What incast does here is to take shares: n senders to a port leave 1 / (n + 1) of it to another flow.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import simpy
from numpy.typing import NDArray

from simulate.engines.environment import NetworkEnvironment
from simulate.traffic.placement import zone_of
from topo.errors import HeddleError
from topo.fabric import Fabric, Role, frozen
from topo.hardware.models import NodeModel

GBYTE = 1e9
Process = Generator[simpy.Event, Any, None]


@dataclass(frozen=True)
class StorageOptions:
    """How the file system is set up."""

    replicas: int = 2
    """Targets of a chain: the paper's mirror redundancy."""
    chunk_bytes: float = 2.0**20
    """Chunk of a file, the example of 3FS's deployment guide."""
    stripe: int = 200
    """Chains that a file is dealt over, "in production" by the design notes."""
    senders: int | None = 64
    """Servers that may send to a client at a time, 3FS's default of ``max_concurrent_transmission``; None for no limit,
    and no asking."""
    message_s: float = 3e-6
    """A message without payload from host to host: 2.8 us on one leaf and 3.7 us across, arXiv 2505.09343."""

    def __post_init__(self) -> None:
        for name, least in (("replicas", 1), ("stripe", 1), ("senders", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise HeddleError(f"found {value} {name}; expected at least {least}")
        if not (np.isfinite(self.chunk_bytes) and self.chunk_bytes > 0):
            raise HeddleError(f"found chunks of {self.chunk_bytes} bytes; expected more than 0")
        if not (np.isfinite(self.message_s) and self.message_s >= 0):
            raise HeddleError(f"found messages of {self.message_s} s; expected seconds, not negative")


class Target(NamedTuple):
    """A place for chunks."""

    server: int
    ssd: int


class File(NamedTuple):
    """Where the chunks of a file are: chunk c is on chain ``chains[c % len(chains)]``."""

    chains: NDArray[np.int32]


class Reading(NamedTuple):
    """A read that is over."""

    client: int
    """End port of the client."""
    server: int
    asked_s: float
    """When the client asked."""
    begin_s: float
    """When the bytes began to flow."""
    finish_s: float
    size_bytes: float
    senders: int
    """Servers that sent to the client as it began, this one included."""


class Storage:
    """The storage servers of a fabric.

    Parameters
    ----------
    model
        What the servers are; the figures of their SSDs are used.

    Raises
    ------
    HeddleError
        When the fabric has no storage servers, too few for the replicas, or the catalog lacks a figure.
    """

    def __init__(self, env: NetworkEnvironment, model: NodeModel, options: StorageOptions | None = None) -> None:
        self.env = env
        self.options = options or StorageOptions()
        self.adapters = storage_adapters(env.network.fabric)
        """By server: its end port in each zone."""
        self.n_ssds = model.ssds
        rates = [_figure(model, name) for name in ("ssd_read_gbyte_per_s", "ssd_write_gbyte_per_s")]
        self.read_bytes_s, self.write_bytes_s = (GBYTE * rate for rate in rates)
        waits = [_figure(model, name) for name in ("ssd_read_latency_us", "ssd_write_latency_us")]
        self.read_latency_s, self.write_latency_s = (wait / 1e6 for wait in waits)
        self.ssds = [[simpy.Resource(env) for _ in range(self.n_ssds)] for _ in self.adapters]
        self.chains = _chains(len(self.adapters), self.n_ssds, self.options.replicas)
        self._next_chain = 0
        self.readings: list[Reading] = []
        self.written_bytes = 0.0
        """Bytes of clients that every replica has kept."""

    def file(self, rng: np.random.Generator) -> File:
        """Return a new file: on the chains behind those of the file before it, round-robin, in an order at random."""
        stripe = min(self.options.stripe, len(self.chains))
        chains = (self._next_chain + rng.permutation(stripe)) % len(self.chains)
        self._next_chain = (self._next_chain + stripe) % len(self.chains)
        return File(frozen(chains.astype(np.int32)))

    def target(self, chain: int, replica: int) -> Target:
        """Return a target of a chain."""
        server, ssd = self.chains[chain, replica].tolist()
        return Target(server, ssd)

    def adapter(self, server: int, zone: int) -> int:
        """Return the end port over which a server serves a zone: any of its own where it has none there."""
        ends = self.adapters[server]
        return ends.get(zone, next(iter(ends.values())))

    def fetch(self, target: Target, size_bytes: float) -> Process:
        """An SSD reads: one read after another at its rate. Latencies overlap, since it works on many at a time."""
        with self.ssds[target.server][target.ssd].request() as turn:
            yield turn
            yield self.env.timeout(size_bytes / self.read_bytes_s)
        yield self.env.timeout(self.read_latency_s)

    def keep(self, target: Target, size_bytes: float) -> Process:
        """An SSD writes."""
        with self.ssds[target.server][target.ssd].request() as turn:
            yield turn
            yield self.env.timeout(size_bytes / self.write_bytes_s)
        yield self.env.timeout(self.write_latency_s)


class Client:
    """A compute node that reads and writes files.

    Parameters
    ----------
    end
        End port of its adapter.
    rng
        Draws samples and replicas; each client has its own, so that what one draws does not depend on when others do.
    sl
        Service level of what it reads and writes.
    tag
        Of its flows.
    """

    def __init__(self, storage: Storage, end: int, rng: np.random.Generator, *, sl: int = 0, tag: int = 0) -> None:
        self.storage = storage
        self.sl, self.tag = sl, tag
        self.env = storage.env
        self.end = end
        self.rng = rng
        self.zone = int(zone_of(self.env.network.fabric, end))
        senders = storage.options.senders
        self.permission = None if senders is None else simpy.Resource(self.env, senders)
        self.senders = 0
        """Servers that send to it now."""

    def read(self, file: File, chunk: int, size_bytes: float) -> Process:
        """Read from a chunk: ask a server that has it, which asks back when its SSD has read, and sends when it may."""
        storage, env, options = self.storage, self.env, self.storage.options
        chain = int(file.chains[chunk % len(file.chains)])
        target = storage.target(chain, int(self.rng.integers(options.replicas)))
        asked_s = env.now
        yield env.timeout(options.message_s)
        yield from storage.fetch(target, size_bytes)
        if self.permission is None:
            yield from self._receive(target, size_bytes, asked_s)
            return
        yield env.timeout(options.message_s)  # the server asks
        with self.permission.request() as granted:
            yield granted
            yield env.timeout(options.message_s)  # the client's answer
            yield from self._receive(target, size_bytes, asked_s)

    def write(self, file: File, chunk: int, size_bytes: float) -> Process:
        """Write to a chunk: each server of its chain pulls it from the one before it and keeps it; then all agree."""
        storage, env, options = self.storage, self.env, self.storage.options
        chain = int(file.chains[chunk % len(file.chains)])
        yield env.timeout(options.message_s)
        before = self.end
        for replica in range(options.replicas):
            target = storage.target(chain, replica)
            adapter = storage.adapter(target.server, self.zone)
            yield env.transfer(before, adapter, size_bytes, sl=self.sl, tag=self.tag)
            yield from storage.keep(target, size_bytes)
            before = adapter
        yield env.timeout(options.replicas * options.message_s)  # the last commits, and so back to the client
        storage.written_bytes += size_bytes

    def load(self, files: list[File], batch: int, sample_bytes: float, *, batches: int | None = None) -> Process:
        """Load data as FFRecord does: ask for all samples of a batch at once, go on when the last one is there.

        Parameters
        ----------
        batches
            How many; None for ever.
        """
        done = 0
        while batches is None or done < batches:
            choices = self.rng.integers(len(files), size=batch).tolist()
            chunks = self.rng.integers(2**31, size=batch).tolist()
            reads = [self.read(files[at], chunk, sample_bytes) for at, chunk in zip(choices, chunks, strict=True)]
            yield self.env.all_of([self.env.process(read) for read in reads])
            done += 1

    def save(self, file: File, size_bytes: float, *, depth: int = 16) -> Process:
        """Save a checkpoint: write chunk after chunk of a file, so many at a time."""
        count = int(np.ceil(size_bytes / self.storage.options.chunk_bytes))
        sizes = np.full(count, self.storage.options.chunk_bytes)
        sizes[-1:] = size_bytes - (count - 1) * self.storage.options.chunk_bytes

        def hand(first: int) -> Process:
            for chunk in range(first, count, depth):
                yield from self.write(file, chunk, float(sizes[chunk]))

        yield self.env.all_of([self.env.process(hand(first)) for first in range(min(depth, count))])

    def _receive(self, target: Target, size_bytes: float, asked_s: float) -> Process:
        storage = self.storage
        self.senders += 1
        senders = self.senders
        adapter = storage.adapter(target.server, self.zone)
        ended: Any = yield self.env.transfer(adapter, self.end, size_bytes, sl=self.sl, tag=self.tag)
        self.senders -= 1
        storage.readings.append(
            Reading(self.end, target.server, asked_s, ended.start_s, ended.finish_s, size_bytes, senders)
        )


def storage_adapters(fabric: Fabric) -> list[dict[int, int]]:
    """Return, for each storage server of a fabric, its end port in each zone.

    Raises
    ------
    HeddleError
        When there is none.
    """
    ends = np.arange(fabric.n_switches, fabric.n_end_ports)
    ends = ends[(fabric.role[fabric.end_node[ends]] == Role.STORAGE) & (fabric.end_switch[ends] >= 0)]
    servers: dict[int, dict[int, int]] = {}
    for end, node in zip(ends.tolist(), fabric.end_node[ends].tolist(), strict=True):
        # An adapter that sits in no known host is a server of its own.
        host = int(fabric.host[node])
        servers.setdefault(host if host >= 0 else -1 - node, {}).setdefault(int(fabric.zone[node]), end)
    if not servers:
        raise HeddleError(
            f"{fabric.name} has no storage servers; give hosts the role storage, in the spec or by a file of roles"
        )
    return list(servers.values())


def _chains(n_servers: int, n_ssds: int, replicas: int) -> NDArray[np.int32]:
    """Return (C, replicas, 2) server and SSD of each target: a chain for each SSD, which holds its first target.

    Chains that follow each other begin on servers that follow each other. The next targets of a chain follow at a
    distance that differs from SSD to SSD, so that what a server holds is mirrored on many.
    """
    if replicas > n_servers:
        raise HeddleError(f"found {replicas} replicas on {n_servers} storage servers; expected one a server at most")
    if n_ssds < 1:
        raise HeddleError("found storage servers without SSDs; expected some in the catalog")
    ssd, server = np.divmod(np.arange(n_servers * n_ssds), n_servers)
    distance = 1 + ssd % max((n_servers - 1) // max(replicas - 1, 1), 1)
    at = np.arange(replicas)
    holders = (server[:, None] + at * distance[:, None]) % n_servers
    return frozen(np.stack([holders, np.broadcast_to(ssd[:, None], holders.shape)], axis=-1).astype(np.int32))


def _figure(model: NodeModel, name: str) -> float:
    value = getattr(model, name)
    if value is None or value <= 0:
        raise HeddleError(f"the catalog has no {name} of {model.name}; storage cannot be played without it")
    return float(value)
