"""What LLDP tells of an Ethernet's cables, device by device: reader and writer.

A session: a prompt with the name of a device and the command, then what the command prints; and so on for each::

    leaf00# lldpctl -f json
    {"lldp": {"interface": [{"swp1": {"chassis": {"gpu00": {...}}, "port": {"id": {"type": "ifname", ...}}}}]}}
    spine0# show lldp neighbors
    Port       Neighbor Device ID       Neighbor Port ID    TTL
    ---------- ------------------------ ------------------- ---
    Et1        leaf00                   Ethernet49          120

JSON is that of ``lldpctl`` and ``lldpcli`` (lldpd 1.0.19, lldpcli(8)), as ``json`` or ``json0``; tables are those whose
header names the local port, the device and its port: Arista EOS, SONiC (``show lldp table``), Cumulus, NX-OS and IOS.
LLDP tells no speeds: links are taken as 4xSDR, the least that there is.

A device is a switch if most of its ports are called as switches call them: ``swp7s1``, ``Ethernet1/7``, ``et-0/0/7``.
Any other is a server, and each of its ports an adapter. Numbers that all ports of a switch begin with are its slot.
What follows the number of a cage numbers the parts that it is split into, and cages that are whole stand behind those
that are split, as in sheets of cabling. SONiC numbers lanes from ``Ethernet0`` on.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from topo.builder import stable_guid
from topo.dumps.discovery import UNCOUNTED, Discovery, FoundNode, Records
from topo.fabric import Fabric
from topo.files.text import SHELL, lines_of

PROMPT: re.Pattern[str] = re.compile(SHELL + r"(?:show\s+lldp\b|lldpctl\b|lldpcli\b).{0,100}\s*")
PANEL_PORT = re.compile(r"(?:swp|Et|Eth|Ethernet|et-|xe-|ge-|\w{0,20}GigE|\w{0,20}GigabitEthernet) ?([\d/:s]{1,20})")
MOST_LANES = 8
"""Of a cage: SONiC calls a port by the first of its lanes."""
HEADINGS = (
    {"port", "localport", "localintf", "localinterface", "interface"},
    {"neighbordeviceid", "remotedevice", "deviceid", "remotehost", "systemname"},
    {"neighborportid", "remoteportid", "portid", "remoteport"},
)
"""Of a table the local port, the device behind it, and its port: headings without blanks and capitals."""
HARDWARE = {"mac", "macaddress"}
"""Types of a port's id that are no name of it: then its description is."""


class _Seen(NamedTuple):
    """What a device tells of one of its ports."""

    line: int
    device: str
    port: str
    far: str
    far_port: str


def parse_lldp(text: str | Iterable[str], path: str = "") -> Discovery:
    """Return the fabric; FormatError for JSON that is none of lldpctl's, or two cables in one port."""
    records = Records(path)
    outputs: list[tuple[int, str, list[str]]] = []
    for number, line in enumerate(lines_of(text, path), 1):
        if match := PROMPT.fullmatch(line):
            outputs.append((number, _short(match[1]), []))
        elif outputs:
            outputs[-1][2].append(line)
        elif line.strip():
            records.pass_over(number, line, "stands before the first prompt")
    seen: dict[tuple[str, str], _Seen] = {}
    for number, device, lines in outputs:
        at = next((at for at, line in enumerate(lines) if line.lstrip().startswith("{")), None)
        found = _of_table(records, number, device, lines) if at is None else _of_json(
            records, number, device, "\n".join(lines[at:]))  # fmt: skip
        for one in found:
            if seen.setdefault((device, one.port), one).far != one.far:
                records.skip(one.line, f"a second neighbour, {one.far[:40]!r}, at {one.port[:40]!r} of {device}")
    _plug(records, list(seen.values()))
    return records.assemble()


