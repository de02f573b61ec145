"""Chakra traces against ASTRA-sim with its analytical networks: the end of the whole run.

Both mean the same by a collective of one algorithm on a network in which no two messages meet, if a message waits for
no receiver (``eager`` above all sizes) and passes ASTRA-sim's latency and its bus, 10 ns, at once. Where they differ:

- Its switch of the network that knows of congestion stores a message whole before it passes it on; here the bytes go
  through. Its network that knows of none gives every message the whole rate, here those of one port share it.
- Its ring passes the messages of an all-to-all around; ``direct1`` sends them as ``shift`` does, a round after another.
- Of halving and doubling it adds up half of what arrives: sums are compared in rings.
- A rank of its has one collective or send at a time, and one computation, whatever the dependencies allow.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from helpers.chakra import node, trace
from helpers.fluids import hosts, routed
from helpers.skips import without
from helpers.trees import grow_tree
from routing.routed import Routed
from simulate import play
from simulate.traffic.network import Network
from simulate.workload.chakra import NodeType, Roofline, flows_of_chakra
from simulate.workload.formats.chakra import read_chakra

PROGRAM = "AstraSim_Analytical_Congestion_"
pytestmark = [
    pytest.mark.peer,
    pytest.mark.skipif(
        not all(shutil.which(PROGRAM + kind) for kind in ("Aware", "Unaware")),
        reason=without("ASTRA-sim"),
    ),
]

GIB_S, LATENCY_NS, BUS_NS, FLOPS, MEMORY = 50, 500, 10, 3e12, 1.6e12
"""Its rates of links count in GiB."""
KINDS = {"allreduce": 0, "all-gather": 2, "all-to-all": 6, "reduce-scatter": 7}
NETWORKS = {"Ring": ("Aware", 1), "FullyConnected": ("Aware", 1), "Switch": ("Unaware", 2)}
"""Program and hops of a message between neighbours."""


def write(folder: Path, ranks: list[bytes]) -> Path:
    for rank, data in enumerate(ranks):
        (folder / f"run.{rank}.et").write_bytes(data)
    return folder / "run"


def theirs(
    prefix: Path, ranks: int, shape: str, algorithm: str, groups: Mapping[str, list[int]] = {}, memory: float = MEMORY
) -> float:
    """Seconds until the last rank of ASTRA-sim has ended."""
    system = {"scheduling-policy": "LIFO", "endpoint-delay": BUS_NS, "active-chunks-per-dimension": 1,
              "preferred-dataset-splits": 1, "collective-optimization": "localBWAware", "boost-mode": 0,
              "local-mem-bw": memory / 1e9, "roofline-enabled": 1, "peak-perf": FLOPS / 1e12}  # fmt: skip
    system |= {f"{kind}-implementation": [algorithm] for kind in ("all-reduce", "all-gather", "reduce-scatter")}
    system |= {"all-to-all-implementation": ["direct1"]}
    network = {"topology": shape, "npus_count": ranks, "bandwidth": GIB_S, "latency": LATENCY_NS}
    files = {
        "system": json.dumps(system),
        "network": "".join(f"{key}: [ {value} ]\n" for key, value in network.items()),
        "remote-memory": '{"memory-type": "NO_MEMORY_EXPANSION"}',
        "comm-group": json.dumps(groups),
    }
    words = [PROGRAM + NETWORKS[shape][0], f"--workload-configuration={prefix}"]
    for name, text in files.items():
        (prefix.parent / name).write_text(text)
        if name != "comm-group" or groups:
            words.append(f"--{name}-configuration={prefix.parent / name}")
    # Some builds break down as they free what they had, after all has been said.
    said = subprocess.run(words, capture_output=True, text=True, timeout=60, cwd=prefix.parent, check=False).stdout
    ends = re.findall(r"finished, (\d+) cycles", said)
    assert len(ends) == ranks, said[-500:]
    return max(map(int, ends)) * 1e-9


def ours(prefix: Path, shape: str, algorithms: dict[str, str], memory: float = MEMORY, bus_ns: int = BUS_NS) -> float:
    traces = read_chakra(prefix)
    fabric = grow_tree((len(traces),), (1,), (1,))
    latency_s = (NETWORKS[shape][1] * LATENCY_NS + bus_ns) * 1e-9
    network = Network.of(Routed(fabric, routed(fabric)), latency_s=latency_s, hop_latency_s=0)
    network = replace(network, capacity_bytes_s=np.full(len(network.capacity_bytes_s), GIB_S * 2.0**30))
    peak = Roofline(FLOPS, memory)
    flows = flows_of_chakra(traces, algorithms, roofline=peak, eager_bytes=2**60, port_bytes_s=GIB_S * 2.0**30)
    return play(network, flows.placed(hosts(network)).in_order("peer")).makespan_s


@pytest.mark.parametrize("size", [2**20, 2**24])
@pytest.mark.parametrize("ranks", [4, 8, 16, 64])
@pytest.mark.parametrize(
    ("kind", "algorithm", "our_algorithm"),
    [
        ("allreduce", "ring", "ring"),
        ("all-gather", "ring", "ring"),
        ("reduce-scatter", "ring", "ring"),
        ("all-to-all", "ring", "shift"),
        ("allreduce", "halvingDoubling", "halving-doubling"),
        ("all-gather", "halvingDoubling", "recursive-doubling"),
        ("reduce-scatter", "halvingDoubling", "recursive-halving"),
    ],
)
def test_a_collective_takes_as_long(
    tmp_path: Path, kind: str, algorithm: str, our_algorithm: str, ranks: int, size: int
) -> None:
    rank = trace(node(1, NodeType.COMM_COLL, comm_type=KINDS[kind], comm_size=size, is_cpu_op=False))
    prefix = write(tmp_path, [rank] * ranks)
    memory = MEMORY if algorithm == "ring" else 1e18
    neighbours = algorithm == "ring" and kind != "all-to-all"
    for shape in ("Switch", "Ring" if neighbours else "FullyConnected"):
        expected = theirs(prefix, ranks, shape, algorithm, memory=memory)
        assert ours(prefix, shape, {kind: our_algorithm}, memory) == pytest.approx(expected, rel=0.002)


@pytest.mark.parametrize("grouped", [True, False])
@pytest.mark.parametrize("seed", range(10))
def test_programs_that_compute_and_exchange_in_groups(tmp_path: Path, seed: int, grouped: bool) -> None:
    """Ranks that go through computations of their own and collectives of their group one after another.

    Its networks have a link for each two ranks, so that a rank may send to two at its full rate: here they share its
    port. A rank of its goes on when it has received all; here, too, when all of its sends but the last have gone.
    """
    rng = np.random.default_rng(seed)
    n = int(rng.choice([4, 8, 12]))
    sizes = [2] * (n // 2) if rng.random() < 0.5 else [n // 2, n // 2]
    parts = np.split(rng.permutation(n), np.cumsum(sizes)[:-1]) if grouped else [np.arange(n)]
    groups = {str(number): sorted(part.tolist()) for number, part in enumerate(parts, 1)} if grouped else {}
    kinds = [kind for kind in KINDS if grouped or kind != "all-to-all"]
    programs: list[list[bytes]] = [[] for _ in range(n)]

    def add(rank: int, kind: int, **attributes: int | str | bool) -> None:
        mine = programs[rank]
        mine.append(node(len(mine) + 1, kind, (len(mine),) * 2 if mine else (), is_cpu_op=False, **attributes))

    for _ in range(10):
        for name, members in (groups or {"": list(range(n))}).items():
            kind, size = KINDS[str(rng.choice(kinds))], int(rng.integers(1, 64)) * 2**16 * len(members)
            for rank in members:
                add(rank, NodeType.COMP, num_ops=int(rng.integers(1, 10**9)), tensor_size=int(rng.integers(1, 10**9)))
                add(rank, NodeType.COMM_COLL, comm_type=kind, comm_size=size, **({"pg_name": name} if name else {}))
    prefix = write(tmp_path, [trace(*program) for program in programs])

    shape = "FullyConnected" if grouped else "Ring"
    assert ours(prefix, shape, {}) == pytest.approx(theirs(prefix, n, shape, "ring", groups), rel=0.03)


@pytest.mark.parametrize("seed", range(20))
def test_graphs_whose_nodes_take_turns(tmp_path: Path, seed: int) -> None:
    """Nodes that wait for some of the six before them: several computations and collectives may begin at a time.

    Turns are told from times without latencies; where these decide, a run differs by more than 1 %.
    """
    rng = np.random.default_rng(seed)
    program = []
    for number in range(1, 41):
        deps = np.unique(rng.integers(max(1, number - 6), number, int(rng.integers(0, 3)))) if number > 1 else []
        after = (*map(int, deps[:1]), *map(int, deps))
        if rng.random() < 0.3:
            kind, size = int(rng.choice([0, 2, 7])), int(rng.integers(1, 32)) * 2**19
            program.append(node(number, NodeType.COMM_COLL, after, comm_type=kind, comm_size=size, is_cpu_op=False))
        else:
            work = {"num_ops": int(rng.integers(1, 10**9)), "tensor_size": int(rng.integers(1, 10**8))}
            program.append(node(number, NodeType.COMP, after, is_cpu_op=False, **work))
    ranks = int(rng.choice([4, 8, 16]))
    prefix = write(tmp_path, [trace(*program)] * ranks)

    assert ours(prefix, "Ring", {}) == pytest.approx(theirs(prefix, ranks, "Ring", "ring"), rel=0.03)


@pytest.mark.parametrize("seed", range(10))
def test_pipelines_of_sends_and_receives(tmp_path: Path, seed: int) -> None:
    """Stages that receive, compute and send on, for many micro-batches: no bus is in the way of a send."""
    rng = np.random.default_rng(seed)
    stages, batches = int(rng.choice([2, 3, 6])), int(rng.integers(1, 12))
    ranks = []
    for stage in range(stages):
        program, computed = [], 0
        for batch in range(batches):
            number = 3 * batch + 1
            deps = [computed] * 2 if computed else []
            if stage:
                received = {"comm_src": stage - 1, "comm_dst": stage, "comm_size": 2**20 * (1 + batch)}
                program.append(node(number, NodeType.COMM_RECV, comm_tag=batch, is_cpu_op=False, **received))
                deps += [number] if deps else [number] * 2
            computed = number + 1
            size, n_ops = int(rng.integers(1, 10**6)), int(rng.integers(1, 10**9))
            program.append(node(computed, NodeType.COMP, (*deps,), num_ops=n_ops, tensor_size=size, is_cpu_op=False))
            if stage + 1 < stages:
                sent = {"comm_src": stage, "comm_dst": stage + 1, "comm_size": 2**20 * (1 + batch)}
                after = (computed, computed)
                program.append(node(number + 2, NodeType.COMM_SEND, after, comm_tag=batch, is_cpu_op=False, **sent))
        ranks.append(trace(*program))
    prefix = write(tmp_path, ranks)

    found = ours(prefix, "Switch", {}, bus_ns=0)
    assert found == pytest.approx(theirs(prefix, stages, "Switch", "ring"), rel=0.002)
