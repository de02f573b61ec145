"""Plays a load in SimGrid 3.32, over the same routes."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
from fluid_loads import Load
from numpy.typing import NDArray

from simulate.traffic.flows import Flows
from simulate.traffic.network import Network

__all__ = ["Played", "build_peer", "play_in_simgrid", "write_inputs", "write_platform"]

# SimGrid's CM02 without what corrects it for TCP: bytes after the latency, at max-min fair rates.
CM02 = ("network/model:CM02", "network/crosstraffic:0", "network/TCP-gamma:0", "network/weight-S:0")


class Played(NamedTuple):
    """What SimGrid says, and how long it took."""

    finish_s: NDArray[np.float64]
    run_s: float
    """Seconds of the simulation alone."""
    build_s: float
    """Seconds to make hosts, links and routes."""
    process_s: float
    """Seconds of the whole process, reading its files included."""


def build_peer(folder: Path) -> Path:
    """Compile the peer into a folder; return the program."""
    program = folder / "simgrid_peer"
    source = Path(__file__).with_name("simgrid_peer.cpp")
    subprocess.run(["g++", "-O2", "-std=c++17", source, "-lsimgrid", "-o", program], check=True)
    return program


def write_platform(folder: Path, network: Network, flows: Flows) -> None:
    """Write the file ``platform``: only the routes that the flows take."""
    fabric = network.fabric
    routes = network.routes(flows.src, flows.dst, flows.sl)
    first = fabric.n_switches
    _, example = np.unique(routes.route, return_index=True)
    lines = [f"hosts {fabric.n_end_ports - first}"]
    at_host = np.arange(fabric.n_ports) >= fabric.first_adapter_port
    latency = network.hop_latency_s + np.where(at_host, network.latency_s.host_s, 0.0)
    lines += [f"link {c!r} {s!r}" for c, s in zip(network.capacity_bytes_s.tolist(), latency.tolist(), strict=True)]
    offset, resource = routes.offset.tolist(), routes.resource.tolist()
    for route, flow in enumerate(example.tolist()):
        links = resource[offset[route] : offset[route + 1]]
        if links:
            ends = (flows.src[flow] - first, flows.dst[flow] - first)
            lines.append(f"route {ends[0]} {ends[1]} {' '.join(map(str, links))}")
    (folder / "platform").write_text("\n".join(lines) + "\n")


def write_inputs(folder: Path, network: Network, load: Load) -> None:
    """Write the files ``platform`` and ``flows``."""
    write_platform(folder, network, load.flows)
    flows, first = load.flows, network.fabric.n_switches
    real = flows.size_bytes > 0
    columns = np.stack([load.actor, load.step, flows.src[real] - first, flows.dst[real] - first])
    rows = zip(*columns.tolist(), flows.size_bytes[real].astype(np.int64).tolist(), flows.start_s[real], strict=True)
    text = "\n".join(f"{a} {s} {src} {dst} {size} {float(start)!r}" for a, s, src, dst, size, start in rows)
    (folder / "flows").write_text(("ring\n" if load.ring else "steps\n") + text + "\n")


def play_in_simgrid(program: Path, folder: Path, optim: str) -> Played:
    """Play what `write_inputs` wrote, with ``network/optim`` Lazy or Full."""
    options = [f"--cfg={option}" for option in (*CM02, f"network/optim:{optim}")]
    begin = time.perf_counter()
    arguments = [
        program,
        folder / "platform",
        folder / "flows",
        folder / "finish",
        *options,
        "--log=root.thres:critical",
    ]
    run = subprocess.run(arguments, capture_output=True, text=True, check=True)
    process_s = time.perf_counter() - begin
    build_s, run_s = map(float, run.stdout.split())
    return Played(np.fromfile(folder / "finish"), run_s, build_s, process_s)


def finish_of_real(flows: Flows, finish_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the finish times of flows that are not barriers, as SimGrid has them."""
    return finish_s[flows.size_bytes > 0]
