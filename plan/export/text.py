"""Texts of ours in files that other programs read."""

from __future__ import annotations

import json


def yaml_text(text: str) -> str:
    """Return a text as YAML, in double quotes whatever it is: ``on`` and ``1e3`` are no text without them.

    Both versions of YAML read it alike; what is not printable is escaped.

    Examples
    --------
    >>> print(yaml_text("a: [b]"))
    "a: [b]"
    """
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(char if char.isprintable() else f"\\U{ord(char):08x}" for char in quoted)
