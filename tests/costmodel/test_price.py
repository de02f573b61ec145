import csv
import re
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import costmodel
import topo
from costmodel.bills import Bill, make_bill
from costmodel.parts import KINDS, NETWORK, SERVERS, Line, PartKind
from costmodel.price import UNITS
from helpers.clusters import tree, zoned
from helpers.strategies import examples, slow_but
from plan.export.bom import format_bom_csv
from topo.amounts import Range
from topo.catalog.load import Catalog
from topo.catalog.models import CONFIDENCE, Price, PricePoint, Source
from topo.cluster_spec import Terms
from topo.errors import HeddleError


def test_fire_flyer_2_in_the_units_of_the_paper(catalog: Catalog) -> None:
    cost = make_bill([zoned()], catalog).price(UNITS)
    assert cost.network.bounds == [366.0, 366.0]  # 122 switches x 3, their links included
    assert cost.servers.known == Range(10_800.0, 10_800.0)  # 1,200 nodes x 9
    assert cost.gaps == ("180 x storage-3fs (node): no price in units",)
    assert cost.to_dict() == {
        "unit": "units",
        "network": 366.0,
        "servers": 10_800.0,
        "racks": 0.0,
        "total": 11_166.0,
        "ranges": {
            "network": [366.0, 366.0],
            "servers": [10_800.0, 10_800.0],
            "racks": [0.0, 0.0],
            "total": [11_166.0, 11_166.0],
        },
        "at_least": ["servers", "total"],
        # 122 switches, whose links come with them; 1,200 nodes and 180 storage servers, as do their adapters.
        "priced": {"network": [122, 122], "servers": [1_200, 1_380], "racks": [0, 0], "total": [1_322, 1_502]},
        "gaps": list(cost.gaps),
    }


def test_a_cable_without_a_price_of_its_own_costs_what_its_speed_does(catalog: Catalog) -> None:
    """A price of ``4xHDR`` is that of each copper and optical cable of 200 Gb/s that has none; the sums add up."""
    point = PricePoint(250.0, 250.0, "", Source("a quote", "2026-11-27", "own", ""))
    floor = {"rack_units": 42, "racks_per_row": 20}
    cluster = topo.parse(topo.preset("lab-20").spec.model_dump(mode="json", exclude_unset=True) | {"floor": floor})
    known = {item: {"USD": Price("USD", (point,))} for item in ("4xHDR", "QM8700", "rack-42", "pdu")}
    bill = make_bill(
        cluster.fabrics, replace(catalog, prices=MappingProxyType(known)), cluster.layout, cluster.cablings
    )
    cost = bill.price("USD")
    cables = [row for row in cost.lines if row.line.kind == "cable"]
    assert len({row.line.item for row in cables}) > 1
    assert all(row.unit_price == Range(250, 250) for row in cables)
    parts = [cost.to_dict()[name] for name in ("network", "servers", "racks")]
    assert parts[0] and parts[1] is None and parts[2] and cost.to_dict()["total"] is None, "no server has a price"
    whole = cost.network + cost.servers + cost.of("rack")
    assert (whole.known, {*whole.missing}) == (cost.total.known, {*cost.total.missing})


@pytest.mark.slow
def test_money_is_a_range_and_what_has_no_price_is_a_gap(catalog: Catalog) -> None:
    cost = make_bill([zoned()], catalog).price("USD")
    assert cost.network.known == Range(122 * 14_000, 122 * 18_700)
    assert str(cost.network).startswith("at least ")  # cables of unknown length have no price
    assert any("pcie-a100" in gap for gap in cost.gaps)
    # The adapters of a storage server are bought apart; those of a GPU server are in its price, which is a gap.
    assert cost.of("adapter").bounds == [360 * 900, 360 * 900]
    assert not any(priced.is_gap for priced in cost.lines if priced.line.kind == "adapter")


def test_each_price_names_its_source(catalog: Catalog) -> None:
    for unit in (UNITS, "USD", "EUR"):
        lines = make_bill([tree(20)], catalog).price(unit).lines
        priced = [line for line in lines if line.unit_price is not None]
        assert priced
        assert all("[" in line.source for line in priced)


