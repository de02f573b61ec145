"""``plan mock``: fabrics with known faults, in the files that the tools of the field would write of them."""

from __future__ import annotations

from pathlib import Path

import click

from plan.commands.options import FILE, as_json, print_json


@click.command(short_help="Write fabrics with known faults, to test checks on.")
@click.argument("fabrics", type=FILE, nargs=-1, required=True, metavar="FABRIC...")
@click.option("-o", "--output", type=FILE, required=True, help="Folder for the files and the answer.")
@click.option("--faults", type=click.IntRange(0, 10_000), default=5, show_default=True, help="How many in each.")
@click.option("--kind", "kinds", multiple=True, help="Kind of fault; can be repeated. All but `waiting` if left out.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the draw.")
@click.option("--subnet", help="Subnet or Ethernet, if a single FABRIC has several.")
@as_json
def mock(
    fabrics: tuple[Path, ...], output: Path, faults: int, kinds: tuple[str, ...], seed: int, subnet: str | None,
    as_json: bool,
) -> None:  # fmt: skip
    """Break fabrics in ways that are written down.

    FABRIC is a spec, a folder of `plan build` or a dump; of several, each of their networks has a folder. A folder has
    planned.ibnetdiscover, and of the fabric with the faults what ibnetdiscover, ibdiagnet, dump_fts, perfquery and
    ibqueryerrors print; of an Ethernet what lldpctl prints on each device; and answer.json. Kinds are those of `plan
    diff` (swapped, rotated, moved, missing, extra, misplaced, degraded, replaced), errors on links, and waiting for one
    that is slow.
    """
    from plan import mocking

    drawn = kinds or mocking.FAULTS
    if len(fabrics) > 1 and subnet is not None:
        raise click.UsageError("expected --subnet with a single FABRIC")
    if len(fabrics) == 1:
        made = {"": mocking.mock(fabrics[0], output, faults=faults, kinds=drawn, seed=seed, subnet=subnet)}
    else:
        made = mocking.mock_each(fabrics, output, faults=faults, kinds=drawn, seed=seed)
    if as_json:
        print_json({name: one.to_dict() for name, one in made.items()} if len(fabrics) > 1 else made[""].to_dict())
        return
    from plan.render.tables import show_table

    for one in made.values():
        show_table(one.table)
    click.echo(f"written to {output}: the answer is answer.json{'' if len(made) == 1 else ' in each folder'}")
