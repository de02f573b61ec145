"""What leads from a plan to a fabric or to a larger plan, from Python; `commands/test_diff.py` has the command."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import routing
import topo
from plan.changes import Changes, count_changes, diff, grow
from topo.changes.growth import Growth

LAB = topo.preset("lab-20")


def planes(servers: int) -> topo.Cluster:
    tree = {"switch": "QM9700", "leaves": 2, "spines": 1}
    return topo.parse({
        "name": "pair", "nodes": {"gpu": {"model": "hgx-h800", "count": servers}},
        "network": {"shape": "planes", "planes": 8, "tree": tree},
    })  # fmt: skip


def on_floor(servers: int, floor: dict[str, object]) -> topo.Cluster:
    network = {"shape": "rail", "unit_nodes": 4, "tree": {"switch": "QM9700", "spines": 2, "parallel": 2}}
    nodes = {"gpu": {"model": "dgx-h100", "count": servers}}
    return topo.parse({"name": "x", "nodes": nodes, "network": network, "floor": floor})


def stands_of(cluster: topo.Cluster) -> dict[str, tuple[str, int]]:
    """The place of each device by its name without leading zeros."""
    layout = cluster.layout
    assert layout is not None
    places = zip(layout.devices, layout.rack.tolist(), layout.unit.tolist(), strict=True)
    return {re.sub(r"0+(?=\d)", "", device.name): (layout.rack_name(rack), unit) for device, rack, unit in places}


@pytest.mark.slow
def test_what_stands_elsewhere_is_listed_device_by_device_and_places_of_today_cure_it() -> None:
    """Recounted from the two layouts, in which numbers may have other digits."""
    room = {"rack_units": 24, "racks_per_row": 8}
    old, larger = on_floor(4, room), on_floor(16, room)
    stood, stands = stands_of(old), stands_of(larger)
    moved = {name for name, place in stood.items() if stands[name] != place}
    changes = grow(old, larger)
    rows = [row for table in changes.tables if table.title.startswith("moved") for row in table.rows()]
    assert len(rows) == len(moved) > 0
    assert f"{len(moved)} devices of today stand elsewhere" in " ".join(changes.remarks)
    assert old.layout is not None
    kept = grow(old, on_floor(16, old.layout.pinned.model_dump(mode="json", exclude_unset=True)))
    assert not [table for table in kept.tables if table.title.startswith("moved")]
    assert "0 unplugged" in kept.remarks[0]
    assert "elsewhere" not in " ".join(kept.remarks)


ROOM = {"rack_units": 30, "racks_per_row": 8}
ZONES = {
    "nodes": {"gpu": {"model": "pcie-a100", "count": 12}},
    "network": {"shape": "zones", "zones": 2, "tree": {"switch": "QM8700", "spines": 2, "parallel": 2},
                "joints": {"switch": "QM8700", "count": 1, "ports": 4}},
}  # fmt: skip
MANAGED = {
    "nodes": {"head": {"model": "management-ndr", "count": 2}, "gpu": {"model": "dgx-h100", "count": 8}},
    "network": {"shape": "rail", "unit_nodes": 8, "tree": {"switch": "QM9700", "spines": 2, "parallel": 2}},
    "adapters": {"head": 2},
    "networks": {"mgmt": {"network": {"shape": "fat-tree", "switch": "SN2201", "spine_switch": "SN4600C"},
                          "adapters": {"gpu": 1, "head": 1}, "adapter": "BMC-1GE", "manage": ["switches", "pdus"]}},
}  # fmt: skip


@pytest.mark.parametrize("spec", [ZONES, MANAGED])
def test_pinned_devices_are_themselves_in_all_networks_whatever_their_switches(spec: dict[str, Any]) -> None:
    """Servers change zones and leaves; what stands where it stood under its name does not stand elsewhere."""
    old = topo.parse({"name": "x", **spec, "floor": ROOM})
    assert old.layout is not None
    grown = spec["nodes"] | {"gpu": spec["nodes"]["gpu"] | {"count": 18}}
    pinned = old.layout.pinned.model_dump(mode="json", exclude_unset=True)
    larger = topo.parse({"name": "x", **spec, "nodes": grown, "floor": pinned})
    stood, stands = stands_of(old), stands_of(larger)
    assert all(stands[name] == place for name, place in stood.items())
    changes = grow(old, larger)
    assert not [table for table in changes.tables if table.title.startswith("moved")]
    for growth in changes.growths:
        assert all(re.sub(r"0+(?=\d)", "", new) == re.sub(r"0+(?=\d)", "", was) for new, was in growth.names.items())


@pytest.mark.slow
def test_subnets_grow_in_one_table(tmp_path: Path) -> None:
    changes = grow(planes(4), planes(6), tmp_path / "works")
    assert len(changes.growths) == 8
    assert len(changes.table) == sum(len(growth.works) for growth in changes.growths) == 8 * 2
    assert {row[0] for row in changes.table.rows()} == {growth.grown.name for growth in changes.growths}
    names = {path.name for path in (tmp_path / "works").iterdir()}
    assert names >= {"bought.csv", *(f"works-{growth.grown.name}.csv" for growth in changes.growths)}
    assert "unplugged" in changes.remarks[0]


def test_both_results_are_of_one_kind() -> None:
    compared = diff(LAB.fabric, LAB.fabric.without(LAB.fabric.inner[:1]))
    grown = grow(LAB, LAB)
    for changes, found in ((compared, True), (grown, False)):
        assert isinstance(changes, Changes)
        assert changes.found is found is bool(len(changes.table))
        assert changes.remarks
        assert "<table" in changes._repr_html_()
        assert isinstance(changes.to_dict(), dict)
    assert compared.differences is not None and grown.differences is None
    assert compared.bought is None and grown.bought is not None


def test_a_plan_of_another_fabric_is_told() -> None:
    torus = topo.preset("torus").fabric
    assert any("is this the plan of this fabric?" in line for line in diff(torus, LAB.fabric).remarks)


def test_an_output_is_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_text("precious")
    for verb in (lambda: diff(LAB.fabric, LAB.fabric, tmp_path / "out"), lambda: grow(LAB, LAB, tmp_path / "out")):
        with pytest.raises(topo.HeddleError, match="nothing in it was touched"):
            verb()
    with pytest.raises(topo.HeddleError, match="would replace"):
        diff(LAB.fabric, LAB.fabric, tmp_path / "new", adopt=tmp_path / "new")


@pytest.mark.parametrize("seed", range(3))
def test_entries_are_counted_one_by_one(seed: int) -> None:
    """Also those of LID 1; ports without a LID have no entries."""
    rng, before = np.random.default_rng(seed), routing.route(LAB.fabric)
    tables, fabric = before.tables, before.fabric
    lft = tables.lft.copy()
    lft[:, 1] ^= 1
    lft[rng.random(lft.shape) < 0.1] ^= 1
    after = replace(before, tables=replace(tables, lft=lft))
    growth = Growth(fabric, fabric, np.arange(fabric.n_nodes, dtype=np.int32), (), 0)
    lids = [lid for lid in tables.lid.tolist() if lid > 0]
    assert 1 in lids
    unlike = [[lft[switch, lid] != tables.lft[switch, lid] for lid in lids] for switch in range(fabric.n_switches)]
    counted = sum(map(any, unlike)), fabric.n_switches, sum(map(sum, unlike)), fabric.n_switches * len(lids)
    assert count_changes(growth, before, after) == counted
