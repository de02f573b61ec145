"""``plan simulate``: play traffic over a fabric, on anybody's tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from plan.commands.options import FILE, as_json, fabric_argument, print_json, print_notes, routing_options, seed_option
from plan.render.progress import progress
from topo.errors import HeddleError

if TYPE_CHECKING:
    from simulate.workload.play import Simulation

TRACES = (".csv", ".parquet")
NANOSECONDS = click.FloatRange(0, 3.6e12)
"""Up to an hour; with more, figures would overflow somewhere."""
SHOWN = 12
"""Classes of links that are shown to a person; ``--json`` has all."""


@click.command()
@fabric_argument
@click.option("--workload", "-w", help="Jobs to play: a YAML file, or a preset such as allreduce or three-jobs.")
@click.option("--flows", type=FILE, help="Bare flows to play: CSV with start_s,src,dst,bytes[,sl].")
@routing_options
@click.option("--alone", is_flag=True, help="Play each job alone too, and say how much the others slow it down.")
@click.option("--latency-ns", type=NANOSECONDS, default=0.0, show_default=True, help="Of each message.")
@click.option(
    "--hop-latency-ns",
    type=NANOSECONDS,
    default=0.0,
    show_default=True,
    help="Of each link on its way, besides.",
)
@click.option("--host-gbps", type=click.FloatRange(1e-3, 1e6), help="Most that a port of a host can send.")
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
    tables: Path | None,
    lanes: Path | None,
    policy: Path | None,
    roles: Path | None,
    subnet: str | None,
    alone: bool,
    latency_ns: float,
    hop_latency_ns: float,
    host_gbps: float | None,
    seed: int,
    trace: Path | None,
    goal: Path | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """Play workloads or bare flows over a routed fabric.

    FABRIC is a spec, which is routed as it says; a folder that `plan build` wrote; or a real fabric as ibnetdiscover
    prints it, with its --tables. Rates are exact for fluid flows: queues, congestion control and head-of-line blocking
    are not modelled.
    """
    if (workload is None) == (flows is None):
        raise click.UsageError("expected either --workload or --flows")
    if trace is not None and trace.suffix not in TRACES:
        raise click.BadParameter(
            f"found {trace.name}; expected a name that ends in .csv or .parquet", param_hint="--trace"
        )
    if trace is not None and trace.suffix == ".parquet":
        from simulate.workload.formats.flow_trace import check_parquet

        check_parquet()
    from plan.files import check_writable, write_file

    given = [path for path in (fabric, flows, tables, lanes, policy, roles) if path is not None]
    written = [path for path in (trace, goal, output if flows is not None else None) if path is not None]
    for path in written:
        check_writable(path, given)
    if len({path.absolute() for path in written}) < len(written):
        raise HeddleError(f"{written[0]}: two files would be written there; name another file for one of them")
    if output is not None and flows is None:
        from plan.folder import check_replaceable

        check_replaceable(output)
        if (output / "plan.json").exists():
            raise HeddleError(f"{output}: found a plan, which the simulation would replace; name another place with -o")
    with progress(quiet=as_json) as step:
        from plan.inputs import find_preset, read_routed_argument
        from plan.simulation import simulation_files
        from simulate.network import Network
        from simulate.workload.formats.flows_csv import format_flows_csv, read_flows_csv
        from simulate.workload.formats.goal import format_as_goal
        from simulate.workload.play import play
        from simulate.workload.read import bare_flows, read_workload

        path = flows or find_preset("workloads", workload or "", "--workload")
        source = read_routed_argument(fabric, subnet, tables, lanes, roles, policy, step=step)
        network = Network.of(
            source.routed,
            message_latency_s=latency_ns * 1e-9,
            hop_latency_s=hop_latency_ns * 1e-9,
            host_gbps=host_gbps or float("inf"),
        )
        step("placing the workload")
        if flows is not None:
            traffic = bare_flows(read_flows_csv(path, source.fabric), str(path))
        else:
            traffic = read_workload(path, source.fabric, seed)
            named = [path.parent / file for job in traffic.jobs if (file := getattr(job.spec, "file", None))]
            for target in written:
                check_writable(target, [path, *named])
        as_goal = None if goal is None else format_as_goal(traffic, source.fabric)
        simulation = play(network, traffic, alone=alone, step=step)
        options = {"latency_ns": latency_ns, "hop_latency_ns": hop_latency_ns, "host_gbps": host_gbps, "seed": seed}
        inputs = {"fabric": fabric.name, "traffic": path.name, **options}
        step("writing")
        if trace is not None:
            write_trace(simulation, trace)
        if goal is not None and as_goal is not None:
            write_file(goal, as_goal)
        if output is not None and flows is None:
            from plan.folder import write_folder

            write_folder(output, simulation_files(simulation, inputs))
        elif output is not None:
            write_file(output, format_flows_csv(source.fabric, traffic.flows, simulation.outcome.finish_s))
    print_notes(source.notes)
    if as_json:
        from plan.simulation import simulation_document

        print_json(simulation_document(simulation, inputs))
    else:
        show(simulation)
        for place in (trace, goal, output):
            if place is not None:
                click.echo(f"written to {place}")


def write_trace(simulation: Simulation, path: Path) -> None:
    """Write every flow, in the format that the file's name asks for."""
    from plan.files import write_file
    from simulate.workload.formats.flow_trace import format_trace_csv, format_trace_parquet

    if path.suffix == ".parquet":
        write_file(path, format_trace_parquet(simulation.workload, simulation.outcome))
    else:
        write_file(path, format_trace_csv(simulation.workload, simulation.outcome))


