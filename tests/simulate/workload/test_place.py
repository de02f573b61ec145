import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulate.traffic.collectives.algorithms import schedule
from simulate.traffic.flows import Flows
from simulate.traffic.goal.schedule import flows_of_goal
from simulate.traffic.goal.text import parse_goal
from simulate.traffic.placement import leaf_of, zone_of
from simulate.traffic.training import data_parallel, even_layers
from simulate.workload.place import Workload, place_workload
from simulate.workload.read import read_workload
from simulate.workload.spec import WorkloadSpec
from topo.builder import FabricBuilder
from topo.catalog.load import load_catalog
from topo.errors import FormatError, SpecError
from topo.fabric import Fabric, Role
from topo.files.yaml import parse_yaml
from topo.spec.validation import validate
from topo.speeds import LinkSpeed

NODES = load_catalog().nodes


def two_zones() -> Fabric:
    """Two zones of two leaves with four GPU hosts and one storage host each."""
    build = FabricBuilder("zones")
    speed = LinkSpeed(4, "HDR")
    for zone in range(2):
        spine = build.switch(f"s{zone}", model="X", radix=36, role=Role.SPINE, level=2, zone=zone)
        for at in range(2):
            leaf = build.switch(f"l{zone}{at}", model="X", radix=36, role=Role.LEAF, level=1, zone=zone)
            build.link(leaf, 36, spine, at + 1, speed)
            for slot in range(5):
                role = Role.STORAGE if slot == 4 else Role.COMPUTE
                host = f"{'storage' if slot == 4 else 'gpu'}{zone}{at}{slot}"
                model = "storage-3fs" if slot == 4 else "pcie-a100"
                node = build.adapter(host, "mlx5_0", model="C", host_model=model, role=role, zone=zone)
                build.link(node, 1, leaf, slot + 1, speed)
    return build.build()


FABRIC = two_zones()


def placed(text: str, traces: dict[str, Flows] | None = None, seed: int = 0) -> Workload:
    document = parse_yaml(text, "w.yaml")
    return place_workload(
        validate(WorkloadSpec, document), document, FABRIC, traces or {}, np.random.default_rng(seed), NODES
    )


def refused(text: str, traces: dict[str, Flows] | None = None) -> str:
    with pytest.raises(SpecError) as caught:
        placed(text, traces)
    return str(caught.value)


def hosts(workload: Workload, job: int) -> list[str]:
    return [FABRIC.names[FABRIC.end_node[end]].split()[0] for end in workload.jobs[job].ends]


def job(**extra: object) -> str:
    """One allreduce, with more keys, as YAML."""
    keys = {"name": "a", "kind": "collective", "collective": "allreduce", "size": "16 MiB"} | extra
    keys |= {} if keys["kind"] == "storage" else {"rank": "adapter"}
    return "jobs:\n- " + "\n  ".join(f"{key}: {value}" for key, value in keys.items() if value is not None)


def test_a_job_takes_all_compute_adapters_and_moves_its_bytes() -> None:
    workload = placed(job(sl=3, start="20 ms"))

    assert len(workload.jobs[0].ends) == 16
    assert all(name.startswith("gpu") for name in hosts(workload, 0))
    assert len(workload.flows) == 2 * 15 * 16
    np.testing.assert_allclose(
        np.bincount(workload.flows.src, workload.flows.size_bytes)[workload.jobs[0].ends], 2 * 15 / 16 * 2**24
    )
    assert set(workload.flows.sl.tolist()) == {3}
    assert set(workload.flows.start_s.tolist()) == {0.02}


def test_jobs_fill_leaves_and_zones_in_order() -> None:
    text = """
jobs:
- {name: one, kind: collective, rank: adapter, collective: allreduce, size: 1 MiB, ranks: 3, within: leaf}
- {name: two, kind: collective, rank: adapter, collective: all-to-all, size: 1 MiB, ranks: 3, within: leaf}
- {name: three, kind: collective, rank: adapter, collective: all-gather, size: 1 MiB, ranks: 7, within: zone}
- {name: four, kind: collective, rank: adapter, collective: broadcast, size: 1 MiB, role: storage, zone: 1}
- {name: rest, kind: collective, rank: adapter, collective: pipeline, size: 1 MiB, chunks: 4}
"""
    workload = placed(text)

    assert hosts(workload, 0) == ["gpu000", "gpu001", "gpu002"]
    assert hosts(workload, 1) == ["gpu010", "gpu011", "gpu012"]
    assert hosts(workload, 2) == [f"gpu1{leaf}{slot}" for leaf in range(2) for slot in range(4)][:7]
    assert hosts(workload, 3) == ["storage104", "storage114"]
    assert hosts(workload, 4) == ["gpu003", "gpu013", "gpu113"]
    for number, running in enumerate(workload.jobs):
        mine = workload.job == number
        assert set(workload.flows.src[mine].tolist()) <= set(running.ends.tolist())
    assert workload.job.tolist() == sorted(workload.job.tolist())


