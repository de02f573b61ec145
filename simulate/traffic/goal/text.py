"""GOAL schedules as text: the operations of each rank and what they wait for.

The grammar is that of LogGOPSim (``txt2bin.re``): ``num_ranks n``, then for each rank ``rank r { ... }`` with one
statement a line::

    l1: send 1048576b to 1 tag 7     // any of: tag t, cpu c, nic n, in this order
    l2: recv 1048576b from 1 tag 8   // from -1: any source; tag -1: any tag
    l3: calc 5000                    // units of time, nanoseconds by convention
    l3 requires l1                   // begins when l1 has ended
    l3 irequires l2                  // begins when l2 has begun

Labels are local to a rank and stand before their use. ``//`` and ``/* */`` are comments.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from simulate.traffic.goal.binary import parse_goal_binary
from simulate.traffic.goal.schedule import ANY, MAX_SIZE, Goal, Op
from topo.budget import GOAL_BYTES, GOAL_OPERATIONS, GOAL_RANKS
from topo.errors import FormatError, did_you_mean
from topo.files.text import read_file, read_lines

MAX_NUMBER = 2**32 - 1
"""Greatest tag, and last cpu and nic as far as the grammar goes."""


INTEGER = r"(-?\d{1,20})"
STATEMENT = re.compile(
    rf"(?:([A-Za-z]\w*)\s*:\s*)?"
    rf"(?:(send|recv)\s*{INTEGER}\s*b\s*(to|from)\s*{INTEGER}"
    rf"(?:\s*tag\s*{INTEGER})?(?:\s*cpu\s*{INTEGER})?(?:\s*nic\s*{INTEGER})?"
    rf"|calc\s*{INTEGER}(?:\s*cpu\s*{INTEGER})?)",
    re.ASCII,
)
DEPENDENCY = re.compile(r"([A-Za-z]\w*)\s+(i?requires)\s+([A-Za-z]\w*)", re.ASCII)
OPENING = re.compile(rf"rank\s*{INTEGER}\s*\{{\s*(.*)", re.ASCII)
COMMENT = re.compile(r"//.*|/\*.*?(?:\*/|(?P<open>$))")
COUNT = re.compile(rf"num_ranks\s*{INTEGER}", re.ASCII)


def read_goal(path: str | Path) -> Goal:
    """Read a schedule from a file: binary when its name ends in ``.bin``, else text, unpacked when in ``.gz``."""
    if Path(path).suffix == ".bin":
        return parse_goal_binary(read_file(Path(path), GOAL_BYTES), str(path))
    return parse_goal(read_lines(path), str(path))


def parse_goal(lines: Iterable[str], path: str = "goal") -> Goal:
    """Parse a schedule.

    Raises
    ------
    FormatError
        With the line, what was found and what was expected.
    """
    parser = _Parser(path)
    for number, text in _without_comments(lines, path):
        parser.number = number
        parser.take(text)
    return parser.finish()


def format_goal(goal: Goal) -> str:
    """Return the text of a schedule; labels count the operations of a rank from 1."""
    first = np.searchsorted(goal.rank, np.arange(goal.n_ranks + 1))
    label = (np.arange(len(goal)) - first[goal.rank] + 1).tolist()
    waits: list[list[str]] = [[] for _ in range(goal.n_ranks)]
    for word, pairs in (("requires", goal.requires), ("irequires", goal.irequires)):
        for (waiter, awaited), rank in zip(pairs.tolist(), goal.rank[pairs[:, 0]].tolist(), strict=True):
            waits[rank].append(f"l{label[waiter]} {word} l{label[awaited]}")
    columns = (goal.op, goal.size, goal.peer, goal.tag, goal.cpu, goal.nic)
    out = [f"num_ranks {goal.n_ranks}"]
    for rank in range(goal.n_ranks):
        mine = slice(int(first[rank]), int(first[rank + 1]))
        out.append(f"\nrank {rank} {{")
        for at, op, size, peer, tag, cpu, nic in zip(
            label[mine], *(column[mine].tolist() for column in columns), strict=True
        ):
            cores = (f" cpu {cpu}" if cpu else "") + (f" nic {nic}" if nic else "")
            if op == Op.CALC:
                out.append(f"l{at}: calc {size}{cores}")
            else:
                out.append(
                    f"l{at}: {'recv' if op else 'send'} {size}b {'from' if op else 'to'} {peer} tag {tag}{cores}"
                )
        out += [*waits[rank], "}"]
    return "\n".join(out) + "\n"


def _without_comments(lines: Iterable[str], path: str) -> Iterator[tuple[int, str]]:
    """Yield number and text of each line that says something."""
    open_since = 0
    for number, line in enumerate(lines, 1):
        if open_since:
            _, closed, line = line.partition("*/")
            if not closed:
                continue
            open_since = 0
        if "/" in line:
            open_since = number if any(comment["open"] is not None for comment in COMMENT.finditer(line)) else 0
            line = COMMENT.sub(" ", line)
        if line.strip():
            yield number, line.strip()
    if open_since:
        raise FormatError("found /* without */; expected the end of the comment", path, open_since)


class _Parser:
    """The schedule so far."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.number = 1  # of the line
        self.n_ranks = 0
        self.rank = -1
        self.opened = 0
        self.seen: set[int] = set()
        self.labels: dict[str, int] = {}
        names = ("op", "rank", "size", "peer", "tag", "cpu", "nic", "line")
        self.columns = {name: array("q") for name in names}
        self.pairs = {"requires": array("q"), "irequires": array("q")}

    def take(self, text: str) -> None:
        if self.n_ranks == 0:
            match = COUNT.fullmatch(text)
            if match is None:
                raise self.refusal(f'"{text[:80]}"', "num_ranks and how many there are")
            self.n_ranks = self.bounded(match.group(1), "num_ranks", 1, GOAL_RANKS.limit)
        elif self.rank < 0:
            match = OPENING.fullmatch(text)
            if match is None:
                raise self.refusal(f'"{text[:80]}"', "rank and its number, then {")
            self.rank = self.bounded(match.group(1), "rank", 0, self.n_ranks - 1)
            if self.rank in self.seen:
                raise self.refusal(f"rank {self.rank} a second time", "each rank once")
            self.seen.add(self.rank)
            self.opened, self.labels = self.number, {}
            if match.group(2):
                self.take(match.group(2))
        elif text == "}":
            self.rank = -1
        elif match := STATEMENT.fullmatch(text):
            self.statement(match)
        elif match := DEPENDENCY.fullmatch(text):
            waiter, word, awaited = match.groups()
            self.pairs[word].extend((self.label(waiter), self.label(awaited)))
            if len(self.pairs[word]) > 2 * GOAL_OPERATIONS.limit:
                raise GOAL_OPERATIONS.exceeded(self.path, self.number)
        else:
            raise self.refusal(f'"{text[:80]}"', "send, recv, calc, a dependency between labels, or }")

    def statement(self, match: re.Match[str]) -> None:
        name, message, size, direction, peer, tag, cpu, nic, time, calc_cpu = match.groups()
        if message and (message == "send") != (direction == "to"):
            raise self.refusal(f'"{match.group()[:80]}"', f"{message} ... {'to' if message == 'send' else 'from'}")
        if name is not None:
            if name in self.labels:
                raise self.refusal(f"the label {name[:60]} a second time in rank {self.rank}", "each label once")
            self.labels[name] = len(self.columns["op"])
        low = ANY if message == "recv" else 0
        row = (
            Op[message.upper()] if message else Op.CALC,
            self.rank,
            self.bounded(size or time, "size" if message else "calc", 0, MAX_SIZE),
            self.bounded(peer, "rank", low, self.n_ranks - 1) if message else ANY,
            self.bounded(tag or "0", "tag", low, MAX_NUMBER),
            self.bounded(cpu or calc_cpu or "0", "cpu", 0, MAX_NUMBER),
            self.bounded(nic or "0", "nic", 0, MAX_NUMBER),
            self.number,
        )
        for column, value in zip(self.columns.values(), row, strict=True):
            column.append(value)
        if len(self.columns["op"]) > GOAL_OPERATIONS.limit:
            raise GOAL_OPERATIONS.exceeded(self.path, self.number)

    def label(self, name: str) -> int:
        if name not in self.labels:
            hint = did_you_mean(name, [*self.labels][-5000:])
            expected = f"one that stands before, in rank {self.rank}. {hint}"
            raise self.refusal(f"the label {name[:60]}", expected)
        return self.labels[name]

    def bounded(self, text: str, what: str, low: int, high: int) -> int:
        value = int(text)
        if not low <= value <= high:
            raise self.refusal(f"{what} {text}", f"{low} to {high}")
        return value

    def refusal(self, found: str, expected: str) -> FormatError:
        return FormatError(f"found {found}; expected {expected}", self.path, self.number)

    def finish(self) -> Goal:
        if self.n_ranks == 0:
            self.number = 1
            raise self.refusal("an empty file", "num_ranks and how many there are")
        if self.rank >= 0:
            raise FormatError(f"found rank {self.rank} without }} at its end", self.path, self.opened)
        return Goal.of(self.n_ranks, **self.columns, **self.pairs, path=self.path)
