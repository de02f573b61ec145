"""ibdmsh counts the same paths on the same channels as we do, and judges permutations alike."""

import subprocess
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from helpers.clusters import tree, zoned
from helpers.ibdmchk import write_ibdmchk_inputs
from helpers.ibdmsh import LOADS, TIMES, format_stages, parse_judgement, parse_loads
from routing.engines.base import ENGINES
from routing.quality.figures import congestion, permutations, shifts
from routing.routed import Routed
from routing.tables import RoutingTables, select_endpoints
from simulate.traffic.flows import Flows
from simulate.traffic.network import Network
from topo.fabric import Fabric

pytestmark = pytest.mark.peer("ibdmsh")


def ibdmsh(folder: Path, fabric: Fabric, tables: RoutingTables, partners: NDArray[np.int32], script: str) -> str:
    write_ibdmchk_inputs(folder, fabric, tables)
    lid = tables.lid[select_endpoints(fabric, tables)]
    stages = [np.stack([lid, lid[to]], axis=1)[to >= 0] for to in partners]
    (folder / "stages").write_text(format_stages(stages))
    (folder / "script.tcl").write_text(script)
    command = ["ibdmsh", "script.tcl"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False).stdout


@pytest.mark.parametrize(
    ("fabric", "engine"),
    [
        (tree(120, leaves=6, spines=4), "fat-tree"),
        (tree(120, leaves=6, spines=20), "balanced"),
        (zoned("spread", leaves=8, spines=4, n_gpus=120, n_storage=20, ports=8), "balanced"),
        (zoned(), "balanced"),
    ],
    ids=["tapered", "balanced", "zones", "fire-flyer-2"],
)
def test_every_channel_carries_the_same_paths(fabric: Fabric, engine: str, tmp_path: Path) -> None:
    tables = ENGINES[engine].route(fabric)
    ranks = select_endpoints(fabric, tables)
    rng = np.random.default_rng(0)
    partners = np.concatenate([permutations(len(ranks), 4, rng), shifts(len(ranks), 3)])

    theirs = parse_loads(ibdmsh(tmp_path, fabric, tables, partners, LOADS), fabric)

    network = Network.of(Routed(fabric, tables), latency_s=0)
    inner = (fabric.port_node < fabric.n_switches) & (fabric.peer_node >= 0) & (fabric.peer_node < fabric.n_switches)
    to_adapter = (fabric.port_node < fabric.n_switches) & ~inner  # these it leaves out
    for to, counted in zip(partners, theirs, strict=True):
        flows = Flows.of(ranks[to >= 0], ranks[to[to >= 0]], 1.0)
        routes = network.routes(flows.src, flows.dst, flows.sl)
        ours = np.bincount(routes.resource, minlength=fabric.n_ports)
        np.testing.assert_array_equal(np.where(to_adapter, 0, ours), counted)
    most, _, lost = congestion(Routed(fabric, tables), ranks, partners)
    assert most.tolist() == theirs[:, inner].max(axis=1).tolist()
    assert not lost.any()


def test_phases_are_judged_alike(tmp_path: Path) -> None:
    fabric = tree(800, leaves=40, spines=20)
    tables = ENGINES["fat-tree"].route(fabric)
    ranks = select_endpoints(fabric, tables)
    for name, partners, expected in (
        ("shifts", shifts(800, 799), {1: 799}),
        ("random", permutations(800, 100, np.random.default_rng(0)), None),
    ):
        (tmp_path / name).mkdir()
        judged = parse_judgement(ibdmsh(tmp_path / name, fabric, tables, partners, TIMES))
        most, _, _ = congestion(Routed(fabric, tables), ranks, partners)
        worst, count = np.unique(most, return_counts=True)

        assert judged.paths == np.count_nonzero(partners >= 0)
        assert judged.stages == dict(zip(worst.tolist(), count.tolist(), strict=True))
        assert expected is None or judged.stages == expected
