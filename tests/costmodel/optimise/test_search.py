import json
from dataclasses import replace
from itertools import islice, product
from math import ceil, inf
from pathlib import Path
from types import MappingProxyType

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.bills import bill
from costmodel.optimise import cuts
from costmodel.optimise.capacity import JOB
from costmodel.optimise.design import PRICE_CHECKS, Design, evaluate
from costmodel.optimise.needs import Needs, read_needs, validate_needs, with_quotes
from costmodel.optimise.problem import Problem
from costmodel.optimise.search import FAMILIES, optimise, roots
from costmodel.owning import quote
from helpers.benchmarks import load
from helpers.clusters import CATALOG
from helpers.needs import OWNING, needs, random_needs, small_catalog
from helpers.strategies import examples, nightly, seeds, slow_but
from routing import prove, route
from topo.amounts import Sum, Verdict
from topo.catalog.load import Catalog, config_root
from topo.checks import Check
from topo.cluster import Cluster, validate_spec
from topo.errors import DesignError, HeddleError, SpecError
from topo.fabric import Role
from topo.files.yaml import parse_yaml
from topo.shapes.fat_tree import FatTree
from topo.shapes.rail import Rail
from topo.shapes.zones import Zones

# What each need cost when it was met by the designs that people would name, and then by hand.
FIVE = {
    "fire-flyer-2": (read_needs("fire-flyer-2").model_copy(update={"families": ("fat-tree", "zones")}), 360),
    "1,024 nodes at 2:1": (
        needs(1024, 100, job={"nodes": 1024, "bisection": 0.5, "with_storage": False}, families=["fat-tree"]),
        255,
    ),
    "200 nodes and 20 % more": (needs(200, growth=0.2, job={"nodes": 100, "alone": True}), 45),
    "100 nodes at 2:1": (needs(100, job={"nodes": 100, "bisection": 0.5}), 15),
    "4,096 nodes": (needs(4096, 200, families=["slim-fly"]), 1737),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", [nightly(name) if FIVE[name][1] in (255, 360, 1737) else name for name in FIVE])
def test_the_five_needs_of_which_each_was_beaten_by_hand(name: str) -> None:
    asked, most = FIVE[name]
    found = optimise(asked, CATALOG)
    assert found.winner is not None
    assert found.proven
    assert found.winner.price <= most
    (fabric,) = Cluster(found.winner.spec, CATALOG).fabrics
    assert fabric.n_switches == found.winner.switches
    assert prove(route(fabric, "balanced")).holds


@pytest.mark.slow
@pytest.mark.parametrize("family", slow_but(FAMILIES, "fat-tree", "zones", "hyperx"))
@pytest.mark.parametrize("seed", seeds(3))
def test_the_price_in_closed_form_is_that_of_the_bill_and_no_design_that_follows_is_cheaper(
    family: str, seed: int
) -> None:
    asked, catalog = random_needs(seed)
    problem = Problem(asked.model_copy(update={"families": (family,)}), catalog)
    rows, designs = list(islice(roots(problem), 60)), []
    while rows and len(designs) < 6 and len(rows) < 2_000:
        branch = rows.pop(0)
        following = list(islice(branch.expand(), 50))
        assert all(more.price >= branch.price - 1e-9 for more in following)
        rows += following
        if branch.shape is not None:
            designs.append(branch)
    for branch in designs:
        assert branch.shape is not None
        try:
            design = evaluate(branch.name, branch.shape(), problem)
        except DesignError as error:
            pytest.fail(f"{branch.name}: {error}")
        assert (design.price, design.switches) == (pytest.approx(branch.price), branch.switches), branch.name


@pytest.mark.slow
@pytest.mark.parametrize(("count", "radix"), [(6, 8), (9, 16), (20, 12), (30, 16)])
def test_rails_of_two_and_three_levels_cost_what_the_bill_says(count: int, radix: int) -> None:
    asked = needs(
        count,
        nodes={"gpu": {"model": "dgx-a100", "count": count}},
        job={"nodes": count, "bisection": 0.5},
        switches=["S"],
        families=["rail"],
        currency="USD",
    )
    problem = Problem(asked, small_catalog(0.1, S=(radix, 3.0)))
    rows, levels = list(roots(problem)), {2: 0, 3: 0}
    while rows and min(levels.values()) < 4:
        rows.sort(key=lambda branch: branch.price)
        branch = rows.pop(0)
        rows += islice(branch.expand(), 4_000)
        shape = branch.shape() if branch.shape else None
        if not isinstance(shape, Rail) or shape.tree.levels is None or levels[shape.tree.levels] >= 4:
            continue
        levels[shape.tree.levels] += 1
        design = evaluate(branch.name, shape, problem)
        assert (design.price, design.switches) == (pytest.approx(branch.price), branch.switches), branch.name
    assert levels[2 if count == 9 else 3]


@pytest.mark.slow
def test_zones_of_split_ports_joined_by_switches_cost_what_the_bill_says() -> None:
    asked = needs(
        60,
        nodes={"gpu": {"model": "dgx-h100", "count": 60}},
        job={"nodes": 30, "bisection": 0.2},
        switches=["SN5610"],
        families=["zones"],
        currency="USD",
        quotes={"4xNDR": 900},
    )
    problem = Problem(asked, CATALOG)
    assert any(option.split for option in problem.options)
    rows, seen = list(roots(problem)), 0
    while rows and seen < 3:
        rows.sort(key=lambda branch: branch.price)
        branch = rows.pop(0)
        rows += islice(branch.expand(), 2_000)
        shape = branch.shape() if branch.shape else None
        if isinstance(shape, Zones) and shape.joints and shape.tree.split:
            seen += 1
            design = evaluate(branch.name, shape, problem)
            assert (design.price, design.switches) == (pytest.approx(branch.price), branch.switches), branch.name
    assert seen


def cheapest_tree(asked: Needs, catalog: Catalog, radix: int) -> Design | None:
    """Return the cheapest of all trees of two levels that does, by trying every one."""
    best: Design | None = None
    problem = Problem(asked, catalog)
    for leaves, spines, links in product(range(1, radix + 1), range(1, radix), range(1, radix)):
        if spines * links >= radix or leaves * links > radix or (best and 3 * (leaves + spines) >= best.price):
            continue
        try:
            design = evaluate("", FatTree(switch="S", leaves=leaves, spines=spines, parallel=links), problem)
        except DesignError:
            continue
        if design.verdict is Verdict.HOLDS:
            best = design
    return best


@pytest.mark.parametrize("radix", slow_but([4, 6], 4))
@pytest.mark.parametrize("share", slow_but([1.0, 0.5], 1.0))
def test_no_tree_beats_the_winner(radix: int, share: float) -> None:
    catalog = small_catalog(S=(radix, 3.0))
    for hosts, survives in zip(range(radix - 1, radix * radix // 2 + 1, radix - 1), (True, False) * 9, strict=False):
        for job in {hosts, hosts // 2}:
            asked = needs(
                hosts,
                job={"nodes": job, "bisection": share},
                survives_a_switch=survives,
                switches=["S"],
                families=["fat-tree"],
            )
            found, best = optimise(asked, catalog), cheapest_tree(asked, catalog, radix)
            if best is not None:
                assert found.winner is not None
                assert found.winner.price <= best.price


@pytest.mark.slow
def test_a_gap_and_a_limit_of_time_end_the_search_with_a_bound() -> None:
    asked = needs(100, families=["fat-tree"])
    whole = optimise(asked, CATALOG)
    assert whole.winner is not None
    early = optimise(asked, CATALOG, gap=0.5)
    assert early.winner is not None
    assert early.bound <= whole.winner.price <= early.winner.price
    assert early.winner.price <= early.bound / (1 - 0.5)
    late = optimise(asked, CATALOG, limit_s=0.0)
    assert late.winner is not None
    assert not late.proven
    assert late.ended == "the time limit of 0 s is reached"
    assert optimise(asked.model_copy(update={"families": ("torus",)}), CATALOG, limit_s=0.0).winner is None
    rich = needs(40, nodes={"gpu": {"model": "dgx-a100", "count": 40}})
    early = optimise(rich, CATALOG, limit_s=0.0)  # planes are what people name for servers of eight adapters
    assert early.winner is not None
    assert early.winner.name == "8 planes of one QM8700"


@pytest.mark.slow
@pytest.mark.parametrize(
    "keys",
    [
        {"budget": {"switches": 2}},
        {"network_price": 5},
        {"bandwidth": {"storage": "1 TB/s"}},
        {"bandwidth": {"compute": "1 TB/s"}},
        {"budget": {"power": "50 kW"}},
        {"bandwidth": {"compute": 0.9}, "switches": ["SB7800"]},
        {"network_price": 9_000, "owning": OWNING, "currency": "USD", "quotes": {"QM8700": 5_000, "4xHDR": 10}},
    ],
)
def test_what_cannot_be_had_has_no_winner(keys: dict[str, object]) -> None:
    found = optimise(needs(41, **keys), CATALOG)
    assert found.winner is None
    assert found.verdict is Verdict.EXCEEDED
    assert "no design of these families meets the needs" in found.certificate


@examples(8)
@given(servers=st.integers(2, 90), share=st.sampled_from([0.3, 1.0]), allowed=st.floats(0.2, 1.5))
def test_a_price_that_nothing_meets_is_answered_with_the_cheapest_that_misses_it(
    servers: int, share: float, allowed: float
) -> None:
    """Beside the search without a limit: the same design, as a winner or with its price as the only need it misses."""
    asked = {"job": {"nodes": servers, "bisection": share}, "families": ["fat-tree"]}
    cheapest = optimise(needs(servers, **asked), CATALOG).winner
    assert cheapest is not None
    limit = cheapest.cost.known.low * allowed
    found = optimise(needs(servers, **asked, network_price=limit), CATALOG)
    if allowed >= 1:
        assert found.winner is not None
        assert found.winner.name == cheapest.name
    else:
        assert found.verdict is Verdict.EXCEEDED
        (missed,) = (design for design in found.tried if design.refused_by(PRICE_CHECKS))
        assert (missed.name, missed.price) == (cheapest.name, cheapest.price)
        assert "network price" in missed.reasons[0]


@examples(8)
@given(servers=st.integers(2, 90), share=st.floats(0.5, 1.5), limit=st.sampled_from(["power", "switches"]))
def test_a_limit_that_nothing_meets_is_told_with_what_is_missed(servers: int, share: float, limit: str) -> None:
    """Beside the search without a limit, and the servers' own power, counted from the catalog."""
    asked = {"job": {"nodes": servers}, "families": ["fat-tree"]}
    cheapest = optimise(needs(servers, **asked), CATALOG).winner
    assert cheapest is not None
    alone = servers * CATALOG.node("pcie-a100").planned_w
    planned = bill(Cluster(cheapest.spec, CATALOG)).power.planned_w.known.low
    most = int(share * cheapest.switches) if limit == "switches" else int(share * planned)
    allowed = f"{most} W" if limit == "power" else max(most, 1)
    found = optimise(needs(servers, **asked, budget={limit: allowed}), CATALOG)
    if limit == "power" and most < alone:
        assert (found.winner, found.tried) == (None, ())
        (said,) = found.refused
        assert f"power at least {alone / 1e3:,.1f} kW" in said
        assert f"at least {alone / 1e3 - most / 1e3:,.1f} kW too much (`budget.power` above" in said
    elif max(most, 1) < (cheapest.switches if limit == "switches" else planned):
        assert found.verdict is Verdict.EXCEEDED
        (missed,) = found.tried
        assert missed.name == cheapest.name
        assert "too much (`budget." in missed.reasons[0]
    elif limit == "switches":
        assert found.winner.name == cheapest.name


@pytest.mark.slow
def test_what_has_no_price_is_asked_for_once_and_compared_in_what_is_known() -> None:
    found = optimise(needs(currency="USD"), CATALOG)
    assert found.winner is not None
    assert found.unpriced == ("4xHDR",)
    assert not found.proven
    assert "the cheapest by known prices" in found.certificate
    assert optimise(needs(switches=["CS8500"]), CATALOG).unpriced == ("CS8500",)


@pytest.mark.slow
def test_needs_in_dollars_with_quotes_become_a_bill(tmp_path: Path) -> None:
    """The example of docs/optimise.md, from the file to the bill of what was found."""
    page = (config_root().parent / "docs" / "optimise.md").read_text(encoding="utf-8")
    file = tmp_path / "needs.yaml"
    file.write_text(page.partition("```yaml\n")[2].partition("```")[0], encoding="utf-8")
    asked = read_needs(file)
    found = optimise(asked)
    assert found.winner is not None
    assert found.proven
    parts = bill(Cluster(found.winner.spec, with_quotes(asked, CATALOG)))
    assert parts.price("USD").network.middle == found.winner.price
    assert found.winner.price == 15_000 * found.winner.switches + 250 * parts.count("cable")


def test_a_judge_decides_too() -> None:
    seen: list[str] = []

    def judge_tables(needs: Needs, cluster: Cluster) -> list[Check]:
        assert needs.tables == 0.5
        seen.append(cluster.name)
        return [Check("tables", Verdict.HOLDS if len(seen) == 3 else Verdict.EXCEEDED, "in words")]

    asked = needs(60, tables=0.5)
    with pytest.raises(HeddleError, match="tables"):
        optimise(asked, CATALOG)
    found = optimise(asked, CATALOG, judge=judge_tables)
    assert found.winner is not None
    assert [design.reasons for design in found.tried].count(("in words",)) == 2
    assert found.winner.checks[-1].text == "in words"
    assert found.tried[0].price <= found.winner.price == found.bound


def test_quotes_of_what_nobody_knows_are_refused_at_their_place() -> None:
    text = (
        "name: t\nnodes: {gpu: {model: pcie-a100, count: 4}}\njob: {nodes: 4}\nswitches: [QM8700]\nquotes: {QM870: 1}\n"
    )
    with pytest.raises(SpecError, match=r"needs.yaml:5:.*QM8700"):
        validate_needs(parse_yaml(text, "needs.yaml"), CATALOG)


def test_the_cheaper_of_two_switches_wins_and_both_may_be_mixed() -> None:
    catalog = small_catalog(A=(8, 3.0), B=(8, 2.0))
    winner = optimise(needs(16, switches=["A", "B"]), catalog).winner
    assert winner is not None
    assert winner.price == 2.0 * winner.switches
    # Leaves of 8 ports and a spine of 32: nothing of one model is as cheap.
    catalog = small_catalog(A=(8, 1.0), B=(32, 5.0))
    found = optimise(needs(24, switches=["A", "B"], survives_a_switch=False, families=["fat-tree"]), catalog)
    assert found.winner is not None
    assert found.winner.price == 5.0


def test_of_twins_that_nobody_needs_both_of_one_is_searched() -> None:
    catalog = small_catalog(A=(8, 3.0), B=(8, 2.0), C=(8, 2.0), D=(16, 9.0))
    assert Problem(needs(16, switches=["A", "C", "B", "D", "C"]), catalog).models == ["C", "D"]
    more = replace(catalog.switches["A"], power_typical_w=0.5)  # dearer, but it draws less
    catalog = replace(catalog, switches=MappingProxyType({**catalog.switches, "A": more}))
    assert Problem(needs(16, switches=["A", "B"]), catalog).models == ["A", "B"]


def test_a_room_without_a_place_for_a_part_is_told_at_once() -> None:
    low = {"rack_units": 4}
    nodes = {"gpu": {"model": "dgx-a100", "count": 9}}
    none = optimise(needs(9, nodes=nodes, floor=low), CATALOG)
    assert none.refused == ("no network can meet this: gpu (dgx-a100) is 6 rack units high, and a rack has 4",)
    assert (none.verdict, none.looked_at) == (Verdict.EXCEEDED, 0)
    nodes = {"gpu": {"model": "hgx-b200", "count": 9}}
    dark = optimise(needs(9, nodes=nodes, switches=["QM9700"], floor={"rack_power": "60 kW"}), CATALOG)
    assert (dark.verdict, dark.looked_at, dark.tried) == (Verdict.CANNOT_TELL, 0, ())
    assert "power is limited, and that of hgx-b200 unknown" in dark.certificate
    quotes = {"QM8700": 9, "CS8500": 1}  # the box is cheap, and does not go in
    found = optimise(needs(9, floor=low, switches=["CS8500", "QM8700"], quotes=quotes), CATALOG)
    assert found.winner is not None and found.proven
    assert found.winner.price == 9 and "CS8500" in found.refused[0]


@pytest.mark.slow
def test_growth_buys_ports_today_and_servers_later() -> None:
    winner = optimise(needs(100, growth=0.5), CATALOG).winner
    assert winner is not None
    assert winner.spec.nodes["gpu"].count == 100
    (fabric,) = Cluster(winner.spec, CATALOG).fabrics
    assert fabric.n_switches == winner.switches
    more = {"gpu": winner.spec.nodes["gpu"].model_copy(update={"count": 150})}
    (grown,) = Cluster(winner.spec.model_copy(update={"nodes": more}), CATALOG).fabrics
    assert grown.n_switches == winner.switches


@pytest.mark.slow
@pytest.mark.parametrize(("count", "growth"), [(6, 1.0), (5, 0.5), (12, 0.0)])
def test_what_is_bought_and_what_is_compared_are_each_said_with_their_servers(count: int, growth: float) -> None:
    """Rails, of which growth adds units: switches and cables counted from the fabrics, at 3 and 0.1 USD."""
    nodes = {"gpu": {"model": "dgx-a100", "count": count}}
    keys = {"nodes": nodes, "job": {"nodes": 2}, "families": ["rail"], "currency": "USD", "switches": ["S"]}
    catalog = small_catalog(0.1, S=(12, 3.0))
    found = optimise(needs(count, growth=growth, **keys), catalog)
    winner = found.winner
    assert winner is not None and winner.total.known is not None and found.proven
    servers = ceil(round(count * (1 + growth), 9))
    more = {"gpu": winner.spec.nodes["gpu"].model_copy(update={"count": servers})}
    (today,) = Cluster(winner.spec, catalog).fabrics
    (later,) = Cluster(winner.spec.model_copy(update={"nodes": more}), catalog).fabrics
    price = 3.0 * today.n_switches + 0.1 * len(today.links)
    between = int((later.port_node[later.links] < later.n_switches).all(axis=1).sum())
    compared = 3.0 * later.n_switches + 0.1 * (between + 8 * count)
    assert (winner.total.known.middle, winner.price, found.bound) == pytest.approx((price, compared, compared))
    said = [f"{price:,.2f} USD for the {count} servers that are bought".replace(".00", ""),
            f"with switches for all {servers} servers it costs {compared:,.2f}".replace(".00", "")]  # fmt: skip
    assert [text in found.certificate for text in said] == [growth > 0] * 2, found.certificate


FLOOR = {"racks_per_row": 8, "rack_units": 42}


@pytest.mark.parametrize("keys", [{}, {"growth": 1.0}, {"floor": FLOOR}, {"floor": FLOOR, "growth": 0.5}])
def test_limits_are_judged_by_the_bill_and_the_power_of_the_spec_that_is_written(keys: dict[str, object]) -> None:
    """Beside `plan check` of each design, with the quotes in its catalog; the budget stands in the spec."""
    budget = {"price": "500000 USD", "power": "40 kW", "typical_power": "41 kW", "switches": 9}
    server = replace(CATALOG.node("pcie-a100"), power_max_w=3_000.0)
    catalog = replace(CATALOG, nodes=MappingProxyType({**CATALOG.nodes, "pcie-a100": server}))
    quotes = {"QM8700": 20000, "pcie-a100": 30000} | ({} if "floor" in keys else {"4xHDR": 999})
    asked = needs(12, budget=budget, currency="USD", families=["fat-tree"], quotes=quotes, **keys)
    found = optimise(asked, catalog)
    designs = [*([found.winner] if found.winner else []), *found.tried]
    assert designs
    for design in designs:
        quoted = quote(Cluster(design.spec, with_quotes(asked, catalog)))
        mine = {check.what: check.text for check in design.checks}
        limits = {check.what: f"{check.what}: {check.text}" for check in quoted.checks if check.what in budget}
        assert limits == {what: mine[what] for what in budget}
        for most, watts in ((False, design.power_w), (True, design.power_max_w)):
            assert watts == quoted.power.of("switch", "cable", "fibre", "optic", most=most)
        assert design.cost == quoted.cost.network


@pytest.mark.parametrize(
    ("more", "basis"),
    [
        ({"floor": FLOOR}, "cables at the price of their speed"),
        ({"growth": 0.5}, "switches for all 18 servers"),
        ({}, ""),
    ],
)
def test_a_price_that_only_compared_prices_exceed_is_not_refuted(more: dict[str, object], basis: str) -> None:
    """The limit is below the price of a switch; what is bought may be cheaper than what the search compares."""
    quotes = {"QM8700": 20000, "4xHDR": 999}
    limits = {"network_price": 5_000, "currency": "USD", "families": ["fat-tree"], "quotes": quotes}
    found = optimise(needs(12, **limits, **more), CATALOG)
    assert found.winner is None and found.tried[0].refused_by(PRICE_CHECKS)
    assert found.verdict is (Verdict.CANNOT_TELL if basis else Verdict.EXCEEDED)
    assert found.ended == (f"the limit of the price is reached with {basis}" if basis else "")


@pytest.mark.slow
def test_the_winner_is_a_spec_that_reads_back() -> None:
    winner = optimise(needs(), CATALOG).winner
    assert winner is not None
    text = winner.spec.to_yaml("found")
    assert text.startswith("# found\nname: t\n")
    read = validate_spec(parse_yaml(text, "winner.yaml"), CATALOG)
    assert (read.nodes, read.network) == (winner.spec.nodes, winner.spec.network)


@pytest.mark.parametrize("currency", ["USD", "EUR", "units"])
def test_the_spec_of_a_winner_is_priced_as_the_needs_are(currency: str) -> None:
    winner = optimise(needs(currency=currency, quotes={"QM8700": 9, "4xHDR": 1}), CATALOG).winner
    assert winner is not None
    assert winner.spec.priced_in == (None if currency == "units" else currency)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("switches: [QM870]", "QM8700"),
        ("switches: []", "at least 1"),
        ("switches: [QM8700]\nbandwidth: {compute: 2}", "a share from 0 to 1, or a rate"),
        ("switches: [QM8700]\nbandwidth: {management: 1 Gb/s}", "servers of the role management"),
        ("switches: [QM8700]\nbandwidth: {storage: 9}", "with its unit"),
        ("switches: [QM8700]\ncurrency: dollars", "a currency like USD"),
        ("switches: [QM8700]\nfamilies: [mesh]", "slim-fly"),
        ("switches: [QM8700]\njbo: 3", "job"),
        ("switches: [QM8700]\nreach: 3 m", "`floor`"),
        ("switches: [QM8700]\nmoving: 3", "`stages`"),
        ("switches: [QM8700]\nowning: {years: 5, pue: 1.2, price_per_kwh: 1, currency: USD}", "the currency"),
        ("switches: [QM8700]\nowning: {years: 5, currency: USD}", "pue"),
    ],
)
def test_bad_needs_are_refused_at_their_place(text: str, said: str) -> None:
    head = "name: t\nnodes: {gpu: {model: pcie-a100, count: 4}}\njob: {nodes: 4}\n"
    with pytest.raises(SpecError, match=said) as caught:
        validate_needs(parse_yaml(head + text, "needs.yaml"), CATALOG)
    assert all(finding.where.startswith("needs.yaml:") for finding in caught.value.findings)


@pytest.mark.parametrize("nodes", [-1, 0, 1e9])
def test_a_job_of_no_size_is_one_finding(nodes: float) -> None:
    text = f"name: t\nnodes: {{gpu: {{model: pcie-a100, count: 4}}}}\njob: {{nodes: {nodes:g}}}\nswitches: [QM8700]\n"
    with pytest.raises(SpecError) as caught:
        validate_needs(parse_yaml(text.replace("1e+09", "1000000000"), "needs.yaml"), CATALOG)
    (finding,) = caught.value.findings
    assert finding.expected.startswith(("at least 1", "at most "))


@pytest.mark.parametrize(("mix", "said"), [("4: 0.5", "room for a job"), ("2: 0.5, 1: 0.6", "at most 1")])
def test_a_mix_without_room_is_refused_at_its_place(mix: str, said: str) -> None:
    parts = ", ".join(
        f"{{size: {size}, share: {share}}}" for size, share in (part.split(": ") for part in mix.split(", "))
    )
    text = f"name: t\nnodes: {{gpu: {{model: pcie-a100, count: 4}}}}\njob: {{nodes: [{parts}]}}\nswitches: [QM8700]\n"
    with pytest.raises(SpecError, match=said) as caught:
        validate_needs(parse_yaml(text, "needs.yaml"), CATALOG)
    assert caught.value.findings[0].where.startswith("needs.yaml:3:")


@pytest.mark.parametrize("mix", [{4: 1.0}, {2: 0.5}, {1: 0.25}, {2: 0.5, 1: 0.5}, {3: 0.75, 1: 0.25}])
def test_a_mix_with_just_the_room_is_taken(mix: dict[int, float]) -> None:
    job = {"nodes": [{"size": size, "share": share} for size, share in mix.items()]}
    assert isinstance(needs(4, job=job).job.nodes, tuple)
    text = f"name: t\nnodes: {{gpu: {{model: pcie-a100, count: 4}}}}\njob: {json.dumps(job)}\nswitches: [QM8700]\n"
    assert validate_needs(parse_yaml(text, "needs.yaml"), CATALOG).job.sizes == mix


def test_a_certificate_names_each_part_of_the_price_and_only_those() -> None:
    """Of one design with and without a range, energy, moved cables, a floor and an end: each has words of its own."""
    found = optimise(needs(20, currency="USD", owning=OWNING, quotes={"4xHDR": 200}), CATALOG)
    winner = found.winner
    assert winner is not None and not found.unpriced and winner.total.known is not None
    assert winner.total.known.low < winner.total.known.high
    flat = replace(winner, cost=Sum.of([(1000.0, "")]), energy=Sum(), moving=Sum())
    cheap = needs(20, currency="USD")
    room = needs(20, currency="USD", floor={"racks_per_row": 10, "rack_units": 42})
    words = (
        "the middle of",
        "for the energy of 4 years",
        "for moving cables",
        "with each cable at its length",
        "ended",
    )
    for search, said in (
        (replace(found, winner=flat, needs=cheap), ()),
        (replace(found, winner=replace(flat, cost=winner.cost), needs=cheap), words[:1]),
        (replace(found, winner=flat), words[1:2]),
        (replace(found, winner=replace(flat, moving=Sum.of([(5.0, "")])), needs=cheap), words[2:3]),
        (replace(found, winner=flat, needs=room), words[3:4]),
        (replace(found, winner=flat, needs=cheap, ended="the gap"), words[4:]),
    ):
        assert [word for word in words if word in search.certificate] == list(said)
    assert f"of which {winner.energy} are for the energy" in found.certificate
    assert f"the middle of {winner.total}" in found.certificate
    assert "by known prices" not in found.certificate
    unpriced = replace(found, unpriced=("x",))
    assert "the cheapest by known prices" in unpriced.certificate and not unpriced.proven
    none = replace(found, winner=None)
    assert "meets the needs at less than" in none.certificate
    assert "less than" not in replace(none, bound=inf).certificate
    assert "is unknown: the gap" in replace(none, bound=0.0, ended="the gap").certificate


@pytest.mark.slow
def test_a_mix_of_one_size_is_that_size_and_smaller_jobs_cost_no_more() -> None:
    def of(*parts: tuple[int, float]) -> list[dict[str, float]]:
        return [{"size": size, "share": share} for size, share in parts]

    trees = {"families": ["fat-tree", "hyperx"]}
    one, mixed, small = (
        optimise(needs(120, job={"nodes": nodes}, **trees), CATALOG).winner
        for nodes in (60, of((60, 1.0)), of((60, 0.5), (10, 0.5)))
    )
    assert one is not None
    assert mixed is not None
    assert small is not None
    assert (one.name, one.price) == (mixed.name, mixed.price)
    assert small.price <= one.price


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 4])
def test_no_rival_by_hand_that_is_cheaper_delivers_what_is_needed_when_it_is_routed_and_played(seed: int) -> None:
    line, wrong = load("optimum/rivals").compare(seed, 3)
    assert not wrong, line


