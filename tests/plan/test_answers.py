"""What a planner asks of small specs, each answer counted again: cables, rows, racks, networks, power, adapters."""

import csv
import io
import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import plan
import topo
from helpers.strategies import examples
from plan.export.cables import rows_of
from plan.export.netbox import netbox_files
from plan.pipeline import Plan
from plan.render.views import facts


def checked(nodes: dict[str, tuple[str, int]], network: dict[str, object], **more: object) -> Plan:
    groups = {name: {"model": model, "count": count} for name, (model, count) in nodes.items()}
    return plan.check(topo.parse({"name": "x", "nodes": groups, "network": network, **more}))


@examples(6)
@given(gpus=st.integers(2, 11), heads=st.integers(1, 3), levels=st.sampled_from([2, 3]))
def test_links_of_two_fibres_are_as_many_rows_as_the_bill_has_cables(gpus: int, heads: int, levels: int) -> None:
    """An 800G link has two fibres or one copper cable, one of 400G one cable; NetBox allows an interface one cable."""
    tree = {"shape": "fat-tree", "switch": "SN5600", "levels": levels, "leaves": 3}
    nodes = {"gpu": ("dgx-b300-spectrum", gpus), "head": ("management-ndr", heads)}
    found = checked(nodes, tree, floor={"racks_per_row": 6})
    cluster = found.cluster
    assert cluster is not None and cluster.layout is not None and found.bill is not None
    (fabric,) = cluster.fabrics
    (cabling,) = found.cablings or ()
    fibre = np.array([cabling.parts[part].kind.startswith("fibre") for part in cabling.part.tolist()])
    cables = len(fabric.links) + int((fibre & (fabric.rate_gbps[fabric.links].min(axis=1) > 400)).sum())
    assert sum(found.bill.cable_table.columns[-1].values) == cables
    assert len(list(rows_of(found))) == cables
    files = netbox_files(cluster.fabrics, cluster.catalog, "x", cluster.layout, cluster.cablings)
    assert len(list(csv.DictReader(io.StringIO(files["cables.csv"])))) == len(fabric.links)


