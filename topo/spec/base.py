"""What specs are made of: the closed base model, names, roles of servers, classes of traffic.

What may be named elsewhere (a switch of the catalog, a group of nodes, a routing engine) is known only when a spec is
read, so it comes as the validation's context, such as ``{"switch": ["QM8700", ...]}``. Without a context any name
passes, and whoever looks it up refuses it.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from functools import cache
from itertools import pairwise
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    PlainSerializer,
    ValidationInfo,
    WithJsonSchema,
)
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError

from topo.errors import did_you_mean
from topo.fabric import HOST_ROLES, Role


class SpecModel(BaseModel):
    """A mapping in a spec: unknown keys are refused, values keep their YAML type, nothing changes after reading.

    Examples
    --------
    >>> import topo
    >>> class Study(topo.SpecModel):
    ...     base: str
    >>> Study(base="lab-20.yaml").base
    'lab-20.yaml'
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False, serialize_by_alias=True)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Describe each field by the docstring below it.

        ``use_attribute_docstrings`` reads them from the source whenever a model is imported: a tenth of `plan check`.
        """
        found = handler(schema)
        fields = handler.resolve_ref_schema(found).get("properties", {})
        for model in cls.__mro__[: cls.__mro__.index(SpecModel)]:
            for name, text in _field_docs(model).items():
                key = cls.model_fields[name].alias or name if name in cls.model_fields else name
                if key in fields:
                    fields[key].setdefault("description", text)
        return found


@cache
def _field_docs(model: type) -> dict[str, str]:
    """Return the docstrings below the annotated names in the body of a class; none where it has no source."""
    try:
        (body,) = ast.parse(textwrap.dedent(inspect.getsource(model))).body
    except (OSError, TypeError):
        return {}
    assert isinstance(body, ast.ClassDef)
    found = {}
    for field, said in pairwise(body.body):
        match field, said:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                found[name] = inspect.cleandoc(text)
    return found


def mismatch(expected: str, found: str = "", hint: str = "") -> PydanticCustomError:
    """Return the error of a value that a spec cannot have; ``found`` is what stands there by default."""
    text = "{found}; expected {expected}" if found else "{expected}"
    return PydanticCustomError("mismatch", text, {"expected": expected, "found": found, "hint": hint})


MOST_LISTED = 40
"""Names that a message lists where none is near."""


def known(kind: str) -> AfterValidator:
    """Refuse a name that the context does not have among its names of this kind, or has among those excluded."""

    def check(name: str, info: ValidationInfo) -> str:
        context = info.context or {}
        names = context.get(kind)
        if name in context.get(f"excluded {kind}", ()):
            raise mismatch(f"the name of a {kind} that `exclude` does not list")
        if names is not None and name not in names:
            listed = f"There is {', '.join(names) or 'none'}." if len(names) <= MOST_LISTED else ""
            raise mismatch(f"the name of a {kind}", hint=did_you_mean(name, names) or listed)
        return name

    return AfterValidator(check)


def spelled(pattern: str, expected: str) -> tuple[AfterValidator, FieldInfo]:
    """Refuse a name that does not match, and tell editors the pattern."""

    def check(name: str) -> str:
        if not re.fullmatch(pattern, name):
            raise mismatch(expected)
        return name

    return AfterValidator(check), Field(json_schema_extra={"pattern": f"^{pattern}$"})


JOB_NAME = "[A-Za-z0-9]([A-Za-z0-9._-]{0,62}[A-Za-z0-9])?"
JobName = Annotated[str, *spelled(JOB_NAME, "letters, digits, dots, dashes and underscores, at most 64")]
"""Name of a job, as schedulers have them; it becomes no name of a host."""
Name = Annotated[str, *spelled("[a-z]([a-z0-9-]{0,30}[a-z0-9])?", "lower-case letters, digits and dashes, at most 32")]
"""What servers, switches and exports can be called after."""
GROUP_KEY = "[a-z]([a-z0-9-]{0,30}[a-z])?"
GroupKey = Annotated[str, *spelled(GROUP_KEY, "lower-case letters, digits and dashes, at most 32, a letter last")]
"""As `Name`; a letter is last, since the number of a server follows."""
SwitchName = Annotated[str, known("switch")]
"""A switch of the catalog."""
PartName = Annotated[str, known("part")]
"""A model of the catalog, or a cable by its speed, such as ``4xHDR``."""
NodeName = Annotated[str, known("node model")]
"""A server of the catalog."""
AdapterName = Annotated[str, known("adapter")]
"""An adapter of the catalog."""
GroupName = Annotated[str, known("node group")]
"""A group under the spec's ``nodes``."""
EngineName = Annotated[str, known("routing engine")]
"""``auto``, or a routing engine."""


def _role(value: Any) -> Role:
    if isinstance(value, Role):
        return value
    if not isinstance(value, str) or value not in HOST_ROLES:
        raise mismatch(f"one of {', '.join(HOST_ROLES)}", hint=did_you_mean(str(value), HOST_ROLES))
    return HOST_ROLES[value]


ServerRole = Annotated[
    Role,
    BeforeValidator(_role),
    PlainSerializer(lambda role: role.name.lower(), when_used="json"),
    WithJsonSchema({"enum": list(HOST_ROLES)}),
]
"""What servers are for: ``compute``, ``storage`` or ``management``."""


class TrafficClass(SpecModel):
    """Traffic with a service level and a virtual lane of its own."""

    name: Name
    """Name of the class."""
    sl: Annotated[int, Field(ge=0, le=15)]
    """Service level."""
    vl: Annotated[int, Field(ge=0, le=14)]
    """Data lane that the service level maps to; lane 15 is management's."""
    weight: Annotated[int, Field(ge=1, le=255)]
    """Share of the lane in the arbitration, in units of 64 bytes a turn."""
    roles: tuple[ServerRole, ...] = Field(default=(), strict=False)
    """Servers whose traffic, in either direction, belongs to the class; without them, applications choose it."""