@pytest.mark.slow
@pytest.mark.parametrize("family", ["fat-tree", "zones", "hyperx"])
def test_each_role_gets_its_bandwidth_and_what_it_costs_is_told(family: str) -> None:
    nodes = {
        "gpu": {"model": "pcie-a100", "count": 40},
        "storage": {"model": "storage-3fs", "count": 6},
        "head": {"model": "management", "count": 4},
    }
    job = {"nodes": 10, "bisection": 0.3, "with_storage": False}
    asked = {"compute": "0.3 TB/s", "storage": 1.0, "management": "600 Gb/s"}
    catalog = small_catalog(0.01, S=(16, 3.0))
    keys = {"nodes": nodes, "job": job, "families": [family], "switches": ["S"], "currency": "USD"}
    found = optimise(needs(bandwidth=asked, **keys), catalog)
    assert found.winner is not None
    fabrics = Cluster(found.winner.spec, catalog).fabrics
    graph = nx.DiGraph()
    for fabric in fabrics:
        for a, b in fabric.port_node[fabric.links].tolist():
            for ends in ((a, b), (b, a)):
                graph.add_edge(*ends, capacity=graph.get_edge_data(*ends, {"capacity": 0})["capacity"] + 200)
        for node in fabric.end_node[fabric.ends()].tolist():
            role = Role(fabric.role[node])
            graph.add_edge(*((node, "compute") if role is Role.COMPUTE else (role.name, node)))
    for role, least in ((Role.STORAGE, 12 * 200), (Role.MANAGEMENT, 600)):
        assert nx.maximum_flow_value(graph, role.name, "compute") >= least
        assert found.winner.serving_gbps[role] == nx.maximum_flow_value(graph, role.name, "compute")
    assert found.winner.bisection.share * found.winner.bisection.gbps >= 0.3 * 8_000
    price = found.winner.price
    for role in asked:
        less = optimise(needs(bandwidth={**asked, role: 0.0}, **keys), catalog).winner
        assert less is not None
        assert less.price <= price


