"""How long a message takes before its bytes move, besides the links on its path: published figures with their ranges.

A message between servers takes what its ends need to post, fetch and notice it, once; one inside a server takes what
its step over NVLink or PCIe needs. The figures are of small messages on idle machines. What a collective needs to start
is not counted; `simulate.traffic.tuner` counts it, with the steps by protocol.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from topo.table import format_seconds


class Way(IntEnum):
    """How a device is reached. Of the two ends of a message, the later one in this list decides what it takes."""

    MEMORY = 0
    """Host memory, and the end ports of the fabric."""
    PCIE = 1
    NVLINK = 2
    ADAPTER = 3
    """A GPU through an adapter, without host memory."""
    TUNED = 4
    """A GPU of a collective whose steps `simulate.traffic.tuner` has counted: its messages take nothing more."""


class Latencies(NamedTuple):
    """Seconds before the bytes of a message move, by the way that it takes."""

    host_s: float
    """Between host memories of two servers."""
    gpu_s: float
    """Between GPUs of two servers."""
    pcie_s: float
    """Within a server over PCIe, from or to a GPU."""
    nvlink_s: float
    """Within a server over NVLink."""


PUBLISHED = Latencies(host_s=2.6e-6, gpu_s=2.7e-6, pcie_s=1.0e-6, nvlink_s=0.6e-6)
"""The default.

``host_s``: 64 bytes between CPUs of two hosts on one switch at 400 Gb/s take 2.8 us (DeepSeek-AI, arXiv 2505.09343), of
which the switch and two cables are 0.2. ``gpu_s``, ``pcie_s``, ``nvlink_s``: NCCL's tuner, protocol LL (``hwLatencies``
in ``src/graph/tuning.cc``). ``gpu_s`` is a step of a ring between servers, which is one message; we infer that a step
of a tree, 5 us there, is more because a rank adds up what comes from two others. ``pcie_s``, ``nvlink_s``: steps of a
tree within a server.
"""

PUBLISHED_LEAST = Latencies(host_s=0.8e-6, gpu_s=2.7e-6, pcie_s=0.6e-6, nvlink_s=0.6e-6)
"""The least published. ``host_s``: ``ib_send_lat`` of 32 bytes. The others: a step of a ring, in the same table."""

PUBLISHED_MOST = Latencies(host_s=2.8e-6, gpu_s=14e-6, pcie_s=5.7e-6, nvlink_s=4.0e-6)
"""The most published: ``host_s`` with its switch, the others a step of NCCL's protocol Simple for large buffers."""

NAMES = ("between hosts", "between GPUs of two servers", "over PCIe", "over NVLink")


def told(latencies: Latencies, *, devices: bool) -> str:
    """Say what messages take: between hosts, and where the inside of servers takes part also there.

    >>> told(PUBLISHED, devices=False)
    'between hosts 2.6 µs (published: 800 ns to 2.8 µs)'
    """
    rows = list(zip(NAMES, latencies, PUBLISHED_LEAST, PUBLISHED_MOST, strict=True))
    texts = [
        f"{name} {format_seconds(value)} (published: {format_seconds(low)} to {format_seconds(high)})"
        for name, value, low, high in rows[: None if devices else 1]
    ]
    return ", ".join(texts)
