"""What a picture is made of: boxes, hosts, strokes and fans, each knowing which switches and links it stands for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from topo.fabric import Fabric, Role

Point = tuple[float, float]


class HostPort(NamedTuple):
    """A port of a server, as the switch that it hangs on sees it."""

    node: int
    """Its adapter."""
    host: str
    adapter: str
    role: Role


@dataclass(frozen=True)
class Cell:
    """A box: one switch, or several that stand as one."""

    switches: tuple[int, ...]
    x: float
    y: float
    width: float
    height: float
    text: tuple[str, ...]
    """Lines of its label."""
    upright: bool = False
    """Whether the label reads upwards."""

    @classmethod
    def of(cls, fabric: Fabric, switch: int, x: float, y: float, size: Point, *, upright: bool = False) -> Cell:
        """Return the box of one switch, with its name."""
        return cls((switch,), x, y, *size, (short(fabric.label(switch)),), upright)

    @property
    def middle(self) -> Point:
        """Its centre."""
        return self.x + self.width / 2, self.y + self.height / 2


@dataclass(frozen=True)
class Hosts:
    """The hosts of a cell: named boxes where there is room, else a dot each, or their numbers as text."""

    ports: tuple[HostPort, ...]
    x: float
    y: float
    width: float
    pitch: float
    """Distance of dots; 0 for text alone."""
    named: bool = False

    @property
    def step(self) -> float:
        """Distance of columns."""
        return NAME_WIDTH if self.named else self.pitch

    @property
    def columns(self) -> int:
        """Hosts side by side."""
        return max(int((self.width + 1) // self.step), 1)

    @property
    def start(self) -> float:
        """Left edge of the first column; the columns are centred."""
        return self.x + (self.width - min(self.columns, len(self.ports)) * self.step) / 2 if self.pitch else self.x

    @property
    def counts(self) -> Counter[tuple[Role, str]]:
        """How many there are by role and by what their names begin with; by role alone where names have no system."""
        found = Counter((port.role, port.host.rstrip("0123456789-")[:16]) for port in self.ports)
        if len(found) <= MOST_NAMES:
            return found
        return Counter((port.role, port.role.name.lower()) for port in self.ports)

    @property
    def height(self) -> float:
        """What they take of the picture."""
        if not self.ports:
            return 0.0
        if not self.pitch:
            return LINE * len(self.counts)
        rows = -(-len(self.ports) // self.columns)
        return rows * (NAME_HEIGHT if self.named else self.pitch)


NAME_WIDTH, NAME_HEIGHT = 62.0, 18.0
"""Of the box of a named host."""
LINE = 13.0
"""Of text."""
MOST_NAMES, MOST_LETTERS = 3, 24
"""Groups of hosts that are counted apart; letters of a name that is shown, its tooltip has all of it."""


@dataclass(frozen=True)
class Stroke:
    """Parallel links, or one end of a bundle, as one line."""

    path: str
    """SVG path data."""
    links: tuple[int, ...]
    label: str = ""
    at: Point = (0.0, 0.0)
    """Middle of the label."""
    end: bool = False
    """Whether it is one end only, of a bundle or of a link that leaves the picture."""


@dataclass(frozen=True)
class Fan:
    """Links between two rows of boxes, too many to be told apart."""

    corners: tuple[Point, ...]
    links: tuple[int, ...]
    spokes: tuple[tuple[tuple[int, ...], Point, Point], ...]
    """The links between each two boxes, and where they leave and enter the fan."""
    label: str
    at: Point


@dataclass(frozen=True)
class Area:
    """A zone, a pod or a group: what is inside belongs together."""

    x: float
    y: float
    width: float
    height: float
    text: str
    faint: bool = False
    """Whether it lies inside another."""

    @property
    def text_at(self) -> Point:
        """Where its text begins: at the top, or at the foot of what others lead into from above."""
        return self.x + 7, self.y + (self.height - 5 if self.faint else 15)


@dataclass(frozen=True)
class Caption:
    """Text beside the picture; the name of a level for instance."""

    x: float
    y: float
    text: str


@dataclass
class Scene:
    """A picture of one subnet; the upper left corner is (0, 0)."""

    width: float = 0.0
    height: float = 0.0
    areas: list[Area] = field(default_factory=list)
    fans: list[Fan] = field(default_factory=list)
    strokes: list[Stroke] = field(default_factory=list)
    hosts: list[Hosts] = field(default_factory=list)
    cells: list[Cell] = field(default_factory=list)
    captions: list[Caption] = field(default_factory=list)


def cable_pairs(fabric: Fabric) -> dict[tuple[int, int], list[int]]:
    """Return the links between each two switches that have any, lower switch first, in order."""
    ends = np.sort(fabric.port_node[fabric.links], axis=1).tolist()
    pairs: dict[tuple[int, int], list[int]] = {}
    for link in np.flatnonzero(fabric.is_inner_link).tolist():
        pairs.setdefault(tuple(ends[link]), []).append(link)
    return dict(sorted(pairs.items()))


def host_ports(fabric: Fabric) -> list[list[HostPort]]:
    """Return the ports of servers on each switch, in the order of the fabric."""
    ports: list[list[HostPort]] = [[] for _ in range(fabric.n_switches)]
    ends = fabric.ends()
    for node, switch in zip(fabric.end_node[ends].tolist(), fabric.end_switch[ends].tolist(), strict=True):
        ports[switch].append(HostPort(node, fabric.server_of(node), fabric.names[node], Role(fabric.role[node])))
    return ports


def find_rails(fabric: Fabric) -> NDArray[np.int64]:
    """Return (S,) the rail of each leaf, -1 for other switches; all -1 where there are no rails.

    Rail r are the leaves on which every compute server has the r-th of its adapters, where it has several.
    """
    rails, ends = np.full(fabric.n_switches, -1, np.int64), fabric.ends()
    node, switch = fabric.end_node[ends], fabric.end_switch[ends]
    computes = fabric.role[node] == Role.COMPUTE
    leaves: dict[int, dict[int, None]] = {}
    for server, leaf in zip(fabric.host[node[computes]].tolist(), switch[computes].tolist(), strict=True):
        leaves.setdefault(server, {})[leaf] = None
    found = {(leaf, rail) for mine in leaves.values() for rail, leaf in enumerate(mine)}
    if len({len(mine) for mine in leaves.values()} | {1}) == 2 and len(found) == len({leaf for leaf, _ in found}):
        for leaf, rail in found:
            rails[leaf] = rail
    return rails


LETTER_WIDTH = {letter: width / 1_000 for width, letters in {
    222: "'ijl", 278: " !,./:;I[\\]ft", 333: "()-`r", 500: "Jcksvxyz", 556: "#$0123456789?L_abdeghnopqu", 584: "+<=>~",
    611: "FTZ", 667: "&ABEKPSVXY", 722: "CDHNRUw", 778: "GOQ", 833: "Mm", 889: "%", 944: "W", 1000: "–×…", 1015: "@",
}.items() for letter in letters}  # fmt: skip
"""Widths of letters of Helvetica, as parts of its size (Adobe Font Metrics); others are taken as 0.6."""


def text_width(words: str, size: float = 10.0) -> float:
    """Return the width of a line of text."""
    return size * sum(LETTER_WIDTH.get(letter, 0.6) for letter in words)


def longest_label(fabric: Fabric, switches: Iterable[int]) -> float:
    """Return the width of the longest name of some switches, as it is shown."""
    return max(text_width(short(fabric.label(switch))) for switch in switches)


def short(name: str, most: int = MOST_LETTERS) -> str:
    """Return a name as it is shown: a long one without its middle, as names of one kind differ at the end."""
    return name if len(name) <= most else f"{name[: most // 2]}…{name[most // 2 + 1 - most :]}"


def place_hosts(cell: Cell, ports: Sequence[HostPort], *, named: bool = False, above: bool = False) -> Hosts:
    """Place the hosts of a cell below it, or above."""
    pitch = 0.0 if len(cell.switches) > 1 else 5.4 if cell.upright else 8.0
    hosts = Hosts(tuple(ports), cell.x, cell.y + cell.height + 4, cell.width, pitch, named and not cell.upright)
    if above:
        hosts = Hosts(hosts.ports, cell.x, cell.y - 4 - hosts.height, cell.width, pitch, hosts.named)
    return hosts
