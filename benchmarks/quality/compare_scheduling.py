"""A day of jobs under each placement policy, two at a time: the table of docs/validation/placement.md, rewritten.

Run from the repository: python benchmarks/quality/compare_scheduling.py [HOURS]
"""

import sys
from pathlib import Path
from typing import get_args

import numpy as np
from joblib import Parallel, delayed

from plan.inputs import find_preset, read_routed_argument
from simulate.cluster.policies import Placement
from simulate.cluster.queue import read_queue
from simulate.cluster.run import ClusterRun
from simulate.traffic.network import Network
from topo.fabric import Role

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "validation" / "placement.md"
BEGIN, END = "<!-- computed -->\n", "<!-- /computed -->\n"
KINDS = {"vision": 0.1275, "language": 4.8, "experts": 6.9, "finetune": 4.2, "wide": 27.0}
"""Jobs by the first part of their names, and seconds of computation of a step."""
CASES: dict[str, dict[str, object]] = {f"`{name}`": {"placement": name} for name in get_args(Placement)}
CASES["`random`, in any order"] = {"placement": "random", "ordered": False}


def mean_load(network: Network, run: ClusterRun, first: Role, second: Role) -> float:
    """Mean load of the links from switches of one role to those of another."""
    fabric = network.fabric
    peer = fabric.role[np.maximum(fabric.peer_node, 0)]
    link = (fabric.peer >= 0) & (fabric.role[fabric.port_node] == first) & (peer == second)
    ports = np.flatnonzero(link)
    return float(np.mean(run.env.engine.loads()[ports] / network.capacity_bytes_s[ports]) / run.now_s)


def row(network: Network, name: str, rules: dict[str, object], hours: float) -> str:
    """A line of the table."""
    run = ClusterRun(network, read_queue(find_preset("queues", "day", "--queue")).under(**rules))
    run.play(hours * 3600)
    began = [job for job in run.records if job.trained_steps]
    steps = []
    for kind, compute_s in KINDS.items():
        jobs = [job for job in began if job.name.split("-")[0] == kind]
        mean_s = sum(job.trained_s for job in jobs) / max(1, sum(job.trained_steps for job in jobs))
        steps.append(f"{mean_s / compute_s:.2f}" if jobs else "")
    sizes = np.cumsum(np.sort(np.unique(run.scheduler.leaf, return_counts=True)[1])[::-1])
    spread = np.mean([job.leaves / (np.searchsorted(sizes, job.nodes) + 1) for job in began])
    waited = sum(job.waited_s for job in run.records) / len(run.records) / 3600
    ended = [job.end_s for job in run.records if job.end_s is not None]
    figures = (
        *steps,
        f"{waited:.2f}",
        f"{max(ended) / 3600:.1f}" if len(ended) == len(run.records) else "",
        f"{spread:.2f}",
        f"{sum(job.spanned_zones for job in run.records)}",
        f"{mean_load(network, run, Role.LEAF, Role.SPINE):.1%}",
        f"{mean_load(network, run, Role.LEAF, Role.JOINT):.1%}",
    )
    return f"| {name} | " + " | ".join(figures) + " |\n"


def main() -> None:
    """Play all, and write the table into the page."""
    hours = float(sys.argv[1]) if len(sys.argv) > 1 else 24.0
    head = [*KINDS, "waited, h", "all ended, h", "leaves, of the fewest", "over zones", "uplinks", "joints"]
    network = Network.of(read_routed_argument(ROOT / "configs" / "fire-flyer-2.yaml"), latency_s=0)
    found = Parallel(n_jobs=2)(delayed(row)(network, name, rules, hours) for name, rules in CASES.items())
    computed = f"| {hours:g} h | {' | '.join(head)} |\n|---{'|--:' * len(head)}|\n" + "".join(found)
    print(computed)
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(text[: text.index(BEGIN) + len(BEGIN)] + computed + text[text.index(END) :], encoding="utf-8")


if __name__ == "__main__":
    main()
