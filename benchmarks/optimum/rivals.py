"""Beside rivals by hand: is any network that is written out in loops, routed and played cheaper than the winner?

Random needs of up to 60 servers on two models of switches of 6 to 16 ports, priced in USD with cables.
Rivals are specs as people write them, made by the loops below and read by `topo.parse`; none comes
from the search. Of each that is cheaper than the winner the price is counted from its cables; it is routed as it would
be loaded, proven, routed again without each switch, and halves of all jobs are played in the fluid engine: halves at
random, and those on either side of every set of switches. A rival that delivers what is needed in all of them has
beaten the search. The winner itself is routed and proven, and the play of the halves that its worst cut divides may
give no more than that cut has.

    python benchmarks/optimum/rivals.py --needs 40
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

import costmodel
import routing
import simulate
import topo
from plan.finalists import judge_finalists

BYTES = float(1 << 20)
CABLE = 0.25
PORTS = {"pcie-a100": 1, "storage-3fs": 2}
SWITCHES = "model,protocol,chip,radix,speed,managed,connector,cages,split_radix,chips,source,date,confidence\n"


def catalog(folder: Path, models: dict[str, int]) -> None:
    """Write switches of so many ports."""
    rows = (f"{name},infiniband,x,{radix},4xHDR,yes,QSFP56,{radix},,1,s,2026,I\n" for name, radix in models.items())
    (folder / "switches.csv").write_text(SWITCHES + "".join(rows), encoding="utf-8")


def draw(seed: int, folder: Path) -> dict[str, Any]:
    """Return needs as a mapping."""
    rng = np.random.default_rng(seed)
    models = {f"S{radix}": int(radix) for radix in rng.choice([6, 8, 10, 12, 16], 2, replace=False)}
    catalog(folder, models)
    count = int(rng.integers(4, 50))
    nodes: dict[str, Any] = {"gpu": {"model": "pcie-a100", "count": count}}
    if rng.random() < 0.4:
        nodes["storage"] = {"model": "storage-3fs", "count": int(rng.integers(1, 5))}
    sizes: Any = int(rng.integers(count // 2, count + 1))
    if rng.random() < 0.3 and count > 9:
        sizes = [{"size": int(rng.integers(2, count // 3)), "share": 0.5}, {"size": 2, "share": 0.5}]
    job = {"nodes": sizes, "bisection": float(rng.choice([0.5, 1.0])), "alone": bool(rng.integers(2))}
    return {
        "name": "t",
        "catalog": str(folder),
        "nodes": nodes,
        "job": job | {"with_storage": bool(rng.integers(2))},
        "bandwidth": {"storage": [0.0, 0.5, "300 Gb/s"][int(rng.integers(3))]} if "storage" in nodes else {},
        "survives_a_switch": bool(rng.integers(2)),
        "switches": list(models),
        "currency": "USD",
        "quotes": {name: radix * float(rng.choice([0.5, 0.8])) for name, radix in models.items()} | {"4xHDR": CABLE},
    }


def networks(models: dict[str, int], most: int) -> Iterator[tuple[dict[str, int], int, int, dict[str, Any]]]:
    """Yield networks of at most so many switches: which those are, ports for servers, links, and the spec."""
    for a, ports in models.items():
        yield {a: 1}, ports, 0, {"shape": "fat-tree", "switch": a, "levels": 1}
        for b, leaves, spines, links in product(models, range(2, most), range(1, most), range(1, 9)):
            up = spines * links
            if leaves + spines <= most and up < ports and leaves * links <= models[b]:
                keys = {"levels": 2, "leaves": leaves, "spines": spines, "parallel": links}
                used = {a: leaves + spines} if a == b else {a: leaves, b: spines}
                yield (
                    used,
                    leaves * (ports - up),
                    leaves * up,
                    {"shape": "fat-tree", "switch": a, "spine_switch": b, **keys},
                )
        for n, links in product(range(2, most + 1), range(1, 9)):
            for shape, degree in (("hyperx", n - 1), ("torus", min(n - 1, 2))):
                if (up := degree * links) < ports:
                    keys = {"sizes": [n], "parallel": links, "hosts": ports - up}
                    yield {a: n}, n * (ports - up), n * up // 2, {"shape": shape, "switch": a, **keys}
        for x, y, links in product(range(2, most), range(2, most), range(1, 5)):
            if x * y <= most and (up := (x + y - 2) * links) < ports:
                keys = {"sizes": [x, y], "parallel": links, "hosts": ports - up}
                yield {a: x * y}, x * y * (ports - up), x * y * up // 2, {"shape": "hyperx", "switch": a, **keys}
        for side, links in product(range(1, most // 2 + 1), range(1, 9)):
            if (up := side * links) < ports:
                network = {"shape": "bigraph", "switch": a, "side": side, "parallel": links}
                yield {a: 2 * side}, 2 * side * (ports - up), side * up, network
        for zones, leaves, spines, links, out in product((2, 3), range(2, 5), (1, 2, 3), (1, 2, 3), range(1, 13)):
            if zones * (leaves + spines) <= most and (up := spines * links) < ports and leaves * links <= ports:
                tree = {"switch": a, "levels": 2, "leaves": leaves, "spines": spines, "parallel": links}
                network = {
                    "shape": "zones",
                    "zones": zones,
                    "tree": tree,
                    "direct": {"ports": out, "placement": "spread"},
                }
                room = zones * (leaves * (ports - up) - out)
                yield {a: zones * (leaves + spines)}, room, zones * (leaves * up + out // 2), network


def price(fabric: topo.Fabric, quotes: dict[str, float]) -> float:
    """Count switches and cables."""
    models = [fabric.models[fabric.model[switch]] for switch in range(fabric.n_switches)]
    return sum(quotes[model] for model in models) + CABLE * len(fabric.links)


def jobs_of(fabric: topo.Fabric, needs: dict[str, Any]) -> list[list[np.ndarray]]:
    """Return the ends of jobs, and of the storage beside them, in groups that run at the same time."""
    ends = fabric.ends(role="compute")  # in the order of the names, one each
    sizes, job = needs["job"]["nodes"], needs["job"]
    parts = [(sizes, 1.0)] if isinstance(sizes, int) else [(each["size"], each["share"]) for each in sizes]
    jobs, first = [], 0
    for size, share in parts:
        room = min(round(len(ends) * share), len(ends) - first)
        jobs += [ends[at : at + size] for at in range(first, first + room - size + 1, size) if size > 1]
        first += room
    beside = [fabric.ends(role="storage")] if job["with_storage"] and "storage" in needs["nodes"] else []
    return [[one, *beside] for one in jobs] if job["alone"] else [[*jobs, *beside]] if jobs else []


def halves(fabric: topo.Fabric, jobs: Sequence[np.ndarray], rng: np.random.Generator) -> Iterator[list[np.ndarray]]:
    """Yield orders of each job, whose first half sends to the second: at random, and by sets of switches."""
    peer = fabric.port_node[fabric.peer[fabric.port_of(np.concatenate(jobs))]]
    at = dict(zip(np.concatenate(jobs).tolist(), peer.tolist(), strict=True))
    for _ in range(3):
        yield [rng.permutation(job) for job in jobs]
    used = sorted(set(at.values()))
    for mask in range(1, min((1 << len(used)) - 1, 256)):  # either side first: of an odd job the last is left out
        inside = {switch for bit, switch in enumerate(used) if mask >> bit & 1}
        yield [np.array(sorted(job.tolist(), key=lambda end: at[end] not in inside)) for job in jobs]


def least_played(tables: routing.Routed, jobs: Sequence[np.ndarray], enough: float, rng: np.random.Generator) -> float:
    """Return the least share that a job got in any play; the last pair of a job decides, as the fluid engine has it."""
    fabric, least = tables.fabric, 1.0
    for orders in halves(fabric, jobs, rng):
        src = np.concatenate([order[: len(order) // 2] for order in orders])
        dst = np.concatenate([order[len(order) // 2 :][: len(order) // 2] for order in orders])
        if len(src):
            played = simulate.play(tables, simulate.Flows.of(src, dst, BYTES))
            rate = np.minimum(fabric.rate_gbps[fabric.port_of(src)], fabric.rate_gbps[fabric.port_of(dst)])
            least = min(least, float((BYTES * 8e-9 / played.finish_s / rate).min()))
        if least < enough:
            break
    return least


def delivers(fabric: topo.Fabric, needs: dict[str, Any], rng: np.random.Generator) -> bool:
    """Whether a network, as it would be routed, gives every job and the storage what is needed, in all plays."""
    tables = routing.route(fabric, "auto")
    if not routing.prove(tables).holds:
        return False
    storage = needs["bandwidth"].get("storage", 0.0)
    if storage:
        give, take = fabric.ends(role="storage"), fabric.ends(role="compute")
        needed = 300.0 if isinstance(storage, str) else storage * 200.0 * len(give)
        src, dst = (each.ravel() for each in np.meshgrid(give, take))
        sent = simulate.play(tables, simulate.Flows.of(src, dst, BYTES)).makespan_s
        if BYTES * 8e-9 * len(src) / sent < needed:
            return False
    for jobs in jobs_of(fabric, needs):
        if least_played(tables, jobs, needs["job"]["bisection"] - 1e-6, rng) < needs["job"]["bisection"] - 1e-6:
            return False
    if needs["survives_a_switch"]:
        mine = fabric.port_node[fabric.links]
        for switch in range(fabric.n_switches):
            left = fabric.without(fabric.links[(mine == switch).any(axis=1), 0])
            hosts = left.end_node[left.ends()]
            cabled = set(left.port_node[left.links].ravel().tolist())
            if not routing.prove(routing.route(left, "shortest")).holds and len(cabled & set(hosts.tolist())) > 1:
                reached = topo_parts(left)
                if len({reached[node] for node in hosts.tolist() if node in cabled}) > 1:
                    return False
    return True


def topo_parts(fabric: topo.Fabric) -> np.ndarray:
    """Return the part of each node that cables join."""
    part = np.arange(fabric.n_nodes)
    ends = fabric.port_node[fabric.links]
    while True:
        before = part.copy()
        for a, b in (ends.T, ends.T[::-1]):
            np.minimum.at(part, a, part[b])
        if (before == part).all():
            return part


def compare(seed: int, most_rivals: int) -> tuple[str, bool]:
    """Compare one needs; return a line about it, and whether the search was beaten or wrong."""
    with tempfile.TemporaryDirectory() as name:
        needs = draw(seed, Path(name))
        models = {model: int(model[1:]) for model in needs["switches"]}
        found = costmodel.optimise(costmodel.Needs.model_validate(needs))
        rng = np.random.default_rng(seed)
        cluster = {"name": "t", "catalog": name, "nodes": needs["nodes"]}
        least, what, wrong = float("inf"), "none", ""
        if found.winner is not None:
            least, what = found.winner.price, f"{found.winner.name} at {found.winner.price:g}"
            spec = found.winner.spec.model_dump(mode="json", exclude_unset=True)
            fabrics = topo.parse(spec | {"catalog": name}).subnets
            if abs(sum(price(fabric, needs["quotes"]) for fabric in fabrics) - least) > 1e-6:
                wrong = "THE PRICE IS WRONG"
            wrong = wrong or ("" if routed_well(found.winner, found.needs) else "PLAYS BEAT THE CUT")
        hosts = sum(group["count"] * PORTS[group["model"]] for group in needs["nodes"].values())
        rivals = []
        for used, room, links, network in networks(models, 9):
            paid = sum(needs["quotes"][model] * count for model, count in used.items()) + CABLE * (links + hosts)
            if room >= hosts and paid < least - 1e-6:
                rivals.append((-paid, len(rivals), network))
        rivals.sort()
        played = rivals[:: max(len(rivals) // most_rivals, 1)][:most_rivals]
        for _, _, network in played:
            try:
                fabric = topo.parse(cluster | {"network": network}).fabric
            except topo.HeddleError:
                continue
            paid = price(fabric, needs["quotes"])
            if paid > least - 1e-6:
                continue
            if delivers(fabric, needs, rng):
                wrong = wrong or f"BEATEN at {paid:g}, bound {found.bound:g}: {network}"
        count = sum(group["count"] for group in needs["nodes"].values())
        return f"{seed}: {count} servers: {what}; {len(played)} of {len(rivals)} cheaper rivals played. {wrong}", bool(
            wrong
        )


def routed_well(winner: costmodel.Design, needs: costmodel.Needs) -> bool:
    """Whether the winner's tables are proven, and its play over the worst cut takes as long as the cut's bytes do."""
    try:
        return judge_finalists([winner], needs)[0].proven
    except RuntimeError:
        return False


def main() -> None:
    """Compare, and print a line for each needs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--needs", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rivals", type=int, default=15, help="of each needs that are routed and played")
    options = parser.parse_args()
    wrong, begin = 0, process_time()
    for seed in range(options.seed, options.seed + options.needs):
        line, bad = compare(seed, options.rivals)
        wrong += bad
        print(line, flush=True)
    print(f"beaten or wrong in {wrong} of {options.needs}; {process_time() - begin:.0f} s of CPU")


if __name__ == "__main__":
    main()
