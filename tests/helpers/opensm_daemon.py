"""A real OpenSM over ibsim: one that sweeps once, and one that stays and answers queries."""

import re
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from plan.opensm_lab.ibsim import OpensmRun, SimulatedSubnet, simulated
from topo.fabric import Fabric


def run_opensm(
    fabric: Fabric,
    folder: Path,
    engine: str = "minhop",
    files: Mapping[str, bytes | Iterable[bytes]] | None = None,
    *,
    options: Sequence[str] = (),
    timeout_s: float = 600.0,
) -> OpensmRun:
    """Simulate a fabric, sweep it once with OpenSM, and take both down again; see `SimulatedSubnet.opensm`."""
    with simulated(fabric, folder) as subnet:
        return subnet.opensm(engine, files, options=options, timeout_s=timeout_s)


@contextmanager
def serving(subnet: SimulatedSubnet, files: Mapping[str, bytes]) -> Iterator[None]:
    """OpenSM as a daemon that answers queries, as its own options file has it."""
    for name in ("files", "cache", "dumps"):
        (subnet.folder / name).mkdir(exist_ok=True)
    for name, data in files.items():
        (subnet.folder / ("cache" if name == "guid2lid" else "files") / name).write_bytes(data)
    log = subnet.folder / "daemon.log"
    environment = {"OSM_CACHE_DIR": f"{subnet.folder}/cache/", "OSM_TMP_DIR": f"{subnet.folder}/dumps/"}
    conf, dumps = str(subnet.folder / "files" / "opensm.conf"), str(subnet.folder / "dumps")
    command = [
        "opensm",
        "-F",
        conf,
        "-e",
        "-f",
        str(log),
        "-D",
        "0x43",
        "-n",
        "8",
        "-d",
        "2",
        "--dump_files_dir",
        dumps,
    ]
    daemon = subprocess.Popen(
        command,
        cwd=subnet.folder,
        env={**subnet.environment, **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(1200):
            if log.exists() and "SUBNET UP" in log.read_text():
                break
            time.sleep(0.1)
        else:
            pytest.fail(f"OpenSM does not come up:\n{log.read_text() if log.exists() else ''}")
        assert "file tables configured on all switches" in log.read_text()
        yield
    finally:
        daemon.kill()
        daemon.wait()


def level_of_path(subnet: SimulatedSubnet, source: int, destination: int) -> int:
    """The service level that a host is told which asks for a path, by LIDs."""
    patient = ["-t", "30000"]  # ms; one second, saquery's own, is too short on a busy machine
    answer = subnet.run(["saquery", *patient, "-p", "--src-to-dst", f"{source}:{destination}"])
    assert f"dlid....................{destination}\n" in answer
    return int(re.search(r"\tsl\.+0x([0-9a-f]+)", answer)[1], 16)
