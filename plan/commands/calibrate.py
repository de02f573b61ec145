"""``plan calibrate``: what a log of a benchmark says of machines."""

from __future__ import annotations

from pathlib import Path

import click

from plan.commands.options import FILE, as_json, print_json


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
