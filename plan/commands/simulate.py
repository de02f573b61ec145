"""``plan simulate``, ``plan operate`` and ``plan ranks``: traffic, days of jobs and orders of ranks, on any tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import topo
from plan.commands.options import (
    FILE,
    Number,
    answered,
    as_json,
    fabric_argument,
    hash_options,
    routing_options,
    seed_option,
)
from plan.render.tables import print_text, show_table, show_tables
from plan.render.terminal import progress
from plan.signals import asked
from topo import plural

if TYPE_CHECKING:
    from plan.simulation import Simulated


NANOSECONDS = Number(0, 3.6e12)
"""Up to an hour; with more, figures would overflow somewhere."""
SHOWN_CLASSES = 12
"""Classes of links that are shown; ``--json`` has all."""


@click.command()
@fabric_argument
@click.option("--workload", "-w", help="Workload: a YAML file, or a preset such as allreduce or three-jobs.")
@click.option("--flows", type=FILE, help="Single flows: CSV with start_s,src,dst,bytes[,sl].")
@routing_options
@hash_options
@click.option("--draws", type=click.IntRange(1, 10_000), help="Hashes: seeds that are played [20].")
@click.option(
    "--latency-ns",
    type=NANOSECONDS,
    help="Latency of each message; by default published figures for hosts, GPUs, PCIe and NVLink. 0 for bandwidths "
    "alone, without any latency.",
)
@click.option(
    "--hop-latency-ns",
    type=NANOSECONDS,
    help="Latency of each link on a path; by default that of switches in the catalog and of cables in the floor plan, "
    "and 0 with --latency-ns 0.",
)
@click.option("--host-gbps", type=Number(1e-3, 1e6), help="Highest rate at which a port of a host can send.")
@click.option(
    "--engine",
    type=click.Choice(["fluid", "packets"]),
    default="fluid",
    show_default=True,
    help="How bytes move: at fair rates, or in packets that wait for buffers and credits.",
)
@click.option(
    "--inputs",
    type=click.Choice(["voq", "fifo"]),
    help="Packets: whether those of an input and lane queue by output (voq, the default) or leave in order (fifo).",
)
@click.option(
    "--buffer-bytes",
    type=click.IntRange(64, 1 << 30),
    help="Packets: what a port buffers on each lane [32 KiB, or what keeps its link full].",
)
@click.option(
    "--packet-bytes", type=click.IntRange(64, 1 << 24), help="Packets: bytes of each, the MTU or a multiple [4096]."
)
@click.option(
    "--window-packets",
    type=click.IntRange(0),
    help="Packets: how many of a message may be on their way; 0 for no limit [as many as fill its path].",
)
@click.option(
    "--adapter-packets",
    type=click.IntRange(1),
    help="Packets: how many an adapter port may have on their way over all its messages [any number].",
)
@click.option(
    "--control",
    type=click.Choice(["none", "infiniband", "dcqcn"]),
    help="Packets: congestion control [dcqcn on Ethernet, none on InfiniBand].",
)
@click.option(
    "--adaptive",
    is_flag=True,
    help="Show static tables and adaptive routing side by side, with what is --down before and after repair. With "
    "packets: take the least loaded port of each group, or of all shortest ones with --ecmp spray.",
)
@click.option("--alone", is_flag=True, help="Also simulate each job alone, and show how much the others slow it down.")
@click.option(
    "--why",
    is_flag=True,
    help="Find the bottleneck of each job; repeats the simulation with more and less of each capacity.",
)
@seed_option("Seed of random mappings, and the first of the hash.")
@click.option("--trace", type=FILE, help="Write every flow to a .csv or .parquet file.")
@click.option("--goal", type=FILE, help="Write the traffic as a GOAL schedule, for LogGOPSim.")
@click.option(
    "-o",
    "--output",
    type=FILE,
    help="Folder for figures and charts of a workload; CSV file for bare flows, each with its finish_s.",
)
@as_json
def simulate(fabric: Path, engine: str, why: bool, trace: Path | None, as_json: bool, **options: Any) -> None:
    """Simulate workloads or single flows on a routed fabric.

    FABRIC is a spec, which is routed according to its keys; a folder of `plan build`; or a real fabric from
    ibnetdiscover with its --tables. Fluid flows have exact fair rates and no queues; --engine packets also simulates
    queues and head-of-line blocking. Exit status 1: deadlock.
    """
    names = ("inputs", "buffer_bytes", "packet_bytes", "window_packets", "adapter_packets", "control")
    model = {name: options.pop(name) for name in names}
    model = {name: value for name, value in model.items() if value is not None}
    if engine == "packets":
        model["adaptive"] = options.pop("adaptive")
    if engine == "fluid" and model:
        raise click.UsageError(f"--{next(iter(model)).replace('_', '-')} applies to packets; add --engine packets")
    if why and engine != "fluid":
        raise click.UsageError("--why needs the fluid engine; leave --engine packets out")
    if (options["workload"] is None) == (options["flows"] is None):
        raise click.UsageError("expected either --workload or --flows")
    if trace is not None and trace.suffix not in (".csv", ".parquet"):
        expected = f"found {trace.name}; expected a name that ends in .csv or .parquet"
        raise click.BadParameter(expected, param_hint="--trace")
    with progress(quiet=as_json) as step:
        from plan import simulation
        from simulate import PacketModel
        from simulate.engines import CongestionControl, Dcqcn

        if "control" in model:
            kinds = {"none": CongestionControl(mark_at=0), "infiniband": CongestionControl(), "dcqcn": Dcqcn()}
            model["control"] = kinds[model["control"]]

        chosen = "fluid" if engine == "fluid" else PacketModel(**model)
        played = simulation.simulate(fabric, engine=chosen, why=why, trace=trace, step=step, **options)
    if not answered(played, as_json=as_json):
        show_simulation(played)
        for place in filter(None, (trace, options["goal"], options["output"])):
            click.echo(f"written to {place}")


def show_simulation(played: Simulated) -> None:
    """Print what a person wants to know of a simulation."""
    simulation, outcome = played.simulation, played.simulation.outcome
    draws = played.draws if played.draws and len(played.draws.seeds) > 1 else None
    fabric, tables = outcome.network.fabric, outcome.network.tables.engine
    engine = {"": "", "file": ", on the tables that were read"}.get(tables, f", routed by {tables}")
    ends = f"the last ends at {topo.format_seconds(outcome.makespan_s)}"
    if any(job.measured_s for job in simulation.jobs):
        ends += ", computed from data sheets; servers like these were measured to take longer or less (below)"
    print_text(f"{plural(outcome.n_flows, 'flow')} on {fabric.name or 'the fabric'}{engine}: {ends}")
    links = topo.Table.of(
        "links by what they join and lane, hottest first",
        outcome.link_classes[:SHOWN_CLASSES],
        (lambda row: row.sender.name.lower(), "from"),
        (lambda row: row.receiver.name.lower(), "to"),
        "lane",
        ("used", "links used"),
        ("channels", "in class"),
        ("mean", "mean", "", "share"),
        ("max", "hottest", "", "share"),
        ("as_hot", "alike"),
        ("peak", "peak", "", "share"),
        (lambda row: fabric.channel_label(row.hottest), "hottest link"),
    )
    inside = outcome.inside if outcome.network.devices.names else None
    show_tables(draws, played.beside, simulation.table, simulation.place_table, simulation.flow_table, links)
    show_tables(outcome.congestion, played.saturation, inside)
    print_text(
        "links used: links that carried anything; mean: utilisation of all links of the class from begin to end; "
        "hottest: that of the fullest link; alike: links as full as that; peak: the fullest moment of any link"
    )
    if outcome.network.devices.names and any(column.name == "busbw" for column in simulation.table.columns):
        print_text(
            "busbw is that of nccl-tests. Of an all-to-all it is a GPU's, and above the rate of its adapter where "
            "partners in its server take NVLink; of other collectives compare it with all adapters of a server"
        )
    for caveat in simulation.caveats:
        print_text(caveat)
    if len(outcome.link_classes) > SHOWN_CLASSES:
        print_text(f"{len(outcome.link_classes) - SHOWN_CLASSES} cooler classes of links are not shown")
    if found := played.bottlenecks:
        show_tables(*filter(len, (found.path, found.capacities, found.sharing)))


PLACEMENTS = (
    "zone", "random", "compact", "balanced",
    "slurm-tree", "slurm-block", "kueue-best-fit", "kueue-least-free", "kueue-balanced",
)  # fmt: skip
"""Those of `simulate.cluster.QueueSpec.placement`: spelled out, since help does not load the simulation."""


@click.command()
@fabric_argument
@click.option("--queue", "-q", default="day", show_default=True, help="Queue of jobs: a YAML file, or a preset.")
@click.option(
    "--hours",
    type=Number(1e-9, 1e6),
    default=24.0,
    show_default=True,
    help="Simulated time; the run ends earlier when all jobs have ended.",
)
@click.option("--placement", type=click.Choice(PLACEMENTS), help="Placement policy, instead of the queue's.")
@click.option("--state", type=FILE, help="File to resume from, if it exists, and to save to.")
@click.option(
    "--save-every",
    "save_every_s",
    type=Number(min=0),
    default=60.0,
    show_default=True,
    help="Seconds of real time between two saves to --state, longer where saving takes long.",
)
@routing_options
@hash_options
@seed_option("Of draws and failures, and of the hash.")
@click.option(
    "-o", "--output", type=FILE, help="Folder for the report, the figures, and the chart of jobs and failures."
)
@as_json
def operate(fabric: Path, state: Path | None, as_json: bool, **options: Any) -> int:
    """Simulate hours or days of training jobs on a routed fabric.

    Jobs wait for nodes, load, compute, exchange, write checkpoints, lose nodes and end, with storage on the same
    network. FABRIC is the same as for `plan simulate`. With --state, a run that was stopped continues when the command
    is repeated, and its result is the same to the last bit.
    """
    with progress(quiet=as_json) as step, asked() as stopped:
        from plan import operation

        found = operation.operate(fabric, state=state, step=step, stop=lambda: bool(stopped), **options)
    if not answered(found, as_json=as_json):
        show_tables(found.run.table, found.run.links)
    if found.finished:
        return 0
    where = "use --state to be able to continue" if state is None else f"repeat the command to continue from {state}"
    click.echo(f"plan: stopped after {found.run.now_s / 3600:.2f} h; {where}", err=True)
    return 128 + stopped[0]


ALGORITHMS = ("ring", "tree", "halving-doubling", "all-to-all")
"""Those of `plan.order_ranks`: spelled out, since help does not load the simulation."""


@click.command(short_help="Order the ranks of a job for the tables of a fabric.")
@fabric_argument
@click.option("--nodes", required=True, help="Nodes of the job: a hostlist such as gpu[001-032], or a file of names.")
@click.option(
    "--for", "algorithms", multiple=True, type=click.Choice(ALGORITHMS), help="Algorithm; all of them by default."
)
@click.option("--adapters", help="Devices to use, such as 'mlx5_[0-7]'; by default those of compute nodes.")
@click.option("--ranks-per-node", type=click.IntRange(1, 1024), help="Processes of a node, for --output.")
@click.option("--gigabytes", type=Number(1e-9, 1e9), default=1.0, show_default=True, help="Of the buffer.")
@routing_options
@click.option("-o", "--output", type=FILE, help="Folder to write: for each algorithm a folder of files.")
@as_json
def ranks(
    fabric: Path, algorithms: tuple[str, ...], ranks_per_node: int | None, gigabytes: float, output: Path | None,
    as_json: bool, **options: Any,
) -> None:  # fmt: skip
    """Find the order of ranks in which a collective has the least contention with itself.

    FABRIC is the same as for `plan simulate`, with its --tables. For each algorithm, the command searches an order for
    the paths that these tables give to the nodes, and proves its quality: flows on the fullest link between switches in
    each step, and the time at max-min fair rates, before and after. --output contains a host file for
    MPI, a list for srun --distribution=arbitrary, and settings for NCCL and UCC.
    """
    if (output is None) != (ranks_per_node is None):
        raise click.UsageError("expected both or neither of --output and --ranks-per-node, which its files need")
    with progress(quiet=as_json) as step:
        from plan import ranking

        options |= {"size_bytes": gigabytes * 1e9, "output": output, "ranks_per_node": ranks_per_node or 1}
        found = ranking.order_ranks(fabric, algorithms=algorithms or ALGORITHMS, step=step, **options)
    if answered(found, as_json=as_json):
        return
    show_table(found.table)
    for order in found.orders if output is None else ():
        click.echo(f"{order.algorithm}: {','.join(order.names)}")
    if output is not None:
        click.echo(f"written to {output}")
