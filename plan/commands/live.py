"""``plan collect``, ``mock``, ``diff``, ``explain``, ``calibrate``: what is recorded and measured of a real fabric."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import simulate
import topo
from plan.commands.options import (
    FILE,
    answered,
    as_json,
    currency_option,
    fabric_argument,
    hash_options,
    print_json,
    print_notes,
    routing_options,
    seed_option,
    subnet_option,
)
from plan.inputs import SPEC_SUFFIXES, WITHOUT_TABLES, Hashing, RoutingFiles, read_paths_argument, read_routed_argument
from plan.render.tables import print_text, show_table, show_tables
from plan.render.terminal import printable, progress
from topo import HeddleError, plural

if TYPE_CHECKING:
    from simulate.diagnosis import BadLinks, Explanation, Waits

SCRIPT = """\
# Records the state of a subnet, for `plan`. Run it as root on a host that is connected to it. It only reads.
# Nothing here was run: read it first. Of a server with several adapters name one with --device (`ibstat -l` lists
# them; of XDR each has two, take the one of the subnet).
set -u
mkdir -p {folder} && cd {folder}

# nodes, cables, LIDs: what `plan route`, `plan diff` and `plan verify` take as FABRIC (a minute for 10,000 ports)
ibnetdiscover{diags} > fabric.ibnetdiscover

# forwarding tables: what they take as LFTS; older releases call it dump_lfts
dump_fts{diags} > now.lfts || dump_lfts{diags} > now.lfts

# states and speeds of all links, a second witness of the cabling
iblinkinfo --line{diags} > links.iblinkinfo

# errors since the counters were last cleared, and waiting packets; neither is cleared here
ibqueryerrors --data{diags} > errors.txt
# bit errors and light of the ports that it names, where NVIDIA's mlxlink is: LID as in fabric.ibnetdiscover, port as
# printed (16/2 is port 32 of a switch with NDR ports)
#   {{ set -x; mlxlink -d lid-LID -p PORT -m -c; set +x; }} >> errors.txt 2>&1

# all that ibdiagnet tells, where NVIDIA's is installed: ibdiagnet2.db_csv is a FABRIC too
ibdiagnet{ibdiagnet} -o ibdiagnet --get_cable_info || true

# what OpenSM holds, on the host where it runs; copied, not moved
cp -p {cache}/guid2lid . 2> /dev/null || true
cp -p {logs}/opensm-subnet.lst {logs}/opensm-lfts.dump . 2> /dev/null || true
cp -p /etc/opensm/opensm.conf /etc/opensm/qos-policy.conf /etc/opensm/partitions.conf . 2> /dev/null || true
sminfo{diags} > sm.txt

