"""Charts of an outcome: what ran when, how full the links were over time, and which switch ports carried how much."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from simulate.engines.outcome import Outcome
from topo import palette
from topo.amounts import percent
from topo.drawing import Drawing
from topo.drawing.charts import Axes, chart, heat_legend
from topo.errors import HeddleError, plural
from topo.fabric import Fabric, Role
from topo.table import format_seconds

MOST_CLASSES = 10
"""Classes of links, lane by lane, in the timeline: those that carried most."""

MOST_JOBS = 40
"""Jobs in the timeline, the first ones."""

MOST_HIGH = 420.0
"""Height of a heat map."""


def draw_timeline(outcome: Outcome, jobs: Sequence[tuple[str, float, float]] = (), *, bare: bool = False) -> Drawing:
    """Draw over time: jobs as bars; of each class of links the mean load, and the fullest link's.

    Parameters
    ----------
    jobs
        Name, start and duration in seconds of each.
    bare
        Whether it is part of a page that has `topo.palette.STYLE`: without title and margin.

    Raises
    ------
    HeddleError
        When there is neither a timeline nor a job.

    Examples
    --------
    >>> import topo, routing, simulate
    >>> routed = routing.route(topo.preset("lab-20").fabric)
    >>> outcome = simulate.play(routed, simulate.allreduce(routed.fabric.ends(role="compute"), "1 MiB"), n_bins=20)
    >>> simulate.draw_timeline(outcome).svg[:4]
    '<svg'
    """
    if outcome.timeline is None and not jobs:
        raise HeddleError(
            "the outcome has no timeline to draw; play with n_bins, such as simulate.play(..., n_bins=100)"
        )
    unit, scale = _time_unit(outcome.makespan_s)
    span, charts, legend = (0.0, outcome.makespan_s * scale), [], []
    timeline, time = outcome.timeline, f"time ({unit})"
    if jobs:
        shown = jobs[:MOST_JOBS]
        rows = [(row + 0.5, name) for row, (name, _, _) in enumerate(shown)]
        x_words = time if timeline is None else None
        bars = Axes("jobs", span, (len(shown), 0), 17.0 * len(shown), x_words=x_words, names=rows)
        for row, (name, start_s, time_s) in enumerate(shown):
            words = f"{name}: begins at {start_s * scale:.3g} {unit}, takes {time_s * scale:.3g} {unit}"
            shade = palette.SERIES[row % len(palette.SERIES)]
            bars.bar(start_s * scale, (start_s + time_s) * scale, row + 0.5, shade, words)
        charts.append(bars)
    if timeline is not None:
        mean = Axes("utilisation, mean over the links of a class", span, (0, 1), 130, x_words=None, digits=".0%")
        most = Axes("utilisation of the fullest link of a class", span, (0, 1), 130, x_words=time, digits=".0%")
        charts += [mean, most]
        n_bins = min(timeline.load_bytes_s.shape[1], int(np.ceil(outcome.makespan_s / timeline.bin_s)))
        edges = np.minimum(np.arange(n_bins + 1) * timeline.bin_s, outcome.makespan_s) * scale
        # The last bin may reach beyond the end: its load is that of the time until there.
        stretch = timeline.bin_s * scale / np.diff(edges)
        capacity = outcome.network.capacity_bytes_s
        for color, (name, lane, channels) in enumerate(_classes(outcome)):
            load = timeline.lane_bytes_s[lane, channels, :n_bins] * stretch
            part, peak = load.sum(axis=0) / capacity[channels].sum(), (load / capacity[channels, None]).max(axis=0)
            shade, dashed = palette.SERIES[color % len(palette.SERIES)], not color % 2  # two often lie on each other
            for axes, values in ((mean, part), (most, peak)):
                words = f"{name}: at most {percent(values.max(initial=0.0))}"
                axes.stairs(edges, values, shade, words=words, dashed=dashed)
            legend.append(("dashes" if dashed else "line", shade, name))
    fabric = outcome.network.fabric.name or "the fabric"
    ends = f"{fabric}, {plural(outcome.n_flows, 'flow')}; the last ends at {format_seconds(outcome.makespan_s)}"
    return chart("load over time", ends, charts, legend, bare=bare)


def draw_ports(outcome: Outcome, *, bare: bool = False) -> Drawing:
    """Draw a heat map for each role of switches, a row a switch, a column a port; bare as in `draw_timeline`.

    The colour is the part of what the port could have sent that it did send, until the last flow ended.

    Examples
    --------
    >>> import topo, routing, simulate
    >>> routed = routing.route(topo.preset("lab-20").fabric)
    >>> outcome = simulate.play(routed, simulate.allreduce(routed.fabric.ends(role="compute"), "1 MiB"))
    >>> simulate.draw_ports(outcome).svg[:4]
    '<svg'
    """
    fabric = outcome.network.fabric
    charts = []
    for role in np.unique(fabric.role[: fabric.n_switches]).tolist():
        switches = np.flatnonzero(fabric.role[: fabric.n_switches] == role)
        sent = _sent(fabric, outcome.utilisation, switches)
        rows, ports = sent.shape
        labelled = np.unique(np.linspace(0, rows - 1, min(rows, 16)).astype(int)).tolist()
        names = [(at + 0.5, fabric.label(int(switches[at]))) for at in labelled]
        high = float(np.clip(rows * 14, 14 * len(names), MOST_HIGH))
        title = f"{rows:,} {Role(role).name.lower()}"
        axes = Axes(title, (0.5, ports + 0.5), (rows, 0), high, min(max(6.0 * ports, 120), 260), "port", names)
        axes.cells(sent)
        charts.append(axes)
    legend = heat_legend("sent, of what the port could have sent until the last flow ended; blank: no cable")
    about = fabric.name or "the fabric"
    return chart("load of the ports of switches", about, charts, legend, beside=True, bare=bare)


def _sent(fabric: Fabric, utilisation: NDArray[np.float64], switches: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return (switches, ports) what each port sent, NaN where nothing is plugged in."""
    sent = np.full((len(switches), int(np.diff(fabric.port_offset)[switches].max(initial=1))), np.nan)
    ports = np.flatnonzero(np.isin(fabric.port_node, switches) & (fabric.peer >= 0))
    row = np.searchsorted(switches, fabric.port_node[ports])
    sent[row, fabric.port_number[ports] - 1] = utilisation[ports]
    return sent


def _classes(outcome: Outcome) -> list[tuple[str, int, NDArray[np.intp]]]:
    """Return name, lane and channels of the classes that carried most: ``leaf to spine``, with the lane if several."""
    fabric, classes = outcome.network.fabric, outcome.link_classes
    sender, receiver = fabric.role[fabric.port_node], fabric.role[np.maximum(fabric.peer_node, 0)]
    laned = len({item.lane for item in classes}) > 1
    found = []
    for item in sorted(classes, key=lambda item: -item.bytes)[:MOST_CLASSES]:
        channels = np.flatnonzero((fabric.peer >= 0) & (sender == item.sender) & (receiver == item.receiver))
        name = f"{item.sender.name.lower()} to {item.receiver.name.lower()}" + f", lane {item.lane}" * laned
        found.append((name, item.lane, channels))
    return found


def _time_unit(longest_s: float) -> tuple[str, float]:
    return next(((unit, scale) for unit, scale in (("s", 1), ("ms", 1e3)) if longest_s * scale >= 1), ("µs", 1e6))
