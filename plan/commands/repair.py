"""``plan repair`` and ``plan keep``: tables after failures, for once, or in the switches of a live fabric."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from plan.commands.options import FILE, Number, answered, as_json, fabric_argument, routing_options
from plan.files import check_writable, write_file
from plan.inputs import RoutingFiles, read_routed_argument
from plan.render.tables import print_text, show_table
from plan.render.terminal import print_error, progress
from plan.signals import renew
from topo import HeddleError, plural

FULLER = 1.02
"""How much fuller the fullest link may be after a repair than before without a word on it."""


@click.command(short_help="Repair tables after failures, with few entries changed.")
@fabric_argument
@click.option(
    "--down",
    multiple=True,
    metavar="LINK|SWITCH|NODE",
    help="What has failed, such as leaf01:21, spine02 or gpu0007; can be given several times.",
)
@click.option("--now", type=FILE, help="The fabric as it is now, read anew: what it lacks has failed.")
@click.option(
    "--most-down",
    type=click.IntRange(0),
    metavar="CABLES",
    help="Cables that --now may lack; by default as many as the largest switch has. More is refused.",
)
@click.option("--loaded", type=FILE, help="Tables that the switches hold now; those of FABRIC when left out.")
@click.option(
    "--spare",
    type=Number(min=0, max=100),
    help="Further entries that may change to take load off the fullest link, as a share of the necessary ones; by "
    "default 0 after a single cable, otherwise 1.",
)
@click.option("--full", is_flag=True, help="Route all anew and say what that gains; OUT then holds those tables.")
@click.option(
    "-o", "--output", type=FILE, help="Folder to write, as `plan route` writes it, with the order of updates."
)
@routing_options
@as_json
def repair(fabric: Path, spare: float | None, output: Path | None, as_json: bool, **options: Any) -> int:
    """Repair the tables of a fabric after failures, and order the updates of switches.

    FABRIC is the intact fabric with its tables: a folder of `plan build` or `plan route`, a spec, or a real fabric with
    --tables. Name all failed parts, not only new ones: the tables depend only on these. Without failed parts they are
    those of FABRIC, byte for byte.

    Exit status 1: a pair is missing that cables connect, a host has another cable than FABRIC says, or a credit loop is
    found; OUT is written nevertheless.
    """
    with progress(quiet=as_json) as step:
        from plan import repairing

        found = repairing.repair(fabric, output, spare=spare, step=step, **options)
    if not answered(found, as_json=as_json):
        show_table(found.repair.table)
        show_table(found.worth)
        if any(found.worth.columns[1].values):
            click.echo(
                "missing: pairs that cables connect; the effective bisection, of end ports that keep a cable, counts "
                "their flows as 0"
            )
        proof = found.plan.proofs[-1]
        if apart := proof.disconnected:
            click.echo(f"no cables connect {apart:,} of {plural(proof.pairs, 'pair')} any longer")
        if found.updates.stages:
            show_table(found.updates.table)
        else:
            click.echo("nothing to write: no entry changes")
        if found.repair.how != "routed anew" and proof.max_load > FULLER * found.max_load_before:
            more = "--spare 1 takes load off it, " if spare is None and len(found.repair.down) == 2 else ""
            click.echo(f"the fullest link carries {proof.max_load / found.max_load_before:.2f} times what it did when "
                       f"all was well; {more}--full says whether routing anew is better")  # fmt: skip
        loads = dict(zip(*(found.worth.columns[at].values for at in (0, 4)), strict=True))
        if loads.get("routed anew", 0) > loads["repaired"]:
            click.echo(f"routing anew is worse: {loads['routed anew']:,} pairs over the fullest link, and "
                       f"{loads['repaired']:,} when repaired; leave --full out")  # fmt: skip
        if drained := found.updates.drained.tolist():
            lids = ", ".join(map(str, drained[:8])) + (" ..." if len(drained) > 8 else "")
            click.echo(f"no order serves both tables: send nothing to {len(drained):,} LIDs meanwhile ({lids})")
        if output is not None:
            click.echo(f"written to {output}: the order of updates in updates.csv, files for OpenSM in opensm/")
        for refusal in found.plan.refusals:
            print_text(str(refusal), wrap=False)
    return int(bool(found.plan.refusals))


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
    "switch_life_s",
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
    fabric: Path, now: Path, load: Path, read: str, reload: str, every: float | None, metrics: Path | None,
    given: RoutingFiles, as_json: bool, **options: Any,
) -> int:  # fmt: skip
    """Bring the switches of a live fabric to the best tables for what is up, and read back that they hold them.

    FABRIC is the intact fabric with its tables, as for `plan repair`. A pass reads the tables from the switches,
    repairs those of FABRIC for what is up, writes the next stage of updates to the file of --load, tells OpenSM, reads
    the switches until they hold it, and waits until packets that were sent before have left the network. Parts that
    are not as FABRIC says are named; what can be repaired is repaired nevertheless.

    Exit status 0: the switches hold tables that deliver every pair that cables connect, without a credit loop. 1:
    something is left to do, which is named. 2: the fabric or its switches could not be read, or OpenSM did not load the
    tables.
    """
    from plan.keeping import Keeper, failed_metrics, passes, run_program

    if metrics is not None:
        check_writable(metrics, [now, load])
    with progress(quiet=as_json) as step:
        routed = read_routed_argument(fabric, given, step)
    keeper = Keeper(routed, now, load, partial(run_program, read), partial(run_program, reload), **options)
    for kept in passes(keeper, every):
        if metrics is not None:
            write_file(metrics, failed_metrics() if isinstance(kept, HeddleError) else kept.metrics)
        if not isinstance(kept, HeddleError):
            if not answered(kept, as_json=as_json):
                show_table(kept.table)
                for finding in kept.left:
                    print_text(str(finding), wrap=False)
            status = int(not kept.holds)
        elif every is None:
            raise kept
        else:
            print_error(str(kept))
        renew()
    return status
