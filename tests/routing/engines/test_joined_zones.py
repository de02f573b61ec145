"""Fat-trees joined at their leaves: what no stock engine routes, complete, without loops on one lane, and balanced."""

import dataclasses
from collections.abc import Callable
from functools import cache, partial
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import simulate
import topo
from helpers.clusters import tree, zoned
from helpers.random_fabrics import draw
from helpers.strategies import examples, is_nightly, nightly, slow_but
from routing.engines import balanced, dfsssp, minhop
from routing.engines.balanced import route
from routing.engines.judge import Judge
from routing.order.channel_order import taken_channels
from routing.proof import check_certificate, prove
from routing.quality import congestion, shifts
from routing.routed import Routed
from routing.search.search import search_of
from routing.tables import tree_order
from topo.dumps.levels import find_levels
from topo.errors import DesignError
from topo.fabric import Fabric, Role

PLACEMENTS = ("border", "spread")


@cache
def routed_fire_flyer(placement):
    fabric = zoned(placement)
    return fabric, route(fabric)


@pytest.fixture(params=[pytest.param(placement, marks=pytest.mark.slow) for placement in PLACEMENTS])
def fire_flyer(request):
    return routed_fire_flyer(request.param)


def destinations(fabric: Fabric, zone: int, role: Role) -> np.ndarray:
    ends = np.arange(fabric.n_switches, fabric.n_end_ports)
    node = fabric.end_node[ends]
    return ends[(fabric.zone[node] == zone) & (fabric.role[node] == role)]


def uplink_counts(fabric, tables, leaf, ends):
    """Destinations over each of the 20 uplinks of a leaf."""
    return np.bincount(tables.lft[leaf, tables.lid[ends]], minlength=41)[21:41]


def shift_loads(fabric, tables, ends):
    """Most flows on a channel between switches, for each shift permutation of the ends: every flow walked."""
    worst = []
    for shift in range(1, len(ends)):
        at, goal = fabric.end_switch[ends].copy(), np.roll(ends, -shift)
        load = np.zeros(fabric.n_ports, int)
        while (moving := at != fabric.end_switch[goal]).any():
            port = fabric.port_offset[at[moving]] + tables.lft[at[moving], tables.lid[goal[moving]]] - 1
            np.add.at(load, port, 1)
            at[moving] = fabric.peer_node[port]
        worst.append(load.max())
    return worst


@pytest.mark.slow
def test_fire_flyer_has_the_published_counts(fire_flyer):
    fabric, _ = fire_flyer
    roles = np.bincount(fabric.role, minlength=9)

    assert fabric.n_switches == 122
    assert (roles[Role.LEAF], roles[Role.SPINE], roles[Role.JOINT]) == (80, 40, 2)
    assert (roles[Role.COMPUTE], roles[Role.STORAGE]) == (1200, 360)
    assert len(fabric.hosts) == 1380
    assert len(fabric.links) == 2 * 40 * 20 + 1560 + 40


@pytest.mark.slow
def test_fire_flyer_is_complete_free_of_loops_and_evenly_joined(fire_flyer):
    fabric, tables = fire_flyer
    proof = prove(Routed(fabric, tables))

    assert proof.pairs == 2_432_040
    assert (proof.missing, proof.credit_loops, proof.lanes) == (0, 0, 1)
    assert proof.max_hops == 7
    joining = (fabric.role[fabric.port_node] == Role.JOINT) & (fabric.peer >= 0)
    assert proof.load[joining].mean() == proof.load[fabric.peer[joining]].mean() == 780 * 780 / 20 == 30_420
    assert proof.load[fabric.inner].max() <= 1.001 * 30_420, "every joint link, out of the joints and into them"
    check_certificate(Routed(fabric, tables), proof)


def test_switches_reach_everything_without_loops_too(fire_flyer):
    proof = prove(Routed(*fire_flyer), endpoints="all")

    assert (proof.missing, proof.credit_loops) == (0, 0)


