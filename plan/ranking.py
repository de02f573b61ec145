"""``plan.order_ranks``: the order of ranks that suits the tables of a fabric, and files that put it to use."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import simulate
from plan.export.names import checked_word
from plan.files import check_replaceable, write_folder
from plan.inputs import RoutingFiles, check_name, routed_of
from plan.pipeline import Progress, silent
from routing import Routed
from simulate.traffic import JobNodes, RankOrder
from topo import HeddleError, Shown, SpecError, Table, budgets, expand, plural, read_text

NCCL = {
    "ring": "NCCL_ALGO=Ring\nNCCL_CROSS_NIC=0\n",
    "tree": "NCCL_ALGO=Tree\nNCCL_CROSS_NIC=0\n",
    "all-to-all": "NCCL_PXN_DISABLE=0\n",
}
"""Settings under which NCCL sends what was counted; NCCL has no halving and doubling."""

UCC = {
    "tree": "UCC_TL_UCP_TUNE=allreduce:0-inf:@dbt\n",
    "halving-doubling": "UCC_TL_UCP_TUNE=allreduce:0-inf:@sra_knomial\nUCC_TL_UCP_ALLREDUCE_SRA_KN_RADIX=2\n",
    "all-to-all": "UCC_TL_UCP_TUNE=alltoall:0-inf:@pairwise\n",
}
"""Likewise of UCC."""
README_OF_RANKS = """\
The order of ranks for {algorithm}, for one fabric and its tables: compute it again when the tables change.

hostfile     mpirun --hostfile hostfile --map-by slot --bind-to none (Open MPI 4 and 5; a rankfile would bind each
             rank to one core, and all GPUs of a node to the first processor)
slurm.hosts  export SLURM_HOSTFILE=this file; srun --distribution=arbitrary: one line per task
nccl.conf    NCCL_CONF_FILE=nccl.conf, or export each line; NCCL connects nodes in the order of their ranks
ucc.env      export each line
"""


@dataclass(frozen=True, eq=False)
class RankOrders(Shown):
    """What `order_ranks` returns: for each algorithm the order in which it has the least contention."""

    job: JobNodes
    orders: tuple[RankOrder, ...]
    size_bytes: float
    """Of the buffer."""
    notes: tuple[str, ...]
    """What was skipped in what was read."""

    @property
    def table(self) -> Table:
        """One row for each algorithm."""
        first = self.orders[0]
        return Table.of(
            f"{len(first.names):,} nodes, {first.rails} of the adapter ports of each, a buffer of "
            f"{self.size_bytes * 1e-9:g} GB",
            self.orders,
            "algorithm",
            ("before.worst", "fullest link, as given"),
            ("after.worst", "in this order"),
            (lambda row: float(row.before.fullest.mean()), "mean of steps, as given", "", ".2f"),
            (lambda row: float(row.after.fullest.mean()), "mean, in this order", "", ".2f"),
            ("before.time_s", "time, as given", "s", "time"),
            ("after.time_s", "time, in this order", "s", "time"),
            ("bound_s", "none takes less than", "s", "time"),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return nodes, adapters and orders as plain values, ready for JSON."""
        orders = [one.to_dict() for one in self.orders]
        return {"nodes": list(self.job.names), "adapters": list(self.job.adapters), "orders": orders}


