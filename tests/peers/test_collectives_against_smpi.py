"""Collectives against SimGrid's SMPI, which runs a program of MPI: one after the other, over the same routes.

Both mean the same where an algorithm is the same and latencies are none: SMPI asks no receiver whether it is ready. Its
allreduce of halving and doubling, that of MPICH, begins with the nearest rank, here with the farthest: over one switch
that is the same, in a tree it is shorter where ranks are mapped in order.
"""

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.benchmarks import load
from helpers.strategies import nightly
from routing.routed import Routed
from simulate import play
from simulate.traffic.collectives.algorithms import schedule
from simulate.traffic.network import Network

pytestmark = pytest.mark.peer("smpicc", "smpirun")

OPTIONS = (
    *("network/model:CM02", "network/crosstraffic:0", "network/TCP-gamma:0", "network/weight-S:0"),
    *("network/optim:Full", "smpi/simulate-computation:no"),
)
ALGORITHMS = [
    ("allreduce", "ring", "allreduce:lr"),
    ("allreduce", "halving-doubling", "allreduce:rab_rdb"),
    ("all-gather", "ring", "allgather:NTSLR"),
    ("all-gather", "recursive-doubling", "allgather:rdb"),
    ("reduce-scatter", "ring", "reduce_scatter:ompi_ring"),
    ("reduce-scatter", "recursive-halving", "reduce_scatter:ompi_basic_recursivehalving"),
    ("all-to-all", "shift", "alltoall:ring"),
]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("smpi") / "smpi_peer"
    source = Path(__file__).with_name("smpi_peer.c")
    subprocess.run(["smpicc", "-O2", source, "-o", path], check=True, capture_output=True)
    return path


def write_platform(folder: Path, network: Network, ends: np.ndarray) -> None:
    """The links of the network, and the routes between the ends of the ranks, for SMPI's reader."""
    src, dst = (side.ravel() for side in np.meshgrid(ends, ends, indexing="ij"))
    apart = src != dst
    src, dst = src[apart].astype(np.int32), dst[apart].astype(np.int32)
    routes = network.routes(src, dst, np.zeros(len(src), np.int8))
    rank = {int(end): number for number, end in enumerate(ends)}
    lines = [f'<host id="h{number}" speed="1Gf"/>' for number in range(len(ends))]
    lines += [
        f'<link id="l{link}" bandwidth="{float(rate)!r}Bps" latency="0"/>'
        for link, rate in enumerate(network.capacity_bytes_s)
    ]
    for a, b, route in zip(src.tolist(), dst.tolist(), routes.route.tolist(), strict=True):
        links = routes.resource[routes.offset[route] : routes.offset[route + 1]].tolist()
        inner = "".join(f'<link_ctn id="l{link}"/>' for link in links)
        lines.append(f'<route src="h{rank[a]}" dst="h{rank[b]}" symmetrical="NO">{inner}</route>')
    body = "\n".join(lines)
    dtd = '<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">'
    zone = f'<zone id="z" routing="Full">\n{body}\n</zone>'
    (folder / "platform.xml").write_text(f'<?xml version="1.0"?>\n{dtd}\n<platform version="4.1">{zone}</platform>')
    (folder / "hosts").write_text("".join(f"h{number}\n" for number in range(len(ends))))


def theirs(program: Path, folder: Path, ranks: int, collective: str, size: int, algorithm: str) -> float:
    words: list[Any] = ["smpirun", "-np", str(ranks), "-platform", "platform.xml", "-hostfile", "hosts"]
    words += [f"--cfg={option}" for option in (*OPTIONS, f"smpi/{algorithm}")]
    words += ["--log=root.thres:critical", program, collective, str(size)]
    said = subprocess.run(words, cwd=folder, check=True, capture_output=True, text=True, timeout=120).stdout
    return float(said.split()[-1])


@pytest.mark.parametrize("mapping", ["in order", "at random"])
@pytest.mark.parametrize("ranks", [nightly(4), 8, nightly(16)])
@pytest.mark.parametrize(("collective", "algorithm", "their_algorithm"), ALGORITHMS)
def test_takes_as_long_as_in_smpi(
    program: Path,
    tmp_path: Path,
    collective: str,
    algorithm: str,
    their_algorithm: str,
    ranks: int,
    mapping: str,
) -> None:
    zone = load("timings/fluid_loads").zone
    small = zone(leaves=1, spines=1, hosts=16) if algorithm == "halving-doubling" else zone(leaves=4, spines=2, hosts=4)
    network = Network.of(Routed(small.fabric, small.tables), latency_s=0)
    ends = np.arange(small.fabric.n_switches, small.fabric.n_end_ports)
    ends = ends if mapping == "in order" else np.random.default_rng(ranks).permutation(ends)
    size = 2**22
    write_platform(tmp_path, network, ends[:ranks])
    flows = schedule(collective, algorithm, ranks).flows(size).placed(ends[:ranks])

    found = play(network, flows.in_order("peer")).makespan_s
    assert found == pytest.approx(theirs(program, tmp_path, ranks, collective, size, their_algorithm), rel=0.01)
