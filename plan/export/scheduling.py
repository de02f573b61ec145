"""Where compute nodes are, for schedulers: Slurm's ``topology.conf`` and ``topology.yaml``; topograph, Kubernetes, NFD.

All say the same tree: `find_units` of the compute network, groups of units, and one root. Slurm's manual advises
against real spines: its start-up takes time with the cube of the switches. Trays of a server, as of an NVL72 rack, are
nodes of their own, which NVLink joins: they, and no units, are blocks then. Sources, read in November 2026:
``topology.conf(5)`` and ``topology.yaml(5)``; ``pkg/models/model.go`` and ``pkg/engines/{k8s,nfd}`` of topograph 0.5.0
and 1.0.0, which pass over each other's keys, so that one file serves both; the custom resources of NFD 0.18.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from plan.export.base import Export, Maker
from plan.export.names import slurm_word, yaml_text
from plan.export.units import Unit, find_units
from plan.pipeline import COMPILE
from topo import Catalog, Fabric, FormatError, HeddleError, compress, expand

SLURM_READS = "Slurm up to 26.05, topology.yaml since 25.05"
TOPOGRAPH_READS = "topograph 0.5 and 1.0"
NFD_READS = "Node Feature Discovery 0.18"
LABELS = "fabric.topograph.run/tier-"
"""Of topograph 1.0, followed by the number of the tier, 0 for the unit."""
DOMAIN = "accelerator.topograph.run/domain"
"""Label of topograph 1.0 for nodes that NVLink joins."""
LABELS_BEFORE = tuple(f"network.topology.nvidia.com/{place}" for place in ("leaf", "spine", "core"))
"""Of topograph before 1.0, the nearest first."""
LONGEST_VALUE = 63
"""Characters of the value of a label, which begins and ends with a letter or digit (Kubernetes manual, "Labels")."""


def slurm_units(fabrics: Sequence[Fabric], catalog: Catalog | None = None) -> list[Unit]:
    """Return the units with names as words of Slurm's files, trays apart where the catalog has them."""
    trays = find_domains(fabrics, catalog)
    return [
        Unit(slurm_word(unit.name), tuple(slurm_word(node) for host in unit.nodes for node in trays.get(host, (host,))),
             unit.above)
        for unit in find_units(fabrics)
    ]  # fmt: skip


def find_domains(fabrics: Sequence[Fabric], catalog: Catalog | None) -> dict[str, tuple[str, ...]]:
    """Return the trays of each server that has several; none without a catalog, as of a dump."""
    found: dict[str, tuple[str, ...]] = {}
    if catalog is None:
        return found
    for fabric in fabrics:
        for host, model in zip(fabric.hosts, fabric.host_model.tolist(), strict=True):
            known = catalog.nodes.get(fabric.models[model]) if model >= 0 else None
            if known is not None and known.trays > 1:
                found[host] = tuple(f"{host}-tray{tray:02d}" for tray in range(known.trays))
    return found


def groups_of(units: Sequence[Unit]) -> Iterator[tuple[str, list[str]]]:
    """Yield groups of units, the nearest to the nodes first, each with the names of what is in it."""
    members: dict[str, dict[str, None]] = {}
    for tier in range(max((len(unit.above) for unit in units), default=0)):
        for unit in units:
            path = (unit.name, *unit.above)
            members.setdefault(path[tier + 1], {})[path[tier]] = None
    yield from ((name, list(found)) for name, found in members.items())


def format_topology_conf(fabrics: Sequence[Fabric], catalog: Catalog | None = None) -> str:
    """Return the tree for the plug-in ``topology/tree``."""
    units = slurm_units(fabrics, catalog)
    lines = [
        f"# {slurm_word(fabrics[0].name)}, for {SLURM_READS}: units, groups of units, one root. "
        "TopologyPlugin=topology/tree"
    ]
    lines += [f"SwitchName={unit.name} Nodes={compress(unit.nodes)}" for unit in units]
    lines += [f"SwitchName={name} Switches={compress(members)}" for name, members in groups_of(units)]
    return "\n".join(lines) + "\n"


