"""``plan operate``: let a queue of jobs train on a fabric for hours or days."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

import click

from plan.commands.options import (
    FILE,
    Number,
    as_json,
    fabric_argument,
    print_json,
    print_notes,
    routing_options,
    seed_option,
)
from plan.render.progress import progress
from plan.signals import asked
from topo import HeddleError

if TYPE_CHECKING:
    from plan.inputs import RoutingFiles


PLACEMENTS = (
    "zone", "random", "compact", "balanced",
    "slurm-tree", "slurm-block", "kueue-best-fit", "kueue-least-free", "kueue-balanced",
)  # fmt: skip
"""Those of `simulate.cluster.QueueSpec.placement`: spelled out, since help does not load the simulation."""

SAVING = 0.05
"""The most of the time that saving now and then may take."""


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
    type=Number(min=0),
    default=60.0,
    show_default=True,
    help="Seconds of real time between two saves to --state, longer where saving takes long.",
)
@routing_options
@seed_option("Of draws and failures.")
@click.option(
    "-o", "--output", type=FILE, help="Folder for the report, the figures, and the chart of jobs and failures."
)
@as_json
def operate(
    fabric: Path,
    queue: str,
    hours: float,
    placement: str | None,
    state: Path | None,
    save_every: float,
    given: RoutingFiles,
    seed: int,
    output: Path | None,
    as_json: bool,
) -> int:
    """Simulate hours or days of training jobs on a routed fabric.

    Jobs wait for nodes, load, compute, exchange, write checkpoints, lose nodes and end, with storage on the same
    network. FABRIC is the same as for `plan simulate`. With --state, a run that was stopped continues when the command
    is repeated, and its result is the same to the last bit.
    """
    with progress(quiet=as_json) as step:
        from plan.files import check_writable, write_file
        from plan.inputs import find_preset, read_routed_argument
        from simulate import Network
        from simulate.cluster import ClusterRun, format_saved_run, read_queue, read_saved_run

        if state is not None and not state.is_dir():
            check_writable(state)
        if output is not None:
            from plan.folder import check_replaceable

            check_replaceable(output, keep_plan=True)
        queue_file = find_preset("queues", queue, "--queue")
        jobs = read_queue(queue_file, seed)
        if placement is not None:
            jobs = jobs.under(placement=placement)
        routed = read_routed_argument(fabric, given, step)
        saved = read_saved_run(state) if state is not None and state.exists() else None
        network = Network.of(routed)
        with naming(state):
            run = ClusterRun(network, jobs, saved)
        until_s = hours * 3600.0

        def progress_of(now_s: float) -> None:
            replaying = run.env.replaying
            step("catching up" if replaying else "playing", run.env.replayed if replaying else now_s / until_s)

        def save() -> None:
            if state is not None and not run.env.replaying:  # else the file has gone further
                step("writing")
                write_file(state, format_saved_run(run.save()))

        due_s = [monotonic() + save_every]
        finished = False
        with asked() as stopped, naming(state):
            while not finished and not stopped:
                finished = run.play(until_s, progress=progress_of, stop=lambda: bool(stopped) or monotonic() > due_s[0])
                begun_s = monotonic()
                save()
                due_s[0] = monotonic() + max(save_every, (monotonic() - begun_s) / SAVING)
        classes, label = run.link_classes, routed.fabric.channel_label
        figures = {
            "time_s": run.now_s,
            "stopped": not finished,
            "utilisation": run.utilisation,
            "jobs": [job.to_dict() for job in run.records],
            "links": None if classes is None else [item.to_dict(label(item.hottest)) for item in classes],
        }
        if output is not None:
            from plan.folder import write_folder
            from plan.report.document import Report, run_page
            from plan.report.page import format_report
            from simulate.cluster import draw_run

            step("writing")
            files = {
                "report.html": format_report(Report([], [run_page(run, queue_file.stem)])),
                "operate.json": json.dumps(figures, indent=2) + "\n",
                "jobs.csv": run.table.to_csv(),
                "timeline.svg": draw_run(run).svg,
            }
            write_folder(output, files)
    print_notes(routed.fabric.notes)
    if as_json:
        print_json(figures)
    else:
        from plan.render.tables import show_table

        show_table(run.table)
        if run.links is not None:
            show_table(run.links)
    if not finished:
        where = (
            f"repeat the command to continue from {state}"
            if state is not None
            else "use --state to be able to continue"
        )
        click.echo(f"plan: stopped after {run.now_s / 3600:.2f} h; {where}", err=True)
    return 0 if finished else 128 + stopped[0]


@contextmanager
def naming(state: Path | None) -> Iterator[None]:
    """Let what is wrong with a saved run begin with the name of its file."""
    try:
        yield
    except HeddleError as error:
        if state is None or not str(error).startswith("a saved"):
            raise
        raise HeddleError(f"{state}: {error}") from None
