"""Our figures of OpenSM's tables are those that others measured: ``opensm_metrics.csv`` beside the real fabrics."""

import csv
import gzip
from pathlib import Path

import numpy as np
import pytest

from helpers.opensm_daemon import run_opensm
from helpers.strategies import nightly
from routing.proof import check_certificate, prove
from routing.quality.figures import bisections, congestion, measure, permutations
from routing.routed import Routed
from routing.tables import select_endpoints, tree_order
from topo.dumps.ibnetdiscover import parse_ibnetdiscover
from topo.fabric import Fabric, Kind

pytestmark = pytest.mark.peer("ibsim", "opensm", "ibdmchk", "usr/lib/*/umad2sim/libumad2sim.so")

FILES = {
    "model_zone1": "fireflyer_models/zone1_800hca_60sw.ibnetdiscover.txt.gz",
    "model_twozone": "fireflyer_models/twozone_1560hca_122sw.ibnetdiscover.txt.gz",
    "clova_superpod_a100_2022": "clova_superpod_a100_2022/ibnetdiscover.gz",
    "lassen_cs7500_2019": "lassen_cs7500_2019/ibnetdiscover.gz",
    "ndr_dgx_2025": "ndr_dgx_2025/ibnetdiscover.gz",
    "azure_sat11_2021": "azure_sat11_2021/ibnetdiscover.gz",
    "janus_is5600_2014": "janus_is5600_2014/ibnetdiscover.gz",
    "kr_dual_cs8500_2021": "kr_dual_cs8500_2021/ibnetdiscover.gz",
}
CASES = [(name, "minhop") for name in FILES] + [
    ("model_zone1", "nue"),
    nightly("model_twozone", "dfsssp"),
    nightly("clova_superpod_a100_2022", "dfsssp"),
    ("ndr_dgx_2025", "dfsssp"),
]


def read(folder: Path, name: str) -> Fabric:
    return parse_ibnetdiscover(gzip.decompress((folder / FILES[name]).read_bytes()).decode(errors="replace")).fabric


@pytest.mark.parametrize(("name", "engine"), CASES)
def test_our_figures_are_the_published_ones(name: str, engine: str, originals: Path, tmp_path: Path) -> None:
    fabric = read(originals, name)
    with (originals / "opensm_metrics.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if (row["fabric"], row["engine"]) == (name, engine)]
    published = {key: float(value) for key, value in rows[0].items() if key not in ("fabric", "engine")}
    tables = run_opensm(fabric, tmp_path, engine).tables
    hcas = select_endpoints(fabric, tables)
    proof = prove(Routed(fabric, tables), hcas)
    quality = measure(Routed(fabric, tables), tree_order(fabric, hcas), seed=1)
    assert quality.ranks == published["hca_ports"]
    assert proof.missing == published["unreachable_leaf_dest_pairs"] == 0
    assert (proof.credit_loops > 0) == (published["channels_left_in_cyclic_part_single_vl"] > 0)
    assert check_certificate(Routed(fabric, tables), proof) == (proof.credit_loops == 0)
    assert round(quality.balance, 3) == published["a2a_max_over_mean_used_link"]
    assert quality.unused == published["unused_directed_links"]
    share = quality.uplinks[0]
    assert (share.min, round(share.mean, 1), share.max) == tuple(
        published[f"dests_per_leaf_uplink_{which}"] for which in ("min", "mean", "max")
    )
    # 200 random samples of ours and of theirs: each mean has a standard error of at most 0.001. Theirs count flows,
    # which is less than what flows get at fair rates.
    rng, ranks = np.random.default_rng(1), tree_order(fabric, hcas)
    for kind, key, found in (
        (bisections, "eBB_bisect", quality.random_bisections),
        (permutations, "random_perm_bw", quality.permutation),
    ):
        _, counted, _ = congestion(Routed(fabric, tables), ranks, kind(len(ranks), 200, rng))
        assert counted.mean() == pytest.approx(published[key], abs=0.004)
        assert counted.mean() <= found.bandwidth
    assert quality.permutation.max_load_median == pytest.approx(published["random_perm_max_load_median"], abs=1)
    assert fabric.kind[fabric.end_node[proof.ends]].tolist() == [Kind.HCA] * len(proof.ends)
