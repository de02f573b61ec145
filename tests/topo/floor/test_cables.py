"""Which cable each link takes; cables in trays are as long together as the cables run there."""

from collections import Counter
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import topo
from costmodel.bills import make_bill
from helpers.clusters import CATALOG, tree, zoned
from plan.export.cables import cable_rows
from topo.builder import FabricBuilder
from topo.errors import DesignError
from topo.fabric import Fabric, Role
from topo.floor.cables import (
    ROUND_TO_M,
    CablePart,
    Cabling,
    _Offer,
    _offers,
    _Signature,
    backplane,
    choose_cables,
    fill_trays,
)
from topo.floor.panels import panels
from topo.floor.racks import FloorPlan, place_devices
from topo.shapes.base import HostGroup
from topo.shapes.fat_tree import FatTree
from topo.speeds import SPEEDS, LinkSpeed


def cable(fabric: Fabric, **keys: object) -> Cabling:
    layout = place_devices([fabric], CATALOG, FloorPlan.model_validate(keys))
    return choose_cables([fabric], layout, CATALOG)[0]


def check_cables(fabric: Fabric, cabling: Cabling) -> None:
    """Each cable reaches, fits both ends, and is the shortest of its kind that does; copper ends at 2 m."""
    made = {
        kind: sorted(c.length_m for c in CATALOG.cables.values() if c.kind == kind and c.connector == "QSFP56")
        for kind in ("DAC", "AOC")
    }
    for index, need in zip(cabling.part.tolist(), cabling.route_m.tolist(), strict=True):
        part = cabling.parts[index]
        assert part.length_m is not None
        assert part.length_m >= need
        if part.kind == "fibre":
            assert cabling.optics
            assert all(CATALOG.cables[optic].reach_m >= part.length_m > 100 for optic in cabling.optics)
            continue
        model = CATALOG.cables[part.item]
        assert (str(model.speed), model.connector) == ("4xHDR", "QSFP56")
        assert (part.kind == "DAC") == (need <= 2.0)
        assert not any(need <= shorter < part.length_m for shorter in made[part.kind])


@pytest.mark.slow
@given(st.integers(1, 400), st.floats(0.3, 40.0), st.integers(5, 52))
def test_every_link_gets_the_shortest_cable_that_reaches(n_gpus: int, pitch: float, units: int) -> None:
    fabric = tree(n_gpus)
    cabling = cable(fabric, row_pitch=f"{pitch:.2f} m", rack_units=units)
    assert (cabling.part >= 0).all()
    check_cables(fabric, cabling)


@pytest.mark.slow
def test_fire_flyer_2() -> None:
    fabric = zoned()
    cabling = cable(fabric)
    check_cables(fabric, cabling)
    kinds = Counter(cabling.parts[index].kind for index in cabling.part.tolist())
    assert set(kinds) == {"DAC", "AOC"}
    assert kinds.total() == len(fabric.links) == 3_200


def test_beyond_100_m_there_are_transceivers_and_fibre() -> None:
    cabling = cable(tree(20, levels=2), racks_per_row=1, row_pitch="150 m")
    fibres = [part for part in cabling.parts if part.kind == "fibre"]
    assert fibres
    assert set(cabling.optics) == {"MMS1W50-HM"}
    assert all(part.length_m is not None and part.length_m % 5 == 0 for part in fibres)


def test_a_cable_that_cannot_reach_is_refused_by_name() -> None:
    with pytest.raises(DesignError, match=r"gpu\d+ mlx5_0:1 to leaf0:\d+|leaf0:\d+ to .* needs .* 4xHDR"):
        cable(tree(20, levels=2), racks_per_row=1, row_pitch="3 km")


