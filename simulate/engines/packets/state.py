"""The state of a network of packets: flat arrays of records that one kernel reads and writes.

Time is counted in *ticks*, a thousandth of what the fastest channel takes for a full packet. A *channel* is a resource
of `simulate.Network`; with L lanes, lane l of channel c is number ``c * L + l``, here called a *link*. A *queue* holds
the packets of one input buffer that are served in order. What wants a link, a queue or a flow at its source, is a
*requester*: queue q has number q among them, and the flow in place f has Q + f. The requesters of a link stand in a
ring, of which `LINK` names the last. A channel that is idle and requested is *arbitrating*: it chooses at the end of
the tick.

*Events* are numbered too: 0 to C - 1, the tail of a packet has left a channel; from there, one a link, a credit is back
for which the link waits; behind these, one a packet, the packet is ready at the end of the channel that it crossed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulate.engines.base import CONNECTION, WAIT, Int32s, Int64s, Records
from simulate.engines.packets.control import FLOW_FIELDS, ControlRules

RESOLUTION = 1024
"""Ticks of a full packet on the fastest channel: rates and latencies are exact to a two-thousandth of that."""

CLOCK = np.dtype(
    [
        ("tick", "i8"),  # of the events; the time is this and `repeated`
        ("repeated", "i8"),  # ticks of periods that were not played again
        ("instants", "i8"),  # ticks at which something happened
        ("hops", "i8"),  # packets that have begun to cross a channel
        ("in_wheel", "i8"),  # events in the wheel
        ("far", "i8"),  # events of packets in the heap
        ("held", "i8"),  # packets in the network
        ("marked", "i8"),  # packets marked for congestion
        ("free", "i8"),  # first packet that is not in use, -1 for none
        ("n_free", "i8"),
        ("spare", "i8"),  # first of `RETURN` that is not in use, -1 for none
        ("n_spare", "i8"),
        ("n_heap", "i8"),
        ("n_done", "i8"),
        ("n_arbitrating", "i8"),
        ("random", "i8"),
        ("n_active", "i8"),  # flows under way
        ("n_walked", "i8"),  # links on their routes
        ("settled", "i8"),  # tick until which credits of flows that have ended come back
        ("look_at", "i8"),  # packets due of the first flow under way when the next row is written
        ("written", "i8"),  # numbers of all rows
        ("looks", "i8"),  # rows since a flow began or ended
        ("serial", "i8"),  # of the last walk over links and queues
        ("period", "i8"),  # ticks after which everything repeats, 0 where none is known
        ("n_kept", "i8"),  # length of the row that is kept, -1 for none
        ("kept_tick", "i8"),
        ("kept_hops", "i8"),  # hops when it was kept; once a period is known, hops of the period
        ("repeated_hops", "i8"),  # of `hops`
        ("late", "i8"),  # packets that arrived after a later one of their message
        ("farthest", "i8"),  # most packets by which one came after a later one
        ("under_way", "i8"),  # ticks from begin to end of messages that have ended, summed
        ("held_back", "i8"),  # those in which a packet was missing before others
    ]
)
"""One record of single values."""

CHANNEL = np.dtype(
    [
        ("full", "i4"),  # ticks of a full packet
        ("latency", "i4"),  # ticks from the begin of a packet here until it may leave the node at the end
        ("packet", "i4"),  # that which is being sent, -1 for none
        ("requester", "i4"),  # who it came from
        ("freed", "i4"),  # link whose buffer it leaves, -1 for none
        ("arbitrating", "i4"),  # whether it is about to choose
        ("node", "i4"),  # switch at the end, -1 for none
        ("low", "i4"),  # entry of the low-priority table whose turn it is
        ("low_left", "i4"),  # bytes that are left of it
        ("high", "i4"),
        ("high_left", "i4"),
        ("limit_left", "i4"),  # bytes of high priority until one of low priority goes
        ("under_way", "i4"),  # of an adapter with a limit: packets that it sends, or that are not acknowledged
        ("first", "i4"),  # of its flows that wait for one of them, -1 for none
        ("last", "i4"),
    ],
    align=True,
)
LINK = np.dtype(
    [
        ("credits", "i4"),  # blocks of the buffer behind it that are known to be free
        ("returning", "i4"),  # packets that have left that buffer, and whose credits are on their way back
        ("back", "i4"),  # the last of these, in a ring of `RETURN`
        ("last", "i4"),  # of those who request, the last; -1 for none
        ("channel", "i4"),
        ("requesting", "i4"),  # how many request
        ("blocked", "i2"),  # whether somebody requests and no credit is there
        ("waking", "i2"),  # whether the event of a credit is scheduled
        ("paused", "i2"),  # whether it waits until there is room for enough full packets again
        ("pauses", "i8"),  # how often it began to
        ("queued", "i4"),  # packets in buffers of its switch that go on over it
        ("since", "i8"),  # tick since which it is blocked
        ("stalled", "i8"),  # ticks for which it was
        ("waited", "i8"),  # ticks that all who requested have waited
        ("sent", "i8"),  # bytes
    ],
    align=True,
)
REQUESTER = np.dtype([("next", "i4"), ("head", "i4"), ("tail", "i4")])
"""The next requester in the ring, -1 for one that neither requests nor sends, and the packets of a queue. Queues are
many, and caches hold few of them: what is of one packet stands in `PACKET`."""

PACKET = np.dtype(
    [
        ("next", "i4"),  # in its queue, or not in use
        ("flow", "i4"),
        ("at", "i4"),  # place in ``route_link``
        ("link", "i4"),  # that it crosses, or in whose buffer it is
        ("out", "i4"),  # that it goes on over, -1 where it is yet to choose; `ACK` on its way back
        ("size", "i4"),  # bytes
        ("behind", "i8"),  # packets of its message that are sent after it
        ("born", "i8"),  # tick at which it was sent; its complement where it is marked for congestion
        ("requested", "i8"),  # tick of the request of its queue, when it is first there
    ],
    align=True,
)
RETURN = np.dtype([("due", "i8"), ("blocks", "i4"), ("next", "i4")])
"""A packet that has left a buffer: the tick at which its sender has the credits back, how many these are, and the next
in its ring, or not in use. Small records, since every hop takes one."""

FLOW = np.dtype(
    [
        ("first", "i4"),  # its route in ``route_link``
        ("exit", "i4"),  # place in it of the channel out of the last switch, -1 where it may not choose
        ("home", "i4"),  # that switch
        ("tail", "i4"),  # bytes of the last packet
        ("left", "i8"),  # packets to send
        ("due", "i8"),  # packets to arrive
        ("newest", "i8"),  # packets sent after the last one of those that have arrived: as many are due in order
        ("missing", "i8"),  # tick since which one is missing before it, -1 for none
        ("held_back", "i8"),  # ticks for which one was
        ("unacknowledged", "i8"),  # packets that are under way, or their acknowledgements
        ("back", "i8"),  # ticks of an acknowledgement
        ("window", "i8"),  # packets that may be on their way, 0 for any number
        ("latency", "i8"),  # ticks of the message at the source
        ("stride", "i8"),  # from its route to that of its next queue pair in ``route_link``
        ("earliest", "i8"),
        ("delay", "i8"),
        ("begin", "i8"),
        ("end", "i8"),
        ("requested", "i8"),  # tick of its last request
        ("waited", "i8"),  # most that its last packet waited for a link
        ("limit", "i4"),  # and for which channel
        ("connection", "i4"),  # -1 for none
        ("behind", "i4"),  # the next that waits for its turn on the connection, or at the adapter; -1 for none
        ("adapter", "i4"),  # channel by which it enters the fabric where adapters have a limit, else -1
        *FLOW_FIELDS,
    ],
    align=True,
)
PACKET_ROUTE = np.dtype(
    [
        ("first", "i8"),  # its place in ``route_link``
        ("exit", "i8"),  # the place of the channel out of its last switch, -1 for a route that is fixed
        ("home", "i8"),  # that switch
        ("back", "i8"),  # ticks of an acknowledgement
        ("overhead", "i8"),  # ticks of a message before it is sent
        ("window", "i8"),  # packets of a message that may be on their way, 0 for any number
        ("slowest", "i4"),  # its slowest channel
        ("adapter", "i4"),  # the first one in the fabric where adapters have a limit, else -1
        ("stride", "i8"),  # from here to the route of the next queue pair in ``route_link``
    ],
    align=True,
)

LINK_STEP = np.dtype([("seen", "i8"), ("stalled", "i8"), ("waited", "i8"), ("sent", "i8")])
"""Of a link: the last walk that came here, and what was counted when a row was kept; once a period is known, in a
period."""
FLOW_STEP = np.dtype([("slot", "i4"), ("left", "i8"), ("due", "i8")], align=True)
"""Likewise of a flow, with its place among those under way, -1 for none."""

EVENT = np.dtype([("due", "i8"), ("code", "i8")])
"""An entry of the heap: an event, or `FLOWS` and the place of a flow that is ready to send."""

AT_REST = np.array((-1, -1, 0), REQUESTER)
"""One who requests nothing."""

OF_FLOWS = {"flows": FLOW, "waits": WAIT, "flow_steps": FLOW_STEP, "done": np.int32, "active": np.int32}
EMPTY = OF_FLOWS | {"packets": PACKET, "returns": RETURN, "connections": CONNECTION, "next_flow": np.int32}
EMPTY |= {"route_link": np.int32, "route_queue": np.int32, "route_use": np.float64}
"""Type of the arrays of a state that are empty at first; of those with a place for each flow alone."""

FLOWS = 1 << 40
ACK = -2
FOREVER = 1 << 62
CREDIT_BYTES = 64
"""Bytes of a credit (InfiniBand Architecture Specification, volume 1, 7.9.4)."""
UNLIMITED = 1 << 30
"""Credits of what is inside servers, and at most of a port."""

HISTOGRAM = 64 * 16
"""Bins of the latencies of packets: sixteen for each doubling of ticks."""


class Rules(NamedTuple):
    """What does not change while packets move."""

    packet_bytes: int
    n_lanes: int
    n_switches: int
    n_limited: int  # channels of the fabric: those behind are inside servers, and have no end of buffers
    n_queues: int
    credit_ticks: int
    voq: bool
    adaptive: bool
    sprays: bool  # whether packets that may choose take any port, not the least loaded
    adapter_packets: int  # packets that an adapter may have on its way, 0 for any number
    n_paths: int  # queue pairs of a flow, whose packets they take in turn
    resume: int  # full packets for which there must be room until a link that had none for one sends on
    flowlet_ticks: int  # A gap in a flow after which its next packet may take another port; 0 for any
    mixed: bool  # whether channels differ in rate
    control: ControlRules
    repeats: bool  # whether steady states are looked for: where nothing is chosen at random and no flow slows down
    limit_bytes: int  # of high priority until one packet of low priority goes; negative for no limit


class PacketState(NamedTuple):
    """Everything that moves. C channels, L lanes, Q queues, F flows."""

    now: Records
    channels: Records
    links: Records
    requesters: Records
    packets: Records
    returns: Records  # as many
    flows: Records
    waits: Records  # (F,) `simulate.engines.base.WAIT`
    connections: Records  # `simulate.engines.base.CONNECTION`
    wheel: Int32s  # by tick, modulo its length: the last of a ring of events, -1 for none
    after: Int32s  # by event: the next in its ring
    heap: Records  # events beyond the wheel, and flows, as a binary heap of `EVENT`
    arbitrating: Int32s  # channels that choose at the end of the tick
    done: Int32s  # places of flows that have ended
    next_flow: Int32s  # flows that wait, in the runs that `waits` names
    link_steps: Records
    flow_steps: Records
    queue_seen: Int64s  # (Q,) the last walk that came to a queue
    active: Int32s  # places of flows under way
    walked: Int32s  # links on their routes, each once
    row: Int64s  # what stands where, as `simulate.engines.packets.fast_forward` writes it
    kept: Int64s  # an older row
    kept_histogram: Int64s  # that of then; once a period is known, of a period
    histogram: Int64s  # packets that have arrived, by the logarithm of their latency
    route_link: Int32s  # links of all routes, -1 behind each route
    route_queue: Int32s  # beside it: the queue in which a packet waits for that link
    route_use: NDArray[np.float64]  # beside it: how many times a packet counts on it; empty when once everywhere
    low: Int32s  # (n, 2) lane and bytes of each entry of the low-priority table
    high: Int32s  # (n, 2) likewise of the high-priority table
    row_of: Int32s  # (S,) number of a switch among the targets of adaptive routing, -1 for none
    group_of: Int32s  # (T, S) group of the ports that lead from switch s to target t, -1 for none
    group_offset: Int32s  # (G + 1,) where a group begins in `group_port`
    group_port: Int32s
    load: Int32s  # (C * L,) packets that chose a link and have not left the buffer behind it, where routing is adaptive
    queue_of: Int32s
    """(C * L,) with virtual output queues, the first queue of each buffer; one a port of the switch follows."""
    port_number: Int32s  # (C,) number of each port on its switch, from 0
    flowlets: Int64s  # (a power of two, 3) a flow at a switch as ``flow * S + switch``, the link that it took, and when
