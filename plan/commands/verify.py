"""``plan verify``: prove anybody's tables on any fabric."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from plan.commands.options import FILE, answered, as_json, bundle, endpoints_option, fabric_argument
from plan.inputs import Questions
from plan.render.tables import print_text, show_table, show_tables
from plan.render.terminal import printable, progress
from topo import plural

if TYPE_CHECKING:
    from plan.verification import Answers
    from routing.studies.adaptive import AdaptiveProof, Shares
    from topo import Table

SHOWN_PAIRS = 20
"""Pairs that are shown of many."""


@click.command(short_help="Prove any forwarding tables on any fabric.")
@fabric_argument
@click.argument("lfts", type=FILE, required=False)
@endpoints_option
@click.option("--lids", type=FILE, help="guid2lid, where FABRIC has no LIDs and LFTS no port GUIDs.")
@click.option("--lanes", type=FILE, help="opensm.conf, with the lane of each service level; or ibdiagnet's .slvl.")
@click.option("--policy", type=FILE, help="qos-policy.conf, with the level of each path; or ibdiagnet's .psl.")
@click.option("--adaptive", type=FILE, help="ibdiagnet's .far: prove what the switches hold for adaptive routing.")
@click.option("--multicast", type=FILE, help="opensm.mcfdbs: prove that the multicast groups are trees.")
@click.option("--expect", type=FILE, help="Tables that LFTS should be: entries that differ are faults.")
@click.option("--subnet", help="Subnet, if FABRIC has several.")
@bundle(
    "asked",
    Questions,
    click.option(
        "--path",
        "paths",
        nargs=2,
        multiple=True,
        metavar="A B",
        help="Show every hop, port and lane from A to B and back; each a name, a LID or a GUID.",
    ),
    click.option("--over", multiple=True, metavar="LINK", help="List the pairs that use a link, such as leaf01:21."),
    click.option(
        "--without",
        multiple=True,
        metavar="SWITCH|LINK",
        help="Show the effect of a failure, before and after rerouting; of several, each alone.",
    ),
    click.option("--together", is_flag=True, help="All parts of --without fail at once."),
    click.option(
        "--groups",
        is_flag=True,
        help="Prove groups of ports that adaptive routing could use, with these tables as the escape lane.",
    ),
)
@as_json
def verify(fabric: Path, lfts: Path | None, as_json: bool, **options: Any) -> int:
    """Follow every pair through forwarding tables, and look for credit loops.

    FABRIC is a spec, a folder of `plan build` or `plan route`, or a real fabric from ibnetdiscover or OpenSM
    (opensm-subnet.lst). LFTS is a file of forwarding tables from `plan build`, OpenSM (opensm-lfts.dump, opensm.fdbs)
    or dump_lfts. Omit it for a folder, which contains its own tables and lanes.

    Credit loops are checked lane by lane: with --lanes and --policy on the lanes that OpenSM assigns to paths,
    otherwise on one lane. Tables without a loop on one lane have none on several.

    With --adaptive, packets are followed out of every port that a switch may choose; LFTS may then be left out, for
    the dump has the static ports too.

    --path, --over and --without answer questions about the tables, and can be repeated. They consider the pairs of
    --endpoints; --json lists all of them. --groups shows which ports switches could choose freely, between hosts.

    Exit status 1: a pair is missing, a credit loop is found, a multicast group is no tree, or an entry
    differs from --expect; with --adaptive also by the static ports alone, which traffic takes that is not spread.
    Exit status 3: the dump of --adaptive has several private tables or leaves switches out, and it depends on
    these.
    """
    if lfts is None and options["adaptive"] is None and not fabric.is_dir():
        raise click.UsageError(f"LFTS is missing: name the tables of {fabric}; only a folder of a plan has its own")
    if options["policy"] is not None and options["lanes"] is None and lfts is not None:
        raise click.UsageError("--policy says the service level of each path; --lanes must say the lane of each level")
    if options["asked"].together and len(options["asked"].without) < 2:
        raise click.UsageError("--together says how several parts fail; give --without for each of them")
    with progress(quiet=as_json) as step:
        from plan import verification

        found = verification.verify(fabric, lfts, step=step, **options)
    if not answered(found, as_json=as_json):
        from plan.render.views import show_proof

        if found.adaptive is not None:
            show_adaptive(found.adaptive, found.shares, found.proof.endpoints)
            click.echo(printable(f"{'the static ports' if lfts is None else lfts} alone:"))
        show_proof(found.routed, found.proof, found.bounds, brief=found.answers.given,
                   state="as it is, " * bool(found.answers.without))  # fmt: skip
        show_tables(found.multicast)
        show_answers(found.answers)
        if found.differing is not None:
            click.echo(f"{plural(found.differing, 'entry', 'entries')} not as in {options['expect']}")
        for text in found.examples:
            click.echo(printable(f"not as expected: {text}"))
    return 0 if found.holds else 1 if found.verdict is False else 3


def show_adaptive(found: AdaptiveProof, shares: Shares | None, endpoints: str) -> None:
    """Print the proof of adaptive tables, and what is wrong with them."""
    lost, loops = found.count("lost"), plural(found.count("loops"), "channel")
    print_text(f"adaptive routing, whatever port a switch takes: {found.answer}")
    print_text(f"{found.pairs:,} pairs ({endpoints}), {lost:,} lost by some choice, {loops} in credit loops")
    print_text(
        f"{found.ports:.1f} ports to choose from, in the mean; at most {plural(found.max_hops, 'switch', 'switches')} "
        f"on a path; {found.max_load:,.0f} pairs over the fullest link, if all split evenly"
    )
    if found.verdict is None:
        print_text(
            "it depends on what the dump does not say: the private table that a packet meets, or that of a switch"
        )
    show_tables(found.fault_table if found.faults else None, shares)


def show_answers(answers: Answers) -> None:
    """Print what a user asked; of pairs the first ones."""
    for path in answers.paths:
        print_text(path.table.title)
        show_table(replace(path.table, title=""))
    for use in answers.over:
        show_table(use.table)
        _show_first(use.pair_table)
    for study in answers.without:
        print_text(f"without {study.part}: {study.text}")
        show_tables(study.table, study.lost_table)
        _show_first(study.pair_table)
    if answers.without:
        print_text(
            "fullest link: pairs that arrive over it; effective bisection: the mean over random halves by these "
            "tables, in which pairs that do not arrive count as 0. `plan check` says what share of a switch's or a "
            "server's links a failure takes, which is another figure; `plan repair --down` changes fewer entries than "
            "routing anew, and may be better"
        )
    if len(answers.without) > 1:
        print_text("each of these parts fails alone; --together shows what is lost if all fail at once")
    show_tables(answers.groups, answers.shares)


def _show_first(table: Table) -> None:
    more = len(table) - SHOWN_PAIRS
    columns = tuple(replace(column, values=column.values[:SHOWN_PAIRS]) for column in table.columns)
    if len(table):
        show_table(replace(table, title=table.title + f", the first {SHOWN_PAIRS}" * (more > 0), columns=columns))
    if more > 0:
        print_text(f"and {more:,} more; --json lists all")
