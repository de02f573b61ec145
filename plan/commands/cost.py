"""``plan cost``, ``plan compare``, ``plan optimise``: what a design costs, beside what, and which is the cheapest."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from plan.commands.options import FILE, as_json, print_json, spec_argument
from plan.render.progress import progress
from topo.errors import Finding, HeddleError, SpecError

if TYPE_CHECKING:
    from costmodel import Search

SHOWN = 12
"""Designs that lost and are shown to a person; ``--json`` has all."""


@click.command()
@spec_argument
@click.option("--currency", default="units", show_default=True, help="USD, EUR, ..., or the paper's relative units.")
@as_json
def cost(spec: Path, currency: str, as_json: bool) -> None:
    """Price a cluster part by part, without routing it."""
    from rich.markup import escape
    from rich.table import Table

    from costmodel import quote
    from plan.render.terminal import console
    from topo.cluster import read

    cluster = read(spec)
    known = sorted({name for prices in cluster.catalog.prices.values() for name in prices})
    if currency not in known:
        raise HeddleError(
            f"--currency: found {currency!r}; expected one with prices in the catalog: {', '.join(known)}"
        )
    pricing = quote(cluster, currency)
    priced, power, owning = pricing.cost, pricing.power, pricing.owning
    if as_json:
        lines = [row.to_dict() for row in priced.lines]
        owned = owning and owning.to_dict()
        print_json({"cost": priced.to_dict(), "power": power.to_dict(), "owning": owned, "lines": lines})
        return
    table = Table(title=f"{cluster.spec.name} in {currency}", title_justify="left", title_style="bold")
    for name in ("part", "item", "place", "count", "each", "all"):
        table.add_column(name, justify="right" if name in ("count", "each", "all") else "left")
    for row in priced.lines:
        without = f"with the {row.included}" if row.included else "[yellow]no price[/]"
        each, whole = (str(row.unit_price), str(row.amount)) if row.unit_price else (without, "")
        table.add_row(row.line.kind, escape(row.line.item), escape(row.line.place), f"{row.line.count:,}", each, whole)
    table.add_section()
    for name in ("network", "servers", "total"):
        table.add_row(name, "", "", "", "", str(getattr(priced, name)))
    console().print(table)
    for gap in priced.gaps:
        click.echo(f"not in the total: {gap}")
    if owning is not None:
        stated, failures = owning.stated, owning.failures_per_year
        click.echo(
            f"{stated.years} years: {owning.energy_kwh_per_year / 1e6:,.2f} GWh a year at PUE {stated.pue:g} cost "
            f"{owning.energy_per_year:,.0f} {stated.currency} a year; with capital {owning.total} {stated.currency}"
        )
        click.echo(
            f"to expect each year, at the rates seen in Fire-Flyer: {failures.gpu:,.0f} GPU failures, "
            f"{failures.main_memory:,.0f} of main memory, {failures.link_cut:,.0f} link cuts"
        )


@click.command()
@spec_argument
@as_json
def compare(spec: Path, as_json: bool) -> None:
    """Set a cluster beside three levels, DGX A100 and the paper.

    The three levels hold the same nodes.
    """
    from rich.table import Table

    import costmodel
    from plan.render.terminal import console
    from topo.cluster import read

    cluster = read(spec)
    comparison, baselines = costmodel.compare(cluster), costmodel.baselines(cluster.catalog)
    systems, cells = comparison.systems, baselines.cells
    if as_json:
        print_json({"systems": comparison.to_dict(), "published": baselines.to_dict()})
        return
    beside = Table(title=f"{cluster.spec.name}, GPU for GPU", title_justify="left", title_style="bold")
    for name in ("", "GPUs", "switches", "network", "servers", "total", "of DGX", "node power"):
        beside.add_column(name, justify="right" if name else "left")
    dgx = systems[-1].total
    for system in systems:
        share = f"{system.total / dgx:.1%}" if system.total is not None and dgx else "unknown"
        megawatts = "unknown" if system.node_power_w is None else f"{system.node_power_w / 1e6:.3f} MW"
        amounts = ("unknown" if x is None else f"{x:,.0f}" for x in (system.network, system.servers, system.total))
        switches = "does not fit" if system.switches is None else f"{system.switches:,}"
        beside.add_row(system.name, f"{system.gpus:,}", switches, *amounts, share, megawatts)
    console().print(beside)
    click.echo("prices in the units of Table III; storage, which has none, is left out")
    printed = Table(title="as published (SC'24, Tables II and III)", title_justify="left", title_style="bold")
    for name in ("table", "system", "figure", "computed", "published", "difference", "note"):
        printed.add_column(name, justify="right" if name in ("computed", "published", "difference") else "left")
    for cell in cells:
        values = (f"{cell.computed:,.4g}" if cell.computed < 1000 else f"{cell.computed:,.0f}", f"{cell.published:,g}")
        printed.add_row(cell.table, cell.system, cell.figure, *values, f"{cell.difference:+.1%}", cell.note)
    console().print(printed)


@click.command()
@click.argument("needs", type=FILE)
@click.option("-o", "--output", type=FILE, help="File to write the winner's spec to.")
@as_json
def optimise(needs: Path, output: Path | None, as_json: bool) -> None:
    """Find the cheapest network that does what NEEDS states.

    Tries two levels, zones, three levels, planes and frames at several taperings, and says why each that lost did.
    """
    import costmodel
    from plan.export.spec import format_spec
    from plan.files import write_file

    if output is not None and output.exists():
        raise SpecError([Finding(str(output), "a file that exists", "a new name", "Choose one with -o.")])
    with progress(quiet=as_json) as step:
        found = costmodel.optimise(costmodel.read_needs(needs), step=step)
    winner = found.winner
    if as_json:
        print_json(found.to_dict())
    else:
        _show_search(found)
    if winner is None:
        raise click.exceptions.Exit(1)
    if output is not None:
        comment = f"The cheapest of {len(found.designs)} designs for {needs.name}: {winner.name}"
        write_file(output, format_spec(winner.spec, comment), new=True)
        click.echo(f"written to {output}: plan build {output} -o OUT builds it", err=as_json)


def _show_search(found: Search) -> None:
    from rich.markup import escape
    from rich.table import Table

    from plan.render.terminal import console

    unit, front, winner = found.needs.currency, found.front, found.winner
    table = Table(title=f"{found.needs.name}: designs that meet the needs", title_justify="left", title_style="bold")
    for name in ("design", f"price ({unit})", "switches", "network power", "bisection", "why not"):
        table.add_column(name, justify="left" if name in ("design", "why not") else "right")
    able = [design for design in found.designs if design.meets_needs]
    others = [design for design in found.designs if not design.meets_needs]
    for design in able:
        price = "unknown" if design.price is None else f"{design.price:,.0f}"
        why = "[green]the cheapest[/]" if design is winner else found.why_not(design)
        mark = " *" if design in front else ""
        watts = f"{design.power_w / 1e3:,.1f} kW"
        table.add_row(escape(design.name) + mark, price, f"{design.switches:,}", watts, f"{design.bisection:.1%}", why)
    console().print(table)
    click.echo("* on the front: no other is as good in price, power and bisection at once")
    if found.bound is not None and winner is not None and winner.price:
        click.echo(f"no design of these families and switches costs less than {found.bound:,.0f} {unit} (a bound)")
    click.echo(f"{len(others):,} designs miss a requirement, {len(found.refused):,} cannot be built; examples:")
    for design in others[-SHOWN:]:
        price = "unknown price" if design.price is None else f"{design.price:,.0f} {unit}"
        click.echo(f"  {design.name} ({price}): {found.why_not(design)}")
    for name, reason in list(found.refused.items())[:SHOWN]:
        click.echo(f"  {name}: {reason}")
