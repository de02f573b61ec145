"""A plan, and the passes that make it: each takes a plan and returns it with more in it.

A pass names the fields of `Plan` that it needs and those that it adds; `docs/dev/passes.md` has them in order. The
groups at the end of this module lead from a spec or a fabric to what a command shows. All give the same `Plan`, and
the same keys of ``plan.json``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.metadata import version
from typing import Any

import costmodel
import routing
from costmodel import Bill, Bisection, Quote
from plan.cures import cures_of
from topo import (
    Cabling,
    Catalog,
    Check,
    Cluster,
    Counts,
    Fabric,
    Finding,
    HeddleError,
    Layout,
    Losses,
    PortUse,
    Reach,
    RoutingError,
    Shown,
    Table,
    Verdict,
    count,
    count_ports,
    find_losses,
    load_catalog,
    plural,
    whole,
)

Progress = Callable[..., None]
"""Called with a message when something begins that takes time, and with how much of it is done (0 to 1) if known."""


def silent(message: str, done: float | None = None) -> None:
    """Say nothing of the progress."""


@dataclass(frozen=True)
class Options:
    """What is asked of a plan besides its spec or fabric.

    Examples
    --------
    >>> import plan
    >>> plan.Options(engine="fat-tree").seed
    0
    """

    engine: str | None = None
    """Routing engine; the one of the spec when left out."""
    lanes: int | None = None
    """Most data lanes that tables may need; as many as the engine takes when left out."""
    lmc: int | None = None
    """LID mask control; that of the fabric or its spec when left out."""
    endpoints: routing.EndpointSet = "hca"
    """Who talks to whom."""
    seed: int = 0
    """Seed of the random traffic that quality is measured with, and of failures."""
    failures: int = 0
    """Links that fail at random in a study of failures."""
    job: int | None = None
    """Compute servers of a job whose bandwidth is asked for; half of all when left out."""
    currency: str | None = None
    """Of the cost; that of the spec, else `Bill.currency`, when left out."""
    traffic: Callable[[routing.Routed], routing.Demand | None] | None = None
    """Finds the demand for which paths are moved; None in networks that have none."""
    adaptive: bool = False
    """Whether the figures of adaptive routing stand beside those of engines."""

    def __post_init__(self) -> None:
        for name in ("seed", "failures"):
            object.__setattr__(self, name, whole(name, getattr(self, name), 0))


@dataclass(frozen=True, eq=False)
class Plan(Shown):
    """Everything that follows from a spec, or from a fabric without one; what no pass has found yet is empty."""

    name: str
    cluster: Cluster | None = None
    """None for a fabric without a spec."""
    fabrics: tuple[Fabric, ...] = ()
    """All of them: subnets first, then what is Ethernet."""
    source: str = ""
    """What was read, as messages name it."""
    fabric_sha256: str | None = None
    """Digest of the file of a fabric without a spec; None where it cannot be read twice."""
    options: Options = field(default_factory=Options)
    routed: tuple[routing.Routed, ...] = ()
    """Subnet by subnet, as the next four."""
    proofs: tuple[routing.Proof, ...] = ()
    qualities: tuple[routing.quality.Quality, ...] = ()
    bounds: tuple[routing.studies.Bounds, ...] = ()
    multipaths: tuple[routing.studies.Multipath | None, ...] = ()
    """What paths to the LIDs of a port share; None where each has one."""
    hashes: tuple[routing.studies.HashedShares | None, ...] = ()
    """What flows get on each fabric without tables; None where it is not one network."""
    layout: Layout | None = None
    """None where the spec gives no floor plan, as `cablings`."""
    cablings: tuple[Cabling, ...] | None = None
    losses: Losses | None = None
    """What a single failure takes away; None for a fabric without a spec, as `ports`."""
    ports: PortUse | None = None
    bisection: Bisection | None = None
    """Of all compute nodes as one job; None for a fabric without a spec."""
    job: Bisection | None = None
    """Of jobs of `job_size` servers, side by side and all at once; None where there is one server or none."""
    counts: Counts | None = None
    bill: Bill | None = None
    quote: Quote | None = None
    advice: str | None = None
    """What would free tables of their credit loops."""
    failures: routing.studies.FailureStudy | None = None
    refusals: tuple[Finding, ...] = ()
    """Why it is refused: where is ``island``, ``missing`` or ``credit loop``."""

    @property
    def verdict(self) -> Verdict:
        """Whether each subnet is complete and free of credit loops, and every budget holds."""
        faults = [Verdict.EXCEEDED for _ in self.refusals]
        return Verdict.all_of([*faults, *(check.verdict for check in self.budget)])

    @cached_property
    def budget(self) -> tuple[Check, ...]:
        """The limits of the spec, each with its verdict and its cures: on what it takes, and on what it survives."""
        limits = self.quote.checks if self.quote else ()
        if self.losses is None:
            return limits
        survived = self.losses.survived(self.planned.spec.survives)
        return (*limits, *(cures_of(self.planned, self.losses, self.quote, check) for check in survived))

    @property
    def job_size(self) -> int:
        """Compute servers of each job of `job`."""
        return self.options.job or self.planned.counts.gpu_nodes // 2

    @property
    def catalog(self) -> Catalog | None:
        """The catalog of its spec; None of a plan without one."""
        return self.cluster.catalog if self.cluster else None

    @property
    def planned(self) -> Cluster:
        """The cluster of a plan that has a spec."""
        assert self.cluster is not None
        return self.cluster

    def _brief(self) -> str:
        words = {Verdict.HOLDS: "holds", Verdict.EXCEEDED: "refused", Verdict.CANNOT_TELL: "cannot be judged"}
        parts = plural(sum(fabric.n_switches for fabric in self.fabrics), "switch", "switches")
        hosts = plural(len({host for fabric in self.fabrics for host in fabric.hosts}), "host")
        return f"{self.name}: {parts}, {hosts}; {words[self.verdict]}"

    @property
    def table(self) -> Table:
        """The verdict, why it is refused, and every budget."""
        rows = [("verdict", str(self.verdict)), *((refusal.where, refusal.found) for refusal in self.refusals)]
        rows += [(check.what, check.text) for check in self.budget]
        return Table.of_rows(self.name, ("of", "value"), rows)

    def _shown(self) -> tuple[Table, ...]:
        known = (self.counts, *self.routed, *self.proofs, *self.qualities, self.quote and self.quote.cost)
        return (self.table, *(part.table for part in known if part))

    def lost(self, proof: routing.Proof) -> int:
        """Return the pairs that should arrive and do not: all of a spec, of a real fabric those that cables connect."""
        return proof.missing if self.cluster else proof.lost

    def refused(self, kind: str) -> list[str]:
        """Return why the plan is refused, of one kind."""
        return [refusal.found for refusal in self.refusals if refusal.where == kind]

    def to_dict(self) -> dict[str, Any]:
        """Return what ``plan.json`` holds: figures over all subnets, then each subnet's own; None is unknown."""
        proofs, qualities, cluster = self.proofs, self.qualities, self.cluster
        owning = self.quote and self.quote.owning
        return {
            "name": self.name,
            "holds": self.verdict.holds,
            **self.summary(),
            "proof": {
                "pairs": sum(proof.pairs for proof in proofs),
                "missing": sum(proof.missing for proof in proofs),
                "credit_loops": sum(proof.credit_loops for proof in proofs),
                "max_hops": max((proof.max_hops for proof in proofs), default=0),
                "lanes": max((proof.lanes for proof in proofs), default=0),
            },
            "quality": {
                "max_load": max((quality.max_load for quality in qualities), default=None),
                "max_load_bound": max((bounds.max_load for bounds in self.bounds), default=None),
                "ebb": min((quality.ebb for quality in qualities), default=None),
                "ebb_bound": min((bounds.ebb for bounds in self.bounds), default=None),
                "balance": max((quality.balance for quality in qualities), default=None),
            },
            "subnets": [
                {
                    **routed.to_dict(),
                    "proof": proof_document(routed.fabric, proof),
                    "quality": quality.to_dict(),
                    "bounds": bounds.to_dict(),
                    "multipath": multipath and multipath.to_dict(),
                }
                for routed, proof, quality, bounds, multipath in zip(
                    self.routed, proofs, qualities, self.bounds, self.multipaths, strict=True
                )
            ],
            "hashes": [found and found.to_dict() for found in self.hashes],
            "without_tables": [fabric.name for fabric in self.fabrics[len(self.subnets) :]],
            "disconnected": sum(proof.disconnected for proof in proofs),
            "endpoints": self.options.endpoints,
            "advice": self.advice,
            "failures": self.failures and self.failures.to_dict(),
            "owning": owning and owning.to_dict(),
            "inputs": {
                "spec_sha256": cluster and cluster.sha256,
                "catalog_sha256": cluster and cluster.catalog.sha256,
                "servers_sha256": {}
                if cluster is None
                else cluster.catalog.servers_sha256(name for fabric in self.fabrics for name in fabric.models),
                "fabric_sha256": self.fabric_sha256,
                "seed": self.options.seed,
            },
            "versions": {name: version(name) for name in ("heddle-fabric", "numba", "numpy", "scipy")},
        }

    @property
    def subnets(self) -> tuple[Fabric, ...]:
        """The fabrics that a subnet manager runs, which get forwarding tables."""
        return self.fabrics if self.cluster is None else self.fabrics[: len(self.cluster.subnets)]

    def summary(self) -> dict[str, Any]:
        """Return what is known without tables: limits, counts, ports, cables, failures, cost and power."""
        return {
            "budget": [check.to_dict() for check in self.budget],
            "islands": self.refused("island"),
            "counts": self.counts and self.counts.to_dict(),
            "networks": [{"name": fabric.name, **count((fabric,), self.catalog).to_dict()} for fabric in self.fabrics],
            "bandwidth": self.bisection and {"nodes": self.planned.counts.gpu_nodes, **self.bisection.to_dict()},
            "job": self.job and {"nodes": self.job_size, **self.job.to_dict()},
            "ports": self.ports and self.ports.to_dict(),
            "cables": self.bill and self.bill.cable_table.to_dict(),
            "losses": self.losses and self.losses.to_dict(),
            "cost": self.quote and self.quote.cost.to_dict(),
            "power": self.quote and self.quote.power.to_dict(),
        }

    def of(self, fabric: Fabric) -> str:
        """Return which subnet is meant, for messages: nothing where there is one."""
        return f" {fabric.name}" if len(self.fabrics) > 1 else ""


