"""Differences of a fabric from its plan: faults of a crew are made at random, and each is found and nothing else."""

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import plan as planner
import topo
from helpers.random_fabrics import draw
from helpers.relabel import relabelled, with_guids
from helpers.twins import twin
from plan.mocking import FAULTS
from topo.changes.differences import DIFFERENCE_KINDS, SURE
from topo.fabric import Fabric

LAB = topo.preset("lab-20").fabric


def found_as(fabric: Fabric, rng: np.random.Generator, *, named: bool = True) -> Fabric:
    """A fabric as a tool finds it: its own GUIDs, in an order of its own, perhaps without a name."""
    other = with_guids(relabelled(fabric, rng, ports=False).fabric, rng)
    # Twins have been given GUIDs in the same way.
    other = replace(other, node_guid=other.node_guid + 2**40, port_guid=other.port_guid + 2**40)
    return other if named else replace(other, names=("",) * other.n_nodes)


def check(plan: Fabric, seed: int, *, named: bool) -> None:
    """Make faults, and look for exactly those."""
    rng = np.random.default_rng(seed)
    kinds = set(FAULTS) - {"replaced", "errors"}  # all GUIDs are new, and no cable says that it errs
    if not named:  # then two switches that are exchanged with all their cables are not exchanged
        kinds -= {"misplaced"}
    made = planner.mock(plan, faults=int(rng.integers(1, 9)), kinds=sorted(kinds), seed=seed, hosts=named)
    truth = [(fault.kind, frozenset(fault.ports)) for fault in made.faults]
    differences = topo.find_differences(plan, found_as(made.found, rng, named=named))
    assert Counter((one.kind, frozenset(one.ports)) for one in differences.found) == Counter(truth), seed
    assert differences.match.node.min() >= 0
    if named:
        assert {one.sure for one in differences.found if one.kind != "misplaced"} <= {"certain"}


PLANS = {"fire-flyer-2": lambda: topo.preset("fire-flyer-2").fabric, "a100-superpod": lambda: twin("a100-superpod"),
         "hdr-pod": lambda: twin("hdr-pod")}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("plan", PLANS)
def test_every_fault_is_found_and_nothing_else(plan: str, named: bool) -> None:
    for seed in range(2):
        check(PLANS[plan](), seed, named=named)


@pytest.mark.nightly
@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("plan", PLANS)
def test_five_hundred_miswirings(plan: str, named: bool) -> None:
    for seed in range(1000, 1084):
        check(PLANS[plan](), seed, named=named)


@pytest.mark.parametrize("seed", range(6))
def test_faults_of_a_lab(seed: int) -> None:
    check(LAB, seed, named=True)


def test_a_fabric_as_planned_has_none() -> None:
    rng = np.random.default_rng(5)
    for named in (True, False):
        assert topo.find_differences(LAB, found_as(LAB, rng, named=named)).found == ()


def plugged(fabric: Fabric, *pairs: tuple[int, int]) -> Fabric:
    """The fabric with cables plugged in, and what was in those ports gone."""
    ports = np.array(pairs).ravel()
    peer = fabric.without(ports[fabric.peer[ports] >= 0]).peer.copy()
    for a, b in pairs:
        peer[[a, b]] = b, a
    return replace(fabric, peer=peer)


def port(name: str) -> int:
    """A port of the lab by its label."""
    return next(number for number in range(LAB.n_ports) if LAB.port_label(number) == name)


