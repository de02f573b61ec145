"""``plan explain``: which link or collision makes measured pairs slow."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from plan.commands.options import FILE, as_json, fabric_argument, print_json, print_notes, routing_options
from plan.render.progress import progress

if TYPE_CHECKING:
    from plan.inputs import RoutingFiles


@click.command(short_help="Find the link or collision that slows measured pairs.")
@fabric_argument
@click.argument("measured", type=FILE)
@routing_options
@click.option(
    "--next", "following", type=click.IntRange(0, 100), default=5, show_default=True, help="Pairs to propose."
)
@as_json
def explain(fabric: Path, measured: Path, given: RoutingFiles, following: int, as_json: bool) -> int:
    """Explain measured bandwidths of pairs by slow links and collisions.

    FABRIC is the same as for `plan simulate`, with the --tables that were loaded during the measurement. MEASURED is a
    CSV file. It has a row for each pair (source,destination,Gb/s, and a round if several were measured at once), or is
    a matrix whose first cell is the unit. The command names the cause, its probability, and the pairs to measure next.

    Exit status 1: a link or a collision was found; 3: pairs are slow and the cause is unknown.
    """
    with progress(quiet=as_json) as step:
        import simulate
        from plan.inputs import read_routed_argument

        routed = read_routed_argument(fabric, given, step)
        step("reading what was measured")
        pairs = simulate.read_measured(measured, routed)
        step("explaining")
        found = simulate.explain(routed, pairs, following=following)
    print_notes(routed.fabric.notes)
    if as_json:
        print_json(found.to_dict())
    else:
        from plan.render.tables import show_table

        if not found.culprits:
            click.echo(
                "nobody is accused" + ("" if found.others or found.unclear else ": all pairs are as they should be")
            )
        for table in (found.table, found.next_table):
            if len(table):
                show_table(table)
        if found.unclear:
            click.echo(f"{found.unclear:,} slow pairs without an explanation")
    return 1 if found.culprits else 3 if found.unclear else 0
