"""Fast forward: when the packets repeat themselves, periods are skipped.

Packets are deterministic. When all that moves stands as it did P ticks ago, seen from now, then every P ticks repeat
the last, for as long as no message begins and none sends its last packet. They are repeated by arithmetic, while the
clock of the events stands still. No result changes by it.

A state is written as a row of numbers: the events to come with the ticks until them, and for all links on the routes of
the messages under way, their credits, who sends, who requests, and what waits in the queues. A credit that is back is
counted whether it was looked up or not: it is looked up when none is left, which has a period of its own. A row is
written when a packet of one of the messages arrives, and compared with an older one, which is replaced after 1, 2, 4,
... rows, so that a period of any length is found (Brent, "An improved Monte Carlo factorization algorithm", 1980).
"""

from __future__ import annotations

from simulate.engines.base import Records
from simulate.engines.compile import inlined, inner
from simulate.engines.packets.state import ACK, CREDIT_BYTES, FOREVER, PacketState, Rules

GAIN, GRACE = 16, 4096
"""Numbers that are written in the time of a hop, and hops in whose time rows may be written at first: 0.6 ms of 150 ns
each, which is nothing beside the start of a command. Later, a number may be written for each hop that was played, and
`GAIN` for each that was saved."""
NUMBERS_A_LINK = 14
"""Numbers of a row for a link, its queue and the next flow, but for credits, requesters and packets."""


@inner
def enter(state: PacketState, flow: int) -> None:
    """Add a flow that begins to send to those under way."""
    now = state.now
    state.flow_steps[flow].slot = now[0].n_active
    state.active[now[0].n_active] = flow
    now[0].n_active += 1
    _forget(now)


@inner
def leave(rules: Rules, state: PacketState, flow: int) -> None:
    """Remove a flow whose last packet has arrived. Credits of its links are back after a while only."""
    now, active, steps = state.now, state.active, state.flow_steps
    now[0].n_active -= 1
    last = active[now[0].n_active]
    active[steps[flow].slot] = last
    steps[last].slot = steps[flow].slot
    steps[flow].slot = -1
    now[0].settled = max(now[0].settled, now[0].tick + state.flows[flow].back + rules.credit_ticks)
    _forget(now)


@inlined
def _forget(now: Records) -> None:
    """Look for a period anew."""
    now[0].period = 0
    now[0].n_kept = -1
    now[0].looks = 0
    now[0].look_at = FOREVER


@inner
def _write_state(rules: Rules, state: PacketState) -> int:
    """Write the row of this moment; return its length, which is greater than that of ``row`` if it does not fit."""
    now, wheel, after, packets, flows = state.now, state.wheel, state.after, state.packets, state.flows
    channels, links, requesters, row = state.channels, state.links, state.requesters, state.row
    link_steps = state.link_steps
    tick, n_events, to_come = now[0].tick, len(channels) + len(links), now[0].in_wheel
    most = len(row) - 4 * now[0].held  # which may be in queues
    if 3 + 5 * to_come > most:
        return len(row) + 1
    row[0] = to_come
    n = 1
    due = tick
    while to_come > 0:
        due += 1
        last = wheel[due & (len(wheel) - 1)]
        event = last
        while last >= 0:
            event = after[event]
            to_come -= 1
            row[n] = due - tick
            row[n + 1] = event
            n += 2
            if event >= n_events:
                packet = event - n_events
                row[n - 1] = -1 - packets[packet].flow
                row[n] = -1
                n += 1
                if packets[packet].out != ACK:
                    row[n - 1] = packets[packet].at
                    row[n] = packets[packet].size
                    row[n + 1] = packets[packet].born - tick
                    n += 2
            if event == last:
                break
    now[0].serial += 1
    now[0].n_walked = 0
    for place in range(now[0].n_active):
        flow = state.active[place]
        row[n] = requesters[rules.n_queues + flow].next >= 0
        row[n + 1] = flows[flow].unacknowledged
        n += 2
        at = flows[flow].first
        while state.route_link[at] >= 0:
            link, queue = state.route_link[at], state.route_queue[at]
            if n + NUMBERS_A_LINK + 2 * (links[link].returning + links[link].requesting) > most:
                return len(row) + 1
            at += 1
            if queue >= 0 and state.queue_seen[queue] != now[0].serial:
                state.queue_seen[queue] = now[0].serial
                packet = requesters[queue].head
                while packet >= 0:
                    row[n] = packets[packet].flow
                    row[n + 1] = packets[packet].at
                    row[n + 2] = packets[packet].size
                    row[n + 3] = packets[packet].born - tick
                    n += 4
                    packet = packets[packet].next
                row[n] = -1 - (requesters[queue].next >= 0)
                n += 1
            if link_steps[link].seen == now[0].serial:
                continue
            link_steps[link].seen = now[0].serial
            state.walked[now[0].n_walked] = link
            now[0].n_walked += 1
            credits = links[link].credits
            returned = links[link].back
            for _ in range(links[link].returning):
                returned = state.returns[returned].next
                blocks = state.returns[returned].blocks
                if state.returns[returned].due <= tick:  # it is there, and counts when it is wanted
                    credits += blocks
                    continue
                is_part = blocks * CREDIT_BYTES < rules.packet_bytes
                row[n] = 2 * (state.returns[returned].due - tick) + is_part
                n += 1
                if is_part:
                    row[n] = blocks
                    n += 1
            row[n] = -1 - credits
            row[n + 1] = links[link].waking
            row[n + 2] = tick - links[link].since if links[link].blocked else -1
            channel = links[link].channel
            sends = channels[channel].packet >= 0
            row[n + 3] = channels[channel].requester if sends else -1
            row[n + 4] = channels[channel].freed if sends else -1
            row[n + 5] = channels[channel].low
            row[n + 6] = channels[channel].low_left
            row[n + 7] = channels[channel].high
            row[n + 8] = channels[channel].high_left
            row[n + 9] = channels[channel].limit_left
            n += 10
            last = links[link].last
            who = last
            while last >= 0:
                who = requesters[who].next
                row[n] = who
                if who < rules.n_queues:
                    row[n + 1] = tick - packets[requesters[who].head].requested
                else:
                    row[n + 1] = tick - flows[who - rules.n_queues].requested
                n += 2
                if who == last:
                    break
            row[n] = -1
            n += 1
    return n


