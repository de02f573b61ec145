"""What is left of a routed cluster when parts fail: who reaches whom, bandwidth by role, jobs that are hit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from routing.engines.base import route
from routing.proof import Proof, prove
from routing.repairs.basis import RepairBasis, prepare_repair
from routing.repairs.repair import repair
from routing.routed import Routed
from routing.tables import tree_order, walk
from topo.fabric import Fabric, Role
from topo.failures.parts import fail_parts
from topo.failures.reach import Failed, Reach, Reached

Tables = Literal["kept", "repaired", "anew"]
"""Those of the whole fabric; these with the fewest entries changed; or made anew for what is left."""


@dataclass(frozen=True, eq=False)
class SteadyJob:
    """A job on its servers, and what its paths cross."""

    servers: NDArray[np.int64]
    """Rows of `Reach.names`."""
    links: tuple[NDArray[np.bool_], ...]
    """Subnet by subnet, (L,) whether some path crosses each link."""
    switches: tuple[NDArray[np.bool_], ...]
    """Subnet by subnet, (S,) likewise."""


class Degradation:
    """A routed cluster, and the question what is left of it without some parts.

    Parameters
    ----------
    reach : Reach
        All its fabrics, those with tables first.
    tables : str
        What becomes of the tables, see `Tables`.
    job_nodes : int, optional
        Servers of each of the jobs that run on all compute servers, side by side along the tree.
    """

    def __init__(
        self, reach: Reach, routed: Sequence[Routed], tables: Tables = "repaired", job_nodes: int | None = None
    ) -> None:
        self.reach, self.routed, self.tables = reach, tuple(routed), tables
        self.jobs = [] if job_nodes is None else self._place(job_nodes)
        self._bases: dict[int, RepairBasis] = {}
        self._whole = [prove(one) for one in self.routed]
        self._sent = _bandwidths([one.fabric for one in self.routed], self._whole)

    def figures(self, failed: Failed, proofs: Sequence[Proof]) -> dict[str, float | int | None]:
        """Return all that is left: connectivity, tables, and jobs that the failure of all of it at once hits.

        The proofs are those of the tables of `left`.
        """
        reached = self.reach.without(failed)
        found: dict[str, float | int | None] = {
            "connected": reached.pairs / self.reach.whole.pairs if self.reach.whole.pairs else None,
            "cut_servers": int((reached.alone & ~self.reach.whole.alone).sum()),
            **self.judge(failed, proofs),
        }
        if self.jobs:
            hit = [self.hits(job, self.reach.whole, reached) for job in self.jobs]
            found["jobs_hit"] = sum(hit)
            found["jobs_cut"] = sum(
                self.cuts(job, failed) for job, lost in zip(self.jobs, hit, strict=True) if not lost
            )
        return found

    def left(self, failed: Failed) -> tuple[Routed, ...]:
        """Return the tables of what is left."""
        fabrics = fail_parts([one.fabric for one in self.routed], failed)
        return tuple(
            whole if fabric is whole.fabric else self._tables(subnet, fabric)
            for subnet, (fabric, whole) in enumerate(zip(fabrics, self.routed, strict=True))
        )

    def judge(self, failed: Failed, proofs: Sequence[Proof] | None = None) -> dict[str, float | int | None]:
        """Return what tables make of what is left.

        Returns
        -------
        dict
            ``fullest``: pairs over the fullest channel between switches; ``missing``: pairs that cables connect and
            tables do not; ``credit_loops``; and ``bandwidth.ROLE``: how much of it is left when all servers send to all
            of a role at once, as a part of that of the whole.
        """
        if proofs is None:
            pairs = zip(self.left(failed), self.routed, self._whole, strict=True)
            proofs = [whole if left is was else prove(left) for left, was, whole in pairs]
        sent = _bandwidths([one.fabric for one in self.routed], proofs)
        return {
            "fullest": max((proof.max_load for proof in proofs), default=None),
            "missing": sum(proof.lost for proof in proofs),
            "credit_loops": sum(proof.credit_loops for proof in proofs),
            **{f"bandwidth.{role.name.lower()}": sent.get(role, 0.0) / was for role, was in self._sent.items() if was},
        }

    def hits(self, job: SteadyJob, before: Reached, after: Reached) -> bool:
        """Return whether a job loses a server, or falls apart."""
        if (after.alone & ~before.alone)[job.servers].any():
            return True
        return after.pairs < before.pairs and self.parted(job, after) and not self.parted(job, before)

    def parted(self, job: SteadyJob, reached: Reached) -> bool:
        """Return whether some servers of a job no longer reach others, those left out that reach nobody."""
        on = np.unique(reached.on[job.servers[~reached.alone[job.servers]]], axis=0).astype(np.int64)
        return bool((on @ on.T == 0).any())

    def idle(self, job: SteadyJob, reached: Reached) -> int:
        """Return how many servers of a job cannot work: those that are cut off, or all where it has fallen apart."""
        return len(job.servers) if self.parted(job, reached) else int(reached.alone[job.servers].sum())

    def cuts(self, job: SteadyJob, failed: Failed) -> bool:
        """Return whether a path of a job crosses something that fails."""
        return any(
            job.links[subnet][list(failed.links.get(subnet, ()))].any()
            or job.switches[subnet][list(failed.switches.get(subnet, ()))].any()
            for subnet in range(len(self.routed))
        )

    def _tables(self, subnet: int, left: Fabric) -> Routed:
        whole = self.routed[subnet]
        if self.tables == "kept":
            return Routed(left, whole.tables)
        if self.tables == "anew":
            return route(left, left.engine)
        if subnet not in self._bases:
            self._bases[subnet] = prepare_repair(whole)
        return repair(self._bases[subnet], np.flatnonzero(left.peer != whole.fabric.peer)).after

    def _place(self, nodes: int) -> list[SteadyJob]:
        servers = np.flatnonzero(self.reach.computes)
        if self.routed:  # neighbours in the tree of the first subnet are neighbours in a job
            rank = {self._server(0, end): at for at, end in enumerate(tree_order(self.routed[0].fabric, self._ends(0)))}
            servers = np.array(sorted(servers.tolist(), key=lambda server: rank.get(server, len(rank))), np.int64)
        chunks = [servers[first : first + nodes] for first in range(0, len(servers), nodes)]
        crossed = [self._crossed(subnet, chunks) for subnet in range(len(self.routed))]
        return [SteadyJob(chunk, *zip(*(of[at] for of in crossed), strict=True)) for at, chunk in enumerate(chunks)]

    def _ends(self, subnet: int) -> NDArray[np.int32]:
        return self.routed[subnet].fabric.ends(role=Role.COMPUTE)

    def _server(self, subnet: int, end: Any) -> int:
        fabric = self.routed[subnet].fabric
        return self.reach.servers[fabric.server_of(int(fabric.end_node[end]))]

    def _crossed(
        self, subnet: int, chunks: Sequence[NDArray[np.int64]]
    ) -> list[tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
        """Return which links and switches the paths between the servers of each job cross."""
        routed = self.routed[subnet]
        fabric, found = routed.fabric, []
        ends = np.array([end for end in self._ends(subnet).tolist() if routed.tables.lid[end]], np.int64)
        of = np.array([self._server(subnet, end) for end in ends.tolist()], np.int64)
        for chunk in chunks:
            mine = ends[np.isin(of, chunk)]
            used = np.zeros(fabric.n_ports, bool)
            used[fabric.port_of(mine)] = True
            switch, dest = np.meshgrid(np.unique(fabric.end_switch[mine]), mine, indexing="ij")

            def visit(packet: NDArray[np.intp], port: NDArray[np.integer], used: NDArray[np.bool_] = used) -> None:
                used[port] = True

            if len(mine) > 1:
                lft, lid = routed.tables.lft, routed.tables.lid
                walk(fabric, lft, switch.ravel(), dest.ravel(), lid[dest.ravel()], visit)
            links = np.asarray(used[fabric.links].any(axis=1))
            switches = np.zeros(fabric.n_switches, bool)
            crossed = fabric.port_node[fabric.links[links]].ravel()
            switches[crossed[crossed < fabric.n_switches]] = True
            found.append((links, switches))
        return found


def _bandwidths(fabrics: Sequence[Fabric], proofs: Sequence[Proof]) -> dict[Role, float]:
    """Return for each role of destinations what is sent at once by all to all of them, Gb/s over all subnets."""
    found: dict[Role, float] = {}
    for fabric, proof in zip(fabrics, proofs, strict=True):
        last = (fabric.port_node < fabric.n_switches) & (fabric.peer_node >= fabric.n_switches)
        for role, load in proof.load_by_role.items():
            rate = np.where(fabric.rate_gbps > 0, fabric.rate_gbps, np.inf)
            longest = float((load / rate).max(initial=0.0))
            found[role] = found.get(role, 0.0) + (float(load[last].sum()) / longest if longest else 0.0)
    return found
