"""The folder for OpenSM, as a whole; tests/peers loads it into OpenSM."""

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import routing
import topo
from helpers.node_names import parse_node_name_map
from helpers.strategies import Case, cases, examples, past_switch_0_on_lane_5, ring, tree
from helpers.trees import grow_tree
from routing.lanes.policy import apply_policy
from routing.opensm.files import opensm_files
from routing.opensm.guid2lid import parse_guid2lid
from routing.opensm.qos_policy import parse_qos_policy
from routing.routed import Routed
from topo.builder import FabricBuilder
from topo.dumps.roles import parse_guid_list
from topo.errors import RoutingError
from topo.fabric import Fabric, Role
from topo.spec.base import TrafficClass
from topo.speeds import SPEEDS, LinkSpeed

NAMES = {
    "opensm.conf", "lfts", "guid2lid", "root_guids", "cn_guids", "io_guids", "partitions.conf", "qos-policy.conf",
    "node-name-map", "README.md",
}  # fmt: skip
KEEPER = {"heddle-keep.service", "heddle-keep.path", "heddle-keep.timer", "heddle-keeper.service"}


def texts(case: Case, traffic: tuple[TrafficClass, ...] = (), **more: str) -> dict[str, str]:
    files = opensm_files(Routed(replace(case.fabric, traffic=traffic), case.tables), **more)
    return {name: (data if isinstance(data, bytes) else b"".join(data)).decode() for name, data in files.items()}


def test_every_file_is_there_and_says_what_the_fabric_is() -> None:
    case = tree(3, storage=1)
    fabric, files = case.fabric, texts(case)
    guids = fabric.end_guid.tolist()
    assert files.keys() == NAMES | KEEPER
    assert parse_guid2lid(files["guid2lid"]) == {
        guid: range(lid, lid + 1) for guid, lid in zip(guids, case.tables.lid.tolist(), strict=True)
    }
    assert parse_guid_list(files["root_guids"]) == tuple(fabric.node_guid[3:6].tolist())
    roles = fabric.role[fabric.end_node]
    assert parse_guid_list(files["cn_guids"]) == tuple(fabric.end_guid[roles == Role.COMPUTE].tolist())
    assert parse_guid_list(files["io_guids"]) == tuple(fabric.end_guid[roles == Role.STORAGE].tolist())
    names = parse_node_name_map(files["node-name-map"])
    assert names == dict(zip(fabric.node_guid.tolist(), fabric.names, strict=True))


def test_the_options_name_the_files_where_they_will_be() -> None:
    conf = dict(
        line.split(" ", 1)
        for line in texts(tree(2, storage=1), directory="/a")["opensm.conf"].splitlines()
        if line[0] != "#"
    )
    assert conf["routing_engine"] == "file,no_fallback"
    assert conf["reassign_lids"] == "FALSE"
    assert conf["honor_guid2lid_file"] == "TRUE"
    assert conf["qos"] == "FALSE"
    files = {name.removeprefix("/a/") for name in conf.values() if name.startswith("/a/")}
    assert files == NAMES - {"opensm.conf", "guid2lid", "README.md"}


def test_the_readme_names_every_file_and_tells_planned_guids_from_real_ones() -> None:
    case = tree(2)
    readme = texts(case)["README.md"]
    assert {name for name in NAMES if f"`{name}`" in readme} == NAMES - {"README.md"}
    assert "`heddle-keep*`" in readme
    assert "**planned ones**" in readme
    real = replace(case.fabric, node_guid=case.fabric.node_guid & np.uint64(2**56 - 1))
    assert "**planned ones**" not in texts(Case(real, case.tables))["README.md"]


@pytest.mark.parametrize("speed", SPEEDS)
@pytest.mark.parametrize("planned", [True, False])
def test_tables_of_planned_switches_of_several_chips_have_a_caveat(speed: str, planned: bool) -> None:
    """Chips of XDR have tables of their own; a real fabric has each chip as a switch, and so tables for each."""
    case = tree(2)
    guid = case.fabric.node_guid & np.uint64(2 ** (64 if planned else 56) - 1)
    fabric = replace(case.fabric, node_guid=guid, speed=np.full_like(case.fabric.speed, SPEEDS.index(speed)))
    expected = planned and speed == "XDR"
    readme = texts(Case(fabric, case.tables))["README.md"]
    assert ("not to be loaded as they are" in fabric.caveat) == expected
    assert ("not to be loaded as they are" in readme) == expected
    assert ("## Install" in readme, "install -m" in readme) == (not expected, not expected)
    assert ("--subnet tree --adopt NEW" in readme) == (planned and not expected), "it is refused there"
    told = {name for name, text in texts(Case(fabric, case.tables)).items() if text.startswith("# Caveat: tables")}
    with_comments = (NAMES | KEEPER) - {"guid2lid", "README.md", "io_guids"}  # the last is empty here
    assert told == (with_comments if expected else set())