def _of_json(records: Records, line: int, device: str, text: str) -> Iterator[_Seen]:
    """Yield the neighbours that lldpctl prints as JSON, where lists of one stand for what they hold."""
    try:
        found, _ = json.JSONDecoder().raw_decode(text.lstrip())
        listed = _only(found["lldp"]).get("interface", [])
        for entry in listed if isinstance(listed, list) else [listed]:
            for port, one in [(entry["name"], entry)] if isinstance(entry.get("name"), str) else entry.items():
                chassis, there = _only(one["chassis"]), _only(one["port"])
                if "id" not in chassis:  # the name is the key
                    ((name, _),) = chassis.items()
                else:
                    name = _only(chassis.get("name", chassis["id"]))["value"]
                own = _only(there["id"])
                described = _only(there.get("descr", ""))
                described = described.get("value", "") if isinstance(described, dict) else described
                far_port = (own["type"] in HARDWARE and described) or own["value"]
                yield _Seen(line, device, *(str(word)[:63] for word in (port, _short(str(name)), far_port)))
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        message = f"found JSON that lldpctl does not print ({type(error).__name__}: {error!s:.60})"
        raise records.refuse(f'{message}; expected {{"lldp": {{"interface": ...}}}}', line) from None


def _only(value: Any) -> Any:
    return value[0] if isinstance(value, list) else value


def _of_table(records: Records, line: int, device: str, lines: Sequence[str]) -> Iterator[_Seen]:
    """Yield the rows of a table: its cells stand apart by two blanks, or below its headings where one is empty."""
    starts: list[int] = []
    places: list[int] = []
    for number, text in enumerate(lines, line + 1):
        cells = re.split(r"\s{2,}", text.strip())
        if not starts:
            heads = [re.sub(r"[^a-z]", "", cell.lower()) for cell in cells]
            if all(kind.intersection(heads) for kind in HEADINGS):
                places = [next(at for at, head in enumerate(heads) if head in kind) for kind in HEADINGS]
                starts = [match.start() for match in re.finditer(r"\S+(?: \S+)*", text)]
        elif text.strip(" -\n\t"):
            if len(cells) < len(starts) and all(start == 0 or text[start - 1 : start] in ("", " ") for start in starts):
                cells = [text[a:b].strip() for a, b in zip(starts, [*starts[1:], None], strict=True)]
            found = [cells[at][:63] for at in places if at < len(cells) and cells[at]]
            if len(found) == len(places):
                yield _Seen(number, device, found[0], _short(found[1]), found[2])
            else:
                records.pass_over(number, text, "is no row of the table")
    if not starts:
        records.skip(line, f"what {device} prints, which is neither JSON nor a table of neighbours")


def _short(name: str) -> str:
    """Return the name of a device without its domain; numbers and addresses have none."""
    head, _, domain = name.partition(".")
    return head if head and re.search(r"[g-zG-Z]", domain) else name


def _plug(records: Records, seen: Sequence[_Seen]) -> None:
    """Tell switches from servers, number their ports, and add every cable from the ends that tell of it."""
    names: dict[str, list[str]] = defaultdict(list)
    for one in seen:
        names[one.device].append(one.port)
        names[one.far].append(one.far_port)
    on_panel = {device: sum(map(bool, map(PANEL_PORT.fullmatch, ports))) for device, ports in names.items()}
    numbers = {device: number_ports(ports) for device, ports in names.items() if 2 * on_panel[device] > len(ports)}
    first_line = {device: one.line for one in reversed(seen) for device in (one.far, one.device)}
    for device, known in numbers.items():
        key = ("S", stable_guid(device))
        records.node(FoundNode(key, max(known.values()), device, first_line[device]))
    own = {(one.far, numbers.get(one.far, {}).get(one.far_port)): one for one in seen if one.device not in numbers}
    for one in seen:
        # The name by which a server calls its port counts, where a switch has another.
        told = own.get((one.device, numbers.get(one.device, {}).get(one.port)))
        far_port = told.port if told and told.device == one.far else one.far_port
        ends: list[tuple[FoundNode, int]] = []
        for device, port in ((one.device, one.port), (one.far, far_port)):
            if device not in numbers:
                name = f"{device} {port}".replace('"', "'")
                ends.append((FoundNode(("H", stable_guid(name)), 1, name, one.line), 1))
            elif port in numbers[device]:
                ends.append((FoundNode(("S", stable_guid(device)), UNCOUNTED, device, one.line), numbers[device][port]))
        if len(ends) == 2:
            records.link(*ends[0], *ends[1])
            continue
        for node, _ in ends:
            records.node(node)
        records.skip(one.line, f"a cable at a port of {one.device} or {one.far} that is not on its panel")
    records.skip(0, f"{len(seen):,} speeds, which LLDP does not tell: taken as 4xSDR")


