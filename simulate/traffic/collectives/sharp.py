"""An allreduce that switches add up (NVIDIA SHARP): over a tree of their aggregation nodes.

Every rank sends its buffer to the aggregation node of its leaf, each node adds up what comes from below and sends the
sum up the tree, and the whole sum comes down the same tree: Graham et al., "Scalable Hierarchical Aggregation Protocol
(SHArP): a hardware architecture for efficient data reduction", COMHPC 2016. Ranks and links carry the buffer once each
way, however many ranks there are; with a ring it is nearly twice.

An aggregation node is the channel adapter inside a switch that dumps name. What goes to it is played as far as its
switch, since the switch adds at the rate of its ports. Only one tree is used, as SHARP has it for a job, and its
number of children and of jobs is not limited here.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from simulate.traffic.collectives.trees import Tree
from topo.errors import HeddleError, plural
from topo.fabric import Fabric, Kind

SHARP = "sharp"
"""Name of the algorithm."""


def aggregation_tree(fabric: Fabric, hosts: ArrayLike, *, every_switch: bool = False) -> tuple[Tree, NDArray[np.int32]]:
    """Return the tree over hosts and switches that add up, and the end ports of its ranks: hosts, then switches.

    The root is the switch whose farthest leaf of the hosts is nearest, of several the one with the least sum of
    distances, of these the first. Switches add up that have an aggregation node, or all.
    """
    from scipy.sparse import coo_array  # which takes long to import, and few jobs sum in switches
    from scipy.sparse.csgraph import breadth_first_order, shortest_path

    ends = np.asarray(hosts, np.int32)
    named = fabric.end_switch[fabric.ends(kind=Kind.AGGREGATION)]
    able = np.zeros(fabric.n_switches, np.bool_)
    able[np.arange(fabric.n_switches) if every_switch else named] = True
    leaves, leaf = np.unique(fabric.end_switch[ends], return_inverse=True)
    unable = leaves[~able[leaves]]
    if len(unable):
        name = fabric.names[unable[0]]
        raise HeddleError(
            f"{plural(len(unable), 'leaf', 'leaves')} of the ranks, such as {name}, have no aggregation node in this "
            f"fabric; a dump names those that there are, and a spec none: say `every_switch` if all switches have one"
        )
    near, far = fabric.port_node, fabric.peer_node
    joined = (far >= 0) & (near < fabric.n_switches) & (far < fabric.n_switches)
    joined &= able[np.minimum(near, fabric.n_switches - 1)] & able[np.clip(far, 0, fabric.n_switches - 1)]
    n = fabric.n_switches
    graph = coo_array((np.ones(int(joined.sum())), (near[joined], far[joined])), shape=(n, n)).tocsr()
    hops = shortest_path(graph, unweighted=True, indices=leaves)
    farthest = hops.max(axis=0)
    root = int(np.lexsort((np.arange(n), hops.sum(axis=0), farthest))[0])
    if not np.isfinite(farthest[root]):
        raise HeddleError(
            f"the aggregation nodes of {plural(len(leaves), 'leaf', 'leaves')} are not joined by others; expected "
            f"switches with aggregation nodes between them"
        )
    above = breadth_first_order(graph, root, directed=False)[1]
    used = {root}
    for switch in leaves.tolist():
        while switch not in used:
            used.add(switch)
            switch = int(above[switch])
    switches = np.array(sorted(used), np.int32)
    place = np.full(n, -1)
    place[switches] = len(ends) + np.arange(len(switches))
    parent_of_switch = np.where(switches == root, -1, place[np.maximum(above[switches], 0)])
    return np.append(place[leaves][leaf], parent_of_switch).astype(np.int32), np.append(ends, switches)
