"""Fat-trees of htsim as text: reader of the ``.topo`` files that its simulators take.

Keys are those of ``fat_tree_topology.cpp`` (uet-htsim, 2025), in any case; ``Bundle`` is 1 where it is left out::

    Nodes 32
    Tiers 2
    Podsize 32
    Tier 0
    Downlink_speed_Gbps 400
    Radix_Down 8
    Radix_Up 4
    Tier 1
    Downlink_speed_Gbps 400
    Radix_Down 4

Host h is on ``tor`` h div ``Radix_Down``. A ``tor`` has a bundle of links to each ``agg`` of its pod, and the ``agg``
in place a of each pod one to each core c with c = a modulo the ``agg`` of a pod. Ports are numbered in that order,
GUIDs are made from the names. Latencies, queues and ``Oversubscribed``, which follows from the rest, are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from topo.budget import DUMP_CABLE_ENDS, DUMP_NODES
from topo.dumps.discovery import Discovery, Records
from topo.dumps.edge_list import plug, speed_of

HTSIM_HEAD: re.Pattern[str] = re.compile(r"\s*Nodes\s+\d{1,9}\s*", re.IGNORECASE)
KEY_AND_NUMBER = re.compile(r"\s*(\w{1,30})\s+(\d{1,9})\s*(?:#.*)?")
HEADER_KEYS = ("nodes", "tiers", "podsize")
TIER_KEYS = ("downlink_speed_gbps", "radix_down", "radix_up", "bundle")
LEFT_OUT = {"downlink_latency_ns", "switch_latency_ns", "queue_up", "queue_down", "oversubscribed"}


def parse_htsim_topology(text: str | Iterable[str], path: str = "") -> Discovery:
    """Return the fabric.

    FormatError for a line that is none of the format, a missing key, numbers that do not divide, a rate of no link.
    """
    records = Records(path)
    found: dict[tuple[int, str], int] = {}
    tier = -1
    for number, line in records.lines(text):
        match = KEY_AND_NUMBER.fullmatch(line)
        key = match[1].lower() if match else ""
        if match and key == "tier" and int(match[2]) < 3:
            tier = int(match[2])
        elif match and (key in HEADER_KEYS if tier < 0 else key in TIER_KEYS) and (tier, key) not in found:
            found[tier, key] = int(match[2])
        elif key not in LEFT_OUT or tier < 0:
            known = ", ".join(HEADER_KEYS if tier < 0 else (*TIER_KEYS, *sorted(LEFT_OUT)))
            raise records.unlike(line, f"one of {known}, each once, and a number", number)

    def of(tier: int, key: str, otherwise: int = 0) -> int:
        value = found.get((tier, key), otherwise)
        if value < 1:
            where = f"{key} of tier {tier}" if tier >= 0 else key
            raise records.refuse(f"found {where} to be {value or 'missing'}; expected a number from 1")
        return value

    def parts(what: str, whole: int, part: int) -> int:
        if whole % part:
            raise records.refuse(f"found {whole} {what}; expected a multiple of {part}")
        return whole // part

    nodes, tiers, pod_hosts = (of(-1, key) for key in HEADER_KEYS)
    if tiers not in (2, 3):
        raise records.refuse(f"found {tiers} tiers; expected 2 or 3")
    pods, tors = parts("nodes", nodes, pod_hosts), parts("hosts of a pod", pod_hosts, of(0, "radix_down"))
    bundle = [of(at, "bundle", 1) for at in range(tiers)]
    aggs = parts("links up of a tor", of(0, "radix_up"), bundle[1])
    below = [(1, "tors of a pod", tors)] + ([(2, "pods", pods)] if tiers == 3 else [])
    for at, what, count in below:
        if of(at, "radix_down") != count * bundle[at]:
            wanted = f"{count * bundle[at]}, {bundle[at]} for each of {count} {what}"
            raise records.refuse(f"found radix_down {of(at, 'radix_down')} of tier {at}; expected {wanted}")
    cores = aggs * parts("links up of an agg", of(1, "radix_up"), bundle[2]) if tiers == 3 else 0
    if nodes > DUMP_NODES.limit:
        raise DUMP_NODES.exceeded(path)
    if nodes + pods * aggs * (tors * bundle[1] + (of(1, "radix_up") if tiers == 3 else 0)) > DUMP_CABLE_ENDS.limit:
        raise DUMP_CABLE_ENDS.exceeded(path)
    speed = [speed_of(records, str(of(at, "downlink_speed_gbps")), 0) for at in range(tiers)]
    rows = [(0, f"host{host} nic", f"tor{host // of(0, 'radix_down')}", speed[0]) for host in range(nodes)]
    for tor in range(pods * tors):
        at = tor // tors * aggs
        rows += [(0, f"tor{tor}", f"agg{at + agg}", speed[1]) for agg in range(aggs) for _ in range(bundle[1])]
    for agg in range(pods * aggs if cores else 0):
        to = range(agg % aggs, cores, aggs)
        rows += [(0, f"agg{agg}", f"core{core}", speed[2]) for core in to for _ in range(bundle[2])]
    plug(records, rows, lambda name, _: name.startswith("host"))
    return records.assemble()
