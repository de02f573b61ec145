"""Fire-Flyer's rule on zones beside nodes from anywhere: the table of docs/operate.md, which it rewrites.

Run from the repository: python benchmarks/compare_scheduling.py
"""

import sys
from pathlib import Path

import numpy as np

from plan.inputs import find_preset, read_routed_argument
from simulate.cluster.job import JobRecord
from simulate.cluster.queue import read_queue
from simulate.cluster.run import ClusterRun
from simulate.network import Network
from topo.fabric import Role

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "operate.md"
BEGIN, END = "<!-- computed -->\n", "<!-- /computed -->\n"
HOURS = 8
CASES = {
    "the rule": {},
    "anywhere, in order": {"cross_zone_jobs": None},
    "anywhere, in any order": {"cross_zone_jobs": None, "ordered": False},
}


def played(network: Network, **rules: object) -> ClusterRun:
    """The first hours of the day that ships, under other rules."""
    run = ClusterRun(network, read_queue(find_preset("queues", "day", "--queue")).under(**rules))
    run.play(HOURS * 3600, progress=lambda now_s: print(f"\r{now_s / 3600:5.2f} h", end="", file=sys.stderr))
    return run


def joint_load(run: ClusterRun) -> float:
    """Mean load of the links between leaves and joints, both ways."""
    fabric, network = run.env.network.fabric, run.env.network
    peer = fabric.role[np.maximum(fabric.peer_node, 0)]
    joint = np.flatnonzero((fabric.peer >= 0) & ((fabric.role[fabric.port_node] == Role.JOINT) | (peer == Role.JOINT)))
    return float(np.mean(run.env.engine.loads()[joint] / network.capacity_bytes_s[joint]) / run.env.now)


def step_s(jobs: list[JobRecord]) -> float:
    """Mean of all their steps."""
    return sum(job.trained_s for job in jobs) / sum(job.trained_steps for job in jobs)


def steps(records: tuple[JobRecord, ...], kind: str) -> list[JobRecord]:
    """The jobs of a kind that have done steps."""
    return [job for job in records if job.name.split("-")[0] == kind and job.trained_steps]


def table(runs: dict[str, ClusterRun]) -> str:
    first = next(iter(runs.values()))
    kinds = list(dict.fromkeys(job.name.split("-")[0] for job in first.queue.jobs))
    lines = [f"| after {HOURS} h | " + " | ".join(runs) + " |", "|---" * (len(runs) + 1) + "|"]
    for kind in kinds:
        jobs = {name: steps(run.records, kind) for name, run in runs.items()}
        if not all(jobs.values()):
            continue
        compute_s = next(job.compute_s for job in first.queue.jobs if job.name.split("-")[0] == kind)
        means = [
            sum(job.trained_s for job in found) / sum(job.trained_steps for job in found) for found in jobs.values()
        ]
        cells = " | ".join(f"{mean:.3f} s ({mean / compute_s:.2f})" for mean in means)
        lines.append(f"| step of {kind}, {compute_s:g} s of computation | {cells} |")
    across = [sum(job.spanned_zones for job in run.records) for run in runs.values()]
    lines.append("| jobs in both zones | " + " | ".join(map(str, across)) + " |")
    lines.append(
        "| mean load of the joint links | " + " | ".join(f"{joint_load(run):.1%}" for run in runs.values()) + " |"
    )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    network = Network.of(read_routed_argument(ROOT / "configs" / "fire-flyer-2.yaml"))
    computed = table({name: played(network, **rules) for name, rules in CASES.items()})
    print(computed)
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(text[: text.index(BEGIN) + len(BEGIN)] + computed + text[text.index(END) :], encoding="utf-8")
