"""Planned cabling as sheets and tools of the field have it: readers.

Three forms, each line a cable, from one of its ends or from both:

* NDT of UFM, a CSV: ``#StartDevice,StartPort,EndDevice,EndPort,LinkType``, ports such as ``Port 21``,
  ``Blade 16_Port 2/20`` of a frame (chip ``L16/U2``, port 20), or the NodeDescription of an adapter;
* P2P of the Cable Validation Tool, a workbook (`topo.files.csv`) or a CSV as a spreadsheet saves it:
  ``Rack,U,Name,HCA/Port,Rack,U,Name,Port`` or ``A-Node Name, A-Port, Z-Node Name, Z-Port``, ports such as ``21``,
  ``11/1`` or ``sw11p1``, and ``3`` for ``mlx5_2``;
* ``.topo``, sections ``MQM8700 leaf01`` with lines ``P21 -4x-50G-> MQM8700 spine01 P1`` or a bare ``->``.

Sheets may be put one behind another. They have no GUIDs, so each node gets one that follows from its name; and speeds
are known from ``.topo`` alone: otherwise links are taken as 4xSDR, the least that there is.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import permutations
from typing import NamedTuple

from topo.builder import stable_guid
from topo.dumps.discovery import UNCOUNTED, Discovery, FoundNode, NodeKey, Records
from topo.dumps.planes import LABEL
from topo.dumps.subnet_lst import SPEED_OF_LANE
from topo.files.csv import plain_text, split_row
from topo.files.text import lines_of

CSV_HEAD: re.Pattern[str] = re.compile(
    r"\W*+(?:fields:)?.{0,200}?\b(StartDevice|EndDevice|HCA/Port|A-Node Name)\b.{0,400}", re.IGNORECASE
)
TOPO_CABLE: re.Pattern[str] = re.compile(
    r"\s+(\S{1,80})\s+-(?:(\d{1,2}x)-([\w.]{1,6})-)?>\s+(\S{1,80})\s+(\S{1,80})\s+(\S{1,80})\s*"
)
TOPO_SYSTEM = re.compile(r"(\S{1,80})\s+(\S{1,80})(?:\s+CFG:.*)?\s*")

BLADE = re.compile(r"Blade\s*0*(\d{1,3})_Port\s*0*(\d{1,3})/0*(\d{1,3})", re.IGNORECASE)
ONE = re.compile(r"(?:Port|P)?\s*0*(\d{1,3})", re.IGNORECASE)
TWO = re.compile(r"P?0*(\d{1,3})/P?0*(\d{1,2})", re.IGNORECASE)
DEVICE = re.compile(r"(\S{1,40})/P?0*(\d{1,2})", re.IGNORECASE)
MOST_ADAPTERS = 16
"""Of a server: a bare number above is the port of a switch."""


class _End(NamedTuple):
    """One end of a cable, as it is written."""

    system: str
    port: str
    model: str = ""
    switch: bool | None = None
    """None where the sheet does not tell."""


class _Sheet(Records):
    """Planned cables, as their reader comes to them."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.rows: list[tuple[int, _End, _End, tuple[int, int] | None]] = []

    def build(self) -> Discovery:
        """Tell switches from servers, and build the fabric."""
        ends: dict[str, list[_End]] = defaultdict(list)
        for _, a, b, _ in self.rows:
            for end in (a, b):
                ends[end.system.casefold()].append(end)
        switches = {system for system, found in ends.items() if _is_switch(found)}
        halves = {system: [TWO.fullmatch(end.port) for end in ends[system]] for system in switches}
        halved = {system: max((int(half[1]) for half in found if half), default=0) for system, found in halves.items()}
        described: set[tuple[NodeKey, int, NodeKey, int]] = set()
        for line, *pair, rate in self.rows:
            if not any(end.system.casefold() in switches for end in pair):
                found = f"{pair[0].port[:40]!r} and {pair[1].port[:40]!r}, none of which is the port of a switch"
                expected = "one such as 'Port 21', 'Blade 16_Port 2/20', '11/1' or 'P21'"
                raise self.refuse(f"found {found}; expected {expected}", line)
            placed: list[tuple[FoundNode, int]] = []
            for end in pair:
                system = end.system.casefold()
                name, number = _at_switch(end, halved[system]) if system in switches else _at_server(end)
                if not number:
                    raise self.refuse(f"cannot tell which port of {end.system[:40]!r} is {end.port[:40]!r}", line)
                key = ("S" if system in switches else "H", stable_guid(name.casefold()))
                placed.append((FoundNode(key, UNCOUNTED, name, line), number))
            for (near, number), (far, far_number) in permutations(placed):
                cable = near.key, number, far.key, far_number
                if cable not in described:
                    described.add(cable)
                    self.link(near, number, far, far_number, rate or (0, 0))
        if bare := sum(rate is None for *_, rate in self.rows):
            self.skip(0, f"{bare:,} speeds, which the sheet does not have: taken as 4xSDR")
        return self.assemble()


