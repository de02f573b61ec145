"""``plan draw``: a picture of the fabric."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from plan.commands.options import FILE, as_json, print_json, spec_argument
from plan.render.progress import progress
from topo.errors import FormatError, HeddleError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from topo.fabric import Fabric

MAX_LINKS_BYTES = 100_000_000
"""Of a simulation's links.csv: twelve times what the largest subnet has."""


@click.command()
@spec_argument
@click.option("-o", "--output", type=FILE, help="File to write; NAME.svg when left out.")
@click.option(
    "--tables",
    type=FILE,
    help="Forwarding tables, or the folder of a `plan build`: links are coloured by their load.",
)
@click.option(
    "--simulation",
    type=FILE,
    help="Folder that `plan simulate -o` wrote: links are coloured by the bytes they carried.",
)
@as_json
def draw(spec: Path, output: Path | None, tables: Path | None, simulation: Path | None, as_json: bool) -> None:
    """Draw a cluster as SVG: switches, links, and how busy they are.

    SPEC is a spec; a real fabric as ibnetdiscover prints it or OpenSM lists it; or a folder that `plan build` or `plan
    route` wrote, with its tables. Levels and zones of what is no spec are found from its cabling. Hover over anything
    to read what it is. Load is told in pairs of hosts over a link, when all talk to all, or in the bytes of a
    simulation.
    """
    if tables is not None and simulation is not None:
        raise click.UsageError("give --tables or --simulation: links have one colour")
    from plan.files import check_writable, write_file
    from topo.counts import count
    from topo.drawing import draw as draw_fabrics

    with progress(quiet=as_json) as step:
        step("reading")
        name, fabrics = read_cluster(spec)
        output = output or Path(f"{name}.svg")
        if spec.is_dir() and simulation is None:
            tables = tables or spec
        check_writable(output, kind="SVG", magic=b"<svg")
        loads = None
        if tables is not None:
            step("tracing loads")
            loads = [load_of(fabric, find_tables(tables, fabric, len(fabrics))) for fabric in fabrics]
        if simulation is not None:
            step("reading the simulation")
            loads = read_simulated_loads(simulation, fabrics)
        step("drawing")
        drawing = draw_fabrics(fabrics, loads, title=name, unit="bytes" if simulation else "pairs").svg
    write_file(output, drawing)
    if as_json:
        print_json(
            {"file": str(output), "subnets": [fabric.name for fabric in fabrics], "counts": count(fabrics).to_dict(),
             "bytes": len(drawing.encode())}
        )  # fmt: skip
    else:
        click.echo(f"wrote {output}; open it in a browser", err=True)


def read_cluster(path: Path) -> tuple[str, Sequence[Fabric]]:
    """Read a spec, a real fabric or a folder of ours: its name and its subnets."""
    from plan.inputs import SPEC_SUFFIXES, read_fabric_argument, subnet_folders

    if path.is_dir():
        subnets = [read_fabric_argument(path, name or None) for name in subnet_folders(path)]
        name = path.absolute().name
        return name, subnets
    if path.suffix not in SPEC_SUFFIXES:
        from topo.formats.fabric_file import read_fabric

        return path.name.partition(".")[0], [read_fabric(path)]
    from topo.cluster import read

    cluster = read(path)
    return cluster.name, cluster.fabrics


def find_tables(path: Path, fabric: Fabric, subnets: int) -> Path:
    """Return the file of a subnet's forwarding tables: the path itself, or the one in an output folder."""
    if path.is_dir():
        found = path / ("" if subnets == 1 else fabric.name) / "opensm" / "lfts"
        if found.is_file():
            return found
        raise HeddleError(f"{path}: found no {found.relative_to(path)}; expected the output folder of a plan build")
    if subnets > 1:
        raise HeddleError(
            f"{path}: found one file; expected the folder of a plan build, since there are {subnets} subnets"
        )
    return path


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

    from topo.formats.text import read_text

    path = folder / "links.csv"
    ports = {fabric.channel_label(port): (number, port) for number, fabric in enumerate(fabrics)
             for port in np.flatnonzero(fabric.peer >= 0).tolist()}  # fmt: skip
    loads = [np.zeros(fabric.n_ports, np.int64) for fabric in fabrics]
    try:
        for row in csv.DictReader(io.StringIO(read_text(path, MAX_LINKS_BYTES))):
            number, port = ports[row["channel"]]
            loads[number][port] += int(row["bytes"])
    except (KeyError, ValueError, TypeError, OverflowError) as error:
        raise FormatError(f"found {error}; expected channels of this cluster and their bytes", str(path)) from None
    return loads


def load_of(fabric: Fabric, tables: Path) -> NDArray[np.int64]:
    """Return (P,) pairs of HCAs over each channel, as the tables route them."""
    from routing.opensm.lfts import read_lfts
    from routing.proof import prove
    from routing.routed import Routed

    return prove(Routed(fabric, read_lfts(tables, fabric).tables)).load
