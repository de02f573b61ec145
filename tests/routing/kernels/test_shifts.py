"""Flows of shifts are parted: counted anew over plain walks, fewer meet than before, and nothing else gets worse."""

import numpy as np
import pytest

import routing
from helpers.random_fabrics import draw
from helpers.walks import plain_walk
from routing.engines import balanced
from routing.routed import Routed
from routing.tables import RoutingTables
from topo.fabric import Fabric


def meetings(fabric: Fabric, tables: RoutingTables, ranks: np.ndarray) -> int:
    """Return in how many cases two flows of one shift are on one channel between switches, each way round."""
    flows = np.zeros((len(fabric.port_node), len(ranks)), np.int64)
    inner = set(np.flatnonzero(fabric.is_inner).tolist())
    for i, source in enumerate(ranks.tolist()):
        for j, dest in enumerate(ranks.tolist()):
            path, _ = plain_walk(fabric, tables, source, dest) if i != j else (None, 0)
            for channel in inner.intersection(path or []):
                flows[channel, (j - i) % len(ranks)] += 1
    return int((flows * (flows - 1)).sum())


@pytest.mark.slow
@pytest.mark.parametrize("seed", [114, 117, 137, 185, 233, 259, 273])
def test_fewer_flows_of_shifts_meet_and_nothing_is_lost(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[tuple[balanced.Start, list[balanced.Made], np.ndarray | None]] = []

    def first(start: balanced.Start, made: list[balanced.Made], ranks: np.ndarray | None = None) -> balanced.Made:
        chosen.append((start, made, ranks))
        return made[0]

    monkeypatch.setattr(balanced, "SHARE", 1.0)
    monkeypatch.setattr(balanced, "_best", first)
    routing.route(draw(seed), "balanced", lanes=1)
    start, made, ranks = chosen[-1]  # the first choice is among candidates, each one after it beside those parted
    assert len(chosen) > 1
    fabric, before, after = start.fabric, made[0].tables, made[1].tables
    ranks = start.ranks if ranks is None else ranks
    old, new = routing.prove(Routed(fabric, before)), routing.prove(Routed(fabric, after))
    assert (new.missing, new.credit_loops) == (old.missing, 0)
    assert new.max_hops <= old.max_hops
    assert new.load[fabric.inner].max() <= old.load[fabric.inner].max()
    for role in {part.role for part in old.classes}:
        was, now = (max(part.max for part in proof.classes if part.role == role) for proof in (old, new))
        assert now <= was
    assert meetings(fabric, after, ranks) < meetings(fabric, before, ranks)