def proof_document(fabric: Fabric, proof: routing.Proof) -> dict[str, Any]:
    """Return the figures of a proof with examples of missing pairs and a credit loop: where, what and why."""
    return {
        **proof.to_dict(),
        "examples": [example.to_dict() for example in proof.examples],
        "credit_loop": [fabric.channel_label(channel) for channel in proof.loop],
        "undelivered_loop": [fabric.channel_label(channel) for channel in proof.undelivered_loop],
    }


@dataclass(frozen=True)
class Pass:
    """A function from a plan to a plan with more in it."""

    make: Callable[[Plan, Progress], Plan]
    needs: tuple[str, ...]
    """Fields of the plan that it reads and that an earlier pass, or the input, must have filled."""
    adds: tuple[str, ...]
    """Fields of the plan that it fills; the first tells whether it has run."""
    refines: tuple[str, ...] = ()
    """Fields that it returns with more in them."""

    def __call__(self, plan: Plan, step: Progress = silent) -> Plan:
        """Run it."""
        return self.make(plan, step)

    @property
    def name(self) -> str:
        """Name of its function."""
        return self.make.__name__

    @property
    def purpose(self) -> str:
        """What it does, in one line."""
        return (self.make.__doc__ or "").partition("\n")[0]


def adding(*adds: str, needs: str, refines: str = "") -> Callable[[Callable[[Plan, Progress], Plan]], Pass]:
    """Make a `Pass` of a function; ``needs`` and ``refines`` are names of fields with blanks between."""
    return lambda make: Pass(make, tuple(needs.split()), adds, tuple(refines.split()))