@inner
def _count(state: PacketState, before: int) -> None:
    """Write down all that counts; where `before` is 1, less what stands there: what a period adds."""
    now, flows, links = state.now, state.flows, state.links
    flow_steps, link_steps = state.flow_steps, state.link_steps
    now[0].kept_hops = now[0].hops - before * now[0].kept_hops
    for at in range(len(state.histogram)):
        state.kept_histogram[at] = state.histogram[at] - before * state.kept_histogram[at]
    for place in range(now[0].n_active):
        flow = state.active[place]
        flow_steps[flow].left = flows[flow].left - before * flow_steps[flow].left
        flow_steps[flow].due = flows[flow].due - before * flow_steps[flow].due
    for link in state.walked[: now[0].n_walked]:
        link_steps[link].stalled = links[link].stalled - before * link_steps[link].stalled
        link_steps[link].waited = links[link].waited - before * link_steps[link].waited
        link_steps[link].sent = links[link].sent - before * link_steps[link].sent


@inner
def repeat(state: PacketState, until: int) -> None:
    """Repeat the period as often as it fits before a time, a flow that begins and a flow that sends its last packet."""
    now, flows, links = state.now, state.flows, state.links
    flow_steps, link_steps = state.flow_steps, state.link_steps
    period, time = now[0].period, now[0].tick + now[0].repeated
    times = (until - time) // period
    if now[0].n_heap > 0:
        times = min(times, (state.heap[0].due - 1 - time) // period)
    if times <= 0:
        return
    for place in range(now[0].n_active):
        flow = state.active[place]
        if flow_steps[flow].left < 0:
            times = min(times, (flows[flow].left - 1) // -flow_steps[flow].left)
    if times <= 0:  # nothing is left to repeat until another flow begins or ends
        now[0].period = 0
        return
    now[0].repeated += times * period
    now[0].hops += times * now[0].kept_hops
    now[0].repeated_hops += times * now[0].kept_hops
    for at in range(len(state.histogram)):
        state.histogram[at] += times * state.kept_histogram[at]
    for place in range(now[0].n_active):
        flow = state.active[place]
        flows[flow].left += times * flow_steps[flow].left
        flows[flow].due += times * flow_steps[flow].due
    for link in state.walked[: now[0].n_walked]:
        links[link].stalled += times * link_steps[link].stalled
        links[link].waited += times * link_steps[link].waited
        links[link].sent += times * link_steps[link].sent


@inner
def look(rules: Rules, state: PacketState, until: int) -> None:
    """Write a row where it is time for one; where it is the one that was kept, repeat what happened since."""
    now, flows, first = state.now, state.flows, state.active[0]
    if now[0].look_at == FOREVER:
        now[0].look_at = flows[first].due
    if now[0].tick <= now[0].settled or now[0].far > 0:
        return
    now[0].look_at = flows[first].due - 1
    if now[0].written > now[0].hops + GAIN * (now[0].repeated_hops + GRACE):
        return
    n = _write_state(rules, state)
    now[0].written += n
    if n > len(state.row):
        now[0].look_at = -1
        return
    same = n == now[0].n_kept
    at = 0
    while same and at < n:
        same = state.row[at] == state.kept[at]
        at += 1
    if same:
        now[0].period = now[0].tick - now[0].kept_tick
        now[0].look_at = -1
        _count(state, 1)
        repeat(state, until)
        return
    now[0].looks += 1
    if now[0].looks & (now[0].looks - 1) == 0:
        for at in range(n):
            state.kept[at] = state.row[at]
        now[0].n_kept = n
        now[0].kept_tick = now[0].tick
        _count(state, 0)