@pytest.mark.slow
def test_with_energy_the_winner_is_the_cheapest_to_own() -> None:
    """A switch that is dearer to buy and draws less wins over enough years; what it costs is what the bill says."""
    asked = {
        "job": {"nodes": 30, "bisection": 0.5},
        "currency": "USD",
        "switches": ["A", "B"],
        "families": ["fat-tree"],
    }
    catalog = small_catalog(0.0, A=(16, 100.0), B=(16, 150.0))
    hungry = replace(catalog.switches["A"], power_typical_w=400.0)
    frugal = replace(catalog.switches["B"], power_typical_w=100.0)
    catalog = replace(catalog, switches=MappingProxyType({"A": hungry, "B": frugal}))
    bought, owned = (optimise(needs(30, owning=more, **asked), catalog).winner for more in (None, OWNING))
    assert bought is not None
    assert owned is not None
    assert " of A" in bought.name
    assert " of B" in owned.name
    parts = bill(Cluster(owned.spec, catalog))
    known = parts.power.network_w.known
    assert known is not None
    energy = known.middle / 1_000 * 4 * 365.25 * 24 * 1.5 * 0.1
    assert owned.price == pytest.approx(parts.price("USD").network.known.middle + energy)


def test_every_server_of_a_half_gets_what_is_needed_and_pairs_on_one_leaf_do_not_make_up_for_it() -> None:
    """Three leaves of 33 and two spines, one cable each, would be cheaper: 101,250. Each server would get 2 / 33."""
    asked = needs(
        99,
        job={"nodes": 99, "bisection": 0.33, "alone": True},
        families=["fat-tree"],
        currency="USD",
        quotes={"QM8700": 15000, "4xHDR": 250},
    )
    found = optimise(asked, CATALOG)
    assert found.winner is not None
    assert (found.winner.name, found.winner.price) == ("4 leaves x 2 spines x 5 of QM8700", 124_750)
    assert found.winner.job_bisection.share == 10 / 25
    assert "all needs hold, proven" in found.certificate


