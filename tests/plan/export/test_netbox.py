"""The export for NetBox, into a NetBox that holds another cluster already, and a second time.

`Box` does what a real NetBox 4.7.3 did, into which the files of two clusters were imported twice: it takes a file whole
or not at all; names are unique to a maker, a site or a location, and racks without a location may be there twice; a
device gets the interfaces of its type; a unit of a rack and an interface take one thing each.
"""

import csv
import io
import random
from collections import Counter

import pytest
from ruamel.yaml import YAML

import topo
from helpers.clusters import CATALOG, tree
from plan.export.netbox import _side, netbox_files
from topo import panels
from topo.floor.cables import choose_cables
from topo.floor.racks import FloorPlan, place_devices

ORDER = ("manufacturers/", "device-types/", "roles/", "sites.csv", "locations.csv", "racks.csv", "devices.csv",
         "cables.csv")  # fmt: skip


class RefusedError(Exception):
    """NetBox does not take the file."""


class Box:
    """What is in a NetBox."""

    def __init__(self) -> None:
        self.held: dict[str, dict[tuple, object]] = {}

    def load(self, files: dict[str, str]) -> list[str]:
        """Import files in order; return the names of those that are refused."""
        refused = []
        for part in ORDER:
            for name in sorted(name for name in files if name.startswith(part)):
                before = {table: dict(rows) for table, rows in self.held.items()}
                try:
                    self.take(part.strip("/").removesuffix(".csv"), files[name])
                except RefusedError:
                    self.held = before
                    refused.append(name)
        return refused

    def take(self, table: str, text: str) -> None:
        for row in [YAML(typ="safe").load(text)] if table == "device-types" else csv.DictReader(io.StringIO(text)):
            getattr(self, table.replace("-", "_"))(row)

    def add(self, table: str, *key: object, value: object = None) -> None:
        rows = self.held.setdefault(table, {})
        if key in rows:
            raise RefusedError(table, key)
        rows[key] = value

    def has(self, table: str, *key: object) -> object:
        if key not in self.held.get(table, {}):
            raise RefusedError(table, key)
        return self.held[table][key]

    def manufacturers(self, row: dict) -> None:
        self.add("manufacturers", row["name"])
        self.add("manufacturer slugs", row["slug"])

    def device_types(self, kind: dict) -> None:
        self.has("manufacturers", kind["manufacturer"])
        self.add("device types", kind["manufacturer"], kind["model"], value=kind)
        self.add("type slugs", kind["manufacturer"], kind["slug"])

    def roles(self, row: dict) -> None:
        self.add("roles", row["name"])

    def sites(self, row: dict) -> None:
        self.add("sites", row["name"])
        self.add("site slugs", row["slug"])

    def locations(self, row: dict) -> None:
        self.has("sites", row["site"])
        self.add("locations", row["site"], row["name"])

    def racks(self, row: dict) -> None:
        self.has("locations", row["site"], row["location"])
        self.add("racks", row["site"], row["location"], row["name"], value=int(row["u_height"]))

    def devices(self, row: dict) -> None:
        kind = self.has("device types", row["manufacturer"], row["device_type"])
        self.has("roles", row["role"])
        self.has("sites", row["site"])
        self.add("devices", row["site"], row["name"])
        if row["rack"]:
            where = (row["site"], row["location"], row["rack"])
            height = self.has("racks", *where)
            for unit in range(int(row["position"]), int(row["position"]) + kind["u_height"]) if row["position"] else ():
                assert unit <= height
                self.add("units", *where, unit)
        for interface in kind["interfaces"]:
            self.add("interfaces", row["site"], row["name"], interface["name"])

    def cables(self, row: dict) -> None:
        for side in ("side_a", "side_b"):
            ports = ports_of(row, side)
            assert len(ports) <= CONNECTORS[row["profile"]]
            for end in ports:
                self.has("interfaces", *end)
                self.add("ends of cables", *end)


CONNECTORS = {"single-1c1p": 1, "trunk-2c1p": 2, "trunk-4c1p": 4}
"""Ports at each end, by profile (``netbox/dcim/cable_profiles.py`` of 4.7.3)."""


