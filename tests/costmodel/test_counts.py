import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.bills import make_bill
from helpers.clusters import tree, zoned
from helpers.strategies import fabrics
from topo.catalog.load import Catalog
from topo.counts import count
from topo.fabric import Fabric, Kind
from topo.shapes.fat_tree import FatTree, TreeSize


@pytest.mark.parametrize("placement", ["border", "spread"])
def test_fire_flyer_2(placement: str, catalog: Catalog) -> None:
    counts = count([zoned(placement)], catalog)
    # 122 = 2 zones x (40 leaf + 20 spine) + 2 joints: boxes, or the chips of two 800-port frames and two boxes.
    assert (counts.switches, counts.leaf, counts.spine, counts.core, counts.joint) == (122, 80, 40, 0, 2)
    frame = catalog.switch("CS8500")
    assert counts.switches == 2 * frame.chips + counts.joint
    assert (frame.leaf_chips, frame.spine_chips) == (counts.leaf // 2, counts.spine // 2)
    assert (counts.gpu_nodes, counts.gpus, counts.storage_nodes) == (1_200, 9_600, 180)
    assert counts.host_ports == 1_560
    assert counts.links == 1_560 + 2 * 40 * 20 + 2 * 20


@given(st.lists(fabrics(), min_size=1, max_size=3))
def test_every_port_of_the_fabric_is_an_end_of_exactly_one_cable(catalog: Catalog, subnets: list[Fabric]) -> None:
    bill = make_bill(subnets, catalog)
    plugged = sum(int(np.count_nonzero(fabric.peer >= 0)) for fabric in subnets)
    assert 2 * bill.count("cable") == plugged
    assert bill.count("switch") == sum(fabric.n_switches for fabric in subnets)
    assert bill.count("adapter") == sum(int(np.count_nonzero(fabric.kind == Kind.HCA)) for fabric in subnets)
    assert bill.count("node") == len({host for fabric in subnets for host in fabric.hosts})
    assert all(line.count > 0 for line in bill.lines)
    assert len({(line.kind, line.item, line.place) for line in bill.lines}) == len(bill.lines)


def test_a_server_on_several_planes_is_one_server(catalog: Catalog) -> None:
    plane = tree(20)
    counts = count([plane, plane], catalog)
    assert (counts.gpu_nodes, counts.gpus, counts.host_ports) == (20, 160, 40)


def fitted(shape: FatTree, hosts: int, catalog: Catalog) -> TreeSize:
    """The size for hosts of 200 Gb/s that are spread evenly over the leaves."""
    full = shape.size(hosts, catalog)
    return shape.for_load(full, -(-hosts // full.leaves) * 200.0, catalog)


def test_closed_forms_count_what_the_compiler_builds(catalog: Catalog) -> None:
    shape = FatTree(switch="QM8700", levels=2)
    for hosts in (1, 19, 20, 21, 399, 400, 401, 799, 800):
        size, built = fitted(shape, hosts, catalog), count([tree(hosts, levels=2)], catalog)
        assert (size.leaves, size.spines, hosts + size.switch_links) == (built.leaf, built.spine, built.links)
    zone = FatTree(switch="QM8700", leaves=40, spines=20)
    size, built = zone.size(780 + 20, catalog), count([zoned()], catalog)
    assert (2 * size.leaves, 2 * size.spines, 2 * size.switches + 2) == (built.leaf, built.spine, built.switches)
    assert 2 * (780 + size.switch_links + 20) == built.links


@pytest.mark.parametrize("radix", [36, 40, 64])
def test_full_trees_of_three_levels(radix: int, catalog: Catalog) -> None:
    model = {36: "SB7800", 40: "QM8700", 64: "QM9700"}[radix]
    size = FatTree(switch=model, levels=3).size(radix**3 // 4, catalog)
    assert size.switches == 5 * radix**2 // 4
    assert size.switch_links == radix**3 // 2


@pytest.mark.parametrize("hosts", [1, 800, 1_000, 1_600])
def test_trees_of_three_levels_count_what_the_compiler_builds(hosts: int, catalog: Catalog) -> None:
    size = fitted(FatTree(switch="QM8700", levels=3), hosts, catalog)
    built = count([tree(hosts, levels=3)], catalog)
    assert (size.leaves, size.spines, size.cores) == (built.leaf, built.spine, built.core)
    assert hosts + size.switch_links == built.links


def test_a_frame_is_one_part_and_its_backplane_no_cables(catalog: Catalog) -> None:
    frames = [tree(800, switch="CS8500")]
    boxes = [tree(800, leaves=40, spines=20)]
    in_frame, in_boxes = count(frames, catalog), count(boxes, catalog)
    cables = [make_bill(fabrics, catalog).count("cable") for fabrics in (frames, boxes)]
    assert (in_frame.switches, in_frame.links) == (in_boxes.switches, in_boxes.links) == (60, 1_600)
    assert cables == [800, 1_600]
    assert [(line.item, line.count, line.place) for line in make_bill(frames, catalog).of("switch").lines] == [
        ("CS8500", 1, "frame")
    ]
