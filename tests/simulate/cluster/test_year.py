"""A year of failures: it agrees with closed forms, and with a second way to count it, minute by minute."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

import routing
import topo
from helpers.presets import read_preset, routed_lab
from simulate.cluster import year
from simulate.cluster.degradation import Degradation
from simulate.cluster.failures import RATES, YEAR_S, FailureSpec
from simulate.cluster.year import HOUR_S, Course, Outage, _Seen, draw_course, play_year
from topo.failures.parts import list_parts
from topo.failures.reach import Reach

LAB = read_preset("lab-20")
ROUTED = (routed_lab(),)
REACH = Reach(LAB.fabrics)
SMALL = topo.parse({"name": "small", "nodes": {"gpu": {"model": "pcie-a100", "count": 8}},
                    "network": {"shape": "fat-tree", "switch": "QM8700", "leaves": 2, "spines": 2}})  # fmt: skip
PARTS = {kind: list_parts(kind, REACH) for kind in ("link", "adapter", "switch", "server", "bundle")}
DAY = 86_400.0


def rules(jobs: bool = True, **parts: dict[str, object]) -> FailureSpec:
    said: dict[str, object] = {"parts": parts, "states": 0}
    if jobs:
        said["jobs"] = {"nodes": 4, "checkpoint": "1 h", "restart": "30 min", "cut_ends_job": True}
    return FailureSpec.model_validate(said)


def degradation(tables: str = "repaired", job_nodes: int | None = None) -> Degradation:
    return Degradation(REACH, ROUTED, tables, job_nodes)  # type: ignore[arg-type]


def connectivity(spec: FailureSpec) -> float:
    """Expected share of pairs that reach one another, of servers with one adapter on two leaves and two spines.

    A part works 1 / (1 + rate * down) of the time. A pair of one leaf needs its own parts; one of two leaves also a
    spine with one of its links to each leaf.
    """

    def works(kind: str) -> float:
        part = spec.parts.get(kind)  # type: ignore[call-overload]
        return 1.0 if part is None else 1 / (1 + part.a_year * part.down / YEAR_S)

    fabric = SMALL.fabric
    leaves = [node for node in range(fabric.n_switches) if fabric.label(node).startswith("leaf")]
    links: dict[tuple[int, int], int] = {}
    for ends in fabric.port_node[fabric.inner_links].tolist():
        leaf, spine = sorted(ends, key=lambda node: node not in leaves)
        links[leaf, spine] = links.get((leaf, spine), 0) + 1
    joined = {pair: (1 - (1 - works("link")) ** count) * works("bundle") for pair, count in links.items()}
    spines = {spine for _, spine in links}
    apart = np.prod([1 - works("switch") * np.prod([joined[leaf, spine] for leaf in leaves]) for spine in spines])
    own, leaf_works = (works("adapter") * works("server")) ** 2, works("switch")
    n = len(SMALL.fabric.hosts) // 2  # on each leaf, all of one kind
    same, other = n * (n - 1), n * n
    return float(own * (same * leaf_works + other * leaf_works**2 * (1 - apart)) / (same + other))


HARSH = rules(
    jobs=False,
    link={"a_year": 40, "down": "1 d"},
    adapter={"a_year": 2, "down": "3 d"},
    switch={"a_year": 12, "down": "3 d"},
    server={"a_year": 3, "down": "2 d"},
    bundle={"a_year": 20, "down": "2 d"},
)
"""So much is down that all of the closed form counts."""


def seen_years(spec: FailureSpec, count: int) -> list[float]:
    whole = Degradation(Reach(SMALL.fabrics), ())
    parts = {kind: list_parts(kind, whole.reach) for kind in spec.parts}
    return [play_year(whole, parts, spec, seed)["connected"] or 0.0 for seed in range(count)]


@pytest.mark.slow
def test_connectivity_agrees_with_the_closed_form() -> None:
    short = HARSH.model_copy(update={"days": 60})
    found = seen_years(short, 10)
    error = np.std(found, ddof=1) / len(found) ** 0.5
    assert abs(np.mean(found) - connectivity(HARSH)) < 4 * error
    assert error < 0.05


@pytest.mark.slow
@pytest.mark.nightly
def test_the_interval_covers_the_truth_in_95_of_100_repetitions() -> None:
    """Of 100 intervals with the right coverage, 89 to 99 hold the truth in all but one case in a hundred."""
    short = HARSH.model_copy(update={"days": 30})
    found = np.array(seen_years(short, 1000)).reshape(100, 10)
    width = stats.t.ppf(0.975, 9) * found.std(axis=1, ddof=1) / 10**0.5
    covered = int((abs(found.mean(axis=1) - connectivity(HARSH)) <= width).sum())
    assert 89 <= covered <= 99
    assert abs(found.mean() - connectivity(HARSH)) < 4 * found.std() / 1000**0.5


@pytest.mark.parametrize("seed", range(3))
def test_a_year_is_what_its_minutes_are(seed: int) -> None:
    """Every quarter of an hour is looked at alone: who reaches whom without what is down then."""
    spec = rules(switch={"a_year": 3, "down": "2 d"}, server={"a_year": 2, "down": "1 d"},
                 link={"a_year": 1, "down": "4 h"})  # fmt: skip
    spec = spec.model_copy(update={"days": 40})
    parts = {kind: PARTS[kind] for kind in spec.parts}
    whole, course = degradation(job_nodes=4), draw_course(parts, spec, seed)
    found = play_year(whole, parts, spec, seed)
    times = np.arange(450.0, course.lasted_s, 900.0)
    memory: dict[frozenset[tuple[str, str]], tuple[int, int]] = {}
    pairs, cut = [], []
    for at in times.tolist():
        down = frozenset(outage.part for outage in course.outages if outage.begin_s <= at < outage.end_s)
        if down not in memory:
            left = topo.fail_parts(LAB.fabrics, topo.unite(PARTS[kind][name] for kind, name in down))  # type: ignore[index]
            reached = Reach(left).whole
            memory[down] = reached.pairs, len(REACH.names) - int((~reached.alone).sum())
        pairs.append(memory[down][0])
        cut.append(memory[down][1])
    assert found["connected"] == pytest.approx(np.mean(pairs) / REACH.whole.pairs, abs=0.002)
    assert found["cut_server_hours"] == pytest.approx(sum(cut) / 4, rel=0.02, abs=2)
    assert found["fewest"] == min(pairs) / REACH.whole.pairs
    assert found["failures.switch"] == sum(one.part[0] == "switch" and one.begin_s >= 0 for one in course.outages)


def test_jobs_lose_what_the_rules_say() -> None:
    """One server, one link of a job's paths, and a link that no job uses, each with what it costs."""
    spec = rules(server={"a_year": 1, "down": "2 h"}, link={"a_year": 1, "down": "2 h"})
    whole = degradation(job_nodes=20)
    job = whole.jobs[0]
    server = REACH.names[job.servers[0]]
    crossed = [name for name, part in PARTS["link"].items() if job.links[0][part.links[0][0]]]
    unused = [name for name in PARTS["link"] if name not in crossed]
    assert crossed and unused
    from simulate.cluster.year import _Seen

    def lost(*outages: Outage) -> tuple[object, ...]:
        seen = _Seen(whole, {"server": PARTS["server"], "link": PARTS["link"]})
        found = seen.cost(Course(tuple(sorted(outages)), DAY), spec)
        return found["jobs_hit"], found["jobs_cut"], found["node_hours_lost"]

    n = len(job.servers)
    at = 10.25 * HOUR_S  # a quarter of an hour after a checkpoint
    assert lost() == (0, 0, 0.0)
    assert lost(Outage(at, at + 2 * HOUR_S, ("server", server), 0.0)) == (1, 0, n * 0.75 + 2)
    assert lost(Outage(at, at + 2 * HOUR_S, ("link", crossed[0]), 0.0)) == (0, 1, n * 0.75)
    assert lost(Outage(at, at + 2 * HOUR_S, ("link", unused[0]), 0.0)) == (0, 0, 0.0)