def parse_cabling_csv(text: str | Iterable[str], path: str = "") -> Discovery:
    """Return the fabric of NDT or P2P.

    FormatError for a header without a column, a row without a cell, or a port that cannot be told or has two cables.
    """
    sheet = _Sheet(path)
    places: Sequence[int] = ()
    p2p = False
    for number, line in enumerate(lines_of(text, path), 1):
        if CSV_HEAD.fullmatch(line):
            places, p2p = _places(sheet, line, number), "startdevice" not in line.lower()
            continue
        cells = [plain_text(cell.strip()) for cell in split_row(line)]
        if not any(cells) or line.startswith("#"):
            continue
        if not places:
            sheet.pass_over(number, line, "stands before the header")
            continue
        if len(cells) <= max(places) or not all(cells[place] for place in places):
            raise sheet.unlike(line, "a device and a port at either end", number)
        a, p, b, q = (cells[place] for place in places)
        at_switch = True if p2p else None  # the right-hand end of a P2P sheet is one
        sheet.rows.append((number, _End(a, p), _End(b, q, switch=at_switch), None))
    return sheet.build()


def parse_topo(text: str | Iterable[str], path: str = "") -> Discovery:
    """Return the fabric; FormatError for a cable before any system, or a port that cannot be told or has two cables."""
    sheet = _Sheet(path)
    system: tuple[str, str] | None = None
    for number, line in sheet.lines(text):
        if match := TOPO_CABLE.fullmatch(line):
            if system is None:
                expected = "a line such as MQM8700 leaf01"
                raise sheet.refuse(f"found a cable before the first system; expected {expected}", number)
            port, width, lane, far_type, far, far_port = match.groups()
            speed = width and width + SPEED_OF_LANE.get(lane.upper().removesuffix("G"), lane)
            rate = sheet.rate(speed, number) if speed else None
            near = _End(system[1], port, *_of_type(system[0]))
            sheet.rows.append((number, near, _End(far, far_port, *_of_type(far_type)), rate))
        elif match := TOPO_SYSTEM.fullmatch(line):
            system = match[1], match[2]
        else:
            sheet.pass_over(number, line, "is no cable")
    return sheet.build()


def _places(sheet: _Sheet, line: str, number: int) -> Sequence[int]:
    """Return which cells of a row are the first device and its port, and the other ones."""
    names = [re.sub(r"^\W*(?:fields:)?\W*", "", cell.strip().lower()) for cell in line.split(",")]
    for wanted in (
        ("startdevice", "startport", "enddevice", "endport"),
        ("a-node name", "a-port", "z-node name", "z-port"),
    ):
        if set(wanted) & set(names):
            if lacking := [name for name in wanted if name not in names]:
                raise sheet.refuse(f"found no column {lacking[0]}; expected {', '.join(wanted)}", number)
            return [names.index(name) for name in wanted]
    if names.count("name") < 2 or not {"port", "hca/port"} <= set(names):
        found = "a header without Name and Port of both ends"
        raise sheet.refuse(f"found {found}; expected Rack,U,Name,HCA/Port,...", number)
    last = len(names) - 1 - names[::-1].index("name")
    return names.index("name"), names.index("hca/port"), last, names.index("port")


def _of_type(kind: str) -> tuple[str, bool]:
    """Return the model of a system of ``.topo``, and whether it is a switch: servers are ``HCA_...`` or ``MT23108``."""
    server = bool(re.match(r"HCA|MT\d", kind))
    return "" if server else kind, not server


def _is_switch(ends: Sequence[_End]) -> bool:
    """Whether a system is a switch: the sheet says so, or what its ports are called."""
    if told := {end.switch for end in ends} - {None}:
        return True in told
    ports = [end.port for end in ends]
    if any(BLADE.fullmatch(port) or TWO.fullmatch(port) or LABEL.fullmatch(port) for port in ports):
        return True
    numbers = [match for port in ports if (match := ONE.fullmatch(port))]
    many = (not match[0].isdecimal() or int(match[1]) > MOST_ADAPTERS for match in numbers)
    return len(numbers) == len(ports) and any(many)


def _at_switch(end: _End, halved: int) -> tuple[str, int]:
    """Return the description of a switch, or of a chip of a frame, and the number of its port; 0 where nobody can tell.

    ``11/2`` is the second port of cage 11, or the second half of port 11; whole ports stand behind those in halves.
    """
    name = f"MF0;{end.system}:{end.model}/U1" if end.model else end.system
    if match := BLADE.fullmatch(end.port):
        return f"{end.system}/L{int(match[1]):02d}/U{int(match[2])}", int(match[3])
    if match := TWO.fullmatch(end.port) or LABEL.fullmatch(end.port):
        return name, 2 * (int(match[1]) - 1) + int(match[2]) if 1 <= int(match[2]) <= 2 else 0
    match = ONE.fullmatch(end.port)
    return name, int(match[1]) + halved if match else 0


def _at_server(end: _End) -> tuple[str, int]:
    """Return the description of an adapter and the number of its port."""
    if end.port.startswith(f"{end.system} "):
        return end.port, 1
    if match := ONE.fullmatch(end.port):
        alone = bool(end.switch is False)  # an old .topo numbers the ports of the one adapter
        return (f"{end.system} HCA-1", int(match[1])) if alone else (f"{end.system} mlx5_{int(match[1]) - 1}", 1)
    if match := DEVICE.fullmatch(end.port):
        return f"{end.system} {match[1]}", int(match[2])
    return f"{end.system} {end.port}", 1
