import pytest

from simulate.traffic.collectives.algorithms import (
    ALGORITHMS,
    algorithm_gbytes_per_s,
    bus_factor,
    bus_gbytes_per_s,
    schedule,
)
from topo.errors import HeddleError


@pytest.mark.parametrize("n", [2, 8, 64])
@pytest.mark.parametrize("collective", ["allreduce", "reduce-scatter", "all-gather", "all-to-all"])
def test_bus_bandwidth_is_the_link_rate_when_every_rank_sends_all_the_time(collective: str, n: int) -> None:
    # The busiest rank sends m blocks of S / b bytes at B bytes a second: T = m S / (b B), so busbw must be B.
    plan = schedule(collective, next(iter(ALGORITHMS[collective])), n)
    size, rate = 186 * 2**20, 25e9
    sent = max(plan.count[plan.src == rank].sum() for rank in range(n)) * size / plan.n_blocks

    assert bus_gbytes_per_s(collective, n, size, sent / rate) == pytest.approx(25.0, rel=1e-12)


def test_published_run_of_nccl_tests() -> None:
    # all_reduce_perf prints both figures; their ratio for 8 ranks is 1.75.
    assert bus_factor("allreduce", 8) == 1.75
    assert bus_factor("broadcast", 8) == bus_factor("reduce", 8) == bus_factor("pipeline", 8) == 1.0
    assert algorithm_gbytes_per_s(1e9, 0.1) == pytest.approx(10.0)


def test_refuses() -> None:
    with pytest.raises(HeddleError, match="defined for allreduce"):
        bus_factor("gossip", 4)
    with pytest.raises(HeddleError, match="0 ranks"):
        bus_factor("allreduce", 0)
    with pytest.raises(HeddleError, match="time above 0"):
        algorithm_gbytes_per_s(1.0, 0.0)
