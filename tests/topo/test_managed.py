"""Management ports of switches and of power distribution units: where each stands, and that none is a server."""

import csv
import io
from collections import Counter
from pathlib import Path

import numpy as np
import openpyxl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import topo
from costmodel.bills import bill
from helpers import recount
from helpers.strategies import examples
from plan.export.p2p import format_p2p_xlsx
from plan.export.registry import EXPORTS
from plan.pipeline import DESIGN, Plan, run_passes
from topo.drawing.floor import _shades
from topo.dumps.lldp import parse_lldp
from topo.fabric import Kind

NODES = {
    "gpu": {"model": "dgx-h100", "count": 12},
    "st": {"model": "storage-ndr", "count": 4},
    "head": {"model": "management-ndr", "count": 2},
}
OOB = {"shape": "fat-tree", "switch": "SN2201", "spine_switch": "SN4600C"}


def cluster(manage: list[str], *, servers: int = 12, switch: str = "QM9700", **floor: object) -> topo.Cluster:
    """Servers on rails, with storage and out-of-band management that has one port of each."""
    nodes = NODES | {"gpu": {"model": "dgx-h100", "count": servers}}
    oob = {"network": OOB, "adapters": dict.fromkeys(nodes, 1), "adapter": "BMC-1GE"}
    storage = {"network": {"shape": "fat-tree", "switch": "QM9700"}, "adapters": {"gpu": 2, "st": 2, "head": 2}}
    spec = {"name": "pod", "nodes": nodes, "network": {"shape": "rail", "unit_nodes": 8, "tree": {"switch": switch}},
            "networks": {"oob": oob | ({"manage": manage} if manage else {}), "storage": storage},
            "floor": {"rack_units": 48, **floor}}  # fmt: skip
    return topo.parse(spec)


def lines(found: topo.Cluster) -> list[dict[str, str]]:
    """The cable list."""
    text = EXPORTS["cables"].make(run_passes(Plan("pod", found), DESIGN))["cables.csv"]
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.slow
@examples(8)
@given(
    st.lists(st.sampled_from(["switches", "pdus"]), unique=True, min_size=1), st.integers(6, 40), st.integers(1, 3),
    st.sampled_from(["servers", "middle", "end"]), st.sampled_from(["QM9700", "QM9790"]),
)  # fmt: skip
def test_every_device_has_one_port_where_it_stands_and_none_is_a_server(manage, servers, feeds, switches, model):
    floor = {"feeds": {"count": feeds, "power": "60 kW", "spare": 0}, "switches": switches}
    found, without = (cluster(keys, servers=servers, switch=model, **floor) for keys in (manage, []))
    layout, (*others, oob) = found.layout, found.fabrics
    rows = lines(found)
    at = {row["a_device"]: row for row in rows if row["a_port"] == "mgmt"}
    racks = {layout.rack_name(rack) for rack in range(layout.n_racks)}
    unmanaged = {"QM9790"}
    told = {fabric.label(node): fabric.model_of(node) for fabric in others for node in range(fabric.n_switches)}
    wanted = {name for name, model in told.items() if model not in unmanaged} if "switches" in manage else set()
    if "pdus" in manage:
        wanted |= {f"{rack}-pdu{number}" for rack in racks for number in range(1, feeds + 1)}
    assert {*at} == wanted and Counter(row["a_port"] for row in rows)["mgmt"] == len(wanted)
    stands = {device.name: layout.rack_name(int(layout.rack[number])) for number, device in enumerate(layout.devices)}
    for name, row in at.items():
        assert row["a_rack"] == (name.rpartition("-")[0] if "-pdu" in name else stands[name])
        assert row["b_device"].startswith("oob-leaf"), "on its own network, and not on itself"
    assert len({row["label_a"] for row in rows}) == len(rows), "no two labels are alike"
    assert sum(line.count for line in bill(found).lines if line.item == "pdu") == feeds * layout.n_racks

    now, then = (one.counts for one in (found, without))
    for what in ("gpu_nodes", "gpus", "storage_nodes", "management_nodes", "host_ports"):
        assert getattr(now, what) == getattr(then, what), what
    assert np.count_nonzero(oob.kind == Kind.DEVICE) == len(wanted)
    assert bill(found).count("node") == bill(without).count("node")
    assert bill(found).count("adapter") == bill(without).count("adapter")
    pairs, before = (topo.Reach(one.fabrics) for one in (found, without))
    assert pairs.names == before.names and pairs.whole.pairs == before.whole.pairs
    models = {device.name: device.model for device in layout.devices}
    assert not recount.faults(rows, models)
    losses = topo.find_losses(found.fabrics, found.catalog, layout)
    for loss in losses.worst:
        named = {*topo.expand(loss.cut)} if loss.cut else set()
        assert named <= {*pairs.names}


