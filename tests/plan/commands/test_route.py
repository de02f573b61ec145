"""`plan route`: tables for any fabric, its LIDs kept, the same bytes each time, and a refusal that says why."""

import hashlib
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import plan.opensm_lab.trials
import routing.engines.base
import routing.engines.minhop
from helpers import twins
from helpers.clusters import zoned
from helpers.strategies import nightly, ring, slow_but, spoil, tree
from helpers.trees import grow_tree
from plan.cli import run
from routing.engines.base import ENGINES
from routing.opensm.guid2lid import read_guid2lid
from topo.catalog.load import config_root
from topo.dumps.fabric_file import read_dump
from topo.dumps.ibnetdiscover import format_ibnetdiscover
from topo.fabric import Fabric

BY_DAY = ("frame", "ndr-pod", "fdr10-mesh", "zone")
"""Real machines that are small; `test_real_fabrics` routes all of them."""


def dump(folder: Path, fabric: Fabric, lids: np.ndarray | None = None) -> Path:
    """The fabric as ibnetdiscover would print it."""
    path = folder / "fabric.txt"
    path.write_text(format_ibnetdiscover(fabric, lids))
    return path


def route(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, dict]:
    """Exit status and what is printed for machines."""
    capsys.readouterr()
    status = run(["route", *map(str, arguments), "--json"])
    return status, json.loads(capsys.readouterr().out)


@pytest.mark.slow
def test_the_folder_holds_the_fabric_the_tables_and_every_figure(tmp_path, capsys) -> None:
    fabric, out = dump(tmp_path, zoned("border")), tmp_path / "out"
    status, told = route(capsys, fabric, "-o", out)

    assert status == 0
    assert told == json.loads((out / "plan.json").read_text())
    assert told["proof"] == {"pairs": 2_432_040, "missing": 0, "credit_loops": 0, "max_hops": 7, "lanes": 1}
    assert told["quality"]["max_load"] == 30_420
    counts = {"switches": 122, "leaf": 80, "spine": 40, "core": 0, "joint": 2, "zones": 2, "host_ports": 1560}
    assert {name: told["counts"][name] for name in counts} == counts
    subnet = told["subnets"][0]
    assert {row["engine"] for row in subnet["candidates"]} >= {"balanced", "minhop", "dfsssp"}
    assert subnet["engine_reason"].startswith(("better than", "as good as"))
    assert (subnet["bounds"]["max_load"], told["quality"]["max_load_bound"]) == (30_420, 30_420)
    assert {"lfts", "guid2lid", "opensm.conf", "root_guids"} <= {path.name for path in (out / "opensm").iterdir()}
    # The folder is a fabric with tables, and what is routed once more is the same.
    assert run(["verify", str(out), str(out / "opensm" / "lfts")]) == 0
    status, again = route(capsys, out, "-o", tmp_path / "again")
    assert (status, again["proof"]) == (0, told["proof"])
    for name in ("lfts", "guid2lid"):
        assert (tmp_path / "again" / "opensm" / name).read_bytes() == (out / "opensm" / name).read_bytes()


def test_lids_that_the_subnet_has_are_kept(tmp_path) -> None:
    fabric = tree(3).fabric
    lids = np.arange(fabric.n_end_ports, dtype=np.uint16)[::-1] * 7 + 100
    lids[4] = 0  # not configured
    assert run(["route", str(dump(tmp_path, fabric, lids)), "-o", str(tmp_path / "out")]) == 0
    given = read_guid2lid(tmp_path / "out" / "opensm" / "guid2lid")
    expected = lids.tolist()
    expected[4] = max(expected) + 1
    assert [given[guid][0] for guid in fabric.end_guid.tolist()] == expected


@pytest.mark.slow
def test_the_same_fabric_gives_the_same_bytes(tmp_path) -> None:
    fabric = dump(tmp_path, grow_tree((3, 3, 5), (1, 3, 2), (1, 1, 1)))
    route = ["route", str(fabric), "-o"]
    subprocess.run([sys.executable, "-m", "plan", *route, tmp_path / "0"], check=True, capture_output=True)
    assert run([*route, str(tmp_path / "1")]) == 0
    sums = [(tmp_path / seed / "SHA256SUMS").read_bytes() for seed in ("0", "1")]
    assert sums[0] == sums[1]


