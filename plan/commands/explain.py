"""``plan explain``: which link or collision makes measured pairs slow, or ports wait."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from plan.commands.options import FILE, as_json, fabric_argument, print_json, print_notes, routing_options
from plan.render.progress import progress

if TYPE_CHECKING:
    from plan.inputs import RoutingFiles
    from simulate import Explanation, Waits


@click.command(short_help="Find the link or collision that slows measured pairs or ports.")
@fabric_argument
@click.argument("measured", type=FILE)
@click.option("--before", type=FILE, help="An earlier reading of the counters, to be subtracted.")
@routing_options
@click.option(
    "--next", "following", type=click.IntRange(0, 100), default=5, show_default=True, help="Pairs to propose."
)
@as_json
def explain(
    fabric: Path, measured: Path, before: Path | None, given: RoutingFiles, following: int, as_json: bool
) -> int:
    """Explain measured bandwidths of pairs, or counters of ports, by slow links and collisions.

    FABRIC is the same as for `plan simulate`, with the --tables that were loaded during the measurement. MEASURED is a
    CSV file. It has a row for each pair (source,destination,Gb/s, and a round if several were measured at once), or is
    a matrix whose first cell is the unit. Or it has the counters PortXmitWait and PortXmitData of ports:
    ibdiagnet2.db_csv, or the output of `ibqueryerrors --data` or `perfquery -x`. The command names the cause, its
    probability, and the pairs to measure next.

    Exit status 1: a link or a collision was found; 3: something is slow or not counted, and the cause is unknown.
    """
    with progress(quiet=as_json) as step:
        import simulate
        from plan.inputs import read_routed_argument

        routed = read_routed_argument(fabric, given, step)
        step("reading what was measured")
        found: Explanation | Waits
        if before is not None or simulate.are_counters(measured):
            earlier = None if before is None else simulate.read_counters(before, routed)
            counters = simulate.read_counters(measured, routed)
            step("explaining")
            counters = counters if earlier is None else counters.since(earlier)
            found = simulate.explain_waits(routed, counters, following=following)
        else:
            pairs = simulate.read_measured(measured, routed)
            step("explaining")
            found = simulate.explain(routed, pairs, following=following)
    print_notes(routed.fabric.notes)
    doubts = found.doubts
    if as_json:
        print_json(found.to_dict())
    else:
        from plan.render.tables import show_table

        if not found.culprits:
            click.echo("no suspect" if found.others or doubts else "no fault found")
        for table in (found.table, found.next_table):
            if len(table):
                show_table(table)
        for doubt in doubts:
            click.echo(doubt)
    return 1 if found.culprits else 3 if doubts else 0
