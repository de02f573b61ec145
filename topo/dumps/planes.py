"""Merges the planes of XDR: the chips of a switch into one switch, and their parallel links into one cable.

An XDR switch has one chip for each plane, and discovery lists each chip as a switch; a cable holds one link of every
plane. The ports of one cable have the same label (``sw11p1``) on all chips. They are merged into one port, numbered by
cage as in a plan; its width is the sum over the planes that are up. An adapter has a port on each plane: those that
lead to one merged port are merged, too.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace

from topo.dumps.discovery import UNCOUNTED, CableEnd, Discovery, NodeKey, Records
from topo.fabric import MAX_PORTS

LABEL = re.compile(r"swp?0*(\d{1,3})[ps]0*([12])", re.IGNORECASE)
"""Cage and port in the cage, as NVOS labels the ports of switches with two ports in a cage."""
CHIP = re.compile(r"/U(\d{1,2})$")
"""Number of the chip in its switch, at the end of a NodeDescription."""

End = tuple[NodeKey, int]
"""A node, and the number of one of its ports."""


def number_of_label(label: str) -> int:
    """Return the number of the port with a label such as ``sw11p1``; 0 for any other text.

    >>> number_of_label("sw11p1"), number_of_label("11/1")
    (21, 0)
    """
    match = LABEL.fullmatch(label)
    number = 2 * (int(match[1]) - 1) + int(match[2]) if match else 0
    return number if 0 < number <= MAX_PORTS else 0


def assemble(records: Records) -> Discovery:
    """Build the fabric that the records describe, and the one with merged planes, if it has planes."""
    discovery = records.assemble()
    place = _ports_of_switches(records)
    return replace(discovery, merged=_merge(records, place).assemble()) if place else discovery


def _ports_of_switches(records: Records) -> dict[End, End]:
    """Return the port of the merged switch for each port of its chips.

    Chips belong to one switch if they share a system image GUID, or else the description before ``/U1``, and if they
    share a label and no two have the same plane.
    """
    chips: dict[NodeKey, dict[str, tuple[int, int | None]]] = defaultdict(dict)
    for (key, port), (label, plane) in records.labels.items():
        if key in records.nodes and number_of_label(label):
            chips[key][label.casefold()] = port, plane
    boxes: dict[int | str, list[NodeKey]] = defaultdict(list)
    for key in chips:
        node = records.nodes[key]
        boxes[node.system or CHIP.sub("", node.description)].append(key)
    place: dict[End, End] = {}
    for keys in boxes.values():
        keys.sort(key=lambda key: (_chip(records, key), key))
        shared = set.intersection(*(set(chips[key]) for key in keys)) if len(keys) > 1 else set()
        planes = [[chips[key][label][1] for key in keys] for label in shared]
        if any(None in numbers for numbers in planes):  # the dump gives no planes: number them by chips
            planes.append([_chip(records, key) for key in keys])
        if shared and all(None in each or (0 not in each and len(set(each)) == len(keys)) for each in planes):
            for key in keys:
                place |= {(key, port): (keys[0], number_of_label(label)) for label, (port, _) in chips[key].items()}
    return place


def _chip(records: Records, key: NodeKey) -> int:
    """Return the number of a chip in its switch, from its description; 0 where that has none."""
    match = CHIP.search(records.nodes[key].description)
    return int(match[1]) if match else 0


def _merge(records: Records, place: dict[End, End]) -> Records:
    """Return records with one node for the chips of each switch, and one cable for the planes of each cable."""
    switches = {key: first for (key, _), (first, _) in place.items()}
    place = place | _ports_of_adapters(records, place)
    merged = Records(records.path)
    merged.lmc = records.lmc
    owner = switches | {key: first for (key, _), (first, _) in place.items()}
    for first, number in place.values():
        merged.port(first, number)
    for key, node in records.nodes.items():
        if owner.get(key, key) == key:
            merged.node(replace(node, ports=UNCOUNTED if key in merged.highest else node.ports))
    ends: dict[End, dict[End, list[CableEnd]]] = defaultdict(lambda: defaultdict(list))
    for cable in records.cables:
        near, far = (cable.node, cable.number), (cable.far, cable.far_number)
        lost = any(key in switches and (key, number) not in place for key, number in (near, far))
        if not lost:  # ports without a label are not on the panel
            ends[place.get(near, near)][place.get(far, far)].append(cable)
    for (here, number), fars in ends.items():
        (there, far_number), planes = max(fars.items(), key=lambda item: len(item[1]))
        width, speed = sum(plane.width for plane in planes), min(plane.speed for plane in planes)
        if len(fars) > 1:
            merged.skip(planes[0].line, f"planes of port {number} that lead elsewhere than most of its planes")
        merged_end = replace(planes[0], node=here, number=number, far=there, far_number=far_number)
        merged.cable(replace(merged_end, width=width, speed=speed))
    return merged


def _ports_of_adapters(records: Records, place: dict[End, End]) -> dict[End, End]:
    """Return the merged adapter port for each port of an adapter: one for all ports that lead to one merged port."""
    whole = {cable.far for cable in records.cables if (cable.node, cable.number) in place and cable.far[0] != "S"}
    led: dict[tuple[End, NodeKey | int], list[End]] = defaultdict(list)
    for cable in records.cables:
        near, far = (cable.node, cable.number), (cable.far, cable.far_number)
        if cable.far in whole:
            ends = led[place.get(near, near), records.nodes[cable.far].system or cable.far]
            ends += [far] if far not in ends else []
    root: dict[NodeKey, NodeKey] = {}

    def first(key: NodeKey) -> NodeKey:
        while key in root:
            key = root[key]
        return key

    for ends in led.values():  # a dump may list an adapter as several nodes, each with some of its planes
        lowest = min(first(key) for key, _ in ends)
        root |= {found: lowest for key, _ in ends if (found := first(key)) != lowest}
    ranked: dict[NodeKey, list[list[End]]] = defaultdict(list)
    for ends in sorted(led.values(), key=min):
        ranked[first(ends[0][0])].append(ends)
    return {end: (key, rank) for key, groups in ranked.items() for rank, ends in enumerate(groups, 1) for end in ends}