def test_spread_deals_ranks_over_groups() -> None:
    zones = zone_of(FABRIC, placed(job(ranks=6, spread="zone")).jobs[0].ends)
    leaves = leaf_of(FABRIC, placed(job(ranks=6, spread="leaf", within="zone", zone=1)).jobs[0].ends)

    assert np.bincount(zones).tolist() == [3, 3]
    assert sorted(np.unique(leaves, return_counts=True)[1].tolist()) == [3, 3]


def test_named_nodes_keep_their_order_and_are_not_given_away() -> None:
    text = """
jobs:
- {name: free, kind: collective, rank: adapter, collective: allreduce, size: 1 MiB, ranks: 2}
- {name: named, kind: collective, rank: adapter, collective: allreduce, size: 1 MiB, nodes: [gpu001, "gpu000 mlx5_0:1"]}
- {name: same, kind: collective, rank: adapter, collective: allreduce, size: 1 MiB, nodes: [gpu000, gpu001]}
"""
    workload = placed(text)

    assert hosts(workload, 0) == ["gpu002", "gpu003"]
    assert hosts(workload, 1) == ["gpu001", "gpu000"]
    assert hosts(workload, 2) == ["gpu000", "gpu001"]


def test_zone_tree_crosses_once_a_tree() -> None:
    workload = placed(job(algorithm="zone-tree"))
    zones = [FABRIC.zone[FABRIC.end_node[side]] for side in (workload.flows.src, workload.flows.dst)]
    across = zones[0] != zones[1]

    pairs = {frozenset(pair) for pair in zip(workload.flows.src[across], workload.flows.dst[across], strict=True)}
    assert len(pairs) == 1
    assert across.sum() == 4 * 64  # up and down in each of two trees, chunk by chunk


def test_repeat_and_compute() -> None:
    once, thrice = placed(job(ranks=4, compute="5 ms")), placed(job(ranks=4, compute="5 ms", repeat=3))

    opening = np.diff(once.flows.dep_offset) == 0
    np.testing.assert_array_equal(once.flows.delay_s, np.where(opening, 0.005, 0))
    assert len(thrice.flows) == 3 * len(once.flows) + 2
    assert np.count_nonzero(thrice.flows.delay_s) == 3 * np.count_nonzero(opening)
    assert np.count_nonzero(np.diff(thrice.flows.dep_offset) == 0) == np.count_nonzero(opening)


