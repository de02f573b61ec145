"""LLDP, device by device: what was written comes back, in each of the forms that devices print."""

import json
import re
from collections import Counter
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import topo
from helpers.strategies import examples
from helpers.trees import grow_tree
from topo.dumps.lldp import format_lldp, number_ports, parse_lldp
from topo.errors import FormatError
from topo.fabric import Fabric

SPLIT = {
    "name": "roce", "nodes": {"gpu": {"model": "dgx-b300-planes", "count": 8}},
    "network": {"shape": "planes", "planes": 2, "tree": {"switch": "SN5600", "split": True, "leaves": 4, "spines": 2}},
}  # fmt: skip


def cables(fabric: Fabric) -> Counter[tuple[str, ...]]:
    """Both ends of each cable, the lower first."""
    return Counter(tuple(sorted(map(fabric.port_label, link))) for link in fabric.links.tolist())


def printed(fabric: Fabric, *, header: tuple[str, ...], row: str, local: str, far: str, hosts: bool) -> str:
    """Return a table on each switch: the local and far port as patterns of the number, the device, in a given order."""
    lines = []
    for node in range(fabric.n_switches):
        lines += [f"admin@{fabric.label(node)}.fabric.example:~# show lldp neighbors", "Last change : 0:00:23 ago", ""]
        lines += [row.format(*header), row.format(*("-" * 9 for _ in header))]
        for port in fabric.ports_of(node):
            peer = int(fabric.peer[port])
            if peer < 0:
                continue
            there = int(fabric.port_node[peer])
            if there < fabric.n_switches:
                cells = (
                    local.format(fabric.port_number[port]),
                    fabric.label(there),
                    far.format(fabric.port_number[peer]),
                )
            elif hosts:
                cells = local.format(fabric.port_number[port]), *fabric.names[there].split(" ")
            else:
                continue
            lines.append(row.format(*cells, "120"))
        lines.append("Total entries displayed: 7")
    return "\n".join(lines)


