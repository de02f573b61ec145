"""Charts of an outcome: what ran when, how full the links were over time, and which switch ports carried how much.

The same simulation gives the same bytes: no date, fixed ids, letters as outlines of matplotlib's own font.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from simulate.engines.outcome import Outcome
from topo import palette
from topo.drawing import Drawing
from topo.drawing.figures import as_drawing, shown_name
from topo.drawing.figures import figure as new_figure
from topo.errors import HeddleError
from topo.fabric import Fabric, Role

MOST_CLASSES = 10
"""Classes of links, lane by lane, in the timeline: those that carried most."""

MOST_JOBS = 40
"""Jobs in the timeline, the first ones."""


def draw_timeline(outcome: Outcome, jobs: Sequence[tuple[str, float, float]] = ()) -> Drawing:
    """Draw over time: jobs as bars; of each class of links the mean load, and the fullest link's.

    Parameters
    ----------
    jobs
        Name, start and duration in seconds of each.

    Raises
    ------
    HeddleError
        When there is neither a timeline nor a job.

    Examples
    --------
    >>> import topo, routing, simulate
    >>> routed = routing.route(topo.preset("lab-20").fabric)
    >>> outcome = simulate.play(routed, simulate.allreduce(routed.fabric.ends(role="compute"), "1 MiB"), n_bins=20)
    >>> simulate.draw_timeline(outcome).svg[:5]
    '<?xml'
    """
    if outcome.timeline is None and not jobs:
        raise HeddleError(
            "the outcome has no timeline to draw; play with n_bins, such as simulate.play(..., n_bins=100)"
        )
    figure = new_figure(10, 7 if jobs else 5)
    shown = jobs[:MOST_JOBS]
    heights = [max(2, min(len(shown), 12)), 8, 8] if jobs else [8, 8]
    *above, mean, most = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights)
    unit, scale = _time_unit(outcome.makespan_s)
    for panel in above:
        for row, (_, start_s, time_s) in enumerate(shown):
            panel.barh(row, time_s * scale, left=start_s * scale, color=palette.SERIES[row % len(palette.SERIES)])
        panel.set_yticks(range(len(shown)), [shown_name(name) for name, _, _ in shown])
        panel.invert_yaxis()
        panel.set_title("jobs", loc="left")
    timeline = outcome.timeline
    if timeline is not None and outcome.makespan_s > 0:
        n_bins = min(timeline.load_bytes_s.shape[1], int(np.ceil(outcome.makespan_s / timeline.bin_s)))
        edges = np.minimum(np.arange(n_bins + 1) * timeline.bin_s, outcome.makespan_s) * scale
        # The last bin may reach beyond the end: its load is that of the time until there.
        stretch = timeline.bin_s * scale / np.diff(edges)
        capacity = outcome.network.capacity_bytes_s
        for color, (name, lane, channels) in enumerate(_classes(outcome)):
            load = timeline.lane_bytes_s[lane, channels, :n_bins] * stretch
            fullest = (load / capacity[channels, None]).max(axis=0)
            style = {
                "color": palette.SERIES[color % len(palette.SERIES)],
                "ls": "-" if color % 2 else "--",
                "lw": 1.5,
            }  # two often lie on each other
            mean.stairs(load.sum(axis=0) / capacity[channels].sum(), edges, label=shown_name(name), **style)
            most.stairs(fullest, edges, baseline=None, **style)
        figure.legend(*mean.get_legend_handles_labels(), loc="outside right upper", fontsize="small")
    for panel, title in ((mean, "utilisation, mean over the links"), (most, "utilisation of the fullest link")):
        panel.set_title(title, loc="left")
        panel.set_ylim(0, 1.05)
    most.set_xlabel(f"time ({unit})")
    return as_drawing(figure)


def draw_ports(outcome: Outcome) -> Drawing:
    """Draw a heat map for each role of switches, a row a switch, a column a port.

    The colour is the part of what the port could have sent that it did send, until the last flow ended.

    Examples
    --------
    >>> import topo, routing, simulate
    >>> routed = routing.route(topo.preset("lab-20").fabric)
    >>> outcome = simulate.play(routed, simulate.allreduce(routed.fabric.ends(role="compute"), "1 MiB"))
    >>> simulate.draw_ports(outcome).svg[:5]
    '<?xml'
    """
    fabric = outcome.network.fabric
    roles = [Role(role) for role in np.unique(fabric.role[: fabric.n_switches]).tolist()]
    figure = new_figure(4.5 * max(len(roles), 1) + 1, 6)
    panels = figure.subplots(1, max(len(roles), 1), squeeze=False)[0]
    image = None
    for panel, role in zip(panels, roles, strict=False):
        switches = np.flatnonzero(fabric.role[: fabric.n_switches] == role)
        image = panel.imshow(
            _sent(fabric, outcome.utilisation, switches), vmin=0, vmax=1, cmap="inferno", aspect="auto",
            interpolation="nearest", extent=(0.5, _radix(fabric, switches) + 0.5, len(switches) - 0.5, -0.5),
        )  # fmt: skip
        panel.set_facecolor(palette.UNUSED)
        panel.set_title(f"{len(switches):,} {role.name.lower()}", loc="left")
        panel.set_xlabel("port")
        ticks = np.unique(np.linspace(0, len(switches) - 1, min(len(switches), 12)).astype(int)).tolist()
        panel.set_yticks(ticks, [shown_name(fabric.label(int(switches[at]))) for at in ticks], fontsize="small")
    if image is not None:
        figure.colorbar(image, ax=list(panels), label="sent, as a part of what could be; grey: no cable")
    return as_drawing(figure)


def _sent(fabric: Fabric, utilisation: NDArray[np.float64], switches: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return (switches, ports) what each port sent, NaN where nothing is plugged in."""
    sent = np.full((len(switches), _radix(fabric, switches)), np.nan)
    for row, switch in enumerate(switches.tolist()):
        ports = np.arange(fabric.port_offset[switch], fabric.port_offset[switch + 1])
        sent[row, : len(ports)] = np.where(fabric.peer[ports] >= 0, utilisation[ports], np.nan)
    return sent


def _radix(fabric: Fabric, switches: NDArray[np.intp]) -> int:
    return int(np.diff(fabric.port_offset)[switches].max(initial=1))


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
