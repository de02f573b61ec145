"""Times the proof of all pairs on whole three-level trees; with --peer, ibdmchk on the same fabric and tables.

python benchmarks/timings/bench_proof.py                  8,000 hosts, 1,000 switches: 64 million pairs
python benchmarks/timings/bench_proof.py --largest        47,808 LIDs, as many as a subnet of whole pods holds
python benchmarks/timings/bench_proof.py --peer           ibdmchk beside it: two to three minutes and 3 GB
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from trees import modulo_tables, three_level_tree

from routing.opensm.ibdmchk import parse_report
from routing.proof import check_certificate, prove
from routing.routed import Routed
from routing.tables import RoutingTables
from tests.helpers.ibdmchk import write_ibdmchk_inputs
from topo.fabric import Fabric

T = TypeVar("T")
SIZES = {"small": (4, 4, 1), "8,000 hosts": (20, 20, 2), "largest": (32, 43, 1)}


def timed(work: Callable[[], T]) -> tuple[T, float]:
    start = time.perf_counter()
    return work(), time.perf_counter() - start


def case(name: str) -> tuple[Fabric, RoutingTables]:
    fabric = three_level_tree(*SIZES[name])
    return fabric, modulo_tables(fabric, *SIZES[name])


def ibdmchk_seconds(fabric: Fabric, tables: RoutingTables) -> float:
    """Seconds that ibdmchk takes, reading its files included; they are written before."""
    with TemporaryDirectory() as name:
        arguments = write_ibdmchk_inputs(Path(name), fabric, tables)
        run, seconds = timed(
            lambda: subprocess.run(["ibdmchk", *arguments], cwd=name, capture_output=True, text=True, check=False)
        )
    print(f"  ibdmchk: {parse_report(run.stdout)}")
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--largest", action="store_true", help="the largest subnet there can be")
    parser.add_argument("--peer", action="store_true", help="run ibdmchk too")
    options = parser.parse_args()
    prove(Routed(*case("small")))  # compiled or read from Numba's cache, once a machine
    name = "largest" if options.largest else "8,000 hosts"
    fabric, tables = case(name)
    proof, seconds = timed(lambda: prove(Routed(fabric, tables)))
    print(f"{name}: {fabric.n_switches:,} switches, {len(proof.ends):,} hosts, {int(tables.lid.max()):,} LIDs")
    print(f"  {proof.pairs:,} pairs, {proof.missing} missing, {proof.credit_loops} channels in credit loops")
    print(f"  proof: {seconds:.3f} s, {proof.pairs / seconds / 1e6:,.0f} million pairs a second")
    holds, checked = timed(lambda: check_certificate(Routed(fabric, tables), proof))
    print(f"  certificate checked anew: {holds}, {checked:.2f} s")
    print(f"  peak memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")
    if options.peer:
        peer = ibdmchk_seconds(fabric, tables)
        print(f"  ibdmchk: {peer:.1f} s, {peer / seconds:,.0f} times as long as the proof")


if __name__ == "__main__":
    main()
