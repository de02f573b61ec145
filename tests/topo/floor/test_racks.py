import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy.optimize import linear_sum_assignment

import topo
from costmodel.bills import make_bill
from helpers.clusters import CATALOG, tree, zoned
from helpers.presets import EACH
from helpers.strategies import fabrics
from topo.amounts import Verdict
from topo.builder import FabricBuilder
from topo.checks import Check
from topo.errors import DesignError
from topo.fabric import Fabric, Role
from topo.floor import racks
from topo.floor.cables import choose_cables
from topo.floor.racks import RACK_UNIT_M, Device, FloorPlan, Layout, place_devices, route_lengths
from topo.speeds import LinkSpeed


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
    ordered = sorted(range(len(layout.devices)), key=lambda device: (layout.rack[device], layout.unit[device]))
    assert [device for devices in layout.inside for device in devices] == ordered
    if layout.floor.rack_power is not None:
        known = all(device.max_w is not None for device in layout.devices)
        assert all(rack.known.high <= layout.floor.rack_power for rack in layout.power_by_rack())
        assert [check.verdict for check in layout.checks] == ["holds" if known else "cannot tell"]
    if layout.floor.rack_typical_power is not None:
        assert all(rack.known.high <= layout.floor.rack_typical_power for rack in layout.typical_by_rack())
        assert [check.verdict for check in layout.checks] == ["holds"]
    places = list(zip(layout.row.tolist(), layout.column.tolist(), strict=True))
    assert len(set(places)) == layout.n_racks
    assert len({layout.rack_name(rack) for rack in range(layout.n_racks)}) == layout.n_racks


@pytest.mark.slow
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


@pytest.mark.slow
def test_fire_flyer_2_in_racks_of_20_kw() -> None:
    fabric = zoned()
    layout = place_devices([fabric], CATALOG, floor(rack_typical_power="20 kW"))
    check_room(layout)
    assert len(layout.devices) == 122 + 1_200 + 180
    least = sum(device.typical_w for device in layout.devices) / 20_000
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


@pytest.mark.slow
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


def test_a_frame_is_one_device() -> None:
    layout = place_devices([tree(20, switch="CS8500")], CATALOG, floor())
    assert sum(device.model == "CS8500" for device in layout.devices) == 1
    check_room(layout)
    unknown = replace(
        CATALOG, switches={**CATALOG.switches, "CS8500": replace(CATALOG.switch("CS8500"), rack_units=None)}
    )
    with pytest.raises(DesignError, match=r"CS8500-0-0 \(CS8500\) has no height"):
        place_devices([tree(20, switch="CS8500")], unknown, floor())


@pytest.mark.parametrize("name", EACH)
def test_every_preset_can_be_put_in_racks(name: str) -> None:
    """Heights of all that ships are known; a room of no limits takes it, and every cable reaches."""
    cluster = topo.preset(name)
    check_room(place_devices(cluster.fabrics, cluster.catalog, floor(rack_units=52, switches="middle")))


def racks_of(layout: Layout, fabric: Fabric) -> tuple[set[int], set[int]]:
    """Racks of switches, and of servers."""
    switch = set(layout.rack[layout.node_device[0][: fabric.n_switches]].tolist())
    return switch, set(layout.rack[layout.node_device[0][fabric.n_switches :]].tolist())


