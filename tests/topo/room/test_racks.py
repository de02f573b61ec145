from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from helpers.clusters import CATALOG, tree, zoned
from topo.builder import FabricBuilder
from topo.errors import DesignError
from topo.fabric import Role
from topo.hardware.speeds import LinkSpeed
from topo.room.racks import RACK_UNIT_M, FloorPlan, Layout, place_devices, route_lengths


def floor(**keys: object) -> FloorPlan:
    return FloorPlan.model_validate(keys)


def check_room(layout: Layout) -> None:
    """No two devices share a unit of a rack, and no rack holds more than it can."""
    taken = set()
    for device, rack, unit in zip(layout.devices, layout.rack.tolist(), layout.unit.tolist(), strict=True):
        units = {(rack, unit + i) for i in range(device.rack_units)}
        assert not units & taken
        taken |= units
        assert 1 <= unit <= layout.floor.rack_units + 1 - device.rack_units
    if layout.floor.rack_power is not None:
        assert layout.power_by_rack().max() <= layout.floor.rack_power
    places = list(zip(layout.row.tolist(), layout.column.tolist(), strict=True))
    assert len(set(places)) == layout.n_racks
    assert len({layout.rack_name(rack) for rack in range(layout.n_racks)}) == layout.n_racks


@given(
    n_gpus=st.integers(1, 200),
    units=st.integers(4, 52),
    power=st.sampled_from([None, "3 kW", "20 kW"]),
    per_row=st.one_of(st.none(), st.integers(1, 30)),
)
def test_any_room_holds_everything_once(n_gpus: int, units: int, power: str | None, per_row: int | None) -> None:
    fabric = tree(n_gpus)
    plan = floor(rack_units=units, rack_power=power, racks_per_row=per_row)
    layout = place_devices([fabric], CATALOG, plan)
    check_room(layout)
    assert len(layout.devices) == n_gpus + fabric.n_switches
    assert (layout.column < (per_row or 10_000)).all()
    lengths = route_lengths(fabric, 0, layout)
    assert (lengths >= 0.4).all()


def test_fire_flyer_2_in_racks_of_20_kw() -> None:
    fabric = zoned()
    layout = place_devices([fabric], CATALOG, floor(rack_power="20 kW"))
    check_room(layout)
    assert len(layout.devices) == 122 + 1_200 + 180
    least = sum(device.power_w for device in layout.devices) / 20_000
    assert least <= layout.n_racks <= 1.1 * least


def test_lengths_by_hand() -> None:
    builder = FabricBuilder("pair")
    hdr = LinkSpeed(4, "HDR")
    leaf = builder.switch("leaf0", model="QM8700", radix=40, role=Role.LEAF, level=1, zone=0)
    for i in range(3):
        server = builder.adapter(
            f"gpu{i}", "mlx5_0", model="MCX653105A-HDAT", host_model="pcie-a100", role=Role.COMPUTE, zone=0
        )
        builder.link(server, 1, leaf, i + 1, hdr)
    fabric = builder.build()
    # gpu0 U1-4, gpu1 U5-8 and the leaf U9 fill the first rack of nine units; gpu2 stands alone in the second.
    layout = place_devices([fabric], CATALOG, floor(rack_units=9, racks_per_row=1))
    names = [device.name for device in layout.devices]
    order = sorted(range(4), key=lambda d: (layout.rack[d], layout.unit[d]))
    assert [names[d] for d in order] == ["gpu0", "gpu1", "leaf0", "gpu2"]
    assert layout.unit[order].tolist() == [1, 5, 9, 1]
    near0, near1, far = route_lengths(fabric, 0, layout)
    assert near0 == pytest.approx(0.4 + 8 * RACK_UNIT_M)
    assert near1 == pytest.approx(0.4 + 4 * RACK_UNIT_M)
    # Up 0 + 8 units and twice 0.5 m to the tray, one row of 2.4 m across, slack of 0.5 m at both ends.
    assert far == pytest.approx(0.4 + 8 * RACK_UNIT_M + 1.0 + 2.4 + 1.0)


@pytest.mark.parametrize("power", [None, "20 kW"])
def test_no_exchange_of_switches_makes_the_cables_much_shorter(power: str | None) -> None:
    """The exact answer of an assignment problem, switches of a role to their places, is the judge."""
    fabric = zoned()
    layout = place_devices([fabric], CATALOG, floor(rack_power=power))
    before = float(route_lengths(fabric, 0, layout).sum())
    device = layout.node_device[0]
    ends = device[fabric.port_node[fabric.links]]
    for role in (Role.LEAF, Role.SPINE, Role.JOINT):
        switches = device[np.flatnonzero(fabric.role == role)]
        cost = np.empty((len(switches), len(switches)))
        for place, other in enumerate(switches):
            # All switches of the role moved to this place at once: they are not linked with one another.
            rack, unit = layout.rack.copy(), layout.unit.copy()
            rack[switches], unit[switches] = layout.rack[other], layout.unit[other]
            lengths = route_lengths(fabric, 0, replace(layout, rack=rack, unit=unit))
            by_device = np.zeros(len(layout.devices))
            for end in (0, 1):
                np.add.at(by_device, ends[:, end], lengths)
            cost[:, place] = by_device[switches]
        here, there = linear_sum_assignment(cost)
        gain = float(np.trace(cost) - cost[here, there].sum())
        assert gain <= 0.001 * before


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"rack_units": 3}, r"gpu\d+ \(pcie-a100\) is 4 rack units high, and a rack has 3"),
        ({"rack_power": "2 kW"}, r"gpu\d+ \(pcie-a100\) draws 2,500 W, and a rack may draw 2,000 W"),
        ({"rows": 1, "racks_per_row": 1}, r"2 racks are needed, and the room has 1 rows x 1 = 1: short of 1"),
    ],
)
def test_a_room_too_small_is_refused_with_the_name_or_the_numbers(keys: dict[str, object], said: str) -> None:
    with pytest.raises(DesignError, match=said):
        place_devices([tree(20)], CATALOG, floor(**keys))


def test_a_frame_is_one_device_but_its_height_is_not_known() -> None:
    with pytest.raises(DesignError, match=r"CS8500-0-0 \(CS8500\) has no height"):
        place_devices([tree(20, switch="CS8500")], CATALOG, floor())


def test_servers_that_hang_in_two_zones_stand_in_both() -> None:
    layout = place_devices([zoned()], CATALOG, floor())
    racks = {device.name: rack for device, rack in zip(layout.devices, layout.rack.tolist(), strict=True)}
    of_zone = [max(rack for name, rack in racks.items() if name.startswith("z0-leaf")), 0]
    first = sum(rack <= of_zone[0] for name, rack in racks.items() if name.startswith("storage"))
    assert 80 <= first <= 100
