"""``plan simulate``: play traffic over a fabric, on anybody's tables."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from plan.commands.options import (
    FILE,
    Number,
    as_json,
    bundle,
    fabric_argument,
    print_json,
    print_notes,
    routing_options,
    seed_option,
)
from plan.render.progress import progress
from topo import HeddleError

if TYPE_CHECKING:
    from plan.inputs import RoutingFiles
    from simulate import Simulation

TRACES = (".csv", ".parquet")
NANOSECONDS = Number(0, 3.6e12)
"""Up to an hour; with more, figures would overflow somewhere."""


TIMING = (
    click.option("--latency-ns", type=NANOSECONDS, default=0.0, show_default=True, help="Of each message."),
    click.option(
        "--hop-latency-ns",
        type=NANOSECONDS,
        help="Latency of each link on a path; by default 0 for fluid flows, and for packets that of switches in the "
        "catalog and of cables in the floor plan.",
    ),
    click.option("--host-gbps", type=Number(1e-3, 1e6), help="Highest rate at which a port of a host can send."),
)


@dataclass(frozen=True)
class Timing:
    """What a network does to a message besides sharing its links."""

    latency_ns: float
    hop_latency_ns: float | None
    host_gbps: float | None


PACKETS = (
    click.option(
        "--engine",
        type=click.Choice(["fluid", "packets"]),
        default="fluid",
        show_default=True,
        help="How bytes move: at fair rates, or in packets that wait for buffers and credits.",
    ),
    click.option(
        "--inputs",
        type=click.Choice(["fifo", "voq"]),
        help="Packets: whether those of an input and lane leave in order (fifo, the default) or queue by output (voq).",
    ),
    click.option(
        "--buffer-packets", type=click.IntRange(1, 1 << 15), help="Packets: how many a port buffers on each lane [8]."
    ),
    click.option(
        "--packet-bytes", type=click.IntRange(64, 1 << 24), help="Packets: bytes of each, the MTU or a multiple [4096]."
    ),
    click.option(
        "--window-packets",
        type=click.IntRange(0),
        help="Packets: how many of a message may be on their way; 0 for no limit [0].",
    ),
    click.option("--adaptive", is_flag=True, default=None, help="Packets: take the least loaded of the legal ports."),
)


@dataclass(frozen=True)
class PacketOptions:
    """Which engine, and what packets meet."""

    engine: str
    inputs: str | None
    buffer_packets: int | None
    packet_bytes: int | None
    window_packets: int | None
    adaptive: bool | None

    def check(self) -> None:
        """Refuse figures of packets where there are none."""
        given = [f"--{name.replace('_', '-')}" for name in self.figures]
        if self.engine == "fluid" and given:
            raise click.UsageError(f"{given[0]} applies to packets; add --engine packets")

    @property
    def figures(self) -> dict[str, Any]:
        """Those that are given."""
        return {name: value for name, value in asdict(self).items() if name != "engine" and value is not None}


AGAIN = (
    click.option(
        "--alone", is_flag=True, help="Also simulate each job alone, and show how much the others slow it down."
    ),
    click.option(
        "--why",
        is_flag=True,
        help="Find the bottleneck of each job; repeats the simulation with more and less of each capacity.",
    ),
)


@dataclass(frozen=True)
class Again:
    """For what a workload is played more than once."""

    alone: bool
    why: bool


@click.command()
@fabric_argument
@click.option("--workload", "-w", help="Workload: a YAML file, or a preset such as allreduce or three-jobs.")
@click.option("--flows", type=FILE, help="Single flows: CSV with start_s,src,dst,bytes[,sl].")
@routing_options
@bundle("timing", Timing, *TIMING)
@bundle("packets", PacketOptions, *PACKETS)
@bundle("again", Again, *AGAIN)
@seed_option("Seed of random mappings.")
@click.option("--trace", type=FILE, help="Write every flow to a .csv or .parquet file.")
@click.option("--goal", type=FILE, help="Write the traffic as a GOAL schedule, for LogGOPSim.")
@click.option(
    "-o",
    "--output",
    type=FILE,
    help="Folder for figures and charts of a workload; CSV file for bare flows, each with its finish_s.",
)
@as_json
def simulate(
    fabric: Path,
    workload: str | None,
    flows: Path | None,
    given: RoutingFiles,
    again: Again,
    timing: Timing,
    packets: PacketOptions,
    seed: int,
    trace: Path | None,
    goal: Path | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """Simulate workloads or single flows on a routed fabric.

    FABRIC is a spec, which is routed according to its keys; a folder of `plan build`; or a real fabric from
    ibnetdiscover with its --tables. Fluid flows have exact fair rates and no queues; --engine packets also simulates
    queues and head-of-line blocking. Exit status 1: deadlock.
    """
    packets.check()
    if again.why and packets.engine != "fluid":
        raise click.UsageError("--why needs the fluid engine; leave --engine packets out")
    if packets.engine == "fluid":
        timing = replace(timing, hop_latency_ns=timing.hop_latency_ns or 0.0)
    if (workload is None) == (flows is None):
        raise click.UsageError("expected either --workload or --flows")
    if trace is not None and trace.suffix not in TRACES:
        raise click.BadParameter(
            f"found {trace.name}; expected a name that ends in .csv or .parquet", param_hint="--trace"
        )
    if trace is not None and trace.suffix == ".parquet":
        from simulate.workload import check_parquet

        check_parquet()
    from plan.files import check_writable, write_file

    inputs = [fabric, flows, given.tables, given.lanes, given.policy, given.roles]
    written = [path for path in (trace, goal, output if flows is not None else None) if path is not None]
    for path in written:
        check_writable(path, filter(None, inputs))
    if len({path.absolute() for path in written}) < len(written):
        raise HeddleError(f"{written[0]}: two files would be written there; name another file for one of them")
    if output is not None and flows is None:
        from plan.folder import check_replaceable

        check_replaceable(output, keep_plan=True)
    with progress(quiet=as_json) as step:
        from plan.inputs import catalog_of, check_servers, find_preset, read_routed_argument
        from plan.simulation import show_simulation, simulation_document, simulation_files
        from simulate import Network, PacketModel, find_bottlenecks, play, read_workload
        from simulate.engines import DeadlockError
        from simulate.workload import bare_flows, format_as_goal, format_flows_csv, read_flows_csv
        from topo import hop_latencies

        path = flows or find_preset("workloads", workload or "", "--workload")
        routed = read_routed_argument(fabric, given, step)
        network = Network.of(
            routed,
            message_latency_s=timing.latency_ns * 1e-9,
            hop_latency_s=hop_latencies(routed.fabric, catalog_of(fabric))
            if timing.hop_latency_ns is None
            else timing.hop_latency_ns * 1e-9,
            host_gbps=timing.host_gbps or float("inf"),
        )
        step("placing the workload")
        if flows is not None:
            traffic = bare_flows(read_flows_csv(path, routed.fabric), str(path))
        else:
            catalog = catalog_of(fabric)
            traffic = read_workload(path, routed.fabric, seed, catalog)
            if fabric.is_dir() and traffic.looks_inside:
                check_servers(fabric, catalog)
            named = [path.parent / file for job in traffic.jobs if (file := getattr(job.spec, "file", None))]
            for target in written:
                check_writable(target, [path, *named])
        as_goal = None if goal is None else format_as_goal(traffic, routed.fabric)
        engine = "fluid" if packets.engine == "fluid" else PacketModel(**packets.figures)
        try:
            simulation = play(network, traffic, engine=engine, alone=again.alone, step=step)
        except DeadlockError as error:
            if output is not None and flows is None:
                from plan.folder import write_folder

                write_folder(output, {"deadlock.svg": error.deadlock.draw().svg})
            raise
        document = simulation_document(
            simulation, {"fabric": fabric.name, "traffic": path.name, **asdict(timing), "seed": seed}
        )
        bottlenecks = find_bottlenecks(simulation, step=step) if again.why else None
        if bottlenecks is not None:
            document["why"] = bottlenecks.to_dict()
        step("writing")
        if trace is not None:
            write_trace(simulation, trace)
        if goal is not None and as_goal is not None:
            write_file(goal, as_goal)
        if output is not None and flows is None:
            from plan.folder import write_folder

            write_folder(output, simulation_files(simulation, document, path.stem))
        elif output is not None:
            write_file(output, format_flows_csv(routed.fabric, traffic.flows, simulation.outcome.finish_s))
    print_notes(routed.fabric.notes)
    if as_json:
        print_json(document)
    else:
        show_simulation(simulation)
        from plan.render.tables import show_table

        for table in (bottlenecks.path, bottlenecks.capacities, bottlenecks.sharing) if bottlenecks else ():
            if len(table):
                show_table(table)
        for place in (trace, goal, output):
            if place is not None:
                click.echo(f"written to {place}")


def write_trace(simulation: Simulation, path: Path) -> None:
    """Write every flow, in the format that the file's name asks for."""
    from plan.files import write_file
    from simulate.workload import format_trace_csv, format_trace_parquet

    if path.suffix == ".parquet":
        write_file(path, format_trace_parquet(simulation.workload, simulation.outcome))
    else:
        write_file(path, format_trace_csv(simulation.workload, simulation.outcome))
