"""The policy by which the subnet manager gives each path its service level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from routing.tables import RoutingTables
from topo.errors import RoutingError, plural
from topo.fabric import Fabric, Role
from topo.spec.base import TrafficClass
from topo.table import Brief

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
class QosPolicy(Brief):
    """A whole policy; the service level ``DEFAULT`` is 0."""

    levels: tuple[tuple[str, int], ...] = ()
    """Name and service level of each level but ``DEFAULT``."""
    groups: tuple[PortGroup, ...] = ()
    rules: tuple[MatchRule, ...] = ()

    def _brief(self) -> str:
        return ", ".join(plural(len(of), name) for of, name in ((self.levels, "level"), (self.rules, "rule")))


def policy_of_classes(fabric: Fabric, traffic: Sequence[TrafficClass]) -> QosPolicy:
    """Return the policy that answers queries from and to hosts of a role with the level of their class.

    Examples
    --------
    >>> import topo, routing
    >>> fabric = topo.preset("lab-20").fabric
    >>> [rule.level for rule in routing.lanes.policy_of_classes(fabric, fabric.traffic).rules]
    ['class-storage', 'class-storage']
    """
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
    named = {name for rule in policy.rules for name in (*rule.source, *rule.destination)}
    guids = {group.name: np.array(group.port_guids, np.uint64) for group in policy.groups if group.name in named}
    members = {name: np.isin(fabric.end_guid, guid) for name, guid in guids.items()}
    number = dict(policy.levels) | {"DEFAULT": 0}
    level = np.zeros(len(pairs), np.int8)
    for rule in reversed(policy.rules):
        matches = np.ones(len(pairs), bool)
        for groups, end in ((rule.source, near), (rule.destination, far)):
            if groups:
                matches &= np.any([members[name][end] for name in groups], axis=0)
        level[matches] = number[rule.level]
    return level[pair]


def apply_policy(fabric: Fabric, tables: RoutingTables, policy: QosPolicy) -> RoutingTables:
    """Return the tables with the service levels that OpenSM would answer queries of adapters with.

    Raises
    ------
    RoutingError
        When hosts on one switch have different levels towards the same destination, which tables cannot hold.

    Examples
    --------
    >>> import topo, routing
    >>> fabric = topo.preset("lab-20").fabric
    >>> tables = routing.route(fabric).tables
    >>> int(routing.lanes.apply_policy(fabric, tables, routing.lanes.QosPolicy()).path_sl.max())
    0
    """
    adapters = np.arange(fabric.n_switches, fabric.n_end_ports, dtype=np.int32)
    guids_of = {group.name: np.array(group.port_guids, np.uint64) for group in policy.groups}
    rules_of: dict[int, list[MatchRule]] = {end: [] for end in adapters[fabric.end_switch[adapters] >= 0].tolist()}
    for rule in policy.rules:
        guids, onward = [guids_of[name] for name in rule.source], replace(rule, source=())
        named = np.isin(fabric.end_guid[adapters], np.concatenate(guids)) if guids else np.ones(len(adapters), bool)
        for end in adapters[named & (fabric.end_switch[adapters] >= 0)].tolist():
            rules_of[end].append(onward)
    path_sl = np.zeros(tables.lft.shape, np.uint8)
    listed, lids = tables.entries_of(adapters)
    rows: dict[tuple[MatchRule, ...], NDArray[np.uint8]] = {}  # hosts with the same rules have the same levels
    decided: dict[int, int] = {}
    for end, rules in rules_of.items():
        switch, key = int(fabric.end_switch[end]), tuple(rules)
        if key not in rows:
            rows[key] = np.zeros(tables.lft.shape[1], np.uint8)
            rows[key][lids] = levels_of_pairs(fabric, replace(policy, rules=key), np.full_like(listed, end), listed)
        first = decided.setdefault(switch, end)
        if first == end:
            path_sl[switch] = rows[key]
        elif (path_sl[switch] != rows[key]).any():
            names = (fabric.names[int(fabric.end_node[other])] for other in (first, end))
            raise RoutingError(
                f"{' and '.join(names)} hang on one switch and have different service levels towards the same "
                "destinations: this case is not checked. Tables without a credit loop on one lane have none on several"
            )
    return replace(tables, path_sl=path_sl)
