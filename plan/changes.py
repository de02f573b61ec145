"""``plan.diff`` and ``plan.grow``: what leads from a plan to a fabric, or to a larger plan."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

import costmodel
import routing
import topo
from costmodel import Bill
from plan import building
from plan.export.bom import format_bom_csv
from plan.files import check_replaceable, write_folder
from plan.inputs import (
    A_FABRIC,
    PLAN_FILE,
    SPEC_SUFFIXES,
    check_currency,
    path_of,
    read_cluster,
    read_fabric_argument,
    route_as_asked,
)
from plan.pipeline import Progress, silent
from plan.render.html import format_junit, render_page
from routing import Routed
from topo import Cluster, Differences, Fabric, FormatError, Growth, HeddleError, Shown, Table, plural

HALF = 0.5
"""Share of the cables below which a plan is hardly the one of the fabric."""
MARKED = ("not as planned", "as planned")
"""Links in the drawing of differences."""
MOVED = (
    "{} of today stand elsewhere in the larger plan, and cables too short for that are replaced: `plan export TODAY "
    "places` keeps them where they are"
)
MISCABLED = (
    "with the tables of {folder}, {missing:,} of {pairs} do not arrive on the fabric as it is cabled now: until it is "
    "cabled as planned, load those of `plan repair {folder} --now {fabric} -o NEW`"
)
NAMED_ADAPTERS = 8
"""Adapters that are named of many."""


@dataclass(frozen=True, eq=False)
class Changes(Shown):
    """What leads from a plan to a fabric, or to a larger plan: cables to see to, one a row, and what follows."""

    listed: Table
    found: bool
    """Whether there is anything to change."""
    tables: tuple[Table, ...]
    """What a person reads first."""
    remarks: tuple[str, ...]
    """Sentences to read after the tables."""
    document: Mapping[str, Any]
    differences: Differences | None = None
    """Of a plan and a fabric."""
    growths: tuple[Growth, ...] = ()
    """Of two plans, a subnet each."""
    bought: Bill | None = None
    """Parts that the larger plan has more of; None for a plan and a fabric, as `left_over`."""
    left_over: Bill | None = None
    routed: tuple[tuple[Routed, Routed], ...] = ()
    """Of two plans, tables before and after, subnet by subnet."""
    notes: tuple[str, ...] = field(default=())
    """What was skipped in what was read."""

    @property
    def table(self) -> Table:
        """Every change, one a row."""
        return self.listed

    def _brief(self) -> str:
        return self.listed.title

    def _shown(self) -> tuple[Table, ...]:
        return self.tables

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values, ready for JSON."""
        return dict(self.document)


