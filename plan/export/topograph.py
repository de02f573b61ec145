"""Where nodes are, for topograph and Kubernetes: a model of the tree, and labels of nodes.

Keys are those of topograph (NVIDIA; its sample models, and ``pkg/engines/k8s`` for labels): ``leaf`` is what shares a
leaf, ``spine`` what shares a zone, ``core`` the fabric. Compute nodes alone are listed, as for Slurm.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from plan.export.base import Export
from plan.export.slurm import ROOT, find_leaves, group_zones
from plan.export.text import yaml_text
from plan.pipeline import COMPILE
from topo import Fabric

LABEL = "network.topology.nvidia.com"
MOST = 63
"""Characters of the value of a label, which begins and ends with a letter or digit (Kubernetes manual, "Labels")."""


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

    Examples
    --------
    >>> label_value("core1/L02/U1 ")
    'core1-L02-U1'
    """
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", name)[:MOST].strip("-_.")


FORMATS = (
    Export("topograph", "topograph and Kubernetes: a model of the tree, labels of nodes", COMPILE,
           {"exports/topograph.yaml": lambda plan, subnet: format_topograph_model(plan.fabrics),
            "exports/node-labels.yaml": lambda plan, subnet: format_node_labels(plan.fabrics)}),
)  # fmt: skip