@pytest.mark.parametrize("spares", [0, 1, 3])
def test_a_failure_waits_for_a_spare(spares: int) -> None:
    """With s spares that take r to replace, a failure waits for the replacement that the one s before it ordered."""
    spec = rules(jobs=False, adapter={"a_year": 10, "down": "1 h", "spares": spares, "restock": "20 d"})
    course = draw_course({"adapter": PARTS["adapter"]}, spec, 5)
    outages = [one for one in course.outages if one.part[0] == "adapter"]
    assert len(outages) > 20
    for number, outage in enumerate(outages):
        ready = outages[number - spares].begin_s + 20 * DAY if number >= spares else outage.begin_s
        assert outage.waited_s == pytest.approx(max(0.0, ready - outage.begin_s))
        assert outage.end_s == pytest.approx(outage.begin_s + outage.waited_s + HOUR_S)
    found = play_year(degradation(), {"adapter": PARTS["adapter"]}, spec, 5)
    assert found["spares_used.adapter"] == found["failures.adapter"]
    assert found["spare_worth.adapter"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("tables", ["kept", "repaired", "anew"])
def test_tables_of_a_state_are_what_routing_says(tables: str) -> None:
    whole = degradation(tables)
    for name in ("leaf0", "spine0"):
        part = PARTS["switch"][name]
        found = whole.judge(part)
        (left,) = whole.left(part)
        proof = routing.prove(left)
        assert found["fullest"] == proof.max_load
        assert found["missing"] == proof.lost
        assert (found["missing"] == 0) == (tables != "kept" or name.startswith("leaf"))
        assert 0 < found["bandwidth.compute"] <= 1.0  # type: ignore[operator]
    nothing = whole.judge(topo.Failed())
    assert (nothing["missing"], nothing["bandwidth.compute"], nothing["bandwidth.storage"]) == (0, 1.0, 1.0)


def test_what_has_no_published_rate_must_have_one_given() -> None:
    with pytest.raises(ValueError, match="no rate is published"):
        rules(bundle={"down": "1 h"})
    with pytest.raises(ValueError, match="restock"):
        rules(link={"down": "1 h", "spares": 2})
    assert all(rate > 0 and source for rate, source in RATES.values())


@pytest.mark.parametrize("seed", range(5))
def test_tables_are_worth_the_mean_over_the_instants_that_are_drawn(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A state that is drawn several times counts as often; the time with everything up is weighed by how long it is."""
    rng, lasted = np.random.default_rng(seed), 100.0
    worth = {frozenset[str](): 1.0} | {frozenset({name}): float(rng.uniform(0, 1)) for name in "abc"}
    ends = np.append(np.sort(rng.uniform(0, lasted, 3)), lasted).tolist()
    states = list(zip([0.0, *ends], ends, worth, strict=False))
    judged = SimpleNamespace(routed=ROUTED, judge=lambda failed: {"ebb": worth[failed or frozenset()]})
    seen = _Seen(judged, {})  # type: ignore[arg-type]
    monkeypatch.setattr(seen, "states", lambda course: [(*state, None) for state in states])
    monkeypatch.setattr(seen, "failed", lambda down: down)
    monkeypatch.setattr(year, "Failed", frozenset)
    found = seen.tables(Course((), lasted), 40, np.random.default_rng(seed))
    spans = np.array([end - begin for begin, end, _ in states[1:]])
    drawn = np.random.default_rng(seed).choice(3, 40, p=spans / spans.sum())
    mean = np.mean([worth[states[1 + at][2]] for at in drawn.tolist()])
    share = spans.sum() / lasted
    assert found["ebb"] == pytest.approx((1 - share) * 1.0 + share * mean)


def test_no_two_streams_of_random_numbers_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each kind of part, and the instants at which tables are judged, draw from a stream of their own."""
    made, real = [], np.random.default_rng

    def default_rng(seed: list[int]) -> np.random.Generator:
        made.append(np.random.SeedSequence(seed).generate_state(4).tobytes())  # zeros behind a seed change nothing
        return real(seed)

    monkeypatch.setattr(np.random, "default_rng", default_rng)
    monkeypatch.setattr(_Seen, "tables", lambda *_: {})
    spec = rules(link={"down": "1 h"}, switch={"down": "1 h"}, server={"down": "1 h"})
    for seed in range(3):
        play_year(degradation(), {kind: PARTS[kind] for kind in ("link", "switch", "server")}, spec, seed)
    assert len(set(made)) == len(made) == 3 * (3 + 1)
