"""3FS, the storage of Fire-Flyer: clients, servers and SSDs as SimPy processes on the network.

After An et al., "Fire-Flyer AI-HPC", SC'24, arXiv 2408.14158, section VI-B, and the design notes of 3FS
(github.com/deepseek-ai/3FS, ``docs/design_notes.md``):

- A file is cut into chunks of equal size, striped over *chains*. A chain is a row of *targets*, each on an SSD of
  another server, that hold the same chunks (CRAQ): a read goes to any of them, a write from the first to the last.
- Request to send: a server that has read a chunk from its SSD asks the client, which lets only so many servers send to
  it at a time. This keeps many servers from filling the client's link at once (incast), and costs some latency.
- A server has an adapter in every zone, and serves a client over the one in the client's zone; where it has several
  there, clients are dealt out over them.

What the fluid network cannot show: there are no queues in switches, so nothing is lost or paused, and no flow holds up
one behind it. What incast does here is to take shares: n senders to a port leave 1 / (n + 1) of it to another flow.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple

import numpy as np
import simpy
from numpy.typing import ArrayLike, NDArray

from routing.names import end_label
from routing.routed import Routed
from simulate.engines.simpy_bridge import NetworkEnvironment, Process
from simulate.traffic.flows import Flows
from simulate.traffic.network import GBYTE, Network
from simulate.traffic.placement import zone_of
from simulate.traffic.servers import ComputeServers, parts_of_ends, server_ports
from simulate.workload.spec import StorageSpec
from topo.catalog.models import NodeModel
from topo.errors import HeddleError
from topo.fabric import Fabric, frozen
from topo.table import Brief, format_seconds

STEADY_BINS = 256
"""Bins of the timeline of `steady_reads`; at least half of them hold the time until its end."""
File = NDArray[np.int32]
"""A file as its chains: chunk c is on chain ``file[c % len(file)]``."""


class Reading(NamedTuple):
    """A completed read."""

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

    Raises
    ------
    HeddleError
        When the fabric has no storage servers, too few for the replicas, or the catalog lacks a figure.
    """

    def __init__(self, env: NetworkEnvironment, model: NodeModel, setup: StorageSpec | None = None) -> None:
        self.env = env
        self.setup = setup or StorageSpec()
        self.adapters = storage_adapters(env.network.fabric)
        """By server: its end ports."""
        self._part = parts_of_ends(env.network.fabric)
        self.read_speed, self.write_speed = (
            (GBYTE * _figure(model, f"ssd_{way}_gbyte_per_s"), _figure(model, f"ssd_{way}_latency_us") / 1e6)
            for way in ("read", "write")
        )
        """Rate of an SSD in bytes a second, and its latency in seconds."""
        self.ssds = [[simpy.Resource(env) for _ in range(model.ssds)] for _ in self.adapters]
        self.chains = _chains(len(self.adapters), model.ssds, self.setup.replicas)
        self._next_chain = 0
        self.readings: list[Reading] = []
        self.written_bytes = 0.0
        """Bytes of clients that every replica has stored."""

    def file(self, rng: np.random.Generator) -> File:
        """Return a new file: on the chains behind those of the file before it, round-robin, in an order at random."""
        stripe = min(self.setup.stripe, len(self.chains))
        chains = (self._next_chain + rng.permutation(stripe)) % len(self.chains)
        self._next_chain = (self._next_chain + stripe) % len(self.chains)
        return frozen(chains.astype(np.int32))

    def adapter(self, server: int, client: int) -> int:
        """Return the end port over which a server serves a client: on its plane, and in its zone if it has one there.

        Clients are dealt out over the ports of a server that are alike.

        Raises
        ------
        HeddleError
            When the server has no port that links join to the client's.
        """
        fabric, ends = self.env.network.fabric, self.adapters[server]
        near = ends[self._part[ends] == self._part[client]]
        if not len(near):
            raise HeddleError(
                f"no links lead from {end_label(fabric, client)} to {fabric.server_of(int(fabric.end_node[ends[0]]))}; "
                "expected a port of each storage server on the plane of each client"
            )
        same = near[zone_of(fabric, near) == zone_of(fabric, client)]
        near = same if len(same) else near[:1]
        return int(near[client % len(near)])

    def access(self, server: int, ssd: int, size_bytes: float, bytes_s: float, latency_s: float) -> Process:
        """Read from an SSD, or write to it: it transfers one request at a time at its rate; their latencies overlap."""
        with self.ssds[server][ssd].request() as turn:
            yield turn
            yield self.env.timeout(size_bytes / bytes_s)
        yield self.env.timeout(latency_s)


