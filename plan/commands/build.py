"""``plan build``, ``plan route`` and ``plan sweep``: tables, and what follows, of a spec, any fabric, many specs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from plan.commands.options import (
    FILE,
    STATUS,
    answered,
    as_json,
    currency_option,
    endpoints_option,
    fabric_argument,
    output_folder,
    print_json,
    print_notes,
    role_options,
    seed_option,
    spec_argument,
    subnet_option,
)
from plan.inputs import RoleFiles
from plan.render.tables import print_text, show_tables
from plan.render.terminal import progress
from plan.signals import asked
from topo import plural

if TYPE_CHECKING:
    from plan.pipeline import Plan


@click.command()
@spec_argument
@output_folder
@seed_option("Seed of the random traffic that quality is measured with.")
@currency_option
@as_json
def build(spec: Path, output: Path, as_json: bool, **options: Any) -> int:
    """Compile, route, prove, measure, price and export a cluster.

    The folder is written completely or not at all, and replaces an older plan. It is also written if the plan is
    refused, so that you can examine the plan.

    Exit status 1: the plan is refused; 3: an unknown figure decides whether a budget holds.
    """
    with progress(quiet=as_json) as step:
        from plan import building

        built = building.build(spec, output, step=step, **options)
    if not answered(built, as_json=as_json):
        from plan.render.views import show_plan

        show_plan(built)
        _say_written(output, built)
    return STATUS[built.verdict]


@click.command(short_help="Route any fabric, and write what OpenSM loads.")
@fabric_argument
@output_folder
@role_options
@click.option("--engine", help="balanced, fat-tree, ... or auto, which picks and says why.")
@click.option(
    "--lanes",
    type=click.IntRange(1, 8),
    help="Data lanes that paths may use to be free of credit loops; by default as many as the engine needs.",
)
@click.option(
    "--lmc",
    type=click.IntRange(0, 7),
    help="Give each port 2^LMC LIDs, each on paths of its own; as the fabric has them when left out.",
)
@endpoints_option
@click.option(
    "--for",
    "purpose",
    metavar="jobs|permutations|all-pairs|CSV|WORKLOAD",
    help="What the tables are for: a kind of traffic, or what jobs send (a CSV file with the columns src, dst, weight, "
    "or a workload). All kinds when left out.",
)
@click.option(
    "--compare",
    type=click.Choice(["opensm", "adaptive"]),
    multiple=True,
    help="Show beside it the engines of a real OpenSM over ibsim, or adaptive routing; repeatable.",
)
@click.option(
    "--rehearse", is_flag=True, help="Load the tables into a real OpenSM over ibsim, and let ibdmchk judge them."
)
@click.option(
    "--failures",
    type=click.IntRange(min=1),
    help="Let this many links between switches fail at random, route what is left, and say what still holds.",
)
@subnet_option
@seed_option("Seed of random traffic and failures.")
@as_json
def route(
    fabric: Path, output: Path, hosts: RoleFiles, purpose: str | None, compare: tuple[str, ...], rehearse: bool,
    failures: int | None, subnet: str | None, as_json: bool, **wanted: Any,
) -> int:  # fmt: skip
    """Route any fabric, prove and measure the tables, and write the files for OpenSM.

    FABRIC is a real fabric from ibnetdiscover or OpenSM (opensm-subnet.lst), a folder of `plan`, or a spec. Levels,
    zones and joints are derived from the wiring; LIDs of the fabric are kept.

    Exit status 1: a pair is missing that cables connect, a credit loop is found, or a rehearsal differs from the plan;
    OUT is written nevertheless. It is also 1, and nothing is written, if paths need more lanes than --lanes.
    """
    with progress(quiet=as_json) as step:
        from plan import building
        from plan.opensm_lab import trials
        from plan.pipeline import Options

        if "opensm" in compare or rehearse:
            trials.check_tools()
        options = Options(**wanted, failures=failures or 0, adaptive="adaptive" in compare)
        plan = building.route(fabric, output, subnet=subnet, hosts=hosts, purpose=purpose, options=options, step=step)
        rehearsal = trials.rehearse(plan.routed[0], plan.proofs[0], step) if rehearse else None
        contenders = []
        if "opensm" in compare:
            ours = plan.routed[0], plan.proofs[0], plan.qualities[0]
            contenders = trials.compare_with_opensm(*ours, endpoints=options.endpoints, seed=options.seed, step=step)
    print_notes(plan.fabrics[0].notes)
    if as_json:
        judged: dict[str, Any] = {"rehearsal": rehearsal.to_dict()} if rehearsal else {}
        judged |= {"opensm": [row.to_dict() for row in contenders]} if "opensm" in compare else {}
        print_json(plan.to_dict() | judged)
    else:
        from plan.render.views import show_comparison, show_failures, show_faults, show_plan, show_rehearsal

        show_plan(plan)
        show_faults(plan.fabrics[0], plan.proofs[0])
        if plan.failures:
            show_failures(plan.failures)
        if rehearsal:
            show_rehearsal(rehearsal)
        if contenders:
            show_comparison(contenders)
        tables = plan.routed[0].tables
        if tables.path_sl is not None:
            needed = plural(max(tables.sl2vl) + 1, "lane")
            click.echo(
                f"{needed}: safe only if all applications ask OpenSM for paths, which has no setting that gives lanes "
                "to those that do not (opensm/README.md)"
            )
        _say_written(output, plan)
    return int(bool(plan.refusals or (rehearsal and not rehearsal.holds)))


def _say_written(folder: Path, plan: Plan) -> None:
    where = "opensm/" if len(plan.subnets) == 1 else "opensm/ in the folder of each subnet"
    tables = f", files for OpenSM in {where}" if plan.subnets else ""
    if any(fabric.caveat for fabric in plan.subnets):
        tables = f"; {where} shows tables that are not to be loaded"
    click.echo(f"written to {folder}: every figure in plan.json{tables}")


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
    if not answered(found, as_json=as_json):
        show_tables(*found.more_tables)
        figures = found.to_dict()
        if found.better and not found.front and figures["failed"] < len(found.documents):
            click.echo(f"no point has a known value of each of {', '.join(found.better)}; points.csv has what is known")
        for error, number in Counter(found.errors).most_common(5):
            print_text(f"{plural(number, 'point')} failed: {error}", wrap=False)
        click.echo(
            f"{plural(found.points, 'point')}: {figures['computed']:,} computed in {figures['wall_s']:,.1f} s "
            f"({figures['points_s']:,.1f} s of work), {figures['found']:,} already done, {figures['failed']:,} failed; "
            f"written to {output}"
        )
    if not found.whole:
        missing = found.points - len(found.documents)
        click.echo(f"plan: stopped with {missing:,} points missing; repeat the command to continue", err=True)
        return 128 + stopped[0]
    return int(len(found.errors) == found.points)
