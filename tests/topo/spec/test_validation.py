"""What a message says of a key that is missing."""

from collections.abc import Iterator
from typing import Any

import pytest

from plan.commands.spec import KINDS, schema_of
from topo.spec.validation import _describe_property


def missing(schema: Any, root: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what is said of each key that a schema requires, and what the schema says of it."""
    if isinstance(schema, dict):
        for name in schema.get("required", []):
            said = schema["properties"][name].get("description", "")
            if said:
                yield _describe_property(schema, name, root), said
        for value in schema.values():
            yield from missing(value, root)
    elif isinstance(schema, list):
        for value in schema:
            yield from missing(value, root)


@pytest.mark.parametrize("kind", KINDS)
def test_a_missing_key_is_told_with_the_whole_first_sentence_of_its_meaning(kind: str) -> None:
    """Of several lines, too; acronyms keep their capitals."""
    schema = schema_of(kind)
    found = list(missing(schema, schema))
    assert found
    for said, meaning in found:
        _, _, words = said.partition(": ")
        whole = " ".join(meaning.split()).replace("``", "`")
        assert whole.lower().startswith(words.lower())
        assert whole[len(words) : len(words) + 2] in (".", ". ")
        first, shown = whole.split()[0], words.split()[0]
        assert shown == (first if first[1:].isupper() else first.lower())
