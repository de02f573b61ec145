"""Charts over time: their bars and curves add up to the figures of the run, and to the outages of the year."""

import re

import numpy as np
import pytest

import simulate
import topo
from helpers.presets import routed_lab
from simulate.cluster.year import draw_course

QUEUE = {
    "failures_a_node_day": 40,
    "repair": "20 min",
    "jobs": [
        {"name": "a", "nodes": 8, "steps": 900, "forward": "1 s", "backward": "2 s", "copies": 3},
        {"name": "b", "nodes": 6, "steps": 500, "forward": "1 s", "backward": "2 s", "submit": "10 min"},
    ],
}


def spans(svg: str, said: str) -> float:
    """Hours of all bars whose tooltip matches."""
    return sum(float(end) - float(begin) for begin, end in re.findall(said, svg))


@pytest.mark.parametrize("hours", [0.5, 3.0])
def test_bars_and_curves_are_those_of_the_run(hours: float) -> None:
    routed = routed_lab()
    run = simulate.cluster.ClusterRun(simulate.Network.of(routed, latency_s=0), simulate.cluster.parse_queue(QUEUE))
    run.play(hours * 3600)
    for job, record in zip(run.jobs, run.records, strict=True):
        held = job.held(run.now_s)
        assert sum(failed for *_, failed in held) == record.failures
        out = (record.end_s or run.now_s) - sum(end - begin for begin, end, _ in held) - min(job.plan.submit, run.now_s)
        assert out == pytest.approx(record.waited_s)
    times, used, down = np.array([(0, 0, 0), *run.scheduler.history], float).T
    spent = np.sum(used * np.diff(np.append(times, run.now_s)))
    assert spent == pytest.approx(run.utilisation * run.now_s * len(run.scheduler.ends))
    assert down.min() == 0
    svg = simulate.cluster.draw_run(run).svg
    assert len(re.findall("lost a node", svg)) == sum(record.failures for record in run.records) > 0
    waited = spans(svg, r"waits from ([\d.e+-]+) to ([\d.e+-]+)")
    assert waited == pytest.approx(sum(record.waited_s for record in run.records) / 3600, abs=0.05)


def test_every_outage_of_the_year_is_a_bar() -> None:
    reach = topo.Reach([topo.preset("lab-20").fabric])
    given = {"parts": {"link": {"down": "20 h", "a_year": 4}, "server": {"down": "2 h", "a_year": 2}}}
    rules = simulate.cluster.FailureSpec.model_validate(given)
    parts = {kind: topo.list_parts(kind, reach) for kind in rules.parts}
    svg = simulate.cluster.draw_failures(parts, rules, 3).svg
    outages = [outage for outage in draw_course(parts, rules, 3).outages if outage.end_s > 0]
    assert len(re.findall("down for", svg)) == len(outages) > 50
    most = []
    for kind in rules.parts:
        ours = [(outage.begin_s, outage.end_s) for outage in outages if outage.part[0] == kind]
        most.append(str(max(sum(begin <= at < end for begin, end in ours) for at, _ in ours)))
    assert re.findall(r"at most (\d+) at once", svg) == most
