"""Plays the same flows over the same routes here and in SimGrid, and prints times side by side.

python benchmarks/bench_fluid.py                        all loads, both of SimGrid's settings: some minutes
python benchmarks/bench_fluid.py coupled storage-4      these alone
python benchmarks/bench_fluid.py --process              each of ours again as a process of its own, start-up included
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from fluid_loads import LOADS, make_load, zone
from simgrid_peer import build_peer, finish_of_real, play_in_simgrid, write_inputs

from simulate.fluid import play, start
from simulate.kernels import events

REPEATS = 3


def ours(name: str) -> tuple[float, float, np.ndarray]:
    """Return the least seconds of the simulation alone, and with its routes and arrays; and the finish times."""
    network = zone()
    load = make_load(name, network)
    alone, whole = [], []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        state = start(network, load.flows, network.routes(load.flows), n_bins=0, tie_s=0.0)
        ready = time.perf_counter()
        events.advance(state, np.inf, np.iinfo(np.int64).max, False)
        end = time.perf_counter()
        alone.append(end - ready)
        whole.append(end - begin)
    return min(alone), min(whole), finish_of_real(load.flows, state.end)


def compare(name: str, program: Path, folder: Path, process: bool) -> None:
    network = zone()
    load = make_load(name, network)
    write_inputs(folder, network, load)
    alone, whole, finish = ours(name)
    peers = {optim: play_in_simgrid(program, folder, optim) for optim in ("Lazy", "Full")}
    best = min(peers.values(), key=lambda played: played.run_s)
    lazy, full = (peers[optim].finish_s for optim in ("Lazy", "Full"))
    error, apart = np.abs(finish / lazy - 1), np.abs(full / lazy - 1)
    columns = [
        f"{name:17} {len(finish):9,}",
        f"{peers['Lazy'].run_s:8.4f} {peers['Full'].run_s:8.4f} {alone:8.4f} {whole:8.4f}",
        f"{best.run_s / alone:6.1f} {best.run_s / whole:6.1f}  ",
        f"{np.percentile(error, 99):.0e} {error.max():.0e} {apart.max():.0e}",
    ]
    if process:
        begin = time.perf_counter()
        subprocess.run([sys.executable, __file__, name, "--alone"], check=True)
        seconds = time.perf_counter() - begin
        least = min(played.process_s for played in peers.values())
        columns.append(f"  {least:8.3f} {seconds:8.3f} {least / seconds:6.1f}")
    print(*columns, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("loads", nargs="*", metavar="LOAD", help=", ".join(LOADS))
    parser.add_argument("--process", action="store_true", help="times of whole processes too")
    parser.add_argument("--alone", action="store_true", help="play the loads once, print nothing")
    options = parser.parse_args()
    loads = options.loads or LOADS
    if options.alone:
        for name in loads:
            network = zone()
            play(network, make_load(name, network).flows)
        return
    ours("incast")  # compiled or read from Numba's cache, once a machine
    print("seconds; ratio of SimGrid's better setting to ours: the simulation alone, and with routes and arrays made")
    print("Errors of finish times are against Lazy; apart is how far Full is from it, at the worst.")
    print("load                  flows     Lazy     Full     ours    whole  alone  whole   p99   worst apart", end="")
    print("  processes     ours  ratio" if options.process else "")
    with TemporaryDirectory() as folder:
        program = build_peer(Path(folder))
        for name in loads:
            compare(name, program, Path(folder), options.process)


if __name__ == "__main__":
    main()
