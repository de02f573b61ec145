"""``plan repair``: new tables after failures, with few entries changed, and the order in which to write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from plan.commands.options import FILE, Number, as_json, fabric_argument, print_json, print_notes, routing_options
from plan.render.progress import progress
from topo import plural

FULLER = 1.02
"""How much fuller the fullest link may be after a repair than before without a word on it."""


@click.command(short_help="Repair tables after failures, with few entries changed.")
@fabric_argument
@click.option(
    "--down",
    multiple=True,
    metavar="LINK|SWITCH|NODE",
    help="What has failed, such as leaf01:21, spine02 or gpu0007; can be given several times.",
)
@click.option("--now", type=FILE, help="The fabric as it is now, read anew: what it lacks has failed.")
@click.option(
    "--most-down",
    type=click.IntRange(0),
    metavar="CABLES",
    help="Cables that --now may lack; by default as many as the largest switch has. More is refused.",
)
@click.option("--loaded", type=FILE, help="Tables that the switches hold now; those of FABRIC when left out.")
@click.option(
    "--spare",
    type=Number(min=0, max=100),
    help="Further entries that may change to take load off the fullest link, as a share of the necessary ones; by "
    "default 0 after a single cable, otherwise 1.",
)
@click.option("--full", is_flag=True, help="Route all anew and say what that gains; OUT then holds those tables.")
@click.option(
    "-o", "--output", type=FILE, help="Folder to write, as `plan route` writes it, with the order of updates."
)
@routing_options
@as_json
def repair(fabric: Path, spare: float | None, output: Path | None, as_json: bool, **options: Any) -> None:
    """Repair the tables of a fabric after failures, and order the updates of switches.

    FABRIC is the intact fabric with its tables: a folder of `plan build` or `plan route`, a spec, or a real fabric with
    --tables. Name all failed parts, not only new ones: the tables depend only on these. Without failed parts they are
    those of FABRIC, byte for byte.

    Exit status 1: a pair is missing that cables connect, a host has another cable than FABRIC says, or a credit loop is
    found; OUT is written nevertheless.
    """
    with progress(quiet=as_json) as step:
        from plan import repairing

        found = repairing.repair(fabric, output, spare=spare, step=step, **options)
    print_notes(found.notes)
    if as_json:
        print_json(found.to_dict())
    else:
        from plan.render.tables import print_text, show_table

        show_table(found.repair.table)
        show_table(found.worth)
        if any(found.worth.columns[1].values):
            click.echo(
                "missing: pairs that cables connect; the effective bisection, of end ports that keep a cable, counts "
                "their flows as 0"
            )
        proof = found.plan.proofs[-1]
        if apart := proof.disconnected:
            click.echo(f"no cables connect {apart:,} of {plural(proof.pairs, 'pair')} any longer")
        if found.updates.stages:
            show_table(found.updates.table)
        else:
            click.echo("nothing to write: no entry changes")
        if found.repair.how != "routed anew" and proof.max_load > FULLER * found.max_load_before:
            more = "--spare 1 takes load off it, " if spare is None and len(found.repair.down) == 2 else ""
            click.echo(f"the fullest link carries {proof.max_load / found.max_load_before:.2f} times what it did when "
                       f"all was well; {more}--full says whether routing anew is better")  # fmt: skip
        loads = dict(zip(*(found.worth.columns[at].values for at in (0, 4)), strict=True))
        if loads.get("routed anew", 0) > loads["repaired"]:
            click.echo(f"routing anew is worse: {loads['routed anew']:,} pairs over the fullest link, and "
                       f"{loads['repaired']:,} when repaired; leave --full out")  # fmt: skip
        if drained := found.updates.drained.tolist():
            lids = ", ".join(map(str, drained[:8])) + (" ..." if len(drained) > 8 else "")
            click.echo(f"no order serves both tables: send nothing to {len(drained):,} LIDs meanwhile ({lids})")
        if output is not None:
            click.echo(f"written to {output}: the order of updates in updates.csv, files for OpenSM in opensm/")
    if found.plan.refusals:
        if not as_json:
            for refusal in found.plan.refusals:
                print_text(str(refusal), wrap=False)
        raise click.exceptions.Exit(1)
