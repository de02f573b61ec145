"""NCCL's tuner: figures worked out by hand, a second plain implementation on random jobs, and laws."""

from math import floor, log2
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.clusters import CATALOG
from helpers.strategies import examples
from simulate.traffic.tuner import (
    TUNED_ALGORITHMS,
    Choice,
    Generation,
    Protocol,
    Tuner,
    correction,
    generation_named,
    generation_of,
    tree_sends,
)
from topo.errors import HeddleError

GB = 1e9
KIB, MIB, GIB = 2**10, 2**20, 2**30
AMPERE, HOPPER, BLACKWELL = Generation.AMPERE, Generation.HOPPER, Generation.BLACKWELL
DGX_A100 = {"generation": AMPERE, "gpu_bytes_s": 240e9, "rails": 8, "rail_bytes_s": 24e9, "amd": True}
DGX_H100 = {"generation": HOPPER, "gpu_bytes_s": 370.8e9, "rails": 8, "rail_bytes_s": 48.5e9, "nvswitches": True}
PCIE = {"generation": AMPERE, "gpu_bytes_s": 27e9, "rails": 1, "rail_bytes_s": 9.66e9, "amd": True, "nvlink": False}


@st.composite
def tuners(draw: st.DrawFn) -> Tuner:
    """Jobs of 1 to 64 servers of 1 to 16 GPUs, two GPUs or more."""
    servers = draw(st.sampled_from([1, 2, 3]) | st.integers(1, 64))  # the columns of the tables, and more
    nvlink = draw(st.booleans())
    return Tuner(
        servers,
        draw(st.integers(2 if servers == 1 else 1, 16)),
        draw(st.sampled_from(Generation)),
        draw(st.floats(5, 900)) * GB,
        draw(st.integers(1, 16)),
        draw(st.floats(1, 100)) * GB,
        amd=draw(st.booleans()),
        nvlink=nvlink,
        nvswitches=nvlink and draw(st.booleans()),
        sharp=draw(st.booleans()),
    )


COLLECTIVES = st.sampled_from([*TUNED_ALGORITHMS])
SIZES = st.integers(1, 2**34)


def found(tuner: Tuner, collective: str, size: float, algorithm: str, protocol: Protocol) -> Choice:
    """The one choice of an algorithm and protocol."""
    (choice,) = (
        one for one in tuner.choices(collective, size) if (one.algorithm, one.protocol) == (algorithm, protocol)
    )
    return choice


def test_small_latencies_by_hand() -> None:
    """Two servers: start 6.8, seven steps over NVLink at .6 and one over the network at 5, up and down."""
    tree = Tuner(2, 8, **DGX_A100).choose("allreduce", 8)
    assert (tree.algorithm, tree.protocol) == ("tree", Protocol.LL)
    assert tree.latency_s == pytest.approx((6.8 + 2 * (7 * 0.6 + 5.0)) * 1e-6)
    # Around the ring, steps inside take 2 us at least beside AMD processors; two of thirty are between servers.
    ring = found(Tuner(2, 8, **DGX_A100), "allreduce", 8, "ring", Protocol.LL)
    assert ring.latency_s == pytest.approx((6.6 + 28 * 2.0 + 2 * 2.7) * 1e-6)
    # Simple posts three times as often, and its latency grows once chunks fill.
    for size, times in ((64 * 16 * 8 - 1, 1.0), (64 * 16 * 8, 1.4)):
        simple = found(Tuner(2, 8, **DGX_A100), "allreduce", size, "ring", Protocol.SIMPLE)
        assert simple.latency_s == pytest.approx(times * (8.4 + 28 * 6.0 + 2 * 14.0) * 1e-6)


def test_one_gpu_a_server_takes_the_latency_of_trees() -> None:
    ring = found(Tuner(4, 1, **DGX_A100), "all-gather", 8, "ring", Protocol.LL)
    assert ring.latency_s == pytest.approx((6.6 + 3 * 5.0) * 1e-6)


