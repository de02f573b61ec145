"""What a proof says: to a person as tables and lines, to a machine as plain values, each fault with its place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plan.terminal import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from routing.proof import Proof
    from topo.fabric import Fabric

__all__ = ["faults_document", "load_table", "print_faults"]


def faults_document(fabric: Fabric, proof: Proof) -> dict[str, Any]:
    """Return examples of missing pairs and a credit loop: where, what and why.

    ``switch`` is where a path ends early, and ``port`` what its entry says there; both are None where there is none.
    """
    from routing.trace import end_label

    return {
        "examples": [
            {
                "source": end_label(fabric, example.source),
                "destination": end_label(fabric, example.destination),
                "fault": example.fault.name.lower() if example.fault is not None else None,
                "switch": fabric.label(example.switches[-1]) if example.switches else None,
                "port": example.port if example.port >= 0 else None,
                "path": [fabric.label(switch) for switch in example.switches],
                "text": example.describe(fabric),
            }
            for example in proof.examples
        ],
        "credit_loop": [fabric.channel_label(channel) for channel in proof.loop],
    }


def print_faults(out: Console, fabric: Fabric, proof: Proof) -> None:
    """Print examples of missing pairs, and a credit loop channel by channel."""
    for example in proof.examples:
        out.print(f"missing: {printable(example.describe(fabric))}", markup=False)
    if proof.loop:
        out.print("credit loop, each channel waiting for the next and the last for the first:")
        for channel in proof.loop:
            out.print(f"  {printable(fabric.channel_label(channel))}", markup=False)


def load_table(proof: Proof) -> Table:
    """Return the load of channels between switches by level and by role of the destination."""
    from rich.table import Table

    table = Table(title="pairs over channels between switches", title_justify="left")
    for heading in ("from level", "to level", "to", "channels", "used", "max", "mean"):
        table.add_column(heading, justify="left" if heading == "to" else "right")
    for item in proof.classes:
        role = "all" if item.role is None else item.role.name.lower()
        numbers = (f"{item.channels:,}", f"{item.used:,}", f"{item.max:,}", f"{item.mean:,.1f}")
        table.add_row(_level(item.level), _level(item.next_level), role, *numbers)
    return table


def _level(level: int) -> str:
    return "?" if level < 0 else str(level)