@pytest.mark.slow
def test_a_winner_whose_bandwidth_is_only_not_refuted_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuts, "MOST_ENUMERATED", -1)
    monkeypatch.setattr(cuts, "MOST_PROVEN", -1)
    monkeypatch.setattr(cuts, "spread_share", lambda *_: 0.0)
    found = optimise(needs(60, families=["hyperx"]), CATALOG)
    assert found.winner is not None
    assert found.winner.verdict is found.verdict is Verdict.CANNOT_TELL
    assert "not refuted (at most 100.0%, 100.0% needed)" in found.certificate
    assert found.winner.price == optimise(needs(60, families=["hyperx"]), CATALOG).bound


@pytest.mark.slow
def test_of_several_finalists_one_is_proven_where_the_winner_is_not() -> None:
    def doubt(asked: Needs, cluster: Cluster) -> list[Check]:
        return [] if cluster.spec.network.shape == "fat-tree" else [Check(JOB, Verdict.CANNOT_TELL, "doubted")]

    some = needs(100, job={"nodes": 100, "bisection": 0.5})
    tree = optimise(needs(100, job={"nodes": 100, "bisection": 0.5}, families=["fat-tree"]), CATALOG)
    alone, found = (optimise(some, CATALOG, judge=doubt, finalists=count) for count in (1, 2))
    assert alone.winner is not None and found.winner is not None and tree.winner is not None
    assert alone.sure is None and not alone.others
    assert found.winner.name == alone.winner.name and found.verdict is Verdict.CANNOT_TELL
    assert found.sure is not None and found.sure in found.others
    assert found.winner.price <= found.sure.price == tree.winner.price
    assert f"proven to meet the needs is {found.sure.name}" in found.certificate


