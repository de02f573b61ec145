"""``plan verify``: prove anybody's tables on any fabric."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from plan.commands.options import FILE, as_json, bundle, endpoints_option, fabric_argument, print_json, print_notes
from plan.loss_study import Questions, answer
from plan.render.progress import progress
from plan.render.terminal import printable
from topo import HeddleError, RoutingError, plural

if TYPE_CHECKING:
    from routing import RoutingTables
    from topo import Fabric


@click.command(short_help="Prove any forwarding tables on any fabric.")
@fabric_argument
@click.argument("lfts", type=FILE, required=False)
@endpoints_option
@click.option("--lids", type=FILE, help="guid2lid, where FABRIC has no LIDs and LFTS no port GUIDs.")
@click.option("--lanes", type=FILE, help="opensm.conf, with the lane of each service level; or ibdiagnet's .slvl.")
@click.option("--policy", type=FILE, help="qos-policy.conf, with the level of each path; or ibdiagnet's .psl.")
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
        help="Show the effect of a failure, at once and after rerouting.",
    ),
    click.option(
        "--adaptive",
        is_flag=True,
        help="Prove groups of ports for adaptive routing, with these tables as the escape lane.",
    ),
)
@as_json
def verify(
    fabric: Path,
    lfts: Path | None,
    endpoints: str,
    lids: Path | None,
    lanes: Path | None,
    policy: Path | None,
    expect: Path | None,
    subnet: str | None,
    asked: Questions,
    as_json: bool,
) -> None:
    """Follow every pair through forwarding tables, and look for credit loops.

    FABRIC is a spec, a folder of `plan build` or `plan route`, or a real fabric from ibnetdiscover or OpenSM
    (opensm-subnet.lst). LFTS is a file of forwarding tables from `plan build`, OpenSM (opensm-lfts.dump, opensm.fdbs)
    or dump_lfts. Omit it for a folder, which contains its own tables and lanes.

    Credit loops are checked lane by lane: with --lanes and --policy on the lanes that OpenSM assigns to paths,
    otherwise on one lane. Tables without a loop on one lane have none on several.

    --path, --over and --without answer questions about the tables, and can be repeated. They consider the pairs of
    --endpoints; --json lists all of them. --adaptive shows which ports switches may choose freely, between hosts.

    Exit status 1: a pair is missing, a credit loop is found, or an entry differs from --expect.
    """
    from plan.inputs import files_of_folder, give_lids, read_fabric_argument

    of_folder = None
    if lfts is None:
        if not fabric.is_dir():
            raise click.UsageError(f"LFTS is missing: name the tables of {fabric}; only a folder of a plan has its own")
        of_folder = files_of_folder(fabric, subnet)
        lfts, lanes, policy = of_folder.tables, lanes or of_folder.lanes, policy or of_folder.policy
        assert lfts is not None
    if policy is not None and lanes is None:
        raise click.UsageError("--policy says the service level of each path; --lanes must say the lane of each level")
    with progress(quiet=as_json) as step:
        step("reading the fabric")
        source = read_fabric_argument(fabric, subnet)
        if lids is not None:
            source = give_lids(source, lids)
        import routing
        from routing.lanes import apply_policy
        from routing.opensm import read_lanes, read_levels, read_lfts

        step("reading the tables")
        read = read_lfts(lfts, source)
        tables = read.tables
        if policy is not None:
            # A policy of classes gives no level to a path: tables that it suits are judged on one lane.
            with suppress(RoutingError) if of_folder else nullcontext():
                levels = read_levels(policy, source, tables)
                tables = levels if isinstance(levels, routing.RoutingTables) else apply_policy(source, tables, levels)
        if lanes is not None and (of_folder is None or tables.path_sl is not None):
            tables = replace(tables, sl2vl=read_lanes(lanes).sl2vl)
        count, odd = 0, []
        if expect is not None:
            step("comparing")
            wanted = read_lfts(expect, source).tables
            entries = routing.repairs.differing_entries(source, wanted, tables)
            count = len(entries)
            odd = [describe_entry(source, wanted, tables, *pair) for pair in entries[:10].tolist()]
        step("proving")
        routed = routing.Routed(source, tables)
        proof = routing.prove(routed, endpoints)  # click checks it
        step("bounding")
        bounds = routing.studies.bound(source, proof.ends, reached=0 if tables.lmc else proof.max_load)
        step("answering")
        answers = answer(routed, asked, endpoints)  # type: ignore[arg-type]
    print_notes((*source.notes, *read.notes))
    if not proof.pairs:
        raise HeddleError(
            f"{fabric}: found {plural(len(proof.ends), 'end port')} ({endpoints}); expected at least two, or there is "
            "nothing to prove. Is the file whole?"
        )
    if as_json:
        from plan.documents import proof_document

        judged = proof_document(source, proof) | {"bounds": bounds.to_dict()}
        compared = {} if expect is None else {"differing": count, "differing_examples": odd}
        print_json(judged | compared | answers.to_dict())
    else:
        from plan.render.views import show_answers, show_proof

        show_proof(routed, proof, bounds, brief=answers.given)
        show_answers(answers)
        if expect is not None:
            click.echo(f"{plural(count, 'entry', 'entries')} not as in {expect}")
        for text in odd:
            click.echo(printable(f"not as expected: {text}"))
    if not proof.holds or count:
        raise click.exceptions.Exit(1)


def describe_entry(fabric: Fabric, wanted: RoutingTables, found: RoutingTables, switch: int, end: int) -> str:
    """Return one line for an entry that is not as expected."""
    from routing import NO_PATH, end_label

    ports = []
    for tables in (wanted, found):
        lid = int(tables.lid[end])
        port = int(tables.lft[switch, lid]) if 0 < lid < tables.lft.shape[1] else NO_PATH
        ports.append("nothing" if port == NO_PATH else f"port {port}")
    return f"{fabric.label(switch)} to {end_label(fabric, end)}: {ports[1]}; expected {ports[0]}"
