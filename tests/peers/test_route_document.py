"""docs/route.md: its commands run as they stand there, on a simulated fabric that has lost a few cables."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from helpers.clusters import CATALOG, gpus, storage
from plan.opensm_lab.ibsim import SimulatedSubnet, simulated
from routing.studies.failures import fail_links
from topo.fabric import Fabric
from topo.shapes.fat_tree import FatTree

pytestmark = pytest.mark.peer("ibsim", "opensm", "ibdmchk", "ibnetdiscover", "usr/lib/*/umad2sim/libumad2sim.so")

TEXT = (Path(__file__).parents[2] / "docs" / "route.md").read_text(encoding="utf-8")
SECTIONS = [section.partition("\n") for section in re.split(r"^## (?:\d\. )?", TEXT, flags=re.MULTILINE)]
STEPS = [(title, block) for title, _, body in SECTIONS for block in re.findall(r"^```sh\n(.*?)^```", body, re.M | re.S)]

ON_THE_FABRIC = "".join(
    f'{tool}() {{ LD_PRELOAD="$UMAD2SIM" command {tool} "$@"; }}\n' for tool in ("ibnetdiscover", "dump_fts")
)
"""Only what speaks to the fabric is to be led to the simulator."""


@pytest.fixture
def fabric() -> Fabric:
    shape = FatTree(switch="QM8700", leaves=6)
    whole = shape.compile([gpus(90), storage(10)], CATALOG, "doc")[0]
    return fail_links(whole, 4, np.random.default_rng(1))[0]


def follow(commands: str, folder: Path, subnet: SimulatedSubnet) -> str:
    """Run a block of the document and return what it prints; it must not fail."""
    environment = {
        **subnet.environment,
        "UMAD2SIM": subnet.environment["LD_PRELOAD"],
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), subnet.environment["PATH"])),
    }
    del environment["LD_PRELOAD"]
    script = f"set -euo pipefail\n{ON_THE_FABRIC}{commands}"
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{commands}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_every_command_runs_and_says_what_the_text_says(fabric, tmp_path) -> None:
    assert [title for title, _ in STEPS] == [
        "Record the present state",
        "Judge the present tables",
        "Assign roles to hosts",
        "Route",
        "Compare with OpenSM's engines, and simulate link failures",
        "Verify what was written",
        "Rehearse",
        "Verify what is loaded",
    ]
    said = {}
    with simulated(fabric, tmp_path / "subnet") as subnet:
        subnet.opensm("minhop")
        for title, commands in STEPS:
            if title == "Verify what is loaded":  # by now somebody has installed it
                files = {path.name: path.read_bytes() for path in (tmp_path / "out" / "opensm").iterdir()}
                del files["opensm.conf"]  # it names the folders of a real host
                subnet.opensm("file", files)
            said[title] = follow(commands, tmp_path, subnet)
    assert "holds" in said["Judge the present tables"]
    assert "90 compute, 10 storage" in said["Route"]
    assert "nue" in said["Compare with OpenSM's engines, and simulate link failures"]
    assert "with 10 links failed" in said["Compare with OpenSM's engines, and simulate link failures"]
    assert "as planned, 0 of" in said["Rehearse"]
    assert "0 entries not as in out/opensm/lfts" in said["Verify what is loaded"]
