"""Validates a YAML document against a model, and says of every error where it stands and what was expected there.

pydantic names the place of an error by a path of keys. Two walks along that path, through the document and through
the model's JSON Schema, give its line and column, and the names and meaning of what could stand there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from topo.errors import Finding, SpecError
from topo.formats.yaml import Document, Node, describe
from topo.nearest import did_you_mean

MAX_FINDINGS = 20
"""Findings of one file that are spelled out; the rest are counted."""

Schema = dict[str, Any]
M = TypeVar("M", bound=BaseModel)

TYPES = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "tuple_type": "a list",
    "list_type": "a list",
}
"""What was expected, by pydantic's type of error."""
BOUNDS = {
    "greater_than": ("gt", "more than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
    "too_long": ("max_length", "at most"),
    "too_short": ("min_length", "at least"),
    "string_too_long": ("max_length", "at most"),
    "string_too_short": ("min_length", "at least"),
}
"""Key of the bound in the error's context, and its words."""
COUNTED = {"too_long": " entries", "too_short": " entries", "string_too_long": " characters"}


@dataclass(frozen=True)
class Place:
    """How far a path leads into a document."""

    node: Node
    key: Node | None
    """Key of the mapping under which the node stands; None in a list or at the top."""
    schema: Schema
    """What the model says of the node; empty where it says nothing."""

    @property
    def start(self) -> Node:
        """Where a reader looks for it: at its key."""
        return self.key or self.node


def validate(model: type[M], document: Document, context: Mapping[str, Any] | None = None) -> M:
    """Return what a document says as an instance of ``model``.

    Raises
    ------
    SpecError
        With a finding for every error, in the order of the file.
    """
    try:
        return model.model_validate(document.value, context=dict(context or {}))
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False)
    schema = model.model_json_schema()
    located = sorted((_finding(detail, document, schema) for detail in details), key=lambda pair: pair[0])
    findings = [finding for _, finding in located[:MAX_FINDINGS]]
    if len(located) > MAX_FINDINGS:
        findings.append(Finding(document.path, f"{len(located) - MAX_FINDINGS} more errors", "none"))
    raise SpecError(findings)


def _finding(detail: ErrorDetails, document: Document, schema: Schema) -> tuple[tuple[int, int], Finding]:
    """Return the finding of one error, and its line and column to sort by."""
    kind, path, context = detail["type"], detail["loc"], detail.get("ctx", {})
    of_key = path[-1:] == ("[key]",)
    if of_key or kind in ("missing", "extra_forbidden"):
        place = _locate(document.root, schema, path[:-2] if of_key else path[:-1])
        name = str(path[-2] if of_key else path[-1])
        start = place.start if kind == "missing" else place.node.keys.get(name, place.node)
    else:
        place = _locate(document.root, schema, path)
        name, start = "", place.node if place.node.value is not None else place.start
    hint = str(context.get("hint", ""))
    if kind == "missing":
        found, expected = f"no `{name}`", _describe_property(place.schema, name, schema)
    elif kind == "extra_forbidden":
        names = list(place.schema.get("properties", {}))
        absent = [other for other in names if other not in place.node.keys]
        found, expected, hint = f"the unknown key `{name}`", _one_of(names), did_you_mean(name, absent)
    elif kind in ("union_tag_invalid", "union_tag_not_found"):
        tag = str(context["discriminator"]).strip("'")
        tags = _resolve(place.schema, schema).get("discriminator", {}).get("mapping", {})
        written = _child(place.node, tag)
        start = written or place.start
        found, expected = describe(written) if written else f"no `{tag}`", _one_of(list(tags))
        if kind == "union_tag_not_found" and written is None:
            expected = f"`{tag}`: {expected}"
        elif written is not None:
            hint = did_you_mean(str(written.value), tags)
    else:
        found = str(context.get("found", "")) or (f"the key `{name}`" if of_key else describe(place.node))
        expected = _expected(kind, detail, context)
        choices = place.schema.get("enum")
        if kind in ("literal_error", "enum") and choices:
            expected = _one_of([str(choice) for choice in choices])
            hint = did_you_mean(str(place.node.value), map(str, choices))
    return (start.line, start.column), Finding(document.where(start), found, expected, hint)


def _expected(kind: str, detail: ErrorDetails, context: Mapping[str, Any]) -> str:
    if "expected" in context:
        return str(context["expected"]).replace("'", "")
    if kind in TYPES:
        return TYPES[kind]
    if kind in BOUNDS:
        key, words = BOUNDS[kind]
        return f"{words} {context[key]:,}{COUNTED.get(kind, '')}"
    return detail["msg"].removeprefix("Value error, ")


def _locate(node: Node, root: Schema, path: Sequence[str | int]) -> Place:
    """Follow a path as far as it leads. Where the schema has a union, pydantic puts its tag into the path."""
    schema, key = _resolve(root, root), None
    for part in path:
        if part in (tags := schema.get("discriminator", {}).get("mapping", {})):
            schema = _resolve({"$ref": tags[part]}, root)
            continue
        child = _child(node, part)
        if child is None:
            break
        key = node.keys.get(str(part))
        node, schema = child, _step(schema, part, root)
    return Place(node, key, schema)


def _child(node: Node, part: str | int) -> Node | None:
    if isinstance(node.value, dict):
        return node.value.get(str(part))
    if isinstance(node.value, list) and isinstance(part, int) and part < len(node.value):
        return node.value[part]
    return None


def _step(schema: Schema, part: str | int, root: Schema) -> Schema:
    """Return the schema of a key or an entry."""
    for found in (
        schema.get("properties", {}).get(part),
        *schema.get("patternProperties", {}).values(),
        schema.get("additionalProperties"),
        schema.get("items"),
    ):
        if isinstance(found, dict):
            return _resolve(found, root)
    return {}


def _resolve(schema: Schema, root: Schema) -> Schema:
    """Follow references, and take the first alternative that is not null."""
    while True:
        if "$ref" in schema:
            schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
        elif "anyOf" in schema:
            schema = next((choice for choice in schema["anyOf"] if choice.get("type") != "null"), {})
        else:
            return schema


def _describe_property(schema: Schema, name: str, root: Schema) -> str:
    """Say what a key is for: ``the key `count`: number of servers``."""
    written = schema.get("properties", {}).get(name, {})
    text = written.get("description") or _resolve(written, root).get("description") or ""
    first = text.partition("\n")[0].rstrip(".")
    return f"the key `{name}`: {first[:1].lower()}{first[1:]}" if first else f"the key `{name}`"


def _one_of(names: Sequence[str]) -> str:
    return f"one of {', '.join(names)}" if len(names) > 1 else "".join(names) or "nothing here"
