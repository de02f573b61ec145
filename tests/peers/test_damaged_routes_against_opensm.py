"""Damaged and joined clusters, routed by us: OpenSM loads the tables entry for entry, and ibdmchk finds nothing."""

from collections.abc import Callable

import numpy as np
import pytest

import routing
from helpers.clusters import zoned
from helpers.presets import subnets
from helpers.strategies import nightly
from helpers.trees import damage, grow_tree, worst_shift
from plan.opensm_lab.ibsim import as_simulated, run_ibdmchk, simulated
from routing.opensm.files import opensm_files
from routing.proof import prove
from routing.routed import Routed
from topo.fabric import Fabric, Role

pytestmark = pytest.mark.peer("ibsim", "opensm", "ibdmchk", "usr/lib/*/umad2sim/libumad2sim.so")


def three_zones(placement: str) -> Fabric:
    return zoned(placement, zones=3, leaves=36, spines=18, switch="SB7800", n_storage=54, joints=3, ports=36)


def two_zones() -> Fabric:
    return zoned("spread", leaves=8, spines=4, n_gpus=120, n_storage=20, ports=4)


def cut(fabric: Fabric, dead: Role) -> Fabric:
    return damage(fabric, np.random.default_rng(1), 0.03, dead)


CASES: dict[str, Callable[[], Fabric]] = {
    "two zones without a spine": lambda: cut(two_zones(), Role.SPINE),
    "Fire-Flyer 2 without a spine": lambda: cut(subnets("fire-flyer-2")[0], Role.SPINE),
    "three zones": lambda: three_zones("spread"),
    "three zones without a spine": lambda: cut(three_zones("spread"), Role.SPINE),
    "three levels without a core": lambda: cut(subnets("dgx-a100-superpod")[0], Role.CORE),
    "slow subtrees": lambda: subnets("slow-subtrees")[0],
    "BiGraph": lambda: subnets("eflops-bigraph")[0],
}


BY_NIGHT = ("Fire-Flyer 2 without a spine", "three zones", "three zones without a spine", "three levels without a core")


@pytest.mark.parametrize("name", [nightly(name) if name in BY_NIGHT else name for name in CASES])
def test_opensm_loads_what_we_made_of_it_and_ibdmchk_finds_nothing(name: str, tmp_path) -> None:
    fabric = CASES[name]()
    tables = routing.route(fabric).tables
    with simulated(fabric, tmp_path) as subnet:
        run = subnet.opensm("file", opensm_files(Routed(as_simulated(fabric), tables)))
        verdict = run_ibdmchk(run)
    assert run.errors == ()
    ports = np.flatnonzero((fabric.port_node < fabric.n_switches) & (fabric.peer >= 0))
    alive = np.unique(fabric.port_node[ports])  # a switch without a cable is not there for OpenSM
    there = (tables.lid > 0) & np.isin(fabric.end_switch, alive)
    assert np.array_equal(run.tables.lid[there], tables.lid[there])
    lids = tables.lid[there]
    assert np.array_equal(run.tables.lft[alive][:, lids], tables.lft[alive][:, lids])
    proof = prove(Routed(fabric, tables), "adapters")
    assert (verdict.pairs, verdict.missing, verdict.loops) == (proof.pairs, 0, False)
    assert verdict.hops == {length: count for length, count in enumerate(proof.hops.tolist()) if count}


def test_shifts_of_a_whole_tree_are_as_free_of_contention_as_with_ftree(tmp_path) -> None:
    """Each in the order of its own: that of the tree here, there the one that OpenSM writes down."""
    fabric = grow_tree((4, 4, 8), (1, 4, 4), (1, 1, 1))
    ours = routing.route(fabric).tables
    with simulated(fabric, tmp_path) as subnet:
        run = subnet.opensm("ftree")
        order = (run.folder / "opensm-ftree-ca-order.dump").read_text()
    of_lid = {lid: end for end, lid in enumerate(run.tables.lid.tolist())}
    in_its_order = [of_lid[int(line.split()[0], 16)] for line in order.splitlines() if not line.startswith("0x0000")]
    assert worst_shift(fabric, ours) == worst_shift(fabric, run.tables, in_its_order) == 1
    loads = [np.sort(prove(Routed(fabric, tables)).load) for tables in (ours, run.tables)]
    assert np.array_equal(*loads), "and each link carries as many pairs as some link there"
