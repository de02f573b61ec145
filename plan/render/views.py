"""What a person sees of a plan, a proof, failures and a comparison with OpenSM: facts, tables, lines."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING

import costmodel
import topo
from plan.cures import fewer_racks, fewer_switches, more_spines, no_manager
from plan.render.tables import print_text, show_facts, show_table
from plan.render.terminal import print_error
from plan.render.verdict import islands, verdict_line
from topo import Sum, Table, Verdict, compress, count, percent, plural

if TYPE_CHECKING:
    from costmodel import Quote
    from plan.opensm_lab.trials import Contender, Rehearsal
    from plan.pipeline import Plan
    from routing import Proof, Routed
    from routing.quality import Quality
    from routing.studies import Bounds, FailureStudy
    from topo import Check, Counts, Fabric, Layout, PortUse


ENDS = {"hca": "host ports", "adapters": "adapters", "all": "end ports"}
"""What pairs are of, by the set of ends that a proof takes."""
LARGEST = " (largest of a switch, by what servers lose: one another, then bandwidth, compute servers first)"
"""The rule by which a failure is the largest, as `topo.Loss.weight` has it."""


def show_plan(plan: Plan) -> None:
    """Print what a person wants to know of a plan; of a real fabric how its tables spread traffic, too."""
    print_text(verdict_line(plan))
    show_facts("", facts(plan))
    if plan.cluster is None:
        for routed, proof, quality in zip(plan.routed, plan.proofs, plan.qualities, strict=True):
            if routed.candidates:
                show_table(routed.candidate_table)
            for words in topo.slow_cables(routed.fabric) + topo.uneven_links(routed.fabric):
                print_text(words)
            if proof.classes:
                show_table(_telling(proof.load_table, "destinations"))
            if any(share.uplinks for share in quality.uplinks):
                show_table(_telling(quality.uplink_table, "role"))
    document = plan.cluster and plan.cluster.document
    show_checks(plan.budget, document.where if document else lambda *keys: "plan")
    for kind in ("island", "missing", "credit loop"):
        for words in plan.refused(kind):
            print_error(f"REFUSED, {kind}: {words}")
    if plan.advice:
        print_error(f"REFUSED: {plan.advice}")


def show_checks(checks: Iterable[Check], where: Callable[..., str]) -> None:
    """Print the limits that do not hold or cannot be judged, at their places in the spec."""
    for check in checks:
        if check.verdict is Verdict.HOLDS:
            continue
        survives = check.what.startswith("survives ")
        place = where(*check.key.split("."))
        if check.verdict is Verdict.EXCEEDED:
            words, cure = "REFUSED" if survives else "REFUSED, over budget", check.cure
        else:
            cure = ""  # the text has what is unknown
            words = "CANNOT TELL whether it does" if survives else "CANNOT TELL whether the budget holds"
        print_error(f"{place}: {words}: {check.what}: {check.text}{cure and f'; {cure}'}")


def facts(plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield what a person wants to know of a plan, each with its name."""
    assert plan.counts is not None
    if limits := [check for check in plan.budget if check.allowed]:
        yield "limits", "; ".join(f"{check.what} {check.found} of {check.allowed}{check.doubt and f' ({check.doubt})'}"
                                  for check in limits)  # fmt: skip
    if plan.quote is not None:
        yield from _priced(plan.quote, asked=plan.options.currency)
    if plan.layout is not None:
        yield "racks", _racks(plan, plan.layout)
    if plan.losses is not None:
        worst, of_all = plan.losses.worst, plan.losses.largest
        for loss in sorted(worst, key=lambda loss: loss is not of_all):
            name = "largest failure" if loss is of_all else f"failure of a {loss.kind}"
            yield name, f"{loss}{more_spines(plan.planned, loss, plan.quote)}{LARGEST * (loss is of_all)}"
    unknown = [*_unknown(plan.quote)] if plan.quote is not None else []
    unknown += plan.losses.unknown if plan.losses is not None else ()
    if unknown:
        yield "unknown", "; ".join(unknown)
    yield from _jobs(plan)
    yield from _counted(plan.counts, fewer_switches(plan.cluster) if plan.cluster else "")
    for subnet, why in (no_manager(plan.cluster) if plan.cluster else {}).items():
        yield "subnet manager", f"{subnet}: {why}" if len(plan.fabrics) > 1 else why
    if plan.cluster is not None and (slowed := topo.slowed_adapters(plan.fabrics, plan.cluster.catalog)):
        yield "slower than the adapter", "; ".join(slowed)
    if len(plan.fabrics) > 1:
        yield from _networks(plan)
    for words in filter(None, map(topo.idle_level, plan.fabrics)):
        yield "idle switches", words
    for fabric in plan.subnets[len(plan.routed) :]:
        yield from _caveat(plan, fabric)
    subnets = zip(plan.routed, plan.proofs, plan.qualities, plan.bounds, plan.multipaths, strict=True)
    for routed, proof, quality, bounds, multipath in subnets:
        name = f" of {routed.fabric.name}" if len(plan.fabrics) > 1 else ""
        yield f"engine{name}", f"{routed.tables.maker}: {routed.why}"
        verdict = "REFUSED" if plan.lost(proof) or proof.credit_loops else "proven"
        hops = plural(proof.max_hops, "switch", "switches")
        yield f"proof{name}", f"{verdict}: {_proof_figures(proof)}, at most {hops} on a path"
        yield from _caveat(plan, routed.fabric)
        text = f"{plural(quality.max_load, 'pair')} over the fullest link, {quality.balance:.2f} times the mean of "
        text += f"those used; no tables have fewer than {bounds.max_load:,} there, because {bounds.why}"
        yield f"load{name}", text if quality.max_load else bounds.why
        if halves := quality.random_bisections.phases:
            # Where the bound, which has no error, is shown, there is none.
            error = f" ± {2 * quality.random_bisections.error:.3f}" if quality.ebb < bounds.ebb else ""
            text = f"{quality.ebb:.3f}{error} of its rate for a host: the mean over {halves} random halves on the "
            text += f"paths of these tables; of any tables at most {bounds.ebb:.3f}"
            if plan.bisection is not None:
                text += ". The rows `job` are of the worst halves, on the best paths instead"
            yield f"effective bisection{name}", text
        if multipath:
            yield f"paths{name}", f"{multipath.text}; figures that do not name LIDs are of the lowest one"
        if plan.cluster is None and proof.classes:
            yield from _contention(quality)
    for fabric, hashes in zip_longest(plan.fabrics[len(plan.subnets) :], plan.hashes):
        yield f"tables of {fabric.name}", "none: Ethernet has no subnet manager; `plan simulate` plays hashed paths"
        if hashes:
            yield f"load of {fabric.name}", hashes.text
    if plan.ports is not None and len(plan.fabrics) == 1:
        yield from _used(plan.ports)
    if plan.bill is not None:
        rows, pieces = plan.bill.cable_table.texts(), int(sum(plan.bill.cable_table.columns[-1].values))
        said = ", ".join(f"{n} {kind}{length and f' {length} m'}" for kind, length, n in rows) or "none"
        yield "cables", said if pieces == plan.counts.links else f"{pieces:,} for {plan.counts.links:,} links: {said}"


