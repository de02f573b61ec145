"""``plan export``: one of the formats that `plan build` writes, alone."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from plan.commands.options import FILE, as_json, print_json, role_options
from plan.inputs import RoleFiles
from plan.render.progress import progress
from topo import HeddleError, plural


@click.command(short_help="Write one of the formats that `plan build` writes.")
@click.argument("fabric", type=FILE, required=False)
@click.argument("format", required=False)
@click.option("-o", "--output", type=FILE, help="File to write, or folder where a format has several files.")
@click.option("--list", "only_list", is_flag=True, help="List the formats.")
@role_options
@as_json
def export(
    fabric: Path | None, format: str | None, output: Path | None, only_list: bool, hosts: RoleFiles, as_json: bool
) -> None:
    """Write one of the formats of `plan build`, such as `slurm` or `netbox`.

    FABRIC is a spec; a folder of `plan build` or `plan route`, whose files are copied; or a real fabric in any form
    that `plan route` accepts, with the roles of hosts from --roles, --cn-guids and --io-guids. A single file goes to
    standard output unless -o is given.
    """
    from plan.export.registry import EXPORTS, export_files

    if only_list:
        listed = {entry.name: {"files": ", ".join(entry.files), "purpose": entry.purpose} for entry in EXPORTS.values()}
        if as_json:
            print_json({"formats": listed})
        else:
            width = max(map(len, EXPORTS))
            click.echo("\n".join(f"{entry.name:{width}}  {entry.purpose}" for entry in EXPORTS.values()))
        return
    if fabric is None or format is None:
        raise click.UsageError("expected FABRIC and FORMAT, or --list")
    with progress(quiet=as_json or not sys.stderr.isatty()) as step:
        files = export_files(fabric, format, output, hosts=hosts, step=step)
        if output is None and (as_json or len(files) > 1):
            raise HeddleError(f"{format}: found {plural(len(files), 'file')} to write; name a place for them with -o")
    if output is None:
        from plan.staging import chunks

        whole = b"".join(chunks(*files.values()))
        if sys.stdout.isatty() and b"\0" in whole:
            raise HeddleError(f"{format}: found a terminal to write a binary file to; name a file with -o")
        sys.stdout.flush()
        sys.stdout.buffer.write(whole)
    elif as_json:
        print_json({"format": format, "output": str(output), "files": sorted(files)})
    else:
        click.echo(f"wrote {output}", err=True)
