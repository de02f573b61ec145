"""What our `minhop` is worth is what the real one is worth: it is the yardstick of `balanced`."""

from pathlib import Path

import numpy as np
import pytest

import routing
from helpers.random_fabrics import draw
from plan.opensm_lab.ibsim import simulated
from routing.routed import Routed


def worth(routed: Routed) -> tuple[float, float]:
    quality = routing.measure(routed)
    return quality.shift.bandwidth, quality.permutation.bandwidth


@pytest.mark.slow
@pytest.mark.peer("ibsim", "opensm", "usr/lib/*/umad2sim/libumad2sim.so")
def test_shifts_share_links_about_as_on_the_real_one(tmp_path: Path) -> None:
    """They shared them by 9 % more or less where destinations were served in another order."""
    ratios = []
    for seed in (4, 8, 16, 17, 24):  # two trees, a BiGraph, a HyperX and a random regular graph
        fabric = draw(seed)
        with simulated(fabric, tmp_path) as subnet:
            theirs = worth(Routed(fabric, subnet.opensm("minhop").tables))
        ratios.append(np.divide(worth(routing.route(fabric, "minhop")), theirs))
    assert np.abs(np.subtract(ratios, 1)).mean() < 0.02
    assert np.mean(ratios) == pytest.approx(1, rel=0.02)
