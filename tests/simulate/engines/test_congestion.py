"""Percentiles of latencies from their bins, beside the sorted latencies."""

import math

import numpy as np
import pytest

import simulate
from helpers.presets import routed_lab
from simulate.engines.congestion import Congestion

NETWORK = simulate.Network.of(routed_lab(), latency_s=0)
TICK_S = 1e-9


def bin_of(ticks: int) -> int:
    """The first 32 bins hold one tick each, every 16 bins after them twice as many as those before."""
    low, size, number = 32, 2, 32
    if ticks < 32:
        return ticks
    while ticks >= low + size:
        low, number = low + size, number + 1
        size *= 2 if number % 16 == 0 else 1
    return number


def met(latencies: list[int]) -> Congestion:
    none, filled = np.zeros((1, 1)), np.zeros((1, 1, 1))
    bins, count = np.bincount([bin_of(ticks) for ticks in latencies], minlength=1), none.astype(int)
    return Congestion(NETWORK, "packets", 1, count, none, none, count, 0, bins, 0.0, 0, 0.0, TICK_S, 1.0, filled)


@pytest.mark.parametrize("seed", range(30))
def test_so_many_of_a_hundred_packets_take_no_longer(seed: int) -> None:
    """The figure is the end of the bin of the packet in question: never too low, and a sixteenth too high at most."""
    rng = np.random.default_rng(seed)
    latencies = sorted(rng.integers(0, 2 ** rng.integers(1, 16), rng.integers(1, 400)).tolist())
    congestion = met(latencies)
    for percent in (1.0, 50.0, 99.0, 99.9, 100.0):
        exact = latencies[math.ceil(len(latencies) * percent / 100) - 1]
        found = congestion.latency_s(percent) / TICK_S
        assert exact - 1e-6 <= found <= exact * (1 + 1 / 16) + 1.001
    assert congestion.to_dict()["latency_s"] == {
        name: congestion.latency_s(percent)
        for name, percent in (("p50", 50.0), ("p99", 99.0), ("p99.9", 99.9), ("p100", 100.0))
    }


def test_no_packet_has_no_latency() -> None:
    assert met([]).latency_s(50.0) == 0.0
