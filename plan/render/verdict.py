"""What a proof says: to a person as tables and lines, to a machine as plain values, each fault with its place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from plan.render.terminal import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from routing.proof import ChannelClass, Proof
    from routing.quality import UplinkShare
    from topo.fabric import Fabric

    Share = TypeVar("Share", ChannelClass, UplinkShare)


def faults_document(fabric: Fabric, proof: Proof) -> dict[str, Any]:
    """Return examples of missing pairs and a credit loop: where, what and why.

    ``switch`` is where a path ends early, and ``port`` what its entry says there; both are None where there is none.
    """
    from routing.paths import end_label

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
        out.print(f"missing: {printable(example.describe(fabric))}", markup=False, soft_wrap=True)
    if proof.loop:
        out.print("credit loop, each channel waiting for the next and the last for the first:")
        for channel in proof.loop:
            out.print(f"  {printable(fabric.channel_label(channel))}", markup=False, soft_wrap=True)


def load_table(proof: Proof) -> Table:
    """Return the load of channels between switches by level and, where there are several, by role of destinations."""
    from rich.table import Table

    table = Table(
        title="pairs over a channel (a link one way) between switches; leaves are level 1", title_justify="left"
    )
    for heading in ("from level", "to level", "going to", "channels", "used", "most pairs", "mean of used"):
        table.add_column(heading, justify="left" if heading == "going to" else "right")
    for item in telling(proof.classes):
        role = "all" if item.role is None else item.role.name.lower()
        numbers = (f"{item.channels:,}", f"{item.used:,}", f"{item.max:,}", f"{item.mean:,.1f}")
        table.add_row(_level(item.level), _level(item.next_level), role, *numbers)
    return table


def telling(shares: Sequence[Share]) -> list[Share]:
    """Return the rows of a table by role that say something: with one role, its rows are those of all again."""
    roles = {share.role for share in shares} - {None}
    return [share for share in shares if share.role is None or len(roles) > 1]


def _level(level: int) -> str:
    return "?" if level < 0 else str(level)
