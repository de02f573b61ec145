"""A compiled fabric as a file, with everything that it knows: writer and reader.

The file is JSON with one field of `Fabric` a line, in the order of the class, so that files compare line by line. GUIDs
are hexadecimal text, since JavaScript has no 64-bit integers; a length that is unknown is null. The same fabric gives
the same bytes on every machine. What was skipped when a fabric was read (`Fabric.notes`) is not part of it.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from topo.errors import FormatError
from topo.fabric import MAX_LMC, MAX_UNICAST_LID, Fabric, Kind, Role
from topo.spec.base import TrafficClass
from topo.speeds import SPEEDS, WIDTHS

FORMAT = "heddle-fabric"
VERSION = 2

GUID_FIELDS = ("node_guid", "port_guid")
TEXTS = ("models", "names", "hosts")
RANGES: dict[str, tuple[type[np.integer[Any]], int, int]] = {
    "kind": (np.uint8, 0, len(Kind) - 1),
    "role": (np.uint8, 0, len(Role) - 1),
    "level": (np.int8, -1, 127),
    "zone": (np.int16, -1, 32_767),
    "model": (np.int16, -1, 32_767),
    "host": (np.int32, -1, 2**31 - 1),
    "host_model": (np.int16, -1, 32_767),
    "port_offset": (np.int32, 0, 2**31 - 1),
    "peer": (np.int32, -1, 2**31 - 1),
    "width": (np.uint8, 0, 255),
    "speed": (np.uint8, 0, len(SPEEDS) - 1),
    "discovered_lid": (np.uint16, 0, MAX_UNICAST_LID),
}
"""Type and bounds of each array of whole numbers."""
ORDER = (
    "name", "kind", "role", "level", "zone", "model", "models", "node_guid", "names", "host", "hosts", "host_model",
    "port_offset", "peer", "width", "speed", "port_guid", "discovered_lid", "lmc", "length_m", "arrangement",
    "engine", "purpose", "traffic",
)  # fmt: skip


def format_fabric(fabric: Fabric) -> str:
    """Return the text of the file; `parse_fabric` gives the same fabric back.

    Examples
    --------
    >>> import topo
    >>> "QM8700" in topo.format_fabric(topo.preset("lab-20").fabric)
    True
    """
    values: dict[str, Any] = {"format": FORMAT, "version": VERSION}
    for name in ORDER:
        value = getattr(Fabric.given(fabric), name)
        if name in GUID_FIELDS:
            value = [f"0x{guid:016x}" for guid in value.tolist()]
        elif name == "length_m":
            value = [None if math.isnan(metres) else metres for metres in value.tolist()]
        elif name == "traffic":
            value = [item.model_dump(mode="json") for item in value]
        values[name] = value.tolist() if isinstance(value, np.ndarray) else value
    lines = (f"{json.dumps(name)}: {json.dumps(value, separators=(',', ':'))}" for name, value in values.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def write_fabric(fabric: Fabric, path: str | Path) -> None:
    """Write a fabric to a file that `topo.read_fabric` reads back whole.

    Examples
    --------
    >>> from pathlib import Path
    >>> import tempfile, topo
    >>> path = Path(tempfile.mkdtemp()) / "fabric.json"
    >>> fabric = topo.preset("lab-20").fabric
    >>> topo.write_fabric(fabric, path)
    >>> topo.read_fabric(path).counts() == fabric.counts()
    True
    """
    Path(path).write_text(format_fabric(fabric), encoding="utf-8")


def parse_fabric(text: str, path: str = "") -> Fabric:
    """Return the fabric that `format_fabric` wrote.

    FormatError for another file or another version, and for what no fabric can be.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"is not JSON ({error})", path) from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise FormatError(f'is not a fabric of Heddle; expected a JSON object with "format": "{FORMAT}"', path)
    if document.get("version") != VERSION or isinstance(document["version"], (bool, float)):
        raise FormatError(f"has the version {document.get('version')!r:.20}; expected {VERSION}", path)
    if set(document) != {"format", "version", *ORDER}:
        odd = sorted(set(document) ^ {"format", "version", *ORDER})
        raise FormatError(f"lacks, or has too much of, {', '.join(odd)[:100]}", path)
    fabric = Fabric(**{name: _field(name, document[name], path) for name in ORDER})
    if wrong := _contradiction(fabric):
        raise FormatError(wrong, path)
    return fabric


