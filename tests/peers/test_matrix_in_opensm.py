"""Clusters of the matrix in a real OpenSM: each subnet is loaded and forwards as planned. Two by day, all at night."""

from random import Random

import pytest

import topo
from helpers.matrix import CLUSTERS, spec
from helpers.strategies import nightly
from plan.opensm_lab.trials import rehearse
from routing.engines.base import route
from routing.proof import prove

pytestmark = [
    pytest.mark.peer("ibsim", "opensm", "ibdmchk", "ibnetdiscover", "usr/lib/*/umad2sim/libumad2sim.so"),
    pytest.mark.slow,
]
TURNS = Random(0).sample(range(len(CLUSTERS)), len(CLUSTERS))


@pytest.mark.parametrize("turn", [*TURNS[:2], *map(nightly, TURNS[2:])])
def test_opensm_loads_each_subnet(turn: int) -> None:
    cluster = topo.parse(spec(*CLUSTERS[turn], False, turn))
    for fabric in cluster.subnets[:2]:
        routed = route(fabric)
        assert rehearse(routed, prove(routed)).holds
