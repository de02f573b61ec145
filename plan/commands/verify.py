"""``plan verify``: prove anybody's tables on any fabric."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from plan.commands.spec import as_json, print_json
from plan.progress import progress
from plan.terminal import console, printable
from topo.errors import HeddleError

if TYPE_CHECKING:
    from routing.proof import Proof
    from topo.fabric import Fabric

__all__ = ["verify"]

ENDPOINTS = ("hca", "adapters", "all")


@click.command(short_help="Prove anybody's forwarding tables on any fabric.")
@click.argument("fabric", type=click.Path(path_type=Path))
@click.argument("lfts", type=click.Path(path_type=Path))
@click.option(
    "--endpoints",
    type=click.Choice(ENDPOINTS),
    default="hca",
    show_default=True,
    help="Who talks to whom: HCAs; SHARP aggregation nodes and routers too; port 0 of switches too.",
)
@click.option("--subnet", help="Which subnet, when FABRIC is a spec that has several.")
@as_json
def verify(fabric: Path, lfts: Path, endpoints: str, subnet: str | None, as_json: bool) -> None:
    """Walk every pair through forwarding tables, and look for credit loops.

    FABRIC is a spec, or a real fabric as ibnetdiscover prints it or OpenSM lists it (opensm-subnet.lst). LFTS is a file
    of forwarding tables as `plan build`, OpenSM (opensm-lfts.dump, opensm.fdbs) or dump_lfts write it.

    Exit status 1 when a pair is missing or a credit loop is found.
    """
    from plan.inputs import read_fabric_argument

    with progress(quiet=as_json) as step:
        step("reading the fabric")
        source = read_fabric_argument(fabric, subnet)
        from routing.formats.lfts import read_lfts
        from routing.proof import prove

        step("reading the tables")
        read = read_lfts(lfts, source.fabric)
        step("proving")
        proof = prove(source.fabric, read.tables, endpoints)  # type: ignore[arg-type]
    for note in (*source.notes, *read.notes):
        click.echo(printable(f"plan: {note}"), err=True)
    if not proof.pairs:
        raise HeddleError(
            f"{fabric}: found {len(proof.ends):,} end ports ({endpoints}); expected two at least, or there is nothing "
            "to prove. Is the file whole?"
        )
    if as_json:
        print_json(proof.summary() | {"examples": [example.describe(source.fabric) for example in proof.examples]})
    else:
        show(source.fabric, proof)
    if not proof.holds:
        raise click.exceptions.Exit(1)


def show(fabric: Fabric, proof: Proof) -> None:
    """Print a proof for a person."""
    from rich.markup import escape
    from rich.table import Table

    out = console()
    verdict = "[green]holds[/]: every pair arrives, and no lane has a credit loop" if proof.holds else "[red]FAILS[/]"
    out.print(f"{escape(printable(fabric.name)) or 'the fabric'} {verdict}")
    out.print(
        f"{proof.pairs:,} pairs of {len(proof.ends):,} end ports ({proof.endpoints}); {proof.missing:,} missing, "
        f"{proof.disconnected:,} of them have no path of cables; {proof.credit_loops:,} channels in credit loops on "
        f"{proof.lanes} lane{'s' if proof.lanes != 1 else ''}"
    )
    hops = ", ".join(f"{count:,} over {length}" for length, count in enumerate(proof.hops) if count)
    out.print(f"switches on a path: {hops or 'none'}; at most {proof.stretch} more than the shortest")
    table = Table(title="pairs over channels between switches", title_justify="left")
    for heading in ("from level", "to level", "to", "channels", "used", "max", "mean"):
        table.add_column(heading, justify="left" if heading == "to" else "right")
    for item in proof.classes:
        role = "all" if item.role is None else item.role.name.lower()
        numbers = (f"{item.channels:,}", f"{item.used:,}", f"{item.max:,}", f"{item.mean:,.1f}")
        table.add_row(_level(item.level), _level(item.next_level), role, *numbers)
    out.print(table)
    for example in proof.examples:
        out.print(f"missing: {example.describe(fabric)}", markup=False)
    if proof.loop:
        out.print("credit loop, each channel waiting for the next and the last for the first:")
        for channel in proof.loop:
            out.print(f"  {fabric.channel_label(channel)}", markup=False)


def _level(level: int) -> str:
    return "?" if level < 0 else str(level)
