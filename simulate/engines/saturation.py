"""Where congestion begins, how far it spreads, and whom it slows down that does not cause it.

A *root* is a link for which packets wait although its own way is free: too many flows want it. The buffers before it
fill, and links stand still because the buffer behind them is full: these are *stalled*, and together the tree of
saturation whose root it is. A *victim* is a flow that crosses stalled links and no root, and takes longer than it would
where flows share links fairly and never stand in each other's way.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulate.engines.fluid.engine import Fluid
from simulate.engines.outcome import Outcome
from topo.drawing import Drawing
from topo.errors import HeddleError, plural
from topo.fabric import Frozen, frozen
from topo.table import Shown, Table, format_seconds

STALLED = 0.05
"""A link is part of a tree when it stands still so much of the time until the last flow ends."""

SLOWED = 1.1
"""A victim takes at least so many times as long as with fluid flows."""


@dataclass(frozen=True, eq=False)
class Saturation(Frozen, Shown):
    """Roots, trees and victims of F flows that were played as packets, with L lanes and P channels."""

    outcome: Outcome
    stalled: NDArray[np.float64]
    """(L, P) part of the time that each channel stood still because the buffer behind it was full."""
    root: NDArray[np.bool_]
    """(L, P) where congestion begins."""
    slowdown: NDArray[np.float64]
    """(F,) how many times as long as with fluid flows each flow took; 1 for one that takes no time."""
    victim: NDArray[np.bool_]
    """(F,)"""
    cause: NDArray[np.bool_]
    """(F,) flows that cross a root."""

    @property
    def tree(self) -> NDArray[np.bool_]:
        """(L, P) channels that are part of a tree."""
        return self.stalled >= STALLED

    def _brief(self) -> str:
        counts = ((self.root, "root"), (self.tree, "stalled link"), (self.victim, "victim"))
        said = ", ".join(plural(int(found.sum()), noun) for found, noun in counts)
        return f"{said} of {plural(len(self.victim), 'flow')}"

    def _shown(self) -> tuple[Table, ...]:
        return (self.table, self.roots)

    @property
    def table(self) -> Table:
        """How far congestion spreads."""
        worst = float(self.slowdown[self.victim].max(initial=1.0))
        figures: dict[str, str | int] = {
            "roots": int(self.root.sum()),
            "stalled links": int(self.tree.sum()),
            "time stalled, all links": format_seconds(float(self.stalled.sum()) * self.outcome.makespan_s),
            "flows that cross a root": int(self.cause.sum()),
            "victims": int(self.victim.sum()),
            "the worst takes": f"{worst:.2f} times as long",
        }
        return Table.of_rows("congestion", ("figure", "value"), figures.items())

    @property
    def roots(self) -> Table:
        """The roots, those before which packets waited longest first."""
        met, fabric = self.outcome.congestion, self.outcome.network.fabric
        assert met is not None
        lane, channel = np.nonzero(self.root)
        waited = met.waited_s[lane, channel].tolist()
        links = [fabric.channel_label(port) for port in channel.tolist()]
        rows = sorted(zip(links, lane.tolist(), waited, strict=True), key=lambda row: -row[2])
        return Table.of_rows("roots", ("link", "lane", "inputs waited"), rows, ("", "", "time"), ("", "", "s"))

    def to_dict(self) -> dict[str, object]:
        """Return the figures as plain values, ready for JSON."""
        return {"congestion": self.table.to_dict(), "roots": self.roots.to_dict()}

    def draw(self, title: str | None = None) -> Drawing:
        """Draw the fabric: links coloured by how long they stood still, and roots as if they always had."""
        outcome = self.outcome
        part = np.where(self.root, 1.0, np.where(self.tree, self.stalled, 0.0)).max(axis=0)
        load = np.rint(part * outcome.makespan_s * 1e9).astype(np.int64)
        return outcome.network.fabric.draw(frozen(load), title=title, unit="ns stalled")


def find_saturation(outcome: Outcome) -> Saturation:
    """Return where packets stood still, and whom they kept from going on.

    Raises
    ------
    HeddleError
        When flows were not played as packets.

    Examples
    --------
    Three hosts of a leaf send to one port; a fourth sends elsewhere, and waits behind them.

    >>> import topo, routing, simulate
    >>> routed = routing.route(topo.preset("lab-20").fabric)
    >>> hosts = routed.fabric.ends(role="compute")
    >>> model = simulate.PacketModel(window_packets=0)  # with windows their packets leave room in the buffers
    >>> outcome = simulate.play(routed, simulate.Flows.of(hosts[:3], hosts[3], 1e6), engine=model)
    >>> simulate.find_saturation(outcome)
    <Saturation 1 root, 3 stalled links, 0 victims of 3 flows>
    """
    met, network, routes = outcome.congestion, outcome.network, outcome.routes
    if met is None:
        raise HeddleError("fluid flows never stall; expected an outcome of packets")
    n_ports, n_lanes, time_s = network.fabric.n_ports, len(network.lane_weight), outcome.makespan_s or 1.0
    stalled = met.stalled_s[:, :n_ports] / time_s
    tree = stalled >= STALLED
    # A link that follows a stalled one on a route, is not stalled itself, and for which inputs wait.
    of_route = np.repeat(np.arange(routes.n_routes), np.diff(routes.offset))
    lane, inside = routes.lane[of_route], routes.resource < n_ports
    crossed = np.where(inside, routes.resource, 0)
    on_tree = tree[lane, crossed] & inside
    follows = np.append(False, on_tree[:-1] & (of_route[1:] == of_route[:-1])) & inside
    root = np.zeros((n_lanes, n_ports), np.bool_)
    root[lane[follows], crossed[follows]] = True
    root &= ~tree & (met.waited_s[:, :n_ports] >= STALLED * time_s)
    hits = np.bincount(of_route, root[lane, crossed] & inside, minlength=routes.n_routes) > 0
    meets = np.bincount(of_route, on_tree, minlength=routes.n_routes) > 0
    fair = Fluid(network).play(outcome.flows).duration_s
    slowdown = np.where(fair > 0, outcome.duration_s / np.where(fair > 0, fair, 1.0), 1.0)
    cause = hits[routes.route]
    victim = meets[routes.route] & ~cause & (slowdown >= SLOWED)
    return Saturation(outcome, stalled, root, slowdown, victim, cause)
