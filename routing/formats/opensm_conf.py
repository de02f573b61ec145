"""OpenSM's options file: ``key value`` a line, only what differs from OpenSM's defaults or must not.

OpenSM takes a boolean for true when it is the word ``TRUE`` and nothing else, cuts a line at ``#`` or after 1,022
bytes, and ignores keys that it does not know: `KEYS` holds those that may be written, as 3.3.23 spells them.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

from routing.qos import LanePlan

__all__ = ["KEYS", "format_opensm_conf", "qos_options"]

MAX_LINE = 1022

SCOPES = ("qos", "qos_ca", "qos_sw0", "qos_swe", "qos_rtr")
"""Everything; then adapters, port 0 of switches, their other ports, and routers."""

KEYS = frozenset(
    {
        "cn_guid_file",
        "honor_guid2lid_file",
        "io_guid_file",
        "lfts_file",
        "lmc",
        "max_op_vls",
        "node_name_map_name",
        "partition_config_file",
        "qos",
        "qos_policy_file",
        "reassign_lids",
        "root_guid_file",
        "routing_engine",
        *(
            f"{scope}_{key}"
            for scope, key in product(SCOPES, ("high_limit", "max_vls", "sl2vl", "vlarb_high", "vlarb_low"))
        ),
    }
)

OPERATIONAL_LANES = {1: 1, 2: 2, 4: 3, 8: 4}
"""Code of ``max_op_vls`` by data lanes (InfiniBand Architecture Specification, vol. 1, PortInfo:OperationalVLs)."""


def format_opensm_conf(options: Mapping[str, str | int | bool], comment: str = "") -> str:
    """Return the file.

    Raises
    ------
    ValueError
        For a key or value that OpenSM would not take as it stands.
    """
    lines = [f"# {line}\n" for line in comment.splitlines()]
    for key, value in options.items():
        text = ("TRUE" if value else "FALSE") if isinstance(value, bool) else str(value)
        line = f"{key} {text}\n"
        if key not in KEYS:
            raise ValueError(f"{key!r} is no option that OpenSM is known to read")
        if (
            not text
            or text != text.strip()
            or not text.isprintable()
            or set(text) & set("#\"'")
            or len(line) > MAX_LINE
        ):
            raise ValueError(f"OpenSM would not read the value {text!r} of {key} as it stands")
        lines.append(line)
    return "".join(lines)


def qos_options(lanes: LanePlan) -> dict[str, str | int | bool]:
    """Return the options that give every port these lanes.

    Each scope is set by itself: one that is left out would follow ``qos_``, until somebody edits the file.
    """
    operational = next(count for count in OPERATIONAL_LANES if count >= lanes.lanes)
    arbitration = ",".join(f"{vl}:{weight}" for vl, weight in lanes.arbitration)
    options: dict[str, str | int | bool] = {"qos": True, "max_op_vls": OPERATIONAL_LANES[operational]}
    for scope in SCOPES:
        options[f"{scope}_max_vls"] = operational
        options[f"{scope}_high_limit"] = 0
        options[f"{scope}_vlarb_high"] = "0:0"
        options[f"{scope}_vlarb_low"] = arbitration
        options[f"{scope}_sl2vl"] = ",".join(map(str, lanes.sl2vl))
    return options
