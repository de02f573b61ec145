"""Files that put a rank order to use: host file, rankfile, Slurm's list, settings of NCCL and UCC."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from plan.export.names import checked_word

if TYPE_CHECKING:
    from simulate.traffic import RankOrder

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


def rank_files(order: RankOrder, adapters: tuple[str, ...], ranks_a_node: int) -> dict[str, str]:
    """Return the files of one order by name.

    Parameters
    ----------
    adapters : tuple of str
        Devices of a node, rail after rail.
    ranks_a_node : int
        Processes on each node, which get consecutive ranks.

    Raises
    ------
    HeddleError
        When a name is not that of a host or a device: a shell would read more into it.
    """
    names = [checked_word(name, "the node") for name in order.names]
    adapters = tuple(checked_word(device, "the adapter") for device in adapters)
    tasks = [(name, slot) for name in names for slot in range(ranks_a_node)]
    devices = ",".join(adapters)
    common = f"# {order.algorithm} over {len(names):,} nodes, {order.rails} of their adapter ports: {devices}\n"
    chosen = f"NCCL_IB_HCA=={devices}\n"
    if not all(re.fullmatch("[a-z][a-z0-9_]*[0-9]", device) for device in adapters):
        chosen = f"# Add NCCL_IB_HCA with the devices of these ports: {devices} are no names such as mlx5_0.\n"
    nccl = common + chosen + NCCL.get(order.algorithm, "")
    ucc = f"{common}# Else UCC gives ranks numbers of its own.\nUCC_TL_UCP_RANKS_REORDERING=n\n"
    return {
        "hostfile": "".join(f"{name} slots={ranks_a_node}\n" for name in names),
        "rankfile": "".join(f"rank {rank}={name} slot={slot}\n" for rank, (name, slot) in enumerate(tasks)),
        "slurm.hosts": "".join(f"{name}\n" for name, _ in tasks),
        "nccl.conf": nccl,
        "ucc.env": ucc + UCC.get(order.algorithm, ""),
        "README": RANKS_README.format(algorithm=order.algorithm),
    }


RANKS_README = """\
The order of ranks for {algorithm}, for one fabric and its tables: compute it again when the tables change.

hostfile     mpirun --hostfile hostfile --map-by slot (Open MPI)
rankfile     mpirun --rankfile rankfile (Open MPI 4; version 5 takes --map-by rankfile:file=rankfile)
slurm.hosts  export SLURM_HOSTFILE=this file; srun --distribution=arbitrary: one line per task
nccl.conf    NCCL_CONF_FILE=nccl.conf, or export each line; NCCL connects nodes in the order of their ranks
ucc.env      export each line
"""