def test_what_is_said_of_each() -> None:
    a, b, c = port("leaf0:21"), port("leaf0:22"), port("leaf1:21")
    far = [int(LAB.peer[one]) for one in (a, b, c)]
    told = topo.find_differences(LAB, plugged(LAB, (a, far[1]), (b, far[0])))
    (one,) = told.found
    assert (one.kind, one.do) == ("swapped", "exchange the plugs in spine0:1 and spine0:2")  # as good as those of leaf0
    assert one.planned == "leaf0:21 to spine0:1, leaf0:22 to spine0:2"
    assert told.marks.sum() == 4
    (one,) = topo.find_differences(LAB, plugged(LAB, (a, far[1]), (b, far[2]), (c, far[0]))).found
    assert one.kind == "rotated"
    free = int(np.flatnonzero(LAB.peer[: LAB.first_adapter_port] < 0)[0])
    (one,) = topo.find_differences(LAB, plugged(LAB, (far[0], free))).found
    assert one.do == f"move the plug from {LAB.port_label(free)} to leaf0:21"
    (one,) = topo.find_differences(LAB, LAB.without(np.array([a]))).found
    assert one.do == "check or plug the cable from leaf0:21 to spine0:1"
    (one,) = topo.find_differences(LAB, LAB.without(np.array([port("leaf0:3")]))).found
    assert (one.kind, one.found) == ("missing", "nothing")
    (one,) = topo.find_differences(LAB.without(np.array([a])), LAB).found
    assert (one.kind, one.planned, one.found) == ("extra", "nothing", "spine0:1")
    slow = LAB.width.copy()
    slow[[a, far[0]]] = 1
    (one,) = topo.find_differences(LAB, replace(LAB, width=slow)).found
    assert one.do.startswith("1xHDR instead of 4xHDR")


@pytest.mark.parametrize("seed", range(5))
def test_as_planned_is_a_cable_that_is_there_at_its_rate(seed: int) -> None:
    rng = np.random.default_rng(seed)
    width, speed = LAB.width.copy(), LAB.speed.copy()
    for link in LAB.links.tolist():
        width[link], speed[link] = rng.choice([1, 4]), LAB.speed[link] + rng.choice([-1, 0, 1])
    gone = LAB.links[rng.random(len(LAB.links)) < 0.3, 0]
    found = replace(LAB, width=width, speed=speed)
    kept = ~np.isin(LAB.links[:, 0], gone)
    fast = (found.rate_gbps >= LAB.rate_gbps)[LAB.links[:, 0]]
    told = topo.find_differences(LAB, found.without(gone))
    assert told.agreeing == np.count_nonzero(kept & fast) < np.count_nonzero(kept)
    assert told.summary.startswith(f"{told.agreeing} of 62 cables as planned; ")
    nodes = sum(one.kind in ("absent", "unplanned") for one in told.found)
    counted = re.findall(r"(\d+) nodes? (?:absent|unplanned)", told.summary)
    assert sum(map(int, counted)) == nodes and len(re.findall("absent|unplanned", told.summary)) == len(counted)


def switched_off(plan: Fabric, switch: int, folder: Path, rng: np.random.Generator, *, named: bool) -> Fabric:
    """The fabric as a dump of it without a switch: whatever hangs behind it alone is not seen either."""
    left = plan.without(np.arange(*plan.port_offset[switch : switch + 2]))
    cables, planned = (np.bincount(one.port_node[one.peer >= 0], minlength=one.n_nodes) for one in (left, plan))
    gone = np.flatnonzero((cables == 0) & (planned > 0))
    other = found_as_it_is(left, rng, named=named)
    opened = [f'-{int(other.node_guid[node]):016x}"\t\t#' for node in {switch, *gone.tolist()}]
    records = topo.format_ibnetdiscover(other).split("\n\n")
    (folder / "dump").write_text(
        "\n\n".join(one for one in records if not any(words in one for words in opened)) + "\n"
    )
    return topo.read_fabric(folder / "dump")