FORMS = {
    "eos": {"header": ("Port", "Neighbor Device ID", "Neighbor Port ID", "TTL"), "row": "{:<14}{:<25}{:<24}{}",
            "local": "Et{}", "far": "Ethernet{}"},
    "sonic": {"header": ("LocalPort", "RemoteDevice", "RemotePortID", "Capability"),
              "row": "{:<12}  {:<20}  {:<16}  {}", "local": "Ethernet{}", "far": "Ethernet{}"},
    "nxos": {"header": ("Local Intf", "Device ID", "Port ID", "Hold-time"), "row": "{0:<14}  {1:<24} {3:<11} {2:<18}",
             "local": "Eth1/{}", "far": "Ethernet1/{}"},
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", [((4, 4), (1, 3), (1, 1)), ((2, 3, 2), (1, 2, 2), (1, 1, 2))])
def test_each_table_says_the_same(form: str, shape: tuple) -> None:
    fabric = grow_tree(*shape)
    found = parse_lldp(printed(fabric, hosts=True, **FORMS[form])).fabric
    assert cables(found) == cables(fabric)
    assert {*found.names} == {fabric.label(node) for node in range(fabric.n_nodes)}


@pytest.mark.parametrize("json0", [False, True])
def test_a_split_fabric_comes_back_port_by_port(json0: bool) -> None:
    cluster = topo.parse(SPLIT)
    for fabric, panel in zip(cluster.fabrics, topo.panels(cluster.fabrics, cluster.catalog), strict=True):
        text = format_lldp(fabric, panel.labels)
        if json0:
            text = re.sub(r"(?ms)^\{.*?^\}$", lambda match: json.dumps(as_json0(json.loads(match[0])), indent=1), text)
        found = parse_lldp(text)
        assert cables(found.fabric) == cables(fabric)
        assert len(found.skipped) == 1 and "speeds" in found.skipped[0][1]


def as_json0(document: dict) -> dict:
    """As lldpctl's ``json0``: a list for everything, names beside what they name."""
    interfaces = []
    for entry in document["lldp"]["interface"]:
        ((name, one),) = entry.items()
        ((far, chassis),) = one["chassis"].items()
        interfaces.append({"name": name, "via": "LLDP", "chassis": [{"id": [chassis["id"]], "name": [{"value": far}]}],
                           "port": [{"id": [one["port"]["id"]], "descr": [{"value": "x"}]}]})  # fmt: skip
    return {"lldp": [{"interface": interfaces}]}


@given(st.integers(0, 10**6))
@examples(20)
def test_devices_in_any_order_and_one_side_of_a_cable_are_enough(seed: int) -> None:
    """A host without LLDP of its own is known from its switch, a switch from its neighbours."""
    rng = np.random.default_rng(seed)
    fabric = grow_tree((2, 3, 2), (1, 2, 2), (1, 1, 2))
    text = format_lldp(fabric, [str(number) for number in fabric.port_number.tolist()])
    devices = [part for part in re.split(r"(?m)^(?=\S+# )", text) if part]
    rng.shuffle(devices)
    assert cables(parse_lldp("".join(devices)).fabric) == cables(fabric)
    gone = rng.integers(len(devices))
    left = parse_lldp("".join(one for at, one in enumerate(devices) if at != gone)).fabric
    assert cables(left) == cables(fabric)


def test_the_name_by_which_a_server_calls_its_port_counts() -> None:
    """Its switch knows a MAC address, or a description of it."""
    switch = {"gpu0": {"id": {"type": "mac", "value": "0c:42:a1:00:00:01"}}}
    host = {"leaf0": {"id": {"type": "mac", "value": "0c:42:a1:00:00:02"}}}
    there = {"id": {"type": "mac", "value": "0c:42:a1:00:00:01"}, "descr": "other"}
    text = "".join(
        f"{device}$ sudo lldpctl -f json\n{json.dumps({'lldp': {'interface': {port: {'chassis': far, 'port': at}}}})}\n"
        for device, port, far, at in (
            ("leaf0", "Ethernet3", switch, there),
            ("leaf0.example.org", "Ethernet4", {"spine0": host["leaf0"]}, {"id": {"type": "ifname", "value": "Et1"}}),
            ("gpu0", "ens1f0np0", host, {"id": {"type": "local", "value": "Et3"}}),
        )
    )
    found = parse_lldp(text).fabric
    assert cables(found) == Counter({("gpu0 ens1f0np0:1", "leaf0:3"): 1, ("leaf0:4", "spine0:1"): 1})
    told = parse_lldp(text[: text.index("gpu0$")]).fabric
    assert ("gpu0 other:1", "leaf0:3") in cables(told)


@pytest.mark.parametrize(
    ("names", "numbers"),
    [
        (["swp1", "swp32", "eth0"], [1, 32, None]),
        (["swp1s0", "swp1s1", "swp3s1", "swp4"], [1, 2, 6, 7]),
        (["Ethernet1/1", "Ethernet1/5", "Ethernet2/1", "Management1"], [1, 2, 3, None]),
        (["Eth1/1", "Eth1/36"], [1, 36]),
        (["Eth1/1/1", "Eth1/1/2", "Eth1/9"], [1, 2, 10]),
        (["et-0/0/0", "et-0/0/7"], [1, 8]),
        (["et-0/0/0:0", "et-0/0/0:1", "et-0/0/1:0"], [1, 2, 3]),
        (["Ethernet0", "Ethernet4", "Ethernet12"], [1, 2, 4]),
        (["Et4", "Et8"], [4, 8]),
    ],
)
def test_ports_are_numbered_as_their_panels_are(names: list[str], numbers: list[int | None]) -> None:
    found = number_ports(names)
    assert [found.get(name) for name in names] == numbers


@pytest.mark.parametrize(
    "text", ["{", '{"lldp": 1}', '{"lldp": {"interface": {"swp1": {"port": {}}}}}', '{"lldp": ' + "[\n" * 90_000]
)
def test_what_lldpctl_does_not_print_is_refused(text: str) -> None:
    with pytest.raises(FormatError, match=r":1: found JSON that lldpctl does not print|no switch, adapter or router"):
        parse_lldp(f"leaf0# lldpctl -f json\n{text}\n")


@given(st.integers(0, 10**6))
@examples(30)
def test_a_spoilt_session_is_refused_or_read(seed: int) -> None:
    rng = np.random.default_rng(seed)
    fabric = grow_tree((2, 2), (1, 2), (1, 1))
    text = printed(fabric, hosts=True, **FORMS["eos"]) + format_lldp(
        fabric, list(map(str, fabric.port_number.tolist()))
    )
    at, end = sorted(rng.integers(len(text), size=2).tolist())
    with suppress(FormatError):
        parse_lldp(text[:at] + str(rng.choice(["", "\n", "{", '"', "  ", "swp"])) + text[end:])


def test_speeds_that_no_cable_tells_are_not_compared() -> None:
    fabric = topo.preset("lab-20").fabric
    bare = replace(fabric, speed=np.zeros_like(fabric.speed), width=np.full_like(fabric.width, 4))
    assert not topo.find_differences(fabric, bare).found
    width = bare.width.copy()
    width[fabric.links[0]] = 1
    assert len(topo.find_differences(fabric, replace(bare, width=width)).found) == len(fabric.links)
