"""``plan.Keeper``: keeps the tables in the switches of a live fabric as good as what is up allows, and reads them back.

A pass begins with what the switches hold, never with what was told to OpenSM before. So it does not matter where the
last one failed or was killed: what the switches lack is what is written.
"""

from __future__ import annotations

import shlex
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import routing
from plan.checksums import digest, locked
from plan.files import check_writable, write_file
from plan.inputs import read_fabric_argument
from plan.pipeline import Progress, silent
from plan.repairing import check_plausible, left_without_paths
from routing import NO_PATH, Proof, Routed, RoutingTables
from routing.opensm import lfts_sections, parse_lfts
from routing.repairs import Repair, RepairBasis
from topo import Column, Finding, HeddleError, Missing, RoutingError, Shown, Table, ToolError, find_missing, plural

SWITCH_LIFE_S = 4.096e-6 * 2**18
"""After which a switch drops a packet: ``packet_life_time 0x12``, the default of OpenSM."""
LOAD_S = 60.0
"""How long OpenSM may take to load tables."""
LOOK_S = 0.2
"""Between two looks at what the switches hold, or at the list of the fabric."""
NAMED = 8
"""LIDs that are named of many."""


@dataclass(frozen=True, eq=False)
class Kept(Shown):
    """What a pass of a `Keeper` did, and what it could not do."""

    repair: Repair
    """For what is up now."""
    proof: Proof
    """Of the tables that the switches hold at the end, read from them."""
    written: int
    """Entries of switches that were written."""
    stages: int
    """Times that OpenSM was told to load tables."""
    left: tuple[Finding, ...]
    """What is not as it could be, with what to do."""
    notes: tuple[str, ...] = ()
    """What was skipped in what was read."""

    @property
    def holds(self) -> bool:
        """Whether the switches deliver every pair of ports that cables connect, without a credit loop."""
        return not self.left

    @property
    def figures(self) -> dict[str, int]:
        """The pass in figures, each with its name."""
        return {
            "cables down": len(self.repair.down) // 2,
            "entries written": self.written,
            "stages": self.stages,
            "pairs": self.proof.pairs,
            "pairs missing that cables connect": self.proof.lost,
            "channels in credit loops": self.proof.credit_loops,
            "findings": len(self.left),
        }

    @property
    def table(self) -> Table:
        """The `figures` as a table."""
        return Table("kept", (Column("of", list(self.figures)), Column("value", list(self.figures.values()))))

    @property
    def metrics(self) -> str:
        """The pass for Prometheus' textfile collector."""
        return _gauges({"holds": int(self.holds)} | self.figures)

    def _brief(self) -> str:
        return f"{plural(self.written, 'entry', 'entries')} written, {plural(len(self.left), 'finding')}"

    def to_dict(self) -> dict[str, Any]:
        """Return the figures and findings as plain values, ready for JSON."""
        figures = {name.replace(" ", "_"): value for name, value in self.figures.items()}
        return {"holds": self.holds} | figures | {"left": [finding.to_dict() for finding in self.left]}


