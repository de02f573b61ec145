"""``plan keep``: the best tables for what is up in the switches of a live fabric, read back from them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from plan.commands.options import FILE, Number, as_json, fabric_argument, print_json, print_notes, routing_options
from plan.render.progress import progress

if TYPE_CHECKING:
    from plan.inputs import RoutingFiles
    from plan.keeping import Kept


@click.command(short_help="Keep the tables of a live fabric as good as what is up allows.")
@fabric_argument
@click.option(
    "--now", type=FILE, required=True, help="The fabric as it is now, such as OpenSM's /var/log/opensm-subnet.lst."
)
@click.option("--load", type=FILE, required=True, help="File of tables that OpenSM loads: its lfts_file.")
@click.option(
    "--read", default="dump_fts", show_default=True, help="Program that prints the tables that the switches hold."
)
@click.option(
    "--reload",
    default="pkill -HUP -x opensm",
    show_default=True,
    help="Program that makes OpenSM load the file; no shell is used.",
)
@click.option(
    "--most-down", type=click.IntRange(0), metavar="CABLES", help="Cables that --now may lack, as for plan repair."
)
@click.option(
    "--switch-life",
    type=Number(min=0, max=60),
    default=1.0737,
    show_default=True,
    help="Seconds after which a switch drops a packet: 4.096e-6 * 2^packet_life_time of opensm.conf.",
)
@click.option(
    "--every",
    type=Number(min=1, max=86400),
    metavar="SECONDS",
    help="Stay and keep whenever --now changes, and that often; otherwise once.",
)
@click.option("--metrics", type=FILE, help="File for the textfile collector of Prometheus, such as heddle.prom.")
@routing_options
@as_json
def keep(
    fabric: Path,
    now: Path,
    load: Path,
    read: str,
    reload: str,
    most_down: int | None,
    switch_life: float,
    every: float | None,
    metrics: Path | None,
    given: RoutingFiles,
    as_json: bool,
) -> None:
    """Bring the switches of a live fabric to the best tables for what is up, and read back that they hold them.

    FABRIC is the intact fabric with its tables, as for `plan repair`. A pass reads the tables from the switches,
    repairs those of FABRIC for what is up, writes the next stage of updates to the file of --load, tells OpenSM, reads
    the switches until they hold it, and waits until packets that were sent before have left the network. Parts that
    are not as FABRIC says are named; what can be repaired is repaired nevertheless.

    Exit status 0: the switches hold tables that deliver every pair that cables connect, without a credit loop. 1:
    something is left to do, which is named. 2: the fabric or its switches could not be read, or OpenSM did not load the
    tables.
    """
    from functools import partial

    from plan.files import check_writable, write_file
    from plan.inputs import read_routed_argument
    from plan.keeping import Keeper, failed_metrics, passes, run_program
    from plan.render.terminal import print_error
    from plan.signals import renew
    from topo import HeddleError

    if metrics is not None:
        check_writable(metrics, [now, load])

    def told(kept: Kept | HeddleError) -> Kept | HeddleError:
        if metrics is not None:
            write_file(metrics, failed_metrics() if isinstance(kept, HeddleError) else kept.metrics)
        if not isinstance(kept, HeddleError):
            show_kept(kept, as_json=as_json)
        return kept

    with progress(quiet=as_json) as step:
        routed = read_routed_argument(fabric, given, step)
    keeper = Keeper(routed, now, load, partial(run_program, read), partial(run_program, reload), most_down, switch_life)
    for kept in map(told, passes(keeper, every)):
        if every is None:
            if isinstance(kept, HeddleError):
                raise kept
            raise click.exceptions.Exit(int(not kept.holds))
        if isinstance(kept, HeddleError):
            print_error(str(kept))
        renew()


def show_kept(kept: Kept, *, as_json: bool) -> None:
    """Print what a pass did and what it left."""
    print_notes(kept.notes)
    if as_json:
        print_json(kept.to_dict())
        return
    from plan.render.tables import print_text, show_table

    show_table(kept.table)
    for finding in kept.left:
        print_text(str(finding), wrap=False)
