"""``plan.draw``: a fabric, its racks or its floor as a picture, with loads out of tables or a simulation."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import costmodel
import routing
import topo
from plan.files import MAGIC, check_suffix, check_writable, write_file
from plan.inputs import path_of, read_plan
from plan.pipeline import Plan, Progress, silent
from topo import Drawing, Fabric, FormatError, HeddleError, plural
from topo import draw as draw_fabrics


@dataclass(frozen=True)
class Drawn:
    """What `draw` returns: the drawing, and what it shows."""

    drawing: Drawing
    """Of racks on several pages their index."""
    plan: Plan
    file: Path | None
    """That was written; None for none."""
    size_bytes: int
    """Of the file, or of the SVG."""
    pages: dict[str, Drawing]
    """The pages of racks by the names of their files, which are written beside ``file``; empty where one is enough."""

    def to_dict(self) -> dict[str, Any]:
        """Return the file, the subnets and their counts as plain values, ready for JSON."""
        fabrics = self.plan.fabrics
        return {
            "file": str(self.file),
            "subnets": [fabric.name for fabric in fabrics],
            "counts": topo.count(fabrics).to_dict(),
            "bytes": self.size_bytes,
            "pages": list(self.pages),
        }


def draw(
    what: str | Path | Plan,
    output: str | Path | None = None,
    *,
    tables: str | Path | None = None,
    simulation: str | Path | None = None,
    view: str = "fabric",
    step: Progress = silent,
) -> Drawn:
    """Draw a cluster: switches, links and their load; or its racks; or its floor.

    Parameters
    ----------
    what : str, Path or Plan
        A spec, a real fabric, a folder of a plan, or a plan.
    output : str or Path, optional
        File to write: ``.svg``, ``.png`` or ``.pdf``; an older picture there is replaced.
    tables : str or Path, optional
        Forwarding tables, or the folder of a plan, whose load colours the links; those of the plan when left out.
    simulation : str or Path, optional
        Folder that `plan.simulate` wrote; the bytes that it carried colour the links.
    view : str
        ``fabric``; ``cut``, the same with the links of the worst cut marked; ``racks``, which are an index and a file
        for each page if they do not fit on one; or ``floor``. Racks and floor need a spec with a floor.
    step : callable
        Progress callback, called as ``step(message)``.

    Raises
    ------
    HeddleError
        When a file cannot be read, does not fit the cluster, or must not be replaced, or there are no racks.

    Examples
    --------
    >>> import plan, topo
    >>> drawn = plan.draw(plan.build(topo.preset("lab-20")))
    >>> "load of a link" in drawn.drawing.svg
    True

    See Also
    --------
    topo.draw : fabrics and loads as a drawing
    """
    step("reading")
    plan = what if isinstance(what, Plan) else read_plan(path_of(what, "a Plan"))
    file, suffix = None if output is None else Path(output), ".svg"
    if file is not None:
        suffix = file.suffix.lower() or ".svg"
        if file.suffix:
            check_suffix(file, *MAGIC, only=True)
        check_writable(file, kind=suffix[1:].upper(), magic=MAGIC[suffix])
    loads = None
    if simulation is not None:
        step("reading the simulation")
        loads = _simulated_loads(Path(simulation), plan.fabrics)
    elif view == "fabric" and (tables is not None or plan.routed):
        step("tracing loads")
        routed = plan.routed if tables is None else _read_tables(Path(tables), plan.fabrics)
        loads = [routing.prove(subnet).load for subnet in routed]
    step("drawing")
    pages: dict[str, Drawing] = {}
    if view == "fabric":
        drawing = draw_fabrics(plan.fabrics, loads, title=plan.name, unit="bytes" if simulation else "pairs")
    elif view == "cut":
        drawing = _draw_cut(plan)
    else:
        drawing, pages = _draw_room(plan, view, file or Path(f"{plan.name}-{view}.svg"))
    content = drawing.as_kind(suffix)
    if file is not None:
        for name in pages:
            check_writable(file.with_name(name), kind=suffix[1:].upper(), magic=MAGIC[suffix])
        for name, page in pages.items():
            write_file(file.with_name(name), page.as_kind(suffix))
        write_file(file, content)
    return Drawn(drawing, plan, file, len(content), pages)


def _draw_cut(plan: Plan) -> Drawing:
    """Draw the subnets with the links of the worst cut marked, and the bisection in the title."""
    found = plan.bisection or costmodel.bisection(costmodel.job_networks(plan.fabrics))
    marks = [np.zeros(fabric.n_ports, np.int64) for fabric in plan.fabrics]
    cut = found.narrower.cut
    for fabric, mark in zip(plan.fabrics, marks, strict=True):
        if cut is not None and fabric.name == cut.subnet:
            mark[cut.channels(fabric)] = 1
    words = (f"worst cut: {cut or 'none'}", "other links")
    return draw_fabrics(
        plan.fabrics, marks, title=f"{plan.name}: bisection {found}", unit="link of the cut", marked=words
    )


def _draw_room(plan: Plan, view: str, file: Path) -> tuple[Drawing, dict[str, Drawing]]:
    """Draw the racks of a plan, or its floor; return also the pages of racks if there are several, by their files."""
    cluster = plan.cluster
    if cluster is None or cluster.layout is None or cluster.cablings is None:
        kept = "; a folder does not keep the floor of its spec" if plan.routed else ""
        raise HeddleError(
            f"{plan.source}: found no racks; expected a spec with `floor`, which says what the room is like{kept}"
        )
    if view == "racks":
        drawings = topo.draw_racks(plan.fabrics, cluster.layout, title=plan.name)
        if len(drawings) == 1:
            return drawings[0], {}
        width = len(str(len(drawings)))
        pages = {f"{file.stem}-{number:0{width}}{file.suffix}": page for number, page in enumerate(drawings, 1)}
        return topo.draw_rack_index(cluster.layout, list(pages), plan.name), pages
    return topo.draw_floor(plan.fabrics, cluster.layout, cluster.cablings, title=plan.name), {}


def _read_tables(path: Path, fabrics: Sequence[Fabric]) -> list[routing.Routed]:
    """Read the forwarding tables of each subnet: of one out of their file, else out of an output folder."""
    routed = []
    for fabric in fabrics:
        file = path
        if path.is_dir():
            file = path / ("" if len(fabrics) == 1 else fabric.name) / "opensm" / "lfts"
            if not file.is_file():
                name = file.relative_to(path)
                raise HeddleError(f"{path}: found no {name}; expected the output folder of a plan build")
        elif len(fabrics) > 1:
            expected = f"the folder of a plan build, since there are {plural(len(fabrics), 'subnet')}"
            raise HeddleError(f"{path}: found one file; expected {expected}")
        routed.append(routing.Routed(fabric, routing.opensm.read_lfts(file, fabric).tables))
    return routed


def _simulated_loads(folder: Path, fabrics: Sequence[Fabric]) -> list[NDArray[np.int64]]:
    """Return (P,) bytes over each channel of each subnet, all lanes together, out of a simulation's ``links.csv``."""
    path = folder / "links.csv"
    ports = {fabric.channel_label(port): (number, port) for number, fabric in enumerate(fabrics)
             for port in np.flatnonzero(fabric.peer >= 0).tolist()}  # fmt: skip
    loads = [np.zeros(fabric.n_ports, np.int64) for fabric in fabrics]
    try:
        for row in csv.DictReader(io.StringIO(topo.read_text(path, topo.budgets()["links-bytes"]))):
            number, port = ports[topo.plain_text(row["channel"])]
            loads[number][port] += int(row["bytes"])
    except (KeyError, ValueError, TypeError, OverflowError, csv.Error) as error:
        raise FormatError(f"found {error}; expected channels of this cluster and their bytes", str(path)) from None
    return loads
