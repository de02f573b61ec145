"""Words beside lines: a number of links lies on its own line alone, and what all lines share is said once."""

import re
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from helpers.strategies import examples, fabrics
from topo.builder import FabricBuilder
from topo.cluster import parse
from topo.drawing import lay_out
from topo.drawing.scene import Scene, cable_pairs, text_width
from topo.dumps.levels import find_levels
from topo.fabric import Fabric, Role
from topo.speeds import parse_link_speed


def points(path: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", path)]


def check_labels(scene: Scene) -> None:
    """No line but its own passes the box of a label: a thousand points of each line are looked at."""
    share = np.linspace(0, 1, 1001)[:, None]
    lines = [
        np.concatenate([np.array(a) + share * (np.array(b) - np.array(a)) for a, b in pairwise(ends)])
        for stroke in scene.strokes
        if not stroke.end and len(ends := points(stroke.path)) > 1
    ]
    for stroke in scene.strokes:
        if not stroke.label.startswith("×"):
            continue
        assert stroke.label == f"×{len(stroke.links):,}"
        half = text_width(stroke.label) / 2
        inside = [(abs(line - stroke.at) < (half, 5)).all(axis=1).any() for line in lines]
        assert sum(inside) == 1


@st.composite
def uneven_trees(draw: st.DrawFn) -> Fabric:
    """Two levels with another number of links between each two switches, some none."""
    leaves, spines = draw(st.integers(1, 7)), draw(st.integers(1, 5))
    builder = FabricBuilder("uneven")
    low = [builder.switch(f"leaf{n}", model="x", radix=64, role=Role.LEAF, level=1) for n in range(leaves)]
    high = [builder.switch(f"spine{n}", model="x", radix=64, role=Role.SPINE, level=2) for n in range(spines)]
    free = dict.fromkeys((*low, *high), 1)
    for leaf in low:
        for spine in high:
            for _ in range(draw(st.integers(0, 4))):
                builder.link(leaf, free[leaf], spine, free[spine], parse_link_speed("4xNDR"))
                free[leaf] += 1
                free[spine] += 1
    return builder.build()


@examples(60)
@given(fabric=uneven_trees())
def test_a_label_lies_on_its_own_line_alone(fabric: Fabric) -> None:
    scene = lay_out(fabric)
    check_labels(scene)
    sizes = {len(links) for links in cable_pairs(fabric).values()}
    said = {caption.text for caption in scene.captions if caption.text.endswith("links a line")}
    assert said == ({f"{sizes.pop()} links a line"} if len(sizes) == 1 and sizes != {1} else set())


@examples(30)
@given(fabric=fabrics(ports=1))
def test_a_label_of_any_fabric_lies_on_its_own_line_alone(fabric: Fabric) -> None:
    check_labels(lay_out(find_levels(fabric)))


@examples(20)
@given(
    units=st.integers(1, 4),
    servers=st.integers(2, 40),
    levels=st.sampled_from([2, 3]),
    model=st.sampled_from(["dgx-h100", "dgx-a100"]),
)
def test_each_leaf_has_the_number_of_its_rail_below_it(units: int, servers: int, levels: int, model: str) -> None:
    """The number is that of the adapter whose cables end there: mlx5_3 of every server is on rail 3."""
    per_unit = min(-(-servers // units), 20)
    spec = {
        "name": "rails",
        "nodes": {"gpu": {"model": model, "count": servers}},
        "network": {
            "shape": "rail",
            "unit_nodes": per_unit,
            "tree": {"switch": "QM9700" if model == "dgx-h100" else "QM8700", "levels": levels},
        },
    }
    fabric = parse(spec).fabric
    scene = lay_out(fabric)
    bars = [area for area in scene.areas if area.height < 20]
    names = {
        bar: [
            c.text for c in scene.captions if bar.x <= c.x <= bar.x + bar.width and bar.y <= c.y <= bar.y + bar.height
        ]
        for bar in bars
    }
    for cell in scene.cells:
        (leaf,) = cell.switches
        if fabric.role[leaf] != Role.LEAF:
            continue
        below = [bar for bar in bars if bar.x - 1 <= cell.x and cell.x + cell.width <= bar.x + bar.width + 1]
        (number,) = {text for bar in below for text in names[bar]}
        adapters = {
            fabric.names[node].rpartition("_")[2]
            for node in range(fabric.n_switches, fabric.n_nodes)
            if fabric.end_switch[node] == leaf
        }
        assert adapters == {number}
    assert {text for texts in names.values() for text in texts} == {str(rail) for rail in range(8)}


def test_a_tree_has_no_rails() -> None:
    network = {"shape": "fat-tree", "switch": "QM9700"}
    spec = {"name": "tree", "nodes": {"gpu": {"model": "dgx-h100", "count": 20}}, "network": network}
    assert "rails" not in {caption.text for caption in lay_out(parse(spec).fabric).captions}
