"""A keeper beside a real OpenSM over ibsim: whatever fails, tables read back from the switches hold, or the exit status
says that they do not."""

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import routing
import topo
from plan.cli import run
from plan.inputs import read_routed_argument
from plan.opensm_lab.ibsim import SimulatedSubnet, as_simulated, simulated
from routing.opensm import opensm_files, parse_lfts
from routing.opensm.readme import keeper_files
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


class Site:
    """A subnet under an OpenSM with the files of a plan, which lists the fabric after each sweep, and its keeper."""

    def __init__(self, subnet: SimulatedSubnet, plan_folder: Path, repository: Path) -> None:
        self.subnet, self.plan, self.repository = subnet, plan_folder, repository
        for name in ("files", "cache", "dumps"):
            (subnet.folder / name).mkdir()
        files = opensm_files(read_routed_argument(plan_folder), directory=str(subnet.folder / "files"))
        for name, data in files.items():
            path = subnet.folder / ("cache" if name == "guid2lid" else "files") / name
            path.write_bytes(data if isinstance(data, bytes) else b"".join(data))
        with (subnet.folder / "files" / "opensm.conf").open("a") as conf:
            conf.write("log_flags 0x43\nforce_log_flush TRUE\n")
        self.tables, self.now = subnet.folder / "files" / "lfts", subnet.folder / "dumps" / "opensm-subnet.lst"
        self.log = subnet.folder / "osm.log"
        self.original = self.tables.read_bytes()

    def start(self) -> None:
        """Start OpenSM and wait for its first sweep."""
        seen = self.sweeps()
        folders = {"OSM_CACHE_DIR": f"{self.subnet.folder}/cache/", "OSM_TMP_DIR": f"{self.subnet.folder}/dumps/"}
        self.opensm = subprocess.Popen(
            ["opensm", "-F", "files/opensm.conf", "-f", "osm.log", "-n", "8", "-d", "2", "--dump_files_dir", "dumps"],
            cwd=self.subnet.folder,
            env={**self.subnet.environment, **folders},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_until(lambda: self.sweeps() > seen)

    def stop(self) -> None:
        self.opensm.kill()
        self.opensm.wait()

    def sweeps(self) -> int:
        return self.log.read_text(errors="replace").count("SUBNET UP") if self.log.exists() else 0

    def plug(self, port: int, *, out: bool = False) -> None:
        """Pull a cable or plug it in, and wait until OpenSM has listed the fabric again."""
        before = self.now.stat().st_mtime_ns
        self.subnet.plug(port, out=out)
        wait_until(lambda: self.now.stat().st_mtime_ns != before)
        seen = self.sweeps()
        with suppress(AssertionError):
            wait_until(lambda: self.sweeps() > seen, 3)

    def command(self, *, now: Path | None = None, reload: str = "", words: tuple[str, ...] = ()) -> list[str]:
        return [
            *(sys.executable, "-m", "plan", "keep", str(self.plan), "--now", str(now or self.now)),
            *("--load", str(self.tables), "--switch-life", "0.01"),
            *("--read", f"env LD_PRELOAD={self.subnet.environment['LD_PRELOAD']} dump_fts"),
            *("--reload", reload or f"kill -HUP {self.opensm.pid}", *words),
        ]

    @property
    def environment(self) -> dict[str, str]:
        plain = {key: text for key, text in self.subnet.environment.items() if key != "LD_PRELOAD"}
        return plain | {"PYTHONPATH": str(self.repository)}

    def keep(self, **given: object) -> tuple[int, str]:
        """As heddle-keep.service does it: its exit status, and what it says."""
        done = subprocess.run(self.command(**given), env=self.environment, capture_output=True, text=True, check=False)
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, " ".join((done.stdout + done.stderr).split())

    def in_the_switches(self) -> RoutingTables:
        return parse_lfts(self.subnet.run(["dump_fts"]).encode(), self.subnet.fabric).tables

    def whole(self, down: Sequence[int] = ()) -> bool:
        """Whether the tables read from the switches hold for what is up."""
        up = self.subnet.fabric.without(np.array(down, int))
        proof = routing.prove(routing.Routed(up, self.in_the_switches()))
        return proof.missing == proof.disconnected and not proof.credit_loops


@pytest.fixture
def site(subnet: SimulatedSubnet, plan_folder: Path, repository: Path) -> Iterator[Site]:
    site = Site(subnet, plan_folder, repository)
    site.start()
    try:
        yield site
    finally:
        site.stop()


@pytest.mark.peer(*TOOLS)
@pytest.mark.slow
def test_a_cable_is_pulled_and_plugged_in_again(site: Site) -> None:
    assert site.keep()[0] == 0
    assert site.tables.read_bytes() == site.original  # nothing to do, nothing reloaded
    assert site.sweeps() == 1
    cable = int(site.subnet.fabric.inner[0])
    site.plug(cable, out=True)
    assert not site.whole([cable])
    assert site.keep()[0] == 0
    assert site.whole([cable])
    site.plug(cable)
    assert site.keep()[0] == 0
    assert site.tables.read_bytes() == site.original and site.whole()


@pytest.mark.peer(*TOOLS)
@pytest.mark.slow
def test_a_reload_that_fails_once_is_made_up_for(site: Site) -> None:
    cable = int(site.subnet.fabric.inner[0])
    site.plug(cable, out=True)
    status, said = site.keep(reload="false")
    assert status == 2 and "left with status 1" in said and not site.whole([cable])
    assert site.tables.read_bytes() != site.original  # the file is not what counts
    assert site.keep()[0] == 0
    assert site.whole([cable])


@pytest.mark.peer(*TOOLS)
@pytest.mark.slow
def test_a_keeper_is_killed_between_move_and_reload(site: Site) -> None:
    cable = int(site.subnet.fabric.inner[0])
    site.plug(cable, out=True)
    process = subprocess.Popen(site.command(reload="sleep 60"), env=site.environment, start_new_session=True)
    wait_until(lambda: site.tables.read_bytes() != site.original)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not site.whole([cable])
    assert site.keep()[0] == 0
    assert site.whole([cable])


@pytest.mark.peer(*TOOLS)
@pytest.mark.slow
def test_opensm_is_dead(site: Site) -> None:
    """The exit status says that nothing was loaded; once OpenSM is back, the next pass does the rest."""
    cable = int(site.subnet.fabric.inner[0])
    site.plug(cable, out=True)
    site.stop()
    status, said = site.keep()
    assert status == 2 and "left with status 1" in said and not site.whole([cable])
    site.start()
    assert site.keep()[0] == 0
    assert site.whole([cable])


@pytest.mark.peer(*TOOLS)
@pytest.mark.slow
def test_a_host_is_moved_while_a_link_dies(site: Site, tmp_path: Path) -> None:
    """ibsim moves no plug, so the list says it; the dead link is repaired, and the host is named."""
    fabric, cable = site.subnet.fabric, int(site.subnet.fabric.inner[0])
    site.plug(cable, out=True)
    host = int(fabric.port_of(fabric.ends())[-1])
    leaf = int(fabric.peer_node[host])
    free = next(port for port in range(fabric.port_offset[leaf], fabric.port_offset[leaf + 1]) if fabric.peer[port] < 0)
    peer = fabric.peer.copy()
    peer[fabric.peer[host]], peer[host], peer[free] = -1, free, host
    now = tmp_path / "moved.ibnetdiscover"
    now.write_text(topo.format_ibnetdiscover(replace(fabric, peer=peer).without(np.array([cable]))))
    status, said = site.keep(now=now)
    assert status == 1 and f"{fabric.port_label(host)} has another cable" in said
    assert site.whole([cable])


@pytest.mark.peer(*TOOLS)
@pytest.mark.slow
def test_a_switch_is_replaced_and_a_list_is_cut(site: Site, tmp_path: Path) -> None:
    fabric = site.subnet.fabric
    spine = int(np.flatnonzero(fabric.level[: fabric.n_switches] == fabric.level[: fabric.n_switches].max())[-1])
    for port in np.flatnonzero(fabric.is_inner & (fabric.port_node == spine)).tolist():
        site.subnet.plug(port, out=True)
    guid, port_guid = fabric.node_guid.copy(), fabric.port_guid.copy()
    guid[spine] += np.uint64(1 << 40)
    port_guid[fabric.port_node == spine] += np.uint64(1 << 40)
    now = tmp_path / "replaced.ibnetdiscover"
    now.write_text(topo.format_ibnetdiscover(replace(fabric, node_guid=guid, port_guid=port_guid)))
    status, said = site.keep(now=now)
    assert status == 1 and f"replaced: {fabric.label(spine)} has the GUID" in said
    assert site.whole(np.flatnonzero(fabric.port_node == spine).tolist())
    lines = site.now.read_text().splitlines(keepends=True)
    cut = tmp_path / "cut.lst"
    cut.write_text("".join(lines[: len(lines) // 2]))
    before = site.tables.read_bytes()
    assert site.keep(now=cut)[0] == 2
    assert site.tables.read_bytes() == before


@pytest.mark.peer(*TOOLS)
@pytest.mark.slow
def test_the_resident_keeper_repairs_by_itself(site: Site, tmp_path: Path) -> None:
    metrics = tmp_path / "heddle.prom"
    words = ("--every", "60", "--metrics", str(metrics))
    cable = int(site.subnet.fabric.inner[0])
    process = subprocess.Popen(site.command(words=words), env=site.environment, start_new_session=True)
    try:
        wait_until(metrics.exists)
        assert "heddle_keeper_holds 1\n" in metrics.read_text()
        begin = time.monotonic()
        site.subnet.plug(cable, out=True)
        wait_until(lambda: "heddle_keeper_cables_down 1\n" in metrics.read_text())
        logging.info("repaired tables were in all switches %.2f s after the cable was pulled", time.monotonic() - begin)
        assert "heddle_keeper_holds 1\n" in metrics.read_text() and site.whole([cable])
        site.subnet.plug(cable)
        wait_until(lambda: "heddle_keeper_cables_down 0\n" in metrics.read_text())
        assert site.tables.read_bytes() == site.original and site.whole()
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.peer("systemd-analyze")
def test_systemd_takes_the_units(tmp_path: Path) -> None:
    for name, text in keeper_files(str(tmp_path)).items():
        (tmp_path / name).write_text(text)
    units = [str(tmp_path / name) for name in keeper_files(str(tmp_path))]
    done = subprocess.run(["systemd-analyze", "verify", *units], capture_output=True, text=True, check=False)
    assert "heddle-keep" not in done.stderr, done.stderr
