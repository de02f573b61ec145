import pytest

from costmodel.baselines import alternatives_of
from helpers.clusters import tree, zoned
from topo.catalog.load import Catalog
from topo.fabric import Role
from topo.shapes.base import HostGroup
from topo.shapes.fat_tree import FatTree
from topo.speeds import LinkSpeed


def test_fire_flyer_2_beside_the_others(catalog: Catalog) -> None:
    ours, three, dgx = alternatives_of([zoned()], catalog)
    assert ours.total == 366 + 10_800
    assert three.total == 594 + 10_800
    assert (dgx.switches, dgx.total) == (1_200, pytest.approx(3_600 + 1_200 * 15.2))
    assert ours.total / dgx.total == pytest.approx(0.511, abs=0.001)
    assert ours.gpu_performance == pytest.approx(0.8266, abs=1e-4)
    # What a unit buys: 0.827 of the performance for 0.511 of the price.
    assert ours.performance_per_unit is not None
    assert dgx.performance_per_unit is not None
    assert ours.performance_per_unit / dgx.performance_per_unit == pytest.approx(0.8266 / 0.5113, abs=1e-3)


def test_dgx_on_itself_is_one(catalog: Catalog) -> None:
    group = HostGroup("dgx", 100, "dgx-a100", Role.COMPUTE, 8, "MCX653105A-HDAT", LinkSpeed(4, "HDR"))
    (fabric,) = FatTree(switch="QM8700", levels=3).compile([group], catalog, "dgx")
    ours, three, dgx = alternatives_of([fabric], catalog)
    assert ours.total == three.total == dgx.total
    assert ours.gpu_performance == 1.0


def test_a_frame_without_a_price_leaves_a_gap(catalog: Catalog) -> None:
    ours, three, _ = alternatives_of([tree(700, switch="CS8500")], catalog)
    assert (ours.network, ours.total) == (None, None)
    assert three.network is not None


def test_more_ports_than_three_levels_hold_do_not_fit(catalog: Catalog) -> None:
    plane = tree(800)
    planes = [plane] * 21  # 16,800 ports on 20 x 20 x 40 = 16,000
    _, three, _ = alternatives_of(planes, catalog)
    assert (three.switches, three.network) == (None, None)
