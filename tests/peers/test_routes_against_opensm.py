"""Real machines, routed by us: OpenSM loads the tables entry for entry, and ibdmchk judges them as we do."""

import json
from dataclasses import replace

import numpy as np
import pytest

import routing
from helpers.opensm_daemon import level_of_path, serving
from helpers.presets import subnets
from helpers.strategies import nightly, ring
from helpers.twins import MACHINES, path, twin
from plan.cli import run
from plan.opensm_lab.ibsim import as_simulated, run_ibdmchk, simulated
from routing.lanes.fit import fit_lanes
from routing.opensm.files import opensm_files
from routing.proof import prove
from routing.routed import Routed
from topo.dumps.ibnetdiscover import format_ibnetdiscover

pytestmark = pytest.mark.peer("ibsim", "opensm", "ibdmchk", "saquery", "usr/lib/*/umad2sim/libumad2sim.so")

SMALL = ("frame", "ndr-pod", "fdr10-mesh", "zone")
ENGINES = ("fat-tree", "balanced", "minhop", "updn", "dfsssp", "shortest")
LARGEST = ("hdr-pod", "edr-frames", "qdr-directors", "two-frames", "two-zones", "a100-superpod")
CASES = [nightly(name, "auto") if name in LARGEST else (name, "auto") for name in MACHINES]
CASES += [
    (name, engine) if (row + column) % 2 else nightly(name, engine)
    for row, name in enumerate(SMALL)
    for column, engine in enumerate(ENGINES)
]
"""By day every second engine on each machine, so that each engine meets two."""


@pytest.mark.parametrize(("name", "engine"), CASES)
def test_opensm_loads_our_tables_and_ibdmchk_agrees(name, engine, tmp_path) -> None:
    fabric = twin(name)
    tables = routing.route(fabric, engine).tables
    with simulated(fabric, tmp_path) as subnet:
        files = opensm_files(Routed(as_simulated(fabric), tables), directory=str(tmp_path / "files"))
        run = subnet.opensm("file", files)
        verdict = run_ibdmchk(run)

    assert run.errors == run.notes == ()
    assert np.array_equal(run.tables.lid, tables.lid), "the LIDs that the machine has"
    assert np.array_equal(run.tables.lft, tables.lft)
    proof = prove(
        Routed(fabric, fit_lanes(fabric, tables, 1)), "adapters"
    )  # ibdmchk counts aggregation nodes, and one lane
    assert (verdict.pairs, verdict.missing) == (proof.pairs, proof.missing)
    assert verdict.hops == {length: count for length, count in enumerate(proof.hops.tolist()) if count}
    assert verdict.loops == (proof.credit_loops > 0 if proof.missing == 0 else None), "it does not look otherwise"
    if engine in ("auto", "balanced"):
        assert (verdict.missing, verdict.loops) == (0, False)


def test_each_path_is_answered_with_its_lane(tmp_path) -> None:
    """The tables of shortest need several lanes on a dragonfly; whoever asks for a path is told the right one."""
    fabric = as_simulated(subnets("dragonfly")[0])
    tables = routing.route(fabric, "shortest").tables
    assert tables.path_sl is not None
    assert prove(Routed(fabric, tables), "adapters").credit_loops == 0
    files = opensm_files(Routed(fabric, tables), directory=str(tmp_path / "files"))
    whole = {name: data if isinstance(data, bytes) else b"".join(data) for name, data in files.items()}
    ends = np.flatnonzero(tables.lid)
    ends = ends[ends >= fabric.n_switches]
    rng = np.random.default_rng(0)
    sources, goals = (rng.choice(ends, 20_000) for _ in range(2))
    wanted = tables.path_sl[fabric.end_switch[sources], tables.lid[goals]]
    levels = np.unique(wanted[sources != goals]).tolist()
    assert len(levels) > 2
    with simulated(fabric, tmp_path) as subnet, serving(subnet, whole):
        for level in levels:
            for pair in np.flatnonzero((wanted == level) & (sources != goals))[:2].tolist():
                lids = int(tables.lid[sources[pair]]), int(tables.lid[goals[pair]])
                assert level_of_path(subnet, *lids) == level


@pytest.mark.parametrize("lanes", [1, 8])
def test_a_rehearsal_loads_what_was_written(lanes, tmp_path, capsys, monkeypatch) -> None:
    engine = ["--engine", "dfsssp"] if lanes > 1 else []
    command = ["route", str(path("ndr-pod")), "-o", str(tmp_path / "out"), "--rehearse", *engine]
    assert run([*command, "--endpoints", "adapters", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["rehearsal"]
    assert (told["holds"], told["differing"], told["lids"], told["errors"]) == (True, 0, 0, [])
    assert (told["ibdmchk"]["pairs"], told["ibdmchk"]["missing"]) == (582 * 581, 0), "HCAs and aggregation nodes"
    assert told["ibdmchk"]["loops"] == (lanes > 1), "it knows one lane"

    def spoilt(routed, **options):
        files = opensm_files(routed, **options)
        lines = b"".join(files["lfts"]).replace(b" 045 # portguid", b" 046 # portguid", 3)
        return files | {"lfts": lines}

    monkeypatch.setattr("plan.opensm_lab.trials.opensm_files", spoilt)
    assert run(command) == 1
    assert "NOT AS PLANNED, 3 of" in " ".join(capsys.readouterr().out.split())


def test_plan_route_sets_ours_beside_the_engines_of_opensm(tmp_path, capsys) -> None:
    fabric = path("ndr-pod")
    command = ["route", str(fabric), "-o", str(tmp_path / "out"), "--compare", "opensm"]
    assert run([*command, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    ours, *theirs = told["opensm"]
    assert [row["engine"] for row in theirs] == ["minhop", "updn", "ftree", "dfsssp", "nue"]
    assert (ours["missing"], ours["credit_loops_on_one_lane"], ours["lanes"]) == (0, 0, 1)
    assert all(ours["ebb"] > 0.995 * row["ebb"] for row in theirs if not row.get("missing", 1))
    assert next(row for row in theirs if row["engine"] == "dfsssp")["lanes"] == 2
    assert "opensm" not in json.loads((tmp_path / "out" / "plan.json").read_text()), "which depends on the fabric alone"


def test_an_engine_that_fails_is_a_row_that_says_so(tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.setattr("plan.opensm_lab.trials.PEERS", {"nonsense": (), "minhop": ()})
    fabric = path("fdr10-mesh")
    assert run(["route", str(fabric), "-o", str(tmp_path / "out"), "--compare", "opensm"]) == 0
    said = capsys.readouterr().out
    assert any("minhop" in line for line in said.splitlines())
    assert "nonsense fails: OpenSM's engine nonsense did not route this fabric" in " ".join(said.split())


def test_a_fabric_that_cannot_be_simulated_is_a_table_that_says_so(tmp_path, capsys) -> None:
    """ibsim counts port GUIDs up from the node's, so the adapter after switch 0 would get the GUID of switch 1."""
    fabric = ring().fabric
    guids = fabric.node_guid.copy()
    guids[fabric.n_switches] = guids[1] - 1
    (tmp_path / "fabric").write_text(format_ibnetdiscover(replace(fabric, node_guid=guids)))
    assert run(["route", str(tmp_path / "fabric"), "-o", str(tmp_path / "out"), "--compare", "opensm"]) == 0
    assert "ibsim would give two end ports the GUID" in " ".join(capsys.readouterr().out.split())
