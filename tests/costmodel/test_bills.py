"""Every part of the bill, counted again from the links and the cables themselves."""

import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import topo
from costmodel import bill
from costmodel.bills import Bill, make_bill
from costmodel.parts import SPARE, Line
from helpers.clusters import CATALOG, gpus, tree
from helpers.strategies import examples
from topo.amounts import Range, Sum
from topo.builder import FabricBuilder
from topo.catalog.load import Catalog, load_catalog
from topo.catalog.models import Source
from topo.cluster_spec import Spares
from topo.errors import DesignError
from topo.floor.cables import CablePart, Cabling, backplane, choose_cables
from topo.floor.racks import FloorPlan, place_devices
from topo.shapes.fat_tree import FatTree
from topo.speeds import SPEEDS

OPTIC_W = 5.25
"""Nobody prints what this transceiver draws, so the catalog has no figure; this is one for the laws below."""
OPTIC = replace(
    CATALOG.cables["MMA1T00-HS"],
    power_end_w=OPTIC_W,
    sources=MappingProxyType({"power_end_w": Source("test", "2026", "own", "test:1")}),
)
KNOWN = replace(CATALOG, cables=MappingProxyType({**CATALOG.cables, "MMA1T00-HS": OPTIC}))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["lab-20", "fire-flyer-2", "fire-flyer-2-frames", "deepseek-v3-planes", "slow-subtrees"]
)
def test_every_link_that_needs_a_cable_is_in_one_that_is_billed(name: str) -> None:
    cluster = topo.preset(name)
    parts, cablings = bill(cluster), cluster.cablings or ()
    in_use = [line for line in parts.lines if line.place != SPARE]
    cables = sum(line.count for line in in_use if line.kind in ("cable", "fibre"))
    legs = sum(len(set(cabling.cable[cabling.cable >= 0].tolist())) for cabling in cablings)
    apart = sum(int(np.count_nonzero(~backplane(fabric, cluster.catalog))) for fabric in cluster.fabrics)
    assert cables == (legs if cablings else apart)


def cabled(optics: list[bool]) -> tuple[topo.Fabric, Cabling]:
    """A tree with one kind of cable or fibre with two transceivers for each link, as the list says."""
    fabric = tree(10, levels=2, leaves=2, spines=1, parallel=2)
    parts = (CablePart("fibre", "OM4", 15.0), CablePart("AOC", "MFS1S00-H015V", 15.0))
    chosen = np.resize(np.array(optics), len(fabric.links))
    part = np.where(chosen, 0, 1).astype(np.int32)
    optic = np.full(fabric.n_ports, -1, np.int32)
    optic[fabric.links[chosen]] = 0
    cable, cage = np.arange(len(part), dtype=np.int32), np.arange(fabric.n_ports, dtype=np.int32)
    return fabric, Cabling(parts, part, cable, np.full(len(part), 12.0), ("MMA1T00-HS",), optic, cage)


@given(st.lists(st.booleans(), min_size=1, max_size=14))
def test_each_fibre_link_has_a_transceiver_at_each_end(optics: list[bool]) -> None:
    fabric, cabling = cabled(optics)
    parts = make_bill([fabric], CATALOG, None, [cabling])
    fibres, transceivers = parts.of("fibre"), parts.of("optic")
    links = Counter(np.where(cabling.part == 0, "fibre", "cable").tolist())
    assert parts.count("fibre") == links["fibre"] and parts.count("cable") == links["cable"]
    ends: Counter[str] = Counter()
    for line in fibres.lines:
        for end in line.place.split(" - "):
            ends[end] += line.count
    assert {line.place: line.count for line in transceivers.lines} == ends
    assert {line.item for line in transceivers.lines} <= {"MMA1T00-HS"}
    assert {line.item for line in fibres.lines} <= {"OM4, 15 m"}


