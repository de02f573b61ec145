"""``plan cost``, ``plan compare``, ``plan optimise``: what a design costs, beside what, and which is the cheapest."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import costmodel
import topo
from plan.commands.options import (
    FILE,
    STATUS,
    Number,
    answered,
    as_json,
    currency_option,
    job_option,
    print_json,
    spec_argument,
    specs_argument,
)
from plan.files import write_file
from plan.inputs import check_currency, read_cluster
from plan.render.tables import show_table, show_tables
from plan.render.terminal import progress
from topo import HeddleError, Verdict

if TYPE_CHECKING:
    from costmodel import Search
    from plan.optimum import Optimum


@click.command()
@spec_argument
@currency_option
@click.option("--skeleton", type=FILE, help="New file for the rows of prices.csv that are missing, to be filled in.")
@as_json
def cost(spec: Path, currency: str | None, skeleton: Path | None, as_json: bool) -> None:
    """Price a cluster part by part, without routing it.

    SPEC is a YAML file. A folder of `plan build` already contains its cost in plan.json and bom.csv.
    """
    cluster = read_cluster(spec)
    check_currency(currency, [cluster])
    quoted = costmodel.quote(cluster, currency)
    priced, owning = quoted.cost, quoted.owning
    if skeleton is not None:
        write_file(skeleton, costmodel.price_gaps(priced).to_csv(), new=True)
        click.echo(f"written to {skeleton}: fill in price, source and date, and name it as `catalog`", err=True)
    if as_json:
        lines = [row.to_dict() for row in priced.lines]
        owned = owning and owning.to_dict()
        print_json({"cost": priced.to_dict(), "power": quoted.power.to_dict(), "owning": owned, "lines": lines})
        return
    show_table(priced.table, cluster.name, hide=("source",))
    if priced.legend:
        click.echo(priced.legend)
    why = quoted.why_currency(currency)
    click.echo("; ".join(filter(None, (f"{priced.sums} {priced.unit}", priced.coverage, why))))
    for gap in priced.gaps:
        click.echo(f"not in the total: {gap}")
    if owning is not None:
        show_table(owning.table)
        if silent := owning.power.total_w.missing:
            click.echo(f"not in the energy, typical power unknown: {', '.join(silent)}")


@click.command()
@specs_argument
@currency_option
@job_option
@click.option("--workload", "-w", help="Also how long its jobs take: a YAML file, or a preset such as allreduce.")
@as_json
def compare(
    specs: tuple[Path, ...], currency: str | None, job: int | None, workload: str | None, as_json: bool
) -> None:
    """Compare specs: parts, cost, power, bisection and failures.

    SPECS are two or more files. If one of them is a cluster of the Fire-Flyer paper, the tables of the paper are
    computed again; such a spec may stand alone.
    """
    clusters = [read_cluster(spec) for spec in specs]
    published = [cluster for cluster in clusters if costmodel.is_published(cluster)]
    if len(clusters) < 2 and not published:
        raise HeddleError(
            f"{specs[0]}: found one spec, and none of the paper's clusters; expected another spec to compare with"
        )
    check_currency(currency, clusters)
    beside = costmodel.compare(*clusters, currency=currency, job=job) if len(clusters) > 1 else None
    baselines = costmodel.baselines(published[0].catalog) if published else None
    times: list[dict[str, float]] = []
    if workload is not None:
        from plan.simulation import job_times

        with progress(quiet=as_json) as step:
            times = [job_times(*pair, workload, step) for pair in zip(specs, clusters, strict=True)]
    if as_json:
        figures = {"systems": beside and beside.to_dict(), "published": baselines and baselines.to_dict()}
        print_json(figures | ({"times_s": times} if times else {}))
        return
    if beside is not None:
        table = beside.table
        if len({cluster.name for cluster in clusters}) < len(specs):  # files tell plans of one name apart
            named = (replace(column, name=f"{n}: {specs[n - 1].name}") for n, column in enumerate(table.columns[1:], 1))
            table = replace(table, columns=(table.columns[0], *named))
        show_table(table)
    if times:
        jobs = dict.fromkeys(name for one in times for name in one)
        rows = [(name, *(topo.format_seconds(one[name]) if name in one else "" for one in times)) for name in jobs]
        headings = [f"{n}: {cluster.name}" for n, cluster in enumerate(clusters, 1)]
        show_table(topo.Table.of_rows("times of jobs, from data sheets", ("job", *headings), rows))
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
    help="How many designs of different shapes to route and to play the jobs on; of several, one that is proven.",
)
@as_json
def optimise(needs: Path, output: Path | None, as_json: bool, **options: Any) -> int:
    """Find the cheapest network for NEEDS, and prove it.

    The search covers trees, planes, zones, rails, grids, Dragonflies, Slim Flies and BiGraphs, in order of price.
    """
    with progress(quiet=as_json) as step:
        from plan import optimum

        found = optimum.optimise(needs, output, step=step, **options)
    if not answered(found, as_json=as_json):
        show(found)
        show_tables(*found.more_tables)
        for finalist in found.finalists:
            if finalist.why:
                click.echo(f"{finalist.name}: {finalist.why}")
    specs = [file for file in found.written if file.suffix not in (".svg", ".png")]
    charts = [str(file) for file in found.written if file not in specs]
    for before, after in pairwise(specs):
        click.echo(f"written to {before}: plan diff {before} {after} shows what comes next", err=as_json)
    for why in found.unwritten:
        click.echo(why, err=as_json)
    for file in specs[-1:]:
        click.echo(f"written to {file}: plan build {file} -o OUT builds it", err=as_json)
    if charts:
        click.echo(f"price over bandwidth is drawn in {' and '.join(charts)}", err=as_json)
    return STATUS[found.verdict]


def show(optimum: Optimum) -> None:
    """Print the winner, the certificate, and the designs that are cheaper and miss a requirement."""
    if next(optimum.table.rows(), None):
        show_table(optimum.table)
    click.echo(optimum.certificate)
    for name, found in optimum.networks.searches.items() if optimum.networks else [("", optimum.search)]:
        _explain(found, name and f"{name}: ")


def _explain(found: Search, of: str) -> None:
    """Print, after the words that say of which network, what a search measured of its winner, or why it has none."""
    if not of and found.winner and not found.others and found.winner.verdict is Verdict.CANNOT_TELL:
        click.echo("--finalists 2 also finds the cheapest design that is proven to meet the needs, and routes both")
    if found.winner and found.winner.stages:
        show_table(found.stage_table)
    for check in found.winner.checks if found.winner else ():
        if check.what.startswith(("bisection", "bandwidth", "tables")):
            click.echo(f"{of}{check.text}")
    for price in found.winner.idle if found.winner else ():
        click.echo(f"{of}{price}")
    for part in found.unpriced:
        if part.startswith("typical power of "):
            click.echo(f"no {part}: give it in a catalog of your own; what is known is compared")
        else:
            currency = found.needs.currency
            click.echo(f"no price in {currency} for {part}: give one under `quotes`; what is known is compared")
    for reason in found.refused[:4]:
        click.echo(f"{of}{reason}")
    if found.winner is None and not (found.tried or found.refused or found.ended):
        families = " and ".join(found.needs.families) or "any family"
        click.echo(
            f"{of}no design of {families} on {' and '.join(found.needs.switches)} has room for all servers and links "
            "for what they need: allow other families or switches, or relax what the limits or the jobs ask for"
        )
