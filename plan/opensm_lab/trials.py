"""A routed subnet in a real OpenSM over ibsim: its files rehearsed, its tables beside those of stock engines."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

import routing
from plan.opensm_lab.ibsim import OpensmRun, as_simulated, missing_tools, run_ibdmchk, simulated
from plan.staging import temporary_folder
from routing import EndpointSet, Proof, Routed, RoutingTables
from routing.opensm import IbdmchkReport, opensm_files
from routing.quality import Quality
from routing.repairs import differing_entries
from topo import ToolError

PEERS = {"minhop": (), "updn": (), "ftree": (), "dfsssp": ("-Q",), "nue": ("--nue_max_num_vls", "1")}
"""Engines of OpenSM, and the options that they need: dfsssp wants quality of service, nue shall use one lane."""

LISTS = ("root_guids", "cn_guids", "io_guids")
"""Files of ours that they are given; those that want none take no notice."""

LIMIT_S = 900.0
"""How long one of them may take. On 8,000 hosts nue takes two minutes for its routing alone."""


@dataclass(frozen=True)
class Contender:
    """An engine and what it made of a fabric."""

    engine: str
    seconds: float | None
    """Time of the routing alone: OpenSM's by its log, ours with kernels that are compiled."""
    lanes: int
    """Data lanes that it asks for."""
    proof: Proof | None
    """Of its tables, on one lane; None where there are none."""
    quality: Quality | None
    tables: RoutingTables | None = None
    failure: str = ""
    """Why there are no tables."""

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain values, ready for JSON."""
        if self.proof is None or self.quality is None:
            return {"engine": self.engine, "failure": self.failure}
        return {
            "engine": self.engine,
            "seconds": self.seconds,
            "lanes": self.lanes,
            "missing": self.proof.missing,
            "credit_loops_on_one_lane": self.proof.credit_loops,
            "max_hops": self.proof.max_hops,
            "max_load": self.quality.max_load,
            "balance": self.quality.balance,
            "ebb": self.quality.ebb,
            "permutation": self.quality.permutation.bandwidth,
            "shift_worst": self.quality.shift.max_load_worst,
        }


def check_tools() -> None:
    """Raise ToolError, with the Debian packages, where a program is missing, before any long work begins."""
    if missing := missing_tools():
        raise ToolError(
            f"a real OpenSM on a simulated fabric needs programs that are not installed: {', '.join(missing)}; "
            "the Debian packages are in brackets"
        )


def compare_with_opensm(
    routed: Routed,
    proof: Proof,
    quality: Quality,
    *,
    endpoints: EndpointSet = "hca",
    seed: int = 0,
    limit_s: float = LIMIT_S,
    step: Callable[[str], None] = lambda text: None,
) -> list[Contender]:
    """Return our tables and then those of OpenSM's engines, each proven and measured alike.

    ``proof`` and ``quality`` are those of ``routed``, with these end ports and this seed; one engine of OpenSM may take
    ``limit_s``.
    """
    fabric, tables = routed.fabric, routed.tables
    step("timing our own")
    start = time.perf_counter()
    routing.route(fabric, tables.engine)
    seconds = time.perf_counter() - start
    rows = [Contender(f"{tables.engine}, ours", seconds, proof.lanes, proof, quality, tables)]

    def judge(run: OpensmRun) -> Contender:
        needed = re.search(r"Virtual Lanes needed: (\d+)", run.log)
        found = routing.Routed(fabric, run.tables)
        proof = routing.prove(found, endpoints)
        quality = routing.measure(found, endpoints, seed=seed)
        return Contender(run.tables.engine, run.seconds, int(needed[1]) if needed else 1, proof, quality, run.tables)

    try:
        ours = opensm_files(routing.Routed(replace(as_simulated(fabric), traffic=()), tables))
        with temporary_folder() as folder, simulated(fabric, folder) as simulation:
            for place, (engine, options) in enumerate(PEERS.items(), 1):
                step(f"OpenSM's {engine} ({place} of {len(PEERS)})")
                lists = {name: ours[name] for name in LISTS if ours[name]}  # ftree fails of a list that is empty
                try:
                    run = simulation.opensm(engine, lists, options=options, timeout_s=limit_s)
                except ToolError as error:
                    rows.append(Contender(engine, None, 0, None, None, failure=str(error)))
                else:
                    rows.append(judge(run))
    except ToolError as error:  # there is no simulation, so all fail alike
        rows += [Contender(engine, None, 0, None, None, failure=str(error)) for engine in PEERS]
    return rows


@dataclass(frozen=True)
class Rehearsal:
    """What OpenSM made of the files, and ibdmchk of the tables that it then dumped."""

    entries: int
    """Entries of the forwarding tables."""
    differing: int
    """Those that came back otherwise."""
    lids: int
    """End ports with another LID than planned."""
    errors: tuple[str, ...]
    """What OpenSM's log reports as errors."""
    ibdmchk: IbdmchkReport
    """It counts all adapters as end ports, aggregation nodes too, and knows one lane."""
    lanes: int
    """Lanes that the tables need: more than one, and ibdmchk's loops are none."""

    @property
    def holds(self) -> bool:
        """Whether all came back as planned, and ibdmchk finds no pair missing and no credit loop."""
        as_planned = not (self.differing or self.lids or self.errors or self.ibdmchk.missing)
        return as_planned and (self.lanes > 1 or self.ibdmchk.loops is False)

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain values, ready for JSON."""
        return {"holds": self.holds, **asdict(self)}


def rehearse(routed: Routed, proof: Proof, step: Callable[[str], None] = lambda text: None) -> Rehearsal:
    """Simulate the fabric, let OpenSM load the files of a plan, and judge what it then has."""
    fabric, tables = routed.fabric, routed.tables
    with temporary_folder() as folder:
        files = opensm_files(Routed(as_simulated(fabric), tables), directory=str(folder / "files"))
        step("loading the tables into OpenSM over ibsim")
        with simulated(fabric, folder) as simulation:
            run = simulation.opensm("file", files)
        step("ibdmchk")
        verdict = run_ibdmchk(run)
    plugged = fabric.end_switch >= 0
    return Rehearsal(
        entries=len(tables.lft) * len(tables.lids_of(np.flatnonzero(tables.lid))[1]),
        differing=len(differing_entries(tables, run.tables)),
        lids=int(np.count_nonzero(tables.lid[plugged] != run.tables.lid[plugged])),
        errors=run.errors,
        ibdmchk=verdict,
        lanes=proof.lanes,
    )
