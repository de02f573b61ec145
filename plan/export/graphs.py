"""GraphML for Gephi, yEd and igraph; DOT for Graphviz."""

from __future__ import annotations

import io
from collections import Counter

import numpy as np
from numpy.typing import NDArray

from plan.export.base import Export
from plan.pipeline import COMPILE, prove_tables, route_subnets
from topo import Fabric

FEW_HOSTS = 200
"""Above this many adapters DOT shows switches only."""


def format_graphml(fabric: Fabric, load: NDArray[np.int64] | None = None) -> bytes:
    """Return the fabric as GraphML; each edge has the load of its busier direction when loads are given."""
    import networkx as nx

    graph = fabric.to_networkx()
    if load is not None:
        for (a, b), (*_, edge) in zip(fabric.links.tolist(), graph.edges(data=True), strict=True):
            edge["load"] = int(max(load[a], load[b]))
    out = io.BytesIO()
    nx.write_graphml_xml(graph, out, encoding="utf-8")  # not lxml, where it is there: other bytes
    return out.getvalue()


def format_dot(fabric: Fabric) -> str:
    """Return the fabric as DOT: levels as ranks, parallel links as one thick edge with their number."""
    shown = range(fabric.n_nodes if fabric.n_nodes - fabric.n_switches <= FEW_HOSTS else fabric.n_switches)
    lines = [f"graph {_quoted(fabric.name)} {{", "  rankdir=TB; ranksep=2; splines=line; node [shape=box];"]
    levels: dict[int, list[int]] = {}
    for node in shown:
        levels.setdefault(int(fabric.level[node]), []).append(node)
    for _, nodes in sorted(levels.items(), reverse=True):
        lines.append("  {rank=same " + " ".join(f"n{node}" for node in nodes) + "}")
        lines.extend(f"  n{node} [label={_quoted(fabric.label(node))}];" for node in nodes)
    bundles = Counter(tuple(sorted(fabric.port_node[[a, b]].tolist())) for a, b in fabric.links.tolist())
    for (a, b), count in sorted(bundles.items()):
        if a in shown and b in shown:
            lines.append(f"  n{a} -- n{b}" + (f" [label={count}, penwidth={min(count, 8)}]" if count > 1 else "") + ";")
    return "\n".join([*lines, "}"]) + "\n"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


GRAPHML = Export("graphml", "a graph for Gephi, yEd and igraph, with the load of each link",
                 "Gephi, yEd, igraph and networkx (GraphML 1.0)", (*COMPILE, route_subnets, prove_tables),
                 {"exports/fabric.graphml": lambda plan, subnet: format_graphml(
                     plan.fabrics[subnet], plan.proofs[subnet].load)}, each_subnet=True)  # fmt: skip
DOT = Export("dot", "a graph for Graphviz", "Graphviz", COMPILE,
             {"exports/fabric.dot": lambda plan, subnet: format_dot(plan.fabrics[subnet])},
             each_subnet=True)  # fmt: skip
