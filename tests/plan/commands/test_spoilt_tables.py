"""`plan verify` on tables spoilt on purpose: each fault is found and named with its place, in text and in JSON."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from helpers.clusters import zoned
from plan.cli import run
from routing.engines.balanced import route
from routing.names import end_label
from routing.opensm.guid2lid import format_guid2lid
from routing.opensm.lfts import format_lfts
from routing.proof import prove
from routing.routed import Routed
from routing.tables import NO_PATH, RoutingTables
from topo.dumps.ibnetdiscover import format_ibnetdiscover
from topo.fabric import Fabric, Role


@pytest.fixture(scope="module")
def fabric() -> Fabric:
    """Two zones of 8 leaves and 4 spines; two joints, each with a cable to one leaf of each zone that holds hosts."""
    return zoned("spread", leaves=8, spines=4, n_gpus=280, n_storage=6, joints=2, ports=2)


@pytest.fixture(scope="module")
def whole(fabric: Fabric) -> RoutingTables:
    return route(fabric)


def spoil(tables: RoutingTables, *entries: tuple[int, int, int]) -> RoutingTables:
    """The tables with other output ports: (switch, destination end port, port)."""
    lft = tables.lft.copy()
    for switch, end, port in entries:
        lft[switch, tables.lid[end]] = port
    return replace(tables, lft=lft)


def verify(fabric: Fabric, tables: RoutingTables, folder: Path, capsys) -> tuple[int, dict, str]:
    """Exit status, what is printed for machines, and what is printed for people."""
    files = folder / "fabric", folder / "lfts"
    files[0].write_text(format_ibnetdiscover(fabric, tables.lid))
    files[1].write_bytes(format_lfts(fabric, tables))
    capsys.readouterr()
    status = run(["verify", *map(str, files), "--json"])
    told = json.loads(capsys.readouterr().out)
    assert run(["verify", *map(str, files)]) == status
    return status, told, capsys.readouterr().out


def host_on(fabric: Fabric, leaf: int) -> int:
    """The first end port of an adapter on a leaf."""
    return fabric.n_switches + int(np.flatnonzero(fabric.end_switch[fabric.n_switches :] == leaf)[0])


def leaf_of_zone(fabric: Fabric, zone: int, turn: int = 0) -> int:
    return int(
        np.flatnonzero((fabric.role[: fabric.n_switches] == Role.LEAF) & (fabric.zone[: fabric.n_switches] == zone))[
            turn
        ]
    )


def port_to(fabric: Fabric, switch: int, neighbour: int) -> int:
    ports = np.flatnonzero((fabric.port_node == switch) & (fabric.peer_node == neighbour))
    return int(fabric.port_number[ports[0]])


def test_whole_tables_hold(fabric, whole, tmp_path, capsys) -> None:
    status, told, text = verify(fabric, whole, tmp_path, capsys)
    assert status == 0
    assert (told["missing"], told["credit_loops"], told["examples"], told["credit_loop"]) == (0, 0, [], [])
    assert "holds" in text


@pytest.mark.slow
def test_load_is_told_by_level_although_the_dump_names_none(fabric, whole, tmp_path, capsys) -> None:
    _, told, text = verify(fabric, whole, tmp_path, capsys)
    levels = {tuple(item["levels"]) for item in told["load"]["classes"]}
    assert levels == {(1, 2), (2, 1)}, "joints stand above the leaves that they join, as spines do"
    assert {item["role"] for item in told["load"]["classes"]} == {"all", "compute"}
    assert "from level" in text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "says"),
    [("no_entry", "has no entry"), ("wrong_end", "hands it to"), ("unplugged", "where nothing is plugged in")],
)
def test_a_wrong_entry_at_the_last_switch(fault, says, fabric, whole, tmp_path, capsys) -> None:
    unplugged = int(np.flatnonzero((fabric.peer < 0) & (fabric.zone[fabric.port_node] == 1))[0])
    leaf, dead = int(fabric.port_node[unplugged]), int(fabric.port_number[unplugged])
    dest = host_on(fabric, leaf)
    other = host_on(fabric, leaf) + 1
    wrong = int(fabric.port_number[fabric.peer[fabric.first_adapter_port + other - fabric.n_switches]])
    port = {"no_entry": NO_PATH, "wrong_end": wrong, "unplugged": dead}[fault]
    status, told, text = verify(fabric, spoil(whole, (leaf, dest, port)), tmp_path, capsys)

    name = fabric.label(leaf)
    assert status == 1
    assert told["missing"] == len(prove(Routed(fabric, whole)).ends) - 1, "nobody reaches this host"
    (example,) = told["examples"]
    assert (example["fault"], example["switch"]) == (fault, name)
    assert example["port"] == (None if port == NO_PATH else port)
    assert example["destination"] == fabric.port_label(fabric.first_adapter_port + dest - fabric.n_switches)
    assert example["path"][-1] == name
    (line,) = [line for line in text.splitlines() if line.startswith("missing: ")]
    assert says in line
    assert name in line
    assert line == f"missing: {example['text']}"


@pytest.mark.slow
def test_a_forwarding_loop(fabric, whole, tmp_path, capsys) -> None:
    leaf, dest = leaf_of_zone(fabric, 0), host_on(fabric, leaf_of_zone(fabric, 0, 2))
    spine = int(fabric.peer_node[fabric.port_id(leaf, int(whole.lft[leaf, whole.lid[dest]]))])
    back = port_to(fabric, spine, leaf)
    status, told, text = verify(fabric, spoil(whole, (spine, dest, back)), tmp_path, capsys)

    assert status == 1
    assert {example["fault"] for example in told["examples"]} == {"loop"}
    loops = [set(example["path"]) for example in told["examples"]]
    assert any({fabric.label(leaf), fabric.label(spine)} <= loop for loop in loops)
    assert "forwarding loop" in text
    assert fabric.label(spine) in text


@pytest.mark.slow
def test_a_credit_loop_over_two_zones(fabric, whole, tmp_path, capsys) -> None:
    """One entry: in the zone that is not spared, what has arrived over a joint waits for what leaves over another."""
    spoilt = next(tables for tables in second_departures(fabric, whole) if prove(Routed(fabric, tables)).credit_loops)
    status, told, text = verify(fabric, spoilt, tmp_path, capsys)

    assert status == 1
    assert told["missing"] == 0
    assert told["credit_loops"] > 0
    labels = [fabric.channel_label(port) for port in range(fabric.n_ports)]
    loop = [labels.index(channel) for channel in told["credit_loop"]]
    arrivals = fabric.peer_node[loop]
    assert arrivals.tolist() == np.roll(fabric.port_node[loop], -1).tolist(), "each goes on where the last one ends"
    assert set(fabric.zone[arrivals].tolist()) == {-1, 0, 1}, "over both zones and what joins them"
    for channel in told["credit_loop"]:
        assert f"  {channel}\n" in text


def second_departures(fabric: Fabric, tables: RoutingTables):
    """Tables in which one leaf sends to a host of its zone over another spine."""
    for zone, leaf in ((zone, leaf_of_zone(fabric, zone, turn)) for turn in range(8) for zone in (0, 1)):
        ends = np.flatnonzero((fabric.zone[fabric.end_node] == zone) & (fabric.end_switch != leaf))
        for dest in ends[ends >= fabric.n_switches].tolist():
            for spine in np.unique(fabric.peer_node[fabric.port_offset[leaf] : fabric.port_offset[leaf + 1]]).tolist():
                if 0 <= spine < fabric.n_switches and fabric.role[spine] == Role.SPINE:
                    yield spoil(tables, (leaf, dest, port_to(fabric, leaf, spine)))


@pytest.mark.slow
def test_an_entry_that_is_not_as_expected(fabric, whole, tmp_path, capsys) -> None:
    """What is loaded may hold and still not be what was planned."""
    leaf, dest = leaf_of_zone(fabric, 0), host_on(fabric, leaf_of_zone(fabric, 0, 2))
    was = int(whole.lft[leaf, whole.lid[dest]])
    other = next(port for port in range(1, 41) if port != was and fabric.peer_node[fabric.port_id(leaf, port)] ==
                 fabric.peer_node[fabric.port_id(leaf, was)])  # fmt: skip
    (tmp_path / "fabric").write_text(format_ibnetdiscover(fabric, whole.lid))
    (tmp_path / "planned").write_bytes(format_lfts(fabric, whole))
    (tmp_path / "loaded").write_bytes(format_lfts(fabric, spoil(whole, (leaf, dest, other))))
    paths = [str(tmp_path / name) for name in ("fabric", "loaded", "planned")]
    assert run(["verify", *paths[:2]]) == 0
    assert run(["verify", paths[0], paths[2], "--expect", paths[2]]) == 0
    assert "0 entries not as in" in capsys.readouterr().out
    assert run(["verify", *paths[:2], "--expect", paths[2]]) == 1
    line = f"{fabric.label(leaf)} to {end_label(fabric, dest)}: port {other}; expected port {was}"
    assert f"not as expected: {line}\n" in capsys.readouterr().out
    assert run(["verify", *paths[:2], "--expect", paths[2], "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["missing"], told["differing"], told["differing_examples"]) == (0, 1, [line])


@pytest.mark.slow
def test_tables_that_name_lids_alone_need_to_be_told_whose(fabric, whole, tmp_path, capsys) -> None:
    (tmp_path / "fabric").write_text(format_ibnetdiscover(fabric))  # as planned: nothing has a LID yet
    (tmp_path / "lfts").write_bytes(re.sub(rb" # portguid .*", b" ", format_lfts(fabric, whole)))
    known = zip(fabric.end_guid.tolist(), whole.lid.tolist(), strict=True)
    (tmp_path / "guid2lid").write_text(format_guid2lid((guid, lid, 1) for guid, lid in known if lid))
    command = ["verify", str(tmp_path / "fabric"), str(tmp_path / "lfts")]
    assert run(command) == 2
    assert "or OpenSM's guid2lid" in capsys.readouterr().err
    assert run([*command, "--lids", str(tmp_path / "guid2lid")]) == 0
    assert run([*command, "--lids", str(tmp_path / "lfts")]) == 2


def test_tables_of_another_fabric_are_bad_input(fabric, whole, tmp_path, capsys) -> None:
    other = zoned("border", leaves=8, spines=4, n_gpus=240, n_storage=6, joints=2, ports=2)
    other = replace(other, node_guid=other.node_guid + 2**40, port_guid=other.port_guid + 2**40)
    (tmp_path / "fabric").write_text(format_ibnetdiscover(fabric))
    (tmp_path / "lfts").write_bytes(format_lfts(other, route(other)))
    assert run(["verify", str(tmp_path / "fabric"), str(tmp_path / "lfts")]) == 2
    assert "holds no forwarding table of any switch of this fabric" in capsys.readouterr().err