def test_other_latencies_by_hand() -> None:
    single = found(Tuner(1, 8, **DGX_H100), "allreduce", 8, "nvls", Protocol.SIMPLE)
    assert single.latency_s == pytest.approx(25e-6)
    across = found(Tuner(16, 8, **DGX_H100), "allreduce", 8, "nvls-tree", Protocol.SIMPLE)
    assert across.latency_s == pytest.approx((25 + 2 * 4 * 20.9) * 1e-6)
    added = found(Tuner(16, 8, **DGX_H100, sharp=True), "allreduce", 8, "collnet", Protocol.SIMPLE)
    assert added.latency_s == pytest.approx((2 * (3.7 + 7 * 0.4) + 31) * 1e-6)
    chain = found(Tuner(2, 8, **DGX_H100), "broadcast", 8, "ring", Protocol.SIMPLE)
    assert chain.latency_s == pytest.approx((8.4 + 16 * 14.0) * 1e-6)


def test_rates_by_hand() -> None:
    """NVLS of eight H100: a GPU sends its buffer, and an eighth of the sum, at .85 of 370.8 GB/s."""
    size = 64 * GIB
    nvls = Tuner(1, 8, **DGX_H100).choose("allreduce", size)
    assert nvls.bytes_s == pytest.approx(0.85 * 370.8e9 / (9 / 8))
    ring = Tuner(4, 8, **DGX_A100).choose("allreduce", size)
    assert (ring.algorithm, ring.bytes_s) == ("ring", pytest.approx(192e9 * 32 / 62))
    spread = Tuner(2, 8, **DGX_A100).choose("all-to-all", size)
    assert spread.bytes_s == pytest.approx(24e9 * 16 / 8)


@pytest.mark.parametrize(
    ("tuner", "size", "algorithm", "protocol"),
    [
        (Tuner(1, 8, **DGX_H100), 8, "ring", Protocol.LL),
        (Tuner(1, 8, **DGX_H100), 64 * MIB, "nvls", Protocol.SIMPLE),
        (Tuner(2, 8, **DGX_H100), 8, "tree", Protocol.LL),
        (Tuner(2, 8, **DGX_H100), 8 * GIB, "nvls-tree", Protocol.SIMPLE),
        (Tuner(16, 8, **DGX_A100), 8 * KIB, "tree", Protocol.LL),
        (Tuner(16, 8, **DGX_A100), 4 * MIB, "tree", Protocol.LL128),
        (Tuner(16, 8, **DGX_A100), 8 * GIB, "ring", Protocol.SIMPLE),
        (Tuner(2, 8, **PCIE), 186 * MIB, "ring", Protocol.SIMPLE),
        (Tuner(64, 8, **PCIE), 186 * MIB, "tree", Protocol.SIMPLE),
    ],
)
def test_what_is_chosen(tuner: Tuner, size: int, algorithm: str, protocol: Protocol) -> None:
    """Trees for small buffers, rings or NVSwitches for large ones, and trees on many servers of one adapter."""
    choice = tuner.choose("allreduce", size)
    assert (choice.algorithm, choice.protocol) == (algorithm, protocol)


@pytest.mark.parametrize(
    ("tuner", "channels"),
    [  # as logs of NCCL print them ("24 coll channels" on one server): two of each that the model counts
        (Tuner(1, 8, **DGX_A100), 24),
        (Tuner(1, 8, **DGX_H100), 24),
        (Tuner(4, 8, **DGX_A100), 16),
    ],
)
def test_channels(tuner: Tuner, channels: int) -> None:
    assert found(tuner, "allreduce", 8 * GIB, "ring", Protocol.SIMPLE).channels == channels
    # 512 threads of 64 bytes each
    assert found(tuner, "allreduce", 2 * 512 * 64, "ring", Protocol.SIMPLE).channels == 2
    assert found(tuner, "allreduce", 1, "ring", Protocol.LL).channels == 1


