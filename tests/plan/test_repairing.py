"""What a repair, a loss study and a build say of the same tables: one name, and the same random halves."""

import json
from importlib import resources
from typing import Any

import numpy as np
import pytest

import plan
import routing
import topo
from helpers.clusters import zoned
from topo.fabric import Fabric

LAB = topo.preset("lab-20").fabric
ZONED = zoned(leaves=4, spines=4, n_gpus=24, n_storage=0, joints=2, ports=4)
PARTS = [(LAB, "spine0"), pytest.param(LAB, "leaf1", marks=pytest.mark.slow)]
PARTS += [pytest.param(ZONED, part, marks=pytest.mark.slow) for part in ("joint0", "z0-leaf1")]


@pytest.mark.parametrize(("fabric", "part"), PARTS)
def test_the_same_tables_have_the_same_effective_bisection_everywhere(fabric: Fabric, part: str) -> None:
    routed = routing.route(fabric, "minhop" if fabric is LAB else "balanced")
    whole, static, _ = routing.studies.study_loss(routed, part).table.to_dict()["effective bisection"]
    repaired = plan.repair(routed, down=[part])
    worth = repaired.worth.to_dict()["effective bisection"]

    left = routing.studies.study_loss(routed, part).whole[0].ends  # a study leaves out what has no cable left
    if len(left) == len(routing.prove(routed).ends):
        assert whole == routing.measure(routed).ebb
        assert static == worth[0]
    assert worth[-1] == pytest.approx(repaired.plan.qualities[-1].ebb, abs=0.1)  # in other random halves


def keys(schema: Any, path: str = "") -> list[str]:
    """Return the paths of all properties of a JSON schema."""
    if isinstance(schema, list):
        return [key for one in schema for key in keys(one, path)]
    if not isinstance(schema, dict):
        return []
    found = [f"{path}.{name}" for name in schema.get("properties", {})]
    found += [key for name, one in schema.get("properties", {}).items() for key in keys(one, f"{path}.{name}")]
    return found + [key for name, one in schema.items() if name != "properties" for key in keys(one, path)]


def test_a_bisection_alone_is_that_of_the_worst_cut() -> None:
    """`bisection` stood for the worst cut, for the mean over random halves, and for max-min rates in them."""
    schema = json.loads(resources.files("plan").joinpath("plan.schema.json").read_text("utf-8"))
    found = {key for key in keys(schema) if key.endswith((".bisection", "_bisection"))}
    assert found == {".bisection", ".between_rails.bisection"}
    assert "bisection" not in [figure.name for figure in routing.candidates.FIGURES]


@pytest.mark.parametrize("part", ["leaf0", "spine1", "gpu03"])
def test_a_repair_and_a_loss_have_one_effective_bisection(part: str) -> None:
    """Of the end ports that keep a cable, in the same random halves: what the repaired tables are worth is the same."""
    routed = routing.route(topo.preset("lab-20").fabric)
    study = routing.studies.study_loss(routed, part)
    found = plan.repair(routed, down=[part])
    columns = {column.name: column.values for column in found.worth.columns}
    assert columns["effective bisection"][0] == pytest.approx(study.static[1].ebb)
    left = found.plan.routed[0]
    kept = np.setdiff1d(left.fabric.ends(), study.cut)
    ranks = routing.tables.tree_order(routed.fabric, kept)
    assert columns["effective bisection"][1] == pytest.approx(routing.measure(left, ranks).ebb)