def diff(
    planned: str | Path | Fabric,
    fabric: str | Path | Fabric,
    output: str | Path | None = None,
    *,
    adopt: str | Path | None = None,
    subnet: str | None = None,
    step: Progress = silent,
) -> Changes:
    """Compare a real fabric with its plan, cable by cable.

    Parameters
    ----------
    planned : str, Path or Fabric
        A spec, a folder of `plan build`, a planned cable list, an earlier dump, or a fabric.
    fabric : str, Path or Fabric
        The real fabric, in any form that `topo.read_fabric` accepts.
    output : str or Path, optional
        Folder for the differences as CSV, as a page to print, as a drawing and for CI servers.
    adopt : str or Path, optional
        Folder for the plan, routed with the GUIDs and LIDs of the fabric; none that holds a plan.
    subnet : str, optional
        Which subnet of a plan that has several.
    step : callable
        Progress callback, called as ``step(message)``.

    Returns
    -------
    Changes
        Differences in the order of a walk from rack to rack if the plan has a floor plan, otherwise by name.

    Raises
    ------
    HeddleError
        When a file cannot be read, or a folder must not be replaced.

    Examples
    --------
    >>> import plan, topo
    >>> fabric = topo.preset("lab-20").fabric
    >>> plan.diff(fabric, fabric.without(fabric.inner[:1]))
    <Changes lab-20 beside its plan lab-20: 61 of 62 cables as planned; 1 missing>

    See Also
    --------
    grow : the way from one plan to a larger one
    topo.find_differences : the comparison alone
    """
    check_replaceable(output)
    check_replaceable(adopt, planned, output)
    step("reading")
    names = [path_of(one, A_FABRIC) for one in (planned, fabric) if not isinstance(one, Fabric)]
    if len(names) == 2 and (names[0] / PLAN_FILE).is_file() and names[1].suffix in SPEC_SUFFIXES:
        raise HeddleError(
            f"{planned}: found a built plan beside the spec {fabric}; expected a real fabric. To grow "
            f"the plan, name the spec that it was built from: plan diff SPEC {fabric}"
        )
    wanted, there = (_fabric(one, name, ethernet=adopt is None) for one, name in ((planned, subnet), (fabric, None)))
    if adopt is not None and not isinstance(fabric, Fabric):
        chips = read_fabric_argument(Path(fabric)).n_switches
        if there.n_switches < chips:
            raise HeddleError(f"{fabric}: its switches are of several chips, each with tables of its own, which a plan "
                              "of whole switches does not have; leave out --adopt")  # fmt: skip
    step("comparing")
    walk = None if isinstance(planned, Fabric) else walk_of(Path(planned), wanted)
    found = topo.find_differences(wanted, there, walk)
    table = found.table
    hidden = ("planned", "found") if any(one.rack for one in found.found) else ("planned", "found", "rack")
    changes = Changes(
        listed=table,
        found=bool(found.found),
        tables=(_without(table, *hidden),) if found.found else (),
        remarks=(table.title, *(["fewer than half of the cables are as planned: is this the plan of this fabric?"]
                                if found.agreeing < HALF * found.cables else [])),
        document=found.to_dict(),
        differences=found,
        notes=(*wanted.notes, *there.notes),
    )  # fmt: skip
    if output is not None:
        step("writing")
        drawing = topo.draw(wanted, found.marks, title=table.title, unit="differences", marked=MARKED)
        failures = [(one.kind, one.where, f"planned {one.planned}, found {one.found}: {one.do}") for one in found.found]
        racks = [(rack, list(rows)) for rack, rows in groupby(found.found, key=lambda one: one.rack.partition(" ")[0])]
        page = render_page("plan.render", "crew.html", "crew.css", title=table.title, racks=racks)
        files: dict[str, str | bytes] = {
            "differences.csv": table.to_csv(),
            "differences.html": page,
            "differences.svg": drawing.svg,
            "junit.xml": format_junit(f"cabling of {wanted.name}", found.agreeing, failures),
        }
        write_folder(Path(output), files)
    if adopt is not None:
        source = "" if isinstance(planned, Fabric) else planned
        (routed,) = building.route(found.match.adopted, adopt, source=source, step=step).routed
        step("proving the tables on the fabric as it is")
        with suppress(FormatError):  # the two have no switch in common, which is said above
            changes = _proven_on(there, routed, changes, str(adopt), fabric)
    return changes


