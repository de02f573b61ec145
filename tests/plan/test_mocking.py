"""Fabrics with known faults: what was broken is what the commands find in the files, and nothing else."""

import json
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import plan
import routing
import simulate
import topo
from plan.cli import run
from plan.mocking import CABLING, FAULTS, mock_each
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
    wanted = {frozenset(map(label, one.ports)) for one in made.faults if one.kind == "errors"}
    for name in ("errors.txt", "counters.txt", "fabric.db_csv"):
        text = (tmp_path / "mock" / name).read_text().splitlines()
        bad = simulate.diagnosis.find_bad_links(routed, parse_counters(text, routed)).links
        assert {frozenset(one.link.split(" to ")) for one in bad} == wanted, name
    assert not topo.find_differences(found, topo.read_fabric(tmp_path / "mock" / "fabric.db_csv")).found
    answer = json.loads((tmp_path / "mock" / "answer.json").read_text())
    assert answer == made.to_dict() and len(answer["faults"]) == len(made.faults)


@pytest.mark.parametrize("kind", FAULTS)
def test_each_kind_is_made_alone(kind: str, tmp_path: Path) -> None:
    made = plan.mock(LAB, tmp_path / "mock", faults=2, kinds=[kind], seed=1)
    assert {one.kind for one in made.faults} == {kind} and len(made.faults) == 2
    changed = np.flatnonzero((made.found.peer != made.planned.peer) | (made.found.width != made.planned.width))
    where = {port for one in made.faults for port in one.ports}
    assert set(changed.tolist()) <= where or kind in ("misplaced", "replaced")
    assert (len(changed) == 0) == (kind in ("misplaced", "replaced", "errors"))
    shown = topo.read_fabric(tmp_path / "mock" / "fabric.ibnetdiscover")
    assert sum(int(said.split()[0]) for said in topo.slow_cables(shown)) == (2 if kind == "degraded" else 0)


@pytest.mark.parametrize("seed", range(4))
def test_both_ends_of_a_cable_have_the_rate_of_the_slower_port(seed: int, tmp_path: Path) -> None:
    """Adapters of 200 and 400 Gb/s on switches with ports of 400: of each end, by its node alone."""
    nodes = {name: {"model": model, "count": 6} for name, model in (("slow", "pcie-a100"), ("fast", "storage-ndr"))}
    network = {"shape": "fat-tree", "switch": "QM9700", "leaves": 3, "spines": 2, "parallel": 3}
    planned = topo.parse({"name": "mixed", "nodes": nodes, "network": network}).fabric
    kinds = ["swapped", "moved", "extra", "rotated"]
    plan.mock(planned, tmp_path / "mock", faults=6, kinds=kinds, seed=seed)
    shown = topo.read_fabric(tmp_path / "mock" / "fabric.ibnetdiscover")
    rate = shown.rate_gbps[shown.links]
    able = [200 if shown.names[node].startswith("slow") else 400 for node in shown.port_node.tolist()]
    assert (rate == np.array(able)[shown.links].min(axis=1, keepdims=True)).all()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_slow_link_makes_others_wait(seed: int) -> None:
    """It is among the first suspects, with the tables of the folder; a fabric without it waits for nothing."""
    fabric = topo.preset("dragonfly").fabric
    made = plan.mock(fabric, faults=3, kinds=["waiting", "missing"], seed=seed)
    (slow,) = (one for one in made.faults if one.kind == "waiting")
    assert made.routed is not None and len(made.faults) == 3
    found = simulate.diagnosis.explain_waits(made.routed, parse_counters(made.perfquery.splitlines(), made.routed))
    first = [one.ports[0] for one in (*found.identified, *found.others)[:2]]
    assert not set(first).isdisjoint(slow.ports)
    assert "fabric.lfts" in made.files and "fabric.lfts" not in plan.mock(fabric, faults=1).files


@pytest.mark.parametrize("seed", range(3))
def test_an_ethernet_is_shown_as_its_devices_see_it(seed: int, tmp_path: Path) -> None:
    """Read back from the sessions, beside each other and beside the spec: each fault, and no other."""
    spec = tmp_path / "roce.yaml"
    spec.write_text(ETHERNET)
    made = plan.mock(spec, tmp_path / "mock", faults=5, seed=seed)
    planned, found = (topo.read_fabric(tmp_path / "mock" / f"{name}.lldp") for name in ("planned", "fabric"))
    wanted = Counter((one.kind, frozenset(map(made.planned.port_label, one.ports))) for one in made.faults)
    assert {one.kind for one in made.faults} <= {*CABLING}
    assert len(made.faults) == 5 and set(made.files) == {"planned.lldp", "fabric.lldp", "answer.json"}
    told = topo.find_differences(planned, found)
    assert Counter((one.kind, frozenset(map(planned.port_label, one.ports))) for one in told.found) == wanted
    changes = plan.diff(spec, tmp_path / "mock" / "fabric.lldp")
    assert Counter(one.kind for one in changes.differences.found) == Counter(one.kind for one in made.faults)
    assert run(["diff", str(spec), str(tmp_path / "mock" / "planned.lldp")]) == 0
    assert run(["diff", str(spec), str(tmp_path / "mock" / "planned.lldp"), "--adopt", str(tmp_path / "x")]) == 2


ETHERNET = """
name: roce
nodes: {gpu: {model: dgx-b300-spectrum, count: 16}}
network: {shape: fat-tree, switch: SN5600, leaves: 4, spines: 2, parallel: 8}
"""


def test_a_collection_has_a_folder_for_each_network(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "roce.yaml").write_text(ETHERNET)
    given = [str(tmp_path / "roce.yaml"), *(str(topo.config_root() / f"{name}.yaml") for name in SMALL)]
    assert run(["mock", *given, "-o", str(tmp_path / "all"), "--faults", "3", "--json"]) == 0
    answers = json.loads(capsys.readouterr().out)
    assert set(answers) == {"roce", "lab-20", "dgx-h100-48", "dgx-h100-48-storage"}
    for name, answer in answers.items():
        assert json.loads((tmp_path / "all" / name / "answer.json").read_text()) == answer
        assert len(answer["faults"]) == 3
    assert run(["mock", *given, given[0], "-o", str(tmp_path / "all")]) == 2
    assert run(["mock", *given, "-o", str(tmp_path / "all"), "--subnet", "x"]) == 2


@pytest.mark.slow
@pytest.mark.nightly
def test_every_preset_is_a_realistic_fabric_with_faults(tmp_path: Path) -> None:
    """Twenty and more, as one command makes them; each breaks as often as it is asked to."""
    paths = [path for path in sorted(topo.config_root().glob("*.yaml")) if path.stem not in LARGE]
    made = mock_each(paths, tmp_path / "all", faults=4, seed=3)
    assert len(made) >= 20
    for name, one in made.items():
        assert len(one.faults) in (4, 5), name  # two that are misplaced are one fault


LARGE = {"dgx-baseline", "four-planes-32k", "deepseek-v3-planes", "deepseek-v3-2048"}
"""Files of these take seconds to write."""


def test_the_container_has_what_tests_install(repository: Path) -> None:
    """Its script is run in ``tests/peers``; its packages are those that are installed there."""
    lines = (repository / "Containerfile.live").read_text()
    packages = set(re.search(r"--no-install-recommends (.*?) &&", lines)[1].split())
    assert packages <= set((repository / "scripts/install-test-tools").read_text().split())
    assert {"ibsim-utils", "opensm", "infiniband-diags"} <= packages and "COPY scripts/live-fabric" in lines


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
