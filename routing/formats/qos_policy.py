"""OpenSM's ``qos-policy.conf`` (``osm_qos_parser_y.y``): the service level that a path query is answered with.

Queries are matched against rules in their order; what matches none gets the level ``DEFAULT``, which must be there.
Names are single words, and not keywords of the format. The lanes of service levels are not here: OpenSM reads, but does
not use, the section ``qos-setup``; they are options (`routing.formats.opensm_conf`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["MatchRule", "PortGroup", "QosPolicy", "format_qos_policy"]

GUIDS_A_LINE = 8
"""OpenSM's scanner keeps one line of at most 10 KiB."""

NAMES_A_LINE = 40

WORD = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")


@dataclass(frozen=True)
class PortGroup:
    """A named set of end ports."""

    name: str
    port_guids: tuple[int, ...]


@dataclass(frozen=True)
class MatchRule:
    """Queries for paths from any of some groups to any of some others (none given: from or to anywhere)."""

    level: str
    source: tuple[str, ...] = ()
    destination: tuple[str, ...] = ()


@dataclass(frozen=True)
class QosPolicy:
    """A whole policy; the service level ``DEFAULT`` is 0."""

    levels: tuple[tuple[str, int], ...] = ()
    """Name and service level of each level but ``DEFAULT``."""
    groups: tuple[PortGroup, ...] = ()
    rules: tuple[MatchRule, ...] = ()


def format_qos_policy(policy: QosPolicy) -> str:
    """Return the file.

    Raises
    ------
    ValueError
        For a name that is not one word, or that a rule uses and nothing defines.
    """
    groups, levels = [group.name for group in policy.groups], ["DEFAULT", *(name for name, _ in policy.levels)]
    for name in (*groups, *levels):
        if not WORD.fullmatch(name):
            raise ValueError(f"{name!r} is no name that OpenSM would read as one word")
    for rule in policy.rules:
        if unknown := ({*rule.source, *rule.destination} - set(groups)) | ({rule.level} - set(levels)):
            raise ValueError(f"a rule uses {sorted(unknown)}, which nothing defines")
    text = ""
    if groups:
        text += _section("port-groups", "port-group", [_group(group) for group in policy.groups])
    text += _section(
        "qos-levels", "qos-level", [[f"name: {name}", f"sl: {sl}"] for name, sl in (("DEFAULT", 0), *policy.levels)]
    )
    if policy.rules:
        text += _section("qos-match-rules", "qos-match-rule", [_rule(rule) for rule in policy.rules])
    return text


def _section(name: str, item: str, items: Sequence[Sequence[str]]) -> str:
    lines = [name]
    for content in items:
        lines += [f"    {item}", *(f"        {line}" for line in content), f"    end-{item}"]
    return "\n".join([*lines, f"end-{name}", ""])


def _group(group: PortGroup) -> list[str]:
    guids = [f"0x{guid:016x}" for guid in group.port_guids]
    chunks = [guids[i : i + GUIDS_A_LINE] for i in range(0, len(guids), GUIDS_A_LINE)]
    return [f"name: {group.name}", *(f"port-guid: {', '.join(chunk)}" for chunk in chunks)]


def _rule(rule: MatchRule) -> list[str]:
    lines = []
    for key, names in (("source", rule.source), ("destination", rule.destination)):
        chunks = [names[i : i + NAMES_A_LINE] for i in range(0, len(names), NAMES_A_LINE)]
        lines += [f"{key}: {', '.join(chunk)}" for chunk in chunks]
    return [*lines, f"qos-level-name: {rule.level}"]
