"""The first line of a result, beside the checks that it sums up and the cure that it names."""

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import plan
import topo
from helpers.strategies import examples
from plan.pipeline import Plan
from plan.render.verdict import verdict_line
from plan.render.views import facts
from topo.catalog.models import Price, PricePoint, Source


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
    assert "one leaf cuts off 4 servers (cure: `networks.storage.network.leaves: 2`)" in one
    two = verdict_line(checked(network=tree | {"leaves": 2}, adapters={"gpu": 2, "storage": 2}))
    assert two.startswith("x holds; any one switch or link may fail: once rerouted, all servers left reach one another")


@examples(6)
@given(
    model=st.sampled_from(["pcie-a100", "management", "storage-3fs"]),
    count=st.integers(2, 20),  # both adapters of 20 servers fill two leaves
    leaves=st.integers(2, 4),
)
def test_another_adapter_cures_in_the_only_network(model: str, count: int, leaves: int) -> None:
    """The line names the key and the number, with which a leaf takes no server."""
    catalog = topo.load_catalog()

    def line(adapters: int) -> str:
        known = {**catalog.nodes, model: replace(catalog.nodes[model], adapters=1, cages=None)}
        spec = {
            "name": "x",
            "nodes": {"n": {"model": model, "count": count, "role": "compute"}},
            "network": {"shape": "fat-tree", "switch": "QM8700", "leaves": leaves},
        } | ({"adapters": {"n": adapters}} if adapters > 1 else {})
        cluster = topo.parse(spec)
        return verdict_line(plan.check(topo.Cluster(cluster.spec, replace(catalog, nodes=known))))

    one = line(1)
    assert "networks" not in one
    (more,) = set(re.findall(r"`adapters.n: (\d+)`", one))
    assert line(int(more)).startswith(
        "x holds; any one switch or link may fail: once rerouted, all servers left reach one another"
    )