@examples(10)
@given(gpus=st.integers(8, 120), rows=st.integers(1, 4), per_row=st.sampled_from([None, 40]))
def test_racks_stand_in_as_many_rows_as_the_room_has(gpus: int, rows: int, per_row: int | None) -> None:
    room = {"rows": rows} | ({"racks_per_row": per_row} if per_row else {})
    layout = checked({"gpu": ("dgx-h100", gpus)}, {"shape": "fat-tree", "switch": "QM9790"}, floor=room).layout
    assert layout is not None
    # Equal rows, each as long as the first, so that the last ones may stay empty where racks are few.
    long = -(-layout.n_racks // rows)
    assert len(set(layout.row.tolist())) == -(-layout.n_racks // long)
    assert (
        max(Counter(row for row, _ in {*zip(layout.row.tolist(), layout.column.tolist(), strict=True)}).values())
        == long
    )


@pytest.mark.parametrize(
    ("key", "verdict"), [("power", topo.Verdict.CANNOT_TELL), ("typical_power", topo.Verdict.HOLDS)]
)
def test_a_limit_of_power_holds_for_what_it_limits(key: str, verdict: topo.Verdict) -> None:
    """The maximum of these servers is unknown, their typical power is known."""
    tree = {"shape": "fat-tree", "switch": "QM8700"}
    assert checked({"gpu": ("pcie-a100", 9)}, tree, budget={key: "90 kW"}).verdict is verdict


@examples(6)
@given(stores=st.integers(1, 12), limit=st.booleans())
def test_servers_of_unknown_power_make_racks_at_most_and_the_row_names_them(stores: int, limit: bool) -> None:
    floor = {"rack_units": 48, **({"rack_power": "40 kW"} if limit else {})}
    nodes = {"gpu": ("dgx-h100", 3), "store": ("storage-ndr", stores)}
    found = checked(nodes, {"shape": "fat-tree", "switch": "QM9700", "leaves": 2}, floor=floor)
    racks = dict(facts(found))["racks"]
    assert (f"power of {stores} x storage-ndr is unknown" in racks) == racks.startswith("at most") == limit
    assert str(found.layout and found.layout.n_racks) in racks


@examples(6)
@given(ratio=st.sampled_from([1, 2, 3, 7]), stores=st.integers(12, 30), zones=st.booleans())
def test_each_network_has_its_own_zones_and_taper(ratio: int, stores: int, zones: bool) -> None:
    """Ports down and up of every leaf are counted link by link; only what has zones is said to have them."""
    tree = {"switch": "QM8700"}
    joined = {"shape": "zones", "zones": 2, "tree": tree, "joints": {"switch": "QM8700", "count": 2, "ports": 8}}
    beside = {"network": {"shape": "fat-tree", "oversubscription": ratio, **tree}, "adapters": {"gpu": 1, "store": 1}}
    own = joined if zones else {"shape": "fat-tree", **tree}
    found = checked({"gpu": ("dgx-a100", 30), "store": ("storage-3fs", stores)}, own, networks={"side": beside})
    rows = {name.removeprefix("network "): text for name, text in facts(found) if name.startswith("network ")}
    assert set(rows) == {"x", "x-side"}
    assert [("in 2 zones" in rows[name]) for name in ("x", "x-side")] == [zones, False]
    for fabric in found.fabrics:
        leaf = fabric.role == topo.Role.LEAF
        of_leaves = fabric.links[leaf[fabric.port_node[fabric.links]].any(axis=1)]
        between = (fabric.port_node[of_leaves] < fabric.n_switches).all(axis=1)
        joints = (fabric.role[fabric.port_node[of_leaves]] == topo.Role.JOINT).any(axis=1)
        down, up = int((~between).sum()), int((between & ~joints).sum())
        said = re.search(
            r"taper ([\d.]+) \((?:more up than down, )?(?:the fullest of )?(\d+) leaf QM8700: "
            r"([\d,]+) ports down, ([\d,]+) up",
            rows[fabric.name],
        )
        assert said is not None, rows[fabric.name]
        sends, above = (np.bincount(fabric.port_node[of_leaves[mine]].min(axis=1), minlength=fabric.n_nodes)
                        for mine in (~between, between & ~joints))  # fmt: skip
        fullest, mean = (sends[above > 0] / above[above > 0]).max(), down / up
        taper, leaves, *ports = (float(text.replace(",", "")) for text in said.groups())
        assert leaves == leaf.sum() and ("more up than down" in said[0]) == (fullest < 1)
        assert (ports[0], taper) == (down, pytest.approx(fullest, rel=5e-3))
        assert ("the fullest of" in said[0]) == (fullest > mean * 1.0001)
        assert ports[1] - up in (0, int(joints.sum()))
        assert f"{len(fabric.links):,} links" in rows[fabric.name]


@examples(8)
@given(gpus=st.integers(4, 24), stores=st.integers(2, 8), rail=st.booleans(), own=st.booleans())
def test_no_switch_has_all_adapters_of_a_server(gpus: int, stores: int, rail: bool, own: bool) -> None:
    """Two adapters of a server hang apart wherever there is a second leaf, and the first line says what that is for."""
    tree = {"switch": "QM9700"} if rail else {"switch": "QM9700", "leaves": 2}
    beside = {"shape": "rail", "unit_nodes": 32, "tree": tree} if rail else {"shape": "fat-tree", **tree}
    network = {"network": beside, "adapters": {"gpu": 2, "store": 2}}
    compute = {"shape": "rail", "unit_nodes": 8, "tree": {"switch": "QM9700"}}
    found = checked({"gpu": ("dgx-h100", gpus), "store": ("storage-ndr", stores)}, compute, networks={"side": network})
    side = found.fabrics[-1]
    on: dict[int, set[int]] = {}
    for end, switch in zip(side.ends().tolist(), side.end_switch[side.ends()].tolist(), strict=True):
        on.setdefault(side.server_of(int(side.port_node[side.port_of(np.array([end]))[0]])), set()).add(switch)
    assert len(on) == gpus + stores
    assert {len(switches) for switches in on.values()} == {2}


@pytest.mark.parametrize(("parallel", "share"), [(None, 1.0), (4, 1.0), (2, 0.5)])
def test_fewer_cables_to_the_spines_are_seen_in_the_bisection(parallel: int | None, share: float) -> None:
    """What servers need is the default; with half of those cables a half of all servers gets half of its rate."""
    stated = {} if parallel is None else {"spines": 4, "parallel": parallel}
    rails = {"shape": "rail", "unit_nodes": 16, "tree": {"switch": "QM9700", **stated}}
    found = checked({"gpu": ("dgx-h100", 32)}, rails)
    assert found.bisection is not None and found.bisection.gbps
    # Between the leaves of a rail in two units; within a leaf nothing goes up.
    (fabric,) = found.fabrics
    leaf = int(fabric.end_switch[fabric.ends()][0])
    at = fabric.port_node[fabric.links]
    up = int(((at == leaf).any(axis=1) & (at < fabric.n_switches).all(axis=1)).sum())
    assert up == 16 * share
    assert found.bisection.text.startswith(f"{share:.1%}")


def test_a_frame_on_top_is_billed_once_for_all_its_chips() -> None:
    tree = {"shape": "fat-tree", "switch": "QM8700", "spine_switch": "CS8500"}
    found = checked({"gpu": ("pcie-a100", 130)}, tree)
    assert found.cluster is not None and found.bill is not None
    model = found.cluster.catalog.switch("CS8500")
    frames = sum(line.count for line in found.bill.lines if line.item == "CS8500")
    roles = Counter(found.fabrics[0].role[: found.fabrics[0].n_switches].tolist())
    assert (roles[topo.Role.SPINE], roles[topo.Role.CORE]) == (frames * model.leaf_chips, frames * model.spine_chips)


@pytest.mark.parametrize(("stand_ins", "manage"), [("apart", False), ("apart", True), ("together", False)])
def test_a_rack_for_one_switch_is_said(stand_ins: str, manage: bool) -> None:
    """Power distribution units behind it are no devices beside it."""
    tree = {"shape": "fat-tree", "switch": "QM9700", "leaves": 9, "spines": 2, "parallel": 4}
    floor = {"rows": 2, "rack_power": "44 kW", "switches": "middle", "stand_ins": stand_ins}
    oob = {"network": {"shape": "fat-tree", "switch": "SN2201", "spine_switch": "SN4600C"},
           "adapters": {"gpu": 1}, "adapter": "BMC-1GE", "manage": ["pdus"]}  # fmt: skip
    more = {"networks": {"oob": oob}} if manage else {}
    found = checked({"gpu": ("dgx-h100", 16)}, tree, floor=floor, **more)
    layout = found.layout
    assert layout is not None
    on = Counter(layout.rack[[device.rack_units > 0 for device in layout.devices]].tolist())
    single = {
        layout.rack_name(rack)
        for fabric, device in zip(found.fabrics, layout.node_device, strict=True)
        for rack in layout.rack[device[: fabric.n_switches]].tolist()
        if on[rack] == 1
    }
    row = dict(facts(found))["racks"]
    said = re.search(r"alone is in ([\w-]+)", row)
    assert ({said[1]} if said else set()) == single
    assert bool(single) == (stand_ins == "apart")
    keys = dict(re.findall(r"`floor\.([\w.]+): ([\w-]+)`", row))
    if per_row := int(keys.pop("racks_per_row", 0)):
        fixed = {"racks_per_row": per_row, "fixed": {key.removeprefix("fixed."): rack for key, rack in keys.items()}}
        moved = checked({"gpu": ("dgx-h100", 16)}, tree, floor=floor | fixed, **more)
        assert moved.layout is not None
        assert moved.layout.n_racks < layout.n_racks
        assert moved.losses is not None and found.losses is not None
        assert moved.losses.worst_of("rack").beyond <= found.losses.worst_of("rack").beyond
        before, after = (
            {one.name: of.rack_name(int(of.rack[at])) for at, one in enumerate(of.devices) if one.rack_units}
            for of in (layout, moved.layout)
        )
        elsewhere = {name for name, rack in before.items() if after[name] != rack} - {*fixed["fixed"]}
        assert f"({topo.plural(len(elsewhere), 'other device')} in other racks" in row