@pytest.mark.parametrize("zone", [0, 1])
def test_uplinks_carry_each_role_evenly(fire_flyer, zone):
    fabric, tables = fire_flyer
    leaves = np.flatnonzero((fabric.role == Role.LEAF) & (fabric.zone == zone))
    attached = np.bincount(fabric.end_switch[fabric.n_switches :], minlength=fabric.n_switches)
    for leaf in leaves[attached[leaves] > 0]:
        for role in (Role.COMPUTE, Role.STORAGE):
            ends = destinations(fabric, zone, role)
            far = ends[fabric.end_switch[ends] != leaf]
            # 30 GPUs and 9 servers in the mean: 16 GPUs send to 33 at most, where a GPU's own link carries 599 flows.
            assert np.ptp(uplink_counts(fabric, tables, leaf, far)) <= 7


@pytest.mark.parametrize("zone", [0, 1])
def test_shifts_of_a_zones_gpus_never_share_a_link(fire_flyer, zone):
    fabric, tables = fire_flyer
    gpus = destinations(fabric, zone, Role.COMPUTE)

    loads = shift_loads(fabric, tables, gpus)

    assert len(loads) == 599
    assert max(loads) == 1


@pytest.mark.slow
def test_what_spread_ports_cost_beside_gathered_ones():
    """Some evenness over the uplinks of an inner leaf, since paths end at the destination's own leaf where they can."""
    worst = {}
    for placement in PLACEMENTS:
        fabric, tables = routed_fire_flyer(placement)
        attached = fabric.end_switch[fabric.n_switches :]
        border = np.unique(fabric.peer_node[(fabric.role[fabric.port_node] == Role.JOINT) & (fabric.peer >= 0)])
        inner = np.setdiff1d(np.unique(attached), border)
        far = [destinations(fabric, 1 - fabric.zone[leaf], Role.COMPUTE) for leaf in inner]
        worst[placement] = max(
            np.ptp(uplink_counts(fabric, tables, leaf, e)) for leaf, e in zip(inner, far, strict=True)
        )

    assert worst["border"] <= 3
    assert worst["spread"] <= 30, "of 30 in the mean"


def random_zoned(seed: int) -> Fabric:
    """Two or three zones of any size, as a spec has them, on up to three joints."""
    rng = np.random.default_rng(seed)
    while True:
        zones, leaves = int(rng.integers(2, 4)), int(rng.integers(6, 25))
        shape = {"zones": zones, "leaves": leaves, "spines": int(rng.choice([4, 5, 10, 20]))}
        hosts = {
            "n_gpus": int(zones * leaves * rng.uniform(6, 15)),
            "n_storage": int(leaves * rng.choice([0, 0.5, 2, 3])),
        }
        joints = {"joints": int(rng.integers(1, 4)), "ports": int(rng.choice([4, 8, 10, 12, 20]))}
        try:
            return zoned("border", **shape, **hosts, **joints)
        except DesignError:  # too many hosts, or cables that joints have no ports for
            pass


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*range(16), *(nightly(seed) for seed in range(100, 140))])
def test_zones_of_any_spec_are_as_good_as_plain_shortest_paths(seed: int):
    """Where ports are gathered, these are safe.

    Jobs are nowhere slower. Random halves and shifts give up to 5 % for them: over all these seeds they are .7 and 4 %
    ahead in the mean, jobs 21 % and the slowest job 17 %.
    """
    fabric = random_zoned(seed)
    tables = [engine.route(fabric) for engine in (balanced, dfsssp)]
    judge = Judge(fabric, tables[0].lid)
    ours, plain = map(judge.judge, tables)

    assert (ours.missing, ours.credit_loops) == (0, 0)
    assert ours.score <= plain.score
    assert ours.fullest <= plain.fullest
    assert ours.halves >= 0.95 * plain.halves
    assert ours.shifts >= 0.95 * plain.shifts
    assert ours.jobs >= plain.jobs


