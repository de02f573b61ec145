"""Repairs against what any repair owes: complete, free of loops, few entries changed, and none without a reason."""

from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest

from helpers.random_fabrics import draw
from helpers.strategies import nightly
from helpers.trees import fullest, grow_tree
from helpers.twins import twin
from routing.engines.base import route
from routing.proof import prove
from routing.quality.figures import measure
from routing.repairs.basis import RepairBasis, prepare_repair
from routing.repairs.repair import Repair, repair, route_anew
from routing.routed import Routed
from routing.search.search import TableSearch
from routing.tables import NO_PATH, lid_owners
from topo.cluster import preset
from topo.errors import RoutingError

NOWHERE = 1 << 20


@cache
def basis_of(seed: int) -> RepairBasis:
    return prepare_repair(route(draw(seed), "balanced"))


def failures(basis: RepairBasis, rng: np.random.Generator, sets: int = 1) -> Iterator[np.ndarray]:
    """Two links, a switch, a host, and sets of 1 to 5 % of the links."""
    fabric = basis.routed.fabric
    links = fabric.inner_links
    yield from rng.choice(links[:, 0], (2, 1))
    switch = rng.integers(fabric.n_switches)
    yield np.arange(fabric.port_offset[switch], fabric.port_offset[switch + 1])
    yield fabric.port_of(rng.choice(fabric.ends(), 1))
    for _ in range(sets):
        yield links[rng.random(len(links)) < rng.uniform(0.01, 0.05), 0]


def judge(done: Repair, *, few: bool = True) -> None:
    """What holds of every repair; ``few`` says that no entries are spared for the load."""
    before, after = done.before.tables, done.after.tables
    proof = prove(done.after, "all" if prove(done.before, "all").credit_loops == 0 else "adapters")
    assert (proof.missing, proof.credit_loops) == (proof.disconnected, 0), done.how
    # Nothing changes towards a destination that no dead cable was on the way to, in an order that was kept.
    dead = done.down[done.before.fabric.is_inner[done.down]]
    named = before.lft[done.before.fabric.port_node[dead]] == done.before.fabric.port_number[dead][:, None]
    changed = np.unique(done.changed[:, 1])
    assert done.how in ("grown order", "order of levels") or not few or named[:, changed].any(axis=0).all()
    assert np.array_equal(before.lid, after.lid)


def had_to_change(basis: RepairBasis, done: Repair) -> int:
    """Entries whose cable is down, or behind which no climbing path as short as theirs or as any is left if switches
    whose path is whole keep it; channel by channel from the highest on, for each destination, and with nothing of the
    repair but its order."""
    whole, now, tables, count = basis.routed.fabric, done.after.fabric, basis.routed.tables, 0
    owner = lid_owners(tables)
    ports = now.inner[np.argsort(-done.rank[now.inner])].tolist()
    dead = done.down[whole.is_inner[done.down]]
    named = (tables.lft[whole.port_node[dead]] == whole.port_number[dead][:, None]).any(axis=0)
    for lid in np.flatnonzero(named & (owner >= 0)).tolist():
        home = int(whole.end_switch[owner[lid]])
        entry = whole.port_offset[: whole.n_switches] + tables.lft[:, lid] - 1
        length = {switch: paths for switch in range(whole.n_switches) if (paths := way(done, switch, lid, home))}
        cut = {switch for switch, (_, down) in length.items() if down}
        shortest, over = {home: 0}, {}
        for port in ports:
            here, there = int(whole.port_node[port]), int(whole.peer_node[port])
            if here != home and there in shortest and (here in cut or port == entry[here]):
                over[port] = 1 + shortest[there]
                shortest[here] = min(shortest.get(here, NOWHERE), over[port])
        for switch in cut & set(shortest):
            count += over.get(int(entry[switch]), NOWHERE) > max(length[switch][0], shortest[switch])
    return count


