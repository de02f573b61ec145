"""What a sweep's YAML may say, and the points that follow from it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

import topo
from plan.inputs import SPEC_SUFFIXES
from simulate.cluster import FailureSpec
from topo import PART_KINDS, Finding, HeddleError, PartKind, SpecError, SpecModel

FAILED = tuple(f"failed.{kind}" for kind in PART_KINDS)
"""Parameters that say what fails: so many parts, or the name of one."""
SPECIAL = ("workload", "seed", "tables", "ecmp", *FAILED)
"""Parameters that are no path in the spec."""
Stage = Literal["design", "route", "play", "year"]
Point = dict[str, Any]
"""Value of each parameter."""


class Span(SpecModel):
    """Numbers from ``low`` to ``high``: so many steps, both ends included, or drawn evenly for a sample."""

    low: float
    """First value."""
    high: float
    """Last value."""
    steps: Annotated[int, Field(ge=2, le=10_000)] | None = None
    """Number of values; not needed for a sample."""

    def values(self) -> list[float]:
        """Return the steps."""
        found = np.linspace(self.low, self.high, self.steps or 2).tolist()
        return [int(value) if float(value).is_integer() else value for value in found]


class SweepSpec(SpecModel):
    """A sweep: a base, and what to change in it."""

    base: str
    """Spec, or a dump of a real fabric; relative to the sweep."""
    stages: Annotated[list[Stage], Field(min_length=1, default_factory=lambda: ["design", "route"])]
    """What is computed for each point: parts, prices and power; tables with their proof; the workload; a year of
    failures."""
    parameters: Annotated[dict[str, list[Any] | Span | Literal["each"]], Field(min_length=1)]
    """By path in the spec, such as ``network.leaves``, or ``workload``, ``seed``, ``tables``, ``ecmp`` or
    ``failed.KIND``: values, or a span of numbers. Of ``failed.KIND`` also ``each``: nothing, and then each part of the
    kind alone."""
    failures: FailureSpec | None = None
    """How parts fail, of the stage ``year``; jobs that failures hit."""
    sample: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Number of random points, instead of all combinations."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Seed of the sample."""
    better: Annotated[dict[str, Literal["low", "high"]], Field(default_factory=dict)]
    """Figures by which points are compared, and which way is better."""

    def points(self, parts: Callable[[PartKind], list[str]] = lambda kind: []) -> list[Point]:
        """Return all points in order, each once; ``parts`` names the parts of a kind that the base has."""
        given: dict[str, list[Any] | Span] = {}
        for name, values in self.parameters.items():
            given[name] = [0, *parts(PART_KINDS[FAILED.index(name)])] if isinstance(values, str) else values
        names, limit = list(given), topo.budgets()["sweep-points"]
        if self.sample is not None:
            rng = np.random.default_rng(self.seed)
            drawn = [{name: _draw(given[name], rng) for name in names} for _ in range(self.sample)]
        else:
            for name, values in given.items():
                if isinstance(values, Span) and values.steps is None:
                    raise HeddleError(f"parameters.{name}: found a span without steps; expected steps, or a sample")
            axes = [values.values() if isinstance(values, Span) else values for values in given.values()]
            if np.prod([float(len(axis)) for axis in axes]) > limit.limit:
                raise HeddleError(f"found more than {limit.limit:,} points; expected {limit}, or a sample")
            drawn = [dict(zip(names, values, strict=True)) for values in itertools.product(*axes)]
        return list({json.dumps(point, sort_keys=True): point for point in drawn}.values())


def _draw(values: list[Any] | Span, rng: np.random.Generator) -> Any:
    if isinstance(values, Span):
        return float(rng.uniform(values.low, values.high)) if values.steps is None else values.values()[
            int(rng.integers(values.steps))
        ]  # fmt: skip
    return values[int(rng.integers(len(values)))]


