"""InfraGraph: a plan comes back with the same cables; a foreign description is expanded by its rules, or refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import topo
from helpers.strategies import slow_but
from plan.export.infragraph import format_infragraph
from topo import Fabric, FormatError
from topo.dumps.infragraph import parse_infragraph


def cables(fabrics: tuple[Fabric, ...]) -> set[frozenset[tuple[str, int, float]]]:
    """Return each cable by the names, port numbers and rates of its ends."""
    return {
        frozenset((f.label(int(f.port_node[end])) if f.port_node[end] < f.n_switches else f.names[f.port_node[end]],
                   int(f.port_number[end]), float(f.rate_gbps[end])) for end in ends)
        for f in fabrics for ends in f.links.tolist()
    }  # fmt: skip


@pytest.mark.parametrize(
    "preset",
    ["lab-20", *slow_but(["k-ary-tree", "dgx-h100-48", "slow-subtrees", "torus", "direct-zones"])],
)
def test_a_plan_comes_back_with_the_same_cables(preset: str, tmp_path: Path) -> None:
    cluster = topo.preset(preset)
    path = tmp_path / "infragraph.json"
    path.write_text(format_infragraph(cluster.fabrics, cluster.catalog), encoding="utf-8")
    back = topo.read_fabric(path)
    assert back.notes == ()
    assert cables((back,)) == cables(cluster.fabrics)


def small() -> dict:
    """Two servers of two NICs each, on a switch of four ports; written as a person would."""
    part = {"count": 1}
    return {
        "name": "small",
        "devices": [
            {"name": "box", "components": [part | {"name": "cpu", "choice": "cpu"},
                                           {"name": "nic", "choice": "nic", "count": 2}], "links": [], "edges": []},
            {"name": "switch", "components": [part | {"name": "asic", "choice": "cpu"},
                                              {"name": "port", "choice": "port", "count": 4}],
             "links": [], "edges": []},
        ],
        "links": [{"name": "wire", "physical": {"bandwidth": {"gigabytes_per_second": 25}}}],
        "instances": [{"name": "host", "device": "box", "count": 2}, {"name": "sw", "device": "switch", "count": 1}],
        "edges": [{"ep1": {"instance": "host", "component": "nic"}, "ep2": {"instance": "sw", "component": "port"},
                   "scheme": "one2one", "link": "wire"}],
    }  # fmt: skip


def turned(edge: dict) -> dict:
    return edge | {"ep1": edge["ep2"], "ep2": edge["ep1"]}


ALL = [("host0", "nic_0", 1), ("host0", "nic_1", 2), ("host1", "nic_0", 3), ("host1", "nic_1", 4)]


@pytest.mark.parametrize(
    ("host", "nic", "port", "expected"),
    [
        ("host", "nic", "port", ALL),
        ("host[:]", "nic[0:2]", "port[:]", ALL),
        ("host[1]", "nic", "port", [("host1", "nic_0", 1), ("host1", "nic_1", 2)]),
        ("host", "nic[0]", "port[::2]", [("host0", "nic_0", 1), ("host1", "nic_0", 3)]),
        ("host[-1]", "nic[-1]", "port[-1]", [("host1", "nic_1", 4)]),
        ("host", "nic[1]", "port[::-1]", [("host0", "nic_1", 4), ("host1", "nic_1", 3)]),
        ("host[0]", "nic[1].port[0]", "port[2]", [("host0", "nic_1", 3)]),
    ],
)
def test_slices_are_those_of_the_schema(host: str, nic: str, port: str, expected: list) -> None:
    document = small()
    document["edges"][0] |= {
        "ep1": {"instance": host, "component": nic},
        "ep2": {"instance": "sw[0]", "component": port},
    }
    fabric = parse_infragraph(json.dumps(document)).fabric
    assert fabric.n_switches == 1
    assert set(fabric.rate_gbps.tolist()) >= {200.0}
    assert cables((fabric,)) == {
        frozenset({("sw", number, 200.0), (f"{name} {device}", 1, 200.0)}) for name, device, number in expected
    }


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d.pop("edges"), "no description of InfraGraph"),
        (lambda d: d["devices"][0].pop("components"), "no description of InfraGraph"),
        (lambda d: d["instances"][0].update(device="none"), "known part"),
        (lambda d: d["edges"][0].update(scheme="ring"), "scheme"),
        (lambda d: d["edges"][0]["ep1"].update(component="gpu"), "known part"),
        (lambda d: d["edges"][0]["ep1"].update(instance="host[9]"), "known part"),
        (lambda d: d["edges"][0]["ep1"].update(component="nic[::0]"), "known part"),
        (lambda d: d["edges"][0]["ep1"].update(component="nic[-]"), "known part"),
        (lambda d: d["edges"][0]["ep2"].update(component="asic"), "port of the switch"),
        (lambda d: d["links"][0].pop("physical"), "without a bandwidth"),
        (lambda d: d["links"][0]["physical"]["bandwidth"].update(gigabytes_per_second=3.3), "rate of a link"),
        (lambda d: d["instances"][0].update(count=10**9), "nodes"),
        (lambda d: d["devices"][0]["components"][1].update(count=10**9), ""),
        (lambda d: d["instances"][0].update(name=[]), "no description of InfraGraph"),
        (lambda d: d["instances"][0].update(count=float("inf")), "no description of InfraGraph"),
        (lambda d: d["edges"].append(7), "no description of InfraGraph"),
        (lambda d: d["edges"].append(turned(d["edges"][0])), ""),  # each cable from both of its ends
        (
            lambda d: d["edges"].append(d["edges"][0] | {"ep1": {"instance": "host[0]", "component": "nic[1]"}}),
            "found 2 cables in port[0] of sw[0]; expected one in a port",
        ),
    ],
)
def test_what_is_none_is_refused_in_one_line(change: object, words: str) -> None:
    document = small()
    change(document)  # type: ignore[operator]
    try:
        fabric = parse_infragraph(json.dumps(document), "x.json").fabric
    except topo.HeddleError as error:
        assert words in str(error)
        assert "\n" not in str(error)
    else:
        assert words == "", words
        assert len(fabric.links) == 4


def test_text_that_is_no_json_is_refused() -> None:
    with pytest.raises(FormatError, match="no description of InfraGraph"):
        parse_infragraph("[" * 100_000)