class Client:
    """A compute node, by its end port, that reads and writes files.

    Parameters
    ----------
    rng
        Draws samples and replicas; each client has its own, so that its draws do not depend on those of others.
    sl, tag
        Service level and tag of its flows.
    """

    def __init__(self, storage: Storage, end: int, rng: np.random.Generator, *, sl: int = 0, tag: int = 0) -> None:
        self.storage = storage
        self.sl, self.tag = sl, tag
        self.env = storage.env
        self.end = end
        self.rng = rng
        senders = storage.setup.senders
        self.permission = None if senders is None else simpy.Resource(self.env, senders)
        self.senders = 0
        """Servers that send to this client now."""

    def read(self, file: File, chunk: int, size_bytes: float) -> Process:
        """Read from a chunk: ask a server that has it, which asks back when its SSD has read, and sends when it may."""
        storage, env, setup = self.storage, self.env, self.storage.setup
        chain = int(file[chunk % len(file)])
        server, ssd = storage.chains[chain, self.rng.integers(setup.replicas)].tolist()
        asked_s = env.now
        yield env.timeout(setup.message)
        yield from storage.access(server, ssd, size_bytes, *storage.read_speed)
        if self.permission is None:
            yield from self._receive(server, size_bytes, asked_s)
            return
        yield env.timeout(setup.message)  # the server asks
        with self.permission.request() as granted:
            yield granted
            yield env.timeout(setup.message)  # the client's answer
            yield from self._receive(server, size_bytes, asked_s)

    def write(self, file: File, chunk: int, size_bytes: float) -> Process:
        """Write to a chunk: each server of its chain pulls it from the one before it and keeps it; then all agree."""
        storage, env, setup = self.storage, self.env, self.storage.setup
        chain = int(file[chunk % len(file)])
        yield env.timeout(setup.message)
        before = self.end
        for server, ssd in storage.chains[chain].tolist():
            adapter = storage.adapter(server, self.end)
            yield env.transfer(before, adapter, size_bytes, sl=self.sl, tag=self.tag)
            yield from storage.access(server, ssd, size_bytes, *storage.write_speed)
            before = adapter
        yield env.timeout(setup.replicas * setup.message)  # the last commits, and so back to the client
        storage.written_bytes += size_bytes

    def load(self, files: list[File], batch: int, sample_bytes: float, *, batches: int | None = None) -> Process:
        """Load data as FFRecord does: request all samples of a batch at once, the next batch when all have arrived."""
        for _ in count() if batches is None else range(batches):
            choices = self.rng.integers(len(files), size=batch).tolist()
            chunks = self.rng.integers(2**31, size=batch).tolist()
            reads = [self.read(files[at], chunk, sample_bytes) for at, chunk in zip(choices, chunks, strict=True)]
            yield self.env.all_of([self.env.process(read) for read in reads])

    def save(self, file: File, size_bytes: float, *, depth: int = 16) -> Process:
        """Save a checkpoint: write the chunks of a file, `depth` at a time."""
        chunk_bytes = float(self.storage.setup.chunk)
        chunks = int(np.ceil(size_bytes / chunk_bytes))

        def hand(first: int) -> Process:
            for chunk in range(first, chunks, depth):
                yield from self.write(file, chunk, min(chunk_bytes, size_bytes - chunk * chunk_bytes))

        yield self.env.all_of([self.env.process(hand(first)) for first in range(min(depth, chunks))])

    def _receive(self, server: int, size_bytes: float, asked_s: float) -> Process:
        storage = self.storage
        self.senders += 1
        senders = self.senders
        adapter = storage.adapter(server, self.end)
        ended: Any = yield self.env.transfer(adapter, self.end, size_bytes, sl=self.sl, tag=self.tag)
        self.senders -= 1
        reading = Reading(self.end, server, asked_s, ended.start_s, ended.finish_s, size_bytes, senders)
        storage.readings.append(reading)


