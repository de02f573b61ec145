"""The YAML of specs and workloads: plain values of the YAML 1.2 core schema, each with its line and column.

ruamel.yaml turns the text into events; this module composes them, because the bounds must hold *before* anything
expands or recurses: nesting, number of values (an alias counts as all that it stands for), one document, each key
once, and no tags, so a file can name nothing but text, numbers, true, false, null, lists and mappings. A mapping that
was made in Python is held to the same bounds, and its errors name the path of keys.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

import numpy as np
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import AliasEvent, DocumentStartEvent, Event, MappingStartEvent, NodeEvent, ScalarEvent

from topo.budget import YAML_BYTES, YAML_DEPTH, YAML_KEY, YAML_LINE, YAML_VALUES
from topo.errors import SpecError, refusal
from topo.files.text import config_root, read_text

PRESET = "preset "
"""What the name of a file that ships begins with in messages."""

OTHER_INT = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
SCALARS: tuple[tuple[re.Pattern[str], Callable[[str], Any]], ...] = (
    (re.compile(r"null|Null|NULL|~|"), lambda _: None),
    (re.compile(r"true|True|TRUE|false|False|FALSE"), lambda text: text.lower() == "true"),
    (re.compile(r"[-+]?[0-9]+"), int),
    (OTHER_INT, lambda text: int(text, 0)),
    (FLOAT, float),
    (re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"), lambda text: float(text.replace(".", ""))),
)
"""What a plain scalar is, by the first pattern that it matches: YAML 1.2.2, section 10.3.2, the core schema."""
FORBIDDEN = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
"""What YAML 1.2.2, section 5.1, calls not printable, and byte order marks inside the text."""

FILE_NAME = re.compile(r"[^\n:]*\.(ya?ml|json|txt)\s*")
"""What is the name of a file, where text of YAML is expected."""

ESCAPE = re.compile(r"\\U([0-9A-Fa-f]{8})")

KEY = "[key]"
"""Last part of the path of a key, as pydantic has it; without it, the path is that of the key's value."""

Keys = tuple[str | int, ...]
Position = tuple[int, int]
"""Line and column, from 1."""


@dataclass(frozen=True)
class Document:
    """A spec as it was given: its plain value, and where each part of it stands."""

    path: str
    """File that messages name; empty for a mapping that was made in Python."""
    text: str
    value: Any
    """Scalars, lists and dicts."""
    positions: Mapping[Keys, Position] = field(default_factory=dict)
    """Of each value by its path of keys, and of each key by that path and `KEY`; empty where there is no text."""

    def reach(self, *path: str | int) -> tuple[Keys, Any]:
        """Follow a path as far as it leads; return that part of it, and the value there."""
        value: Any = self.value
        for number, part in enumerate(path):
            inside = part in value if isinstance(value, dict) else isinstance(value, list) and part in range(len(value))
            if not inside:
                return path[:number], value
            value = value[part]
        return path, value

    def where(self, *path: str | int) -> str:
        """Return ``file:line:column`` of a value or key as far as a path leads, or the path where there is no text."""
        if not self.path:
            keys = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path if part != KEY)
            return keys.removeprefix(".") or "spec"
        return place(self.path, self.position(*path))

    def position(self, *path: str | int) -> Position:
        """Return line and column of a value or key as far as a path leads; zeros where there is no text."""
        return self.positions.get(path) or self.positions.get(self.reach(*path)[0], (0, 0))


def read_yaml(path: Path) -> Document:
    """Read a YAML file; see `parse_yaml` for what it may hold and `read_text` for what may be read.

    Messages name a file that ships as the preset that it is: nobody looks into an installed package.

    Examples
    --------
    >>> import topo
    >>> topo.read_yaml(topo.config_root() / "lab-20.yaml").value["name"]
    'lab-20'
    """
    shipped = path.is_relative_to(config_root())
    return parse_yaml(read_text(path, YAML_BYTES), f"{PRESET}{path.stem}" if shipped else str(path))


def place(path: str, at: Position) -> str:
    """Return ``file:line:column``, or ``preset NAME, line L, column C``."""
    return f"{path}, line {at[0]}, column {at[1]}" if path.startswith(PRESET) else f"{path}:{at[0]}:{at[1]}"


def parse_yaml(text: str, path: str) -> Document:
    """Parse one YAML document; ``path`` names it in messages.

    A SpecError has one finding at its line and column: bad syntax, an empty document, several documents, a key twice, a
    key that is not text, a tag, an alias without anchor, or more depth or values than a spec may have.
    """
    composer = _Composer(text, path)
    return Document(path, text, composer.compose(), dict(composer.trail))


