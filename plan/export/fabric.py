"""``fabric.json``, ``fabric.ibnetdiscover``, ``opensm/``, graphs: subnets and the floor, for Heddle and other tools."""

from __future__ import annotations

import io
import json
from collections import Counter
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from plan.export.base import Export
from plan.pipeline import COMPILE, PLACE, Plan, prove_tables, route_subnets
from routing.opensm import opensm_files
from routing.studies import plan_trees
from routing.studies.adaptive import nvidia_sm_files
from topo import Fabric, Layout, Role, format_fabric, format_ibnetdiscover


def _fabric(plan: Plan, subnet: int) -> str:
    tables = plan.routed[subnet].tables
    return format_fabric(replace(plan.routed[subnet].fabric, discovered_lid=tables.lid, lmc=tables.lmc))


def _ibnetdiscover(plan: Plan, subnet: int) -> str:
    tables = plan.routed[subnet].tables
    return format_ibnetdiscover(replace(plan.fabrics[subnet], lmc=tables.lmc), tables.lid, plan.catalog)


def _multicast(plan: Plan, subnet: int) -> str:
    """Return multicast trees for all hosts, for those of each role, and for those of each zone."""
    fabric = plan.fabrics[subnet]
    ends = fabric.ends()[fabric.end_switch[fabric.ends()] >= 0]
    role, zone = fabric.role[fabric.end_node[ends]], fabric.zone[fabric.end_node[ends]]
    groups = {Role(one).name.lower(): ends[role == one] for one in np.unique(role).tolist()}
    groups |= {f"zone {one}": ends[zone == one] for one in np.unique(zone[zone >= 0]).tolist()}
    parts = {name: members for name, members in groups.items() if len(members) < len(ends)}
    return plan_trees(fabric, {"all": ends, **parts}).text


FABRIC = Export("fabric", "the fabric with all that is known of it, to be read back",
                "Heddle, fabric.json of version 2",
                (*COMPILE, route_subnets, *PLACE), {"fabric.json": _fabric}, each_subnet=True)  # fmt: skip
IBNETDISCOVER = Export("ibnetdiscover", "the fabric as ibnetdiscover prints it, with LIDs",
                       "readers of ibnetdiscover of infiniband-diags 44",
                       (*COMPILE, route_subnets),
                       {"fabric.ibnetdiscover": _ibnetdiscover}, each_subnet=True)  # fmt: skip
OPENSM = Export("opensm", "what OpenSM loads: tables, options, lists", "OpenSM 3.3.23", (*COMPILE, route_subnets),
                {"opensm/": lambda plan, subnet: opensm_files(plan.routed[subnet])}, each_subnet=True)  # fmt: skip
NVIDIA_SM = Export("nvidia-sm", "adaptive routing by NVIDIA's subnet manager: options, roots",
                   "NVIDIA's subnet manager of UFM 6.15 to 6.22", (*COMPILE, route_subnets),
                   {"nvidia-sm/": lambda plan, subnet: nvidia_sm_files(plan.routed[subnet])},
                   each_subnet=True, built=False)  # fmt: skip
MULTICAST = Export("multicast", "multicast trees: all hosts, each role, each zone",
                   "people, and `plan verify --multicast`: no subnet manager loads multicast tables", COMPILE,
                   {"multicast.mcfdbs": _multicast}, each_subnet=True, built=False)  # fmt: skip


def format_places(layout: Layout) -> str:
    """Return the floor of a spec with all places fixed, as YAML."""
    keys = layout.pinned.model_dump(mode="json", exclude_unset=True)
    fixed = keys.pop("fixed")
    lines = ["# Today's places: put this in place of `floor` of the larger spec.", "floor:"]
    lines += [f"  {key}: {json.dumps(value, ensure_ascii=False)}" for key, value in keys.items()]
    lines += ["  fixed:", *(f"    {json.dumps(name, ensure_ascii=False)}: {place}" for name, place in fixed.items())]
    return "\n".join(lines) + "\n"


PLACES = Export("places", "where every device stands, for a spec that grows", "Heddle: `floor` of a spec",
                (*COMPILE, *PLACE),  # without a floor plan there is nothing to keep
                {"places.yaml": lambda plan, subnet: format_places(plan.layout) if plan.layout else {}})  # fmt: skip


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
