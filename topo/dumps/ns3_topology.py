"""Topologies of ns-3 with RDMA as text: reader of those that SimAI generates, and of HPCC's and ASTRA-sim's.

SimAI's first line counts nodes, GPUs of a server, NVSwitches, other switches and links, and names the GPU; HPCC's and
ASTRA-sim's counts nodes, switches and links alone. Then come the numbers of the switches, NVSwitches first, and a line
for each link: two nodes, a rate, a latency and a share of lost packets::

    7 2 2 1 8 H100
    4 5 6
    0 4 2880Gbps 0.000025ms 0
    0 6 400Gbps 0.0005ms 0

A node that is no switch is an adapter with as many ports as it has links. NVSwitches and their links are inside
servers, which the model of a server describes: they are left out, as are latencies and losses. Ports are numbered in
the order of the lines, GUIDs are made from the names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice

from topo.budget import DUMP_NODES
from topo.dumps.discovery import Discovery, Records
from topo.dumps.edge_list import plug, speed_of
from topo.files.text import lines_of

LINK: re.Pattern[str] = re.compile(
    r"\s*(\d{1,9})\s+(\d{1,9})\s+(\d{1,9}(?:\.\d{1,6})?)([MGT])b(?:ps|/s)\s+\d[\d.]{0,15}[mun]?s\s+\d[\d.eE-]{0,15}\s*"
)
GBPS = {"M": 1e-3, "G": 1.0, "T": 1e3}
COUNTS = {3: (0, 1, 2), 6: (0, 3, 4, 1, 2)}
"""Where the first line counts nodes, switches and links, and, of SimAI's, GPUs of a server and NVSwitches."""


def parse_ns3_topology(text: str | Iterable[str], path: str = "") -> Discovery:
    """Return the fabric.

    FormatError for a line that is none of the format, a node that was not counted, a rate that no link has, fewer links
    than were counted, or not as many switches.
    """
    records = Records(path)
    lines = ((number, line) for number, line in enumerate(lines_of(text, path), 1) if line.strip())
    number, head = next(lines, (1, ""))
    words = head.split()
    counts = [words[at] for at in COUNTS.get(len(words), ())]
    if not counts or not all(re.fullmatch(r"\d{1,9}", word) for word in counts):
        expected = "how many nodes, GPUs a server, NVSwitches, switches and links there are, and the GPU"
        raise records.unlike(head, expected, number)
    nodes, n_switches, n_links, per_server, inside = *map(int, counts), *([0, 0] if len(counts) == 3 else [])
    if nodes > DUMP_NODES.limit:
        raise DUMP_NODES.exceeded(path, number)
    numbers: list[str] = []
    while len(numbers) < n_switches + inside:
        number, line = next(lines, (number, ""))
        numbers += line.split()
        if not line or not all(word.isdecimal() and int(word[:10]) < nodes for word in numbers):
            raise records.unlike(line, f"the numbers of {n_switches + inside} switches below {nodes}", number)
    switches = [int(word) for word in numbers]
    if len(switches) > n_switches + inside or len({*switches}) < len(switches):
        raise records.refuse(f"found {len({*switches})} switches; expected {n_switches + inside}, each once", number)
    others, left_out = {*switches[inside:]}, {*switches[:inside]}
    rows: list[tuple[int, str, str, str]] = []

    def name_of(node: int) -> str:
        if node in others:
            return f"switch{node}"
        return f"server{node // per_server} gpu{node % per_server}" if per_server else f"host{node} nic"

    n_inside = 0
    for number, line in islice(lines, n_links):
        link = LINK.fullmatch(line)
        ends = [int(end) for end in link.groups()[:2]] if link else []
        if link is None or ends[0] == ends[1] or max(ends) >= nodes:
            raise records.unlike(line, f"two different nodes below {nodes}, a rate, a latency and losses", number)
        if left_out.intersection(ends):
            n_inside += 1
            continue
        rate = f"{float(link[3]) * GBPS[link[4]]:g}"
        rows.append((number, name_of(ends[0]), name_of(ends[1]), speed_of(records, rate, number)))
    if len(rows) + n_inside < n_links:
        raise records.refuse(f"found {len(rows) + n_inside:,} links; expected {n_links:,}, as the first line says")
    if after := next(lines, None):
        records.skip(after[0], f"what follows the {n_links:,} links that the first line counts")
    if left_out:
        records.skip(1, f"{len(left_out):,} NVSwitches and their {n_inside:,} links, which are inside servers")
    plug(records, rows, lambda name, _: not name.startswith("switch"))
    return records.assemble()
