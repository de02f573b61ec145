"""Cables of two switches of four chips, whose planes come up as they please."""

import numpy as np
import pytest

from topo.dumps.discovery import CableEnd, FoundNode, Records
from topo.dumps.planes import assemble

CHIPS, CABLES = 4, 6


@pytest.mark.parametrize("seed", range(20))
def test_a_cable_is_as_wide_as_its_planes_together_and_as_fast_as_the_slowest(seed: int) -> None:
    rng, records = np.random.default_rng(seed), Records("dump")
    for box in range(2):
        for chip in range(CHIPS):
            key = ("S", 100 * (box + 1) + chip)
            records.node(FoundNode(key, CABLES, f"switch{box}/U{chip + 1}", 1, system=box + 1))
            for port in range(1, CABLES + 1):
                records.labels[key, port] = f"sw{port}p1", chip + 1
    width, speed = rng.integers(1, 3, (CABLES, CHIPS)), rng.integers(0, 9, (CABLES, CHIPS))
    up = rng.random((CABLES, CHIPS)) < 0.7
    for port, chip in np.argwhere(up).tolist():
        records.cable(
            CableEnd(1, ("S", 100 + chip), port + 1, ("S", 200 + chip), port + 1,
                     width=int(width[port, chip]), speed=int(speed[port, chip]))
        )  # fmt: skip
    found_planes = assemble(records).merged
    assert found_planes is not None
    merged = found_planes.fabric
    assert merged.n_switches == 2
    found = {}
    for a, b in merged.links.tolist():
        assert merged.port_number[a] == merged.port_number[b]
        found[int(merged.port_number[a])] = int(merged.width[a]), int(merged.speed[a])
    assert found == {
        2 * port + 1: (int(width[port][up[port]].sum()), int(speed[port][up[port]].min()))
        for port in range(CABLES)
        if up[port].any()
    }
