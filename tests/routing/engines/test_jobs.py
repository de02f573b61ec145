"""The engine `jobs`: whole trees as they are, joined zones even for any stride of a job, everything complete."""

import numpy as np
import pytest

import topo
from helpers.random_fabrics import draw
from helpers.strategies import nightly
from routing.engines import jobs
from routing.engines.base import route
from routing.proof import prove
from routing.quality import congestion, shifts
from routing.routed import Routed
from routing.tables import tree_order
from topo.fabric import Fabric, Role


def crossing_load(routed: Routed, job: np.ndarray) -> float:
    """All-to-all among some end ports: flows on the fullest link between zones, by the mean of all of them."""
    fabric, lft = routed.fabric, routed.tables.lft
    n = fabric.n_switches
    zone = np.where(fabric.role[:n] == Role.JOINT, -1, fabric.zone[:n])
    load = np.zeros(fabric.n_ports)
    senders, count = np.unique(fabric.end_switch[job], return_counts=True)
    for end in job:
        lid, home = routed.tables.lid[end], fabric.end_switch[end]
        for sender, flows in zip(senders, count, strict=True):
            here = sender
            while here != home:
                port = fabric.port_offset[here] + lft[here, lid] - 1
                load[port] += flows
                here = fabric.peer_node[port]
    inner = fabric.inner
    crosses = inner[zone[fabric.port_node[inner]] != zone[fabric.peer_node[inner]]]
    return float(load[crosses].max() / load[crosses].mean())


@pytest.mark.slow
def test_two_zones_are_even_for_every_stride() -> None:
    """Every 2nd to 12th host of Fire-Flyer 2: modulo the cables, every 10th would load two of twenty."""
    fabric = topo.preset("fire-flyer-2").fabric
    routed = route(fabric, "jobs")
    proof = prove(routed)
    assert proof.holds
    assert proof.load[fabric.inner].max() == 30_420, "780 x 780 pairs over 20 cables: no tables can do better"
    ranks = tree_order(fabric, fabric.ends(role="compute"))
    found = [crossing_load(routed, ranks[first::stride]) for stride in range(2, 13) for first in (0, stride // 2)]
    assert np.mean(found) <= 1.5
    assert max(found) <= 2.0
    plain = route(fabric, "balanced")
    assert crossing_load(plain, ranks[::10]) > 9
    for zone in (0, 1):  # in a zone nothing meets, as before
        mine = tree_order(fabric, fabric.ends(role="compute", zone=zone))
        assert congestion(routed, mine, shifts(len(mine), 200))[0].max() <= 1


def test_a_whole_tree_keeps_its_closed_form() -> None:
    fabric = topo.preset("lab-20").fabric
    ours, closed = (route(fabric, engine).tables.lft for engine in ("jobs", "fat-tree"))
    assert congestion(route(fabric, "jobs"), fabric.ends(), shifts(len(fabric.ends()), 100))[0].max() <= 1
    hosts = route(fabric, "jobs").tables.lid[fabric.ends()]
    assert np.array_equal(ours[:, hosts], closed[:, hosts])


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 4, 8, 9, 10, 12, *map(nightly, range(100, 160))])
def test_random_fabrics_are_complete_without_loops(seed: int) -> None:
    fabric = draw(seed)
    proof = prove(route(fabric, "jobs"), "all")
    assert (proof.missing, proof.credit_loops, proof.lanes) == (0, 0, 1)


def test_without_a_link_between_switches() -> None:
    fabric: Fabric = topo.parse(
        {
            "name": "one",
            "nodes": {"gpu": {"model": "pcie-a100", "count": 3}},
            "network": {"shape": "fat-tree", "switch": "QM8700", "levels": 1},
        }
    ).fabric
    assert prove(Routed(fabric, jobs.route(fabric))).holds
