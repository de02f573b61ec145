"""Seeded faults and what `plan explain` makes of measurements: the table of docs/validation/explain.md.

Run from the repository: HEDDLE_FABRICS=folder python benchmarks/quality/compare_explain.py [FAULTS] [CLEAN]. The folder
has the dumps as tests/helpers/twins.py names them. One in a hundred pairs is measured, with 5 % of noise.
"""

import os
import sys
import time
from pathlib import Path

import numpy as np

import routing
import simulate
import topo
from simulate.traffic.network import GBPS

MACHINES = {"qdr-directors": "janus_is5600_2014", "edr-frames": "lassen_cs7500_2019"}
NOISE, SHARE, EFFICIENCY = 0.05, 0.01, 0.93
PARTS = {"link at half rate": 0.5, "dead lane, three left": 0.75, "dead lane, one left": 0.25}


def measure(
    routed: routing.Routed, kind: str, rng: np.random.Generator
) -> tuple["simulate.diagnosis.Measured", set[int]]:
    """Pairs as they would be measured with a fault of this kind, and the ports of the culprit."""
    fabric = routed.fabric
    ends = fabric.ends()
    count = round(SHARE * len(ends) * (len(ends) - 1))
    src, dst = rng.choice(ends, (2, count + 1000))
    keep = np.unique((src.astype(np.int64) * fabric.n_end_ports + dst)[src != dst])
    src, dst = (part.astype(np.int32) for part in np.divmod(rng.permutation(keep)[:count], fabric.n_end_ports))
    network = simulate.Network.of(routed, lane_weights=1, latency_s=0)
    routes = network.routes(src, dst, np.zeros(len(src), np.int8))
    hops = np.diff(routes.offset)
    hops = hops[routes.route]
    pair, first = (np.repeat(part, hops) for part in (np.arange(len(src)), routes.offset[routes.route]))
    crossed = routes.resource[first + np.arange(len(pair)) - np.repeat(np.cumsum(hops) - hops, hops)]
    gbps = np.full(len(src), np.inf)
    np.minimum.at(gbps, pair, network.capacity_bytes_s[crossed] / GBPS)
    played, culprit = np.full(len(src), -1, np.int32), set()
    if kind in PARTS:
        links = np.unique(np.minimum(crossed, fabric.peer[crossed]))
        link = int(rng.choice(links))
        culprit = {link}
        slow = np.unique(pair[np.minimum(crossed, fabric.peer[crossed]) == link])
        gbps[slow] = np.minimum(gbps[slow], PARTS[kind] * network.capacity_bytes_s[link] / GBPS)
    elif kind == "collision":
        load = np.bincount(crossed, minlength=fabric.n_ports)
        channels = np.flatnonzero((load >= 3) & fabric.is_inner)
        taken: list[int] = []
        while len(taken) < 2:
            channel = int(rng.choice(channels))
            over = rng.permutation(np.unique(pair[crossed == channel]))
            taken = apart(over, [{int(src[one]), int(dst[one])} for one in over])[: int(rng.integers(2, 5))]
        culprit = {channel}
        idle = np.setdiff1d(rng.permutation(len(src))[:200], pair[np.isin(crossed, crossed[np.isin(pair, taken)])])
        others = apart(idle, [set(crossed[pair == one].tolist()) for one in idle])[:20]
        members = np.array([*taken, *others])
        played[members] = 0
        outcome = simulate.Fluid(network).play(simulate.Flows.of(src[members], dst[members], 1e9))
        gbps[members] = 1e9 / outcome.finish_s / GBPS
    gbps *= EFFICIENCY * np.maximum(0.1, 1 + NOISE * rng.standard_normal(len(src)))
    return simulate.diagnosis.Measured(src, dst, gbps, played), culprit


def apart(numbers: np.ndarray, uses: list[set[int]]) -> list[int]:
    """Those that share nothing that they use with one before."""
    found, used = [], set()
    for number, own in zip(numbers.tolist(), uses, strict=True):
        if not own & used:
            found.append(number)
            used |= own
    return found


def main(faults: int, clean: int) -> None:
    """Print how often the culprit comes first, and how often somebody is identified of nothing."""
    for name, folder in MACHINES.items():
        fabric = topo.read_fabric(Path(os.environ["HEDDLE_FABRICS"]) / folder / "ibnetdiscover.gz")
        routed = routing.route(fabric, "balanced")
        kinds = [*PARTS, "collision"]
        spent, rng = [], np.random.default_rng(0)
        tally = {kind: np.zeros(4, int) for kind in [*kinds, "none"]}
        for number in range(faults // 2 + clean // 2):
            kind = kinds[number % len(kinds)] if number < faults // 2 else "none"
            measured, culprit = measure(routed, kind, rng)
            begin = time.process_time()
            found = simulate.diagnosis.explain(routed, measured)
            spent.append(time.process_time() - begin)
            identified = found.identified[0].ports if found.identified else ()
            first = bool(culprit & set(identified[:1]))
            tally[kind] += (1, first, bool(culprit & set(identified)), bool(identified))
        for kind, (runs, first, group, identified) in tally.items():
            print(f"| {name} | {kind} | {runs} | {first} | {group} | {identified} |", flush=True)
        print(f"{name}: at most {max(spent):.1f} s of CPU, mean {np.mean(spent):.1f} s", flush=True)


if __name__ == "__main__":
    main(*(int(word) for word in (*sys.argv[1:], *("500", "100")[len(sys.argv) - 1 :])))
