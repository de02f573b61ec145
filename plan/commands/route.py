"""``plan route``: tables for a real fabric."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from plan.commands.options import (
    FILE,
    as_json,
    endpoints_option,
    fabric_argument,
    output_folder,
    print_json,
    print_notes,
    roles_option,
    seed_option,
    subnet_option,
)
from plan.render.progress import progress
from plan.render.route_view import show_comparison, show_failures, show_rehearsal, show_subnet
from topo.errors import HeddleError, RoutingError, did_you_mean

if TYPE_CHECKING:
    from plan.opensm_lab.comparison import Contender
    from plan.subnet import Subnet
    from routing.endpoints import EndpointSet


@click.command(short_help="Route any fabric, and write what OpenSM loads.")
@fabric_argument
@output_folder
@click.option("--engine", help="fat-tree, zoned, balanced, ... or auto, which picks and says why.")
@roles_option
@click.option("--cn-guids", type=FILE, help="Port GUIDs of the hosts that compute, one a line.")
@click.option("--io-guids", type=FILE, help="Port GUIDs of the hosts that store, one a line.")
@click.option(
    "--lanes",
    type=click.IntRange(1, 8),
    help="Data lanes that paths may need to be free of credit loops; as many as the engine takes when left out.",
)
@endpoints_option
@click.option(
    "--compare", type=click.Choice(["opensm"]), help="Run the engines of a real OpenSM beside it, over ibsim."
)
@click.option(
    "--rehearse", is_flag=True, help="Load the tables into a real OpenSM over ibsim, and let ibdmchk judge them."
)
@click.option(
    "--failures",
    type=click.IntRange(min=1),
    help="Let so many links between switches fail at random, route what is left, and say what it still holds.",
)
@subnet_option
@seed_option("Seed of random traffic and failures.")
@as_json
def route(
    fabric: Path,
    output: Path,
    engine: str | None,
    roles: Path | None,
    cn_guids: Path | None,
    io_guids: Path | None,
    lanes: int | None,
    endpoints: str,
    compare: str | None,
    rehearse: bool,
    failures: int | None,
    subnet: str | None,
    seed: int,
    as_json: bool,
) -> None:
    """Route any fabric, prove the tables, measure them, and write what OpenSM loads.

    FABRIC is a real fabric as ibnetdiscover prints it or OpenSM lists it (opensm-subnet.lst), a folder that `plan`
    wrote, or a spec. Levels, zones and joints are found from the wiring; LIDs that the fabric has are kept.

    Exit status 1 when a pair is missing that cables connect, a credit loop is found, or a rehearsal does not end as
    planned; OUT is written all the same. It is 1 and nothing is written when paths need more lanes than --lanes.
    """
    from plan.folder import check_replaceable, write_folder
    from plan.inputs import give_roles, read_fabric_argument

    check_replaceable(output)
    with progress(quiet=as_json) as step:
        step("reading the fabric")
        source = read_fabric_argument(fabric, subnet)
        known, more = give_roles(source, roles, cn_guids, io_guids)
        from plan.opensm_lab.comparison import check_tools, compare_with_opensm
        from plan.opensm_lab.rehearsal import rehearse as rehearse_subnet
        from plan.render.route_output import route_document, route_files
        from plan.subnet import route_subnet
        from routing.diversity import study_failures
        from routing.engines.base import ENGINES

        if compare or rehearse:
            check_tools()
        wanted = source.engine if engine is None else engine
        if wanted not in ("auto", *ENGINES):
            hint = did_you_mean(wanted, ENGINES)
            raise HeddleError(
                f"--engine: found {wanted!r}; expected auto or one of {', '.join(ENGINES)}. {hint}".strip()
            )
        why = "as asked" if engine is not None else "as the spec says"
        ends: EndpointSet = endpoints  # type: ignore[assignment]  # click has checked it
        routed = route_subnet(known, wanted, why, lanes=lanes, endpoints=ends, in_tree_order=True, seed=seed, step=step)
        if not routed.proof.pairs:
            raise HeddleError(
                f"{fabric}: found {len(routed.proof.ends):,} end ports ({endpoints}); expected two at least"
            )
        document = route_document(routed, fabric, seed)
        if routed.proof.credit_loops:
            step("counting the lanes that would do")
            document["advice"] = advice(routed)
        if failures:
            step("failing links")
            study = study_failures(known, failures, engine=wanted, lanes=lanes, endpoints=ends, seed=seed)
            document["failures"] = study.to_dict()
        step("writing")
        write_folder(output, route_files(routed, document))
        rehearsal = rehearse_subnet(routed, step) if rehearse else None
        contenders: Sequence[Contender] = ()
        if compare:
            contenders = compare_with_opensm(routed, ends, in_tree_order=True, seed=seed, step=step)
    print_notes((*source.notes, *more))
    if as_json:
        judged = {"rehearsal": rehearsal.summary()} if rehearsal else {}
        print_json(document | judged | ({"opensm": [row.summary() for row in contenders]} if compare else {}))
    else:
        show_subnet(routed)
        if failures:
            show_failures(document["failures"])
        if rehearsal:
            show_rehearsal(rehearsal)
        if contenders:
            show_comparison(contenders)
        if routed.tables.path_sl is not None:
            lanes_taken = max(routed.tables.sl2vl) + 1
            click.echo(f"{lanes_taken} lanes: safe only if all hosts ask OpenSM for paths (opensm/README.md)")
        if "advice" in document:
            click.echo(f"REFUSED: {document['advice']}", err=True)
        click.echo(f"written to {output}: every figure in plan.json, what OpenSM loads in opensm/")
    if not document["holds"] or (rehearsal and not rehearsal.holds):
        raise click.exceptions.Exit(1)


def advice(subnet: Subnet) -> str:
    """Say what would free tables of their credit loops: how many lanes, or that no number does."""
    from routing.lanes.classes import DATA_LANES
    from routing.lanes.fit import fit_lanes

    tables = fit_lanes(subnet.fabric, subnet.tables, 1)
    try:
        freed = fit_lanes(subnet.fabric, tables, DATA_LANES)
    except RoutingError as error:
        return str(error)
    now, then = subnet.proof.lanes, max(freed.sl2vl) + 1
    return (
        f"credit loops on {now} lane{'s' if now > 1 else ''}; --lanes {then} would do, if all hosts ask OpenSM for "
        "their paths, and the engine `balanced` needs one lane"
    )