def way(done: Repair, switch: int, lid: int, home: int) -> tuple[int, bool] | None:
    """How many cables the old path has, and whether one is down; None where it does not arrive."""
    fabric, lft = done.before.fabric, done.before.tables.lft
    length, down = 0, False
    while switch != home:
        port = int(fabric.port_offset[switch]) + int(lft[switch, lid]) - 1
        if lft[switch, lid] == NO_PATH or not fabric.is_inner[port] or length > fabric.n_switches:
            return None
        length, down = length + 1, down or bool(done.after.fabric.peer[port] < 0)
        switch = int(fabric.peer_node[port])
    return length, down


@pytest.mark.slow
@pytest.mark.parametrize("seed", [nightly(seed) if seed in (0, 1, 2, 3, 7) else seed for seed in range(10)])
def test_what_is_connected_arrives_without_loops(seed: int) -> None:
    basis = basis_of(seed)
    for down in failures(basis, np.random.default_rng(seed)):
        judge(repair(basis, down, spare=seed % 2), few=seed % 2 == 0)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(10, 135))
def test_what_is_connected_arrives_without_loops_on_many_fabrics(seed: int) -> None:
    basis = prepare_repair(route(draw(seed), "balanced"))
    for down in failures(basis, np.random.default_rng(seed), sets=8):
        judge(repair(basis, down), few=False)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [nightly(seed) if seed in (0, 2, 7, 13) else seed for seed in range(15)])
def test_a_link_changes_only_entries_that_have_to(seed: int) -> None:
    basis, rng = basis_of(seed), np.random.default_rng(seed)
    changed = least = 0
    for down in rng.choice(basis.routed.fabric.inner_links[:, 0], (6, 1)):
        done = repair(basis, down)
        homes = done.before.fabric.end_switch[lid_owners(done.before.tables)]
        cut = [way(done, switch, lid, int(homes[lid]))[1] for switch, lid in done.changed.tolist()]
        if done.how == "kept order" and all(cut):  # otherwise some had to let through those that had no path
            changed += len(cut)
            least += had_to_change(basis, done)
    assert changed <= 1.04 * least + 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 5])
def test_what_comes_back_has_its_old_entries(seed: int) -> None:
    basis = basis_of(seed)
    links = basis.routed.fabric.inner_links
    for down in (links[:0, 0], links[[3, 1], 0], links[[1, 3], 1]):
        done = repair(basis, down)
        again = repair(repaired_basis(basis), down)
        assert np.array_equal(done.after.tables.lft, again.after.tables.lft)
    assert repair(basis, links[:0, 0]).after.tables.lft.tobytes() == basis.routed.tables.lft.tobytes()


def repaired_basis(basis: RepairBasis) -> RepairBasis:
    """A basis that is made a second time."""
    return prepare_repair(basis.routed)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["dfsssp", "shortest"])
def test_tables_on_several_lanes_need_no_more(engine: str) -> None:
    fabric = draw(9)
    routed = route(fabric, engine)
    assert prove(routed).lanes > 1
    basis = prepare_repair(routed)
    for down in fabric.inner_links[[0, 20, 40], :1]:
        done = repair(basis, down)
        proof = prove(done.after, "adapters")
        assert proof.missing == proof.credit_loops == 0
        assert proof.lanes <= prove(routed, "adapters").lanes
        assert done.how == "lanes"
        updates = done.updates  # none may be sent to anyone meanwhile
        assert (updates.stages, len(updates.entries)) == (1, len(done.changed))
        assert set(done.changed[:, 1]) <= set(updates.drained.tolist())


@pytest.mark.slow
def test_where_lanes_are_too_few_all_is_routed_anew() -> None:
    basis, rng = prepare_repair(route(draw(38), "dfsssp")), np.random.default_rng(1)
    hows = set()
    for cables in range(1, 4):
        done = repair(basis, rng.choice(basis.routed.fabric.inner_links[:, 0], cables))
        proof = prove(done.after, "adapters")
        assert (proof.missing, proof.credit_loops) == (proof.disconnected, 0)
        hows.add(done.how)
    assert hows == {"lanes", "routed anew"}


