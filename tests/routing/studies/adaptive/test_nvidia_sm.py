"""Options for NVIDIA's subnet manager, against the words of its public documents."""

from dataclasses import replace

import numpy as np
import pytest

import routing
import topo
from helpers.presets import routed, routed_lab, subnets
from helpers.strategies import seeds
from helpers.zones import random_zones
from routing.opensm.files import tree_tops
from routing.studies.adaptive import AdaptiveTables, choose_roots, nvidia_sm_files, prove_adaptive, updown_tables
from topo.fabric import Fabric, Role

DOCUMENTED = {"routing_engine", "root_guid_file", "find_roots_color_algorithm", "lfts_file"}
ENGINES = {"ar_updn", "file"}


@pytest.mark.parametrize("seed", seeds(6))
def test_roots_are_proven_or_the_static_tables_are_loaded(seed: int) -> None:
    routed = routing.route(random_zones(seed))
    roots, proof = choose_roots(routed)
    lines = nvidia_sm_files(routed)["opensm.conf"].splitlines()
    fullest = f"{proof.max_load:,.0f} pairs over the fullest link, split evenly"
    assert f"{fullest}, and {routing.prove(routed).max_load:,} by the static tables" in lines[1]
    options = dict(line.split(" ", 1) for line in lines if not line.startswith("#"))
    assert options.keys() <= DOCUMENTED
    assert options["routing_engine"] in ENGINES
    assert (options["routing_engine"] == "ar_updn") == proof.holds
    assert all(lines[i - 1].startswith("# ") for i, line in enumerate(lines) if not line.startswith("#"))
    again = prove_adaptive(routed.fabric, updown_tables(routed.fabric, routed.tables, roots))
    assert again.to_dict() == proof.to_dict()
    tops = prove_adaptive(routed.fabric, updown_tables(routed.fabric, routed.tables, tree_tops(routed.fabric)))
    assert proof.count("lost") <= tops.count("lost")


def chained(fabric: Fabric, whole: AdaptiveTables, parts: list[np.ndarray]) -> AdaptiveTables:  # type: ignore[type-arg]
    """The groups of a routing chain: a step for the whole, then one up and down from the tops of each part alone.

    A later step overwrites what the switches of its topology hold for the hosts of it.
    """
    lft, group, members = whole.lft.copy(), whole.group.copy(), [whole.members]
    for part in parts:
        inside = np.isin(fabric.port_node, part) & np.isin(fabric.peer_node, part)
        alone = fabric.without(np.flatnonzero(fabric.is_inner & ~inside))
        level = fabric.level[part]
        step = updown_tables(alone, whole.static(), part[level == level.max()])
        ends = fabric.ends()
        entries = np.ix_([0], part, whole.lid[ends[np.isin(fabric.end_switch[ends], part)]])
        lft[entries] = step.lft[entries]
        group[entries] = np.where(step.group[entries] < 0, -1, step.group[entries] + sum(map(len, members)))
        members.append(step.members)
    return replace(
        whole, lft=lft, group=group, members=np.concatenate(members), number=np.zeros(len(members), np.int32)
    )


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "safe"), [(1, True), (11, True), (2, False), (6, False)])
def test_a_routing_chain_with_a_step_for_each_zone_closes_loops_or_is_no_better(seed: int, safe: bool) -> None:
    """So none is written (docs/adaptive.md)."""
    fabric = random_zones(seed)
    _, alone = choose_roots(routing.route(fabric))
    zone = fabric.zone[: fabric.n_switches]
    parts = [np.flatnonzero(zone == one) for one in np.unique(zone[zone >= 0]).tolist()]
    chain = prove_adaptive(fabric, chained(fabric, alone.tables, parts))
    assert alone.holds
    assert chain.holds == safe
    assert not chain.count("lost")
    assert (chain.count("loops") == 0) == safe
    if safe:
        assert (chain.max_load, chain.ports, chain.max_hops) == (alone.max_load, alone.ports, alone.max_hops)


@pytest.mark.slow
def test_fire_flyer_holds_from_its_joints_alone() -> None:
    fire_flyer = routed(subnets("fire-flyer-2")[0])
    roots, proof = choose_roots(fire_flyer)
    assert (fire_flyer.fabric.role[roots] == Role.JOINT).all()
    assert proof.holds
    assert proof.max_load == routing.prove(fire_flyer).max_load == 30_420, "one cable from a leaf to a joint"


def test_storage_is_left_static_in_a_comment() -> None:
    routed = routed_lab()
    storage = topo.TrafficClass(name="bulk", sl=3, vl=1, weight=64, roles=(Role.STORAGE,))
    files = nvidia_sm_files(replace(routed, fabric=replace(routed.fabric, traffic=(storage,))))
    assert "# ar_sl_mask 0xfff7\n" in files["opensm.conf"]
    assert "\nrouting_engine ar_updn\n" in files["opensm.conf"]  # a tree holds from its spines
    assert np.array([int(line.split()[0], 16) for line in files["root_guids"].splitlines()]).tolist() == [
        int(guid) for guid in routed.fabric.node_guid[2:4]
    ]