def test_one_build_is_like_another() -> None:
    assert texts(tree(3)) == texts(tree(3))


# Roots


def roots(fabric: Fabric) -> set[str]:
    case = Case(fabric, replace(tree(2).tables, lid=np.zeros(fabric.n_end_ports, np.uint16)))
    text = opensm_files(Routed(fabric, case.tables))["root_guids"]
    assert isinstance(text, bytes)
    return set(re.findall("# (.*)", text.decode()))


def test_roots_of_three_levels_are_the_cores() -> None:
    fabric = grow_tree((2, 2, 4), (1, 2, 2), (1, 1, 1))
    cores = {fabric.label(node) for node in range(fabric.n_switches) if fabric.level[node] == 3}
    assert roots(fabric) == cores


def test_roots_are_no_joints_and_no_cut_off_leaves() -> None:
    builder = FabricBuilder("zones")
    hdr = LinkSpeed(4, "HDR")
    joint = builder.switch("joint", model="m", radix=4, role=Role.JOINT, level=2)
    for zone in range(2):
        leaf = builder.switch(f"leaf{zone}", model="m", radix=4, role=Role.LEAF, level=1, zone=zone)
        spine = builder.switch(f"spine{zone}", model="m", radix=4, role=Role.SPINE, level=2, zone=zone)
        builder.switch(f"lost{zone}", model="m", radix=4, role=Role.LEAF, level=1, zone=zone)
        builder.link(leaf, 1, spine, 1, hdr)
        builder.link(leaf, 2, joint, 1 + zone, hdr)
    assert roots(builder.build()) == {"spine0", "spine1"}


def test_lists_without_a_host_are_not_named_to_engines_that_fail_of_them() -> None:
    named = texts(tree(3, storage=1))["opensm.conf"]
    assert "io_guid_file /etc/opensm/io_guids\n" in named
    bare = texts(tree(3))
    assert bare["io_guids"] == ""
    assert "io_guid_file" not in bare["opensm.conf"]
    assert "cn_guid_file /etc/opensm/cn_guids\n" in bare["opensm.conf"]


def test_a_lone_leaf_is_its_own_root() -> None:
    builder = FabricBuilder("lone")
    builder.switch("leaf", model="m", radix=4, role=Role.LEAF, level=1)
    assert roots(builder.build()) == {"leaf"}


# Service levels

STORAGE = TrafficClass(name="storage", sl=3, vl=2, weight=64, roles=(Role.STORAGE,))
OTHER = TrafficClass(name="other", sl=0, vl=1, weight=32)


def answer(policy: str, source: int, dest: int) -> int:
    """The service level that OpenSM answers with: first rule whose groups hold both ends, else DEFAULT."""
    groups = {
        name: {int(guid, 16) for guid in re.findall("0x[0-9a-f]{16}", body)}
        for name, body in re.findall(r"port-group\n +name: (\S+)\n(.*?)end-port-group", policy, re.DOTALL)
    }
    levels = {name: int(sl) for name, sl in re.findall(r"name: (\S+)\n +sl: (\d+)", policy)}
    for rule in re.findall(r"qos-match-rule\n(.*?)end-qos-match-rule", policy, re.DOTALL):
        ends = []
        for key, guid in (("source", source), ("destination", dest)):
            listed = [name for line in re.findall(f" {key}: (.*)", rule) for name in line.split(", ")]
            ends.append(not listed or any(guid in groups[name] for name in listed))
        if all(ends):
            return levels[re.findall("qos-level-name: (.*)", rule)[0]]
    return levels["DEFAULT"]


def test_storage_traffic_has_its_level_whichever_end_it_is() -> None:
    case = tree(3, storage=1)
    files = texts(case, (OTHER, STORAGE))
    hosts = range(case.fabric.n_switches, case.fabric.n_end_ports)
    role = case.fabric.role[case.fabric.end_node]
    for a in hosts:
        for b in hosts:
            guids = int(case.fabric.end_guid[a]), int(case.fabric.end_guid[b])
            expected = 3 if Role.STORAGE in (role[a], role[b]) else 0
            assert answer(files["qos-policy.conf"], *guids) == expected
    assert "qos TRUE\nmax_op_vls 3\n" in files["opensm.conf"]
    assert "qos_swe_sl2vl 1,1,1,2,1,1,1,1,1,1,1,1,1,1,1,1\n" in files["opensm.conf"]
    assert "qos_swe_vlarb_low 1:32,2:64\n" in files["opensm.conf"]
    assert "| storage | 3 | 2 | 64 | storage |" in files["README.md"]


