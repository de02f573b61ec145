"""NVIDIA's component tables of DGX SuperPODs, row by row, against what the compiler and the cabling make of the same.

Sources, docs.nvidia.com/dgx-superpod, read in 2026-11: reference architectures of DGX H100 (Network Fabrics, table 4),
DGX B200 (Architecture, larger SuperPOD component counts), DGX B300 with XDR InfiniBand (Architecture, table 3) and DGX
B300 with Spectrum-4 (Architecture, table 3). Rows of out-of-band management: that of a DGX BasePOD of eight DGX H100
as a third party's note has it (2025-04-21); that of the DGX H100 SuperPOD (RA-11333-001, table 7) is recalled.
"""

import pytest

import topo
from costmodel.bills import bill

H100 = {  # units: nodes, GPUs, leaves, spines, cables of nodes and UFM, cables between switches
    1: (31, 248, 8, 4, 252, 256),
    2: (63, 504, 16, 8, 508, 512),
    3: (95, 760, 24, 16, 764, 768),
    4: (127, 1016, 32, 16, 1020, 1024),
}
B200 = {  # units: nodes, GPUs, leaves, spines, cores, cables node - leaf, leaf - spine, spine - core
    2: (64, 512, 16, 8, 0, 512, 512, 0),
    4: (128, 1024, 32, 16, 0, 1024, 1024, 0),
    8: (256, 2048, 64, 32, 0, 2048, 2048, 0),
    16: (512, 4096, 128, 128, 64, 4096, 4096, 4096),
    32: (1024, 8192, 256, 256, 128, 8192, 8192, 8192),
    64: (2048, 16384, 512, 512, 256, 16384, 16384, 16384),
}
B300_XDR = {  # units: nodes, GPUs, leaves, spines, cables node - leaf, leaf - spine
    1: (72, 576, 8, 4, 576, 576),
    2: (144, 1152, 16, 8, 1152, 1152),
    4: (288, 2304, 32, 18, 2304, 2304),
    8: (576, 4608, 64, 36, 4608, 4608),
    18: (1296, 9216, 144, 72, 10368, 10368),
}


def superpod(model: str, count: int, unit: int, tree: dict[str, object], **more: object) -> topo.Cluster:
    nodes = {"gpu": {"model": model, "count": count}} | {k: v for k, v in more.items() if k != "floor"}
    room = {"floor": more["floor"]} if "floor" in more else {}
    network = {"shape": "rail", "unit_nodes": unit, "tree": tree}
    return topo.parse({"name": "pod", "nodes": nodes, "network": network, **room})


@pytest.mark.slow
@pytest.mark.parametrize("units", H100)
def test_dgx_h100(units: int) -> None:
    """One node of the last unit makes room for two UFM appliances with two ports each."""
    nodes, gpus, leaves, spines, to_nodes, between = H100[units]
    ufm = {"model": "ufm-appliance", "count": 2}
    cluster = superpod("dgx-h100", nodes, 32, {"switch": "QM9790"}, ufm=ufm, floor={"rack_units": 48})
    counts = cluster.counts
    assert (counts.gpus, counts.leaf, counts.spine) == (gpus, leaves, spines)
    assert (counts.host_ports, counts.links - counts.host_ports) == (to_nodes, between)
    parts = bill(cluster)
    optics = {place: sum(line.count for line in parts.of("optic").lines if line.place == place) for place in
              ("compute", "management", "leaf", "spine")}  # fmt: skip
    assert optics["compute"] == nodes * 4, "a transceiver for two adapters"
    assert optics["management"] == 4
    twins = sum(line.count for line in parts.of("cable").lines)  # copper, where switches stand near
    # The cages of a leaf's 32 ports down hold two links each, but its ports for UFM and absent nodes may be odd.
    full = (to_nodes + between) // 2 + between // 2
    assert 0 <= optics["leaf"] + optics["spine"] + 2 * twins - full <= 4


@pytest.mark.parametrize("units", [pytest.param(u, marks=pytest.mark.slow) if u > 8 else u for u in B200])
def test_dgx_b200(units: int) -> None:
    nodes, gpus, leaves, spines, cores, to_nodes, to_spines, to_cores = B200[units]
    tree = {"switch": "QM9700", "levels": 3} if cores else {"switch": "QM9700"}
    counts = superpod("dgx-b200", nodes, 32, tree).counts
    assert (counts.gpus, counts.leaf, counts.spine, counts.core) == (gpus, leaves, spines, cores)
    assert (counts.host_ports, counts.links) == (to_nodes, to_nodes + to_spines + to_cores)


