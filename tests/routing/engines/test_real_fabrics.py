"""Real machines: complete, free of loops on one lane, and better balanced than what any engine of OpenSM makes
of them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import routing
from helpers.strategies import nightly
from helpers.twins import MACHINES, twin
from routing.proof import check_certificate, prove
from routing.quality.figures import bisections, congestion, measure
from routing.routed import Routed
from routing.tables import select_endpoints, tree_order
from topo.dumps.fabric_file import read_fabric
from topo.errors import HeddleError
from topo.fabric import Fabric, Role

# Effective bisection bandwidth and most loaded link of the best complete engine in each respect, whether its tables
# have credit loops on one lane or not: OpenSM 3.3.23 over ibsim, HCAs as endpoints (routing-compared.md).
BARS = {
    "hdr-pod": (0.754, 2_873),
    "a100-superpod": (0.625, 1_960),
    "two-frames": (0.724, 2_515),
    "edr-frames": (0.481, 3_948),
    "qdr-directors": (0.639, 3_276),
    "ndr-pod": (0.786, 945),
    "fdr10-mesh": (0.552, 472),
}
BY_DAY = ("edr-frames", "ndr-pod", "fdr10-mesh")

EQUAL = 0.995
"""Share of a bisection that counts as equal: 200 random halves tell no finer."""


@pytest.mark.slow
@pytest.mark.parametrize("name", [name if name in BY_DAY else nightly(name) for name in BARS])
def test_a_real_machine_is_routed_better_than_by_opensm_and_on_one_lane(name: str) -> None:
    ebb, load = BARS[name]
    fabric = twin(name)
    tables = routing.route(fabric).tables
    proof = prove(Routed(fabric, tables))
    assert proof.missing == 0
    assert proof.stretch <= 2
    assert check_certificate(Routed(fabric, tables), proof)
    for endpoints in ("hca", "adapters", "all"):
        judged = prove(Routed(fabric, tables), endpoints)
        assert (judged.missing, judged.credit_loops) == (judged.disconnected, 0)
    between = fabric.peer_node[: fabric.first_adapter_port] < fabric.n_switches
    assert proof.load[: fabric.first_adapter_port][between].max() <= load
    ranks = tree_order(fabric, select_endpoints(fabric, tables))
    pairs = bisections(len(ranks), 200, np.random.default_rng(0))
    _, bandwidth, lost = congestion(Routed(fabric, tables), ranks, pairs)
    assert lost.sum() == 0 and bandwidth.mean() >= EQUAL * ebb


def assert_complete_and_free_of_loops(fabric: Fabric) -> None:
    tables = routing.route(fabric).tables
    for endpoints in ("hca", "adapters", "all"):
        proof = prove(Routed(fabric, tables), endpoints)
        assert (proof.missing, proof.credit_loops) == (proof.disconnected, 0), fabric.name
    assert prove(Routed(fabric, tables)).stretch <= 2, fabric.name


def test_a_bare_frame_with_loop_back_plugs() -> None:
    assert_complete_and_free_of_loops(twin("frame"))


def test_a_ring_and_samples_of_manuals_as_far_as_they_can_be_read(originals: Path) -> None:
    routed = 0
    for path in sorted((originals / "tiny_and_broken").iterdir()):
        try:
            fabric = read_fabric(path)
        except HeddleError:
            continue
        assert_complete_and_free_of_loops(fabric)
        routed += 1
    assert routed >= 3


@pytest.mark.parametrize("name", ["zone", nightly("two-zones")])
def test_the_models_of_fire_flyer(name: str) -> None:
    fabric = twin(name)
    tables = routing.route(fabric).tables
    proof = prove(Routed(fabric, tables))
    assert proof.holds
    assert proof.stretch <= 2
    assert max(item.max for item in proof.classes) <= 31_000


@pytest.mark.slow
def test_two_zones_are_each_as_good_as_one_and_every_role_is_spread_by_itself(originals: Path) -> None:
    """Storage hangs on the last ports of the leaves, 9 destinations an uplink; minhop makes 1 to 26 of them.

    On the original: the bisection depends on the order of the nodes, and is 0.74 on the twin.
    """
    fabric = read_fabric(originals / MACHINES["two-zones"].dump)
    role = fabric.role.copy()
    role[[node for node, label in enumerate(fabric.names) if label.startswith("st")]] = Role.STORAGE
    fabric = replace(fabric, role=role)
    tables = routing.route(fabric).tables
    proof = prove(Routed(fabric, tables))
    assert proof.holds and proof.lanes == 1
    assert max(item.max for item in proof.classes) <= 31_000, "pairs over a joint cable, 30,420 on average"
    ends = tree_order(fabric, select_endpoints(fabric, tables))
    for zone in (0, 1):
        mine = ends[fabric.zone[fabric.end_node[ends]] == zone]
        assert len(mine) == 780
        quality = measure(Routed(fabric, tables), mine, seed=0)
        assert quality.ebb >= 0.80
        (share,) = [share for share in quality.uplinks if share.role == Role.STORAGE]
        assert share.min >= 8 and share.max <= 10