@given(seed=st.integers(0, 2**32), mapping=st.sampled_from(["as-placed", "by-leaf", "by-zone", "random"]))
def test_mappings_permute_and_the_seed_decides(seed: int, mapping: str) -> None:
    text = job(mapping=mapping, nodes="[gpu100, gpu000, gpu010, gpu110, gpu001]")
    one, other = placed(text, seed=seed), placed(text, seed=seed)

    assert sorted(hosts(one, 0)) == ["gpu000", "gpu001", "gpu010", "gpu100", "gpu110"]
    assert hosts(one, 0) == hosts(other, 0)
    if mapping != "random":
        assert (
            hosts(one, 0)
            == {
                "as-placed": ["gpu100", "gpu000", "gpu010", "gpu110", "gpu001"],
                "by-leaf": ["gpu000", "gpu001", "gpu010", "gpu100", "gpu110"],
                "by-zone": ["gpu000", "gpu001", "gpu010", "gpu100", "gpu110"],
            }[mapping]
        )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (job(size="-3 MiB"), 'w.yaml:5:9: found the text "-3 MiB"; expected a size in B'),
        (job(size=5), "w.yaml:5:9: found the number 5; expected a size with its unit, such as 186 MiB"),
        (job(size=None), "w.yaml:2:3: found no `size`; expected the key `size`: largest buffer"),
        (
            job(algorithm="rign"),
            'found the text "rign"; expected one of ring, .*, sharp. Did you mean `ring`',
        ),
        (job(collective="allreduse"), "expected one of allreduce, .*Did you mean `allreduce`"),
        (
            job(kind="colective"),
            'found the text "colective"; expected one of chakra, .*, inference, simai, storage, training. Did you',
        ),
        (job(ranks=17), "w.yaml:6:10: found 17 ranks; expected at most 16: no more adapters of compute servers"),
        (job(ranks=5, within="leaf"), "w.yaml:6:10: found 5 ranks; expected at most 4: .*free in any leaf"),
        (job(ranks=9, within="zone"), "expected at most 8: .*free in any zone"),
        (job(ranks=9, zone=1), "expected at most 8: .*free in zone 1"),
        (job(zone=7), "expected at most 0: .*free in zone 7"),
        (job(ranks=0), "w.yaml:6:10: found the number 0; expected at least 1"),
        (
            job(nodes="[gpu000, gpu00x]"),
            'w.yaml:6:19: found the text "gpu00x"; .*Did you mean `gpu0',
        ),
        (job(nodes="[gpu000, gpu000]"), "w.yaml:6:19: .*expected each adapter port once. It is rank 0 already"),
        (job(nodes="[gpu000]", ranks=2), "w.yaml:6:10: found 1 names; expected 2, one a rank"),
        (job(nodes="[gpu000, gpu100]", within="zone"), "found adapters in 2 zones; expected all within one zone"),
        (job(nodes="[gpu000, gpu010]", within="leaf"), "found adapters in 2 leaves; expected all within one leaf"),
        (job(nodes="[gpu000, gpu010]", zone=1), "found adapters in zone 0; expected all in zone 1"),
        (
            job(collective="all-gather", algorithm="recursive-doubling", ranks=12),
            "w.yaml:6:14: found all-gather by recursive-doubling of 12 ranks; .*power of two .*take 8 or 16 ranks",
        ),
        (
            job(mapping="halving-doubling"),
            'found the text "halving-doubling"; expected a mapping that fits.*BiGraph|two sides',
        ),
        (
            job(ranks=3, within="leaf", repeat=1_000_000, algorithm="sharp", every_switch="true", chunks=2),
            "found 12 messages, 1,000,000 times; expected at most 10,000,000 flows",
        ),
        (
            job(ranks=16, repeat=1_000_000, algorithm="halving-doubling"),
            "found 128 messages, 1,000,000 times; expected at most 10,000,000 flows",
        ),
        (job() + "\ncross_zone_jobs: 0", "found 1 jobs that span zones .a.; expected at most 0 .`cross_zone_jobs`"),
        (job() + job().removeprefix("jobs:"), "found 2 jobs with the name a; expected a name for each job"),
        (
            "jobs:\n- {name: a, kind: chakra, file: t, algorithms: {allreduce: rign}}",
            "w.yaml:2:48: found allreduce: rign; expected allreduce: ring, .*double-binary-tree$",
        ),
        ("jobs: []", "w.yaml:1:7: found a list of 0; expected at least one job"),
        (job(nodes="[]"), "w.yaml:6:10: found 0 names; expected 1, one a rank"),
    ],
)
def test_refuses_and_says_where(text: str, message: str) -> None:
    shown = refused(text)
    assert re.search(message, shown), shown


def test_at_most_one_job_may_cross_zones() -> None:
    text = """
cross_zone_jobs: 1
jobs:
- {name: one, kind: collective, rank: adapter, collective: allreduce, size: 1 MiB, ranks: 4, spread: zone}
- {name: two, kind: collective, rank: adapter, collective: allreduce, size: 1 MiB, ranks: 4, within: zone}
- {name: six, kind: collective, rank: adapter, collective: allreduce, size: 1 MiB, ranks: 4, spread: zone}
"""
    assert "w.yaml:6:3: found 2 jobs that span zones (one, six); expected at most 1" in refused(text)
    assert len(placed(text.replace("cross_zone_jobs: 1", "cross_zone_jobs: 2")).jobs) == 3


def test_goal_jobs_are_placed_too() -> None:
    trace = flows_of_goal(
        parse_goal(
            [
                "num_ranks 3",
                "rank 0 {",
                "send 9b to 2",
                "}",
                "rank 2 {",
                "r: recv 9b from 0",
                "c: calc 5",
                "c requires r",
                "}",
            ]
        )
    )
    text = "jobs:\n- {name: t, kind: goal, file: t.goal, rank: adapter, within: leaf, zone: 1, sl: 2}"
    workload = placed(text, {"t": trace})

    assert hosts(workload, 0) == ["gpu100", "gpu101", "gpu102"]
    assert workload.flows.src.tolist() == [workload.jobs[0].ends[0], workload.jobs[0].ends[2]]
    assert workload.flows.delay_s.tolist() == [0, 5e-9]
    assert set(workload.flows.sl.tolist()) == {2}


