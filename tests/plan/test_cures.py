"""More spines, as the tree that has them loses them."""

import re
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

import plan
import topo
from helpers.strategies import examples
from plan.cures import more_spines


def taken_by_a_spine(fabric: topo.Fabric) -> float:
    """Share of a leaf's bandwidth upwards that the worst spine takes, counted link by link, all equally fast."""
    down, up = Counter[int](), Counter[tuple[int, int]]()
    for a, b in fabric.port_node[fabric.links].tolist():
        for near, far in ((a, b), (b, a)):
            if fabric.role[near] == topo.Role.LEAF:
                if fabric.role[far] == topo.Role.SPINE:
                    up[near, far] += 1
                else:
                    down[near] += 1
    uplinks = Counter[int]()
    for (leaf, _), links in up.items():
        uplinks[leaf] += links
    return max(
        1 - min(down[leaf], uplinks[leaf] - links) / min(down[leaf], uplinks[leaf])
        for (leaf, _), links in up.items()
        if down[leaf]
    )


@examples(12)
@given(
    count=st.integers(66, 230),
    spines=st.sampled_from([None, 1, 2, 3, 4]),
    parallel=st.sampled_from([None, 2, 4, 6]),
    rail=st.booleans(),
)
def test_more_spines_take_what_the_line_says(count: int, spines: int | None, parallel: int | None, rail: bool) -> None:
    """Whatever key is named is put in: the new tree has the same leaves, and its spines take less, as was said."""
    tree: dict[str, object] = {"switch": "QM9700"}
    tree |= {key: value for key, value in (("spines", spines), ("parallel", parallel)) if value}

    def spec(tree: dict[str, object]) -> dict[str, object]:
        own = {"shape": "rail", "unit_nodes": 20, "tree": tree} if rail else {"shape": "fat-tree", **tree}
        model = (
            {"model": "dgx-h100", "count": count // 8}
            if rail
            else {"model": "storage-ndr", "count": count // 2, "role": "compute"}
        )
        return {"name": "x", "nodes": {"gpu": model}, "network": own}

    try:
        found = plan.check(topo.parse(spec(tree)))
    except topo.DesignError:
        return
    assert found.losses is not None
    (loss,) = (loss for loss in found.losses.worst if loss.kind == "spine")
    before, said = taken_by_a_spine(found.fabrics[0]), more_spines(found.planned, loss)
    named = dict(re.findall(r"(spines|parallel): (\d+)", said))
    if not named:
        assert said == ""
        return
    keys = {key: int(value) for key, value in named.items()}
    after = topo.parse(spec(tree | keys)).fabric
    assert said.startswith(f"; {topo.percent(taken_by_a_spine(after))} with `network.{'tree.' * rail}spines: ")
    assert taken_by_a_spine(after) < before
    roles = [Counter(fabric.role.tolist())[topo.Role.LEAF] for fabric in (found.fabrics[0], after)]
    assert roles[0] == roles[1]
    assert f"(now {Counter(found.fabrics[0].role.tolist())[topo.Role.SPINE]})" in said


def test_no_key_is_named_where_more_spines_take_as_much() -> None:
    """A spine with one link to each leaf takes the least that it can."""
    tree = {"shape": "fat-tree", "switch": "QM9700", "spines": 32, "parallel": 1}
    gpu = {"model": "dgx-h100", "count": 16}
    found = plan.check(topo.parse({"name": "x", "nodes": {"gpu": gpu}, "network": tree}))
    assert found.losses is not None
    assert [more_spines(found.planned, loss) for loss in found.losses.worst] == [""] * len(found.losses.worst)