@pytest.mark.slow
def test_a_spec_is_routed_as_it_says_or_as_the_command_does(tmp_path, capsys) -> None:
    spec = config_root() / "lab-20.yaml"
    status, told = route(capsys, spec, "-o", tmp_path / "out")
    assert status == 0
    assert run(["build", str(spec), "-o", str(tmp_path / "built")]) == 0
    assert (tmp_path / "out" / "opensm" / "lfts").read_bytes() == (tmp_path / "built/opensm/lfts").read_bytes()
    status, told = route(capsys, spec, "-o", tmp_path / "out", "--engine", "balanced")
    assert (status, told["subnets"][0]["engine"], told["subnets"][0]["engine_reason"]) == (0, "balanced", "as asked")


@pytest.mark.slow
def test_roles_come_from_rules_or_from_lists_of_guids(tmp_path, capsys) -> None:
    fabric = tree(4).fabric
    path = dump(tmp_path, fabric)
    (tmp_path / "roles").write_text("# the last host of each leaf\nstorage host?-3 *\n")
    _, by_rules = route(capsys, path, "-o", tmp_path / "a", "--roles", tmp_path / "roles")
    nodes = [name for name in by_rules["counts"] if name.endswith("_nodes")]
    assert [by_rules["counts"][name] for name in nodes] == [12, 4, 0, 0]
    assert {share["role"] for share in by_rules["subnets"][0]["quality"]["uplinks"]} == {"all", "compute", "storage"}

    _, by_lists = route(
        capsys, path, "-o", tmp_path / "b",
        "--cn-guids", tmp_path / "a" / "opensm" / "cn_guids", "--io-guids", tmp_path / "a" / "opensm" / "io_guids",
    )  # fmt: skip
    assert by_lists["counts"] == by_rules["counts"]
    assert (tmp_path / "a/opensm/lfts").read_bytes() == (tmp_path / "b/opensm/lfts").read_bytes()

    compute = tmp_path / "compute"
    compute.write_text(f"0x{int(fabric.end_guid[fabric.n_switches]):016x} # one\n0x00000000deadbeef\n")
    capsys.readouterr()
    assert run(["route", str(path), "-o", str(tmp_path / "c"), "--cn-guids", str(compute)]) == 0
    said = capsys.readouterr()
    assert "1 port GUIDs that no adapter of the fabric has (0x00000000deadbeef)" in said.err
    assert "1 compute, 15 management" in said.out


@pytest.mark.slow
@pytest.mark.parametrize(("endpoints", "ends"), [("hca", 9), ("adapters", 9), ("all", 15)])
def test_who_talks_to_whom_is_for_the_user_to_say(endpoints, ends, tmp_path, capsys) -> None:
    status, told = route(capsys, dump(tmp_path, tree(3).fabric), "-o", tmp_path / "out", "--endpoints", endpoints)
    assert (status, told["proof"]["pairs"]) == (0, ends * (ends - 1))
    assert told["subnets"][0]["quality"]["ranks"] == ends


