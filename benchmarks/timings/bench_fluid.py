"""Plays the same flows over the same routes here and in SimGrid, and prints times side by side, as a table.

python benchmarks/timings/bench_fluid.py                        all loads, both of SimGrid's settings: some minutes
python benchmarks/timings/bench_fluid.py coupled storage-4      these alone
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
from simgrid_peer import Played, build_peer, finish_of_real, play_in_simgrid, write_inputs

from simulate import Fluid, play
from simulate.engines.fluid import events

REPEATS = 5
"""Runs of which the best counts, on either side."""

LONG = 2.0
"""Seconds of a run after which SimGrid is not asked again."""

COLUMNS = (
    "load",
    "flows",
    "SimGrid Lazy, s",
    "SimGrid Full, s",
    "ours, s",
    "times as fast",
    "set-up counted",
    "p99 error",
    "worst error",
    "Lazy from Full",
    "its process, s",
    "our process, s",
)


def ours(name: str) -> tuple[float, float, np.ndarray]:
    """Return the least seconds of the simulation alone, and with its routes and arrays; and the finish times."""
    network = zone()
    load = make_load(name, network)
    alone, whole = [], []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        engine = Fluid(network)
        engine.begin_all(load.flows)
        ready = time.perf_counter()
        events.advance(engine._state, np.inf, np.iinfo(np.int64).max, False)
        end = time.perf_counter()
        alone.append(end - ready)
        whole.append(end - begin)
    return min(alone), min(whole), finish_of_real(load.flows, engine._state.end[: len(load.flows)])


def theirs(program: Path, folder: Path, optim: str) -> Played:
    """Return SimGrid's best run of some, of one alone where it takes longer than `LONG`."""
    played = [play_in_simgrid(program, folder, optim)]
    while played[0].run_s < LONG and len(played) < REPEATS:
        played.append(play_in_simgrid(program, folder, optim))
    return min(played, key=lambda run: run.run_s)


def alone_s(name: str) -> float:
    """Return the seconds of a process of its own that plays a load, start-up included."""
    begin = time.perf_counter()
    subprocess.run([sys.executable, __file__, name, "--alone"], check=True)
    return time.perf_counter() - begin


def compare(name: str, program: Path, folder: Path) -> list[str]:
    """Return the cells of a row of `COLUMNS`."""
    network = zone()
    load = make_load(name, network)
    write_inputs(folder, network, load)
    alone, whole, finish = ours(name)
    lazy, full = (theirs(program, folder, optim) for optim in ("Lazy", "Full"))
    best = min(lazy.run_s, full.run_s)
    error = np.abs(finish / full.finish_s - 1)
    apart = np.abs(lazy.finish_s / full.finish_s - 1)
    return [
        name,
        f"{len(finish):,}",
        *(f"{seconds:.4f}" for seconds in (lazy.run_s, full.run_s, alone)),
        *(f"{best / seconds:.1f}" for seconds in (alone, whole)),
        *(f"{value:.0e}" for value in (np.percentile(error, 99), error.max(), apart.max())),
        f"{min(lazy.process_s, full.process_s):.2f}",
        f"{alone_s(name):.2f}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("loads", nargs="*", metavar="LOAD", help=", ".join(LOADS))
    parser.add_argument("--alone", action="store_true", help="play the loads once, print nothing")
    options = parser.parse_args()
    loads = options.loads or LOADS
    if options.alone:
        for name in loads:
            network = zone()
            play(network, make_load(name, network).flows)
        return
    ours("incast")  # compiled or read from Numba's cache, once a machine
    print(f"| {' | '.join(COLUMNS)} |\n|---|{'---:|' * (len(COLUMNS) - 1)}")
    with TemporaryDirectory() as folder:
        program = build_peer(Path(folder))
        for name in loads:
            print(f"| {' | '.join(compare(name, program, Path(folder)))} |", flush=True)


if __name__ == "__main__":
    main()
