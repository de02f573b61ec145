"""Charts of what happened over hours, days or a year: who had nodes, who waited, and what failed when."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from simulate.cluster.failures import DAY_S, FailureSpec
from simulate.cluster.year import HOUR_S, draw_course
from topo import palette
from topo.amounts import percent
from topo.drawing import Drawing
from topo.drawing.charts import Axes, chart
from topo.drawing.svg import Mark
from topo.errors import plural
from topo.failures.parts import PartKind, Parts

if TYPE_CHECKING:
    from simulate.cluster.run import ClusterRun

FAILED = palette.SERIES[3]
MOST_ROWS = 40
"""Rows of a chart, those of the first jobs or the kinds of parts."""
FEW = 5.0
"""The least that a scale of parts reaches, so that its numbers are whole."""


def draw_run(run: ClusterRun, *, bare: bool = False) -> Drawing:
    """Draw a run over time: which jobs had nodes, which waited, which lost one; and how many nodes were in use or down.

    Parameters
    ----------
    bare : bool
        Whether it is part of a page that has `topo.palette.STYLE`: without title and margin.

    Examples
    --------
    >>> import topo, routing, simulate
    >>> routed = routing.route(topo.preset("lab-20").fabric)
    >>> job = {"name": "a", "nodes": 8, "steps": 100, "forward": "1 s", "backward": "1 s", "gradients": "1 MiB"}
    >>> queue = simulate.cluster.parse_queue({"jobs": [job]})
    >>> run = simulate.cluster.ClusterRun(simulate.Network.of(routed), queue)
    >>> run.play(3600)
    True
    >>> "a: 8 nodes from" in simulate.cluster.draw_run(run).svg
    True
    """
    end = max(run.now_s, 1e-9)
    unit, unit_s = ("h", HOUR_S) if end < 5 * DAY_S else ("days", DAY_S)
    span, jobs = (0.0, end / unit_s), run.jobs[:MOST_ROWS]
    names = [(row + 0.5, job.plan.name) for row, job in enumerate(jobs)]
    axes = Axes("jobs", span, (len(jobs), 0), 17.0 * len(jobs), x_words=None, names=names)
    losses = []
    for row, job in enumerate(jobs):
        since = job.plan.submit
        for begin, over, failed in job.held(run.now_s):
            _wait(axes, since, begin, row, unit_s, unit, job.plan.name)
            words = (
                f"{job.plan.name}: {plural(job.plan.nodes, 'node')} from {begin / unit_s:.3g} to {over / unit_s:.3g}"
            )
            axes.bar(begin / unit_s, over / unit_s, row + 0.5, palette.SERIES[0], f"{words} {unit}")
            if failed:
                losses.append((over / unit_s, row + 0.5, f"{job.plan.name} lost a node at {over / unit_s:.3g} {unit}"))
            since = over
        if job.asked_s is not None:
            _wait(axes, job.asked_s, run.now_s, row, unit_s, unit, job.plan.name)
    for x, y, words in losses:  # above the bars
        axes.dot(x, y, FAILED, words)
    last = {at: (used, down) for at, used, down in ((0.0, 0, 0), *run.scheduler.history)}
    times, (used, down) = np.array(list(last)), np.array(list(last.values()), float).T
    edges = np.minimum(np.append(times, end), end) / unit_s
    total = len(run.scheduler.ends)
    nodes = Axes(f"nodes in use, of {total:,}", span, (0, total), 110, x_words=None, digits=",g")
    nodes.stairs(edges, used, palette.SERIES[0], words=f"on average {percent(run.utilisation)} of the nodes")
    most = max(FEW, down.max())
    failed_nodes = Axes("nodes down", span, (0, most), 70, x_words=f"time ({unit})", digits=",g")
    failed_nodes.stairs(edges, down, FAILED, words=f"at most {plural(int(down.max()), 'node')} at once")
    legend: list[Mark] = [("box", palette.SERIES[0], "has its nodes"), ("box", palette.UNUSED, "waits"),
                          ("dot", FAILED, "loses a node")]  # fmt: skip
    about = f"{run.env.network.fabric.name or 'the fabric'}, {plural(len(run.jobs), 'job')}"
    return chart("jobs over time", about, [axes, nodes, failed_nodes], legend, bare=bare)


def draw_failures(parts: Mapping[PartKind, Parts], rules: FailureSpec, seed: int = 0, *, about: str = "") -> Drawing:
    """Draw what fails in a year, and how many parts of each kind are down at a time.

    Parameters
    ----------
    parts, rules, seed
        As `play_year` takes them: the same failures at the same times.

    Examples
    --------
    >>> import topo, simulate
    >>> reach = topo.Reach([topo.preset("lab-20").fabric])
    >>> rules = simulate.cluster.FailureSpec.model_validate({"parts": {"link": {"down": "4 h", "a_year": 3}}})
    >>> "links down" in simulate.cluster.draw_failures({"link": topo.list_parts("link", reach)}, rules).svg
    True
    """
    course = draw_course(parts, rules, seed)
    last = course.lasted_s
    outages: dict[str, list[tuple[float, float, str]]] = defaultdict(list)
    for outage in course.outages:
        if outage.end_s > 0:
            kind, name = outage.part
            outages[kind].append((max(outage.begin_s, 0.0), min(outage.end_s, last), name))
    kinds = list(rules.parts)
    span = (0.0, last / DAY_S)
    charts = [
        Axes("when parts are down", span, (len(kinds), 0), 24.0 * len(kinds), x_words=None,
             names=[(row + 0.5, kind) for row, kind in enumerate(kinds)])
    ]  # fmt: skip
    for row, kind in enumerate(kinds):
        shade = palette.SERIES[row % len(palette.SERIES)]
        for begin, end, name in outages[kind]:
            words = f"{kind} {name}: down for {(end - begin) / HOUR_S:.3g} h from day {begin / DAY_S:.4g}"
            charts[0].bar(begin / DAY_S, end / DAY_S, row + 0.5, shade, words)
        edges, count = _at_once([(begin, end) for begin, end, _ in outages[kind]], last)
        most = max(FEW, count.max())
        below = None if row + 1 < len(kinds) else "time (days)"
        down = Axes(f"{'switches' if kind == 'switch' else 'batches' if kind == 'batch' else kind + 's'} down", span,
                    (0, most), 60, x_words=below, digits=",g")  # fmt: skip
        down.stairs(edges / DAY_S, count, shade, words=f"at most {int(count.max())} at once")
        charts.append(down)
    return chart("failures over time", about or f"seed {seed}", charts)


def _wait(axes: Axes, begin: float, end: float, row: int, unit_s: float, unit: str, name: str) -> None:
    if end > begin:
        words = f"{name} waits from {begin / unit_s:.3g} to {end / unit_s:.3g} {unit}"
        axes.bar(begin / unit_s, end / unit_s, row + 0.5, palette.UNUSED, words)


def _at_once(spans: Sequence[tuple[float, float]], last: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return (n + 1,) edges and (n,) how many of the spans lie over each place between."""
    changes: Iterable[tuple[float, int]] = sorted([(b, 1) for b, _ in spans] + [(e, -1) for _, e in spans if e < last])
    count, found = 0, {0.0: 0}
    for at, step in changes:
        count += step
        found[at] = count
    return np.array([*found, last]), np.array(list(found.values()), float)
