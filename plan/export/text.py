"""Texts of others in files that other programs read."""

from __future__ import annotations

import json
import re

from topo import HeddleError


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


def slurm_word(name: str) -> str:
    """Return a name as a word of Slurm's files, which know no quotes for it: nothing in it ends or extends it.

    Examples
    --------
    >>> slurm_word("SwitchX-2 0x2c9,[1]")
    'SwitchX-2-0x2c9--1-'
    """
    return re.sub(r"[\s\"'#=,\\\[\]]", "-", name) or "-"


def checked_word(name: str, what: str) -> str:
    """Return a name that shells, MPI and Slurm take as it is.

    Raises
    ------
    HeddleError
        When it is none.
    """
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.:-]*", name):
        raise HeddleError(f"found {what} {name[:80]!r}; expected letters, digits and any of -_.: in files of ranks")
    return name
