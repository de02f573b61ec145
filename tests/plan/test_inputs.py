"""What the command can be pointed at: specs, folders of one subnet or of several, dumps."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import plan
import routing
import topo
from helpers.strategies import nightly
from plan.cli import run
from plan.inputs import (
    RoleFiles,
    catalog_of,
    give_roles,
    read_fabric_argument,
    read_paths_argument,
    read_routed_argument,
    read_traffic,
)
from topo.catalog.load import config_root
from topo.errors import HeddleError
from topo.fabric import Fabric, Role

LAB = config_root() / "lab-20.yaml"
PLANES = """\
name: pair
nodes: {gpu: {model: hgx-h800, count: 8}}
network: {shape: planes, planes: 2, tree: {switch: QM9700, leaves: 2, spines: 1}}
"""


def built(folder: Path, spec: Path) -> Path:
    assert run(["build", str(spec), "-o", str(folder / "out")]) == 0
    return folder / "out"


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a preset by its name, built once."""
    return cache(lambda name: built(tmp_path_factory.mktemp(name), config_root() / f"{name}.yaml"))


def places(fabric: Fabric) -> dict[str, tuple[int, int, int]]:
    columns = fabric.names, fabric.zone.tolist(), fabric.role.tolist(), fabric.level.tolist()
    return {name: place for name, *place in zip(*columns, strict=True)}  # type: ignore[misc]


@pytest.mark.parametrize("switch", ["QM9700", "SN5600"])
def test_cables_of_a_spec_have_the_lengths_of_its_floor(switch: str, tmp_path: Path) -> None:
    """Those that the bill counts, on InfiniBand and on Ethernet, whether tables or hashes give the paths."""
    spec = tmp_path / "s.yaml"
    model = {"QM9700": "dgx-h100", "SN5600": "dgx-b300-spectrum"}[switch]
    spec.write_text(f"""\
name: x
nodes: {{gpu: {{model: {model}, count: 6}}}}
network: {{shape: rail, unit_nodes: 3, tree: {{switch: {switch}}}}}
floor: {{rack_units: 48}}
""")
    (wanted,) = topo.read(spec).cabled
    fabrics = [read_paths_argument(spec).fabric, *([read_fabric_argument(spec)] if switch == "QM9700" else [])]
    for fabric in fabrics:
        np.testing.assert_array_equal(fabric.length_m, wanted.length_m)
        assert (fabric.length_m[fabric.peer >= 0] > 0).all()


def test_a_folder_has_the_catalog_of_its_spec(tmp_path: Path) -> None:
    """Every figure and price, whether the spec names a folder of tables or one table."""
    text = "source,date,confidence\nQM8700,123,mine,2026-11-22,own\n"
    for number, named in enumerate(["own", "own/switches.csv"]):
        (tmp_path / "own").mkdir(exist_ok=True)
        (tmp_path / "own" / "switches.csv").write_text(f"model,latency_ns,{text}")
        spec = tmp_path / f"s{number}.yaml"
        spec.write_text(f"catalog: {named}\n{LAB.read_text(encoding='utf-8')}")
        plan.build(spec, tmp_path / f"out{number}")
        assert catalog_of(tmp_path / f"out{number}").sha256 == catalog_of(spec).sha256 != topo.load_catalog().sha256


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lab-20", nightly("fire-flyer-2")])
def test_a_built_folder_is_the_fabric_of_its_spec(name: str, plans: Callable[[str], Path]) -> None:
    of_spec = read_routed_argument(config_root() / f"{name}.yaml")
    of_folder = read_routed_argument(plans(name))

    assert places(of_folder.fabric) == places(of_spec.fabric)
    assert of_folder.lanes == of_spec.lanes
    assert of_folder.tables.sl2vl == of_spec.tables.sl2vl
    # The dump lists nodes in another order; the tables are the same, port GUID by port GUID.
    order = {guid: end for end, guid in enumerate(of_folder.fabric.end_guid.tolist())}
    ends = [order[guid] for guid in of_spec.fabric.end_guid.tolist()]
    n = of_spec.fabric.n_switches
    lid = of_spec.tables.lid
    np.testing.assert_array_equal(of_folder.tables.lid[ends], lid)
    np.testing.assert_array_equal(of_folder.tables.lft[ends[:n]][:, lid], of_spec.tables.lft[:, lid])


