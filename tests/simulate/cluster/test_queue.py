"""Queues in YAML: what becomes of them, and every refusal at its line and column."""

from pathlib import Path

import pytest

from simulate.cluster.queue import FAILURES_A_NODE_DAY, Queue, parse_queue, read_queue
from topo.budget import QUEUE_JOBS
from topo.errors import SpecError

JOB = "name: a, nodes: 4, steps: 3, forward: 1 s, backward: 2 s"


def planned(text: str, seed: int = 0) -> Queue:
    return parse_queue(text, seed)


def test_says_what_it_says() -> None:
    plan = planned(
        """
placement: random
round: 1 min
storage_sl: 2
jobs:
- {name: big, nodes: 8, steps: 1000, forward: 20 ms, backward: 40 ms, gradients: 2 MB, stages: 2, activations: 3 MB,
   expert_nodes: 4, tokens: 4 MB, loaded: 5 kB, checkpoint: 1 GiB, every: 10 min, submit: 1 h, sl: 1}
- {name: small, nodes: 1, steps: 2, forward: 1 s, backward: 0 s, copies: 3, apart: 5 min}
""",
        seed=7,
    )
    big, *small = plan.jobs
    rules = plan.rules
    assert (rules.placement, rules.round, rules.storage_sl, plan.seed) == ("random", 60.0, 2, 7)
    assert rules.failures_a_node_day == FAILURES_A_NODE_DAY
    assert (big.nodes, big.steps, big.compute_s, big.gradients) == (8, 1000, pytest.approx(0.06), 2e6)
    assert (big.stages, big.activations, big.expert_nodes, big.tokens) == (2, 3e6, 4, 4e6)
    assert (big.loaded, big.checkpoint, big.every) == (5e3, 2**30, 600.0)
    assert (big.submit, big.sl, plan.where[0]) == (3600.0, 1, "queue:6:3")
    assert {job.sl for job in small} == {None}
    assert [job.name for job in small] == ["small-0", "small-1", "small-2"]
    assert [job.submit for job in small] == [0.0, 300.0, 600.0]


def test_a_plan_does_not_depend_on_where_its_file_lies(tmp_path: Path) -> None:
    plans = []
    for name in ("one.yaml", "two.yaml"):
        (tmp_path / name).write_text(f"jobs: [{{{JOB}}}]\n")
        plans.append(read_queue(tmp_path / name, 0))
    assert plans[0] == plans[1]
    assert repr(plans[0]) == repr(plans[1])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "queue:1:1: found an empty file"),
        ("[]", "queue:1:1: found a list of 0; expected a mapping"),
        ("jobs: []", "queue:1:7: found a list of 0; expected at least one job"),
        (f"jobs: [{{{JOB}, gradient: 3 GB}}]", "Did you mean `gradients`?"),
        (f"jobs: [{{{JOB}, gradients: 3}}]", "queue:1:78: found the number 3; expected a size with its unit"),
        (
            f"jobs:\n- {{{JOB}, stages: 3}}",
            "queue:2:70: found the number 3; expected a number that divides the 4 nodes",
        ),
        (f"jobs:\n- {{{JOB}, expert_nodes: 8}}", "expected a number that divides the 4 nodes"),
        (f"jobs:\n- {{{JOB}, every: 0 s}}", 'queue:2:69: found the text "0 s"; expected more than 0'),
        (f"jobs:\n- {{{JOB}, nodes: 5}}", "queue:2:62: found the key `nodes` a second time"),
        (f"jobs:\n- {{{JOB.replace('nodes: 4', 'nodes: 0')}}}", "queue:2:20: found the number 0; expected at least 1"),
        (f"jobs:\n- {{{JOB.replace('1 s', '0 s').replace('2 s', '0 s')}}}", "expected more than 0 s of computation"),
        (
            f"jobs:\n- {{{JOB}}}\n- {{{JOB}}}",
            "queue:3:3: found a second job with the name a; expected a name for each",
        ),
        (f"jobs: [{{{JOB}}}]\nround: 0 s", "queue:2:8"),
        (f"jobs: [{{{JOB}}}]\nfailures_a_node_day: .inf", "expected a finite number"),
        (f"jobs: [{{{JOB}}}]\ncross_zone_jobs: -1", "queue:2:18: found the number -1; expected at least 0"),
        (f"jobs: [{{{JOB}}}]\nstorage_sl: 16", "expected at most 15"),
    ],
)
def test_refuses(text: str, says: str) -> None:
    with pytest.raises(SpecError) as refusal:
        planned(text)
    assert says in str(refusal.value)
    assert all(finding.where.startswith("queue:") for finding in refusal.value.findings)


@pytest.mark.slow
def test_copies_are_counted() -> None:
    entry = "- {name: job%d, nodes: 1, steps: 1, forward: 1 s, backward: 0 s, copies: 1000}\n"
    lines = "".join(entry % number for number in range(QUEUE_JOBS.limit // 1000))
    assert len(planned(f"jobs:\n{lines}").jobs) == QUEUE_JOBS.limit
    with pytest.raises(SpecError, match=r"queue:12:3: found 11,000 jobs up to here; expected at most 10,000"):
        planned(f"jobs:\n{lines}{entry % 99}{entry % 100}")
