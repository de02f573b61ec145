"""Counters of ports as a simulation with packets leaves them, on random fabrics with a known fault.

The engine of packets knows credits and buffers, and nothing of how waiting is explained.
"""

from dataclasses import dataclass, replace

import numpy as np

import routing
import simulate
from helpers.random_fabrics import draw
from topo.graphs import rows_of

SIZE, EACH = 32 << 10, 24
"""Bytes of a message, and messages that an adapter sends."""


@dataclass(frozen=True)
class Counted:
    """A fabric, what its ports counted, and who is to blame."""

    routed: routing.Routed
    counters: simulate.diagnosis.Counters
    cause: frozenset[int]
    """Channels; empty when all are sound."""


def count(seed: int, fault: str = "", part: float = 0.25) -> Counted | None:
    """Play random messages on a random fabric; None where it has no place for the fault.

    ``link``: a cable between switches, one of the busier ones, runs at `part` of its rate both ways; ``collision``: for
    the whole time three or four pairs with ends of their own send over one channel.
    """
    rng = np.random.default_rng(seed)
    routed = routing.route(draw(seed), "balanced")
    fabric, network = routed.fabric, simulate.Network.of(routed, lane_weights=1, latency_s=0)
    rate, ends = network.capacity_bytes_s.copy(), routed.fabric.ends()
    src, dst = np.repeat(ends, EACH), rng.choice(ends, EACH * len(ends))
    src, dst = src[src != dst], dst[src != dst]
    routes = network.routes(src, dst, np.zeros(len(src), np.int8))
    hops, places = rows_of(routes.offset, routes.route)
    crossed, pair = routes.resource[places], np.repeat(np.arange(len(src)), hops)
    load_s = np.bincount(crossed, minlength=fabric.n_ports) * SIZE / rate[: fabric.n_ports]
    time_s = load_s.max() / (0.3 if fault == "collision" else 0.6)
    start_s, cause = rng.uniform(0, time_s, len(src)), frozenset[int]()
    if fault == "link":
        load = np.maximum(load_s, load_s[fabric.peer]) / time_s
        places = np.flatnonzero(fabric.is_inner & (load >= 1.3 * part))
        if not len(places):
            return None
        link = int(rng.choice(places))
        cause = frozenset({link, int(fabric.peer[link])})
        rate[list(cause)] *= part
        network = replace(network, capacity_bytes_s=rate)
    elif fault == "collision":
        for channel in rng.permutation(np.unique(crossed[fabric.is_inner[crossed]]))[:50].tolist():
            meeting, used = [], set[tuple[str, int]]()
            for one in rng.permutation(np.unique(pair[crossed == channel])).tolist():
                own = {("from", int(src[one])), ("to", int(dst[one]))}
                if not own & used and len(meeting) < 4:
                    meeting.append(one)
                    used |= own
            if len(meeting) >= 3:
                break
        else:
            return None
        more = np.repeat(meeting, int(1.2 * time_s * rate[channel] / len(meeting) / SIZE))
        src, dst = np.concatenate([src, src[more]]), np.concatenate([dst, dst[more]])
        start_s, cause = np.concatenate([start_s, np.zeros(len(more))]), frozenset({channel})
    flows = simulate.Flows.of(src, dst, float(SIZE), start_s=start_s)
    met = simulate.Packets(network).play(flows).congestion
    assert met is not None
    sent, stalled = (part.sum(axis=0)[: fabric.n_ports] for part in (met.sent_bytes, met.stalled_s))
    sound = simulate.Network.of(routed, lane_weights=1, latency_s=0).capacity_bytes_s[: fabric.n_ports]
    return Counted(routed, simulate.diagnosis.Counters(sent.astype(float), stalled * sound), cause)
