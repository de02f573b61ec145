"""OpenSM's options file, writer and reader: ``key value`` a line, only what differs from OpenSM's defaults or must not.

OpenSM takes a boolean for true when it is the word ``TRUE`` and nothing else, cuts a line at ``#`` or after 1,022
bytes, and ignores keys that it does not know: `KEYS` holds those that may be written, as 3.3.23 spells them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import product
from pathlib import Path

from routing.lanes.classes import LanePlan
from routing.opensm.ibdiagnet import SLVL, parse_slvl, sniffed
from topo.errors import FormatError, did_you_mean
from topo.files.text import lines_of

MAX_LINE = 1022

SCOPES = ("qos", "qos_ca", "qos_sw0", "qos_swe", "qos_rtr")
"""Everything; then adapters, port 0 of switches, their other ports, and routers."""

KEYS = frozenset({
    "cn_guid_file", "honor_guid2lid_file", "io_guid_file", "lfts_file", "lmc", "max_op_vls", "node_name_map_name",
    "partition_config_file", "qos", "qos_policy_file", "reassign_lids", "root_guid_file", "routing_engine",
    *(f"{scope}_{of}" for scope, of in product(SCOPES, ("high_limit", "max_vls", "sl2vl", "vlarb_high", "vlarb_low"))),
})  # fmt: skip

BOOLEANS = ("TRUE", "FALSE")
"""OpenSM takes any other word, ``true`` too, for FALSE."""

OPERATIONAL_LANES = {1: 1, 2: 2, 4: 3, 8: 4}
"""Code of ``max_op_vls`` by data lanes (InfiniBand Architecture Specification, vol. 1, PortInfo:OperationalVLs)."""


def format_opensm_conf(options: Mapping[str, str | int | bool], comment: str = "") -> str:
    """Return the file; ValueError for a key or value that OpenSM would not take as it stands."""
    lines = [f"# {line}\n" for line in comment.splitlines()]
    for key, value in options.items():
        text = ("TRUE" if value else "FALSE") if isinstance(value, bool) else str(value)
        line = f"{key} {text}\n"
        if key not in KEYS:
            raise ValueError(f"{key!r} is not an option that OpenSM is known to read")
        plain = text and text == text.strip() and text.isprintable() and set(text).isdisjoint("#\"'")
        if not plain or len(line) > MAX_LINE:
            raise ValueError(f"OpenSM would not read the value {text!r} of {key} as it stands")
        lines.append(line)
    return "".join(lines)


def qos_options(lanes: LanePlan) -> dict[str, str | int | bool]:
    """Return the options that give every port these lanes.

    Each scope is set by itself: one that is left out would follow ``qos_``, until somebody edits the file.
    """
    operational = next(count for count in OPERATIONAL_LANES if count >= lanes.lanes)
    arbitration = ",".join(f"{vl}:{weight}" for vl, weight in lanes.arbitration)
    each: dict[str, str | int | bool] = {
        "max_vls": operational,
        "high_limit": 0,
        "vlarb_high": "0:0",
        "vlarb_low": arbitration,
        "sl2vl": ",".join(map(str, lanes.sl2vl)),
    }
    options = {f"{scope}_{key}": value for scope in SCOPES for key, value in each.items()}
    return {"qos": True, "max_op_vls": OPERATIONAL_LANES[operational], **options}


def read_lanes(path: str | Path) -> LanePlan:
    r"""Read a file as `parse_lanes` does, or the lanes that ibdiagnet found (``.slvl``).

    Examples
    --------
    >>> import tempfile, routing
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp(), "opensm.conf")
    >>> _ = path.write_text("qos TRUE\nqos_sl2vl 0,1" + 14 * ",0")
    >>> routing.opensm.read_lanes(path).sl2vl[:3]
    (0, 1, 0)
    """
    is_slvl, lines = sniffed(path, SLVL)
    return (parse_slvl if is_slvl else parse_lanes)(lines, str(path))


def parse_lanes(text: str | Iterable[str], path: str = "") -> LanePlan:
    """Return the lanes of the ports between switches, as an options file sets them.

    Without ``qos TRUE`` there is one. What ``qos_swe_`` leaves out, ``qos_`` says; what that leaves out too
    is as OpenSM has it: each level on the lane of its number (15 on lane 7), all lanes with equal weight. A lane's
    weight is the sum over both arbitration tables; that entries of high priority go first is not looked at. FormatError
    when no line is an option of `KEYS`, one of lanes is misspelt, a map or a table cannot be read, or a lane in use
    would never be served.
    """
    options: dict[str, tuple[int, str]] = {}
    for number, line in enumerate(lines_of(text, path), 1):
        key, _, value = line[:MAX_LINE].partition("#")[0].strip().partition(" ")
        if key:
            options[key] = number, value.strip()
        if re.match("qos(_|$)", key) and key not in KEYS:  # OpenSM would pass over it
            hint = did_you_mean(key, KEYS)
            raise FormatError(f"found {key[:60]!r}; expected an option of OpenSM. {hint}".rstrip(), path, number)
    if KEYS.isdisjoint(options):
        found, number = next(((f"{key} {value}", number) for key, (number, value) in options.items()), ("no line", 0))
        message = f"found {found[:60]!r} and no option of lanes or routing"
        raise FormatError(f"{message}; expected options of OpenSM, such as qos FALSE", path, number)
    number, on = options.get("qos", (0, "FALSE"))
    if on not in BOOLEANS:
        raise FormatError(f"found qos {on[:60]!r}, which OpenSM takes for FALSE; expected TRUE or FALSE", path, number)
    if on == "FALSE":
        return LanePlan((0,) * 16, ((0, 1),))

    def option(name: str, pattern: str, default: str) -> tuple[int, str]:
        for scope in ("qos_swe", "qos"):
            number, value = options.get(f"{scope}_{name}", (0, ""))
            if value in ("", "(null)"):
                continue
            if not re.fullmatch(pattern, value):
                message = f"found {scope}_{name} {value[:60]!r}; expected {default}, for example"
                raise FormatError(message, path, number)
            return number, value
        return 0, default

    entries = r"\d{1,2}:\d{1,3}(,\d{1,2}:\d{1,3})*"
    at, levels = option("sl2vl", r"\d{1,2}(,\d{1,2}){15}", ",".join(map(str, [*range(15), 7])))
    sl2vl = [int(lane) for lane in levels.split(",")]
    if max(sl2vl) > 15:
        raise FormatError(f"found lane {max(sl2vl)} in a map of service levels; expected lanes 0 to 15", path, at)
    lanes = [lane for lane in sl2vl if lane < 15]
    if not lanes:
        raise FormatError("every service level is mapped to lane 15, which carries no data", path, at)
    weights = dict.fromkeys(range(max(lanes) + 1), 0)
    equal = ",".join(f"{lane}:64" for lane in weights)
    for name, default in (("vlarb_low", equal), ("vlarb_high", "0:0")):
        for entry in option(name, entries, default)[1].split(","):
            lane, weight = map(int, entry.split(":"))
            if lane in weights:
                weights[lane] += weight
    if starved := [lane for lane in lanes if not weights[lane]]:
        message = f"service levels are mapped to lane {starved[0]}, which no arbitration entry serves"
        raise FormatError(message, path, at)
    return LanePlan(tuple(sl2vl), tuple(sorted((lane, weight) for lane, weight in weights.items() if weight)))
