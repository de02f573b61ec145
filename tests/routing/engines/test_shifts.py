"""Flows of shifts are parted: counted anew over plain walks, fewer meet than before, and nothing else gets worse."""

import numpy as np
import pytest

import routing
from helpers.random_fabrics import draw
from helpers.walks import plain_walk
from routing.engines import improve, search
from routing.engines.start import Start
from routing.order.channel_order import port_numbers
from routing.order.destinations import finish_tables
from routing.routed import Routed
from routing.tables import RoutingTables
from topo.fabric import Fabric


def flows_of_shifts(fabric: Fabric, tables: RoutingTables, ranks: np.ndarray) -> np.ndarray:
    """Return (C, n) flows by channel between switches and shift."""
    flows = np.zeros((len(fabric.port_node), len(ranks)), np.int64)
    inner = set(np.flatnonzero(fabric.is_inner).tolist())
    for i, source in enumerate(ranks.tolist()):
        for j, dest in enumerate(ranks.tolist()):
            path, _ = plain_walk(fabric, tables, source, dest) if i != j else (None, 0)
            for channel in inner.intersection(path or []):
                flows[channel, (j - i) % len(ranks)] += 1
    return flows


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "share"),
    [*((seed, 1.0) for seed in (114, 117, 137, 185, 233, 259, 273)), *((seed, 0.0) for seed in (145, 185, 229, 233))],
)
def test_fewer_flows_of_shifts_meet_and_nothing_is_lost(
    seed: int, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    parted: list[tuple[Start, np.ndarray, RoutingTables, RoutingTables]] = []
    part = improve.part

    def watched(start, net, dests, ranks, rounds, of, next_hop):
        found = part(start, net, dests, ranks, rounds, of, next_hop)
        if of == share and not np.array_equal(found, next_hop):
            tables = [
                finish_tables(start.dests, port_numbers(net.order, each), start.lids, "balanced")
                for each in (next_hop, found)
            ]
            parted.append((start, start.ranks if ranks is None else ranks, *tables))
        return found

    monkeypatch.setattr(search, "part", watched)
    monkeypatch.setattr(improve, "part", watched)
    routing.route(draw(seed), "balanced", lanes=1)
    start, ranks, before, after = parted[0]
    fabric = start.fabric
    old, new = routing.prove(Routed(fabric, before)), routing.prove(Routed(fabric, after))
    assert (new.missing, new.credit_loops) == (old.missing, 0)
    assert new.max_hops <= old.max_hops
    assert new.load[fabric.inner].max() <= old.load[fabric.inner].max()
    for role in {part.role for part in old.classes}:
        was, now = (max(part.max for part in proof.classes if part.role == role) for proof in (old, new))
        assert now <= was
    was, now = (flows_of_shifts(fabric, tables, ranks) for tables in (before, after))
    if share:
        assert (now * (now - 1)).sum() < (was * (was - 1)).sum()
    else:  # those of the worst shifts alone take another path
        worst = was.max()
        assert now.max() < worst or (now.max() == worst and (now == worst).sum() < (was == worst).sum())
