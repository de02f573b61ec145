"""The service level of a path whose sender does not choose one: what the subnet manager answers its query with."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from routing.opensm.qos_policy import QosPolicy
from topo.fabric import Fabric

ASK = -1
"""In place of a service level: the one that the subnet manager answers with."""


def levels_of_pairs(
    fabric: Fabric, policy: QosPolicy, src: NDArray[np.int32], dst: NDArray[np.int32]
) -> NDArray[np.int8]:
    """Return the (F,) service levels of paths between (F,) pairs of end ports, as OpenSM applies a policy.

    The first rule that a path matches decides, and what matches none has level 0. A policy names ports by their GUIDs;
    those that the fabric does not have are skipped.
    """
    pairs, pair = np.unique(src.astype(np.int64) * fabric.n_end_ports + dst, return_inverse=True)
    near, far = np.divmod(pairs, fabric.n_end_ports)
    members = {group.name: np.isin(fabric.end_guid, np.array(group.port_guids, np.uint64)) for group in policy.groups}
    number = dict(policy.levels) | {"DEFAULT": 0}
    level = np.zeros(len(pairs), np.int8)
    for rule in reversed(policy.rules):
        matches = np.ones(len(pairs), bool)
        for groups, end in ((rule.source, near), (rule.destination, far)):
            if groups:
                matches &= np.any([members[name][end] for name in groups], axis=0)
        level[matches] = number[rule.level]
    return level[pair]
