"""Runs a real OpenSM on a fabric: ibsim simulates the hardware, OpenSM sweeps it, and its dumps are read back.

    with simulated(fabric, folder) as subnet:
        run = subnet.opensm("file", {"lfts": format_lfts(fabric, tables)})
        report = run_ibdmchk(run)

Tried with Debian's opensm 3.3.23, ibsim-utils 0.10, libumad2sim0, infiniband-diags 44 and ibutils 1.5.7. The tables
are those of the fabric that was given, end port by end port, although ibsim renumbers port GUIDs (`as_simulated`).
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from threading import Thread
from typing import IO, Any

import numpy as np

from plan.signals import tidied
from routing import RoutingTables
from routing.opensm import IbdmchkReport, parse_report, read_lfts
from topo import Fabric, Kind, ToolError, format_ibnetdiscover

TOOLS = {"opensm": "opensm", "ibsim": "ibsim-utils", "ibnetdiscover": "infiniband-diags", "ibdmchk": "ibutils"}
"""Programs, and the Debian packages that hold them."""

UMAD2SIM = "umad2sim/libumad2sim.so"
"""Library of libumad2sim0 that diverts management datagrams to ibsim."""

SEARCH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))
"""Debian's opensm and diagnostics are in sbin, which is not on every user's PATH."""

OPTION = {
    "opensm.conf": "--config",
    "lfts": "--lfts_file",
    "root_guids": "--root_guid_file",
    "cn_guids": "--cn_guid_file",
    "io_guids": "--io_guid_file",
    "guid_routing_order": "--guid_routing_order_file",
    "partitions.conf": "--Pconfig",
    "qos-policy.conf": "--qos_policy_file",
}
"""Names of OpenSM's files, and the options that make OpenSM read them."""

SOCKET = count()


@dataclass(frozen=True)
class OpensmRun:
    """What one sweep of OpenSM left behind."""

    tables: RoutingTables
    notes: tuple[str, ...]
    """What could not be used of the dumped tables."""
    seconds: float
    """From finding itself master to tables on all switches, by OpenSM's own log: the routing and nothing else."""
    log: str
    folder: Path
    """Holds ``opensm-lfts.dump``, ``opensm-subnet.lst``, ``opensm.fdbs``, ``opensm.mcfdbs`` and the rest."""

    @property
    def errors(self) -> tuple[str, ...]:
        """What the log reports as errors."""
        return _errors(self.log)


def missing_tools() -> tuple[str, ...]:
    """Return what is not installed, as ``program (Debian package)``."""
    missing = [f"{tool} ({package})" for tool, package in TOOLS.items() if shutil.which(tool, path=SEARCH) is None]
    if _umad2sim() is None:
        missing.append(f"{UMAD2SIM} (libumad2sim0)")
    return tuple(missing)


def _umad2sim() -> Path | None:
    return next(
        (path for root in ("/usr/lib", "/usr/lib64") for path in sorted(Path(root).glob(f"*/{UMAD2SIM}"))), None
    )


def as_simulated(fabric: Fabric) -> Fabric:
    """Return the fabric as ibsim makes it: an adapter's port GUID is its node GUID + port number, LIDs are unknown.

    ibsim takes no notice of the port GUIDs in its file. Node, port and end port numbers stay what they are. ToolError
    if two port GUIDs would be the same.
    """
    adapter = fabric.kind[fabric.port_node] != Kind.SWITCH
    number = np.where(adapter, fabric.port_number, 0).astype(np.uint64)
    twin = replace(fabric, port_guid=fabric.node_guid[fabric.port_node] + number, discovered_lid=np.zeros(0, np.uint16))
    guids, times = np.unique(twin.end_guid, return_counts=True)
    if (times > 1).any():
        raise ToolError(f"ibsim would give two end ports the GUID 0x{int(guids[times > 1][0]):016x}")
    return twin


