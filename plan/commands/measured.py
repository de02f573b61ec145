"""``plan calibrate`` and ``plan explain``: what a benchmark's log, measured pairs or counters say of a fabric."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from plan.commands.options import (
    FILE,
    as_json,
    fabric_argument,
    hash_options,
    print_json,
    print_notes,
    routing_options,
)
from plan.render.progress import progress
from topo import plural

if TYPE_CHECKING:
    from plan.inputs import Hashing, RoutingFiles
    from simulate.diagnosis import BadLinks, Explanation, Waits


@click.command(short_help="Fit overhead and rate of machines to a log.")
@click.argument("log", type=FILE)
@as_json
def calibrate(log: Path, as_json: bool) -> None:
    """Fit overhead and rate to a log of nccl-tests or ib_write_bw, with intervals of 95 %.

    Use the rate for `plan simulate --host-gbps` if each rank of the log has one adapter port.
    """
    import simulate

    found = simulate.workload.calibrate(simulate.workload.read_benchmark_log(log), log.name)
    if as_json:
        print_json(found.to_dict())
    else:
        from plan.render.tables import show_table

        show_table(found.table)
        click.echo(f"plan simulate --host-gbps {found.bus_gbytes_per_s.value * 8:.4g}   # calibrated on {log.name}")


UNSENT = "no port has counted what it sent: whether packets waited is not known"


@click.command(short_help="Find bad cables, and what slows measured pairs or ports.")
@fabric_argument
@click.argument("measured", type=FILE)
@click.option("--before", type=FILE, help="An earlier reading of the counters, to be subtracted.")
@routing_options
@hash_options
@click.option(
    "--next", "following", type=click.IntRange(0, 100), default=5, show_default=True, help="Pairs to propose."
)
@as_json
def explain(
    fabric: Path, measured: Path, before: Path | None, given: RoutingFiles, hashing: Hashing, following: int,
    as_json: bool,
) -> int:  # fmt: skip
    """Explain measured bandwidths of pairs, or counters of ports, by slow links and collisions.

    FABRIC is the same as for `plan simulate`, with the --tables that were loaded during the measurement; bad links of
    a dump are found without. MEASURED
    is a CSV file. It has a row for each pair (source,destination,Gb/s, and a round if several were measured at
    once), or is a matrix whose first cell is the unit. Or it has counters of ports: ibdiagnet2.db_csv, or the
    output of `ibqueryerrors --data` or `perfquery -x`; or bit error rates: ibdiagnet2.net_dump_ext; or what
    `mlxlink -m -c` prints behind the command itself. Of these, PortXmitWait and PortXmitData tell of waiting, and
    counters of errors, a rate that could be higher, bit errors and optical power name bad links, with the pairs that
    cross them; notes name cables that are slower or fewer than those beside them. Of Ethernet it takes pairs, measured
    one at a time. The command names the cause, its probability, and the pairs to measure next.

    Exit status 1: a bad or slow link or a collision was found; 3: something is slow, and its cause is unknown.
    """
    with progress(quiet=as_json) as step:
        import simulate
        from plan.inputs import WITHOUT_TABLES, read_paths_argument, read_routed_argument
        from topo import slow_cables, uneven_links

        counted = before is not None or simulate.diagnosis.are_counters(measured)
        found: Explanation | Waits | None = None
        bad: BadLinks | None = None
        if counted:
            routed = read_routed_argument(fabric, given, step, otherwise="minhop")
            step("reading what was measured")
            earlier = None if before is None else simulate.diagnosis.read_counters(before, routed)
            counters = simulate.diagnosis.read_counters(measured, routed)
            step("explaining")
            counters = counters if earlier is None else counters.since(earlier)
            bad = simulate.diagnosis.find_bad_links(routed, counters)
            if (counters.sent_bytes[counters.known] > 0).any() and WITHOUT_TABLES not in routed.fabric.notes:
                found = simulate.diagnosis.explain_waits(routed, counters, following=following)
        else:
            paths = read_paths_argument(fabric, given, hashing, step)
            step("reading what was measured")
            pairs = simulate.diagnosis.read_measured(measured, paths)
            step("explaining")
            found = simulate.diagnosis.explain(paths, pairs, following=following)
    on = (routed if counted else paths).fabric
    slow = slow_cables(on) if bad else ()
    print_notes((*on.notes, *slow, *(uneven_links(on) if bad else ())))
    doubts = found.doubts if found else () if WITHOUT_TABLES in on.notes else (UNSENT,)
    if bad and bad.without_ber:
        doubts = (*doubts, f"the bit error rate of {plural(bad.without_ber, 'port')} is not known")
    identified = bool(bad and bad.found) or bool(found and found.identified)
    status = 1 if identified else 3 if found and found.undecided else 0
    if as_json:
        beside = {}
        if bad:
            every = on.n_ports
            beside = {"slow_cables": slow_cables(on, every), "uneven_links": uneven_links(on, every)}
        print_json((bad.to_dict() if bad else {}) | beside | (found.to_dict() if found else {}))
    else:
        from plan.render.tables import show_table

        for table in (bad.table, bad.absent_table) if bad else ():
            if len(table):
                show_table(table)
        if not identified:
            sound = "no fault counted, but cables are slower than others beside them" if slow else "no fault found"
            click.echo("no cause identified" if (found and found.others) or status else sound)
        for table in (found.table, found.next_table) if found else ():
            if len(table):
                show_table(table)
        for doubt in doubts:
            click.echo(doubt)
    return status
