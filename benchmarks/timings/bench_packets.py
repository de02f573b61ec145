"""How fast packets are played, by hosts, load, lanes and routing: packet hops a second of CPU time.

    python benchmarks/timings/bench_packets.py

A zone is a tree of two levels at 200 Gb/s, destination d over spine d modulo the spines, packets of 4,096 bytes, 145 ns
a hop, 8 packets of buffer. Compilation is not counted. The best of three runs. Then how much of steps of training on
Fire-Flyer 2 is played, and how much repeats itself.
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from fluid_loads import zone
from numpy.typing import NDArray

import topo
from routing import route
from routing.lanes.policy import ASK
from simulate import Flows, Network, PacketModel, parse_workload
from simulate.traffic.collectives.algorithms import schedule
from simulate.traffic.training import even_layers, exchanged_halves, fsdp
from topo.fabric import Fabric

ZONES = {96: (8, 12, 12), 800: (40, 20, 20), 2048: (64, 32, 32)}
"""Leaves, spines, and hosts of a leaf, by hosts."""

WEIGHTS = (64.0, 128.0, 64.0, 192.0)
VGG16 = {"parallel": "data", "model": "vgg16", "ranks": 16, "forward": "42.5 ms", "backward": "85 ms"}
STEPS: dict[str, dict[str, Any]] = {
    "VGG16, rings": VGG16 | {"algorithm": "ring", "bucket": "25 MiB"},
    "VGG16, double binary tree": VGG16 | {"algorithm": "double-binary-tree", "bucket": "25 MiB"},
}


def steps(fabric: Fabric) -> dict[str, Flows]:
    """Return steps between the servers of a zone."""
    made = {
        name: parse_workload(
            {"jobs": [{"name": "step", "kind": "training", "rank": "adapter", "within": "zone", **job}]}, fabric
        ).flows
        for name, job in STEPS.items()
    }
    ends = fabric.ends(role="compute", zone=0)
    gather, scatter = (schedule(name, "ring", 16).flows for name in ("all-gather", "reduce-scatter"))
    sharded = fsdp(even_layers(24, 0.1815, 0.363, 710e6), gather, scatter)
    experts = exchanged_halves(even_layers(28, 0.15, 0.3, 0), schedule("all-to-all", "shift", 8).flows, 32 * 2**20)
    for name, flows in (("GPT2-medium, fully sharded", sharded), ("experts, all-to-all (8 servers)", experts)):
        made[name] = flows.placed(ends).in_order("peer").on_level(ASK)
    return made


TICK = time.get_clock_info("process_time").resolution

STATIC, ADAPTIVE = PacketModel(), PacketModel(adaptive=True)


@cache
def network(hosts: int, lanes: int = 1) -> Network:
    """Return a zone."""
    found = zone(*ZONES[hosts])
    found = replace(found, hop_latency_s=np.full(found.fabric.n_ports, 145e-9), lane_weight=np.array(WEIGHTS[:lanes]))
    return replace(found, tables=replace(found.tables, sl2vl=tuple(level % lanes for level in range(16))))


def permutations(ends: NDArray[np.int32], size: float, lanes: int = 1) -> Flows:
    """Return one random permutation for each lane."""
    rng = np.random.default_rng(0)
    dst = np.concatenate([rng.permutation(ends) for _ in range(lanes)])
    return Flows.of(np.tile(ends, lanes), dst, size / lanes, sl=np.repeat(np.arange(lanes), len(ends)))


def main() -> None:
    """Print the table."""
    cases: list[tuple[str, int, int, PacketModel, Flows]] = []
    for hosts in ZONES:
        ends = network(hosts).fabric.ends(role="compute")
        size = 2.0**31 / hosts if hosts < 800 else 2.0**21
        cases += [
            ("shift", hosts, 1, STATIC, Flows.of(ends, np.roll(ends, 13), size)),
            ("permutation", hosts, 1, STATIC, permutations(ends, size)),
            ("permutation", hosts, 1, replace(STATIC, inputs="fifo"), permutations(ends, size)),
            ("four permutations", hosts, 4, STATIC, permutations(ends, size, 4)),
            ("permutation", hosts, 1, ADAPTIVE, permutations(ends, size)),
            ("permutation", hosts, 1, replace(ADAPTIVE, inputs="fifo"), permutations(ends, size)),
        ]
        incast = permutations(ends, size)
        crowd = np.where(np.arange(hosts) < hosts // 4, ends[-1], incast.dst)
        cases.append(("a quarter to one", hosts, 1, STATIC, Flows.of(ends, crowd, size / 16)))
    print("| load | hosts | lanes | routing | inputs | hops | simulated, ms | CPU, s | million hops a second |")
    print("|---|--:|--:|---|---|--:|--:|--:|--:|")
    for load, hosts, lanes, model, flows in cases:
        best, hops, makespan = np.inf, 0, 0.0
        for _ in range(3):
            engine = model(network(hosts, lanes))
            begin = time.process_time()
            makespan = engine.play(flows).makespan_s
            best, hops = min(best, time.process_time() - begin), engine.n_hops
        routing = "adaptive" if model.adaptive else "static"
        figures = f"{hops:,} | {makespan * 1e3:.3f} | {best:.2f} | {hops / max(best, TICK) / 1e6:.1f}"
        print(f"| {load} | {hosts:,} | {lanes} | {routing} | {model.inputs} | {figures} |", flush=True)
    print("\n| step of training, 16 servers | messages | hops | simulated hops | ratio | CPU, s |")
    print("|---|--:|--:|--:|--:|--:|")
    fabric = topo.preset("fire-flyer-2").fabric
    routed = Network.of(route(fabric), hop_latency_s=200e-9, latency_s=0)
    for name, flows in steps(fabric).items():
        engine = STATIC(routed)
        begin = time.process_time()
        engine.play(flows)
        seconds, played = time.process_time() - begin, engine.n_hops - engine.n_repeated_hops
        messages = np.count_nonzero(flows.src != flows.dst)
        print(
            f"| {name} | {messages:,} | {engine.n_hops:,} | {played:,} | {engine.n_hops / played:.1f} | {seconds:.2f} |"
        )


if __name__ == "__main__":
    main()
