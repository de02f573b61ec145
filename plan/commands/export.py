"""``plan export``, ``plan draw`` and ``plan report``: one format of a plan, a picture, a page of several."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

import topo
from plan.commands.options import FILE, answered, as_json, fabric_argument, print_json, print_notes, role_options
from plan.files import check_suffix, check_writable, write_file
from plan.inputs import read_plan
from plan.render.terminal import progress
from plan.staging import chunks
from topo import HeddleError, plural


@click.command(short_help="Write one of the formats that `plan build` writes.")
@click.argument("fabric", type=FILE, required=False)
@click.argument("format", required=False)
@click.option("-o", "--output", type=FILE, help="File to write, or folder where a format has several files.")
@click.option("--list", "only_list", is_flag=True, help="List the formats, and who reads them.")
@click.option("--subnet", help="One of several subnets of a plan, for which alone the files are.")
@click.option("--check", type=FILE, help="A topology.conf of Slurm, to compare with the fabric instead of writing one.")
@role_options
@as_json
def export(
    fabric: Path | None, format: str | None, output: Path | None, only_list: bool, check: Path | None, as_json: bool,
    **options: Any,
) -> int:  # fmt: skip
    """Write one of the formats of `plan build`, such as `slurm` or `netbox`.

    FABRIC is a spec; a folder of `plan build` or `plan route`, whose files are copied; or a real fabric in any form
    that `plan route` accepts, with the roles of hosts from --roles, --cn-guids and --io-guids. A single file goes to
    standard output unless -o is given. Schedulers are told of the compute network, or of --subnet. With --check, FORMAT
    is slurm, and each node that a topology.conf has in another place than the fabric is listed; the exit status is then
    1.
    """
    from plan.export.registry import EXPORTS, export_files

    if only_list:
        listed = {
            entry.name: {"files": ", ".join(entry.files), "purpose": entry.purpose, "consumer": entry.consumer}
            for entry in EXPORTS.values()
        }
        if as_json:
            print_json({"formats": listed})
        else:
            width = max(map(len, EXPORTS))
            for entry in EXPORTS.values():
                click.echo(f"{entry.name:{width}}  {entry.purpose}\n{'':{width}}  for {entry.consumer}")
        return 0
    if fabric is None or format is None:
        raise click.UsageError("expected FABRIC and FORMAT, or --list")
    if check is not None and (format != "slurm" or output is not None):
        raise click.UsageError("expected --check with the format slurm and without -o")
    notes: list[str] = []
    with progress(quiet=as_json or not sys.stderr.isatty()) as step:
        files = export_files(fabric, format, output, step=step, note=notes.append, **options)
        if check is not None:
            return _check_topology(check, str(files["exports/topology.conf"]), as_json)
        if output is None and (as_json or len(files) > 1):
            raise HeddleError(f"{format}: found {plural(len(files), 'file')} to write; name a place for them with -o")
    print_notes(tuple(notes))
    if output is None:
        whole = b"".join(chunks(*files.values()))
        if sys.stdout.isatty() and b"\0" in whole:
            raise HeddleError(f"{format}: found a terminal to write a binary file to; name a file with -o")
        sys.stdout.flush()
        sys.stdout.buffer.write(whole)
    elif as_json:
        print_json({"format": format, "output": str(output), "files": sorted(files)})
    else:
        click.echo(f"wrote {output}", err=True)
    return 0


def _check_topology(path: Path, ours: str, as_json: bool) -> int:
    """Compare a ``topology.conf`` of a site with what its fabric says; return 1 if they differ."""
    from plan.export.scheduling import compare_topologies, read_topology_conf

    nodes = read_topology_conf(ours)
    differences = compare_topologies(
        read_topology_conf(topo.read_text(path, topo.budgets()["nodes-bytes"]), str(path)), nodes
    )
    if as_json:
        print_json({"agrees": not differences, "nodes": len(nodes), "differences": differences})
    else:
        agreed = f"{path} agrees with the fabric: {plural(len(nodes), 'node')} in {len({*nodes.values()})} units"
        click.echo("\n".join(differences or [agreed]))
    return int(bool(differences))


@click.command()
@click.argument("folders", type=FILE, nargs=-1, required=True, metavar="OUT...")
@click.option("-o", "--output", type=FILE, default=Path("report.html"), show_default=True, help="File to write.")
@as_json
def report(folders: tuple[Path, ...], output: Path, as_json: bool) -> None:
    """Show plans and simulations on one page.

    OUT are folders of `plan build`, `plan route`, `plan simulate` or `plan operate`. Each contains its own report.html;
    this command joins several. The page is a single file that loads nothing from a network.
    """
    from plan.report.document import Report
    from plan.report.page import format_report, read_report

    check_suffix(output, ".html")
    check_writable(output, kind="page", magic=b"<!doctype html>")
    with progress(quiet=as_json) as step:
        step("reading")
        found = {folder: read_report(folder) for folder in folders}
        times = Counter(plan.name for one in found.values() for plan in one.plans)
        times += Counter(play.name for one in found.values() for play in one.simulations)

        def named(folder: Path, page: Any) -> Any:
            return page if times[page.name] == 1 else replace(page, name=f"{page.name} ({folder})")

        together = Report(
            [named(folder, plan) for folder, one in found.items() for plan in one.plans],
            [named(folder, play) for folder, one in found.items() for play in one.simulations],
        )
        step("writing")
        write_file(output, format_report(together))
    if as_json:
        plans = [{"name": plan.name, "verdict": plan.verdict} for plan in together.plans]
        print_json({"file": str(output), "plans": plans, "simulations": [one.name for one in together.simulations]})
    else:
        click.echo(f"wrote {output}; open it in a browser", err=True)


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

        step("reading")
        plan = read_plan(fabric)
        output = output or Path(f"{plan.name}.svg" if view == "fabric" else f"{plan.name}-{view}.svg")
        drawn = picture.draw(plan, output, tables=tables, simulation=simulation, view=view, step=step)
    if not answered(drawn, as_json=as_json):
        shown = "" if output.suffix.lower() in (".png", ".pdf") else "; open it in a browser"
        several = f", which leads to {len(drawn.pages)} pages beside it" if drawn.pages else ""
        click.echo(f"wrote {output}{several}{shown}", err=True)
