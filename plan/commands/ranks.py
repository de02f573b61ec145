"""``plan ranks``: the order of ranks that suits the tables of a fabric."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from plan.commands.options import FILE, Number, as_json, fabric_argument, print_json, print_notes, routing_options
from plan.render.progress import progress

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
    fabric: Path,
    algorithms: tuple[str, ...],
    ranks_per_node: int | None,
    gigabytes: float,
    output: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
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

        found = ranking.order_ranks(
            fabric,
            algorithms=algorithms or ALGORITHMS,
            size_bytes=gigabytes * 1e9,
            output=output,
            ranks_per_node=ranks_per_node or 1,
            step=step,
            **options,
        )
    print_notes(found.notes)
    if as_json:
        print_json(found.to_dict())
        return
    from plan.render.tables import show_table

    show_table(found.table)
    for order in found.orders if output is None else ():
        click.echo(f"{order.algorithm}: {','.join(order.names)}")
    if output is not None:
        click.echo(f"written to {output}")
