"""A shape is a module of its own: what this one says is all that compiling, drawing, routing and pricing need."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, get_args

import numpy as np
import pytest
from pydantic import Field

import costmodel
import routing
import topo
from topo.cluster import Cluster
from topo.dumps.fabric_json import parse_fabric
from topo.files.yaml import parse_yaml
from topo.shapes import Shape
from topo.shapes.base import (
    GridStyle,
    HostGroup,
    ShapeModel,
    SwitchPorts,
    add_switches,
    attach_alike,
    link_in_order,
)
from topo.spec.base import SwitchName

CATALOG = topo.load_catalog()


class Complete(ShapeModel):
    """Switches that are all linked to each other."""

    shape: Literal["complete"]
    grid = GridStyle(layer="row")
    switch: SwitchName
    """Model of every switch."""
    switches: Annotated[int, Field(ge=2, le=100)]
    """Number of switches."""
    hosts: Annotated[int, Field(ge=1, le=254)]
    """Host ports of a switch."""

    @property
    def arrangement(self) -> str:
        """One row."""
        return f"complete 1x{self.switches}"

    def compile(self, groups: Sequence[HostGroup], catalog: topo.Catalog, name: str) -> tuple[topo.Fabric, ...]:
        """Compile the complete graph."""
        ports, links = SwitchPorts(catalog, self.switch), self.switches - 1
        ports.require(self.hosts + links, f"{self.hosts} hosts + {links} links", "Take fewer switches")
        builder = self.builder(name)
        keys = add_switches(builder, ports, self.switches, "leaf")
        attach_alike(builder, keys, self.hosts, groups, ports.speed)
        pairs = ((a, b) for place, a in enumerate(keys) for b in keys[place + 1 :])
        link_in_order(builder, pairs, self.hosts + 1, ports.speed)
        return (builder.build(),)


class OwnSpec(topo.ClusterSpec):
    """A spec whose network may also have the new shape: what adding it to `Shape` does."""

    network: Annotated[get_args(Shape)[0] | Complete, Field(discriminator="shape")]  # type: ignore[assignment, misc]


def cluster(network: str) -> Cluster:
    text = f"name: own\nnodes: {{gpu: {{model: pcie-a100, count: 20}}}}\nnetwork: {network}\n"
    document = parse_yaml(text, "own.yaml")
    names = {"switch": [*CATALOG.switches], "node model": [*CATALOG.nodes]}
    return Cluster(topo.validate(OwnSpec, document, names), CATALOG, document)


def test_it_is_compiled_counted_and_priced() -> None:
    own = cluster("{shape: complete, switch: QM8700, switches: 6, hosts: 4}")
    assert (own.counts.switches, own.counts.links) == (6, 20 + 6 * 5 // 2)
    assert costmodel.bill(own).price("USD").lines


def test_it_is_routed_and_proven() -> None:
    proof = routing.prove(routing.route(cluster("{shape: complete, switch: QM8700, switches: 6, hosts: 4}").fabric))
    assert proof.holds
    assert proof.max_hops == 2


def test_it_is_drawn_as_it_says_also_from_a_file() -> None:
    fabric = cluster("{shape: complete, switch: QM8700, switches: 6, hosts: 4}").fabric
    scene = topo.lay_out(fabric)
    assert len({cell.y for cell in scene.cells}) == 1  # one row
    assert len(scene.cells) == 6
    assert not any(stroke.end for stroke in scene.strokes)  # arcs, not short ends
    again = parse_fabric(topo.format_fabric(fabric))
    assert topo.lay_out(again) == scene
    assert np.array_equal(again.peer, fabric.peer)


def test_its_errors_are_those_of_any_shape() -> None:
    with pytest.raises(topo.DesignError, match=r"^own\.yaml:3:10: 4 hosts \+ 40 links = 44 ports, and a QM8700 has 40"):
        _ = cluster("{shape: complete, switch: QM8700, switches: 41, hosts: 4}").fabrics
    with pytest.raises(topo.SpecError, match=r"found the unknown key `swiches`.*Did you mean `switches`"):
        cluster("{shape: complete, switch: QM8700, swiches: 3, hosts: 4}")
    with pytest.raises(topo.SpecError, match="Did you mean `complete`"):
        cluster("{shape: compleet}")


@pytest.mark.parametrize("name", ["hyperx", "torus", "dragonfly+", "slim-fly", "bigraph"])
def test_only_the_files_that_contributing_names_know_a_shape(name: str, repository: Path) -> None:
    contributing = (repository / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (steps,) = re.findall(r"^## Add a shape\n(.*?)^## ", contributing, re.MULTILINE | re.DOTALL)
    named = set(re.findall(r"`((?:topo|costmodel)/[\w/.]+)`", steps))
    product = [path for package in ("topo", "routing", "simulate", "costmodel", "plan")
               for path in (repository / package).rglob("*.py")]  # fmt: skip
    knowing = {path.relative_to(repository).as_posix() for path in product if f'"{name}"' in path.read_text("utf-8")}
    assert knowing
    assert {path for path in knowing if not path.startswith("topo/shapes/")} <= named
