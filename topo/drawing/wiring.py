"""How rows of boxes are linked: by lines while they can be told apart, by fans, and by lanes within a level."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from topo.drawing.scene import LINE, Cell, Fan, Point, Scene, Stroke, cable_pairs, text_width
from topo.fabric import Fabric

MOST_LINES = 64
"""Pairs of boxes between two heights that are drawn as lines of their own."""
STUB = 13.0
"""Length of the ends of a fan."""
LANE = 24.0
"""Distance of lanes."""

Pairs = dict[tuple[int, int], list[int]]
"""Links between two boxes, each known by its first switch, the lower on the page first."""


@dataclass(frozen=True)
class Row:
    """Boxes side by side."""

    cells: tuple[Cell, ...]
    under: float
    """Where what hangs below them ends; links go straight down to there."""

    @property
    def middle(self) -> float:
        """Where it is centred."""
        return (self.cells[0].x + self.cells[-1].x + self.cells[-1].width) / 2

    @property
    def y(self) -> float:
        """Upper edge."""
        return self.cells[0].y


@dataclass
class EdgePoints:
    """Places on the upper and lower edges of boxes, ordered by where what is plugged in comes from."""

    wanted: dict[tuple[int, bool], dict[tuple[int, ...], float]] = field(default_factory=dict)

    def ask(self, cell: Cell, top: bool, plug: tuple[int, ...], towards: float) -> None:
        """Ask for a place on an edge of a box."""
        self.wanted.setdefault((cell.switches[0], top), {})[plug] = towards

    def point(self, cell: Cell, top: bool, plug: tuple[int, ...]) -> Point:
        """Return the place, once all have asked."""
        wanted = self.wanted[cell.switches[0], top]
        place = sorted(wanted, key=lambda other: (wanted[other], other)).index(plug)
        return cell.x + cell.width * (place + 1) / (len(wanted) + 1), cell.y if top else cell.y + cell.height


def connect(scene: Scene, fabric: Fabric, rows: Sequence[Row], lane: float) -> float:
    """Draw the links between boxes.

    Parameters
    ----------
    lane : float
        Where the first lane may be: links between boxes of one height meet on a line below everything.

    Returns
    -------
    float
        Where the last lane is, or ``lane`` less the distance of lanes when there is none.
    """
    cell_of = {cell.switches[0]: cell for row in rows for cell in row.cells}
    groups = _group(fabric, rows)
    between: Counter[tuple[float, float]] = Counter()
    for (low, high), pairs in groups.items():
        between[rows[low].y, rows[high].y] += len(pairs)
    edges = EdgePoints()
    for (low, high), pairs in groups.items():
        level, many = rows[low].y == rows[high].y, between[rows[low].y, rows[high].y] > MOST_LINES
        for a, b in pairs:
            for mine, other, row in ((a, b, high), (b, a, low)):
                towards = rows[row].middle if level or many else cell_of[other].middle[0]
                plug = (low, high) if level or many else (low, high, other)
                edges.ask(cell_of[mine], mine == a and not level, plug, towards)
    lane -= LANE
    for (low, high), pairs in groups.items():
        if rows[low].y == rows[high].y:
            lane += LANE
            _lane(scene, cell_of, (low, high), pairs, edges, lane)
        elif between[rows[low].y, rows[high].y] > MOST_LINES:
            _fan(scene, rows, cell_of, (low, high), pairs, edges)
        else:
            _lines(scene, rows[high], cell_of, (low, high), pairs, edges)
    return lane


def line(*points: Point) -> str:
    """Return SVG path data through points."""
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def _group(fabric: Fabric, rows: Sequence[Row]) -> dict[tuple[int, int], Pairs]:
    """Return the links between boxes by the rows of both, the lower on the page first."""
    place = {switch: (row, cell) for row, boxes in enumerate(rows) for cell in boxes.cells for switch in cell.switches}
    groups: dict[tuple[int, int], Pairs] = {}
    for (a, b), links in cable_pairs(fabric).items():
        (row_a, cell_a), (row_b, cell_b) = place[a], place[b]
        if cell_a is cell_b:
            continue
        if (cell_a.y, a) < (cell_b.y, b):
            row_a, cell_a, row_b, cell_b = row_b, cell_b, row_a, cell_a
        pairs = groups.setdefault((row_a, row_b), {})
        pairs.setdefault((cell_a.switches[0], cell_b.switches[0]), []).extend(links)
    return dict(sorted(groups.items()))


def _lines(
    scene: Scene, upper: Row, cell_of: Mapping[int, Cell], rows: tuple[int, int], pairs: Pairs, edges: EdgePoints
) -> None:
    """Draw one line for each two boxes, with the number of links on it."""
    for (a, b), links in pairs.items():
        start, end = edges.point(cell_of[a], True, (*rows, b)), edges.point(cell_of[b], False, (*rows, a))
        bend = (end[0], max(upper.under, end[1]))
        at = (start[0] + 0.3 * (bend[0] - start[0]), start[1] + 0.3 * (bend[1] - start[1]))
        label = f"×{len(links)}" if len(links) > 1 else ""
        scene.strokes.append(Stroke(line(start, bend, *([end] if bend != end else [])), tuple(links), label, at))


def _fan(
    scene: Scene,
    rows: Sequence[Row],
    cell_of: Mapping[int, Cell],
    ends: tuple[int, int],
    pairs: Pairs,
    edges: EdgePoints,
) -> None:
    """Draw a shaded area between two rows, with one end at each box."""
    lower, upper = rows[ends[0]], rows[ends[1]]
    low, high = _by_end(pairs, 0), _by_end(pairs, 1)
    starts = {box: edges.point(cell_of[box], True, ends) for box in low}
    stops = {box: edges.point(cell_of[box], False, ends) for box in high}
    low_y, high_y = lower.y - STUB, max(upper.under, upper.y + upper.cells[0].height + STUB)
    low_left, low_right = min(x for x, _ in starts.values()), max(x for x, _ in starts.values())
    high_left, high_right = min(x for x, _ in stops.values()), max(x for x, _ in stops.values())
    corners = ((low_left, low_y), (low_right, low_y), (high_right, high_y), (high_left, high_y))
    links = tuple(sorted(link for mine in pairs.values() for link in mine))
    label = _words(low, high, pairs, cell_of)
    x, y = 0.4 * (low_left + low_right) + 0.1 * (high_left + high_right), low_y - 0.25 * (low_y - high_y)
    room = text_width(label)
    taken = [fan.at[1] for fan in scene.fans if abs(fan.at[0] - x) < (room + text_width(fan.label)) / 2 + 3 * LINE]
    free = (y - 2 * LINE * step for step in range(1 + int((y - high_y - LINE) / (2 * LINE))))
    y = next((other for other in free if all(abs(other - mine) >= 2 * LINE for mine in taken)), y)
    spokes = [(tuple(mine), (starts[a][0], low_y), (stops[b][0], high_y)) for (a, b), mine in pairs.items()]
    scene.fans.append(Fan(corners, links, tuple(spokes), label, (x, y)))
    for box, mine in low.items():
        scene.strokes.append(Stroke(line(starts[box], (starts[box][0], low_y)), mine, end=True))
    for box, mine in high.items():
        scene.strokes.append(Stroke(line(stops[box], (stops[box][0], high_y)), mine, end=True))


def _lane(
    scene: Scene, cell_of: Mapping[int, Cell], rows: tuple[int, int], pairs: Pairs, edges: EdgePoints, y: float
) -> None:
    """Draw the links between boxes of one height: each box has one end, and all meet on a line."""
    ends: dict[int, list[int]] = {}
    for side in (0, 1):
        for box, mine in _by_end(pairs, side).items():
            ends.setdefault(box, []).extend(mine)
    points = {box: edges.point(cell_of[box], False, rows) for box in sorted(ends)}
    links = tuple(sorted({link for mine in ends.values() for link in mine}))
    left, right = min(x for x, _ in points.values()), max(x for x, _ in points.values())
    label = f"{len(links):,} links" if len(links) > 1 else "1 link"
    scene.strokes.append(Stroke(line((left, y), (right, y)), links, label, ((left + right) / 2, y - 9)))
    for box, point in points.items():
        scene.strokes.append(Stroke(line(point, (point[0], y)), tuple(sorted(set(ends[box]))), end=True))


def _by_end(pairs: Pairs, side: int) -> dict[int, tuple[int, ...]]:
    """Return the links of each box at one end."""
    ends: dict[int, list[int]] = {}
    for boxes, links in pairs.items():
        ends.setdefault(boxes[side], []).extend(links)
    return {box: tuple(sorted(ends[box])) for box in sorted(ends)}


def _words(low: Mapping[int, object], high: Mapping[int, object], pairs: Pairs, cell_of: Mapping[int, Cell]) -> str:
    """Say what a fan stands for: ``800 links: 1 from each of 40 to each of 20``."""
    count = sum(map(len, pairs.values()))
    sizes = {len(links) for links in pairs.values()}
    single = all(len(cell_of[box].switches) == 1 for box in (*low, *high))
    reach = set(Counter(a for a, _ in pairs).values())
    if single and len(sizes) == len(reach) == 1:
        size, far = sizes.pop(), reach.pop()
        whom = f"each of {far}" if far == len(high) else f"{far} of {len(high)}"
        return f"{count:,} links: {size} from each of {len(low)} to {whom}"
    return f"{count:,} links"