@dataclass(frozen=True, eq=False)
class Keeper:
    """Keeps the tables in the switches of a live fabric, one pass at a time; holds in memory what repairs need.

    Parameters
    ----------
    routed : Routed
        The intact fabric with its tables, which deliver every pair that cables connect.
    now : Path
        Where the fabric is listed anew whenever it changes, such as ``opensm-subnet.lst``.
    tables : Path
        The file of tables that OpenSM loads.
    read : callable
        Returns the tables that the switches hold, as ``dump_fts`` prints them.
    reload : callable
        Makes OpenSM load the file; may return before it has.
    most_down : int, optional
        As `plan.repair` takes it.
    switch_life_s : float
        Seconds after which a switch drops a packet.
    load_s : float
        Seconds that OpenSM may take to load tables.

    Raises
    ------
    RoutingError
        When the tables of the intact fabric miss pairs that cables connect, or have credit loops.

    Examples
    --------
    >>> import plan, routing, tempfile, topo
    >>> from pathlib import Path
    >>> routed = routing.route(topo.preset("lab-20").fabric)
    >>> now = Path(tempfile.mkdtemp(), "now")
    >>> _ = now.write_text(topo.format_ibnetdiscover(routed.fabric))
    >>> switches = routing.opensm.format_lfts(routed.fabric, routed.tables)
    >>> plan.Keeper(routed, now, now.with_name("lfts"), lambda: switches, lambda: None).keep()
    <Kept 0 entries written, 0 findings>

    See Also
    --------
    repair : the repair alone
    """

    routed: Routed
    now: Path
    tables: Path
    read: Callable[[], bytes] = field(repr=False)
    reload: Callable[[], object] = field(repr=False)
    most_down: int | None = None
    switch_life_s: float = SWITCH_LIFE_S
    load_s: float = LOAD_S
    _seen: dict[str, Any] = field(default_factory=dict, init=False, repr=False)
    """The last text (or its digest) of the list and of the switches, each with what was read from it."""

    @cached_property
    def basis(self) -> RepairBasis:
        """The intact fabric, prepared for repairs."""
        proof = routing.prove(self.routed)
        if proof.lost:
            raise HeddleError(
                f"{self.routed.fabric.name}: found {plural(proof.lost, 'pair')} without a path that cables connect; "
                "expected tables that are whole, for a keeper loses no pair"
            )
        return routing.repairs.prepare_repair(self.routed)

    def keep(self, step: Progress = silent) -> Kept:
        """Bring the switches to the best tables for what is up, stage by stage, and read back what they hold.

        Only one keeper of a folder of tables works at a time; another one waits. After each stage it waits until
        packets that were sent before have left the network. LIDs that no order serves are drained by the switches,
        which drop what is sent to them for a stage, if pairs have no path meanwhile; otherwise they keep their entries.

        Raises
        ------
        HeddleError
            When the list cannot be read or is not one of this fabric, lacks more than may be down, the switches cannot
            be read, or OpenSM does not load what it should.
        """
        basis = self.basis
        check_writable(self.tables, [self.now])
        with locked(self.tables.absolute().parent):
            step("reading the fabric")
            missing = self._missing()
            check_plausible(self.now, missing, self.most_down)
            step("repairing")
            done = routing.repairs.repair(basis, missing.ports)
            written = stages = 0
            held = self._held(done)
            while (ahead := next_stages(held, done)).stages:
                for tables, longest in ahead.stages:
                    step("loading")
                    written += int(np.count_nonzero(tables.lft != held.tables.lft))
                    held = self._load(tables, done)
                    stages += 1
                    step("waiting for packets on their way")
                    time.sleep(self.switch_life_s * longest)
            if not stages:
                self._write(held)  # or OpenSM would load something else when it sweeps
        proof = routing.prove(held)
        left = [*left_without_paths(missing)]
        if lids := ahead.drained.tolist():
            some = ", ".join(map(str, lids[:NAMED])) + ", ..." * (len(lids) > NAMED)
            none = f"no order of updates serves {plural(len(lids), 'LID')} ({some}), whose entries stay"
            left.append(Finding("drained", f"{none}. Send nothing to them, and load the tables of plan repair"))
        if proof.lost:
            left.append(Finding("missing", f"no path for {plural(proof.lost, 'pair')} that cables connect"))
        if proof.credit_loops:
            left.append(Finding("credit loops", f"{plural(proof.credit_loops, 'channel')} in credit loops"))
        return Kept(done, proof, written, stages, tuple(left), missing.notes)

    def _missing(self) -> Missing:
        """Return what the list lacks; one that says what it said before is not read again."""
        text = _digest(self.now)
        found: Missing
        last, found = self._seen.get("list", (None, None))
        if text is None or text != last:
            found = find_missing(self.basis.routed.fabric, read_fabric_argument(self.now))
            if text and _digest(self.now) == text:  # or it was written meanwhile
                self._seen["list"] = text, found
        return found

    def _held(self, done: Repair) -> Routed:
        """Return what is left of the fabric with the tables that its switches hold.

        Switches that nobody can read, and LIDs that no cable connects, have the wanted entries.
        """
        whole, left, wanted = done.before.fabric, done.after.fabric, done.after.tables
        known = replace(whole, discovered_lid=wanted.lid, lmc=wanted.lmc)  # LIDs never change
        text = self.read()
        last, found = self._seen.get("switches", (None, None))
        if text != last:
            found = parse_lfts(text, known, "tables of the switches").tables
            self._seen["switches"] = text, found
        if other := np.flatnonzero((found.lid != wanted.lid) & (left.end_switch >= 0)).tolist():
            port = routing.end_label(whole, other[0])
            lids = f"found LID {found.lid[other[0]]} in the switches; expected {wanted.lid[other[0]]}"
            raise HeddleError(f"{port}: {lids} ({plural(len(other), 'port')} so). Let OpenSM use the plan's guid2lid")
        _, served = wanted.entries_of(np.flatnonzero((wanted.lid > 0) & (left.end_switch >= 0)))
        reached = np.unique(left.port_node[(left.peer >= 0) & (left.port_node < left.n_switches)])
        read = np.full_like(wanted.lft, NO_PATH)
        width = min(read.shape[1], found.lft.shape[1])
        read[:, :width] = found.lft[:, :width]
        lft = wanted.lft.copy()
        lft[np.ix_(reached, served)] = read[np.ix_(reached, served)]
        return replace(done.after, tables=replace(wanted, lft=lft))

    def _load(self, tables: RoutingTables, done: Repair) -> Routed:
        """Let OpenSM load tables, and return once they are read back from the switches."""
        target = replace(done.after, tables=tables)
        self._write(target)
        self.reload()
        limit = time.monotonic() + self.load_s
        while not np.array_equal((held := self._held(done)).tables.lft, tables.lft):
            if time.monotonic() > limit:
                switches, lids = np.nonzero(held.tables.lft != tables.lft)
                raise ToolError(
                    f"{self.tables}: {plural(len(switches), 'entry', 'entries')} of it are not in the switches after "
                    f"{self.load_s:g} s, such as that of {held.fabric.label(int(switches[0]))} for LID {lids[0]}; "
                    "expected OpenSM to load them. Does it run, is it the master, and is this its lfts_file?"
                )
            time.sleep(LOOK_S)
        return held

    def _write(self, routed: Routed) -> None:
        sections = list(lfts_sections(routed.fabric, routed.tables))
        if not _has(self.tables, sections):
            write_file(self.tables, sections)


