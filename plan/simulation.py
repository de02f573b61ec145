"""A simulation: a workload is played on a routed fabric, and becomes figures and files."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import numpy as np

from plan.files import Content
from plan.render.charts import draw_link_load, draw_timeline
from simulate.outcome.link_loads import lane_bytes, peak_utilisation
from simulate.outcome.outcome import Outcome
from simulate.workload.play import Simulation


def simulation_document(simulation: Simulation, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return what ``simulation.json`` holds.

    Parameters
    ----------
    inputs
        What the simulation was made from, as plain values.
    """
    return {
        **simulation.to_dict(),
        "inputs": dict(inputs),
        "versions": {name: version(name) for name in ("heddle-fabric", "numba", "numpy")},
    }


def simulation_files(simulation: Simulation, inputs: Mapping[str, Any]) -> dict[str, Content]:
    """Return the files of the output folder, by path relative to it."""
    return {
        "simulation.json": json.dumps(simulation_document(simulation, inputs), indent=2) + "\n",
        "links.csv": _format_links(simulation.outcome),
        "timeline.npz": _format_timeline(simulation.outcome),
        "timeline.svg": draw_timeline(simulation.jobs, simulation.outcome),
        "link-load.svg": draw_link_load(simulation.outcome),
    }


def _format_links(outcome: Outcome) -> str:
    """Return the load of each channel that carried anything, lane by lane, the hottest first."""
    fabric, capacity = outcome.network.fabric, outcome.network.capacity_bytes_s
    carried, peak = lane_bytes(outcome), peak_utilisation(outcome)
    lane, channel = np.nonzero(carried)
    mean = carried[lane, channel] / (capacity[channel] * outcome.makespan_s)
    order = np.lexsort((lane, channel, -mean.round(9)))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["channel", "lane", "rate_gbps", "bytes", "mean_utilisation", "peak_utilisation"])
    for at in order.tolist():
        port = int(channel[at])
        shares = [f"{mean[at]:.6f}", "" if peak is None else f"{peak[lane[at], port]:.6f}"]
        rate = capacity[port] * 8 / 1e9
        writer.writerow([fabric.channel_label(port), lane[at], f"{rate:g}", f"{carried[lane[at], port]:.0f}", *shares])
    return out.getvalue()


def _format_timeline(outcome: Outcome) -> bytes:
    """Return the load over time of those C channels that carried anything, as NumPy's archive.

    It holds ``bin_s``, ``channel`` (C names), ``rate_bytes_s`` (C) and ``load_bytes_s`` (L lanes, C, B bins).
    """
    out = io.BytesIO()
    if outcome.timeline is not None:
        fabric, n = outcome.network.fabric, outcome.network.fabric.n_ports
        used = np.flatnonzero(outcome.resource_bytes[:n])
        np.savez_compressed(
            out,
            bin_s=np.array(outcome.timeline.bin_s),
            channel=np.array([fabric.channel_label(channel) for channel in used.tolist()], np.str_),
            rate_bytes_s=outcome.network.capacity_bytes_s[used],
            load_bytes_s=outcome.timeline.lane_bytes_s[:, used],
        )
    return out.getvalue()
