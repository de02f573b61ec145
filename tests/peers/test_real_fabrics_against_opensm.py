"""On real machines: what OpenSM's minhop routed, we read, write again, and OpenSM loads it as it was."""

from pathlib import Path

import numpy as np
import pytest

from helpers.twins import MACHINES, twin
from plan.opensm_lab.ibsim import as_simulated, simulated
from routing.opensm.lfts import format_lfts
from routing.proof import Proof, prove
from routing.routed import Routed
from topo.dumps.fabric_file import read_fabric
from topo.fabric import Fabric

pytestmark = pytest.mark.peer("ibsim", "opensm", "ibnetdiscover", "ibdmchk", "usr/lib/*/umad2sim/libumad2sim.so")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("fdr10-mesh", id="ring and mesh, mixed speeds"),
        pytest.param("ndr-pod", id="rails, aggregation nodes, missing cables"),
        pytest.param("qdr-directors", id="misplugged directors"),
        pytest.param("frame", id="a bare frame with loop-back plugs"),
    ],
)
def test_tables_of_real_fabrics_go_both_ways(name, tmp_path) -> None:
    proof = there_and_back(twin(name), tmp_path)
    assert proof.missing == 0
    assert (proof.credit_loops > 0) == (name == "qdr-directors")


def test_loops_of_a_real_machine_are_those_measured_independently(originals, tmp_path) -> None:
    """On the original: what OpenSM's minhop makes depends on the order of GUIDs."""
    fabric = read_fabric(originals / MACHINES["qdr-directors"].dump)
    assert there_and_back(fabric, tmp_path).credit_loops == 5452


def there_and_back(fabric: Fabric, folder: Path) -> Proof:
    with simulated(fabric, folder) as subnet:
        run = subnet.opensm("minhop")
        back = subnet.opensm("file", {"lfts": format_lfts(as_simulated(fabric), run.tables)})
    assert run.notes == back.notes == ()
    assert back.errors == ()
    plugged = fabric.end_switch >= 0
    assert (run.tables.lid[plugged] > 0).all()
    ours, theirs = (tables.lft[:, tables.lid[plugged]] for tables in (run.tables, back.tables))
    assert np.array_equal(ours, theirs)
    return prove(Routed(fabric, run.tables))
