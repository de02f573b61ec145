"""Sixty clusters that nobody drew: six servers x five networks x storage or none, half of them in racks.

What the design gives is held to laws that its files alone show, and the bill is counted again from the cable list.
"""

import csv
import io
from collections import Counter

import pytest
from ruamel.yaml import YAML

import topo
from helpers import recount
from helpers.matrix import CLUSTERS, spec
from plan.export.registry import EXPORTS
from plan.pipeline import DESIGN, Plan, run_passes

CASES = [
    pytest.param(*case, turn, id="-".join([case[0], case[1].replace(" ", "-"), "storage" * case[2]]), marks=[
        pytest.mark.slow] if turn % 5 else [])
    for turn, case in enumerate(CLUSTERS)
]  # fmt: skip


def test_there_are_sixty_clusters_and_half_have_a_floor() -> None:
    assert len(CASES) == 60


@pytest.mark.slow
@pytest.mark.parametrize(("model", "network", "storage", "turn"), CASES)
def test_cables_fit_and_the_bill_is_that_of_the_cable_list(model: str, network: str, storage: bool, turn: int) -> None:
    floor = bool((turn + turn // 2) % 2)
    cluster = topo.parse(spec(model, network, storage, floor, turn))
    plan = run_passes(Plan(cluster.name, cluster), DESIGN)
    files = {
        name: text for export in ("bom-csv", "cables", "netbox") for name, text in EXPORTS[export].make(plan).items()
    }
    rows = list(csv.DictReader(io.StringIO(files["cables.csv"])))
    models = {
        fabric.hosts[fabric.host[node]] if fabric.host[node] >= 0 else fabric.label(node): fabric.models[
            fabric.host_model[fabric.host[node]] if fabric.host[node] >= 0 else fabric.model[node]
        ]
        for fabric in cluster.fabrics
        for node in range(fabric.n_nodes)
    }
    switches = Counter(fabric.label(node) for fabric in cluster.fabrics for node in range(fabric.n_switches))
    servers = {name for fabric in cluster.fabrics for name in fabric.hosts}

    assert max(switches.values()) == 1 and not set(switches) & servers, "names are unique"
    assert len(rows) == sum(len(fabric.links) for fabric in cluster.fabrics)
    assert not (recount.faults(rows, models) if floor else [])
    bill = Counter[str]()
    for row in csv.DictReader(io.StringIO(files["bom.csv"])):
        if row["kind"] in ("cable", "fibre", "optic"):
            bill[row["item"].split(", ")[0] if row["kind"] == "cable" else row["item"]] += int(row["count"])
    if floor:
        assert recount.parts(rows, models) == bill
    else:
        assert len(rows) == bill.total()
    check_netbox(files, set(switches) | servers, rows)


def check_netbox(files: dict[str, str], devices: set[str], rows: list[dict[str, str]]) -> None:
    """Every device is there, and each interface that a cable ends in is one of its device's type, once."""
    table = {
        name: list(csv.DictReader(io.StringIO(files[f"exports/netbox/{name}.csv"]))) for name in ("devices", "cables")
    }
    types = [YAML(typ="safe").load(text) for name, text in files.items() if "/device-types/" in name]
    interfaces = {kind["model"]: {item["name"] for item in kind["interfaces"]} for kind in types}
    of_device = {row["name"]: row["device_type"] for row in table["devices"]}
    assert set(of_device) == devices
    assert len(table["cables"]) == len({row["cable_id"] for row in rows}), "a row a cable"
    ends = Counter[tuple[str, str]]()
    for row in table["cables"]:
        for side in "ab":
            names, of = (row[f"side_{side}_{what}"].split(",") for what in ("name", "device"))
            ends.update(zip(of * (len(names) // len(of)), names, strict=True))
    linked = {(row[f"{s}_device"], row[f"{s}_port"].removesuffix(":1")) for row in rows for s in "ab"}
    assert {(device, name.removesuffix(":1")) for device, name in ends} == linked, "and every link is in one"
    assert max(ends.values()) == 1
    assert all(name in interfaces[of_device[device]] for device, name in ends)
    places = Counter((row["rack"], row["position"]) for row in table["devices"] if row["position"])
    assert not places or max(places.values()) == 1
