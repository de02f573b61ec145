"""``plan report``: plans beside one another, and simulations of them, as one page."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from plan.commands.options import FILE, as_json, print_json
from plan.render.progress import progress

if TYPE_CHECKING:
    from plan.report.document import PlanPage, SimulationPage

Page = TypeVar("Page", "PlanPage", "SimulationPage")


@click.command()
@click.argument("folders", type=FILE, nargs=-1, required=True, metavar="OUT...")
@click.option("-o", "--output", type=FILE, default=Path("report.html"), show_default=True, help="File to write.")
@as_json
def report(folders: tuple[Path, ...], output: Path, as_json: bool) -> None:
    """Show plans and simulations on one page.

    OUT are folders of `plan build`, `plan route`, `plan simulate` or `plan operate`. Each contains its own report.html;
    this command joins several. The page is a single file that loads nothing from a network.
    """
    from plan.files import check_suffix, check_writable, write_file
    from plan.report.document import Report
    from plan.report.page import format_report, read_report

    check_suffix(output, ".html")
    check_writable(output, kind="page", magic=b"<!doctype html>")
    with progress(quiet=as_json) as step:
        step("reading")
        found = {folder: read_report(folder) for folder in folders}
        times = Counter(plan.name for one in found.values() for plan in one.plans)
        times += Counter(play.name for one in found.values() for play in one.simulations)

        def named(folder: Path, page: Page) -> Page:
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
