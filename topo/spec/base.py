"""The base of everything that a YAML file may say: strict, closed and frozen."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class SpecModel(BaseModel):
    """A mapping in a spec: unknown keys are refused, values keep their YAML type, nothing changes after reading."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, use_attribute_docstrings=True
    )
