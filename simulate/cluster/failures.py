"""What a YAML file may say of failures: which parts fail, how often, for how long, and what that costs jobs."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, ValidationInfo, field_validator

from topo.failures.parts import PartKind
from topo.spec.base import SpecModel, mismatch
from topo.spec.units import Seconds

DAY_S = 86_400.0
YEAR_S = 365 * DAY_S
FLASH_CUTS = 213 * 365 / 348 / 3200
RATES: dict[PartKind, tuple[float, str]] = {
    "link": (FLASH_CUTS, "213 flash cuts of InfiniBand links from 19 April 2023 to 31 March 2024 (An et al., SC'24, "
             "arXiv 2408.14158, table VIII); that they had 3,200 links is inferred"),
    "adapter": (FLASH_CUTS, "as link: the table does not tell links of servers from others"),
    "switch": (0.081, "2 % of 180,000 switches of data centres fail within three months (Singh et al., ACM SIGCOMM CCR "
               "51(2), 2021)"),
    "server": (203 / 1250 / 183 * 365, "203 failures of main memory and GPUs of some 1,250 servers, October 2023 to "
               "March 2024 (An et al., table VII)"),
    "rack": (20 / 45, "20 failures in the first year of a cluster of 1,800 servers, 40 in a rack (J. Dean, Google I/O "
             "2008): racks of another age"),
}  # fmt: skip
"""Published failures of a part in a year, with their source; other kinds have none."""


class FailingPart(SpecModel):
    """How parts of one kind fail."""

    a_year: Annotated[float, Field(ge=0, le=10_000, strict=False)] | None = None
    """Failures of one part in a year; by default a published rate, if there is one."""
    down: Annotated[Seconds, Field(gt=0)]
    """Time from a failure until the part works again, if a spare is in stock."""
    spares: Annotated[int, Field(ge=0, le=100_000)] | None = None
    """Spares in stock; omit this for a part that is repaired in its place."""
    restock: Annotated[Seconds, Field(gt=0)] | None = None
    """Time until a used spare is replaced."""

    @field_validator("restock")
    @classmethod
    def _of_spares(cls, restock: float | None, info: ValidationInfo) -> float | None:
        if restock is not None and info.data.get("spares") is None:
            raise mismatch("`spares` beside it")
        return restock


class FailingJobs(SpecModel):
    """Jobs that run all the time, on neighbouring compute servers."""

    nodes: Annotated[int, Field(ge=1, le=49_151)]
    """Servers of each job; the last job may have fewer."""
    checkpoint: Annotated[Seconds, Field(gt=0)]
    """Time between checkpoints; a job that fails returns to the last one."""
    restart: Seconds
    """Time from a failure until the job computes again."""
    cut_ends_job: bool
    """Whether a job fails when one of its paths is cut; true if its library does not wait for new paths."""


class FailureSpec(SpecModel):
    """Parts that fail, and what is asked about it."""

    parts: dict[PartKind, FailingPart] = Field(default_factory=dict)
    """Kinds of parts that fail, and how often."""
    days: Annotated[float, Field(gt=0, le=36_500, strict=False)] = 365.0
    """Simulated days of a point."""
    jobs: FailingJobs | None = None
    """Jobs that run all the time; by default none."""
    states: Annotated[int, Field(ge=0, le=10_000)] = 3
    """Number of random instants with a failed part for which tables are computed and measured."""
    batch: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Number of transceivers or cables in a batch."""

    @field_validator("parts")
    @classmethod
    def _rates(cls, parts: dict[PartKind, FailingPart]) -> dict[PartKind, FailingPart]:
        for kind, part in parts.items():
            if part.a_year is None and kind not in RATES:
                raise mismatch("`a_year`, as no rate is published", kind)
            if part.spares is not None and part.restock is None:
                raise mismatch("`restock` beside `spares`", kind)
        return parts


def rate_a_year(kind: PartKind, part: FailingPart) -> float:
    """Return the failures of one part in a year."""
    return RATES[kind][0] if part.a_year is None else part.a_year