def plain_us(tuner: Tuner, collective: str, size: int, protocol: int, algorithm: str) -> float:
    """The library's formula for rings and trees written out, for graphs that carry what the catalog says."""
    m, g = tuner.servers, tuner.gpus
    n = m * g
    at = 0 if m == 1 else 1 if m == 2 else 2
    inside, net = tuner.gpu_bytes_s / 1e9, tuner.rails * tuner.rail_bytes_s / 1e9 if m > 1 else float("inf")
    most_ll = [[39, 39, 20.4], [87.7, 22.5, 19], [141, 45, 35], [282, 90, 70]]
    ll = most_ll[int(tuner.generation) if m == 1 else int(tuner.amd)][at]
    channels = tuner.channels
    if algorithm == "ring":
        fitted = 0.935 if tuner.nvlink and tuner.generation == 3 else 1.0
        bus = min(inside * fitted if g > 1 else float("inf"), net)
        if protocol == 0:
            bus = min(ll, bus * 0.5)
        if protocol == 1:
            bus = min(bus * 0.92, channels * [20, 20, 36.7, 40][tuner.generation])
        steps = {"allreduce": 2 * (n - 1), "broadcast": n}.get(collective, n - 1)
        rate = bus * n / steps
        hop_net = [[2.7, 4.0, 14.0], [5.0, 8.5, 14.0]][g == 1][protocol]
        hop = ([0.6, 1.9, 3.4] if tuner.nvlink else [1.0, 2.5, 5.7])[protocol]
        latency = [6.6, 14.0, 8.4][protocol]
        if collective == "broadcast":
            once = hop if m == 1 else [2.7, 4.0, 14.0][protocol]
            if protocol == 2:
                once = 4.0 if m == 1 else 14.0
            latency += once if m == 1 else n * once
        else:
            crossing = 0 if m == 1 else (2 if collective == "allreduce" else 1) * (m - 1)
            least = 0 if m == 1 else (2.0 if tuner.amd else 1.0) * (3 if protocol == 2 else 1)
            latency += (steps - crossing) * max(hop, least) + crossing * hop_net
        if protocol == 2 and m > 1 and collective == "allreduce" and size / (channels * n) >= 64:
            latency *= 1.9 if tuner.generation == 0 else 1.4
        return latency + size / rate / 1e3
    sends = 1.0 if m <= 2 else 1.5 if m == 3 else 2.0
    alone = inside * g / (2 * (g - 1)) if g > 1 else float("inf")
    double = 2 * min(alone, net / sends)
    if m == 2 and not tuner.nvlink:
        double = min(double, net)
    bus = min(
        double * 0.92,
        channels * [[26.5, 18.5, 10], [24, 23.6, 17.8], [38.7, 41.4, 36], [70, 42.8, 24]][tuner.generation][at],
    )
    if protocol == 0:
        bus = min(bus / 3.8, ll)
    if protocol == 1:
        most = [[20, 20, 20], [20, 20, 20], [36.7, 36.7, 29], [55.6, 31.67, 20]][tuner.generation][at]
        bus = min(bus * (7 / 9 if m == 1 else 120 / 128), channels * most)
    bus *= 0.85 if g == 1 else 1.0
    bus *= correction("tree", Protocol(protocol), size)
    hop = ([0.6, 1.25, 4.0] if tuner.nvlink else [1.0, 1.9, 4.0])[protocol]
    latency = [6.8, 14.0, 8.4][protocol] + 2 * ((g - 1) * hop + floor(log2(m)) * [5.0, 8.5, 14.0][protocol])
    return latency + size / (bus * 0.5) / 1e3


@examples(200)
@given(tuners(), COLLECTIVES, SIZES)
def test_rings_and_trees_are_as_a_plain_implementation_has_them(tuner: Tuner, collective: str, size: int) -> None:
    for choice in tuner.choices(collective, size):
        if choice.algorithm in ("ring", "tree"):
            expected = plain_us(tuner, collective, size, int(choice.protocol), choice.algorithm)
            assert choice.time_s * 1e6 == pytest.approx(expected, rel=1e-9), choice


@pytest.mark.parametrize("generation", Generation)
@pytest.mark.parametrize("servers", [1, 2, 3])
def test_what_a_channel_and_a_protocol_carry_bounds_fast_machines(servers: int, generation: Generation) -> None:
    for amd in (False, True):
        tuner = Tuner(servers, 8, generation, 5000 * GB, 8, 400 * GB, amd=amd)
        for choice in tuner.choices("allreduce", GIB):
            if choice.algorithm in ("ring", "tree"):
                expected = plain_us(tuner, "allreduce", GIB, int(choice.protocol), choice.algorithm)
                assert choice.time_s * 1e6 == pytest.approx(expected, rel=1e-9), choice