# then, wherever `plan` is installed:
#   plan verify fabric.ibnetdiscover now.lfts           are the tables complete and free of credit loops on one lane?
#     on several lanes: --lanes opensm.conf --policy qos-policy.conf, or ibdiagnet's .slvl and .psl
#   plan explain fabric.ibnetdiscover errors.txt --tables now.lfts   which cables are bad?
#   plan diff PLAN fabric.ibnetdiscover -o differences   is it cabled as planned?
#   plan route fabric.ibnetdiscover -o out               better tables
"""


@click.command(short_help="Print the commands that record the state of a real fabric.")
@click.option("--device", help="Adapter of the host that is connected to the subnet, such as mlx5_0.")
@click.option("--port", type=click.IntRange(1, 254), help="Its port.")
@click.option("--folder", default="fabric", show_default=True, help="Folder for the records.")
@click.option("--cache", default="/var/cache/opensm", show_default=True, help="OpenSM's cache.")
@click.option("--logs", default="/var/log", show_default=True, help="Folder of OpenSM's dumps.")
@as_json
def collect(device: str | None, port: int | None, folder: str, cache: str, logs: str, as_json: bool) -> None:
    """Print a shell script that records the state of a subnet: cabling, tables, speeds, errors.

    `plan` does not run the script. Its commands only read, but need the rights of an administrator.
    """

    def chosen(*names: str) -> str:
        given = zip(names, (device, port), strict=True)
        return "".join(f" {name} {shlex.quote(str(value))}" for name, value in given if value is not None)

    places = {"folder": shlex.quote(folder), "cache": shlex.quote(cache), "logs": shlex.quote(logs)}
    text = SCRIPT.format(diags=chosen("-C", "-P"), ibdiagnet=chosen("-i", "-p"), **places)
    if as_json:
        print_json({"script": text})
    else:
        click.echo(printable(text), nl=False)


@click.command(short_help="Write fabrics with known faults, to test checks on.")
@click.argument("fabrics", type=FILE, nargs=-1, required=True, metavar="FABRIC...")
@click.option("-o", "--output", type=FILE, required=True, help="Folder for the files and the answer.")
@click.option("--faults", type=click.IntRange(0, 10_000), default=5, show_default=True, help="How many in each.")
@click.option("--kind", "kinds", multiple=True, help="Kind of fault; can be repeated. All but `waiting` if left out.")
@seed_option("Of the draw.")
@click.option("--subnet", help="Subnet or Ethernet, if a single FABRIC has several.")
@as_json
def mock(
    fabrics: tuple[Path, ...], output: Path, kinds: tuple[str, ...], subnet: str | None, as_json: bool, **options: Any
) -> None:
    """Break fabrics in ways that are written down.

    FABRIC is a spec, a folder of `plan build` or a dump; of several, each of their networks has a folder. A folder has
    planned.ibnetdiscover, and of the fabric with the faults what ibnetdiscover, ibdiagnet, dump_fts, perfquery and
    ibqueryerrors print; of an Ethernet what lldpctl prints on each device; and answer.json. Kinds are those of `plan
    diff` (swapped, rotated, moved, missing, extra, misplaced, degraded, replaced), errors on links, and waiting for one
    that is slow.
    """
    from plan import mocking

    options["kinds"] = kinds or mocking.FAULTS
    if len(fabrics) > 1 and subnet is not None:
        raise click.UsageError("expected --subnet with a single FABRIC")
    if len(fabrics) == 1:
        made = {"": mocking.mock(fabrics[0], output, subnet=subnet, **options)}
    else:
        made = mocking.mock_each(fabrics, output, **options)
    if as_json:
        print_json({name: one.to_dict() for name, one in made.items()} if len(fabrics) > 1 else made[""].to_dict())
        return
    show_tables(*(one.table for one in made.values()))
    click.echo(f"written to {output}: the answer is answer.json{'' if len(made) == 1 else ' in each folder'}")


@click.command(short_help="Check cabling against a plan, or grow a plan into a larger one.")
@click.argument("planned", type=FILE, metavar="PLAN")
@fabric_argument
@click.option("-o", "--output", type=FILE, help="Folder for the differences as CSV, page, drawing and junit.xml.")
@click.option("--adopt", type=FILE, help="New folder for PLAN, routed with the GUIDs and LIDs of FABRIC.")
@subnet_option
@currency_option
@as_json
def diff(
    planned: Path, fabric: Path, subnet: str | None, currency: str | None, as_json: bool, **folders: Path | None
) -> int:
    """Compare a real fabric with its plan, cable by cable, or a plan with a larger one.

    PLAN is a spec, a folder of `plan build`, a planned cable list (NDT, P2P, .topo) or an earlier dump; FABRIC is the
    real fabric, in any form that `plan route` accepts. Nodes are matched by GUID or description, otherwise by their
    cables; each difference shows its confidence. Differences are listed in the order of a walk from rack to rack if
    PLAN has a floor plan, otherwise by name.

    With two specs, the command shows how to grow from PLAN to FABRIC: what to buy, which cables to move in which order
    so that no host loses its path, and which tables change. --adopt then routes FABRIC with the GUIDs and LIDs of PLAN.

    Exit status 1: there are differences.
    """
    grows = planned.suffix in SPEC_SUFFIXES and fabric.suffix in SPEC_SUFFIXES
    if grows and subnet is not None:
        raise HeddleError("--subnet: found it between two plans; expected none, since all subnets grow together")
    if currency is not None and not grows:
        raise click.UsageError("--currency is for two specs; what is different between fabrics has no price")
    with progress(quiet=as_json) as step:
        from plan import changes

        if grows:
            found = changes.grow(planned, fabric, currency=currency, step=step, **folders)
            works = "works.csv" if len(found.growths) == 1 else "works-SUBNET.csv of each subnet"
            written = {"output": f"{works}, step by step", "adopt": "tables of the larger plan in opensm/"}
        else:
            found = changes.diff(planned, fabric, subnet=subnet, step=step, **folders)
            written = {
                "output": "differences.html to print",
                "adopt": "tables of the plan with the GUIDs of this fabric in opensm/",
            }
    if not answered(found, as_json=as_json):
        show_tables(*found.tables)
        for line in found.remarks:
            print_text(line)
        for name, what in written.items():
            if folders[name] is not None:
                click.echo(f"written to {folders[name]}: {what}")
    return int(bool(found.found))


@click.command(short_help="Fit overhead and rate of machines to a log.")
@click.argument("log", type=FILE)
@as_json
def calibrate(log: Path, as_json: bool) -> None:
    """Fit overhead and rate to a log of nccl-tests or ib_write_bw, with intervals of 95 %.

    Use the rate for `plan simulate --host-gbps` if each rank of the log has one adapter port.
    """
    found = simulate.workload.calibrate(simulate.workload.read_benchmark_log(log), log.name)
    if not answered(found, as_json=as_json):
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
        counted = before is not None or simulate.diagnosis.are_counters(measured)
        found: Explanation | Waits | None = None
        bad: BadLinks | None = None
        if counted:
            routed = read_routed_argument(fabric, given, step, otherwise="minhop")
            step("reading what was measured")
            earlier = None if before is None else simulate.diagnosis.read_counters(before, routed)
            counters = simulate.diagnosis.read_counters(measured, routed)
            counters = counters if earlier is None else counters.since(earlier)
            step("explaining")
            bad = simulate.diagnosis.find_bad_links(routed, counters)
            if (counters.sent_bytes[counters.known] > 0).any() and WITHOUT_TABLES not in routed.fabric.notes:
                found = simulate.diagnosis.explain_waits(routed, counters, following=following)
        else:
            simulate.diagnosis.check_measured(measured)  # first: of counters a fabric needs no tables
            paths = read_paths_argument(fabric, given, hashing, step)
            step("reading what was measured")
            pairs = simulate.diagnosis.read_measured(measured, paths)
            step("explaining")
            found = simulate.diagnosis.explain(paths, pairs, following=following)
    on = (routed if counted else paths).fabric
    slow = topo.slow_cables(on) if bad else ()
    print_notes((*on.notes, *slow, *(topo.uneven_links(on) if bad else ())))
    doubts = found.doubts if found else () if WITHOUT_TABLES in on.notes else (UNSENT,)
    if bad and bad.without_ber:
        doubts = (*doubts, f"the bit error rate of {plural(bad.without_ber, 'port')} is not known")
    identified = bool(bad and bad.found) or bool(found and found.identified)
    status = 1 if identified else 3 if found and found.undecided else 0
    if as_json:
        document = bad.to_dict() if bad else {}
        if bad:
            document |= {
                "slow_cables": topo.slow_cables(on, on.n_ports),
                "uneven_links": topo.uneven_links(on, on.n_ports),
            }
        print_json(document | (found.to_dict() if found else {}))
    else:
        show_tables(*filter(len, (bad.table, bad.absent_table) if bad else ()))
        if not identified:
            sound = "no fault counted, but cables are slower than others beside them" if slow else "no fault found"
            verdict = "no cause identified" if (found and found.others) or status else sound
            click.echo(f"{verdict}: {found.table.title}" if found and not len(found.table) else verdict)
        show_tables(*filter(len, (found.table, found.next_table) if found else ()))
        for doubt in doubts:
            click.echo(doubt)
    return status
