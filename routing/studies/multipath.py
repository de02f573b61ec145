"""What the paths to the several LIDs of a port (LMC) share."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from routing.engines.disjoint import count_shared
from routing.engines.multipath import blocks_of, lid_net
from routing.order.channel_order import order_channels, switch_levels
from routing.proof import prove
from routing.routed import Routed
from routing.tables import select_endpoints
from topo.amounts import percent
from topo.errors import plural
from topo.table import Brief, Record


@dataclass(frozen=True)
class Multipath(Brief, Record):
    """What the paths to the LIDs of a port share, over ordered pairs of host ports on different switches."""

    lids: int
    """LIDs of a port."""
    pairs: int
    """Pairs whose paths to all LIDs arrive."""
    apart: int
    """Those of them whose paths have no cable between switches in common."""
    disjointness: float
    """Different cables on the paths by all their cables, in the mean over pairs; 1 where none is shared."""
    max_load: tuple[int, ...]
    """Pairs over the fullest link by those who use one LID of each port, from the lowest LID on."""
    max_load_of_all: int
    """The same where the LIDs of a port are used alike, pairs once for each."""

    def _brief(self) -> str:
        return self.text

    @property
    def text(self) -> str:
        """The figures in words."""
        share = self.apart / self.pairs if self.pairs else 1.0
        return (
            f"{plural(self.lids, 'LID')} a port; of {plural(self.pairs, 'pair')} on different switches "
            f"{percent(share)} have paths without a cable in common; "
            f"fullest link by LID {', '.join(f'{n:,}' for n in self.max_load)} "
            f"pairs, {self.max_load_of_all / self.lids:,.1f} if all are used alike"
        )


def measure_lids(routed: Routed) -> Multipath:
    """Say what the paths to the LIDs of a port share, between hosts.

    Examples
    --------
    >>> import topo, routing
    >>> routing.studies.measure_lids(routing.route(topo.preset("lab-20").fabric)).disjointness
    1.0
    """
    fabric, tables = Routed.given(routed).fabric, routed.tables
    order = order_channels(fabric, switch_levels(fabric), join_peaks=False)
    ends = select_endpoints(fabric, tables)
    net = lid_net(fabric, tables, order, ends[fabric.end_switch[ends] >= 0])
    by_lid = np.array(tables.lft.T, order="C")
    total = sum((count_shared(net, by_lid, begin, end) for begin, end in blocks_of(net)), np.zeros(3))
    mean = float(total[2] / total[0]) if total[0] else 1.0
    count = 1 << tables.lmc
    loads = tuple(prove(replace(routed, tables=tables.only(number))).max_load for number in range(count))
    return Multipath(count, int(total[0]), int(total[1]), mean, loads, prove(routed).max_load)
