"""Write the reference of keys and columns, docs/reference/*.md, out of the code: `make reference`.

The pages stand in the repository, so that they can be read without building the manual; a test compares them with what
this writes.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from typing import Any

from plan.commands.spec import schema_of
from topo.amounts import Range
from topo.catalog import models
from topo.catalog.load import load_catalog

PAGES = Path(__file__).parents[1] / "docs" / "reference"
KEYS = {
    "cluster": ("spec", "A spec describes a cluster. [Shapes](../shapes.md) has specs of every family."),
    "workload": (
        "workload",
        "A workload says what `plan simulate` plays. [Simulating traffic](../simulate.md) has examples.\n\n"
        "A job has the keys of its `kind`: each kind below is a table. Where it runs is said by `nodes` or `beside`,\n"
        "or by `role`, `zone`, `within` and `spread` together; `mapping` then orders its ranks.",
    ),
    "queue": ("queue", "A queue says what `plan operate` plays. [Operating](../operate.md) has examples."),
    "needs": ("needs", "Needs say what `plan optimise` looks for. [Optimising](../optimise.md) has examples."),
    "sweep": ("sweep", "A sweep says what `plan sweep` varies. [Sweeps](../sweep.md) has examples."),
    "plan.json": ("plan-json", "`plan.json` has every figure of an output folder, for programs."),
}
"""For each kind of YAML the name of its page, and what it is for."""
TABLES = {
    "switches": models.SwitchModel,
    "nodes": models.NodeModel,
    "hcas": models.HcaModel,
    "cables": models.CableModel,
}
WRITTEN = "<!-- written by scripts/write_reference.py -->"


def spelled(schema: dict[str, Any]) -> str:
    """Say what a key takes, in a few words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " or ".join(filter(None, map(spelled, schema[key])))
    kind = schema.get("type")
    if kind == "array":
        return f"list of {spelled(schema['items'])}" if "items" in schema else "list"
    if kind == "object":
        inner = next(iter(schema.get("patternProperties", {}).values()), schema.get("additionalProperties"))
        return f"mapping of names to {spelled(inner)}" if isinstance(inner, dict) else "mapping"
    words = {"integer": "number", "number": "number", "boolean": "true or false", "string": "text"}.get(str(kind), "")
    if examples := schema.get("examples"):
        words = f"text such as `{examples[0]}`"
    least = schema.get("minimum", schema.get("exclusiveMinimum"))
    most = schema.get("maximum", schema.get("exclusiveMaximum"))
    if least is not None:
        words += f" of {least:,} or more" if most is None else f" from {least:,} to {most:,}"
    return words


def row(*cells: str) -> str:
    """Return a line of a table."""
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"


def keys(kind: str) -> Iterator[str]:
    """Yield the lines of the page of a kind of YAML."""
    page, about = KEYS[kind]
    schema = schema_of(kind)
    yield from (f"# Keys of {kind if kind in ('needs', 'plan.json') else f'a {page}'}", "", WRITTEN, "", about, "")
    command = "plan schema" if kind == "cluster" else f"plan schema {kind}"
    yield f"`{command}` prints the same as JSON Schema, for completion in editors."
    for name, part in {kind: schema, **schema.get("$defs", {})}.items():
        if "properties" not in part:
            continue
        yield from ("", f"## {name}", "", part.get("description", ""), "", row("key", "value", "default", "meaning"))
        yield "|---|---|---|---|"
        first = {"name": 0, "kind": 1}
        for key, one in sorted(part["properties"].items(), key=lambda item: first.get(item[0], 2)):
            default = "required" if key in part.get("required", ()) else json.dumps(one.get("default"))
            shown = "" if default == "null" else default if default == "required" else f"`{default}`"
            yield row(f"`{key}`", spelled(one), shown, one.get("description", ""))


def columns() -> Iterator[str]:
    """Yield the lines of the page of the columns of a catalog, out of the fields of its models."""
    yield from (
        "# Columns of a catalog", "", WRITTEN, "",
        "A catalog is a folder with these tables, or one of them ([how to](../catalog.md)). The last columns of each",
        "are `source`, `date` and `confidence`, of the whole row. Except of `model`, no column is needed where a row",
        "of ours is overridden.", "",
        "`prices.csv` has `model`, `currency`, `low` and `high`, of one piece, and a `note`; `figures.csv` has one",
        "figure a row, where figures of a model have different sources: `model`, `figure` (a column of the tables",
        "below) and `value`.",
    )  # fmt: skip
    told: dict[tuple[str, str], str] = {}
    for item in ast.parse(Path(models.__file__).read_text(encoding="utf-8")).body:
        body = item.body if isinstance(item, ast.ClassDef) else []
        for field, text in pairwise(body):
            if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
                told[item.name, field.target.id] = str(text.value.value)  # type: ignore[union-attr]
    for table, model in TABLES.items():
        yield from ("", f"## {table}.csv", "", (model.__doc__ or "").splitlines()[0], "", row("column", "meaning"))
        yield from ("|---|---|", row("`model`", "Its name, as a spec has it."))
        for one in fields(model):
            if one.name not in ("name", "sources"):
                meaning = next((told[base.__name__, one.name] for base in model.__mro__
                                if (base.__name__, one.name) in told), "")  # fmt: skip
                yield row(f"`{one.name}`", meaning)


def listed_models() -> Iterator[str]:
    """Yield the lines of the page of all models that ship: what each is, draws and costs, and how sure that is."""
    yield from (
        "# Models", "", WRITTEN, "",
        "Names that a spec can give. An empty cell is unknown: give it in a [catalog](../catalog.md) of your own.",
        "Behind each figure stand the marks of its sources, which are in `configs/catalog`.", "",
        *(f"- `{mark}`: {meaning}" for mark, meaning in models.CONFIDENCE.items()),
    )  # fmt: skip
    catalog = load_catalog()
    for table in TABLES:
        powered = table in ("switches", "nodes")
        names = ("model", "what it is", *(("typically", "at most") if powered else ()), "price (USD)")
        yield from ("", f"## {table}", "", row(*names), row(*["---"] * len(names)))
        for name, model in getattr(catalog, table).items():
            watts = (
                "" if getattr(model, key) is None else f"{getattr(model, key):,.0f} W {model.sources[key].confidence}"
                for key in ("power_typical_w", "power_max_w") * powered
            )
            price = catalog.price(name, "USD")
            marks = ", ".join(dict.fromkeys(point.source.confidence for point in price.points)) if price else ""
            shown = f"{Range(price.low, price.high)} {marks}" if price else ""
            yield row(f"`{name}`", model.description, *watts, shown)


def pages() -> dict[str, str]:
    """Return the text of each page by the name of its file."""
    found = {f"{page}.md": keys(kind) for kind, (page, *_) in KEYS.items()}
    found |= {"catalog.md": columns(), "models.md": listed_models()}
    return {name: "\n".join(lines) + "\n" for name, lines in found.items()}


if __name__ == "__main__":
    for name, text in pages().items():
        (PAGES / name).write_text(text, encoding="utf-8")