def test_islands_are_routed_and_told_apart_from_pairs_that_are_missing(tmp_path, capsys) -> None:
    fabric = tree(3).fabric
    peer = fabric.peer.copy()
    cut = (fabric.port_node == 0) & (fabric.peer_node < fabric.n_switches)
    peer[peer[cut]] = -1
    peer[cut] = -1
    path = dump(tmp_path, replace(fabric, peer=peer))
    status, told = route(capsys, path, "-o", tmp_path / "out")
    assert (status, told["holds"]) == (0, True)
    assert told["disconnected"] == told["proof"]["missing"] == 2 * 3 * 6
    assert run(["route", str(path), "-o", str(tmp_path / "out")]) == 0
    shown = capsys.readouterr()
    assert "36 missing (36 of them disconnected: no cables lead there)" in shown.out
    assert "holds, but 36 pairs disconnected: no cables lead from one to the other" in " ".join(
        shown.err.split() + shown.out.split()
    )
    assert run(["verify", str(path), str(tmp_path / "out" / "opensm" / "lfts")]) == 1
    assert "FAILS: 36 pairs disconnected: no cables lead from one to the other" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("case", "says"),
    [
        pytest.param(spoil(tree(3), (0, 14, 255)), "leaf0 has no entry", id="a pair is missing"),
        pytest.param(ring(), "sw0:1 -> sw1:2", id="a credit loop"),
    ],
)
def test_tables_that_do_not_hold_are_refused_with_their_place(case, says, tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.setattr(routing.engines.base.BuiltIn, "route", lambda engine, fabric, lid, **options: case.tables)
    path = dump(tmp_path, case.fabric)
    status, told = route(capsys, path, "-o", tmp_path / "out")
    assert (status, told["holds"]) == (1, False)
    assert (tmp_path / "out" / "plan.json").is_file(), "so that what is wrong can be looked at"
    proof = told["subnets"][0]["proof"]
    assert says in " ".join([*(example["text"] for example in proof["examples"]), *proof["credit_loop"]])
    assert run(["route", str(path), "-o", str(tmp_path / "out")]) == 1
    said = capsys.readouterr().out
    assert "REFUSED" in said
    assert says in said


@pytest.mark.slow
def test_an_engine_that_does_not_take_the_fabric(tmp_path, capsys) -> None:
    path = dump(tmp_path, zoned("border", leaves=8, spines=4, n_gpus=100, n_storage=4, ports=4))
    assert run(["route", str(path), "-o", str(tmp_path / "out"), "--engine", "fat-tree"]) == 1
    assert not (tmp_path / "out").exists()
    said = capsys.readouterr().err
    assert "fat-tree" in said
    assert "`balanced`" in said

    # auto goes on without an engine that refuses, and says why it does.
    status, told = route(capsys, path, "-o", tmp_path / "out")
    assert status == 0
    assert told["subnets"][0]["engine"] == "balanced"
    refusals = {row["engine"]: row["refusal"] for row in told["subnets"][0]["candidates"] if "refusal" in row}
    assert list(refusals) == ["fat-tree"]
    assert refusals["fat-tree"] in said


@pytest.mark.slow
def test_lanes_where_one_does_not_do(tmp_path, capsys) -> None:
    """Shortest paths in a ring of five wait for each other, all the way round; two lanes end that."""
    path = dump(tmp_path, ring(5).fabric)
    out = tmp_path / "out"
    status, told = route(capsys, path, "-o", out, "--engine", "dfsssp")
    assert (status, told["proof"]["credit_loops"], told["proof"]["lanes"]) == (0, 0, 2)
    assert "end-qos-match-rule" in (out / "opensm" / "qos-policy.conf").read_text()
    assert "qos TRUE" in (out / "opensm" / "opensm.conf").read_text()
    assert "only on 2 lanes" in (out / "opensm" / "README.md").read_text()
    tables, lanes, policy = (str(out / "opensm" / name) for name in ("lfts", "opensm.conf", "qos-policy.conf"))
    assert run(["verify", str(path), tables]) == 1, "on one lane"
    assert run(["verify", str(path), tables, "--lanes", lanes, "--policy", policy]) == 0
    assert "on 2 lanes" in " ".join(capsys.readouterr().out.split())
    assert run(["verify", str(out)]) == 0, "on the lanes of the folder"
    assert "on 2 lanes" in " ".join(capsys.readouterr().out.split())
    assert run(["verify", str(path), tables, "--policy", policy]) == 2

    status, told = route(capsys, path, "-o", out, "--engine", "dfsssp", "--lanes", 1)
    assert (status, told["proof"]["lanes"]) == (1, 1)
    assert told["proof"]["credit_loops"] > 0
    assert "--lanes 2 would do" in told["advice"]
    for engine, lanes, needs in (("minhop", 2, 2), ("minhop", 8, 2), ("balanced", 8, 2)):
        status, told = route(capsys, path, "-o", out, "--engine", engine, "--lanes", lanes)
        assert (status, told["proof"]["credit_loops"], told["proof"]["lanes"]) == (0, 0, needs)
    assert run(["route", str(path), "-o", str(out), "--engine", "dfsssp"]) == 0
    assert "safe only if all applications ask OpenSM" in capsys.readouterr().out
    assert run(["route", str(path), "-o", str(out), "--engine", "dfsssp", "--lanes", "1"]) == 1
    assert "--lanes 2 would do" in capsys.readouterr().err


@pytest.mark.slow
def test_failures_are_drawn_by_the_seed_and_told_with_what_is_left(tmp_path, capsys) -> None:
    path, out = dump(tmp_path, tree(4).fabric), tmp_path / "out"
    status, told = route(capsys, path, "-o", out, "--failures", 5, "--seed", 7)
    assert status == 0
    study = told["failures"]
    assert (study["links"], study["delivered"], study["pairs"]) == (5, 240, 240)
    assert study["before"]["mean"] == study["before"]["least"] == 4
    assert study["after"]["mean"] < 4
    assert route(capsys, path, "-o", out, "--failures", 5, "--seed", 7)[1]["failures"] == study
    assert route(capsys, path, "-o", out, "--failures", 5, "--seed", 8)[1]["failures"]["failed"] != study["failed"]
    assert run(["route", str(path), "-o", str(out), "--failures", "5"]) == 0
    assert "with 5 links failed" in capsys.readouterr().out
    assert run(["route", str(path), "-o", str(out), "--failures", "17"]) == 2
    assert "17 links cannot fail; tree has 16 between switches" in capsys.readouterr().err


def test_an_engine_that_is_not_there(tmp_path, capsys) -> None:
    assert run(["route", str(dump(tmp_path, tree(2).fabric)), "-o", str(tmp_path / "out"), "--engine", "fattree"]) == 2
    said = capsys.readouterr().err
    assert "Did you mean `fat-tree`?" in said
    assert all(name in said for name in ENGINES)
    assert not (tmp_path / "out").exists()


def test_tools_that_are_missing_are_told_before_any_work(tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.setattr(plan.opensm_lab.trials, "missing_tools", lambda: ("ibsim (ibsim-utils)",))
    path = dump(tmp_path, tree(2).fabric)
    assert run(["route", str(path), "-o", str(tmp_path / "out"), "--compare", "opensm"]) == 2
    assert "not installed: ibsim (ibsim-utils)" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("nothing", None, "found no such file"),
        ("folder", "", "without plan.json"),
        ("empty", b"", "is not a fabric that can be read"),
        ("binary", bytes(range(256)) * 300, "is not a fabric that can be read|characters in a line"),
        ("spec.yaml", b"name: [", "spec.yaml:1"),
        (
            "one host",
            b'vendid=0x2c9\nSwitch 2 "S-0000000000000001" # "a" base port 0 lid 1 lmc 0\n',
            "expected at least two",
        ),
    ],
)
def test_what_is_no_fabric_is_bad_input(name, content, says, tmp_path, capsys) -> None:
    path = tmp_path / name
    if name == "folder":
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
    assert run(["route", str(path), "-o", str(tmp_path / "out")]) == 2
    said = capsys.readouterr()
    assert any(part in said.err for part in says.split("|")), said.err
    assert "Traceback" not in said.err
    assert said.out == ""
    assert not (tmp_path / "out").exists()


