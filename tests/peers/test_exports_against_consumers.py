"""Exports beside the programs that read them, as the Python registry has them: InfraGraph, and NetBox's forms.

NetBox needs a database to run. What it takes is declared in its forms and choices, which are read here as they are, so
that a column or a value that a version drops is seen. `make consumers` unpacks the version that the export names.
"""

from __future__ import annotations

import ast
import csv
import io
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from ruamel.yaml import YAML

import topo
from helpers.skips import without
from plan.export.infragraph import format_infragraph
from plan.export.netbox import ETHERNET, PROFILES, netbox_files
from plan.export.registry import EXPORTS

CONSUMERS = NETBOX = Path(__file__).parents[2] / "out" / "consumers"
pytestmark = pytest.mark.peer
FORMS = {"manufacturers": "ManufacturerImportForm", "sites": "SiteImportForm", "locations": "LocationImportForm",
         "racks": "RackImportForm", "devices": "DeviceImportForm", "cables": "CableImportForm",
         "roles": "DeviceRoleImportForm"}  # fmt: skip


@pytest.fixture(autouse=True)
def installed() -> None:
    """Skip what needs the programs where they could not be installed."""
    if not (CONSUMERS / "installed").is_file():
        pytest.skip(without("consumers"))


@cache
def body_of(path: str, name: str) -> str:
    """Return the text of a class of a module of NetBox, whose Python is newer than ours may be."""
    text = (NETBOX / path).read_text(encoding="utf-8")
    return re.split(r"^class ", text.partition(f"\nclass {name}(")[2], maxsplit=1, flags=re.MULTILINE)[0]


def columns(form: str, path: str = "dcim/forms/bulk_import.py") -> set[str]:
    """Return the fields that a form of bulk import takes."""
    listed = re.search(r"^        fields = ([\[(].*?[\])])$", body_of(path, form), re.MULTILINE | re.DOTALL)
    assert listed, form
    return set(ast.literal_eval(listed[1]))


@cache
def choices(name: str) -> frozenset[str]:
    """Return the values of a set of choices."""
    return frozenset(
        re.findall(r"^    [A-Z0-9_]+ = '(.*?)'(?:\s+#.*)?$", body_of("dcim/choices.py", name), re.MULTILINE)
    )


@cache
def files() -> dict[str, str]:
    """Return the files of a cluster with rails, splitters, storage and a floor."""
    cluster = topo.preset("dgx-h100-48")
    return netbox_files(cluster.fabrics, cluster.catalog, cluster.name, cluster.layout, cluster.cablings)


def faults(written: dict[str, str]) -> set[str]:
    """Return what NetBox does not know in files for it."""
    found = set()
    interfaces = columns("InterfaceTemplateImportForm", "dcim/forms/object_import.py")
    for name, text in written.items():
        if name.endswith(".csv"):
            rows = csv.DictReader(io.StringIO(text))
            known = columns(FORMS[re.split(r"[/.]", name)[0]])
            found |= {f"{name}: {column}" for column in set(rows.fieldnames or ()) - known}
            for row in rows if name == "cables.csv" else ():
                found |= {f"{name}: {row.get('profile')}"} - {
                    f"{name}: {one}" for one in choices("CableProfileChoices")
                }
                found |= {f"{name}: {row.get('type')}"} - {
                    f"{name}: {one}" for one in choices("CableTypeChoices") | {""}
                }
        elif name.endswith(".yaml"):
            kind = YAML(typ="safe", pure=True).load(text)
            listed = kind.pop("interfaces")
            found |= {f"{name}: {key}" for key in kind.keys() - columns("DeviceTypeImportForm")}
            found |= {f"{name}: {key}" for one in listed for key in one.keys() - interfaces}
            found |= {f"{name}: {one.get('type')}" for one in listed} - {
                f"{name}: {one}" for one in choices("InterfaceTypeChoices")
            }
    return found


def test_netbox_knows_every_column_and_value() -> None:
    assert faults(files()) == set()
    assert set(ETHERNET.values()) <= choices("InterfaceTypeChoices")
    assert set(PROFILES.values()) <= choices("CableProfileChoices")


@pytest.mark.parametrize("name", sorted(name for name in files() if name != "README.md"))
def test_a_renamed_key_is_noticed(name: str) -> None:
    text = files()[name]
    keys = re.findall(r"^\s*(?:- )?([a-z_]+):", text, re.MULTILINE) if name.endswith(".yaml") else []
    for key in set(keys) - {"interfaces"} or text.splitlines()[0].split(","):
        broken = re.sub(rf"\b{key}\b(?=:)" if keys else rf"\b{key}\b", f"{key}x", text, count=0 if keys else 1)
        assert faults(files() | {name: broken}), key


