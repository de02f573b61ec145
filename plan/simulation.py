"""A simulation: a workload is played on a routed fabric, and becomes figures and files."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from typing import Any

import numpy as np

from plan.render.tables import print_text, show_table
from plan.staging import Content
from simulate import Outcome, Saturation, Simulation, draw_ports, find_saturation
from topo import Column, Table, format_csv, format_seconds, plural

LINKS = ("channel", "lane", "rate_gbps", "bytes", "mean_utilisation", "peak_utilisation")
"""Columns of ``links.csv``."""
SHOWN = 12
"""Classes of links that are shown to a person; ``--json`` has all."""


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


def simulation_files(simulation: Simulation, document: Mapping[str, Any], name: str) -> dict[str, Content]:
    """Return the files of the output folder, by path relative to it.

    Parameters
    ----------
    document
        What ``simulation.json`` holds.
    name
        What its report calls it.
    """
    from plan.report.document import Report, simulation_page  # which most runs do without
    from plan.report.page import format_report

    page = simulation_page(simulation, name)
    spread = {} if simulation.outcome.congestion is None else {"congestion.svg": _spread(simulation).draw().svg}
    return {
        **spread,
        "report.html": format_report(Report([], [page])),
        "simulation.json": json.dumps(document, indent=2) + "\n",
        "links.csv": _format_links(simulation.outcome),
        **({} if simulation.outcome.timeline is None else {"timeline.npz": _format_timeline(simulation.outcome)}),
        "timeline.svg": simulation.draw().svg,
        "link-load.svg": draw_ports(simulation.outcome).svg,
    }


@cache
def _spread(simulation: Simulation) -> Saturation:
    """Return where the packets of a simulation stood still."""
    return find_saturation(simulation.outcome)


def _format_links(outcome: Outcome) -> str:
    """Return the load of each channel that carried anything, lane by lane, the hottest first."""
    return format_csv(LINKS, outcome.channels.texts())


def _format_timeline(outcome: Outcome) -> bytes:
    """Return the load over time of those C channels that carried anything, as NumPy's archive.

    It holds ``bin_s``, ``channel`` (C names), ``rate_bytes_s`` (C) and ``load_bytes_s`` (L lanes, C, B bins); of
    packets also ``filled_packets``, how many are behind each channel at the end of each bin that is over.
    """
    out = io.BytesIO()
    if outcome.timeline is not None:
        fabric, n = outcome.network.fabric, outcome.network.fabric.n_ports
        used = np.flatnonzero(outcome.resource_bytes[:n])
        met = outcome.congestion
        extra: dict[str, Any] = {} if met is None else {"filled_packets": met.filled[:, used]}
        np.savez_compressed(
            out,
            **extra,
            bin_s=np.array(outcome.timeline.bin_s),
            channel=np.array([fabric.channel_label(channel) for channel in used.tolist()], np.str_),
            rate_bytes_s=outcome.network.capacity_bytes_s[used],
            load_bytes_s=outcome.timeline.lane_bytes_s[:, used],
        )
    return out.getvalue()


def show_simulation(simulation: Simulation) -> None:
    """Print what a person wants to know of a simulation."""
    outcome, fabric = simulation.outcome, simulation.outcome.network.fabric
    routed = {"": "", "file": ", on the tables that were read"}
    engine = routed.get(outcome.network.tables.engine, f", routed by {outcome.network.tables.engine}")
    ends = f"the last ends at {format_seconds(outcome.makespan_s)}"
    print_text(f"{plural(outcome.n_flows, 'flow')} on {fabric.name or 'the fabric'}{engine}: {ends}")
    if outcome.rounds is not None:
        print_text(
            f"one round of {plural(len(outcome.flows), 'message')} was simulated for all {outcome.n_rounds:,}, which "
            "are proven to be alike"
        )
    for table in (simulation.table, simulation.flow_table, _link_table(simulation)):
        show_table(table)
    if outcome.congestion is not None:
        for table in (outcome.congestion.table, _spread(simulation).table):
            show_table(table)
    if outcome.network.devices.names:
        show_table(outcome.inside)
    print_text(
        "links used: links that carried anything; mean: utilisation of all links of the class from begin to end; "
        "hottest: that of the fullest link; as hot: links with the same; peak: the fullest moment of any link"
    )
    if not (outcome.network.message_latency_s or outcome.network.hop_latency_s.any()):
        print_text(
            "latencies are zero, which makes collectives of many steps too fast: set --latency-ns and --hop-latency-ns"
        )
    if len(simulation.outcome.link_classes) > SHOWN:
        print_text(f"{len(simulation.outcome.link_classes) - SHOWN} cooler classes of links are not shown")


def _link_table(simulation: Simulation) -> Table:
    """Return the load of the hottest classes of links."""
    fabric, links = simulation.outcome.network.fabric, simulation.outcome.link_classes[:SHOWN]
    return Table(
        "links by what they join and lane, hottest first",
        (
            Column("from", [item.sender.name.lower() for item in links]),
            Column("to", [item.receiver.name.lower() for item in links]),
            Column("lane", [item.lane for item in links]),
            Column("links used", [item.used for item in links]),
            Column("links in class", [item.channels for item in links]),
            Column("mean", [item.mean for item in links], digits=".1%"),
            Column("hottest", [item.max for item in links], digits=".1%"),
            Column("as hot", [item.as_hot for item in links]),
            Column("peak", [item.peak for item in links], digits=".0%"),
            Column("hottest link", [fabric.channel_label(item.hottest) for item in links]),
        ),
    )