@pytest.mark.parametrize(("stops", "holds"), [("dgx-h100", False), ("QM9700", False), ("", True)])
def test_a_feed_that_takes_devices_is_no_feed_that_may_fail(stops: str, holds: bool) -> None:
    catalog = topo.load_catalog()
    known = {
        kind: {
            name: replace(model, runs_on_one_feed="no" if name == stops else "yes") for name, model in models.items()
        }
        for kind, models in (("switches", catalog.switches), ("nodes", catalog.nodes))
    }
    spec = {
        "name": "x",
        "nodes": {"gpu": {"model": "dgx-h100", "count": 16}},
        "network": {"shape": "rail", "unit_nodes": 16, "tree": {"switch": "QM9700"}},
        "floor": {"rack_units": 48, "feeds": {"power": "60 kW"}},
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
    known = {name: replace(model, runs_on_one_feed="yes") for name, model in catalog.nodes.items()}
    found = plan.check(topo.Cluster(topo.parse(spec).spec, replace(catalog, nodes=known)))
    assert found.verdict is status
    assert "feed may fail" not in verdict_line(found)
    told = verdict_line(found).count("one feed cuts off 4 servers"), verdict_line(found).count("`floor.feeds.count: 2`")
    assert told == ((1, 1) if count == 1 else (0, 0)), "each failure and cure once"


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


@pytest.mark.parametrize("confidence", ["R", "Q-src", "own"])
@pytest.mark.parametrize("limit", ["power", "price", "rack_power", "rack_typical_power"])
def test_a_recalled_figure_that_decides_a_limit_is_said_when_the_limit_holds(confidence: str, limit: str) -> None:
    """In the first line and in the row of limits; once, and not where a text confirms the figure that is counted."""
    catalog = topo.load_catalog()
    source = Source("some text", "2026-11-27", confidence, "nodes.csv:2")
    switch, node = catalog.switch("QM9700"), catalog.node("dgx-h100")
    counted = f"power_{'typical' if 'typical' in limit else 'max'}_w"
    sure = {name: replace(source, confidence="Q-src") for name in ("power_typical_w", "power_max_w")}
    nodes = {"dgx-h100": replace(node, power_typical_w=5000.0, sources={**node.sources, **sure, counted: source})}
    switches = {"QM9700": replace(switch, sources={**switch.sources, **sure})}
    points = {"dgx-h100": source, "QM9700": sure["power_max_w"], "4xNDR": sure["power_max_w"]}
    prices = {name: {"USD": Price("USD", (PricePoint(9.0, 9.0, "", of),))} for name, of in points.items()}
    ours = replace(catalog, nodes={**catalog.nodes, **nodes}, switches={**catalog.switches, **switches}, prices=prices)
    document = {
        "name": "x",
        "nodes": {"n": {"model": "dgx-h100", "count": 4}},
        "network": {"shape": "fat-tree", "switch": "QM9700", "levels": 1},
        **({"floor": {"rack_units": 48, limit: "60 kW"}} if "rack" in limit else {}),
        **({"budget": {"power": "1 MW"}} if limit == "power" else {}),
        **({"budget": {"price": "9000 USD"}} if limit == "price" else {}),
    }
    found = plan.check(topo.Cluster(topo.parse(document).spec, ours))
    line, rows = verdict_line(found), dict(facts(found))
    much = {"power": "40.8 kW of the power", "price": "36 USD of the price"}.get(limit, "power")  # of four servers
    doubt = f"{much} recalled, confirmed in no text: dgx-h100"
    assert found.verdict is topo.Verdict.HOLDS
    assert line.startswith(f"x holds ({doubt})") == (confidence == "R") == (f"({doubt})" in rows["limits"])
    assert line.count("recalled") == (confidence == "R")


LIMITS = {"power": ("kW", 1e3), "typical_power": ("kW", 1e3), "switches": ("", 1), "price": ("units", 1)}


@examples(20)
@given(
    count=st.integers(9, 20),
    limits=st.dictionaries(st.sampled_from(sorted(LIMITS)), st.integers(1, 400)),
    model=st.sampled_from(["pcie-a100", "storage-3fs"]),
)
def test_the_line_names_each_limit_that_is_missed_by_how_much_and_a_cure(
    count: int, limits: dict[str, int], model: str
) -> None:
    """All cures of a missed limit are put into the spec: then it holds; without a value a part is unknown."""
    tree = {"shape": "fat-tree", "switch": "QM8700", "leaves": 2}
    document: dict[str, Any] = {
        "name": "x",
        "nodes": {"n": {"model": model, "count": count, "role": "compute"}},
        "network": tree,
        "budget": {name: f"{limit} {LIMITS[name][0]}" if LIMITS[name][0] else limit for name, limit in limits.items()},
    }
    found = plan.check(topo.parse(document))
    line, power = verdict_line(found), found.quote and found.quote.power
    assert power is not None and found.counts is not None and found.quote is not None
    amounts = {
        "power": power.planned_w,
        "typical_power": power.bounded_w,
        "switches": topo.Sum(topo.Range(found.counts.switches, found.counts.switches)),
        "price": found.quote.bill.price("units").total,
    }
    missed = {name for name, limit in limits.items() if (amounts[name].bounds or [0])[0] > limit * LIMITS[name][1]}
    starts = {topo.Verdict.HOLDS: "x holds", topo.Verdict.EXCEEDED: "x does not hold: "}
    assert line.startswith(starts.get(found.verdict, "x cannot be judged: "))
    for check in found.budget:
        decided = found.verdict if check.what in missed else None
        assert (check.reason in line) == (check.verdict is found.verdict is not topo.Verdict.HOLDS)
        if decided is not None:
            assert check.verdict is topo.Verdict.EXCEEDED and " too much" in check.reason
        for cure in check.cures:
            if cure.value is not None:
                document["budget"][cure.key.removeprefix("budget.")] = cure.value
    again = {check.what: check.verdict for check in plan.check(topo.parse(document)).budget}
    for check in found.budget:
        cured = all(cure.value is not None for cure in check.cures)
        assert (again[check.what] is topo.Verdict.HOLDS) == cured


@examples(10)
@example(stores=4, adapters=2, leaves=1)
@given(stores=st.integers(2, 12), adapters=st.integers(1, 2), leaves=st.integers(1, 2))
def test_the_price_of_a_cure_is_the_difference_of_two_bills(stores: int, adapters: int, leaves: int) -> None:
    """Where cures are keys of the spec, the changed spec survives; its bill less that of the plan is the price."""
    tree = {"shape": "fat-tree", "switch": "QM8700", **({"leaves": leaves} if leaves > 1 else {})}
    document: dict[str, Any] = {
        "name": "x",
        "nodes": {"store": {"model": "storage-3fs", "count": stores}, "gpu": {"model": "dgx-a100", "count": 4}},
        "network": {"shape": "rail", "unit_nodes": 4, "tree": {"switch": "QM8700"}},
        "networks": {"side": {"network": tree, "adapters": {"store": adapters, "gpu": adapters}}},
        "survives": ["switch"],
    }
    found = plan.check(topo.parse(document), currency="units")  # with all links, which have no length here
    (check,) = found.budget
    assert (check.verdict is topo.Verdict.HOLDS) == (adapters == 2 and leaves == 2) == (check.cures == ())
    line = verdict_line(found)
    for cure in check.cures:
        assert str(cure) in line and check.found in line
        at: Any = document
        *above, last = cure.key.split(".")
        for key in above:
            at = at[key]
        if last == "adapters":
            named = dict(re.findall(r"`networks\.side\.adapters\.(\w+): (\d)`", str(cure)))
            assert {*named.values()} == {str(cure.value)}
            at["adapters"] |= {group: int(number) for group, number in named.items()}
        else:
            at[last] = cure.value
    changed = plan.check(topo.parse(document), currency="units")
    assert changed.budget[0].verdict is topo.Verdict.HOLDS
    for cure in check.cures:
        assert (cure.price is None) == (cure.key != "networks.side.network.leaves")
        if cure.price is not None:
            if len(check.cures) > 1:
                continue  # this key alone is priced, not with the other
            less, more = (one.quote.cost.total.known for one in (found, changed) if one.quote)
            assert less and more and cure.price == (more.low - less.low, more.high - less.high)


@pytest.mark.parametrize("count", [4, 30])
def test_the_price_of_a_further_adapter_has_the_adapters_with_their_switches_and_cables(count: int) -> None:
    """It is what a catalog with that column costs more: the price of a server holds the adapters that it had."""
    document: dict[str, Any] = {
        "name": "x",
        "nodes": {"gpu": {"model": "pcie-a100", "count": count}},
        "network": {"shape": "fat-tree", "switch": "QM8700", "leaves": 4},
        "floor": {"rack_units": 42},
        "survives": ["switch"],
    }
    found = plan.check(topo.parse(document))
    (check,) = found.budget
    (cure,) = check.cures
    catalog = topo.load_catalog()
    nodes = {**catalog.nodes, "pcie-a100": replace(catalog.node("pcie-a100"), adapters=2)}
    changed = plan.check(topo.Cluster(found.planned.spec, replace(catalog, nodes=nodes)))
    less, more = (one.quote.cost.total.known for one in (found, changed) if one.quote)
    assert (cure.key, cure.value) == ("adapters", 2) and less and more and cure.price is not None
    assert cure.price == (more.low - less.low, more.high - less.high)
    assert cure.price[0] >= 900 * count, "an adapter more for each server"


@pytest.mark.parametrize(("group", "column"), [("head", "adapters"), ("gpu", "storage_adapters")])
def test_the_column_of_the_catalog_is_the_one_that_counts_in_that_network(group: str, column: str) -> None:
    """In `network.storage`, compute servers have storage adapters, others all of theirs: with the cure none is cut."""
    catalog = topo.load_catalog()
    models = {"gpu": "dgx-h100", "head": "management-ndr", "store": "storage-ndr"}
    spec = topo.parse(
        {
            "name": "x",
            "nodes": {name: {"model": model, "count": 8} for name, model in models.items()},
            "network": {
                "shape": "rail",
                "unit_nodes": 8,
                "tree": {"switch": "QM9700"},
                "storage": {"shape": "fat-tree", "switch": "QM9700", "leaves": 2},
            },
            "survives": ["switch"],
        }
    ).spec

    def checked(**few: int) -> Plan:
        two = {"gpu": {"storage_adapters": 2}, "head": {"adapters": 2}}
        two[group] |= few
        nodes = {models[name]: replace(catalog.nodes[models[name]], cages=None, **more) for name, more in two.items()}
        return plan.check(topo.Cluster(spec, replace(catalog, nodes={**catalog.nodes, **nodes})))

    (check,) = checked(**{column: 1}).budget
    (cure,) = check.cures
    assert (check.verdict, cure.key, cure.value) == (topo.Verdict.EXCEEDED, column, 2)
    assert checked(**{column: 2}).verdict is topo.Verdict.HOLDS


@pytest.mark.slow
def test_tables_that_are_not_to_be_loaded_are_named_beside_the_verdict() -> None:
    nodes = {"gpu": {"model": "dgx-b300", "count": 4}}
    for switch in ("Q3400", "QM9700"):
        network = {"shape": "rail", "unit_nodes": 2, "tree": {"switch": switch}}
        cluster = topo.parse({"name": "x", "nodes": nodes, "network": network})
        for found in (plan.check(cluster), plan.build(cluster)):
            begins = "x holds, but its tables are not to be loaded" if switch == "Q3400" else "x holds;"
            assert verdict_line(found).startswith(begins)
            assert ("caveat" in dict(facts(found))) == (switch == "Q3400")


@pytest.mark.parametrize(
    ("spines", "links", "job"), [(2, 3, 40), (2, 3, 20), (2, 3, 15), (4, 3, 40), (4, 4, 40), (8, 3, 40)]
)
def test_what_a_server_of_a_job_gets(spines: int, links: int, job: int) -> None:
    """Units of 20 servers of 8 x 50 GB/s, and cables of 50 GB/s from each leaf, which 20 adapters share.

    Jobs of 20 and 15 need none of them over the rails: their halves meet on leaves, or on as few servers as the cables
    carry. Between rails all that a leaf sends goes over its cables.
    """
    tree = {"switch": "QM9700", "spines": spines, "parallel": links, "levels": 2}
    network = {"shape": "rail", "unit_nodes": 20, "tree": tree}
    spec = topo.parse({"name": "x", "nodes": {"gpu": {"model": "dgx-h100", "count": 40}}, "network": network})
    share = min(1.0, spines * links / 20) if job > 20 else 1.0
    said = dict(facts(plan.check(spec, job=job)))[f"job of {job} servers"]
    between = min(1.0, spines * links / 20)
    words = f"{topo.percent(share)} of its rate ({400 * share:,.4g} GB/s) for each server"
    if share != between:
        words += f" over the rails, {topo.percent(between)} ({400 * between:,.4g} GB/s) between rails,"
    assert said.startswith(f"{words} while the worst half of ")


@pytest.mark.parametrize("servers", [1, 2, 7])
def test_jobs_on_all_servers_and_on_half_of_them_are_shown_unasked(servers: int) -> None:
    tree = {"shape": "fat-tree", "switch": "QM8700", "leaves": 2, "spines": 1, "parallel": 1}
    spec = topo.parse({"name": "x", "nodes": {"gpu": {"model": "pcie-a100", "count": servers}}, "network": tree})
    checked = plan.check(spec)
    rows = [name for name, _ in facts(checked) if name.startswith("job of ")]
    assert rows == {1: [], 2: ["job of 2 servers"], 7: ["job of 7 servers", "job of 3 servers"]}[servers]
    told = checked.to_dict()["job"]
    assert told is None if servers < 4 else (told["nodes"], told["bisection"]) == (3, checked.job.share)
    assert checked.job is None or checked.job.share >= checked.bisection.share


def test_a_job_that_the_spec_has_no_servers_for_is_refused() -> None:
    with pytest.raises(topo.HeddleError, match="found a job of 99 servers; expected 2 to 16"):
        plan.check(topo.preset("lab-20"), job=99)


@pytest.mark.parametrize("name", ["lab-20", "dgx-h100-48", "dgx-b300-xdr"])
def test_a_row_of_power_names_the_columns_that_would_make_it_known(name: str) -> None:
    """Each table of the catalog with a part of which the figure is unknown, and no other."""
    found = plan.check(topo.preset(name))
    assert found.quote is not None
    rows, lines = dict(facts(found)), found.quote.power.lines
    for row, column, unknown in (
        ("power, typically", "power_typical_w", [each.line.kind for each in lines if each.typical_w is None]),
        ("power, at most", "power_max_w", [each.line.kind for each in lines if each.most_w is None]),
    ):
        tables = {"switch": f"`{column}` in switches.csv", "node": f"`{column}` in nodes.csv"}
        wanted = {tables.get(kind, "`power_end_w` in cables.csv") for kind in unknown}
        assert {*re.findall(r"`power_\w+` in \w+.csv", rows[row])} == wanted
