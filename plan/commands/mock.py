"""``plan mock``: a fabric with known faults, in the files that the tools of the field would write of it."""

from __future__ import annotations

from pathlib import Path

import click

from plan.commands.options import FILE, as_json, fabric_argument, print_json


@click.command(short_help="Write a fabric with known faults, to test checks on.")
@fabric_argument
@click.option("-o", "--output", type=FILE, required=True, help="Folder for the files and the answer.")
@click.option("--faults", type=click.IntRange(0, 10_000), default=5, show_default=True, help="How many.")
@click.option("--kind", "kinds", multiple=True, help="Kind of fault; can be repeated. All kinds if it is left out.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the draw.")
@as_json
def mock(fabric: Path, output: Path, faults: int, kinds: tuple[str, ...], seed: int, as_json: bool) -> None:
    """Break a fabric in ways that are written down.

    FABRIC is a spec, a folder of `plan build` or a dump. The folder then contains planned.ibnetdiscover,
    fabric.ibnetdiscover with the faults, errors.txt as ibqueryerrors prints it, and answer.json. Kinds are those of
    `plan diff`, and `errors` on links: swapped, rotated, moved, missing, extra, degraded, misplaced, replaced, errors.
    """
    from plan import mocking

    made = mocking.mock(fabric, output, faults=faults, kinds=kinds or mocking.FAULTS, seed=seed)
    if as_json:
        print_json(made.to_dict())
    else:
        from plan.render.tables import show_table

        show_table(made.table)
        click.echo(f"written to {output}: the answer is answer.json")
