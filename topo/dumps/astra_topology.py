"""Networks of ASTRA-sim's analytical back end as YAML: reader.

A list of four has a value for each dimension (``astra-network-analytical``, ``common/NetworkParser``, 2025)::

    topology: [Ring, Switch]
    npus_count: [4, 8]
    bandwidth: [50.0, 25.0]      # GB/s of a link
    latency: [500.0, 1000.0]     # ns

NPU n has place n modulo 4 in the first dimension, n div 4 in the second, and so on. NPUs that differ in one dimension
alone are joined there: neighbours in a circle (``Ring``), each with each (``FullyConnected``), or by a switch. An NPU
passes on what is meant for others, so that it is a switch here, ``npu3``, with an adapter on a link that is at least as
fast as all of its others; where all hang on one switch, it is an adapter alone. Latencies are left out. ASTRA-sim
counts 2^30 bytes in a GB; here 50 GB/s are 400 Gb/s.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import combinations
from math import prod
from typing import Any

from topo.budget import DUMP_CABLE_ENDS, DUMP_NODES
from topo.dumps.discovery import Discovery, Records
from topo.dumps.edge_list import BY_GBPS, plug, speed_of
from topo.errors import SpecError
from topo.files.text import lines_of
from topo.files.yaml import parse_yaml

ASTRA_HEAD: re.Pattern[str] = re.compile(r"topology:\s*(?:\[.*|#.*)?")
DIMENSIONS = ("Ring", "FullyConnected", "Switch")


def parse_astra_topology(text: str | Iterable[str], path: str = "") -> Discovery:
    """Return the fabric; FormatError for what is no network, an unknown kind of dimension, and a rate of no link."""
    records = Records(path)
    try:
        document = parse_yaml("\n".join(lines_of(text, path)), path).value
    except SpecError as error:
        raise records.refuse(f"is no network of ASTRA-sim: {error.findings[0].found:.80}") from None
    expected = f"lists of equal length: topology of {', '.join(DIMENSIONS)}, npus_count from 2, bandwidth, latency"
    try:
        shapes, counts, rates = (list(document[key]) for key in ("topology", "npus_count", "bandwidth"))
        dimensions = list(zip(shapes, counts, rates, strict=True))
    except (KeyError, TypeError, ValueError):
        raise records.refuse(f"found {str(document)[:60]!r}; expected {expected}") from None
    for shape, count, rate in dimensions:
        if shape not in DIMENSIONS or type(count) is not int or count < 2 or type(rate) not in (int, float):
            found = f"found a dimension of {shape!s:.20}, {count!s:.20}, {rate!s:.20}"
            raise records.refuse(f"{found}; expected {expected}")
    npus = prod(counts)
    links = npus * sum(_degree(shape, count) for shape, count, _ in dimensions)  # from both ends, but of switches
    if not dimensions or npus > DUMP_NODES.limit:
        raise DUMP_NODES.exceeded(path) if dimensions else records.refuse(f"found no dimension; expected {expected}")
    if links > DUMP_CABLE_ENDS.limit:
        raise DUMP_CABLE_ENDS.exceeded(path)
    speeds = [speed_of(records, f"{8 * rate:g}", 0) for rate in rates]
    alone = shapes == ["Switch"]
    rows: list[tuple[int, str, str, str]] = []
    if not alone:
        needed = sum(8 * rate * _degree(shape, count) for shape, count, rate in dimensions)
        own = min((rate for rate in BY_GBPS if rate >= needed), default=max(BY_GBPS))
        rows = [(0, f"npu{npu} nic", f"npu{npu}", BY_GBPS[own]) for npu in range(npus)]
    for at, (shape, count, _) in enumerate(dimensions):
        for a, b in _pairs(shape, count, prod(counts[:at]), npus, at):
            near = f"npu{a} nic" if alone else f"npu{a}"
            rows.append((0, near, b if isinstance(b, str) else f"npu{b}", speeds[at]))
    plug(records, rows, lambda name, _: name.endswith(" nic"))
    return records.assemble()


def _degree(shape: str, count: int) -> int:
    """Return the links of an NPU in a dimension."""
    return {"Ring": min(count - 1, 2), "FullyConnected": count - 1, "Switch": 1}[shape]


def _pairs(shape: str, count: int, step: int, npus: int, at: int) -> Iterator[tuple[int, Any]]:
    """Yield an NPU and the NPU or switch that it is joined to, for all links of a dimension."""
    for first in range(npus):
        if first // step % count:
            continue
        group = range(first, first + count * step, step)
        if shape == "Switch":
            yield from ((npu, f"switch{at}-{first}") for npu in group)
        elif shape == "Ring":
            yield from zip(group, [*group[1:], *group[:1]][: count if count > 2 else 1], strict=False)
        else:
            yield from combinations(group, 2)
