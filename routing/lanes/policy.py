"""The policy by which the subnet manager gives each path its service level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from topo.fabric import Fabric, Role
from topo.spec.base import TrafficClass

ASK = -1
"""In place of a service level: the one that the subnet manager answers with."""


@dataclass(frozen=True)
class PortGroup:
    """A named set of end ports."""

    name: str
    port_guids: tuple[int, ...]


@dataclass(frozen=True)
class MatchRule:
    """Queries for paths from any of some groups to any of some others (none given: from or to anywhere)."""

    level: str
    source: tuple[str, ...] = ()
    destination: tuple[str, ...] = ()


@dataclass(frozen=True)
class QosPolicy:
    """A whole policy; the service level ``DEFAULT`` is 0."""

    levels: tuple[tuple[str, int], ...] = ()
    """Name and service level of each level but ``DEFAULT``."""
    groups: tuple[PortGroup, ...] = ()
    rules: tuple[MatchRule, ...] = ()


def policy_of_classes(fabric: Fabric, traffic: Sequence[TrafficClass]) -> QosPolicy:
    """Return the policy that answers queries from and to hosts of a role with the level of their class."""
    groups, rules = [], []
    for item in traffic:
        name = f"class-{item.name}"
        if guids := tuple(fabric.end_guid[ends_of_roles(fabric, *item.roles)].tolist()):
            groups.append(PortGroup(name, guids))
            rules += [MatchRule(name, destination=(name,)), MatchRule(name, source=(name,))]
    return QosPolicy(tuple((f"class-{item.name}", item.sl) for item in traffic), tuple(groups), tuple(rules))


def ends_of_roles(fabric: Fabric, *roles: Role) -> list[int]:
    """Return the plugged-in adapters' end ports of nodes with any of some roles, in fabric order."""
    ends = fabric.ends(kind=None)
    chosen = (ends >= fabric.n_switches) & np.isin(fabric.role[fabric.end_node[ends]], [int(role) for role in roles])
    return [int(end) for end in ends[chosen]]


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
