"""What a person sees of a routed fabric: its figures, what failures leave of it, and OpenSM's engines beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from plan.render.terminal import console, printable
from plan.render.verdict import load_table, print_faults, telling

if TYPE_CHECKING:
    from rich.table import Table

    from plan.opensm_lab.comparison import Contender
    from plan.opensm_lab.rehearsal import Rehearsal
    from plan.subnet import Subnet
    from routing.quality import Quality


def show_subnet(subnet: Subnet) -> None:
    """Print what a person wants to know of a routed fabric."""
    from rich.markup import escape
    from rich.table import Table

    out = console()
    fabric, proof, quality = subnet.fabric, subnet.proof, subnet.quality
    table = Table(title=escape(printable(fabric.name)) or "the fabric", show_header=False, title_justify="left")
    table.add_column(style="dim")
    table.add_column()
    counts = fabric.counts()
    tiers = ((counts.leaf, "leaf"), (counts.spine, "spine"), (counts.core, "core"), (counts.joint, "joint"))
    places = ", ".join(f"{count:,} {name}" for count, name in tiers if count)
    zones = f" in {counts.zones} zones" if counts.zones > 1 else ""
    table.add_row("switches", f"{counts.switches:,} ({places or 'no tree'}){zones}, {counts.links:,} links")
    nodes = (
        (counts.gpu_nodes, "compute"),
        (counts.storage_nodes, "storage"),
        (counts.management_nodes, "management"),
    )
    hosts = ", ".join(f"{count:,} {name}" for count, name in nodes if count)
    sharp = f", {counts.aggregation_nodes:,} aggregation nodes" if counts.aggregation_nodes else ""
    table.add_row("hosts", f"{hosts}; {counts.host_ports:,} ports{sharp}")
    table.add_row("engine", f"{subnet.tables.engine}: {escape(printable(subnet.why))}")
    verdict = "[red]REFUSED[/]" if subnet.lost or proof.credit_loops else "[green]proven[/]"
    apart = f", {proof.disconnected:,} have no path of cables" if proof.disconnected else ""
    table.add_row(
        "proof",
        f"{verdict}: {proof.pairs:,} pairs ({proof.endpoints}), {subnet.lost:,} missing{apart}, {proof.credit_loops:,} "
        f"channels in credit loops on {proof.lanes} lane{'s' if proof.lanes != 1 else ''}",
    )
    table.add_row("paths", f"at most {proof.max_hops} switches, and {proof.stretch} more than the shortest")
    if proof.classes:
        _add_quality(table, quality)
    out.print(table)
    if proof.classes:
        out.print(load_table(proof))
    shares = Table(title="destinations over each uplink of a leaf", title_justify="left")
    for heading in ("of role", "uplinks", "used", "least", "mean of used", "most"):
        shares.add_column(heading, justify="left" if heading == "of role" else "right")
    for share in telling(quality.uplinks):
        role = "all" if share.role is None else share.role.name.lower()
        shares.add_row(
            role, f"{share.uplinks:,}", f"{share.used:,}", f"{share.min:,}", f"{share.mean:,.1f}", f"{share.max:,}"
        )
    if any(share.uplinks for share in quality.uplinks):
        out.print(shares)
    print_faults(out, fabric, proof)


def _add_quality(table: Table, quality: Quality) -> None:
    """Add the rows of how flows meet on links between switches."""
    table.add_row(
        "load",
        f"{quality.max_load:,} pairs over the most loaded link, {quality.balance:.2f} times the mean of those used",
    )
    table.add_row(
        "flows at one time",
        f"random halves (effective bisection) get {quality.ebb:.3f} of a link each, random permutations "
        f"{quality.permutation.bandwidth:.3f}",
    )
    for name, phases in (("shifts", quality.shift), ("halving-doubling", quality.halving_doubling)):
        table.add_row(
            name,
            f"on the fullest link {phases.max_load_median:g} at one time in the median, {phases.max_load_worst} in the "
            f"worst of {phases.phases:,}",
        )


def show_failures(study: dict[str, Any]) -> None:
    """Print what random failures leave of a fabric."""
    out = console()
    before, after = study["before"], study["after"]
    out.print(
        f"when {study['links']:,} links fail (plan.json names them), cables connect {study['connected']:,} of "
        f"{study['pairs']:,} pairs, and {study['delivered']:,} arrive by tables made anew: {study['credit_loops']:,} "
        f"channels in credit loops, at most {study['max_hops']} switches, {study['max_load']:,} pairs over the most "
        "loaded link"
    )
    out.print(
        f"shortest paths without a common cable, over {before['pairs']:,} pairs of leaves: {before['mean']:.2f} in the "
        f"mean and {before['least']} at least; after the failures {after['mean']:.2f} and {after['least']}"
    )


def show_rehearsal(rehearsal: Rehearsal) -> None:
    """Print whether a real OpenSM loads what was written."""
    out, verdict = console(), rehearsal.ibdmchk
    held = "[green]as planned[/]" if not rehearsal.differing and not rehearsal.lids else "[red]NOT AS PLANNED[/]"
    loops = {True: "credit loops", False: "no credit loop", None: "loops not looked for"}[verdict.loops]
    out.print(
        f"rehearsed with OpenSM over ibsim: {held}, {rehearsal.differing:,} of {rehearsal.entries:,} entries differ "
        f"and {rehearsal.lids:,} LIDs"
    )
    out.print(f"ibdmchk: {verdict.pairs:,} pairs, {verdict.missing:,} missing, {loops} on one lane")
    for error in rehearsal.errors:
        out.print(f"OpenSM: {printable(error)}", markup=False)


def show_comparison(contenders: Sequence[Contender]) -> None:
    """Print engines side by side."""
    from rich.table import Table

    out = console()
    table = Table(title="beside the engines of OpenSM, all judged on one lane", title_justify="left")
    table.add_column("engine")
    for heading in (
        "missing",
        "loops",
        "lanes",
        "switches",
        "max load",
        "balance",
        "bisection",
        "random",
        "shift",
        "s",
    ):
        table.add_column(heading, justify="right")
    failed = [row for row in contenders if row.failure]
    for row in contenders:
        proof, quality = row.proof, row.quality
        if proof is None or quality is None:
            table.add_row(row.engine, "fails")
            continue
        figures = (proof.missing, proof.credit_loops, row.lanes, proof.max_hops, quality.max_load)
        table.add_row(
            row.engine,
            *(f"{figure:,}" for figure in figures),
            f"{quality.balance:.2f}",
            f"{quality.ebb:.3f}",
            f"{quality.permutation.bandwidth:.3f}",
            f"{quality.shift.max_load_worst}",
            f"{row.seconds:.2f}",
        )
    out.print(table)
    out.print(
        "loops: channels in credit loops on one lane; lanes: what the engine asks for to have none; switches: on the "
        "longest path; max load: pairs over one link; balance: that by the mean; bisection: effective, 1 is full; "
        "random: bandwidth of random permutations; shift: flows on the fullest link of the worst; s: seconds of routing"
    )
    for row in failed:
        out.print(f"{row.engine}: {printable(row.failure)}", markup=False)
    if any(row.proof and row.proof.missing for row in contenders):
        out.print(
            "where pairs are missing, bisection and permutation are those of what arrives, and lost flows count 0"
        )
