from itertools import pairwise

import pytest

from costmodel.search import optimise
from helpers.clusters import CATALOG
from helpers.needs import needs
from topo.cluster import Cluster


@pytest.mark.slow
@pytest.mark.parametrize("family", ["fat-tree", "hyperx", "zones"])
@pytest.mark.parametrize("money", [{}, {"currency": "USD", "quotes": {"4xHDR": 250}}])
def test_stages_hold_one_another_and_the_last_is_the_winner(family: str, money: dict[str, object]) -> None:
    asked = needs(150, job={"nodes": 50, "bisection": 0.5}, stages=[0.2, 0.5], families=[family], **money)
    found = optimise(asked, CATALOG)
    assert found.winner is not None
    assert [stage.servers for stage in found.stages] == [30, 75, 150]
    for less, more in pairwise(found.stages):
        assert less.switches <= more.switches
        assert less.cables < more.cables
        assert less.price <= more.price
    last = found.stages[-1]
    assert last.price == pytest.approx(found.winner.price)
    assert last.job_bisection.share == pytest.approx(found.winner.job_bisection.share)
    (fabric,) = Cluster(found.winner.spec, CATALOG).fabrics
    assert (last.switches, last.cables) == (fabric.n_switches, len(fabric.links))
    assert len(found.stage_table) == 3


@pytest.mark.slow
def test_two_levels_begin_with_their_first_leaves_and_all_spines() -> None:
    found = optimise(needs(100, stages=[0.2], families=["fat-tree"], switches=["QM8700"]), CATALOG)
    assert found.winner is not None
    first, last = found.stages
    assert first.switches < last.switches
    assert first.job_bisection.share == pytest.approx(1.0)
