"""Chakra execution traces as JSON: what ``chakra_jsonizer`` writes, and what Chakra's feeder reads beside ``.et``.

The first is an object of metadata and an object for each node, one behind another, with the names and values that
protobuf gives them (``durationMicros``, ``"COMM_COLL_NODE"``, whole numbers of 64 bits as text). The second is one
object whose ``workload_graph`` is a list of nodes, with attributes among their keys (``Id``, ``NodeType``, ``runtime``,
``comm_size``); the feeder does not follow its control dependencies, and neither does Heddle.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from simulate.workload.chakra import ATTRIBUTES, ChakraNode
from simulate.workload.formats.kineto import parse_kineto
from topo.budget import CHAKRA_NODE_BYTES
from topo.errors import FormatError

GRAPH = re.compile(r'\s*\{(?:\s*"\w{1,40}"\s*:\s*(?:"[^"\\]{0,200}"|\d{1,20})\s*,)*\s*"workload_graph"\s*:\s*\[')
"""The beginning of the second form; the list may stand behind other keys with plain values."""
BETWEEN = re.compile(r"[\s,]*")
WHOLE = re.compile(r"-?\d{1,20}")
TYPES = (
    *("INVALID_NODE", "METADATA_NODE", "MEM_LOAD_NODE", "MEM_STORE_NODE"),
    *("COMP_NODE", "COMM_SEND_NODE", "COMM_RECV_NODE", "COMM_COLL_NODE"),
)
OF_OTHERS = frozenset({"schema", "nodes"})
"""Keys of what PyTorch's observer records, from which Chakra's tools make a trace."""


def parse_nodes(text: str, path: str) -> Iterator[tuple[str, ChakraNode, tuple[int, ...], bool]]:
    """Yield of each node its place, itself with data dependencies, the control ones, and whether it has ``rf_id``."""
    decoder = json.JSONDecoder()
    graph = GRAPH.match(text)
    at, line, counted, closed = graph.end() if graph else 0, 1, 0, graph is None
    for number in range(len(text)):
        begin = at + len(BETWEEN.match(text, at)[0])  # type: ignore[index]
        line, counted = line + text.count("\n", counted, begin), begin
        if begin == len(text) or (graph and text[begin] == "]"):
            closed |= begin < len(text)
            break
        try:
            record, at = decoder.raw_decode(text, begin)
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict):
            found = f"found {text[begin : begin + 40]!r}"
            raise FormatError(f"{found}; expected a node as an object of JSON: is the file whole?", path, line)
        if "traceEvents" in record:
            yield from parse_kineto(record, path)
            return
        if OF_OTHERS & record.keys():
            wanted = "a Chakra trace, which `chakra_trace_link` and `chakra_converter` make of it"
            raise FormatError(f"found what PyTorch observed; expected {wanted}", path, line)
        if at - begin > CHAKRA_NODE_BYTES.limit:
            raise CHAKRA_NODE_BYTES.exceeded(path, line)
        fields = {key.replace("_", "").lower(): value for key, value in record.items()}
        if graph or number or fields.keys() & {"id", "name", "type"}:  # the first may be the metadata
            yield f"in line {line}", *_node(record, fields, graph is not None, path, line)
    if not closed:
        raise FormatError("found no end of the list of nodes; is the file whole?", path, line)


def _node(
    record: dict[str, Any], fields: dict[str, Any], graph: bool, path: str, line: int
) -> tuple[ChakraNode, tuple[int, ...], bool]:
    def whole(value: Any, what: str, low: int = 0) -> int:
        if isinstance(value, bool) or not WHOLE.fullmatch(str(value)) or not low <= int(value) < 2**64:
            raise FormatError(f"found {str(value)[:40]!r}; expected {what} as a whole number", path, line)
        return int(value)

    def ids(value: Any) -> tuple[int, ...]:
        found = value if isinstance(value, list) else [value]
        return tuple(dict.fromkeys(whole(one, "the id of a node") for one in found))

    listed = fields.get("attr", [])
    named = {item["name"]: item for item in listed if isinstance(item, dict) and isinstance(item.get("name"), str)}
    attributes = {name: value for name, value in record.items() if name in ATTRIBUTES}
    for name in ATTRIBUTES & named.keys():
        for key, value in named[name].items():
            match key.replace("_", "").lower():
                case "boolval" | "stringval" | "doubleval" | "floatval":
                    attributes[name] = value
                case kind if kind.endswith(("32val", "64val")):
                    attributes[name] = whole(value, name, -(2**63))
    kind = fields.get("type", fields.get("nodetype", 0))
    node = ChakraNode(
        id=whole(fields.get("id", 0), "the id of a node"),
        name=str(fields.get("name", "")),
        type=TYPES.index(kind) if kind in TYPES else whole(kind, "the type of a node"),
        deps=ids(fields.get("datadeps", [])),
        duration_us=whole(fields.get("durationmicros", fields.get("runtime", 0)), "a duration in microseconds"),
        attributes={name: value for name, value in attributes.items() if isinstance(value, int | float | str)},
    )
    return node, () if graph else ids(fields.get("ctrldeps", [])), "rf_id" in named