def test_a_dump_that_is_cut_short_says_which_cables_lead_nowhere(tmp_path, capsys) -> None:
    whole = dump(tmp_path, tree(2).fabric).read_text(encoding="utf-8")
    (tmp_path / "cut").write_text("\n\n".join(r for r in whole.split("\n\n") if "Ca\t" not in r), encoding="utf-8")
    assert run(["route", str(tmp_path / "cut"), "-o", str(tmp_path / "out")]) == 2
    *notes, last = capsys.readouterr().err.splitlines()
    assert "expected at least two" in last and any("which has no record" in note for note in notes)


def test_a_fabric_may_come_through_a_pipe(tmp_path, capsys) -> None:
    """Which can be read but once."""
    whole = dump(tmp_path, tree(3).fabric)
    _, told = route(capsys, whole, "-o", tmp_path / "file")
    assert told["inputs"]["fabric_sha256"] == hashlib.sha256(whole.read_bytes()).hexdigest()
    with subprocess.Popen(["cat", whole], stdout=subprocess.PIPE) as fed:
        _, told = route(capsys, f"/dev/fd/{fed.stdout.fileno()}", "-o", tmp_path / "pipe")
    assert told["inputs"]["fabric_sha256"] is None
    assert (tmp_path / "file/opensm/guid2lid").read_bytes() == (tmp_path / "pipe/opensm/guid2lid").read_bytes()