class NextStages(NamedTuple):
    """What is to be written next."""

    stages: list[tuple[RoutingTables, int]]
    """Tables after each stage, and the most switches that a packet passes meanwhile."""
    drained: NDArray[np.int32]
    """LIDs that no order of updates serves, whose entries stay."""


def next_stages(held: Routed, done: Repair) -> NextStages:
    """Return the stages that lead from the tables that switches hold to repaired ones, as far as an order serves them.

    Tables with credit loops have no order: all of them are replaced at once, which can only be better. LIDs that no
    order serves come last. If pairs have no path meanwhile, entries towards these LIDs drop packets for a stage: then
    all turns that are left are those of the repaired tables, and an order serves them.
    """
    new, none = done.after.tables, np.zeros(0, np.int32)
    lft = held.tables.lft.copy()
    lft[np.arange(len(lft)), new.lid[: len(lft)]] = 0  # OpenSM takes no switch that does not know itself
    unknown = [] if np.array_equal(lft, held.tables.lft) else [(replace(new, lft=lft), 0)]
    if np.array_equal(lft, new.lft):
        return NextStages(unknown, none)
    try:
        updates = routing.repairs.order_updates(held, done.after, done.rank)
    except RoutingError:
        return NextStages([(new, routing.prove(done.after).max_hops)], none)
    stages: list[tuple[RoutingTables, int]] = []
    ordered = updates.entries[~np.isin(updates.entries[:, 2], updates.drained)]
    for number in np.unique(ordered[:, 0]).tolist():
        _, switch, lid = ordered[ordered[:, 0] == number].T
        lft = lft.copy()
        lft[switch, lid] = new.lft[switch, lid]
        stages.append((replace(new, lft=lft), int(updates.longest[number])))
    lanes = new.path_sl is not None and new.path_sl.any()
    if not stages and not lanes:
        proof = routing.prove(held)
        if proof.missing > routing.prove(done.after).missing:
            _, switch, lid = updates.entries.T
            dropped = lft.copy()
            dropped[switch, lid] = NO_PATH
            return NextStages([(replace(new, lft=dropped), proof.max_hops)], updates.drained)
    return NextStages(stages or unknown, updates.drained)


def passes(keeper: Keeper, every_s: float | None = None) -> Iterator[Kept | HeddleError]:
    """Yield each pass, or why it failed: for ever, whenever the list changes and after ``every_s``; once for None."""
    while True:
        seen, begun = _state(keeper.now), time.monotonic()
        try:
            yield keeper.keep()
        except HeddleError as error:
            yield error
        if every_s is None:
            return
        while time.monotonic() < begun + every_s:
            time.sleep(LOOK_S)
            if _state(keeper.now) != seen:
                _settle(keeper.now)
                break


def _digest(path: Path) -> str | None:
    """Return the digest of what can be read more than once; None for anything else."""
    with suppress(OSError):
        return digest(path)
    return None


def run_program(command: str) -> bytes:
    """Run a program and return what it prints; ToolError if it is missing, fails or takes longer than `LOAD_S`."""
    words = shlex.split(command)
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=LOAD_S, check=False)
    except OSError as error:
        raise ToolError(f"{command}: cannot be started ({error.strerror})") from None
    except subprocess.TimeoutExpired:
        raise ToolError(f"{command}: has not finished after {LOAD_S:g} s") from None
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise ToolError(f"{command}: left with status {done.returncode}: {(last or ['it says nothing'])[0]}")
    return done.stdout


def _gauges(figures: Mapping[str, int]) -> str:
    lines = []
    for name, value in figures.items():
        metric = f"heddle_keeper_{name.replace(' ', '_')}"
        lines += [f"# TYPE {metric} gauge\n", f"{metric} {value}\n"]
    return "".join(lines)


def failed_metrics() -> str:
    """Return the metrics of a pass that failed: that it did, and nothing else, for the rest is unknown."""
    return _gauges({"holds": 0})


def _has(path: Path, sections: Sequence[bytes]) -> bool:
    """Whether a file holds these sections, but for the first, a comment."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.readline(1024).startswith(b"#") and all(file.read(len(one)) == one for one in sections[1:]) and (
            not file.read(1))  # fmt: skip


def _state(path: Path) -> tuple[int, ...]:
    """Return what changes when a file is written."""
    try:
        status = path.stat()
    except OSError:
        return ()
    return status.st_ino, status.st_size, status.st_mtime_ns


def _settle(path: Path) -> None:
    """Wait until nobody has written to a file for a moment."""
    state = None
    while (later := _state(path)) != state:
        state = later
        time.sleep(LOOK_S)
