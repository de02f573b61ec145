"""On real machines: what OpenSM's minhop routed, we read, write again, and OpenSM loads it as it was."""

import numpy as np
import pytest

from helpers.twins import twin
from plan.opensm_lab.ibsim import as_simulated, simulated
from routing.opensm.lfts import format_lfts
from routing.proof import prove
from routing.routed import Routed

pytestmark = pytest.mark.peer("ibsim", "opensm", "ibnetdiscover", "ibdmchk", "usr/lib/*/umad2sim/libumad2sim.so")


@pytest.mark.parametrize(
    ("name", "loops"),
    [
        pytest.param("fdr10-mesh", 0, id="ring and mesh, mixed speeds"),
        pytest.param("ndr-pod", 0, id="rails, aggregation nodes, missing cables"),
        pytest.param("qdr-directors", 5452, id="misplugged directors"),
        pytest.param("frame", 0, id="a bare frame with loop-back plugs"),
    ],
)
def test_tables_of_real_fabrics_go_both_ways(name, loops, tmp_path) -> None:
    fabric = twin(name)
    with simulated(fabric, tmp_path) as subnet:
        run = subnet.opensm("minhop")
        back = subnet.opensm("file", {"lfts": format_lfts(as_simulated(fabric), run.tables)})
    assert run.notes == back.notes == ()
    assert back.errors == ()
    plugged = fabric.end_switch >= 0
    assert (run.tables.lid[plugged] > 0).all()
    ours, theirs = (tables.lft[:, tables.lid[plugged]] for tables in (run.tables, back.tables))
    assert np.array_equal(ours, theirs)
    proof = prove(Routed(fabric, run.tables))
    assert (proof.missing, proof.credit_loops) == (0, loops), "loops of Janus as measured independently"
