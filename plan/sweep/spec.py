"""What a sweep's YAML may say, and the points that follow from it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from topo import Finding, HeddleError, SpecError, SpecModel, budgets, did_you_mean, read_yaml, validate

SPECIAL = ("workload", "seed", "failed_links", "failed_switches", "tables")
"""Parameters that are no path in the spec."""
Stage = Literal["design", "route", "play"]
Point = dict[str, Any]
"""Value of each parameter."""


class Span(SpecModel):
    """Numbers from ``low`` to ``high``: so many steps, both ends included, or drawn evenly for a sample."""

    low: float
    """The first."""
    high: float
    """The last."""
    steps: Annotated[int, Field(ge=2, le=10_000)] | None = None
    """How many; a sample needs none."""

    def values(self) -> list[float]:
        """Return the steps."""
        found = np.linspace(self.low, self.high, self.steps or 2).tolist()
        return [int(value) if float(value).is_integer() else value for value in found]


class SweepSpec(SpecModel):
    """A sweep: a base, and what to change in it."""

    base: str
    """Spec, or a dump of a real fabric; relative to the sweep."""
    stages: Annotated[list[Stage], Field(min_length=1, default_factory=lambda: ["design", "route"])]
    """What is computed for each point: parts, prices and power; tables with their proof; the workload."""
    parameters: Annotated[dict[str, list[Any] | Span], Field(min_length=1)]
    """By path in the spec, such as ``network.leaves``, or one of `SPECIAL`: values, or a span of numbers."""
    sample: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """So many random points in place of all combinations."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Of the sample."""
    better: Annotated[dict[str, Literal["low", "high"]], Field(default_factory=dict)]
    """Figures by which points are compared, and which way is better."""

    def points(self) -> list[Point]:
        """Return all points in order, each once.

        Raises
        ------
        HeddleError
            When there are more than the budget allows, or a span has neither steps nor a sample.
        """
        names, limit = list(self.parameters), budgets()["sweep-points"]
        if self.sample is not None:
            rng = np.random.default_rng(self.seed)
            drawn = [{name: _draw(self.parameters[name], rng) for name in names} for _ in range(self.sample)]
        else:
            for name, values in self.parameters.items():
                if isinstance(values, Span) and values.steps is None:
                    raise HeddleError(f"parameters.{name}: found a span without steps; expected steps, or a sample")
            axes = [values.values() if isinstance(values, Span) else values for values in self.parameters.values()]
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
    """Read a sweep and its base.

    Returns
    -------
    tuple
        The sweep; the base spec as plain values, None of a dump; and the file of the base.

    Raises
    ------
    SpecError
        When either is not as it must be, or a parameter is no path in the base.
    """
    sweep = validate(SweepSpec, read_yaml(path))
    base = path.parent / sweep.base
    if base.suffix not in (".yaml", ".yml"):
        astray = [name for name in sweep.parameters if name not in SPECIAL]
        if astray or "design" in sweep.stages:
            found = f"the parameter {astray[0]!r}" if astray else "the stage design"
            raise SpecError([Finding(str(path), f"{found}, of a dump", f"stages route and play; {', '.join(SPECIAL)}")])
        return sweep, None, base
    value = read_yaml(base).value
    for name in sweep.parameters:
        if name not in SPECIAL:
            check_path(path, value, name.split("."))
    return sweep, value, base


def check_path(path: Path, value: Any, keys: Sequence[str]) -> None:
    """Refuse a path whose parents are not in the base; the last key may be new.

    Raises
    ------
    SpecError
        With the key that is not there.
    """
    for at, key in enumerate(keys):
        inside = isinstance(value, dict) or (isinstance(value, list) and key.isdecimal() and int(key) < len(value))
        if not inside or (at + 1 < len(keys) and isinstance(value, dict) and key not in value):
            known = list(value) if isinstance(value, dict) else []
            hint = did_you_mean(key, [*known, *SPECIAL])
            raise SpecError([Finding(f"{path}: parameters", f'"{".".join(keys)}"', "a path in the base", hint)])
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
