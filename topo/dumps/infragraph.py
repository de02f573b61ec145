"""InfraGraph as JSON: reader of the cables between the instances that it describes.

Schema and rules of expansion: InfraGraph 3.1.0, ``docs/openapi.yaml`` and ``infragraph_service.py``. An endpoint is an
instance and a component, each with a slice of Python or without one for all; ``one2one`` joins the ends in order,
``many2many`` each to each. A device with an ``xpu``, a ``nic`` or a part that is a device of its own, as a NIC may be,
is a server, and these parts its adapters; any other is a switch. Edges inside of devices are no cables, and left out.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from itertools import product
from typing import Any

from topo.budget import DUMP_CABLE_ENDS, DUMP_NODES
from topo.builder import stable_guid
from topo.dumps.discovery import UNCOUNTED, Discovery, FoundNode, NodeKey, Records
from topo.dumps.edge_list import speed_of

GBIT = {"gigabits_per_second": 1, "gigabytes_per_second": 8}
ENDPOINT = re.compile(r"([^\[\].]{1,200})(?:\[(-?\d{0,7}(?::-?\d{0,7}){0,2})\])?(?:\..{0,200})?")
SERVER = {"xpu", "nic", "device"}
"""What only servers have: a switch may have a processor of its own."""
SPEED = re.compile(r"\d{1,2}x[A-Z]{2,4}\d{0,2}")
Vertex = tuple[str, int, str, int]
"""Instance and its number, component and its number."""


def parse_infragraph(text: str, path: str = "") -> Discovery:
    """Return the fabric; FormatError for no description, an endpoint of an unknown part, a link without a rate."""
    records = Records(path)
    try:
        document = json.loads(text)
        found = _Described(records, document)
        listed = document["edges"]
        edges = [(one["ep1"], one["ep2"], one.get("scheme") or "one2one", one["link"]) for one in listed]
    except (ValueError, OverflowError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise records.refuse(f"is no description of InfraGraph ({type(error).__name__}: {error!s:.80})") from None
    cables: dict[frozenset[Vertex], tuple[Vertex, Vertex, str]] = {}
    for first, second, scheme, link in edges:
        if scheme not in ("one2one", "many2many"):
            raise records.refuse(f"found an edge of the scheme {scheme!r:.40}; expected one2one or many2many")
        near, far = found.expand(first), found.expand(second)
        pairs = zip(near, far, strict=False) if scheme == "one2one" else product(near, far)
        speed = found.speed(link)
        for one, other in pairs:
            cables.setdefault(frozenset((one, other)), (one, other, speed))  # from each end, it may be
            if len(cables) > DUMP_CABLE_ENDS.limit:
                raise DUMP_CABLE_ENDS.exceeded(path)
    number: Counter[NodeKey] = Counter()
    for (instance, at, part, of), times in Counter(end for pair in cables for end in pair).items():
        if times > 1 and found.node((instance, at, part, of))[1]:
            raise records.refuse(f"found {times} cables in {part}[{of}] of {instance}[{at}]; expected one in a port")
    for a, b, speed in cables.values():
        ends: list[tuple[FoundNode, int]] = []
        for point in (a, b):
            name, ports = found.node(point)
            key = ("S" if ports else "H", stable_guid(name))
            number[key] += 1
            ends.append((FoundNode(key, ports or UNCOUNTED, name, 0), found.port(point) if ports else number[key]))
        records.link(*ends[0], *ends[1], records.rate(speed, 0))
    return records.assemble()


class _Described:
    """What a description declares."""

    def __init__(self, records: Records, document: dict[str, Any]) -> None:
        self.records = records
        self.parts = {
            device["name"]: {part["name"]: (int(part["count"]), str(part["choice"])) for part in device["components"]}
            for device in document["devices"]
        }
        self.instances = {one["name"]: (one["device"], int(one["count"])) for one in document["instances"]}
        self.links = {link["name"]: link.get("physical") or {} for link in document.get("links") or ()}
        if sum(count for _, count in self.instances.values()) > DUMP_NODES.limit:
            raise DUMP_NODES.exceeded(records.path)

    def expand(self, endpoint: dict[str, str]) -> list[Vertex]:
        """Return the ends that an endpoint stands for."""
        try:
            instance, at = self._numbers(endpoint["instance"], {name: one[1] for name, one in self.instances.items()})
            parts = self.parts[self.instances[instance][0]]
            component, of = self._numbers(endpoint["component"], {name: part[0] for name, part in parts.items()})
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise self.records.refuse(f"found the endpoint {endpoint!s:.80}; expected a known part ({error})") from None
        if len(at) * len(of) > DUMP_CABLE_ENDS.limit:
            raise DUMP_CABLE_ENDS.exceeded(self.records.path)
        return [(instance, one, component, part) for one in at for part in of]

    def _numbers(self, text: str, counts: dict[str, int]) -> tuple[str, range]:
        """Return the name of an endpoint and the numbers of its slice."""
        match = ENDPOINT.fullmatch(text)
        if match is None:
            raise KeyError(text)
        everything = range(min(counts[match[1]], DUMP_CABLE_ENDS.limit))
        if not match[2]:
            return match[1], everything
        if ":" in match[2]:
            return match[1], everything[slice(*(int(bound) if bound else None for bound in match[2].split(":")))]
        at = everything[int(match[2])]
        return match[1], range(at, at + 1)

    def node(self, end: Vertex) -> tuple[str, int]:
        """Return the name of the node of an end, and its ports if it is a switch, 0 for an adapter."""
        instance, at, component, number = end
        device, count = self.instances[instance]
        name = instance if count == 1 else f"{instance}{at:0{len(str(count - 1))}d}"
        parts = self.parts[device]
        if any(choice in SERVER for _, choice in parts.values()):
            return f"{name.replace(' ', '-')} {component.replace(' ', '-')}_{number}", 0
        return name, sum(size for size, choice in parts.values() if choice == "port")

    def port(self, end: Vertex) -> int:
        """Return the number of the port of a switch, from 1, over all of its components that are ports."""
        _, _, component, number = end
        parts = self.parts[self.instances[end[0]][0]]
        ports = {name: size for name, (size, choice) in parts.items() if choice == "port"}
        if component in ports:
            before = list(ports)[: list(ports).index(component)]
            return sum(ports[name] for name in before) + number + 1
        found = f"found an edge at {component!r:.40} of {end[0]!r:.40}"
        raise self.records.refuse(f"{found}; expected a port of the switch")

    def speed(self, link: str) -> str:
        """Return the speed of a link, by its name if that is one such as ``4xNDR``, else by its bandwidth."""
        if isinstance(link, str) and SPEED.fullmatch(link):
            return link
        physical = self.links.get(link) if isinstance(link, str) else None
        bandwidth = (physical or {}).get("bandwidth") or {}
        for unit, factor in GBIT.items():
            if isinstance(rate := bandwidth.get(unit), (int, float)):
                return speed_of(self.records, f"{rate * factor:g}", 0)
        raise self.records.refuse(f"found the link {link!r:.60} without a bandwidth in bits or bytes per second")
