"""Profiles of PyTorch (Kineto) as traces of a rank: what ran on its GPU, and what NCCL's kernels moved.

``torch.profiler`` writes a file of JSON a rank, whose ``traceEvents`` hold each kernel with its stream, begin and time
in microseconds. Since spring 2024 (Kineto's pull requests 821, 849 and 880) a kernel of NCCL says what it is:
``Collective name``, ``dtype``, ``In msg nelems``, ``Group size``, ``Process Group Name`` and ``Process Group Ranks``.
That of collectives that were launched together (``nccl:coalesced``) may not, and is refused.

A kernel waits for the one before it on its stream, and for the last one of each other stream that had ended when it
began; between the last of these and its own begin, the host was late. So a profile in which nothing is sent takes as
long as it took. How long NCCL's kernels took does not count: their messages are simulated. All that an all-to-all moves
is taken to be split evenly. What was launched before the profile began, which no ``correlation`` of a launch names, is
of the step before, and is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from simulate.workload.chakra import ChakraNode, NodeType
from topo.errors import FormatError

ON_GPU = {"kernel", "gpu_memcpy", "gpu_memset"}
LAUNCHES = {"cuda_runtime", "cuda_driver"}
"""Of AMD, too."""
COLLECTIVES = {
    "allreduce": 0, "allgather": 2, "broadcast": 5, "alltoall": 6, "reducescatter": 7, "reduce": 1, "barrier": 9,
}  # fmt: skip
"""``CollectiveCommType`` of Chakra by how PyTorch's names begin, without ``_``; ``reduce`` behind ``reducescatter``."""
BYTES = {
    "Byte": 1, "Char": 1, "Bool": 1, "Short": 2, "Half": 2, "BFloat16": 2, "Int": 4, "Float": 4, "Long": 8, "Double": 8,
    "ComplexFloat": 8, "ComplexDouble": 16,
}  # fmt: skip
"""Of an element, by ``c10::ScalarType``; all of ``Float8_...`` have one."""
NCCL = re.compile(r"nccl(?:Dev)?Kernel")
RANK_OF_FILE = re.compile(r"\.(\d{1,9})\.json(?:\.gz)?")


def parse_kineto(profile: dict[str, Any], path: str) -> Iterator[tuple[str, ChakraNode, tuple[int, ...], bool]]:
    """Yield what `parse_nodes` yields of each node: kernels in the order in which they began.

    Raises
    ------
    FormatError
        When an event is none, no kernel says what it moves, or the profile is of another rank than its file.
    """
    told, named = profile.get("distributedInfo"), RANK_OF_FILE.search(path)
    if named and isinstance(told, dict) and told.get("rank", int(named[1])) != int(named[1]):
        raise FormatError(f"found the profile of rank {told['rank']!s:.20}; expected that of rank {named[1]}", path)
    try:
        events = [
            (float(one["ts"]), float(one["dur"]), str(one["tid"]), str(one["name"]), dict(one.get("args", {})))
            for one in profile["traceEvents"]
            if one.get("ph") == "X" and one.get("cat") in ON_GPU
        ]
        launched = {
            event["args"]["correlation"]
            for event in profile["traceEvents"]
            if event.get("cat") in LAUNCHES and "correlation" in event.get("args", {})
        }
        events = [event for event in events if not launched or event[-1].get("correlation") in launched]
        events.sort(key=lambda event: event[:3])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        expected = "`ts`, `dur`, `tid` and `name`, as torch.profiler writes them"
        raise FormatError(f"found an event without one ({type(error).__name__}); expected {expected}", path) from None
    silent = next((name for *_, name, args in events if NCCL.match(name) and "Collective name" not in args), None)
    if silent or not any("Collective name" in args for *_, args in events):
        found = f"{silent[:60]!r}, which does not say" if silent else f"{len(events)} kernels, none of which says"
        expected = "a profile of a GPU where each kernel of NCCL has a `Collective name`, as PyTorch of 2024 writes it"
        raise FormatError(f"found {found} what it moves; expected {expected}", path)
    ended: dict[str, list[tuple[float, int]]] = {}
    number = 0
    for ts, dur, stream, name, args in events:
        if not (0 <= ts < 1e18 and 0 <= dur < 1e15):
            raise FormatError(f"found {name[:40]!r} at {ts!s:.20} for {dur!s:.20} us; expected times from 0", path)
        before = [ended[stream][-1]] if stream in ended else []
        for other, past in ended.items():
            while other != stream and len(past) > 1 and past[1][0] <= ts:
                past.pop(0)
            before += [past[0]] if other != stream and past[0][0] <= ts else []
        late = ts - max((end for end, _ in before), default=events[0][0])
        deps = tuple(node for _, node in before)
        moved = _moved(args, name, path) if "Collective name" in args else None
        if moved and late > 0:
            yield name, ChakraNode(number, "late", NodeType.COMP, deps, late, {}), (), False
            deps, number = (number,), number + 1
        kind, attributes = moved or (NodeType.COMP, {})
        yield name, ChakraNode(number, name, kind, deps, 0 if moved else max(0.0, late) + dur, attributes), (), False
        ended.setdefault(stream, []).append((ts + dur, number))
        number += 1


def _moved(args: dict[str, Any], name: str, path: str) -> tuple[NodeType, dict[str, int | float | bool | str]]:
    """Return the type and attributes of a node of Chakra for a kernel of NCCL."""

    def whole(key: str) -> int:
        if type(value := args.get(key, 0)) is not int or not 0 <= value < 2**53:
            raise FormatError(f"found {key} {value!s:.40} of {name[:40]!r}; expected a whole number", path)
        return value

    called, dtype = str(args["Collective name"]), str(args.get("dtype"))
    ranks = str(args.get("Process Group Ranks", ""))
    each = 1 if dtype.startswith("Float8") else BYTES.get(dtype)
    plain = called.replace("_", "").lower()
    kind = next((number for start, number in COLLECTIVES.items() if plain.startswith(start)), None)
    size, group = whole("In msg nelems"), whole("Group size")
    if each is None and size:
        raise FormatError(f"found dtype {dtype[:40]!r} of {name[:40]!r}; expected one of {', '.join(BYTES)}", path)
    found: dict[str, int | float | bool | str] = {
        "pg_name": f"{args.get('Process Group Name', '')} {ranks}".strip(),
        "comm_size": size * (each or 0),
    }
    if kind is not None:
        return NodeType.COMM_COLL, {**found, "comm_type": kind, "pg_size": group}
    if plain in ("send", "recv") and ranks == str(list(range(group))):  # else it is not said whose numbers they are
        if plain == "send":
            return NodeType.COMM_SEND, {**found, "comm_dst": whole("Dst Rank")}
        return NodeType.COMM_RECV, {**found, "comm_src": whole("Src Rank")}
    expected = f"one of {', '.join(COLLECTIVES)}, or a send or recv in a group of all ranks"
    raise FormatError(f"found {called[:40]!r} in the group {ranks[:40] or 'without ranks'}; expected {expected}", path)