def run_passes(plan: Plan, passes: Sequence[Pass], step: Progress = silent) -> Plan:
    """Let each of some passes, such as those of `BUILD`, add what it finds to a plan with a cluster or with fabrics."""
    for make in passes:
        plan = make(plan, step)
    return plan


@adding("fabrics", needs="cluster")
def compile_fabrics(plan: Plan, step: Progress) -> Plan:
    """Compile the spec: one fabric a subnet."""
    step("compiling")
    return replace(plan, fabrics=plan.planned.fabrics)


@adding("routed", needs="fabrics")
def route_subnets(plan: Plan, step: Progress) -> Plan:
    """Make the forwarding tables of each subnet."""
    options, found = plan.options, []
    made: list[routing.Routed] = []
    for fabric in plan.subnets:
        step(f"routing{plan.of(fabric)}")
        engine = fabric.engine if options.engine is None else options.engine
        routed = routing.route(fabric, engine, lanes=options.lanes, lmc=options.lmc, like=made)
        made.append(routed)
        if options.engine is None and routed.why == "as asked":
            routed = replace(routed, why="as the spec says")
        if options.traffic is not None and (demand := options.traffic(routed)) is not None:
            step(f"moving paths for the traffic{plan.of(fabric)}")
            routed = routing.fit_traffic(routed, demand)
        elif options.endpoints != "hca":
            with suppress(RoutingError):  # on several lanes, or with credit loops, tables stay as they are
                routed = routing.fit_traffic(routed, options.endpoints)
        if options.adaptive:
            step(f"comparing adaptive routing{plan.of(fabric)}")
            routed = routing.studies.adaptive.beside_adaptive(routed)
        found.append(routed)
    return replace(plan, routed=tuple(found))


