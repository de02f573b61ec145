"""Quality of service: which lane a class of traffic travels on, and how lanes share a cable.

A packet carries a service level (SL); each port maps it to a virtual lane (VL), with buffers and credits of its own,
and serves the lanes in turn, by weight. Whether lanes deadlock is judged elsewhere (`routing.proof`): where tables are
free of loops on one lane, classes with lanes of their own are free of loops too, each on its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from routing.tables import MAX_DATA_VLS
from topo.errors import DesignError
from topo.spec.base import TrafficClass

DATA_LANES = 8
"""Data lanes of a Quantum switch, 0 to 7. A higher one would be folded onto these (OpenSM masks it), unseen."""

MAX_WEIGHT = 255
"""Of one entry of an arbitration table, in units of 64 bytes (InfiniBand Architecture Specification, vol. 1, 7.6.9)."""

PACKET_WEIGHT = 64
"""Weight of a packet of 4 KiB. Lanes with less still send one packet a turn."""


@dataclass(frozen=True)
class LanePlan:
    """What every port does with service levels."""

    sl2vl: tuple[int, ...]
    """(16,) lane of each service level."""
    arbitration: tuple[tuple[int, int], ...]
    """Lane and weight of each entry of the low-priority table, each lane once. The high-priority table stays empty, so
    that no class can starve another: lanes that are busy share a cable by weight, the idle ones' part as well."""

    @property
    def lanes(self) -> int:
        """Lanes that ports must have: one more than the highest in use."""
        return max(self.sl2vl) + 1


def lanes_of_classes(traffic: Sequence[TrafficClass]) -> LanePlan:
    """Return the lanes of traffic classes.

    A service level without a class travels as level 0 does, on the lane of the class of level 0, or else of the first
    class: a lane that no entry of the arbitration names would never be served, and management of paths, IPoIB and
    whatever was not configured use level 0.

    It is a DesignError when two classes share a name or a service level, a lane is beyond those that switches have, or
    the weights of a lane exceed what an entry can hold.
    """
    if not traffic:
        return LanePlan((0,) * 16, ((0, PACKET_WEIGHT),))
    for what in ("name", "sl"):
        value, times = Counter(getattr(item, what) for item in traffic).most_common(1)[0]
        if times > 1:
            raise DesignError(f"{times} traffic classes have the {what} {value}; each must have its own")
    has = f"switches have the data lanes 0 to {DATA_LANES - 1}"
    for item in traffic:
        if item.vl >= DATA_LANES:
            raise DesignError(f"traffic class {item.name} has SL {item.sl} and VL {item.vl}; {has}")
    lane = {item.sl: item.vl for item in traffic}
    other = lane.get(0, traffic[0].vl)
    weights: Counter[int] = Counter()
    for item in traffic:
        weights[item.vl] += item.weight
    for vl, weight in weights.items():
        if weight > MAX_WEIGHT:
            names = ", ".join(item.name for item in traffic if item.vl == vl)
            raise DesignError(f"lane {vl} has the weight {weight} ({names}); an entry can hold 1 to {MAX_WEIGHT}")
    return LanePlan(tuple(lane.get(sl, other) for sl in range(16)), tuple(sorted(weights.items())))


def lanes_of_levels(sl2vl: Sequence[int]) -> LanePlan:
    """Return the lanes of tables that say the lane of each service level; they share a cable evenly."""
    used = sorted({lane for lane in sl2vl if lane < MAX_DATA_VLS})
    return LanePlan(tuple(sl2vl), tuple((lane, PACKET_WEIGHT) for lane in used))


def check_lanes(plan: LanePlan) -> LanePlan:
    """Return the lanes; raise DesignError when they are more than switches have."""
    if plan.lanes > DATA_LANES:
        raise DesignError(f"the tables use lane {plan.lanes - 1}; switches have the data lanes 0 to {DATA_LANES - 1}")
    return plan