def test_a_flood_without_end_is_cut_off(tmp_path, capsys) -> None:
    assert run(["route", "/dev/zero", "-o", str(tmp_path / "out")]) == 2
    assert "/dev/zero" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        *slow_but(BY_DAY, "frame", "fdr10-mesh"),
        *(nightly(name) for name in twins.MACHINES if name not in BY_DAY),
    ],
)
def test_every_real_fabric_routes_completely_on_one_lane(name, tmp_path, capsys) -> None:
    path = twins.path(name)
    status, told = route(capsys, path, "-o", tmp_path / "out", "--endpoints", "all")
    assert status == 0
    assert (told["proof"]["missing"], told["proof"]["credit_loops"], told["proof"]["lanes"]) == (0, 0, 1)
    fabric = read_dump(path).fabric
    given = read_guid2lid(tmp_path / "out" / "opensm" / "guid2lid")
    lids = fabric.discovered_lid if fabric.discovered_lid.size else np.zeros(fabric.n_end_ports, np.uint16)
    known = np.flatnonzero((lids > 0) & (fabric.end_switch >= 0))
    assert [given[int(fabric.end_guid[end])][0] for end in known] == fabric.discovered_lid[known].tolist()
    assert told["counts"]["leaf"] > 0


def test_an_engine_without_a_name_is_none(tmp_path, capsys) -> None:
    assert run(["route", str(dump(tmp_path, tree(2).fabric)), "-o", str(tmp_path / "out"), "--engine", ""]) == 2
    assert "expected auto or one of" in capsys.readouterr().err


def test_tables_by_role_are_shown_where_there_are_roles(tmp_path, capsys) -> None:
    """With one role its rows would say again what those of all say."""
    path, roles = dump(tmp_path, tree(2).fabric), tmp_path / "roles"
    roles.write_text("storage *\n")
    assert run(["route", str(path), "-o", str(tmp_path / "out"), "--roles", str(roles)]) == 0
    assert "│ storage" not in capsys.readouterr().out
    roles.write_text("storage host0*\n")
    assert run(["route", str(path), "-o", str(tmp_path / "out"), "--roles", str(roles)]) == 0
    assert "│ storage" in capsys.readouterr().out