def grow(
    old: str | Path | Cluster,
    target: str | Path | Cluster,
    output: str | Path | None = None,
    *,
    adopt: str | Path | None = None,
    currency: str | None = None,
    step: Progress = silent,
) -> Changes:
    """Find the way from one plan to a larger one: what to buy, which cables to move in which order, and the tables.

    Parameters
    ----------
    old, target : str, Path or Cluster
        Two specs.
    output : str or Path, optional
        Folder for the cables to move, step by step, and for what to buy, as CSV.
    adopt : str or Path, optional
        Folder for the larger plan, routed with the GUIDs and LIDs of the old one; none that holds a plan.
    currency : str, optional
        Of the price of what is bought; see `costmodel.Bill.price`.
    step : callable
        Progress callback, called as ``step(message)``.

    Returns
    -------
    Changes
        All subnets grow together.

    Raises
    ------
    HeddleError
        When a spec cannot be read, the plans have nothing in common, or a plan cannot be built or routed.

    Examples
    --------
    >>> import plan, topo
    >>> spec = topo.preset("lab-20").spec.model_dump(exclude_unset=True, mode="json")
    >>> spec["nodes"]["gpu"]["count"] += 2
    >>> larger = plan.grow(topo.preset("lab-20"), topo.parse(spec))
    >>> larger
    <Changes from lab-20 to lab-20: 62 cables stay, 0 unplugged, 2 plugged in 1 step>
    >>> larger.growths[0].new
    ['gpu08 mlx5_0', 'gpu17 mlx5_0']
    """
    check_replaceable(output)
    check_replaceable(adopt, old, output)
    step("reading")
    before, after = read_cluster(old), read_cluster(target)
    check_currency(currency, [after])
    step("matching")
    pairs = list(zip(before.cabled, after.cabled, strict=False))
    growths: list[Growth] = []
    for subnet, pair in enumerate(pairs):
        where = places(before, subnet), places(after, subnet)
        what = parts(before, subnet), parts(after, subnet)
        known = {new: was for one in growths for new, was in one.names.items()}
        growths.append(topo.plan_growth(*pair, where, what, known))
    single = [fabric.name for fabric in (*before.fabrics[len(pairs) :], *after.fabrics[len(pairs) :])]
    step("counting")
    bills = costmodel.bill(before), costmodel.bill(after)
    bought, left_over = bills[1].beyond(bills[0]), bills[0].beyond(bills[1])
    routed = []
    for growth in growths[: min(len(before.subnets), len(after.subnets))]:
        step(f"routing {growth.grown.name}")
        tables = route_as_asked(before, growth.old)
        routed.append((tables, route_as_asked(after, growth.with_lids(tables.tables.lid))))
    room, moved = topo.count_ports(after.fabrics, after.catalog), list_moved(before, after, growths)
    entries = _entries(growths, routed)
    cost = bought.price(currency or after.spec.priced_in)
    changes = Changes(
        listed=growths[0].table if len(growths) == 1 else _together(growths),
        found=any(growth.works for growth in growths) or bool(single),
        tables=(
            *(_steps(growth) for growth in growths if growth.works),
            _without(_titled("bought", cost.table), "source"),
            *([_titled("left over", left_over.table)] if left_over.lines else []),
            *([moved] if len(moved) else []),
            entries,
            replace(room.table, title="ports of the larger plan"),
        ),
        remarks=(
            *(line for growth in growths for line in _remarks(growth)),
            *(f"{name}: only one of the plans has this subnet" for name in single),
            *([MOVED.format(plural(len(moved), "device"))] if len(moved) else []),
            "; ".join(filter(None, (f"what is bought costs {cost.sums} {cost.unit}", cost.coverage)))
            if bought.lines
            else "nothing is bought",
            *cost.gaps,
        ),
        document={
            "subnets": [growth.to_dict() for growth in growths],
            "added": single,
            "bought": bought.to_dict(),
            "price": cost.to_dict(),
            "left_over": left_over.to_dict(),
            "tables": entries.to_dict(),
            "room": room.to_dict(),
            "moved": moved.to_dict(),
        },
        growths=tuple(growths),
        bought=bought,
        left_over=left_over,
        routed=tuple(routed),
    )
    if output is not None:
        step("writing")
        works = {f"works{f'-{growth.grown.name}' if len(growths) > 1 else ''}.csv": growth.table.to_csv()
                 for growth in growths}  # fmt: skip
        write_folder(Path(output), works | {"bought.csv": format_bom_csv(cost)})
    if adopt is not None:
        source = "" if isinstance(target, Cluster) else target
        name = Path(source).stem or after.name
        building.route([pair[1].fabric for pair in routed], adopt, name=name, source=source, step=step)
    return changes


