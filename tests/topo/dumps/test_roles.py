"""Roles from descriptions and from GUID lists."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.clusters import zoned
from topo.dumps.fabric_file import read_dump
from topo.dumps.ibnetdiscover import parse_ibnetdiscover
from topo.dumps.roles import (
    RoleRule,
    apply_guids,
    apply_rules,
    format_guid_list,
    parse_guid_list,
    parse_role_rules,
    read_guid_list,
    read_role_rules,
)
from topo.errors import FormatError
from topo.fabric import Fabric, Kind, Role


@pytest.fixture(scope="module")
def planned() -> Fabric:
    return zoned("border", leaves=6, spines=4, n_gpus=60, n_storage=6, ports=4)


@pytest.fixture(scope="module")
def discovered(planned: Fabric) -> Fabric:
    return replace(planned, role=np.where(planned.kind == Kind.HCA, np.uint8(Role.COMPUTE), planned.role))


def test_rules_over_descriptions_give_back_the_planned_roles(planned: Fabric, discovered: Fabric) -> None:
    rules = parse_role_rules("# ours\n\nstorage storage* mlx5_?\r\nmanagement *\n")
    found, idle = apply_rules(discovered, rules)
    assert not idle
    hcas = planned.kind == Kind.HCA
    wanted = np.where(planned.role == Role.COMPUTE, Role.MANAGEMENT, planned.role)
    assert np.array_equal(found.role[hcas], wanted[hcas])
    assert np.array_equal(found.role[~hcas], planned.role[~hcas])  # of switches nothing is said


def test_the_first_rule_that_matches_counts(discovered: Fabric) -> None:
    rules = [RoleRule("gpu*", Role.COMPUTE), RoleRule("*", Role.STORAGE)]
    found, idle = apply_rules(discovered, rules)
    assert not idle
    names = np.array([name.startswith("gpu") for name in found.names])
    hcas = found.kind == Kind.HCA
    assert set(found.role[hcas & names].tolist()) == {Role.COMPUTE}
    assert set(found.role[hcas & ~names].tolist()) == {Role.STORAGE}


def test_guid_lists_give_back_the_planned_roles(planned: Fabric, discovered: Fabric) -> None:
    first = planned.first_adapter_port
    stores = planned.role[planned.port_node[first:]] == Role.STORAGE
    guids = planned.port_guid[first:][stores].tolist()
    text = format_guid_list((guid, f"host {guid}") for guid in guids)
    found, unknown = apply_guids(discovered, {Role.STORAGE: (*parse_guid_list(text), 7, int(planned.node_guid[0]))})
    assert np.array_equal(found.role, planned.role)
    assert unknown == (7, int(planned.node_guid[0]))  # a switch is no host


def test_the_lists_that_come_with_the_two_zone_model(originals: Path) -> None:
    folder = originals / "fireflyer_models"
    fabric = read_dump(folder / "twozone_1560hca_122sw.ibnetdiscover.txt.gz").fabric
    listed = read_guid_list(folder / "twozone.cns.guids")
    _, unknown = apply_guids(fabric, {Role.COMPUTE: listed})
    assert len(listed) == 1560
    assert unknown == ()
    assert sorted(read_guid_list(folder / "twozone.roots.guids")) == sorted(
        int(guid) for guid, name in zip(fabric.node_guid, fabric.names, strict=True) if "spine" in name
    )


def test_aggregation_nodes_are_no_hosts() -> None:
    fabric = parse_ibnetdiscover('devid=0xcf09\ncaguid=0x1\nCa 1 "H-0000000000000001" # "Aggregation Node"\n').fabric
    rules = (RoleRule("*", Role.STORAGE),)
    found, idle = apply_rules(fabric, rules)
    assert found.role.tolist() == [Role.AGGREGATION]
    assert idle == rules
    found, unknown = apply_guids(fabric, {Role.STORAGE: fabric.port_guid.tolist()})
    assert found.role.tolist() == [Role.AGGREGATION]
    assert len(unknown) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("storage st*\nstorge st*\n", r"rules:2: found the role 'storge'; expected one of compute.*storage"),
        ("storage\n", "rules:1: found a pattern of 0 characters"),
        ("storage " + "x" * 200, "found a pattern of 200 characters"),
        ("storage s\n" * 1001, "more than 1,000 rules"),
        ("# storage st*\n\n", "rules: found no rule"),
    ],
)
def test_bad_rules_are_refused_with_their_line(text: str, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        parse_role_rules(text, "rules")


@pytest.mark.parametrize("line", ["c42a103", "H-0c42a10300000010", '"0x12"', "0x", "0x12,", "0x" + "1" * 17, "12", "-"])
def test_a_line_that_opensm_would_not_read_is_refused(line: str) -> None:
    with pytest.raises(FormatError, match="list:2: found"):
        parse_guid_list(f"0x1\n{line}\n", "list")


def test_a_line_longer_than_opensm_reads_is_refused() -> None:
    with pytest.raises(FormatError, match="at most 255 characters"):
        parse_guid_list("0x1 " + "x" * 252)


@given(st.lists(st.tuples(st.integers(0, 2**64 - 1), st.text(max_size=300))))
def test_guid_lists_read_back(guids: list[tuple[int, str]]) -> None:
    assert parse_guid_list(format_guid_list(guids)) == tuple(guid for guid, _ in guids)


def test_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "rules"
    path.write_text("storage st*\n")
    assert read_role_rules(path) == (RoleRule("st*", Role.STORAGE),)
    with pytest.raises(FormatError, match="cannot be read"):
        read_role_rules(tmp_path)


def test_a_pattern_made_to_take_for_ever_does_not() -> None:
    fabric = parse_ibnetdiscover('caguid=0x1\nCa 1 "H-0000000000000001" # "' + "a" * 200 + '"\n').fabric
    assert apply_rules(fabric, [RoleRule("*a" * 60 + "b", Role.STORAGE)])[0].role.tolist() == [Role.COMPUTE]


def test_comments_and_empty_lines_of_a_guid_list_are_passed_over_wherever_they_stand() -> None:
    text = "# leaves\n\n0x0c42a10300a9b026 one\n# more\n   \n0x0c42a10300a9b027\n#end\n"
    assert parse_guid_list(text) == (0x0C42A10300A9B026, 0x0C42A10300A9B027)
