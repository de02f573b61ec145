"""Congestion control of packets: what a flow remembers, when packets are marked, and what marks do to their flow.

All of a variant is here: its parameters (`CongestionControl`, `Dcqcn`, and `ControlRules` for kernels), what it keeps
for each flow (`FLOW_FIELDS`), and what it does at four moments. `on_dequeue`: a packet leaves the buffer of a switch.
`on_ack`: an acknowledgement comes back. `may_send`: a flow is about to request its first channel. `on_send`: a packet
leaves its source. With `OFF` none of them does anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulate.engines.base import Records, check_values, draw_bits
from simulate.engines.compile import inlined
from topo.table import Brief


class ControlRules(NamedTuple):
    """What does not change while packets move: the first three are of `CongestionControl`, the others of `Dcqcn`."""

    mark_at: int = 0  # inputs that still request a link when a packet leaves by it that is marked; 0 for none
    step: int = 0
    ease_ticks: int = 1
    delays: NDArray[np.float64] = np.zeros(1)  # waiting time between packets, in packets, by the index of the flow
    none_ticks: int = 0  # ticks that what waits for a link takes on it, up to which no packet is marked
    all_ticks: int = 0  # beyond which every packet is; 0 for no rates
    likely: float = 0.0  # probability just before
    notice_ticks: int = 1
    alpha_ticks: int = 1
    raise_ticks: int = 1
    raise_bytes: int = 1
    gain: float = 0.0
    fast: int = 0
    more: float = 0.0
    much_more: float = 0.0
    least: float = 0.0


OFF = ControlRules()


@dataclass(frozen=True)
class CongestionControl(Brief):
    """Congestion control of InfiniBand (volume 1, annex A10): marks on packets slow their sources down.

    A switch marks a packet that leaves by a port which so many inputs still request (FECN). The mark comes back with an
    acknowledgement (BECN) and raises the index of the flow in a table of waiting times (CCT); with time it falls.
    """

    mark_at: int = 4
    """Inputs that wait when a packet is marked; 0 for no congestion control at all."""
    step: int = 1
    """Entries of the table for a mark (CCTI_Increase)."""
    ease_s: float = 10e-6
    """Seconds until the index of a flow falls by one (CCTI_Timer)."""
    table: tuple[float, ...] = tuple(entry / 4 for entry in range(128))
    """Waiting time before the next packet by entry, in packets."""

    @property
    def label(self) -> str:
        """What results call it; empty for none."""
        return "congestion control" if self.mark_at else ""

    def rules(self, tick_s: float) -> ControlRules:
        """Return the parameters in ticks."""
        return ControlRules(self.mark_at, self.step, max(1, round(self.ease_s / tick_s)), np.array(self.table))


@dataclass(frozen=True)
class Dcqcn(Brief):
    """DCQCN, congestion control of RoCE: marks on packets (ECN) set the rate of their flow.

    Switches mark by the length of the queue of an output. The receiver answers marks with notifications, at most one
    each ``notice_s``. Each makes the rate R the target and cuts R by alpha / 2; alpha goes up by ``gain``, and down
    with time. After ``raise_s`` or ``raise_bytes`` without one, R goes halfway up to the target; after ``fast`` such
    steps of one kind the target rises too, after as many of both kinds faster. A message begins at the rate of its
    link. The constants are those of the paper (Zhu et al., Congestion Control for Large-Scale RDMA Deployments, SIGCOMM
    2015), which has links of 40 Gb/s: queues are counted here in the time that they take on their link, and rates in
    parts of it, so that they fit any.

    Examples
    --------
    >>> import simulate
    >>> simulate.PacketModel(control=simulate.engines.Dcqcn()).label.split(", ")[-1]
    'DCQCN'
    """

    none_s: float = 1e-6
    """Queue up to which no packet is marked, as time on its link: 5 KB at 40 Gb/s (K_min)."""
    all_s: float = 40e-6
    """Beyond which every packet is marked: 200 KB (K_max)."""
    likely: float = 0.01
    """Probability of a mark just before (P_max); it rises evenly from 0 between the two."""
    notice_s: float = 50e-6
    """Between two notifications of a flow."""
    alpha_s: float = 55e-6
    """Between two steps down of alpha."""
    raise_s: float = 55e-6
    raise_bytes: int = 10_000_000
    gain: float = 1 / 256
    fast: int = 5
    more: float = 1e-3
    """Part of the rate of its link that a target rises by: 40 Mb/s of 40 Gb/s."""
    much_more: float = 1e-2
    """Likewise after ``fast`` steps of both kinds. The paper names no value: ten times as much, as in the model of
    RDMA for ns-3 by Alibaba (``RateAI`` 5 Mb/s, ``RateHAI`` 50 Mb/s)."""
    least: float = 1e-3
    """Part of its link that a flow keeps: the least rate of the same model is 100 Mb/s at 100 Gb/s."""

    def __post_init__(self) -> None:
        check_values(
            self,
            ("all_s", "more than none_s, which is not negative", 0 <= self.none_s < self.all_s < np.inf),
            ("likely", "0 to 1", 0 <= self.likely <= 1),
            ("gain", "0 to 1", 0 <= self.gain <= 1),
            ("least", "above 0, up to 1", 0 < self.least <= 1),
            ("notice_s", "above 0, as all times", min(self.notice_s, self.alpha_s, self.raise_s) > 0),
            ("raise_bytes", "1 or more", self.raise_bytes >= 1),
        )

    label = "DCQCN"

    def rules(self, tick_s: float) -> ControlRules:
        """Return the parameters in ticks."""
        ticks = (max(1, round(time / tick_s)) for time in (self.all_s, self.notice_s, self.alpha_s, self.raise_s))
        all_ticks, notice_ticks, alpha_ticks, raise_ticks = ticks
        return ControlRules(
            none_ticks=round(self.none_s / tick_s), all_ticks=all_ticks, likely=self.likely, notice_ticks=notice_ticks,
            alpha_ticks=alpha_ticks, raise_ticks=raise_ticks, raise_bytes=self.raise_bytes, gain=self.gain,
            fast=self.fast, more=self.more, much_more=self.much_more, least=self.least,
        )  # fmt: skip


FLOW_FIELDS = [
    ("slow", "i4"),  # index into the table of waiting times
    ("allowed", "i8"),  # tick before which it must not send
    ("eased", "i8"),  # tick at which the index last fell
    ("rate", "f8"),  # part of the rate of its first channel, 0 for all of it
    ("target", "f8"),
    ("alpha", "f8"),  # 0 before the first notification
    ("noticed", "i8"),  # tick of the last notification
    ("alpha_since", "i8"),  # tick of the last step of alpha
    ("raised", "i8"),  # tick of the last rise by time
    ("raised_bytes", "i8"),  # bytes since the last rise by bytes
    ("rises", "i4"),  # by time, since the last notification
    ("byte_rises", "i4"),  # by bytes
]
"""Of each flow, in `simulate.engines.packets.state.FLOW`; zero when it begins."""


@inlined
def on_dequeue(
    control: ControlRules, now: Records, packets: Records, packet: int, requesting: int, waiting_ticks: int
) -> None:
    """Mark a packet that leaves a buffer by a link: `born` becomes its complement.

    `requesting` inputs still request the link, and all packets of the switch that wait for it take `waiting_ticks`.
    """
    marks = control.mark_at > 0 and requesting >= control.mark_at
    if control.all_ticks > 0 and waiting_ticks > control.none_ticks:
        marks = waiting_ticks > control.all_ticks
        if not marks:
            part = (waiting_ticks - control.none_ticks) / (control.all_ticks - control.none_ticks)
            marks = draw_bits(now) < 2147483648.0 * control.likely * part
    if marks and packets[packet].born >= 0:
        packets[packet].born = ~packets[packet].born
        now[0].marked += 1


@inlined
def on_ack(control: ControlRules, flows: Records, flow: int, marked: bool, tick: int) -> None:
    """Take an acknowledgement: a flow that hears of a mark sends more slowly."""
    if not marked:
        return
    if control.all_ticks == 0:
        flows[flow].slow = min(len(control.delays) - 1, flows[flow].slow + control.step)
    elif flows[flow].alpha == 0 or tick - flows[flow].noticed >= control.notice_ticks:
        if flows[flow].alpha == 0:
            flows[flow].alpha = 1.0
        else:
            _settle(control, flows, flow, tick)
        if flows[flow].rate == 0:
            flows[flow].rate = 1.0
        flows[flow].target = flows[flow].rate
        flows[flow].rate = max(control.least, flows[flow].rate * (1 - flows[flow].alpha / 2))
        flows[flow].alpha += control.gain * (1 - flows[flow].alpha)
        flows[flow].noticed = flows[flow].alpha_since = flows[flow].raised = tick
        flows[flow].raised_bytes = flows[flow].rises = flows[flow].byte_rises = 0


@inlined
def may_send(control: ControlRules, flows: Records, flow: int, tick: int) -> bool:
    """Return whether a flow may send now; if not, it may at its tick ``allowed``."""
    return flows[flow].allowed <= tick  # type: ignore[no-any-return]


@inlined
def on_send(control: ControlRules, flows: Records, flow: int, tick: int, full: int, size: int) -> None:
    """Say when a flow may send its next packet; a full one takes `full` ticks on its first channel."""
    if control.mark_at > 0 and flows[flow].slow > 0:
        fallen = (tick - flows[flow].eased) // control.ease_ticks
        flows[flow].slow = max(0, flows[flow].slow - fallen)
        flows[flow].eased += fallen * control.ease_ticks
        flows[flow].allowed = tick + full + np.int64(full * control.delays[flows[flow].slow])
    elif control.mark_at > 0:
        flows[flow].eased = tick
    elif flows[flow].rate > 0:
        _settle(control, flows, flow, tick)
        flows[flow].raised_bytes += size
        if flows[flow].raised_bytes >= control.raise_bytes:
            flows[flow].raised_bytes -= control.raise_bytes
            flows[flow].byte_rises += 1
            _rise(control, flows, flow)
        flows[flow].allowed = tick + np.int64(np.ceil(full / flows[flow].rate))
        if flows[flow].rate > 1 - 1 / 1024:  # the pause would be shorter than a tick of the fastest channel
            flows[flow].rate = 0.0


@inlined
def _settle(control: ControlRules, flows: Records, flow: int, tick: int) -> None:
    """Let alpha fall and the rate rise as they do until a tick."""
    steps = (tick - flows[flow].alpha_since) // control.alpha_ticks
    flows[flow].alpha *= (1 - control.gain) ** steps
    flows[flow].alpha_since += steps * control.alpha_ticks
    while flows[flow].rate > 0 and flows[flow].rate < 1 and tick - flows[flow].raised >= control.raise_ticks:
        flows[flow].raised += control.raise_ticks
        flows[flow].rises += 1
        _rise(control, flows, flow)


@inlined
def _rise(control: ControlRules, flows: Records, flow: int) -> None:
    """Let a rate rise by a step, and its target after some."""
    if min(flows[flow].rises, flows[flow].byte_rises) > control.fast:
        flows[flow].target += control.much_more
    elif max(flows[flow].rises, flows[flow].byte_rises) >= control.fast:
        flows[flow].target += control.more
    flows[flow].target = min(1.0, flows[flow].target)
    flows[flow].rate = (flows[flow].rate + flows[flow].target) / 2
