"""``plan build``: from a spec to everything that follows from it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from plan.commands.options import as_json, output_folder, print_json, seed_option, spec_argument
from plan.render.progress import progress

if TYPE_CHECKING:
    from plan.pipeline import Plan


@click.command()
@spec_argument
@output_folder
@seed_option("Seed of the random traffic that quality is measured with.")
@as_json
def build(spec: Path, output: Path, seed: int, as_json: bool) -> None:
    """Compile, route, prove, measure, price and export a cluster.

    The folder is written whole or not at all, and an older plan in it is replaced. It is written even when the plan is
    refused, so that what is wrong can be looked at; only the exit status is 1 then.
    """
    from plan.folder import check_replaceable, write_folder
    from routing.engines.base import ENGINES
    from topo.cluster import read

    check_replaceable(output)
    with progress(quiet=as_json) as step:
        step("reading")
        cluster = read(spec, tuple(ENGINES))
        from plan.pipeline import make_plan
        from plan.render.plan_output import plan_document, plan_files

        plan = make_plan(cluster, seed, step)
        step("writing")
        write_folder(output, plan_files(plan))
    if as_json:
        print_json(plan_document(plan))
    else:
        show(plan, output)
    if not plan.holds:
        raise click.exceptions.Exit(1)


def show(plan: Plan, output: Path) -> None:
    """Print what a person wants to know of a plan."""
    from rich.table import Table

    from plan.render.terminal import console, printable

    counts, cost, power = plan.pricing.cluster.counts, plan.pricing.cost, plan.pricing.power
    table = Table(title=f"{plan.spec.name}", show_header=False, title_justify="left", title_style="bold")
    table.add_column(style="dim")
    table.add_column()
    kinds = {name: getattr(counts, name) for name in ("leaf", "spine", "core", "joint")}
    parts = ", ".join(f"{number:,} {name}" for name, number in kinds.items() if number)
    table.add_row("switches", f"{counts.switches:,} ({parts})")
    others = {name: getattr(counts, f"{name}_nodes") for name in ("storage", "management")}
    nodes = (
        f"{counts.gpu_nodes:,} GPU nodes ({counts.gpus:,} GPUs)",
        *(f"{n:,} {name}" for name, n in others.items() if n),
    )
    table.add_row("nodes", ", ".join(nodes))
    table.add_row("ports and cables", f"{counts.host_ports:,} host ports, {counts.links:,} links")
    for subnet in plan.subnets:
        proof, quality = subnet.proof, subnet.quality
        name = f" of {subnet.fabric.name}" if len(plan.subnets) > 1 else ""
        verdict = "[green]proven[/]" if proof.holds else "[red]REFUSED[/]"
        table.add_row(f"engine{name}", f"{subnet.tables.engine} ({subnet.why})")
        table.add_row(
            f"proof{name}",
            f"{verdict}: {proof.pairs:,} pairs, {proof.missing:,} missing, {proof.credit_loops:,} channels in credit "
            f"loops on {proof.lanes} {'lane' if proof.lanes == 1 else 'lanes'}, "
            f"at most {proof.max_hops} switches on a path",
        )
        table.add_row(
            f"balance{name}",
            f"{quality.max_load:,} pairs over the most loaded link, effective bisection {quality.ebb:.3f}",
        )
    money = {name: f"{getattr(cost, name).middle:,.0f}" for name in ("network", "servers", "total")}
    table.add_row(
        "cost", f"network {money['network']} + servers {money['servers']} = {money['total']} relative {cost.unit}"
    )
    table.add_row("power", f"{power.total_w / 1e3:,.1f} kW (network {power.network_w / 1e3:,.1f} kW)")
    console().print(table)
    for gap in (*cost.gaps, *power.gaps):
        click.echo(f"not in the figures above: {gap}")
    for excess in plan.pricing.exceeded:
        click.echo(f"REFUSED, over budget: {excess}", err=True)
    for subnet in plan.subnets:
        for example in subnet.proof.examples[:3]:
            click.echo(f"REFUSED, missing: {example.describe(subnet.fabric)}", err=True)
        if subnet.proof.loop:
            cycle = " => ".join(subnet.fabric.channel_label(channel) for channel in subnet.proof.loop)
            click.echo(f"REFUSED, credit loop: {cycle}", err=True)
    tables = "opensm/" if len(plan.subnets) == 1 else "opensm/ in the folder of each subnet"
    click.echo(printable(f"written to {output}: every figure in plan.json, what OpenSM loads in {tables}"))
