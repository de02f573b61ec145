"""``plan sweep``: what if, over many plans, on one machine or a cluster."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from plan.commands.options import FILE, as_json, output_folder, print_json
from plan.render.progress import progress
from plan.signals import asked
from topo import HeddleError, plural

if TYPE_CHECKING:
    from plan.sweep.point import Task
    from plan.sweep.spec import SweepSpec
    from topo import PartKind

MARK = "sweep.json"
FEW = 4
"""Points that are shown side by side."""


@click.command(short_help="Plan many variants, on one machine or a cluster.")
@click.argument("sweep", type=FILE)
@output_folder
@click.option("--jobs", "-j", type=click.IntRange(1, 1024), default=1, show_default=True, help="Processes here.")
@click.option("--scheduler", help="Address of a Dask scheduler: tcp://host:8786.")
@click.option("--again", is_flag=True, help="Retry points that failed.")
@as_json
def sweep(sweep: Path, output: Path, jobs: int, scheduler: str | None, again: bool, as_json: bool) -> int:
    """Compute a plan for every combination of the parameters in SWEEP.

    SWEEP is a YAML file: a base spec or dump, stages, and parameters by their path in the spec, with failures, seeds
    and workloads. Each point is a file, named by a digest of everything on which it depends: the same command continues
    where it was stopped, and computes no point twice. A point that fails is a row with its error.

    The folder contains points.csv, points.parquet (with the extra `parquet`), pareto.csv, sensitivities.csv and charts.
    """
    check_folder(output)
    with progress(quiet=as_json) as step:
        from plan.files import write_file
        from plan.sweep.run import read_point, run_sweep
        from plan.sweep.spec import read_sweep
        from plan.sweep.summary import front, intervals, parquet, pictures, sensitivities, side_by_side, table_of_points

        step("reading the sweep")
        spec, base, base_file = read_sweep(sweep)
        tasks = tasks_of(spec, base, base_file)
        output.mkdir(parents=True, exist_ok=True)
        write_file(output / MARK, spec.model_dump_json(indent=1) + "\n")
        with asked() as stopped:
            ran = run_sweep(
                output,
                tasks,
                jobs=jobs,
                scheduler=scheduler,
                again=again,
                tell=lambda done, of: step(f"{of:,} points", done / of),
                stop=lambda: bool(stopped),
            )
        step("summing up")
        documents = [document for task in tasks if (document := read_point(output, task.name)) is not None]
        table = table_of_points(documents)
        write_file(output / "points.csv", table.to_csv())
        best, shares, means = front(documents, spec.better), sensitivities(documents), intervals(documents)
        write_file(output / "pareto.csv", table_of_points([documents[at] for at in best]).to_csv())
        write_file(output / "sensitivities.csv", shares.to_csv())
        if len(means):
            write_file(output / "intervals.csv", means.to_csv())
        columnar = parquet(table)
        if columnar is not None:
            write_file(output / "points.parquet", columnar)
        for name, picture in pictures(documents, spec.better, best, shares).items():
            write_file(output / name, picture)
        if "year" in spec.stages and tasks and not stopped:
            from plan.sweep.point import draw_first_year

            write_file(output / "failures.svg", draw_first_year(tasks[0]).encode())
    failed = sum("error" in document for document in documents)
    summary = {
        "points": len(tasks),
        "computed": ran.computed,
        "found": ran.found,
        "failed": failed,
        "missing": len(tasks) - len(documents),
        "points_s": ran.own_s,
        "wall_s": ran.wall_s,
        "front": [documents[at] for at in best],
    }
    if as_json:
        print_json(summary)
    else:
        from plan.render.tables import show_table
        from plan.render.terminal import printable

        if len(years := intervals(documents, "year.")):
            show_table(years)
        elif len(shares):
            show_table(side_by_side(documents) if len(documents) <= FEW else shares)
        if best:
            whole = table_of_points([documents[at] for at in best])
            shown = {*spec.parameters, *spec.better}
            hidden = [column.name for column in whole.columns if column.name not in shown]
            show_table(whole, "no other point is better in all", hide=hidden)
        elif spec.better and failed < len(documents):
            click.echo(f"no point has a known value of each of {', '.join(spec.better)}; points.csv has what is known")
        for error, number in Counter(document["error"] for document in documents if "error" in document).most_common(5):
            click.echo(printable(f"{plural(number, 'point')} failed: {error}"))
        click.echo(
            f"{plural(len(tasks), 'point')}: {ran.computed:,} computed in {ran.wall_s:,.1f} s (in themselves "
            f"{ran.own_s:,.1f} s), {ran.found:,} were there, {failed:,} failed; written to {output}"
        )
    if not ran.whole:
        click.echo(
            f"plan: stopped with {summary['missing']:,} points missing; repeat the command to continue", err=True
        )
        return 128 + stopped[0]
    return 0


def check_folder(folder: Path) -> None:
    """Refuse a folder that holds anything but a sweep.

    Raises
    ------
    HeddleError
        When it does, or is a file.
    """
    if (folder.is_symlink() or folder.exists()) and not (
        folder.is_dir() and ((folder / MARK).is_file() or not any(folder.iterdir()))
    ):
        raise HeddleError(
            f"{folder}: found something that is not a sweep; name a new folder, or that of a sweep, with -o"
        )
    above = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.exists())
    if not above.is_dir() or not os.access(above, os.W_OK):
        raise HeddleError(f"{folder}: cannot be written; name another folder with -o")


def tasks_of(spec: SweepSpec, base: object, base_file: Path) -> list[Task]:
    """Return what is to be computed for each point."""
    from plan.inputs import find_preset
    from plan.sweep.point import Task, digest_of_code, digest_of_files
    from simulate.cluster import FailureSpec
    from topo import config_root

    rules = (spec.failures or FailureSpec()).model_dump_json()
    points = spec.points(lambda kind: names_of_parts(kind, base, base_file, rules))
    workloads = {str(point.get("workload", "allreduce")) for point in points} if "play" in spec.stages else set()
    folder = base_file.absolute().parent
    read = [folder / find_preset("workloads", name, "workload") for name in sorted(workloads)]
    read += sorted((config_root() / "catalog").glob("*.csv"))
    own = base.get("catalog") if isinstance(base, dict) else None
    if isinstance(own, str):
        read += sorted((folder / own).glob("*.csv")) if (folder / own).is_dir() else [folder / own]
    if base is None:
        read.append(base_file)
    try:
        inputs, code = digest_of_files(read), digest_of_code(spec.stages)
    except OSError as error:
        raise HeddleError(f"{error.filename}: cannot be read ({error.strerror})") from None
    dump = str(base_file.absolute()) if base is None else None
    return [Task(base, str(folder), dump, tuple(spec.stages), point, inputs, code, rules) for point in points]


def names_of_parts(kind: PartKind, base: object, base_file: Path, rules: str) -> list[str]:
    """Return the names of the parts of a kind that a base has."""
    from plan.sweep.point import Task, parts_of, plan_of
    from simulate.cluster import FailureSpec
    from topo import Reach

    dump = str(base_file.absolute()) if base is None else None
    plan = plan_of(Task(base, str(base_file.absolute().parent), dump, (), {}, "", "", rules))
    return list(parts_of(kind, Reach(plan.fabrics), plan.cluster, FailureSpec.model_validate_json(rules)))
