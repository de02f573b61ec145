"""Fabrics with known faults: what was broken is what the commands find in the files, and nothing else."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import plan
import routing
import simulate
import topo
from plan.cli import run
from plan.mocking import FAULTS
from simulate.diagnosis.counters import parse_counters

SPEC = str(topo.config_root() / "lab-20.yaml")
LAB = topo.preset("lab-20").fabric
SMALL = ["lab-20", "dgx-h100-48"]


@pytest.mark.parametrize("preset", SMALL)
@pytest.mark.parametrize("seed", range(4))
def test_the_answer_is_what_the_files_show(preset: str, seed: int, tmp_path: Path) -> None:
    """Read back from the files: each difference and each bad link, and no other."""
    made = plan.mock(topo.preset(preset).subnets[0], tmp_path / "mock", faults=8, seed=seed)
    planned, found = (topo.read_fabric(tmp_path / "mock" / f"{name}.ibnetdiscover") for name in ("planned", "fabric"))
    label = made.planned.port_label
    told = topo.find_differences(planned, found)
    wired = [one for one in made.faults if one.kind != "errors"]
    assert Counter((one.kind, frozenset(map(planned.port_label, one.ports))) for one in told.found) == Counter(
        (one.kind, frozenset(map(label, one.ports))) for one in wired
    )
    routed = routing.route(found, "minhop")
    text = (tmp_path / "mock" / "errors.txt").read_text().splitlines()
    bad = simulate.diagnosis.find_bad_links(routed, parse_counters(text, routed)).links
    assert {frozenset(one.link.split(" to ")) for one in bad} == {
        frozenset(map(label, one.ports)) for one in made.faults if one.kind == "errors"
    }
    answer = json.loads((tmp_path / "mock" / "answer.json").read_text())
    assert answer == made.to_dict() and len(answer["faults"]) == len(made.faults)


@pytest.mark.parametrize("kind", FAULTS)
def test_each_kind_is_made_alone(kind: str) -> None:
    made = plan.mock(LAB, faults=2, kinds=[kind], seed=1)
    assert {one.kind for one in made.faults} == {kind} and len(made.faults) == 2
    changed = np.flatnonzero((made.found.peer != made.planned.peer) | (made.found.width != made.planned.width))
    where = {port for one in made.faults for port in one.ports}
    assert set(changed.tolist()) <= where or kind in ("misplaced", "replaced")
    assert (len(changed) == 0) == (kind in ("misplaced", "replaced", "errors"))


def test_a_seed_is_a_fabric_and_another_one_another() -> None:
    one, same, other = (plan.mock(LAB, seed=seed).to_dict() for seed in (0, 0, 1))
    assert one == same != other


def test_what_cannot_be_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["mock", SPEC, "-o", str(tmp_path / "x"), "--kind", "melted"]) == 2
    assert "kinds: found 'melted'; expected one of swapped, " in capsys.readouterr().err
    with pytest.raises(topo.HeddleError, match=r"found 'melted'; expected one of swapped, "):
        plan.mock(LAB, kinds=["melted"])
    with pytest.raises(topo.HeddleError, match="no fault of kind missing can be made"):
        plan.mock(topo.FabricBuilder("lonely").build(), kinds=["missing"])


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["mock", SPEC, "-o", str(tmp_path / "x"), "--faults", "3", "--kind", "missing", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [one["fault"] for one in document["faults"]] == ["missing"] * 3
    assert run(["diff", str(tmp_path / "x/planned.ibnetdiscover"), str(tmp_path / "x/fabric.ibnetdiscover")]) == 1
    assert "3 missing" in capsys.readouterr().out
    assert run(["mock", SPEC, "-o", str(tmp_path / "x"), "--faults", "1", "--seed", "1"]) == 0  # a mock may be replaced


def test_no_plan_is_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["build", SPEC, "-o", str(tmp_path / "plan")]) == 0
    before = (tmp_path / "plan" / "plan.json").read_bytes()
    assert run(["mock", SPEC, "-o", str(tmp_path / "plan")]) == 2
    assert "name another place" in capsys.readouterr().err
    assert (tmp_path / "plan" / "plan.json").read_bytes() == before