@given(
    n_gpus=st.integers(1, 200),
    units=st.integers(4, 52),
    per_row=st.one_of(st.none(), st.integers(1, 30)),
    where=st.sampled_from(["middle", "end"]),
)
def test_switches_in_racks_of_their_own(n_gpus: int, units: int, per_row: int | None, where: str) -> None:
    fabric = tree(n_gpus)
    layout = place_devices([fabric], CATALOG, floor(rack_units=units, racks_per_row=per_row, switches=where))
    check_room(layout)
    own, others = racks_of(layout, fabric)
    assert not own & others
    assert own | others == set(range(layout.n_racks))
    in_row = [[rack for rack in own if layout.row[rack] == row] for row in range(layout.row.max() + 1)]
    assert max(map(len, in_row)) - min(map(len, in_row)) <= 1 or len(in_row[-1]) < min(map(len, in_row[:-1]))
    for row, mine in enumerate(in_row):
        columns = np.sort(layout.column[mine])
        rest = np.sort(layout.column[[rack for rack in others if layout.row[rack] == row]])
        assert (np.diff(columns) == 1).all()  # a block
        left, right = (rest < columns.min(initial=99)).sum(), (rest > columns.max(initial=-1)).sum()
        if where == "end":
            assert right == 0 or not len(columns)
        elif len(columns):
            assert abs(left - right) <= 1


@given(st.data())
def test_fixed_positions_stay_and_the_rest_fits_around_them(data: st.DataObject) -> None:
    fabric = tree(data.draw(st.integers(1, 60)))
    free = place_devices([fabric], CATALOG, floor())
    names = [device.name for device in free.devices]
    chosen = data.draw(st.lists(st.sampled_from(names), max_size=6, unique=True))
    units = iter(data.draw(st.permutations(range(1, 37, 4))))
    column = st.integers(1, 5)
    fixed = {
        name: f"R0{data.draw(st.integers(1, 3))}-0{data.draw(column)}" + data.draw(st.sampled_from(["", f" U{unit}"]))
        for name, unit in zip(chosen, units, strict=False)
    }
    where = data.draw(st.sampled_from(["servers", "middle", "end"]))
    layout = place_devices([fabric], CATALOG, floor(fixed=fixed, racks_per_row=5, switches=where))
    check_room(layout)
    for name, position in fixed.items():
        device = names.index(name)
        rack, _, unit = position.partition(" U")
        assert layout.rack_name(int(layout.rack[device])) == rack
        assert not unit or layout.unit[device] == int(unit)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"fixed": {"leaf0": "R01-01 U40"}}, "give `racks_per_row`"),
        ({"fixed": {"leaf9": "R01-01"}, "racks_per_row": 2}, "no such device. Did you mean `leaf"),
        ({"fixed": {"leaf0": "R01-03"}, "racks_per_row": 2}, "leaf0 is fixed at R01-03, which does not exist"),
        ({"fixed": {"leaf0": "R03-01"}, "racks_per_row": 2, "rows": 2}, "2 rows of 2 racks"),
        ({"fixed": {"leaf0": "R00-01"}, "racks_per_row": 2}, "from R01-01 U1 on"),
        ({"fixed": {"leaf0": "R01-01 U0"}, "racks_per_row": 2}, "from R01-01 U1 on"),
        ({"fixed": {"gpu00": "R01-01 U40"}, "racks_per_row": 2}, "gpu00 is 4 units high, and rack R01-01 has no room"),
        (
            {"fixed": {"gpu00": "R01-01 U2", "leaf0": "R01-01 U5"}, "racks_per_row": 2},
            "leaf0 and gpu00 are fixed on the same units of rack R01-01",
        ),
        (
            {"fixed": {"gpu00": "R01-01", "gpu01": "R01-01"}, "racks_per_row": 2, "rack_power": "4 kW"},
            "the devices fixed in rack R01-01 draw more than the 4,000 W of a rack",
        ),
    ],
)
def test_positions_that_cannot_be_are_refused(keys: dict[str, object], said: str) -> None:
    with pytest.raises(DesignError, match=re.escape(said)):
        place_devices([tree(20)], CATALOG, floor(**keys))


def test_a_fixed_unit_comes_before_a_fixed_rack() -> None:
    fixed = {"gpu00": "R01-01", "leaf0": "R01-01 U2"}
    layout = place_devices([tree(20)], CATALOG, floor(fixed=fixed, racks_per_row=2))
    unit = dict(zip([device.name for device in layout.devices], layout.unit.tolist(), strict=True))
    assert (unit["leaf0"], unit["gpu00"]) == (2, 3)