def _proven_on(there: Fabric, routed: Routed, changes: Changes, folder: str, fabric: str | Path | Fabric) -> Changes:
    """Return changes that tell which pairs adopted tables lose on a fabric whose cables are not those of the plan."""
    text = routing.opensm.format_lfts(routed.fabric, routed.tables)
    proof = routing.prove(Routed(there, routing.opensm.parse_lfts(text, there).tables))
    now, pairs = "FABRIC" if isinstance(fabric, Fabric) else fabric, plural(proof.pairs, "pair")
    remark = MISCABLED.format(folder=folder, missing=proof.missing, pairs=pairs, fabric=now)
    return replace(
        changes,
        remarks=(*changes.remarks, *([remark] if proof.missing else [])),
        document={**changes.document, "adopted": {"pairs": proof.pairs, "missing": proof.missing}},
    )


def _fabric(given: str | Path | Fabric, subnet: str | None, *, ethernet: bool) -> Fabric:
    if isinstance(given, Fabric):
        return given
    return read_fabric_argument(path_of(given, A_FABRIC), subnet, merged=True, ethernet=ethernet)


def _without(table: Table, *hidden: str) -> Table:
    return replace(table, columns=tuple(column for column in table.columns if column.name not in hidden))


def _titled(name: str, table: Table) -> Table:
    return replace(table, title=f"{name}, {table.title}")


def _steps(growth: Growth) -> Table:
    """Return how many cables are unplugged and plugged in each step, and whom that cuts off."""
    rows: list[list[Any]] = [[step + 1, 0, 0, set[str]()] for step in range(growth.steps)]
    for work in growth.works:
        row = rows[work.step - 1]
        row[2 if work.do == "plug" else 1] += 1
        row[3] |= {*work.cut}
    listed = [(*row[:3], " ".join(sorted(row[3]))) for row in rows]
    return Table.of_rows(
        f"cables of {growth.grown.name}, step by step", ("step", "unplug", "then plug", "cut off"), listed
    )


def _together(growths: Sequence[Growth]) -> Table:
    rows = [(growth.grown.name, work.step, work.do, work.a, work.b) for growth in growths for work in growth.works]
    title = f"from {growths[0].old.name} to {growths[0].grown.name} and {len(growths) - 1} more"
    return Table.of_rows(title, ("subnet", "step", "do", "a", "b"), rows)


def _remarks(growth: Growth) -> list[str]:
    lines = [f"{growth.grown.name}: {growth}".replace("<Growth ", "").replace(">", "")]
    if growth.cut:
        names = ", ".join(growth.cut[:NAMED_ADAPTERS]) + (", ... (all: -o)" if len(growth.cut) > NAMED_ADAPTERS else "")
        have = f"{plural(len(growth.cut), 'adapter')} {'has' if len(growth.cut) == 1 else 'have'}"
        lines.append(f"{have} no link during one step, in whatever order the work is done: {names}")
    return lines


def _entries(growths: Sequence[Growth], routed: Sequence[tuple[Routed, Routed]]) -> Table:
    """Return how many entries of the tables change, subnet by subnet, of those that both plans have."""
    rows = [(growth.grown.name, *count_changes(growth, *pair)) for growth, pair in zip(growths, routed, strict=False)]
    names = ("subnet", "switches", "of", "entries", "of entries")
    return Table.of_rows("tables that change, of switches and LIDs that stay", names, rows)


def places(cluster: Cluster, subnet: int) -> list[str]:
    """Return rack and unit of each node of a subnet; nothing where there is no floor plan."""
    layout = cluster.layout
    if layout is None:
        return []
    racks, units = layout.rack.tolist(), layout.unit.tolist()
    return [f"{layout.rack_name(racks[device])} U{units[device]}" for device in layout.node_device[subnet].tolist()]


