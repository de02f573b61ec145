"""The tree of the ends of classes, beside a plain look at all of them, with as many slots as large networks have."""

import numpy as np
import pytest

from simulate.engines.compile import kernel
from simulate.engines.fluid import event_queue, events
from simulate.engines.fluid.state import BLOCK, Room, allocate

set_end, ends_until = (kernel(inlined.py_func) for inlined in (event_queue.set_end, event_queue.ends_until))


@pytest.mark.parametrize("routes", [1, BLOCK**2 + 1, 2 * BLOCK**3 + 5])
def test_the_first_ends_are_those_of_a_plain_look(routes: int) -> None:
    rng = np.random.default_rng(routes)
    room = Room(flows=routes, routes=routes, links=1, hops=1, next_flow=0, connections=0)
    state = allocate(np.ones(1), np.ones(1), room, n_channels=1, aggregate_from=0, n_bins=0, bin_s=1.0)
    plain = np.full(len(state.ends), np.inf)
    for _ in range(60):
        for slot in rng.integers(0, routes, 20):
            plain[slot] = rng.choice([np.inf, float(rng.integers(50)), plain[slot]])
            set_end(state, slot, plain[slot])
        assert events.next_time(state) == plain.min()
        until = float(rng.integers(50))
        n = ends_until(state, until)
        np.testing.assert_array_equal(state.freed[:n], np.flatnonzero(plain <= until))