@pytest.mark.parametrize("text", ["R1-1", "R01", "R01-01 U", "R01-01U4", "R01-01 U4 ", "r01-01", "R01-01\n"])
def test_positions_are_spelled_as_rack_names_are(text: str) -> None:
    with pytest.raises(ValidationError):
        floor(fixed={"leaf0": text}, racks_per_row=2)


@pytest.mark.parametrize("count", range(1, 5))
@pytest.mark.parametrize("spare", [None, *range(5)])
def test_a_rack_without_a_feed_that_gives_power_is_refused(count: int, spare: int | None) -> None:
    feeds = {"power": "1 kW", "count": count} | ({} if spare is None else {"spare": spare})
    if (1 if spare is None else spare) < count:
        assert floor(feeds=feeds).most_power == 1_000 * (count - (1 if spare is None else spare))
    else:
        with pytest.raises(ValidationError, match=f"spare feeds? .*; expected fewer than the {count} feed"):
            floor(feeds=feeds)


def test_a_rack_draws_what_its_feeds_give_when_one_fails() -> None:
    fabric = tree(40)
    for spare, watts in ((1, 10_000), (0, 20_000)):
        plan = floor(feeds={"power": "10 kW", "spare": spare})
        assert plan.most_power == watts
        layout = place_devices([fabric], CATALOG, plan)
        assert watts - 2_500 < max(rack.known.high for rack in layout.power_by_rack()) <= watts
    assert floor(feeds={"power": "10 kW"}, rack_power="6 kW").most_power == 6_000
    with pytest.raises(DesignError, match="draws 2,500 W, and a rack may draw 2,000 W"):
        place_devices([fabric], CATALOG, floor(feeds={"power": "2 kW"}))


def test_slack_within_racks_is_counted_at_both_ends() -> None:
    fabric = tree(2)
    short, spare = (place_devices([fabric], CATALOG, floor(**keys)) for keys in ({}, {"rack_slack": "0.3 m"}))
    assert short.n_racks == 1
    assert route_lengths(fabric, 0, spare) == pytest.approx(route_lengths(fabric, 0, short) + 0.6)


def test_the_middle_of_a_row_shortens_the_longest_cable() -> None:
    fabric = tree(800)
    longest = {}
    for where in ("middle", "end"):
        layout = place_devices([fabric], CATALOG, floor(rows=4, switches=where))
        longest[where] = route_lengths(fabric, 0, layout).max()
    assert longest["middle"] < longest["end"]


def test_servers_that_hang_in_two_zones_stand_in_both() -> None:
    layout = place_devices([zoned()], CATALOG, floor())
    racks = {device.name: rack for device, rack in zip(layout.devices, layout.rack.tolist(), strict=True)}
    of_zone = [max(rack for name, rack in racks.items() if name.startswith("z0-leaf")), 0]
    first = sum(rack <= of_zone[0] for name, rack in racks.items() if name.startswith("storage"))
    assert 80 <= first <= 100


@given(
    n_gpus=st.integers(1, 60),
    unknown=st.booleans(),
    limit=st.sampled_from([{}, {"rack_power": "20 kW"}, {"rack_typical_power": "20 kW"}]),
)
def test_devices_of_unknown_power_stand_alone_once_there_is_a_limit_and_it_is_said(
    n_gpus: int, unknown: bool, limit: dict[str, str]
) -> None:
    """Recounted rack by rack: such a device shares its rack with none that draws power, and the racks are at most."""
    model = replace(CATALOG.node("pcie-a100"), **({"power_typical_w": None} if unknown else {}))
    catalog = replace(CATALOG, nodes={**CATALOG.nodes, "pcie-a100": model})
    fabric = tree(n_gpus)
    layout = place_devices([fabric], catalog, floor(**limit))
    alone = [device.name for device in layout.devices if device.model == "pcie-a100"] if unknown and limit else []
    assert sorted(layout.devices[number].name for number in layout.alone) == sorted(alone)
    for number in layout.alone:
        assert np.count_nonzero(layout.rack == layout.rack[number]) == 1
    parts = make_bill([fabric], catalog, layout, choose_cables([fabric], layout, catalog))
    assert all(("at most" in line.place) == bool(alone) for line in parts.of("rack").lines)