def _jobs(plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield what each server of a job gets when its worst halves send to each other: on all servers, and on fewer."""
    servers = plan.planned.counts.gpu_nodes if plan.cluster is not None else 0
    if plan.bisection is None or servers < 2:
        return
    smaller = {plan.job_size: plan.job} if plan.job is not None else {}
    networks = [fabric.name for fabric in costmodel.job_networks(plan.fabrics)]
    for size, found in {servers: plan.bisection, **smaller}.items():
        several = servers // size
        rate = 2 * found.gbps / (several * size) / 8
        text = f"{found.written()} of its rate ({rate * found.share:,.4g} GB/s) for each server"
        if (between := found.narrower) is not found:
            text += f" over the rails, {between.written()} ({rate * between.share:,.4g} GB/s) between rails,"
        whose = f"each of {several:,} such jobs" if several > 1 else "the job"
        text += f" while the worst half of {whose} sends to the other"
        if len(networks) < len(plan.fabrics):
            text += f", over {compress(networks)}"
        yield f"job of {plural(size, 'server')}", f"{text}{found.reason and f'; {found.reason}'}"


def _racks(plan: Plan, layout: Layout) -> str:
    """Return how many racks there are, and of which devices it is unknown whether they need one each."""
    if why := layout.why_alone(plan.planned.catalog):
        return f"at most {layout.n_racks:,}: {why}; places and lengths of cables hold when the `catalog` has it"
    return f"{layout.n_racks:,}{fewer_racks(plan.planned, plan.losses, plan.quote) if plan.losses else ''}"


def _networks(plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield a row for each network, those alike in one: what counts and rates of one say nothing of another's."""
    alike: dict[str, list[str]] = {}
    for fabric in plan.fabrics:
        counts = count((fabric,))
        switches = f"{plural(counts.switches, 'switch', 'switches')} {_tiers(counts)}"
        text = ", ".join([switches, plural(counts.host_ports, "host port"), plural(counts.links, "link")])
        if plan.ports is not None:
            mine = tuple(row for row in plan.ports.classes if row.network == fabric.name)
            text = "; ".join([text, *(f"{name} {words}" for name, words in _used(replace(plan.ports, classes=mine)))])
        if plan.bisection is not None and fabric.name in plan.bisection.subnets:
            text += f"; bisection {percent(plan.bisection.subnets[fabric.name])}"
        alike.setdefault(text, []).append(fabric.name)
    for text, names in alike.items():
        yield f"network {compress(names)}", f"each {text}" if len(names) > 1 else text


def _used(ports: PortUse) -> Iterator[tuple[str, str]]:
    """Yield how far each class of switches of a network tapers, and its free ports."""
    tapers = []
    for row in ports.classes:
        if row.taper is None:
            continue
        alike = math.isclose(row.down_gbps * row.up, row.up_gbps * row.down)
        rates = "" if alike else f", {row.down_gbps:,.0f} to {row.up_gbps:,.0f} Gb/s"
        across = f", {row.across:,} to other leaves or joints" if row.across else ""
        more = "more up than down, " if row.taper < 1 else ""
        more += "" if math.isclose(row.taper, row.down_gbps / row.up_gbps) else "the fullest of "
        tapers.append(
            f"{row.taper:.3g} ({more}{row.switches:,} {row.role} {row.model}: {row.down:,} ports down, {row.up:,} up"
            f"{across} in all{rates})"
        )
    if tapers:
        yield "taper", ", ".join(tapers)
    yield "free ports", ", ".join(row.free_told for row in ports.classes)


def _caveat(plan: Plan, fabric: Fabric) -> Iterator[tuple[str, str]]:
    if fabric.caveat:
        yield f"caveat{f' of {fabric.name}' if len(plan.fabrics) > 1 else ''}", fabric.caveat


def _priced(quote: Quote, asked: str | None) -> Iterator[tuple[str, str]]:
    """Yield what a plan costs and draws; where nothing names the currency, why it is this one."""
    cost, power = quote.cost, quote.power
    unit = "relative units" if cost.unit == "units" else cost.unit
    spares = f"spares are in it: {cost.spares} {unit}" if cost.spares != Sum() else ""
    yield "cost", "; ".join(filter(None, (f"{cost.sums} {unit}", spares, cost.coverage, quote.why_currency(asked))))
    if quote.owning is not None:
        own, years = quote.owning, plural(quote.owning.stated.years, "year")
        yield "owning", f"capital {own.capital}, energy {own.energy}, both {own.total} {own.stated.currency} in {years}"
    for most, row in ((False, "power, typically"), (True, "power, at most")):
        planned = f"{power.planned_w * 1e-3:,.1f kW} {power.basis}" if power.by_typical else ""
        note = planned if most else power.optics_note
        asked_for = power.asked(typical=not most, named=False)
        lacking = asked_for and f"known once your `catalog` has {asked_for}"
        yield row, "; ".join(filter(None, (power.told(most=most), note, lacking)))


def _unknown(quote: Quote) -> Iterator[str]:
    """Yield which figures of which parts are unknown, each part once."""
    cost, power = quote.cost, quote.power
    for what, parts in (
        (f"price in {cost.unit}", cost.total.missing),
        ("typical power", power.total_w.missing),
        ("maximum power", power.of(most=True).missing),
    ):
        if parts:
            yield f"{what} of {', '.join(part.partition(' (')[0] for part in parts)}"
    if cost.doubtful:
        yield f"whether the price of {', '.join(cost.doubtful)} holds adapters (`adapters_included` in nodes.csv)"


def _existing(**numbers: int) -> str:
    return ", ".join(f"{number:,} {name}" for name, number in numbers.items() if number)


def _tiers(counts: Counts) -> str:
    tiers = _existing(leaf=counts.leaf, spine=counts.spine, core=counts.core, joint=counts.joint)
    zones = f" in {plural(counts.zones, 'zone')}" if counts.zones > 1 else ""
    return f"({tiers or 'no tree'}){zones}"


def _counted(counts: Counts, why: str) -> Iterator[tuple[str, str]]:
    """Yield what there is; every figure that is zero is left out."""
    yield "switches", f"{counts.switches:,} {_tiers(counts)}{why}"
    others = {"storage": counts.storage_nodes, "management": counts.management_nodes}
    if counts.gpus:
        computing = f"{counts.gpu_nodes:,} GPU nodes ({counts.gpus:,} GPUs)"
        yield "servers", ", ".join(filter(None, (computing, _existing(**others))))
    else:
        yield "servers", _existing(compute=counts.gpu_nodes, **others) or "none"
    sharp = f", {counts.aggregation_nodes:,} aggregation nodes" if counts.aggregation_nodes else ""
    yield "ports and links", f"{plural(counts.host_ports, 'host port')}, {plural(counts.links, 'link')}{sharp}"


def _proof_figures(proof: Proof) -> str:
    apart = f" ({proof.disconnected:,} of them disconnected: no cables lead there)" if proof.disconnected else ""
    # Tables without loops on one lane have none on several, such as those of traffic classes.
    lanes = "with all traffic on one lane" if proof.lanes == 1 else f"on {plural(proof.lanes, 'lane')}"
    further = f" and {proof.undelivered_loops:,} more by undelivered packets" if proof.undelivered_loops else ""
    return (
        f"{plural(proof.pairs, 'pair')} of {ENDS[proof.endpoints]}{proof.each_lid}, {proof.missing:,} missing{apart}, "
        f"{plural(proof.credit_loops, 'channel')} in credit loops {lanes}{further}"
    )


def _contention(quality: Quality) -> Iterator[tuple[str, str]]:
    yield "permutations", f"random permutations get {quality.permutation.bandwidth:.3f} of a link for each flow"
    for name, phases in (("shifts", quality.shift), ("halving-doubling", quality.halving_doubling)):
        worst = f"{phases.max_load_worst} in the worst of {plural(phases.phases, 'phase')}"
        yield name, f"flows at one time on the fullest link: {phases.max_load_median:g} in the median, {worst}"


def show_proof(routed: Routed, proof: Proof, bounds: Bounds, *, brief: bool = False, state: str = "") -> None:
    """Print a proof of anybody's tables; in brief its verdict and the figures that decide, of a stated ``state``."""
    fabric = routed.fabric
    verdict = "holds: every pair arrives, and no lane has a credit loop" if proof.holds else "FAILS"
    if not proof.holds and proof.credit_loops == proof.lost == 0:
        verdict += f": {islands(proof.disconnected) or 'there are no pairs'}"
    print_text(f"{state}{fabric.name or 'the fabric'} {verdict}")
    print_text(f"{plural(len(proof.ends), 'end port')}, {_proof_figures(proof)}")
    if brief:
        return
    hops = ", ".join(f"{count:,} over {length}" for length, count in enumerate(proof.hops) if count)
    print_text(f"switches on a path: {hops or 'none'}; at most {proof.stretch} more than the shortest")
    if proof.classes:
        show_table(_telling(proof.load_table, "destinations"))
        lids = f"{proof.each_lid}, and for one" if proof.each_lid else " of"
        least = f"at least {bounds.max_load:,} pairs (because {bounds.why})"
        print_text(f"fullest link: {proof.max_load:,}{lids} {least}")
    show_faults(fabric, proof)


def show_faults(fabric: Fabric, proof: Proof) -> None:
    """Print examples of missing pairs, and a credit loop channel by channel."""
    for example in proof.examples:
        print_text(f"missing: {example.describe()}", wrap=False)
    undelivered = "credit loop that packets which do not arrive close"
    for name, loop in (("credit loop", proof.loop), (undelivered, proof.undelivered_loop)):
        if loop:
            print_text(f"{name}, each channel waiting for the next and the last for the first:")
        for channel in loop:
            print_text(f"  {fabric.channel_label(channel)}", wrap=False)


def _telling(table: Table, column: str) -> Table:
    """Return the rows by role that say something: with one role, its rows are those of all again."""
    roles = next(item.values for item in table.columns if item.name == column)
    if len(set(roles) - {"all"}) > 1:
        return table
    kept = [row for row, role in enumerate(roles) if role == "all"]
    columns = (replace(item, values=[item.values[row] for row in kept]) for item in table.columns)
    return Table(table.title, tuple(columns))


def show_failures(study: FailureStudy) -> None:
    """Print what random failures leave of a fabric."""
    figures = study.to_dict()
    before, after = figures["before"], figures["after"]
    print_text(
        f"with {plural(figures['links'], 'link')} failed (plan.json names them), cables connect "
        f"{figures['connected']:,} of {plural(figures['pairs'], 'pair')}, and tables made anew deliver "
        f"{figures['delivered']:,}: {plural(figures['credit_loops'], 'channel')} in credit loops, at most "
        f"{plural(figures['max_hops'], 'switch', 'switches')} on a path, "
        f"{plural(figures['max_load'], 'pair')} over the fullest link"
    )
    print_text(
        f"shortest paths without a common cable, over {plural(before['pairs'], 'pair')} of leaves: "
        f"{before['mean']:.2f} in the mean and {before['least']} at least; after the "
        f"failures {after['mean']:.2f} and {after['least']}"
    )


def show_rehearsal(rehearsal: Rehearsal) -> None:
    """Print whether a real OpenSM loads what was written."""
    verdict = rehearsal.ibdmchk
    held = "NOT AS PLANNED" if rehearsal.differing or rehearsal.lids else "as planned"
    loops = {True: "credit loops", False: "no credit loop", None: "loops not looked for"}[verdict.loops]
    print_text(
        f"rehearsed with OpenSM over ibsim: {held}, {rehearsal.differing:,} of {rehearsal.entries:,} entries and "
        f"{rehearsal.lids:,} LIDs differ"
    )
    print_text(f"ibdmchk: {plural(verdict.pairs, 'pair')}, {verdict.missing:,} missing, {loops} on one lane")
    for error in rehearsal.errors:
        print_text(f"OpenSM: {error}")


def show_comparison(contenders: Sequence[Contender]) -> None:
    """Print engines side by side."""
    columns = (
        ("engine", "engine"), ("missing", "missing"), ("loops", "credit_loops_on_one_lane"), ("lanes", "lanes"),
        ("switches", "max_hops"), ("max load", "max_load"), ("balance", "balance"), ("effective bisection", "ebb"),
        ("random", "permutation"), ("shift", "shift_worst"), ("s", "seconds"),
    )  # fmt: skip
    digits = ("", "", "", "", "", "", ".2f", ".3f", ".3f", "", ".2f")
    rows = [[row.to_dict().get(key) for _, key in columns] for row in contenders]
    names = [name for name, _ in columns]
    show_table(Table.of_rows("beside the engines of OpenSM, all judged on one lane", names, rows, digits))
    print_text(
        "loops: channels in credit loops on one lane; lanes: how many the engine needs to have none; switches: on the "
        "longest path; max load: pairs over one link; balance: that divided by the mean; effective bisection: 1 is "
        "full; random: bandwidth of random permutations; shift: flows on the fullest link of the worst shift; s: "
        "seconds of routing"
    )
    for row in contenders:
        if row.failure:
            print_text(f"{row.engine} fails: {row.failure}")
    if any(row.proof and row.proof.missing for row in contenders):
        print_text("where pairs are missing, effective bisection and random count the flows that are lost as 0")
