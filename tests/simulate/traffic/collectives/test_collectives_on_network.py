"""Times of collectives on a network where nothing but the hosts' own links can be short: closed forms."""

import numpy as np
import pytest

from routing.routed import Routed
from routing.tables import RoutingTables, assign_lids
from simulate import play
from simulate.traffic.collectives.algorithms import bus_gbytes_per_s, schedule
from simulate.traffic.network import Network
from topo.builder import FabricBuilder
from topo.fabric import Role
from topo.speeds import LinkSpeed

RATE = 25e9
SIZE = 186 * 2**20


def star(n: int) -> Network:
    """N hosts on one switch, 200 Gb/s each."""
    build = FabricBuilder("star")
    leaf = build.switch("leaf", model="X", radix=n, role=Role.LEAF, level=1)
    for host in range(n):
        node = build.adapter(f"n{host:03}", "mlx5_0", model="C", host_model="H", role=Role.COMPUTE)
        build.link(node, 1, leaf, host + 1, LinkSpeed(4, "HDR"))
    fabric = build.build()
    lid = assign_lids(fabric)
    lft = np.full((1, int(lid.max()) + 1), 255, np.uint8)
    lft[0, lid[0]] = 0
    lft[0, lid[1:]] = np.arange(1, n + 1)
    return Network.of(Routed(fabric, RoutingTables(lid, lft)), latency_s=0)


def makespan(n: int, collective: str, algorithm: str, chunks: int = 1, groups: np.ndarray | None = None) -> float:
    flows = schedule(collective, algorithm, n, chunks=chunks, groups=groups).flows(SIZE)
    return play(star(n), flows.placed(np.arange(1, n + 1))).makespan_s


@pytest.mark.parametrize("n", [2, 4, 16, 32])
@pytest.mark.parametrize(
    ("collective", "algorithm", "share"),
    [
        ("allreduce", "ring", 2),
        ("allreduce", "halving-doubling", 2),
        ("allreduce", "hierarchical", 2),
        ("reduce-scatter", "ring", 1),
        ("reduce-scatter", "recursive-halving", 1),
        ("all-gather", "ring", 1),
        ("all-gather", "recursive-doubling", 1),
        ("all-to-all", "shift", 1),
    ],
)
def test_bandwidth_optimal_collectives(n: int, collective: str, algorithm: str, share: int) -> None:
    time = makespan(n, collective, algorithm, groups=np.arange(n) % 2)

    assert time == pytest.approx(share * (n - 1) / n * SIZE / RATE, rel=1e-9)
    assert bus_gbytes_per_s(collective, n, SIZE, time) == pytest.approx(RATE / 1e9, rel=1e-9)


@pytest.mark.parametrize(("n", "chunks"), [(2, 1), (3, 4), (9, 16)])
def test_chunks_change_nothing_for_a_ring_and_fill_a_chain(n: int, chunks: int) -> None:
    assert makespan(n, "allreduce", "ring", chunks) == pytest.approx(2 * (n - 1) / n * SIZE / RATE, rel=1e-9)
    for collective, algorithm in (("broadcast", "ring"), ("reduce", "ring"), ("pipeline", "forward")):
        # The last chunk leaves after the others, and goes over n - 1 links.
        expected = (n - 2 + chunks) / chunks * SIZE / RATE
        assert makespan(n, collective, algorithm, chunks) == pytest.approx(expected, rel=1e-9)


def test_double_binary_tree_nears_half_of_the_links_as_chunks_shrink() -> None:
    # Every rank sends up to two buffers, so twice S / B is the limit; the pipeline fills in a few chunks a level.
    assert makespan(2, "allreduce", "double-binary-tree") == pytest.approx(SIZE / RATE, rel=1e-9)
    times = [makespan(16, "allreduce", "double-binary-tree", chunks) for chunks in (1, 4, 16, 64)]

    assert times == sorted(times, reverse=True)
    assert 2 * SIZE / RATE < times[-1] < 1.25 * 2 * SIZE / RATE


@pytest.mark.parametrize("levels", range(1, 8))
def test_double_binary_tree_in_one_piece_takes_what_its_levels_take(levels: int) -> None:
    # Of 2**k ranks a tree is a root with one child, and k - 1 levels of ranks with two children below; it carries half
    # of the buffer. Two siblings share the link of their parent: a level takes S / B, and the one child half of that,
    # once up and once down. The other tree's leaves are this one's inner ranks, and stand in nobody's way.
    time = makespan(2**levels, "allreduce", "double-binary-tree")
    assert time == pytest.approx((2 * levels - 1) * SIZE / RATE, rel=1e-9)
