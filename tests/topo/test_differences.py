"""Differences of a fabric from its plan: faults of a crew are made at random, and each is found and nothing else."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import topo
from helpers.miswirings import miswire
from helpers.relabel import relabelled, with_guids
from helpers.twins import twin
from topo.differences import KINDS, SURE
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
    made = miswire(plan, rng, int(rng.integers(1, 9)), hosts=named)
    # Two switches without a name that are exchanged with all their cables are not exchanged.
    truth = {one for one in made.truth if named or one[0] != "misplaced"}
    differences = topo.find_differences(plan, found_as(made.fabric(), rng, named=named))
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
    assert one.do == "plug a cable from leaf0:21 to spine0:1"
    (one,) = topo.find_differences(LAB.without(np.array([a])), LAB).found
    assert (one.kind, one.planned, one.found) == ("extra", "nothing", "spine0:1")
    slow = LAB.width.copy()
    slow[[a, far[0]]] = 1
    (one,) = topo.find_differences(LAB, replace(LAB, width=slow)).found
    assert one.do.startswith("1xHDR instead of 4xHDR")


def test_an_absent_switch_takes_what_is_behind_it_along(tmp_path: Path) -> None:
    text = topo.format_ibnetdiscover(LAB)
    leaf = next(node for node in range(LAB.n_switches) if LAB.label(node) == "leaf1")
    behind = [int(LAB.peer_node[p]) for p in range(*LAB.port_offset[leaf : leaf + 2]) if LAB.peer_node[p] >= 0]
    hosts = [node for node in behind if node >= LAB.n_switches]
    gone = {f"{int(LAB.node_guid[node]):016x}" for node in [leaf, *hosts]}
    records = [
        record
        for record in text.split("\n\n")
        if not any(f'"{letter}-{guid}"\t\t#' in record for guid in gone for letter in "SH")
    ]
    lines = "\n\n".join(records).split("\n")
    lines = [line for line in lines if not (line.startswith("[") and any(guid in line for guid in gone))]
    (tmp_path / "dump").write_text("\n".join(lines))
    (one,) = topo.find_differences(LAB, topo.read_fabric(tmp_path / "dump")).found
    assert (one.kind, one.where) == ("absent", "leaf1")
    assert f"nor {len(hosts)} adapters behind it" in one.found


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
    assert all(words.startswith(("a ", "the ", "another", "cables")) for words in KINDS.values())


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