@pytest.mark.slow
@pytest.mark.parametrize(("fabric", "gain"), [
    (partial(random_zoned, 3), 0.01),
    (partial(random_zoned, 14), 0.014),
    (partial(draw, 50336), 0.05),
    (partial(draw, 50448), 0.03),
    (partial(draw, 30), 0.03),
    (partial(draw, 50977), 0.09),
    (partial(draw, 51037), 0.003),
    nightly(partial(random_zoned, 118), 0.03),
    nightly(partial(draw, 40140), 0.02),
])  # fmt: skip
def test_small_zones_searched_after_all_gain_and_no_class_of_traffic_pays_for_it(
    fabric: Callable[[], Fabric], gain: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside what large zones get: a closed form kept, or, of the seeds 30, 51037 and 40140, a tree.

    Jobs of seed 30 lose 1.6 % where the fullest link gets a fifth less full; elsewhere no class loses one per cent.
    """
    built = find_levels(fabric())
    found = route(built)
    monkeypatch.setattr(balanced, "_few", lambda start: False)
    search, _ = search_of(built, found.lid)
    ours, large = (search.worth(taken_channels(search.order, tables.lft)) for tables in (found, route(built)))
    names, weights = np.array(search.problem.names), search.problem.weights

    assert ours.score <= large.score - gain
    assert ours.fullest[0] <= large.fullest[0]
    for name, part in ours.parts.items():
        assert part <= large.parts[name] + np.log(1.02) * weights[names == name].sum(), name


@pytest.mark.slow
@pytest.mark.nightly  # by day any zones, below
@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("stored", [54, 0])
def test_three_zones_of_36_port_switches_and_three_joints(placement, stored):
    fabric = zoned(placement, zones=3, leaves=36, spines=18, switch="SB7800", n_storage=stored, joints=3, ports=36)
    proof = prove(Routed(fabric, route(fabric)))

    assert (proof.missing, proof.credit_loops, proof.lanes) == (0, 0, 1)
    assert proof.stretch <= 2
    joining = (fabric.role[fabric.port_node] == Role.JOINT) & (fabric.peer >= 0)
    assert np.count_nonzero(joining) == 108
    for load in (proof.load[joining], proof.load[fabric.peer[joining]]):
        assert load.mean() == 3 * 2 * (400 + stored) ** 2 / 108, "what goes between zones, over each cable once"
        # 400 or 454 hosts send to each destination; no cable has three more of them than the mean.
        assert load.max() - load.mean() < 3 * (400 + stored)


@pytest.mark.slow
@given(
    placement=st.sampled_from(PLACEMENTS),
    zones=st.integers(2, 4),
    leaves=st.integers(2, 8),
    spines=st.sampled_from([2, 4, 5, 10]),
    joints=st.integers(1, 3),
    ports_a_joint=st.integers(1, 5),
    gpus=st.integers(1, 120),
    storage=st.integers(0, 12),
)
def test_any_zones_that_compile_route_complete_and_free_of_loops(
    placement, zones, leaves, spines, joints, ports_a_joint, gpus, storage
):
    try:
        fabric = zoned(
            placement,
            zones=zones,
            leaves=leaves,
            spines=spines,
            n_gpus=gpus,
            n_storage=storage,
            joints=joints,
            ports=joints * ports_a_joint,
        )
    except DesignError as refusal:
        assert any(character.isdigit() for character in str(refusal)), "the arithmetic is in the message"
        return
    proof = prove(Routed(fabric, route(fabric)))

    assert (proof.missing, proof.credit_loops) == (0, 0)
    assert proof.lanes <= 1
    assert proof.max_hops <= 7


@pytest.mark.slow
@pytest.mark.parametrize("placement", slow_but(PLACEMENTS, "border"))
@examples(10)
@given(seed=st.integers(0, 10_000))
def test_lost_links_are_routed_around(placement, seed):
    fabric = zoned(placement, leaves=8, spines=4, n_gpus=120, n_storage=20, ports=4)
    rng = np.random.default_rng(seed)
    peer = fabric.peer.copy()
    between = fabric.links[(fabric.port_node[fabric.links] < fabric.n_switches).all(axis=1)]
    for a, b in between[rng.permutation(len(between))[:6]]:
        peer[a] = peer[b] = -1
    damaged = dataclasses.replace(fabric, peer=peer)
    proof = prove(Routed(damaged, route(damaged)))

    assert (proof.missing, proof.credit_loops) == (proof.disconnected, 0)


def without_spines(fabric: Fabric, leaf: int, spines: np.ndarray) -> Fabric:
    ports = np.arange(fabric.port_offset[leaf], fabric.port_offset[leaf + 1])
    return fabric.without(ports[np.isin(fabric.peer_node[ports], spines)])


@pytest.mark.slow
@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("zone", [0, pytest.param(1, marks=pytest.mark.nightly)])
def test_border_leaves_that_miss_spines(placement, zone):
    """A border leaf without one, two or three of its four spines: no packet loses a path, and nothing loops."""
    fabric = zoned(placement, leaves=8, spines=4, n_gpus=120, n_storage=20, ports=4)
    joining = (fabric.role[fabric.port_node] == Role.JOINT) & (fabric.peer >= 0)
    border = np.unique(fabric.peer_node[joining])
    border = border[fabric.zone[border] == zone]
    spines = np.flatnonzero((fabric.role == Role.SPINE) & (fabric.zone == zone))
    assert len(border) == {"border": 1, "spread": 4}[placement]
    for leaf, count in product(border[:2].tolist(), (1, 2, 3)):
        for gone in list(combinations(spines.tolist(), count))[: 2 if is_nightly() else 1]:
            damaged = without_spines(fabric, leaf, np.array(gone))
            proof = prove(Routed(damaged, route(damaged)), "all")
            assert (proof.missing, proof.credit_loops, proof.lanes) == (0, 0, 1)


def uneven_load(routed: Routed, job: np.ndarray) -> float:
    """All-to-all among some end ports: flows on the fullest link between switches, by the mean of those between zones.

    Between zones there are the fewest cables, so that 1 is the least.
    """
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
    return float(load[inner].max() / load[crosses].mean())


@pytest.mark.slow
def test_two_zones_are_even_for_every_stride() -> None:
    """Every 2nd to 12th host of Fire-Flyer 2: modulo the uplinks, every 10th would load two of twenty."""
    fabric = topo.preset("fire-flyer-2").fabric
    routed = Routed(fabric, route(fabric))
    proof = prove(routed)
    assert proof.holds
    assert proof.load[fabric.inner].max() == 30_420, "780 x 780 pairs over 20 cables: no tables can do better"
    ranks = tree_order(fabric, fabric.ends(role="compute"))
    found = [uneven_load(routed, ranks[first::stride]) for stride in range(2, 13) for first in (0, stride // 2)]
    assert np.mean(found) <= 1.35
    assert max(found) <= 1.7
    for zone in (0, 1):  # in a zone nothing meets, as before
        mine = tree_order(fabric, fabric.ends(role="compute", zone=zone))
        assert congestion(routed, mine, shifts(len(mine), 200))[0].max() <= 1


@pytest.mark.slow
def test_jobs_on_a_part_of_two_zones_are_as_fast_as_on_plain_shortest_paths() -> None:
    """Every 5th, 8th and 10th GPU of Fire-Flyer 2, one of each leaf, halving-doubling, and trees, played."""
    fabric = topo.preset("fire-flyer-2").fabric
    tables = (route(fabric), minhop.route(fabric), dfsssp.route(fabric, lanes=1))
    routed = [Routed(fabric, one) for one in tables]
    ranks = tree_order(fabric, fabric.ends(role="compute"))
    each_leaf = ranks[np.unique(fabric.end_switch[ranks], return_index=True)[1]]
    jobs = [("all-to-all", job, "shift", 1) for job in (ranks[::5], ranks[::8], ranks[::10], each_leaf)]
    jobs += [("allreduce", ranks[:1024], "halving-doubling", 1), ("allreduce", ranks, "double-binary-tree", 1)]
    jobs += [("allreduce", ranks[:some], "zone-tree", 32) for some in (600, 1200)]
    for kind, job, algorithm, chunks in jobs:
        work = simulate.collective(kind, job, "64 MiB", algorithm, chunks=chunks)
        ours, *plain = (simulate.play(one, work).makespan_s for one in routed)
        assert ours <= 1.0001 * min(plain)


def test_a_single_tree_is_destination_modulo():
    fabric = tree(800, leaves=40, spines=20)
    tables = route(fabric)

    proof = prove(Routed(fabric, tables))

    assert (proof.missing, proof.credit_loops, proof.max_hops) == (0, 0, 3)
    assert max(shift_loads(fabric, tables, np.arange(60, 860))) == 1