def test_tables_with_credit_loops_are_no_basis() -> None:
    with pytest.raises(RoutingError, match="cannot be repaired"):
        prepare_repair(route(draw(5), "minhop"))


@pytest.mark.slow
@pytest.mark.parametrize("name", [nightly("fire-flyer-2"), nightly("two-frames"), "ndr-pod"])
def test_real_fabrics_without_a_link_or_a_switch(name: str) -> None:
    basis = real(name)
    fabric, rng = basis.routed.fabric, np.random.default_rng(7)
    sets = [*rng.choice(fabric.inner_links[:, 0], (4, 1))]
    sets += [np.arange(*fabric.port_offset[[switch, switch + 1]]) for switch in rng.choice(fabric.n_switches, 2)]
    for down in sets:
        done = repair(basis, down)
        judge(done, few=len(down) == 1)
        if done.how == "kept order" and len(down) == 1:
            assert had_to_change(basis, done) <= len(done.changed) <= 1.01 * had_to_change(basis, done)


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["fire-flyer-2", "two-frames", "ndr-pod"])
@pytest.mark.parametrize("what", ["links", "switches", "sets"])
def test_real_fabrics_without_any_link_or_switch(name: str, what: str) -> None:
    basis = real(name)
    fabric, rng = basis.routed.fabric, np.random.default_rng(11)
    links = fabric.inner_links
    if what == "links":
        sets = list(links[:, :1])
    elif what == "switches":
        sets = [np.arange(*fabric.port_offset[[switch, switch + 1]]) for switch in range(fabric.n_switches)]
    else:
        sets = [links[rng.random(len(links)) < rng.uniform(0.01, 0.05), 0] for _ in range(333)]
    for down in sets:
        done = repair(basis, down)
        proof = prove(done.after, "all")
        assert (proof.missing, proof.credit_loops) == (proof.disconnected, 0)


def some_links(basis: RepairBasis, seed: int) -> np.ndarray:
    """Return 1 % of the links, and two at least."""
    links = basis.routed.fabric.inner_links[:, 0]
    return np.random.default_rng(seed).choice(links, max(2, round(0.01 * len(links))), replace=False)


WORSE = pytest.mark.xfail(strict=True, reason="only a search that starts anew finds an order of turns as good")


def behind(basis: RepairBasis, seed: int) -> float:
    """By how much the fullest channel without some links beats the fullest one before and that of tables that are made
    anew, whichever has more."""
    done = repair(basis, some_links(basis, seed))
    assert len(done.changed) < 0.75 * len(route_anew(done).changed)
    return fullest(done.after) / max(fullest(route_anew(done).after), fullest(basis.routed))


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "most"), [(1, 1.02), nightly(5, 1.02), (8, 1.1), (9, 1.05), (54, 1.03)])
def test_the_fullest_link_is_hardly_fuller_than_anew(seed: int, most: float) -> None:
    assert behind(basis_of(seed), seed) <= most


@pytest.mark.nightly
@WORSE
def test_the_fullest_link_is_seldom_fuller_than_anew() -> None:
    """Where an order leaves no other path, or a tree has to turn elsewhere, nothing that keeps most entries helps."""
    fuller = [seed for seed in range(15, 60) if behind(basis_of(seed), seed) > 1.02]
    assert len(fuller) <= 5


@pytest.mark.slow
@pytest.mark.parametrize("seed", [24, 27, 80])
def test_turns_that_are_allowed_for_the_load_keep_one_order(seed: int) -> None:
    """A jellyfish, a dragonfly and a torus whose kept order has no other paths for what is too full."""
    basis = basis_of(seed)
    down = some_links(basis, seed)
    done = repair(basis, down)
    judge(done, few=False)
    assert done.how == "extended order"
    assert len(done.changed) <= 2 * len(repair(basis, down, spare=0).changed)
    assert rises(done.before, done) and rises(done.after, done)


