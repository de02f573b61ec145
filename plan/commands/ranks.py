"""``plan ranks``: the order of ranks that suits the tables of a fabric."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from plan.commands.options import FILE, Number, as_json, fabric_argument, print_json, print_notes, routing_options
from plan.inputs import check_name
from plan.render.progress import progress
from topo import HeddleError, SpecError, plural

if TYPE_CHECKING:
    from plan.inputs import RoutingFiles
    from simulate.traffic import RankOrder
    from topo import Table

ALGORITHMS = ("ring", "tree", "halving-doubling", "all-to-all")


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
    fabric: Path,
    nodes: str,
    algorithms: tuple[str, ...],
    adapters: str | None,
    ranks_per_node: int | None,
    gigabytes: float,
    given: RoutingFiles,
    output: Path | None,
    as_json: bool,
) -> None:
    """Find the order of ranks in which a collective has the least contention with itself.

    FABRIC is the same as for `plan simulate`, with its --tables. For each algorithm, the command searches an order for
    the paths that these tables give to the nodes, and proves its quality: flows on the fullest link between switches in
    each step, and the time at max-min fair rates, before and after. --output contains a host file, a rankfile for MPI,
    a list for srun --distribution=arbitrary, and settings for NCCL and UCC.
    """
    if (output is None) != (ranks_per_node is None):
        raise click.UsageError("expected both or neither of --output and --ranks-per-node, which its files need")
    if output is not None:
        from plan.folder import check_replaceable

        check_replaceable(output)
    with progress(quiet=as_json) as step:
        from plan.inputs import read_routed_argument
        from simulate import Network, order_ranks
        from simulate.traffic import JobNodes

        routed = read_routed_argument(fabric, given, step)
        with about(nodes):
            job = JobNodes.of(routed.fabric, read_nodes(nodes), adapters)
        network = Network.of(routed, lane_weights=1)
        orders = []
        for algorithm in algorithms or ALGORITHMS:
            step(f"ordering for {algorithm}")
            orders.append(order_ranks(network, job.ends, algorithm, size_bytes=gigabytes * 1e9, names=job.names))
    if output is not None and ranks_per_node is not None:
        from plan.export.ranks import rank_files
        from plan.folder import write_folder

        files = {
            f"{order.algorithm}/{name}": text
            for order in orders
            for name, text in rank_files(order, job.adapters, ranks_per_node).items()
        }
        write_folder(output, files)
    print_notes(routed.fabric.notes)
    if as_json:
        print_json(
            {"nodes": list(job.names), "adapters": list(job.adapters), "orders": [one.to_dict() for one in orders]}
        )
        return
    from plan.render.tables import show_table

    show_table(order_table(orders, gigabytes))
    if output is None:
        for order in orders:
            click.echo(f"{order.algorithm}: {','.join(order.names)}")
    else:
        click.echo(f"written to {output}")


def read_nodes(text: str) -> list[str]:
    """Return the names of a hostlist, or of a file with one or a hostlist a line.

    Raises
    ------
    HeddleError
        When it is neither, or names less than two nodes.
    """
    from topo import budgets, expand, read_text

    lines = [text]
    if "/" in text or (len(text) < 256 and Path(text).is_file()):
        check_name(Path(text))
        lines = [line.partition("#")[0] for line in read_text(Path(text), budgets()["nodes-bytes"]).splitlines()]
    names = expand(",".join(filter(None, (line.strip().removesuffix(",") for line in lines))))
    if len(names) < 2:
        raise HeddleError(f"found {plural(len(names), 'name')}; expected two nodes at least")
    return names


@contextmanager
def about(nodes: str) -> Iterator[None]:
    """Let what is wrong with the nodes of a job begin with what was given."""
    try:
        yield
    except SpecError:  # of a file, which it names
        raise
    except HeddleError as error:
        raise HeddleError(f"--nodes {nodes[:100]}: {error}") from None


def order_table(orders: Sequence[RankOrder], gigabytes: float) -> Table:
    """Return one row for each algorithm."""
    from topo import Column, Table

    return Table(
        f"{len(orders[0].names):,} nodes, {orders[0].rails} of the adapter ports of each, a buffer of {gigabytes:g} GB",
        (
            Column("algorithm", [order.algorithm for order in orders]),
            Column("fullest link, as given", [order.before.worst for order in orders]),
            Column("in this order", [order.after.worst for order in orders]),
            Column("mean of steps, as given", [float(order.before.fullest.mean()) for order in orders], digits=".2f"),
            Column("mean, in this order", [float(order.after.fullest.mean()) for order in orders], digits=".2f"),
            Column("time, as given", [order.before.time_s for order in orders], "s", "time"),
            Column("time, in this order", [order.after.time_s for order in orders], "s", "time"),
            Column("none takes less than", [order.bound_s for order in orders], "s", "time"),
        ),
    )