def number_ports(names: Iterable[str]) -> dict[str, int]:
    """Return the number of each port of a switch by its name; what is not on the panel has none.

    >>> number_ports(["swp1s0", "swp1s1", "swp2", "eth0"])
    {'swp1s0': 1, 'swp1s1': 2, 'swp2': 3}
    >>> number_ports(["Ethernet0", "Ethernet8", "Ethernet16"])
    {'Ethernet0': 1, 'Ethernet8': 2, 'Ethernet16': 3}
    """
    found = {name: match[1] for name in names if (match := PANEL_PORT.fullmatch(name))}
    words = {name: re.findall(r"\d{1,6}", text) for name, text in found.items()}
    parts = {name: [*map(int, numbers)] for name, numbers in words.items() if numbers}

    def has_slot() -> bool:
        least = min(len(numbers) - (not {"s", ":"}.isdisjoint(found[name])) for name, numbers in parts.items())
        return least > 1 and len({numbers[0] for numbers in parts.values()}) == 1

    while len(parts) > 1 and has_slot():
        parts = {name: numbers[1:] for name, numbers in parts.items()}
    cages = [numbers[0] for numbers in parts.values()]
    lanes = math.gcd(MOST_LANES, *cages)
    if all(re.fullmatch(r"Ethernet\d+", name) for name in parts) and (0 in cages or len(cages) > 2):
        parts = {name: [numbers[0] // lanes] for name, numbers in parts.items()}
    base = 0 if any(numbers[0] == 0 for numbers in parts.values()) else 1
    split = sorted({numbers[1] for numbers in parts.values() if len(numbers) > 1})
    last = max((numbers[0] - base + 1 for numbers in parts.values() if len(numbers) > 1), default=0)
    behind = (len(split) - 1) * last * bool(split)
    return {
        name: (cage - base) * len(split) + split.index(part[0]) + 1 if part else cage - base + 1 + behind
        for name, (cage, *part) in parts.items()
    }


def format_lldp(fabric: Fabric, labels: Sequence[str]) -> str:
    """Return what ``lldpctl -f json`` would print on each device, as a session.

    Parameters
    ----------
    fabric : Fabric
    labels : sequence of str
        (P,) label of each port, as `topo.Panel.labels` has them.

    Examples
    --------
    >>> import topo
    >>> cluster = topo.preset("lab-20")
    >>> (panel,) = topo.panels(cluster.fabrics, cluster.catalog)
    >>> topo.format_lldp(cluster.fabric, panel.labels).splitlines()[0]
    'leaf0# lldpctl -f json'
    """
    device = [re.sub(r"[^\w.-]", "-", fabric.server_of(node)) for node in range(fabric.n_nodes)]
    owner, number, guids = fabric.port_node.tolist(), fabric.port_number.tolist(), fabric.node_guid.tolist()

    def interface(port: int) -> str:
        node = owner[port]
        if node < fabric.n_switches:
            cage, _, part = labels[port].partition("/")
            return f"swp{cage}" + (f"s{int(part) - 1}" if part else "")
        name = fabric.names[node].partition(" ")[2] or "eth0"
        return name if fabric.port_offset[node + 1] - fabric.port_offset[node] == 1 else f"{name}p{number[port]}"

    listed: dict[str, list[dict[str, Any]]] = {}
    for port, peer in enumerate(fabric.peer.tolist()):
        if peer < 0:
            continue
        there, mac = owner[peer], f"{guids[owner[peer]] >> 8 & ~(3 << 40) & (1 << 48) - 1 | 2 << 40:012x}"
        kind = "Bridge" if there < fabric.n_switches else "Station"
        address = {"type": "mac", "value": ":".join(re.findall("..", mac))}
        chassis = {"id": address, "capability": [{"type": kind, "enabled": True}]}
        told = {"id": {"type": "ifname", "value": interface(peer)}, "ttl": "120"}
        one = {"via": "LLDP", "rid": "1", "chassis": {device[there]: chassis}, "port": told}
        listed.setdefault(device[owner[port]], []).append({interface(port): one})
    printed = {name: json.dumps({"lldp": {"interface": found}}, indent=1) for name, found in listed.items()}
    return "".join(f"{name}# lldpctl -f json\n{text}\n" for name, text in printed.items())
