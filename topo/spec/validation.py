"""Validates a document against a model, and says of every error where it stands and what was expected there.

pydantic names an error by a path of keys. The document has line and column of each path; a walk along the
path through the model's JSON Schema gives the names and the meaning of what could stand there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from topo.errors import Finding, SpecError, did_you_mean, nearest
from topo.files.yaml import KEY, Document, Keys, describe

Schema = dict[str, Any]
M = TypeVar("M", bound=BaseModel)

EXPECTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "tuple_type": "a list",
    "list_type": "a list",
    "greater_than": "more than {gt:,}",
    "greater_than_equal": "at least {ge:,}",
    "less_than": "less than {lt:,}",
    "less_than_equal": "at most {le:,}",
    "too_long": "at most {max_length:,} entries",
    "too_short": "at least {min_length:,} entries",
    "string_too_long": "at most {max_length:,} characters",
    "string_too_short": "at least {min_length:,}",
}
"""What was expected, by pydantic's type of error; in braces the error's context."""


def validate(model: type[M], document: Document, context: Mapping[str, Any] | None = None) -> M:
    """Return what a document says as an instance of ``model``; SpecError has every finding, in the order of the file.

    Examples
    --------
    >>> import topo
    >>> topo.validate(topo.ClusterSpec, topo.read_yaml(topo.config_root() / "lab-20.yaml")).name
    'lab-20'
    """
    try:
        return model.model_validate(document.value, context=dict(context or {}))
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False)
    schema = _schema_of(model)
    located = [(*_finding(detail, document, schema), detail["type"].endswith("_type")) for detail in details]
    located.sort(key=lambda each: document.position(*each[0]))
    fit = {start for start, _, astray in located if not astray}  # of what may be a number or a list, no list is awaited
    raise SpecError(finding for start, finding, astray in located if not (astray and start in fit))


@cache
def _schema_of(model: type[BaseModel]) -> Schema:
    """Return the JSON Schema of a model, which takes a tenth of a second to make."""
    return model.model_json_schema()


def _finding(detail: ErrorDetails, document: Document, root: Schema) -> tuple[Keys, Finding]:
    """Return the finding of one error, and the path of what it is about."""
    kind, path, context = detail["type"], detail["loc"], detail.get("ctx", {})
    of_key = path[-1:] == (KEY,)
    about_key = of_key or kind in ("missing", "extra_forbidden")
    at, value, schema = _locate(document, root, path[: -2 if of_key else -1] if about_key else path)
    name = str(path[-2] if of_key else path[-1]) if about_key else ""
    hint = str(context.get("hint", ""))
    if about_key and kind != "missing":
        start = (*at, name, KEY) if name in value else at
    else:
        start = (*at, KEY) if kind == "missing" or value is None else at
    if kind == "missing":
        found, expected = f"no `{name}`", _describe_property(schema, name, root)
    elif kind == "extra_forbidden":
        names = list(schema.get("properties", {}))
        found, expected = f"the unknown key `{name}`", _one_of(names)
        hint = did_you_mean(name, [other for other in names if other not in value])
    elif kind in ("union_tag_invalid", "union_tag_not_found"):
        tag = str(context["discriminator"]).strip("'")
        tags = schema.get("discriminator", {}).get("mapping", {})
        keys = list(value) if isinstance(value, dict) else []
        expected = _one_of(list(tags))
        if tag in keys:
            start, found, hint = (*at, tag), describe(value[tag]), did_you_mean(str(value[tag]), tags)
        else:
            near = nearest(tag, map(str, keys))
            start, found = ((*at, near, KEY), f"the unknown key `{near}`") if near else ((*at, KEY), f"no `{tag}`")
            expected, hint = f"`{tag}`: {expected}", did_you_mean(tag, [tag] if near else [])
    else:
        found = str(context.get("found", "")) or (f"the key `{name}`" if of_key else describe(value))
        expected = _expected(kind, detail, context)
        low, high = schema.get("minimum"), schema.get("maximum")
        if kind in ("float_type", "float_parsing") and low is not None and high is not None:
            expected = f"a number from {low:g} to {high:g}{', such as 0.05' if high == 1 else ''}"
        choices = schema.get("enum")
        if kind in ("literal_error", "enum") and choices:
            expected = _one_of([str(choice) for choice in choices])
            hint = did_you_mean(str(value), map(str, choices))
        elif kind == "literal_error" and schema.get("type") == "boolean":  # the first of what there may be
            expected = f"true, false or {expected}"
    return start, Finding(document.where(*start), found, expected, hint)


def _expected(kind: str, detail: ErrorDetails, context: Mapping[str, Any]) -> str:
    if "expected" in context:
        return str(context["expected"]).replace("'", "")
    if kind in EXPECTED:
        return EXPECTED[kind].format(**context)
    return detail["msg"].removeprefix("Value error, ")


def _locate(document: Document, root: Schema, path: Keys) -> tuple[Keys, Any, Schema]:
    """Follow an error's path as far as it leads: return the path in the document, the value there, and its schema.

    Where the schema has a union, pydantic puts its tag into the path.
    """
    schema = _resolve(root, root)
    at: Keys = ()
    for part in path:
        tags = schema.get("discriminator", {}).get("mapping", {})
        if part in tags:
            schema = _resolve({"$ref": tags[part]}, root)
        elif document.reach(*at, part)[0] == at:
            break
        else:
            at, schema = (*at, part), _step(schema, part, root)
    return at, document.reach(*at)[1], schema


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
    paragraph = " ".join(text.partition("\n\n")[0].replace("``", "`").split())
    first = re.split(r"\.(?: |$)", paragraph)[0]
    word = first if first[1:2].isupper() else f"{first[:1].lower()}{first[1:]}"  # an acronym stays as it is
    return f"the key `{name}`: {word}" if first else f"the key `{name}`"


def _one_of(names: Sequence[str]) -> str:
    return f"one of {', '.join(names)}" if len(names) > 1 else "".join(names) or "nothing here"
