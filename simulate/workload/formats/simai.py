"""The text files of SimAI's workloads.

The first line says how ranks share the work, ``HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 8 ep: 1 pp: 1
... all_gpus: 64 ...``; the second how many layers follow. A layer has its name, a number that is not used, and
three times the time of a computation, the kind of an exchange, and its bytes, of the forward pass and of the gradients
of input and weights; then a number that is not used. Times are nanoseconds: SimAI's cycles, of which it counts one a
nanosecond. With a pipeline (``pp`` above 1) the file has the layers of one stage, of all ``ga`` micro-batches one after
another; each begins with ``embedding_layer``, and every stage does the same, as SimAI counts it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from simulate.workload.simai import EXCHANGE_KINDS, Exchange, SimaiLayer, SimaiWorkload
from topo.errors import FormatError, plural
from topo.files.text import read_lines

KIND = "HYBRID_TRANSFORMER_FWD_IN_BCKWD"
LAYER_WORDS = 12
FIRST_LAYER = "embedding_layer"
"""Begins a micro-batch."""
MAX_LAYERS = 1_000_000
EXCHANGE = re.compile(rf"({'|'.join(EXCHANGE_KINDS)})(?:_(EP|DP_EP|DP|TP))?")


def read_simai(path: str | Path, ranks: int | None = None) -> SimaiWorkload:
    """Read a workload; see `parse_simai`."""
    return parse_simai(read_lines(path), str(path), ranks)


def parse_simai(lines: Iterable[str], path: str = "workload.txt", ranks: int | None = None) -> SimaiWorkload:
    """Parse a workload; `ranks` are those of a file without ``all_gpus``, which older ones leave to the command.

    Raises
    ------
    FormatError
        With the line.
    """
    rows = ((number, text.split()) for number, text in enumerate(lines, 1) if text.strip())
    _, head = next(rows, (1, []))
    if not head or head[0] != KIND:
        raise FormatError(f"found {' '.join(head[:1])[:60] or 'nothing'}; expected {KIND}", path, 1)
    options = {key.rstrip(":"): value for key, value in zip(head[1::2], head[2::2], strict=False)}

    def option(name: str) -> int:
        value = options.get(name, "1").removesuffix(".0")  # AICB divides the bytes of `pp_comm`
        if not re.fullmatch(r"[1-9]\d{0,14}", value):
            raise FormatError(f"found {name}: {value[:20]}; expected a number above 0", path, 1)
        return int(value)

    if "all_gpus" in options:
        ranks = option("all_gpus")
    if ranks is None:
        raise FormatError("found no all_gpus; expected it, or `gpus` of the job", path, 1)
    tensor, expert = option("model_parallel_NPU_group"), option("ep")
    stages = option("pp")
    if ranks % (tensor * expert * stages):
        found = f"{ranks} ranks in groups of {tensor} times {expert}, on {plural(stages, 'stage')}"
        raise FormatError(f"found {found}; expected a multiple", path, 1)
    number, counted = next(rows, (2, []))
    if len(counted) != 1 or not re.fullmatch(r"\d{1,7}", counted[0]) or int(counted[0]) > MAX_LAYERS:
        raise FormatError(f"found {' '.join(counted)[:60]!r}; expected how many layers follow", path, number)
    layers: list[SimaiLayer] = []
    starts: list[int] = []
    for number, words in rows:
        if len(layers) == int(counted[0]):
            raise FormatError(f"found a layer more than the {counted[0]} announced", path, number)
        if len(words) != LAYER_WORDS:
            expected = f"the {LAYER_WORDS} of a layer"
            raise FormatError(f"found {plural(len(words), 'word')}; expected {expected}", path, number)
        if words[0] == FIRST_LAYER:
            starts.append(len(layers))
        forward, of_input = (_exchange(words[at : at + 3], "TP", path, number) for at in (2, 5))
        layers.append((forward, of_input, _exchange(words[8:11], "DP", path, number)))
    if len(layers) < int(counted[0]):
        raise FormatError(f"found {plural(len(layers), 'layer')}; expected {counted[0]}, as line 2 says", path, number)
    every = tuple(layers)
    if stages == 1:
        return SimaiWorkload(ranks, tensor, expert, (every,))
    each = starts[1] - starts[0] if len(starts) > 1 else len(every) - starts[0] if starts else 0
    if len(starts) != option("ga") or starts != [*range(starts[0], starts[0] + each * len(starts), each)]:
        found = f"{len(starts)} layers called {FIRST_LAYER}, or not as far apart"
        raise FormatError(f"found {found}; expected one for each of the {option('ga')} micro-batches (ga)", path, 2)
    micro_batches = tuple(every[start : start + each] for start in starts)
    before, after = every[: starts[0]], every[starts[0] + each * len(starts) :]
    chunks, sent_bytes = option("vpp"), option("pp_comm")
    return SimaiWorkload(ranks, tensor, expert, micro_batches, before, after, stages, chunks, sent_bytes)


def _exchange(words: list[str], among: str, path: str, number: int) -> Exchange:
    """Return a computation and an exchange; among whom it is where nothing else is said."""
    time, kind, size = words
    for what, value in (("time", time), ("size", size)):
        if not re.fullmatch(r"\d{1,15}", value):
            raise FormatError(f"found the {what} {value[:20]}; expected a number", path, number)
    found = EXCHANGE.fullmatch(kind)
    if found is None and kind != "NONE":
        raise FormatError(f"found the exchange {kind[:30]}; expected NONE or {', '.join(EXCHANGE_KINDS)}", path, number)
    name, said = found.groups() if found else ("", None)
    return Exchange(int(time) * 1e-9, EXCHANGE_KINDS.get(name), said or among, int(size))
