import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.bills import Bill, make_bill
from costmodel.parts import Line
from helpers.clusters import zoned
from topo.amounts import Verdict
from topo.catalog.load import Catalog


def test_fire_flyer_2(catalog: Catalog) -> None:
    power = make_bill([zoned()], catalog).power
    # 250 W a switch without optics, and 4.5 W for each end of an optical cable in it: two of a cable between switches.
    network, servers = 122 * 250 + 4.5 * (2 * 1_640 + 1_560), 1_200 * 2_500 + 180 * 700
    assert [each.middle for each in (power.network_w, power.servers_w, power.total_w)] == [
        network,
        servers,
        network + servers,
    ]
    assert power.planned_w.middle == 122 * 490 + servers  # the maximum of a switch holds its optics
    assert power.by_typical == ("1,200 x pcie-a100 (node, compute)", "180 x storage-3fs (node, storage)")
    assert power.gaps == tuple(f"{part}: maximum power unknown" for part in power.by_typical)


@pytest.mark.parametrize(("part", "watts"), [("MCP1650-H002E26", 0.2), ("MFS1S00-H030V", 9.0)])
def test_a_known_cable_draws_what_its_ends_draw(part: str, watts: float, catalog: Catalog) -> None:
    power = Bill((Line("cable", part, 10, "leaf - spine"), Line("cable", part, 10, "compute - leaf")), catalog).power
    assert power.network_w.middle == pytest.approx(10 * watts + 10 * watts / 2)
    assert power.planned_w.middle == power.network_w.middle  # in a switch without a known maximum that would hold it
    assert all(row.source for row in power.lines)


def test_what_is_unknown_is_named(catalog: Catalog) -> None:
    power = Bill((Line("switch", "nobody", 3, "leaf"), Line("node", "unknown", 1, "compute")), catalog).power
    assert (power.total_w.known, power.planned_w.known) == (None, None)
    assert str(power.total_w) == "unknown"
    assert power.gaps == ("3 x nobody (switch, leaf): power unknown", "1 x unknown (node, compute): power unknown")
    assert power.to_dict()["total_w"] is None
    assert power.to_dict()["at_least"] == ["network_w", "servers_w", "total_w", "planned_w"]


def test_the_most_holds_the_optics_of_a_switch_once(catalog: Catalog) -> None:
    lines = (
        Line("switch", "QM8700", 2, "leaf"),
        Line("node", "dgx-a100", 3, "compute"),
        Line("cable", "4xHDR", 9, "compute - leaf"),
    )
    assert Bill(lines, catalog).power.planned_w.middle == 2 * 490 + 3 * 6_500


MODELS = ["pcie-a100", "dgx-a100", "dgx-b200", "storage-3fs", "nobody"]


@given(
    parts=st.lists(st.tuples(st.sampled_from(MODELS), st.integers(1, 200)), max_size=5),
    limit=st.floats(1.0, 1e7),
    more=st.floats(0.0, 1e7),
    unknown=st.integers(1, 9),
)
def test_a_budget_is_monotone(
    catalog: Catalog, parts: list[tuple[str, int]], limit: float, more: float, unknown: int
) -> None:
    """A larger budget holds what a smaller one holds, and a part of unknown power never makes a budget hold."""
    lines = tuple(Line("node", item, count, "compute") for item, count in parts)
    verdict = Bill(lines, catalog).power.planned_w.against(limit)
    assert RANK[Bill(lines, catalog).power.planned_w.against(limit + more)] >= RANK[verdict]
    doubtful = Bill((*lines, Line("node", "a box", unknown, "compute")), catalog).power.planned_w.against(limit)
    assert doubtful == (Verdict.EXCEEDED if verdict is Verdict.EXCEEDED else Verdict.CANNOT_TELL)


RANK = {Verdict.EXCEEDED: 0, Verdict.CANNOT_TELL: 1, Verdict.HOLDS: 2}
