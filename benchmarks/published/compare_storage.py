"""3FS on Fire-Flyer 2, beside what was measured and beside an allreduce: the tables of docs/validation/storage.md.

It rewrites them.
Run from the repository: python benchmarks/published/compare_storage.py
"""

from pathlib import Path

import numpy as np

import costmodel
from plan.inputs import read_routed_argument
from simulate import play
from simulate.traffic.collectives.algorithms import schedule
from simulate.traffic.network import Network
from simulate.traffic.placement import leaf_of, zone_of
from simulate.workload.spec import StorageSpec
from simulate.workload.storage import SteadyReads, steady_reads
from topo.catalog.load import load_catalog
from topo.fabric import Fabric, Role

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "validation" / "storage.md"
BEGIN, END = "<!-- computed -->\n", "<!-- /computed -->\n"
MIB = 2.0**20
SL = 2
"""Level of storage in fire-flyer-2.yaml."""
LIMITS: tuple[int | None, ...] = (4, 8, 16, None)
CLASSES = (
    ("storage to leaf", Role.STORAGE, Role.LEAF),
    ("leaf to spine", Role.LEAF, Role.SPINE),
    ("spine to leaf", Role.SPINE, Role.LEAF),
    ("leaf to client", Role.LEAF, Role.COMPUTE),
)


def compute_ends(fabric: Fabric) -> np.ndarray:
    ends = np.arange(fabric.n_switches, fabric.n_end_ports)
    return ends[fabric.role[fabric.end_node[ends]] == Role.COMPUTE]


def dealt(fabric: Fabric, ends: np.ndarray, count: int) -> np.ndarray:
    """So many end ports, dealt over the leaves evenly."""
    leaf = leaf_of(fabric, ends)
    order = np.argsort(leaf, kind="stable")
    first = np.searchsorted(leaf[order], leaf[order])
    turn = np.arange(len(ends)) - first
    return np.sort(ends[order[np.lexsort((leaf[order], turn))][:count]])


def name(senders: int | None) -> str:
    return "no limit" if senders is None else f"{senders} senders"


def reads(network: Network, count: int) -> dict[int | None, SteadyReads]:
    """Clients over both zones that read without end, by the limit on senders."""
    clients = dealt(network.fabric, compute_ends(network.fabric), count)
    model = load_catalog().node("storage-3fs")
    return {senders: steady_reads(network, clients, model, StorageSpec(senders=senders), sl=SL) for senders in LIMITS}


def measured_table(network: Network, count: int) -> str:
    """What clients read in requests of the size that was measured; how many fio had at a time is not published."""
    clients = dealt(network.fabric, compute_ends(network.fabric), count)
    setup, model = StorageSpec(senders=None), load_catalog().node("storage-3fs")
    window = {"sample_bytes": 128 * 1024.0, "warm_s": 1e-3, "time_s": 1e-3}
    found = steady_reads(network, clients, model, setup, sl=SL, **window)
    published = costmodel.published("storage").value("VI-B", "3fs", "read_tbyte_per_s")
    lines = [f"| {count} clients, 128 KiB | no limit | published |", "|---|---|---|"]
    return "\n".join([*lines, f"| read, TB/s | {found.bytes_s / 1e12:.2f} | {published:g} |"]) + "\n"


def reads_table(found: dict[int | None, SteadyReads], clients: int) -> str:
    published = costmodel.published("storage")
    most, measured, later = (
        published.value(table, "3fs", figure)
        for table, figure in (("VI-B", "out_tbyte_per_s"), ("VI-B", "read_tbyte_per_s"), ("README", "read_tbyte_per_s"))
    )
    lines = [f"| {clients} clients | " + " | ".join(name(senders) for senders in found) + " | published |"]
    lines.append("|---" * (len(found) + 2) + "|")
    rows = (
        ("read, TB/s", lambda it: f"{it.bytes_s / 1e12:.2f}", f"{measured:g}; {later:.1f} later, beside training"),
        (f"of the servers' {most:g} TB/s", lambda it: f"{it.bytes_s / most / 1e12:.0%}", f"{measured / most:.0%}"),
        ("servers sending to a client at once", lambda it: f"{it.senders:.1f}", "-"),
        ("a read of 1 MiB, first byte to last", lambda it: f"{it.read_s * 1e3:.2f} ms", "-"),
        ("from request to first byte", lambda it: f"{it.waited_s * 1e3:.2f} ms", "-"),
    )
    for label, text, beside in rows:
        lines.append(f"| {label} | " + " | ".join(text(it) for it in found.values()) + f" | {beside} |")
    return "\n".join(lines) + "\n"


def links_table(network: Network, found: dict[int | None, SteadyReads]) -> str:
    fabric = network.fabric
    sender, receiver = fabric.role[fabric.port_node], fabric.role[np.maximum(fabric.peer_node, 0)]
    lines = ["| load of links, mean (fullest) | links | " + " | ".join(name(senders) for senders in found) + " |"]
    lines.append("|---" * (len(found) + 2) + "|")
    for label, source, target in CLASSES:
        mine = (fabric.peer >= 0) & (sender == source) & (receiver == target)
        if target == Role.COMPUTE:
            mine &= next(iter(found.values())).load > 0  # those of clients
        cells = (f"{it.load[mine].mean():.0%} ({it.load[mine].max():.0%})" for it in found.values())
        lines.append(f"| {label} | {np.count_nonzero(mine):,} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def beside_allreduce(networks: dict[str, Network], count: int) -> str:
    """An allreduce that begins on the nodes that read, and how much each slows down the other."""
    network = networks["own lanes"]
    ends = compute_ends(network.fabric)
    nodes = dealt(network.fabric, ends[zone_of(network.fabric, ends) == 0], count)
    model = load_catalog().node("storage-3fs")
    flows = schedule("allreduce", "double-binary-tree", count, chunks=8).flows(46 * MIB).placed(nodes)
    alone_s = play(network, flows).makespan_s
    lines = ["| | senders | allreduce takes | reads are |", "|---|---|---|---|"]
    for senders in (2, 8, None):
        options = StorageSpec(senders=senders)
        undisturbed = steady_reads(network, nodes, model, options, sl=SL, time_s=alone_s)
        for lanes, shared in networks.items():
            found = steady_reads(shared, nodes, model, options, sl=SL, beside=flows)
            slower = f"{found.time_s / alone_s:.2f} times as long"
            behind = f"{undisturbed.bytes_s / found.bytes_s:.2f} times slower"
            lines.append(f"| {lanes} | {name(senders)} | {slower} | {behind} |")
    lines += ["", f"Alone the allreduce of 46 MiB takes {alone_s * 1e3:.1f} ms."]
    return "\n".join(lines) + "\n"


def main() -> None:
    routed = read_routed_argument(ROOT / "configs" / "fire-flyer-2.yaml")
    lanes = Network.of(routed, latency_s=0)
    clients = int(costmodel.published("storage").value("VI-B", "3fs", "clients"))
    found = reads(lanes, clients)
    both = {"one lane": Network.of(routed, lane_weights=1, latency_s=0), "own lanes": lanes}
    tables = (measured_table(lanes, clients), reads_table(found, clients), links_table(lanes, found))
    computed = "\n".join((*tables, beside_allreduce(both, 40)))
    print(computed)
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(text[: text.index(BEGIN) + len(BEGIN)] + computed + text[text.index(END) :], encoding="utf-8")


if __name__ == "__main__":
    main()
