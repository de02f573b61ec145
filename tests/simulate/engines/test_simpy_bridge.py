"""Processes on the network: the times of a batch, and of closed forms."""

import numpy as np
import pytest
import simpy

from helpers.fluids import hosts, routed
from helpers.trees import grow_tree
from routing.routed import Routed
from simulate import play
from simulate.engines.simpy_bridge import NetworkEnvironment
from simulate.traffic.collectives.algorithms import schedule
from simulate.traffic.flows import Flows
from simulate.traffic.network import Network
from topo.errors import HeddleError

RATE = 25e9


@pytest.fixture(scope="module")
def network() -> Network:
    fabric = grow_tree((4, 4), (1, 3), (1, 1))
    return Network.of(Routed(fabric, routed(fabric)), latency_s=1e-6, hop_latency_s=0)


def test_two_processes_share_a_link(network: Network) -> None:
    env = NetworkEnvironment(network)
    a, b, c = hosts(network)[:3]
    ends = {}

    def send(name: str, src: int, wait_s: float, size: float) -> simpy.events.ProcessGenerator:
        yield env.timeout(wait_s)
        finished = yield env.transfer(src, c, size)
        ends[name] = (env.now, finished.finish_s)

    env.process(send("first", a, 0.0, RATE))  # a second alone
    env.process(send("second", b, 0.5, RATE / 4))
    env.run()

    # From 0.5 s on each has half of the link: the second takes 0.5 s, the first is late by what the second took.
    assert ends["second"] == pytest.approx((1.000001, 1.000001))
    assert ends["first"] == pytest.approx((1.250001, 1.250001))


def test_a_collective_takes_the_time_of_a_batch(network: Network) -> None:
    ends = np.array(hosts(network))
    flows = schedule("allreduce", "halving-doubling", 16).flows(1e8).placed(ends)
    env = NetworkEnvironment(network, n_bins=8)
    env.run(until=env.play(flows))
    batch = play(network, flows)

    assert env.now == pytest.approx(batch.makespan_s, rel=1e-12)
    outcome = env.outcome()
    assert np.sort(outcome.finish_s) == pytest.approx(np.sort(batch.finish_s), rel=1e-9)
    assert outcome.resource_bytes == pytest.approx(batch.resource_bytes)
    assert outcome.timeline is not None


def test_flows_wait_for_times_delays_and_each_other(network: Network) -> None:
    a, b = hosts(network)[:2]
    size = [RATE * 0.1] * 3 + [0.0]
    flows = Flows.of(
        [a, b, a, b], [b, a, b, b], size, start_s=[0.2, 0, 0, 0], delay_s=[0, 0.01, 0, 0.5], after=([2, 3], [1, 2])
    )
    env = NetworkEnvironment(network)
    env.run(until=0.3)
    end = env.play(flows)  # times count from now
    env.run(until=end)
    batch = play(network, flows)

    assert env.outcome().finish_s == pytest.approx(batch.finish_s + 0.3, rel=1e-9)
    assert env.now == pytest.approx(batch.makespan_s + 0.3)


def test_nothing_to_play_ends_at_once(network: Network) -> None:
    env = NetworkEnvironment(network)
    assert env.peek() == np.inf
    env.run(until=env.play(Flows.of([], [], [])))
    assert env.now == 0.0
    assert len(env.outcome().flows) == 0


def test_refuses_where_no_host_is(network: Network) -> None:
    with pytest.raises(HeddleError, match="end ports are 0 to"):
        NetworkEnvironment(network).transfer(0, 10_000, 1.0)