@pytest.mark.slow
def test_of_several_subnets_one_is_named(tmp_path: Path) -> None:
    spec = tmp_path / "pair.yaml"
    spec.write_text(PLANES)
    folder = built(tmp_path, spec)
    names = sorted(path.name for path in folder.iterdir() if path.is_dir() and (path / "fabric.json").exists())
    for source in (spec, folder):
        for subnet in names:
            assert read_fabric_argument(source, subnet).n_switches == 3
        for subnet in (None, "../out", "no"):
            with pytest.raises(HeddleError, match=f"--subnet with one of {', '.join(names)}"):
                read_fabric_argument(source, subnet)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lab-20", "direct-zones", nightly("fire-flyer-2")])
def test_a_plan_that_is_read_back_is_the_plan_that_was_written(name: str, plans: Callable[[str], Path]) -> None:
    folder = plans(name)
    (planned,) = topo.preset(name).cabled
    found = read_fabric_argument(folder)

    for field in ("name", "role", "level", "zone", "models", "host_model", "engine", "traffic", "length_m"):
        np.testing.assert_array_equal(getattr(found, field), getattr(planned, field), err_msg=field)
    assert np.array_equal(found.discovered_lid, read_routed_argument(folder).tables.lid)


def test_hosts_in_neither_list_are_for_management(tmp_path: Path) -> None:
    folder = built(tmp_path, LAB)
    lists = folder / "opensm"
    (lists / "io_guids").write_text("")
    dump = read_fabric_argument(folder / "fabric.ibnetdiscover")
    fabric = give_roles(dump, RoleFiles(cn_guids=lists / "cn_guids", io_guids=lists / "io_guids"))
    roles = {fabric.names[node]: Role(fabric.role[node]) for node in range(fabric.n_switches, fabric.n_nodes)}

    assert {role for name, role in roles.items() if name.startswith("gpu")} == {Role.COMPUTE}
    assert {role for name, role in roles.items() if not name.startswith("gpu")} == {Role.MANAGEMENT}
    with pytest.raises(HeddleError, match="io_guids: found no GUID"):
        give_roles(dump, RoleFiles(cn_guids=lists / "io_guids"))


def test_a_folder_that_is_none_of_ours_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HeddleError, match=r"without plan\.json"):
        read_fabric_argument(tmp_path)


def test_another_subnet_is_not_named_where_there_is_one(tmp_path: Path) -> None:
    folder = built(tmp_path, LAB)
    with pytest.raises(HeddleError, match="found no subnet 'another'; expected --subnet with one of lab-20"):
        read_fabric_argument(folder, "another")
    assert read_fabric_argument(folder, "lab-20").name == "lab-20", "its own name is no mistake"
    with pytest.raises(HeddleError, match="leave --subnet out"):
        read_fabric_argument(folder / "fabric.ibnetdiscover", "another")


def test_rules_that_give_no_role_are_told(tmp_path: Path) -> None:
    rules = tmp_path / "roles"
    rules.write_text("storage storage*\nmanagement mgnt*\n")
    notes = give_roles(read_fabric_argument(LAB), RoleFiles(rules)).notes
    assert notes == (f"{rules}: no adapter has its role from the pattern 'mgnt*'",)


def test_what_gpus_send_counts_between_the_ports_of_their_servers(tmp_path: Path) -> None:
    """An all-to-all of NCCL: each GPU sends its part to each GPU of other servers, over the rail of the receiver."""
    network = {"shape": "rail", "unit_nodes": 3, "tree": {"switch": "QM9700"}}
    cluster = topo.parse({"name": "r", "nodes": {"gpu": {"model": "dgx-h100", "count": 4}}, "network": network})
    path = tmp_path / "w.yaml"
    path.write_text("jobs: [{name: a, kind: gpu-collective, collective: all-to-all, size: 32 MiB}]", encoding="utf-8")
    routed = routing.route(cluster.fabric)
    demand = read_traffic(str(path), cluster.catalog, 0)(routed)
    names = [cluster.fabric.names[cluster.fabric.end_node[end]].split() for end in range(cluster.fabric.n_end_ports)]
    pairs = zip(demand.source.tolist(), demand.destination.tolist(), strict=True)
    assert all(names[a][0] != names[b][0] and names[a][1] == names[b][1] for a, b in pairs)
    assert len(demand.weight) == 4 * 3 * 8
    np.testing.assert_allclose(demand.weight, 8 * 2**20)  # eight GPUs of a server, each with a part for each of 32