@examples(200)
@given(tuners(), COLLECTIVES, SIZES)
def test_the_least_time_is_chosen_and_is_never_below_what_the_wires_carry(
    tuner: Tuner, collective: str, size: int
) -> None:
    choices = tuner.choices(collective, size)
    chosen = tuner.choose(collective, size)
    assert chosen == choices[0]
    assert [choice.time_s for choice in choices] == sorted(choice.time_s for choice in choices)
    for choice in choices:
        assert choice.time_s == pytest.approx(choice.latency_s + size / choice.bytes_s)
        # What is left of the time when the bytes have moved as fast as they can holds the latency.
        assert choice.latency_s * (1 - 1e-9) <= choice.waiting_s <= choice.time_s
        assert choice.moved_bytes >= size
        assert tuner.choose(collective, size, choice.algorithm).time_s <= choice.time_s


@examples(100)
@given(tuners(), COLLECTIVES, SIZES, st.integers(2, 10))
def test_more_servers_never_take_less_and_larger_buffers_take_no_less_bandwidth(
    tuner: Tuner, collective: str, size: int, times: int
) -> None:
    """Of one choice: a tree gains part of its bandwidth with the size, so that its time may fall, its latency not."""
    for choice in tuner.choices(collective, size):
        if choice.algorithm in ("ring", "nvls", "collnet"):
            more = [one for one in tuner.choices(collective, times * size) if one[:2] == choice[:2]]
            assert all(one.time_s >= choice.time_s * (1 - 1e-9) for one in more if one.algorithm == "ring")
            assert all(one.latency_s >= choice.latency_s * (1 - 1e-9) for one in more)


def test_a_server_sends_half_the_buffer_for_each_edge_of_a_tree() -> None:
    assert [tree_sends(n) for n in range(1, 9)] == [1.0, 1.0, 1.5, 2.0, 2.0, 2.0, 2.0, 2.0]


def test_generations() -> None:
    assert generation_of(CATALOG.node("gb200-nvl72")) is BLACKWELL
    assert generation_of(CATALOG.node("pcie-a100")) is AMPERE
    assert generation_named("H800 SXM") is HOPPER
    with pytest.raises(
        HeddleError, match=r"mi300x-8: found the GPU Instinct MI300X; expected one that NCCL's tables have"
    ):
        generation_of(CATALOG.node("mi300x-8"))


@pytest.mark.parametrize(
    ("tuner", "collective", "algorithm", "says"),
    [
        (Tuner(2, 8, **DGX_H100), "allreduce", "nvls", "NCCL does no allreduce by nvls on 2 x 8 GPUs"),
        (Tuner(1, 8, **DGX_H100), "allreduce", "nvls-tree", "several servers"),
        (Tuner(1, 8, **DGX_A100), "allreduce", "nvls", "one of ring, tree"),
        (Tuner(2, 8, **DGX_H100), "allreduce", "collnet", "sharp: true"),
        (Tuner(2, 8, **DGX_H100), "all-gather", "tree", "expected auto or one of ring"),
    ],
)
def test_refuses_what_the_servers_cannot_do(tuner: Tuner, collective: str, algorithm: str, says: str) -> None:
    with pytest.raises(HeddleError, match=says):
        tuner.choose(collective, MIB, algorithm)


@pytest.mark.parametrize("size", [0, -1.0, float("inf"), float("nan")])
def test_refuses_no_buffer(size: float) -> None:
    with pytest.raises(HeddleError, match="bytes in a buffer; expected a number above 0"):
        Tuner(2, 8, **DGX_H100).choose("allreduce", size)


def test_refuses_one_gpu() -> None:
    with pytest.raises(HeddleError, match="found one GPU"):
        Tuner(1, 1, **DGX_H100).choose("allreduce", MIB)


def test_the_table_of_the_manual(repository: Path) -> None:
    manual = (repository / "docs" / "simulate.md").read_text(encoding="utf-8")
    sizes = {"8 B": 8, "64 KiB": 64 * KIB, "1 MiB": MIB, "16 MiB": 16 * MIB, "256 MiB": 256 * MIB, "8 GiB": 8 * GIB}
    for name, size in sizes.items():
        found = [Tuner(servers, 8, **DGX_H100).choose("allreduce", size) for servers in (1, 2, 16)]
        cells = [f"{one.time_s * 1e6:,.1f} us, {one.algorithm} ({one.protocol.label})" for one in found]
        assert f"| {name} | {' | '.join(cells)} |" in manual
