"""Hashed paths beside static and adaptive tables on the same cables, and beside published figures: docs/ethernet.md.

    python benchmarks/published/ethernet.py

Rates are max-min fair and static: the flows of a phase all at once, as shares of what their own links allow. Each draw
has a random phase and a seed of the hash of its own.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import routing
import simulate
import topo
from routing.quality.figures import fair_rates
from routing.studies import adaptive, hashed_rates

DRAWS = 20
PACKET_DRAWS = 5
MESSAGE = 8_388_608
QUEUE_PAIRS = (1, 4, 16, 0)


def tree(hosts: int, leaves: int, spines: int, parallel: int) -> topo.Fabric:
    """Return a two-level tree of switches with 40 ports."""
    network = {"shape": "fat-tree", "switch": "QM8700", "levels": 2, "leaves": leaves, "spines": spines,
               "parallel": parallel}  # fmt: skip
    nodes = {"gpu": {"model": "pcie-a100", "count": hosts}}
    return topo.parse({"name": "tree", "nodes": nodes, "network": network}).fabric


def three_levels() -> topo.Fabric:
    """Return a tree of three levels, 512 hosts, 8 next hops on the way up at each."""
    return topo.parse({"name": "three-levels", "nodes": {"gpu": {"model": "pcie-a100", "count": 512}},
                       "network": {"shape": "k-ary-n-tree", "switch": "QM8700", "k": 8, "n": 3}}).fabric  # fmt: skip


def middle(values: list[float]) -> tuple[float, float, float]:
    """Return the median, the fifth and the 95th percentile, each of them one of the values."""
    found = np.percentile(values, (50, 5, 95), method="inverted_cdf").tolist()
    return found[0], found[1], found[2]


def permuted(fabric: topo.Fabric, queue_pairs: int, of: Callable[[np.ndarray], float], **more: bool) -> list[float]:  # type: ignore[type-arg]
    """Return a figure of the rates of random permutations, draw by draw."""
    ends, hashed = fabric.ends(role="compute"), routing.Hashed(fabric, queue_pairs, **more)
    phases = routing.quality.permutations(len(ends), DRAWS, np.random.default_rng(0))
    return [float(of(hashed_rates(hashed.drawn(seed), ends, partners))) for seed, partners in enumerate(phases)]


def same_cables(names: list[str]) -> None:
    """Print what random permutations get on the cables of presets."""
    print("| cables | paths | mean | p5 to p95 | slowest flow | p5 to p95 |")
    print("|---|---|--:|--:|--:|--:|")
    for name in names:
        fabric = topo.preset(name).fabrics[0] if name != "three levels" else three_levels()
        ends = fabric.ends(role="compute")
        phases = routing.quality.permutations(len(ends), DRAWS, np.random.default_rng(0))
        routed = routing.route(fabric, lanes=1)
        mean, least = fair_rates(routed, ends, phases)
        rows = [("InfiniBand, static tables", mean.tolist(), least.tolist())]
        groups = adaptive.manager_groups(routed)[0].groups(fabric)
        spread = [hashed_rates(routing.Hashed(fabric, 0, groups=groups), ends, partners) for partners in phases]
        rows.append(("InfiniBand, adaptive (even split)", [r.mean() for r in spread], [r.min() for r in spread]))
        for queue_pairs in QUEUE_PAIRS:
            said = routing.Hashed(fabric, queue_pairs).engine
            rows.append((said, permuted(fabric, queue_pairs, np.mean), permuted(fabric, queue_pairs, np.min)))
        rows.append(("ECMP, 4 queue pairs, one hash on all switches", permuted(fabric, 4, np.mean, one_hash=True),
                     permuted(fabric, 4, np.min, one_hash=True)))  # fmt: skip
        for paths, means, leasts in rows:
            figures = [f"{median:.2f} | {low:.2f} to {high:.2f}" for median, low, high in map(middle, (means, leasts))]
            print(f"| {name} | {paths} |", " | ".join(figures), "|", flush=True)


def static_rates(fabric: topo.Fabric) -> list[float]:
    """Return the mean rates of random permutations by static tables, draw by draw."""
    ends = fabric.ends(role="compute")
    phases = routing.quality.permutations(len(ends), DRAWS, np.random.default_rng(0))
    return fair_rates(routing.route(fabric, lanes=1), ends, phases)[0].tolist()


def ring_times(fabric: topo.Fabric, queue_pairs: int, *, mixed: bool) -> list[float]:
    """Return times of rings of all hosts in a random order, or along the tree, by that of an idle network."""
    ends = fabric.ends(role="compute")
    times = []
    for seed in range(DRAWS):
        order = np.random.default_rng(seed).permutation(len(ends)) if mixed else np.arange(len(ends))
        hashed = routing.Hashed(fabric, queue_pairs, seed)
        times.append(1 / hashed_rates(hashed, ends[order], np.roll(np.arange(len(ends)), -1).astype(np.int32)).min())
    return times


def bonded(queue_pairs: int) -> list[float]:
    """Return what a ring of two servers, each bonded to two leaves, gets of two links.

    The bytes of a connection are divided evenly over its queue pairs, and the slower way decides.
    """
    fabric = topo.parse(
        {
            "name": "bond",
            "nodes": {"gpu": {"model": "storage-3fs", "count": 2}},
            "network": {"shape": "fat-tree", "switch": "QM8700", "leaves": 2, "spines": 2},
        }
    ).fabric
    first, second = (fabric.ends()[fabric.host[fabric.end_node[fabric.ends()]] == host] for host in (0, 1))
    src, dst = (np.array([a[0], b[0]]) for a, b in ((first, second), (second, first)))
    rates = []
    for seed in range(DRAWS):
        paths = routing.Hashed(fabric, queue_pairs, seed, bond=2).paths(src, dst)
        rates.append(1 / paths.share.max() / 2)
    return rates


def published() -> None:
    """Print published figures, and the same computed."""
    three, full, double = three_levels(), tree(160, 8, 4, 5), tree(80, 8, 4, 5)
    two = topo.preset("dgx-h100-48").fabrics[0]
    print("| published | figure | computed, median (p5 to p95) |")
    print("|---|--:|--:|")
    for said, figure, values in (
        ("NVIDIA, 2024-10-28: data throughput of standard Ethernet, three tiers", "60 %", permuted(three, 1, np.mean)),
        ("the same: of Spectrum-X, which sprays", "95 %", permuted(three, 0, np.mean)),
        ("Raiciu et al., SIGCOMM 2011: utilisation of trees with ECMP", "below 50 %", permuted(three, 1, np.mean)),
        ("the same: some flows, of what they might expect", "10 %", permuted(three, 1, np.min)),
        ("HPSR 2014: throughput of random permutations by ECMP", "47 %", permuted(three, 1, np.mean)),
        ("the same: by static routes (d-mod-k)", "63 %", static_rates(three)),
        ("Baidu, 2024-07-03: of a link, few queue pairs", "70 %", permuted(two, 2, np.mean)),
        ("the same: packets to the least loaded link", "95 %", permuted(two, 0, np.mean)),
        ("NCCL's threads 2023 to 2024: allreduce over a bond, 1 queue pair", "50 %", bonded(1)),
        ("the same: 8 queue pairs", "60 %", bonded(8)),
    ):
        a, b, c = (100 * value for value in middle(values))
        print(f"| {said} | {figure} | {a:.0f} % ({b:.0f} to {c:.0f}) |")
    along, mixed = (ring_times(full, 1, mixed=mixed) for mixed in (False, True))
    lost = [1 - few / many for few, many in zip(along, mixed, strict=True)]
    one, many = (ring_times(double, queue_pairs, mixed=True) for queue_pairs in (1, 16))
    gained = [before / after - 1 for before, after in zip(one, many, strict=True)]
    for said, figure, shares in (
        ("Meta, 2024-08-05: loss by fragmented jobs, ECMP", "above 30 %", lost),
        ("the same: gain of an allreduce by queue pairs, twice the uplinks", "up to 40 %", gained),
    ):
        a, b, c = (100 * value for value in middle(shares))
        print(f"| {said} | {figure} | {a:.0f} % ({b:.0f} to {c:.0f}) |")


def as_packets(name: str) -> None:
    """Print what messages of random permutations get as fluid flows and as packets, of the time on an idle link."""
    fabric = topo.preset(name).fabrics[0]
    ends = fabric.ends(role="compute")
    idle_s = MESSAGE * 8 / (fabric.rate_gbps[fabric.port_of(ends[:1])[0]] * 1e9)
    none = simulate.engines.CongestionControl(mark_at=0)
    rows = [("InfiniBand, static tables", None, {}), ("InfiniBand, adaptive", None, {"adaptive": True})]
    for queue_pairs in QUEUE_PAIRS:
        said = routing.Hashed(fabric, queue_pairs).engine
        rows += [(f"{said}, DCQCN", queue_pairs, {}), (f"{said}, pauses alone", queue_pairs, {"control": none})]
    rows.append(("spraying to the least loaded, DCQCN", 0, {"adaptive": True}))
    print("| paths | fluid: mean | last | packets: mean | last | pauses |")
    print("|---|--:|--:|--:|--:|--:|")
    for said, queue_pairs, model in rows:
        figures = []
        for seed in range(PACKET_DRAWS):
            partners = np.random.default_rng(seed).permutation(ends)
            flows = simulate.Flows.of(ends[partners != ends], partners[partners != ends], MESSAGE)
            on = routing.route(fabric, lanes=1) if queue_pairs is None else routing.Hashed(fabric, queue_pairs, seed)
            network = simulate.Network.of(on)
            fluid = simulate.play(network, flows)
            packets = simulate.play(network, flows, engine=simulate.PacketModel(**model))
            assert packets.congestion is not None
            times = [outcome.finish_s - outcome.start_s for outcome in (fluid, packets)]
            figures.append([*(idle_s / of(time) for time in times for of in (np.mean, np.max)),
                            packets.congestion.pauses.sum()])  # fmt: skip
        *shares, pauses = np.median(figures, axis=0)
        print(f"| {said} |", " | ".join(f"{share:.2f}" for share in shares), f"| {pauses:,.0f} |", flush=True)


if __name__ == "__main__":
    same_cables(["lab-20", "dgx-h100-48", "three levels"])
    print()
    published()
    print()
    as_packets("dgx-h100-48")
