import csv
import io
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import topo
from costmodel.bills import bill
from helpers.clusters import CATALOG, tree, zoned
from helpers.presets import subnets
from helpers.strategies import examples, fabrics
from plan.export.cables import HEADER, cable_rows
from topo.fabric import Fabric
from topo.files.csv import format_csv
from topo.floor.cables import choose_cables
from topo.floor.racks import FloorPlan, place_devices

Rows = list[dict[str, str]]


def read(text: str) -> Rows:
    return list(csv.DictReader(io.StringIO(text)))


def written(*given: Any) -> str:
    return format_csv(HEADER, cable_rows(*given))


def schedule(*subnets: Fabric) -> Rows:
    layout = place_devices(subnets, CATALOG, FloorPlan())
    return read(written(subnets, CATALOG, layout, choose_cables(subnets, layout, CATALOG)))


def ends(rows: Rows) -> list[tuple[str, str]]:
    return [(row[f"{end}_device"], row[f"{end}_port"]) for row in rows for end in "ab"]


def test_the_header_is_the_agreed_one() -> None:
    text = written([tree(4)], CATALOG)
    assert text.splitlines()[0] == (
        "cable_id,a_rack,a_u,a_device,a_port,b_rack,b_u,b_device,b_port,type,part_number,length_m,rate_gbps,bundle,"
        "label_a,label_b,a_port_guid,b_port_guid,role,a_transceiver,b_transceiver"
    )


@pytest.mark.parametrize(("groups", "switches", "links"), [(9, 4, 2), (5, 4, 1)])
def test_cables_between_groups_of_a_dragonfly_are_told_from_those_within(
    groups: int, switches: int, links: int
) -> None:
    """g groups of a switches with h global links each: g a (a - 1) / 2 cables within groups, g a h / 2 between them."""
    network = {"shape": "dragonfly", "switch": "QM8700", "groups": groups, "switches": switches, "hosts": 2}
    nodes = {"gpu": {"model": "pcie-a100", "count": 2 * groups * switches}}
    cluster = topo.parse({"name": "x", "nodes": nodes, "network": {**network, "global_links": links}})
    column = HEADER.index("role")
    found = Counter(str(row[column]) for row in cable_rows(cluster.fabrics, CATALOG))
    assert found == {
        "compute - leaf": 2 * groups * switches,
        "leaf - leaf": groups * switches * (switches - 1) // 2,
        "leaf - leaf between zones": groups * switches * links // 2,
    }


@pytest.mark.slow
def test_fire_flyer_2() -> None:
    rows = schedule(zoned())
    assert len(rows) == 3_200
    assert len(set(ends(rows))) == 2 * 3_200
    assert [row["cable_id"] for row in rows[:2]] == ["C0001", "C0002"]
    assert rows == sorted(rows, key=lambda row: row["cable_id"])
    near = [row["a_device"] for row in rows]
    assert near == sorted(near)
    assert all(row["length_m"] and row["part_number"] and row["rate_gbps"] == "200" for row in rows)
    assert {row["role"] for row in rows} == {"compute - leaf", "storage - leaf", "leaf - spine", "leaf - joint"}
    labels = [label for row in rows for label in (row["label_a"], row["label_b"])]
    assert len(set(labels)) == len(labels)
    for row in rows:
        here, far = row["label_a"].split("/")
        assert row["label_b"] == f"{far}/{here}"
        assert here == f"{row['a_rack']}-{int(row['a_u']):02d}:{row['a_port']}"
    by_bundle: dict[str, set[frozenset[str]]] = {}
    for row in rows:
        assert bool(row["bundle"]) == (row["a_rack"] != row["b_rack"])
        by_bundle.setdefault(row["bundle"], set()).add(frozenset((row["a_rack"], row["b_rack"])))
    apart = [pairs for bundle, pairs in by_bundle.items() if bundle]
    assert all(len(pairs) == 1 for pairs in apart)
    assert len(set().union(*apart)) == len(apart), "each pair of racks has one bundle"


def test_the_legs_of_a_splitter_are_one_cable() -> None:
    rows = schedule(*subnets("slow-subtrees"))
    lines = Counter((row["cable_id"], row["type"].endswith("-splitter")) for row in rows)
    assert {count for (_, splitter), count in lines.items() if splitter} == {2}
    assert {count for (_, splitter), count in lines.items() if not splitter} == {1}


@given(st.lists(fabrics(), min_size=1, max_size=2))
def test_every_port_that_is_plugged_is_one_end_of_one_cable(subnets: list[Fabric]) -> None:
    rows = read(written(subnets, CATALOG))
    guids = sorted(int(row[f"{end}_port_guid"], 16) for row in rows for end in "ab")
    plugged = np.concatenate([fabric.port_guid[fabric.peer >= 0] for fabric in subnets])
    assert guids == sorted(plugged.tolist())
    assert all(row["a_rack"] == row["length_m"] == row["bundle"] == "" for row in rows)


def test_the_backplane_of_a_frame_is_no_cable() -> None:
    assert len(read(written([tree(30, switch="CS8500")], CATALOG))) == 30


def test_same_plan_same_bytes() -> None:
    assert schedule(tree(50)) == schedule(tree(50))


@examples(10)
@given(servers=st.integers(1, 12), levels=st.sampled_from([2, 3]), split=st.booleans())
def test_there_are_as_many_lines_as_fibres_and_cables(servers: int, levels: int, split: bool) -> None:
    """A link of 800 Gb/s over Ethernet is two fibres: two to pull, with a label each, and two in the bill."""
    nodes = {"gpu": {"model": "dgx-b300-spectrum", "count": servers}}
    network = {"shape": "fat-tree", "switch": "SN5610", "levels": levels, "split": split}
    cluster = topo.parse({"name": "x", "nodes": nodes, "network": network, "floor": {"rack_units": 48}})
    rows = read(written(cluster.fabrics, cluster.catalog, cluster.layout, cluster.cablings))
    billed = Counter({line.item: 0 for line in bill(cluster).lines})
    for line in bill(cluster).of("cable", "fibre").lines:
        billed[line.item] += line.count
    pulled = Counter(row["part_number"] for row in {row["cable_id"]: row for row in rows}.values())
    assert pulled == +billed
    labels = [row["label_a"] for row in rows]
    assert len(labels) == len(set(labels))
