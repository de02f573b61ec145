"""``plan cost``, ``plan compare``, ``plan optimise``: what a design costs, beside what, and which is the cheapest."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from plan.commands.options import FILE, STATUS, Number, as_json, print_json, spec_argument, specs_argument
from plan.render.progress import progress
from topo import Check, Finding, HeddleError, SpecError, Verdict, plural

if TYPE_CHECKING:
    from costmodel import Needs, Search
    from topo import Cluster


currency_option = click.option(
    "--currency",
    help="USD, EUR, ..., or units, relative ones of a paper: the default where all switches have a price in them.",
)


def check_currency(currency: str | None, clusters: Iterable[Cluster]) -> None:
    """Refuse a currency in which nothing has a price."""
    known = sorted({name for cluster in clusters for prices in cluster.catalog.prices.values() for name in prices})
    if currency is not None and currency not in known:
        raise HeddleError(
            f"--currency: found {currency!r}; expected one with prices in the catalog: {', '.join(known)}"
        )


@click.command()
@spec_argument
@currency_option
@as_json
def cost(spec: Path, currency: str | None, as_json: bool) -> None:
    """Price a cluster part by part, without routing it.

    SPEC is a YAML file. A folder of `plan build` already contains its cost in plan.json and bom.csv.
    """
    import topo
    from costmodel import quote

    cluster = topo.read(spec)
    check_currency(currency, [cluster])
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
@specs_argument
@currency_option
@as_json
def compare(specs: tuple[Path, ...], currency: str | None, as_json: bool) -> None:
    """Compare specs: parts, cost, power, bisection and failures.

    SPECS are two or more files. A single spec must be a cluster of the Fire-Flyer paper: it is compared with three
    levels for the same nodes and with DGX A100, and the tables of the paper are computed again.
    """
    import costmodel
    from plan.inputs import read_cluster
    from plan.render.tables import show_table

    clusters = [read_cluster(spec) for spec in specs]
    published = [cluster for cluster in clusters if costmodel.is_published(cluster)]
    if len(clusters) < 2 and not published:
        raise HeddleError(
            f"{specs[0]}: found one spec, and none of the paper's clusters; expected another spec to compare with"
        )
    check_currency(currency, clusters)
    beside = costmodel.compare(*clusters, currency=currency) if len(clusters) > 1 else None
    alone = costmodel.alternatives(clusters[0]) if beside is None else None
    baselines = costmodel.baselines(published[0].catalog) if published else None
    if as_json:
        systems = beside.to_dict() if beside else alone and alone.to_dict()
        print_json({"systems": systems, "published": baselines and baselines.to_dict()})
        return
    if beside is not None:
        show_table(beside.table)
    if alone is not None:
        show_table(alone.table)
        own, dgx = alone.systems[0].total, alone.systems[-1].total
        if own is not None and dgx:
            click.echo(f"{alone.systems[0].name} costs {own / dgx:.1%} of DGX A100, GPU for GPU")
        click.echo("prices in the units of Table III; storage, which has none, is left out")
    if baselines is not None:
        show_table(baselines.table)


@click.command()
@click.argument("needs", type=FILE)
@click.option("-o", "--output", type=FILE, help="File to write the winner's spec to.")
@click.option(
    "--gap",
    type=Number(0, 1, max_open=True),
    default=0.0,
    help="How far above the cheapest price the result may be: 0.05 ends the search at 5 %.",
)
@click.option(
    "--time",
    "limit_s",
    type=Number(0),
    default=float("inf"),
    help="Seconds after which the search ends with the best design so far.",
)
@click.option(
    "--trade-offs",
    is_flag=True,
    help="Search again without each requirement and with less bandwidth; -o draws the prices.",
)
@click.option(
    "--finalists",
    type=click.IntRange(0, 8),
    default=0,
    help="How many designs of different shapes to route and to play the jobs on.",
)
@as_json
def optimise(
    needs: Path,
    output: Path | None,
    gap: float,
    limit_s: float,
    trade_offs: bool,
    finalists: int,
    as_json: bool,
) -> None:
    """Find the cheapest network for NEEDS, and prove it.

    The search covers trees, planes, zones, rails, grids, Dragonflies, Slim Flies and BiGraphs, in order of price.
    """
    import costmodel
    from plan.files import write_file
    from plan.finalists import finalists_dict, finalists_table, judge_finalists
    from plan.render.pictures import as_kind
    from plan.render.spec import format_spec
    from plan.render.tables import show_table

    charts = [output.with_suffix(suffix) for suffix in (".svg", ".png")] if output is not None and trade_offs else []
    asked = costmodel.read_needs(needs)
    tables = output.with_name(f"{output.stem}-catalog") if output is not None and asked.quotes else None
    for file in (output, tables, *charts):
        if file is not None and file.exists():
            raise SpecError([Finding(str(file), "a file that exists", "a new name", "Choose one with -o.")])
    with progress(quiet=as_json) as step:

        def search(asked: Needs, finalists: int = 1) -> Search:
            routed = partial(hold_tables, asked.tables) if asked.tables is not None else None
            return costmodel.optimise(asked, step=step, gap=gap, limit_s=limit_s, routed=routed, finalists=finalists)

        found = search(asked, max(finalists, 1))
        best = (*([found.winner] if found.winner else []), *found.others)[:finalists]
        step("routing the finalists")
        played = judge_finalists(best, asked)
        beside = costmodel.trade_off(found, search) if trade_offs else None
    winner = found.winner
    if as_json:
        more = {"trade_offs": beside.to_dict()} if beside else {}
        print_json(found.to_dict() | more | ({"finalists": finalists_dict(played)} if played else {}))
    else:
        show(found)
        more_tables = [finalists_table(played)] if played else []
        for table in (*more_tables, *((beside.table, beside.curve_table) if beside else ())):
            show_table(table)
    if winner is not None and output is not None:
        catalog = None if asked.catalog is None else os.path.relpath(asked.catalog, output.parent)
        catalog = tables.name if tables is not None else catalog
        spec = winner.spec.model_copy(update={"catalog": catalog} if catalog else {})
        write_file(output, format_spec(spec, f"For {needs.name}: {winner.name}, {found.certificate}"), new=True)
        if tables is not None:
            tables.mkdir()
            for name, text in own_tables(asked, needs).items():
                write_file(tables / name, text, new=True)
        click.echo(f"written to {output}: plan build {output} -o OUT builds it", err=as_json)
    if beside is not None and charts:
        for file in charts:
            write_file(file, as_kind(beside.drawing.svg, file.suffix), new=True)
        click.echo(f"price over bandwidth is drawn in {' and '.join(map(str, charts))}", err=as_json)
    if found.verdict is not Verdict.HOLDS or found.unpriced:
        raise click.exceptions.Exit(STATUS[found.verdict if winner is None else Verdict.CANNOT_TELL])


def hold_tables(least: float, cluster: Cluster) -> list[Check]:
    """Route a design as it would be loaded, and hold its proof and its effective bisection against what is asked."""
    import routing

    checks = []
    for fabric in cluster.subnets:
        tables = routing.route(fabric, "auto")
        proof = routing.prove(tables)
        share = routing.measure(tables, proof=proof).ebb
        text = f"the tables of `{tables.tables.engine}` give {share:.1%} to random halves, {least:.1%} is needed"
        checks.append(Check("proof", Verdict.HOLDS if proof.holds else Verdict.EXCEEDED, f"{fabric.name}: {proof}"))
        checks.append(Check("tables", Verdict.HOLDS if share >= least else Verdict.EXCEEDED, text))
    return checks


def own_tables(needs: Needs, file: Path) -> dict[str, str]:
    """Return the tables of a catalog with the prices that the needs of a file quote, beside those of before."""
    own = [] if needs.catalog is None else [Path(needs.catalog)]
    files = [file for path in own for file in (sorted(path.glob("*.csv")) if path.is_dir() else [path])]
    found = {file.name: file.read_text(encoding="utf-8") for file in files}
    table = io.StringIO()
    columns = ("model", "currency", "low", "high", "note", "source", "date", "confidence")
    rows = csv.DictWriter(table, columns, restval="", extrasaction="ignore", lineterminator="\n")
    rows.writeheader()
    for row in csv.DictReader(io.StringIO(found.get("prices.csv", ""))):
        if row["model"] not in needs.quotes:
            rows.writerow(row)
    day = needs.quoted or str(datetime.fromtimestamp(file.stat().st_mtime, UTC).date())
    cited = {"source": f"quoted in the needs of {needs.name}", "date": day, "confidence": "own"}
    for name, price in needs.quotes.items():
        rows.writerow({"model": name, "currency": needs.currency, "low": price, "high": price, **cited})
    return found | {"prices.csv": table.getvalue()}


def show(found: Search) -> None:
    """Print the winner, the certificate, and the designs that are cheaper and miss a requirement."""
    from plan.render.tables import show_table

    show_table(found.table)
    click.echo(found.certificate)
    if found.winner and found.winner.stages:
        show_table(found.stage_table)
    for check in found.winner.checks if found.winner else ():
        if check.what == "tables":
            click.echo(check.text)
    for part in found.unpriced:
        if part.startswith("typical power of "):
            click.echo(f"no {part}: give it in a catalog of your own; what is known is compared")
        else:
            click.echo(
                f"no price in {found.needs.currency} for {part}: give one under `quotes`; what is known is compared"
            )
    for reason in found.refused[:4]:
        click.echo(reason)
    if found.winner is None and not (found.tried or found.refused or found.ended):
        families = " and ".join(found.needs.families) or "any family"
        click.echo(
            f"no design of {families} on {' and '.join(found.needs.switches)} has room for all servers and links for "
            "what they need: allow other families or switches, or relax what the limits or the jobs ask for"
        )
