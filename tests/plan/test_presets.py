"""Each spec that ships compiles to its published counts, and its tables are complete and free of credit loops."""

import re

import numpy as np
import pytest

from costmodel.bills import make_bill
from helpers.presets import ALIKE, LARGE, PRESETS, read_preset, routed, subnets
from helpers.strategies import nightly, slow_but
from plan.pipeline import BUILD, Plan, run_passes
from routing.proof import check_certificate, prove
from topo.cluster import Cluster
from topo.counts import count

PUBLISHED = {  # switches, leaves, spines, cores, GPUs, links between switches
    "fire-flyer-2": (122, 80, 40, 0, 9_600, 1_640),
    "fire-flyer-2-frames": (122, 80, 40, 0, 9_600, 1_640),
    "pcie-three-level": (200, 80, 80, 40, 9_600, 3_200),
    "dgx-baseline": (1_320, 500, 500, 320, 10_000, 20_000),
    "dgx-h100-48": (30, 20, 10, 0, 384, 640),
    "dgx-b200-superpod": (48, 32, 16, 0, 1_024, 1_024),
    "dgx-b300-xdr": (12, 8, 4, 0, 576, 576),
    "deepseek-v3-2048": (96, 64, 32, 0, 2_048, 2_048),
    "deepseek-v3-planes": (768, 512, 256, 0, 16_384, 16_384),
    "four-planes-32k": (768, 512, 256, 0, 32_768, 32_768),
    "slim-fly": (50, 50, 0, 0, 1_600, 175),
}
"""Rows of the papers that the presets cite, and of dgx-h100-48 by arithmetic; the links of deepseek-v3-2048 are those
of FT2, which is as large."""

LANES = {"dragonfly": 3, "slim-fly": 2}
"""Lanes that a preset says it needs; all others need one."""


@pytest.mark.parametrize("name", slow_but(PUBLISHED, *set(PUBLISHED) - LARGE))
def test_published_counts(name):
    source = read_preset(name)
    counts = count(source.subnets or source.fabrics, source.catalog)
    between = counts.links - counts.host_ports

    assert (counts.switches, counts.leaf, counts.spine, counts.core, counts.gpus, between) == PUBLISHED[name]


BY_NIGHT = ("dgx-baseline", "pcie-three-level", "deepseek-v3-2048", "dgx-a100-superpod", "fire-flyer-2-frames")
"""Trees of which a smaller one like them is routed by day, and the same fabric as Fire-Flyer 2 (below)."""


@pytest.mark.slow
@pytest.mark.parametrize("name", [nightly(name) if name in BY_NIGHT else name for name in PRESETS])
def test_every_preset_is_routed_completely_and_without_credit_loops(name):
    for fabric in subnets(name):
        result = routed(fabric)
        proof = prove(result)
        assert (proof.missing, proof.credit_loops) == (0, 0)
        assert proof.lanes == LANES.get(name, 1)
        assert check_certificate(result, proof)


@pytest.mark.parametrize("name", slow_but(sorted(ALIKE), *ALIKE - LARGE))
def test_planes_are_alike(name):
    source = read_preset(name)
    first, *others = source.subnets or source.fabrics

    for other in others:
        for field in ("kind", "role", "level", "port_offset", "peer", "width", "speed"):
            assert (getattr(first, field) == getattr(other, field)).all()


@pytest.mark.slow
def test_others_are_not_alike():
    alike = []
    for name in PRESETS:
        source = read_preset(name)
        fabrics = source.subnets or source.fabrics
        if len(fabrics) > 1 and len({fabric.peer.tobytes() for fabric in fabrics}) == 1:
            alike.append(name)

    assert set(alike) == ALIKE


def test_frames_are_the_same_fabric_with_half_the_cables():
    """To the router cable for cable the same; to the buyer 2 frames and 2 boxes, and 1,600 cables fewer."""
    boxes, frames = subnets("fire-flyer-2")[0], subnets("fire-flyer-2-frames")[0]
    catalog = read_preset("fire-flyer-2").catalog
    bill_of_boxes, bill_of_frames = make_bill([boxes], catalog), make_bill([frames], catalog)

    assert (boxes.peer == frames.peer).all()
    assert (boxes.zone == frames.zone).all()
    assert {(line.item, line.count) for line in bill_of_frames.of("switch").lines} == {("CS8500", 2), ("QM8700", 2)}
    assert bill_of_boxes.count("switch") == 122
    assert bill_of_boxes.count("cable") - bill_of_frames.count("cable") == 1_600


@pytest.mark.slow
def test_the_baseline_without_its_cores_is_the_one_by_arithmetic():
    source = read_preset("dgx-baseline")
    plain = source.spec.model_copy(update={"network": source.spec.network.model_copy(update={"cores": None})})

    assert Cluster(plain, source.catalog).fabrics[0].n_switches == 1_250


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["lab-20", "slow-subtrees", "direct-zones", "dgx-a100-superpod", nightly("dragonfly")],
)
def test_a_preset_becomes_a_whole_plan(name):
    plan = run_passes(Plan(name, read_preset(name)), BUILD)

    assert plan.refusals == ()
    assert plan.verdict == "holds"
    assert all(np.isfinite(quality.ebb) for quality in plan.qualities)


ROW = re.compile(r"^\| ([\w-]+) \| (\d) \| (\d\.\d) to 1 \|$", re.MULTILINE)


@pytest.mark.slow
def test_the_manual_compares_engines_by_what_they_do(repository):
    """The table at the end of docs/shapes.md, its ratios rounded to tenths."""
    rows = ROW.findall((repository / "docs" / "shapes.md").read_text(encoding="utf-8"))
    assert len(rows) == 6
    for name, lanes, times in rows:
        (fabric,) = subnets(name)
        one, many = (prove(routed(fabric, engine)) for engine in ("balanced", "shortest"))
        ratio = one.to_dict()["load"]["max"] / many.to_dict()["load"]["max"]
        assert (one.lanes, many.lanes, round(ratio, 1)) == (1, int(lanes), float(times)), name