def given_document(spec: str | Mapping[str, Any], kind: str, reader: str) -> Document:
    """Return YAML text, or a mapping of plain values, as a document; SpecError for the name of a file.

    ``kind`` says what it is of (``spec``, ``workload``, ``queue``), ``reader`` which function takes the name of a file.
    """
    if isinstance(spec, PurePath) or (isinstance(spec, str) and FILE_NAME.fullmatch(spec)):
        found, hint = f"the name of a file, {str(spec)[:60]!r}", f"`{reader}` reads files."
        raise refusal(kind, found, "the text of a file, or a mapping", hint)
    return parse_yaml(spec, kind) if isinstance(spec, str) else mapping_document(spec)


def mapping_document(value: Mapping[str, Any]) -> Document:
    """Return a mapping of plain values as a document; messages name the path of keys in place of line and column.

    Numbers of NumPy and paths are plain, too.

    SpecError for a key that is not text, text that cannot be printed, or more depth or values than a spec may have.
    """
    count = 0
    document = Document("", "", None)

    def plain(value: Any, *path: str | int) -> Any:
        nonlocal count
        count += 1
        if len(path) > YAML_DEPTH.limit:
            raise refusal(document.where(*path), "one more level of nesting", str(YAML_DEPTH))
        if count > YAML_VALUES.limit:
            raise refusal(document.where(*path), f"more than {YAML_VALUES.limit:,} values", str(YAML_VALUES))
        if isinstance(value, np.generic):
            value = value.item()
        elif isinstance(value, PurePath):
            value = str(value)
        if isinstance(value, Mapping):
            if strange := [key for key in value if not isinstance(key, str)]:
                raise refusal(document.where(*path), f"the key {strange[0]!r:.60}", "a name as the key")
            return {plain(key, *path): plain(child, *path, key) for key, child in value.items()}
        if isinstance(value, (list, tuple)):
            return [plain(child, *path, index) for index, child in enumerate(value)]
        if isinstance(value, str):
            _require_printable(value, lambda _: document.where(*path), "the character")
        return value

    return Document("", "", plain(value))


def _require_printable(text: str, where: Callable[[int], str], what: str) -> None:
    """Refuse a character that YAML forbids; ``where`` says the place of one by its offset in the text."""
    if (character := FORBIDDEN.search(text)) is not None:
        found = f"{what} U+{ord(character.group()):04X}"
        raise refusal(where(character.start()), found, "printable text", "Remove it.")