def show(simulation: Simulation) -> None:
    """Print what a person wants to know of a simulation."""
    from rich.markup import escape
    from rich.table import Table

    from plan.render.terminal import console, printable

    outcome, fabric = simulation.outcome, simulation.outcome.network.fabric
    out = console()
    engine = f", routed by {outcome.network.tables.engine}" if outcome.network.tables.engine else ""
    out.print(
        f"{len(outcome.flows):,} flows on {printable(fabric.name) or 'the fabric'}{engine}: the last ends at "
        f"{seconds(outcome.makespan_s)}",
        markup=False,
    )
    slowed = any(job.alone_s is not None for job in simulation.jobs)
    table = Table(title="jobs", title_justify="left", title_style="bold")
    for name in ("job", "what", "ranks", "time", "algbw GB/s", "busbw GB/s", *(["slowdown"] if slowed else [])):
        table.add_column(name, justify="left" if name in ("job", "what") else "right")
    times = Table(title="times of flows", title_justify="left", title_style="bold")
    for name in ("job", "flows", "p50", "p90", "p99", "p99.9", "longest"):
        times.add_column(name, justify="left" if name == "job" else "right")
    for job in simulation.jobs:
        what = f"{job.collective} by {job.algorithm}" if job.collective else job.kind
        bandwidth = [number(job.algorithm_gbytes_per_s), number(job.bus_gbytes_per_s)]
        slower = [number(job.slowdown)] if slowed else []
        table.add_row(job.name, what, f"{job.ranks:,}", seconds(job.time_s), *bandwidth, *slower)
        times.add_row(job.name, f"{job.flows:,}", *map(seconds, job.flow_s))
    out.print(table)
    out.print(times)
    links = Table(title="links by what they join and lane, hottest first", title_justify="left", title_style="bold")
    for name in ("from", "to", "lane", "used", "of", "mean", "hottest", "as hot", "peak", "hottest link"):
        links.add_column(name, justify="left" if name in ("from", "to", "hottest link") else "right")
    for item in simulation.links[:SHOWN]:
        shares = (
            f"{item.mean:.1%}",
            f"{item.max:.1%}",
            f"{item.as_hot:,}",
            "" if item.peak is None else f"{item.peak:.0%}",
        )
        ends = item.sender.name.lower(), item.receiver.name.lower()
        hottest = escape(printable(fabric.channel_label(item.hottest)))
        links.add_row(*ends, str(item.lane), f"{item.used:,}", f"{item.channels:,}", *shares, hottest)
    out.print(links)
    out.print(
        "used: links that carried anything, of so many; mean: how full all of these were from begin to end; hottest: "
        "how full the fullest was; as hot: how many were; peak: the fullest moment of any"
    )
    if len(simulation.links) > SHOWN:
        out.print(f"{len(simulation.links) - SHOWN} cooler classes of links are not shown")


def number(value: float | None) -> str:
    """Return a number for people; nothing for None."""
    return "" if value is None else f"{value:.2f}"


def seconds(value: float) -> str:
    """Return a time in the unit that suits it."""
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if value * scale >= 1:
            return f"{value * scale:.4g} {unit}"
    return f"{value * 1e9:.4g} ns" if value else "0"
