"""A simulation: a workload is played on a routed fabric, and becomes figures and files."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from plan.files import Content
from plan.inputs import RoutedInput
from plan.render.charts import draw_link_load, draw_timeline
from plan.render.progress import Step
from simulate.engines import fluid
from simulate.network import Devices, Network
from simulate.outcome.link_loads import LinkClass, lane_bytes, link_classes, peak_utilisation
from simulate.outcome.outcome import Outcome
from simulate.workload.end_ports import EndPortNames
from simulate.workload.flows_csv import line_of_flow
from simulate.workload.goal import format_goal
from simulate.workload.goal_flows import goal_of_flows
from simulate.workload.place import Workload
from simulate.workload.results import JobResult, job_results
from simulate.workload.spec import FlowsJob
from simulate.workload.storage_play import play_with_storage
from topo.errors import FlowError, HeddleError
from topo.fabric import Fabric, frozen
from topo.hardware.catalog import load_catalog

BINS = 200
"""Bins of the timeline: at least half of them hold the time until the last flow ends."""

MAX_CELLS = 2**24
"""Bins of all channels and lanes together, 128 MB: large fabrics have fewer bins."""


@dataclass(frozen=True)
class Simulation:
    """A workload that was played."""

    workload: Workload
    outcome: Outcome
    jobs: tuple[JobResult, ...]
    links: tuple[LinkClass, ...]
    """The hottest class of links first."""


def make_network(
    source: RoutedInput, *, latency_ns: float = 0.0, hop_latency_ns: float = 0.0, host_gbps: float = np.inf
) -> Network:
    """Return the network of a routed fabric, with its lanes and their weights.

    Parameters
    ----------
    latency_ns
        Of each message.
    hop_latency_ns
        Of each channel on its path, besides.
    host_gbps
        What a host can send and take in at each port, where that is less than its link.
    """
    weight = dict(source.lanes.arbitration)
    used = [lane for lane in source.lanes.sl2vl if lane < 15]
    return Network.from_tables(
        source.fabric,
        source.tables,
        message_latency_s=latency_ns * 1e-9,
        hop_latency_s=hop_latency_ns * 1e-9,
        host_gbps=host_gbps,
        lane_weights=[weight.get(lane, 1) for lane in range(max(used) + 1)],
        policy=source.policy,
    )


def with_devices(network: Network, devices: Devices) -> Network:
    """Return a network without devices with these."""
    capacity = np.concatenate([network.capacity_bytes_s, devices.capacity_bytes_s])
    return replace(network, devices=devices, capacity_bytes_s=frozen(capacity))


def play_workload(
    network: Network, workload: Workload, *, alone: bool = False, step: Step = lambda text, done=None: None
) -> Simulation:
    """Play a workload.

    Parameters
    ----------
    alone
        Whether to play each job without the others too, to say how much they slow it down.
    step
        Is told what is going on, and how much is done.

    Raises
    ------
    HeddleError
        When the tables do not connect two hosts of a flow, or its service level has no lane: with its place.
    """
    if len(workload.devices.end_port):
        network = with_devices(network, workload.devices)

    def play(text: str, workload: Workload, n_bins: int = 0) -> tuple[Workload, Outcome]:
        if workload.acts:
            model = load_catalog().node(workload.storage.server)
            step(text)
            return play_with_storage(
                network,
                workload,
                model,
                n_bins=n_bins,
                progress=lambda ended, time_s: step(f"{text}: {ended:,} flows, {time_s:.4g} s"),
            )
        total = max(len(workload.flows), 1)
        step(text, 0.0)
        flows = workload.flows
        return workload, fluid.play(network, flows, n_bins=n_bins, progress=lambda ended, _: step(text, ended / total))

    rows = max(len(network.capacity_bytes_s), 1) * len(network.lane_weight)
    n_bins = max(2, min(BINS, MAX_CELLS // rows) // 2 * 2)
    try:
        text = "playing" if workload.acts else f"playing {len(workload.flows):,} flows"
        played, outcome = play(text, workload, n_bins)
    except FlowError as error:
        raise _placed(workload, error) from None
    ends = None
    if alone and len(workload.jobs) == 1:
        ends = [outcome.makespan_s]
    elif alone:
        ends = [
            play(f"playing {job.spec.name} alone", workload.alone(number))[1].makespan_s
            for number, job in enumerate(workload.jobs)
        ]
    return Simulation(played, outcome, job_results(played, outcome, ends), link_classes(outcome))


def _placed(workload: Workload, error: FlowError) -> HeddleError:
    """Return the error with the place of the flow."""
    number = int(workload.job[error.flow])
    job = workload.jobs[number]
    if isinstance(job.spec, FlowsJob):
        flow = error.flow - workload.span(number).start
        # A pipe cannot be read again to count its lines.
        place = f"{line_of_flow(job.where, flow)}: a flow" if Path(job.where).is_file() else f" flow {flow + 1}"
        return HeddleError(f"{job.where}:{place} that {error.reason}")
    return HeddleError(f"{job.where}: job {job.spec.name} has a flow that {error.reason}")


def format_as_goal(workload: Workload, fabric: Fabric) -> str:
    """Return a workload as a GOAL schedule; its ranks are the adapter ports that take part, in the fabric's order.

    Raises
    ------
    HeddleError
        When it holds what GOAL cannot say.
    """
    for cannot, why in (
        (workload.acts, "a storage job acts as it is played"),
        (len(workload.devices.end_port), "a job looks into servers"),
    ):
        if cannot:
            raise HeddleError(f"{why}, which GOAL cannot say; leave --goal out")
    flows = workload.flows
    ends = np.unique(np.concatenate([flows.src, flows.dst]))
    rank = np.zeros(fabric.n_end_ports, np.int32)
    rank[ends] = np.arange(len(ends))
    names = EndPortNames(fabric)
    head = "".join(f"// rank {number} is {names.unique_name(end)}\n" for number, end in enumerate(ends.tolist()))
    return head + format_goal(goal_of_flows(flows.placed(rank), max(len(ends), 1)))


def simulation_document(simulation: Simulation, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return what ``simulation.json`` holds.

    Parameters
    ----------
    inputs
        What the simulation was made from, as plain values.
    """
    outcome = simulation.outcome
    fabric = outcome.network.fabric
    return {
        "fabric": {"name": fabric.name, "switches": fabric.n_switches, "engine": outcome.network.tables.engine},
        "makespan_s": outcome.makespan_s,
        "flows": len(outcome.flows),
        "events": outcome.n_events,
        "jobs": [job.summary() for job in simulation.jobs],
        "links": [item.summary(fabric.channel_label(item.hottest)) for item in simulation.links],
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
