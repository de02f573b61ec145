"""Times loads from 10^4 to 10^7 flows on 780 to 32,768 hosts, a process each: a table of docs/validation/fluid.md.

It replaces the rows that it times.

python benchmarks/timings/bench_scale.py                  the rows that end within a minute each
python benchmarks/timings/bench_scale.py --all            up to 10^7 flows: an hour, 10 GB of memory

``incast``: all hosts send to one, at twice its rate. ``uniform``: random pairs at 20 % of what all hosts can send; on
Fire-Flyer 2 half of them cross the joints between its zones, which are full then (``joints``). Its tables lead what
comes to a joint over one cable on over one other, so that full links hold each other back in pairs; in ``crossed`` the
cable down is drawn for each destination, and all depend on all. ``ring``, ``shift`` and ``tree``:
an allreduce around a ring, an all-to-all, an allreduce over a double binary tree of 16 or 64 chunks, 64 MiB a rank;
their time contains that of making the messages, or of the proof that one round stands for all.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
from fluid_loads import zone
from trees import modulo_tables, three_level_tree

import routing
import simulate
import topo
from routing.routed import Routed
from simulate.traffic.collectives.algorithms import Collective
from topo.errors import HeddleError
from topo.fabric import Role

PAGE = Path(__file__).parents[2] / "docs" / "validation" / "fluid.md"
BEGIN, END = "<!-- scale -->\n", "<!-- /scale -->\n"
HEAD = """| load and hosts | flows | instants | s of CPU | ns / (n log2 n) | peak memory, GiB |
|---|---:|---:|---:|---:|---:|"""

MEAN = 8e6
"""Bytes of a flow; sizes are exponential."""

RATE = 25e9
"""Bytes a second of a host."""

ROWS = {
    "incast 780": (10**4, 10**5, 10**6, 10**7),
    "uniform 780": (10**4, 10**5, 10**6, 10**7),
    "joints 1380": (10**4, 10**5, 10**6),
    "crossed 1380": (10**4, 10**5, 10**6),
    "uniform 8192": (10**4, 10**5, 10**6),
    "uniform 32768": (10**4, 10**5, 10**6, 10**7),
    "ring 4096": (2 * 4096 * 4095,),
    "ring 32768": (2 * 32768 * 32767,),
    "shift 32768": (32768 * 32767,),
    "tree 32768": (4 * 16 * 32767, 4 * 64 * 32767),
}
"""Flows or messages of each load."""
COLLECTIVES = {
    "ring": ("allreduce", "ring"),
    "shift": ("all-to-all", "shift"),
    "tree": ("allreduce", "double-binary-tree"),
}
QUICK = 10**6
"""Flows of the largest row without ``--all``."""
LONGEST = 1200
"""Seconds after which a row is given up."""


def make_network(kind: str, hosts: int) -> simulate.Network:
    """Return the network of a load with so many hosts: a zone of two levels, Fire-Flyer 2, or three levels."""
    if hosts == 780:
        return zone(39, 20, 20)
    if hosts == 1380:
        routed = routing.route(topo.preset("fire-flyer-2").fabric)
        return simulate.Network.of(cross(routed) if kind == "crossed" else routed, latency_s=0)
    half, pods = 32, hosts // 1024
    tree = three_level_tree(half, pods, 2)
    return simulate.Network.of(Routed(tree, modulo_tables(tree, half, pods, 2)), latency_s=0)


def cross(routed: Routed) -> Routed:
    """Return Fire-Flyer 2 with the cable from a joint to a zone drawn for each destination there."""
    fabric, lft, rng = routed.fabric, routed.tables.lft.copy(), np.random.default_rng(3)
    ends = fabric.ends()
    zone, lid = fabric.zone[fabric.end_switch[ends]], routed.tables.lid[ends]
    for joint in np.flatnonzero(fabric.role[: fabric.n_switches] == Role.JOINT):
        ports = np.arange(fabric.port_offset[joint], fabric.port_offset[joint + 1])
        ports = ports[fabric.peer[ports] >= 0]
        for each in np.unique(zone):
            down = fabric.port_number[ports[fabric.zone[fabric.peer_node[ports]] == each]]
            lft[joint, lid[zone == each]] = rng.choice(down, np.count_nonzero(zone == each))
    return Routed(fabric, replace(routed.tables, lft=lft))


def make_flows(load: str, network: simulate.Network, n: int) -> simulate.Flows:
    """Return the flows of a load; the seed is always the same."""
    rng = np.random.default_rng(7)
    ends = network.fabric.ends(role="compute")
    size = np.ceil(rng.exponential(MEAN, n))
    if load == "incast":
        start = np.sort(rng.uniform(0, n * MEAN / (2 * RATE), n))
        return simulate.Flows.of(rng.choice(ends[1:], n), ends[0], size, start_s=start)
    src = rng.integers(0, len(ends), n)
    dst = (src + rng.integers(1, len(ends), n)) % len(ends)
    start = np.sort(rng.uniform(0, n * MEAN / (0.2 * len(ends) * RATE), n))
    return simulate.Flows.of(ends[src], ends[dst], size, start_s=start)


def row(load: str, n: int) -> str:
    kind, hosts = load.split()
    network = make_network(kind, int(hosts))
    ends = network.fabric.ends(role="compute")
    few: simulate.Flows | Collective
    flows: simulate.Flows | Collective
    if kind in COLLECTIVES:
        name, algorithm = COLLECTIVES[kind]
        chunks = n // (4 * int(hosts)) + 1 if kind == "tree" else 1
        few = simulate.collective(
            name, ends[:3200] if kind == "shift" else ends[:32], "1 MiB", algorithm, chunks=chunks
        )
        flows = simulate.collective(name, ends, "64 MiB", algorithm, chunks=chunks)
    else:
        few, flows = make_flows(kind, network, 1000), make_flows(kind, network, n)
    with suppress(HeddleError):
        simulate.play(network, few)  # compiled or read from the cache
    begin = time.process_time()
    outcome = simulate.play(network, flows)
    assert outcome.n_flows == n
    seconds = time.process_time() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    fit = "-" if outcome.rounds else f"{seconds / (n * np.log2(n)) * 1e9:.0f}"
    return f"| {load} | {n:,} | {outcome.n_events:,} | {seconds:.2f} | {fit} | {peak:.2f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="rows of 10^7 flows too")
    parser.add_argument("--row", nargs=2, metavar=("LOAD", "FLOWS"), help="this one alone")
    options = parser.parse_args()
    if options.row:
        print(row(options.row[0], int(options.row[1])), flush=True)
        return
    text = PAGE.read_text(encoding="utf-8")
    head, rest = text.split(BEGIN)
    old, tail = rest.split(END)
    rows = dict(_keyed(line) for line in old.splitlines()[2:])
    for load, sizes in ROWS.items():
        for n in sizes:
            if options.all or n < QUICK or load.startswith(("ring", "shift")):
                command = [sys.executable, __file__, "--row", load, str(n)]
                try:
                    ended = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=LONGEST)
                    found = ended.stdout.strip()
                except subprocess.TimeoutExpired:
                    found = f"| {load} | {n:,} | - | more than {LONGEST} | - | - |"
                print(found, flush=True)
                rows |= [_keyed(found)]
    order = [(load, f"{n:,}") for load, sizes in ROWS.items() for n in sizes]
    lines = [HEAD, *(rows[key] for key in order if key in rows)]
    PAGE.write_text(head + BEGIN + "\n".join(lines) + "\n" + END + tail, encoding="utf-8")


def _keyed(line: str) -> tuple[tuple[str, str], str]:
    """Return a row of the table with its load and number of flows."""
    cells = [cell.strip() for cell in line.split("|")]
    return (cells[1], cells[2]), line


if __name__ == "__main__":
    main()
