"""One counting: by definition on random fabrics, and the same from every command on every real dump."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import topo
from helpers.clusters import CATALOG, tree
from helpers.strategies import examples, fabrics, slow_but
from helpers.twins import MACHINES, path, twin
from plan.cli import run
from topo.fabric import Fabric, Kind, Role

LINKS = {
    "hdr-pod": 8_723,
    "a100-superpod": 3_366,
    "frame": 807,
    "qdr-directors": 4_168,
    "two-frames": 3_952,
    "edr-frames": 3_269,
    "ndr-pod": 1_074,
    "fdr10-mesh": 192,
    "zone": 800 + 800,
    "two-zones": 1_560 + 1_640,
}
"""Links of each real fabric, those to the aggregation nodes inside its switches left out."""


def test_every_real_fabric_is_counted() -> None:
    assert set(LINKS) == set(MACHINES)


@pytest.mark.parametrize("name", LINKS)
def test_links_of_real_fabrics(name: str) -> None:
    fabric = twin(name)
    counts = fabric.counts()
    plugged = np.count_nonzero(fabric.peer >= 0)
    inside = np.count_nonzero((fabric.kind[fabric.port_node] == Kind.AGGREGATION) & (fabric.peer >= 0))

    assert counts.links == LINKS[name] == plugged // 2 - inside
    assert counts.gpus is None
    assert topo.count([fabric], CATALOG) == counts


@pytest.mark.parametrize("name", slow_but(LINKS, "ndr-pod", "fdr10-mesh", "zone"))
def test_a_drawing_counts_the_same(name: str, tmp_path: Path, capsys) -> None:
    dump, out = path(name), tmp_path / "fabric.svg"
    assert run(["draw", str(dump), "-o", str(out), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)

    assert told["counts"] == topo.read_fabric(dump).counts().to_dict()
    assert f"{LINKS[name]:,} links" in out.read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fdr10-mesh", "ndr-pod"])
def test_a_routed_dump_counts_the_same(name: str, tmp_path: Path, capsys) -> None:
    dump = path(name)
    run(["route", str(dump), "-o", str(tmp_path / "out"), "--json"])
    told = json.loads(capsys.readouterr().out)

    assert told["counts"] == topo.read_fabric(dump).counts().to_dict()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lab-20", "direct-zones"])
def test_every_command_counts_a_spec_alike(name: str, tmp_path: Path, capsys) -> None:
    spec, out = tmp_path / "spec.yaml", tmp_path / "out"
    assert run(["init", name, "-o", str(spec)]) == 0
    counts = []
    for command in (["check", spec], ["build", spec, "-o", out], ["route", spec, "-o", tmp_path / "routed"]):
        capsys.readouterr()
        assert run([*map(str, command), "--json"]) == 0
        counts.append(json.loads(capsys.readouterr().out)["counts"])

    assert counts == [topo.preset(name).counts.to_dict()] * 3


@given(fabrics())
def test_counts_by_definition(fabric: Fabric) -> None:
    counts = fabric.counts()
    graph = fabric.to_networkx()
    roles = {host: set() for host in range(len(fabric.hosts))}
    for node in range(fabric.n_switches, fabric.n_nodes):
        roles[int(fabric.host[node])].add(int(fabric.role[node]))

    assert counts.links == graph.number_of_edges(), "a cable from a switch to itself is a link too"
    assert counts.switches == fabric.n_switches
    assert counts.gpu_nodes == sum(min(found) == Role.COMPUTE for found in roles.values())
    assert counts.storage_nodes == sum(min(found) == Role.STORAGE for found in roles.values())
    assert counts.management_nodes == sum(min(found) == Role.MANAGEMENT for found in roles.values())
    assert counts.host_ports == sum(a >= fabric.n_switches for edge in graph.edges() for a in edge)
    assert counts.gpus is None


@given(st.integers(1, 3))
def test_servers_of_several_subnets_count_once(planes: int) -> None:
    plane = tree(20)
    one, all_of_them = topo.count([plane], CATALOG), topo.count([plane] * planes, CATALOG)

    assert (all_of_them.gpu_nodes, all_of_them.gpus) == (one.gpu_nodes, one.gpus) == (20, 160)
    assert (all_of_them.links, all_of_them.host_ports) == (planes * one.links, planes * one.host_ports)


def test_counts_show_themselves() -> None:
    counts = topo.preset("lab-20").counts

    assert list(counts.to_dict()) == [
        "switches", "leaf", "spine", "core", "joint", "zones", "gpu_nodes", "gpus", "storage_nodes", "management_nodes",
        "aggregation_nodes", "host_ports", "links",
    ]  # fmt: skip
    assert "<td" in counts._repr_html_()
    assert counts.table.to_pandas()["count"].sum() == sum(counts.to_dict().values())


@examples(15)
@given(
    switch=st.sampled_from(["QM8700", "QM9700", "SB7800"]),
    split=st.booleans(),
    model=st.sampled_from(["dgx-a100", "hgx-h100"]),
    count=st.integers(1, 9),
)
def test_a_rate_that_is_halved_is_said(switch: str, split: bool, model: str, count: int) -> None:
    network = {"shape": "fat-tree", "switch": switch, "split": split}
    spec = {"name": "x", "nodes": {"gpu": {"model": model, "count": count}}, "network": network}
    try:
        cluster = topo.parse(spec)
        fabrics = cluster.fabrics
    except topo.DesignError:  # ports that cannot be split
        return
    port = {"QM8700": 200.0, "QM9700": 400.0, "SB7800": 100.0}[switch] / (2 if split else 1)
    own = {"dgx-a100": 200.0, "hgx-h100": 400.0}[model]
    said = topo.slowed_adapters(fabrics, cluster.catalog)
    assert [words.partition(" in ")[2] for words in said] == ([f"x at {port:g} of {own:g} Gb/s"] if port < own else [])
    assert all(words.startswith(f"{8 * count} x ") for words in said)


def test_a_storage_network_without_an_adapter_is_refused() -> None:
    """It was an empty switch in the bill."""
    network = {"shape": "rail", "unit_nodes": 8, "tree": {"switch": "QM9700"}, "storage": {"switch": "QM9700"}}
    spec = {"name": "x", "nodes": {"gpu": {"model": "hgx-h100", "count": 8}}, "network": network}
    with pytest.raises(topo.DesignError, match="no adapter hangs in `storage`: hgx-h100"):
        _ = topo.parse(spec).fabrics