def read_sweep(path: Path) -> tuple[SweepSpec, Any, Path]:
    """Return a sweep, its base as plain values (None of a dump), and the file of the base."""
    document = topo.read_yaml(path)
    sweep = topo.validate(SweepSpec, document)
    check_failures(path, sweep)
    base = path.parent / sweep.base
    if base.suffix not in SPEC_SUFFIXES:
        astray = [name for name in sweep.parameters if name not in SPECIAL]
        if astray or "design" in sweep.stages:
            found = f"the parameter {astray[0]!r}" if astray else "the stage design"
            expected = f"stages route, play and year; {', '.join(SPECIAL)}"
            raise SpecError([Finding(str(path), f"{found}, of a dump", expected)])
        return sweep, None, base
    value = topo.read_yaml(base).value
    for name in sweep.parameters:
        if name not in SPECIAL:
            check_path(document.where("parameters", name), value, name.split("."))
    return sweep, value, base


def check_failures(path: Path, sweep: SweepSpec) -> None:
    """Refuse a year without parts that fail, a kind of part that there is not, and `each` of anything else."""
    if "year" in sweep.stages and not (sweep.failures and sweep.failures.parts):
        raise SpecError([Finding(str(path), "the stage year", "`failures` with `parts` beside it")])

    def refused(name: str, found: str, expected: str, hint: str = "") -> SpecError:
        return SpecError([Finding(f"{path}: parameters{name}", found, expected, hint)])

    for name, values in sweep.parameters.items():
        if name.startswith("failed.") and name not in FAILED:
            raise refused("", f'"{name}"', f"one of {', '.join(FAILED)}", topo.did_you_mean(name, FAILED))
        listed = isinstance(values, list)
        if name == "tables" and not (listed and set(map(str, values)) <= {"anew", "kept", "repaired"}):
            raise refused(".tables", f"{values}", "some of anew, kept and repaired")
        for value in values if listed else [values]:
            if name == "ecmp" and value != "spray" and (type(value) is not int or value < 1):
                raise refused(".ecmp", f"{value!r}", "numbers of queue pairs from 1, and spray")
            if name == "seed" and listed and (type(value) is not int or value < 0):
                raise refused(".seed", f"{value!r}", "whole numbers from 0")
        if isinstance(values, str) and name not in FAILED:
            raise refused(f".{name}", values, "values, or a span; `each` is of failed.KIND")
        if name in FAILED and listed and "each" in values:
            raise refused(f".{name}", "`each` in a list", f"parts by number or name, or `{name}: each`")
        if name in FAILED and "year" in sweep.stages:
            expected = "`failures.parts`, which says what fails in a year"
            raise refused("", f'"{name}", of the stage year', expected)


def check_path(where: str, value: Any, keys: Sequence[str]) -> None:
    """Refuse a path whose parents are not in the base; the last key may be new. ``where`` is the place of the path."""
    for at, key in enumerate(keys):
        inside = isinstance(value, dict) or (isinstance(value, list) and key.isdecimal() and int(key) < len(value))
        if not inside or (at + 1 < len(keys) and isinstance(value, dict) and key not in value):
            known = list(value) if isinstance(value, dict) else []
            hint = topo.did_you_mean(key, [*known, *SPECIAL])
            if not hint and known:
                under = f" under `{'.'.join(keys[:at])}`" if at else ""
                hint = f"Or write `{': {'.join(keys[at:])}: ...{'}' * (len(keys) - at - 1)}` there{under} first."
            raise SpecError([Finding(where, f'"{".".join(keys)}"', "a path in the base", hint)])
        value = value.get(key) if isinstance(value, dict) else value[int(key)]


def with_values(value: Any, point: Point) -> Any:
    """Return the base with the values of a point in their places."""
    changed = json.loads(json.dumps(value))
    for name, new in point.items():
        if name not in SPECIAL:
            *parents, last = name.split(".")
            inside = changed
            for key in parents:
                inside = inside[int(key)] if isinstance(inside, list) else inside[key]
            inside[int(last) if isinstance(inside, list) else last] = new
    return changed


def is_figure(value: object) -> bool:
    """Whether a figure of a point is a number."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)
