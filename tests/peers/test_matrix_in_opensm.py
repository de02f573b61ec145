"""Clusters of the matrix in a real OpenSM: each subnet is loaded and forwards as planned. Another sample each day."""

from datetime import UTC, datetime
from random import Random

import pytest

import topo
from helpers.matrix import CLUSTERS, spec
from plan.opensm_lab.rehearsal import rehearse
from routing.engines.base import route
from routing.proof import prove

pytestmark = [
    pytest.mark.peer("ibsim", "opensm", "ibdmchk", "ibnetdiscover", "usr/lib/*/umad2sim/libumad2sim.so"),
    pytest.mark.slow,
]
TODAY = Random(datetime.now(UTC).toordinal()).sample(range(len(CLUSTERS)), 2)


@pytest.mark.parametrize("turn", TODAY)
def test_opensm_loads_each_subnet(turn: int) -> None:
    cluster = topo.parse(spec(*CLUSTERS[turn], False, turn))
    for fabric in cluster.subnets[:2]:
        routed = route(fabric)
        assert rehearse(routed, prove(routed)).holds
