"""OpenSM's ``qos-policy.conf`` (``osm_qos_parser_y.y``), writer and reader: the service level that a path query gets.

Queries are matched against rules in their order; what matches none gets the level ``DEFAULT``, which must be there.
Names are single words, and not keywords of the format. The lanes of service levels are not here: OpenSM reads, but does
not use, the section ``qos-setup``; they are options (`routing.opensm.conf`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from routing.lanes.policy import MatchRule, PortGroup, QosPolicy
from routing.opensm.ibdiagnet import PSL, parse_psl, sniffed
from routing.tables import RoutingTables
from topo.budget import POLICY_MEMBERS
from topo.errors import FormatError
from topo.fabric import Fabric
from topo.files.text import lines_of, read_lines

GUIDS_A_LINE = 8
"""OpenSM's scanner keeps one line of at most 10 KiB."""

NAMES_A_LINE = 40

SECTIONS = {"port-groups": "port-group", "qos-levels": "qos-level", "qos-match-rules": "qos-match-rule"}

WORD = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")


def format_qos_policy(policy: QosPolicy) -> str:
    """Return the file; ValueError for a name that is not one word, or that a rule uses and nothing defines."""
    groups, levels = [group.name for group in policy.groups], ["DEFAULT", *(name for name, _ in policy.levels)]
    for name in (*groups, *levels):
        if not WORD.fullmatch(name):
            raise ValueError(f"{name!r} is not a name that OpenSM would read as one word")
    for rule in policy.rules:
        if unknown := ({*rule.source, *rule.destination} - set(groups)) | ({rule.level} - set(levels)):
            raise ValueError(f"a rule uses {sorted(unknown)}, which nothing defines")
    guids = {group.name: [f"0x{guid:016x}" for guid in group.port_guids] for group in policy.groups}
    contents = {
        "port-groups": [[f"name: {name}", *_listed("port-guid", guids[name], GUIDS_A_LINE)] for name in groups],
        "qos-levels": [[f"name: {name}", f"sl: {sl}"] for name, sl in (("DEFAULT", 0), *policy.levels)],
        "qos-match-rules": [
            [
                *_listed("source", rule.source, NAMES_A_LINE),
                *_listed("destination", rule.destination, NAMES_A_LINE),
                f"qos-level-name: {rule.level}",
            ]
            for rule in policy.rules
        ],
    }
    lines: list[str] = []
    for section, items in contents.items():
        inside, item = [], SECTIONS[section]
        for content in items:
            inside += [f"    {item}", *(f"        {line}" for line in content), f"    end-{item}"]
        lines += [section, *inside, f"end-{section}"] if items else []
    return "\n".join([*lines, ""])


def _listed(key: str, values: Sequence[str], a_line: int) -> list[str]:
    """Return the lines of a key with many values, so many a line."""
    chunks = (values[start : start + a_line] for start in range(0, len(values), a_line))
    return [f"{key}: {', '.join(chunk)}" for chunk in chunks]


Item = tuple[int, dict[str, str]]
"""Line on which it begins, and the values of its keys; those of a key that comes again are joined."""


def read_qos_policy(path: str | Path) -> QosPolicy:
    r"""Read a file as `parse_qos_policy` does.

    Examples
    --------
    >>> import tempfile, routing
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp(), "qos-policy.conf")
    >>> lines = "qos-levels", "qos-level", "name: DEFAULT", "sl: 0", "end-qos-level", "end-qos-levels"
    >>> _ = path.write_text("\n".join(lines))
    >>> routing.opensm.read_qos_policy(path).levels
    ()
    """
    return parse_qos_policy(read_lines(path), str(path))


