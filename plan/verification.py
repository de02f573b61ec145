"""``plan.verify``: anybody's tables proven on any fabric, and answers to questions about them."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import routing
from plan.inputs import Questions, files_of_folder, give_levels, give_lids, path_of, read_fabric_argument
from plan.pipeline import Progress, proof_document, silent
from routing.lanes import apply_policy
from routing.opensm import read_lfts
from topo import Finding, HeddleError, RoutingError, Shown, Table, plural, slow_cables, uneven_links

EXAMPLES = 10
"""Entries that are described of those that are not as expected."""


@dataclass(frozen=True)
class Answers:
    """One for each question; a path has one for each direction and LID."""

    paths: tuple[routing.Trace, ...] = ()
    over: tuple[routing.studies.LinkUse, ...] = ()
    without: tuple[routing.studies.LossStudy, ...] = ()
    groups: routing.studies.adaptive.AdaptiveStudy | None = None
    shares: routing.studies.adaptive.Shares | None = None
    """What flows get by the tables and spread over legal groups, where there are such."""

    @property
    def given(self) -> bool:
        """Whether anything was asked of parts of the fabric."""
        return bool(self.paths or self.over or self.without)

    def to_dict(self) -> dict[str, Any]:
        """Return the answers by question as plain values, ready for JSON; without those that nobody asked."""
        return {
            name: [each.to_dict() for each in found] if isinstance(found, tuple) else found.to_dict()
            for name, found in vars(self).items()
            if found
        }


@dataclass(frozen=True, eq=False)
class Verified(Shown):
    """What `verify` returns: the proof of the tables, a bound for any others, and the answers."""

    routed: routing.Routed
    proof: routing.Proof
    bounds: routing.studies.Bounds
    answers: Answers
    differing: int | None
    """Entries that are not as in the expected tables; None where none were given."""
    examples: tuple[str, ...]
    """The first of them, in words."""
    notes: tuple[str, ...]
    """What was skipped in what was read."""
    adaptive: routing.studies.adaptive.AdaptiveProof | None = None
    """The proof of what the switches hold for adaptive routing, if that was given."""
    shares: routing.studies.adaptive.Shares | None = None
    """What flows get by its static ports and spread over its groups, if the proof holds."""
    multicast: routing.studies.MulticastStudy | None = None
    """The multicast trees, if those were given."""

    @property
    def verdict(self) -> bool | None:
        """Whether every pair arrives, no lane has a credit loop, and each entry is as expected; None: cannot tell.

        Adaptive tables that hold are not enough: traffic that is not spread follows the static ports.
        """
        if self.differing or (self.multicast and not self.multicast.holds):
            return False
        return self.proof.holds if self.adaptive is None or self.adaptive.holds else self.adaptive.verdict

    @property
    def holds(self) -> bool:
        """Whether the verdict is that it holds."""
        return self.verdict is True

    @property
    def table(self) -> Table:
        """The proof in figures."""
        return self.proof.table

    def to_dict(self) -> dict[str, Any]:
        """Return the proof, the bounds, the comparison and the answers as plain values, ready for JSON."""
        compared = {} if self.differing is None else {
            "differing": self.differing, "differing_examples": list(self.examples)}  # fmt: skip
        judged = proof_document(self.routed.fabric, self.proof) | {"bounds": self.bounds.to_dict()}
        adaptive = {} if self.adaptive is None else {"adaptive": self.adaptive.to_dict()}
        adaptive |= {} if self.shares is None else {"shares": self.shares.to_dict()}
        adaptive |= {} if self.multicast is None else {"multicast": self.multicast.to_dict()}
        return judged | compared | adaptive | self.answers.to_dict()


def verify(
    fabric: str | Path,
    tables: str | Path | None = None,
    *,
    endpoints: routing.EndpointSet = "hca",
    lids: str | Path | None = None,
    lanes: str | Path | None = None,
    policy: str | Path | None = None,
    adaptive: str | Path | None = None,
    multicast: str | Path | None = None,
    expect: str | Path | None = None,
    subnet: str | None = None,
    asked: Questions | None = None,
    step: Progress = silent,
) -> Verified:
    """Follow every pair through forwarding tables, look for credit loops, and answer questions about the tables.

    Parameters
    ----------
    fabric : str or Path
        A spec, a folder of a plan, or a real fabric from ibnetdiscover or OpenSM.
    tables : str or Path, optional
        Forwarding tables of any form that `routing.opensm.read_lfts` takes. When left out, those of the folder, or the
        static ports of ``adaptive``.
    endpoints : str
        End ports to connect: ``hca``, ``adapters`` or ``all``.
    lids : str or Path, optional
        ``guid2lid`` of OpenSM, where neither fabric nor tables say which port has which LID.
    lanes, policy : str or Path, optional
        ``opensm.conf`` and ``qos-policy.conf``: the lane of each service level, and the level of each path. One lane
        when left out.
    adaptive : str or Path, optional
        ibdiagnet's ``.far``: what the switches hold for adaptive routing.
    multicast : str or Path, optional
        ``opensm.mcfdbs``: multicast tables, each group of which should be a tree.
    expect : str or Path, optional
        Tables that these should be.
    subnet : str, optional
        Which subnet, where there are several.
    asked : Questions, optional
        Paths, links and failures to answer for.
    step : callable
        Progress callback, called as ``step(message)``.

    Raises
    ------
    HeddleError
        When a file cannot be read, there is nothing to prove, or the fabric has no part of a name.

    Examples
    --------
    >>> import plan, tempfile, topo
    >>> built = plan.build(topo.preset("lab-20"), folder := tempfile.mkdtemp())
    >>> verified = plan.verify(folder, asked=plan.Questions(without=("spine0",)))
    >>> verified.proof.missing, verified.answers.without[0].lost_for_good
    (0, 0)

    See Also
    --------
    routing.prove : the proof alone
    """
    path, own = path_of(fabric, "a Routed for `routing.prove`"), tables is None
    if tables is None and (adaptive is None or path.is_dir()):
        given = files_of_folder(path, subnet)
        assert given.tables is not None
        tables, lanes, policy = given.tables, lanes or given.lanes, policy or given.policy
    step("reading the fabric")
    source = read_fabric_argument(path, subnet)
    if lids is not None:
        source = give_lids(source, Path(lids))
    step("reading the tables")
    read = read_lfts(Path(tables), source) if tables is not None else None
    notes = [*source.notes, *(read.notes if read else ())]
    groups, skipped = (None, []) if adaptive is None else routing.studies.adaptive.read_far(
        adaptive, source, read.tables if read else None)  # fmt: skip
    notes += [f"{adaptive}: {note}" for note in skipped]
    static = None if groups is None else groups.static()
    found = read.tables if read is not None else static
    assert found is not None
    odd = len(routing.repairs.differing_entries(static, found)) if read and static else 0
    if odd:
        notes.append(f"{plural(odd, 'entry', 'entries')} of {tables} not as the static ports of {adaptive}")
    routed = give_levels(routing.Routed(source, found), lanes, policy)
    if policy is not None and routed.tables.path_sl is None:
        # A policy of classes gives no level to a path: tables that it suits are judged on one lane.
        with suppress(RoutingError) if own else nullcontext():
            routed = replace(routed, tables=apply_policy(source, routed.tables, routed.policy))
    differing: int | None = None
    examples: tuple[str, ...] = ()
    if expect is not None:
        step("comparing")
        wanted = read_lfts(Path(expect), source).tables
        entries = routing.repairs.differing_entries(wanted, found)
        differing = len(entries)
        examples = tuple(_describe_entry(routed, wanted, *pair) for pair in entries[:EXAMPLES].tolist())
    trees = None if multicast is None else routing.studies.read_mcfdbs(multicast, source)
    notes += [f"{multicast}: {note}" for note in (trees.notes if trees else ())]
    step("proving")
    proof = routing.prove(routed, endpoints)
    if not proof.pairs:
        ends, there = f"{plural(len(proof.ends), 'end port')} ({endpoints})", len(source.ends())
        nothing = f"{fabric}: found {ends}; expected at least two, or there is nothing to prove. Is the file whole?"
        if there > 1:
            without = f"{tables or adaptive}: found a LID for {ends} of the {there:,} that {fabric} has"
            nothing = f"{without}; expected tables of this fabric"
        raise HeddleError(Finding("", text) for text in (*notes, nothing))
    notes += slow_cables(routed.fabric) + uneven_links(routed.fabric)
    step("bounding")
    bounds = routing.studies.bound(source, proof.ends, reached=0 if found.lmc else proof.max_load)
    step("answering")
    answers = answer(routed, asked or Questions(), endpoints)
    live = shares = None
    if groups is not None and static is not None:
        step("proving adaptive routing")
        live = routing.studies.adaptive.prove_adaptive(source, groups, endpoints)
        if live.holds and proof.holds:
            shares = routing.studies.adaptive.compare_shares(routing.Routed(source, static), groups)
    return Verified(routed, proof, bounds, answers, differing, examples, tuple(notes), live, shares, trees)


def answer(routed: routing.Routed, asked: Questions, endpoints: routing.EndpointSet) -> Answers:
    """Answer questions about tables, each once; HeddleError where the fabric has no part of a name."""
    ends = [tuple(routing.find_end(routed, name) for name in pair) for pair in dict.fromkeys(asked.paths)]
    without = tuple(dict.fromkeys(asked.without))
    failures = [without] if asked.together else [(part,) for part in without]
    return Answers(
        tuple(
            routing.trace(routed, *pair, lid)
            for a, b in ends
            for pair in ((a, b), (b, a))
            for lid in routed.tables.lids_of(np.array(pair[1:]))[1].tolist()
        ),
        tuple(routing.studies.link_use(routed, link, endpoints) for link in dict.fromkeys(asked.over)),
        tuple(routing.studies.study_loss(routed, *parts, endpoints=endpoints) for parts in failures if parts),
        *(_study_groups(routed) if asked.groups else ()),
    )


def _study_groups(
    routed: routing.Routed,
) -> tuple[routing.studies.adaptive.AdaptiveStudy, routing.studies.adaptive.Shares | None]:
    study = routing.studies.adaptive.study_adaptive(routed)
    if not any(row.kind == "legal" for row in study.rows):
        return study, None
    legal = routing.studies.adaptive.legal_tables(routed)
    return study, routing.studies.adaptive.compare_shares(routed, legal)


def _describe_entry(routed: routing.Routed, wanted: routing.RoutingTables, switch: int, end: int) -> str:
    ports = []
    for tables in (wanted, routed.tables):
        lid = int(tables.lid[end])
        port = int(tables.lft[switch, lid]) if 0 < lid < tables.lft.shape[1] else routing.NO_PATH
        ports.append("nothing" if port == routing.NO_PATH else f"port {port}")
    there = f"{routed.fabric.label(switch)} to {routing.end_label(routed.fabric, end)}"
    return f"{there}: {ports[1]}; expected {ports[0]}"
