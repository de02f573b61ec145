"""Congestion control of packets: what a flow remembers, when packets are marked, and what marks do to their flow.

All of a variant is here: its parameters (`CongestionControl`, and `ControlRules` for kernels), what it keeps for each
flow (`FLOW_FIELDS`), and what it does at four moments. `on_dequeue`: a packet leaves the buffer of a switch. `on_ack`:
an acknowledgement comes back. `may_send`: a flow is about to request its first channel. `on_send`: a packet leaves its
source. With ``mark_at`` 0 none of them does anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulate.engines.base import Records
from simulate.engines.compile import inlined
from topo.table import Brief


class ControlRules(NamedTuple):
    """What does not change while packets move."""

    mark_at: int
    """Inputs that still request a link when a packet leaves by it that is marked; 0 for no congestion control."""
    step: int
    ease_ticks: int
    delays: NDArray[np.float64]
    """Waiting time between packets, in packets, by the index of the flow."""


OFF = ControlRules(0, 0, 1, np.zeros(1))


@dataclass(frozen=True)
class CongestionControl(Brief):
    """Congestion control of InfiniBand (volume 1, annex A10): marks on packets slow their sources down.

    A switch marks a packet that leaves by a port which so many inputs still request (FECN). The mark comes back with an
    acknowledgement (BECN) and raises the index of the flow in a table of waiting times (CCT); with time it falls.
    """

    mark_at: int = 4
    """Inputs that wait when a packet is marked."""
    step: int = 1
    """Entries of the table for a mark (CCTI_Increase)."""
    ease_s: float = 10e-6
    """Seconds until the index of a flow falls by one (CCTI_Timer)."""
    table: tuple[float, ...] = tuple(entry / 4 for entry in range(128))
    """Waiting time before the next packet by entry, in packets."""

    def rules(self, tick_s: float) -> ControlRules:
        """Return the parameters in ticks."""
        return ControlRules(self.mark_at, self.step, max(1, round(self.ease_s / tick_s)), np.array(self.table))


FLOW_FIELDS = [
    ("slow", "i4"),  # index into the table of waiting times
    ("allowed", "i8"),  # tick before which it must not send
    ("eased", "i8"),  # tick at which the index last fell
]
"""Of each flow, in `simulate.engines.packets.state.FLOW`; zero when it begins."""


@inlined
def on_dequeue(control: ControlRules, now: Records, packets: Records, packet: int, requesting: int) -> None:
    """Mark a packet that leaves a buffer by a link which so many still request: `born` becomes its complement."""
    if control.mark_at > 0 and requesting >= control.mark_at and packets[packet].born >= 0:
        packets[packet].born = ~packets[packet].born
        now[0].marked += 1


@inlined
def on_ack(control: ControlRules, flows: Records, flow: int, marked: bool) -> None:
    """Take an acknowledgement: a flow that hears of a mark sends more slowly."""
    if marked:
        flows[flow].slow = min(len(control.delays) - 1, flows[flow].slow + control.step)


@inlined
def may_send(control: ControlRules, flows: Records, flow: int, tick: int) -> bool:
    """Return whether a flow may send now; if not, it may at its tick ``allowed``."""
    return control.mark_at == 0 or flows[flow].allowed <= tick


@inlined
def on_send(control: ControlRules, flows: Records, flow: int, tick: int, full: int) -> None:
    """Say when a flow may send its next packet; `full` are the ticks of a packet on its first channel."""
    if control.mark_at > 0 and flows[flow].slow > 0:
        fallen = (tick - flows[flow].eased) // control.ease_ticks
        flows[flow].slow = max(0, flows[flow].slow - fallen)
        flows[flow].eased += fallen * control.ease_ticks
        flows[flow].allowed = tick + full + np.int64(full * control.delays[flows[flow].slow])
    elif control.mark_at > 0:
        flows[flow].eased = tick
