"""Names in a spec: new ones, and those that stand for a model of the catalog, a group of nodes, a routing engine.

What may be named elsewhere is known only when a spec is read, so it comes as the validation's context, such as
``{"switch": ["QM8700", ...]}``. Without a context any name passes, and whoever looks it up refuses it.
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field, ValidationInfo
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from topo.nearest import did_you_mean


def known(kind: str) -> AfterValidator:
    """Refuse a name that the context does not have among its names of this kind."""

    def check(name: str, info: ValidationInfo) -> str:
        names = (info.context or {}).get(kind)
        if names is not None and name not in names:
            hint = did_you_mean(name, names) or f"There is {', '.join(names) or 'none'}."
            context = {"expected": f"the name of a {kind}", "hint": hint}
            raise PydanticCustomError("unknown_name", "{expected}. {hint}", context)
        return name

    return AfterValidator(check)


def spelled(pattern: str, expected: str) -> tuple[AfterValidator, FieldInfo]:
    """Refuse a name that does not match, and tell editors the pattern."""

    def check(name: str) -> str:
        if not re.fullmatch(pattern, name):
            raise PydanticCustomError("name", "{expected}", {"expected": expected})
        return name

    return AfterValidator(check), Field(json_schema_extra={"pattern": f"^{pattern}$"})


Name = Annotated[str, *spelled("[a-z]([a-z0-9-]{0,30}[a-z0-9])?", "lower-case letters, digits and dashes, at most 32")]
"""What servers, switches and exports can be called after."""
GroupKey = Annotated[
    str, *spelled("[a-z]([a-z0-9-]{0,30}[a-z])?", "lower-case letters, digits and dashes, at most 32, a letter last")
]
"""As `Name`; a letter is last, since the number of a server follows."""
SwitchName = Annotated[str, known("switch")]
"""A switch of the catalog."""
NodeName = Annotated[str, known("node model")]
"""A server of the catalog."""
GroupName = Annotated[str, known("node group")]
"""A group under the spec's ``nodes``."""
EngineName = Annotated[str, known("routing engine")]
"""``auto``, or a routing engine."""
