"""``plan route``: tables for a real fabric."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from plan.commands.spec import as_json, print_json
from plan.commands.verify import endpoints_option
from plan.progress import progress
from plan.terminal import console, printable
from plan.verdict import load_table, print_faults
from topo.errors import HeddleError, RoutingError
from topo.nearest import did_you_mean

if TYPE_CHECKING:
    from plan.opensm_comparison import Contender
    from plan.subnet import Subnet
    from routing.endpoints import EndpointSet

__all__ = ["route"]


@click.command(short_help="Route any fabric, and write what OpenSM loads.")
@click.argument("fabric", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="Folder to write.")
@click.option("--engine", help="fat-tree, zoned, balanced, ... or auto, which picks and says why.")
@click.option("--roles", type=click.Path(path_type=Path), help="Lines such as `storage st*`: what hosts are for.")
@click.option("--cn-guids", type=click.Path(path_type=Path), help="Port GUIDs of the hosts that compute, one a line.")
@click.option("--io-guids", type=click.Path(path_type=Path), help="Port GUIDs of the hosts that store, one a line.")
@click.option(
    "--lanes",
    type=click.IntRange(1, 8),
    help="Data lanes that paths may need to be free of credit loops; as many as the engine takes when left out.",
)
@endpoints_option
@click.option(
    "--compare", type=click.Choice(["opensm"]), help="Run the engines of a real OpenSM beside it, over ibsim."
)
@click.option(
    "--failures",
    type=click.IntRange(min=1),
    help="Let so many links between switches fail at random, route what is left, and say what it still holds.",
)
@click.option("--subnet", help="Which subnet, when FABRIC has several.")
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of random traffic and failures."
)
@as_json
def route(
    fabric: Path,
    output: Path,
    engine: str | None,
    roles: Path | None,
    cn_guids: Path | None,
    io_guids: Path | None,
    lanes: int | None,
    endpoints: str,
    compare: str | None,
    failures: int | None,
    subnet: str | None,
    seed: int,
    as_json: bool,
) -> None:
    """Route any fabric, prove the tables, measure them, and write what OpenSM loads.

    FABRIC is a real fabric as ibnetdiscover prints it or OpenSM lists it (opensm-subnet.lst), a folder that `plan`
    wrote, or a spec. Levels, zones and joints are found from the wiring; LIDs that the fabric has are kept.

    Exit status 1 when a pair is missing that cables connect, or a credit loop is found; OUT is written all the same.
    """
    from plan.folder import check_replaceable, write_folder
    from plan.inputs import give_roles, read_fabric_argument

    check_replaceable(output)
    with progress(quiet=as_json) as step:
        step("reading the fabric")
        source = read_fabric_argument(fabric, subnet)
        known, more = give_roles(source.fabric, roles, cn_guids, io_guids)
        import numpy as np

        from plan.opensm_comparison import check_tools, compare_with_opensm
        from plan.route_output import route_document, route_files
        from plan.subnet import make_tables, route_subnet
        from routing.diversity import study_failures
        from routing.engines import ENGINES

        if compare:
            check_tools()
        wanted = engine or source.engine
        if wanted not in ("auto", *ENGINES):
            hint = did_you_mean(wanted, ENGINES)
            raise HeddleError(
                f"--engine: found {wanted!r}; expected auto or one of {', '.join(ENGINES)}. {hint}".strip()
            )
        why = "as asked" if engine else "as the spec says"
        ends: EndpointSet = endpoints  # type: ignore[assignment]  # click has checked it
        routed = route_subnet(known, wanted, why, lanes=lanes, endpoints=ends, in_tree_order=True, seed=seed, step=step)
        if not routed.proof.pairs:
            raise HeddleError(
                f"{fabric}: found {len(routed.proof.ends):,} end ports ({endpoints}); expected two at least"
            )
        document = route_document(routed, fabric, seed)
        if routed.proof.credit_loops:
            step("counting the lanes that would do")
            document["advice"] = advice(routed)
        if failures:
            step("failing links")
            rng = np.random.default_rng(seed)
            study = study_failures(known, lambda left: make_tables(left, wanted, lanes)[0], failures, rng, ends)
            document["failures"] = study.summary()
        step("writing")
        write_folder(output, route_files(routed, source, document))
        contenders: Sequence[Contender] = ()
        if compare:
            contenders = compare_with_opensm(routed, ends, in_tree_order=True, seed=seed, step=step)
    for note in (*source.notes, *more):
        click.echo(printable(f"plan: {note}"), err=True)
    if as_json:
        print_json(document | ({"opensm": [row.summary() for row in contenders]} if compare else {}))
    else:
        show(routed, document["counts"])
        if failures:
            show_failures(document["failures"])
        if contenders:
            show_comparison(contenders)
        if routed.tables.path_sl is not None:
            click.echo(f"{routed.proof.lanes} lanes: safe only if all hosts ask OpenSM for paths (opensm/README.md)")
        if "advice" in document:
            click.echo(f"REFUSED: {document['advice']}", err=True)
        click.echo(f"written to {output}: every figure in plan.json, what OpenSM loads in opensm/")
    if not document["holds"]:
        raise click.exceptions.Exit(1)


def advice(subnet: Subnet) -> str:
    """Say what would free tables of their credit loops: how many lanes, or that no number does."""
    from routing.lanes import fit_lanes
    from routing.qos import DATA_LANES

    tables = fit_lanes(subnet.fabric, subnet.tables, 1)
    try:
        freed = fit_lanes(subnet.fabric, tables, DATA_LANES)
    except RoutingError as error:
        return str(error)
    now, then = subnet.proof.lanes, max(freed.sl2vl) + 1
    return (
        f"credit loops on {now} lane{'s' if now > 1 else ''}; --lanes {then} would do, if all hosts ask OpenSM for "
        "their paths, and the engine `balanced` needs one lane"
    )


def show(subnet: Subnet, counts: dict[str, int]) -> None:
    """Print what a person wants to know of a routed fabric."""
    from rich.markup import escape
    from rich.table import Table

    out = console()
    fabric, proof, quality = subnet.fabric, subnet.proof, subnet.quality
    table = Table(title=escape(printable(fabric.name)) or "the fabric", show_header=False, title_justify="left")
    table.add_column(style="dim")
    table.add_column()
    places = ", ".join(f"{counts[name]:,} {name}" for name in ("leaf", "spine", "core", "joint") if counts[name])
    zones = f" in {counts['zones']} zones" if counts["zones"] > 1 else ""
    table.add_row("switches", f"{counts['switches']:,} ({places or 'no tree'}){zones}, {counts['links']:,} links")
    nodes = ((counts[f"{name}_nodes"], name) for name in ("compute", "storage", "management"))
    hosts = ", ".join(f"{count:,} {name}" for count, name in nodes if count)
    sharp = f", {counts['aggregation_nodes']:,} aggregation nodes" if counts["aggregation_nodes"] else ""
    table.add_row("hosts", f"{hosts}; {counts['host_ports']:,} ports{sharp}")
    table.add_row("engine", f"{subnet.tables.engine}: {escape(printable(subnet.why))}")
    verdict = "[red]REFUSED[/]" if subnet.lost or proof.credit_loops else "[green]proven[/]"
    apart = f", {proof.disconnected:,} have no path of cables" if proof.disconnected else ""
    table.add_row(
        "proof",
        f"{verdict}: {proof.pairs:,} pairs ({proof.endpoints}), {subnet.lost:,} missing{apart}, {proof.credit_loops:,} "
        f"channels in credit loops on {proof.lanes} lane{'s' if proof.lanes != 1 else ''}",
    )
    table.add_row("paths", f"at most {proof.max_hops} switches, and {proof.stretch} more than the shortest")
    table.add_row(
        "load",
        f"{quality.max_load:,} pairs over the most loaded link, {quality.balance:.2f} times the mean of those used",
    )
    table.add_row("effective bisection", f"{quality.ebb:.3f}; random permutations {quality.permutation.bandwidth:.3f}")
    for name, phases in (("shifts", quality.shift), ("halving-doubling", quality.halving_doubling)):
        most = (
            f"{phases.max_load_median:g} flows on the fullest link in the median, {phases.max_load_worst} in the worst"
        )
        table.add_row(name, f"{most} of {phases.phases:,}")
    out.print(table)
    out.print(load_table(proof))
    shares = Table(title="destinations over each uplink of a leaf", title_justify="left")
    for heading in ("of role", "uplinks", "used", "least", "mean", "most"):
        shares.add_column(heading, justify="left" if heading == "of role" else "right")
    for share in quality.uplinks:
        role = "all" if share.role is None else share.role.name.lower()
        shares.add_row(
            role, f"{share.uplinks:,}", f"{share.used:,}", f"{share.min:,}", f"{share.mean:,.1f}", f"{share.max:,}"
        )
    out.print(shares)
    print_faults(out, fabric, proof)


def show_failures(study: dict[str, Any]) -> None:
    """Print what random failures leave of a fabric."""
    out = console()
    before, after = study["before"], study["after"]
    out.print(
        f"when {study['links']:,} links fail (plan.json names them), cables connect {study['connected']:,} of "
        f"{study['pairs']:,} pairs, and {study['delivered']:,} arrive by tables made anew: {study['credit_loops']:,} "
        f"channels in credit loops, at most {study['max_hops']} switches, {study['max_load']:,} pairs over the most "
        "loaded link"
    )
    out.print(
        f"shortest paths without a common cable, over {before['pairs']:,} pairs of leaves: {before['mean']:.2f} in the "
        f"mean and {before['least']} at least; after the failures {after['mean']:.2f} and {after['least']}"
    )


def show_comparison(contenders: Sequence[Contender]) -> None:
    """Print engines side by side."""
    from rich.table import Table

    out = console()
    table = Table(title="beside the engines of OpenSM, all judged on one lane", title_justify="left")
    table.add_column("engine")
    for heading in (
        "missing",
        "loops",
        "lanes",
        "switches",
        "max load",
        "balance",
        "bisection",
        "random",
        "shift",
        "s",
    ):
        table.add_column(heading, justify="right")
    failed = [row for row in contenders if row.failure]
    for row in contenders:
        proof, quality = row.proof, row.quality
        if proof is None or quality is None:
            table.add_row(row.engine, "fails")
            continue
        figures = (proof.missing, proof.credit_loops, row.lanes, proof.max_hops, quality.max_load)
        table.add_row(
            row.engine,
            *(f"{figure:,}" for figure in figures),
            f"{quality.balance:.2f}",
            f"{quality.ebb:.3f}",
            f"{quality.permutation.bandwidth:.3f}",
            f"{quality.shift.max_load_worst}",
            f"{row.seconds:.2f}",
        )
    out.print(table)
    out.print(
        "loops: channels in credit loops on one lane; lanes: what the engine asks for to have none; switches: on the "
        "longest path; max load: pairs over one link; balance: that by the mean; bisection: effective, 1 is full; "
        "random: bandwidth of random permutations; shift: flows on the fullest link of the worst; s: seconds of routing"
    )
    for row in failed:
        out.print(f"{row.engine}: {printable(row.failure)}", markup=False)
    if any(row.proof and row.proof.missing for row in contenders):
        out.print(
            "where pairs are missing, bisection and permutation are those of what arrives, and lost flows count 0"
        )
