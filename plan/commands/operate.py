"""``plan operate``: let a queue of jobs train on a fabric for hours or days."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from plan.commands.options import (
    FILE,
    Number,
    as_json,
    fabric_argument,
    hash_options,
    print_json,
    print_notes,
    routing_options,
    seed_option,
)
from plan.render.progress import progress
from plan.signals import asked

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
    print_notes(found.notes)
    if as_json:
        print_json(found.to_dict())
    else:
        from plan.render.tables import show_table

        for table in (found.run.table, found.run.links):
            if table is not None:
                show_table(table)
    if found.finished:
        return 0
    where = "use --state to be able to continue" if state is None else f"repeat the command to continue from {state}"
    click.echo(f"plan: stopped after {found.run.now_s / 3600:.2f} h; {where}", err=True)
    return 128 + stopped[0]
