"""The first line of a result, beside the checks that it sums up and the cure that it names."""

import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

import plan
import topo
from helpers.strategies import examples
from plan.pipeline import Plan
from plan.render.verdict import more_spines, verdict_line


def checked(**networks: object) -> Plan:
    nodes = {"gpu": {"model": "dgx-h100", "count": 8}, "storage": {"model": "storage-ndr", "count": 4}}
    spec = {
        "name": "x",
        "nodes": nodes,
        "network": {"shape": "rail", "unit_nodes": 8, "tree": {"switch": "QM9700"}},
        "networks": {"storage": networks},
    }
    return plan.check(topo.parse(spec))


@examples(8)
@given(adapters=st.integers(1, 2), leaves=st.integers(1, 3))
def test_the_line_is_what_the_checks_say(adapters: int, leaves: int) -> None:
    tree = {"shape": "fat-tree", "switch": "QM9700", **({"leaves": leaves} if leaves > 1 else {})}
    found = checked(network=tree, adapters={"gpu": adapters, "storage": adapters})
    line = verdict_line(found)
    assert found.losses is not None
    switch, link = (check.verdict.holds for check in found.losses.survived(["switch", "link"]))
    assert ("any one switch or link may fail" in line) == (switch and link)
    assert ("one leaf" in line) == (not switch)
    assert ("one link" in line) == (not link)
    assert switch == (adapters == 2 and leaves > 1)
    assert link == (adapters == 2)


def test_the_cure_cures() -> None:
    """One switch holds both adapters of each storage server: with the key that the line names, it survives a leaf."""
    tree = {"shape": "fat-tree", "switch": "QM9700"}
    one = verdict_line(checked(network=tree, adapters={"gpu": 2, "storage": 2}))
    assert "one leaf cuts off 4 servers (`networks.storage.network.leaves: 2`)" in one
    two = verdict_line(checked(network=tree | {"leaves": 2}, adapters={"gpu": 2, "storage": 2}))
    assert two == "x holds; any one switch or link may fail: all servers left reach one another"


@pytest.mark.parametrize(("leaves", "status"), [(1, topo.Verdict.EXCEEDED), (2, topo.Verdict.HOLDS)])
def test_what_must_survive_is_a_limit(leaves: int, status: topo.Verdict) -> None:
    tree = {"shape": "fat-tree", "switch": "QM9700", **({"leaves": leaves} if leaves > 1 else {})}
    cluster = topo.parse(
        {
            "name": "x",
            "nodes": {"storage": {"model": "storage-ndr", "count": 4, "role": "compute"}},
            "network": tree,
            "survives": ["switch", "link"],
        }
    )
    found = plan.check(cluster)
    assert found.verdict is status
    assert [check.what for check in found.budget] == ["survives switch", "survives link"]
    undecided = plan.check(topo.Cluster(cluster.spec.model_copy(update={"survives": ("rack",)}), cluster.catalog))
    assert undecided.verdict is topo.Verdict.CANNOT_TELL, "there is no floor"


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
    before, said = taken_by_a_spine(found.fabrics[0]), more_spines(found, loss)
    named = dict(re.findall(r"(spines|parallel): (\d+)", said))
    if not named:
        assert said == ""
        return
    keys = {key: int(value) for key, value in named.items()}
    after = topo.parse(spec(tree | keys)).fabric
    assert said.startswith(f"; {taken_by_a_spine(after):.0%} with `network.{'tree.' * rail}spines: ")
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
    assert [more_spines(found, loss) for loss in found.losses.worst] == [""] * len(found.losses.worst)