@adding("proofs", needs="routed", refines="refusals")
def prove_tables(plan: Plan, step: Progress) -> Plan:
    """Prove that the tables are complete and free of credit loops; what is not is a reason to refuse the plan."""
    proofs: list[routing.Proof] = []
    refusals: list[Finding] = []
    for routed in plan.routed:
        step(f"proving{plan.of(routed.fabric)}")
        known = zip(plan.routed, proofs, strict=False)
        same = (proof for other, proof in known if proof.holds and _is_same(routed, other))  # else it names examples
        proof = next(same, None) or routing.prove(routed, plan.options.endpoints)
        if not proof.pairs and plan.cluster is None:
            ends = f"{plural(len(proof.ends), 'end port')} ({plan.options.endpoints})"
            nothing = f"{plan.source}: found {ends}; expected at least two. Is the file whole?"
            raise HeddleError(Finding("", text) for text in (*routed.fabric.notes, nothing))
        proofs.append(proof)
        if plan.lost(proof):
            examples = [example.describe() for example in proof.examples[:3]]
            refusals += [Finding("missing", text) for text in examples or [plural(plan.lost(proof), "pair")]]
        if proof.credit_loops:
            loop = " => ".join(routed.fabric.channel_label(channel) for channel in proof.loop)
            refusals.append(Finding("credit loop", loop))
    return replace(plan, proofs=tuple(proofs), refusals=(*plan.refusals, *refusals))


@adding("qualities", "bounds", "multipaths", needs="routed proofs")
def measure_quality(plan: Plan, step: Progress) -> Plan:
    """Measure how evenly the tables spread traffic, and bound how evenly any could."""
    options, bounds = plan.options, []
    found: list[routing.quality.Quality] = []
    paths: list[routing.studies.Multipath | None] = []
    for routed, proof in zip(plan.routed, plan.proofs, strict=True):
        step(f"measuring{plan.of(routed.fabric)}")
        same = next((n for n, other in enumerate(plan.routed[: len(found)]) if _is_same(routed, other)), None)
        if same is not None:
            quality, path = found[same], paths[same]
        else:
            quality = routing.measure(routed, options.endpoints, seed=options.seed, proof=proof)
            path = routing.studies.measure_lids(routed) if routed.tables.lmc else None
        bounds.append(routing.studies.bound(routed.fabric, proof.ends, reached=quality.max_load))
        found.append(quality.at_most(bounds[-1].ebb))
        paths.append(path)
    return replace(plan, qualities=tuple(found), bounds=tuple(bounds), multipaths=tuple(paths))


@adding("hashes", needs="fabrics")
def measure_hashes(plan: Plan, step: Progress) -> Plan:
    """Measure what flows get where switches choose paths by hashes, as on Ethernet."""
    found: dict[int, routing.studies.HashedShares | None] = {}
    ethernets = plan.fabrics[len(plan.subnets) :]
    for number, fabric in enumerate(ethernets):
        step(f"measuring hashed paths of {fabric.name}")
        same = next((n for n in found if fabric.is_copy_of(ethernets[n])), None)
        if same is not None:
            found[number] = found[same]
            continue
        hashed = routing.Hashed(fabric, seed=plan.options.seed)
        whole = hashed.is_connected and (fabric.end_switch[fabric.ends()] >= 0).sum() > 1
        found[number] = routing.studies.measure_hashed(hashed) if whole else None
    return replace(plan, hashes=tuple(found.values()))


def _is_same(routed: routing.Routed, other: routing.Routed) -> bool:
    """Whether a fabric is a copy of another, with the same tables."""
    return routed.tables is other.tables and routed.fabric.is_copy_of(other.fabric)


@adding("layout", needs="cluster")
def place_racks(plan: Plan, step: Progress) -> Plan:
    """Find a place in the room for every device."""
    if plan.planned.spec.floor is not None:
        step("placing")
    return replace(plan, layout=plan.planned.layout)


@adding("cablings", needs="cluster", refines="fabrics routed")
def choose_cables(plan: Plan, step: Progress) -> Plan:
    """Choose a cable for every link, by the length of its route through the room; fabrics then know the lengths."""
    fabrics = plan.planned.cabled
    routed = tuple(replace(old, fabric=fabric) for old, fabric in zip(plan.routed, fabrics, strict=False))
    return replace(plan, cablings=plan.planned.cablings, fabrics=fabrics, routed=routed)