def ports_of(row: dict, side: str) -> list[tuple[str, str, str]]:
    """Site, device and name of each port of a side, by the rules of NetBox 4.7: one device for all, or one for each."""
    names, devices = row[f"{side}_name"].split(","), row[f"{side}_device"].split(",")
    devices = devices * len(names) if len(devices) == 1 else devices
    return [(row[f"{side}_site"], device, name) for device, name in zip(devices, names, strict=True)]


def exported(rng: random.Random, name: str) -> dict[str, str]:
    """A small cluster drawn at random, some with storage, management and a floor."""
    nodes = {"gpu": {"model": rng.choice(["dgx-h100", "dgx-b200", "hgx-h100"]), "count": rng.randint(1, 5)}}
    if rng.random() < 0.5:
        nodes["head"] = {"model": "management-ndr", "count": rng.randint(1, 2)}
    spec = {"name": name, "nodes": nodes, "network": {"shape": "fat-tree", "switch": rng.choice(["QM9700", "QM9790"])}}
    if rng.random() < 0.7:
        spec["floor"] = {"rack_units": 48}
    cluster = topo.parse(spec)
    return netbox_files(cluster.fabrics, cluster.catalog, name, cluster.layout, cluster.cablings)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_clusters_stand_beside_one_another_and_a_second_import_changes_nothing(seed: int) -> None:
    rng, box = random.Random(seed), Box()
    first, second = exported(rng, "one"), exported(rng, "two")
    assert box.load(first) == []
    shared = ("manufacturers/", "device-types/", "roles/")
    assert all(name.startswith(shared) for name in box.load(second))
    for files, site in ((first, "one"), (second, "two")):
        rows = list(csv.DictReader(io.StringIO(files["devices.csv"])))
        assert sum(key[0] == site for key in box.held["devices"]) == len(rows)
        ends = sum(key[0] == site for key in box.held["ends of cables"])
        cables = csv.DictReader(io.StringIO(files["cables.csv"]))
        assert ends == sum(2 * CONNECTORS[row["profile"]] for row in cables)
    before = {table: dict(rows) for table, rows in box.held.items()}
    for files in (first, second, first):
        assert sorted(box.load(files)) == sorted(name for name in files if name != "README.md")
    assert box.held == before


@pytest.mark.slow
def test_the_backplane_of_a_frame_is_no_cable_and_the_legs_of_a_splitter_have_a_type() -> None:
    frame = netbox_files([tree(30, switch="CS8500")], CATALOG, "frame")["cables.csv"]
    assert len(frame.splitlines()) == 1 + 30
    split = topo.preset("slow-subtrees")
    layout = place_devices(split.fabrics, split.catalog, FloorPlan())
    (cabling,) = cablings = choose_cables(split.fabrics, layout, split.catalog)
    kinds = Counter(cabling.parts[part].kind.partition("-")[0] for part in cabling.part.tolist())
    files = netbox_files(split.fabrics, split.catalog, split.name, layout, cablings)
    rows = list(csv.DictReader(io.StringIO(files["cables.csv"])))
    types = Counter[str]()
    for row in rows:
        types[row["type"]] += CONNECTORS[row["profile"]]
    assert types == {"aoc": kinds["AOC"], "dac-passive": kinds["DAC"], "": kinds["unknown"]}
    assert len(rows) == len(set(cabling.cable.tolist())), "a splitter is one cable, as in the bill"
    (fabric,), (front,) = split.fabrics, panels(split.fabrics, split.catalog)
    links = {
        frozenset(ends) for row in rows for ends in zip(ports_of(row, "side_a"), ports_of(row, "side_b"), strict=True)
    }
    assert links == {
        frozenset((split.name, *(text for text in _side(fabric, [port], front) if "." not in text)) for port in ports)
        for ports in fabric.links.tolist()
    }


def rate(kind: str) -> tuple[str, float]:
    """Protocol and Gb/s of a type of NetBox."""
    lanes = {"hdr": 200.0, "ndr": 400.0, "xdr": 800.0}
    protocol, _, rest = kind.partition("-")
    return (protocol, lanes[rest]) if protocol == "infiniband" else ("ethernet", float(protocol.partition("g")[0]))


