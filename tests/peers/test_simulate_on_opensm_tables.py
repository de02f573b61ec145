"""`plan simulate` on what a real OpenSM leaves behind: its list of links and its tables, as files."""

import json
from pathlib import Path

import numpy as np
import pytest

from helpers.opensm_daemon import run_opensm
from helpers.twins import twin
from plan.cli import run
from routing.routed import Routed
from routing.tables import select_endpoints
from simulate import play
from simulate.traffic.collectives.algorithms import schedule
from simulate.traffic.network import Network
from topo.dumps.fabric_file import read_dump

pytestmark = pytest.mark.peer("ibsim", "opensm", "ibdmchk", "usr/lib/*/umad2sim/libumad2sim.so")

SIZE = 2**20
WORKLOAD = "jobs:\n- {name: a, kind: collective, rank: adapter, collective: all-to-all, size: 1 MiB, nodes: [%s]}\n"


@pytest.mark.parametrize("engine", ["minhop", "dfsssp"])
def test_tables_and_links_that_opensm_dumps(engine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fabric = twin("fdr10-mesh")
    swept = run_opensm(fabric, tmp_path, engine)
    ends = select_endpoints(fabric, swept.tables)[:40]
    # ibsim gives ports GUIDs of its own; the LIDs in both files are those of this run.
    simulated = read_dump(swept.folder / "opensm-subnet.lst").fabric
    guid_of = dict(zip(simulated.discovered_lid.tolist(), simulated.end_guid.tolist(), strict=True))
    names = [f"0x{guid_of[lid]:016x}" for lid in swept.tables.lid[ends].tolist()]
    workload = tmp_path / "w.yaml"
    workload.write_text(WORKLOAD % ", ".join(f'"{name}"' for name in names))

    files = [swept.folder / "opensm-subnet.lst", "--tables", swept.folder / "opensm-lfts.dump"]
    assert run(["simulate", *map(str, files), "-w", str(workload), "--latency-ns", "0", "--json"]) == 0

    told = json.loads(capsys.readouterr().out)
    flows = schedule("all-to-all", "shift", len(ends)).flows(SIZE).placed(np.asarray(ends))
    expected = play(Network.of(Routed(fabric, swept.tables), latency_s=0), flows).makespan_s
    assert told["makespan_s"] == pytest.approx(expected, rel=1e-9)
    assert told["jobs"][0]["ranks"] == 40
