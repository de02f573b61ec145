"""A step of training against closed forms, on a fabric that congests nothing."""

import numpy as np
import pytest

from helpers.benchmarks import load
from helpers.fluids import hosts, routed
from helpers.trees import grow_tree
from routing.routed import Routed
from simulate import play
from simulate.traffic.collectives.algorithms import schedule
from simulate.traffic.flows import Flows
from simulate.traffic.network import Network
from simulate.traffic.training import (
    FlowsOfSize,
    Layer,
    _turns,
    data_parallel,
    even_layers,
    exchanged_halves,
    flat_parameter_servers,
    fsdp,
    hierarchical_parameter_servers,
    layer_groups,
    pipeline_parallel,
    vgg16,
)
from topo.errors import HeddleError

RATE = 25e9
N = 8


search_bucket = load("published/bucket_search").search_bucket


@pytest.fixture(scope="module")
def network() -> Network:
    fabric = grow_tree((16,), (1,), (1,))  # one switch
    return Network.of(Routed(fabric, routed(fabric)), latency_s=0)


def collective(name: str, n: int = N) -> FlowsOfSize:
    return schedule(name, ALGORITHM[name], n).flows


ALGORITHM = {"allreduce": "ring", "all-gather": "ring", "reduce-scatter": "ring", "all-to-all": "shift"}


def step(network: Network, flows: Flows) -> float:
    return play(network, flows.placed(np.array(hosts(network)))).makespan_s


def ring_s(size: float, n: int = N) -> float:
    return 2 * (n - 1) / n * size / RATE


@pytest.mark.parametrize("buckets", [1, 4, 16])
def test_without_overlap_times_add(network: Network, buckets: int) -> None:
    size = RATE * 0.1
    layers = even_layers(16, 0.1, 0.2, size)
    flows = data_parallel(layers, collective("allreduce"), bucket_bytes=size / buckets, overlap=False, launch_s=0.01)
    assert step(network, flows) == pytest.approx(0.3 + ring_s(size) + buckets * 0.01)


@pytest.mark.parametrize(("backward", "exposed"), [(10.0, "last"), (0.01, "all")])
def test_with_overlap_what_is_exposed(network: Network, backward: float, exposed: str) -> None:
    size = RATE * 0.1
    flows = data_parallel(even_layers(16, 0.1, backward, size), collective("allreduce"), bucket_bytes=size / 16)
    # Long backward passes hide all buckets but the last; short ones hide nothing but their first bucket's wait.
    expected = backward + ring_s(size) / 16 if exposed == "last" else backward / 16 + ring_s(size)
    assert step(network, flows) == pytest.approx(0.1 + expected)


def test_compression_sends_less(network: Network) -> None:
    layers = even_layers(4, 0.0, 0.0, RATE)
    flows = data_parallel(layers, collective("allreduce"), compression=0.25)
    assert step(network, flows) == pytest.approx(ring_s(RATE * 0.25 * 4 / 4))


def test_buckets_take_whole_layers_from_the_last() -> None:
    layers = [Layer(0, 0, size) for size in (1, 2, 3, 10, 4, 1)]
    groups = [[layer.parameter_bytes for layer in group] for group in layer_groups(layers, 5)]
    assert groups == [[1, 4], [10], [3, 2], [1]]


def test_the_search_finds_the_best_bucket() -> None:
    """Latency per bucket against what the last bucket exposes: S / b * latency + b / rate is least at one size."""
    steps = search_bucket(lambda size: 1e9 / size * 1e-3 + size / 1e9, 1e4, 1e9, tries=9, rounds=6)
    best = min(steps, key=lambda size: steps[size])
    assert best == pytest.approx(1e9 * 1e-3**0.5, rel=0.01)
    assert list(steps) == sorted(steps)


def test_vgg16_is_what_is_published() -> None:
    layers = vgg16(0.3)
    parameters = [layer.parameter_bytes / 4 for layer in layers]
    assert sum(parameters) == 138_357_544  # Simonyan and Zisserman, Table 2: 138 million
    assert sum(parameters[-3:]) == pytest.approx(123.6e6, rel=1e-3)
    assert sum(layer.forward_s for layer in layers) == pytest.approx(0.1)
    assert sum(layer.backward_s for layer in layers) == pytest.approx(0.2)


def test_fsdp_in_turns_and_overlapped(network: Network) -> None:
    size, n_layers = RATE * 0.08, 8
    layers = even_layers(n_layers, 1.0, 2.0, size)
    unit = (N - 1) / N * size / n_layers / RATE
    gather, scatter = collective("all-gather"), collective("reduce-scatter")

    turns = step(network, fsdp(layers, gather, scatter, overlap=False))
    assert turns == pytest.approx(3.0 + 3 * n_layers * unit)
    # Compute is long: only the first gathering and the last scattering are seen.
    assert step(network, fsdp(layers, gather, scatter)) == pytest.approx(3.0 + 2 * unit)
    # Compute is nothing: one collective after another.
    idle = even_layers(n_layers, 0.0, 0.0, size)
    assert step(network, fsdp(idle, gather, scatter)) == pytest.approx(3 * n_layers * unit)


