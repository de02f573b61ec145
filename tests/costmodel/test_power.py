import pytest

from costmodel.bills import Bill, make_bill
from costmodel.parts import Line
from helpers.clusters import zoned
from topo.hardware.catalog import Catalog


def test_fire_flyer_2(catalog: Catalog) -> None:
    power = make_bill([zoned()], catalog).power
    # 250 W a switch without optics, and 4.5 W for each end of an optical cable in it: two of a cable between switches.
    assert power.network_w == 122 * 250 + 4.5 * (2 * 1_640 + 1_560)
    assert power.servers_w == 1_200 * 2_500 + 180 * 700
    assert power.total_w == power.network_w + power.servers_w
    assert power.max_w is None  # that of the servers is not known
    assert power.gaps == (
        "1,200 x pcie-a100 (node, compute): maximal power unknown",
        "180 x storage-3fs (node, storage): maximal power unknown",
    )


@pytest.mark.parametrize(("part", "watts"), [("MCP1650-H002E26", 0.2), ("MFS1S00-H030V", 9.0)])
def test_a_known_cable_draws_what_its_ends_draw(part: str, watts: float, catalog: Catalog) -> None:
    power = Bill((Line("cable", part, 10, "leaf - spine"), Line("cable", part, 10, "compute - leaf")), catalog).power
    assert power.network_w == pytest.approx(10 * watts + 10 * watts / 2)
    assert all(row.source for row in power.lines)


def test_what_is_unknown_is_named(catalog: Catalog) -> None:
    power = Bill((Line("switch", "SB7800", 3, "leaf"), Line("switch", "unknown", 1, "leaf")), catalog).power
    assert power.total_w == 0
    assert power.max_w is None
    assert len(power.gaps) == 4


def test_the_most_holds_the_optics_of_a_switch_once(catalog: Catalog) -> None:
    lines = (
        Line("switch", "QM8700", 2, "leaf"),
        Line("node", "dgx-a100", 3, "compute"),
        Line("cable", "4xHDR", 9, "leaf - spine"),
    )
    assert Bill(lines, catalog).power.max_w == 2 * 490 + 3 * 6_500
