"""Beside brute force: is any design of any family cheaper than what `costmodel.optimise` finds?

Random needs on small switches, so that all designs of all families up to the winner's price can be made: every spec is
drawn up from its parameters without any bound, compiled, counted, and judged where it is cheaper than the winner.

    python benchmarks/bench_optimise.py --needs 100
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from time import perf_counter
from types import MappingProxyType
from typing import Any

import numpy as np

from costmodel.needs import Needs
from costmodel.search import judge, optimise
from costmodel.task import Task
from topo.errors import HeddleError
from topo.hardware.catalog import Catalog, load_catalog
from topo.hardware.models import Price, PricePoint, Source, SwitchModel
from topo.hardware.speeds import LinkSpeed
from topo.schema.cluster import ClusterSpec
from topo.sums import Verdict

PRICE = 3.0


def catalog(radix: int) -> Catalog:
    """One model S."""
    source = Source("benchmark", "", "own", "")
    model = SwitchModel(name="S", radix=radix, speed=LinkSpeed(4, "HDR"))
    price = {"units": Price("units", (PricePoint(PRICE, PRICE, "", source),))}
    shipped = load_catalog()
    return replace(
        shipped, switches=MappingProxyType({"S": model}), prices=MappingProxyType({**shipped.prices, "S": price})
    )


def draw(rng: np.random.Generator) -> tuple[Needs, int]:
    """Return needs, and ports of the switch."""
    radix = int(rng.choice([6, 8, 10]))
    count = int(rng.integers(radix, 5 * radix))
    storage = int(rng.choice([0, 0, 2, 4]))
    nodes: dict[str, Any] = {"gpu": {"model": "pcie-a100", "count": count}}
    if storage:
        nodes["storage"] = {"model": "storage-3fs", "count": storage}
    needs = Needs.model_validate(
        {
            "name": "t",
            "nodes": nodes,
            "job": {
                "nodes": int(rng.integers(2, count + 1)),
                "bisection": float(rng.choice([0.3, 0.5, 0.75, 1.0])),
                "with_storage": bool(rng.integers(2)),
                "alone": bool(rng.integers(2)),
            },
            "bisection": float(rng.choice([0.0, 0.1, 0.3])),
            "survives_a_switch": bool(rng.integers(2)),
            "switches": ["S"],
        }
    )
    return needs, radix


def shapes(k: int, most: int) -> Iterator[dict[str, Any]]:
    """Yield every spec of a network on at most so many switches of k ports, but for those that cannot be linked."""
    ports = range(1, k)
    yield {"shape": "fat-tree", "levels": 1}
    for leaves, spines, parallel in product(range(1, most), ports, ports):
        if leaves + spines <= most and spines * parallel < k and leaves * parallel <= k:
            yield {"shape": "fat-tree", "levels": 2, "leaves": leaves, "spines": spines, "parallel": parallel}
    for leaves, pod, spines, parallel, cores in product(range(2, most), range(2, k), ports, ports, range(1, most)):
        pods = -(-leaves // pod)
        if pods > 1 and leaves + pods * spines + cores <= most and spines * parallel < k and pod * parallel < k:
            for up in range(1, min(pod * parallel, k - pod * parallel) + 1):
                yield {
                    "shape": "fat-tree",
                    "levels": 3,
                    "leaves": leaves,
                    "spines": spines,
                    "parallel": parallel,
                    "leaves_per_pod": pod,
                    "cores": cores,
                    "spine_oversubscription": pod * parallel / up,
                }
    for zones, leaves, spines, parallel in product(range(2, 9), range(2, most), ports, ports):
        if zones * (leaves + spines) > most or spines * parallel >= k or leaves * parallel > k:
            continue
        tree = {"shape": "fat-tree", "levels": 2, "leaves": leaves, "spines": spines, "parallel": parallel}
        zone = {"shape": "zones", "zones": zones, "tree": tree}
        for links, placement in product(range(1, leaves * spines * parallel // 2 + 1), ("border", "spread")):
            yield {**zone, "direct": {"ports": links, "placement": placement}}
            for joints in range(1, most - zones * (leaves + spines) + 1):
                yield {**zone, "joints": {"count": joints, "ports": links, "placement": placement}}
    for sizes in [(a,) for a in range(2, most + 1)] + [
        tuple(s) for d in (2, 3) for s in product(range(2, most + 1), repeat=d) if list(s) == sorted(s, reverse=True)
    ]:
        if np.prod(sizes) <= most:
            for family, parallel, hosts in product(("hyperx", "torus"), ports, ports):
                yield {"shape": family, "sizes": sizes, "parallel": parallel, "hosts": hosts}
    for groups, group, links, hosts in product(range(2, most), range(2, most), ports, ports):
        if groups * group <= most and group * links % (groups - 1) == 0:
            yield {"shape": "dragonfly", "groups": groups, "switches": group, "global_links": links, "hosts": hosts}
    for groups, leaves, spines, links in product(range(2, most), range(1, most), ports, ports):
        if groups * (leaves + spines) <= most and spines * links % (groups - 1) == 0:
            keys = {"groups": groups, "leaves": leaves, "spines": spines, "global_links": links, "hosts": k - spines}
            yield {"shape": "dragonfly+", **keys}
    for q, hosts in product((3, 4, 5), ports):
        if 2 * q * q <= most:
            yield {"shape": "slim-fly", "q": q, "hosts": hosts}
    for side, parallel in product(range(1, most // 2 + 1), ports):
        yield {"shape": "bigraph", "side": side, "parallel": parallel}


def with_switch(shape: dict[str, Any], needs: Needs) -> dict[str, Any]:
    """Return a network with the model in all its places, and the storage that zones share."""
    if shape["shape"] != "zones":
        return {**shape, "switch": "S"}
    shared = ["storage"] if "storage" in needs.nodes and shape["zones"] == 2 else []
    joints = {"joints": {**shape["joints"], "switch": "S"}} if "joints" in shape else {}
    return {**shape, "tree": {**shape["tree"], "switch": "S"}, "shared": shared, **joints}


def main() -> None:
    """Compare, and print a line for each needs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--needs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--most", type=int, default=16, help="switches of the largest design that is tried")
    options = parser.parse_args()
    beaten = 0
    for seed in range(options.seed, options.seed + options.needs):
        needs, radix = draw(np.random.default_rng(seed))
        hardware = catalog(radix)
        begin = perf_counter()
        found = optimise(needs, hardware)
        seconds = perf_counter() - begin
        task = Task(needs, hardware)
        limit = options.most if found.winner is None else min(found.winner.switches - 1, options.most)
        tried, better = 0, ""
        for shape in shapes(radix, limit):
            try:
                spec = ClusterSpec.model_validate(
                    {"name": "t", "nodes": needs.nodes, "network": with_switch(shape, needs)}
                )
                design = judge(str(shape), spec.network, task)
            except (HeddleError, ValueError):
                continue
            tried += 1
            if design.switches <= limit and design.verdict is Verdict.HOLDS:
                better = f"BEATEN by {shape} at {design.price:g}, bound {found.bound:g}"
                beaten += 1
                break
        what = "none" if found.winner is None else f"{found.winner.name} at {found.winner.price:g}"
        print(f"{seed}: {what} in {seconds:.1f} s; {tried:,} cheaper designs tried. {better}", flush=True)
    print(f"beaten in {beaten} of {options.needs}")


if __name__ == "__main__":
    main()
