"""Needs as a buyer has them: the whole price, terms, stock and lead times, models excluded, offers of vendors."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import costmodel
import plan
import topo
from costmodel.bills import bill
from costmodel.optimise.design import PRICE_CHECKS
from helpers.strategies import examples
from topo.errors import SpecError

BASE = {
    "name": "pod",
    "nodes": {"gpu": {"model": "pcie-a100", "count": 60}},
    "job": {"nodes": 60, "bisection": 0.5},
    "switches": ["QM8700"],
    "families": ["fat-tree"],
    "currency": "USD",
    "quotes": {"QM8700": 15000, "QM8790": 14000, "4xHDR": 250, "pcie-a100": 90000, "MCX653105A-HDAT": 900},
}


def needs(**more: object) -> costmodel.Needs:
    return costmodel.Needs.model_validate({**BASE, **more})


def used(found: costmodel.Search) -> set[str]:
    assert found.winner is not None
    cluster = topo.compile(found.winner.spec)
    return {line.item for line in bill(cluster).of("switch").lines}


@examples(20)
@given(
    discount=st.sampled_from([0.0, 0.1, 0.5]),
    own=st.sampled_from([None, 0.0, 0.3]),
    support=st.sampled_from([0.0, 0.05]),
    years=st.integers(0, 5),
    tax=st.sampled_from([0.0, 0.19]),
)
def test_terms_change_each_price_as_the_formula_says(discount, own, support, years, tax) -> None:
    """Recounted line by line from the list prices: x (1 - discount) (1 + support years) (1 + tax)."""
    terms = {"discount": discount, "support": support, "support_years": years, "tax": tax}
    if own is not None:
        terms["discounts"] = {"SN2201": own}
    spec = {
        "name": "x",
        "nodes": {"port": {"model": "management-ndr", "count": 40}, "gpu": {"model": "dgx-h100", "count": 2}},
        "network": {"shape": "rail", "unit_nodes": 2, "tree": {"switch": "QM9700"}},
        "networks": {
            "oob": {
                "network": {"shape": "fat-tree", "switch": "SN2201"},
                "adapters": {"port": 1, "gpu": 1},
                "adapter": "BMC-1GE",
            }
        },
    }
    listed = costmodel.quote(topo.parse(spec), "USD").cost.lines
    paid = costmodel.quote(topo.parse({**spec, "terms": terms}), "USD").cost.lines
    rest = (1 + support * years) * (1 + tax)
    for before, after in zip(listed, paid, strict=True):
        if before.unit_price is not None:
            less = own if own is not None and before.line.item == "SN2201" else discount
            assert after.unit_price is not None
            assert after.unit_price.low == pytest.approx(before.unit_price.low * (1 - less) * rest)
            assert after.unit_price.high == pytest.approx(before.unit_price.high * (1 - less) * rest)
    units = costmodel.quote(topo.parse({**spec, "terms": terms}), "units").cost
    assert str(units.total) == str(costmodel.quote(topo.parse(spec), "units").cost.total), "units are no prices"


def test_the_certificate_is_the_bill_at_the_terms(tmp_path: Path) -> None:
    found = plan.optimise(
        needs(terms={"discount": 0.2, "tax": 0.19}, quoted="2026-11-20"), tmp_path / "pod.yaml"
    ).search
    assert found.winner is not None
    cost = costmodel.quote(topo.read(tmp_path / "pod.yaml"), "USD").cost
    assert cost.network.middle == pytest.approx(found.winner.price)


@pytest.mark.slow
def test_a_price_for_everything_counts_servers() -> None:
    """60 servers cost 5.4 million: what is left decides on the network; nobody gets one for less than its price."""
    open_ended = costmodel.optimise(needs()).winner
    assert open_ended is not None
    whole = 60 * 90_000 + open_ended.price
    enough = costmodel.optimise(needs(budget={"price": f"{whole:.0f} USD"}))
    assert enough.winner is not None
    assert enough.winner.price == open_ended.price
    short = costmodel.optimise(needs(budget={"price": f"{whole - 1:.0f} USD"}))
    assert short.winner is None
    assert any(design.refused_by(PRICE_CHECKS) for design in short.tried), "the cheapest that misses the price is shown"


@pytest.mark.parametrize(("limit", "verdict"), [("5600000 USD", "holds"), ("5400000 USD", "exceeded")])
def test_a_spec_has_a_budget_of_money(limit: str, verdict: str, tmp_path: Path) -> None:
    (tmp_path / "prices.csv").write_text(
        "model,currency,low,high,note,source,date,confidence\n"
        + "".join(f"{name},USD,{price},{price},,quote,2026-11-20,own\n" for name, price in BASE["quotes"].items())
    )
    spec = {
        "name": "x",
        "catalog": "prices.csv",
        "nodes": {"gpu": {"model": "pcie-a100", "count": 60}},
        "network": {"shape": "fat-tree", "switch": "QM8700"},
        "budget": {"price": limit},
    }
    (check,) = costmodel.quote(topo.parse(spec, tmp_path)).checks
    assert (check.what, str(check.verdict)) == ("price", verdict)


def test_an_unknown_price_makes_the_budget_undecided() -> None:
    spec = {
        "name": "x",
        "nodes": {"gpu": {"model": "pcie-a100", "count": 4}},
        "network": {"shape": "fat-tree", "switch": "QM8700"},
        "budget": {"price": "900000 USD"},
    }
    (check,) = costmodel.quote(topo.parse(spec)).checks
    assert str(check.verdict) == "cannot tell"
    assert "no price: 4 x pcie-a100" in check.text


def test_a_recalled_figure_is_marked_where_it_decides() -> None:
    """The typical power of QM8700 is recalled, its maximum is not: a limit that holds, or does not, by it says so."""
    nodes = {"gpu": {"model": "dgx-a100", "count": 4}}
    network = {"shape": "fat-tree", "switch": "QM8700"}
    spec: dict[str, Any] = {
        "name": "x",
        "nodes": nodes,
        "network": network,
        "budget": {"power": "60 kW", "typical_power": "17.3 kW"},
    }
    most, usual = costmodel.quote(topo.parse(spec)).checks
    assert "power recalled, confirmed in no text: QM8700" in usual.text and "recalled" not in most.text
    spec["budget"]["typical_power"] = "18 kW"  # above what it is with the maximum of QM8700
    assert "recalled" not in costmodel.quote(topo.parse(spec)).checks[1].text


@pytest.mark.parametrize(("stock", "late"), [(0, True), (1, True), (3, True), (4, True), (50, True), (0, False)])
@pytest.mark.slow
def test_stock_and_lead_time_bind(stock: int, late: bool) -> None:
    """By hand: the cheaper twin wins where all of its pieces can be had in time, and never has more than its stock."""
    supply = {"QM8790": {"stock": stock, "weeks": 30.0 if late else 4.0}}
    found = costmodel.optimise(needs(switches=["QM8700", "QM8790"], supply=supply, weeks=12.0))
    assert found.winner is not None
    cheap = costmodel.optimise(needs(switches=["QM8790"])).winner
    dear = costmodel.optimise(needs(switches=["QM8700"])).winner
    assert cheap is not None
    assert dear is not None
    assert cheap.price <= found.winner.price <= dear.price
    lines = bill(topo.compile(found.winner.spec)).of("switch").lines
    twins = sum(line.count for line in lines if line.item == "QM8790")
    if late:
        assert twins <= stock
    else:
        assert found.winner.price == cheap.price
    if late and not stock:
        assert found.winner.price == dear.price
        assert any("left out" in text for text in found.refused)


def test_an_excluded_model_is_not_used() -> None:
    both = {"switches": ["QM8700", "QM8790"]}
    assert used(costmodel.optimise(needs(**both))) == {"QM8790"}
    assert used(costmodel.optimise(needs(**both, exclude=["QM8790"]))) == {"QM8700"}
    spec = {"name": "x", "nodes": BASE["nodes"], "floor": {"rack_units": 42}, "exclude": ["MFS1S00-H003V"]}
    cluster = topo.parse({**spec, "network": {"shape": "fat-tree", "switch": "QM8700"}})
    items = {line.item for line in bill(cluster).lines}
    assert "MFS1S00-H003V" not in items
    assert any(item.startswith("MFS1S00") for item in items), "the next longer one takes its place"


@pytest.mark.slow
def test_offers_are_compared(tmp_path: Path) -> None:
    offers = {"one": {"QM8700": 15000.0}, "two": {"QM8700": 13500.0}, "none": {"QM8790": 10.0}}
    quotes = {name: price for name, price in BASE["quotes"].items() if name != "QM8700"}
    found = plan.optimise(needs(quotes=quotes, vendors=offers, quoted="2026-11-20"), tmp_path / "pod.yaml")
    single = {name: costmodel.optimise(needs(quotes={**quotes, **offer})).winner for name, offer in offers.items()}
    assert found.search.winner is not None
    assert found.search.winner.price == single["two"].price < single["one"].price
    (table, *_) = found.more_tables
    assert next(iter(table.rows()))[0] == "two"
    assert set(found.to_dict()["vendors"]) == set(offers)
    assert "two" in str(list(table.texts()))
    cost = costmodel.quote(topo.read(tmp_path / "pod.yaml"), "USD").cost
    assert cost.network.middle == pytest.approx(single["two"].price)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"vendors": {"one": {"QM8701": 1}}}, "QM8701"),
        ({"exclude": ["QM8700"]}, "a switch of `switches` that is left"),
        ({"budget": {"price": "5000 EUR"}}, "USD, the currency of the needs"),
        ({"budget": {"price": "lots"}}, "an amount and its currency"),
        ({"supply": {"QM87": {"stock": 1}}}, "the name of a part"),
    ],
)
def test_bad_needs_are_refused(more: dict[str, object], says: str, tmp_path: Path) -> None:
    (tmp_path / "needs.yaml").write_text(json.dumps({**BASE, **more}))
    with pytest.raises(SpecError, match=says):
        costmodel.read_needs(tmp_path / "needs.yaml")


def test_servers_are_for_what_the_needs_say_whatever_their_model_is_for(tmp_path: Path) -> None:
    """A job may run on servers that the catalog has for storage, where the needs say that they compute."""
    nodes = {
        "gpu": {"model": "storage-3fs", "count": 16, "role": "compute"},
        "st": {"model": "storage-3fs", "count": 2},
    }
    networks = {"side": {"adapters": {"gpu": 1, "st": 1}}}
    asked = {"name": "pod", "nodes": nodes, "job": {"nodes": 16}, "switches": ["QM8700"], "networks": networks}
    (tmp_path / "needs.yaml").write_text(json.dumps(asked))
    needs = costmodel.read_needs(tmp_path / "needs.yaml")
    assert list(needs.first_network(topo.load_catalog())) == ["gpu"]
    found = costmodel.optimise_networks(needs, costmodel.optimise)
    assert found.spec is not None
    assert [len(fabric.ends(role="compute")) for fabric in topo.compile(found.spec).fabrics] == [32, 16]
