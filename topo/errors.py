"""Every error that Heddle raises on purpose, and the name that somebody meant to write.

All are a `HeddleError`. The exit code of a command is 2 for bad input, and 1 for a well-formed spec whose design cannot
be built (`DesignError`) and a fabric that an engine cannot route (`RoutingError`). Anything else that escapes is a bug
of ours: the command prints a traceback and leaves with 70.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from itertools import takewhile
from operator import index
from typing import SupportsIndex, cast

MOST_FINDINGS = 20
"""Findings that are spelled out; the rest are counted."""


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong: where, what was found, what was expected, and what to do.

    Examples
    --------
    >>> import topo
    >>> print(topo.Finding("pod.yaml:3:11", "0 nodes", "at least 1"))
    pod.yaml:3:11: found 0 nodes; expected at least 1
    >>> topo.Finding("", "8 hosts + 34 links = 42 ports: short of 2").to_dict()
    {'message': '8 hosts + 34 links = 42 ports: short of 2'}
    """

    where: str
    """``file:line:column`` of an input, or what else it is about; empty where that is unknown."""
    found: str
    """What stands there; the whole message, with its arithmetic, where `expected` is empty."""
    expected: str = ""
    """What could stand there instead."""
    hint: str = ""
    """What to do about it, the nearest valid name for example."""
    keys: tuple[str | int, ...] = field(default=(), repr=False)
    """Keys in a spec that it is about, from where it was found."""

    def __str__(self) -> str:
        text = f"found {self.found}; expected {self.expected}" if self.expected else self.found
        return (f"{self.where}: " if self.where else "") + text + (f". {self.hint}" if self.hint else "")

    def to_dict(self) -> dict[str, str]:
        """Return the finding as plain values."""
        if self.expected:
            return {"where": self.where, "found": self.found, "expected": self.expected, "hint": self.hint}
        return ({"where": self.where} if self.where else {}) | {"message": self.found}


def spell_out(items: Sequence[object], noun: str = "findings") -> list[str]:
    """Return one text for each of the first `MOST_FINDINGS` items, and one that counts the rest.

    >>> from topo.errors import spell_out
    >>> spell_out(range(1_025))[-2:]
    ['19', '1,005 more findings']
    """
    more = len(items) - MOST_FINDINGS
    return [*map(str, items[:MOST_FINDINGS]), *([f"{more:,} more {noun}"] if more > 0 else [])]


class HeddleError(Exception):
    """An error with a message for the person who runs the command.

    ``found`` is the message, or everything that is wrong. ``type(error)(*error.args)`` is the same error: so SimPy
    raises it again, and so it leaves another process.
    """

    exit_code = 2

    def __init__(self, found: str | Iterable[Finding] = "") -> None:
        self.findings = (Finding("", found),) if isinstance(found, str) else tuple(found)
        super().__init__(self.findings)

    def __str__(self) -> str:
        return "\n".join(spell_out(self.findings))


class SpecError(HeddleError):
    """A spec, workload or catalog file that says something Heddle cannot accept."""


def refusal(where: object, found: str, expected: str, hint: str = "") -> SpecError:
    """Return the error that holds this one finding."""
    return SpecError([Finding(str(where), found, expected, hint)])


class FormatError(HeddleError):
    """A file of a foreign format (a fabric, tables, GUID lists) that cannot be read."""

    def __init__(self, message: str, path: str = "", line: int = 0) -> None:
        self.path = path
        self.line = line
        super().__init__([Finding(f"{path}:{line}" if line else path, message)])
        self.args = (message, path, line)


class FlowError(HeddleError):
    """A flow that a network cannot carry: its number, for those who know the place in their file, and why."""

    def __init__(self, flow: int, reason: str) -> None:
        self.flow = flow
        self.reason = reason
        super().__init__(f"flow {flow} {reason}")
        self.args = (flow, reason)


class ToolError(HeddleError):
    """A program of the field (OpenSM, ibsim, ibdmchk) that is missing, or fails at what it was asked."""