@pytest.mark.parametrize("units", [pytest.param(u, marks=pytest.mark.slow) if u > 8 else u for u in B300_XDR])
def test_dgx_b300_on_xdr(units: int) -> None:
    nodes, gpus, leaves, spines, to_nodes, between = B300_XDR[units]
    counts = superpod("dgx-b300", nodes, 72, {"switch": "Q3400"}).counts
    assert (counts.leaf, counts.spine) == (leaves, spines)
    assert (counts.host_ports, counts.links - counts.host_ports) == (to_nodes, between)
    # NVIDIA prints 9,216 GPUs for 1,296 nodes, which have 10,368, as many as it prints cables: a slip of the table.
    assert counts.gpus == (gpus if units < 18 else 10_368)


@pytest.mark.parametrize(("units", "nodes", "leaves", "spines"), [(1, 64, 16, 8), (2, 128, 32, 16), (4, 256, 64, 32)])
@pytest.mark.slow
def test_dgx_b300_on_spectrum(units: int, nodes: int, leaves: int, spines: int) -> None:
    """The table goes on to 16 units on two levels, in two planes of 400G over 128 ports: see the next test."""
    counts = superpod("dgx-b300-spectrum", nodes, 32, {"switch": "SN5600"}).counts
    assert (counts.leaf, counts.spine, counts.host_ports) == (leaves, spines, 8 * nodes)
    assert counts.links == 2 * 8 * nodes
    with pytest.raises(topo.DesignError, match="a spine of 64 ports reaches at most 64"):
        _ = superpod("dgx-b300-spectrum", 512, 32, {"switch": "SN5600"}).fabrics


@pytest.mark.parametrize(("nodes", "leaves", "spines"), [(64, 16, 8), (256, 64, 32), (512, 128, 64)])
def test_dgx_b300_in_two_planes(nodes: int, leaves: int, spines: int) -> None:
    """Twin-planar, as NVIDIA builds it: two links of 400G for each GPU, which its table counts as one cable of 800G."""
    tree = {"switch": "SN5600", "split": True}
    gpu = {"model": "dgx-b300-planes", "count": nodes}
    network = {"shape": "rail", "planes": 2, "unit_nodes": 64, "tree": tree}
    counts = topo.parse({"name": "pod", "nodes": {"gpu": gpu}, "network": network}).counts
    assert (counts.leaf, counts.spine, counts.gpus) == (leaves, spines, 8 * nodes)
    assert (counts.host_ports, counts.links - counts.host_ports) == (2 * 8 * nodes, 2 * 8 * nodes)


def out_of_band(nodes: int, others: int, **tree: object) -> topo.Cluster:
    groups = {"gpu": {"model": "dgx-h100", "count": nodes}, "port": {"model": "management-ndr", "count": others}}
    fabric = {"shape": "fat-tree", "switch": "SN2201"} | tree
    network = {"network": fabric, "adapters": {"gpu": 1, "port": 1}, "adapter": "BMC-1GE"}
    compute = {"shape": "rail", "unit_nodes": 32, "tree": {"switch": "QM9700"}}
    return topo.parse({"name": "pod", "nodes": groups, "network": compute, "networks": {"oob": network}})


def test_out_of_band_management_of_a_basepod() -> None:
    """NVIDIA lists two SN2201 and 45 cables of category 6 for eight servers: one switch has as many ports."""
    cluster = out_of_band(8, 37, spine_switch="SN4600C", leaves=2, spines=2, parallel=1)
    parts = bill(cluster)
    assert sum(line.count for line in parts.lines if line.item == "SN2201") == 2
    assert sum(line.count for line in parts.lines if line.item == "1xGE") == 45
    assert out_of_band(8, 37).fabrics[-1].n_switches == 1


def test_out_of_band_management_of_a_superpod() -> None:
    """NVIDIA lists eight SN2201, each with two links of 100G into the in-band spines, which are no switches of ours.

    127 servers, 64 switches of InfiniBand and eight of in-band management, four UFM appliances, five servers of
    management, and two power distribution units in each of 38 racks: six would have ports enough.
    """
    others = 64 + 8 + 4 + 5 + 2 * 38
    cluster = out_of_band(127, others, spine_switch="SN4600C", leaves=8, spines=2, parallel=1)
    (leaf, spine) = topo.count_ports(cluster.fabrics[-1:], cluster.catalog).classes
    assert (leaf.switches, leaf.down, leaf.up) == (8, 127 + others, 16)
    assert (spine.switches, spine.down) == (2, 16)
    least = out_of_band(127, others, spine_switch="SN4600C", spines=2, parallel=1)
    assert topo.count_ports(least.fabrics[-1:], least.catalog).classes[0].switches == 6
