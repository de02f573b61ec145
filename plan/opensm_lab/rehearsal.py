"""Loads routed tables into a real OpenSM on a simulated fabric, before anybody loads them into a real one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from plan.opensm_lab.ibsim import as_simulated, run_ibdmchk, simulated
from plan.staging import temporary_folder
from routing import Proof, Routed
from routing.opensm import IbdmchkReport, opensm_files
from routing.repairs import differing_entries


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
    """Simulate the fabric, let OpenSM load the files of a plan, and judge what it then has.

    Raises
    ------
    ToolError
        When the fabric cannot be simulated, or OpenSM does not take the files at all.
    """
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
        differing=len(differing_entries(fabric, tables, run.tables)),
        lids=int(np.count_nonzero(tables.lid[plugged] != run.tables.lid[plugged])),
        errors=run.errors,
        ibdmchk=verdict,
        lanes=proof.lanes,
    )