class _Composer:
    """One pass over the events of a text. It recurses as deep as values nest, which is bounded."""

    def __init__(self, text: str, path: str) -> None:
        self.text = text
        self.path = path
        self.events = self.parse()
        self.values = 0
        self.trail: list[tuple[Keys, Position]] = []
        """Path and position of each value and key, in the order of the text."""
        self.anchors: dict[str, tuple[Any, int, list[tuple[Keys, Position]]]] = {}
        """Value, number of values in it, and their positions by path below it."""

    def compose(self) -> Any:
        if len(self.text) > YAML_BYTES.limit:
            raise self.refusal((1, 1), f"{len(self.text):,} characters", str(YAML_BYTES))
        _require_printable(self.text, lambda at: place(self.path, line_and_column(self.text, at)), "the character")
        for line, content in enumerate(self.text.splitlines(), start=1):
            if len(content) > YAML_LINE.limit:
                raise self.refusal((line, 1), f"a line of {len(content):,} characters", str(YAML_LINE))
        values: list[Any] = []
        for event in self.events:
            if isinstance(event, DocumentStartEvent):
                self.check_document(event, len(values))
            elif isinstance(event, NodeEvent):
                values.append(self.node(event, (), 1))
        if not values:
            raise self.refusal((1, 1), "an empty file", "a YAML mapping", "`plan init` writes a spec to start from.")
        return values[0]

    def parse(self) -> Iterator[Event]:
        """Yield the events of the text; whatever the parser cannot take becomes a finding."""
        try:
            yield from YAML(typ="safe", pure=True).parse(self.text)
        except MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            at = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
            found = " ".join(part for part in (error.context, error.problem) if part)
            raise self.refusal(at, f"text that is not YAML ({found})", "YAML 1.2") from None
        except (YAMLError, OverflowError, ValueError) as error:  # also from chr() and int(), on which ruamel relies
            escapes = (found for found in ESCAPE.finditer(self.text) if int(found[1], 16) > sys.maxunicode)
            if isinstance(error, YAMLError) or (escape := next(escapes, None)) is None:
                raise self.refusal((1, 1), f"text that is not YAML ({error})", "YAML 1.2") from None
            at = line_and_column(self.text, escape.start())
            raise self.refusal(at, f"the escape {escape[0]}", "a character of Unicode") from None

    def node(self, event: NodeEvent, path: Keys, depth: int) -> Any:
        """Return the value that an event begins, and note where it and all in it stand."""
        at = event.start_mark.line + 1, event.start_mark.column + 1
        if isinstance(event, AliasEvent):
            return self.alias(event.anchor, path, at)
        self.check_tag(event, at)
        if not isinstance(event, ScalarEvent) and depth > YAML_DEPTH.limit:
            raise self.refusal(at, "one more level of nesting", str(YAML_DEPTH))
        first, before = len(self.trail), self.values
        self.add(1, path, at)
        value: Any
        if isinstance(event, ScalarEvent):
            value = self.scalar(event, at)
        elif isinstance(event, MappingStartEvent):
            value = self.mapping(path, depth)
        else:
            value = [self.node(entry, (*path, index), depth + 1) for index, entry in enumerate(self.entries())]
        if event.anchor is not None:
            below = [(found[len(path) :], at) for found, at in self.trail[first:]]
            self.anchors[event.anchor] = value, self.values - before, below
        return value

    def entries(self) -> Iterator[NodeEvent]:
        """Yield the event that begins each entry of a collection."""
        while isinstance(event := next(self.events), NodeEvent):
            yield event

    def mapping(self, path: Keys, depth: int) -> dict[str, Any]:
        value: dict[str, Any] = {}
        entries = self.entries()
        for event in entries:
            first, before = len(self.trail), self.values
            key = self.node(event, (*path, KEY), depth + 1)
            at = self.trail[first][1]
            del self.trail[first:]
            self.values = before
            if not isinstance(key, str):
                raise self.refusal(at, f"{describe(key)} as a key", "a name", "Quote it if it is meant as a name.")
            if len(key) > YAML_KEY.limit:
                raise self.refusal(at, f"a key of {len(key):,} characters", str(YAML_KEY))
            if key in value:
                hint = f"It is first on line {dict(self.trail)[*path, key, KEY][0]}."
                raise self.refusal(at, f"the key `{key}` a second time", "each key once", hint)
            self.trail.append(((*path, key, KEY), at))
            value[key] = self.node(next(entries), (*path, key), depth + 1)
        return value

    def scalar(self, event: ScalarEvent, at: Position) -> Any:
        """Resolve a scalar by the core schema; quoted and block scalars are text."""
        text: str = event.value
        _require_printable(text, lambda _: place(self.path, at), "an escape for the character")
        if not event.implicit[0]:
            return text
        if len(text) > YAML_KEY.limit and (FLOAT.fullmatch(text) or OTHER_INT.fullmatch(text)):
            raise self.refusal(at, f"a number of {len(text):,} digits", str(YAML_KEY))
        return next((read(text) for pattern, read in SCALARS if pattern.fullmatch(text)), text)

    def alias(self, name: str, path: Keys, at: Position) -> Any:
        """Return what an alias stands for, at the position of the alias; what is in it keeps its positions."""
        if name not in self.anchors:
            raise self.refusal(at, f"the alias *{name}", f"an anchor &{name} that is complete before it")
        value, size, below = self.anchors[name]
        self.add(size, path, at)
        self.trail += [((*path, *found), there) for found, there in below[1:]]
        return value

    def add(self, size: int, path: Keys, at: Position) -> None:
        self.values += size
        if self.values > YAML_VALUES.limit:
            raise self.refusal(at, f"more than {YAML_VALUES.limit:,} values", str(YAML_VALUES))
        self.trail.append((path, at))

    def check_document(self, event: DocumentStartEvent, before: int) -> None:
        at = event.start_mark.line + 1, event.start_mark.column + 1
        if before:
            raise self.refusal(at, "a second document", "one YAML document a file")
        if event.version is not None and tuple(event.version) != (1, 2):
            version = ".".join(map(str, event.version))[:20]
            raise self.refusal(at, f"YAML {version}", "YAML 1.2", "Remove the %YAML line.")

    def check_tag(self, event: NodeEvent, at: Position) -> None:
        tag = getattr(event, "ctag", None)
        if tag is not None:
            shown = str(tag).replace("tag:yaml.org,2002:", "!!")[:60]
            raise self.refusal(at, f"the tag {shown}", "a plain value", "Tags are not read; quote what is text.")

    def refusal(self, at: Position, found: str, expected: str, hint: str = "") -> SpecError:
        return refusal(place(self.path, at), found, expected, hint)


def describe(value: Any) -> str:
    """Say what a value is, for messages: ``the text "QM870"``, ``the number 12``, ``a list of 3``."""
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


def line_and_column(text: str, offset: int) -> Position:
    """Return line and column, from 1, of a character."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)