def found_as_it_is(fabric: Fabric, rng: np.random.Generator, *, named: bool) -> Fabric:
    """A fabric with GUIDs of its own, in its order."""
    other = with_guids(fabric, rng)
    other = replace(other, node_guid=other.node_guid + 2**40, port_guid=other.port_guid + 2**40)
    return other if named else replace(other, names=("Mellanox Technologies",) * other.n_nodes)


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize(
    "plan", ["lab-20", *(pytest.param(name, marks=pytest.mark.slow) for name in ("torus", "fire-flyer-2"))]
)
def test_an_absent_switch_takes_what_is_behind_it_along(plan: str, named: bool, tmp_path: Path) -> None:
    fabric, rng = topo.preset(plan).fabric, np.random.default_rng(9)
    for switch in rng.choice(fabric.n_switches, 2, replace=False).tolist():
        told = topo.find_differences(fabric, switched_off(fabric, switch, tmp_path, rng, named=named))
        (one,) = told.found
        assert (one.kind, one.nodes[0]) == ("absent", switch)
        behind = np.diff(fabric.port_offset)[fabric.n_switches :] == 1
        hosts = fabric.peer_node[fabric.port_offset[fabric.n_switches : -1]][behind] == switch
        assert f"nor {hosts.sum()} adapter" in one.found or not hosts.any()


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(2, 60))])
def test_random_fabrics_without_a_cable(seed: int) -> None:
    """Of whatever shape, and however broken: of the fabric nothing is told, of a lost cable that it is lost."""
    plan, rng = draw(seed), np.random.default_rng(seed)
    for named in (True, False):
        assert topo.find_differences(plan, found_as(plan, rng, named=named)).found == ()
        if len(plan.inner):
            lost = found_as(plan.without(rng.choice(plan.inner, 1)), rng, named=named)
            assert [one.kind for one in topo.find_differences(plan, lost).found] == ["missing"]


def test_the_walk_is_by_rack() -> None:
    ports = LAB.inner_links[:, 0]
    racks = [(LAB.n_nodes - node, f"R{node} U1") for node in range(LAB.n_nodes)]
    told = topo.find_differences(LAB, LAB.without(ports), racks)
    places = [racks[one.nodes[0]][0] for one in told.found]
    assert len(places) == len(ports)
    assert places == sorted(places)
    assert told.found[0].rack.startswith("R")


def test_words_of_kinds() -> None:
    assert set(SURE) == {"possible", "likely", "certain"}
    assert all(words.startswith(("a ", "the ", "another", "plugs ")) for words in DIFFERENCE_KINDS.values())


@pytest.mark.slow
def test_the_published_plan_and_its_seeded_faults(originals: Path, tmp_path: Path) -> None:
    """3,195 of 3,195 cables between switches, the four faults that were made, and the hosts that no sheet has."""
    folder = originals / "azure_sat11_2021"
    found = topo.read_fabric(folder / "ibnetdiscover.gz")
    switches = topo.find_differences(topo.read_fabric(folder / "planned_switch_to_switch.ndt"), found)
    assert (switches.cables, switches.agreeing, switches.found) == (3195, 3195, ())
    sheets = "".join((folder / f"planned_switch_to_{what}.ndt").read_text() for what in ("switch", "host"))
    (tmp_path / "plan.ndt").write_text(sheets)
    told = topo.find_differences(topo.read_fabric(tmp_path / "plan.ndt"), found)
    report = json.loads((folder / "ndt_expected_report.json").read_text())["report"]
    faults = {one.kind: one for one in told.found if one.kind != "unplanned"}
    assert set(faults) == {"moved", "renamed", "absent"}
    assert faults["moved"].do == "move the plug from SAT11-0101-0902-01IB0:16 to SAT11-0101-0902-01IB0:17"
    assert faults["renamed"].found == "SAT111090201019 ibp203s0f0"
    assert faults["absent"].where == "SAT11-0102-0903-05IB0"
    assert "2 adapters" in faults["absent"].found
    assert told.cables - told.agreeing == 3  # the fourth cable is in its port: the name of its adapter is another
    ends = [end for line in report["missing_in_ndt"] for end in line.split(" - ")]
    wanted = {end.replace("/", ":").casefold() for end in ends if "ib0/" in end}
    assert len(wanted) == 107
    assert {one.where.partition(" - ")[0].casefold() for one in told.found if one.kind == "unplanned"} == wanted
