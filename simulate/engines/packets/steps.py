"""Plays packets: what arrives and leaves within one tick is handled first, then idle channels choose what to send.

A hop is two events: the tail of the packet has left the channel, and its header is ready behind the next. Credits have
none; when they come back is written down, and looked up by who needs one. Only a channel that has to wait for a credit
has an event of it. The wheel has a place for each tick, events of one tick are handled in the order in which they came.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulate.engines.base import Records, draw_bits
from simulate.engines.compile import inlined, inner, kernel
from simulate.engines.packets import fast_forward
from simulate.engines.packets.control import may_send, on_ack, on_dequeue, on_send
from simulate.engines.packets.state import ACK, CREDIT_BYTES, FLOWS, FOREVER, HISTOGRAM, PacketState, Rules

IDLE, MORE, ENDED, ROOM, STUCK = 0, 1, 2, 3, 4
"""Why `run` returned: nothing is left until the time, so many instants were played, flows ended, packets need more
room, packets wait for each other."""


@inner
def push(now: Records, heap: Records, due: int, code: int) -> None:
    """Put an entry into the heap."""
    at = now[0].n_heap
    now[0].n_heap += 1
    while at > 0:
        above = (at - 1) >> 1
        if heap[above].due < due or (heap[above].due == due and heap[above].code < code):
            break
        heap[at].due = heap[above].due
        heap[at].code = heap[above].code
        at = above
    heap[at].due = due
    heap[at].code = code


@inner
def _pop(now: Records, heap: Records) -> int:
    """Take the first entry out of the heap; return its code."""
    code = heap[0].code
    now[0].n_heap -= 1
    n = now[0].n_heap
    last_due, last_code = heap[n].due, heap[n].code
    at = 0
    while 2 * at + 1 < n:
        child = 2 * at + 1
        if child + 1 < n and (
            heap[child + 1].due < heap[child].due
            or (heap[child + 1].due == heap[child].due and heap[child + 1].code < heap[child].code)
        ):
            child += 1
        if last_due < heap[child].due or (last_due == heap[child].due and last_code < heap[child].code):
            break
        heap[at].due = heap[child].due
        heap[at].code = heap[child].code
        at = child
    heap[at].due = last_due
    heap[at].code = last_code
    return code  # type: ignore[no-any-return]


@inlined
def _put(state: PacketState, event: int, due: int) -> None:
    """Schedule an event at a later tick."""
    now, wheel, after = state.now, state.wheel, state.after
    if due - now[0].tick < len(wheel):
        place = due & (len(wheel) - 1)
        last = wheel[place]
        if last < 0:
            after[event] = event
        else:
            after[event] = after[last]
            after[last] = event
        wheel[place] = event
        now[0].in_wheel += 1
    else:
        push(now, state.heap, due + now[0].repeated, event)
        now[0].far += 1


@inlined
def _arbitrate(state: PacketState, channel: int) -> None:
    """Let an idle channel choose at the end of the tick."""
    if state.channels[channel].packet < 0 and state.channels[channel].arbitrating == 0:
        state.channels[channel].arbitrating = 1
        state.arbitrating[state.now[0].n_arbitrating] = channel
        state.now[0].n_arbitrating += 1


@inlined
def _request(state: PacketState, who: int, link: int) -> None:
    """Let somebody request a link."""
    links, requesters = state.links, state.requesters
    last = links[link].last
    if last < 0:
        requesters[who].next = who
    else:
        requesters[who].next = requesters[last].next
        requesters[last].next = who
    links[link].last = who
    links[link].requesting += 1
    _arbitrate(state, links[link].channel)


@inlined
def _blocks(size: int) -> int:
    """Return the credits of a packet: one for each begun block of a buffer."""
    return (size + CREDIT_BYTES - 1) // CREDIT_BYTES


@inlined
def _collect(state: PacketState, link: int) -> None:
    """Count the credits of a link that are back by now."""
    now, links, returns = state.now, state.links, state.returns
    while links[link].returning > 0:
        last = links[link].back
        first = returns[last].next
        if returns[first].due > now[0].tick:
            break
        links[link].returning -= 1
        links[link].credits += returns[first].blocks
        returns[last].next = returns[first].next
        returns[first].next = now[0].spare
        now[0].spare = first
        now[0].n_spare += 1


@inlined
def _leave_buffer(rules: Rules, state: PacketState, link: int, size: int) -> None:
    """Give back credits of a link, as the tail of a packet leaves the buffer behind it."""
    now, links, returns, channel = state.now, state.links, state.returns, state.links[link].channel
    if rules.adaptive:
        state.load[link] -= 1
    if channel >= rules.n_limited:
        return
    _collect(state, link)  # so that few records are in use
    returned, last = now[0].spare, links[link].back
    now[0].spare = returns[returned].next
    now[0].n_spare -= 1
    returns[returned].due = now[0].tick + state.channels[channel].latency + rules.credit_ticks
    returns[returned].blocks = _blocks(size)
    if links[link].returning == 0:
        returns[returned].next = returned
    else:
        returns[returned].next = returns[last].next
        returns[last].next = returned
    links[link].back = returned
    links[link].returning += 1
    if links[link].blocked and not links[link].waking:
        links[link].waking = 1
        _put(state, len(state.channels) + link, returns[returned].due)


@inlined
def _next_size(rules: Rules, state: PacketState, link: int) -> int:
    """Return the bytes of the packet that is next to go over a link: of who requested it first."""
    who = state.requesters[state.links[link].last].next
    if who < rules.n_queues:
        return int(state.packets[state.requesters[who].head].size)
    flow = who - rules.n_queues
    return rules.packet_bytes if state.flows[flow].left > 1 else int(state.flows[flow].tail)


@inlined
def _ready(rules: Rules, state: PacketState, link: int) -> bool:
    """Return whether somebody requests a link and the credits are there; if only the latter fails, wait for them.

    None overtakes who requested first for want of credits, so that large packets are not starved by small ones.
    """
    links, returns, full = state.links, state.returns, _blocks(rules.packet_bytes)
    if links[link].last < 0:
        return False
    if links[link].credits >= full and not links[link].paused:
        return True
    _collect(state, link)
    if links[link].credits >= (rules.resume * full if links[link].paused else _blocks(_next_size(rules, state, link))):
        links[link].paused = 0
        return True
    if not links[link].blocked:
        links[link].blocked = 1
        links[link].since = state.now[0].tick
    if links[link].returning > 0 and not links[link].waking:
        links[link].waking = 1
        _put(state, len(state.channels) + link, returns[returns[links[link].back].next].due)
    return False


@inlined
def _turn(
    rules: Rules, state: PacketState, first: int, table: NDArray[np.int32], at: int, left: int
) -> tuple[int, int, int]:
    """Return the link whose turn it is in a table of lanes, -1 for none, its entry, and the bytes left of that."""
    for _ in range(len(table) + 1):
        if left > 0:
            link = first + table[at, 0]
            if _ready(rules, state, link):
                return link, at, left
        at = at + 1 if at + 1 < len(table) else 0
        left = table[at, 1]
    return -1, at, left


@inlined
def _aim(rules: Rules, state: PacketState, packet: int, node: int) -> int:
    """Return the link that a packet takes where it may choose, and count it there: the least loaded, any of several."""
    now, load, flowlets = state.now, state.load, state.flowlets
    flow = state.packets[packet].flow
    lane = state.packets[packet].link % rules.n_lanes
    key = flow * rules.n_switches + node
    place = (key * 2654435761 >> 12) & (len(flowlets) - 1)
    known = rules.flowlet_ticks > 0 and flowlets[place, 0] == key
    if known and now[0].tick - flowlets[place, 2] < rules.flowlet_ticks:
        flowlets[place, 2] = now[0].tick
        load[flowlets[place, 1]] += 1
        return flowlets[place, 1]  # type: ignore[no-any-return]
    group = state.group_of[state.row_of[state.flows[flow].home], node]
    begin = state.group_offset[group]
    n = state.group_offset[group + 1] - begin
    at = draw_bits(now) * n >> 31
    best = np.int64(-1)
    for _ in range(n):
        link = np.int64(state.group_port[begin + at]) * rules.n_lanes + lane
        if best < 0 or load[link] < load[best]:
            best = link
            if load[best] == 0 or rules.sprays:
                break
        at = at + 1 if at + 1 < n else 0
    load[best] += 1
    if rules.flowlet_ticks > 0:
        flowlets[place, 0] = key
        flowlets[place, 1] = best
        flowlets[place, 2] = now[0].tick
    return int(best)


@inlined
def _append(lines: Records, number: int, flows: Records, flow: int) -> None:
    """Put a flow at the end of the line of a connection or an adapter."""
    flows[flow].behind = -1
    if lines[number].first < 0:
        lines[number].first = flow
    else:
        flows[lines[number].last].behind = flow
    lines[number].last = flow


@inlined
def _line_up(rules: Rules, state: PacketState, flow: int, adapter: int) -> None:
    """Let a flow wait until its adapter has one packet less on its way."""
    state.requesters[rules.n_queues + flow].next = rules.n_queues + flow
    _append(state.channels, adapter, state.flows, flow)


@inlined
def _leave_adapter(rules: Rules, state: PacketState, adapter: int, flow: int) -> int:
    """Take a packet off those of an adapter; return the flow that sends in its place: first in line, else `flow`."""
    channels, requesters = state.channels, state.requesters
    channels[adapter].under_way -= 1
    if channels[adapter].first < 0:
        return flow
    if flow >= 0 and state.flows[flow].left > 0 and requesters[rules.n_queues + flow].next < 0:
        _line_up(rules, state, flow, adapter)
    first = channels[adapter].first
    channels[adapter].first = state.flows[first].behind
    requesters[rules.n_queues + first].next = -1
    return int(first)


@inlined
def _allowed(rules: Rules, state: PacketState, flow: int) -> bool:
    """Return whether a flow may send its next packet now; if congestion control says later, it comes back then."""
    flows, now, adapter = state.flows, state.now, state.flows[flow].adapter
    if flows[flow].left == 0 or (flows[flow].window > 0 and flows[flow].unacknowledged >= flows[flow].window):
        return False
    if adapter >= 0 and state.channels[adapter].under_way >= rules.adapter_packets:
        _line_up(rules, state, flow, adapter)
        return False
    if not may_send(rules.control, flows, flow, now[0].tick):
        push(now, state.heap, flows[flow].allowed + now[0].repeated, FLOWS + flow)
        state.requesters[rules.n_queues + flow].next = rules.n_queues + flow
        return False
    if adapter >= 0:
        state.channels[adapter].under_way += 1
    return True


@inlined
def _turn_of(state: PacketState, flow: int) -> int:
    """Let a flow that is ready send if its connection is free; return it, or -1 where it waits for its turn."""
    flows, connections, number = state.flows, state.connections, state.flows[flow].connection
    if number < 0 or connections[number].moving == flow:
        return flow
    if connections[number].moving < 0:
        connections[number].moving = flow
        return flow
    _append(connections, number, flows, flow)
    return -1


@inlined
def _next_turn(state: PacketState, flow: int) -> int:
    """Give the connection of a flow that has sent everything to the next in line; return that, -1 for none."""
    flows, connections, number = state.flows, state.connections, state.flows[flow].connection
    if number < 0:
        return -1
    after = connections[number].first
    connections[number].moving = after
    if after >= 0:
        connections[number].first = flows[after].behind
    return int(after)


@inlined
def _first(rules: Rules, state: PacketState, flow: int) -> int:
    """Return where the route of the next packet of a flow begins: its queue pairs take turns."""
    flows = state.flows
    return flows[flow].first + flows[flow].left % rules.n_paths * flows[flow].stride  # type: ignore[no-any-return]


@inlined
def _begin_packet(rules: Rules, state: PacketState, flow: int, tick: int, channel: int) -> int:
    """Take the next packet of a flow; return it."""
    now, packets, flows = state.now, state.packets, state.flows
    packet = now[0].free
    now[0].free = packets[packet].next
    now[0].n_free -= 1
    now[0].held += 1
    packets[packet].flow = flow
    packets[packet].at = _first(rules, state, flow)
    packets[packet].link = -1
    packets[packet].out = state.route_link[packets[packet].at]
    packets[packet].born = tick
    flows[flow].left -= 1
    packets[packet].behind = flows[flow].left
    packets[packet].size = rules.packet_bytes if flows[flow].left > 0 else flows[flow].tail
    flows[flow].unacknowledged += 1
    on_send(rules.control, flows, flow, tick, state.channels[channel].full, packets[packet].size)
    return packet  # type: ignore[no-any-return]


@inner
def _end(rules: Rules, state: PacketState, flow: int, tick: int) -> None:
    """Record the end of a flow, and schedule those that waited only for it."""
    now, flows, waits = state.now, state.flows, state.waits
    flows[flow].end = tick + now[0].repeated
    if state.flow_steps[flow].slot >= 0:
        fast_forward.leave(rules, state, flow)
    state.done[now[0].n_done] = flow
    now[0].n_done += 1
    for at in range(waits[flow].first, waits[flow].first + waits[flow].count):
        follower = state.next_flow[at]
        waits[follower].waits -= 1
        if waits[follower].waits == 0:
            schedule_flow(state, follower)


@inner
def schedule_flow(state: PacketState, flow: int) -> None:
    """Schedule a flow that waits for no other any more."""
    now, flows = state.now, state.flows
    flows[flow].begin = max(now[0].tick + now[0].repeated, flows[flow].earliest) + flows[flow].delay
    push(now, state.heap, flows[flow].begin + flows[flow].latency, FLOWS + flow)


@kernel
def schedule_flows(state: PacketState, flows: NDArray[np.int64]) -> None:
    """Schedule flows that wait for no other."""
    for flow in flows:
        schedule_flow(state, flow)


@kernel
def next_tick(state: PacketState) -> int:
    """Return the tick of the next event as the events count, `FOREVER` for none."""
    now, wheel = state.now, state.wheel
    due = np.int64(FOREVER)
    if now[0].n_heap > 0:
        due = max(now[0].tick, state.heap[0].due - now[0].repeated)
    if now[0].in_wheel > 0:
        tick = now[0].tick + 1
        while tick < due and wheel[tick & (len(wheel) - 1)] < 0:
            tick += 1
        due = tick
    return int(due)


@inlined
def _note_order(state: PacketState, flow: int, behind: int, tick: int) -> None:
    """Note whether a packet arrives after a later one, and for how long packets were missing before others.

    All have arrived up to the newest when as many are due as were sent after it.
    """
    now, flows = state.now, state.flows
    if behind < flows[flow].newest:
        flows[flow].newest = behind
    else:
        now[0].late += 1
        now[0].farthest = max(now[0].farthest, behind - flows[flow].newest)
    if flows[flow].due > flows[flow].newest:
        if flows[flow].missing < 0:
            flows[flow].missing = tick
    elif flows[flow].missing >= 0:
        flows[flow].held_back += tick - flows[flow].missing
        flows[flow].missing = -1
    if flows[flow].due == 0:
        now[0].under_way += tick - flows[flow].begin
        now[0].held_back += flows[flow].held_back


@inlined
def _arrive(rules: Rules, state: PacketState, packet: int, tick: int) -> int:
    """Take a packet whose tail is there, or its acknowledgement; return the flow that may now send again, or -1."""
    now, packets, flows = state.now, state.packets, state.flows
    flow = packets[packet].flow
    born = packets[packet].born
    if packets[packet].out != ACK:
        _leave_buffer(rules, state, packets[packet].link, packets[packet].size)
        now[0].held -= 1
        # The bin of a latency: its doubling, and the next four bits.
        took = tick - (born if born >= 0 else ~born)
        power = np.int64(0)
        while took >> power >= 32:
            power += 1
        state.histogram[min(HISTOGRAM - 1, power * 16 + (took >> power))] += 1
        flows[flow].due -= 1
        if rules.adaptive or rules.n_paths > 1:  # one path keeps the order
            _note_order(state, flow, packets[packet].behind, tick)
        if flows[flow].due == 0:
            _end(rules, state, flow, tick)
        if flows[flow].window > 0 or born < 0 or flows[flow].adapter >= 0:
            packets[packet].out = ACK
            _put(state, len(state.channels) + len(state.links) + packet, tick + flows[flow].back)
            return -1
    waited = flows[flow].window > 0 and flows[flow].unacknowledged == flows[flow].window
    flows[flow].unacknowledged -= 1
    on_ack(rules.control, flows, flow, born < 0, tick)
    packets[packet].next = now[0].free
    now[0].free = packet
    now[0].n_free += 1
    may: Any = np.int64(flow) if waited else np.int64(-1)
    if flows[flow].adapter >= 0:
        may = _leave_adapter(rules, state, flows[flow].adapter, may)
    return int(may)


@kernel
def run(rules: Rules, state: PacketState, until: int, max_instants: int, stop_at_end: bool) -> int:
    """Play events in order, up to and with a tick; return why it stopped.

    In a tick each channel takes at most one packet at a source, and two leave buffers, by it and at its end: with a
    free packet, and two returns, for each channel it is played to its end.
    """
    now, channels, links, requesters = state.now, state.channels, state.links, state.requesters
    packets, flows, wheel, after, heap = state.packets, state.flows, state.wheel, state.after, state.heap
    route_link, route_queue, route_use = state.route_link, state.route_queue, state.route_use
    n_lanes, n_queues, n_channels, n_links = rules.n_lanes, rules.n_queues, len(channels), len(links)
    full_blocks = _blocks(rules.packet_bytes)
    for _ in range(max_instants):
        if now[0].period > 0:
            fast_forward.repeat(state, until)
        tick = next_tick(state)
        if now[0].in_wheel + now[0].far == 0 and now[0].held > 0:
            return STUCK
        if tick + now[0].repeated > until:
            return IDLE
        if now[0].n_free < n_channels or now[0].n_spare < 2 * n_channels:
            return ROOM
        now[0].tick = tick
        now[0].instants += 1
        n_done = now[0].n_done
        now[0].n_arbitrating = 0

        place = tick & (len(wheel) - 1)
        last = wheel[place]
        wheel[place] = -1
        event: Any = np.int64(-1) if last < 0 else np.int64(after[last])
        upcoming: Any = np.int64(-1)
        more_here = last >= 0
        while True:
            if more_here:
                upcoming = after[event]
                more_here = event != last
                now[0].in_wheel -= 1
            elif now[0].n_heap > 0 and heap[0].due <= tick + now[0].repeated:
                event = _pop(now, heap)
                if event < FLOWS:
                    now[0].far -= 1
            else:
                break

            resumed: Any = np.int64(-1)  # a flow that may send
            requests: Any = np.int64(-1)  # a queue whose first packet is now to be sent
            if event < n_channels:  # the tail of a packet has left
                channel = event
                who = channels[channel].requester
                if who < n_queues:
                    _leave_buffer(rules, state, channels[channel].freed, packets[channels[channel].packet].size)
                channels[channel].packet = -1
                _arbitrate(state, channel)
                if who < n_queues:
                    if requesters[who].head >= 0:
                        requests = who
                    else:
                        requesters[who].next = -1
                else:
                    requesters[who].next = -1
                    resumed = who - n_queues
                    if flows[resumed].left == 0:
                        resumed = _next_turn(state, resumed)
            elif event < n_channels + n_links:  # a credit is back
                link = event - n_channels
                links[link].waking = 0
                _arbitrate(state, links[link].channel)
            elif event >= FLOWS:  # a flow is ready to send
                requesters[n_queues + event - FLOWS].next = -1
                resumed = _turn_of(state, event - FLOWS)
            else:  # a packet is ready behind the channel that it crossed
                packet = event - n_channels - n_links
                here = packets[packet].link
                node = channels[links[here].channel].node
                at = packets[packet].at
                flow = packets[packet].flow
                chooses = rules.adaptive and node >= 0 and flows[flow].exit >= 0
                aims = chooses and node != flows[flow].home
                if packets[packet].out == ACK or (not aims and route_link[at + 1] < 0):
                    resumed = _arrive(rules, state, packet, tick)
                else:
                    if aims:
                        out = np.int64(_aim(rules, state, packet, node)) if rules.voq else np.int64(-1)
                    else:
                        at = flows[flow].exit if chooses else at + 1
                        packets[packet].at = at
                        out = np.int64(route_link[at])
                        if rules.adaptive:
                            state.load[out] += 1
                    # Where it may choose, it may have come another way than that of its route.
                    queue = np.int64(state.queue_of[here] if chooses else route_queue[at])
                    if chooses and rules.voq:
                        queue += state.port_number[links[out].channel]
                    packets[packet].out = out
                    if out >= 0:
                        links[out].queued += 1
                    packets[packet].next = -1
                    if requesters[queue].head >= 0:
                        packets[requesters[queue].tail].next = packet
                    else:
                        requesters[queue].head = packet
                    requesters[queue].tail = packet
                    if requesters[queue].next < 0:
                        requests = queue
            if requests >= 0:
                packet = requesters[requests].head
                if packets[packet].out < 0:
                    node = channels[links[packets[packet].link].channel].node
                    packets[packet].out = _aim(rules, state, packet, node)
                    links[packets[packet].out].queued += 1
                packets[packet].requested = tick
                _request(state, requests, packets[packet].out)
            while resumed >= 0 and route_link[flows[resumed].first] < 0:  # it crosses nothing
                _end(rules, state, resumed, tick)
                resumed = _next_turn(state, resumed)
            if resumed >= 0 and requesters[n_queues + resumed].next < 0 and _allowed(rules, state, resumed):
                flows[resumed].requested = tick
                if rules.repeats and state.flow_steps[resumed].slot < 0:
                    fast_forward.enter(state, resumed)
                _request(state, n_queues + resumed, route_link[_first(rules, state, resumed)])
            event = upcoming

        for number in range(now[0].n_arbitrating):
            channel = state.arbitrating[number]
            channels[channel].arbitrating = 0
            link = np.int64(channel)
            urgent = False
            entry: Any = np.int64(0)
            left: Any = np.int64(0)
            if n_lanes == 1 or channel >= rules.n_limited:
                link = channel * n_lanes
                if not _ready(rules, state, link):
                    continue
            else:
                first = channel * n_lanes
                link = np.int64(-1)
                may = rules.limit_bytes < 0 or channels[channel].limit_left > 0
                for attempt in range(3):  # high priority, low, and high beyond its limit where nothing else goes
                    urgent = attempt != 1
                    if urgent and (len(state.high) == 0 or may != (attempt == 0)):
                        continue
                    table = state.high if urgent else state.low
                    entry = channels[channel].high if urgent else channels[channel].low
                    left = channels[channel].high_left if urgent else channels[channel].low_left
                    link, entry, left = _turn(rules, state, first, table, entry, left)
                    if link >= 0:
                        break
                if link < 0:
                    continue
                if urgent:
                    channels[channel].high = entry
                    channels[channel].high_left = left
                else:
                    channels[channel].low = entry
                    channels[channel].low_left = left
                    channels[channel].limit_left = rules.limit_bytes

            last = links[link].last
            who = requesters[last].next
            if who == last:
                links[link].last = -1
            else:
                requesters[last].next = requesters[who].next
            links[link].requesting -= 1
            if links[link].blocked:
                links[link].blocked = 0
                links[link].stalled += tick - links[link].since
            if who < n_queues:
                links[link].queued -= 1
                packet = requesters[who].head
                requesters[who].head = packets[packet].next
                waited = tick - packets[packet].requested
                full = np.int64(links[link].queued) * channels[channel].full
                on_dequeue(rules.control, now, packets, packet, links[link].requesting, full)
            else:
                packet = _begin_packet(rules, state, who - n_queues, tick, channel)
                waited = tick - flows[who - n_queues].requested
                if rules.adaptive:
                    state.load[link] += 1
            links[link].waited += waited
            size = packets[packet].size
            if channel < rules.n_limited:
                links[link].credits -= _blocks(size)
                if rules.resume > 1 and links[link].credits < full_blocks:
                    _collect(state, link)
                    if links[link].credits < full_blocks:
                        links[link].paused = 1
                        links[link].pauses += 1
            ticks = np.int64(channels[channel].full)
            if size < rules.packet_bytes:
                ticks = max(np.int64(1), np.int64(np.ceil(ticks * (size / rules.packet_bytes))))
            at = packets[packet].at
            if len(route_use) > 0:
                ticks = max(np.int64(1), np.int64(np.rint(ticks * route_use[at])))
            if n_lanes > 1 and channel < rules.n_limited:
                if urgent:
                    channels[channel].high_left -= size
                    channels[channel].limit_left -= size
                else:
                    channels[channel].low_left -= size
            channels[channel].packet = packet
            channels[channel].requester = who
            channels[channel].freed = packets[packet].link
            packets[packet].link = link
            links[link].sent += size
            now[0].hops += 1
            flow = packets[packet].flow
            if waited > flows[flow].waited and flows[flow].left == 0:
                flows[flow].waited = waited
                flows[flow].limit = channel
            _put(state, channel, tick + ticks)
            ready = tick + channels[channel].latency
            onward = route_link[at + 1]
            if onward < 0:
                ready += ticks
            elif rules.mixed:
                # What leaves faster than it comes in must not begin before its tail can follow.
                full = channels[links[onward].channel].full
                ready += max(np.int64(0), ticks - ticks * full // channels[channel].full)
            _put(state, n_channels + n_links + packet, ready)
        if stop_at_end and now[0].n_done > n_done:
            return ENDED
        if now[0].n_active > 0 and flows[state.active[0]].due <= now[0].look_at:
            fast_forward.look(rules, state, until)
    return MORE
