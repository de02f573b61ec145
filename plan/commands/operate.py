"""``plan operate``: let a queue of jobs train on a fabric for hours or days."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from plan.commands.options import FILE, as_json, fabric_argument, print_json, print_notes, routing_options, seed_option
from plan.render.progress import progress

if TYPE_CHECKING:
    from plan.operation import Operation

STOPPED = 130
"""As the shell counts an interrupt."""


@click.command()
@fabric_argument
@click.option("--queue", "-q", default="day", show_default=True, help="Jobs that come: a YAML file, or a preset.")
@click.option(
    "--hours",
    type=click.FloatRange(min=0, min_open=True, max=1_000_000),
    default=24.0,
    show_default=True,
    help="How long, of simulated time; it ends before when all jobs have ended.",
)
@click.option(
    "--anywhere", is_flag=True, help="Draw nodes from all that are free, instead of the queue's rule on zones."
)
@click.option("--state", type=FILE, help="File to go on from, if it is there, and to leave off in.")
@routing_options
@seed_option("Of draws and failures.")
@as_json
def operate(
    fabric: Path,
    queue: str,
    hours: float,
    anywhere: bool,
    state: Path | None,
    tables: Path | None,
    lanes: Path | None,
    policy: Path | None,
    roles: Path | None,
    subnet: str | None,
    seed: int,
    as_json: bool,
) -> int:
    """Play hours or days of training jobs on a routed fabric.

    Jobs wait for nodes, load, compute, exchange, write checkpoints, lose nodes and end, with storage on the same
    network. FABRIC is taken as `plan simulate` takes it. Interrupted, it leaves off in --state, and the same command
    goes on: the end is the same to the last bit.
    """
    if hours != hours:  # not a number, which no bound refuses
        raise click.BadParameter("expected a number of hours", param_hint="--hours")
    with progress(quiet=as_json) as step:
        from plan.files import check_writable, write_file
        from plan.inputs import find_preset, read_routed_argument
        from plan.operation import operate_until
        from simulate.cluster.queue import read_queue
        from simulate.cluster.run import ClusterRun
        from simulate.cluster.saved_run import format_saved_run, read_saved_run
        from simulate.network import Network

        if state is not None and not state.is_dir():
            check_writable(state)
        jobs = read_queue(find_preset("queues", queue, "--queue"), seed)
        if anywhere:
            jobs = jobs.under(cross_zone_jobs=None)
        source = read_routed_argument(fabric, subnet, tables, lanes, roles, policy, step=step)
        saved = read_saved_run(state) if state is not None and state.exists() else None
        run = ClusterRun(Network.of(source.routed), jobs, saved)
        operation = operate_until(run, hours * 3600.0, step)
        if state is not None and not run.env.replaying:  # else the file has gone further
            step("writing")
            write_file(state, format_saved_run(run.save()))
    print_notes(source.notes)
    if as_json:
        print_json(operation.document())
    else:
        show(operation)
    if operation.stopped:
        where = f"the same command goes on from {state}" if state is not None else "with --state it could go on"
        click.echo(f"plan: stopped after {operation.now_s / 3600:.2f} h; {where}", err=True)
    return STOPPED if operation.stopped else 0


def show(operation: Operation) -> None:
    """Print what has become of each job."""
    from rich.table import Table

    from plan.render.terminal import console

    table = Table(title=f"after {operation.now_s / 3600:.2f} h", title_justify="left")
    for name in ("job", "nodes", "began h", "ended h", "steps", "step s", "of computation", "failures", "checkpoints"):
        table.add_column(name, justify="left" if name == "job" else "right")
    for job in operation.jobs:
        began, ended = ("" if time_s is None else f"{time_s / 3600:.2f}" for time_s in (job.begin_s, job.end_s))
        trained = [f"{job.step_s:.3f}", f"{job.step_s / job.compute_s:.2f}"] if job.trained_steps else ["", ""]
        counts = [str(job.failures), str(job.checkpoints)]
        name = f"{job.name} (over zones)" if job.spanned_zones else job.name
        table.add_row(name, str(job.nodes), began, ended, f"{job.steps:,}", *trained, *counts)
    console().print(table)