@contextmanager
def simulated(fabric: Fabric, folder: Path, *, timeout_s: float = 120.0) -> Iterator[SimulatedSubnet]:
    """Simulate a fabric with ibsim, and its files in this folder, as long as the block lasts.

    At least one adapter must be plugged in at its port 1: OpenSM runs there. ToolError if a program is missing, or
    ibsim does not take the fabric or is not ready after ``timeout_s``.
    """
    if missing := missing_tools():
        raise ToolError(f"not installed: {', '.join(missing)}")
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "fabric.ibnetdiscover").write_text(format_ibnetdiscover(fabric))
    # Room for what ibsim counts of its own, the ports 0; the tables go up to the highest unicast LID.
    room = {"-N": fabric.n_nodes + 8, "-S": fabric.n_switches + 8, "-P": fabric.n_ports + fabric.n_nodes + 64}
    options = [text for option, value in {**room, "-L": 49152}.items() for text in (option, str(value))]
    environment = {**os.environ, "PATH": SEARCH, "IBSIM_SOCKNAME": f"heddle-{os.getpid()}-{next(SOCKET)}"}
    log = folder / "ibsim.log"
    command = ["stdbuf", "-oL", "ibsim", "-s", *options, "fabric.ibnetdiscover"]
    with log.open("wb") as output, _started(command, folder, environment, output, subprocess.PIPE) as simulator:
        _await_ready(simulator, log, timeout_s)
        assert simulator.stdin is not None
        yield SimulatedSubnet(fabric, folder, {**environment, "LD_PRELOAD": str(_umad2sim())}, simulator.stdin)


def _await_ready(simulator: subprocess.Popen[bytes], log: Path, timeout_s: float) -> None:
    limit = time.monotonic() + timeout_s
    while b"Network simulator ready" not in log.read_bytes():
        if simulator.poll() is not None or time.monotonic() > limit:
            last = log.read_text(errors="replace").strip().splitlines()[-3:]
            raise ToolError(f"ibsim does not simulate this fabric: {' / '.join(last) or 'it says nothing'}")
        time.sleep(0.02)