def test_a_currency_that_nobody_quotes_is_all_gaps(catalog: Catalog) -> None:
    cost = make_bill([tree(20)], catalog).price("CHF")
    assert cost.total.known is None
    assert str(cost.total) == "unknown"
    assert cost.to_dict()["total"] is None
    assert len(cost.gaps) == len({line.line.item for line in cost.lines if not line.included})


@given(st.lists(st.tuples(st.sampled_from(["QM8700", "QM9700", "nobody"]), st.integers(1, 999)), max_size=5))
def test_the_total_is_the_sum_of_its_lines(catalog: Catalog, switches: list[tuple[str, int]]) -> None:
    cost = Bill(tuple(Line("switch", item, n, "leaf") for item, n in switches), catalog).price("USD")
    low = sum(n * {"QM8700": 14_000, "QM9700": 32_800, "nobody": 0}[item] for item, n in switches)
    high = sum(n * {"QM8700": 18_700, "QM9700": 50_000, "nobody": 0}[item] for item, n in switches)
    unpriced, pieces = sum(n for item, n in switches if item == "nobody"), sum(n for _, n in switches)
    scant = bool(switches) and 2 * unpriced >= pieces
    assert cost.total.bounds == (None if scant else [low, high])
    assert cost.total.known == (None if switches and unpriced == pieces else Range(low, high))
    assert cost.gaps == ((f"{unpriced:,} x nobody (switch): no price in USD",) if unpriced else ())


def test_ones_own_price_takes_the_place_of_all_others(catalog: Catalog) -> None:
    quote = catalog.price("MCX653105A-HDAT", "USD")
    assert quote is not None
    cheap = replace(quote, points=(replace(quote.points[0], low=1.0, high=1.0),))
    ours = replace(catalog, prices=MappingProxyType({**catalog.prices, "QM8700": {"USD": cheap}}))
    assert make_bill([zoned()], ours).price("USD").network.bounds == [122, 122]


@pytest.mark.parametrize("kind", ["cable", "fibre", "optic", "adapter", "switch", "node"])
def test_what_comes_with_a_switch_or_a_node_has_no_price_of_its_own_in_units(kind: PartKind, catalog: Catalog) -> None:
    servers = Line("node", "pcie-a100", 3, "compute")
    priced = Bill((Line(kind, "QM8700", 3, "pcie-a100"), servers), catalog).price(UNITS).lines[0]
    comes_with = {"cable": "switch", "fibre": "switch", "optic": "switch", "adapter": "node"}.get(kind, "")
    assert priced.included == comes_with
    assert (priced.unit_price is None) == bool(comes_with)
    assert not priced.is_gap


def test_a_port_for_management_comes_with_its_device_and_is_no_part_with_a_price(catalog: Catalog) -> None:
    cost = Bill((Line("adapter", "BMC-1GE", 14, "leaf"), Line("switch", "QM8700", 2, "leaf")), catalog).price("USD")
    assert [row.included for row in cost.lines] == ["device", ""]
    assert (cost.priced("adapter"), cost.priced(), cost.gaps) == ((0, 0), (2, 2), ())
    assert cost.total.bounds == cost.network.bounds


@pytest.mark.parametrize("terms", [Terms(discount=0.1), Terms(discount=0.37, support=0.035, support_years=3, tax=0.21)])
def test_what_one_part_costs_times_their_number_is_what_all_cost_as_it_is_shown(terms: Terms, catalog: Catalog) -> None:
    catalog = terms.apply(catalog)
    names = [*catalog.switches, *catalog.cables]
    lines = (Line("switch", name, 7 + 6 * at, "leaf") for at, name in enumerate(names) if catalog.price(name, "USD"))
    cost = Bill(tuple(lines), catalog).price("USD")
    cents = 0
    for row, line in zip(cost.table.rows(), cost.lines, strict=True):
        each, whole = row[4].replace(",", "").split(" to "), row[5]
        assert whole == " to ".join(f"{line.line.count * float(price):,.0f}" for price in each)
        cents += any("." in price for price in each)
    assert cents > 10
    figures = [cell for cells in list(csv.reader(format_bom_csv(cost).splitlines()))[1:] for cell in cells[5:9]]
    assert all(re.fullmatch(r"\d+\.\d\d?", cell) for cell in figures)