def order_ranks(
    fabric: str | Path | Routed,
    nodes: str,
    algorithms: Sequence[str] = ("ring", "tree", "halving-doubling", "all-to-all"),
    *,
    adapters: str | None = None,
    size_bytes: float = 1e9,
    given: RoutingFiles | None = None,
    output: str | Path | None = None,
    ranks_per_node: int = 1,
    step: Progress = silent,
) -> RankOrders:
    """Find the order of ranks in which a collective has the least contention with itself.

    Parameters
    ----------
    fabric : str, Path or Routed
        A spec, a folder of a plan, a real fabric with its tables, or a routed fabric.
    nodes : str
        Nodes of the job: a hostlist such as ``gpu[001-032]``, or a file of names.
    algorithms : sequence of str
        Of the collective; all of them when left out.
    adapters : str, optional
        Devices to use, such as ``mlx5_[0-7]``; those of compute nodes when left out.
    size_bytes : float
        Of the buffer.
    given : RoutingFiles, optional
        How the fabric is routed.
    output : str or Path, optional
        Folder to write: for each algorithm a folder with files for MPI, Slurm, NCCL and UCC.
    ranks_per_node : int
        Processes of a node, for these files.
    step : callable
        Progress callback, called as ``step(message)``.

    Raises
    ------
    HeddleError
        When a file cannot be read or must not be replaced, or the fabric has no such nodes.

    Examples
    --------
    >>> import plan, topo
    >>> found = plan.order_ranks(topo.config_root() / "lab-20.yaml", "gpu[00-15]", ["ring"])
    >>> found.orders[0].after.worst <= found.orders[0].before.worst
    True

    See Also
    --------
    simulate.order_ranks : the order of one algorithm alone
    """
    check_replaceable(output)
    routed = routed_of(fabric, given, step)
    try:
        job = JobNodes.of(routed.fabric, read_nodes(nodes), adapters)
    except SpecError:  # of a file, which it names
        raise
    except HeddleError as error:
        raise HeddleError(f"--nodes {nodes[:100]}: {error}") from None
    network, orders = simulate.Network.of(routed, lane_weights=1, latency_s=0), []
    for algorithm in algorithms:
        step(f"ordering for {algorithm}")
        orders.append(simulate.order_ranks(network, job.ends, algorithm, size_bytes=size_bytes, names=job.names))
    if output is not None:
        files = {
            f"{one.algorithm}/{name}": text
            for one in orders
            for name, text in rank_files(one, job.adapters, ranks_per_node).items()
        }
        write_folder(Path(output), files)
    return RankOrders(job, tuple(orders), size_bytes, routed.fabric.notes)


def read_nodes(text: str) -> list[str]:
    """Return the names of a hostlist, or of a file with one or a hostlist a line; HeddleError for less than two."""
    lines = [text]
    if "/" in text or (len(text) < 256 and Path(text).is_file()):
        check_name(Path(text))
        lines = [line.partition("#")[0] for line in read_text(Path(text), budgets()["nodes-bytes"]).splitlines()]
    names = expand(",".join(filter(None, (line.strip().removesuffix(",") for line in lines))))
    if len(names) < 2:
        raise HeddleError(f"found {plural(len(names), 'name')}; expected two nodes at least")
    return names


def rank_files(order: RankOrder, adapters: Sequence[str], ranks_a_node: int) -> dict[str, str]:
    """Return the files of one order by name; HeddleError for a name into which a shell would read more.

    ``adapters`` are devices of a node, rail after rail; each node has so many processes, which get consecutive ranks.
    """
    names = [checked_word(name, "the node") for name in order.names]
    adapters = [checked_word(device, "the adapter") for device in adapters]
    devices = ",".join(adapters)
    common = f"# {order.algorithm} over {len(names):,} nodes, {order.rails} of their adapter ports: {devices}\n"
    chosen = f"NCCL_IB_HCA=={devices}\n"
    if not all(re.fullmatch("[a-z][a-z0-9_]*[0-9]", device) for device in adapters):
        chosen = f"# Add NCCL_IB_HCA with the devices of these ports: {devices} are no names such as mlx5_0.\n"
    nccl = common + chosen + NCCL.get(order.algorithm, "")
    ucc = f"{common}# Else UCC gives ranks numbers of its own.\nUCC_TL_UCP_RANKS_REORDERING=n\n"
    return {
        "hostfile": "".join(f"{name} slots={ranks_a_node}\n" for name in names),
        "slurm.hosts": "".join(f"{name}\n" * ranks_a_node for name in names),
        "nccl.conf": nccl,
        "ucc.env": ucc + UCC.get(order.algorithm, ""),
        "README": README_OF_RANKS.format(algorithm=order.algorithm),
    }
