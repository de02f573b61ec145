"""Where compute nodes are, for schedulers: Slurm's ``topology.conf`` and ``topology.yaml``; topograph and Kubernetes.

Slurm has leaves, a pseudo switch for each zone, and one root. Its manual advises against real spines: the scheduler
only asks which leaves are near each other, and its start-up takes time with the cube of the switches. A compute node is
listed once, under its leaf; where nodes hang on several leaves (rails), the nodes that share all their leaves are one
leaf. Storage is not listed.

Keys of topograph are its own (NVIDIA; its sample models, and ``pkg/engines/k8s`` for labels): ``leaf`` is what shares a
leaf, ``spine`` what shares a zone, ``core`` the fabric.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from plan.export.base import Export
from plan.export.names import slurm_word, yaml_text
from plan.pipeline import COMPILE
from topo import Fabric, Role, compress

ROOT = "fabric"
LABEL = "network.topology.nvidia.com"
LONGEST_VALUE = 63
"""Characters of the value of a label, which begins and ends with a letter or digit (Kubernetes manual, "Labels")."""


@dataclass(frozen=True)
class Leaf:
    """A leaf as Slurm sees it."""

    name: str
    zone: int
    nodes: tuple[str, ...]


def format_topology_conf(fabrics: Sequence[Fabric]) -> str:
    """Return the tree for the plug-in ``topology/tree``."""
    leaves = find_leaves(fabrics)
    lines = [
        f"# {slurm_word(fabrics[0].name)}: leaves, one pseudo switch a zone, one root. TopologyPlugin=topology/tree"
    ]
    lines += [f"SwitchName={leaf.name} Nodes={compress(leaf.nodes)}" for leaf in leaves]
    for name, members in group_zones(leaves):
        lines.append(f"SwitchName={name} Switches={compress(members)}")
    if len(group_zones(leaves)) > 1:
        lines.append(f"SwitchName={ROOT} Switches={compress(name for name, _ in group_zones(leaves))}")
    return "\n".join(lines) + "\n"


def format_topology_yaml(fabrics: Sequence[Fabric]) -> str:
    """Return the same tree, and the leaves as blocks, for Slurm 25.05 and later."""
    leaves = find_leaves(fabrics)
    zones = group_zones(leaves)
    lines = ["---", "- topology: default", "  cluster_default: true", "  tree:", "    switches:"]
    if len(zones) > 1:
        lines += [f"      - switch: {ROOT}", f"        children: {yaml_text(compress(name for name, _ in zones))}"]
    for name, members in zones:
        lines += [f"      - switch: {yaml_text(name)}", f"        children: {yaml_text(compress(members))}"]
    for leaf in leaves:
        lines += [f"      - switch: {yaml_text(leaf.name)}", f"        nodes: {yaml_text(compress(leaf.nodes))}"]
    smallest = min((len(leaf.nodes) for leaf in leaves), default=0)
    if smallest:
        sizes = [smallest]
        while sizes[-1] * 2 <= smallest * len(leaves):
            sizes.append(sizes[-1] * 2)
        lines += ["- topology: blocks", "  cluster_default: false", "  block:", "    block_sizes:"]
        lines += [f"      - {size}" for size in sizes]
        lines.append("    blocks:")
        for leaf in leaves:
            lines += [f"      - block: {yaml_text(leaf.name)}", f"        nodes: {yaml_text(compress(leaf.nodes))}"]
    return "\n".join(lines) + "\n"


def find_leaves(fabrics: Sequence[Fabric]) -> list[Leaf]:
    """Group the compute nodes by the leaves that they hang on, in order of their first leaf."""
    switches: dict[str, list[str]] = {}
    zone: dict[str, int] = {}
    for fabric in fabrics:
        for end in range(fabric.n_switches, fabric.n_end_ports):
            node, leaf = int(fabric.end_node[end]), int(fabric.end_switch[end])
            if leaf < 0 or fabric.role[node] != Role.COMPUTE or fabric.host[node] < 0:
                continue
            host = fabric.hosts[fabric.host[node]]
            switches.setdefault(host, []).append(fabric.label(leaf))
            zone.setdefault(host, int(fabric.zone[leaf]))
    groups: dict[tuple[str, ...], list[str]] = {}
    for host, leaves in switches.items():
        groups.setdefault(tuple(sorted(set(leaves))), []).append(host)
    found = []
    for number, (leaves_of, hosts) in enumerate(groups.items()):
        name = leaves_of[0] if len(leaves_of) == 1 else f"unit{number:0{len(str(len(groups) - 1))}d}"
        found.append(Leaf(slurm_word(name), zone[hosts[0]], tuple(map(slurm_word, hosts))))
    return found


def group_zones(leaves: Sequence[Leaf]) -> list[tuple[str, list[str]]]:
    """Return the zones by name, each with the names of its leaves."""
    members: dict[int, list[str]] = {}
    for leaf in leaves:
        members.setdefault(leaf.zone, []).append(leaf.name)
    if len(members) == 1:
        return [(ROOT, next(iter(members.values())))]
    return [(f"zone{zone}", names) for zone, names in sorted(members.items())]


def format_topograph_model(fabrics: Sequence[Fabric]) -> str:
    """Return the model that topograph simulates: switches with what hangs on them, then nodes."""
    leaves = find_leaves(fabrics)
    zones = group_zones(leaves)
    lines = ["switches:"]
    if len(zones) > 1:
        lines += [f"  {yaml_text(ROOT)}:", "    switches:", *(f"    - {yaml_text(name)}" for name, _ in zones)]
    for name, members in zones:
        lines += [f"  {yaml_text(name)}:", "    switches:", *(f"    - {yaml_text(member)}" for member in members)]
    for leaf in leaves:
        lines += [f"  {yaml_text(leaf.name)}:", "    nodes:", *(f"    - {yaml_text(node)}" for node in leaf.nodes)]
    lines.append("nodes:")
    lines += [f"  {yaml_text(node)}: {{}}" for leaf in leaves for node in leaf.nodes]
    return "\n".join(lines) + "\n"


def format_node_labels(fabrics: Sequence[Fabric]) -> str:
    """Return the labels of each node, as ``kubectl apply --server-side`` takes them."""
    leaves = find_leaves(fabrics)
    zone = {leaf: name for name, members in group_zones(leaves) for leaf in members}
    lines = []
    for leaf in leaves:
        places = {"leaf": leaf.name, "spine": zone[leaf.name], "core": fabrics[0].name}
        labels = [f"    {LABEL}/{key}: {yaml_text(label_value(value))}" for key, value in places.items()]
        for node in leaf.nodes:
            lines += [
                "---",
                "apiVersion: v1",
                "kind: Node",
                "metadata:",
                f"  name: {yaml_text(node)}",
                "  labels:",
                *labels,
            ]
    return "\n".join(lines) + "\n"


def label_value(name: str) -> str:
    """Return a name as the value of a label.

    >>> label_value("core1/L02/U1 ")
    'core1-L02-U1'
    """
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", name)[:LONGEST_VALUE].strip("-_.")


SLURM = Export("slurm", "Slurm: which nodes are near each other", COMPILE,
               {"exports/topology.conf": lambda plan, subnet: format_topology_conf(plan.fabrics),
                "exports/topology.yaml": lambda plan, subnet: format_topology_yaml(plan.fabrics)})  # fmt: skip
TOPOGRAPH = Export("topograph", "topograph and Kubernetes: a model of the tree, labels of nodes", COMPILE,
                   {"exports/topograph.yaml": lambda plan, subnet: format_topograph_model(plan.fabrics),
                    "exports/node-labels.yaml": lambda plan, subnet: format_node_labels(plan.fabrics)})  # fmt: skip
