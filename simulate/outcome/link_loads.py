"""Which links carried how much, lane by lane: the hottest of each class of links, and all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulate.outcome.outcome import Outcome
from topo.fabric import Role
from topo.table import Column, Table

AS_HOT = 1e-9
"""Channels whose load differs by no more than this part are equally hot: sums of bytes in another order."""


@dataclass(frozen=True)
class LinkClass:
    """Load of the channels from nodes of one role to nodes of another, on one lane."""

    sender: Role
    receiver: Role
    lane: int
    channels: int
    used: int
    """Channels on which the lane carried anything."""
    bytes: float
    """On all of them."""
    mean: float
    """Part of the capacity of all channels of the class that the lane used until the last flow ended."""
    max: float
    """The same of the hottest channel."""
    hottest: int
    """The hottest channel, by sending port; the first of several."""
    as_hot: int
    """Channels as hot as that one, itself included."""
    peak: float | None
    """Most that the lane carried on one of the channels in a bin of the timeline, as a part of the channel's capacity;
    None without a timeline."""

    def summary(self, label: str) -> dict[str, Any]:
        """Return the figures as plain values, ready for JSON.

        Parameters
        ----------
        label
            Name of the hottest channel.
        """
        return {**vars(self), "sender": self.sender.name.lower(), "receiver": self.receiver.name.lower()} | {
            "hottest": label
        }


def link_table(outcome: Outcome) -> Table:
    """Return `link_classes` as a table."""
    classes, fabric = link_classes(outcome), outcome.network.fabric
    columns = [
        Column("links", [f"{item.sender.name} to {item.receiver.name}".lower() for item in classes]),
        Column("lane", [item.lane for item in classes]),
        Column("channels", [item.channels for item in classes]),
        Column("used", [item.used for item in classes]),
        Column("carried", [item.bytes / 1e9 for item in classes], "GB", ",.4g"),
        Column("mean load", [100 * item.mean for item in classes], "%", ".1f"),
        Column("highest load", [100 * item.max for item in classes], "%", ".1f"),
        Column("hottest", [fabric.channel_label(item.hottest) for item in classes]),
    ]
    return Table("load of links", tuple(columns))


def lane_bytes(outcome: Outcome) -> NDArray[np.float64]:
    """Return (L, P): bytes that crossed each channel of the fabric on each virtual lane."""
    routes, n = outcome.routes, outcome.network.fabric.n_ports
    n_lanes = len(outcome.network.lane_weight)
    on_route = np.bincount(routes.route, outcome.flows.size_bytes, minlength=routes.n_routes)
    hops = np.diff(routes.offset)
    in_fabric = routes.resource < n  # the others belong to devices inside hosts
    place = np.repeat(routes.lane.astype(np.int64) * n, hops) + routes.resource
    total = np.bincount(place[in_fabric], np.repeat(on_route, hops)[in_fabric], minlength=n_lanes * n)
    return np.asarray(total, np.float64).reshape(n_lanes, n)


def peak_utilisation(outcome: Outcome) -> NDArray[np.float64] | None:
    """Return (L, P): the part of a channel that a lane used in its fullest bin; None without a timeline."""
    if outcome.timeline is None:
        return None
    n = outcome.network.fabric.n_ports
    most: NDArray[np.float64] = outcome.timeline.lane_bytes_s[:, :n].max(axis=2, initial=0.0)
    return most / outcome.network.capacity_bytes_s[:n]


def link_classes(outcome: Outcome) -> tuple[LinkClass, ...]:
    """Return the load of each class of channels on each lane that it used, the hottest first."""
    fabric, capacity = outcome.network.fabric, outcome.network.capacity_bytes_s
    channel = np.flatnonzero(fabric.peer >= 0)
    sender = fabric.role[fabric.port_node[channel]].astype(np.int64)
    receiver = fabric.role[fabric.peer_node[channel]].astype(np.int64)
    kind = sender * len(Role) + receiver
    carried = lane_bytes(outcome)[:, channel]
    part = carried / (capacity[channel] * (outcome.makespan_s or 1.0))
    peak = peak_utilisation(outcome)
    found = []
    for number in np.unique(kind).tolist():
        mine = np.flatnonzero(kind == number)
        for lane in np.flatnonzero(carried[:, mine].any(axis=1)).tolist():
            load = part[lane, mine]
            most = int(load.argmax())
            found.append(
                LinkClass(
                    sender=Role(number // len(Role)),
                    receiver=Role(number % len(Role)),
                    lane=lane,
                    channels=len(mine),
                    used=int(np.count_nonzero(carried[lane, mine])),
                    bytes=float(carried[lane, mine].sum()),
                    mean=float(np.average(load, weights=capacity[channel[mine]])),
                    max=float(load[most]),
                    hottest=int(channel[mine[most]]),
                    as_hot=int(np.count_nonzero(load >= load[most] * (1 - AS_HOT))),
                    peak=None if peak is None else float(peak[lane, channel[mine]].max()),
                )
            )
    return tuple(sorted(found, key=lambda item: (-round(item.max, 9), item.sender, item.receiver, item.lane)))