def test_pipeline_has_its_bubble(network: Network) -> None:
    stages, batches = 4, 6
    flows = pipeline_parallel([range(stages)], batches, 1.0, 2.0, 0.0)
    # 1F1B: (micro-batches + stages - 1) rounds; Narayanan et al., arXiv 2104.04473, section 2.2.
    assert step(network, flows) == pytest.approx((batches + stages - 1) * 3.0)


def test_sends_of_pipelines_on_one_adapter_collide_unless_staggered(network: Network) -> None:
    """Four pipelines of two stages; a node holds the same stage of all four, on one adapter."""
    ends = np.repeat(np.array(hosts(network))[:2], 4)  # ranks 0..3 on the first node, 4..7 on the second
    stages = [(rank, 4 + rank) for rank in range(4)]
    took = RATE * 0.05

    def last(stagger_s: float) -> float:
        flows = pipeline_parallel(stages, 1, 0.2, 0.2, took, stagger_s=stagger_s).placed(ends)
        return play(network, flows).makespan_s

    alone = 0.2 + 0.05 + 0.2 + 0.2 + 0.05 + 0.2
    assert last(0.0) == pytest.approx(alone + 2 * 3 * 0.05)  # all four at a time: each send takes four times as long
    assert last(0.05) == pytest.approx(alone + 3 * 0.05)  # each ends when the next begins


def test_tensor_and_expert_parallel_expose_all(network: Network) -> None:
    layers = even_layers(3, 0.3, 0.6, 0.0)
    sums = step(network, exchanged_halves(layers, collective("allreduce"), RATE * 0.01))
    assert sums == pytest.approx(0.9 + 3 * 4 * ring_s(RATE * 0.01))
    experts = step(network, exchanged_halves(layers, collective("all-to-all"), RATE * 0.01))
    assert experts == pytest.approx(0.9 + 3 * 4 * (N - 1) / N * 0.01)


def test_flat_parameter_servers_are_bound_by_their_links(network: Network) -> None:
    size = RATE * 0.1
    flows = flat_parameter_servers(range(2, 14), [0, 1], size, compute_s=0.5, update_s=0.25)
    # Twelve workers, two servers: each server takes in and gives out half of the parameters twelve times.
    assert step(network, flows) == pytest.approx(0.5 + 6 * 0.1 + 0.25 + 6 * 0.1)


def test_hierarchical_parameter_servers(network: Network) -> None:
    size = RATE * 0.1
    plain = hierarchical_parameter_servers(range(N), size, compute_s=0.5)
    assert step(network, plain) == pytest.approx(0.5 + 2 * (N - 1) / N * 0.1)
    tiers = hierarchical_parameter_servers(range(N), size, cached=0.5, cold=0.2, ssd_bytes_s=RATE / 2, compute_s=0.5)
    assert step(network, tiers) == pytest.approx(0.5 + (N - 1) / N * 0.1 + 2 * 0.1 * 0.5 * 0.2 * 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Layer(-1.0, 0.0, 0.0), "forward_s -1.0"),
        (lambda: even_layers(0, 1.0, 1.0, 1.0), "0 layers"),
        (lambda: layer_groups([], 0.0), "buckets of 0.0 bytes"),
        (lambda: data_parallel([], collective("allreduce"), compression=1.5), "compression to 1.5"),
        (lambda: pipeline_parallel([], 1, 1, 1, 1), "0 pipelines"),
        (lambda: search_bucket(lambda size: size, 2.0, 1.0), "buckets from 2.0 to 1.0"),
        (lambda: flat_parameter_servers([], [1], 1.0), "no workers"),
        (lambda: hierarchical_parameter_servers([1, 2], 1.0, cold=2.0), "a cold part of 2.0"),
        (lambda: hierarchical_parameter_servers([1, 2], 1.0, ssd_bytes_s=0.0), "SSDs of 0.0"),
    ],
)
def test_refuses(call: object, message: str) -> None:
    with pytest.raises(HeddleError, match=message):
        call()  # type: ignore[operator]


@pytest.mark.parametrize(("stages", "batches", "chunks"), [(1, 1, 1), (2, 4, 1), (4, 8, 1), (2, 4, 2), (3, 6, 3)])
def test_each_stage_does_every_part_of_every_batch_once_forward_and_then_backward(
    stages: int, batches: int, chunks: int
) -> None:
    for stage in range(stages):
        order = _turns(stage, stages, batches, chunks)
        assert sorted(order) == [
            (back, batch, chunk) for back in (False, True) for batch in range(batches) for chunk in range(chunks)
        ]
        for batch in range(batches):
            begin = [order.index((False, batch, chunk)) for chunk in range(chunks)]
            back = [order.index((True, batch, chunk)) for chunk in range(chunks)]
            assert begin == sorted(begin) and back == sorted(back, reverse=True)
            assert max(begin) < min(back) or (chunks > 1 and all(a < b for a, b in zip(begin, back, strict=True)))
