"""Queues that would never end, or fill the memory with one step."""

import pytest

from helpers.worlds import NETWORK
from simulate.cluster.queue import parse_queue
from simulate.cluster.run import ClusterRun
from topo.errors import HeddleError

JOB = {"name": "a", "nodes": 1, "steps": 1_000_000_000, "forward": "1 ns", "backward": "1 ns"}


def test_rounds_of_a_nanosecond_are_refused_by_name():
    run = ClusterRun(NETWORK, parse_queue({"jobs": [JOB], "round": "1 ns", "failures_a_node_day": 0}))
    with pytest.raises(HeddleError, match=r"500,000,000 rounds .*budget queue-rounds|1,000,000,000 rounds"):
        run.play(86_400)


@pytest.mark.slow
def test_long_jobs_that_are_played_for_a_while_are_not():
    job = {**JOB, "forward": "5 s", "backward": "5 s", "copies": 1000}
    run = ClusterRun(NETWORK, parse_queue({"jobs": [job], "failures_a_node_day": 0}))
    assert run.play(60.0)
