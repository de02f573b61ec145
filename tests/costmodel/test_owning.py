import pytest
from hypothesis import given
from hypothesis import strategies as st

import costmodel
import topo
from costmodel.baselines import Published
from costmodel.bills import Bill, make_bill
from costmodel.owning import CostOfOwning, expected_failures
from costmodel.parts import SPARE, Line
from helpers.clusters import tree, zoned
from topo.catalog.load import Catalog
from topo.cluster_spec import Owning, Spares
from topo.counts import count
from topo.errors import DesignError


def test_energy_by_hand(catalog: Catalog, published: Published) -> None:
    bill = Bill((Line("node", "dgx-a100", 10, "compute"),), catalog)
    stated = Owning(years=5, pue=1.5, price_per_kwh=0.1, currency="USD")
    failures = expected_failures(count([tree(20)], catalog), published)
    owned = CostOfOwning(stated, bill.price("USD"), bill.power, failures)
    assert owned.energy_kwh_per_year.middle == pytest.approx(42 * 1.5 * 8_766)
    assert owned.energy_per_year.middle == pytest.approx(42 * 1.5 * 8_766 * 0.1)
    energy = 5 * owned.energy_per_year.middle
    assert owned.total.bounds == pytest.approx([10 * 199_000 + energy, 10 * 200_000 + energy])
    assert owned.to_dict()["gaps"] == []


def test_failures_are_the_published_ones_at_the_published_size(catalog: Catalog, published: Published) -> None:
    failures = expected_failures(count([zoned()], catalog), published)
    assert failures.gpu == pytest.approx(149 * 2 * 9_600 / 10_000)
    assert failures.main_memory == pytest.approx(54 * 2 * 9_600 / 10_000)
    assert failures.link_cut == pytest.approx(213 * 365.25 / 348)  # some 0.07 for each link
    assert failures.link_cut / 3_200 == pytest.approx(0.07, abs=0.001)


@given(percent=st.integers(0, 100), cables=st.integers(1, 500), switches=st.integers(1, 500))
def test_spares_are_rounded_up_item_by_item_and_draw_nothing(
    catalog: Catalog, percent: int, cables: int, switches: int
) -> None:
    bill = Bill(
        (
            Line("switch", "QM8700", switches, "leaf"),
            Line("switch", "QM8700", 1, "spine"),
            Line("cable", "MFS1S00-H005V", cables, "leaf - spine"),
            Line("node", "dgx-a100", 3, "compute"),
        ),
        catalog,
    )
    spared = bill.with_spares(Spares(switches=percent / 100, cables=percent / 100))
    extra = {line.item: line.count for line in spared.lines if line.place == SPARE}
    wanted = {"QM8700": -(-percent * (switches + 1) // 100), "MFS1S00-H005V": -(-percent * cables // 100)}
    assert extra == (wanted if percent else {})
    assert spared.power.total_w == bill.power.total_w
    assert spared.lines[: len(bill.lines)] == bill.lines


def test_without_spares_nothing_changes(catalog: Catalog) -> None:
    bill = make_bill([tree(20)], catalog)
    assert bill.with_spares(Spares()) == bill


def test_what_is_given_takes_the_place_of_what_the_spec_states() -> None:
    spec = {"name": "pod", "nodes": {"gpu": {"model": "dgx-a100", "count": 4}},
            "network": {"shape": "fat-tree", "switch": "QM8700"}}  # fmt: skip
    terms = [{"years": years, "pue": 1.3, "price_per_kwh": 0.1, "currency": "USD"} for years in (2, 5)]
    short, long = (topo.parse({**spec, "owning": one}) for one in terms)
    assert costmodel.own(short).to_dict() != costmodel.own(long).to_dict()
    for cluster in (short, topo.parse(spec)):
        assert costmodel.own(cluster, long.spec.owning).to_dict() == costmodel.own(long).to_dict()
    with pytest.raises(DesignError, match="has no `owning`"):
        costmodel.own(topo.parse(spec))
