"""GOAL schedules against LogGOPSim: the end of the whole run, over a network on which only adapters are scarce.

Both mean the same where a rank sends its messages one after another (``order: adapter``), all are eager, and overheads
are 0. LogGOPSim's gap per byte is then the rate of an adapter, but for one byte less a message. Where they differ:

- A rank of LogGOPSim takes in one message at a time, as they come, and sends nothing meanwhile; here messages share the
  adapter, and both directions are used at once. So programs that receive from several and send at one time end sooner.
- Its senders inject at full rate into a network that holds what the receiver cannot take; here what a receiver cannot
  take holds its sender up. So programs whose senders serve a busy receiver first and an idle one next end later.
- A large message of LogGOPSim holds up its sender until it is matched, but is sent before; here it is sent when its
  receiver is ready.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from helpers.fluids import hosts, routed
from helpers.skips import without
from helpers.trees import grow_tree
from routing.routed import Routed
from simulate import play
from simulate.traffic.goal.schedule import flows_of_goal
from simulate.traffic.goal.text import read_goal
from simulate.traffic.network import Network

TOOLS = ("LogGOPSim", "txt2bin", "schedgen")
pytestmark = [
    pytest.mark.peer,
    pytest.mark.skipif(
        not all(map(shutil.which, TOOLS)),
        reason=without("LogGOPSim"),
    ),
]

LATENCY_NS, NS_A_BYTE = 1000, 1
SAME = [
    *("binarytreebcast", "binomialtreebcast", "binomialtreereduce", "nwaydissemination", "pipelinedring"),
    *("pipelinedringdep", "doublering", "gather", "scatter", "dissemination", "random_bisect", "random_bisect_fd_sym"),
    *("linear_alltoall", "allreduce_recdoub", "allreduce_ring", "resnet"),
]


def schedgen(path: Path, pattern: str, ranks: int, size: int, *options: str, segments: int = 16) -> Path:
    words = ["schedgen", "-p", pattern, "-s", str(ranks), "-d", str(size), "-o", str(path), *options]
    words += ["--segmentsize", str(max(size // segments, 1))]
    subprocess.run(words, check=True, capture_output=True, timeout=60)
    return path


def theirs(path: Path) -> float:
    """Seconds until the last rank of LogGOPSim has ended."""
    binary = path.with_suffix(".bin")
    subprocess.run(["txt2bin", "-i", str(path), "-o", str(binary)], check=True, capture_output=True, timeout=60)
    model = {"L": LATENCY_NS, "G": NS_A_BYTE, "o": 0, "g": 0, "O": 0, "S": 2**30}
    words = [word for name, value in model.items() for word in (f"-{name}", str(value))]
    said = subprocess.run(["LogGOPSim", "-f", binary, *words], check=True, capture_output=True, text=True, timeout=60)
    ends = re.findall(r"(?:Host \d+|Maximum finishing time at host \d+): (\d+)", said.stdout)
    return max(map(int, ends)) * 1e-9


def ours(path: Path, order: str = "adapter") -> float:
    goal = read_goal(path)
    fabric = grow_tree((goal.n_ranks,), (1,), (1,))
    network = Network.of(
        Routed(fabric, routed(fabric)), latency_s=LATENCY_NS * 1e-9, host_gbps=8 / NS_A_BYTE, hop_latency_s=0
    )
    flows = flows_of_goal(goal, eager_bytes=2**60).placed(hosts(network))
    return play(network, flows.in_order(order)).makespan_s  # type: ignore[arg-type]


# Its generator has recursive doubling of powers of two alone, and leaves receives over in a ring of others than 5 or 8.
@pytest.mark.parametrize(
    ("pattern", "ranks"),
    [
        *((pattern, 8) for pattern in SAME),
        *((pattern, 13) for pattern in SAME if not pattern.startswith("allreduce")),
        *(("allreduce_ring", 5), ("allreduce_recdoub", 16)),
        ("binomialtreebcast", 32),  # its sample file `binary_tree_32.goal`, with larger messages
    ],
)
def test_ends_when_loggopsim_ends(tmp_path: Path, pattern: str, ranks: int) -> None:
    path = schedgen(tmp_path / "program.goal", pattern, ranks, 1_000_000)

    assert ours(path) == pytest.approx(theirs(path), rel=0.002)


def test_a_message_of_one_byte_takes_no_time_there(tmp_path: Path) -> None:
    path = schedgen(tmp_path / "program.goal", "linbarrier", 8, 1)
    assert theirs(path) == pytest.approx(2 * LATENCY_NS * 1e-9)
    assert ours(path) == pytest.approx(theirs(path) + 2 * 7e-9)  # seven arrive, and seven are told


@pytest.mark.parametrize(
    ("pattern", "ranks", "options", "low", "high"),
    [
        ("nwaydissemination", 16, ("--nway", "3"), 0.5, 1.0),  # both directions at once
        ("linear_alltoallv", 16, ("--a2av-skew-ratio", "10"), 1.0, 1.1),  # a busy receiver holds its senders up
    ],
)
def test_differences_go_the_way_that_they_mean(
    tmp_path: Path, pattern: str, ranks: int, options: tuple[str, ...], low: float, high: float
) -> None:
    path = schedgen(tmp_path / "program.goal", pattern, ranks, 1_000_000, *options)
    assert low < ours(path) / theirs(path) < high


@pytest.mark.parametrize("segments", [4, 16])
def test_without_order_a_chain_of_segments_loses_its_pipeline(tmp_path: Path, segments: int) -> None:
    path = schedgen(tmp_path / "program.goal", "pipelinedring", 16, 1_000_000, segments=segments)
    assert ours(path, "none") / theirs(path) > 0.9 * 15 * segments / (15 + segments - 1)