class DesignError(HeddleError):
    """A design that cannot be built: each message holds the arithmetic; ``keys`` of the spec are what it is about."""

    exit_code = 1

    def __init__(self, found: str | Iterable[Finding] = "", *keys: str | int) -> None:
        super().__init__([Finding("", found, keys=keys)] if isinstance(found, str) else found)


class Findings:
    """Collects the findings of a design, so that one error reports all of them.

    >>> findings = Findings()
    >>> for key in ("tree", "storage"):
    ...     with findings.under(key):
    ...         raise DesignError("short of 2 ports", "spines")
    >>> findings.refuse()
    Traceback (most recent call last):
    topo.errors.DesignError: short of 2 ports
    short of 2 ports
    >>> findings.found[1].keys
    ('storage', 'spines')
    """

    def __init__(self) -> None:
        self.found: list[Finding] = []

    @contextmanager
    def under(self, *keys: str | int, said: str = "") -> Iterator[None]:
        """Collect the findings of the body, about these keys of the spec, ``said`` before each, and go on after it."""
        try:
            yield
        except DesignError as error:
            self.found += [replace(one, keys=(*keys, *one.keys), found=said + one.found) for one in error.findings]

    def refuse(self) -> None:
        """Raise what was found, each finding once; do nothing if there is none."""
        if self.found:
            raise DesignError(dict.fromkeys(self.found))


class RoutingError(HeddleError):
    """An engine that cannot route a fabric: the message says why and what could."""

    exit_code = 1


NEAR = 0.6
"""Least likeness of names of which one may be meant for the other: difflib's ratio, without regard to case."""


def nearest(word: str, names: Iterable[str]) -> str | None:
    """Return the name most like ``word``, or None when none is near.

    Of names that are near, one wins whose parts between hyphens are all near a part of the word (`tree` for
    ``nccl-tree``, not `nvls-tree`), then the likest, then the one with the longer common beginning.
    """
    word = word[:100].lower()

    def ratio(one: str, other: str) -> float:
        return SequenceMatcher(None, one, other).ratio()

    def likeness(name: str) -> tuple[bool, float, int]:
        other = name.lower()
        like, parts = ratio(word, other), word.split("-")
        whole = like >= NEAR and all(any(ratio(part, own) >= NEAR for part in parts) for own in other.split("-"))
        same = takewhile(lambda pair: pair[0] == pair[1], zip(word, other, strict=False))
        return whole, like, sum(1 for _ in same)

    best = max(sorted(names), key=likeness, default=None)
    return best if best is not None and likeness(best)[1] >= NEAR else None


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """Return ``Did you mean `QM8700`?``, or nothing when no name is near.

    Examples
    --------
    >>> import topo
    >>> topo.did_you_mean("slrum", ["slurm", "netbox"])
    'Did you mean `slurm`?'
    """
    near = nearest(word, names)
    return f"Did you mean `{near}`?" if near else ""


def whole(what: str, value: object, low: int, high: int | None = None) -> int:
    """Return a whole number within bounds, of Python or NumPy; HeddleError for anything else.

    Examples
    --------
    >>> from topo.errors import whole
    >>> whole("LMC", 9, 0, 7)
    Traceback (most recent call last):
    topo.errors.HeddleError: LMC: found 9; expected a whole number from 0 to 7
    """
    with suppress(TypeError):
        number = index(cast(SupportsIndex, value))
        if not isinstance(value, bool) and low <= number and (high is None or number <= high):
            return number
    expected = f"a whole number from {low}{'' if high is None else f' to {high:,}'}"
    raise HeddleError([Finding(what, f"{value!r:.60}", expected)])


def plural(number: int, noun: str, nouns: str = "") -> str:
    """Return a number with its noun, or the ``nouns`` of several where they are not formed with an s.

    Examples
    --------
    >>> from topo.errors import plural
    >>> plural(1, "zone"), plural(1200, "zone"), plural(0, "leaf", "leaves")
    ('1 zone', '1,200 zones', '0 leaves')
    """
    return f"{number:,} {noun if number == 1 else nouns or noun + 's'}"
