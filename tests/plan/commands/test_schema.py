"""The JSON Schemas as another implementation reads them: whatever Heddle accepts, they accept."""

import copy
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import costmodel
import simulate
import topo
from helpers.presets import PRESETS
from helpers.strategies import is_nightly
from plan.cli import run
from plan.commands.spec import KINDS
from plan.sweeps.spec import SweepSpec
from topo.catalog.load import config_root
from topo.errors import HeddleError
from topo.files.yaml import mapping_document

CONFIGS = config_root()
MODELS: dict[str, Any] = {
    "cluster": topo.ClusterSpec,
    "workload": simulate.workload.WorkloadSpec,
    "queue": simulate.cluster.QueueSpec,
    "needs": costmodel.Needs,
    "sweep": SweepSpec,
}
SWEEP = {
    "base": "lab-20.yaml",
    "stages": ["design"],
    "parameters": {"nodes.gpu.count": [8, 16], "network.oversubscription": {"low": 1, "high": 3, "steps": 3}},
    "better": {"cost": "low"},
}


def documents(kind: str) -> list[Any]:
    """Plain values of everything that ships of a kind."""
    files = {
        "cluster": [CONFIGS / f"{name}.yaml" for name in PRESETS],
        "workload": sorted((CONFIGS / "workloads").glob("*.yaml")),
        "queue": sorted((CONFIGS / "queues").glob("*.yaml")),
        "needs": sorted((CONFIGS / "needs").glob("*.yaml")),
        "sweep": [],
    }
    return [topo.read_yaml(file).value for file in files[kind]] or [SWEEP]


def accepts(check: Callable[[], object]) -> bool:
    try:
        check()
    except HeddleError:
        return False
    return True


def spoilt(value: Any, dice: random.Random) -> Any:
    """A copy with one value or key replaced, left out or added somewhere."""
    value = copy.deepcopy(value)
    at, found = value, []
    while isinstance(at, (dict, list)) and at:
        found.append((at, dice.choice(list(at) if isinstance(at, dict) else range(len(at)))))
        at = at[found[-1][1]]
    inside, key = dice.choice(found)
    other = dice.choice([0, -1, 1.5, 3, True, None, "x", "4 kW", "10 GB", [], {}, ["a"], {"a": 1}])
    how = dice.randrange(3)
    if how == 0:
        inside[key] = other
    elif how == 1:
        del inside[key]
    elif isinstance(inside, dict):
        inside[dice.choice(["name", "count", "seed", "surprise", "lmc", "budget"])] = other
    else:
        inside.append(other)
    return value


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_what_heddle_accepts_the_schema_accepts(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    import jsonschema  # takes a second, in each process that collects tests

    assert run(["schema", kind]) == 0
    schema = json.loads(capsys.readouterr().out)
    assert schema["$id"].startswith("urn:heddle-fabric:")
    assert schema["$id"].endswith(f":{kind}")
    jsonschema.Draft202012Validator.check_schema(schema)
    judge, dice = jsonschema.Draft202012Validator(schema), random.Random(20)
    both = refused = 0
    values = documents(kind)
    for value in values:
        judge.validate(value)
        for _ in range((5 + 120 // len(values)) // (1 if is_nightly() else 3)):
            tried = spoilt(value, dice)
            document = mapping_document(tried) if isinstance(tried, dict) else None
            ours = document is not None and accepts(lambda: topo.validate(MODELS[kind], document))  # noqa: B023
            theirs = judge.is_valid(tried)
            assert theirs or not ours, tried
            both += ours
            refused += not theirs
    assert both > 3
    assert refused > 10


@pytest.mark.slow
def test_an_editor_is_told_of_what_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    import jsonschema

    assert run(["schema"]) == 0
    judge = jsonschema.Draft202012Validator(json.loads(capsys.readouterr().out))
    folder = Path(__file__).parents[2] / "errors"
    for name in ("unknown-key", "wrong-type", "many-errors"):
        assert not judge.is_valid(topo.read_yaml(folder / f"{name}.yaml").value)
