"""``plan.repair``: new tables after failures, what they are worth, and the order in which to write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import routing
from plan.files import BUILT, check_replaceable, write_folder
from plan.inputs import RoutingFiles, read_fabric_argument, routed_of
from plan.pipeline import STUDY, Plan, Progress, run_passes, silent
from routing import Routed
from routing.opensm import read_lfts
from routing.repairs import Repair, Updates
from topo import Fabric, Finding, HeddleError, Missing, Shown, Table, find_missing, plural


@dataclass(frozen=True, eq=False)
class Repaired(Shown):
    """What `repair` returns: new tables with their proof, beside the old ones, and the order of updates."""

    plan: Plan
    """Of what is left, with the new tables."""
    repair: Repair
    """The tables that were chosen, beside those from before."""
    updates: Updates
    worth: Table
    """What the tables as they are loaded, repaired and routed anew are worth, side by side."""
    max_load_before: int
    """Pairs over the fullest link before anything failed."""
    notes: tuple[str, ...]
    """What was skipped in what was read."""

    @property
    def table(self) -> Table:
        """The repair in figures."""
        return self.repair.table

    def _shown(self) -> tuple[Table, ...]:
        return (self.table, self.worth, self.updates.table)

    def to_dict(self) -> dict[str, Any]:
        """Return what ``plan.json`` holds, and the repair under ``repair``."""
        figures = {"fullest_link_when_well": self.max_load_before, "worth": self.worth.to_dict()}
        return self.plan.to_dict() | {"repair": self.repair.to_dict() | self.updates.to_dict() | figures}


def repair(
    fabric: str | Path | Routed,
    output: str | Path | None = None,
    *,
    down: Sequence[str] = (),
    now: str | Path | None = None,
    most_down: int | None = None,
    loaded: str | Path | None = None,
    spare: float | None = None,
    full: bool = False,
    given: RoutingFiles | None = None,
    step: Progress = silent,
) -> Repaired:
    """Repair the tables of a fabric after failures, and order the updates of switches.

    Parameters
    ----------
    fabric : str, Path or Routed
        The intact fabric with its tables: a folder of a plan, a spec, a dump with tables, or a routed fabric.
    output : str or Path, optional
        Folder to write, with what OpenSM loads and the order of updates.
    down : sequence of str
        Links, switches and hosts that have failed, by name; all of them, not only new ones.
    now : str or Path, optional
        The fabric as it is now, read anew: what it lacks has failed.
    most_down : int, optional
        Cables that `now` may lack; by default as many as the largest switch has, so that any one part may be down. A
        list that was cut, or of another part of the fabric, looks like many failures at once.
    loaded : str or Path, optional
        Tables that the switches hold now; those of the fabric when left out.
    spare : float, optional
        Further entries that may change to take load off the fullest link, as a share of the necessary ones.
    full : bool
        Whether to route all anew.
    given : RoutingFiles, optional
        How a fabric is routed that was read.
    step : callable
        Progress callback, called as ``step(message)``.

    Raises
    ------
    HeddleError
        When a file cannot be read, there is no such part, `now` lacks more cables than it may, or the folder must not
        be replaced.

    Examples
    --------
    >>> import plan, topo, routing
    >>> routed = routing.route(topo.preset("lab-20").fabric)
    >>> plan.repair(routed, down=["spine0"]).plan.proofs[0].missing
    0

    See Also
    --------
    routing.repairs.repair : the repair alone
    """
    check_replaceable(output, fabric, keep=BUILT)  # later repairs begin with the fabric that is read
    whole = routed_of(fabric, given, step)
    step("repairing")
    ports = [routing.find_ports(whole.fabric, down)]
    notes, missing = whole.fabric.notes, None
    if now is not None:
        missing = find_missing(whole.fabric, read_fabric_argument(Path(now)))
        check_plausible(now, missing, most_down)
        ports.append(missing.ports)
        notes += missing.notes
    chosen = done = routing.repairs.repair(whole, np.concatenate(ports), spare=spare)
    states = {"repaired": done.after}
    if full:
        step("routing anew")
        chosen = routing.repairs.route_anew(done)
        states["routed anew"] = chosen.after
    holding = done.before
    if loaded is not None:
        holding = replace(holding, tables=read_lfts(Path(loaded), whole.fabric).tables)
    step("ordering the updates")
    updates = routing.repairs.order_updates(holding, chosen.after, chosen.rank)
    left = chosen.after.fabric
    source = left.name if isinstance(fabric, Routed) else str(fabric)
    plan = Plan(left.name, None, (left,), source, routed=(chosen.after,), refusals=left_without_paths(missing))
    plan = run_passes(plan, STUDY, step)
    step("measuring")
    worth = compare_tables({"as loaded": replace(holding, fabric=left)} | states, plan, whole.fabric)
    repaired = Repaired(plan, chosen, updates, worth, routing.prove(whole).max_load, notes)
    if output is not None:
        from plan.export.registry import OF_ROUTE, plan_files  # pages, which most repairs do without

        step("writing")
        files = plan_files(plan, repaired.to_dict(), OF_ROUTE)
        write_folder(Path(output), files | {"updates.csv": updates.write_table.to_csv()})
    return repaired


def check_plausible(now: str | Path, missing: Missing, most: int | None) -> None:
    """Refuse a view of a fabric that lacks the cables in more ports than may be down at once."""
    whole, gone = missing.whole, missing.ports
    plugged = np.bincount(whole.port_node[whole.links].ravel(), minlength=whole.n_switches)[: whole.n_switches]
    largest = int(np.argmax(plugged))
    allowed = int(plugged[largest]) if most is None else most
    cables = int(np.count_nonzero(gone < whole.peer[gone]))
    if cables > allowed:
        as_many = f", as many as {whole.label(largest)} has" if most is None else ""
        raise HeddleError(
            f"{now}: found {plural(cables, 'cable')} of {whole.name} down; expected at most {allowed:,}{as_many}: is "
            f"this a whole view of the fabric? If so many are down, say --most-down {cables}"
        )


def left_without_paths(missing: Missing | None) -> tuple[Finding, ...]:
    """Return a finding for each live port to which no tables for the intact fabric can lead."""
    if missing is None:
        return ()
    whole, now = missing.whole, missing.now
    moved = np.intersect1d(missing.moved, whole.port_of(whole.ends()))
    return (
        *(Finding("replaced", f"{whole.label(node)} has the GUID 0x{int(now.node_guid[there]):016x}; expected "
                  f"0x{int(whole.node_guid[node]):016x}, so that it gets no path. Take it over with plan diff --adopt")
          for node, there in missing.replaced.tolist()),
        *(Finding("missing", f"{whole.port_label(port)} has another cable than {whole.name} says: it gets no path. "
                  "Plug it back, or route the fabric anew as it is now")
          for port in moved.tolist()),
        *(Finding("missing", f"{now.port_label(port)} is not in {whole.name}: it gets no path. Unplug it, or route the "
                  "fabric anew as it is now")
          for port in missing.arrived.tolist()),
    )  # fmt: skip


def compare_tables(states: Mapping[str, Routed], plan: Plan, whole: Fabric) -> Table:
    """Return what named tables are worth side by side; what changes is counted from the first.

    ``plan`` has the proof of the last. All have the same random halves, those of the ``whole`` fabric.
    """
    *others, _ = states.values()
    proofs = [*(routing.prove(one) for one in others), *plan.proofs]
    pairs = zip(states.values(), proofs, strict=True)
    qualities = [routing.measure(one, proof=proof, along=whole) for one, proof in pairs]
    first = others[0].tables.lft
    rows = [
        (name, proof.lost, proof.credit_loops, int(np.count_nonzero(one.tables.lft != first)),
         proof.max_load, quality.ebb)
        for (name, one), proof, quality in zip(states.items(), proofs, qualities, strict=True)
    ]  # fmt: skip
    names = ("tables", "missing", "credit loops", "entries that change", "fullest link", "effective bisection")
    return Table.of_rows("what is left", names, rows, ("", "", "", "", "", ".3f"))
