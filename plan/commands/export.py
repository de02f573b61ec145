"""``plan export``: one of the formats that `plan build` writes, alone."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from plan.commands.options import FILE, as_json, print_json, role_options
from plan.inputs import RoleFiles
from plan.render.progress import progress
from topo import HeddleError, did_you_mean, plural


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
    from plan.export.registry import EXPORTS

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
    if format not in EXPORTS:
        hint = did_you_mean(format, EXPORTS)
        raise HeddleError(f"FORMAT: found {format[:60]!r}; expected one of {', '.join(EXPORTS)}. {hint}".strip())
    from plan.files import check_suffix, check_writable, write_file
    from plan.folder import check_replaceable, write_folder
    from plan.staging import chunks

    with progress(quiet=as_json or not sys.stderr.isatty()) as step:
        step("reading")
        files = EXPORTS[format].files_of(fabric, step, hosts)
        if output is None and (as_json or len(files) > 1):
            raise HeddleError(f"{format}: found {plural(len(files), 'file')} to write; name a place for them with -o")
        if output is not None and len(files) > 1:
            check_replaceable(output, keep_plan=True)
            top = os.path.commonpath([Path(name).parent for name in files])
            write_folder(output, {os.path.relpath(name, top): content for name, content in files.items()})
        elif output is not None:
            check_writable(output, [fabric])
            check_suffix(output, Path(*files).suffix)
            write_file(output, *files.values())
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
