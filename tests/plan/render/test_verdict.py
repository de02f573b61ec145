"""The first line of a result, beside the checks that it sums up and the cure that it names."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import plan
import topo
from helpers.strategies import examples
from plan.pipeline import Plan
from plan.render.verdict import verdict_line


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


@examples(6)
@given(
    model=st.sampled_from(["pcie-a100", "management", "storage-3fs"]),
    count=st.integers(2, 20),  # both adapters of 20 servers fill two leaves
    leaves=st.integers(2, 4),
)
def test_another_adapter_cures_in_the_only_network(model: str, count: int, leaves: int) -> None:
    """The line names the column of the catalog and the number, with which a leaf takes no server."""
    catalog = topo.load_catalog()

    def line(adapters: int) -> str:
        known = {**catalog.nodes, model: replace(catalog.nodes[model], adapters=adapters, cages=None)}
        spec = {
            "name": "x",
            "nodes": {"n": {"model": model, "count": count, "role": "compute"}},
            "network": {"shape": "fat-tree", "switch": "QM8700", "leaves": leaves},
        }
        cluster = topo.parse(spec)
        return verdict_line(plan.check(topo.Cluster(cluster.spec, replace(catalog, nodes=known))))

    one = line(1)
    assert "networks" not in one
    (more,) = set(re.findall(r"a model with `adapters: (\d+)` in the catalog", one))
    assert line(int(more)) == "x holds; any one switch or link may fail: all servers left reach one another"


@pytest.mark.parametrize(("stops", "holds"), [("dgx-h100", False), ("QM9700", False), ("", True)])
def test_a_feed_that_takes_devices_is_no_feed_that_may_fail(stops: str, holds: bool) -> None:
    catalog = topo.load_catalog()
    known = {
        kind: {name: replace(model, runs_on_one_feed=name != stops) for name, model in models.items()}
        for kind, models in (("switches", catalog.switches), ("nodes", catalog.nodes))
    }
    spec = {
        "name": "x",
        "nodes": {"gpu": {"model": "dgx-h100", "count": 16}},
        "network": {"shape": "rail", "unit_nodes": 16, "tree": {"switch": "QM9700"}},
        "floor": {"rack_units": 48},
        "survives": ["feed"],
    }
    found = plan.check(topo.Cluster(topo.parse(spec).spec, replace(catalog, **known)))
    line = verdict_line(found)
    assert found.verdict.holds is holds
    assert ("or feed may fail" in line) is holds
    cure = f"one feed cuts off 16 servers (instead of {stops}, devices with two supplies that run on one feed)"
    assert (cure in line) is not holds


@pytest.mark.parametrize(("count", "status"), [(1, topo.Verdict.EXCEEDED), (2, topo.Verdict.CANNOT_TELL)])
def test_without_a_spare_no_feed_may_fail(count: int, status: topo.Verdict) -> None:
    """Whatever runs on one of two feeds: the only one takes all, and of two nobody knows what the other carries."""
    catalog = topo.load_catalog()
    spec = {
        "name": "x",
        "nodes": {"gpu": {"model": "dgx-a100", "count": 4}},
        "network": {"shape": "rail", "unit_nodes": 4, "tree": {"switch": "QM8700"}},
        "floor": {"feeds": {"count": count, "spare": 0, "power": "60 kW"}},
        "survives": ["feed"],
    }
    known = {name: replace(model, runs_on_one_feed=True) for name, model in catalog.nodes.items()}
    found = plan.check(topo.Cluster(topo.parse(spec).spec, replace(catalog, nodes=known)))
    assert found.verdict is status
    assert "feed may fail" not in verdict_line(found)
    assert ("one feed cuts off 4 servers (`floor.feeds.count: 2`)" in verdict_line(found)) == (count == 1)


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
