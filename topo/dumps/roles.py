"""Roles of the hosts of a discovered fabric, by rules over node descriptions or by lists of port GUIDs.

A dump does not say which host computes and which stores. Its operator knows: by the names of the hosts, or by the GUID
files that OpenSM was given (``cn_guid_file``, ``io_guid_file``, ``root_guid_file``).

A line of a GUID file begins with a GUID, ``0x`` and hexadecimal digits; what follows after white space or ``#`` is a
comment. Lines that are empty or begin with ``#`` are skipped. OpenSM drops a file at its first bad line and routes
without it, so the reader refuses such a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import translate
from pathlib import Path

import numpy as np

from topo.budget import GUIDS, ROLE_PATTERN, ROLE_RULES
from topo.errors import FormatError, did_you_mean
from topo.fabric import HOST_ROLES, Fabric, Kind, Role
from topo.files.text import lines_of, numbered_lines, read_lines


@dataclass(frozen=True)
class RoleRule:
    """Hosts whose adapters' descriptions match a pattern have a role."""

    pattern: str
    """Shell pattern over the whole description, case-sensitive: ``st[0-9]* mlx5_?``. Such patterns need no more
    than the product of both lengths to match; regular expressions, which may need for ever, are not taken."""
    role: Role


def apply_rules(fabric: Fabric, rules: Sequence[RoleRule]) -> tuple[Fabric, tuple[RoleRule, ...]]:
    """Return the fabric with the role of each HCA by the first rule that its description matches, and idle rules.

    An HCA that matches none keeps its role, as do aggregation nodes, routers and switches. A rule is idle when no HCA
    has its role from it: it matches none, or earlier ones match first.

    Examples
    --------
    >>> from pathlib import Path
    >>> import tempfile, topo
    >>> path = Path(tempfile.mkdtemp()) / "roles"
    >>> _ = path.write_text(chr(10).join(["storage gpu0*", "storage none*"]))
    >>> changed, idle = topo.apply_rules(topo.preset("lab-20").fabric, topo.read_role_rules(path))
    >>> changed.counts().gpu_nodes, [rule.pattern for rule in idle]
    (6, ['none*'])
    """
    matchers = [re.compile(translate(rule.pattern)) for rule in rules]
    idle = dict.fromkeys(range(len(rules)))
    role = fabric.role.copy()
    for node in np.flatnonzero(fabric.kind == Kind.HCA).tolist():
        name = fabric.names[node]
        rule = next((number for number, matcher in enumerate(matchers) if matcher.match(name)), None)
        if rule is not None:
            role[node] = rules[rule].role
            idle.pop(rule, None)
    return replace(fabric, role=role), tuple(rules[number] for number in idle)


def apply_guids(fabric: Fabric, guids: Mapping[Role, Iterable[int]]) -> tuple[Fabric, tuple[int, ...]]:
    """Return the fabric with the roles of the HCAs whose port GUIDs are listed, and the GUIDs that it does not hold.

    An HCA of several ports has the role that is given to any of them; of two roles, the one that comes last.

    Examples
    --------
    >>> import topo
    >>> fabric = topo.preset("lab-20").fabric
    >>> guid = int(fabric.end_guid[fabric.n_switches])
    >>> changed, unknown = topo.apply_guids(fabric, {topo.Role.STORAGE: [guid, 1]})
    >>> changed.counts().gpu_nodes, unknown
    (15, (1,))
    """
    first = fabric.first_adapter_port
    owner = dict(zip(fabric.port_guid[first:].tolist(), fabric.port_node[first:].tolist(), strict=True))
    role = fabric.role.copy()
    unknown = []
    for wanted, listed in guids.items():
        for guid in listed:
            node = owner.get(guid)
            if node is None or fabric.kind[node] != Kind.HCA:
                unknown.append(guid)
            else:
                role[node] = wanted
    return replace(fabric, role=role), tuple(unknown)


def read_role_rules(path: str | Path) -> tuple[RoleRule, ...]:
    """Read a file as `parse_role_rules` does.

    Examples
    --------
    >>> from pathlib import Path
    >>> import tempfile, topo
    >>> path = Path(tempfile.mkdtemp()) / "roles"
    >>> _ = path.write_text("storage st*")
    >>> [rule.pattern for rule in topo.read_role_rules(path)]
    ['st*']
    """
    return parse_role_rules(read_lines(path), str(path))


def parse_role_rules(text: str | Iterable[str], path: str = "") -> tuple[RoleRule, ...]:
    """Read rules: one a line, a role and then a pattern (``storage st* mlx5_*``); ``#`` begins a comment line.

    FormatError for a line that is no rule, no rules, or more than anyone needs.
    """
    rules = []
    for number, line in numbered_lines(text, path):
        word, _, pattern = line.strip().partition(" ")
        pattern = pattern.strip()
        if word not in HOST_ROLES:
            message = f"found the role {word[:40]!r}; expected one of {', '.join(HOST_ROLES)}"
            raise FormatError(f"{message}. {did_you_mean(word, HOST_ROLES)}".rstrip(), path, number)
        if not 1 <= len(pattern) <= ROLE_PATTERN.limit:
            message = f"found a pattern of {len(pattern)} characters; expected 1 to {ROLE_PATTERN.limit}, such as st*"
            raise FormatError(message, path, number)
        rules.append(RoleRule(pattern, HOST_ROLES[word]))
        if len(rules) > ROLE_RULES.limit:
            raise ROLE_RULES.exceeded(path, number)
    if not rules:
        raise FormatError("found no rule; expected one per line, such as storage st*", path)
    return tuple(rules)


GUID_LINE = re.compile(r"\s*0x([0-9a-f]{1,16})(?:[\s#].*)?", re.IGNORECASE)

MAX_LINE = 255
"""Characters that OpenSM reads of a line; it takes the rest for another (``cl_nodenamemap.c``)."""


def format_guid_list(guids: Iterable[tuple[int, str]]) -> str:
    """Return a list of GUIDs, each with a comment (which may be empty) behind it."""
    return "".join(
        f"0x{guid:016x} # {''.join(c for c in comment if c.isprintable())}"[:MAX_LINE].rstrip(" #") + "\n"
        for guid, comment in guids
    )


def read_guid_list(path: str | Path) -> tuple[int, ...]:
    """Read a file as `parse_guid_list` does.

    Examples
    --------
    >>> import tempfile, topo
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp()) / "guids"
    >>> _ = path.write_text("0x10 # gpu00")
    >>> topo.read_guid_list(path)
    (16,)
    """
    return parse_guid_list(read_lines(path), str(path))


def parse_guid_list(text: str | Iterable[str], path: str = "") -> tuple[int, ...]:
    """Return the GUIDs of a list, in its order.

    FormatError for a line that OpenSM would not read, and for a list that is longer than any subnet.
    """
    guids = []
    for number, line in enumerate(lines_of(text, path), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = GUID_LINE.fullmatch(line)
        if match is None or len(line) > MAX_LINE:
            expected = f"then white space and a comment, at most {MAX_LINE} characters in all"
            found = f"found {line.strip()[:60]!r}; expected a GUID such as 0x0c42a10300a9b026"
            raise FormatError(f"{found}, {expected}", path, number)
        guids.append(int(match.group(1), 16))
        if len(guids) > GUIDS.limit:
            raise GUIDS.exceeded(path, number)
    return tuple(guids)