def test_the_version_is_the_one_that_is_named() -> None:
    version = YAML(typ="safe", pure=True).load(
        (NETBOX / "netbox" / "_data" / "release.yaml").read_text(encoding="utf-8")
    )
    assert EXPORTS["netbox"].consumer == f"NetBox {'.'.join(version['version'].split('.')[:2])}"


def cables_of_infragraph(texts: list[str], folder: Path) -> list[int]:
    """Return how many edges between instances InfraGraph's own service makes of each description; -1 if it refuses."""
    paths = [folder / f"{number}.json" for number in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", SERVICE, *map(str, paths)],
        env={**os.environ, "PYTHONPATH": str(CONSUMERS)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [int(line) for line in done.stdout.split()]


SERVICE = """
import sys
from infragraph.infragraph_service import InfraGraphService
for path in sys.argv[1:]:
    service = InfraGraphService()
    try:
        service.set_graph(open(path).read())
        print(sum(a.split(".")[0] != b.split(".")[0] for a, b in service.get_networkx_graph().edges))
    except Exception:
        print(-1)
"""


@pytest.mark.parametrize("preset", ["lab-20", "dgx-h100-48"])
def test_infragraph_has_every_cable(preset: str, tmp_path: Path) -> None:
    cluster = topo.preset(preset)
    text = format_infragraph(cluster.fabrics, cluster.catalog)
    assert cables_of_infragraph([text], tmp_path) == [sum(len(fabric.links) for fabric in cluster.fabrics)]


def test_infragraph_notices_a_renamed_key(tmp_path: Path) -> None:
    """But for those that its service does not look at: of what kind a part is, and how fast a link."""
    cluster = topo.preset("lab-20")
    text = format_infragraph(cluster.fabrics, cluster.catalog)
    keys = sorted({*re.findall(r'"(\w+)":', text)})
    renamed = [text.replace(f'"{key}":', f'"{key}x":') for key in keys]
    found = dict(zip(keys, cables_of_infragraph(renamed, tmp_path), strict=True))
    assert {key for key, cables in found.items() if cables == len(cluster.fabric.links)} == {
        *("choice", "description", "cpu", "nic", "port", "switch", "xpu"),
        *("physical", "bandwidth", "gigabits_per_second"),
    }  # fmt: skip


@pytest.mark.slow
def test_fabrics_of_its_blueprints_are_fabrics_here(tmp_path: Path) -> None:
    """As many cables as its own graph has between instances; a port of two cables, as its de Bruijn has, is refused."""
    done = subprocess.run(
        [sys.executable, "-c", BLUEPRINTS, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(CONSUMERS)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    made = dict(line.split()[1:] for line in done.stdout.splitlines() if line.startswith("made "))
    assert len(made) == 6
    for name, cables in made.items():
        if name == "debruijn":
            with pytest.raises(topo.FormatError, match=r"found 2 cables in port\[4\] of switch\[0\]"):
                topo.read_fabric(tmp_path / f"{name}.json")
        else:
            fabric = topo.read_fabric(tmp_path / f"{name}.json")
            assert (len(fabric.links), fabric.notes) == (int(cables), ()), name


BLUEPRINTS = """
import sys
from importlib import import_module
from infragraph.infragraph_service import InfraGraphService
from infragraph.blueprints.devices.generic.generic_switch import Switch
from infragraph.blueprints.devices.generic.server import Server
from infragraph.blueprints.devices.nvidia.dgx import NvidiaDGX
def of(module, name, *given):
    return getattr(import_module("infragraph.blueprints.fabrics." + module), name)(*given)
made = {
    "clos": of("closfabric", "ClosFabric"),
    "tiers2": of("clos_fat_tree_fabric", "ClosFatTreeFabric", Switch(port_count=16), NvidiaDGX(), 2, []),
    "tiers3": of("clos_fat_tree_fabric", "ClosFatTreeFabric", Switch(port_count=4), Server(), 3, []),
    "dragonfly": of("dragonfly_fabric", "DragonflyFabric", Switch(port_count=16), Server(), 4, 2, 2),
    "single": of("single_tier_fabric", "SingleTierFabric", NvidiaDGX(), 3),
    "debruijn": of("multi_host_debruijn_fabric", "MultiHostDeBruijnFabric", Switch(port_count=16), Server(), 3),
}
for name, graph in made.items():
    service = InfraGraphService()
    service.set_graph(graph)
    open(f"{sys.argv[1]}/{name}.json", "w").write(graph.serialize("json"))
    edges = service.get_networkx_graph().edges
    print("\\nmade", name, sum(a.split(".")[:2] != b.split(".")[:2] for a, b in edges))
"""
