"""The YAML of specs and workloads: plain values of the YAML 1.2 core schema, each with its line and column.

ruamel.yaml turns the text into events; this module composes them, because the bounds must hold *before* anything
expands or recurses: nesting, number of values (an alias counts as all that it stands for), one document, each key
once, and no tags, so a file can name nothing but text, numbers, true, false, null, lists and mappings.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    DocumentStartEvent,
    Event,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
)

from topo.errors import Finding, SpecError
from topo.formats.bounded import read_text

MAX_BYTES = 1_000_000
"""A spec of 100 to 300 lines has some 10 kB."""
MAX_LINE = 10_000
"""Characters of a line: some scanners of ruamel take time that grows with its square."""
MAX_DEPTH = 32
MAX_VALUES = 20_000
"""Scalars, lists and mappings in one file, those that aliases repeat included."""
MAX_KEY = 200
"""Characters of a key, or digits of a number."""

Scalar = str | int | float | bool | None

# YAML 1.2.2, section 10.3.2, tag resolution of the core schema.
NULL = re.compile(r"null|Null|NULL|~|")
BOOL = re.compile(r"true|True|TRUE|false|False|FALSE")
INT = re.compile(r"[-+]?[0-9]+")
OTHER_INT = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
NON_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
FORBIDDEN = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
"""What YAML 1.2.2, section 5.1, calls not printable, and byte order marks inside the text."""

ESCAPE = re.compile(r"\\U([0-9A-Fa-f]{8})")


@dataclass(frozen=True)
class Node:
    """A value and where it stands."""

    value: Scalar | list[Node] | dict[str, Node]
    line: int
    """From 1."""
    column: int
    """From 1."""
    keys: dict[str, Node] = field(default_factory=dict)
    """The keys of a mapping as nodes, for their places."""
    size: int = 1
    """Values in it, itself and all that its aliases stand for included."""
    keys_to: str = ""
    """Path of keys that leads to it, ``nodes.gpu.count``, where it stands in no text."""

    @property
    def plain(self) -> Any:
        """The value without places: scalars, lists and dicts."""
        if isinstance(self.value, dict):
            return {key: node.plain for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain for node in self.value]
        return self.value


@dataclass(frozen=True)
class Document:
    """A YAML file: its text, and its one value with places."""

    path: str
    text: str
    root: Node

    @cached_property
    def value(self) -> Any:
        """The value without places: scalars, lists and dicts."""
        return self.root.plain

    def where(self, node: Node) -> str:
        """Return ``file:line:column`` of a node, or its path of keys where there is no text."""
        return node.keys_to or f"{self.path}:{node.line}:{node.column}"


def read_yaml(path: Path) -> Document:
    """Read a YAML file; see `parse_yaml` for what it may hold and `read_text` for what may be read."""
    return parse_yaml(read_text(path, MAX_BYTES), str(path))


def parse_yaml(text: str, path: str) -> Document:
    """Parse one YAML document; ``path`` names it in messages.

    Raises
    ------
    SpecError
        With one finding at its line and column: bad syntax, an empty document, several documents, a key twice, a key
        that is not text, a tag, an alias without anchor, or more depth or values than a spec may have.
    """
    return Document(path, text, _Composer(text, path).compose())


def mapping_document(value: Mapping[str, Any]) -> Document:
    """Return a mapping of plain values as a document; messages name the path of keys in place of line and column.

    Raises
    ------
    SpecError
        With one finding: a key that is not text, or more depth or values than a spec may have.
    """
    count = 0

    def refusal(where: str, found: str, expected: str) -> SpecError:
        return SpecError([Finding(where, found, expected)])

    def node(value: Any, where: str, depth: int) -> Node:
        nonlocal count
        count += 1
        if depth > MAX_DEPTH:
            raise refusal(where, "one more level of nesting", f"at most {MAX_DEPTH} levels")
        if count > MAX_VALUES:
            raise refusal(where, f"more than {MAX_VALUES:,} values", f"at most {MAX_VALUES:,} values")
        line = count
        if isinstance(value, Mapping):
            prefix = f"{where}." if where != "spec" else ""
            if strange := [key for key in value if not isinstance(key, str)]:
                raise refusal(where, f"the key {strange[0]!r:.60}", "a name as the key")
            keys = {key: Node(key, line, 1, keys_to=prefix + key) for key in value}
            children = {key: node(child, prefix + key, depth + 1) for key, child in value.items()}
            return Node(children, line, 1, keys, keys_to=where)
        if isinstance(value, (list, tuple)):
            entries = [node(child, f"{where}[{index}]", depth + 1) for index, child in enumerate(value)]
            return Node(entries, line, 1, keys_to=where)
        return Node(value, line, 1, keys_to=where)

    return Document("spec", "", node(value, "spec", 1))


class _Composer:
    """One pass over the events of a text, with a stack of its own in place of recursion."""

    def __init__(self, text: str, path: str) -> None:
        self.text = text
        self.path = path
        self.values = 0
        self.anchors: dict[str, Node] = {}

    def compose(self) -> Node:
        if len(self.text) > MAX_BYTES:
            raise self.refusal(1, 1, f"{len(self.text):,} characters", f"at most {MAX_BYTES:,}")
        if (character := FORBIDDEN.search(self.text)) is not None:
            line, column = place(self.text, character.start())
            raise self.refusal(
                line, column, f"the character U+{ord(character.group()):04X}", "printable text", "Remove it."
            )
        for line, content in enumerate(self.text.splitlines(), start=1):
            if len(content) > MAX_LINE:
                raise self.refusal(line, 1, f"a line of {len(content):,} characters", f"at most {MAX_LINE:,}")
        root: Node | None = None
        documents = 0
        # A collection that is not closed yet: its opening event, its finished children, for mappings its keys.
        stack: list[tuple[CollectionStartEvent, list[Node], list[Node]]] = []
        for event in self.events():
            line, column = event.start_mark.line + 1, event.start_mark.column + 1
            if isinstance(event, DocumentStartEvent):
                documents += 1
                self.check_document(event, documents, line, column)
            elif isinstance(event, CollectionStartEvent):
                self.check_node(event, line, column)
                if len(stack) == MAX_DEPTH:
                    raise self.refusal(line, column, "one more level of nesting", f"at most {MAX_DEPTH} levels")
                self.count(1, line, column)
                stack.append((event, [], []))
            else:
                if isinstance(event, CollectionEndEvent):
                    opening, children, keys = stack.pop()
                    node = self.close(opening, children, keys)
                    anchor = opening.anchor
                elif isinstance(event, ScalarEvent):
                    self.check_node(event, line, column)
                    self.count(1, line, column)
                    node = Node(self.scalar(event, line, column), line, column)
                    anchor = event.anchor
                elif isinstance(event, AliasEvent):
                    node = self.alias(event, line, column)
                    anchor = None
                else:
                    continue
                if anchor is not None:
                    self.anchors[anchor] = node
                if not stack:
                    root = node
                elif isinstance(stack[-1][0], MappingStartEvent) and len(stack[-1][1]) == len(stack[-1][2]):
                    stack[-1][2].append(self.key(node))
                else:
                    stack[-1][1].append(node)
        if root is None:
            raise self.refusal(1, 1, "an empty file", "a YAML mapping", "`plan init` writes a spec to start from.")
        return root

    def events(self) -> Iterator[Event]:
        """Yield the events of the text; whatever the parser cannot take becomes a finding."""
        try:
            yield from YAML(typ="safe", pure=True).parse(self.text)
        except MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line, column = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
            found = " ".join(part for part in (error.context, error.problem) if part)
            raise self.refusal(line, column, f"text that is not YAML ({found})", "YAML 1.2") from None
        except YAMLError as error:
            raise self.refusal(1, 1, f"text that is not YAML ({error})", "YAML 1.2") from None
        except (OverflowError, ValueError) as error:  # from chr() and int(), on which ruamel relies
            escapes = (found for found in ESCAPE.finditer(self.text) if int(found[1], 16) > sys.maxunicode)
            if (escape := next(escapes, None)) is None:
                raise self.refusal(1, 1, f"text that is not YAML ({error})", "YAML 1.2") from None
            line, column = place(self.text, escape.start())
            raise self.refusal(line, column, f"the escape {escape[0]}", "a character of Unicode") from None

    def close(self, opening: CollectionStartEvent, children: list[Node], keys: list[Node]) -> Node:
        line, column = opening.start_mark.line + 1, opening.start_mark.column + 1
        size = 1 + sum(child.size for child in children)
        if not isinstance(opening, MappingStartEvent):
            return Node(children, line, column, size=size)
        first: dict[str, Node] = {}
        for key in keys:
            name = str(key.value)
            if name in first:
                raise self.refusal(
                    key.line,
                    key.column,
                    f"the key `{name}` a second time",
                    "each key once",
                    f"It is first on line {first[name].line}.",
                )
            first[name] = key
        return Node(dict(zip(first, children, strict=True)), line, column, first, size)

    def key(self, node: Node) -> Node:
        """Check a node that stands as the key of a mapping."""
        if not isinstance(node.value, str):
            raise self.refusal(
                node.line, node.column, f"{describe(node)} as a key", "a name", "Quote it if it is meant as a name."
            )
        if len(node.value) > MAX_KEY:
            raise self.refusal(
                node.line, node.column, f"a key of {len(node.value):,} characters", f"at most {MAX_KEY} characters"
            )
        return node

    def scalar(self, event: ScalarEvent, line: int, column: int) -> Scalar:
        """Resolve a scalar by the core schema; quoted and block scalars are text."""
        text: str = event.value
        if (character := FORBIDDEN.search(text)) is not None:
            found = f"an escape for the character U+{ord(character.group()):04X}"
            raise self.refusal(line, column, found, "printable text", "Remove it.")
        if not event.implicit[0]:
            return text
        if NULL.fullmatch(text):
            return None
        if BOOL.fullmatch(text):
            return text.lower() == "true"
        if len(text) > MAX_KEY:
            if FLOAT.fullmatch(text) or OTHER_INT.fullmatch(text):
                raise self.refusal(line, column, f"a number of {len(text):,} digits", f"at most {MAX_KEY} digits")
            return text
        if INT.fullmatch(text):
            return int(text)
        if OTHER_INT.fullmatch(text):
            return int(text, 0)
        if FLOAT.fullmatch(text):
            return float(text)
        if NON_FINITE.fullmatch(text):
            return float(text.replace(".", ""))
        return text

    def alias(self, event: AliasEvent, line: int, column: int) -> Node:
        """Return what an alias stands for, at the alias's own place; its children keep theirs."""
        target = self.anchors.get(event.anchor)
        if target is None:
            raise self.refusal(
                line, column, f"the alias *{event.anchor}", f"an anchor &{event.anchor} that is complete before it"
            )
        self.count(target.size, line, column)
        return Node(target.value, line, column, target.keys, target.size)

    def count(self, size: int, line: int, column: int) -> None:
        self.values += size
        if self.values > MAX_VALUES:
            raise self.refusal(
                line,
                column,
                f"more than {MAX_VALUES:,} values",
                f"at most {MAX_VALUES:,} values, aliases written out",
            )

    def check_document(self, event: DocumentStartEvent, documents: int, line: int, column: int) -> None:
        if documents > 1:
            raise self.refusal(line, column, "a second document", "one YAML document a file")
        if event.version is not None and tuple(event.version) != (1, 2):
            version = ".".join(map(str, event.version))[:20]
            raise self.refusal(line, column, f"YAML {version}", "YAML 1.2", "Remove the %YAML line.")

    def check_node(self, event: NodeEvent, line: int, column: int) -> None:
        tag = getattr(event, "ctag", None)
        if tag is not None:
            shown = str(tag).replace("tag:yaml.org,2002:", "!!")[:60]
            raise self.refusal(
                line, column, f"the tag {shown}", "a plain value", "Tags are not read; quote what is text."
            )

    def refusal(self, line: int, column: int, found: str, expected: str, hint: str = "") -> SpecError:
        return SpecError([Finding(f"{self.path}:{line}:{column}", found, expected, hint)])


def describe(node: Node) -> str:
    """Say what a node is, for messages: ``the text "QM870"``, ``the number 12``, ``a list of 3``."""
    value = node.value
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return f"the number {value}"
    if isinstance(value, str):
        return f"the text {json.dumps(value[:60] + '...' * (len(value) > 60), ensure_ascii=False)}"
    if isinstance(value, dict):
        return "a mapping"
    return f"a list of {len(value)}" if isinstance(value, list) else f"a value of the type {type(value).__name__}"


def place(text: str, offset: int) -> tuple[int, int]:
    """Return line and column, from 1, of a character."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)
