"""The worst cut beside linear programs over all halves, and the laws that a share of every server obeys."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import costmodel
from costmodel import bisection
from costmodel.optimise import cuts
from helpers.clusters import tree
from helpers.networks import HDR, NDR, Plain, plain, plain_tree, plain_wide
from helpers.strategies import examples

SEEDS = st.integers(0, 1_000_000)


def share(network: Plain, **options: object) -> float:
    found = bisection([network.fabric()], **options)
    assert found.least <= found.share
    return found.share


@pytest.mark.slow
@given(SEEDS)
@examples(40)
def test_every_server_of_a_half_gets_what_a_linear_program_gives_the_worst_halves(seed: int) -> None:
    network = plain(seed)
    found = bisection([network.fabric()])
    assert found.exact
    assert found.share == pytest.approx(network.worst_share(), abs=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_over_rails_the_worst_halves_of_each_rail_get_what_a_linear_program_gives_them(seed: int) -> None:
    """A program for all halves of each of two rails, each a commodity of its own.

    Halves of servers whose adapters send to any of the other half get no less, and halves of adapters no more.
    """
    network, draw = plain_wide(seed), np.random.default_rng(seed)
    wide = tuple(tuple(draw.integers(0, network.n, 2).tolist()) for _ in range(4))
    network = replace(network, hosts=(0,) * network.n, wide=wide)
    found = bisection([network.fabric()])
    assert found.exact
    assert found.share == pytest.approx(network.worst_share_over_rails(), abs=1e-7)
    assert found.narrower.share - 1e-9 <= found.share <= network.worst_share() + 1e-7


@given(SEEDS, st.sampled_from([None, 2, 3]))
@examples(60)
def test_jobs_of_servers_with_several_adapters_have_the_least_quotient_of_all_sets(seed: int, job: int | None) -> None:
    """Adapters send to those with their number in other servers: of each rail the lesser part crosses."""
    network = plain_wide(seed)
    each = [(switch,) for switch, count in enumerate(network.hosts) for _ in range(count)] + list(network.wide)
    job = job or len(each)
    least = 1.0
    for inside in (np.array(side, float) for side in product([0, 1], repeat=network.n)):
        leaving, asked = (inside @ network.gbps * (1 - inside)).sum(), 0.0
        for first in range(0, len(each) - job + 1, job):
            for rail in range(max(map(len, each))):
                on = [inside[server[rail]] for server in each[first : first + job] if len(server) > rail]
                asked += 200 * min(on.count(1), on.count(0))
        least = min(least, leaving / asked if asked else 1.0)
    assert share(network, job=job) == pytest.approx(least)


@pytest.mark.slow
@given(SEEDS, st.sampled_from([None, 3]))
@examples(20)
def test_search_and_program_enclose_the_share_of_servers_with_several_adapters(seed: int, job: int | None) -> None:
    network = plain_wide(seed)
    exact = bisection([network.fabric()], job).share
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cuts, "MOST_ENUMERATED", -1)
        found, proven = bisection([network.fabric()], job, prove=False), bisection([network.fabric()], job)
    assert found.least - 1e-9 <= exact <= found.share + 1e-9
    assert (proven.share, proven.least) == (pytest.approx(exact), pytest.approx(exact, abs=1e-5))


@pytest.mark.slow
@given(SEEDS)
@examples(20)
def test_local_search_and_bounds_enclose_the_share(seed: int) -> None:
    """The same networks as if they were too large to try all sets of switches."""
    network = plain(seed)
    exact = bisection([network.fabric()]).share
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cuts, "MOST_ENUMERATED", -1)
        found, proven = bisection([network.fabric()], prove=False), bisection([network.fabric()])
    assert found.least - 1e-9 <= exact <= found.share + 1e-9
    assert (proven.share, proven.least) == (pytest.approx(exact), pytest.approx(exact, abs=1e-6))


@pytest.mark.slow
@given(SEEDS, st.sampled_from([None, 2, 3]))
@examples(30)
def test_all_cuts_are_enumerated_and_no_descent_makes_up_for_one(seed: int, job: int | None) -> None:
    """A random network, and two switches beside it that are alike: each has a cable to every other, and a server."""
    network = plain(seed, most_switches=6)
    beside = tuple((at, network.n + extra, HDR) for at in range(network.n) for extra in range(2))
    network = Plain(network.n + 2, network.cables + beside, (*network.hosts, 1, 1))
    expected = bisection([network.fabric()], job)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cuts.CutSearch, "_descend", lambda *_: None)
        patch.setattr(cuts.Subnet, "containers", [])
        patch.setattr(cuts, "spread_share", lambda *_: 0.0)
        found = bisection([network.fabric()], job)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cuts, "MOST_ENUMERATED", -1)
        descended = bisection([network.fabric()], job, prove=False)
    assert found.share == pytest.approx(expected.share)
    assert found.share <= descended.share + 1e-9


def test_a_bound_above_a_cut_is_an_error_of_heddle() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cuts, "spread_share", lambda *_: 0.5)
        with pytest.raises(RuntimeError, match="contradict each other"):
            bisection([tree(99, leaves=3, spines=2, parallel=1)])


def test_a_bound_below_the_worst_cut_leaves_an_interval() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cuts, "MOST_ENUMERATED", -1)
        patch.setattr(cuts, "spread_share", lambda *_: 0.04)
        found = bisection([tree(99, leaves=3, spines=2, parallel=1)], prove=False)
    assert (found.least, found.share, found.exact) == (0.04, 2 / 33, False)


def test_a_cut_that_every_server_feels_is_not_paid_for_by_pairs_on_one_leaf() -> None:
    """Three leaves of 33 servers with a cable to each of two spines: each has 6.06 %, and those on a leaf the rest."""
    network = Plain(
        5,
        tuple((leaf, spine, HDR) for leaf in range(3) for spine in (3, 4)),
        (33, 33, 33, 0, 0),
        levels=(1, 1, 1, 2, 2),
    )
    found = bisection([network.fabric()])
    assert found.share == found.least == 2 / 33
    assert found.text == "6.1%: s0 (33 servers, 6,600 Gb/s) has 400 Gb/s to the rest, as each of 3 such sets"


@given(SEEDS)
@examples(30)
def test_more_servers_on_a_switch_never_raise_it(seed: int) -> None:
    network, draw = plain(seed), np.random.default_rng(seed)
    hosts = list(network.hosts)
    hosts[int(draw.integers(0, network.n))] += int(draw.integers(1, 3))
    assert share(replace(network, hosts=tuple(hosts))) <= share(network) + 1e-9


@given(SEEDS)
@examples(30)
def test_a_cable_fewer_never_raises_it(seed: int) -> None:
    network = plain(seed)
    if network.cables:
        assert share(replace(network, cables=network.cables[1:])) <= share(network) + 1e-9


@given(SEEDS)
@examples(30)
def test_two_cables_are_one_of_their_sum(seed: int) -> None:
    network = plain(seed)
    one = replace(network, cables=tuple((a, b, NDR) for a, b, _ in network.cables))
    assert share(one) == share(replace(network, cables=network.cables * 2))


@given(SEEDS)
@examples(30)
def test_the_order_of_switches_does_not_matter(seed: int) -> None:
    network = plain(seed)
    order = tuple(np.random.default_rng(seed).permutation(network.n).tolist())
    assert bisection([network.fabric(order)]).share == pytest.approx(share(network))


@pytest.mark.parametrize("taper", [0.5, 1.0, 1.5, 2.0, 3.0])
def test_a_tree_of_like_leaves_has_the_inverse_of_its_taper(taper: float) -> None:
    leaves, up = 6, 8
    fabric = tree(int(leaves * up * taper), leaves=leaves, spines=4, parallel=2)
    assert bisection([fabric]) == costmodel.Bisection(min(1.0, 1 / taper), min(1.0, 1 / taper))


@given(SEEDS)
@examples(20)
def test_the_named_set_has_the_links_and_the_servers_that_are_said(seed: int) -> None:
    """Counted from the plain network: cables that leave the set, and servers on its switches."""
    network = plain_tree(seed)
    found = bisection([network.fabric()])
    if found.cut is None:
        assert found.share == 1.0
        return
    inside = {int(name[1:]) for name in found.cut.switches}
    leaving = sum(speed.gbps for a, b, speed in network.cables if (a in inside) != (b in inside))
    servers, every = sum(network.hosts[switch] for switch in inside), sum(network.hosts)
    assert (found.cut.servers, found.cut.leaves_gbps) == (servers, leaving)
    assert found.cut.asked_gbps == 200 * min(servers, every - servers, every // 2)
    assert servers <= every - servers
    assert found.share == pytest.approx(leaving / found.cut.asked_gbps)
    assert {int(name[1:]) for name in found.cut.with_servers} == {at for at in inside if network.hosts[at]}


@given(SEEDS)
@examples(20)
def test_the_halves_of_the_worst_cut_get_the_share_and_no_more(seed: int) -> None:
    """A linear program on the halves that the cut names, which a finalist has to play."""
    network = plain(seed)
    fabric = network.fabric()
    found = bisection([fabric])
    if found.cut is None:
        return
    one, other, apart = found.cut.halves(fabric, fabric.ends())
    assert len(one) == len(other) == len(fabric.ends()) // 2
    assert len({*one.tolist(), *other.tolist()}) == 2 * len(one)
    assert 200 * apart == found.cut.asked_gbps
    at = [np.bincount(fabric.end_switch[half], minlength=network.n) for half in (one, other)]
    assert network.carried(200.0 * at[0], 200.0 * at[1]) == pytest.approx(found.share)


@given(SEEDS)
@examples(20)
def test_of_several_subnets_the_least_counts(seed: int) -> None:
    network = plain(seed)
    networks = {"rail0": replace(network, cables=network.cables * 2), "rail1": network}
    found = bisection([replace(each.fabric(), name=name) for name, each in networks.items()])
    shares = {name: share(each) for name, each in networks.items()}
    assert found.share == min(shares.values())
    if found.share < 1:
        assert found.subnets == shares
        assert found.cut.subnet == min(shares, key=shares.__getitem__)
    if shares["rail0"] > shares["rail1"]:
        assert "the least of rail0 " in found.reason


@given(SEEDS)
@examples(20)
def test_every_storage_server_sends_what_a_linear_program_says(seed: int) -> None:
    network, draw = plain(seed), np.random.default_rng(seed)
    stores = np.bincount(draw.integers(0, network.n, int(draw.integers(1, 9))), minlength=network.n)
    network = replace(network, storage=tuple(stores.tolist()))
    found = costmodel.serving_share([network.fabric()])
    expected = network.carried(200.0 * stores, 200.0 * np.array(network.hosts), at_most=True)
    assert found.exact
    assert found.share == pytest.approx(expected, abs=1e-7)
    if found.cut is not None:  # what the set can get rid of, counted from the plain network
        inside = {int(name[1:]) for name in found.cut.switches}
        leaving = sum(speed.gbps for a, b, speed in network.cables if (a in inside) != (b in inside))
        assert (found.cut.leaves_gbps, found.cut.taken_gbps, found.cut.asked_gbps) == (
            leaving,
            200 * sum(network.hosts[switch] for switch in inside),
            200 * sum(network.storage[switch] for switch in inside),
        )


def test_a_rail_with_half_of_the_cables_halves_what_a_job_gets() -> None:
    rails = {"rail0": 2, "rail1": 1}
    fabrics = [replace(Plain(2, ((0, 1, HDR),) * cables, (4, 4)).fabric(), name=name) for name, cables in rails.items()]
    for order in (fabrics, fabrics[::-1]):
        found = bisection(order)
        assert found.share == 0.25
        assert found.cut.subnet == "rail1"
        assert {"rail0 50.0%", "rail1 25.0%"} == set(found.reason.partition("the least of ")[2].split(", "))


def test_switches_with_other_jobs_are_not_alike() -> None:
    """Four leaves of one server on one switch without any: two jobs of two, one after the other."""
    network = Plain(5, tuple((leaf, 4, HDR) for leaf in range(4)), (1, 1, 1, 1, 0))
    fabric = network.fabric()
    net = cuts.Subnet(fabric, {host: number for number, host in enumerate(fabric.hosts)})
    one, two = (
        cuts.CutSearch(net, net.jobs(np.array(windows), with_storage=False))._alike()
        for windows in ([[0, 4]], [[0, 2], [2, 4]])
    )
    assert [kind.tolist() for kind in one] == [[0, 1, 2, 3]]
    assert [kind.tolist() for kind in two] == [[0, 1], [2, 3]]


def test_a_switch_without_servers_stands_where_it_has_more_links() -> None:
    """Leaves 0 and 1 have three and one cables to switch 2: one cable limits them, on whichever side it stands."""
    network = Plain(3, ((0, 2, HDR),) * 3 + ((1, 2, HDR),), (4, 4, 0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cuts.CutSearch, "_descend", lambda *_: None)
        patch.setattr(cuts.Subnet, "containers", [])
        assert bisection([network.fabric()]) == costmodel.Bisection(1 / 4, 1 / 4)


@given(SEEDS)
def test_containers_are_what_is_connected_up_to_each_level_and_each_switch_with_servers(seed: int) -> None:
    """Levels at random: a search from each switch over those that are no higher, unless none of them is linked."""
    network = plain(seed, most_switches=8)
    levels = np.random.default_rng(seed).integers(1, 4, network.n).tolist()
    fabric = replace(network, levels=tuple(levels)).fabric()
    wanted = {frozenset([switch]) for switch, hosts in enumerate(network.hosts) if hosts}
    for height in sorted(set(levels))[:-1]:
        parts = set()
        for switch in (each for each in range(network.n) if levels[each] <= height):
            part, left = {switch}, [switch]
            while left:
                near = np.flatnonzero(network.gbps[left.pop()]).tolist()
                more = {far for far in near if levels[far] <= height} - part
                part, left = part | more, [*left, *more]
            parts.add(frozenset(part))
        wanted |= parts if any(len(part) > 1 for part in parts) else set()
    found = [frozenset(np.flatnonzero(side).tolist()) for side in cuts.Subnet(fabric, {}).containers]
    assert set(found) == wanted


@given(SEEDS, st.sampled_from([None, 2, 3]))
def test_the_worst_of_all_sets_of_switches_is_enumerated(seed: int, job: int | None) -> None:
    """Set by set, in whatever order: the least share, and where it is."""
    network = plain(seed, most_switches=6)
    fabric = network.fabric()
    net = cuts.Subnet(fabric, {host: number for number, host in enumerate(fabric.hosts)})
    servers = len(fabric.hosts)
    search = cuts.CutSearch(net, net.jobs(costmodel.job_windows(servers, job or servers), with_storage=False))
    if not len(search.jobs.half):
        return
    search._enumerate(search._alike())
    share = 1.0
    for side in (np.array(side, bool) for side in product([False, True], repeat=net.n)):
        asked, leaving = float(search.jobs.asked(search.jobs.inside(side))), net.leaving(side)
        share = min(share, leaving / asked if asked else 1.0)
    assert (search.share, search.least) == (pytest.approx(share), search.share)
    if share < 1:
        assert net.leaving(search.side) / float(search.jobs.asked(search.jobs.inside(search.side))) == search.share


@given(SEEDS, st.sampled_from([None, 2]))
def test_a_pass_of_single_moves_is_that_of_a_plain_search(seed: int, job: int | None) -> None:
    """Each switch moves once, always the one that leaves least; the whole objective is computed for each."""
    network, draw = plain(seed, most_switches=7), np.random.default_rng(seed)
    fabric = network.fabric()
    net = cuts.Subnet(fabric, {host: number for number, host in enumerate(fabric.hosts)})
    servers = len(fabric.hosts)
    search = cuts.CutSearch(net, net.jobs(costmodel.job_windows(servers, job or servers), with_storage=False))
    if not len(search.jobs.half):
        return
    side = draw.random(net.n) < 0.5

    def left(side: np.ndarray) -> float:
        return net.leaving(side) - float(search.jobs.asked(search.jobs.inside(side)))

    now, free, best = side.copy(), list(range(net.n)), side
    while free:
        flipped = {switch: now ^ (np.arange(net.n) == switch) for switch in free}
        moved = min(free, key=lambda switch: left(flipped[switch]))
        free.remove(moved)
        now = flipped[moved]
        best = now if left(now) < left(best) else best
    assert search._improve(side).tolist() == best.tolist()
