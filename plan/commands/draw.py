"""``plan draw``: a picture of the fabric."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from plan.commands.options import FILE, as_json, fabric_argument, print_json
from plan.render.progress import progress
from topo import FormatError, HeddleError, plural

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from plan.pipeline import Plan
    from routing import Routed
    from topo import Drawing, Fabric


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
    type=click.Choice(["fabric", "racks", "floor"]),
    default="fabric",
    show_default=True,
    help="What to draw: switches and links, the fronts of racks, or the floor with the cables in its trays.",
)
@as_json
def draw(
    fabric: Path, output: Path | None, tables: Path | None, simulation: Path | None, view: str, as_json: bool
) -> None:
    """Draw a cluster: switches, links and their load; or its racks.

    FABRIC is a spec, a real fabric from ibnetdiscover or OpenSM, or a folder of `plan build` or `plan route` with its
    tables. Levels and zones of a real fabric are derived from its cabling. In an SVG, point at any part to read what it
    is. The load is the number of pairs of hosts over a link if all send to all, or the bytes of a simulation. Racks and
    floor need a spec with a `floor`.
    """
    if tables is not None and simulation is not None:
        raise click.UsageError("give --tables or --simulation: links have one colour")
    if view != "fabric" and (tables is not None or simulation is not None):
        raise click.UsageError(f"--view {view} draws no links, which --tables and --simulation colour")
    from plan.files import check_suffix, check_writable, write_file
    from plan.inputs import read_plan
    from plan.render.pictures import MAGIC, as_kind
    from topo import count
    from topo import draw as draw_fabrics

    with progress(quiet=as_json) as step:
        step("reading")
        plan = read_plan(fabric)
        fabrics = plan.fabrics
        output = output or Path(f"{plan.name}.svg" if view == "fabric" else f"{plan.name}-{view}.svg")
        suffix = output.suffix.lower() if output.suffix.lower() in MAGIC else ".svg"
        check_suffix(output, suffix)
        check_writable(output, kind=suffix[1:].upper(), magic=MAGIC[suffix])
        loads = None
        if simulation is not None:
            step("reading the simulation")
            loads = read_simulated_loads(simulation, fabrics)
        elif view == "fabric" and (tables is not None or plan.routed):
            from routing import prove  # what draws no loads need not wait for it

            step("tracing loads")
            routed = plan.routed if tables is None else read_tables(tables, fabrics)
            loads = [prove(subnet).load for subnet in routed]
        step("drawing")
        if view == "fabric":
            drawing = draw_fabrics(fabrics, loads, title=plan.name, unit="bytes" if simulation else "pairs")
        else:
            drawing = draw_room(fabric, plan, view)
        picture = as_kind(drawing.svg, suffix)
    write_file(output, picture)
    if as_json:
        print_json(
            {"file": str(output), "subnets": [fabric.name for fabric in fabrics], "counts": count(fabrics).to_dict(),
             "bytes": len(picture.encode() if isinstance(picture, str) else picture)}
        )  # fmt: skip
    else:
        click.echo(f"wrote {output}; open it in a browser" if suffix == ".svg" else f"wrote {output}", err=True)


def draw_room(path: Path, plan: Plan, view: str) -> Drawing:
    """Draw the racks of a plan, or its floor."""
    from topo import draw_floor, draw_racks

    cluster = plan.cluster
    if cluster is None or cluster.layout is None or cluster.cablings is None:
        kept = "; a folder does not keep the floor of its spec" if path.is_dir() else ""
        raise HeddleError(
            f"{path}: found no racks; expected a spec with `floor`, which says what the room is like{kept}"
        )
    if view == "racks":
        return draw_racks(plan.fabrics, cluster.layout, title=plan.name)
    return draw_floor(plan.fabrics, cluster.layout, cluster.cablings, title=plan.name)


def read_tables(path: Path, fabrics: Sequence[Fabric]) -> list[Routed]:
    """Read the forwarding tables of each subnet: of one out of their file, else out of an output folder."""
    from routing import Routed
    from routing.opensm import read_lfts

    routed = []
    for fabric in fabrics:
        file = path
        if path.is_dir():
            file = path / ("" if len(fabrics) == 1 else fabric.name) / "opensm" / "lfts"
            if not file.is_file():
                name = file.relative_to(path)
                raise HeddleError(f"{path}: found no {name}; expected the output folder of a plan build")
        elif len(fabrics) > 1:
            expected = f"the folder of a plan build, since there are {plural(len(fabrics), 'subnet')}"
            raise HeddleError(f"{path}: found one file; expected {expected}")
        routed.append(Routed(fabric, read_lfts(file, fabric).tables))
    return routed


def read_simulated_loads(folder: Path, fabrics: Sequence[Fabric]) -> list[NDArray[np.int64]]:
    """Return (P,) bytes over each channel of each subnet, all lanes together, out of a simulation's ``links.csv``.

    Raises
    ------
    HeddleError
        When there is no such file, or it names a channel that no subnet has.
    """
    import csv
    import io

    import numpy as np

    from topo import budgets, plain_text, read_text

    path = folder / "links.csv"
    ports = {fabric.channel_label(port): (number, port) for number, fabric in enumerate(fabrics)
             for port in np.flatnonzero(fabric.peer >= 0).tolist()}  # fmt: skip
    loads = [np.zeros(fabric.n_ports, np.int64) for fabric in fabrics]
    try:
        for row in csv.DictReader(io.StringIO(read_text(path, budgets()["links-bytes"]))):
            number, port = ports[plain_text(row["channel"])]
            loads[number][port] += int(row["bytes"])
    except (KeyError, ValueError, TypeError, OverflowError, csv.Error) as error:
        raise FormatError(f"found {error}; expected channels of this cluster and their bytes", str(path)) from None
    return loads
