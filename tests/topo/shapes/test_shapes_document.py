"""docs/shapes.md: every block of YAML in it is a spec that compiles, and every family has one."""

import re
from pathlib import Path
from typing import get_args

import pytest

from helpers.clusters import CATALOG
from topo.cluster import Cluster, validate_spec
from topo.files.yaml import parse_yaml
from topo.shapes import Shape

TEXT = (Path(__file__).parents[3] / "docs" / "shapes.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```yaml\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_every_block_compiles(number):
    spec = validate_spec(parse_yaml(f"name: documented\n{BLOCKS[number]}", "docs/shapes.md"), CATALOG)

    assert Cluster(spec, CATALOG).fabrics


def test_every_family_has_a_block():
    families = {
        type(validate_spec(parse_yaml(f"name: documented\n{block}", "docs/shapes.md"), CATALOG).network)
        for block in BLOCKS
    }

    assert families == set(get_args(get_args(Shape)[0]))
