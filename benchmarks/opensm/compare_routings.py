"""The same traffic on our tables and on those of OpenSM: tables of docs/validation/simulated-routings.md.

Run from the repository, with OpenSM and ibsim installed (scripts/install-test-tools):

    python benchmarks/opensm/compare_routings.py                Fire-Flyer 2 and every real fabric: 15 minutes
    python benchmarks/opensm/compare_routings.py ndr_dgx_2025   some of them

Real fabrics are read from HEDDLE_FABRICS, or from shared/fabrics beside the checkout.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

import routing
from plan.inputs import read_fabric_argument
from plan.opensm_lab.ibsim import as_simulated, simulated
from routing.proof import prove
from routing.routed import Routed
from routing.tables import RoutingTables, select_endpoints, tree_order
from simulate import play
from simulate.traffic.collectives.algorithms import schedule
from simulate.traffic.flows import Flows
from simulate.traffic.network import Network
from topo.dumps.roles import format_guid_list
from topo.errors import FlowError, HeddleError
from topo.fabric import Fabric, Kind, Role

REPOSITORY = Path(__file__).parents[2]
FOLDER = Path(os.environ.get("HEDDLE_FABRICS") or REPOSITORY.parent / "shared" / "fabrics")
FABRICS = {
    "fire-flyer-2": REPOSITORY / "configs" / "fire-flyer-2.yaml",
    "fireflyer_models": FOLDER / "fireflyer_models" / "twozone_1560hca_122sw.ibnetdiscover.txt.gz",
    "azure_sat11_2021": FOLDER / "azure_sat11_2021" / "ibnetdiscover.gz",
    "clova_superpod_a100_2022": FOLDER / "clova_superpod_a100_2022" / "ibnetdiscover.gz",
    "kr_dual_cs8500_2021": FOLDER / "kr_dual_cs8500_2021" / "ibnetdiscover.gz",
    "lassen_cs7500_2019": FOLDER / "lassen_cs7500_2019" / "ibnetdiscover.gz",
    "janus_is5600_2014": FOLDER / "janus_is5600_2014" / "ibnetdiscover.gz",
    "ndr_dgx_2025": FOLDER / "ndr_dgx_2025" / "ibnetdiscover.gz",
    "tartu_fdr10_2014": FOLDER / "tartu_fdr10_2014" / "ibnetdiscover.gz",
}
ENGINES = ("minhop", "ftree", "dfsssp", "nue")
FEW = 256
"""Hosts of those loads whose messages grow with the square of the hosts."""
SIZE = 186 * 2**20
ALWAYS_READY = float("inf")
"""No message waits for its receiver: what delays one rank then delays others at once, and the tables are compared as
they were before messages could wait."""
SAMPLES = 5


def loads(ends: NDArray[np.int32], rng: np.random.Generator) -> dict[str, list[Flows]]:
    """Traffic between hosts in tree order: several draws of what is random."""
    n = len(ends)
    few = ends[np.linspace(0, n - 1, min(FEW, n)).astype(int)]
    permuted = [rng.permutation(n) for _ in range(SAMPLES)]
    ring = schedule("allreduce", "ring", len(few)).flows(SIZE)
    rings = [ring.placed(rng.permutation(few)) for _ in range(SAMPLES)]
    # A hair more to send, each time another: messages that wait for one another 255 times are chaotic where links are
    # shared, so that the last bit of a number decides on some per cent of the time.
    all_to_all = schedule("all-to-all", "shift", len(few)).flows(SIZE, ALWAYS_READY).placed(few)
    hairs = [1 + 1e-6 * rng.random(len(all_to_all)) for _ in range(SAMPLES)]
    return {
        "halving-doubling": [schedule("allreduce", "halving-doubling", n).flows(SIZE, ALWAYS_READY).placed(ends)],
        f"all-to-all of {FEW}": [replace(all_to_all, size_bytes=all_to_all.size_bytes * hair) for hair in hairs],
        f"ring of {FEW}, random": rings,
        "permutation": [Flows.of(ends, ends[order], SIZE) for order in permuted],
    }


@dataclass(frozen=True)
class Row:
    """What one engine makes of one fabric."""

    engine: str
    """Ours have names of their own."""
    lost: int
    loops: int
    times: list[float | None]
    """Milliseconds of each load, None where the tables lack a path."""


def milliseconds(network: Network, draws: list[Flows]) -> float | None:
    """Mean time until the last flow ends."""
    try:
        return float(np.mean([play(network, flows).makespan_s * 1e3 for flows in draws]))
    except FlowError:
        return None


def tables_of(fabric: Fabric, engine: str) -> RoutingTables:
    if engine == "ours":
        return routing.route(fabric).tables
    with TemporaryDirectory() as folder, simulated(fabric, Path(folder)) as subnet:
        return subnet.opensm(engine, as_a_tree(fabric) if engine == "ftree" else None).tables


def as_a_tree(fabric: Fabric) -> dict[str, bytes]:
    """The lists that ftree needs where it would not find the roots by itself, or hosts hang on them: nothing else
    than the HCAs of leaves counts as a compute node."""
    level, top = fabric.level[: fabric.n_switches], int(fabric.level[: fabric.n_switches].max())
    roots = np.flatnonzero((level == top) & (fabric.role[: fabric.n_switches] != Role.JOINT))
    home = fabric.end_switch
    ends = np.flatnonzero((fabric.kind[fabric.end_node] == Kind.HCA) & (home >= 0) & (level[np.maximum(home, 0)] == 1))
    guids = {"root_guids": fabric.node_guid[roots], "cn_guids": as_simulated(fabric).end_guid[ends]}
    return {name: format_guid_list((guid, "") for guid in listed.tolist()).encode() for name, listed in guids.items()}


def figures(name: str, fabric: Fabric, engine: str) -> Row | None:
    try:
        tables = tables_of(fabric, engine)
    except HeddleError as error:
        print(f"{name}, {engine}: {error}", file=sys.stderr)
        return None
    proof = prove(Routed(fabric, tables))
    hosts = select_endpoints(fabric, tables)
    hosts = hosts[(fabric.role[fabric.end_node[hosts]] == Role.COMPUTE) & (fabric.end_switch[hosts] >= 0)]
    network = Network.of(Routed(fabric, tables), lane_weights=1, latency_s=0)
    played = loads(tree_order(fabric, hosts), np.random.default_rng(0))
    times = [milliseconds(network, draws) for draws in played.values()]
    label = f"ours ({tables.engine})" if engine == "ours" else engine
    return Row(label, proof.lost, proof.credit_loops, times)


def table(columns: list[str], rows: Iterable[list[str]], words: int) -> Iterator[str]:
    yield f"| {' | '.join(columns)} |"
    yield f"|{'---|' * words}{'---:|' * (len(columns) - words)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def each_fabric(found: dict[str, dict[str, Row | None]]) -> Iterator[str]:
    columns = [
        "fabric",
        "engine",
        "pairs lost",
        "channels in credit loops",
        *loads(np.arange(2), np.random.default_rng()),
    ]

    def cells(name: str, engine: str, row: Row | None) -> list[str]:
        if row is None:
            return [name, engine, "does not route it", *[""] * (len(columns) - 3)]
        times = ["no path" if time is None else f"{time:,.1f}" for time in row.times]
        return [name, row.engine, f"{row.lost:,}", f"{row.loops:,}", *times]

    return table(columns, (cells(name, engine, row) for name, rows in found.items() for engine, row in rows.items()), 2)


def over_all(found: dict[str, dict[str, Row | None]]) -> Iterator[str]:
    """Each engine's times beside the best of all, over all fabrics and loads."""
    best = {name: np.min([_times(row) for row in rows.values()], axis=0) for name, rows in found.items()}
    summary = []
    for engine in ("ours", *ENGINES):
        rows = {name: by_engine[engine] for name, by_engine in found.items()}
        ratios = np.concatenate([_times(row) / best[name] for name, row in rows.items()])
        ratios = ratios[np.isfinite(ratios)]
        lost, loops = (sum(bool(getattr(row, what, 1)) for row in rows.values()) for what in ("lost", "loops"))
        times = [f"{np.exp(np.log(ratios).mean()):.2f}", f"{ratios.max():.2f}"] if len(ratios) else ["no path"] * 2
        summary.append([engine, f"{lost} of {len(rows)}", f"{loops} of {len(rows)}", *times])
    columns = ["engine", "fabrics with pairs lost", "fabrics with loops", "times the best, geometric mean", "at worst"]
    return table(columns, summary, 1)


def _times(row: Row | None) -> np.ndarray:
    n = len(loads(np.arange(2), np.random.default_rng()))
    return np.array([np.inf if row is None or row.times[at] is None else row.times[at] for at in range(n)], float)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fabrics", nargs="*", metavar="FABRIC", help=", ".join(FABRICS))
    found: dict[str, dict[str, Row | None]] = {}
    for name in parser.parse_args().fabrics or list(FABRICS):
        fabric = read_fabric_argument(FABRICS[name])
        found[name] = {engine: figures(name, fabric, engine) for engine in ("ours", *ENGINES)}
    print("\n".join([*each_fabric(found), "", *over_all(found)]))


if __name__ == "__main__":
    main()
