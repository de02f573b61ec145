"""Loads on which fluid simulators are compared, on one zone of 40 leaves and 20 spines with 800 hosts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from routing.routed import Routed
from routing.tables import NO_PATH, RoutingTables, assign_lids
from simulate.traffic.flows import Flows
from simulate.traffic.graph import chain
from simulate.traffic.network import Network
from topo.builder import FabricBuilder
from topo.fabric import Role
from topo.speeds import LinkSpeed

__all__ = ["LOADS", "Load", "make_load", "zone"]

CHUNK = 186 * 2**20
"""Bytes of an allreduce, as Fire-Flyer 2 is measured with."""


@dataclass(frozen=True, eq=False)
class Load:
    """Flows, and how SimGrid's actors play the same ones."""

    flows: Flows
    """Between end ports. Those of size 0 are barriers, which no actor plays."""
    actor: NDArray[np.int64]
    """(M,) actor that begins each flow that is not a barrier."""
    step: NDArray[np.int64]
    """(M,) step of the actor: it waits for all flows of one before the next."""
    ring: bool = False
    """Whether actors also wait for what they receive."""


def zone(leaves: int = 40, spines: int = 20, hosts: int = 20) -> Network:
    """Return two levels at 200 Gb/s, destination d over spine ``d % spines``."""
    builder = FabricBuilder("zone")
    hdr = LinkSpeed(4, "HDR")
    for leaf in range(leaves):
        builder.switch(f"leaf{leaf}", model="switch", radix=hosts + spines, role=Role.LEAF, level=1)
    for spine in range(spines):
        builder.switch(f"spine{spine}", model="switch", radix=leaves, role=Role.SPINE, level=2)
    for leaf in range(leaves):
        for port in range(hosts):
            name = f"host{leaf * hosts + port:04}"
            adapter = builder.adapter(name, "mlx5_0", model="hca", host_model="server", role=Role.COMPUTE)
            builder.link(leaf, port + 1, adapter, 1, hdr)
        for spine in range(spines):
            builder.link(leaf, hosts + spine + 1, leaves + spine, leaf + 1, hdr)
    fabric = builder.build()
    lid = assign_lids(fabric)
    lft = np.full((leaves + spines, int(lid.max()) + 1), NO_PATH, np.uint8)
    to = np.arange(leaves * hosts)
    for leaf in range(leaves):
        lft[leaf, lid[leaves + spines + to]] = np.where(to // hosts == leaf, to % hosts, hosts + to % spines) + 1
    lft[leaves:, lid[leaves + spines + to]] = to // hosts + 1
    return Network.of(Routed(fabric, RoutingTables(lid, lft, engine="destination modulo spines")), latency_s=0)


def permutations(ends: NDArray[np.int64], rng: np.random.Generator, times: int, mean: float) -> Load:
    """Random permutations at once; sizes exponential, or 1 GiB each when `mean` is 0."""
    src = np.tile(ends, times)
    dst = np.concatenate([rng.permutation(ends) for _ in range(times)])
    src, dst = src[src != dst], dst[src != dst]
    size = np.ceil(rng.exponential(mean, len(src))) if mean else 2.0**30
    return Load(Flows.of(src, dst, size), np.zeros(len(src), np.int64), np.zeros(len(src), np.int64))


def arrivals(ends: NDArray[np.int64], rng: np.random.Generator, n: int) -> Load:
    """Flows from random hosts to random others that begin at random times, at 20 % of what all hosts can send."""
    src = rng.integers(0, len(ends), n)
    dst = (src + rng.integers(1, len(ends), n)) % len(ends)
    size = np.ceil(rng.exponential(8e6, n))
    start = np.sort(rng.uniform(0, n * 8e6 / (0.2 * len(ends) * 25e9), n))
    flows = Flows.of(ends[src], ends[dst], size, start_s=start)
    return Load(flows, np.zeros(n, np.int64), np.zeros(n, np.int64))


def storage(ends: NDArray[np.int64], rng: np.random.Generator, reads: int) -> Load:
    """Of 800 hosts 180 serve 620 clients, each with so many reads outstanding and 20 in all, from random servers."""
    servers = len(ends) * 180 // 800
    clients = len(ends) - servers
    shape = (clients, reads, 20 // reads)
    src = rng.integers(0, servers, shape)
    dst = np.broadcast_to(servers + np.arange(clients)[:, None, None], shape)
    number = np.arange(src.size).reshape(shape)
    flows = Flows.of(
        ends[src.ravel()],
        ends[dst.ravel()],
        np.ceil(rng.exponential(4e6, src.size)),
        after=(number[:, :, 1:].ravel(), number[:, :, :-1].ravel()),
    )
    actor = np.broadcast_to(np.arange(clients * reads).reshape(clients, reads, 1), shape)
    return Load(flows, actor.ravel(), np.broadcast_to(np.arange(20 // reads), shape).ravel())


def ring(ends: NDArray[np.int64]) -> Load:
    """Ring allreduce: a rank begins a step when it and the next have sent and received all of the step before."""
    n = len(ends)
    step, rank = np.divmod(np.arange(2 * (n - 1) * n), n)
    number = np.arange(n, len(step))
    before = [(step[n:] - 1) * n + (rank[n:] + shift) % n for shift in (-1, 0, 1)]
    after = (np.repeat(number, 3), np.stack(before, axis=1).ravel())
    flows = Flows.of(ends[rank], ends[(rank + 1) % n], float(CHUNK // n), after=after, tag=step)
    return Load(flows, rank, step, ring=True)


def shift(ends: NDArray[np.int64]) -> Load:
    """All-to-all by shifts: in step k every host sends 1 MiB to the one k places on; all wait for all."""
    n = len(ends)
    steps = [Flows.of(ends, np.roll(ends, -k), 2.0**20, tag=k) for k in range(1, n)]
    return Load(chain(steps), np.zeros(n * (n - 1), np.int64), np.repeat(np.arange(n - 1), n))


def incast(ends: NDArray[np.int64]) -> Load:
    """Sixteen hosts, spread over the leaves, send 1 GiB each to one."""
    src = ends[1 :: len(ends) // 16][:16]
    zeros = np.zeros(len(src), np.int64)
    return Load(Flows.of(src, ends[0], 2.0**30), zeros, zeros)


LOADS = (
    "permutation",
    "permutation-sizes",
    "coupled",
    "arrivals",
    "storage-1",
    "storage-4",
    "ring-64",
    "ring-800",
    "ring-800-random",
    "shift-200",
    "shift-800",
    "shift-800-random",
    "incast",
)


def make_load(name: str, network: Network) -> Load:
    """Return a load by its name; the seed is always the same.

    Rings and shifts of fewer hosts take the first, ``random`` takes them in random order.
    """
    rng = np.random.default_rng(7)
    ends = np.arange(network.fabric.n_switches, network.fabric.n_end_ports)
    kind, _, rest = name.partition("-")
    if kind in ("ring", "shift"):
        ends = rng.permutation(ends) if rest.endswith("random") else ends
        return (ring if kind == "ring" else shift)(ends[: int(rest.partition("-")[0])])
    if kind == "storage":
        return storage(ends, rng, int(rest))
    if kind == "permutation":
        return permutations(ends, rng, 1, 64e6 if rest else 0)
    if kind == "coupled":
        return permutations(ends, rng, 4, 64e6)
    return arrivals(ends, rng, 25 * len(ends)) if kind == "arrivals" else incast(ends)
