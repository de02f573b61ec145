"""What a report shows, as plain values: it stands in the page as JSON, and is read back from there."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from importlib.metadata import version

import numpy as np
from numpy.typing import NDArray

import costmodel
import simulate
import topo
from plan.pipeline import Plan
from plan.render.verdict import caveat, one_failure
from plan.render.views import facts
from topo import Fabric, Layout, Panel, Role, Scene, Table


@dataclass(frozen=True)
class ColumnText:
    """A column of a table, as people read it."""

    heading: str
    texts: list[str]
    keys: list[float | None] | None
    """What it is sorted by; None where it is no number, and is sorted by its texts."""


@dataclass(frozen=True)
class TableText:
    """A table, as people read it."""

    title: str
    columns: list[ColumnText]


@dataclass(frozen=True)
class Nodes:
    """The nodes of a fabric, those of switches first."""

    name: list[str]
    role: list[int]
    """Index into `View.roles`."""
    model: list[int]
    """Index into `View.models`, -1 unknown."""
    device: list[int]
    """Index into `Room.devices`, -1 without a floor plan."""


@dataclass(frozen=True)
class Links:
    """The links of a fabric; each has two ends, a and b."""

    a: list[int]
    """Node of the end."""
    a_port: list[int]
    a_label: list[str]
    """What is printed beside the port; empty where that is its number."""
    b: list[int]
    b_port: list[int]
    b_label: list[str]
    rate: list[float]
    """Gb/s."""
    part: list[int]
    """Index into `View.parts`, -1 where no cable is known."""
    length: list[float | None]
    """Metres."""


@dataclass(frozen=True)
class Load:
    """What the links of a fabric carry."""

    unit: str
    """Such as ``pairs of hosts``, or the name of a simulation."""
    ab: list[int]
    """From a to b."""
    ba: list[int]


@dataclass(frozen=True)
class Picture:
    """Where the parts of a fabric are drawn; lengths are those of `topo.Scene`."""

    width: float
    height: float
    cells: list[tuple[float, float, float, float, bool, list[int], list[str]]]
    """Boxes: left, top, width, height, whether the label reads upwards, switches, lines of the label."""
    hosts: list[tuple[float, float, float, int, list[int]]]
    """Left, top, distance of two, how many side by side, nodes; those that are too many to be drawn are left out."""
    lines: list[tuple[float, float, float, float, list[int]]]
    """Straight lines: two ends, links."""
    curves: list[tuple[str, list[int]]]
    """SVG path data, links."""
    areas: list[tuple[float, float, float, float]]
    captions: list[tuple[float, float, str]]


@dataclass(frozen=True)
class View:
    """One fabric, to zoom and search."""

    name: str
    roles: list[str]
    models: list[str]
    parts: list[str]
    nodes: Nodes
    links: Links
    loads: list[Load]
    picture: Picture


@dataclass(frozen=True)
class Room:
    """Racks and what stands in them."""

    rack_units: int
    racks: list[tuple[str, int, int, str]]
    """Name, row, place in the row, power."""
    devices: list[tuple[str, str, int, int, int]]
    """Name, model, rack, lowest unit, height in units."""
    floor: str
    """SVG of the floor; a rack has its number as ``data-rack``."""
    fronts: list[str]
    """SVG of each rack."""


@dataclass(frozen=True)
class PlanPage:
    """What a report shows of one plan."""

    name: str
    version: str
    verdict: str
    """``holds``, ``exceeded`` or ``cannot tell``."""
    caveat: str
    """What else its reader must know first; empty where there is nothing."""
    faults: list[str]
    """Why it does not hold, or cannot be judged."""
    facts: list[tuple[str, str]]
    tables: dict[str, list[TableText]]
    """By section."""
    views: list[View]
    room: Room | None
    spec: str
    """Empty for a fabric without one."""
    subnets: list[str]
    """Folders of the subnets; of one alone the name is empty."""


@dataclass(frozen=True)
class SimulationPage:
    """What a report shows of one simulation."""

    name: str
    facts: list[tuple[str, str]]
    tables: list[TableText]
    charts: list[tuple[str, str]]
    """What each shows, and its SVG."""
    channels: dict[str, int]
    """Bytes over each channel that carried any, by its name."""


def run_page(run: simulate.cluster.ClusterRun, name: str) -> SimulationPage:
    """Return what a report shows of a queue that was simulated."""
    network, jobs = run.env.network, run.records
    facts = [
        ("simulated time", f"{run.now_s / 3600:.2f} h"),
        ("jobs that ended", f"{sum(job.end_s is not None for job in jobs):,} of {len(jobs):,}"),
        ("failures that hit a job", f"{sum(job.failures for job in jobs):,}"),
        ("nodes in use", f"{topo.percent(run.utilisation)} of the time"),
    ]
    charts = [("jobs, waiting and failures over time", simulate.cluster.draw_run(run, bare=True).svg)]
    carried = run.env.engine.loads()[: network.fabric.n_ports] if run.links is not None else np.zeros(0)
    return _page(name, network, facts, [run.table, run.links], charts, carried)


def simulation_page(simulation: simulate.Simulation, name: str) -> SimulationPage:
    """Return what a report shows of a simulation."""
    outcome = simulation.outcome
    facts = [("flows", f"{outcome.n_flows:,}"), ("the last ends at", topo.format_seconds(outcome.makespan_s))]
    tables = [simulation.table, simulation.place_table, simulation.flow_table, outcome.links, simulation.caveat_table]
    timeline = simulate.draw_timeline(outcome, simulation.spans, bare=True).svg
    ports = simulate.draw_ports(outcome, bare=True).svg
    charts = [("jobs over time, and the load of classes of links", timeline), ("load of the ports of switches", ports)]
    inside = outcome.inside if outcome.network.devices.names else None
    return _page(name, outcome.network, facts, [*tables, inside], charts, outcome.lane_bytes.sum(axis=0))


def _page(
    name: str, network: simulate.Network, facts: list[tuple[str, str]], tables: Iterable[Table | None],
    charts: list[tuple[str, str]], carried: NDArray[np.float64],
) -> SimulationPage:  # fmt: skip
    fabric = network.fabric
    first = [("fabric", fabric.name or "the fabric"), ("tables", network.tables.engine or "given")]
    channels = {fabric.channel_label(port): round(float(carried[port])) for port in np.flatnonzero(carried).tolist()}
    texts = [table_text(table) for table in tables if table is not None]
    return SimulationPage(name, first + facts, texts, charts, channels)


@dataclass(frozen=True)
class Report:
    """Plans side by side, and simulations of them."""

    plans: list[PlanPage]
    simulations: list[SimulationPage]


def page_of(plan: Plan) -> PlanPage:
    """Return what a report shows of a plan that all passes have been through."""
    catalog = plan.cluster and plan.cluster.catalog
    fronts = topo.panels(plan.fabrics, catalog) if catalog else [None] * len(plan.fabrics)
    views = [_view(plan, number, *of) for number, of in enumerate(zip(plan.fabrics, fronts, strict=True))]
    faults = [str(refusal) for refusal in plan.refusals]
    faults += [check.reason for check in plan.budget if not check.verdict.holds]
    return PlanPage(
        name=plan.name or "the fabric",
        version=version("heddle-fabric"),
        verdict=plan.verdict.value,
        caveat=caveat(plan),
        faults=faults + ([plan.advice] if plan.advice else []),
        facts=[*([("one failure", failure)] if (failure := one_failure(plan)) else []), *facts(plan)],
        tables={name: [table_text(table) for table in tables] for name, tables in _sections(plan)},
        views=views,
        room=None if plan.layout is None else _room(plan, plan.layout),
        spec="" if plan.cluster is None else plan.cluster.spec.to_yaml(),
        subnets=[""] if len(plan.subnets) == 1 else [fabric.name for fabric in plan.subnets],
    )


def table_text(table: Table) -> TableText:
    """Return a table as people read it, with what its columns are sorted by."""
    columns = []
    for column in table.columns:
        texts = [column.text(row) for row in range(len(table))]
        keys = [None if value is None else float(value) for value in column.values] if column.is_number else None
        columns.append(ColumnText(column.heading, texts, keys))
    return TableText(table.title, columns)


def _sections(plan: Plan) -> Iterator[tuple[str, list[Table]]]:
    if plan.quote is not None and plan.bill is not None:
        yield "bill", [plan.quote.cost.table, plan.quote.power.table, plan.bill.cable_table]
    if plan.cluster is not None and costmodel.is_published(plan.cluster):
        yield "beside", [costmodel.baselines(plan.cluster.catalog).table]
    if plan.losses is not None:
        yield "failures", [plan.losses.table]
    proven = []
    for routed, proof, quality in zip(plan.routed, plan.proofs, plan.qualities, strict=True):
        tables = [proof.table, quality.table, proof.load_table]
        proven += [replace(table, title=f"{routed.fabric.name}: {table.title}") for table in tables]
    if proven:
        yield "proof", [_by_hand(plan), *proven]


def _by_hand(plan: Plan) -> Table:
    """Return how a reader checks each claim in the folder of the plan, with names of this plan."""
    rows: list[tuple[str, str, str]] = []
    for routed, proof, bounds in zip(plan.routed, plan.proofs, plan.bounds, strict=True):
        fabric = routed.fabric
        subnet = ["--subnet", fabric.name] if len(plan.routed) > 1 else []
        of = f" of {fabric.name}" if subnet else ""
        ends = fabric.end_node[fabric.ends()]
        pair = [fabric.label(int(ends[at])) for at in (0, -1)] if len(ends) > 1 else []
        if pair:
            rows.append(
                (f"a pair is connected{of}",
                 f"find the LID of {pair[1]} in the table of the switch of {pair[0]} in opensm/lfts, go out of the "
                 "port that stands there, and do the same at the next switch",
                 _command("verify", ".", *subnet, "--path", *pair))
            )  # fmt: skip
        rows.append(
            (f"{proof.credit_loops} channels in credit loops{of}",
             "write down which cable each path takes after which: no chain of these may come back to where it began",
             _command("verify", ".", *subnet))
        )  # fmt: skip
        inner = fabric.inner
        if len(inner):
            fullest = fabric.channel_label(int(inner[proof.load[inner].argmax()])).partition(" -> ")[0]
            rows.append(
                (f"{int(proof.load[inner].max()):,} pairs over the fullest link{of}",
                 f"count the pairs that the command lists; no routing has fewer than {bounds.max_load:,}, because "
                 f"{bounds.why}",
                 _command("verify", ".", *subnet, "--over", fullest))
            )  # fmt: skip
    fabric = plan.routed[0].fabric
    spines = np.flatnonzero(fabric.role[: fabric.n_switches] == Role.SPINE).tolist()
    if spines:
        spine, subnet = fabric.label(spines[0]), ["--subnet", fabric.name] if len(plan.routed) > 1 else []
        rows.append(
            (f"what the failure of {spine} takes away", "leave out its cables, and look for another way",
             _command("verify", ".", *subnet, "--without", spine))
        )  # fmt: skip
    rows.append(("nothing was changed", "", "sha256sum --check SHA256SUMS"))
    names = ("claim", "by hand", "by command, in the folder of this plan")
    return Table.of_rows("how to check each", names, rows)


def _command(*words: str) -> str:
    return shlex.join(["plan", *words])


def _view(plan: Plan, number: int, fabric: Fabric, front: Panel | None) -> View:
    cabling = plan.cablings[number] if plan.cablings else None
    device = None if plan.layout is None else plan.layout.node_device[number]
    ends = fabric.links
    node, port = fabric.port_node[ends], fabric.port_number[ends]
    labels: list[list[str]] = [[""] * len(ends)] * 2
    if front is not None:
        pairs = zip(front.labels, fabric.port_number.tolist(), strict=True)
        printed = ["" if label == str(number) else label for label, number in pairs]
        labels = [[printed[one] for one in ends[:, side].tolist()] for side in (0, 1)]
    lengths = fabric.length_m[ends[:, 0]] if len(fabric.length_m) else np.full(len(ends), np.nan)
    known = fabric.model.copy()
    known[fabric.host >= 0] = fabric.host_model[fabric.host[fabric.host >= 0]]
    return View(
        name=fabric.name or "the fabric",
        roles=[role.name.lower() for role in Role],
        models=list(fabric.models),
        parts=[] if cabling is None else [f"{part.kind} {part.item}" for part in cabling.parts],
        nodes=Nodes(
            name=[fabric.label(one) for one in range(fabric.n_nodes)],
            role=fabric.role.tolist(),
            model=known.tolist(),
            device=[-1] * fabric.n_nodes if device is None else device.tolist(),
        ),
        links=Links(
            a=node[:, 0].tolist(),
            a_port=port[:, 0].tolist(),
            a_label=labels[0],
            b=node[:, 1].tolist(),
            b_port=port[:, 1].tolist(),
            b_label=labels[1],
            rate=fabric.rate_gbps[ends].min(axis=1).tolist(),
            part=[-1] * len(ends) if cabling is None else cabling.part.tolist(),
            length=[None if length != length else length for length in lengths.tolist()],
        ),
        loads=[Load("pairs of hosts", *proof.load[ends].T.tolist()) for proof in plan.proofs[number : number + 1]],
        picture=_picture(topo.lay_out(fabric)),
    )


def _picture(scene: Scene) -> Picture:
    return Picture(
        width=scene.width,
        height=scene.height,
        cells=[(c.x, c.y, c.width, c.height, c.upright, list(c.switches), list(c.text)) for c in scene.cells],
        hosts=[(h.start, h.y, h.pitch, h.columns, [port.node for port in h.ports]) for h in scene.hosts if h.pitch],
        lines=[(*p, *q, list(links)) for fan in scene.fans for links, p, q in fan.spokes],
        curves=[(stroke.path, list(stroke.links)) for stroke in scene.strokes],
        areas=[(area.x, area.y, area.width, area.height) for area in scene.areas],
        captions=[(*area.text_at, area.text) for area in scene.areas if area.text]
        + [(caption.x, caption.y + 4, caption.text) for caption in scene.captions],
    )


def _room(plan: Plan, layout: Layout) -> Room:
    power = layout.power_by_rack()
    racks = [
        (layout.rack_name(rack), int(layout.row[rack]), int(layout.column[rack]), f"{power[rack]} W")
        for rack in range(layout.n_racks)
    ]
    places = zip(layout.devices, layout.rack.tolist(), layout.unit.tolist(), strict=True)
    return Room(
        rack_units=layout.floor.rack_units,
        racks=racks,
        devices=[(device.name, device.model, rack, unit, device.rack_units) for device, rack, unit in places],
        floor=topo.draw_floor(plan.fabrics, layout, plan.cablings or (), title=plan.name, bare=True).svg,
        fronts=[front.svg for front in topo.draw_each_rack(plan.fabrics, layout)],
    )
