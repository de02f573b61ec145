"""Audit of a fluid engine between two events: what its kernels rely on when they look up indices without asking.

Arrays have the sizes that the room says, indices lie within them, each flow and each slot is in one place, rooms of
resources do not overlap, heaps are trees, and what is counted twice agrees. Engines without aggregates only.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulate import Fluid
from simulate.engines.fluid.aggregates import SETTLED
from simulate.engines.fluid.state import BLOCK, FIRST_MEMBERS, WEIGHED, Room, State, allocate
from simulate.traffic.network import Network

MAX_COUNT = 2**62
"""Of what only counts: far from where adding one would overflow."""


def audit(engine: Fluid) -> None:
    """Fail where something is out of range, or contradicts something else."""
    state, network = engine._state, engine.network
    used = engine._n_routes, engine._n_links, engine._n_followers
    _check_shapes(state, engine._room, network, used)
    for name, array in state._asdict().items():
        for field in array.dtype.names or ("",):
            _check(not np.isnan(array[field] if field else array).any() or name in ("begin", "end"), name)
    now = {name: state.now[name][0].item() for name in state.now.dtype.names or ()}
    _check(now.pop("spare_share") == -1 and all(0 <= value < MAX_COUNT for value in now.values()), "now")
    _check(now["bin_s"] > 0 and now["done"] == now["turns"] == now["touched"] == 0, "now")
    none = ("aggregates", "aggregate_from", "aggregated", "shares", "gathering")
    _check(not any(now[name] for name in none), "aggregates")
    slot = _check_routes(state, network, used)
    _check_classes(state, slot, now, len(network.lane_weight))
    _check_members(state, slot, used[0], now, network)
    _check_minima(state, now)
    _check_book(engine, _check_flows(state, slot, used[0], now))


def _check_minima(state: State, now: dict[str, Any]) -> None:
    """Minima that are not stale are those of their parts."""
    stale = state.stale[: now["stale"]]
    _check(_once(stale, len(state.blocks)) and set(stale) == set(np.flatnonzero(state.is_stale)), "minima")
    fresh = ~state.is_stale
    _check((state.blocks == state.ends.reshape(-1, BLOCK).min(axis=1))[fresh].all(), "minima")


def _check_book(engine: Fluid, in_use: NDArray[np.bool_]) -> None:
    """Numbers of flows and keys of routes agree with the places in use."""
    number, unused, n = engine._number, engine._unused, len(engine._state.size)
    free, spare = unused[: engine._n_unused], engine._spare
    _check(number.shape == unused.shape == (n,) and number.dtype == unused.dtype == np.int64, "numbers")
    _check(_once(free, n) and len(free) + np.count_nonzero(in_use) == n and not in_use[free].any(), "numbers")
    _check(_within(number, 0, engine._n_begun + 1), "numbers")
    keys, routes = (np.array([*part]) for part in (engine._known().keys(), engine._known().values()))
    _check(_within(keys, 0, 17 * engine.network.n_ends**2) and _within(routes, 0, engine._n_routes), "keys")
    _check(engine._n_connections <= len(engine._state.connections) and _once(spare, engine._n_connections), "spare")
    _check(not engine._state.connections["left"][spare].any() and np.isfinite(engine._sent).all(), "spare")


def _check(holds: Any, what: str) -> None:
    assert holds, what


def _within(array: NDArray[Any], low: int, end: int) -> bool:
    return bool(((array >= low) & (array < end)).all())


def _once(array: NDArray[Any], n: int) -> bool:
    """Whether all entries are different, and from 0 to ``n - 1``."""
    return _within(array, 0, n) and len(np.unique(array)) == len(array)


def _check_shapes(state: State, room: Room, network: Network, used: tuple[int, int, int]) -> None:
    """Refuse arrays of other sizes and types than a network of this room has."""
    sizes = tuple(
        map(len, (state.size, state.routes, state.route_link, state.hops, state.next_flow, state.connections))
    )
    _check(all(0 <= n <= size for n, size in zip(room, sizes, strict=True)), "room")
    _check(all(0 <= n <= most for n, most in zip(used, (room.routes, room.links, room.next_flow), strict=True)), "room")
    n_channels, n_links = network.fabric.n_ports, len(network.capacity_bytes_s)
    slots = -(-max(min(max(room.flows, 1), room.routes), 1) // BLOCK**2) * BLOCK**2
    _check(slots << max(0, (room.hops - 1).bit_length()) == len(state.hops), "room")
    _check(state.bins.ndim == 2, "an array `bins`")
    n_bins = state.bins.shape[1]
    expected = allocate(
        network.capacity_bytes_s,
        network.lane_weight,
        room,
        n_channels=n_channels,
        aggregate_from=0,
        n_bins=n_bins,
        has_uses=network.has_uses,
    )
    for name in State._fields:
        array, wanted = getattr(state, name), getattr(expected, name)
        _check(array.shape == wanted.shape and array.dtype == wanted.dtype, f"an array `{name}`")
    _check(
        np.array_equal(state.links["laned"], expected.links["laned"]) and not state.links["unsaturated"].any(), "lanes"
    )
    _check(int(state.now["shift"][0]) == int(expected.now["shift"][0]) and n_links > 0, "now")


def _check_routes(state: State, network: Network, used: tuple[int, int, int]) -> NDArray[np.int64]:
    """Refuse routes that lead elsewhere; return the slots of the open classes."""
    n_routes, n_links, _ = used
    routes, shift = state.routes[:n_routes], int(state.now["shift"][0])
    _check(_within(routes["first"], 0, n_links + 1) and _within(routes["hops"], 0, (1 << shift) + 1), "routes")
    _check((routes["first"] + routes["hops"] <= n_links).all() and _within(routes["latency"], 0, MAX_COUNT), "routes")
    _check(_within(routes["lane"], 0, len(network.lane_weight)), "routes")
    _check(_within(routes["slot"], -1, len(state.classes)), "routes")
    _check(_within(state.route_link, 0, len(network.capacity_bytes_s)), "routes")
    _check((np.isfinite(state.route_use[:n_links]) & (state.route_use[:n_links] > 0)).all(), "routes")
    open_routes = np.flatnonzero(routes["slot"] >= 0)
    slot = routes["slot"][open_routes].astype(np.int64)
    _check(_once(slot, len(state.classes)) and (state.classes["route"][slot] == open_routes).all(), "classes")
    _check((state.classes["hops"][slot] == routes["hops"][open_routes]).all(), "classes")
    return slot


def _check_classes(state: State, slot: NDArray[np.int64], now: dict[str, Any], n_lanes: int) -> None:
    """Refuse slots that are neither open nor spare, and rates at which nothing would ever end."""
    spare = state.spare[: min(now["spare"], len(state.spare))]
    _check(_once(spare, len(state.classes)) and len(spare) == now["spare"], "slots")
    _check(len(spare) + len(slot) == len(state.classes) and not np.isin(spare, slot).any(), "slots")
    classes, rates, n_links = state.classes[slot], state.rates[slot], len(state.links)
    _check((classes["flows"] > 0).all() and (classes["solved"] == classes["flows"]).all(), "classes")
    _check((classes["hops"] > 0).all() and not state.classes["touched"].any(), "classes")
    _check(all(_within(classes[name], 0, MAX_COUNT) for name in ("served", "since", "drawn")), "classes")
    _check((classes["since"] <= now["time"]).all(), "classes")
    _check((np.isfinite(rates["rate"]) & (rates["rate"] > 0)).all() and _within(rates["limit"], -1, n_links), "rates")
    _check((state.rates["free"] == SETTLED).all(), "rates")
    ends = state.ends[slot]
    _check((np.isfinite(ends) & (ends >= 0)).all() and (np.delete(state.ends, slot) == np.inf).all(), "ends")
    _check(_within(state.capacity, 0, MAX_COUNT) and (state.links["capacity"] >= 0).all() and n_lanes > 0, "links")


def _check_members(state: State, slot: NDArray[np.int64], n_routes: int, now: dict[str, Any], network: Network) -> None:
    """Refuse resources that disagree with the classes about who crosses them, or whose rooms cannot grow."""
    links, shift, n_lanes = state.links, now["shift"], len(network.lane_weight)
    first, room, count = (links[name].astype(np.int64) for name in ("first", "room", "count"))
    _check(_within(first, 0, len(state.members)) and _within(room, FIRST_MEMBERS, len(state.members) + 1), "links")
    _check((first + room <= min(now["members"], len(state.members))).all(), "links")
    _check(((count >= 0) & (count <= room)).all(), "links")
    order = np.argsort(first)
    _check((first[order][:-1] + room[order][:-1] <= first[order][1:]).all(), "links")
    # A room that was full gave way to one twice its size, and there are never more classes than routes that cross.
    of_route = np.repeat(np.arange(n_routes), state.routes["hops"][:n_routes])
    inside = np.arange(len(of_route)) - np.repeat(
        np.cumsum(state.routes["hops"][:n_routes]) - state.routes["hops"][:n_routes], state.routes["hops"][:n_routes]
    )
    crossed = state.route_link[state.routes["first"][of_route] + inside] * np.int64(n_lanes)
    crossed += np.where(links["laned"][crossed], state.routes["lane"][of_route], 0)
    crossing = np.bincount(crossed, minlength=len(links))
    doubled = room // FIRST_MEMBERS
    _check(((doubled & (doubled - 1)) == 0).all() and (room % FIRST_MEMBERS == 0).all(), "links")
    _check(((room == FIRST_MEMBERS) | (room // 2 < crossing)).all(), "links")
    _check(int((2 * room - FIRST_MEMBERS).sum()) == now["members"], "links")
    _check(np.isin(links["stamp"], [0, WEIGHED]).all(), "links")

    hops = state.classes["hops"][slot]
    place = np.arange(hops.sum()) - np.repeat(np.cumsum(hops) - hops, hops)
    of_slot = np.repeat(slot, hops)
    hop = (of_slot << shift) + place
    row = state.hops[hop]
    route = state.classes["route"][of_slot]
    link = state.route_link[state.routes["first"][route] + place] * np.int64(n_lanes)
    link += np.where(links["laned"][link], state.routes["lane"][route], 0)
    _check((row["link"] == link).all() and (np.bincount(link, minlength=len(links)) == count).all(), "hops")
    _check(((row["place"] >= 0) & (row["place"] < count[link])).all(), "hops")
    use = state.route_use[state.routes["first"][route] + place] if len(state.route_use) else 1.0
    _check((row["use"] == use).all(), "hops")
    member = state.members[first[link] + row["place"]]
    _check((member["slot"] == of_slot).all() and (member["hop"] == hop).all(), "members")
    _check((member["weight"] == row["use"] * state.classes["flows"][of_slot]).all(), "members")
    weighed, rate = links["stamp"] == WEIGHED, state.rates["rate"][of_slot]
    load = np.bincount(link, member["weight"] * rate, minlength=len(links))
    _check(np.allclose(links["load"][weighed], load[weighed], rtol=1e-10, atol=1e-10 * load.max()), "loads")
    own = link == state.rates["limit"][of_slot]
    _check((links["limits"] | ~weighed)[link[own]].all(), "loads")
    own &= weighed[link]
    _check(np.allclose(state.levels[link[own]], rate[own], rtol=1e-11), "levels")


def _check_flows(state: State, slot: NDArray[np.int64], n_routes: int, now: dict[str, Any]) -> NDArray[np.bool_]:
    """Refuse flows in two places, or in no tree, and waits for what does not come; return which places are in use."""
    n, moves, waits = len(state.size), state.moves, state.waits
    _check(n_routes == 0 or _within(state.flow_route, 0, n_routes), "flows")
    for name in ("size", "earliest", "delay"):
        _check(_within(getattr(state, name), 0, MAX_COUNT), "flows")
    _check(_within(state.limit, -1, len(state.capacity)), "flows")
    head, tail, timers = now["queue_head"], now["queue_tail"], now["timers"]
    _check(0 <= tail - head <= n and timers <= n, "flows")
    placed = [state.queue[np.arange(head, tail) % n].astype(np.int64), state.timer[:timers].astype(np.int64)]
    _check(all(_within(part, 0, n) for part in placed), "flows")
    seen = np.zeros(n, np.int64)
    of_class = np.zeros(n, np.int64)
    _walk_heaps(moves, state.classes["first"][slot].astype(np.int64), slot, of_class, seen)
    moving = np.flatnonzero(seen)
    _check((state.classes["route"][of_class[moving]] == state.flow_route[moving]).all(), "heaps")
    held = np.bincount(of_class[moving], minlength=len(state.classes))[slot]
    _check((held == state.classes["flows"][slot]).all(), "heaps")
    _check_moving(state, seen)
    for part in placed:
        seen += np.bincount(part, minlength=n)
    _check((seen <= 1).all() and _within(moves["due"][seen > 0], 0, MAX_COUNT), "flows")
    _check(all(_within(waits[name], 0, len(state.next_flow) + 1) for name in ("first", "count")), "followers")
    _check((waits["first"] + waits["count"] <= len(state.next_flow)).all(), "followers")
    _check(waits["count"].sum() <= len(state.next_flow) and _within(state.next_flow, 0, n), "followers")
    span = np.repeat(waits["first"] - np.cumsum(waits["count"]) + waits["count"], waits["count"])
    followers = state.next_flow[span + np.arange(len(span))]
    _check((np.bincount(followers, minlength=n) == waits["waits"]).all(), "followers")
    _check(not ((waits["waits"] > 0) & (seen > 0)).any(), "followers")
    in_use: NDArray[np.bool_] = (seen > 0) | (waits["waits"] > 0)
    left = np.bincount(state.connection[in_use & (state.connection >= 0)], minlength=len(state.connections))
    _check((state.connections["left"] == left).all(), "connections")
    return in_use


def _walk_heaps(
    moves: NDArray[Any],
    front: NDArray[np.int64],
    owner: NDArray[np.int64],
    of_owner: NDArray[np.int64],
    seen: NDArray[np.int64],
) -> None:
    """Refuse heaps that are no trees; count each flow in `seen`, and write the owner of its heap in `of_owner`."""
    while len(front):
        _check(_within(front, 0, len(moves)), "heaps")
        seen += np.bincount(front, minlength=len(moves))
        _check((seen <= 1).all(), "heaps")
        of_owner[front] = owner
        below = np.concatenate([moves["left"][front], moves["right"][front]]).astype(np.int64)
        above = np.concatenate([front, front])
        _check(((below < 0) | (moves["due"][below] >= moves["due"][above])).all(), "heaps")
        front, owner = below[below >= 0], np.concatenate([owner, owner])[below >= 0]


def _check_moving(state: State, seen: NDArray[np.int64]) -> None:
    """Refuse connections on which not exactly one flow moves while others wait; count those that wait in `seen`."""
    connections, connection = state.connections, state.connection
    _check(_within(connection, -1, len(connections)) and not connections["listed"].any(), "connections")
    moving = connections["moving"].astype(np.int64)
    _check(_within(moving, -1, len(seen)) and ((moving >= 0) | (connections["first"] < 0)).all(), "connections")
    busy = np.flatnonzero(moving >= 0)
    _check((connection[moving[busy]] == busy).all() and (seen[moving[busy]] == 1).all(), "connections")
    _check(np.count_nonzero(connection[seen > 0] >= 0) == len(busy), "connections")
    queued = np.flatnonzero(connections["first"] >= 0)
    of_connection = np.full(len(seen), -1)
    _walk_heaps(state.moves, connections["first"][queued].astype(np.int64), queued, of_connection, seen)
    _check((connection[of_connection >= 0] == of_connection[of_connection >= 0]).all(), "connections")
