"""``plan.simulate``: a workload or single flows, played on a routed fabric, as figures, charts and files."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import costmodel
import simulate as sim
from plan.files import check_replaceable, check_writable, write_file, write_folder
from plan.inputs import (
    Hashing,
    RoutingFiles,
    catalog_of,
    check_servers,
    find_preset,
    path_of,
    read_paths_argument,
    read_routed_argument,
)
from plan.pipeline import Progress, silent
from plan.staging import Content
from routing import Hashed, find_ports
from topo import HeddleError, Shown, Table, format_csv

if TYPE_CHECKING:
    from topo import Cluster

LINKS = ("channel", "lane", "rate_gbps", "bytes", "mean_utilisation", "peak_utilisation")
"""Columns of ``links.csv``."""


@dataclass(frozen=True, eq=False)
class Simulated(Shown):
    """What `simulate` returns: the simulation, and what held its jobs back."""

    simulation: sim.Simulation
    inputs: Mapping[str, Any]
    """What it was made from, as plain values."""
    bottlenecks: sim.workload.Bottlenecks | None = None
    """None unless asked for."""
    notes: tuple[str, ...] = ()
    """What was skipped in what was read."""
    draws: sim.workload.Draws | None = None
    """Of hashed paths, figures over several seeds, of which the simulation is the median one; None for one path."""
    beside: sim.workload.BesideAdaptive | None = None
    """The jobs on static tables and on groups of ports, if asked for."""

    @cached_property
    def saturation(self) -> sim.engines.Saturation | None:
        """Where packets stood still; None for fluid flows."""
        return sim.find_saturation(self.simulation.outcome) if self.simulation.outcome.congestion else None

    @property
    def table(self) -> Table:
        """Jobs, one a row."""
        return self.simulation.table

    def to_dict(self) -> dict[str, Any]:
        """Return what ``simulation.json`` holds."""
        return {
            **self.simulation.to_dict(),
            "inputs": dict(self.inputs),
            "versions": {name: version(name) for name in ("heddle-fabric", "numba", "numpy")},
            **({"draws": self.draws.to_dict()} if self.draws else {}),
            **({"adaptive": self.beside.to_dict()} if self.beside else {}),
            **({"why": self.bottlenecks.to_dict()} if self.bottlenecks else {}),
        }


def simulate(
    fabric: str | Path,
    workload: str | None = None,
    *,
    flows: str | Path | None = None,
    given: RoutingFiles | None = None,
    hashing: Hashing | None = None,
    draws: int | None = None,
    engine: str | sim.PacketModel = "fluid",
    latency_ns: float | None = None,
    hop_latency_ns: float | None = None,
    host_gbps: float | None = None,
    alone: bool = False,
    why: bool = False,
    adaptive: bool = False,
    seed: int = 0,
    trace: str | Path | None = None,
    goal: str | Path | None = None,
    output: str | Path | None = None,
    step: Progress = silent,
) -> Simulated:
    """Play a workload or single flows on a routed fabric.

    Parameters
    ----------
    fabric : str or Path
        A spec, which is routed as it says; a folder of a plan; or a real fabric with its tables.
    workload : str, optional
        A YAML file, or the name of a preset; or else ``flows``, a CSV file of single flows.
    given : RoutingFiles, optional
        How the fabric is routed.
    hashing : Hashing, optional
        How its switches choose paths where no tables do, as on Ethernet.
    draws : int, optional
        Seeds of the hash that are played, from ``seed`` on; 20 by default.
    engine : str or PacketModel
        ``fluid``, or packets.
    latency_ns, hop_latency_ns : float, optional
        Of each message, and of each link on a path. Where they are left out, published figures for the ways that
        messages take, and for links those of switches in the catalog and of cables in the floor plan; with a
        ``latency_ns`` of 0 there is no latency at all.
    host_gbps : float, optional
        Highest rate at which a port of a host can send.
    alone, why : bool
        Whether to play each job alone too, and whether to find the bottleneck of each.
    adaptive : bool
        Whether to play fluid flows also on groups of ports, as managers of adaptive routing make them, and with what
        ``hashing`` says is down.
    seed : int
        Of random mappings, and the first of the hash.
    trace, goal : str or Path, optional
        Files to write: every flow (.csv or .parquet), the traffic as a GOAL schedule.
    output : str or Path, optional
        Folder to write for a workload; CSV file for flows, each with its time of end.
    step : callable
        Progress callback, called as ``step(message)``.

    Raises
    ------
    HeddleError
        When a file cannot be read or must not be replaced, or the traffic does not fit the fabric; a
        `simulate.engines.DeadlockError` when packets wait in a circle, which ``output`` then draws.

    Examples
    --------
    >>> import plan, topo
    >>> spec = topo.config_root() / "lab-20.yaml"
    >>> f"{plan.simulate(spec, 'allreduce').simulation.outcome.makespan_s * 1e3:.1f} ms"
    '14.7 ms'

    See Also
    --------
    simulate.play : the simulation alone
    """
    source, given = path_of(fabric, "a Routed for `simulate.play`"), given or RoutingFiles()
    folder = None if output is None or flows is not None else Path(output)
    read = [source, *(Path(file) for file in (flows, given.tables, given.lanes, given.policy, given.roles) if file)]
    written = [Path(file) for file in (trace, goal, output if folder is None else None) if file is not None]
    for file in written:
        check_writable(file, read)
    if len({file.absolute() for file in written}) < len(written):
        raise HeddleError(f"{written[0]}: two files would be written there; name another file for one of them")
    check_replaceable(folder)
    if trace is not None and Path(trace).suffix == ".parquet":
        sim.workload.check_parquet()
    path = Path(flows) if flows is not None else find_preset("workloads", workload or "", "--workload")
    hashing = hashing or Hashing()
    if adaptive and (hashing.applies or engine != "fluid"):
        raise HeddleError(f"{source}: found hashes or packets beside adaptive; expected fluid flows on tables")
    routed = (read_routed_argument(source, given, step) if adaptive else
              read_paths_argument(source, given, hashing, step))  # fmt: skip
    catalog, seeds = catalog_of(source), draws or sim.workload.DRAWS
    network = sim.Network.of(
        routed,
        latency_s=None if latency_ns is None else latency_ns * 1e-9,
        hop_latency_s=None if hop_latency_ns is None else hop_latency_ns * 1e-9,
        catalog=catalog,
        host_gbps=host_gbps or float("inf"),
    )
    step("placing the workload")
    if flows is not None:
        traffic = sim.workload.bare_flows(sim.workload.read_flows_csv(path, routed.fabric), str(path))
    else:
        try:
            traffic = sim.read_workload(path, routed.fabric, seed, catalog)
        except HeddleError:
            if source.is_dir():  # what is said to be missing may be in the catalog of its spec
                check_servers(source, catalog)
            raise
        if source.is_dir() and traffic.looks_inside:
            check_servers(source, catalog)
        named = [path.parent / beside for job in traffic.jobs for key in ("file", "server")
                 if (beside := getattr(job.spec, key, None))]  # fmt: skip
        for target in written:
            check_writable(target, [path, *named])
    as_goal = None if goal is None else sim.workload.format_as_goal(traffic, routed.fabric)
    drawn = None
    if isinstance(routed, Hashed):
        drawn = sim.play_draws(network, traffic, draws=seeds, seed=seed, engine=engine, step=step)
        network = replace(network, tables=routed.drawn(drawn.median))
    elif draws is not None and not adaptive:
        raise HeddleError(f"{source}: found draws of a hash; expected none where tables give every pair one path")
    try:
        simulation = sim.play(network, traffic, engine=engine, alone=alone, step=step)
    except sim.engines.DeadlockError as error:
        if folder is not None:
            write_folder(folder, {"deadlock.svg": error.deadlock.draw().svg})
        raise
    inputs = {"fabric": source.name, "traffic": path.name, "latency_ns": latency_ns,
              "hop_latency_ns": hop_latency_ns, "host_gbps": host_gbps, "seed": seed,
              **({"paths": routed.to_dict()} if isinstance(routed, Hashed) else {})}  # fmt: skip
    bottlenecks = sim.find_bottlenecks(simulation, step=step) if why else None
    beside = None
    if adaptive:
        down = find_ports(routed.fabric, hashing.down) if hashing.down else None
        beside = sim.workload.play_beside_adaptive(network, traffic, down=down, draws=seeds, seed=seed, step=step)
    played = Simulated(simulation, inputs, bottlenecks, routed.fabric.notes, drawn, beside)
    step("writing")
    if trace is not None:
        form = sim.workload.format_trace_parquet if Path(trace).suffix == ".parquet" else sim.workload.format_trace_csv
        write_file(Path(trace), form(simulation.workload, simulation.outcome))
    if goal is not None and as_goal is not None:
        write_file(Path(goal), as_goal)
    if folder is not None:
        write_folder(folder, simulation_files(played, path.stem))
    elif output is not None:
        finish_s = simulation.outcome.finish_s
        write_file(Path(output), sim.workload.format_flows_csv(routed.fabric, traffic.flows, finish_s))
    return played


def job_times(spec: Path, cluster: Cluster, workload: str, step: Progress = silent) -> dict[str, float]:
    """Return how long each job of a workload takes on the networks over which the jobs of a spec send, in seconds."""
    networks = [fabric.name for fabric in costmodel.job_networks(cluster.fabrics)]
    subnet = networks[0] if len(networks) == 1 else f"{networks[0].partition('-plane')[0]}*"
    given = RoutingFiles(subnet=subnet if len(cluster.fabrics) > 1 else None)
    played = simulate(spec, workload, given=given, step=step)
    return {job.name: job.time_s for job in played.simulation.jobs}


def simulation_files(played: Simulated, name: str) -> dict[str, Content]:
    """Return the files of the output folder by path relative to it; ``name`` is what its report calls it."""
    from plan.report.document import Report, simulation_page  # which most runs do without
    from plan.report.page import format_report

    outcome = played.simulation.outcome
    return {
        **({} if played.saturation is None else {"congestion.svg": played.saturation.draw().svg}),
        "report.html": format_report(Report([], [simulation_page(played.simulation, name)])),
        "simulation.json": json.dumps(played.to_dict(), indent=2) + "\n",
        "links.csv": format_csv(LINKS, outcome.channels.texts()),
        **({} if outcome.timeline is None else {"timeline.npz": _format_timeline(outcome)}),
        "timeline.svg": played.simulation.draw().svg,
        "link-load.svg": sim.draw_ports(outcome).svg,
    }


def _format_timeline(outcome: sim.Outcome) -> bytes:
    """Return the load over time of those C channels that carried anything, as NumPy's archive.

    It holds ``bin_s``, ``channel`` (C names), ``rate_bytes_s`` (C) and ``load_bytes_s`` (L lanes, C, B bins); of
    packets also ``filled_bytes``, what they take of the buffer behind each channel at the end of each bin that is over.
    """
    out, fabric, timeline, met = io.BytesIO(), outcome.network.fabric, outcome.timeline, outcome.congestion
    assert timeline is not None
    used = np.flatnonzero(outcome.resource_bytes[: fabric.n_ports])
    extra: dict[str, Any] = {} if met is None else {"filled_bytes": met.filled[:, used]}
    np.savez_compressed(
        out,
        **extra,
        bin_s=np.array(timeline.bin_s),
        channel=np.array([fabric.channel_label(channel) for channel in used.tolist()], np.str_),
        rate_bytes_s=outcome.network.capacity_bytes_s[used],
        load_bytes_s=timeline.lane_bytes_s[:, used],
    )
    return out.getvalue()
