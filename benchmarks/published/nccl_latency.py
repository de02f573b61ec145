"""The latency that NCCL's tuner adds to the time of an allreduce, which flows do not know of."""

from __future__ import annotations

from math import log2

PCIE_STEP_S = 5.7e-6
NETWORK_STEP_S = 9.6e-6
"""Latency of a step of a ring over PCIe and over a network, protocol *Simple*: ``hwLat`` in NCCL's
``src/graph/tuning.cc`` of 2020, which its tuner adds to the time that the bytes take."""


def ring_latency_s(n_servers: int, gpus: int) -> float:
    """Return what NCCL's tuner adds to the time of an allreduce around a ring, which flows do not know of.

    ``ncclTopoTuneModel`` counts ``2 (n - 1)`` steps for n GPUs, of which ``2 (m - 1)`` cross the network of m servers.
    """
    steps = 2 * (n_servers * gpus - 1)
    between = 2 * (n_servers - 1)
    return between * NETWORK_STEP_S + (steps - between) * PCIE_STEP_S


def tree_latency_s(n_servers: int, gpus: int) -> float:
    """Return what the tuner adds for its trees: the GPUs of a server in a chain, the servers in a tree, up and down."""
    return 2 * ((gpus - 1) * PCIE_STEP_S + log2(n_servers) * NETWORK_STEP_S)


def tuner_takes_tree(n_servers: int, gpus: int, size_bytes: float, bus_bytes_s: float) -> bool:
    """Say whether NCCL's tuner prefers its trees to its ring for an allreduce over several servers.

    Trees get 0.92 of the bus bandwidth and send everything twice, a ring 2 (n - 1) / n times (``ncclTopoTuneModel``).
    """
    n = n_servers * gpus
    ring_s = 2 * (n - 1) / n * size_bytes / bus_bytes_s + ring_latency_s(n_servers, gpus)
    return 2 * size_bytes / (0.92 * bus_bytes_s) + tree_latency_s(n_servers, gpus) < ring_s