def test_a_switch_keeps_its_colour_where_its_port_is_managed() -> None:
    """Each device is coloured as without `manage`."""
    keys = {"rack_power": "44 kW", "switches": "middle", "rows": 2, "feeds": {"count": 2, "power": "44 kW"}}
    shades = []
    for manage in ([], ["switches", "pdus"]):
        found = cluster(manage, servers=16, **keys)
        colours = _shades(found.fabrics, found.layout).tolist()
        names = [device.name for device in found.layout.devices]
        shades.append({name: shade for name, shade in zip(names, colours, strict=True) if "-pdu" not in name})
    assert shades[0].items() <= shades[1].items()


def test_one_network_manages_and_pdus_need_racks() -> None:
    with pytest.raises(topo.SpecError, match="`manage` in one network"):
        spec = cluster(["switches"]).spec.model_dump(mode="json", exclude_unset=True)
        spec["networks"]["storage"]["manage"] = ["pdus"]
        topo.parse(spec)
    found = cluster(["pdus"])
    with pytest.raises(topo.DesignError, match="give a `floor`"):
        _ = topo.Cluster(found.spec.model_copy(update={"floor": None}), found.catalog).fabrics


def test_places_of_pdus_are_not_to_be_fixed_and_a_fabric_file_keeps_them(tmp_path: Path) -> None:
    found = cluster(["switches", "pdus"])
    fixed = found.layout.pinned.fixed
    assert not any("pdu" in name for name in fixed) and "leaf0" in {name.rstrip("0") + "0" for name in fixed}
    again = topo.Cluster(found.spec.model_copy(update={"floor": found.layout.pinned}), found.catalog)
    assert again.layout.pdu_names == found.layout.pdu_names
    (tmp_path / "fabric.json").write_text(topo.format_fabric(found.fabrics[-1]))
    assert (topo.read_fabric(tmp_path / "fabric.json").kind == found.fabrics[-1].kind).all()


def test_what_neighbours_say_is_as_planned_and_an_unplugged_device_is_missing() -> None:
    """LLDP sees the port of a device as that of a host; all cables are found, and one that is out is named."""
    found = cluster(["switches", "pdus"])
    oob = found.fabrics[-1]
    labels = topo.panels(found.fabrics, found.catalog)[-1].labels
    seen = parse_lldp(topo.format_lldp(oob, labels)).fabric
    assert not topo.find_differences(oob, seen).found
    port = int(oob.port_offset[int(np.flatnonzero(oob.kind == Kind.DEVICE)[0])])
    told = parse_lldp(topo.format_lldp(oob.without(np.array([port])), labels)).fabric
    ((difference),) = topo.find_differences(oob, told).found
    assert oob.names[int(oob.port_node[port])] in str(difference)


def test_the_sheet_for_ufm_has_no_ports_of_devices() -> None:
    found = cluster(["switches", "pdus"])
    devices = sum(int(np.count_nonzero(fabric.kind == Kind.DEVICE)) for fabric in found.fabrics)
    book = openpyxl.load_workbook(io.BytesIO(format_p2p_xlsx("pod", found.fabrics, found.catalog, found.layout)))
    rows = [row for sheet in book.worksheets for row in sheet.iter_rows(min_row=2, values_only=True) if row[2]]
    assert devices and len(rows) == sum(len(fabric.links) for fabric in found.fabrics) - devices
