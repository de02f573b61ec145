"""How rows of boxes are linked: by lines while they can be told apart, by fans, and by lanes within a level."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from topo.drawing.scene import LINE, Caption, Cell, Fan, Point, Scene, Stroke, cable_pairs, text_width
from topo.errors import plural
from topo.fabric import Fabric

MOST_LINES = 64
"""Pairs of boxes between two heights that are drawn as lines of their own."""
STUB = 13.0
"""Length of the ends of a fan."""
ALONG = (0.3, 0.15, 0.45, 0.6, 0.75)
"""Where along a line its label may be, the best place first."""
LANE = 24.0
"""Distance of lanes."""

Pairs = dict[tuple[int, int], list[int]]
"""Links between two boxes, each known by its first switch, the lower on the page first."""
Groups = dict[tuple[int, int], Pairs]
"""The same by the rows of both."""


@dataclass
class BoxRow:
    """Switches of one kind in one pod, whose boxes stand side by side."""

    zone: int
    pod: int
    level: int
    """0 for joints, which stand below all zones."""
    switches: list[int]
    cells: list[Cell] = field(default_factory=list)
    under: float = 0.0
    """Where what hangs below them ends; links go straight down to there."""

    @property
    def middle(self) -> float:
        """Where it is centred."""
        return (self.cells[0].x + self.cells[-1].x + self.cells[-1].width) / 2

    @property
    def y(self) -> float:
        """Upper edge."""
        return self.cells[0].y


def connect(scene: Scene, fabric: Fabric, rows: Sequence[BoxRow], lane: float) -> float:
    """Draw the links between boxes, and return where the last lane is (above ``lane`` where there is none).

    Links between boxes of one height meet on a line below everything; ``lane`` is where the first may be.
    """
    groups = _group(fabric, rows)
    between: dict[tuple[float, float], list[int]] = {}
    for (low, high), pairs in groups.items():
        between.setdefault((rows[low].y, rows[high].y), []).extend(map(len, pairs.values()))
    wiring = _Wiring(scene, rows, groups, {heights for heights, sizes in between.items() if len(sizes) > MOST_LINES})
    even = {heights for heights, sizes in between.items() if len(set(sizes)) == 1} - wiring.full
    for low_y, high_y in sorted(even):  # said once, beside the picture, not on every line
        size, under = between[low_y, high_y][0], max(row.under for row in rows if row.y == high_y)
        if low_y != high_y and size > 1:
            scene.captions.append(Caption(0.0, (low_y + under) / 2, f"{size:,} links a line"))
    lane -= LANE
    for low, high in groups:
        heights = rows[low].y, rows[high].y
        if heights[0] == heights[1]:
            lane += LANE
            wiring.lane(low, high, lane)
        elif heights in wiring.full:
            wiring.fan(low, high)
        else:
            wiring.lines(low, high, labelled=heights not in even)
    wiring.label()
    return lane


def line(*points: Point) -> str:
    """Return SVG path data through points."""
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def _group(fabric: Fabric, rows: Sequence[BoxRow]) -> Groups:
    """Return the links between boxes."""
    place = {switch: (row, cell) for row, boxes in enumerate(rows) for cell in boxes.cells for switch in cell.switches}
    groups: Groups = {}
    for (a, b), links in cable_pairs(fabric).items():
        (row_a, cell_a), (row_b, cell_b) = place[a], place[b]
        if cell_a is cell_b:
            continue
        if (cell_a.y, a) < (cell_b.y, b):
            row_a, cell_a, row_b, cell_b = row_b, cell_b, row_a, cell_a
        pairs = groups.setdefault((row_a, row_b), {})
        pairs.setdefault((cell_a.switches[0], cell_b.switches[0]), []).extend(links)
    return dict(sorted(groups.items()))


class _Wiring:
    """The links between rows, each plugged into a point on the edge of a box.

    Points of an edge are ordered by where what is plugged in comes from. `full` holds the heights between which there
    are too many links for lines of their own.
    """

    def __init__(
        self, scene: Scene, rows: Sequence[BoxRow], groups: Groups, full: AbstractSet[tuple[float, float]]
    ) -> None:
        self.scene, self.rows, self.groups, self.full = scene, rows, groups, full
        self.cells = {cell.switches[0]: cell for row in rows for cell in row.cells}
        self.drawn: list[tuple[int, Point, Point, bool]] = []
        """Lines by their number among the strokes: where they begin and bend, and whether they have a label."""
        self.wanted: dict[tuple[int, bool], dict[tuple[int, ...], float]] = {}
        for (low, high), pairs in groups.items():
            level = rows[low].y == rows[high].y
            bundled = level or (rows[low].y, rows[high].y) in full
            for a, b in pairs:
                for mine, other, row in ((a, b, high), (b, a, low)):
                    towards = rows[row].middle if bundled else self.cells[other].middle[0]
                    plug = (low, high) if bundled else (low, high, other)
                    self.wanted.setdefault((mine, mine == a and not level), {})[plug] = towards

    def point(self, box: int, top: bool, plug: tuple[int, ...]) -> Point:
        """Return the point on the upper or lower edge of a box where something is plugged in."""
        wanted, cell = self.wanted[box, top], self.cells[box]
        place = sorted(wanted, key=lambda other: (wanted[other], other)).index(plug)
        return cell.x + cell.width * (place + 1) / (len(wanted) + 1), cell.y if top else cell.y + cell.height

    def lines(self, low: int, high: int, *, labelled: bool) -> None:
        """Draw one line for each two boxes."""
        for (a, b), links in self.groups[low, high].items():
            start, end = self.point(a, True, (low, high, b)), self.point(b, False, (low, high, a))
            bend = (end[0], max(self.rows[high].under, end[1]))
            path = line(start, bend, *([end] if bend != end else []))
            self.drawn.append((len(self.scene.strokes), start, bend, labelled and len(links) > 1))
            self.scene.strokes.append(Stroke(path, tuple(links)))

    def label(self) -> None:
        """Put the number of links on lines, where it lies across no other line; else the tooltip alone has it."""
        for place, start, end, labelled in self.drawn:
            words = f"×{len(self.scene.strokes[place].links):,}"
            half = text_width(words) / 2 + 4
            others = [other[1:3] for other in self.drawn if other[0] != place]
            spots = [(start[0] + at * (end[0] - start[0]), start[1] + at * (end[1] - start[1])) for at in ALONG]
            spots = [spot for spot in spots if not any(_crosses(*other, spot, half) for other in others)]
            if labelled and spots:
                self.scene.strokes[place] = replace(self.scene.strokes[place], label=words, at=spots[0])

    def fan(self, low: int, high: int) -> None:
        """Draw a shaded area between two rows, with one end at each box."""
        pairs, upper = self.groups[low, high], self.rows[high]
        below, above = _by_end(pairs, 0), _by_end(pairs, 1)
        starts = {box: self.point(box, True, (low, high)) for box in below}
        stops = {box: self.point(box, False, (low, high)) for box in above}
        low_y, high_y = self.rows[low].y - STUB, max(upper.under, upper.y + upper.cells[0].height + STUB)
        low_left, low_right = min(x for x, _ in starts.values()), max(x for x, _ in starts.values())
        high_left, high_right = min(x for x, _ in stops.values()), max(x for x, _ in stops.values())
        corners = ((low_left, low_y), (low_right, low_y), (high_right, high_y), (high_left, high_y))
        links = tuple(sorted(link for mine in pairs.values() for link in mine))
        label = self._words(below, above, pairs)
        x, y = 0.4 * (low_left + low_right) + 0.1 * (high_left + high_right), low_y - 0.25 * (low_y - high_y)
        room = text_width(label)
        near = (fan for fan in self.scene.fans if abs(fan.at[0] - x) < (room + text_width(fan.label)) / 2 + 3 * LINE)
        taken = [fan.at[1] for fan in near]
        free = (y - 2 * LINE * step for step in range(1 + int((y - high_y - LINE) / (2 * LINE))))
        y = next((other for other in free if all(abs(other - mine) >= 2 * LINE for mine in taken)), y)
        spokes = [(tuple(mine), (starts[a][0], low_y), (stops[b][0], high_y)) for (a, b), mine in pairs.items()]
        self.scene.fans.append(Fan(corners, links, tuple(spokes), label, (x, y)))
        for ends, points, edge in ((below, starts, low_y), (above, stops, high_y)):
            self._ends(ends, points, edge)

    def lane(self, low: int, high: int, y: float) -> None:
        """Draw the links between boxes of one height: each box has one end, and all meet on a line."""
        ends = _by_end(self.groups[low, high], 0, 1)
        points = {box: self.point(box, False, (low, high)) for box in ends}
        links = tuple(sorted(set().union(*ends.values())))
        left, right = min(x for x, _ in points.values()), max(x for x, _ in points.values())
        label = plural(len(links), "link")
        self.scene.strokes.append(Stroke(line((left, y), (right, y)), links, label, ((left + right) / 2, y - 9)))
        self._ends(ends, points, y)

    def _ends(self, ends: Mapping[int, tuple[int, ...]], points: Mapping[int, Point], y: float) -> None:
        for box, links in ends.items():
            self.scene.strokes.append(Stroke(line(points[box], (points[box][0], y)), links, end=True))

    def _words(self, low: Mapping[int, object], high: Mapping[int, object], pairs: Pairs) -> str:
        """Say what a fan stands for: ``800 links: 1 from each of 40 to each of 20``."""
        count = sum(map(len, pairs.values()))
        sizes = {len(links) for links in pairs.values()}
        single = all(len(self.cells[box].switches) == 1 for box in (*low, *high))
        reach = set(Counter(a for a, _ in pairs).values())
        if single and len(sizes) == len(reach) == 1:
            size, far = sizes.pop(), reach.pop()
            whom = f"each of {far}" if far == len(high) else f"{far} of {len(high)}"
            return f"{plural(count, 'link')}: {size} from each of {len(low)} to {whom}"
        return plural(count, "link")


def _crosses(start: Point, end: Point, at: Point, half: float) -> bool:
    """Whether a line that is not level crosses a label, which is ``2 half`` wide."""
    (x, y), (to_x, to_y) = start, end
    shares = sorted(min(max((at[1] + edge - y) / (to_y - y), 0.0), 1.0) for edge in (-LINE / 2, LINE / 2))
    left, right = sorted(x + share * (to_x - x) for share in shares)
    return shares[0] < shares[1] and left < at[0] + half and right > at[0] - half


def _by_end(pairs: Pairs, *sides: int) -> dict[int, tuple[int, ...]]:
    """Return the links of each box at one end, or at both."""
    ends: dict[int, set[int]] = defaultdict(set)
    for boxes, links in pairs.items():
        for side in sides:
            ends[boxes[side]].update(links)
    return {box: tuple(sorted(ends[box])) for box in sorted(ends)}
