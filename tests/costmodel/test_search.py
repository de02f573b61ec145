from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from types import MappingProxyType

import pytest

from costmodel.needs import Needs, read_needs, validate_needs
from costmodel.search import Design, judge, least_price, optimise
from helpers.clusters import CATALOG, zoned
from helpers.strategies import slow_but
from plan.export.spec import format_spec
from topo.cluster import Cluster, validate_spec
from topo.errors import DesignError, SpecError
from topo.formats.yaml import parse_yaml
from topo.hardware.catalog import Catalog
from topo.hardware.models import Price, PricePoint, Source, SwitchModel
from topo.hardware.speeds import LinkSpeed
from topo.shapes.fat_tree import FatTree


def needs(**keys: object) -> Needs:
    return Needs.model_validate(
        {
            "name": "t",
            "nodes": {"gpu": {"model": "pcie-a100", "count": 40}},
            "job": {"nodes": 40},
            "switches": ["QM8700"],
        }
        | keys
    )


def small_catalog(**switches: tuple[int, float]) -> Catalog:
    """Switches by name: radix and price in units."""
    source = Source("test", "2024", "own", "test:1")
    models = {
        name: SwitchModel(name=name, radix=radix, speed=LinkSpeed(4, "HDR"), power_typical_w=1.0, power_max_w=1.0)
        for name, (radix, _) in switches.items()
    }
    prices = {
        name: {"units": Price("units", (PricePoint(price, price, "", source),))}
        for name, (_, price) in switches.items()
    }
    return replace(CATALOG, switches=MappingProxyType(models), prices=MappingProxyType(prices))


@pytest.mark.slow
def test_fire_flyer_2_is_found_from_its_needs() -> None:
    asked = read_needs("fire-flyer-2")
    found = optimise(asked, CATALOG)
    winner = found.winner
    assert winner is not None
    assert (winner.switches, winner.price) == (122, 366.0)
    (fabric,) = Cluster(winner.spec, CATALOG).fabrics
    ours = zoned("spread")
    assert (fabric.n_nodes, len(fabric.links)) == (ours.n_nodes, len(ours.links))
    assert (fabric.role == ours.role).all()
    # What the tree of three levels would have cost, and why it lost.
    (three,) = [design for design in found.designs if design.name == "three levels of QM8700"]
    assert (three.switches, three.price) == (198, 594.0)
    assert found.why_not(three) == "228 units more expensive (62%)"
    assert found.front == (winner, three)  # it has all the bisection
    assert found.bound is not None
    assert found.bound <= 366


@pytest.mark.slow
def test_one_joint_would_do_if_it_could_not_fail() -> None:
    asked = read_needs("fire-flyer-2")
    winner = optimise(asked.model_copy(update={"survives_a_switch": False}), CATALOG).winner
    assert winner is not None
    assert winner.switches == 121


def every_tree(radix: int) -> Iterator[FatTree]:
    for leaves, spines, links in product(range(1, radix + 1), range(1, radix), range(1, radix)):
        if spines * links < radix and leaves * links <= radix:
            yield FatTree(switch="S", leaves=leaves, spines=spines, parallel=links)


def cheapest_tree(asked: Needs, catalog: Catalog, radix: int) -> Design | None:
    """Return the cheapest of all trees of two levels that does, by trying every one."""
    best: Design | None = None
    for tree in every_tree(radix):
        assert tree.leaves is not None
        assert tree.spines is not None
        if best is not None and best.price is not None and 3 * (tree.leaves + tree.spines) >= best.price:
            continue
        try:
            design = judge("", tree, asked, catalog)
        except DesignError:
            continue
        if design.meets_needs:
            best = design
    return best