@pytest.mark.parametrize(
    ("model", "count", "radix", "family", "job"),
    [("dgx-a100", 6, 16, "rail", 6), ("dgx-a100", 4, 24, "zones", 4), ("pcie-a100", 20, 8, "zones", 10)],
)
def test_a_single_spine_may_fail_where_servers_reach_one_another_without_it(
    model: str, count: int, radix: int, family: str, job: int
) -> None:
    """Servers with adapters on the same leaves; and zones with a cable to the next on each leaf."""
    asked = {"job": {"nodes": job, "bisection": 0.5}, "between_rails": 0, "families": [family], "switches": ["S"]}
    found = optimise(
        needs(nodes={"gpu": {"model": model, "count": count}}, bandwidth={"compute": 0.1}, **asked),
        small_catalog(S=(radix, 3.0)),
    )
    assert found.winner is not None
    assert "1 spine x" in found.winner.name
    for fabric in Cluster(found.winner.spec, small_catalog(S=(radix, 3.0))).fabrics:
        assert load("optimum/brute_force").whole_without(fabric, fabric.n_switches - 1)


def test_a_search_ends_when_its_gap_is_reached() -> None:
    """The price is compared with the bound once more for each step, and not for ever."""

    class Gap(float):
        left = 10_000

        def __rsub__(self, whole: float) -> float:
            self.left -= 1
            assert self.left > 0, "the search goes on"
            return whole - float(self)

    found = optimise(needs(60, families=["fat-tree"]), CATALOG, gap=Gap(0.9))
    assert found.winner is not None
    assert found.winner.price * (1 - 0.9) <= found.bound + 1e-9
    assert found.ended == "the gap of 90.0% is reached"


def test_a_share_is_no_more_than_the_whole() -> None:
    for share in (-0.01, 1.01, 1.5):
        with pytest.raises(ValueError, match=r"bisection|less than or equal|greater than or equal"):
            needs(40, job={"nodes": 40, "bisection": share})


def test_the_cure_of_a_missed_price_is_the_least_limit_that_a_design_meets() -> None:
    """As `plan optimise --json` has it: with the value put in there is a winner, and with a unit less there is none."""
    missed = optimise(needs(60, families=["fat-tree"], network_price=10), CATALOG)
    (design,) = missed.to_dict()["tried"]
    (check,) = [check for check in design["checks"] if check["verdict"] != "holds"]
    (cure,) = check["cures"]
    assert (check["key"], cure["key"]) == ("network_price", "network_price")
    assert optimise(needs(60, families=["fat-tree"], network_price=cure["value"]), CATALOG).winner is not None
    assert optimise(needs(60, families=["fat-tree"], network_price=cure["value"] - 1), CATALOG).winner is None
