"""``plan cost``, ``plan compare``, ``plan optimise``: what a design costs, beside what, and which is the cheapest."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from plan.commands.options import FILE, STATUS, as_json, print_json, spec_argument
from plan.render.progress import progress
from topo import Finding, HeddleError, SpecError, Verdict, plural

if TYPE_CHECKING:
    from costmodel import Search

SHOWN = 12
"""Designs that lost and are shown to a person; ``--json`` has all."""


@click.command()
@spec_argument
@click.option("--currency", default="units", show_default=True, help="USD, EUR, ..., or the paper's relative units.")
@as_json
def cost(spec: Path, currency: str, as_json: bool) -> None:
    """Price a cluster part by part, without routing it.

    SPEC is a YAML file. A folder of `plan build` has its cost in plan.json and bom.csv already.
    """
    import topo
    from costmodel import quote

    cluster = topo.read(spec)
    known = sorted({name for prices in cluster.catalog.prices.values() for name in prices})
    if currency not in known:
        raise HeddleError(
            f"--currency: found {currency!r}; expected one with prices in the catalog: {', '.join(known)}"
        )
    quoted = quote(cluster, currency)
    priced, owning = quoted.cost, quoted.owning
    if as_json:
        lines = [row.to_dict() for row in priced.lines]
        owned = owning and owning.to_dict()
        print_json({"cost": priced.to_dict(), "power": quoted.power.to_dict(), "owning": owned, "lines": lines})
        return
    from plan.render.tables import show_table

    show_table(priced.table, cluster.name, hide=("source",))
    click.echo(f"network {priced.network}, servers {priced.servers}, total {priced.total} {priced.unit}")
    for gap in priced.gaps:
        click.echo(f"not in the total: {gap}")
    if owning is not None:
        stated, failures = owning.stated, owning.failures_per_year
        click.echo(
            f"{plural(stated.years, 'year')}: {owning.energy_kwh_per_year * 1e-6:,.2f} GWh a year at PUE "
            f"{stated.pue:g} cost {owning.energy_per_year} {stated.currency}; with capital {owning.total} "
            f"{stated.currency}"
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
    import costmodel
    import topo

    cluster = topo.read(spec)
    comparison, baselines = costmodel.compare(cluster), costmodel.baselines(cluster.catalog)
    if as_json:
        print_json({"systems": comparison.to_dict(), "published": baselines.to_dict()})
        return
    from plan.render.tables import show_table

    show_table(comparison.table)
    own, dgx = comparison.systems[0].total, comparison.systems[-1].total
    if own is not None and dgx:
        click.echo(f"{comparison.systems[0].name} costs {own / dgx:.1%} of DGX A100, GPU for GPU")
    click.echo("prices in the units of Table III; storage, which has none, is left out")
    show_table(baselines.table)


@click.command()
@click.argument("needs", type=FILE)
@click.option("-o", "--output", type=FILE, help="File to write the winner's spec to.")
@as_json
def optimise(needs: Path, output: Path | None, as_json: bool) -> None:
    """Find the cheapest network that meets the requirements in NEEDS.

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
        show(found)
    if winner is None:
        raise click.exceptions.Exit(STATUS[found.verdict])
    if output is not None:
        comment = f"The cheapest of {plural(len(found.designs), 'design')} for {needs.name}: {winner.name}"
        write_file(output, format_spec(winner.spec, comment), new=True)
        click.echo(f"written to {output}: plan build {output} -o OUT builds it", err=as_json)


def show(found: Search) -> None:
    """Print the designs that meet the needs, and examples of those that do not."""
    from plan.render.tables import show_table

    unit, winner = found.needs.currency, found.winner
    show_table(found.table)
    click.echo("* on the front: no other is known to be as good in price, power and bisection at once")
    if found.bound is not None and winner is not None and winner.price:
        click.echo(f"no design of these families and switches costs less than {found.bound:,.0f} {unit} (a bound)")
    for design in found.undecided[:SHOWN]:
        click.echo(f"cannot tell whether {design.name} does better: {found.why_not(design)}")
    others = [design for design in found.designs if design.verdict is Verdict.EXCEEDED]
    click.echo(
        f"{plural(len(others), 'design')} missed a requirement, {len(found.refused):,} cannot be built; examples:"
    )
    for design in others[-SHOWN:]:
        click.echo(f"  {design.name} ({design.cost} {unit}): {found.why_not(design)}")
    for name, reason in list(found.refused.items())[:SHOWN]:
        click.echo(f"  {name}: {reason}")
