"""What `auto` hands out: the best tables that are safe, and no silence about those that are better."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import routing
import simulate
import topo
from helpers import strategies
from helpers.clusters import zoned
from helpers.fluids import routed
from helpers.random_fabrics import draw
from helpers.trees import damage, grow_tree
from routing.candidates import FIGURES, Candidate
from routing.engines import auto, judge
from routing.engines.auto import PLAIN, _judged, _reason, _with_safe_switches
from routing.engines.base import ENGINES, Outside
from routing.engines.judge import Judge
from routing.proof import prove
from routing.routed import Routed
from routing.tables import walk
from topo.cluster import parse
from topo.errors import RoutingError, SpecError
from topo.fabric import Fabric, Kind, Role
from topo.speeds import SPEEDS

TREE = grow_tree((3, 3, 6), (1, 3, 3), (1, 1, 1))


def with_storage(fabric: Fabric) -> Fabric:
    role = fabric.role.copy()
    role[-1] = Role.STORAGE
    return replace(fabric, role=role)


FABRICS = {
    "a whole tree": lambda: TREE,
    "storage": lambda: with_storage(TREE),
    "dead links": lambda: damage(TREE, np.random.default_rng(1), 0.05),
    "joined zones": lambda: zoned("spread", leaves=6, spines=4, n_gpus=60, n_storage=8, ports=4),
    "a ring": lambda: strategies.ring(6).fabric,
    "a BiGraph": lambda: draw(23),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FABRICS)
def test_what_is_handed_out_is_safe_and_nothing_safe_beats_it_in_all(name: str) -> None:
    fabric = FABRICS[name]()
    routed = routing.route(fabric, "auto")
    assert prove(routed, "all").holds
    rows = {row.engine: row for row in routed.candidates}
    best = rows[routed.tables.engine]
    assert not best.missing and not best.credit_loops
    for row in rows.values():
        if row.refusal or row.missing or row.credit_loops or row.lanes > 1:
            continue
        assert best.score <= row.score + auto.PREFERRED
        assert not all(figure.share(best, row) < 0.99 for figure in FIGURES)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["joined zones", "a ring", "a BiGraph"])
def test_each_figure_in_which_another_is_better_is_told(name: str) -> None:
    routed = routing.route(FABRICS[name](), "auto")
    rows = [row for row in routed.candidates if not row.refusal and row.lanes == 1]
    best = next(row for row in rows if row.engine == routed.tables.engine)
    complete = [row for row in rows if not row.missing]
    behind = [one for one in FIGURES if any(one.share(best, row) < 0.995 for row in complete)]
    told = routed.why.partition("behind ")[2]
    assert all(f"{figure.name} ({figure.text(best)} to " in told for figure in behind)
    assert bool(told) == bool(behind)


def hosts_of_jobs(fabric: Fabric) -> list[np.ndarray]:
    """The jobs of the search, drawn again: every 2nd to 12th host, ... as the manual says."""
    ends = fabric.ends()
    return [ends[::every] for every in range(2, 13) if len(ends[::every]) > 3]


def fullest_of_all_to_all(routed: Routed, hosts: np.ndarray) -> int:
    """Flows over the fullest channel between switches when each host sends to each other, walked one by one."""
    fabric, count = routed.fabric, np.zeros(routed.fabric.n_ports, int)
    for sender in hosts:
        for receiver in hosts[hosts != sender]:
            count[list(routing.trace(routed, int(sender), int(receiver)).channels)] += 1
    return int(count[fabric.inner].max(initial=0))


@pytest.mark.slow
def test_figures_are_what_a_walk_of_every_pair_finds() -> None:
    fabric = FABRICS["dead links"]()
    for row in routing.route(fabric, "auto").candidates:
        if row.refusal:
            with pytest.raises(RoutingError):
                ENGINES[row.engine].route(fabric)
            continue
        routed = Routed(fabric, ENGINES[row.engine].route(fabric, lanes=1))
        proof = prove(routed)
        assert (row.fullest, row.longest) == (proof.load[fabric.inner].max(), proof.max_hops)
        assert row.score == pytest.approx(sum(row.parts.values()))
        strided = [
            (len(job) - 1) / max(len(job) - 1, fullest_of_all_to_all(routed, job)) for job in hosts_of_jobs(fabric)
        ]
        assert row.slowest_job <= min(strided) + 1e-9
        assert row.slowest_job <= row.jobs <= 1


def test_no_shift_of_a_whole_tree_meets_itself() -> None:
    routed = routing.route(TREE, "auto")
    assert next(row for row in routed.candidates if row.engine == routed.tables.engine).shifts == 1


def test_tables_know_that_a_cable_is_slow() -> None:
    """Of 12 parallel cables one runs at a sixth of their rate: tables that count cables wait for it."""
    whole = grow_tree((12, 4), (1, 2), (1, 6))
    speed = whole.speed.copy()
    speed[whole.inner_links[0]] = SPEEDS.index("QDR")
    one_slow = replace(whole, speed=speed)
    everyone = simulate.all_to_all(whole.ends(), "1 MiB")
    told, blind = routing.route(one_slow, "auto"), Routed(one_slow, routing.route(whole, "auto").tables)
    # Without the cable, two of 12 hosts share one in each step: twice the time.
    networks = [simulate.Network.of(routed, latency_s=0) for routed in (told, blind)]
    aware, unaware = (simulate.play(network, everyone).makespan_s for network in networks)
    assert aware < 0.5 * unaware


@pytest.mark.slow
def test_tables_are_for_what_the_spec_says() -> None:
    """On a Dragonfly, where no tables are best in all, each purpose is served best by its own."""
    text = (topo.config_root() / "dragonfly.yaml").read_text().partition("routing:")[0]
    asked = {purpose: parse(text + f"routing: {{for: {purpose}}}\n").fabrics[0] for purpose in ("jobs", "permutations")}
    rows = {}
    for purpose, fabric in asked.items():
        tables = ENGINES["balanced"].route(fabric)
        rows[purpose] = Judge(fabric, tables.lid).judge(tables)
    assert rows["jobs"].jobs > rows["permutations"].jobs
    assert rows["permutations"].shifts > rows["jobs"].shifts
    with pytest.raises(SpecError, match="expected one of any, jobs"):
        parse(text + "routing: {for: job}\n")


@pytest.mark.slow
def test_lanes_let_shorter_paths_in() -> None:
    fabric = strategies.ring(6).fabric
    one, two = (routing.route(fabric, "auto", lanes=lanes) for lanes in (1, 2))
    assert prove(two).holds
    assert routing.measure(two).max_load <= routing.measure(one).max_load


def several_ends_over(routed: Routed) -> np.ndarray:
    """(P,) whether each channel leads to more than one end port."""
    fabric, ends = routed.fabric, routed.fabric.ends()
    src, dst = (one.ravel() for one in np.meshgrid(ends, ends))
    to = np.zeros((fabric.n_ports, fabric.n_end_ports), bool)

    def note(packet: np.ndarray, port: np.ndarray) -> None:
        to[port, dst[packet]] = True

    walk(fabric, routed.tables.lft, fabric.end_switch[src], dst, routed.tables.lid[dst], note)
    return to.sum(axis=1) > 1


def test_a_table_without_contention_does_not_lose_to_one_whose_links_to_single_hosts_are_less_full() -> None:
    nodes = "nodes: {gpu: {model: dgx-h100, count: 16}}"
    rails = parse(
        f"name: rails\n{nodes}\nnetwork: {{shape: rail, unit_nodes: 16, tree: {{switch: QM9700, spines: 4}}}}\n"
    ).fabrics[0]
    for engine in ("auto", "balanced"):
        routed = routing.route(rails, engine)
        assert routing.measure(routed).shift.max_load_worst == 1
        proof = routing.prove(routed)
        shared = rails.inner[several_ends_over(routed)[rails.inner]]
        assert proof.load[shared].max() == 64  # 16 hosts of a leaf to 4 of the 112 others over each of 32 cables
        assert proof.max_load <= 112  # what all others send to one host: its own link carries more


def test_the_reason_names_rivals_and_their_loops() -> None:
    figures = {"halves": 0.5, "shifts": 0.5, "jobs": 0.5, "slowest_job": 0.4}
    ours = Candidate("ours", fullest=10, **figures)
    rival = Candidate("rival", fullest=12, **figures)
    wild = Candidate("wild", fullest=5, credit_loops=7, **figures)
    assert _reason(ours, [ours], [ours]) == "alone delivers every pair without credit loops"
    assert _reason(ours, [ours, rival], [ours, rival, wild]) == (
        "better than `rival` in fullest link; behind `wild` in fullest link (10 to 5); credit loops in `wild`"
    )
    switches = replace(wild, between_adapters=False)
    assert _reason(ours, [ours], [ours, switches]).endswith("credit loops in `wild` only with paths to switches")


@given(st.integers(0, 1 << 30))
def test_the_reason_names_no_figure_on_both_sides_of_one_engine(seed: int) -> None:
    """Random figures and loops: what is said of an engine is what a comparison with it alone says."""
    rng = np.random.default_rng(seed)

    def draw_row(name: str, loops: int) -> Candidate:
        rates = {name: float(rng.choice([0.2, 0.5, 0.8])) for name in ("halves", "shifts", "jobs", "slowest_job")}
        return Candidate(name, fullest=float(rng.choice([5, 10])), credit_loops=loops, **rates)

    rows = [draw_row(name, int(rng.integers(2)) if name != "ours" else 0) for name in ("ours", "one", "two", "three")]
    safe = [row for row in rows if not row.credit_loops]
    said = _reason(rows[0], safe, rows)
    for row in rows[1:]:
        for figure in FIGURES:
            sides = {
                clause.partition(" ")[0]
                for clause in said.split("; ")
                if f"`{row.engine}`" in clause and figure.name in clause.partition(" in ")[2]
            }
            share = figure.share(rows[0], row)
            assert sides <= ({"better"} if share > 1 else {"behind"} if share < 1 else set())


@pytest.mark.parametrize("hosts", [2, 3])
def test_hosts_that_are_too_few_for_a_job_have_no_figures_of_jobs(hosts: int) -> None:
    routed = routing.route(strategies.ring(hosts).fabric, "auto")
    for row in routed.candidates:
        assert row.jobs is None and row.slowest_job is None
    assert "with 1 host)" not in routed.why and "jobs" not in routed.why
    assert "with 1 host" in routing.studies.bound(routed.fabric).why


@pytest.mark.slow
def test_candidates_as_tables_and_as_plain_values() -> None:
    routed = routing.route(FABRICS["joined zones"](), "auto")
    table = routed.candidate_table
    assert [column.name for column in table.columns][:5] == ["engine", "faults", "fullest link", "halves", "shifts"]
    told = {row["engine"]: row for row in routed.to_dict()["candidates"]}
    assert told["balanced"]["fullest"] > 0
    assert "refusal" in told["fat-tree"]
    assert "engines that were tried" in routed._repr_html_()
    assert routing.route(TREE, "balanced").to_dict()["candidates"] == []


class Outsider:
    """An engine that somebody else wrote, which has the tables of another one."""

    purpose, max_lanes = "for a test", 1

    def __init__(self, name, route):
        self.name, self.route = name, route


def test_engines_from_outside_enter_and_win_or_lose_by_their_tables(monkeypatch) -> None:
    """Beside up and down by counts, the closed form of the tree wins; loops and faults never do."""

    def fail(fabric, lid=None, *, lanes=None):
        raise IndexError("list index out of range")

    good = Outsider("good", ENGINES["fat-tree"].route)
    broken = Outsider("broken", fail)
    monkeypatch.setattr(auto, "ENTRANTS", ("updn",))
    routed = routing.route(TREE, "auto", entrants=[good, broken])
    rows = {row.engine: row for row in routed.candidates}
    assert list(rows) == ["updn", "good", "broken"]
    assert routed.tables.engine == "good"
    assert "better than `updn`" in routed.why
    assert "IndexError: list index out of range" in rows["broken"].refusal

    ring = strategies.ring(6).fabric
    looping = Outsider("looping", ENGINES["minhop"].route)
    routed = routing.route(ring, "auto", entrants=[looping])
    assert (routed.tables.engine, prove(routed, "adapters").holds) == ("updn", True)
    assert next(row for row in routed.candidates if row.engine == "looping").credit_loops > 0


def test_engines_of_other_distributions_enter(monkeypatch) -> None:
    monkeypatch.setitem(ENGINES, "theirs", Outside(Outsider("theirs", ENGINES["fat-tree"].route)))
    routed = routing.route(TREE, "auto")
    assert [row.engine for row in routed.candidates][-1] == "theirs"
    assert routed.tables.engine in auto.ENTRANTS, "of equals, Heddle's own is preferred"


def test_plain_engines_are_judged_between_hosts_alone() -> None:
    asked = []
    judges = SimpleNamespace(judge=lambda tables, switches: asked.append(switches) or Candidate(tables.engine))
    tables = routed(grow_tree((2, 2), (1, 2), (1, 1)))
    for engine in ("balanced", *PLAIN, "fat-tree"):
        assert _judged(judges, tables, Candidate(engine), []).engine == engine  # type: ignore[arg-type]
    assert asked == [True, False, False, True]


def test_safe_paths_to_switches_stand_in_for_those_of_baseline_tables() -> None:
    fabric = grow_tree((2, 2), (1, 2), (1, 1))
    tables, switches = routed(fabric), slice(0, fabric.n_switches)
    lids = tables.lid[switches]
    other = tables.lft.copy()
    other[:, lids] = np.where(other[:, lids] == 0, 0, 1)
    row, safe = Candidate("minhop"), replace(tables, lft=other)
    found, _ = _with_safe_switches(fabric, tables, row, safe)
    assert found is not None and np.array_equal(found.lft[:, lids], other[:, lids])
    hosts = tables.lid[fabric.n_switches :]
    assert np.array_equal(found.lft[:, hosts], tables.lft[:, hosts])
    assert _with_safe_switches(fabric, tables, row, None)[0] is tables


@pytest.mark.parametrize("kind", [Kind.HCA, Kind.AGGREGATION])
def test_paths_of_aggregation_nodes_are_proven_where_there_are_some(
    monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    fabric = grow_tree((2, 2), (1, 2), (1, 1))
    kinds = fabric.kind.copy()
    kinds[-1] = kind
    fabric = replace(fabric, kind=kinds)
    asked = []
    monkeypatch.setattr(judge, "prove", lambda routed, ends="hca": asked.append(ends) or prove(routed, ends))
    tables = routed(fabric)
    Judge(fabric, tables.lid).judge(tables)
    assert asked == ["hca", "adapters"][: 1 + (kind == Kind.AGGREGATION)]