def parts(cluster: Cluster, subnet: int) -> list[tuple[str, str]]:
    """Return the part number of the cable at each port of a subnet, and its transceiver; nothing without a floor."""
    if cluster.cablings is None:
        return []
    cabling, fabric = cluster.cablings[subnet], cluster.fabrics[subnet]
    items = np.full(fabric.n_ports, "", object)
    items[fabric.links] = np.array([*(part.item for part in cabling.parts), ""], object)[cabling.part][:, None]
    return [(item, cabling.optic_of(port)) for port, item in enumerate(items.tolist())]


def list_moved(old: Cluster, target: Cluster, growths: Sequence[Growth]) -> Table:
    """List the servers and switches that stay and stand elsewhere, with both places."""
    rows: dict[tuple[str, str, str], None] = {}
    for subnet, growth in enumerate(growths):
        before, after, grown = places(old, subnet), places(target, subnet), growth.grown
        rows |= {(grown.server_of(node), before[was], after[node]): None
                 for node, was in enumerate(growth.was.tolist())
                 if before and after and was >= 0 and before[was] != after[node]}  # fmt: skip
    return Table.of_rows("moved to another place", ("device", "from", "to"), list(rows))


def count_changes(growth: Growth, before: Routed, after: Routed) -> tuple[int, int, int, int]:
    """Return (changed switches, retained switches, changed entries, compared entries)."""
    stays = np.flatnonzero(growth.was[: growth.grown.n_switches] >= 0)
    lids = before.tables.lid[before.tables.lid > 0]
    lids = lids[np.isin(lids, after.tables.lid)]
    old, new = before.tables.lft[growth.was[stays]][:, lids], after.tables.lft[stays][:, lids]
    return int((old != new).any(axis=1).sum()), len(stays), int((old != new).sum()), old.size


def walk_of(path: Path, fabric: Fabric) -> list[tuple[int, str]] | None:
    """Return the place in a walk, and rack and unit, of each node of a plan; None where it has no floor plan."""
    if path.is_dir():
        return _walk_of_folder(path / "cables.csv", fabric)
    cluster = read_cluster(path) if path.suffix in SPEC_SUFFIXES else None
    layout = cluster.layout if cluster else None
    if cluster is None or layout is None:
        return None
    subnet = [one.name for one in cluster.fabrics].index(fabric.name)
    racks = layout.rack[layout.node_device[subnet]].tolist()
    return list(zip(racks, places(cluster, subnet), strict=True))


def _walk_of_folder(path: Path, fabric: Fabric) -> list[tuple[int, str]] | None:
    """Return as `walk_of` what ``cables.csv`` of a built plan says; every other row of racks is walked backwards."""
    if not path.is_file():
        return None
    place: dict[str, tuple[str, str]] = {}
    try:
        for row in csv.DictReader(io.StringIO(topo.read_text(path, topo.budgets()["links-bytes"]))):
            place |= {row[f"{end}_port_guid"]: (topo.plain_text(row[f"{end}_rack"]), row[f"{end}_u"]) for end in "ab"}
    except (KeyError, TypeError, csv.Error) as error:
        raise FormatError(f"found {error}; expected the list of cables of `plan build`", str(path)) from None
    if not any(rack for rack, _ in place.values()):
        return None

    def order(rack: str) -> tuple[int, int, str]:
        match = re.fullmatch(r"R([0-9]{1,9})-([0-9]{1,9})", rack)
        row, column = (int(match[1]), int(match[2])) if match else (1 << 30, 0)
        return row, column if row % 2 else -column, rack

    rank = {rack: number for number, rack in enumerate(sorted({rack for rack, _ in place.values()}, key=order))}
    found = []
    for node in range(fabric.n_nodes):
        guids = fabric.port_guid[fabric.ports_of(node)].tolist()
        rack, unit = next((place[name] for guid in guids if (name := f"0x{guid:016x}") in place), ("", ""))
        found.append((rank.get(rack, len(rank)), f"{rack} U{unit}" if rack else ""))
    return found