class BulkStorage:
    """The storage servers of a fabric as long runs see them: a node's reads and writes of a minute, as a few streams.

    Every client has a port to every server, of which there are as many as replicas, or more.

    `Storage` plays every read; a day of them would be thousands of millions. Here a stream stands for all that a node
    reads from one server, and server and replica are drawn as there. SSDs are left out: those of a 3FS server read and
    write faster than its adapters send and receive, and where that is not so this must not be used.

    Parameters
    ----------
    streams
        Servers over which a node's bytes are spread, each time others; at least one for each of its ports.
    """

    def __init__(
        self, env: NetworkEnvironment, clients: ComputeServers, *, streams: int = 4, replicas: int = 2, sl: int = 0
    ) -> None:
        self.env, self.clients, n_ports = env, clients, clients.to_storage.shape[1]
        self.streams = -(-streams // n_ports) * n_ports
        """As many over each port of a client."""
        self.replicas, self.sl = replicas, sl
        zone = zone_of(env.network.fabric, clients.to_storage)
        places = np.stack([clients.subnet[clients.to_storage], zone]).reshape(2, -1)
        place, row = np.unique(places, axis=1, return_inverse=True)
        self._row = row.reshape(zone.shape)
        """(n, Q) row of `_adapters` for each port of a client."""
        self._adapters = [
            [self._near(ports[part], zone) for ports in clients.stores] for part, zone in place.T.tolist()
        ]
        """By subnet and zone, end ports over which each server serves them."""

    def _near(self, ports: list[int], zone: int) -> list[int]:
        """Return those of a server's ports that are in a zone; all where none is."""
        zones = zone_of(self.env.network.fabric, ports).tolist()
        return [port for port, its in zip(ports, zones, strict=True) if its == zone] or ports

    def read(self, ends: ArrayLike, size_bytes: float, rng: np.random.Generator) -> simpy.Event:
        """Let each of these nodes read `size_bytes`."""
        node, port, row = self._ports(ends)
        server = rng.integers(len(self.clients.stores), size=len(node))
        return self.env.transfer_all(self._at(row, server), port, size_bytes / self.streams, sl=self.sl)

    def write(self, ends: ArrayLike, size_bytes: float, rng: np.random.Generator) -> simpy.Event:
        """Let each of these nodes write `size_bytes` to the first server of a chain, which passes them on to the next.

        A server passes on a chunk while it receives the next, so all transfers of a chain run at the same time.
        """
        node, port, row = self._ports(ends)
        servers = len(self.clients.stores)
        first = rng.integers(servers, size=len(node))
        step = 1 + rng.integers(max(servers // self.replicas, 1), size=len(node))
        dst = [self._at(row, (first + at * step) % servers) for at in range(self.replicas)]
        src = [port, *dst[:-1]]
        return self.env.transfer_all(np.concatenate(src), np.concatenate(dst), size_bytes / self.streams, sl=self.sl)

    def _ports(self, ends: ArrayLike) -> tuple[NDArray[np.intp], NDArray[np.int32], NDArray[np.intp]]:
        """Return the node, its port and the row of that of each stream."""
        number = self.clients.numbers(ends)
        node = np.repeat(number, self.streams)
        column = np.tile(np.arange(self.streams) % self.clients.to_storage.shape[1], len(number))
        return node, self.clients.to_storage[node, column], self._row[node, column]

    def _at(self, row: NDArray[np.intp], server: NDArray[np.integer]) -> NDArray[np.int32]:
        """Return the adapter of the server of each stream; those that a server has take turns."""
        pairs = zip(row.tolist(), server.tolist(), strict=True)
        near = (self._adapters[at][number] for at, number in pairs)
        return np.array([ports[stream % len(ports)] for stream, ports in enumerate(near)], np.int32)


@dataclass(frozen=True, eq=False)
class SteadyReads(Brief):
    """Means over a measured time in which clients read without end."""

    time_s: float
    """Length of the measured time."""
    bytes_s: float
    """Bytes a second that all clients read together."""
    read_s: float
    """From the first byte of a read to its last, over the reads that end in the measured time."""
    waited_s: float
    """From the request to the first byte, over the same reads."""
    senders: float
    """Servers that send to a client when a read begins, its own included, over the same reads."""
    load: NDArray[np.float64]
    """(P,) load of each channel of the fabric, as a part of its capacity."""

    def _brief(self) -> str:
        return f"{self.bytes_s / 1e9:.4g} GB/s over {format_seconds(self.time_s)}"


def steady_reads(
    on: Network | Routed,
    clients: ArrayLike,
    model: NodeModel,
    setup: StorageSpec,
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
    """Let clients, by end ports, read batches of random samples without end, and measure once that is steady.

    Parameters
    ----------
    loaders
        Loaders of each client, which request `batch` samples at once, and the next when the last has arrived.
    warm_s, time_s
        Seconds before the measurement begins, and its length.
    beside
        Flows that begin with the measurement, which then lasts until the last of them has ended.

    Raises
    ------
    HeddleError
        When storage cannot be set up so, or nothing is read in the time.

    Examples
    --------
    >>> import topo, routing, simulate
    >>> cluster = topo.preset("lab-20")
    >>> hosts, model = cluster.fabric.ends(role="compute"), cluster.catalog.node("storage-3fs")
    >>> setup = simulate.workload.StorageSpec()
    >>> reads = simulate.workload.steady_reads(routing.route(cluster.fabric), hosts, model, setup)
    >>> f"{reads.bytes_s / 1e9:.0f} GB/s"
    '100 GB/s'
    """
    network = on if isinstance(on, Network) else Network.of(on)
    env = NetworkEnvironment(network, n_bins=STEADY_BINS, keep=False)
    storage = Storage(env, model, setup)
    rng = np.random.default_rng(seed)
    files = [storage.file(rng) for _ in range(storage.setup.files)]
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
    fabric, timeline = network.fabric, env.engine.timeline
    assert timeline is not None
    end = np.arange(1, STEADY_BINS + 1) * timeline.bin_s
    looked_s = np.clip(end - warm_s, 0.0, timeline.bin_s)  # of each bin; nothing is in those that are still to come
    carried = timeline.load_bytes_s[: fabric.n_ports] @ looked_s
    into, brought = fabric.peer[fabric.port_of(ends)], 0.0
    if beside is not None:
        brought = float(beside.size_bytes[np.isin(beside.dst, ends) & (beside.src != beside.dst)].sum())
    return SteadyReads(
        time_s=end_s - warm_s,
        bytes_s=float(carried[into].sum() - brought) / (end_s - warm_s),
        read_s=float(np.mean([reading.finish_s - reading.begin_s for reading in readings])),
        waited_s=float(np.mean([reading.begin_s - reading.asked_s for reading in readings])),
        senders=float(np.mean([reading.senders for reading in readings])),
        load=frozen(carried / network.capacity_bytes_s[: fabric.n_ports] / (end_s - warm_s)),
    )


def storage_adapters(fabric: Fabric) -> list[NDArray[np.int32]]:
    """Return, for each storage server of a fabric, its end ports."""
    servers = server_ports(fabric, "storage")
    if not servers:
        raise HeddleError(
            f"{fabric.name} has no storage servers; give hosts the role storage, in the spec or by a file of roles"
        )
    return [np.array(ends, np.int32) for ends in servers]


def _chains(n_servers: int, n_ssds: int, replicas: int) -> NDArray[np.int32]:
    """Return (C, replicas, 2) server and SSD of each target: a chain for each SSD, which holds its first target.

    Chains that follow each other begin on servers that follow each other. The next targets of a chain follow at a
    distance that differs from SSD to SSD, so that what a server holds is mirrored on many.
    """
    if replicas > n_servers:
        raise HeddleError(f"found {replicas} replicas on {n_servers} storage servers; expected at most one per server")
    if n_ssds < 1:
        raise HeddleError("found storage servers without SSDs; expected a model with SSDs in the catalog")
    ssd, server = np.divmod(np.arange(n_servers * n_ssds), n_servers)
    distance = 1 + ssd % max((n_servers - 1) // max(replicas - 1, 1), 1)
    at = np.arange(replicas)
    holders = (server[:, None] + at * distance[:, None]) % n_servers
    return frozen(np.stack([holders, np.broadcast_to(ssd[:, None], holders.shape)], axis=-1).astype(np.int32))


def _figure(model: NodeModel, name: str) -> float:
    value = getattr(model, name)
    if value is None or value <= 0:
        raise HeddleError(f"{model.name}: {name} is unknown; storage needs it in nodes.csv of a `catalog` of your own")
    return float(value)
