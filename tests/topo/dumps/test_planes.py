"""Planes of XDR: a cluster of whole switches beside a dump in which each is four chips."""

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import plan
import plan.cli
import topo
from helpers.dumps import format_planes
from plan.mocking import FAULTS
from topo.dumps.discovery import CableEnd, FoundNode, Records
from topo.dumps.planes import number_of_label
from topo.fabric import Fabric
from topo.speeds import SPEEDS

SPEC = """
name: xdr
nodes: {{gpu: {{model: dgx-b300, count: {nodes}}}}}
network: {{shape: {shape}}}
"""
SHAPES = {"rails": (8, "rail, unit_nodes: 4, tree: {switch: Q3400}"), "tree": (12, "fat-tree, switch: Q3400")}


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Fabric]:
    folder = tmp_path_factory.mktemp("xdr")
    for name, (nodes, shape) in SHAPES.items():
        (folder / f"{name}.yaml").write_text(SPEC.format(nodes=nodes, shape=shape))
    return {name: topo.read(folder / f"{name}.yaml").fabric for name in SHAPES}


def read_back(text: str, folder: Path) -> Fabric:
    (folder / "ibdiagnet2.db_csv").write_text(text)
    return topo.read_fabric(folder / "ibdiagnet2.db_csv", merged=True)


def test_ends_of_which_one_has_a_plane_less_have_as_many_lanes_both_ways() -> None:
    records = Records("x")
    for guid in (1, 2):
        records.node(FoundNode(("S", guid), 4, f"s{guid}", guid))
    for one, other, lanes in ((1, 2, 3), (2, 1, 4)):
        end = ("S", one), 1, ("S", other), 1
        records.cable(CableEnd(one, *end, width=lanes, speed=SPEEDS.index("XDR")))
    found = records.assemble("two")
    assert found.fabric.rate_gbps[found.fabric.inner].tolist() == [600.0, 600.0]
    assert [reason for _, reason in found.skipped] == [
        "the speed of a cable, 3xXDR here and 4xXDR in line 2: taken as 3xXDR"
    ]


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("adapters", [1, pytest.param(2, marks=pytest.mark.nightly), 4])
def test_a_plan_beside_its_planes(shape: str, adapters: int, plans: dict[str, Fabric], tmp_path: Path) -> None:
    rng, fabric = np.random.default_rng(adapters), plans[shape]
    for systems in (True, False):
        text = format_planes(fabric, rng, adapters=adapters, systems=systems or adapters > 1)
        found = read_back(text, tmp_path)
        assert (found.n_switches, found.notes) == (fabric.n_switches, ())
        told = topo.find_differences(fabric, found)
        assert (told.cables, told.agreeing, told.found) == (len(fabric.links), len(fabric.links), ())
    assert topo.read_fabric(tmp_path / "ibdiagnet2.db_csv").n_switches == 4 * fabric.n_switches


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(3, 100))]
)
def test_faults_are_found_and_nothing_else(shape: str, seed: int, plans: dict[str, Fabric], tmp_path: Path) -> None:
    """A cable with one of four planes is degraded."""
    rng, fabric = np.random.default_rng(seed), plans[shape]
    kinds = [kind for kind in FAULTS if kind not in ("replaced", "errors")]
    made = plan.mock(fabric, faults=int(rng.integers(1, 9)), kinds=kinds, seed=seed)
    truth = [(fault.kind, frozenset(fault.ports)) for fault in made.faults]
    found = read_back(format_planes(made.found, rng, adapters=1 << seed % 3), tmp_path)
    told = topo.find_differences(fabric, found)
    assert Counter((one.kind, frozenset(one.ports)) for one in told.found) == Counter(truth)


@pytest.mark.slow
def test_chips_without_planes_stay_apart(plans: dict[str, Fabric], tmp_path: Path) -> None:
    """A dump that tells no labels, or chips of one plane, or chips of which nobody tells the switch."""
    fabric, rng = plans["rails"], np.random.default_rng(0)
    text = format_planes(fabric, rng)
    apart = [
        text.replace("ExtendedLabel", "Label"),
        text.replace(",Plane", ",Plain").replace("/U2", "/U1"),
        re.sub(r"(sw\d+p\d),\d", r"\1,1", text),
        format_planes(fabric, rng, systems=False).replace("/U", "/V").replace(",Plane", ",Plain"),
    ]
    for other in apart:
        assert read_back(other, tmp_path).n_switches == 4 * fabric.n_switches


@pytest.mark.slow
def test_planes_of_one_port_that_part(plans: dict[str, Fabric], tmp_path: Path) -> None:
    """A note says so, and most of them count."""
    fabric = plans["rails"]
    text = format_planes(fabric, np.random.default_rng(0))
    head, links = text.split("START_LINKS\n")
    rows = links.split("\n")
    inner = [4 * int(place) + 1 for place in np.flatnonzero(fabric.is_inner[fabric.links[:, 0]])[:2]]
    one, other = (rows[place].split(",") for place in inner)
    rows[inner[0]], rows[inner[1]] = (",".join([*a[:2], *b[2:]]) for a, b in ((one, other), (other, one)))
    found = read_back(head + "START_LINKS\n" + "\n".join(rows), tmp_path)
    assert any("planes of port" in note for note in found.notes)
    assert {one.kind for one in topo.find_differences(fabric, found).found} == {"degraded"}


def test_a_plan_does_not_adopt_chips(
    plans: dict[str, Fabric], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each has tables of its own."""
    (tmp_path / "x.db_csv").write_text(format_planes(plans["tree"], np.random.default_rng(0)))
    (tmp_path / "plan.json").write_text(topo.format_fabric(plans["tree"]))
    words = ["diff", *(str(tmp_path / name) for name in ("plan.json", "x.db_csv"))]
    assert plan.cli.run(words) == 0
    assert plan.cli.run([*words, "--adopt", str(tmp_path / "out")]) == 2
    assert "several chips" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_labels_of_ports() -> None:
    assert [number_of_label(label) for label in ("sw1p1", "sw1p2", "SW72P2", "swp2s1")] == [1, 2, 144, 3]
    assert [number_of_label(label) for label in ("", "1/1", "sw0p1", "sw1p3", "sw999p1", "fnm1")] == [0] * 6
