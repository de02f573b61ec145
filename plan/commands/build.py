"""``plan build`` and ``plan route``: from a spec, or any fabric, to tables and all that follows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from plan.commands.options import (
    STATUS,
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
from plan.render.progress import progress
from topo import plural

if TYPE_CHECKING:
    from plan.pipeline import Plan


@click.command()
@spec_argument
@output_folder
@seed_option("Seed of the random traffic that quality is measured with.")
@currency_option
@as_json
def build(spec: Path, output: Path, seed: int, currency: str | None, as_json: bool) -> None:
    """Compile, route, prove, measure, price and export a cluster.

    The folder is written completely or not at all, and replaces an older plan. It is also written if the plan is
    refused, so that you can examine the plan.

    Exit status 1: the plan is refused; 3: an unknown figure decides whether a budget holds.
    """
    with progress(quiet=as_json) as step:
        from plan import building

        built = building.build(spec, output, seed=seed, currency=currency, step=step)
    if as_json:
        print_json(built.to_dict())
    else:
        from plan.render.views import show_plan

        show_plan(built)
        _say_written(output, built)
    raise click.exceptions.Exit(STATUS[built.verdict])


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
    fabric: Path,
    output: Path,
    hosts: RoleFiles,
    purpose: str | None,
    compare: tuple[str, ...],
    rehearse: bool,
    failures: int | None,
    subnet: str | None,
    as_json: bool,
    **wanted: Any,
) -> None:
    """Route any fabric, prove and measure the tables, and write the files for OpenSM.

    FABRIC is a real fabric from ibnetdiscover or OpenSM (opensm-subnet.lst), a folder of `plan`, or a spec. Levels,
    zones and joints are derived from the wiring; LIDs of the fabric are kept.

    Exit status 1: a pair is missing that cables connect, a credit loop is found, or a rehearsal differs from the plan;
    OUT is written nevertheless. It is also 1, and nothing is written, if paths need more lanes than --lanes.
    """
    with progress(quiet=as_json) as step:
        from plan import building
        from plan.opensm_lab.trials import check_tools, compare_with_opensm
        from plan.opensm_lab.trials import rehearse as rehearse_subnet
        from plan.pipeline import Options

        if "opensm" in compare or rehearse:
            check_tools()
        options = Options(**wanted, failures=failures or 0, adaptive="adaptive" in compare)
        plan = building.route(fabric, output, subnet=subnet, hosts=hosts, purpose=purpose, options=options, step=step)
        document, known = plan.to_dict(), plan.fabrics[0]
        rehearsal = rehearse_subnet(plan.routed[0], plan.proofs[0], step) if rehearse else None
        contenders = []
        if "opensm" in compare:
            ours = plan.routed[0], plan.proofs[0], plan.qualities[0]
            contenders = compare_with_opensm(*ours, endpoints=options.endpoints, seed=options.seed, step=step)
    print_notes(known.notes)
    if as_json:
        judged: dict[str, Any] = {"rehearsal": rehearsal.to_dict()} if rehearsal else {}
        print_json(
            document | judged | ({"opensm": [row.to_dict() for row in contenders]} if "opensm" in compare else {})
        )
    else:
        from plan.render.views import show_comparison, show_failures, show_faults, show_plan, show_rehearsal

        show_plan(plan)
        show_faults(known, plan.proofs[0])
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
    if plan.refusals or (rehearsal and not rehearsal.holds):
        raise click.exceptions.Exit(1)


def _say_written(folder: Path, plan: Plan) -> None:
    """Print where a plan is, and its files for OpenSM if they can be loaded."""
    where = "opensm/" if len(plan.subnets) == 1 else "opensm/ in the folder of each subnet"
    tables = f", files for OpenSM in {where}" if plan.subnets else ""
    if any(fabric.caveat for fabric in plan.subnets):
        tables = f"; {where} shows tables that are not to be loaded"
    click.echo(f"written to {folder}: every figure in plan.json{tables}")
