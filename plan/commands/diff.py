"""``plan diff``: what is different in a fabric from its plan, as a list for those who mend it."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from plan.commands.cost import check_currency, currency_option
from plan.commands.options import FILE, as_json, fabric_argument, print_json, print_notes, subnet_option
from plan.render.progress import progress

if TYPE_CHECKING:
    from topo import Fabric


HALF = 0.5
"""Share of the cables below which a plan is hardly the one of the fabric."""


@click.command(short_help="Check cabling against a plan, or grow a plan into a larger one.")
@click.argument("planned", type=FILE, metavar="PLAN")
@fabric_argument
@click.option(
    "-o", "--output", type=FILE, help="Folder for the differences as CSV, as a page to print and as a drawing."
)
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
    from plan.folder import check_replaceable, write_folder
    from plan.inputs import SPEC_SUFFIXES

    if output is not None:
        check_replaceable(output, keep_plan=True)
    if adopt is not None:
        check_replaceable(adopt, planned, *([output] if output is not None else []))
    if planned.suffix in SPEC_SUFFIXES and fabric.suffix in SPEC_SUFFIXES:
        tell_growth(planned, fabric, output, adopt, subnet, currency, as_json=as_json)
        return
    if currency is not None:
        raise click.UsageError("--currency is for two specs; what is different between fabrics has no price")
    with progress(quiet=as_json) as step:
        step("reading")
        from plan.inputs import read_fabric_argument
        from topo import HeddleError, draw, find_differences

        wanted, found = read_fabric_argument(planned, subnet, merged=True), read_fabric_argument(fabric, merged=True)
        if adopt is not None and found.n_switches < read_fabric_argument(fabric).n_switches:
            raise HeddleError(f"{fabric}: its switches are of several chips, each with tables of its own, which a plan "
                              "of whole switches does not have; leave out --adopt")  # fmt: skip
        step("comparing")
        differences = find_differences(wanted, found, walk_of(planned, wanted))
        if output is not None:
            from plan.render.crew import format_crew_page

            step("writing")
            drawing = draw(wanted, differences.marks, title=differences.table.title, unit="differences", marked=True)
            page = format_crew_page(differences)
            write_folder(
                output, {"differences.csv": differences.table.to_csv(), "differences.html": page,
                         "differences.svg": drawing.svg}
            )  # fmt: skip
        if adopt is not None:
            from plan.export.registry import OF_ROUTE, plan_files
            from plan.inputs import digest
            from plan.pipeline import ROUTE, Plan, run

            adopted = differences.match.adopted
            plan = run(Plan(adopted.name, None, (adopted,), str(planned), digest(planned)), ROUTE, step)
            step("writing")
            write_folder(adopt, plan_files(plan, plan.to_dict(), OF_ROUTE))
    print_notes((*wanted.notes, *found.notes))
    if as_json:
        print_json(differences.to_dict())
    else:
        from plan.render.tables import print_text, show_table

        table = differences.table
        if differences.found:
            racks = () if any(one.rack for one in differences.found) else ("rack",)
            show_table(table, hide=("planned", "found", *racks))
        print_text(table.title)
        if differences.agreeing < HALF * differences.cables:
            click.echo("fewer than half of the cables are as planned: is this the plan of this fabric?")
        for folder, what in ((output, "differences.html to print"), (adopt, "tables for this fabric in opensm/")):
            if folder is not None:
                click.echo(f"written to {folder}: {what}")
    if differences.found:
        raise click.exceptions.Exit(1)


def tell_growth(
    planned: Path,
    target: Path,
    output: Path | None,
    adopt: Path | None,
    subnet: str | None,
    currency: str | None,
    *,
    as_json: bool,
) -> None:
    """Say how to grow from one spec to another."""
    from plan.folder import write_folder
    from plan.growth import check_growth, grow, show

    check_growth(subnet)
    with progress(quiet=as_json) as step:
        step("reading")
        from plan.inputs import digest, read_cluster

        larger = read_cluster(target)
        check_currency(currency, [larger])
        grown = grow(read_cluster(planned), larger, step)
        if output is not None:
            works = {f"works{f'-{one.grown.name}' if len(grown.subnets) > 1 else ''}.csv": one.table.to_csv()
                     for one in grown.subnets}  # fmt: skip
            write_folder(output, {**works, "bought.csv": grown.bought.table.to_csv()})
        if adopt is not None:
            from plan.export.registry import OF_ROUTE, plan_files
            from plan.pipeline import ROUTE, Plan, run

            fabrics = tuple(after.fabric for _, after in grown.routed)
            plan = run(Plan(target.stem, None, fabrics, str(target), digest(target)), ROUTE, step)
            step("writing")
            write_folder(adopt, plan_files(plan, plan.to_dict(), OF_ROUTE))
    if as_json:
        print_json(grown.to_dict(currency))
    else:
        show(grown, currency)
        for folder, what in ((output, "works.csv, step by step"), (adopt, "tables of the larger plan in opensm/")):
            if folder is not None:
                click.echo(f"written to {folder}: {what}")
    if any(growth.works for growth in grown.subnets) or grown.added:
        raise click.exceptions.Exit(1)


def walk_of(path: Path, fabric: Fabric) -> list[tuple[int, str]] | None:
    """Return the place in a walk, and rack and unit, of each node of a plan; None where it has no floor plan."""
    from plan.growth import places
    from plan.inputs import SPEC_SUFFIXES, read_cluster

    if path.is_dir():
        return _walk_of_folder(path / "cables.csv", fabric)
    cluster = read_cluster(path) if path.suffix in SPEC_SUFFIXES else None
    layout = cluster.layout if cluster else None
    if cluster is None or layout is None:
        return None
    subnet = [one.name for one in cluster.fabrics].index(fabric.name)
    racks = layout.rack[layout.node_device[subnet]].tolist()
    return list(zip(racks, places(cluster, subnet), strict=True))


def _walk_of_folder(path: Path, fabric: Fabric) -> list[tuple[int, str]] | None:
    """Return as `walk_of` what the list of cables of a built plan says; every other row of racks is walked backwards.

    Raises
    ------
    FormatError
        When there is such a file and it is another than `plan build` writes.
    """
    from topo import FormatError, budgets, plain_text, read_text

    if not path.is_file():
        return None
    place: dict[str, tuple[str, str]] = {}
    try:
        for row in csv.DictReader(io.StringIO(read_text(path, budgets()["links-bytes"]))):
            place |= {row[f"{end}_port_guid"]: (plain_text(row[f"{end}_rack"]), row[f"{end}_u"]) for end in "ab"}
    except (KeyError, TypeError, csv.Error) as error:
        raise FormatError(f"found {error}; expected the list of cables of `plan build`", str(path)) from None
    if not any(rack for rack, _ in place.values()):
        return None

    def order(rack: str) -> tuple[int, int, str]:
        match = re.fullmatch(r"R([0-9]{1,9})-([0-9]{1,9})", rack)
        row, column = (int(match[1]), int(match[2])) if match else (1 << 30, 0)
        return row, column if row % 2 else -column, rack

    rank = {rack: number for number, rack in enumerate(sorted({rack for rack, _ in place.values()}, key=order))}
    found = []
    for node, first in enumerate(fabric.port_offset[:-1].tolist()):
        guids = fabric.port_guid[first : int(fabric.port_offset[node + 1])].tolist()
        rack, unit = next((place[name] for guid in guids if (name := f"0x{guid:016x}") in place), ("", ""))
        found.append((rank.get(rack, len(rank)), f"{rack} U{unit}" if rack else ""))
    return found
