"""The latency that NCCL's tuner adds to the time of an allreduce, which flows do not know of."""

from __future__ import annotations

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
