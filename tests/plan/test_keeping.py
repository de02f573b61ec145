"""A keeper against switches that fail as real ones do: whatever happens, it says what the switches hold.

The switches here are an array, and OpenSM is a function that copies the file of tables into it, when it works.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import plan
import routing
import topo
from helpers.presets import routed_lab
from helpers.random_fabrics import draw
from helpers.strategies import nightly, slow_but
from plan import keeping
from plan.cli import run
from plan.keeping import next_stages, run_program
from routing.opensm import format_lfts, parse_lfts
from routing.tables import NO_PATH
from topo.errors import HeddleError, ToolError


class Site:
    """A fabric whose switches hold tables, and an OpenSM that loads them from a file."""

    def __init__(self, routed: routing.Routed, folder: Path) -> None:
        self.routed, self.fabric = routed, routed.fabric
        self.held = routed.tables
        self.now, self.file = folder / "now", folder / "lfts"
        self.file.write_bytes(format_lfts(self.fabric, self.held))
        self.loads = self.failing = 0
        self.seen: list[np.ndarray] = []
        self.show(self.fabric)
        self.keeper = plan.Keeper(
            routed, self.now, self.file, self.read, self.reload, most_down=10**6, switch_life_s=0, load_s=0
        )

    def show(self, fabric: topo.Fabric) -> None:
        """OpenSM lists a fabric."""
        self.there = fabric
        self.now.write_text(topo.format_ibnetdiscover(fabric), encoding="utf-8")

    def read(self) -> bytes:
        return format_lfts(self.fabric, self.held)

    def reload(self) -> None:
        self.loads += 1
        if self.failing:
            self.failing -= 1
            return
        self.held = parse_lfts(self.file.read_bytes(), self.fabric).tables
        self.seen.append(self.held.lft)

    def proof(self) -> routing.Proof:
        """Of what is in the switches, on what is up."""
        up = self.fabric.without(topo.find_missing(self.fabric, self.there).ports)
        return routing.prove(routing.Routed(up, self.held))

    def whole(self) -> bool:
        proof = self.proof()
        return proof.missing == proof.disconnected and not proof.credit_loops


def random_site(seed: int, folder: Path) -> Site:
    number = seed
    while (fabric := draw(number)).n_switches > 30 or not len(fabric.inner_links):
        number += 1009
    return Site(routing.route(fabric, "balanced"), folder)


def break_links(site: Site, rng: np.random.Generator, count: int) -> topo.Fabric:
    links = site.fabric.inner_links[:, 0]
    return site.fabric.without(rng.choice(links, min(count, len(links)), replace=False))


SEEDS = [*range(4), *(nightly(seed) for seed in range(4, 60))]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.slow
def test_what_is_kept_is_what_the_switches_hold(seed: int, tmp_path: Path) -> None:
    """Links die and come back; now and then OpenSM does not load, or the switches forget entries."""
    site, rng = random_site(seed, tmp_path), np.random.default_rng(seed)
    original = site.file.read_bytes().partition(b"\n")[2]
    assert site.keeper.keep().holds and not site.loads
    for _ in range(4):
        site.show(break_links(site, rng, int(rng.integers(1, 4))))
        site.failing = int(rng.integers(2))
        while site.failing:
            with pytest.raises(ToolError, match="are not in the switches after 0 s"):
                site.keeper.keep()
            if not site.loads:  # nothing was on those links
                break
        if rng.random() < 0.5:
            lft = site.held.lft.copy()
            lids = site.held.lid[site.held.lid > 0]
            lids = np.setdiff1d(lids, site.held.lid[: len(lft)])
            lft[rng.integers(len(lft)), rng.choice(lids)] = NO_PATH
            site.held = replace(site.held, lft=lft)
        kept = site.keeper.keep()
        assert site.whole() and kept.proof.missing == site.proof().missing
        assert {finding.where for finding in kept.left} <= {"drained"}  # of balance alone
        file = parse_lfts(site.file.read_bytes(), site.fabric).tables
        assert np.array_equal(file.lft, site.held.lft)  # what OpenSM would load when it sweeps
        before, held = site.loads, site.file.read_bytes()
        site.file.write_bytes(held[: len(held) // 2])  # as an editor may leave it
        assert site.keeper.keep().written == 0 and site.loads == before
        assert site.file.read_bytes() == held
    site.show(site.fabric)
    if site.keeper.keep().holds:
        assert site.file.read_bytes().partition(b"\n")[2] == original


@pytest.mark.parametrize("seed", SEEDS)
def test_no_pair_is_lost_from_stage_to_stage(seed: int, tmp_path: Path) -> None:
    """From tables of another engine, while links are down. What no order serves is drained by the switches: entries
    towards it drop for a stage, if pairs had no path anyway, and all others lose nothing."""
    site, rng = random_site(seed, tmp_path), np.random.default_rng(seed)
    other = routing.route(site.fabric, "updn")
    if routing.prove(other, "all").credit_loops:
        return
    assert np.array_equal(other.tables.lid, site.held.lid)
    lft = np.full_like(site.held.lft, NO_PATH)
    lft[:, : other.tables.lft.shape[1]] = other.tables.lft
    site.held = replace(site.held, lft=lft)
    site.show(break_links(site, rng, 2))
    lost = site.proof().missing
    up = site.fabric.without(topo.find_missing(site.fabric, site.there).ports)
    site.seen.clear()
    before = routing.Routed(up, site.held)
    kept = site.keeper.keep()
    assert kept.stages == len(site.seen) and site.whole()
    updates = routing.repairs.order_updates(before, kept.repair.after, kept.repair.rank)
    assert kept.stages >= updates.stages
    first = updates.entries[(updates.entries[:, 0] == 0) & ~np.isin(updates.entries[:, 2], updates.drained), 1:]
    served = updates.entries[:, 2]
    changed = np.argwhere(site.seen[0][:, served] != lft[:, served])
    assert {(switch, served[at]) for switch, at in changed.tolist()} == set(map(tuple, first.tolist()))
    drained = any(((one == NO_PATH) & (lft != NO_PATH)).any() for one in site.seen)
    assert drained == (seed == 2) or seed > 3
    assert not drained or lost > site.proof().missing
    for one in site.seen:
        proof = routing.prove(routing.Routed(up, replace(site.held, lft=one)))
        assert not proof.credit_loops
        assert proof.missing <= lost or drained
        lost = proof.missing


def test_a_better_table_is_loaded_although_a_host_was_moved(tmp_path: Path) -> None:
    """One host in another port does not keep a dead link from being repaired."""
    site = Site(routed_lab(), tmp_path)
    fabric = site.fabric
    host = int(fabric.port_of(fabric.ends())[3])
    leaf = int(fabric.peer_node[host])
    free = next(port for port in range(fabric.port_offset[leaf], fabric.port_offset[leaf + 1]) if fabric.peer[port] < 0)
    peer = fabric.peer.copy()
    peer[fabric.peer[host]], peer[host], peer[free] = -1, free, host
    site.show(replace(fabric, peer=peer).without(fabric.inner[:1]))
    assert not site.whole()
    kept = site.keeper.keep()
    assert not kept.holds and kept.written and site.whole()
    assert [
        str(finding).startswith(f"missing: {fabric.port_label(host)} has another cable") for finding in kept.left
    ] == [True]


def test_a_replaced_switch_is_named_and_the_rest_is_repaired(tmp_path: Path) -> None:
    site = Site(routed_lab(), tmp_path)
    guid, port_guid = site.fabric.node_guid.copy(), site.fabric.port_guid.copy()
    spine = site.fabric.n_switches - 1
    guid[spine] += 1 << 40
    port_guid[site.fabric.port_node == spine] += np.uint64(1 << 40)
    site.show(replace(site.fabric, node_guid=guid, port_guid=port_guid))
    kept = site.keeper.keep()
    assert [finding.where for finding in kept.left] == ["replaced"]
    assert kept.written and site.whole()


def test_tables_with_credit_loops_are_replaced_at_once(tmp_path: Path) -> None:
    """Another engine took over: no order of updates is safe, and any tables are better."""
    small = (fabric for seed in range(100) if (fabric := draw(seed)).n_switches < 16 and len(fabric.inner_links))
    fabric = next(one for one in small if routing.prove(routing.route(one, "minhop"), "all").credit_loops)
    other = routing.route(fabric, "minhop")
    site = Site(routing.route(fabric, "balanced"), tmp_path)
    site.held = replace(site.held, lft=other.tables.lft)
    kept = site.keeper.keep()
    assert (kept.stages, kept.holds) == (1, True) and site.whole()
    ((_, longest),) = next_stages(routing.Routed(fabric, other.tables), kept.repair).stages
    assert longest == routing.prove(site.routed).max_hops


def test_bad_views_and_switches_are_refused(tmp_path: Path) -> None:
    site = Site(routed_lab(), tmp_path)
    file, held = site.file.read_bytes(), site.held
    spines = np.flatnonzero(site.fabric.is_inner & (site.fabric.port_node < 2))
    site.show(site.fabric.without(spines))
    with pytest.raises(HeddleError, match="is this a whole view"):
        replace(site.keeper, most_down=1).keep()
    site.show(site.fabric)
    lid = held.lid.copy()
    lid[-2:] = lid[:-3:-1]
    site.held = replace(held, lid=lid)
    with pytest.raises(HeddleError, match=f"found LID {lid[-2]} in the switches; expected {lid[-1]} "):
        site.keeper.keep()
    with pytest.raises(ToolError, match="cannot be started"):
        replace(site.keeper, read=lambda: run_program("/no/such/program")).keep()
    with pytest.raises(ToolError, match="left with status 1: it says nothing"):
        replace(site.keeper, read=lambda: run_program("false")).keep()
    holes = held.lft.copy()
    holes[0, held.lid[-1]] = NO_PATH
    with pytest.raises(HeddleError, match="without a path that cables connect"):
        replace(site.keeper, routed=routing.Routed(site.fabric, replace(held, lft=holes))).keep()
    assert site.file.read_bytes() == file and not site.loads


def test_the_command_and_its_metrics(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fabric = topo.preset("lab-20").fabric
    dump = tmp_path / "dump.ibnetdiscover"
    dump.write_text(topo.format_ibnetdiscover(fabric), encoding="utf-8")
    assert run(["route", str(dump), "-o", str(tmp_path / "plan")]) == 0
    lfts, prom = tmp_path / "plan" / "opensm" / "lfts", tmp_path / "heddle.prom"
    words = [
        "keep",
        str(tmp_path / "plan"),
        "--now",
        str(dump),
        "--load",
        str(tmp_path / "lfts"),
        "--metrics",
        str(prom),
    ]
    words += ["--switch-life", "0", "--reload", "true"]
    capsys.readouterr()
    assert run([*words, "--read", f"cat {lfts}"]) == 0
    assert "entries written" in capsys.readouterr().out
    assert "heddle_keeper_holds 1\n" in prom.read_text() and "heddle_keeper_cables_down 0\n" in prom.read_text()
    assert run([*words, "--read", "false", "--json"]) == 2
    assert prom.read_text() == "# TYPE heddle_keeper_holds gauge\nheddle_keeper_holds 0\n"


@pytest.mark.slow
@pytest.mark.parametrize("seed", slow_but(range(2), 0))
def test_a_list_is_read_again_where_it_says_something_else_and_only_there(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a keeper that remembers does is what one that is started anew for each pass does."""
    rng, site = np.random.default_rng(seed), random_site(seed, tmp_path)
    reads, read = [], keeping.read_fabric_argument
    monkeypatch.setattr(keeping, "read_fabric_argument", lambda path: reads.append(path) or read(path))
    damaged = [site.fabric, break_links(site, rng, 1), break_links(site, rng, 2)]
    last = -1
    for turn in rng.integers(3, size=8).tolist():
        site.show(damaged[turn])
        before = len(reads)
        kept = site.keeper.keep()
        assert len(reads) - before == (turn != last)
        last = turn
        ports = topo.find_missing(site.fabric, damaged[turn]).ports
        assert set(kept.repair.down.tolist()) == set(ports.tolist())
        assert site.whole()
    site.now.write_text("nothing", encoding="utf-8")
    with pytest.raises(HeddleError):
        site.keeper.keep()


@pytest.mark.slow
def test_a_list_that_is_written_while_it_is_read_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its old text is back in the next pass: that says what it said, and not what was read meanwhile."""
    site = random_site(0, tmp_path)
    damaged, read = break_links(site, np.random.default_rng(0), 1), keeping.read_fabric_argument

    def written_meanwhile(path: Path) -> topo.Fabric:
        site.show(damaged)
        return read(path)

    monkeypatch.setattr(keeping, "read_fabric_argument", written_meanwhile)
    assert len(site.keeper.keep().repair.down) == 2
    monkeypatch.setattr(keeping, "read_fabric_argument", read)
    site.show(site.fabric)
    assert not len(site.keeper.keep().repair.down)