@pytest.mark.parametrize("split", [True, False])
@pytest.mark.parametrize(("model", "switch"), [("dgx-h100", "QM9700"), ("dgx-b300", "Q3400")])
def test_the_ends_of_a_cable_are_of_one_protocol_and_of_the_rate_of_their_link(
    model: str, switch: str, split: bool
) -> None:
    """Of servers alike, some have their further adapters in an Ethernet, and some in no network."""
    count = 3 + split
    spec = {
        "name": "x",
        "nodes": {"gpu": {"model": model, "count": count}, "more": {"model": model, "count": 2},
                  "head": {"model": "management", "count": 2}},
        "network": {"shape": "fat-tree", "switch": switch},
        "networks": {"ether": {"network": {"shape": "fat-tree", "switch": "SN5600", "split": split},
                               "adapters": {"gpu": 2, "head": 1}}},
        "floor": {"rack_units": 48},
    }  # fmt: skip
    cluster = topo.parse(spec)
    files = netbox_files(cluster.fabrics, cluster.catalog, "x", cluster.layout, cluster.cablings)
    types = {
        kind["model"]: {port["name"]: port["type"] for port in kind["interfaces"]}
        for kind in (YAML(typ="safe").load(text) for name, text in files.items() if name.startswith("device-types/"))
    }
    of_type = {row["name"]: row["device_type"] for row in csv.DictReader(io.StringIO(files["devices.csv"]))}
    assert len({kind for name, kind in of_type.items() if name.startswith(("gpu", "more"))}) == 2
    seen = Counter[str]()
    for row in csv.DictReader(io.StringIO(files["cables.csv"])):
        for ends in zip(ports_of(row, "side_a"), ports_of(row, "side_b"), strict=True):
            (one, fast), (other, slow) = sorted(
                (rate(types[of_type[name]][port]) for _, name, port in ends), reverse=True
            )
            assert one == other, ends
            adapter = 200.0 if "head" in str(ends) else 400.0
            expected = (slow, slow) if one == "infiniband" else (400.0 if split else 800.0, adapter)
            assert (fast, slow) == expected, ends
            seen[one] += 1
    adapters = Counter(cluster.fabrics[-1].server_of(node) for node in range(1, cluster.fabrics[-1].n_nodes))
    assert seen["ethernet"] == sum(adapters.values()) == 2 * count + 2 and seen["infiniband"] > 0


def test_servers_of_one_model_have_the_adapters_of_all_of_them_and_ethernet_its_types() -> None:
    nodes = {name: {"model": "pcie-a100", "count": 3} for name in ("a", "b")}
    oob = {"shape": "fat-tree", "switch": "SN2201", "spine_switch": "SN4600C"}
    spec = {"name": "x", "nodes": nodes, "network": {"shape": "fat-tree", "switch": "QM8700"}, "floor": {},
            "networks": {"oob": {"network": oob, "adapters": {"b": 1}, "adapter": "BMC-1GE",
                                 "manage": ["switches", "pdus"]}}}  # fmt: skip
    cluster = topo.parse(spec)
    files = netbox_files(cluster.fabrics, cluster.catalog, "x", cluster.layout, cluster.cablings)
    types = {
        kind["model"]: {port["name"]: port["type"] for port in kind["interfaces"]}
        for kind in (YAML(typ="safe").load(text) for name, text in files.items() if name.startswith("device-types/"))
    }
    assert types["pcie-a100"] == {"mlx5_0": "infiniband-hdr", "bmc": "1000base-t"}
    assert types["pdu"] == {"mgmt": "1000base-t"}
    assert types["MQM8700"].pop("mgmt") == "1000base-t" and set(types["MQM8700"].values()) == {"infiniband-hdr"}
    assert Counter(types["MSN2201"].values()) == {"1000base-t": 49, "100gbase-x-qsfp28": 4}, "one for its management"
    rows = list(csv.DictReader(io.StringIO(files["devices.csv"])))
    assert {row["position"] for row in rows if row["device_type"] == "pdu"} == {""}, "of no height"
    cables = csv.DictReader(io.StringIO(files["cables.csv"]))
    assert [row["type"] for row in cables if "bmc" in (row["side_a_name"], row["side_b_name"])] == ["cat6"] * 3
    ports = {
        (row[f"side_{side}_device"], row[f"side_{side}_name"])
        for row in csv.DictReader(io.StringIO(files["cables.csv"]))
        for side in "ab"
    }
    of_type = {row["name"]: row["device_type"] for row in rows}
    assert {(name, port) for name, port in ports if port == "mgmt"} == {
        (name, "mgmt") for name, kind in of_type.items() if kind in ("pdu", "MQM8700")
    }, "each device has a port for it"