@pytest.mark.parametrize(("amount", "shown"), [(Range(3, 3), "3"), (Range(1234, 5678.4), "1,234 to 5,678")])
def test_ranges_read_well(amount: Range, shown: str) -> None:
    assert str(amount) == shown


def test_a_currency_is_a_code_and_a_sum_with_gaps_says_so() -> None:
    bill = costmodel.bill(topo.preset("lab-20"))
    with pytest.raises(HeddleError, match="found the currency 'usd'"):
        bill.price("usd")
    cost = bill.price("USD")
    assert cost.gaps
    assert cost.table.title.startswith(f"cost: {cost.sums} USD")
    assert "total unknown" in cost.sums


@examples(20)
@given(adapters=st.integers(1, 4), held=st.none() | st.integers(0, 5), count=st.integers(1, 20))
def test_adapters_that_a_server_has_beyond_those_in_its_price_are_bought(
    catalog: Catalog, adapters: int, held: int | None, count: int
) -> None:
    """Where the price does not say what it holds, the bill is between all and none, and says what to ask for."""
    server = replace(catalog.node("pcie-a100"), adapters=adapters, adapters_included=held)
    point = PricePoint(50_000.0, 60_000.0, "", Source("a quote", "2026-11-27", "own", ""))
    prices = {**catalog.prices, "pcie-a100": {"USD": Price("USD", (point,))}}
    nodes = {**catalog.nodes, "pcie-a100": server}
    ours = replace(catalog, nodes=MappingProxyType(nodes), prices=MappingProxyType(prices))
    network = {"shape": "fat-tree", "switch": "QM8700", "leaves": 4}
    spec = topo.parse({"name": "x", "nodes": {"n": {"model": "pcie-a100", "count": count}}, "network": network}).spec
    cost = costmodel.bill(topo.Cluster(spec, ours)).price("USD")
    least = (0 if held is None else max(adapters - held, 0)) * 900 * count
    most = max(adapters - (held or 0), 0) * 900 * count
    assert cost.servers.known == Range(50_000 * count + least, 60_000 * count + most)
    rows = [row for row in cost.lines if row.line.kind == "adapter"]
    assert sum(row.line.count for row in rows) == adapters * count
    (server_row,) = (row for row in cost.lines if row.line.kind == "node")
    assert server_row.note.startswith("adapters in it or not" if held is None else f"with {held} adapter")
    assert cost.doubtful == (("pcie-a100",) if held is None else ())
    assert ("`adapters_included` of pcie-a100 in nodes.csv" in cost.asked) == (held is None)
    if not cost.gaps:  # the servers differ by 10,000 each, adapters by at most 900
        assert cost.asked.startswith(f"one price of pcie-a100, of which all cost {server_row.amount}")


def pod(model: str, count: int, switch: str = "QM9700") -> topo.Cluster:
    return topo.parse(
        {
            "name": "pod",
            "nodes": {"gpu": {"model": model, "count": count}},
            "network": {"shape": "rail", "unit_nodes": 32, "tree": {"switch": switch}},
            "floor": {"rack_units": 48, "switches": "middle", "stand_ins": "together"},
        }
    )


@pytest.mark.parametrize("model", slow_but(["fire-flyer-2", "dgx-h100", "dgx-b200"], "dgx-h100"))
def test_half_of_the_prices_that_a_cluster_needs_are_known_and_each_missing_one_is_named_once(model: str) -> None:
    cost = costmodel.bill(topo.preset(model) if model == "fire-flyer-2" else pod(model, 128)).price("USD")
    needed = {row.line.item for row in cost.lines if not row.included}
    missing = {row.line.item for row in cost.lines if row.is_gap}
    assert 2 * len(missing) <= len(needed)
    assert len(cost.gaps) == len(missing)
    assert all(sum(f" x {item} (" in gap for gap in cost.gaps) == 1 for item in missing)


def test_a_public_price_sheet_line_by_line() -> None:
    """1,024 H100 on NDR, August 2024, as docs/validation/prices.md sets it beside ours."""
    bill = costmodel.bill(pod("hgx-h100", 128))
    cost = bill.price("USD")
    assert (bill.count("node"), bill.count("switch")) == (128, 48)
    assert cost.of("node").known == Range(39_680_000, 40_576_000)
    assert cost.of("switch").known == Range(1_574_400, 2_400_000)
    links = cost.of("cable", "fibre", "optic")
    assert links.known == Range(1_449_510, 1_560_509)
    assert [cost.of(kind).bounds for kind in ("cable", "fibre", "optic")] == [
        [93_222, 131_077], [118_784, 191_928], [1_237_504, 1_237_504]
    ]  # fmt: skip
    assert links.missing == ("10 x MCA4J80-N003 (cable)",)


