"""Repaired tables in a real OpenSM: it loads them as they are, and ibdmchk finds all pairs and no credit loop."""

import numpy as np
import pytest

from helpers.twins import twin
from plan.opensm_lab.trials import rehearse
from routing.engines.base import route
from routing.proof import prove
from routing.repairs.basis import prepare_repair
from routing.repairs.repair import repair
from routing.tables import select_endpoints
from topo.cluster import preset

pytestmark = pytest.mark.peer("ibsim", "opensm", "ibnetdiscover", "ibdmchk", "usr/lib/*/umad2sim/libumad2sim.so")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "times"),
    [("fdr10-mesh", 4), pytest.param("zone", 20, marks=pytest.mark.nightly),
     pytest.param("fire-flyer-2", 20, marks=pytest.mark.nightly)],
)  # fmt: skip
def test_opensm_loads_what_was_repaired(name: str, times: int) -> None:
    fabric = preset(name).fabric if name == "fire-flyer-2" else twin(name)
    basis, rng = prepare_repair(route(fabric, "balanced")), np.random.default_rng(5)
    assert len(select_endpoints(fabric, basis.routed.tables)) > 1
    links = fabric.inner_links[:, 0]
    for turn in range(times):
        done = repair(basis, rng.choice(links, 1 + turn % 4, replace=False))
        rehearsal = rehearse(done.after, prove(done.after))
        assert rehearsal.holds, (turn, rehearsal)
