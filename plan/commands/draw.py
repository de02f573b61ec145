"""``plan draw``: a picture of the fabric."""

from __future__ import annotations

from pathlib import Path

import click

from plan.commands.options import FILE, as_json, fabric_argument, print_json
from plan.render.progress import progress


@click.command(short_help="Draw a cluster: its switches, its links, its racks.")
@fabric_argument
@click.option("-o", "--output", type=FILE, help="File to write: .svg, .png or .pdf; NAME.svg by default.")
@click.option(
    "--tables", type=FILE, help="Forwarding tables, or the folder of a `plan build`: colours links by their load."
)
@click.option(
    "--simulation",
    type=FILE,
    help="Folder that `plan simulate -o` wrote: colours links by the bytes that they carried.",
)
@click.option(
    "--view",
    type=click.Choice(["fabric", "cut", "racks", "floor"]),
    default="fabric",
    show_default=True,
    help="What to draw: switches and links; the same with the worst cut marked; the fronts of racks; or the floor with "
    "the cables in its trays.",
)
@as_json
def draw(
    fabric: Path, output: Path | None, tables: Path | None, simulation: Path | None, view: str, as_json: bool
) -> None:
    """Draw a cluster: switches, links and their load; or its racks.

    FABRIC is a spec, a real fabric from ibnetdiscover or OpenSM, or a folder of `plan build` or `plan route` with its
    tables. Levels and zones of a real fabric are derived from its cabling. In an SVG, point at any part to read what it
    is. The load is the number of pairs of hosts over a link if all send to all, or the bytes of a simulation. The worst
    cut are the links that limit the bisection of all compute nodes. Racks and floor need a spec with a `floor`.
    """
    if tables is not None and simulation is not None:
        raise click.UsageError("give --tables or --simulation: links have one colour")
    if view != "fabric" and (tables is not None or simulation is not None):
        raise click.UsageError(f"--view {view} shows no load, which --tables and --simulation are for")
    with progress(quiet=as_json) as step:
        from plan import picture
        from plan.inputs import read_plan

        step("reading")
        plan = read_plan(fabric)
        output = output or Path(f"{plan.name}.svg" if view == "fabric" else f"{plan.name}-{view}.svg")
        drawn = picture.draw(plan, output, tables=tables, simulation=simulation, view=view, step=step)
    if as_json:
        print_json(drawn.to_dict())
    else:
        shown = "" if output.suffix.lower() in (".png", ".pdf") else "; open it in a browser"
        several = f", which leads to {len(drawn.pages)} pages beside it" if drawn.pages else ""
        click.echo(f"wrote {output}{several}{shown}", err=True)