@examples(20)
@given(
    prices=st.dictionaries(st.sampled_from(["QM9700", "dgx-h100", "4xNDR", "ConnectX-7-400G"]), st.integers(1, 9_999)),
    units=st.integers(1, 3),
)
def test_a_sum_is_told_where_most_switches_and_servers_have_a_price(prices: dict[str, int], units: int) -> None:
    """Counted line by line of the bill; a sum of cables alone is no price of a network."""
    cluster = pod("dgx-h100", 16 * units)
    known = {
        item: {
            "USD": Price(
                "USD", (PricePoint(float(price), float(price), "", Source("a quote", "2026-11-27", "own", "")),)
            )
        }
        for item, price in prices.items()
    }
    bill = make_bill(cluster.fabrics, replace(cluster.catalog, prices=MappingProxyType(known)))
    cost = bill.price("USD")
    for name, kinds in (("network", NETWORK), ("servers", SERVERS), ("total", KINDS)):
        mine = [row for row in cost.lines if row.line.kind in kinds and not row.included]
        has = [row for row in mine if row.unit_price is not None]
        counts = [sum(row.line.count for row in rows) for rows in (has, mine)]
        assert cost.to_dict()["priced"][name] == counts
        words = "servers and adapters" if name == "servers" else name
        assert (f"{counts[0]:,} of {counts[1]:,} ({words})" in cost.coverage) == (counts[0] < counts[1])
        main = {row.line.item for row in mine if row.line.kind in ("switch", "node")}
        amount = sum(prices[row.line.item] * row.line.count for row in mine if row.unit_price is not None)
        least = "at least " * (counts[0] < counts[1])
        assert str(cost.of(*kinds)) == (f"{least}{amount:,}" if main <= set(prices) else "unknown")


@examples(20)
@given(
    priced=st.sets(st.sampled_from(["Q3400", "MFP7E30", "MFP7E30-N007", "8xXDR", "MMS4A00-XM", "dgx-b300", "pdu"])),
    floor=st.booleans(),
)
def test_the_skeleton_filled_in_prices_everything(priced: set[str], floor: bool, tmp_path_factory: Any) -> None:
    """Its rows name each missing price once, a fibre of any length by its series, and nothing that has a price."""
    folder = tmp_path_factory.mktemp("own")
    document = {
        "name": "pod",
        "nodes": {"gpu": {"model": "dgx-b300", "count": 4}},
        "network": {"shape": "rail", "unit_nodes": 4, "tree": {"switch": "Q3400", "spines": 2, "parallel": 2}},
        **({"floor": {"rack_units": 48}} if floor else {}),
    }
    header = "model,currency,low,high,note,source,date,confidence\n"
    known = "".join(f"{name},CHF,10,10,,a quote,2026-11-27,own\n" for name in sorted(priced))
    (folder / "prices.csv").write_text(header + known)
    cost = costmodel.bill(topo.Cluster(topo.parse(document).spec, topo.load_catalog([folder]))).price("CHF")
    skeleton = costmodel.price_gaps(cost)
    names = [row[0] for row in skeleton.rows()]
    assert len(names) == len(set(names)) and not set(names) & priced
    assert bool(names) == bool(cost.gaps)
    filled = "".join(f"{name},CHF,20,20,,a quote,2026-11-27,own\n" for name in names)
    (folder / "prices.csv").write_text(header + known + filled)
    whole = costmodel.bill(topo.Cluster(topo.parse(document).spec, topo.load_catalog([folder]))).price("CHF")
    assert whole.gaps == () and not whole.total.missing
    for row in whole.lines:
        if not row.included and row.line.kind == "fibre":
            own = row.line.item in priced or "MFP7E30" in priced
            assert row.unit_price == (Range(10, 10) if own else Range(20, 20))