def _field(name: str, value: Any, path: str) -> Any:
    """Return a field of a fabric, out of what JSON has for it."""

    def check(holds: object, expected: str) -> None:
        if not holds:
            raise FormatError(f"found something else in `{name}`; expected {expected}", path)

    if name in ("name", "arrangement", "engine", "purpose"):
        check(isinstance(value, str) and value.isprintable(), "text that can be printed")
        return value
    if name == "lmc":
        check(type(value) is int and 0 <= value <= MAX_LMC, f"a whole number from 0 to {MAX_LMC}")
        return value
    check(isinstance(value, list), "a list")
    if name in TEXTS:
        check(all(isinstance(item, str) and item.isprintable() for item in value), "printable text in a list")
        return tuple(value)
    try:
        if name == "traffic":
            return tuple(TrafficClass.model_validate(item) for item in value)
        if name in GUID_FIELDS:
            return np.array([int(item, 16) for item in value], np.uint64)
        if name == "length_m":
            metres = np.array([math.nan if item is None else item for item in value], np.float64)
            flat = metres.ndim == 1 and not (metres < 0).any() and not np.isinf(metres).any()
            check(flat, "metres, not negative, or null")
            return metres
        dtype, low, high = RANGES[name]
        numbers = np.array(value) if value else np.zeros(0, np.int64)
        whole = numbers.ndim == 1 and numbers.dtype.kind == "i" and ((numbers >= low) & (numbers <= high)).all()
        check(whole, f"whole numbers from {low} to {high:,} in a list")
        return numbers.astype(dtype)
    except (TypeError, ValueError, OverflowError):
        check(False, "classes of traffic" if name == "traffic" else "numbers in a list")


def _contradiction(fabric: Fabric) -> str:
    """Say which fields contradict each other; nothing when they make a fabric."""
    n, ports = len(fabric.kind), len(fabric.peer)
    of_nodes = (fabric.role, fabric.level, fabric.zone, fabric.model, fabric.node_guid, fabric.names, fabric.host)
    if any(len(values) != n for values in of_nodes) or len(fabric.port_offset) != n + 1:
        return "has lists of nodes of unequal length"
    if any(len(values) != ports for values in (fabric.width, fabric.speed, fabric.port_guid)):
        return "has lists of ports of unequal length"
    radix = np.diff(fabric.port_offset.astype(np.int64))
    if fabric.port_offset[0] != 0 or fabric.port_offset[-1] != ports or (radix < 1).any():
        return "has `port_offset` that does not count the ports, at least 1 a node"
    if (np.diff((fabric.kind == Kind.SWITCH).astype(np.int8)) > 0).any():
        return "has a switch behind a node of another kind; expected switches first"
    if len(set(zip((fabric.kind == Kind.SWITCH).tolist(), fabric.node_guid.tolist(), strict=True))) < n:
        return "has the GUID of a node twice"
    if len(set(fabric.hosts)) < len(fabric.hosts):
        return "has the name of a server twice"
    if len(fabric.host_model) != len(fabric.hosts) or fabric.host.max(initial=-1) >= len(fabric.hosts):
        return "has servers in `hosts` and others in `host` or `host_model`"
    if max(fabric.model.max(initial=-1), fabric.host_model.max(initial=-1)) >= len(fabric.models):
        return "names a model that is not in `models`"
    plugged = np.flatnonzero(fabric.peer >= 0)
    far = fabric.peer[plugged]
    if far.max(initial=-1) >= ports or (far == plugged).any() or (fabric.peer[far] != plugged).any():
        return "has links in `peer` whose two ends disagree"
    if (fabric.width[far] != fabric.width[plugged]).any() or (fabric.speed[far] != fabric.speed[plugged]).any():
        return "has links in `width` and `speed` whose two ends disagree"
    if not np.isin(fabric.width, WIDTHS).all():
        return f"has a link width that is none of {', '.join(map(str, WIDTHS))}"
    if len(fabric.discovered_lid) not in (0, fabric.n_end_ports) or len(fabric.length_m) not in (0, ports):
        return "has `discovered_lid` or `length_m` of another length"
    lids = fabric.discovered_lid[fabric.discovered_lid > 0]
    if len(np.unique(lids)) < len(lids) or lids.max(initial=0) > MAX_UNICAST_LID:
        return f"has a LID in `discovered_lid` twice, or one above {MAX_UNICAST_LID:,}"
    return ""
