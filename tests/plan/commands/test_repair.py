"""`plan repair`: what it writes is what it says, and what comes back is as it was."""

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import plan
import routing
import topo
from plan.cli import run
from plan.inputs import read_routed_argument
from topo.catalog.load import config_root
from topo.dumps.ibnetdiscover import format_ibnetdiscover
from topo.errors import HeddleError
from topo.fabric import frozen


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("lab") / "out"
    assert run(["build", str(config_root() / "lab-20.yaml"), "-o", str(out)]) == 0
    return out


def repaired(capsys: pytest.CaptureFixture[str], *words: str) -> dict:
    assert run(["repair", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.slow
def test_there_and_back_again(lab: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, back = tmp_path / "out", tmp_path / "back"
    said = repaired(capsys, str(lab), "--down", "leaf0:21", "--down", "gpu07", "-o", str(out))
    assert said["repair"]["how"] == "kept order"
    assert said["repair"]["cables_down"] == 2
    assert said["repair"]["host_ports_without_a_cable"] == ["gpu07 mlx5_0:1"]
    rows = list(csv.DictReader((out / "updates.csv").read_text(encoding="utf-8").splitlines()))
    assert sum(int(row["entries that change"]) for row in rows) == said["repair"]["entries_that_change"]
    assert json.loads((out / "plan.json").read_text(encoding="utf-8"))["holds"]
    assert run(["verify", str(out), "--endpoints", "all"]) == 1  # a host is gone

    capsys.readouterr()
    said = repaired(capsys, str(lab), "--loaded", str(out / "opensm" / "lfts"), "-o", str(back))
    assert said["repair"]["entries_that_change"] == 0  # beside those of the plan
    assert len(said["repair"]["writes"]) == len(rows)
    old, new = ((folder / "opensm" / "lfts").read_bytes().partition(b"\n")[2] for folder in (lab, back))
    assert old == new  # but for the first line, a comment that names the engine


@pytest.mark.slow
def test_a_later_picture_says_what_is_down(lab: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    by_name = repaired(capsys, str(lab), "--down", "spine1", "-o", str(out))
    by_picture = repaired(capsys, str(lab), "--now", str(out / "fabric.ibnetdiscover"))
    assert by_name["repair"] == by_picture["repair"]
    anew = repaired(capsys, str(lab), "--down", "spine1", "--full")["repair"]
    assert anew["how"] == "routed anew"
    assert "spine1" not in {write["switch"] for write in anew["writes"]}


@pytest.mark.slow
def test_hosts_with_each_others_cables_are_no_success(
    lab: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are cabled and up, and the old LIDs' paths lead to the other one's port."""
    fabric = topo.read_fabric(lab / "fabric.ibnetdiscover")
    one, other = fabric.n_ports - 1, fabric.first_adapter_port  # of the last host, and of the first
    peer, ends = fabric.peer.copy(), fabric.peer[[one, other]]
    peer[[one, other]], peer[ends] = ends[::-1], [other, one]
    now = tmp_path / "now"
    now.write_text(format_ibnetdiscover(replace(fabric, peer=frozen(peer))), encoding="utf-8")
    assert run(["repair", str(lab), "--now", str(now)]) == 1
    said = capsys.readouterr().out
    assert all(f"{fabric.port_label(port)} has another cable" in said for port in (one, other))
    assert "gpu00 mlx5_0:1 has" in said
    assert len(repaired(capsys, str(lab), "--down", "leaf0")["repair"]["host_ports_without_a_cable"]) == 11


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--down", "leef0"], "did you mean"),
        (["--down", "leaf0:99"], "has ports 1 to"),
        (["--down", "leaf0:19"], "no cable"),
    ],
)
def test_what_is_not_there_cannot_fail(
    lab: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["repair", str(lab), *words]) == 2
    assert message in capsys.readouterr().err.lower()


@pytest.mark.slow
def test_tables_on_lanes_are_those_of_a_folder_with_its_policy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On one lane they have credit loops; what they need from the policy is found, and no LID may be sent to."""
    assert run(["build", str(config_root() / "slim-fly.yaml"), "-o", str(tmp_path / "out")]) == 0
    capsys.readouterr()
    told = repaired(capsys, str(tmp_path / "out"), "--down", "leaf01:7")["repair"]
    assert (told["how"], told["stages"]) == ("routed anew", 1)  # mended paths would need a third lane
    assert len(told["drained_lids"]) == 250


@pytest.mark.slow
def test_plans_of_one_name_are_told_apart_in_a_report(
    lab: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    again = tmp_path / "repaired"
    shutil.copytree(lab, again)
    capsys.readouterr()
    assert run(["report", str(lab), str(again), "-o", str(tmp_path / "both.html"), "--json"]) == 0
    plans = json.loads(capsys.readouterr().out)["plans"]
    assert [plan["name"] for plan in plans] == [f"lab-20 ({folder})" for folder in (lab, again)]


def test_the_intact_plan_is_not_replaced(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (lab / "plan.json").read_bytes()
    assert run(["repair", str(lab), "--down", "spine1", "-o", f"{lab.parent}/./{lab.name}"]) == 2
    assert "would replace what this command reads" in capsys.readouterr().err
    assert (lab / "plan.json").read_bytes() == before
    assert (lab / "cables.csv").is_file()


@pytest.mark.slow
def test_pairs_that_no_cable_connects_are_told(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["repair", str(lab), "--down", "spine0", "--down", "spine1"]) == 0
    assert "no cables connect 242 of 462 pairs any longer" in capsys.readouterr().out  # 11 ports on each of two leaves


def test_entries_are_spared_for_the_load_as_told(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    few, more = (repaired(capsys, str(lab), "--down", "leaf0:21", *words)["repair"] for words in ([], ["--spare", "1"]))
    assert few["entries_that_change"] <= more["entries_that_change"] <= 2 * few["entries_that_change"]
    assert more["worth"]["fullest link"][-1] <= few["worth"]["fullest link"][-1]
    for wrong in ("-1", "nan", "101", "much"):
        assert run(["repair", str(lab), "--spare", wrong]) == 2
        assert "Traceback" not in capsys.readouterr().err


@pytest.mark.slow
def test_a_view_that_lacks_more_than_the_largest_switch_has_is_refused(tmp_path: Path) -> None:
    """Any one switch may be down; more is a view that cannot be true, unless somebody says that it is."""
    routed = routing.route(topo.preset("lab-20").fabric, "minhop")
    fabric, rng = routed.fabric, np.random.default_rng(1)
    ends = fabric.port_node[fabric.links]
    most = max(int(np.count_nonzero((ends == switch).any(axis=1))) for switch in range(fabric.n_switches))
    for cables in (1, most, most + 1, len(fabric.links) - 1):
        now = tmp_path / f"{cables}.ibnetdiscover"
        gone = rng.choice(fabric.links, cables, replace=False)
        now.write_text(format_ibnetdiscover(fabric.without(gone[:, 0])), encoding="utf-8")
        if cables > most:
            with pytest.raises(
                HeddleError, match=rf"found {cables} cables of lab-20 down; expected at most {most}, as"
            ):
                plan.repair(routed, now=now)
            with pytest.raises(HeddleError, match=rf"expected at most {cables - 1}: is this a whole view"):
                plan.repair(routed, now=now, most_down=cables - 1)
        assert len(plan.repair(routed, now=now, most_down=cables).repair.down) == 2 * cables
    with pytest.raises(HeddleError, match="found 1 cable of lab-20 down; expected at most 0"):
        plan.repair(routed, now=tmp_path / "1.ibnetdiscover", most_down=0)
    for switch in range(fabric.n_switches):
        now = tmp_path / f"switch-{switch}.ibnetdiscover"
        now.write_text(format_ibnetdiscover(fabric.without(np.flatnonzero(fabric.port_node == switch))))
        plan.repair(routed, now=now)


@pytest.mark.parametrize("place", ["leaf0", "spine0", "gpu03 mlx5_0"])
@pytest.mark.slow
def test_what_was_replaced_is_named_and_adopted_without_a_changed_entry(
    lab: Path, tmp_path: Path, place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = read_routed_argument(lab)
    fabric = before.fabric
    places = [fabric.label(node) for node in range(fabric.n_nodes)]
    shift = (np.arange(fabric.n_nodes) == places.index(place)).astype(np.uint64) << np.uint64(40)
    port_guid = fabric.port_guid + shift[fabric.port_node]
    now, adopted = tmp_path / "now.ibnetdiscover", tmp_path / "adopted"
    there = replace(fabric, node_guid=fabric.node_guid + shift, port_guid=port_guid, discovered_lid=before.tables.lid)
    now.write_text(format_ibnetdiscover(there), encoding="utf-8")
    assert run(["repair", str(lab), "--now", str(now)]) == 1
    assert f"replaced: {place} has the GUID 0x" in " ".join(capsys.readouterr().out.split())
    assert run(["diff", str(lab), str(now), "--adopt", str(adopted)]) == 1
    after = read_routed_argument(adopted)
    assert len(routing.repairs.differing_entries(before.tables, after.tables)) == 0
    assert np.array_equal(after.fabric.node_guid, there.node_guid)
    assert run(["repair", str(adopted), "--now", str(now)]) == 0
    assert "nothing to write" in capsys.readouterr().out


def test_a_host_that_nobody_planned_is_named_while_the_rest_is_repaired(
    lab: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fabric = topo.read_fabric(lab / "fabric.json")
    plain, now = tmp_path / "plain", tmp_path / "now.ibnetdiscover"
    gone = int(fabric.port_of(fabric.ends())[-1])
    smaller = tmp_path / "smaller.ibnetdiscover"
    smaller.write_text(format_ibnetdiscover(fabric.without(np.array([gone]))), encoding="utf-8")
    assert run(["route", str(smaller), "-o", str(plain)]) == 0
    down = fabric.without(fabric.inner[:1])
    now.write_text(format_ibnetdiscover(down), encoding="utf-8")
    capsys.readouterr()
    assert run(["repair", str(plain), "--now", str(now), "-o", str(tmp_path / "out")]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert f"missing: {fabric.port_label(gone)} is not in" in said
    repaired = read_routed_argument(tmp_path / "out")
    proof = routing.prove(repaired)
    assert (proof.missing, proof.credit_loops) == (proof.disconnected, 0)
    assert len(repaired.fabric.inner) == len(down.inner)  # what is down is not in it
