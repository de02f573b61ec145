"""Beside brute force: is any design of any family cheaper than what `costmodel.optimise` finds?

Random needs of up to 300 servers on switches of 6 to 64 ports. Every spec of all families that has room for the servers
and costs less is drawn up from its parameters, those with the most links first, compiled, counted, and judged by sums
of its own: all sets of switches are tried for the worst cut, and every switch is taken away. Nothing of the search is
used but its answer. Where there are more specs than `--seconds` allow, those that were left out are counted.

    python benchmarks/optimum/brute_force.py --needs 100
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations, product
from time import process_time
from types import MappingProxyType
from typing import Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from costmodel.optimise.needs import Needs
from costmodel.optimise.search import FAMILIES, optimise
from topo.catalog.load import Catalog, load_catalog
from topo.catalog.models import Price, PricePoint, Source, SwitchModel
from topo.cluster import Cluster
from topo.cluster_spec import ClusterSpec
from topo.errors import HeddleError
from topo.fabric import Fabric, Kind, Role
from topo.speeds import LinkSpeed

PRICE = 3.0
RATE = 200.0
"""Gb/s of each link."""


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
    """Return needs, and ports of the switch: at most 300 servers, on few enough switches for all sets to be tried."""
    radix = int(rng.choice([6, 8, 10, 16, 36, 64]))
    many = rng.random() < 0.25  # eight adapters a server, for planes and rails
    count = int(rng.integers(max(radix // 2, 3), min(5 * radix, 300)))
    count = max(count // 8, 2) if many else count
    storage = 0 if many else int(rng.choice([0, 0, 2, 4]))
    nodes: dict[str, Any] = {"gpu": {"model": "dgx-a100" if many else "pcie-a100", "count": count}}
    if storage:
        nodes["storage"] = {"model": "storage-3fs", "count": storage}
    bandwidth: dict[str, Any] = {"compute": float(rng.choice([0.0, 0.1, 0.3]))}
    if storage and rng.integers(2):
        bandwidth["storage"] = ["200 Gb/s", 0.5, 1.0][int(rng.integers(3))]
    if not many and rng.random() < 0.3:
        nodes["head"] = {"model": "management", "count": int(rng.integers(1, 4))}
        bandwidth["management"] = ["200 Gb/s", 0.5, 1.0][int(rng.integers(3))]
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
            "bandwidth": bandwidth,
            "survives_a_switch": bool(rng.integers(2)),
            "switches": ["S"],
            # Of all families a few planes of one switch would always win.
            "families": [str(rng.choice(sorted(FAMILIES)))] if many and rng.random() < 0.7 else [],
        }
    )
    return needs, radix


def ports(needs: Needs) -> int:
    """Adapters of all servers."""
    each = {"dgx-a100": 8, "pcie-a100": 1, "storage-3fs": 2, "management": 1}
    return sum(group.count * each[group.model] for group in needs.nodes.values())


def shapes(k: int, most: int, hosts: int, rails: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield links and spec of every network on at most so many switches of k ports that has room for all adapters."""
    if hosts <= k and most:
        yield 0, {"shape": "fat-tree", "levels": 1}
    for number in (n for n in range(2, rails + 1) if rails % n == 0):
        for links, tree in trees(k, most // number, hosts // number):
            yield number * links, {"shape": "planes", "planes": number, "tree": tree}
    yield from trees(k, most, hosts)
    if rails > 1:
        for unit, spines, parallel in product(range(1, k), range(1, k), range(1, k)):
            leaves = rails * -(-(hosts // rails) // unit)
            if unit + spines * parallel <= k and leaves * parallel <= k and leaves + spines <= most:
                tree = {"shape": "fat-tree", "levels": 2, "spines": spines, "parallel": parallel}
                yield leaves * spines * parallel, {"shape": "rail", "unit_nodes": unit, "tree": tree}
    for zones in range(2, 9):
        for links, tree in two_levels(k, most // zones):
            leaves, up = tree["leaves"], tree["spines"] * tree["parallel"]
            left = zones * leaves * (k - up) - hosts
            zone = {"shape": "zones", "zones": zones, "tree": tree}
            for out, placement in product(range(1, min(leaves * up // 2, left // zones) + 1), ("border", "spread")):
                yield zones * (links + out // 2), {**zone, "direct": {"ports": out, "placement": placement}}
                for joints in range(1, most - zones * (leaves + tree["spines"]) + 1):
                    between = {"count": joints, "ports": out, "placement": placement}
                    yield zones * (links + out // 2), {**zone, "joints": between}
    for sizes in [(a,) for a in range(2, most + 1)] + [
        tuple(s) for d in (2, 3) for s in product(range(2, most + 1), repeat=d) if list(s) == sorted(s, reverse=True)
    ]:
        n = int(np.prod(sizes))
        for family, parallel in product(("hyperx", "torus"), range(1, k)):
            degree = parallel * sum(min(size - 1, 2) if family == "torus" else size - 1 for size in sizes)
            if n <= most and n * (k - degree) >= hosts:
                yield n * degree // 2, {"shape": family, "sizes": sizes, "parallel": parallel, "hosts": k - degree}
    for groups, group, links in product(range(2, most), range(2, most), range(1, k)):
        degree = group - 1 + links
        if groups * group <= most and group * links % (groups - 1) == 0 and groups * group * (k - degree) >= hosts:
            keys = {"groups": groups, "switches": group, "global_links": links, "hosts": k - degree}
            yield groups * group * degree // 2, {"shape": "dragonfly", **keys}
    for groups, leaves, spines, links in product(range(2, most), range(1, most), range(1, k), range(1, k)):
        linked = spines * links % (groups - 1) == 0 and leaves + links <= k
        if linked and groups * (leaves + spines) <= most and groups * leaves * (k - spines) >= hosts:
            keys = {"groups": groups, "leaves": leaves, "spines": spines, "global_links": links}
            yield groups * spines * (leaves + links // 2), {"shape": "dragonfly+", **keys, "hosts": k - spines}
    for q, room in product((3, 4, 5), range(1, k)):
        if 2 * q * q <= most and 2 * q * q * room >= hosts:
            yield 3 * q**3 // 2, {"shape": "slim-fly", "q": q, "hosts": room}
    for side, parallel in product(range(1, most // 2 + 1), range(1, k)):
        if 2 * side * (k - side * parallel) >= hosts:
            yield side * side * parallel, {"shape": "bigraph", "side": side, "parallel": parallel}


def searched(shape: dict[str, Any], needs: Needs) -> bool:
    """Whether a network is of the families of needs. Two families have it otherwise: a ring of three is a HyperX, and
    zones have several leaves."""
    if (shape["shape"] == "torus" and max(shape["sizes"]) <= 3) or (
        shape["shape"] == "zones" and shape["tree"]["leaves"] < 2
    ):
        return False
    return not needs.families or shape["shape"] in needs.families


def two_levels(k: int, most: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield every tree of two levels."""
    for spines in range(1, min(most, k)):
        for parallel, leaves in product(range(1, (k - 1) // spines + 1), range(1, most - spines + 1)):
            if leaves * parallel <= k:
                keys = {"levels": 2, "leaves": leaves, "spines": spines, "parallel": parallel}
                yield leaves * spines * parallel, {"shape": "fat-tree", **keys}


def trees(k: int, most: int, hosts: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield every tree of one to three levels with room for all adapters."""
    if hosts <= k and most:
        yield 0, {"shape": "fat-tree", "levels": 1}
    yield from (
        (links, tree)
        for links, tree in two_levels(k, most)
        if tree["leaves"] * (k - tree["spines"] * tree["parallel"]) >= hosts
    )
    for leaves, pod, spines in product(range(3, most), range(2, k), range(1, min(most, k))):
        pods = -(-leaves // pod)
        for parallel in range(1, (k - 1) // max(spines, pod) + 1):
            if pods < 2 or leaves * (k - spines * parallel) < hosts:
                continue
            for cores, up in product(
                range(1, most - leaves - pods * spines + 1), range(1, min(pod * parallel, k - pod * parallel) + 1)
            ):
                keys = {"leaves": leaves, "spines": spines, "parallel": parallel, "leaves_per_pod": pod, "cores": cores}
                ratio = max(np.ceil(pod * parallel / up * 1e6) / 1e6, 1.0)
                tree = {"shape": "fat-tree", "levels": 3, **keys, "spine_oversubscription": ratio}
                yield leaves * spines * parallel + pods * spines * up, tree


def holds(fabrics: Sequence[Fabric], needs: Needs) -> bool:
    """Whether a network meets needs, by trying every set of switches as a side, and taking every switch away."""
    if (
        needs.survives_a_switch
        and len(fabrics) == 1
        and not all(whole_without(fabrics[0], s) for s in range(fabrics[0].n_switches))
    ):
        return False
    servers = sorted(
        {fabric.hosts[fabric.host[n]] for fabric in fabrics for n in np.flatnonzero(fabric.role == Role.COMPUTE)}
    )
    size = min(needs.job.nodes, len(servers))
    jobs = [servers[i : i + size] for i in range(0, len(servers) - size + 1, size)] if size > 1 else []
    for at_once in [[job] for job in jobs] if needs.job.alone else [jobs][: len(jobs)]:
        if not every_job_gets(needs.job.bisection, fabrics, at_once, with_storage=needs.job.with_storage):
            return False
    if not every_job_gets(needs.bandwidth.compute.share, fabrics, [servers], with_storage=False):
        return False
    for role in (Role.STORAGE, Role.MANAGEMENT):
        wanted = needs.bandwidth.of(role)
        if sent(fabrics, role) < wanted.gbps / RATE - 1e-9 or not every_server_sends(wanted.share, fabrics, role):
            return False
    return True


def whole_without(fabric: Fabric, gone: int) -> bool:
    """Whether servers that have a cable left without a switch stay linked: compute servers to each other server."""
    ends = np.sort(fabric.port_node[fabric.links], axis=1)
    kept = ends[(ends != gone).all(axis=1)]
    _, part = connected_components(coo_array((np.ones(len(kept)), kept.T), shape=(fabric.n_nodes,) * 2), directed=False)
    parts: dict[tuple[bool, int], set[int]] = {}
    for node in kept[:, 1][fabric.kind[kept[:, 1]] == Kind.HCA].tolist():
        compute = fabric.role[node] == Role.COMPUTE
        parts.setdefault((bool(compute), int(fabric.host[node])), set()).add(int(part[node]))
    kinds = {(compute, frozenset(each)) for (compute, _), each in parts.items()}
    return all(a[1] & b[1] for a, b in combinations(kinds, 2) if a[0] or b[0])


def sides(fabric: Fabric) -> tuple[np.ndarray, np.ndarray]:
    """Return all sets of switches, and how many links lead out of each."""
    n = fabric.n_switches
    ends = np.sort(fabric.port_node[fabric.links], axis=1)
    inner = ends[ends[:, 1] < n]
    links = np.zeros((n, n))
    np.add.at(links, (inner[:, 0], inner[:, 1]), 1.0)
    links += links.T
    sets = (np.arange(1 << (n - 1))[:, None] >> np.arange(n) & 1).astype(np.float64)
    return sets, sets @ links.sum(axis=1) - ((sets @ links) * sets).sum(axis=1)


def hung(fabric: Fabric) -> list[tuple[int, int]]:
    """Return adapters and their switches."""
    ends = np.sort(fabric.port_node[fabric.links], axis=1)
    return [(node, at) for at, node in ends[ends[:, 1] >= fabric.n_switches].tolist()]


def every_job_gets(
    share: float, fabrics: Sequence[Fabric], jobs: Sequence[Sequence[str]], *, with_storage: bool
) -> bool:
    """Whether no cut has fewer links than the halves of jobs must send over it, for each server to get a share.

    The worst halves are the servers with the most adapters on a side and the others. The one has so many more there as
    the sum of what all servers are off their median, which is the least such sum for any number of adapters.
    """
    for fabric in fabrics:
        n = fabric.n_switches
        rows: dict[object, dict[str, np.ndarray]] = {}
        owner = {server: job for job, servers in enumerate(jobs) for server in servers}
        zone_of = fabric.zone if fabric.arrangement.startswith("levels") else np.zeros(fabric.n_nodes, int)
        used = set()

        def count(job: object, server: str, at: int, rows: dict = rows, n: int = n) -> None:
            rows.setdefault(job, {}).setdefault(server, np.zeros(n))[at] += 1

        for node, at in hung(fabric):
            server = fabric.hosts[fabric.host[node]]
            if server in owner:
                used.add(int(zone_of[node]))
                count(owner[server], server, at)
        for node, at in hung(fabric):
            zone = int(zone_of[node])
            if with_storage and fabric.role[node] == Role.STORAGE and zone in used:
                count(("storage", zone), fabric.hosts[fabric.host[node]], at)
        sets, links = sides(fabric)
        for servers in rows.values():
            kinds, number = np.unique(np.array(list(servers.values())), axis=0, return_counts=True)
            inside = kinds @ sets.T
            asked = [number @ np.abs(inside - middle) for middle in range(int(kinds.sum(axis=1).max()) + 1)]
            links = links - share * np.min(asked, axis=0)
        if links.min() < -1e-9:
            return False
    return True


def every_server_sends(share: float, fabrics: Sequence[Fabric], role: Role) -> bool:
    """Whether no set of switches has more to send than its links and its compute servers take, at a share."""
    for fabric in fabrics:
        give, take = on_switches(fabric, role), on_switches(fabric, Role.COMPUTE)
        sets, links = sides(fabric)
        both = np.concatenate([sets, 1 - sets])
        if (share * both @ give - both @ take - np.tile(links, 2)).max() > 1e-9:
            return False
    return True


def on_switches(fabric: Fabric, role: Role) -> np.ndarray:
    """Return how many adapters of a role hang on each switch."""
    return np.bincount([at for node, at in hung(fabric) if fabric.role[node] == role], minlength=fabric.n_switches)


def sent(fabrics: Sequence[Fabric], role: Role) -> float:
    """What servers of a role can send to those that compute, in links: the least cut between them, over all sets."""
    total = 0.0
    for fabric in fabrics:
        rows = {each: on_switches(fabric, each) for each in (role, Role.COMPUTE)}
        sets, links = sides(fabric)
        give, take = (sets @ rows[each] for each in (role, Role.COMPUTE))
        there = links + give + rows[Role.COMPUTE].sum() - take
        back = links + take + rows[role].sum() - give
        total += float(min(there.min(), back.min()))
    return total


def with_switch(shape: dict[str, Any], needs: Needs) -> dict[str, Any]:
    """Return a network with the model in all its places, and the storage that zones share."""
    if shape["shape"] in ("planes", "rail"):
        return {**shape, "tree": {**shape["tree"], "switch": "S"}}
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
    parser.add_argument("--most", type=int, default=15, help="switches of the largest design that is tried")
    parser.add_argument("--seconds", type=float, default=20.0, help="of CPU, for brute force beside each needs")
    options = parser.parse_args()
    beaten = above = whole = wrong = 0
    for seed in range(options.seed, options.seed + options.needs):
        needs, radix = draw(np.random.default_rng(seed))
        hardware = catalog(radix)
        found = optimise(needs, hardware)
        if found.winner is not None and found.winner.switches <= options.most:
            wrong += not holds(Cluster(found.winner.spec, hardware).fabrics, needs)
        most = options.most if found.winner is None else min(found.winner.switches - 1, options.most)
        rails = 8 if ports(needs) == 8 * needs.nodes["gpu"].count else 1
        every = shapes(radix, most, ports(needs), rails)
        designs = sorted((each for each in every if searched(each[1], needs)), key=lambda design: -design[0])
        begin, tried, better = process_time(), 0, ""
        for _, shape in designs:
            if process_time() > begin + options.seconds:
                break
            tried += 1
            try:
                network = {"name": "t", "nodes": needs.nodes, "network": with_switch(shape, needs)}
                fabrics = Cluster(ClusterSpec.model_validate(network), hardware).fabrics
            except (HeddleError, ValueError):
                continue
            if sum(fabric.n_switches for fabric in fabrics) <= most and holds(fabrics, needs):
                price = PRICE * sum(fabric.n_switches for fabric in fabrics)
                beaten += 1
                above += found.bound > price
                better = f"BEATEN by {shape} at {price:g}, bound {found.bound:g}"
                break
        whole += tried == len(designs) and found.winner is not None and found.winner.switches <= options.most + 1
        what = "none" if found.winner is None else f"{found.winner.name} at {found.winner.price:g}"
        print(
            f"{seed}: {needs.nodes['gpu'].count} x {needs.nodes['gpu'].model} on {radix} ports: {what}; "
            f"{tried:,} of {len(designs):,} cheaper designs tried. {better}",
            flush=True,
        )
    print(f"beaten in {beaten} of {options.needs}, bound too high in {above}, winners that miss a need {wrong}")
    print(f"all cheaper designs tried in {whole}")


if __name__ == "__main__":
    main()
