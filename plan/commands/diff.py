"""``plan diff``: what is different in a fabric from its plan, or how a plan grows into a larger one."""

from __future__ import annotations

from pathlib import Path

import click

from plan.commands.options import (
    FILE,
    as_json,
    currency_option,
    fabric_argument,
    print_json,
    print_notes,
    subnet_option,
)
from plan.render.progress import progress
from topo import HeddleError


@click.command(short_help="Check cabling against a plan, or grow a plan into a larger one.")
@click.argument("planned", type=FILE, metavar="PLAN")
@fabric_argument
@click.option("-o", "--output", type=FILE, help="Folder for the differences as CSV, page, drawing and junit.xml.")
@click.option("--adopt", type=FILE, help="Folder for PLAN, routed with the GUIDs and LIDs of FABRIC.")
@subnet_option
@currency_option
@as_json
def diff(
    planned: Path,
    fabric: Path,
    output: Path | None,
    adopt: Path | None,
    subnet: str | None,
    currency: str | None,
    as_json: bool,
) -> None:
    """Compare a real fabric with its plan, cable by cable, or a plan with a larger one.

    PLAN is a spec, a folder of `plan build`, a planned cable list (NDT, P2P, .topo) or an earlier dump; FABRIC is the
    real fabric, in any form that `plan route` accepts. Nodes are matched by GUID or description, otherwise by their
    cables; each difference shows its confidence. Differences are listed in the order of a walk from rack to rack if
    PLAN has a floor plan, otherwise by name.

    With two specs, the command shows how to grow from PLAN to FABRIC: what to buy, which cables to move in which order
    so that no host loses its path, and which tables change. --adopt then routes FABRIC with the GUIDs and LIDs of PLAN.

    Exit status 1: there are differences.
    """
    from plan.inputs import SPEC_SUFFIXES

    grows = planned.suffix in SPEC_SUFFIXES and fabric.suffix in SPEC_SUFFIXES
    if grows and subnet is not None:
        raise HeddleError("--subnet: found it between two plans; expected none, since all subnets grow together")
    if currency is not None and not grows:
        raise click.UsageError("--currency is for two specs; what is different between fabrics has no price")
    with progress(quiet=as_json) as step:
        from plan import changes

        if grows:
            found = changes.grow(planned, fabric, output, adopt=adopt, currency=currency, step=step)
            written = "works.csv, step by step", "tables of the larger plan in opensm/"
        else:
            found = changes.diff(planned, fabric, output, adopt=adopt, subnet=subnet, step=step)
            written = "differences.html to print", "tables for this fabric in opensm/"
    print_notes(found.notes)
    if as_json:
        print_json(found.to_dict())
    else:
        from plan.render.tables import print_text, show_table

        for table in found.tables:
            show_table(table)
        for line in found.remarks:
            print_text(line)
        for folder, what in zip((output, adopt), written, strict=True):
            if folder is not None:
                click.echo(f"written to {folder}: {what}")
    if found.found:
        raise click.exceptions.Exit(1)
