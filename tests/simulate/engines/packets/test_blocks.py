"""Buffers are counted in blocks of 64 bytes: small packets take few, as a schedule worked out by hand says."""

from __future__ import annotations

from math import ceil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.packets import RATE, SLOT_S, line, network
from simulate import Flows, PacketModel, Packets

FULL = 1024
"""Ticks of a full packet."""


def _by_hand(sizes: list[int], blocks: int, latency: int, credit: int) -> list[int]:
    """Return the ticks at which messages of one packet each have crossed two links, one behind another.

    A packet begins on a link when the one before has left it and its blocks fit into the buffer behind. They are free
    for others when its tail has left that buffer, and the news has come back.
    """
    free = [0, 0]
    taken: list[list[tuple[int, int]]] = [[], []]  # of each buffer: when blocks come back, and how many
    ends = []
    for size in sizes:
        ticks, need = max(1, ceil(FULL * size / 4096)), -(-size // 64)
        ready, begins = 0, []
        for link in (0, 1):
            begin = max(ready, free[link])
            held = sum(n for _, n in taken[link])
            for back, n in sorted(taken[link]):
                if held + need <= blocks and back > begin:
                    break
                begin, held = max(begin, back), held - n
            taken[link] = [(back, n) for back, n in taken[link] if back > begin]
            begins.append(begin)
            free[link], ready = begin + ticks, begin + latency
        ends.append(begins[1] + latency + ticks)
        taken[0].append((begins[1] + ticks + latency + credit, need))
        taken[1].append((ends[-1] + latency + credit, need))
    return ends


@given(
    st.lists(st.integers(1, 4096) | st.integers(1, 65), min_size=1, max_size=60),
    st.integers(64, 160),
    st.integers(1, 4000),
    st.integers(0, 900),
)
def test_messages_of_any_size_pass_when_their_blocks_are_free(
    sizes: list[int], blocks: int, latency: int, credit: int
) -> None:
    tick = SLOT_S / FULL
    net = network(line(2), hop_s=latency * tick)
    engine = Packets(net, PacketModel(window_packets=0, buffer_bytes=blocks * 64 + 63, credit_s=credit * tick))
    outcome = engine.play(Flows.of(1, 2, np.array(sizes, float)).in_order("peer"))
    assert np.rint(outcome.finish_s / tick).astype(int).tolist() == _by_hand(sizes, blocks, latency, credit)


@pytest.mark.parametrize("size", [1, 64, 65, 128, 1000, 4096])
def test_small_packets_fill_a_long_link_as_large_ones_do(size: int) -> None:
    """Two links apart by five packets there and back: what fits into eight packets of buffer, in blocks, goes."""
    far, n = 10.0, 4000
    net = network(line(2), hop_s=far * SLOT_S)
    flows = Flows.of(1, 2, np.full(n, float(size))).in_order("peer")
    outcome = Packets(net, PacketModel(window_packets=0, buffer_bytes=8 * 4096)).play(flows)
    cycle = ceil(FULL * size / 4096) / FULL * SLOT_S + 2 * far * SLOT_S
    fit = 8 * 64 // -(-size // 64)
    most = min(fit / cycle, 1 / (ceil(FULL * size / 4096) / FULL * SLOT_S))
    assert (n - 1) / np.ptp(outcome.finish_s) == pytest.approx(most, rel=0.15)


def test_a_large_packet_is_not_starved_by_small_ones() -> None:
    """Two hosts send to a third whose buffer has room for one packet: they take turns."""
    net = network(line(3), hop_s=SLOT_S)
    n = 400
    src = np.repeat([1, 2], n)
    flows = Flows.of(src, 3, np.where(src == 1, 4096.0, 64.0)).in_order("peer")
    outcome = Packets(net, PacketModel(buffer_bytes=4096, window_packets=0)).play(flows)
    large = np.sort(outcome.finish_s[src == 1])
    cycles = (1 + 2) + (1 / 64 + 2)  # of a large and of a small packet: on the link, there and back
    assert np.diff(large).max() <= cycles * SLOT_S * 1.001


def test_pauses_come_when_no_full_packet_fits() -> None:
    """A paused port sends on when two full packets fit, whatever the size of those that wait."""
    net = network(line(3), hop_s=SLOT_S)
    model = PacketModel(buffer_bytes=3 * 4096 - 64, pauses=True)
    outcome = Packets(net, model).play(Flows.of([1, 2], 3, 64 * 4096.0))
    assert outcome.congestion is not None
    assert outcome.congestion.pauses.sum() > 0
    assert outcome.makespan_s >= 2 * 64 * 4096 / RATE
