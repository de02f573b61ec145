"""Counters of ports as operators have them: what perfquery, ibqueryerrors, ibdiagnet and mlxlink print.

``PortXmitData`` counts words of four bytes that a port has sent, ``PortXmitWait`` ticks in which it had something to
send and could not (InfiniBand Architecture Specification, volume 1, 16.1.3.5). The length of a tick is the vendor's: a
Quantum counts one for each 8 bytes that it could have sent, older switches one for each 32 bytes a lane (NVIDIA,
*ibdiagnet user manual*, "Congestion Assessment on InfiniBand Links"). For adapters none is published; they are taken to
count as a switch with links of the same generation does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from routing.routed import Routed
from topo.catalog.devices import CHIPS, device_id
from topo.errors import FormatError, plural
from topo.fabric import MAX_PORTS, Fabric, Frozen
from topo.files.csv import split_row
from topo.files.text import SHELL, read_lines
from topo.speeds import SPEEDS
from topo.table import Brief

WORD_BYTES = 4
TICK_BYTES, OLD_TICK_BYTES = 8, 32
CEILINGS = (1 << 32) - 1, (1 << 64) - 1
"""Where counters stop."""
MLXLINK = re.compile(rf"(?:{SHELL}|\+ )?(?:sudo )?(?:mlx|mst)link\s(.{{0,200}})")
"""The command before what it prints: in a session, or as ``set -x`` prints it."""
OF_LID, OF_DEVICE = re.compile(r"-d\s*\S*?lid-(0x[0-9a-fA-F]{1,4}|\d{1,5})\b"), re.compile(r"-d\s*(\w{1,20})(?:\s|$)")
OF_PORT = re.compile(r"(?<!\S)--?p(?:ort)?(?!\w*_)[\s=]*(\S{1,10})")
SPLIT_AT = {"Quantum": 41, "Quantum-2": 65}
"""Ports of a switch with this chip, the last one of them its own; one with more has its cages split in two."""
MLXLINK_VALUE = re.compile(r'"?\b([A-Z][\w ]{3,40}(?: \[dBm\])?)"?\s*:\s*"?([^"]{1,120})')
"""A line of its text or JSON, which names the same values and writes them alike."""
MLXLINK_ERRORS = {
    "Symbol Errors": "SymbolErrorCounter",
    "Link Error Recovery Counter": "LinkErrorRecoveryCounter",
    "Link Down Counter": "LinkDownedCounter",
}
LIGHT = {"Rx Power Current [dBm]": "receives", "Tx Power Current [dBm]": "sends"}
POWER = re.compile(r"(-?\d[\d.]{0,8}(?:,-?\d[\d.]{0,8}){0,15})\s*\[(-?\d[\d.]{0,8})\.\.(-?\d[\d.]{0,8})\]\s*")
"""Of each lane, and between what limits the module itself takes it to be sound."""
COLOUR = re.compile(r"\x1b\[[\d;]{0,8}m")
FIRST_LINE = re.compile(rf"START_|Errors for |Data Counters for |# Port|## Summary|\s*GUID 0x|Ty\s*:|{MLXLINK.pattern}")
"""How the first line of a file of counters begins, behind comments."""
COMMENTS = 20
"""Lines in which it must stand."""
BER_HEAD = re.compile(r"Ty\s*:.{1,300}:\s*Effective BER\s*:.{0,300}")
"""Heading of ``ibdiagnet2.net_dump_ext``, of which a row has a port, its state and its bit error rates."""
GUID_LINE = re.compile(r"\s*GUID 0x([0-9a-fA-F]{1,16}) port (\d{1,3}):(.*)")
CHECKED = re.compile(r"## Summary: [1-9]\d{0,8} nodes checked, 0 bad nodes found")
"""How `ibqueryerrors` ends if it has no port to name."""
COUNTER = re.compile(r"\[(\w{1,40}) == (\d{1,20})\b")
LID_LINE = re.compile(r"# Port (?:extended )?counters: Lid (\d{1,5}) port (\d{1,3})\b.*")
DOTTED = re.compile(r"(\w{1,40}):\.*(\d{1,20})\s*")
COULD_BE = re.compile(
    r"\s*Link info:.{0,80}?==\(\s*(\d{1,2})X\s+(\d{1,4}\.?\d{0,5}) Gbps.{0,400}\( ?Could be (.{1,60}?) ?\)\s*"
)
LANES, SPEED = re.compile(r"\b(\d{1,2})X"), re.compile(r"\b(\d{1,4}\.?\d{0,5}) Gbps")
"""What a link could be, in ``Could be``: lanes, Gb/s a lane, or both."""
BER_VALUE = re.compile(r"\d{1,3}(\.\d{1,9})?([eE][+-]?\d{1,3})?")
Port: TypeAlias = int | tuple[str, int]
"""A port of the fabric, or device (GUID, LID, name) and number of one that the fabric does not have; -1 is neither."""
ERRORS = {
    "SymbolErrorCounter": 16,
    "LinkErrorRecoveryCounter": 8,
    "LinkDownedCounter": 8,
    "PortRcvErrors": 16,
    "LocalLinkIntegrityErrors": 4,
    "ExcessiveBufferOverrunErrors": 4,
}
"""Counters that grow when a link is bad, with their bits (the same specification, 16.1.3.5)."""
PM_INFO_COLUMNS = {
    f"{name.lower()}{bits}": name for name in ("PortXmitData", "PortXmitWait") for bits in ("", "ext", "extended")
}
"""Columns of PM_INFO, without case and underscores; a later one, of 64 bits, counts more."""
PM_INFO_COLUMNS |= {name.lower() + bits: name for bits in ("", "ext") for name in ERRORS}


@dataclass(frozen=True, eq=False)
class Counters(Frozen, Brief):
    """What the P ports of a fabric have sent, and what they could have sent while they waited."""

    sent_bytes: NDArray[np.float64]
    """(P,) nan where unknown."""
    lost_bytes: NDArray[np.float64]
    """(P,) bytes for which there was time while the port had something to send and could not; nan where unknown."""
    full: int = 0
    """Counters that stand at their ceiling, and so are not known."""
    errors: Mapping[Port, Mapping[str, int]] = field(default_factory=dict)
    """Counters of `ERRORS` by port, those above 0; none for a port without errors that the fabric does not have."""
    listed: bool = False
    """Whether the tool has left out what is below its thresholds, as ``ibqueryerrors`` does."""
    degraded: Mapping[int, tuple[str, float]] = field(default_factory=dict)
    """What a tool says of a link that is slower or narrower than it could be, and the share of its rate that is left,
    nan where the tool does not say, by port."""
    ber: Mapping[int, float] = field(default_factory=dict)
    """Bit error rate behind forward error correction, by port; of a port that is not there it is unknown."""
    light: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    """What is said of optical power outside of the limits of the module, by port."""

    @property
    def known(self) -> NDArray[np.bool_]:
        """(P,) ports of which both are known."""
        return np.asarray(np.isfinite(self.sent_bytes) & np.isfinite(self.lost_bytes))

    def _brief(self) -> str:
        return f"counters of {plural(int(self.known.sum()), 'port')}"

    def since(self, before: Counters) -> Counters:
        """Return what was counted after another reading; what has been cleared in between is as it stands now."""

        def grown(now: NDArray[np.float64], then: NDArray[np.float64]) -> NDArray[np.float64]:
            return np.where(now >= then, now - then, now)

        errors: dict[Port, dict[str, int]] = {}
        for port, each in self.errors.items():
            then = before.errors.get(port, {})
            errors[port] = {name: n - then.get(name, 0) if n >= then.get(name, 0) else n for name, n in each.items()}
        sent, lost = grown(self.sent_bytes, before.sent_bytes), grown(self.lost_bytes, before.lost_bytes)
        return replace(self, sent_bytes=sent, lost_bytes=lost, errors=errors)


def are_counters(path: str | Path) -> bool:
    r"""Whether a file begins as one of counters does; a pipe, which can be read once, is taken to hold none.

    Examples
    --------
    >>> import tempfile, simulate
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "counters.txt")
    ...     _ = file.write_text("# Port extended counters: Lid 5 port 3\n")
    ...     simulate.diagnosis.are_counters(file)
    True
    """
    return Path(path).is_file() and any(map(FIRST_LINE.match, islice(read_lines(path), COMMENTS)))


def read_counters(path: str | Path, routed: Routed) -> Counters:
    r"""Read counters from a file, unpacked when its name ends in ``.gz``; see `parse_counters`.

    Examples
    --------
    >>> import tempfile, topo, routing, simulate
    >>> from pathlib import Path
    >>> routed = routing.route(topo.preset("lab-20").fabric)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "counters.txt")
    ...     guid = int(routed.fabric.node_guid[0])
    ...     _ = file.write_text(f"GUID {guid:#x} port 1: [PortXmitWait == 1] [PortXmitData == 9]\n")
    ...     simulate.diagnosis.read_counters(file, routed)
    <Counters counters of 1 port>
    """
    return parse_counters(read_lines(path), routed, str(path))


def parse_counters(lines: Iterable[str], routed: Routed, path: str = "counters") -> Counters:
    r"""Parse what ``ibqueryerrors --data`` or ``perfquery`` prints, PM_INFO of ``db_csv``, or ``net_dump_ext``.

    Or what ``mlxlink -m -c`` prints, as text or JSON, behind the command that it answers: ``mlxlink -d lid-7 -p 31``
    names a port by LID and number, ``gpu07# mlxlink -d mlx5_0`` one of an adapter by host and device. Several outputs
    may stand one behind another. Errors of ports that the fabric does not have are kept by their device and number.
    It is a FormatError when no port of the fabric has both counters, or an error.

    Examples
    --------
    >>> import topo, routing
    >>> from simulate.diagnosis.counters import parse_counters
    >>> routed = routing.route(topo.preset("lab-20").fabric)
    >>> guid = int(routed.fabric.node_guid[0])
    >>> text = f'GUID {guid:#x} port 1: [PortXmitWait == 12] [PortXmitData == 2560 (10.000KB)]'
    >>> found = parse_counters([text], routed)
    >>> float(found.sent_bytes[0]), float(found.lost_bytes[0])
    (10240.0, 96.0)
    """
    fabric, places = routed.fabric, _Places(routed)
    values = {name: np.full(fabric.n_ports, np.nan) for name in ("PortXmitData", "PortXmitWait")}
    columns: list[str] | None = None
    errors: dict[Port, dict[str, int]] = {}
    degraded: dict[int, tuple[str, float]] = {}
    ber: dict[int, float] = {}
    light: dict[int, tuple[str, ...]] = {}
    heads: list[str] = []
    port: Port = -1

    def begin(found: Port) -> Port:
        if isinstance(found, tuple):
            errors.setdefault(found, {})
        return found

    def count(port: Port, name: str, value: int) -> None:
        if name in ERRORS and value and port != -1:
            errors.setdefault(port, {})[name] = value
        elif name in values and isinstance(port, int) and port >= 0:
            values[name][port] = value

    inside = listed = healthy = asked = False
    for line in lines:
        if line.startswith("START_"):
            inside, columns = line.startswith("START_PM_INFO"), None
        elif line.startswith("END_"):
            inside = False
        elif inside:
            cells = split_row(line.strip())
            if columns is None:
                columns = [cell.strip().lower().replace("_", "") for cell in cells]
                continue
            row = dict(zip(columns, (cell.strip() for cell in cells), strict=False))
            port = begin(places.of_guid(row.get("nodeguid", ""), row.get("portnumber", row.get("portnum", ""))))
            for column, name in PM_INFO_COLUMNS.items():
                if re.fullmatch(r"\d{1,20}|0x[0-9a-fA-F]{1,16}", text := row.get(column, "")):
                    count(port, name, int(text, 0))
        elif BER_HEAD.fullmatch(line.rstrip("\n")):
            heads = [head.strip() for head in line.split(":")]
        elif heads and len(cells := line.split(":")) >= len(heads):  # a description may hold a colon, and is the last
            row = dict(zip(heads, (cell.strip() for cell in cells), strict=False))
            port = places.of_guid(row.get("GUID", ""), row.get("#IB", ""))
            if isinstance(port, int) and port >= 0 and BER_VALUE.fullmatch(text := row["Effective BER"]):
                ber[port] = min(float(text), 1.0)
        elif match := GUID_LINE.fullmatch(line.rstrip("\n")):
            port, listed = begin(places.of_guid(match[1], match[2])), True
            for name, text in COUNTER.findall(match[3]):
                count(port, name, int(text))
        elif isinstance(port, int) and port >= 0 and (match := COULD_BE.fullmatch(line.rstrip("\n"))):
            degraded[port] = _degraded(*match.groups())
        elif CHECKED.match(line):
            healthy = True
        elif match := LID_LINE.match(line):
            port = begin(places.of_lid(int(match[1]), int(match[2])))
        elif match := DOTTED.fullmatch(line):
            count(port, match[1], int(match[2]))
        elif "link " in line and (match := MLXLINK.match(line)):
            port, asked = begin(places.of_command(match[1], match[2])), True
        elif asked:
            at = port if isinstance(port, int) else -1
            for name, text in (map(str.strip, pair) for pair in MLXLINK_VALUE.findall(COLOUR.sub("", line))):
                if name in MLXLINK_ERRORS and re.fullmatch(r"\d{1,20}", text):
                    count(port, MLXLINK_ERRORS[name], int(text))
                elif at >= 0 and name == "Effective Physical BER" and BER_VALUE.fullmatch(text):
                    ber[at] = min(float(text), 1.0)
                elif at >= 0 and name in LIGHT and (power := POWER.fullmatch(text)):
                    healthy = True
                    if told := _outside(*power.groups()):
                        light[at] = (*light.get(at, ()), f"{LIGHT[name]} {told}")
    if listed:  # ibqueryerrors leaves out what is zero
        wait = values["PortXmitWait"]
        wait[np.isnan(wait) & np.isfinite(values["PortXmitData"])] = 0
    full = np.isin(np.stack(list(values.values())), CEILINGS)
    for one, bad in zip(values.values(), full, strict=True):
        one[bad] = np.nan
    sent, lost = values["PortXmitData"] * WORD_BYTES, values["PortXmitWait"] * tick_bytes(fabric)
    found = Counters(sent, lost, int(full.sum()), errors, listed, degraded, ber, light)
    if not (healthy or found.known.any() or degraded or ber or light or any(isinstance(port, int) for port in errors)):
        raise FormatError(
            "found no port of the fabric with PortXmitWait and PortXmitData, or with errors; expected what "
            "`ibqueryerrors --data` or `perfquery -x` prints, ibdiagnet2.db_csv with the table PM_INFO, "
            "ibdiagnet2.net_dump_ext, or what mlxlink prints behind a line such as `mlxlink -d lid-7 -p 31 -m -c`"
            + (f"; {int(full.sum()):,} counters stand at their ceiling" if full.any() else "")
            + (f"; it has {plural(len(errors), 'port')} that the fabric does not have" if errors else ""),
            path,
        )
    return found


def tick_bytes(fabric: Fabric) -> NDArray[np.float64]:
    """(P,) bytes that each port could have sent in a tick of PortXmitWait.

    Examples
    --------
    >>> import topo, simulate
    >>> float(simulate.diagnosis.tick_bytes(topo.preset("lab-20").fabric)[0])
    8.0
    """
    return np.where(fabric.speed >= SPEEDS.index("HDR"), TICK_BYTES, OLD_TICK_BYTES * fabric.width.astype(float))


def _degraded(lanes: str, speed: str, best: str) -> tuple[str, float]:
    """Say at what a link runs and at what it could, and return the share of its rate; nan where that is not told."""
    more, faster = LANES.search(best), SPEED.search(best)
    now = int(lanes) * float(speed)
    could = int(more[1] if more else lanes) * float(faster[1] if faster else speed)
    share = now / could if now < could else np.nan
    says = f"{lanes}X at {speed} Gb/s a lane, could be {best}"
    return says + ("" if np.isnan(share) else f" ({100 * share:.0f} % of its rate)"), share


def _outside(lanes: str, least: str, most: str) -> str:
    """Say what lane is furthest outside of the limits; nothing if none is, or the module has none (``[0..0]``)."""
    try:
        low, high = float(least), float(most)
        worst = max(map(float, lanes.split(",")), key=lambda one: max(low - one, one - high))
    except ValueError:
        return ""
    return f"{worst:g} dBm, allowed {low:g} to {high:g}" if low < high and not low <= worst <= high else ""


class _Places:
    """Port ids by what a file names a port by."""

    def __init__(self, routed: Routed) -> None:
        self.fabric, self.tables = routed.fabric, routed.tables
        self.nodes = {guid: node for node, guid in enumerate(self.fabric.node_guid.tolist()) if guid}
        self.ports = {guid: port for port, guid in enumerate(self.fabric.port_guid.tolist()) if guid}
        self.names = {name: node for node, name in enumerate(self.fabric.names)}

    def of_guid(self, guid: str, number: str) -> Port:
        """Return the port of the node, or the adapter's port, that has the GUID."""
        try:
            value, port = int(guid, 16), int(number)
        except ValueError:
            return -1
        if value in self.nodes:
            return self._of_node(self.nodes[value], port)
        known = self.ports.get(value, -1)
        return known if known >= 0 or not 0 < value < 1 << 64 else _absent(f"{value:#018x}", port)

    @cached_property
    def lids(self) -> dict[int, int]:
        """The node that has each LID."""
        ends = np.flatnonzero(self.tables.lid > 0)
        return dict(zip(self.tables.lid[ends].tolist(), self.fabric.end_node[ends].tolist(), strict=True))

    def of_lid(self, lid: int, number: int) -> Port:
        """Return the port with this number of the switch or adapter that has the LID."""
        return self._of_node(self.lids[lid], number) if lid in self.lids else _absent(f"LID {lid}", number)

    def of_command(self, host: str | None, words: str) -> Port:
        """Return the port that a command of mlxlink names, or a name that no device has."""
        told = OF_PORT.search(words)
        label, number = told[1] if told else "1", 0
        if found := OF_LID.search(words):
            lid = int(found[1], 16 if found[1].startswith("0x") else 10)
            number = self._number_of(self.lids.get(lid, -1), label)
            return self.of_lid(lid, number) if number else (f"LID {lid} port {label}", 1)
        found = OF_DEVICE.search(words)
        name = f"{host} {found[1]}" if host and found else f"mlxlink {words.strip()[:40]}"
        node = self.names.get(name, -1)
        number = self._number_of(node, label)
        return self._of_node(node, number) if node >= 0 and number else (name, number or 1)

    def _number_of(self, node: int, label: str) -> int:
        """Return the number of the port that mlxlink calls ``cage/port/half``, 0 if it is not known.

        A port of a cage is left out where cages have one, a half where they are not split; it takes 1 for what is left
        out (mstflint, ``MlxlinkCommander::calculatePanelPort``, 2026). Quantum-3 numbers by registers of its own.
        """
        if not re.fullmatch(r"\d{1,3}(/[12]){0,2}", label):
            return 0
        first, *rest = map(int, label.split("/"))
        chip = CHIPS.get(device_id(self.fabric, node), "") if node >= 0 else ""
        if chip not in SPLIT_AT:
            return first if not rest and chip != "Quantum-3" else 0
        panel = 2 * first - 2 + (rest.pop(0) if rest else 1) if chip == "Quantum-2" else first
        if len(self.fabric.ports_of(node)) > SPLIT_AT[chip]:
            panel = 2 * panel - 2 + (rest.pop(0) if rest else 1)
        return 0 if rest else panel

    def _of_node(self, node: int, number: int) -> Port:
        first, beyond = self.fabric.port_offset[node : node + 2].tolist()
        return first + number - 1 if 1 <= number <= beyond - first else _absent(self.fabric.label(node), number)


def _absent(device: str, number: int) -> Port:
    """Return the key of a port that the fabric does not have; a switch's port to itself and "all ports" are none."""
    return (device, number) if 1 <= number <= MAX_PORTS else -1
