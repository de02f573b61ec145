"""The tree of the ends of classes, beside a plain look at all of them, with as many slots as large networks have."""

import numpy as np
import pytest

from simulate.engines.compile import kernel
from simulate.engines.fluid import event_queue, events
from simulate.engines.fluid.state import BLOCK, Room, allocate

set_end, ends_until, schedule_begin, next_begin, take_begin = (
    kernel(getattr(event_queue, name).py_func)
    for name in ("set_end", "ends_until", "schedule_begin", "next_begin", "take_begin")
)


@pytest.mark.parametrize("routes", [1, BLOCK**2 + 1, 2 * BLOCK**3 + 5])
@pytest.mark.slow
def test_the_first_ends_are_those_of_a_plain_look(routes: int) -> None:
    rng = np.random.default_rng(routes)
    room = Room(flows=routes, routes=routes, links=1, hops=1, next_flow=0, connections=0)
    state = allocate(np.ones(1), np.ones(1), room, n_channels=1, aggregate_from=0, n_bins=0)
    plain = np.full(len(state.ends), np.inf)
    for _ in range(60):
        for slot in rng.integers(0, routes, 20):
            plain[slot] = rng.choice([np.inf, float(rng.integers(50)), plain[slot]])
            set_end(state, slot, plain[slot])
        assert events.next_time(state) == plain.min()
        until = float(rng.integers(50))
        n = ends_until(state, until)
        np.testing.assert_array_equal(state.freed[:n], np.flatnonzero(plain <= until))


@pytest.mark.parametrize("seed", range(10))
def test_flows_begin_in_the_order_of_their_times(seed: int) -> None:
    """Whatever the order in which they are scheduled: most in turn, some before others that wait already."""
    rng, flows = np.random.default_rng(seed), 60
    room = Room(flows=flows, routes=1, links=1, hops=1, next_flow=0, connections=0)
    state = allocate(np.ones(1), np.ones(1), room, n_channels=1, aggregate_from=0, n_bins=0)
    waiting: dict[int, float] = {}
    begun, now = 0, 0.0
    left = rng.permutation(flows).tolist()
    while begun < flows:
        for _ in range(rng.integers(0, 12)):
            if left:
                flow, due = left.pop(), now + float(rng.integers(20))
                schedule_begin(state, flow, due)
                waiting[flow] = due
        assert next_begin(state) == min(waiting.values(), default=np.inf)
        now += float(rng.integers(6))
        while (flow := take_begin(state, now)) >= 0:
            assert waiting[flow] == min(waiting.values()) <= now
            del waiting[flow]
            begun += 1
        assert min(waiting.values(), default=np.inf) > now