def rises(routed: Routed, done: Repair) -> bool:
    """Whether the order of a repair rises along all paths of tables, over cables that are up."""
    up, lft = done.after.fabric, routed.tables.lft
    port = up.port_offset[: up.n_switches, None] + np.where(lft == NO_PATH, 1, lft).astype(int) - 1
    port = np.where((lft != NO_PATH) & (lft > 0), port, 0)
    goes = (lft != NO_PATH) & (lft > 0) & up.is_inner[port]
    then = np.where(goes, up.peer_node[port], 0)
    column = np.arange(lft.shape[1])
    both = goes & goes[then, column]
    return bool((done.rank[port][both] < done.rank[port[then, column]][both]).all())


@pytest.mark.slow
def test_where_the_order_has_to_be_another_that_of_levels_keeps_most() -> None:
    """Of a tree that turns beside its spines: an order that is grown loaded the fullest link 3.3 times as much."""
    basis = basis_of(25)
    links = basis.routed.fabric.inner_links[:, 0]
    done = repair(basis, np.random.default_rng(2).choice(links, 3, replace=False))
    judge(done, few=False)
    assert done.how == "order of levels"
    assert len(done.changed) < 0.5 * len(route_anew(done).changed)
    assert fullest(done.after) <= 1.02 * fullest(route_anew(done).after)


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["fire-flyer-2", "two-frames", "ndr-pod"])
def test_repaired_tables_are_worth_as_much_as_new_ones(name: str) -> None:
    """After 1 % of the links: at most 2 % less bisection; no link 2 % fuller than the fullest before or anew."""
    basis = real(name)
    links = basis.routed.fabric.inner_links[:, 0]
    for seed in range(3):
        rng = np.random.default_rng(seed)
        done = repair(basis, rng.choice(links, round(0.01 * len(links)), replace=False))
        ours, anew = (measure(routed) for routed in (done.after, route(done.after.fabric, "balanced")))
        assert ours.ebb >= 0.98 * anew.ebb
        assert fullest(done.after) <= 1.02 * max(fullest(route_anew(done).after), fullest(basis.routed))


@cache
def real(name: str) -> RepairBasis:
    fabric = preset(name).fabric if name == "fire-flyer-2" else twin(name)
    return prepare_repair(route(fabric, "balanced"))


def test_an_entry_that_dropped_packets_goes_on_doing_so() -> None:
    whole = basis_of(4).routed
    lft = whole.tables.lft.copy()
    host = int(whole.fabric.ends()[0])
    far = (int(whole.fabric.end_switch[host]) + 1) % whole.fabric.n_switches
    lft[far, whole.tables.lid[host]] = NO_PATH
    holed = Routed(whole.fabric, type(whole.tables)(whole.tables.lid, lft))
    done = repair(holed, whole.fabric.inner_links[0, :1])
    assert done.after.tables.lft[far, whole.tables.lid[host]] == NO_PATH


def test_what_is_moved_off_full_channels_is_weighed_as_the_channels_were(monkeypatch: pytest.MonkeyPatch) -> None:
    """One score says what a failure costs, what an entry may cost, and whether a move is worth it."""
    weighed, moved = [], []
    weigh, improve = TableSearch.weigh, TableSearch.improve

    def note_weigh(self, order, next_hop, high=None):
        weighed.append(high)
        return weigh(self, order, next_hop, high)

    def note_improve(self, *given, high=None, **more):
        moved.append(high)
        return improve(self, *given, high=high, **more)

    monkeypatch.setattr(TableSearch, "weigh", note_weigh)
    monkeypatch.setattr(TableSearch, "improve", note_improve)
    fabric = grow_tree((4, 4), (1, 4), (1, 1))
    basis = prepare_repair(route(fabric, "balanced"))
    repair(basis, fabric.inner[[0, 1, 5, 6]])
    assert moved and set(moved) == set(weighed) == {1.0}
