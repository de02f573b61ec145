"""``plan sweep``: what if, over many plans, on one machine or a cluster."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import click

from plan.commands.options import FILE, as_json, output_folder, print_json
from plan.render.progress import progress
from plan.signals import asked
from topo import plural


@click.command(short_help="Plan many variants, on one machine or a cluster.")
@click.argument("sweep", type=FILE)
@output_folder
@click.option("--jobs", "-j", type=click.IntRange(1, 1024), default=1, show_default=True, help="Processes here.")
@click.option("--scheduler", help="Address of a Dask scheduler: tcp://host:8786.")
@click.option("--again", is_flag=True, help="Retry points that failed.")
@as_json
def sweep(sweep: Path, output: Path, as_json: bool, **options: Any) -> int:
    """Compute a plan for every combination of the parameters in SWEEP.

    SWEEP is a YAML file: a base spec or dump, stages, and parameters by their path in the spec, with failures, seeds
    and workloads. Each point is a file, named by a digest of everything on which it depends: the same command continues
    where it was stopped, and computes no point twice. A point that fails is a row with its error; the
    exit status is 1 if all fail.

    The folder contains points.csv, points.parquet (with the extra `parquet`), pareto.csv, sensitivities.csv and charts.
    """
    with progress(quiet=as_json) as step, asked() as stopped:
        from plan.sweeps import result

        found = result.sweep(sweep, output, step=step, stop=lambda: bool(stopped), **options)
    if as_json:
        print_json(found.to_dict())
    else:
        from plan.render.tables import print_text, show_table

        for table in found.more_tables:
            show_table(table)
        figures = found.to_dict()
        if found.better and not found.front and figures["failed"] < len(found.documents):
            click.echo(f"no point has a known value of each of {', '.join(found.better)}; points.csv has what is known")
        for error, number in Counter(found.errors).most_common(5):
            print_text(f"{plural(number, 'point')} failed: {error}", wrap=False)
        click.echo(
            f"{plural(found.points, 'point')}: {figures['computed']:,} computed in {figures['wall_s']:,.1f} s (in "
            f"themselves {figures['points_s']:,.1f} s), {figures['found']:,} were there, {figures['failed']:,} failed; "
            f"written to {output}"
        )
    if not found.whole:
        missing = found.points - len(found.documents)
        click.echo(f"plan: stopped with {missing:,} points missing; repeat the command to continue", err=True)
        return 128 + stopped[0]
    return int(len(found.errors) == found.points)
