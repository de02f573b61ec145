"""``plan build``: from a spec to everything that follows from it."""

from __future__ import annotations

from pathlib import Path

import click

from plan.commands.options import STATUS, as_json, output_folder, print_json, seed_option, spec_argument
from plan.render.progress import progress


@click.command()
@spec_argument
@output_folder
@seed_option("Seed of the random traffic that quality is measured with.")
@as_json
def build(spec: Path, output: Path, seed: int, as_json: bool) -> None:
    """Compile, route, prove, measure, price and export a cluster.

    The folder is written completely or not at all, and replaces an older plan. It is also written if the plan is
    refused, so that you can examine the plan.

    Exit status 1: the plan is refused; 3: an unknown figure decides whether a budget holds.
    """
    with progress(quiet=as_json) as step:
        from plan import building

        built = building.build(spec, output, seed=seed, step=step)
    if as_json:
        print_json(built.to_dict())
    else:
        from plan.render.views import show_plan

        show_plan(built)
        where = "opensm/" if len(built.subnets) == 1 else "opensm/ in the folder of each subnet"
        tables = f", files for OpenSM in {where}" if built.subnets else ""
        click.echo(f"written to {output}: every figure in plan.json{tables}")
    raise click.exceptions.Exit(STATUS[built.verdict])