@examples(30)
@given(case=cases(corrupt=False, lanes=False, connected=True, ports=1), seed=st.integers(0, 2**32 - 1))
def test_every_path_gets_the_level_that_its_tables_need(case: Case, seed: int) -> None:
    fabric, rng = case.fabric, np.random.default_rng(seed)
    path_sl = rng.integers(0, 3, case.tables.lft.shape).astype(np.uint8)
    policy = texts(Case(fabric, replace(case.tables, path_sl=path_sl)))["qos-policy.conf"]
    ends = [end for end in range(fabric.n_switches, fabric.n_end_ports) if case.tables.lid[end]]
    for a in ends:
        for b in ends:
            expected = path_sl[fabric.end_switch[a], case.tables.lid[b]]
            assert answer(policy, int(fabric.end_guid[a]), int(fabric.end_guid[b])) == expected
    # And what reads it back finds the same levels.
    applied = apply_policy(fabric, case.tables, parse_qos_policy(policy)).path_sl
    rows = np.unique(fabric.end_switch[ends])
    assert (applied[np.ix_(rows, case.tables.lid[ends])] == path_sl[np.ix_(rows, case.tables.lid[ends])]).all()


def test_levels_that_differ_on_one_switch_are_not_judged() -> None:
    case = tree(3, storage=1)
    policy = parse_qos_policy(texts(case, (OTHER, STORAGE))["qos-policy.conf"])
    with pytest.raises(RoutingError, match="host0-0 mlx5_0 and host0-2 mlx5_0 hang on one switch"):
        apply_policy(case.fabric, case.tables, policy)


def test_tables_that_need_levels_leave_none_to_classes() -> None:
    case = past_switch_0_on_lane_5(ring())
    assert "qos_swe_sl2vl 2,5,0,0,0,0,0,0,0,0,0,0,0,0,0,0\n" in texts(case)["opensm.conf"]
    with pytest.raises(RoutingError, match="traffic classes cannot choose it"):
        opensm_files(Routed(replace(case.fabric, traffic=(OTHER,)), case.tables))


def test_rules_are_as_few_as_there_are_kinds_of_switches_or_of_destinations() -> None:
    """So that OpenSM has little to try for each of the millions of queries at the start of a job."""
    case = tree(4)
    by_switch, by_goal = np.zeros((2, *case.tables.lft.shape), np.uint8)
    by_switch[1], by_switch[2] = 1, 2
    by_goal[:, case.tables.lid[-3:]] = 1, 2, 1
    mixed = by_goal * (np.arange(len(by_goal)) % 2)[:, None]
    for path_sl, rules in ((by_switch, 2), (by_goal, 2), (mixed.astype(np.uint8), 2)):
        policy = texts(Case(case.fabric, replace(case.tables, path_sl=path_sl)))["qos-policy.conf"]
        assert policy.count("end-qos-match-rule\n") == rules


def test_who_must_ask_for_paths_is_told() -> None:
    case = past_switch_0_on_lane_5(ring())
    assert "only on 2 lanes" in texts(case)["README.md"]
    assert "lanes" not in texts(ring())["README.md"].partition("## Files")[0]


def test_too_many_rules_are_refused(monkeypatch) -> None:
    monkeypatch.setattr("routing.opensm.files.MAX_RULES", 1)
    case = past_switch_0_on_lane_5(ring())
    with pytest.raises(RoutingError, match="2 rules would be needed"):
        opensm_files(Routed(case.fabric, case.tables))


def test_the_readme_says_where_only_compute_servers_could_run_opensm() -> None:
    nodes = {"gpu": {"model": "dgx-h100", "count": 4}}
    network = {"shape": "rail", "unit_nodes": 4, "tree": {"switch": "QM9700"}}
    for more, said in (({}, True), ({"ufm": {"model": "ufm-appliance", "count": 1}}, False)):
        fabric = topo.parse({"name": "x", "nodes": nodes | more, "network": network}).fabric
        readme = opensm_files(routing.route(fabric, "fat-tree"))["README.md"].decode()
        assert ("No host but compute servers can run OpenSM" in readme) == said