def read_levels(path: str | Path, fabric: Fabric, tables: RoutingTables) -> QosPolicy | RoutingTables:
    """Read a policy, or tables with the service levels of paths that ibdiagnet found (``.psl``).

    Examples
    --------
    >>> import tempfile, routing, topo
    >>> from pathlib import Path
    >>> routed = routing.route(topo.preset("lab-20").fabric)
    >>> path = Path(tempfile.mkdtemp(), "ibdiagnet.psl")
    >>> guid = int(routed.fabric.node_guid[4])
    >>> _ = path.write_text(f"0x{guid:016x} 3 1")
    >>> int(routing.opensm.read_levels(path, routed.fabric, routed.tables).path_sl.max())
    1
    """
    is_psl, lines = sniffed(path, PSL)
    return parse_psl(lines, fabric, tables, str(path)) if is_psl else parse_qos_policy(lines, str(path))


def parse_qos_policy(text: str | Iterable[str], path: str = "") -> QosPolicy:
    """Read what `format_qos_policy` writes, and policies like it: groups by port GUID, levels by SL, rules by groups.

    FormatError at what is not understood: a section ``qos-ulps``, groups by name or partition, rules by service or
    class. To pass it over would be to say that paths have levels which they do not have.
    """
    found = _items(lines_of(text, path), path)
    groups = []
    for number, item in found["port-groups"]:
        name, guids = _values(number, item, path, "name", "port-guid")
        if not all(re.fullmatch(r"0x[0-9a-fA-F]{1,16}", guid) for guid in guids.split(", ")):
            raise FormatError(f"the group {name[:40]!r} is not made of single port GUIDs", path, number)
        groups.append(PortGroup(name, tuple(int(guid, 16) for guid in guids.split(", "))))
    levels = {}
    for number, item in found["qos-levels"]:
        name, sl = _values(number, item, path, "name", "sl")
        if not re.fullmatch(r"[0-9]|1[0-5]", sl):
            raise FormatError(f"the level {name[:40]!r} has the SL {sl[:20]!r}; expected 0 to 15", path, number)
        levels[name] = int(sl)
    names, rules = {group.name for group in groups}, []
    for number, item in found["qos-match-rules"]:
        level, *ends = _values(number, item, path, "qos-level-name", "source", "destination")
        source, destination = (tuple(filter(None, end.split(", "))) for end in ends)
        if unknown := ({*source, *destination} - names) | ({level} - set(levels)):
            raise FormatError(f"a rule uses {min(unknown)[:40]!r}, which nothing defines", path, number)
        rules.append(MatchRule(level, source, destination))
    if levels.pop("DEFAULT", None) != 0:
        raise FormatError("has no level DEFAULT with the SL 0; expected one", path)
    return QosPolicy(tuple(levels.items()), tuple(groups), tuple(rules))


def _items(lines: Iterable[str], path: str) -> dict[str, list[Item]]:
    found: dict[str, list[Item]] = {section: [] for section in SECTIONS}
    section, item, members = "", False, 0
    for number, raw in enumerate(lines, 1):
        line = raw.partition("#")[0].strip()
        key, colon, value = (part.strip() for part in line.partition(":"))
        if not line:
            continue
        if not section and line in SECTIONS:
            section = line
        elif section and not item and line == f"end-{section}":
            section = ""
        elif section and line == (f"end-{SECTIONS[section]}" if item else SECTIONS[section]):
            item = not item
            if item:
                found[section].append((number, {}))
        elif item and colon:
            members += value.count(",") + 1
            if members > POLICY_MEMBERS.limit:
                raise POLICY_MEMBERS.exceeded(path, number)
            values = found[section][-1][1]
            values[key] = f"{values[key]}, {value}" if key in values else value
        else:
            name = SECTIONS.get(section, "")
            expected = f"'key: value' or end-{name}" if item else f"{name} or end-{section}" if section else "a section"
            raise FormatError(f"found {line[:60]!r}; expected {expected}", path, number)
    if section:
        raise FormatError(f"ends inside {section}; expected end-{section}", path)
    return found


def _values(number: int, item: dict[str, str], path: str, *keys: str) -> list[str]:
    """Return the values of some keys; ``use`` is a remark, and others would change what is meant."""
    if unknown := [key for key in item if key not in (*keys, "use")]:
        raise FormatError(f"found {unknown[0][:40]!r}; of this item, {', '.join(keys)} are supported", path, number)
    return [item.get(key, "") for key in keys]
