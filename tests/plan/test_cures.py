"""More spines, as the tree that has them loses them."""

import re
from collections import Counter

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import costmodel
import plan
import topo
from helpers.strategies import examples
from plan.cures import fewer_switches, more_spines, no_manager
from plan.render.verdict import verdict_line
from plan.render.views import LARGEST, facts


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
    shape=st.sampled_from(["fat-tree", "rail", "planes"]),
)
def test_more_spines_take_what_the_line_says(count: int, spines: int | None, parallel: int | None, shape: str) -> None:
    """Whatever key is named is put in: the new tree has the same leaves, and its spines take less, as was said.

    Switches and links are those of all planes.
    """
    tree: dict[str, object] = {"switch": "QM9700"}
    tree |= {key: value for key, value in (("spines", spines), ("parallel", parallel)) if value}

    def spec(tree: dict[str, object]) -> dict[str, object]:
        own, model = {
            "fat-tree": (tree, {"model": "storage-ndr", "count": count // 2, "role": "compute"}),
            "rail": ({"unit_nodes": 20, "tree": tree}, {"model": "dgx-h100", "count": count // 8}),
            "planes": ({"planes": 4, "tree": tree}, {"model": "hgx-h800", "count": count}),
        }[shape]
        return {"name": "x", "nodes": {"gpu": model}, "network": {"shape": shape, **own}}

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
    planes = topo.parse(spec(tree | keys)).fabrics
    under, taken = "" if shape == "fat-tree" else "tree.", taken_by_a_spine(planes[0])
    assert said.startswith(f"; {topo.percent(taken)} with `network.{under}spines: ")
    assert taken < before
    roles = [Counter(fabric.role.tolist())[topo.Role.LEAF] for fabric in (found.fabrics[0], planes[0])]
    assert roles[0] == roles[1]
    assert f"(now {Counter(found.fabrics[0].role.tolist())[topo.Role.SPINE]})" in said
    sizes = [[(one.n_switches, len(one.links)) for one in each] for each in (found.fabrics, planes)]
    switches, links = np.subtract(*(np.sum(each, axis=0) for each in reversed(sizes))).tolist()
    told = ", ".join([f"{switches} switches more", *([f"{links} links more"] if links else [])])
    assert said.endswith(f": {told.replace('1 switches', '1 switch') if switches == 1 else told}")


def test_more_spines_cost_what_the_plan_with_them_costs_more() -> None:
    """No rack is added, whose price is unknown; the links stay, on more and shorter bundles."""

    def spec(**tree: int) -> dict[str, object]:
        return {
            "name": "x",
            "nodes": {"gpu": {"model": "pcie-a100", "count": 56}},
            "network": {"shape": "fat-tree", "switch": "QM8700", "leaves": 3, "parallel": 10, **tree},
            "floor": {},
        }

    found = plan.check(topo.parse(spec(spines=2)), currency="USD")
    (loss,) = (loss for loss in found.losses.worst if loss.kind == "spine")
    said = more_spines(found.planned, loss, found.quote)
    keys = {key: int(value) for key, value in re.findall(r"(spines|parallel): (\d+)", said)}
    then = plan.check(topo.parse(spec(**keys)), currency="USD")
    low, high = (
        getattr(then.quote.cost.total.known, end) - getattr(found.quote.cost.total.known, end)
        for end in ("low", "high")
    )
    assert low > 0 and said.endswith(f", {low:,.0f} to {high:,.0f} USD more"), said


def test_no_key_is_named_where_more_spines_take_as_much() -> None:
    """A spine with one link to each leaf takes the least that it can."""
    tree = {"shape": "fat-tree", "switch": "QM9700", "spines": 32, "parallel": 1}
    gpu = {"model": "dgx-h100", "count": 16}
    found = plan.check(topo.parse({"name": "x", "nodes": {"gpu": gpu}, "network": tree}))
    assert found.losses is not None
    assert [more_spines(found.planned, loss) for loss in found.losses.worst] == [""] * len(found.losses.worst)


@examples(8)
@given(count=st.integers(4, 70), unit=st.integers(4, 40), switch=st.sampled_from(["Q3400", "QM9700"]))
def test_fewer_switches_are_those_of_the_spec_with_the_key(count: int, unit: int, switch: str) -> None:
    """Each key that is named is put in, and the network compiled has so many switches; none names more than stand."""
    model = "dgx-b300" if switch == "Q3400" else "dgx-h100"
    own = {"shape": "rail", "unit_nodes": unit, "tree": {"switch": switch}}
    document = {"name": "x", "nodes": {"gpu": {"model": model, "count": count}}, "network": own}
    try:
        cluster = topo.parse(document)
        now = sum(fabric.n_switches for fabric in cluster.fabrics)
    except topo.DesignError:
        return
    said = fewer_switches(cluster)
    named = re.findall(r"(\d+) with `network\.(\w+): (\d+)`", said)
    assert bool(named) == bool(said)
    for switches, key, value in named:
        fabric = topo.parse({**document, "network": own | {key: int(value)}}).fabric
        assert fabric.n_switches == int(switches) < now
        before, after = (costmodel.bisection(one) for one in (cluster.fabrics, (fabric,)))
        words = said[said.index(f"`network.{key}: {value}`") :].partition(";")[0]
        assert (f"then {after.narrower.share:.1%}" in words) == (after.narrower.share < before.narrower.share)
        full = topo.lacks_manager(fabric).endswith("no port of a leaf is free")
        assert not full or "no leaf port left" in words or topo.lacks_manager(cluster.fabric).endswith("leaf is free")
        on: dict[int, set[int]] = {}
        for end, leaf in zip(fabric.ends().tolist(), fabric.end_switch[fabric.ends()].tolist(), strict=True):
            on.setdefault(fabric.server_of(int(fabric.port_node[fabric.port_of(np.array([end]))[0]])), set()).add(leaf)
        assert min(map(len, on.values())) > 1, "no leaf has all adapters of a server"


@examples(6)
@given(
    count=st.integers(7, 8),
    pinned=st.sets(st.sampled_from(["leaf00", "leaf1", "spine0", "spine01"]), min_size=2),
    unit=st.booleans(),
)
def test_the_device_to_move_out_of_a_rack_lets_it_fail(count: int, pinned: set[str], unit: bool) -> None:
    """Two rails, some switches pinned into one rack with four servers: with the key of the cure, it takes no others."""
    floor = {
        "racks_per_row": 9,
        "fixed": {name: f"R01-01 U{at}" if unit else "R01-01" for at, name in enumerate(sorted(pinned), 1)},
    }
    spec = {
        "name": "x",
        "nodes": {"gpu": {"model": "dgx-h100", "count": count}},
        "network": {"shape": "rail", "unit_nodes": count, "rails": 2, "tree": {"switch": "QM9700"}},
        "survives": ["rack"],
    }
    found = plan.check(topo.parse({**spec, "floor": floor}))
    (check,) = (check for check in found.budget if check.what == "survives rack")
    assert (check.verdict is topo.Verdict.EXCEEDED) == ({"leaf00", "leaf1"} <= pinned), "a leaf has all servers"
    if check.verdict is topo.Verdict.EXCEEDED:
        (cure,) = check.cures
        *_, device = cure.key.split(".")
        assert device in pinned
        floor["fixed"] = {**floor["fixed"], device: cure.value}
        mended = plan.check(topo.parse({**spec, "floor": floor}))
        assert all(check.verdict is topo.Verdict.HOLDS for check in mended.budget)


def test_a_pod_that_fills_its_leaves_names_no_fewer_switches() -> None:
    cluster = topo.parse(
        {
            "name": "x",
            "nodes": {"gpu": {"model": "dgx-h100", "count": 64}},
            "network": {"shape": "rail", "unit_nodes": 32, "tree": {"switch": "QM9700"}},
        }
    )
    assert fewer_switches(cluster) == ""


@examples(4)
@given(heads=st.integers(2, 4), count=st.integers(60, 64))
def test_a_server_is_not_told_to_have_two_ports_for_management(heads: int, count: int) -> None:
    """Its cure is an adapter in another network: once all servers have one, a leaf of management cuts nobody off."""
    spec: dict[str, object] = {
        "name": "x",
        "nodes": {
            "gpu": {"model": "dgx-h100", "count": count},
            "head": {"model": "management", "count": heads},
        },
        "network": {"shape": "rail", "unit_nodes": 32, "tree": {"switch": "QM9700"}},
        "survives": ["switch"],
    }
    tree = {"shape": "fat-tree", "switch": "SN2201", "spine_switch": "SN4600C"}
    management = {"network": tree, "adapters": {"gpu": 1, "head": 1}, "adapter": "BMC-1GE"}
    found = plan.check(topo.parse({**spec, "networks": {"mgmt": management}}))
    (check,) = found.budget
    assert check.verdict is topo.Verdict.EXCEEDED
    (cure,) = check.cures
    assert str(cure).startswith("an adapter in another network, such as `adapters.head: 2`, for servers such as head")
    more = spec | {"adapters": {"head": 2}, "networks": {"mgmt": management}}
    if 8 * (64 - count) < 2 * heads:  # the leaves of its rails are full, which is told with what frees ports
        with pytest.raises(topo.DesignError, match="short of"):
            _ = topo.parse(more).fabrics
        roomy = {"shape": "rail", "unit_nodes": 32, "tree": {"switch": "QM9700", "spines": 10, "parallel": 3}}
        more |= {"network": roomy}
    cured = topo.parse(more)
    (check,) = plan.check(cured).budget
    assert check.verdict is topo.Verdict.HOLDS
    assert len(cured.fabrics[0].ends(topo.Role.MANAGEMENT)) == 2 * heads
    storage = {"network": {"shape": "fat-tree", "switch": "QM9700"}, "adapters": {"gpu": 2, "head": 2}}
    least = {"mgmt": management, "storage": storage | {"adapters": {"gpu": 2}}}
    (check,) = plan.check(topo.parse({**spec, "networks": least})).budget
    assert "`adapters.head: 2`" in str(check.cures[0])
    both = plan.check(topo.parse({**spec, "networks": {"mgmt": management, "storage": storage}}))
    (check,) = both.budget
    assert check.verdict is topo.Verdict.HOLDS


HALL = {
    "name": "hall", "nodes": {"gpu": {"model": "dgx-h100", "count": 64}},
    "network": {"shape": "rail", "unit_nodes": 32, "tree": {"switch": "QM9700"}},
}  # fmt: skip


def test_a_network_of_gpu_servers_alone_says_what_gives_its_manager_a_host() -> None:
    """Full leaves name the unit that leaves ports; with it and a group of management servers, nothing is said."""
    cluster = topo.parse(HALL)
    ((name, why),) = no_manager(cluster).items()
    assert name == "hall" and "all 512 host ports are of compute servers, and no port of a leaf is free" in why
    assert why.startswith("QM9700 can run one itself")
    ways = [
        (key, value, left, int(number) * (-1 if word == "fewer" else 1))
        for key, value, left, number, word in re.findall(
            r"`(\w+): (\w+|{.*?})` \((?:([\d.]+%) left|)[^)]*?(\d+) switch(?:es)? (more|fewer)\)", why
        )
    ]
    assert [more for *_, more in ways] == [-1, 2, 11], "the cheapest first"
    nodes = HALL["nodes"] | {"ufm": {"model": "ufm-appliance", "count": 2}}
    with pytest.raises(topo.DesignError, match="short of 4") as refused:
        _ = topo.parse(HALL | {"nodes": nodes}).fabrics
    for key, value, share, more in ways:
        told = re.search(
            rf"`{re.escape(f'{key}: {value}')}` \([^)]*?(\d+) switch(?:es)? (more|fewer)\)", str(refused.value)
        )
        network = HALL["network"] | {key: yaml.safe_load(value)}
        network["tree"] = HALL["network"]["tree"] | (network["tree"] if key == "tree" else {})
        hung = topo.parse(HALL | {"nodes": nodes, "network": network})
        assert not no_manager(hung)
        there = hung.fabric.n_switches - cluster.fabric.n_switches
        assert told is not None and there == int(told[1]) * (-1 if told[2] == "fewer" else 1), "with those servers"
        alone = topo.parse(HALL | {"network": network})
        assert alone.fabric.n_switches == cluster.fabric.n_switches + more
        assert f"{costmodel.bisection(alone.fabrics).narrower.share:.1%}" == (share or "100.0%")
    found = plan.check(cluster)
    assert "subnet manager" not in verdict_line(found), "its switches can run one"
    assert dict(facts(found))["subnet manager"] == why
    unmanaged = topo.parse(HALL | {"network": HALL["network"] | {"tree": {"switch": "QM9790"}}})
    assert no_manager(unmanaged)["hall"].startswith("no host but compute servers can run it")
    assert verdict_line(plan.check(unmanaged)).endswith("only compute servers can run the subnet manager of hall")


def test_the_largest_failure_is_what_servers_lose_and_says_so() -> None:
    """Of leaves that take as many Gb/s from a compute server, half of a network comes before an eighth of another; a
    port for management is the least, though its leaf takes servers off that network."""
    nodes = HALL["nodes"] | {"st": {"model": "storage-ndr", "count": 4}}
    storage = {"network": {"shape": "fat-tree", "switch": "QM9700", "spines": 4}, "adapters": dict.fromkeys(nodes, 2)}
    mgmt = {"network": {"shape": "fat-tree", "switch": "SN2201", "spine_switch": "SN4600C"},
            "adapters": {"gpu": 1}, "adapter": "BMC-1GE"}  # fmt: skip
    networks: dict[str, object] = {}
    for name, key, network in (
        ("leaf", "", None),
        ("storage-leaf", "storage", storage),
        ("storage-leaf", "mgmt", mgmt),
    ):
        if network is not None:
            networks[key] = network
        given = HALL | {"nodes": nodes if networks else HALL["nodes"], "networks": networks}
        row = dict(facts(plan.check(topo.parse(given))))["largest failure"]
        assert row.startswith(f"leaf {name}") and row.endswith(LARGEST)