def test_a_speed_that_the_catalog_has_no_cable_for_is_unknown() -> None:
    group = HostGroup("gpu", 4, "pcie-a100", Role.COMPUTE, 1, "MCX653105A-HDAT", LinkSpeed(4, "EDR"))
    (fabric,) = FatTree(switch="SB7800").compile([group], CATALOG, "edr")
    cabling = cable(fabric)
    assert {(part.kind, part.item, part.length_m) for part in cabling.parts} == {
        ("unknown", "4xEDR in QSFP56 (no row in cables.csv)", None)
    }
    assert np.unique(cabling.part).tolist() == [0]


def test_no_part_of_another_generation_is_taken_for_a_cage_of_xdr_switches_unless_a_row_says_that_it_fits() -> None:
    """NVIDIA names Quantum-2 and Spectrum-4 for its NDR transceivers; those of XDR do not run slower."""
    spec = {
        "name": "x",
        "nodes": {"gpu": {"model": "dgx-b300", "count": 4}, "ufm": {"model": "management-ndr", "count": 2}},
        "network": {"shape": "fat-tree", "switch": "Q3400"},
        "floor": {"rack_units": 48},
    }
    cluster = topo.parse(spec)
    (cabling,), fabric = cluster.cablings, cluster.fabric
    slower = np.flatnonzero(fabric.speed[fabric.links[:, 0]] == SPEEDS.index("NDR"))
    parts = {cabling.parts[part] for part in cabling.part[slower].tolist()}
    assert len(slower) and {part.kind for part in parts} == {"unknown"}
    assert all("OSFP1600 (no row in cables.csv)" in part.item for part in parts)
    assert not any(name.startswith(("MMA4Z00", "MMS4X00")) for name in cabling.optics)
    own = replace(CATALOG.cables["MMA4Z00-NS"], name="own", connector="OSFP1600")
    catalog = replace(CATALOG, cables={**CATALOG.cables, "own": own})
    (chosen,) = choose_cables([fabric], cluster.layout, catalog)
    assert {chosen.optic_of(port) for port in fabric.links[slower, 0].tolist()} == {"own"}


def test_two_halves_of_a_split_port_share_a_splitter():
    """Eight HDR100 hosts on four cages of a switch whose other 36 ports stay whole."""
    builder = FabricBuilder("test")
    leaf = builder.switch("leaf", model="QM8700", radix=44, role=Role.LEAF, level=1)
    spine = builder.switch("spine", model="QM8700", radix=40, role=Role.SPINE, level=2)
    for host in range(7):
        key = builder.adapter(
            f"gpu{host}", "mlx5_0", model="MCX653105A-HDAT", host_model="pcie-a100", role=Role.COMPUTE
        )
        builder.link(key, 1, leaf, host + 1, LinkSpeed(2, "HDR"))
    builder.link(leaf, 44, spine, 1, LinkSpeed(4, "HDR"))
    fabric = builder.build()
    layout = place_devices([fabric], CATALOG, FloorPlan())
    (cabling,) = choose_cables([fabric], layout, CATALOG)
    kinds = [cabling.parts[part].kind for part in cabling.part]
    bill = make_bill([fabric], CATALOG, layout, [cabling])

    assert kinds == ["DAC-splitter"] * 7 + ["DAC"]
    assert cabling.cable.tolist() == [0, 0, 1, 1, 2, 2, 3, 4], "the seventh half leaves a leg free"
    assert sum(line.count for line in bill.of("cable").lines) == 5
    schedule = list(cable_rows([fabric], CATALOG, layout, [cabling]))
    assert len(schedule) == 8
    assert len({row[0] for row in schedule}) == 5


NDR = {
    "rails": {"shape": "rail", "unit_nodes": 32, "tree": {"switch": "QM9700"}},
    "planes": {"shape": "planes", "planes": 8, "tree": {"switch": "QM9700", "levels": 2}},
    "tree": {"shape": "fat-tree", "switch": "QM9700", "oversubscription": 3.0},
}