@pytest.mark.parametrize("radix", slow_but([4, 6, 8], 4))
@pytest.mark.parametrize("share", slow_but([1.0, 0.5], 1.0))
@pytest.mark.parametrize("survives", [True, False])
def test_no_tree_beats_the_winner(radix: int, share: float, survives: bool) -> None:
    catalog = small_catalog(S=(radix, 3.0))
    for hosts in range(radix - 1, radix * radix // 2 + 1, radix - 1):
        for job in {hosts, hosts // 2}:
            asked = needs(
                nodes={"gpu": {"model": "pcie-a100", "count": hosts}},
                job={"nodes": job, "bisection": share},
                survives_a_switch=survives,
                switches=["S"],
            )
            found, best = optimise(asked, catalog), cheapest_tree(asked, catalog, radix)
            if best is not None:
                assert found.winner is not None
                assert best.price is not None
                assert found.winner.price is not None
                assert found.winner.price <= best.price
            if found.winner is not None and found.winner.price is not None:
                assert found.bound is not None
                assert found.bound <= found.winner.price


@pytest.mark.slow
def test_every_loser_says_why() -> None:
    found = optimise(needs(nodes={"gpu": {"model": "pcie-a100", "count": 100}}, job={"nodes": 100}), CATALOG)
    assert found.winner is not None
    assert found.why_not(found.winner) == ""
    assert all(found.why_not(design) for design in found.designs if design is not found.winner)
    assert all(found.refused.values())


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"budget": {"switches": 2}}, "planned, 2 allowed"),
        pytest.param({"budget": {"power": "90 kW"}}, "kW planned at maximum power", marks=pytest.mark.slow),
        pytest.param({"network_price": 5}, "units, 5 allowed", marks=pytest.mark.slow),
        pytest.param({"storage": "1 TB/s"}, "storage reaches 0.00 TB/s, 1.00 TB/s is needed", marks=pytest.mark.slow),
    ],
)
def test_what_cannot_be_had_has_no_winner(keys: dict[str, object], reason: str) -> None:
    found = optimise(needs(nodes={"gpu": {"model": "pcie-a100", "count": 41}}, **keys), CATALOG)
    assert found.winner is None
    assert found.front == ()
    assert all(reason in found.why_not(design) for design in found.designs)


def test_a_switch_without_a_price_cannot_win_but_is_shown() -> None:
    found = optimise(needs(switches=["CS8500"]), CATALOG)
    assert found.bound is None
    assert found.winner is None
    assert any("no price in units" in found.why_not(design) for design in found.designs)


@pytest.mark.slow
def test_the_cheaper_of_two_switches_wins() -> None:
    catalog = small_catalog(A=(8, 3.0), B=(8, 2.0))
    asked = needs(nodes={"gpu": {"model": "pcie-a100", "count": 16}}, job={"nodes": 16}, switches=["A", "B"])
    winner = optimise(asked, catalog).winner
    assert winner is not None
    assert winner.price == 2.0 * winner.switches


@pytest.mark.slow
def test_growth_buys_ports_today_and_servers_later() -> None:
    asked = needs(nodes={"gpu": {"model": "pcie-a100", "count": 100}}, job={"nodes": 100}, growth=0.5)
    winner = optimise(asked, CATALOG).winner
    assert winner is not None
    assert winner.spec.nodes["gpu"].count == 100
    (fabric,) = Cluster(winner.spec, CATALOG).fabrics
    assert fabric.n_switches == winner.switches
    more = {"gpu": winner.spec.nodes["gpu"].model_copy(update={"count": 150})}
    (grown,) = Cluster(winner.spec.model_copy(update={"nodes": more}), CATALOG).fabrics
    assert grown.n_switches == winner.switches


@pytest.mark.slow
def test_the_winner_is_a_spec_that_reads_back() -> None:
    winner = optimise(needs(), CATALOG).winner
    assert winner is not None
    text = format_spec(winner.spec, "found")
    assert text.startswith("# found\nname: t\n")
    read = validate_spec(parse_yaml(text, "winner.yaml"), CATALOG)
    assert (read.nodes, read.network) == (winner.spec.nodes, winner.spec.network)


def test_the_bound_by_hand() -> None:
    # 40 adapters; a job of all: 2 x (40 - 8) more ports; 104 ports of 8 are 13 switches.
    catalog = small_catalog(S=(8, 3.0))
    assert least_price(needs(switches=["S"]), catalog) == 39.0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("switches: [QM870]", "QM8700"),
        ("switches: []", "at least 1"),
        ("switches: [QM8700]\nbisection: 2", "at most 1"),
        ("switches: [QM8700]\nstorage: 9", "with its unit"),
        ("switches: [QM8700]\ncurrency: dollars", "a currency like USD"),
        ("switches: [QM8700]\njbo: 3", "job"),
    ],
)
def test_bad_needs_are_refused_at_their_place(text: str, said: str) -> None:
    head = "name: t\nnodes: {gpu: {model: pcie-a100, count: 4}}\njob: {nodes: 4}\n"
    with pytest.raises(SpecError, match=said) as caught:
        validate_needs(parse_yaml(head + text, "needs.yaml"), CATALOG)
    assert all(finding.where.startswith("needs.yaml:") for finding in caught.value.findings)
