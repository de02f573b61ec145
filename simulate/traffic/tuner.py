"""NCCL's tuner: the algorithm, protocol and channels that it takes for a collective, and the time that it expects.

The library adds a latency, which depends on the steps of the algorithm, to the size divided by a bandwidth, and takes
the least sum: ``ncclTopoTuneModel`` and ``ncclTopoGetAlgoTime`` in ``src/graph/tuning.cc`` of NCCL 2.30.7 (commit
5067397c). All figures in capitals here are from that file unless they say otherwise. Older releases have other figures:
2.8 has no NVLS, and before 2.27 a step of a tree by Simple takes 28 us, not 14.

One thing is other than in the library. It counts bandwidth from the graphs that it finds in a server; here it is what
the adapters and NVLink of the catalog carry, less the same factors. On m servers of g GPUs, where NVLink gives a GPU V
and the adapters of a server carry N bytes a second, a buffer passes at these rates before the factors:

========== ======================================================================================
ring       min(V, N) n / s, with s = 2 (n - 1) steps of n = m g GPUs; n - 1 for an all-gather
tree       min(V g / (2 (g - 1)), N / t), since a GPU of a chain sends the buffer up and down
NVLS       V / (1 + 1 / g): a GPU sends its buffer, and its part of the sum, to the NVSwitches
NVLS tree  min(V / (1 + 1 / g), N / t)
CollNet    min(V g / (2 (g - 1)), N): the switches of the network add up, SHARP
========== ======================================================================================

where a server sends t times the buffer in the double binary tree: once of two servers, at most twice of more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from math import inf, log2
from typing import Literal, NamedTuple, get_args

import numpy as np

from simulate.traffic.network import GBPS, GBYTE
from simulate.traffic.node import Servers
from topo.catalog.models import NodeModel
from topo.errors import HeddleError
from topo.graphs import double_binary_tree

Tuned = Literal["allreduce", "all-gather", "reduce-scatter", "broadcast", "all-to-all"]
"""Collectives that can be tuned."""

TunedAlgorithm = Literal["ring", "tree", "nvls", "nvls-tree", "collnet"]

TUNED_ALGORITHMS: dict[Tuned, tuple[TunedAlgorithm, ...]] = {
    "allreduce": get_args(TunedAlgorithm),
    "all-gather": ("ring", "nvls"),
    "reduce-scatter": ("ring", "nvls"),
    "broadcast": ("ring",),
    "all-to-all": (),
}
"""What a collective is done by; an all-to-all is sends and receives, of which the tuner knows nothing."""


class Protocol(IntEnum):
    """How bytes are passed on."""

    LL = 0
    """Four bytes of data, four of a flag."""
    LL128 = 1
    """120 bytes of data, eight of a flag, which only NVLink keeps together."""
    SIMPLE = 2
    """Chunks behind a flag in memory."""

    @property
    def label(self) -> str:
        """Its name in NCCL."""
        return "Simple" if self is Protocol.SIMPLE else self.name


FRAMING = (2.0, 128 / 120, 1.0)
"""Bytes moved for each of data, by protocol."""


class Generation(IntEnum):
    """Of a GPU."""

    VOLTA = 0
    AMPERE = 1
    HOPPER = 2
    BLACKWELL = 3


_NAMES = {"V100": 0, "A100": 1, "A800": 1, "H20": 2, "H100": 2, "H200": 2, "H800": 2, "GH200": 2}
_NAMES |= dict.fromkeys(("B200", "B300", "GB200", "GB300"), 3)

BASE_US = {"tree": (6.8, 14.0, 8.4), "ring": (6.6, 14.0, 8.4)}
"""Start of a kernel, by protocol; none for what is not named."""
NVLINK_US = {"tree": (0.6, 1.25, 4.0), "ring": (0.6, 1.9, 3.4), "collnet": (3.7,) * 3, "nvls": (25.0,) * 3}
PCIE_US = {"tree": (1.0, 1.9, 4.0), "ring": (1.0, 2.5, 5.7)}
NETWORK_US = {"tree": (5.0, 8.5, 14.0), "ring": (2.7, 4.0, 14.0), "collnet": (31.0,) * 3, "nvls": (18.0,) * 3}
NVLS_TREE_NETWORK_US = 20.9
ARITY_US = 0.4
"""CollNet, for each GPU of a server but one, in and out."""
POST_US = 1.0
"""Least time of a step of a ring over several servers, twice that with AMD processors; three times for Simple."""
PLATEAU = 1.4
"""Times the latency of a ring by Simple over several servers, from 64 bytes a channel and GPU on; 1.9 on Volta."""

LL_MAX_INSIDE = (39.0, 87.7, 141.0, 282.0)
"""GB/s of LL in one server, by generation."""
LL_MAX_BETWEEN = ((39.0, 20.4), (22.5, 19.0))
"""Likewise over two servers and over more, beside Intel's processors and beside AMD's."""

RING_LL128_MAX = (20.0, 20.0, 36.7, 40.0)
"""GB/s of a channel, by generation."""

# Of a channel by generation, in one server, in two and in more.
TREE_LL128_MAX = ((20.0,) * 3, (20.0,) * 3, (36.7, 36.7, 29.0), (55.6, 31.67, 20.0))
TREE_MAX = ((26.5, 18.5, 10.0), (24.0, 23.6, 17.8), (38.7, 41.4, 36.0), (70.0, 42.8, 24.0))
NVLS_EFFICIENCY = (0.0, 0.0, 0.85, 0.74)
TREE_EFFICIENCY = 0.92
"""Of a tree. The library does not apply it to NVLS trees; here it lowers what they get of NVLink: two servers of H100
sum at 0.90 to 0.95 of the rate of one (``two-h100``, ``azcluster`` and ``aws`` beside ``dgxc`` in
``configs/published/collectives.csv``)."""

# Two parts of NVLink that the library does not know, from what the largest messages of four racks of GB200 and GB300
# reach (``oci-gb200`` and ``oci-gb300`` in ``configs/published/collectives.csv``).
RING_EFFICIENCY = (1.0, 1.0, 1.0, 0.935)
"""Of a ring, by generation: 0.92 on four GB200 and 0.95 on four GB300; eight H100 reach 0.99 and 1.00."""
P2P_EFFICIENCY = 0.897
"""Of sends and receives to all at once: 0.85 to 0.95 on 4, 8 and 64 GPUs, the mean."""

_LL = (1.0, 1.0, 1.0, 1.0, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5, 0.4, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
_LL128 = (1.0, 1.0, 1.0, 1.0, 1.0, 0.9, 0.8, 0.8, 0.8, 0.7, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.8, 0.9, 0.9, 0.9, 0.9)
_SIMPLE = (0.9,) * 7 + (0.8, 0.7, 0.6, 0.6, 0.5, 0.5, 0.5, 0.5, 0.6, 0.7, 0.8, 0.7, 0.7, 0.8, 0.9, 0.9, 0.9)
CORRECTION = (_LL, _LL128, _SIMPLE)
"""Part of its bandwidth that a tree has at 64 bytes, 128 bytes and so on, by protocol; all of it beyond. The library
applies it to trees, and to NVLS trees of Blackwell; here to all NVLS, as one server of H100 shows it (32 to 256 MiB
within 5 %, up to 27 % too fast without: ``dgxc-h100`` in ``configs/published/collectives.csv``)."""

_SPEEDS_INSIDE = ((40, 30, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3),) * 2 + (
    (60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3),
    (90, 80, 70, 60, 50, 45, 40, 30, 24, 20, 19, 18),
)
_SPEEDS_BETWEEN = ((48, 30, 28, 24, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3, 2.4, 1.2, 0.24, 0.12),) * 2 + (
    (48, 45, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2, 0.24, 0.12),
    (96, 86, 80, 48, 45.1, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2, 0.24, 0.12),
)
"""GB/s that a channel may have, in the order in which the library tries them (``src/graph/search.cc``)."""
_MOST_CHANNELS = 32

P2P_LL_BYTES = 16_384
"""Most bytes to one peer that an all-to-all sends by LL: ``NCCL_P2P_LL_THRESHOLD`` in ``src/enqueue.cc``."""


class Choice(NamedTuple):
    """What a collective may be done by, and what it then takes on an idle network."""

    algorithm: str
    """``p2p`` for an all-to-all, else a `TunedAlgorithm`."""
    protocol: Protocol
    channels: int
    """Rings or trees side by side, fewer for small buffers; the library does not count that they are fewer."""
    latency_s: float
    """What the steps take without bytes."""
    bytes_s: float
    """Bytes of the buffer a second."""
    raw_bytes_s: float
    """What `moved_bytes` pass at when nothing else is counted."""
    size_bytes: float
    """Of the buffer."""

    @property
    def moved_bytes(self) -> float:
        """Size of the buffer with the flags of the protocol."""
        return self.size_bytes * FRAMING[self.protocol]

    @property
    def time_s(self) -> float:
        """``latency_s + size / bytes_s``."""
        return self.latency_s + self.size_bytes / self.bytes_s

    @property
    def waiting_s(self) -> float:
        """What of `time_s` no bytes explain: the latency, and what the practical factors of the tuner take."""
        return self.time_s - self.moved_bytes / self.raw_bytes_s


@dataclass(frozen=True)
class Tuner:
    """What NCCL's tuner knows of a job.

    Examples
    --------
    Two DGX H100 sum 8 bytes by a tree and 8 GB over their NVSwitches.

    >>> from simulate.traffic.tuner import Generation, Tuner
    >>> tuner = Tuner(2, 8, Generation.HOPPER, 370.8e9, 8, 48.5e9, nvswitches=True)
    >>> for size in (8, 8e9):
    ...     found = tuner.choose("allreduce", size)
    ...     print(found.algorithm, found.protocol.label, f"{found.time_s * 1e6:.1f} us")
    tree LL 25.2 us
    nvls-tree Simple 31105.0 us
    """

    servers: int
    gpus: int
    """Of each server."""
    generation: Generation
    gpu_bytes_s: float
    """What a GPU sends to the others of its server, one way: V."""
    rails: int
    """Adapters of each server that work."""
    rail_bytes_s: float
    """What an adapter carries, one way: N is this times `rails`."""
    amd: bool = False
    """Whether the processors are AMD's."""
    nvlink: bool = True
    """Whether NVLink joins all GPUs of a server; else PCIe."""
    nvswitches: bool = False
    """Whether it does so by NVSwitches."""
    sharp: bool = False
    """Whether switches of the network add up for the job: ``NCCL_COLLNET_ENABLE=1`` and a plugin."""

    @classmethod
    def of(cls, servers: Servers, *, sharp: bool = False) -> Tuner:
        """Return the tuner of all GPUs of servers, with the figures of the catalog and the rates of their links.

        Raises
        ------
        HeddleError
            When the GPU is of no generation that NCCL's tables have, or the catalog lacks a rate.
        """
        model = servers.model
        joined = servers.bridged >= servers.gpus > 1
        if joined:
            inside = model.nvlink_used_gbyte_per_s or (model.nvlink_gbyte_per_s or 0.0) / 2
        else:
            inside = model.gpu_host_gbyte_per_s or 0.0
        if not inside:
            raise HeddleError(
                f"The catalog has no rate between the GPUs of {model.name} ({'nvlink' if joined else 'gpu_host'}"
                "_gbyte_per_s), which the tuner needs: add it to a nodes.csv of your own"
            )
        ends = servers.ends[:, servers.working_rails]
        link = float(servers.fabric.rate_gbps[servers.fabric.port_of(ends)].min()) * GBPS
        rails = len(servers.working_rails)
        lane = (model.gpu_host_gbyte_per_s or inf) * GBYTE * min(1.0, servers.gpus / rails)
        card = (model.gpu_adapter_gbyte_per_s or inf) * GBYTE * min(1.0, model.adapters / rails)
        figures = len(servers), servers.gpus, generation_of(model), inside * GBYTE, rails, min(link, lane, card)
        amd, switched = "EPYC" in (model.cpu or ""), joined and bool(model.nvswitches)
        return cls(*figures, amd=amd, nvlink=joined, nvswitches=switched, sharp=sharp)

    @property
    def ranks(self) -> int:
        """GPUs of all servers."""
        return self.servers * self.gpus

    @property
    def channels(self) -> int:
        """Channels of rings and trees that the model counts; the library runs two of each.

        The library takes speeds from a list until that of a channel, times their number, is most, and doubles their
        number where a channel has 25 GB/s or more (50 from Hopper on, with more than four of them). Here, an adapter
        and a GPU carry as many channels as their rate allows.
        """
        inside = self.gpu_bytes_s / GBYTE if self.gpus > 1 else inf
        speeds = _SPEEDS_INSIDE[self.generation] if self.servers == 1 else _SPEEDS_BETWEEN[self.generation]
        most, found, first = 0.0, (1, 0.0), 0.0
        for speed in speeds:
            count = inside / speed if self.servers == 1 else self.rails * (self.rail_bytes_s / GBYTE // speed)
            count = int(min(count, inside / speed, _MOST_CHANNELS))
            first = first or speed * (count > 0)
            if count * speed > most and speed > 0.49 * first:
                most, found = count * speed, (count, speed)
        count, speed = found
        few = speed < 25 or (self.generation >= Generation.HOPPER and speed < 50 and count > 4)
        return count if few else min(2 * count, _MOST_CHANNELS)

    def _channels_for(self, algorithm: str, protocol: Protocol, size_bytes: float) -> int:
        """Channels that run: so many that each of their threads has its least bytes (``topoGetAlgoInfo``)."""
        if algorithm.startswith("nvls"):
            several = self.servers > 1
            return 16 if self.generation < Generation.BLACKWELL else 32 if several else 24  # ``src/transport/nvls.cc``
        least = (8 * (self.ranks if algorithm == "ring" else 1) * 512, 8 * 640, 64 * 512)[protocol]
        return max(1, min(2 * self.channels, int(size_bytes // least)))

    @property
    def network_bytes_s(self) -> float:
        """What the adapters of a server carry together, one way; infinite within one server."""
        return self.rails * self.rail_bytes_s if self.servers > 1 else inf

    def choose(self, collective: Tuned, size_bytes: float, algorithm: str = "auto") -> Choice:
        """Return what takes least time, of all or of one algorithm.

        Raises
        ------
        HeddleError
            When the servers cannot do the collective so.
        """
        found = self.choices(collective, size_bytes)
        able = list(dict.fromkeys(choice.algorithm for choice in found))
        found = [choice for choice in found if algorithm in ("auto", choice.algorithm)]
        if not found:
            raise HeddleError(
                f"NCCL does no {collective} by {algorithm} on {self.servers} x {self.gpus} GPUs like these; expected "
                f"auto or one of {', '.join(able) or 'none'} ({_needs(algorithm)})"
            )
        return found[0]

    def choices(self, collective: Tuned, size_bytes: float) -> list[Choice]:
        """Return all that the library would consider, least time first.

        The size is the largest buffer of a GPU: all that an all-gather collects, and all that a reduce-scatter begins
        with.
        """
        if not 0 < size_bytes < inf:
            raise HeddleError(f"found {size_bytes} bytes in a buffer; expected a number above 0")
        if self.ranks < 2:
            raise HeddleError("found one GPU; expected two or more, which have something to send")
        made = self._all_to_all(size_bytes) if collective == "all-to-all" else self._tuned(collective, size_bytes)
        return sorted(made, key=lambda choice: choice.time_s)

    def _tuned(self, collective: Tuned, size_bytes: float) -> Iterator[Choice]:
        for algorithm in TUNED_ALGORITHMS[collective]:
            for protocol in self._protocols(algorithm, collective):
                raw = self.raw_bytes_s(algorithm, collective)
                used = self._used_bytes_s(algorithm, protocol, collective) * correction(algorithm, protocol, size_bytes)
                latency_s = self._latency_s(algorithm, protocol, collective, size_bytes)
                channels = self._channels_for(algorithm, protocol, size_bytes)
                yield Choice(algorithm, protocol, channels, latency_s, used, raw, size_bytes)

    def _all_to_all(self, size_bytes: float) -> Iterator[Choice]:
        """Sends and receives, by the threshold of the library, behind the start and one step of a ring."""
        n, small = self.ranks, size_bytes / self.ranks <= P2P_LL_BYTES
        protocol = Protocol.LL if small else Protocol.SIMPLE
        inside = self.gpu_bytes_s * n / (n - 1)
        # What leaves a server, over all of its adapters.
        outside = self.network_bytes_s / self.gpus * n / (n - self.gpus) if self.servers > 1 else inf
        step = NETWORK_US if self.servers > 1 else NVLINK_US if self.nvlink else PCIE_US
        latency_s = (BASE_US["ring"][protocol] + step["ring"][protocol]) * 1e-6
        raw, used = min(inside, outside), min(inside * P2P_EFFICIENCY, outside) / FRAMING[protocol]
        channels = min(2 * self.channels, _MOST_CHANNELS)
        yield Choice("p2p", protocol, channels, latency_s, used, raw, size_bytes)

    def _protocols(self, algorithm: TunedAlgorithm, collective: Tuned) -> tuple[Protocol, ...]:
        """Protocols that an algorithm has on these servers; none where it cannot be."""
        if algorithm in ("ring", "tree"):
            return tuple(Protocol) if self.nvlink else (Protocol.LL, Protocol.SIMPLE)
        able = {
            "nvls": self.nvls and (self.servers == 1 or (self.sharp and collective == "allreduce")),
            "nvls-tree": self.nvls and self.servers > 1,
            "collnet": self.sharp and self.nvswitches and self.servers > 1,
        }
        return (Protocol.SIMPLE,) if able[algorithm] else ()

    @property
    def nvls(self) -> bool:
        """Whether NVSwitches add up: from Hopper on, for two GPUs of a server or more."""
        return self.nvswitches and self.gpus > 1 and NVLS_EFFICIENCY[self.generation] > 0

    def raw_bytes_s(self, algorithm: TunedAlgorithm, collective: Tuned) -> float:
        """Bytes of the buffer a second: the table above, with the efficiency of NVSwitches, before other factors."""
        n, g, inside, network = self.ranks, self.gpus, self.gpu_bytes_s, self.network_bytes_s
        if algorithm == "ring":
            return min(inside if g > 1 else inf, network) * n / _steps(collective, n)
        chain = inside * g / (2 * (g - 1)) if g > 1 else inf
        added = inside / (1 + 1 / g) if collective == "allreduce" else inside
        sent = tree_sends(self.servers)
        return {
            "tree": min(chain, network / sent),
            "nvls": min(added * NVLS_EFFICIENCY[self.generation], network),
            "nvls-tree": min(added * NVLS_EFFICIENCY[self.generation] * TREE_EFFICIENCY, network / sent),
            "collnet": min(chain, network),
        }[algorithm]

    def _used_bytes_s(self, algorithm: TunedAlgorithm, protocol: Protocol, collective: Tuned) -> float:
        """Bytes of the buffer a second after the factors of the protocol and the most of a channel."""
        raw, at = self.raw_bytes_s(algorithm, collective), min(self.servers, 3) - 1
        ll_max = LL_MAX_BETWEEN[self.amd][at - 1] if self.servers > 1 else LL_MAX_INSIDE[self.generation]
        ll_max *= GBYTE
        channels, row = self.channels * GBYTE, self.generation
        if algorithm == "ring":
            bus = raw * _steps(collective, self.ranks) / self.ranks
            if self.nvlink and self.gpus > 1:
                bus = min(bus, self.gpu_bytes_s * RING_EFFICIENCY[row])
            bus = (min(bus / 2, ll_max), min(bus * 0.92, channels * RING_LL128_MAX[row]), bus)[protocol]
            return bus * self.ranks / _steps(collective, self.ranks)
        if algorithm == "tree":
            # Over PCIe the graphs of ring and tree have one bandwidth; NVLink gives a tree more inside two servers.
            most = inf if self.nvlink or self.servers != 2 else self.network_bytes_s
            bus = min(min(2 * raw, most) * TREE_EFFICIENCY, channels * TREE_MAX[row][at])
            bus = (
                min(bus / 3.8, ll_max),
                min(bus * (7 / 9 if self.servers == 1 else 120 / 128), channels * TREE_LL128_MAX[row][at]),
                bus,
            )[protocol]
            return bus / 2 * (0.85 if self.gpus == 1 else 1.0)  # one GPU is the end of both edges of its server
        return raw * (0.85 if algorithm == "collnet" and self.generation >= Generation.HOPPER else 1.0)

    def _latency_s(self, algorithm: TunedAlgorithm, protocol: Protocol, collective: Tuned, size_bytes: float) -> float:
        m, g, doublings = self.servers, self.gpus, int(log2(self.servers))
        table = algorithm.removesuffix("-tree")
        inside = (NVLINK_US if self.nvlink else PCIE_US)[table][protocol]
        between = NETWORK_US["tree" if g == 1 else table][protocol]
        base = BASE_US[algorithm][protocol] if algorithm in BASE_US else 0.0
        if algorithm == "ring":
            us = base + self._ring_us(protocol, collective, inside, between)
            fills = size_bytes / (self.channels * self.ranks) >= 64
            if protocol is Protocol.SIMPLE and m > 1 and collective == "allreduce" and fills:
                us *= 1.9 if self.generation < Generation.AMPERE else PLATEAU
        elif algorithm == "tree":
            us = base + 2 * ((g - 1) * inside + doublings * between)
        elif algorithm == "collnet":
            us = 2 * (min(1, g - 1) * inside + (g - 1) * ARITY_US) + between
        elif algorithm == "nvls-tree":
            us = inside + 2 * doublings * NVLS_TREE_NETWORK_US
        else:
            us = inside + (between if m > 1 else 0.0)
        return us * 1e-6

    def _ring_us(self, protocol: Protocol, collective: Tuned, inside: float, between: float) -> float:
        """Latency of the steps of a ring, m - 1 of which, or twice as many, are between servers."""
        m, steps = self.servers, _steps(collective, self.ranks)
        if collective == "broadcast":
            kind = "tree" if protocol is Protocol.SIMPLE else "ring"
            hop = (NETWORK_US if m > 1 else NVLINK_US if self.nvlink else PCIE_US)[kind][protocol]
            return hop if m == 1 else steps * hop  # in one server all channels have one order of GPUs
        post = POST_US * (2 if self.amd else 1) * (3 if protocol is Protocol.SIMPLE else 1)
        outer = (m - 1) * (2 if collective == "allreduce" else 1)
        return (steps - outer) * max(inside, post if m > 1 else 0.0) + outer * between


def generation_of(model: NodeModel) -> Generation:
    """Return the generation of the GPUs of a server."""
    try:
        return generation_named(model.gpu or "unknown")
    except HeddleError as error:
        raise HeddleError(f"{model.name}: {error}") from None


def generation_named(gpu: str) -> Generation:
    """Return the generation of a GPU by a name such as ``H100 SXM``.

    Raises
    ------
    HeddleError
        When NCCL's tables have none for it.
    """
    known = [_NAMES[word] for word in re.findall(r"[A-Z]+\d+", gpu) if word in _NAMES]
    if not known:
        raise HeddleError(f"found the GPU {gpu}; expected one that NCCL's tables have: {', '.join(_NAMES)}")
    return Generation(known[0])


def correction(algorithm: str, protocol: Protocol, size_bytes: float) -> float:
    """Return the part of its bandwidth that a tree, or what NVSwitches add up, reaches at a size: `CORRECTION`."""
    if algorithm not in ("tree", "nvls", "nvls-tree") or size_bytes < 64:
        return 1.0
    row, at = CORRECTION[protocol], int(log2(size_bytes // 64))
    return row[at] if at < len(row) else 1.0


def tree_sends(n_servers: int) -> float:
    """Return how many times the fullest server sends the buffer in an allreduce over the double binary tree.

    >>> [tree_sends(n) for n in (2, 3, 16)]
    [1.0, 1.5, 2.0]
    """
    sent = np.zeros(n_servers)
    for tree in double_binary_tree(n_servers):
        child = np.flatnonzero(tree >= 0)
        sent[child] += 0.5
        sent += np.bincount(tree[child], minlength=n_servers) / 2
    return float(sent.max()) or 1.0  # nothing, in one server, over a network that carries any amount


def _steps(collective: Tuned, ranks: int) -> int:
    return {"allreduce": 2 * (ranks - 1), "broadcast": ranks}.get(collective, ranks - 1)


def _needs(algorithm: str) -> str:
    return {
        "nvls": "NVLS takes NVSwitches of Hopper or later; over several servers also `sharp: true`",
        "nvls-tree": "an NVLS tree takes NVSwitches of Hopper or later, and several servers",
        "collnet": "CollNet takes `sharp: true`, NVSwitches and several servers",
    }.get(algorithm, "the collectives of each algorithm are in docs/simulate.md")