@pytest.mark.parametrize("network", NDR)
@pytest.mark.parametrize("model", ["dgx-b200", "hgx-h800"])
def test_a_transceiver_or_a_copper_cable_serves_both_ports_of_a_cage(network: str, model: str) -> None:
    """Cage by cage, counted from the links by their port numbers alone: ports 2k - 1 and 2k are cage k."""
    nodes = {"gpu": {"model": model, "count": 40}}
    cluster = topo.parse({"name": "x", "nodes": nodes, "network": NDR[network], "floor": {}})
    cages: dict[tuple[str, int], set[tuple[str, int]]] = {}
    inside: dict[tuple[str, int], set[str]] = {}
    for fabric, cabling in zip(cluster.fabrics, cluster.cablings or (), strict=True):
        ends = []
        for port in range(fabric.n_ports):
            node, number = int(fabric.port_node[port]), int(fabric.port_number[port])
            if node < fabric.n_switches:
                ends.append((fabric.label(node), (number + 1) // 2))
            else:
                device = int(fabric.names[node].rpartition("_")[2])
                ends.append((fabric.hosts[fabric.host[node]], device // 2 if model == "dgx-b200" else device))
        for link, (a, b) in enumerate(fabric.links.tolist()):
            for port in (a, b):
                what = cabling.optic_of(port) or f"cable {cabling.cable[link]}"
                inside.setdefault(ends[port], set()).add(what)
                if cabling.optic_of(port):
                    cages.setdefault(ends[port], set()).add((fabric.name, port))
    assert all(len(held) == 1 for held in inside.values()), "a cage holds one thing"
    bill = make_bill(cluster.fabrics, CATALOG, cluster.layout, cluster.cablings)
    assert bill.count("optic") == len(cages) < sum(map(len, cages.values()))
    cables = {what for held in inside.values() for what in held if what.startswith("cable")}
    assert bill.count("cable") == len(cables)
    fibres = sum(len(f.links) for f in cluster.fabrics) - sum(
        int(np.count_nonzero(np.isin(c.part, [i for i, p in enumerate(c.parts) if p.kind != "fibre"])))
        for c in cluster.cablings or ()
    )
    assert bill.count("fibre") == fibres


def test_half_of_a_scalable_unit_has_the_transceivers_that_it_has_cages_for() -> None:
    """512 links from servers and 512 between switches are 1,024 ports of switches, and 256 cages of servers."""
    nodes = {"gpu": {"model": "dgx-b200", "count": 64}}
    cluster = topo.parse({"name": "x", "nodes": nodes, "network": NDR["rails"], "floor": {"row_pitch": "20 m"}})
    bill = make_bill(cluster.fabrics, CATALOG, cluster.layout, cluster.cablings)
    ends = {line.item: line.count for line in bill.of("optic").lines if line.place == "compute"}
    assert sum(ends.values()) == 256 and all(item.endswith("-FLT") for item in ends)
    in_switches = sum(line.count for line in bill.of("optic").lines if line.place != "compute")
    assert in_switches + 2 * bill.count("cable") == (512 + 2 * 512) // 2


def test_each_cable_fits_the_cages_at_its_ends() -> None:
    """Two single adapters and one cage of a switch within reach share a splitter; every transceiver fits its cage."""
    nodes = {"gpu": {"model": "hgx-h800", "count": 2}}
    network = {"shape": "fat-tree", "switch": "QM9700"}
    cluster = topo.parse({"name": "x", "nodes": nodes, "network": network, "floor": {}})
    (cabling,), (fabric,) = cluster.cablings or (), cluster.fabrics
    assert {part.kind for part in cabling.parts} == {"DAC-splitter"}
    assert len(set(cabling.cable.tolist())) == 8 and len(fabric.links) == 16
    assert not backplane(fabric, CATALOG).any()
    assert {CATALOG.cables[part.item].far_connector for part in cabling.parts} == {"OSFP-RHS"}


def test_all_legs_of_a_fibre_are_one_part_however_far_each_of_their_ends_is() -> None:
    nodes = {"gpu": {"model": "dgx-h100", "count": 3}, "a": {"model": "hgx-h100", "count": 9},
             "st": {"model": "storage-3fs", "count": 5}}  # fmt: skip
    network = {"shape": "rail", "unit_nodes": 8, "tree": {"switch": "QM9790", "split": True}}
    room = {"feeds": {"count": 2, "power": "60 kW"}, "row_pitch": "20 m"}
    cluster = topo.parse({"name": "x", "nodes": nodes, "network": network, "floor": room})
    assert cluster.cablings is not None
    (cabling,) = cluster.cablings
    of_cable: dict[int, set[int]] = {}
    for cable, part in zip(cabling.cable.tolist(), cabling.part.tolist(), strict=True):
        of_cable.setdefault(cable, set()).add(part)
    assert {cabling.parts[part].kind for part in cabling.part} >= {"fibre-splitter"}
    assert all(len(parts) == 1 for parts in of_cable.values())


@pytest.mark.parametrize("model", ["pcie-a100", "dgx-h100"])
def test_a_plug_takes_one_fibre_or_nobody_knows_the_part(model: str) -> None:
    """Halves that stay together are a whole fibre; where both ends are split, no part has such ends."""
    switch = {"pcie-a100": "QM8700", "dgx-h100": "QM9790"}[model]
    for spines, known in ((None, True), ({"pcie-a100": 40, "dgx-h100": 64}[model], False)):
        network = {"shape": "fat-tree", "switch": switch, "split": True, "levels": 2, "spines": spines}
        nodes = {"gpu": {"model": model, "count": 100 if model == "pcie-a100" else 24}}
        cluster = topo.parse({"name": "x", "nodes": nodes, "network": network, "floor": {"row_pitch": "20 m"}})
        (panel,) = panels(cluster.fabrics, CATALOG)
        assert cluster.cablings is not None
        (cabling,) = cluster.cablings
        of_plug: dict[int, set[int]] = {}
        named = [cabling.parts[part].kind != "unknown" for part in cabling.part]
        for pair, cable, part in zip(cluster.fabric.links, cabling.cable.tolist(), named, strict=True):
            for port in pair if part else ():
                of_plug.setdefault(int(panel.plug[port]), set()).add(cable)
        assert all(named) == known
        assert max(map(len, of_plug.values())) == 1


@pytest.mark.slow
@given(st.integers(1, 200), st.integers(5, 48), st.integers(1, 9))
def test_trays_hold_each_cable_once_a_step_of_its_way(n_gpus: int, units: int, per_row: int) -> None:
    fabric = tree(n_gpus)
    layout = place_devices([fabric], CATALOG, FloorPlan(rack_units=units, racks_per_row=per_row))
    (cabling,) = choose_cables([fabric], layout, CATALOG)
    trays = fill_trays([fabric], layout, [cabling])
    a, b = layout.rack[layout.node_device[0][fabric.port_node[fabric.links]]].T
    assert trays.along.sum() == np.abs(layout.column[a] - layout.column[b]).sum()
    assert trays.across.sum() == np.abs(layout.row[a] - layout.row[b]).sum()
    assert trays.along.min(initial=0) == trays.across.min(initial=0) == 0


@pytest.mark.slow
def test_a_cut_through_the_room_has_the_cables_between_its_sides() -> None:
    fabric = zoned()
    layout = place_devices([fabric], CATALOG, FloorPlan(racks_per_row=8))
    trays = fill_trays([fabric], layout, choose_cables([fabric], layout, CATALOG))
    rows = layout.row[layout.rack[layout.node_device[0][fabric.port_node[fabric.links]]]]
    for row in range(len(trays.across)):
        assert trays.across[row].sum() == ((rows <= row).any(axis=1) & (rows > row).any(axis=1)).sum()


@given(st.floats(0.1, 500.0), st.integers(1, 500), st.sampled_from([4, 8, 12]))
def test_fibre_that_the_catalog_does_not_list_is_ordered_in_steps(route_m: float, reach_m: int, width: int) -> None:
    """The shortest step that is long enough, but no longer than the transceivers reach."""
    whole = CablePart("fibre", "OM4", float(reach_m))
    found = _Offer(reach_m, whole, {}).fibre(route_m, LinkSpeed(width, "HDR"))
    steps = next(step for step in range(0, 10_000, ROUND_TO_M) if step >= route_m)
    assert found.length_m == min(steps, reach_m)
    assert (found.kind, found.item, found.pieces) == ("fibre", "OM4", max(width // 4, 1))


@given(st.data())
def test_transceivers_reach_as_far_as_the_best_choice_of_one_for_each_cage(data: st.DataObject) -> None:
    """All choices of transceivers of one fibre are tried: an offer reaches a length if and only if a choice does."""
    speed = data.draw(st.sampled_from([LinkSpeed(4, "HDR"), LinkSpeed(4, "NDR"), LinkSpeed(4, "EDR")]))
    optics = [one for one in CATALOG.cables.values() if one.kind == "optic" and one.speed == speed and one.reach_m]
    of_cage = st.sampled_from([*sorted({(one.connector or "", one.ports or 1) for one in optics}), ("", 1)])
    cages = data.draw(st.frozensets(of_cage, min_size=1, max_size=2))
    wanted = _Signature(frozenset([speed]), cages, (), splitter=False, halves=False, crossed=False)
    made = [one for one in optics if one.protocol in (None, "infiniband")]
    best = 0.0
    for medium in {one.fibre for one in made}:
        fits = [
            [one.reach_m for one in made if one.fibre == medium and one.ports == held and name in ("", one.connector)]
            for name, held in cages
        ]
        best = max([best, *(min(chosen) for chosen in product(*fits))])
    offers = [offer for offer in _offers(CATALOG, wanted, "infiniband") if offer.optics]
    assert [offer.reach_m for offer in offers] == sorted(offer.reach_m for offer in offers)
    assert max((offer.reach_m for offer in offers), default=0.0) == best
    for offer in offers:
        assert set(offer.optics) == set(cages)
        assert offer.reach_m == min(CATALOG.cables[name].reach_m for name in offer.optics.values())


@pytest.mark.parametrize("pitch", ["2.4 m", "60 m"])
def test_the_table_of_cables_counts_each_part_and_cage_once(pitch: str) -> None:
    """Near and far racks: cables, and fibres with a transceiver in each cage, counted one by one from the links."""
    fabric = tree(60)
    cabling = cable(fabric, row_pitch=pitch, rack_units=12, racks_per_row=1)
    links, pieces, cages = Counter[int](), {}, {}
    for index, number in zip(cabling.part.tolist(), cabling.cable.tolist(), strict=True):
        links[index] += 1
        pieces.setdefault(index, set()).add(number)
    for port, cage in enumerate(cabling.cage.tolist()):
        if cabling.optic_of(port):
            cages.setdefault(cabling.optic_of(port), set()).add(cage)
    assert bool(cages) == (pitch == "60 m")
    expected = [
        (part.kind, part.item, part.length_m, part.pieces * len(pieces[index]), links[index])
        for index, part in enumerate(cabling.parts)
    ]
    expected += [("optic", item, None, len(cages[item]), None) for item in cabling.optics]
    assert list(zip(*(column.values for column in cabling.table.columns), strict=True)) == expected


def test_what_passes_between_stages_cannot_be_written_to() -> None:
    fabric = tree(20)
    layout = place_devices([fabric], CATALOG, FloorPlan())
    cablings = choose_cables([fabric], layout, CATALOG)
    trays = fill_trays([fabric], layout, cablings)
    arrays = [
        each for one in (trays, cablings[0], layout) for each in vars(one).values() if isinstance(each, np.ndarray)
    ]
    assert len(arrays) >= 8 and not any(each.flags.writeable for each in arrays)