@pytest.mark.slow
def test_tables_are_made_for_the_jobs_that_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = "configs/lab-20.yaml"
    demand = tmp_path / "demand.csv"
    demand.write_text("src,dst,weight\n" + "".join(f"gpu{i:02d},gpu{i + 8:02d},3\n" for i in range(8)))
    assert run(["route", spec, "-o", str(tmp_path / "out"), "--for", str(demand), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert "fullest link under the demand 3" in told["subnets"][0]["engine_reason"]
    assert run(["route", spec, "-o", str(tmp_path / "out"), "--for", "allreduce", "--json"]) == 0
    assert "fullest link under the demand" in json.loads(capsys.readouterr().out)["subnets"][0]["engine_reason"]

    assert run(["route", spec, "-o", str(tmp_path / "out"), "--for", "jobs", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["subnets"][0]["engine"] == "balanced"
    assert run(["route", spec, "-o", str(tmp_path / "none"), "--for", "job"]) == 2
    assert "one of any, jobs, permutations, all-pairs" in " ".join(capsys.readouterr().err.split())

    demand.write_text("src,dst,weight\ngpu00,gpu99,3\n")
    assert run(["route", spec, "-o", str(tmp_path / "none"), "--for", str(demand)]) == 2
    assert "demand.csv:2: found no end port 'gpu99'" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "none").exists()


@pytest.mark.slow
def test_ports_get_several_lids_by_the_option_or_by_the_spec(tmp_path, capsys) -> None:
    out, spec = tmp_path / "out", tmp_path / "spec.yaml"
    spec.write_text(Path("configs/lab-20.yaml").read_text() + "routing: {lmc: 2}\n")
    for command, lmc in (([str(spec)], 2), ([str(spec), "--lmc", "1"], 1), ([str(out)], 1), ([str(out), "--lmc=0"], 0)):
        assert run(["route", *command, "-o", str(out), "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert told["proof"]["pairs"] == 462 * 2**lmc
        assert (told["subnets"][0]["multipath"] or {"lids": 1})["lids"] == 2**lmc
        assert f"lmc {lmc}\n" in (out / "opensm" / "opensm.conf").read_text()
        assert run(["verify", str(out), "--path", "gpu00", "gpu15", "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert (told["pairs"], len(told["paths"])) == (462 * 2**lmc, 2 * 2**lmc)
        assert len({path["lid"] for path in told["paths"]}) == 2 * 2**lmc
    assert run(["route", str(spec), "-o", str(out)]) == 0
    assert "paths without a cable in common" in " ".join(capsys.readouterr().out.replace("│", " ").split())


def test_pairs_say_of_which_lids_they_are(tmp_path, capsys) -> None:
    """22 hosts are 462 pairs. Over one link go 11 to the lowest LIDs and 22 to the others: 16.5 in the mean."""
    assert run(["route", "configs/lab-20.yaml", "--lmc", "1", "-o", str(tmp_path / "out")]) == 0
    told = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "924 pairs of host ports, once for each of 2 LIDs" in told
    assert "by LID 11, 22 pairs, 16.5 if all are used alike; figures that do not name LIDs are of the lowest" in told
    assert "pairs over the channels between switches, once for each of 2 LIDs" in told


@pytest.mark.slow
def test_a_missing_cable_is_named_without_a_plan(tmp_path, capsys) -> None:
    whole = grow_tree((2, 4), (1, 2), (1, 2))
    fabric, out = dump(tmp_path, whole.without(whole.inner_links[:1, 0])), tmp_path / "out"
    assert run(["route", str(fabric), "-o", str(out)]) == 0
    said = "has 3 links to spines where 3 of its 3 peers have 4; 1 instead of 2 to "
    assert said in " ".join(capsys.readouterr().out.split())
    (subnet,) = json.loads((out / "plan.json").read_text())["subnets"]
    assert len(subnet["uneven_links"]) == 1 and said in subnet["uneven_links"][0]
    assert run(["verify", str(out)]) == 0
    said_by_verify = capsys.readouterr()
    assert said in " ".join((said_by_verify.out + said_by_verify.err).split())


def test_adaptive_routing_has_rows_beside_the_engines(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import jsonschema

    lab = str(config_root() / "lab-20.yaml")
    assert run(["route", lab, "-o", str(tmp_path / "out"), "--compare", "adaptive"]) == 0
    said = capsys.readouterr().out
    assert "adaptive, 2 roots, split evenly" in said and "the same, at least" in said
    rows = json.loads((tmp_path / "out" / "plan.json").read_text())["subnets"][0]["candidates"]
    assert [row["engine"] for row in rows][-2:] == ["the same, at most", "the same, at least"]
    assert rows[-1]["shifts"] is None and rows[-1]["jobs"] < rows[-2]["jobs"]
    assert "score" in rows[0] and "score" not in rows[-1]
    schema = json.loads((repository / "plan" / "plan.schema.json").read_text())
    jsonschema.validate(json.loads((tmp_path / "out" / "plan.json").read_text()), schema)