def read_topology_conf(text: str, path: str = "") -> dict[str, str]:
    """Return the leaf switch of each node of a ``topology.conf``; of a node that is named twice the first."""
    found: dict[str, str] = {}
    for number, line in enumerate(re.sub(r"\\[ \t]*\n", " ", text).split("\n"), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        values = dict(word.lower().split("=", 1)[:1] + word.split("=", 1)[1:] for word in words if "=" in word)
        if len(values) < len(words) or "switchname" not in values:
            expected = "such as SwitchName=leaf0 Nodes=gpu[00-07]"
            raise FormatError(f"found {line.strip()[:60]!r}; expected words {expected}", path, number)
        try:
            nodes = expand(values.get("nodes", ""))
        except HeddleError as error:
            raise FormatError(f"found a list of nodes that cannot be read: {error}", path, number) from None
        for node in nodes:
            found.setdefault(node, values["switchname"])
    if not found:
        raise FormatError(
            "found no node below a switch; expected lines such as SwitchName=leaf0 Nodes=gpu[00-07]", path
        )
    return found


def compare_topologies(theirs: Mapping[str, str], ours: Mapping[str, str]) -> list[str]:
    """Return what a ``topology.conf`` says otherwise than the fabric, a line each, nodes in short form.

    A switch of theirs stands for the unit of most of its nodes, whatever its name.
    """
    lines = []
    for only, words in ((theirs.keys() - ours.keys(), "in the file, and not in the compute network"),
                        (ours.keys() - theirs.keys(), "in the compute network, and not in the file")):  # fmt: skip
        lines += [f"{compress(only)}: {words}"] if only else []
    units: dict[str, Counter[str]] = {}
    for node in sorted(theirs.keys() & ours.keys()):
        units.setdefault(theirs[node], Counter())[ours[node]] += 1
    meant = {switch: min(counts, key=lambda unit: (-counts[unit], unit)) for switch, counts in units.items()}
    moved: dict[tuple[str, str], list[str]] = {}
    for node in theirs.keys() & ours.keys():
        if ours[node] != meant[theirs[node]]:
            moved.setdefault((theirs[node], ours[node]), []).append(node)
    for (switch, unit), nodes in sorted(moved.items()):
        lines.append(f"{compress(nodes)}: under {switch}, which has nodes of {meant[switch]}; its leaves are {unit}'s")
    split = Counter(meant.values())
    for unit in sorted(unit for unit in split if split[unit] > 1):
        lines.append(f"{', '.join(sorted(s for s in meant if meant[s] == unit))}: one unit of the fabric, {unit}")
    return lines


def format_topology_yaml(fabrics: Sequence[Fabric], catalog: Catalog | None = None) -> str:
    """Return the same tree, and blocks: domains of NVLink, or the units where there are none."""
    units = slurm_units(fabrics, catalog)
    lines = [f"# For {SLURM_READS}", "---", "- topology: default", "  cluster_default: true"]
    lines += ["  tree:", "    switches:"]
    for name, members in reversed(list(groups_of(units))):
        lines += [f"      - switch: {yaml_text(name)}", f"        children: {yaml_text(compress(members))}"]
    for unit in units:
        lines += [f"      - switch: {yaml_text(unit.name)}", f"        nodes: {yaml_text(compress(unit.nodes))}"]
    domains = find_domains(fabrics, catalog)
    blocks = [(host, tuple(map(slurm_word, nodes))) for host, nodes in domains.items()] or [
        (unit.name, unit.nodes) for unit in units
    ]
    smallest = min((len(nodes) for _, nodes in blocks), default=0)
    if smallest:
        sizes = [smallest]
        while sizes[-1] * 2 <= smallest * len(blocks):
            sizes.append(sizes[-1] * 2)
        lines += ["- topology: blocks", "  cluster_default: false", "  block:", "    block_sizes:"]
        lines += [f"      - {size}" for size in sizes]
        lines.append("    blocks:")
        for name, nodes in blocks:
            lines += [f"      - block: {yaml_text(slurm_word(name))}", f"        nodes: {yaml_text(compress(nodes))}"]
    return "\n".join(lines) + "\n"


def format_topograph_model(fabrics: Sequence[Fabric], catalog: Catalog | None = None) -> str:
    """Return the model that topograph simulates: switches with what hangs on them, then nodes."""
    units = slurm_units(fabrics, catalog)
    lines = [f"# For {TOPOGRAPH_READS}: 1.0 reads blocks, earlier versions read nodes.", "switches:"]
    for name, members in reversed(list(groups_of(units))):
        lines += [f"  {yaml_text(name)}:", "    switches:", *(f"    - {yaml_text(member)}" for member in members)]
    for unit in units:
        lines += [f"  {yaml_text(unit.name)}:", "    nodes:", *(f"    - {yaml_text(node)}" for node in unit.nodes)]
    lines.append("nodes:")
    lines += [f"  {yaml_text(node)}: {{}}" for unit in units for node in unit.nodes]
    lines.append("blocks:")
    for unit in units:
        lines += [f"- switch: {yaml_text(unit.name)}", "  nodes:", *(f"  - {yaml_text(node)}" for node in unit.nodes)]
    return "\n".join(lines) + "\n"


def format_node_labels(fabrics: Sequence[Fabric], catalog: Catalog | None = None) -> str:
    """Return the labels of each node, as ``kubectl apply --server-side`` takes them."""
    lines = [f"# Labels of {TOPOGRAPH_READS}: tier-N since 1.0; leaf, spine and core before."]
    for node, places, domain in _places(fabrics, catalog):
        labels = [
            *domain,
            *((f"{LABELS}{tier}", place) for tier, place in enumerate(places)),
            *zip(LABELS_BEFORE, places, strict=False),
        ]
        lines += ["---", "apiVersion: v1", "kind: Node", "metadata:", f"  name: {yaml_text(node)}", "  labels:"]
        lines += [f"    {key}: {yaml_text(place)}" for key, place in labels]
    return "\n".join(lines) + "\n"


def format_node_features(fabrics: Sequence[Fabric], catalog: Catalog | None = None) -> str:
    """Return an object of NFD for each node: labels to make, and features as topograph's own engine for NFD has them.

    They are applied in the namespace of NFD: ``kubectl apply --server-side -n node-feature-discovery -f``.
    """
    lines = [f"# For {NFD_READS}"]
    for node, places, domain in _places(fabrics, catalog):
        lines += ["---", "apiVersion: nfd.k8s-sigs.io/v1alpha1", "kind: NodeFeature", "metadata:"]
        lines += [f"  name: {yaml_text(f'heddle-{node}')}", "  labels:"]
        lines += [f"    nfd.node.kubernetes.io/node-name: {yaml_text(node)}", "spec:", "  features:", "    attributes:"]
        lines += ["      system.name:", "        elements:", f"          nodename: {yaml_text(node)}"]
        lines += ["      topograph.network:", "        elements:"]
        lines += [f"          fabric-tier-{tier}: {yaml_text(place)}" for tier, place in enumerate(places)]
        lines += ["  labels:", *(f"    {key}: {yaml_text(place)}" for key, place in domain)]
        lines += [f"    {LABELS}{tier}: {yaml_text(place)}" for tier, place in enumerate(places)]
    return "\n".join(lines) + "\n"


def _places(
    fabrics: Sequence[Fabric], catalog: Catalog | None
) -> Iterator[tuple[str, list[str], list[tuple[str, str]]]]:
    """Yield each node with the values of its labels, the nearest first, and the label of its NVLink, if it has one."""
    domains = {slurm_word(node): [(DOMAIN, label_value(host))]
               for host, nodes in find_domains(fabrics, catalog).items() for node in nodes}  # fmt: skip
    for unit in slurm_units(fabrics, catalog):
        places = [label_value(place) for place in (unit.name, *unit.above)]
        yield from ((node, places, domains.get(node, [])) for node in unit.nodes)


def _of_plan(make: Callable[[Sequence[Fabric], Catalog | None], str]) -> Maker:
    """Return what makes a file of a plan, whose catalog knows trays; that of a dump does not."""
    return lambda plan, subnet: make(plan.fabrics, plan.catalog)


def label_value(name: str) -> str:
    """Return a name as the value of a label.

    >>> label_value("core1/L02/U1 ")
    'core1-L02-U1'
    """
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", name)[:LONGEST_VALUE].strip("-_.")


SLURM = Export("slurm", "which nodes are near each other", SLURM_READS, COMPILE,
               {"exports/topology.conf": _of_plan(format_topology_conf),
                "exports/topology.yaml": _of_plan(format_topology_yaml)})  # fmt: skip
TOPOGRAPH = Export("topograph", "which nodes are near each other: a model of the tree, labels of nodes",
                   f"{TOPOGRAPH_READS}, Kubernetes v1, {NFD_READS}", COMPILE,
                   {"exports/topograph.yaml": _of_plan(format_topograph_model),
                    "exports/node-labels.yaml": _of_plan(format_node_labels),
                    "exports/node-features.yaml": _of_plan(format_node_features)})  # fmt: skip
