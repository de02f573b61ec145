"""The keys of plan.json, whole and as text, of `plan build` and of `plan route`: other programs rely on them."""

import json
import operator
import re
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

from plan.cli import run
from topo.catalog.load import config_root

LAB = config_root() / "lab-20.yaml"
GOLDEN = Path(__file__).with_name("plan_json_keys.txt")
OPEN = {"servers_sha256", "hops"}
"""Objects whose keys are no names of ours: numbers of switches on a path."""


def keys(value: Any, place: str = "") -> set[str]:
    """Return every key with the keys above it; an item of a list is ``[]``."""
    if isinstance(value, list):
        return set().union(*(keys(item, f"{place}[]") for item in value)) if value else set()
    if not isinstance(value, dict) or place.rpartition(".")[2] in OPEN:
        return set()
    below = (({f"{place}.{name}".lstrip(".")} | keys(item, f"{place}.{name}")) for name, item in value.items())
    return set().union(*below)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("plans")
    spec = folder / "lab.yaml"
    owning = "owning: {years: 3, pue: 1.2, price_per_kwh: 0.1, currency: USD}\n"
    spec.write_text(LAB.read_text(encoding="utf-8") + owning, encoding="utf-8")
    assert run(["build", str(spec), "-o", str(folder / "build")]) == 0
    dump = folder / "build" / "fabric.ibnetdiscover"
    assert run(["route", str(dump), "-o", str(folder / "route"), "--failures", "2"]) == 0
    return {name: json.loads((folder / name / "plan.json").read_text()) for name in ("build", "route")}


def test_the_keys_are_these(written: dict[str, dict[str, Any]]) -> None:
    found = {name: keys(plan) for name, plan in written.items()}
    marks = {True: "both", False: "build"}
    lines = [
        f"{marks[key in found['route']] if key in found['build'] else 'route':5}  {key}"
        for key in sorted(found["build"] | found["route"])
    ]
    assert "\n".join(lines) + "\n" == GOLDEN.read_text(encoding="utf-8")


def test_build_and_route_have_one_list_of_keys(written: dict[str, dict[str, Any]]) -> None:
    build, route = written["build"], written["route"]

    assert list(build) == list(route)
    for name in ("counts", "proof", "quality", "inputs", "versions"):
        assert list(build[name]) == list(route[name]), name
    assert list(build["subnets"][0]) == list(route["subnets"][0])
    assert (route["cost"], route["power"], route["owning"]) == (None, None, None), "a real fabric has no prices"
    assert (build["failures"], build["inputs"]["fabric_sha256"], route["inputs"]["spec_sha256"]) == (None, None, None)


@pytest.mark.slow
def test_the_schema_describes_them(written: dict[str, dict[str, Any]], capsys: pytest.CaptureFixture[str]) -> None:
    import jsonschema  # takes a second, in each process that collects tests

    assert run(["schema", "plan.json"]) == 0
    schema = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator.check_schema(schema)
    for plan in written.values():
        jsonschema.validate(plan, schema)
        assert list(plan) == list(schema["properties"])
    assert set(schema["required"]) == set(schema["properties"])
    assert all(value.get("description") for value in schema["properties"].values())
    named = {
        re.sub(r"(\[\])+", "[]", line.split(None, 1)[1]) for line in GOLDEN.read_text(encoding="utf-8").splitlines()
    }
    assert {name for name in named if not name.startswith("versions.")} <= described(schema, schema)


def described(schema: dict[str, Any], whole: dict[str, Any], place: str = "") -> set[str]:
    """Every key of a schema with the keys above it, as `keys` names them; references are followed."""
    below = described(schema["items"], whole, f"{place}[]") if "items" in schema else set()
    for name, value in schema.get("properties", {}).items():
        meant = value
        if "$ref" in value:
            meant = reduce(operator.getitem, value["$ref"].split("/")[1:], whole)
        below |= {f"{place}.{name}".lstrip(".")} | described(meant, whole, f"{place}.{name}".lstrip("."))
    return below
