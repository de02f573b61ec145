"""``plan repair``: new tables after failures, with few entries changed, and the order in which to write them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from plan.commands.options import FILE, Number, as_json, fabric_argument, print_json, print_notes, routing_options
from plan.render.progress import progress
from topo import plural

if TYPE_CHECKING:
    from collections.abc import Mapping

    from plan.inputs import RoutingFiles
    from plan.pipeline import Plan
    from routing import Routed
    from topo import Table


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
def repair(
    fabric: Path,
    down: tuple[str, ...],
    now: Path | None,
    loaded: Path | None,
    spare: float | None,
    full: bool,
    output: Path | None,
    given: RoutingFiles,
    as_json: bool,
) -> None:
    """Repair the tables of a fabric after failures, and order the updates of switches.

    FABRIC is the intact fabric with its tables: a folder of `plan build` or `plan route`, a spec, or a real fabric with
    --tables. Name all failed parts, not only new ones: the tables depend only on these. Without failed parts they are
    those of FABRIC, byte for byte.

    Exit status 1: a pair is missing that cables connect, a host has another cable than FABRIC says, or a credit loop is
    found; OUT is written nevertheless.
    """
    from plan.folder import check_replaceable, write_folder

    if output is not None:
        check_replaceable(output, fabric)  # with which later repairs begin
    with progress(quiet=as_json) as step:
        from plan.export.registry import OF_ROUTE, plan_files
        from plan.inputs import read_fabric_argument, read_routed_argument
        from plan.pipeline import STUDY, Plan, Refusal, run

        whole = read_routed_argument(fabric, given, step)
        import numpy as np

        import routing
        from routing.opensm import read_lfts
        from topo import find_missing

        step("repairing")
        ports = [np.zeros(0, np.int32), *(routing.find_part(whole.fabric, part)[0] for part in down)]
        notes, moved = whole.fabric.notes, np.zeros(0, np.int32)
        if now is not None:
            gone, moved, beyond = find_missing(whole.fabric, read_fabric_argument(now))
            ports.append(gone)
            notes += beyond
        done = routing.repair(whole, np.concatenate(ports), spare=spare)
        states = {"repaired": done}
        if full:
            step("routing anew")
            states["routed anew"] = routing.route_anew(done)
        chosen = list(states.values())[-1]
        left = chosen.after.fabric
        before = done.before
        holding = before if loaded is None else replace(before, tables=read_lfts(loaded, whole.fabric).tables)
        step("ordering the updates")
        updates = routing.order_updates(holding, chosen.after, chosen.rank)
        replugged = [
            Refusal("missing", f"{whole.fabric.port_label(port)} has another cable than {whole.fabric.name} says: it "
                    "gets no path. Plug it back, or route the fabric anew as it is now")
            for port in np.intersect1d(moved, done.ports_cut_off)
        ]  # fmt: skip
        plan = Plan(left.name, None, (left,), str(fabric), routed=(chosen.after,), refusals=tuple(replugged))
        plan = run(plan, STUDY, step)
        step("measuring")
        worth = compare_tables(
            {"as loaded": replace(holding, fabric=left)} | {name: state.after for name, state in states.items()}, plan
        )
        well, now_full = routing.prove(whole).max_load, plan.proofs[-1].max_load
        told = chosen.to_dict() | updates.to_dict() | {"fullest_link_when_well": well, "worth": worth.to_dict()}
        document = plan.to_dict() | {"repair": told}
        if output is not None:
            step("writing")
            files = plan_files(plan, document, OF_ROUTE)
            write_folder(output, files | {"updates.csv": updates.write_table.to_csv()})
    print_notes(notes)
    if as_json:
        print_json(document)
    else:
        from plan.render.tables import print_text, show_table

        show_table(chosen.table)
        show_table(worth)
        if any(worth.columns[1].values):
            click.echo("missing: pairs that cables connect; the bisection counts their flows as 0")
        if apart := plan.proofs[-1].disconnected:
            click.echo(f"no cables connect {apart:,} of {plural(plan.proofs[-1].pairs, 'pair')} any longer")
        if updates.stages:
            show_table(updates.table)
        else:
            click.echo("nothing to write: no entry changes")
        if chosen.how != "routed anew" and now_full > FULLER * well:
            more = "--spare 1 takes load off it, " if spare is None and len(done.down) == 2 else ""
            click.echo(f"the fullest link carries {now_full / well:.2f} times what it did when all was well; {more}"
                       "--full says what routing anew would gain")  # fmt: skip
        if len(updates.drained):
            lids = ", ".join(map(str, updates.drained[:8].tolist())) + (" ..." if len(updates.drained) > 8 else "")
            click.echo(f"no order serves both tables: send nothing to {len(updates.drained):,} LIDs meanwhile ({lids})")
        if output is not None:
            click.echo(f"written to {output}: the order of updates in updates.csv, files for OpenSM in opensm/")
    if plan.refusals:
        if not as_json:
            for refusal in plan.refusals:
                print_text(f"{refusal.kind}: {refusal.text}", wrap=False)
        raise click.exceptions.Exit(1)


def compare_tables(states: Mapping[str, Routed], plan: Plan) -> Table:
    """Return what tables are worth side by side, each named; what changes is counted from the first.

    Parameters
    ----------
    states : mapping of str to Routed
    plan : Plan
        That of the last, whose tables are proven and measured there.
    """
    import numpy as np

    import routing
    from topo import Column, Table

    *others, _ = states.values()
    proofs = [*(routing.prove(one) for one in others), *plan.proofs]
    qualities = [routing.measure(one, proof=proof) for one, proof in zip(others, proofs, strict=False)]
    qualities += plan.qualities
    first = others[0].tables.lft
    return Table(
        "what is left",
        (
            Column("tables", list(states)),
            Column("missing", [proof.missing - proof.disconnected for proof in proofs]),
            Column("credit loops", [proof.credit_loops for proof in proofs]),
            Column("entries that change", [int(np.count_nonzero(one.tables.lft != first)) for one in states.values()]),
            Column("fullest link", [proof.max_load for proof in proofs]),
            Column("bisection", [quality.ebb for quality in qualities], digits=".3f"),
        ),
    )
