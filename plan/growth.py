"""From one plan to a larger one: what is bought, which cables move, which tables change, and what room is left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from topo import Column, HeddleError, Table, plural

if TYPE_CHECKING:
    from costmodel import Bill
    from routing import Routed
    from topo import Cluster, Growth, PortUse


@dataclass(frozen=True)
class Grown:
    """The way from one plan to a larger one."""

    subnets: tuple[Growth, ...]
    """Of those that both have."""
    added: tuple[str, ...]
    """Subnets that are new, or that go, by name."""
    bought: Bill
    left_over: Bill
    """Parts that the larger plan has fewer of."""
    routed: tuple[tuple[Routed, Routed], ...]
    """Subnet by subnet, tables before and after; nothing of Ethernet."""
    room: PortUse
    """Ports that the larger plan leaves."""
    moved: Table
    """Nodes that stay and stand elsewhere, as far as both plans have a floor."""

    @property
    def changes(self) -> Table:
        """How many entries of the tables change, subnet by subnet, of those that both have."""
        rows = [(growth.grown.name, *count_changes(growth, *pair))
                for growth, pair in zip(self.subnets, self.routed, strict=False)]  # fmt: skip
        names = ("subnet", "switches", "of", "entries", "of them")
        return Table("tables that change, of switches and LIDs that stay",
                     tuple(Column(name, [row[at] for row in rows]) for at, name in enumerate(names)))  # fmt: skip

    def to_dict(self, currency: str | None = None) -> dict[str, Any]:
        """Return it as plain values, ready for JSON."""
        return {
            "subnets": [growth.to_dict() for growth in self.subnets],
            "added": list(self.added),
            "bought": self.bought.to_dict(),
            "price": self.bought.price(currency).to_dict(),
            "left_over": self.left_over.to_dict(),
            "tables": self.changes.to_dict(),
            "room": self.room.to_dict(),
            "moved": self.moved.to_dict(),
        }


def grow(old: Cluster, target: Cluster, step: Callable[[str], None] = lambda text: None) -> Grown:
    """Find the way from a plan to a larger one.

    Raises
    ------
    HeddleError
        When the plans have nothing in common, or a plan cannot be built or routed.
    """
    import costmodel
    from routing import route
    from topo import count_ports, plan_growth

    step("matching")
    pairs = list(zip(old.cabled, target.cabled, strict=False))
    growths = tuple(
        plan_growth(*pair, (places(old, subnet), places(target, subnet))) for subnet, pair in enumerate(pairs)
    )
    rest = (*old.fabrics[len(pairs) :], *target.fabrics[len(pairs) :])
    step("counting")
    bills = costmodel.bill(old), costmodel.bill(target)
    routed = []
    subnets = min(len(old.subnets), len(target.subnets))
    for growth in growths[:subnets]:
        step(f"routing {growth.grown.name}")
        before = route(growth.old, growth.old.engine)
        routed.append((before, route(growth.with_lids(before.tables.lid), growth.grown.engine)))
    return Grown(growths, tuple(fabric.name for fabric in rest), bills[1].beyond(bills[0]), bills[0].beyond(bills[1]),
                 tuple(routed), count_ports(target.fabrics), list_moved(old, target, growths))  # fmt: skip


def places(cluster: Cluster, subnet: int) -> list[str]:
    """Return rack and unit of each node of a subnet; nothing where there is no floor plan."""
    layout = cluster.layout
    if layout is None:
        return []
    racks, units = layout.rack.tolist(), layout.unit.tolist()
    return [f"{layout.rack_name(racks[device])} U{units[device]}" for device in layout.node_device[subnet].tolist()]


def list_moved(old: Cluster, target: Cluster, growths: Sequence[Growth]) -> Table:
    """List the nodes that stay and stand elsewhere, with both places."""
    rows = []
    for subnet, growth in enumerate(growths):
        before, after = places(old, subnet), places(target, subnet)
        rows += [(growth.grown.label(node), before[was], after[node]) for node, was in enumerate(growth.was.tolist())
                 if before and after and was >= 0 and before[was] != after[node]]  # fmt: skip
    names = ("node", "from", "to")
    return Table(
        "moved to another place", tuple(Column(name, [row[at] for row in rows]) for at, name in enumerate(names))
    )


def count_changes(growth: Growth, before: Routed, after: Routed) -> tuple[int, int, int, int]:
    """Return switches with an entry that changes, switches that stay, entries that change, and entries of them."""
    stays = np.flatnonzero(growth.was[: growth.grown.n_switches] >= 0)
    lids = before.tables.lid[before.tables.lid > 0]
    lids = lids[np.isin(lids, after.tables.lid)]
    old, new = before.tables.lft[growth.was[stays]][:, lids], after.tables.lft[stays][:, lids]
    return int((old != new).any(axis=1).sum()), len(stays), int((old != new).sum()), old.size


def show(grown: Grown, currency: str | None = None) -> None:
    """Print it."""
    import click

    from plan.render.tables import show_table

    for growth in grown.subnets:
        if growth.works:
            counts = np.zeros((growth.steps, 2), int)
            for work in growth.works:
                counts[work.step - 1, int(work.do == "plug")] += 1
            cut = [" ".join(sorted({name for work in growth.works if work.step == step + 1 for name in work.cut}))
                   for step in range(growth.steps)]  # fmt: skip
            columns = (Column("step", range(1, growth.steps + 1)), Column("unplug", counts[:, 0].tolist()),
                       Column("then plug", counts[:, 1].tolist()), Column("cut off", cut))  # fmt: skip
            show_table(Table(f"cables of {growth.grown.name}, step by step", columns))
    show_table(grown.bought.table, "bought")
    if grown.left_over.lines:
        show_table(grown.left_over.table, "left over")
    if len(grown.moved):
        show_table(grown.moved)
    show_table(grown.changes)
    show_table(grown.room.table, "ports of the larger plan")
    for growth in grown.subnets:
        click.echo(f"{growth.grown.name}: {growth}".replace("<Growth ", "").replace(">", ""))
        if growth.cut:
            click.echo(f"{plural(len(growth.cut), 'adapter')} cut off for a step, since no order spares them: "
                       + ", ".join(growth.cut[:8]) + (", ... (all: -o)" if len(growth.cut) > 8 else ""))  # fmt: skip
    for name in grown.added:
        click.echo(f"{name}: only one of the plans has this subnet")
    cost = grown.bought.price(currency)
    click.echo(f"the network that is bought costs {cost.network} {cost.unit}")


def check_growth(subnet: str | None) -> None:
    """Refuse a choice of a subnet.

    Raises
    ------
    HeddleError
        When there is one.
    """
    if subnet is not None:
        raise HeddleError("--subnet: found it between two plans; expected none, since all subnets grow together")