@given(st.lists(st.booleans(), min_size=1, max_size=14))
def test_ports_of_one_cage_share_its_transceiver(optics: list[bool]) -> None:
    fabric, cabling = cabled(optics)
    number = np.arange(fabric.n_ports) - fabric.port_offset[fabric.port_node]
    twos = (fabric.port_node * 1000 + number // 2).astype(np.int32)
    parts = make_bill([fabric], CATALOG, None, [replace(cabling, cage=twos)])
    assert parts.count("optic") == len(set(twos[cabling.optic >= 0].tolist()))


@given(st.lists(st.booleans(), min_size=1, max_size=14))
def test_transceivers_in_switches_draw_and_those_in_servers_are_the_servers(optics: list[bool]) -> None:
    """End by end: what sits in a switch draws its watts; what sits in a server is in the server's own figure."""
    fabric, cabling = cabled(optics)
    parts = make_bill([fabric], KNOWN, None, [cabling])
    models = [KNOWN.cables["MMA1T00-HS" if part.kind == "fibre" else part.item] for part in cabling.parts]
    ends_in_switches = (fabric.port_node[fabric.links] < fabric.n_switches).sum(axis=1)
    expected = sum(
        int(ends) * (models[part].power_end_w or 0.0)
        for ends, part in zip(ends_in_switches, cabling.part.tolist(), strict=True)
    )
    switches = sum(
        CATALOG.switch(fabric.models[model]).power_typical_w or 0.0 for model in fabric.model[: fabric.n_switches]
    )
    assert parts.power.network_w.middle == pytest.approx(expected + switches)


def test_a_cable_with_two_legs_is_bought_once() -> None:
    fabric = FatTree(switch="QM8700", split=True, oversubscription=3.0).compile([gpus(40)], CATALOG, "split")[0]
    layout = place_devices([fabric], CATALOG, FloorPlan())
    (cabling,) = choose_cables([fabric], layout, CATALOG)
    parts = make_bill([fabric], CATALOG, layout, [cabling])
    cables = set(cabling.cable.tolist()) - {-1}

    assert len(cables) < len(fabric.links), "some cables have two legs, or this test tests nothing"
    assert parts.count("cable") + parts.count("fibre") == len(cables)


@given(st.integers(1, 200))
def test_frames_are_bought_whole(chips: int) -> None:
    builder = FabricBuilder("chips")
    for chip in range(chips):
        builder.switch(f"chip{chip}", model="CS8500", radix=40, role=topo.Role.LEAF, level=1)
    (line,) = make_bill([builder.build()], CATALOG).lines
    whole = CATALOG.switch("CS8500").chips

    assert (line.kind, line.item, line.place) == ("switch", "CS8500", "frame")
    assert (line.count - 1) * whole < chips <= line.count * whole


@pytest.mark.parametrize("units", [42, 12])
def test_racks_and_their_power_distribution(units: int, catalog: Catalog) -> None:
    fabric = tree(30)
    layout = place_devices([fabric], catalog, FloorPlan(rack_units=units))
    parts = make_bill([fabric], catalog, layout, choose_cables([fabric], layout, catalog))
    racks = {line.item: line.count for line in parts.of("rack").lines}
    assert racks == {f"rack-{units}": layout.n_racks, "pdu": 2 * layout.n_racks}
    assert layout.n_racks == len(set(layout.rack.tolist()))


@given(st.lists(st.sampled_from(["cable", "fibre", "optic", "rack", "node", "adapter"]), min_size=1, unique=True))
def test_what_comes_without_a_switch_is_not_free(kinds: list[str]) -> None:
    """In `units` the price of a switch includes its links, so cables alone have none."""
    alone = Bill(tuple(Line(kind, "4xHDR", 7, "here") for kind in kinds), CATALOG)
    assert alone.currency == "USD"
    assert len(alone.price().of(*kinds).missing) == len(kinds)


def test_racks_have_the_price_that_is_given_for_them(tmp_path: Path) -> None:
    rows = "model,currency,low,high,source,date,confidence\n{},USD,1000,1200,quote,2026-11-01,own\n"
    (tmp_path / "prices.csv").write_text(rows.format("rack-42") + rows.partition("\n")[2].format("pdu"))
    with_quotes = load_catalog([tmp_path])
    fabric = tree(30)
    layout = place_devices([fabric], with_quotes, FloorPlan(rack_units=42))
    parts = make_bill([fabric], with_quotes, layout, choose_cables([fabric], layout, with_quotes))
    cost = parts.of("rack").price("USD")
    assert not cost.gaps
    assert cost.total.known == Range(3 * 1000 * layout.n_racks, 3 * 1200 * layout.n_racks)


@given(st.lists(st.sampled_from(["switch", "node", "adapter", "cable", "rack"]), min_size=1, max_size=6))
def test_the_parts_of_a_bill_are_the_bill(kinds: list[str]) -> None:
    whole = Bill(tuple(Line(kind, "x", n + 1, "here") for n, kind in enumerate(kinds)), CATALOG)
    chosen = set(kinds[::2])
    part, rest = whole.of(*chosen), whole.of(*({*kinds} - chosen))
    assert sorted(part.lines + rest.lines, key=lambda line: line.count) == list(whole.lines)
    assert sum(whole.count(kind) for kind in set(kinds)) == sum(range(1, len(kinds) + 1))


@given(st.lists(st.integers(1, 500), min_size=1, max_size=4), st.integers(0, 30), st.integers(0, 30))
def test_spare_parts_are_a_share_of_each_item_rounded_up_and_draw_nothing(
    counts: list[int], switches: int, cables: int
) -> None:
    lines = [Line("switch", "QM8700", count, f"place {index}") for index, count in enumerate(counts)]
    lines += [Line("cable", "MFS1S00-H015V", count, "leaf - spine") for count in counts[:1]]
    bare = Bill(tuple(lines), CATALOG)
    whole = bare.with_spares(Spares(switches=switches / 100, cables=cables / 100))
    spare = {line.item: line.count for line in whole.lines if line.place == SPARE}
    wanted = {
        "QM8700": math.ceil(Fraction(sum(counts) * switches, 100)),
        "MFS1S00-H015V": math.ceil(Fraction(counts[0] * cables, 100)),
    }
    assert spare == {item: count for item, count in wanted.items() if count}
    assert whole.power == bare.power
    cost, without = whole.price("USD"), bare.price("USD").total.known
    assert cost.spares.known is None or cost.spares.known.low == cost.total.known.low - without.low
    assert (cost.spares == Sum()) == (not spare)


@pytest.mark.parametrize("slow", [0, 1])
@pytest.mark.parametrize(("width", "speed", "item"), [(4, "EDR", "4xEDR"), (2, "HDR", "2xHDR")])
def test_a_cable_without_a_length_is_named_by_its_slower_end(slow: int, width: int, speed: str, item: str) -> None:
    fabric = tree(10, leaves=2, spines=1, parallel=2)
    port = int(fabric.inner_links[0, slow])
    widths, speeds = fabric.width.copy(), fabric.speed.copy()
    widths[port], speeds[port] = width, SPEEDS.index(speed)
    parts = make_bill([replace(fabric, width=widths, speed=speeds)], CATALOG)
    between = {line.item: line.count for line in parts.of("cable").lines if line.place == "leaf - spine"}
    assert between == {item: 1, "4xHDR": len(fabric.inner_links) - 1}


JOINT = {"switch": "QM8700", "count": 1, "ports": 4}
FRAMED = [
    {"shape": "fat-tree", "switch": "QM8700", "levels": 3, "spine_switch": "CS8500"},
    {"shape": "fat-tree", "switch": "CS8500", "levels": 1},
    {"shape": "torus", "switch": "CS8500", "sizes": [3, 3], "hosts": 9},
    {"shape": "dragonfly", "switch": "CS8500", "groups": 3, "switches": 2, "hosts": 6, "global_links": 1},
    {"shape": "slim-fly", "switch": "CS8500", "q": 5},
    {
        "shape": "zones",
        "zones": 2,
        "tree": {"switch": "QM8700"},
        "joints": {"switch": "CS8500", "count": 1, "ports": 4},
    },
]


@pytest.mark.parametrize("network", FRAMED, ids=lambda network: network["shape"])
def test_a_frame_is_built_whole_or_refused(network: dict[str, object]) -> None:
    """It is no switch of 40 ports of which twenty are one frame."""
    nodes = {"gpu": {"model": "pcie-a100", "count": 60}}
    with pytest.raises(DesignError, match=r"CS8500 is a (frame|complete tree)"):
        _ = topo.parse({"name": "x", "nodes": nodes, "network": network}).fabrics


@examples(6)
@given(frames=st.integers(1, 4), gpus=st.integers(41, 200), levels=st.sampled_from([2, 3]))
def test_frames_at_the_top_of_a_tree_are_built_whole(frames: int, gpus: int, levels: int) -> None:
    """As OpenSM sees them: 40 leaf chips and 20 spine chips each, in the names of firmware, and their backplane."""
    top = {"spine_switch": "CS8500", "spines": frames, "parallel": 2}
    if levels == 3:
        top = {"levels": 3, "core_switch": "CS8500", "cores": frames}
    nodes = {"gpu": {"model": "pcie-a100", "count": gpus}}
    network = {"shape": "fat-tree", "switch": "QM8700", **top}
    try:
        cluster = topo.parse({"name": "x", "nodes": nodes, "network": network, "floor": {"rack_units": 48}})
        fabric = cluster.fabric
    except DesignError as refused:
        assert "evenly" in str(refused)
        return
    chips = [fabric.label(node) for node in range(fabric.n_switches) if fabric.model_of(node) == "CS8500"]
    name = "spine" if levels == 2 else "core"
    assert sorted(chips) == sorted(
        f"{name}{frame}/{card}"
        for frame in range(frames)
        for card in [f"L{n:02d}/U{u}" for n in range(1, 21) for u in (1, 2)] + [f"S{n:02d}/U1" for n in range(1, 21)]
    )
    assert sum(line.count for line in bill(cluster).lines if line.item == "CS8500") == frames
    assert int(topo.backplane(fabric, CATALOG).sum()) == frames * 800
    assert cluster.layout is not None
    assert sum(device.model == "CS8500" for device in cluster.layout.devices) == frames
    parts = topo.list_parts("frame", topo.Reach(cluster.fabrics), catalog=CATALOG)
    assert {name: len(part.switches[0]) for name, part in parts.items()} == {
        f"{name}{frame}": 60 for frame in range(frames)
    }


@examples(10)
@given(zones=st.integers(1, 3), gpus=st.integers(3, 100))
def test_every_frame_that_is_billed_has_all_its_chips(zones: int, gpus: int) -> None:
    network: dict[str, object] = {"shape": "fat-tree", "switch": "CS8500"}
    if zones > 1:
        network = {"shape": "zones", "zones": zones, "tree": {"switch": "CS8500"}, "joints": JOINT}
    nodes = {"gpu": {"model": "pcie-a100", "count": gpus}}
    cluster = topo.parse({"name": "x", "nodes": nodes, "network": network})
    chips = sum(fabric.model_of(node) == "CS8500" for fabric in cluster.fabrics for node in range(fabric.n_switches))
    frames = sum(line.count for line in bill(cluster).lines if line.item == "CS8500")
    assert frames == zones
    assert chips == frames * CATALOG.switch("CS8500").chips


@pytest.mark.parametrize("floor", [{}, {"floor": {"rack_units": 48}}])
@pytest.mark.parametrize("ethernet", [False, True])
def test_cables_of_ethernet_have_its_names_and_no_others(ethernet: bool, floor: dict[str, object]) -> None:
    """The same tree with switches of either; a fibre has no speed."""
    model, switch = ("dgx-b300-spectrum", "SN5600") if ethernet else ("dgx-h100", "QM9700")
    spec = {"name": "t", "nodes": {"gpu": {"model": model, "count": 8}}, **floor}
    network = {"shape": "fat-tree", "switch": switch, "leaves": 2, "spines": 2, "parallel": 2}
    table = bill(topo.parse({**spec, "network": network})).cable_table
    kinds = [kind for kind, *_ in table.rows() if "fibre" not in kind]
    assert kinds
    assert all(("GbE)" in kind) == ethernet for kind in kinds)
