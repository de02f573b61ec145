"""ibsim plays a fabric with known faults, OpenSM routes it, and what the real ibnetdiscover finds has these faults."""

import subprocess
from collections import Counter
from pathlib import Path

import pytest

import plan
import topo

pytestmark = pytest.mark.peer("ibsim", "ibnetdiscover", "opensm", "usr/lib/*/umad2sim/libumad2sim.so")


@pytest.mark.parametrize("seed", range(3))
def test_the_tools_find_what_was_broken(seed: int, tmp_path: Path, repository: Path) -> None:
    made = plan.mock(topo.preset("lab-20").fabric, tmp_path / "mock", faults=6, seed=seed)
    command = [repository / "scripts/live-fabric", tmp_path / "mock/fabric.ibnetdiscover"]
    done = subprocess.run([str(word) for word in command], capture_output=True, timeout=120, check=True)
    (tmp_path / "found").write_bytes(done.stdout)
    found = topo.read_fabric(tmp_path / "found")
    told = topo.find_differences(made.planned, found)
    assert Counter((one.kind, frozenset(one.ports)) for one in told.found) == Counter(
        (one.kind, frozenset(one.ports)) for one in made.faults if one.kind != "errors"
    )
    assert found.discovered_lid.all()  # by OpenSM
