"""Groups of ports up towards roots and then down hold every port that OpenSM's `updn` takes from the same roots."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import routing
from helpers.random_fabrics import draw
from helpers.zones import random_zones
from plan.opensm_lab.ibsim import simulated
from routing.opensm.files import tree_tops
from routing.routed import Routed
from routing.studies.adaptive import prove_adaptive, updown_tables
from routing.tables import NO_PATH
from topo.dumps.roles import format_guid_list
from topo.fabric import Fabric, Role


def cases() -> list[tuple[Fabric, np.ndarray]]:  # type: ignore[type-arg]
    """Fabrics and roots: tops of trees, joints, one joint; and meshes, whose roots are joined by cables."""
    found = [(fabric, tree_tops(fabric)) for fabric in map(draw, (1, 2, 4, 8))]
    for seed in (1, 2):
        fabric = random_zones(seed)
        joints = np.flatnonzero(fabric.role[: fabric.n_switches] == Role.JOINT)
        found += [(fabric, tree_tops(fabric)), (fabric, joints), (fabric, joints[:1])]
    return found


@pytest.mark.slow
@pytest.mark.peer("ibsim", "opensm", "usr/lib/*/umad2sim/libumad2sim.so")
def test_ports_of_updn_are_in_the_groups_and_both_reach_the_same(tmp_path: Path) -> None:
    judged = Counter[str]()
    for fabric, roots in cases():
        file = tmp_path / "roots"
        file.write_text(format_guid_list((int(fabric.node_guid[r]), fabric.label(r)) for r in roots.tolist()))
        with simulated(fabric, tmp_path) as subnet:
            theirs = Routed(fabric, subnet.opensm("updn", options=("--root_guid_file", str(file))).tables)
        groups = updown_tables(fabric, theirs.tables, roots)
        ours, proof = prove_adaptive(fabric, groups), routing.prove(theirs)
        if np.isin(fabric.port_node[fabric.inner], roots)[np.isin(fabric.peer_node[fabric.inner], roots)].any():
            judged["joined roots"] += 1
            assert proof.credit_loops, "its paths go up from one root to another"
            assert not ours.count("loops")
            continue
        judged["holds" if ours.holds else "cut apart"] += 1
        assert (ours.count("lost"), ours.count("loops")) == (proof.missing, proof.credit_loops)
        assert ours.max_hops == proof.max_hops
        ends = fabric.ends()
        lid = theirs.tables.lid[ends[fabric.end_switch[ends] >= 0]]
        port, group = theirs.tables.lft[:, lid], groups.group[0][:, lid]
        switch, at = np.nonzero(
            (group >= 0) & (port != NO_PATH) & np.isin(np.arange(len(port)), fabric.end_switch[ends])[:, None]
        )
        assert groups.members[group[switch, at], port[switch, at]].all()
    assert judged == {"joined roots": 2, "holds": 5, "cut apart": 3}