@examples(30)
@given(
    rows=st.dictionaries(st.sampled_from(["4xHDR", "MCP1650", "MFS1S00-H010V", "MCP1650-H001E30"]),
                         st.tuples(st.integers(1, 9_999), st.sampled_from(["own", "Q-2nd"]))),
    switch=st.sampled_from(["QM8700", "QM9700"]),
)  # fmt: skip
def test_the_owners_price_of_a_speed_goes_before_what_others_say_of_a_cable(
    rows: dict[str, tuple[int, str]], switch: str, tmp_path_factory: Any
) -> None:
    """Line by line; where the row prices nothing, though cables of its speed are there, the bill says so."""
    table = tmp_path_factory.mktemp("own") / "prices.csv"
    lines = "".join(f"{name},USD,{price},{price},,q,2026-11-27,{mark}\n" for name, (price, mark) in rows.items())
    table.write_text("model,currency,low,high,note,source,date,confidence\n" + lines)
    cluster = topo.parse(
        {
            "name": "x",
            "nodes": {"gpu": {"model": "pcie-a100", "count": 60}},
            "network": {"shape": "fat-tree", "switch": switch, "leaves": 3, "spines": 2},
            "floor": {},
            **({"catalog": str(table)} if rows else {}),
        },
    )
    shipped, cost, by_speed = topo.load_catalog(), costmodel.bill(cluster).price("USD"), 0
    cables = [
        row
        for row in cost.lines
        if row.line.kind == "cable" and str(cluster.catalog.cable(row.line.item).speed) == "4xHDR"
    ]
    for row in cables:
        item, series = row.line.item, row.line.item.split("-")[0]
        price, mark = rows.get(item) or rows.get(series) or (shipped.price(item, "USD"), "")
        speed = rows.get("4xHDR")
        if speed and not (mark == "own" or (speed[1] != "own" and price)):
            price, by_speed = speed[0], by_speed + 1
        expected = price if price is None or not isinstance(price, int) else Range(price, price)
        assert row.unit_price == (expected and Range(expected.low, expected.high)), item
    speeds = {str(model.speed) for row in cost.lines if (model := cluster.catalog.cables.get(row.line.item))}
    told = any("HDR" in speed for speed in speeds) and "4xHDR" in rows and not by_speed
    assert ("the price of 4xHDR counts nowhere" in cost.coverage) == told


@pytest.mark.parametrize(("speed", "told"), [("8xNDR", True), ("4xNDR", False), ("4xHDR", False)])
def test_a_price_of_a_speed_that_no_cable_has_is_named(speed: str, told: bool, tmp_path: Path) -> None:
    """Cables of 4xNDR are here: a price of HDR is for other clusters, one of twice the lanes is a slip."""
    (tmp_path / "prices.csv").write_text(
        f"model,currency,low,high,source,date,confidence\n{speed},USD,9,9,q,2026,own\n"
    )
    network = {"shape": "fat-tree", "switch": "QM9700"}
    spec = {"name": "x", "nodes": {"gpu": {"model": "dgx-h100", "count": 8}}, "network": network}
    coverage = costmodel.bill(topo.parse(spec | {"catalog": str(tmp_path / "prices.csv")})).price("USD").coverage
    assert (f"the price of {speed} counts nowhere: the cables here are of 4xNDR" in coverage) == told
    assert ("counts nowhere" in coverage) == told


def test_pieces_with_a_price_are_named_by_what_is_counted() -> None:
    """Two storage servers with two adapters each, without a price: six pieces, of which two are servers."""
    nodes = {"gpu": {"model": "dgx-h100", "count": 8}, "st": {"model": "storage-ndr", "count": 2}}
    cost = costmodel.bill(
        topo.parse({"name": "x", "nodes": nodes, "network": {"shape": "fat-tree", "switch": "QM9700"}})
    )
    assert "8 of 14 (servers and adapters)" in cost.price("USD").coverage


def test_the_table_says_how_sure_each_price_is(catalog: Catalog) -> None:
    cost = Bill((Line("switch", "QM8700", 3, "leaf"), Line("node", "pcie-a100", 1, "compute")), catalog).price("USD")
    assert [row.trust for row in cost.lines] == ["I, Q-2nd", ""]
    assert all(CONFIDENCE[mark] in cost.legend for mark in ("I", "Q-2nd"))
    assert "trust" in [column.name for column in cost.table.columns]
