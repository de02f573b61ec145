"""Every error that Heddle raises on purpose, and the name that somebody meant to write.

::

    HeddleError                exit 2  bad input, unless a subclass says otherwise
    ├── SpecError              exit 2  a spec or catalog with findings, each at its line and column
    ├── FormatError            exit 2  a file of another format that cannot be read, with its line
    ├── FlowError              exit 2  a flow that a network cannot carry, with its number
    ├── ToolError              exit 2  a program of the field that is missing, or fails at what it was asked
    ├── DesignError            exit 1  a well-formed spec whose design cannot be built (ports run out, ...)
    └── RoutingError           exit 1  an engine cannot route this fabric

Anything else that escapes is a bug of ours: the command prints a traceback and leaves with 70.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import takewhile

MOST_FAULTS = 20
"""Faults of a design that are spelled out; the rest are counted."""
MOST_FINDINGS = 100
"""Findings in a file, likewise."""


class HeddleError(Exception):
    """An error with a message for the person who runs the command."""

    exit_code = 2


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong with an input file, and where."""

    where: str
    """``file:line:column``, as far as it is known."""
    found: str
    """What stands there."""
    expected: str
    """What could stand there instead."""
    hint: str = ""
    """What to do about it, the nearest valid name for example."""

    def __str__(self) -> str:
        text = f"{self.where}: found {self.found}; expected {self.expected}"
        return f"{text}. {self.hint}" if self.hint else text


class SpecError(HeddleError):
    """A spec, workload or catalog file that says something Heddle cannot accept."""

    def __init__(self, findings: list[Finding]) -> None:
        self.findings = findings
        super().__init__(_spelled(findings, MOST_FINDINGS, "findings"))


def _spelled(items: Sequence[object], most: int, noun: str) -> str:
    """Return one line for each of the first items, and how many more there are."""
    more = len(items) - most
    return "\n".join([*map(str, items[:most]), *([f"{more:,} more {noun}"] if more > 0 else [])])


def refusal(where: object, found: str, expected: str, hint: str = "") -> SpecError:
    """Return the error that holds this one finding."""
    return SpecError([Finding(str(where), found, expected, hint)])


class FormatError(HeddleError):
    """A file of a foreign format (a fabric, tables, GUID lists) that cannot be read."""

    def __init__(self, message: str, path: str = "", line: int = 0) -> None:
        self.path = path
        self.line = line
        self.reason = message
        where = f"{path}:{line}: " if line else f"{path}: " if path else ""
        super().__init__(where + message)


class FlowError(HeddleError):
    """A flow that a network cannot carry: its number, for those who know the place in their file, and why."""

    def __init__(self, flow: int, reason: str) -> None:
        self.flow = flow
        self.reason = reason
        super().__init__(f"flow {flow} {reason}")


class ToolError(HeddleError):
    """A program of the field (OpenSM, ibsim, ibdmchk) that is missing, or fails at what it was asked."""


@dataclass(frozen=True)
class Fault:
    """One reason why a design cannot be built."""

    text: str
    """With the arithmetic."""
    at: tuple[str | int, ...] = ()
    """Keys in the spec that it is about, from where it was found."""
    where: str = ""
    """``file:line:column`` of those keys, as far as it is known."""

    def __str__(self) -> str:
        return f"{self.where}: {self.text}" if self.where else self.text


class DesignError(HeddleError):
    """A design that cannot be built, with all its faults: each message holds the arithmetic."""

    exit_code = 1

    def __init__(self, text: str = "", *at: str | int, faults: Iterable[Fault] = ()) -> None:
        self.faults = tuple(faults) or (Fault(text, at),)
        super().__init__(_spelled(self.faults, MOST_FAULTS, "faults"))


class Faults:
    """Collects the faults of a design, so that they are told all at once.

    Examples
    --------
    >>> faults = Faults()
    >>> for key in ("tree", "storage"):
    ...     with faults.under(key):
    ...         raise DesignError("short of 2 ports", "spines")
    >>> faults.refuse()
    Traceback (most recent call last):
    topo.errors.DesignError: short of 2 ports
    short of 2 ports
    >>> faults.found[1].at
    ('storage', 'spines')
    """

    def __init__(self) -> None:
        self.found: list[Fault] = []

    @contextmanager
    def under(self, *keys: str | int) -> Iterator[None]:
        """Keep the faults of what is done here, which is about these keys, and go on."""
        try:
            yield
        except DesignError as error:
            self.found += [replace(fault, at=(*keys, *fault.at)) for fault in error.faults]

    def refuse(self) -> None:
        """Raise what was found, if anything was."""
        if self.found:
            raise DesignError(faults=dict.fromkeys(self.found))


class RoutingError(HeddleError):
    """An engine that cannot route a fabric: the message says why and what could."""

    exit_code = 1


def nearest(word: str, names: Iterable[str], *, at_least: float = 0.6) -> str | None:
    """Return the name most like ``word``, or None when none is at least so like it (0 to 1).

    Likeness is difflib's ratio without regard to case; among equals the longer common beginning wins.
    """
    word = word[:100].lower()

    def likeness(name: str) -> tuple[float, int]:
        other = name.lower()
        same = takewhile(lambda pair: pair[0] == pair[1], zip(word, other, strict=False))
        return SequenceMatcher(None, word, other).ratio(), sum(1 for _ in same)

    best = max(sorted(names), key=likeness, default=None)
    return best if best is not None and likeness(best)[0] >= at_least else None


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


def plural(number: int, noun: str, nouns: str = "") -> str:
    """Return a number with its noun: ``1 zone``, ``1,200 zones``.

    Parameters
    ----------
    nouns : str
        The noun of several, where it is not formed with an s.

    Examples
    --------
    >>> from topo.errors import plural
    >>> plural(1, "zone"), plural(1200, "zone"), plural(0, "leaf", "leaves")
    ('1 zone', '1,200 zones', '0 leaves')
    """
    return f"{number:,} {noun if number == 1 else nouns or noun + 's'}"