def test_reads_files_beside_it(tmp_path) -> None:
    (tmp_path / "w.yaml").write_text(
        "jobs:\n- {name: t, kind: goal, file: t.goal, rank: adapter}\n"
        "- {name: f, kind: flows, file: f.csv, start: 1 s}\n"
    )
    (tmp_path / "t.goal").write_text("num_ranks 2\nrank 0 {\nsend 9b to 1\n}\nrank 1 {\nrecv 9b from 0\n}\n")
    (tmp_path / "f.csv").write_text("start_s,src,dst,bytes\n0.5,storage004,gpu000,7\n")
    workload = read_workload(tmp_path / "w.yaml", FABRIC)

    assert workload.flows.size_bytes.tolist() == [9, 7]
    assert workload.flows.start_s.tolist() == [0, 1.5]
    assert workload.job.tolist() == [0, 1]
    assert hosts(workload, 1) == ["gpu000", "storage004"]

    (tmp_path / "t.goal").write_text("num_ranks 1\nrank 0 {\na: calc 1\nb: calc 1\na requires b\nb requires a\n}\n")
    with pytest.raises(FormatError, match=r"t.goal:[34]: found operations that wait for each other in a circle"):
        read_workload(tmp_path / "w.yaml", FABRIC)


def test_a_training_job_is_its_steps() -> None:
    text = job(
        kind="training", collective=None, size=None, parallel="data", ranks=4, layers=4, forward="1 ms", steps=3,
        backward="3 ms", parameters="40 MB", bucket="10 MB",
    )  # fmt: skip
    workload = placed(text)
    flows = data_parallel(even_layers(4, 1e-3, 3e-3, 4e7), schedule("allreduce", "ring", 4).flows, bucket_bytes=1e7)
    moves = workload.flows.src != workload.flows.dst

    assert workload.flows.size_bytes[moves].sum() == pytest.approx(3 * flows.size_bytes.sum())
    assert not workload.acts


TRAINED = {
    "data": {"parameters": "8 MB", "layers": 2},
    "tensor": {"activations": "1 MB", "layers": 2},
    "pipeline": {"activations": "1 MB", "micro_batches": 2},
    "parameter-server": {"parameters": "8 MB", "servers": 2},
    "hierarchical-parameter-server": {"parameters": "8 MB", "cached": 0.5},
}


@pytest.mark.parametrize(("parallel", "keys"), TRAINED.items())
def test_every_way_to_train_moves_bytes(parallel: str, keys: dict[str, object]) -> None:
    text = job(kind="training", collective=None, size=None, parallel=parallel, ranks=4, forward="1 ms", backward="2 ms",
               **keys)  # fmt: skip
    assert placed(text).flows.size_bytes.sum() > 1e6


STORAGE = {"kind": "storage", "collective": None, "size": None}


def test_a_storage_job_shares_the_nodes_of_another() -> None:
    text = job(ranks=4, spread="zone") + "\n- {name: b, kind: storage, beside: a, batches: 2, batch: 8}"
    workload = placed(text)

    assert workload.acts
    assert workload.jobs[1].ends.tolist() == workload.jobs[0].ends.tolist()
    assert len(workload.flows.part(*[workload.span(1).start, workload.span(1).stop])) == 0
    assert workload.alone(0).flows.size_bytes.tolist() == workload.flows.size_bytes.tolist()
    assert workload.jobs[1].seed == placed(text).jobs[1].seed != placed(text, seed=1).jobs[1].seed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (job(**STORAGE, beside="b"), "w.yaml:4:11: found the text \"b\"; expected a placed job that stands before it"),
        (job(**STORAGE, senders=3), "senders"),
        ("storage: {senders: 0}\n" + job(**STORAGE), "w.yaml:1:20: found the number 0; expected at least 1"),
        (job(kind="training", collective=None, size=None, parallel="parameter-server", ranks=4, servers=4,
             forward="1 ms", backward="1 ms"), "found `servers: 4` with 4 ranks; expected fewer servers than ranks"),
        (job(kind="training", collective=None, size=None, parallel="data", algorithm="rign", forward="1 ms",
             backward="1 ms"), "Did you mean"),
    ],
)  # fmt: skip
def test_refuses_training_and_storage(text: str, message: str) -> None:
    assert message in refused(text)


@pytest.mark.slow
@pytest.mark.parametrize(
    "keys",
    [
        "parallel: data, parameters: 1 TB, bucket: 1 B, layers: 10000, steps: 100",
        "parallel: data, parameters: 1 GB, steps: 100000",
        "parallel: tensor, layers: 10000, steps: 100",
        "parallel: pipeline, micro_batches: 10000, steps: 100000",
        "parallel: parameter-server, servers: 3, steps: 100000, parameters: 1 GB, ranks: 1000",
        "parallel: data, parameters: 1 GB, bucket: 0 B",
    ],
)
def test_refuses_steps_that_fit_no_memory(keys: str) -> None:
    """Before anything is made of them: a message, at once."""
    text = f"jobs: [{{name: a, kind: training, rank: adapter, forward: 1 s, backward: 2 s, {keys}}}]"
    if "ranks" not in keys:
        text = text.replace("{name", "{ranks: 12, name")
    shown = refused(text)
    assert "w.yaml:1:" in shown
    assert re.search(r"too many; expected at most 10,000,000|expected more than 0|no more adapters", shown)