@pytest.mark.parametrize("switches", ["servers", "middle", "end"])
@given(n_gpus=st.integers(40, 120), rows=st.integers(2, 4), one=st.integers(0, 1 << 16))
def test_a_fixed_device_leaves_rows_about_equally_long(n_gpus: int, rows: int, one: int, switches: str) -> None:
    """One that is fixed where it stands adds at most a rack to the longest row, however long rows may be."""
    fabric, keys = tree(n_gpus), {"rows": rows, "racks_per_row": 30, "rack_units": 20, "switches": switches}
    layout = place_devices([fabric], CATALOG, floor(**keys))
    at = one % len(layout.devices)
    name = layout.rack_name(int(layout.rack[at]))
    again = place_devices([fabric], CATALOG, floor(**keys, fixed={layout.devices[at].name: name}))
    check_room(again)
    assert again.rack_name(int(again.rack[at])) == name
    lengths = [Counter(one.row.tolist()) for one in (layout, again)]
    assert all(max(found.values()) <= -(-one.n_racks // rows) + (one is again) for found, one in
               zip(lengths, (layout, again), strict=True))  # fmt: skip


def test_a_room_too_small_for_devices_of_unknown_power_says_that_first() -> None:
    model = replace(CATALOG.node("pcie-a100"), power_typical_w=None, power_max_w=None)
    catalog = replace(CATALOG, nodes={**CATALOG.nodes, "pcie-a100": model})
    keys = {"rows": 2, "racks_per_row": 3, "rack_power": "20 kW"}
    with pytest.raises(
        DesignError, match=r"^power of 9 x pcie-a100 is unknown, .*\(`power_max_w` in nodes.csv .*short"
    ):
        place_devices([tree(9)], catalog, floor(**keys))
    with pytest.raises(DesignError, match=r"^\d+ racks are needed"):
        place_devices([tree(90)], CATALOG, floor(**keys))


def stood(fabric: Fabric) -> np.ndarray:
    """The device of each node where every server and every switch is one."""
    return np.where(fabric.host >= 0, fabric.n_switches + fabric.host, np.arange(fabric.n_nodes)).astype(np.int32)


@given(fabrics(), fabrics(), st.integers(0, 1_000_000))
def test_servers_stand_in_the_order_of_their_ports_and_by_turns_in_their_zones(
    one: Fabric, other: Fabric, seed: int
) -> None:
    """In the first of two subnets that they have a cable in; those without any cable come last."""
    rng, subnets, at = np.random.default_rng(seed), [], {}
    for subnet, fabric in enumerate((one, other)):
        subnets.append(replace(fabric, zone=rng.integers(0, 3, fabric.n_nodes).astype(fabric.zone.dtype)))
        for port in range(fabric.first_adapter_port, fabric.n_ports):
            node, peer = int(fabric.port_node[port]), int(fabric.peer[port])
            mine = at.setdefault(int(fabric.host[node]), ({}, {}))[subnet]
            zone = int(subnets[subnet].zone[node])
            if peer >= 0:
                mine[zone] = min(peer, mine.get(zone, peer))
    order = racks._servers_in_order(subnets, [fabric.host for fabric in subnets])
    assert sorted(order) == sorted(at)
    found, turns = {}, Counter[tuple[int, ...]]()
    for server, both in at.items():
        subnet = 0 if both[0] else 1
        if zones := tuple(sorted(both[subnet])):
            found[server] = (subnet, both[subnet][zones[turns[zones] % len(zones)]])
            turns[zones] += 1
    assert order == sorted(at, key=lambda server: found.get(server, (2, server)))


@given(fabrics(), st.integers(0, 1_000_000))
def test_a_switch_stands_at_the_median_of_its_neighbours(fabric: Fabric, seed: int) -> None:
    """Breadth first from the servers, cable by cable; what no server reaches comes last."""
    rng, mine = np.random.default_rng(seed), stood(fabric)
    heights = rng.integers(0, 5, fabric.n_switches + len(fabric.hosts)).tolist()
    devices = [Device(str(number), "", height, None, None) for number, height in enumerate(heights)]
    place, above = {}, 0.0
    for server in racks._servers_in_order([fabric], [mine]):
        place[server], above = above + heights[server] / 2, above + heights[server]
    links = [(int(mine[a]), int(mine[b])) for a, b in fabric.port_node[fabric.links].tolist()]
    while True:
        near: dict[int, list[float]] = {}
        for one, other in [*links, *(link[::-1] for link in links)]:
            if one not in place and other in place:
                near.setdefault(one, []).append(place[other])
        if not near:
            break
        place |= {device: sorted(found)[len(found) // 2] for device, found in near.items()}
    expected = sorted(range(len(devices)), key=lambda device: place.get(device, np.inf))
    assert racks._order([fabric], devices, [mine]).tolist() == expected


@given(st.data())
def test_a_device_takes_the_lowest_free_units_that_hold_it(data: st.DataObject) -> None:
    """Unit by unit, from the one that is asked for up to the top of the rack."""
    units = data.draw(st.integers(1, 12))
    heights = data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=8))
    devices = [Device(str(number), "", height, None, None) for number, height in enumerate(heights)]
    filling, taken = racks._Filling(devices, floor(rack_units=units), {}, []), set[int]()
    for index, height in enumerate(heights):
        above = data.draw(st.integers(1, units + 1))
        fits = [u for u in range(above, units + 2 - height) if not taken & set(range(u, u + height))]
        lowest = filling.lowest(index, 0, above)
        assert lowest == (min(above, units) if not height else min(fits, default=None))
        if lowest is not None:
            filling.put(index, 0, lowest)
            taken |= set(range(lowest, lowest + height))


@given(fabrics(), fabrics(), st.integers(0, 1_000_000))
def test_switches_stand_in_for_one_another_where_a_device_leads_to_both(one: Fabric, other: Fabric, seed: int) -> None:
    """Looked up link by link in two subnets with the same servers: leaves of a server, spines of a leaf, joints."""
    rng, subnets, mine = np.random.default_rng(seed), [], []
    for fabric, first in ((one, 0), (other, 100)):
        n = fabric.n_switches
        role = np.where(rng.random(n) < 0.3, int(Role.JOINT), fabric.role[:n])
        drawn = {"role": np.concatenate([role, fabric.role[n:]]), "zone": rng.integers(0, 2, fabric.n_nodes)}
        subnets.append(replace(fabric, **{name: each.astype(np.int8) for name, each in drawn.items()}))
        mine.append(np.where(fabric.host >= 0, 1000 + fabric.host, first + np.arange(fabric.n_nodes)).astype(np.int32))
    sets = set()
    for subnet, fabric in enumerate(subnets):
        joint, n = (fabric.role == Role.JOINT).tolist(), fabric.n_switches
        at = [set(link) for link in fabric.port_node[fabric.links].tolist()]
        near = {x: {y for link in at if x in link for y in (link - {x} or {x}) if y < n} for x in range(fabric.n_nodes)}
        for node in range(n):
            for role in {*fabric.role.tolist()} - {int(Role.JOINT)} if not joint[node] else ():
                sets.add(frozenset(int(mine[subnet][y]) for y in near[node]
                                   if fabric.role[y] == role and fabric.level[y] > fabric.level[node]))  # fmt: skip
            for zone in (0, 1) if joint[node] else ():
                sets.add(frozenset(int(mine[subnet][y]) for y in near[node] if fabric.zone[y] == zone))
        for zone in (0, 1):
            to = [near[x] for x in range(n) if fabric.zone[x] == zone and not joint[x]]
            sets.add(frozenset(int(mine[subnet][y]) for y in set().union(*to) if joint[y]))
    for host in range(1000, 1000 + max(len(one.hosts), len(other.hosts))):
        own = [
            {int(here[y]) for x in np.flatnonzero(here == host) for y in fabric.peer_node[fabric.ports_of(x)] if y >= 0}
            for fabric, here in zip(subnets, mine, strict=True)
        ]
        sets |= {frozenset(each) for each in (*own, own[0] | own[1])}
    assert {frozenset(each) for each in racks._stand_ins(subnets, mine)} == {each for each in sets if len(each) > 1}


@pytest.mark.parametrize("count", [30, 120])
@pytest.mark.parametrize("units", [12, 24, 42])
def test_at_most_half_of_those_that_stand_in_for_one_another_share_a_rack(count: int, units: int) -> None:
    fabric = tree(count, leaves=6, spines=4)
    layout = place_devices([fabric], CATALOG, floor(rack_units=units))
    assert layout.n_racks > 1
    spines = layout.node_device[0][np.flatnonzero(fabric.role == Role.SPINE)]
    assert np.bincount(layout.rack[spines]).max() <= 2


@pytest.mark.parametrize("known", [("typical", "max"), ("typical",), ("max",), ()])
def test_a_check_of_power_names_the_models_of_which_a_figure_is_unknown(known: tuple[str, ...]) -> None:
    watts = {
        "power_typical_w": 2_000.0 if "typical" in known else None,
        "power_max_w": 2_500.0 if "max" in known else None,
    }
    catalog = replace(CATALOG, nodes={**CATALOG.nodes, "pcie-a100": replace(CATALOG.node("pcie-a100"), **watts)})
    layout = place_devices([tree(4)], catalog, floor(rack_power="9 kW", rack_typical_power="8 kW"))
    assert [check.what for check in layout.checks] == ["rack power", "typical rack power"]
    for check, text, own in zip(layout.checks, ("at maximum power", "typically"), ("max", "typical"), strict=True):
        assert text in check.text
        assert ("power of pcie-a100 unknown" in check.text) == (not known)
        assert ("typical power where the maximum is unknown: pcie-a100" in check.text) == (
            own == "max" and known == ("typical",)
        )
        if not known:
            assert check.cure == f"known once your `catalog` has `power_{own}_w` of pcie-a100"


@given(st.integers(1, 9_000))
@example(9_000)
def test_what_a_check_leaves_for_unknown_servers_is_no_less_than_they_may_take(watts: int) -> None:
    def check(power: float | None) -> Check:
        model = replace(CATALOG.node("pcie-a100"), power_max_w=power, power_typical_w=None)
        catalog = replace(CATALOG, nodes={**CATALOG.nodes, "pcie-a100": model})
        (check,) = place_devices([tree(4)], catalog, floor(rack_power="9 kW")).checks
        return check

    assert check(float(watts)).verdict is Verdict.HOLDS
    left = re.search(r"leaves ([\d,]+) W", check(None).reason)
    assert left is None or int(left[1].replace(",", "")) >= watts


@given(st.integers(0, 30), st.integers(1, 12), st.sampled_from(["middle", "end"]), st.integers(1, 5))
def test_each_rack_is_of_servers_or_of_switches(servers: int, switches: int, where: str, rows: int) -> None:
    """As many of each as they need, and of the switches as many in one row as in another, but for one."""
    plan = floor(rows=rows, switches=where)
    own = racks._places([servers, switches], plan)
    assert sorted(own[0] + own[1]) == list(range(servers + switches))
    assert [len(mine) for mine in own] == [servers, switches]
    per_row = racks._per_row(servers + switches, plan)
    lengths = [min(per_row, servers + switches - first) for first in range(0, servers + switches, per_row)]
    count = [sum(place // per_row == row for place in own[1]) for row in range(len(lengths))]
    assert max(count) <= -(-switches // len(lengths)) or min(lengths) < max(count)