@adding(needs="fabrics", refines="refusals")
def judge_reach(plan: Plan, step: Progress) -> Plan:
    """Judge the subnets as one plan: servers that must reach one another and do not are a reason to refuse it."""
    step("judging who reaches whom")
    islands = (Finding("island", fault) for fault in Reach(plan.fabrics).faults())
    return replace(plan, refusals=(*plan.refusals, *islands))


@adding("losses", "ports", needs="cluster fabrics layout")
def fail_parts(plan: Plan, step: Progress) -> Plan:
    """Let every switch, link and rack fail alone, and count the ports in use."""
    step("failing each part")
    losses = find_losses(plan.fabrics, plan.planned.catalog, plan.layout)
    return replace(plan, losses=losses, ports=count_ports(plan.fabrics, plan.planned.catalog))


@adding("bisection", "job", needs="cluster fabrics")
def bisect_servers(plan: Plan, step: Progress) -> Plan:
    """Find what every compute node gets when the worst half of them, or of each job, sends to the other."""
    step("looking for the worst cut")
    networks = costmodel.job_networks(plan.fabrics)
    whole = costmodel.bisection(networks)
    # Where the worst cut of all servers takes long and is not found, that of their halves is not asked for so long.
    prove = plan.options.job is not None or whole.exact
    job = costmodel.bisection(networks, plan.job_size, prove=prove) if plan.job_size > 1 else None
    # Jobs side by side never ask more of a cut than one job of all their servers.
    return replace(plan, bisection=whole, job=job and job.at_least(whole))


@adding("counts", "bill", needs="fabrics")
def count_parts(plan: Plan, step: Progress) -> Plan:
    """Count what there is, and of a spec what to buy."""
    step("counting")
    if plan.cluster is None:
        return replace(plan, counts=count(plan.fabrics, load_catalog()))
    return replace(plan, counts=plan.cluster.counts, bill=costmodel.bill(plan.cluster))


@adding("quote", needs="cluster bill")
def price_parts(plan: Plan, step: Progress) -> Plan:
    """Price what is bought, count what it draws, and hold both against the budget."""
    step("pricing")
    return replace(plan, quote=costmodel.quote(plan.planned, plan.options.currency, plan.bill))


@adding("advice", needs="routed proofs")
def advise_lanes(plan: Plan, step: Progress) -> Plan:
    """Say how many lanes would free the tables of their credit loops, or that no number does."""
    looping = [pair for pair in zip(plan.routed, plan.proofs, strict=True) if pair[1].credit_loops]
    if not looping:
        return plan
    step("counting the lanes that would free the tables")
    routed, proof = looping[0]
    now = proof.lanes
    try:
        freed = routing.lanes.fit_lanes(routed.fabric, routing.lanes.fit_lanes(routed.fabric, routed.tables, 1), 8)
    except RoutingError as error:
        return replace(plan, advice=str(error))
    return replace(
        plan,
        advice=f"credit loops on {plural(now, 'lane')}; --lanes {max(freed.sl2vl) + 1} would do, if all "
        "hosts ask OpenSM for their paths, and the engine `balanced` needs one lane",
    )


@adding("failures", needs="fabrics")
def fail_links(plan: Plan, step: Progress) -> Plan:
    """Let links fail at random, and route what is left of the first subnet, if the user asks for it."""
    options = plan.options
    if not options.failures:
        return plan
    step("failing links")

    fabric = plan.fabrics[0]
    engine = fabric.engine if options.engine is None else options.engine
    study = routing.studies.study_failures(
        fabric, options.failures, engine=engine, lanes=options.lanes, endpoints=options.endpoints, seed=options.seed
    )
    return replace(plan, failures=study)


COMPILE = (compile_fabrics,)
PLACE = (place_racks, choose_cables)
PRICE = (count_parts, price_parts)
JUDGE = (prove_tables, measure_quality)
DESIGN = (*COMPILE, *PLACE, *PRICE)
"""What a buyer wants to know of a spec: parts and prices."""
CHECK = (*COMPILE, judge_reach, bisect_servers, *PLACE, *PRICE, fail_parts)
"""All that follows from a spec without tables."""
BUILD = (*COMPILE, judge_reach, bisect_servers, route_subnets, *JUDGE, measure_hashes, *PLACE, *PRICE, fail_parts)
"""All that follows from a spec."""
STUDY = (*JUDGE, count_parts, advise_lanes, fail_links)
"""What the tables of any fabric are worth."""
ROUTE = (route_subnets, *STUDY)
"""Tables for any fabric, and what they are worth."""
