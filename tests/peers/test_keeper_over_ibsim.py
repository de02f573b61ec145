"""The recipe that mends tables: a cable is pulled in ibsim, OpenSM sweeps, the script of the plan does the rest."""

import logging
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import routing
import topo
from plan.cli import run
from plan.inputs import read_routed_argument
from plan.opensm_lab.ibsim import SimulatedSubnet, as_simulated, simulated
from routing.opensm import opensm_files, parse_lfts
from routing.opensm.keeper import keeper_files
from routing.tables import RoutingTables

TOOLS = ("ibsim", "opensm", "ibnetdiscover", "usr/lib/*/umad2sim/libumad2sim.so")


def wait_until(true: Callable[[], bool], seconds: float = 60.0) -> float:
    """Wait, and return for how long."""
    begin = time.monotonic()
    while not true():
        assert time.monotonic() - begin < seconds
        time.sleep(0.02)
    return time.monotonic() - begin


@pytest.fixture(params=["lab-20", pytest.param("fire-flyer-2", marks=pytest.mark.nightly)])
def plan_folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """What `plan route` writes for a cluster as ibsim has it."""
    dump = tmp_path / "whole.ibnetdiscover"
    dump.write_text(topo.format_ibnetdiscover(as_simulated(topo.preset(request.param).fabric)))
    assert run(["route", str(dump), "-o", str(tmp_path / "plan")]) == 0
    return tmp_path / "plan"


@pytest.fixture
def subnet(plan_folder: Path, tmp_path: Path) -> Iterator[SimulatedSubnet]:
    with simulated(topo.read_fabric(plan_folder / "fabric.json"), tmp_path / "subnet") as subnet:
        yield subnet


def daemon(subnet: SimulatedSubnet, plan_folder: Path) -> subprocess.Popen:
    """OpenSM with the files of a plan, which lists the fabric after each sweep; its log is flushed line by line."""
    for name in ("files", "cache", "dumps"):
        (subnet.folder / name).mkdir()
    files = opensm_files(read_routed_argument(plan_folder), directory=str(subnet.folder / "files"))
    for name, data in files.items():
        path = subnet.folder / ("cache" if name == "guid2lid" else "files") / name
        path.write_bytes(data if isinstance(data, bytes) else b"".join(data))
    folders = {"OSM_CACHE_DIR": f"{subnet.folder}/cache/", "OSM_TMP_DIR": f"{subnet.folder}/dumps/"}
    command = ["opensm", "-F", "files/opensm.conf", "-e", "-f", "osm.log", "-D", "0x43", "-n", "8", "-d", "2"]
    return subprocess.Popen(
        [*command, "--dump_files_dir", str(subnet.folder / "dumps")],
        cwd=subnet.folder,
        env={**subnet.environment, **folders},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


@pytest.mark.peer(*TOOLS)
@pytest.mark.slow
def test_a_cable_is_pulled_and_plugged_in_again(
    subnet: SimulatedSubnet, plan_folder: Path, tmp_path: Path, repository: Path
) -> None:
    opensm = daemon(subnet, plan_folder)
    log, whole = subnet.folder / "osm.log", subnet.fabric

    def sweeps() -> int:
        return log.read_text(errors="replace").count("SUBNET UP") if log.exists() else 0

    tables = subnet.folder / "files" / "lfts"
    original = tables.read_bytes()
    shim = tmp_path / "bin"
    shim.mkdir()
    (shim / "plan").write_text(f'#!/bin/sh\nPYTHONPATH="{repository}" exec "{sys.executable}" -m plan "$@"\n')
    (shim / "plan").chmod(0o755)
    environment = os.environ | {
        "PATH": f"{shim}:{os.environ['PATH']}",
        "PLAN": str(plan_folder),
        "NOW": str(subnet.folder / "dumps" / "opensm-subnet.lst"),
        "TABLES": str(tables),
        "STATE": str(tmp_path / "state"),
        "RELOAD": f"kill -HUP {opensm.pid}",
    }

    def keep() -> None:
        """As heddle-repair.service does it."""
        subprocess.run(["sh", subnet.folder / "files" / "heddle-repair"], env=environment, check=True)

    def in_the_switches() -> RoutingTables:
        return parse_lfts(subnet.run(["dump_fts"]).encode(), whole).tables

    try:
        wait_until(lambda: sweeps() > 0)
        keep()
        assert tables.read_bytes() == original  # nothing to do, nothing reloaded
        assert sweeps() == 1
        cable = int(whole.inner[0])
        begin = time.monotonic()
        subnet.plug(cable, out=True)
        seen = wait_until(lambda: sweeps() > 1)
        keep()
        wait_until(lambda: sweeps() > 2)
        took = time.monotonic() - begin
        left = whole.without(np.array([cable]))
        loaded = in_the_switches()
        wanted = read_routed_argument(tmp_path / "state" / "repaired").tables
        assert len(routing.repairs.differing_entries(whole, wanted, loaded)) == 0
        assert routing.prove(routing.Routed(left, loaded)).holds
        assert not routing.prove(routing.Routed(left, read_routed_argument(plan_folder).tables)).holds
        report = (tmp_path / "state" / "report").read_text()
        assert re.search(r" cables as planned; 1 missing", report)
        logging.info("OpenSM had swept after %.2f s, mended tables were in all switches after %.2f s", seen, took)
        subnet.plug(cable)
        wait_until(lambda: sweeps() > 3)
        keep()
        assert tables.read_bytes() == original
        wait_until(lambda: sweeps() > 4)
        assert (
            len(routing.repairs.differing_entries(whole, read_routed_argument(plan_folder).tables, in_the_switches()))
            == 0
        )
    finally:
        opensm.kill()
        opensm.wait()


@pytest.mark.peer("systemd-analyze")
def test_systemd_takes_the_units(tmp_path: Path) -> None:
    for name, text in keeper_files(str(tmp_path)).items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755 if name == "heddle-repair" else 0o644)
    units = [str(tmp_path / f"heddle-repair.{kind}") for kind in ("service", "path", "timer")]
    done = subprocess.run(["systemd-analyze", "verify", *units], capture_output=True, text=True, check=False)
    assert "heddle-repair" not in done.stderr, done.stderr
