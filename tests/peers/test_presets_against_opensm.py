"""The real subnet manager loads the tables of every spec that ships, each subnet into its own, entry for entry."""

import pytest

from helpers.presets import PRESETS, routed, subnets
from helpers.strategies import nightly
from plan.opensm_lab.ibsim import simulated
from routing.opensm.files import opensm_files
from routing.routed import Routed

pytestmark = pytest.mark.peer("ibsim", "opensm", "usr/lib/*/umad2sim/libumad2sim.so")


LARGEST = ("dgx-baseline", "fire-flyer-2", "fire-flyer-2-frames", "four-planes-32k", "pcie-three-level", "torus")
"""By night; by day Fire-Flyer 2 is loaded in test_fire_flyer_against_opensm."""


@pytest.mark.parametrize("name", [nightly(name) if name in LARGEST else name for name in PRESETS])
def test_opensm_loads_every_preset(name, tmp_path):
    for fabric in subnets(name):
        tables = routed(fabric).tables
        with simulated(fabric, tmp_path / fabric.name) as subnet:
            run = subnet.opensm("file", opensm_files(Routed(fabric, tables)))

        assert (run.tables.lid == tables.lid).all(), "guid2lid is honoured"
        assert (run.tables.lft == tables.lft).all()
        assert run.errors == ()