@contextmanager
def _started(
    command: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    output: int | IO[bytes],
    stdin: int = subprocess.DEVNULL,
) -> Iterator[subprocess.Popen[Any]]:
    """Start a program in a process group of its own; at the end kill the group, which holds nothing worth saving."""
    process = subprocess.Popen(
        list(command),
        cwd=folder,
        env=dict(environment),
        stdin=stdin,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        with tidied(lambda: _kill(process.pid)):
            yield process
    finally:
        _kill(process.pid)
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe:
                with suppress(BrokenPipeError):
                    pipe.close()


def _kill(group: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


@dataclass(frozen=True)
class SimulatedSubnet:
    """A fabric that ibsim simulates right now; any program that speaks to libibumad can be run on it."""

    fabric: Fabric
    folder: Path
    environment: Mapping[str, str]
    console: IO[bytes]

    def plug(self, port: int, *, out: bool = False) -> None:
        """Pull the cable in a port of a switch out, or plug it in again; switches at its ends tell OpenSM."""
        guid = int(self.fabric.node_guid[self.fabric.port_node[port]])
        word = "Unlink" if out else "ReLink"
        self.console.write(f'{word} "S-{guid:016x}"[{self.fabric.port_number[port]}]\n'.encode())
        self.console.flush()

    def run(self, command: Sequence[str], *, timeout_s: float = 120.0) -> str:
        """Run a program on the subnet and return what it prints; ToolError if it takes too long or fails."""
        return _run(command, self.folder, self.environment, timeout_s)

    def ibnetdiscover(self) -> str:
        """Return the subnet as the real ibnetdiscover finds it."""
        text = self.run(["ibnetdiscover"])
        return text[text.index("#\n# Topology file") :]  # above it, umad2sim says where it is attached

    def opensm(
        self,
        engine: str = "minhop",
        files: Mapping[str, bytes | Iterable[bytes]] | None = None,
        *,
        options: Sequence[str] = (),
        timeout_s: float = 600.0,
    ) -> OpensmRun:
        """Sweep the subnet once with a real OpenSM, whose engine has no fallback; ToolError if it does not route it.

        ``files`` are for OpenSM, whole or in chunks, under their names in `OPTION`; ``guid2lid`` goes into its cache.
        """
        folders = {name: self.folder / name for name in ("files", "cache", "dumps")}
        for folder in folders.values():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        given: list[str] = []
        for name, content in (files or {}).items():
            path = folders["cache" if name == "guid2lid" else "files"] / name
            with path.open("wb") as file:
                file.writelines([content] if isinstance(content, bytes) else content)
            if name in OPTION:
                given += [OPTION[name], str(path)]
        log = self.folder / "opensm.log"
        log.unlink(missing_ok=True)
        environment = {"OSM_CACHE_DIR": f"{folders['cache']}/", "OSM_TMP_DIR": f"{folders['dumps']}/"}
        # -n 8: with unlimited datagrams on the wire ibsim hangs. -D 0x43: errors, routing, dumps.
        command = ["opensm", "-o", "-e", "-f", str(log), "-D", "0x43", "--dump_files_dir", str(folders["dumps"])]
        command += ["-n", "8", *given, "-R", f"{engine},no_fallback", *options]

        def has_failed() -> bool:  # it would try its engine again every ten seconds for ever
            return log.exists() and b"No routing engine able to" in log.read_bytes()

        _run(command, self.folder, {**self.environment, **environment}, timeout_s, stop=has_failed)
        text = log.read_text(errors="replace")
        seconds = _routing_seconds(text, engine)
        tables, notes = read_lfts(folders["dumps"] / "opensm-lfts.dump", as_simulated(self.fabric))
        return OpensmRun(replace(tables, engine=engine), notes, seconds, text, folders["dumps"])


def _run(
    command: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    timeout_s: float,
    *,
    stop: Callable[[], bool] = lambda: False,
    keep: Callable[[bytes], bool] = lambda line: True,
    any_status: bool = False,
) -> str:
    """Run a program and return those lines of its output that ``keep`` wants.

    It is ended early once ``stop``, which is polled, is true. ToolError if it takes longer than ``timeout_s``, or
    leaves with another status than 0 (unless ``any_status`` will do).
    """
    end = ""

    def watch() -> None:
        nonlocal end
        limit = time.monotonic() + timeout_s
        while process.poll() is None and not end:
            end = "stopped" if stop() else "late" if time.monotonic() > limit else ""
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.05)
        _kill(process.pid)

    with _started(command, folder, environment, subprocess.PIPE) as process:
        watcher = Thread(target=watch, daemon=True)
        watcher.start()
        text = b"".join(line for line in process.stdout or () if keep(line)).decode(errors="replace")
        watcher.join()
    if end == "late":
        raise ToolError(f"{command[0]} has not finished after {timeout_s:g} s")
    if process.returncode != 0 and not (end or any_status):
        last = " / ".join(text.strip().splitlines()[-3:])
        raise ToolError(f"{command[0]} left with status {process.returncode}: {last}")
    return text


def _routing_seconds(log: str, engine: str) -> float:
    """Return the time that the engine took, and refuse a log that does not say that it routed every switch."""
    done = re.search(rf"^\w+ +\d+ ([\d:]+ \d+) .*: {engine} tables configured on all switches", log, re.MULTILINE)
    if done is None:
        told = " / ".join(dict.fromkeys(_errors(log))) or "no reason given"
        raise ToolError(f"OpenSM's engine {engine} did not route this fabric: {told}")
    start = re.search(r"^\w+ +\d+ ([\d:]+ \d+) .*Entering MASTER state", log[: done.start()], re.MULTILINE)
    return (_seconds(done.group(1)) - _seconds(start.group(1))) % 86400 if start else float("nan")


def _errors(log: str) -> tuple[str, ...]:
    """Return the lines of level 1, errors, but for the one that ``no_fallback`` is no engine, which it never is."""
    lines = re.findall(r" 0x01 -> (.*)", log)
    return tuple(line for line in lines if "no_fallback" not in line)


def _seconds(stamp: str) -> float:
    clock, _, micros = stamp.partition(" ")
    hours, minutes, seconds = clock.split(":")
    return int(hours) * 3600 + int(minutes) * 60 + int(seconds) + int(micros) / 1e6


def run_ibdmchk(run: OpensmRun, *, timeout_s: float = 900.0) -> IbdmchkReport:
    """Let ibdmchk walk all paths of a run and look for credit loops on one lane. It crashes after its report."""
    names = {"-s": "opensm-subnet.lst", "-f": "opensm.fdbs", "-m": "opensm.mcfdbs"}
    command = ["ibdmchk", *(text for option, name in names.items() for text in (option, str(run.folder / name)))]
    missing = count()

    def keep(line: bytes) -> bool:
        """Keep a few of the two lines for every missing path, which can be gigabytes."""
        return not line.startswith((b"-E- Unassigned", b"-E- Fail to find")) or next(missing) < 10

    environment = {**os.environ, "PATH": SEARCH}
    try:
        return parse_report(_run(command, run.folder, environment, timeout_s, keep=keep, any_status=True))
    except ValueError as error:
        raise ToolError(str(error)) from None
