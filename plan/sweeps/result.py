"""``plan.sweep``: a plan for every combination of parameters, and what the points say together."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, get_args

from plan.files import write_file
from plan.inputs import find_preset, path_of
from plan.pipeline import DESIGN, Progress, run_passes, silent
from plan.staging import Content
from plan.sweeps.point import Task, digest_of_code, digest_of_files, draw_first_year, parts_of, plan_of
from plan.sweeps.run import Ran, read_point, run_sweep
from plan.sweeps.spec import SPECIAL, Point, SweepSpec, read_sweep
from plan.sweeps.summary import UNIT, front, intervals, parquet, pictures, sensitivities, side_by_side, table_of_points
from simulate.cluster import FailureSpec
from topo import HeddleError, PartKind, Purpose, Reach, Shown, SpecError, Table, config_root, plural, read_yaml

SWEEP_FILE = "sweep.json"
FEW = 4
"""Points that are shown side by side."""


@dataclass(frozen=True, eq=False)
class Points(Shown):
    """What `sweep` returns: every point with its parameters, and its figures or its error."""

    documents: tuple[Mapping[str, Any], ...]
    """Of each point that is there, ``point`` by parameter and ``figures`` by name, or ``error``."""
    parameters: tuple[str, ...]
    better: Mapping[str, str]
    """Figures by which points are compared, and which way is better."""
    points: int
    """How many there should be."""
    ran: Ran
    """How the run went that computed the missing ones."""
    front: tuple[Mapping[str, Any], ...]
    """Points that no other beats."""

    @property
    def table(self) -> Table:
        """One row for each point: parameters, figures, error."""
        return table_of_points(self.documents)

    @property
    def errors(self) -> tuple[str, ...]:
        """Of the points that failed."""
        return tuple(document["error"] for document in self.documents if "error" in document)

    @property
    def whole(self) -> bool:
        """Whether no point is missing."""
        return len(self.documents) == self.points

    @property
    def more_tables(self) -> tuple[Table, ...]:
        """What a person reads first: years, or points side by side, or what matters to which figure; best points."""
        years, shares = intervals(self.documents, "year."), sensitivities(self.documents)
        first = [years] if len(years) else []
        if not first and len(shares):
            first = [side_by_side(self.documents) if len(self.documents) <= FEW else shares]
        if not self.front:
            return tuple(first)
        unit = {UNIT} if any(name.startswith("cost.") for name in self.better) else set()
        whole, shown = table_of_points(self.front), {*self.parameters, *self.better, *unit}
        columns = tuple(column for column in whole.columns if column.name in shown)
        known = [[one["figures"].get(name) for name in self.better] for one in self.documents if "figures" in one]
        unknown = sum(None in figures for figures in known)
        left = f"; not compared: {plural(unknown, 'point')} of which one of these is unknown" if unknown else ""
        return (*first, Table(f"no other point is better in all{left}", columns))

    def _brief(self) -> str:
        return f"{plural(len(self.documents), 'point')} of {self.points:,}, {len(self.errors):,} failed"

    def _shown(self) -> tuple[Table, ...]:
        return (self.table, *self.more_tables)

    def to_dict(self) -> dict[str, Any]:
        """Return the figures of the run and the Pareto front as plain values, ready for JSON."""
        return {
            "points": self.points,
            "computed": self.ran.computed,
            "found": self.ran.found,
            "failed": len(self.errors),
            "missing": self.points - len(self.documents),
            "points_s": self.ran.own_s,
            "wall_s": self.ran.wall_s,
            "front": list(self.front),
        }


def sweep(
    sweep: str | Path,
    output: str | Path,
    *,
    jobs: int = 1,
    scheduler: str | None = None,
    again: bool = False,
    step: Progress = silent,
    stop: Callable[[], bool] = lambda: False,
) -> Points:
    """Compute a plan for every combination of the parameters of a sweep, as far as its folder has none.

    Parameters
    ----------
    sweep : str or Path
        A YAML file: a base spec or dump, stages, and parameters by their path in the spec.
    output : str or Path
        Folder: a file for each point, tables, and charts. The same call continues where one was stopped.
    jobs : int
        Processes on this machine.
    scheduler : str, optional
        Address of a Dask scheduler, such as ``tcp://head:8786``, whose workers compute instead.
    again : bool
        Whether points that have failed are tried again.
    step, stop : callable
        Progress callback, called as ``step(message, done)``; asked whether to leave off.

    Raises
    ------
    HeddleError
        When the sweep cannot be read, or the folder holds something else. A point that fails raises nothing.

    Examples
    --------
    >>> import json, plan, tempfile, topo
    >>> from pathlib import Path
    >>> folder = Path(tempfile.mkdtemp())
    >>> base = topo.config_root() / "lab-20.yaml"
    >>> sizes = {"base": str(base), "stages": ["design"], "parameters": {"nodes.gpu.count": [12, 16]}}
    >>> _ = (folder / "sizes.yaml").write_text(json.dumps(sizes))
    >>> points = plan.sweep(folder / "sizes.yaml", folder / "out")
    >>> [document["figures"]["counts.links"] for document in points.documents]
    [58, 62]
    """
    output = Path(output)
    check_folder(output)
    step("reading the sweep")
    spec, base, base_file = read_sweep(path_of(sweep))
    tasks = tasks_of(spec, base, base_file)
    output.mkdir(parents=True, exist_ok=True)
    write_file(output / SWEEP_FILE, spec.model_dump_json(indent=1) + "\n")
    ran = run_sweep(output, tasks, jobs=jobs, scheduler=scheduler, again=again, step=step, stop=stop)
    step("summing up")
    documents = [document for task in tasks if (document := read_point(output, task.name)) is not None]
    table = table_of_points(documents)
    write_file(output / "points.csv", table.to_csv())
    best, shares, means = front(documents, spec.better), sensitivities(documents), intervals(documents)
    chosen = tuple(replace(column, values=[column.values[at] for at in best]) for column in table.columns)
    pareto = replace(table, columns=chosen)
    files: dict[str, Content] = {"pareto.csv": pareto.to_csv(), "sensitivities.csv": shares.to_csv()}
    if len(means):
        files["intervals.csv"] = means.to_csv()
    if columnar := parquet(table):
        files["points.parquet"] = columnar
    files |= pictures(documents, spec.better, best, shares)
    if "year" in spec.stages and tasks and not stop():
        files["failures.svg"] = draw_first_year(tasks[0])
    for name, content in files.items():
        write_file(output / name, content)
    return Points(tuple(documents), tuple(spec.parameters), spec.better, len(tasks), ran,
                  tuple(documents[at] for at in best))  # fmt: skip


def check_folder(folder: Path) -> None:
    """Raise HeddleError for a folder that holds anything but a sweep, and for a file."""
    if (folder.is_symlink() or folder.exists()) and not (
        folder.is_dir() and ((folder / SWEEP_FILE).is_file() or not any(folder.iterdir()))
    ):
        raise HeddleError(
            f"{folder}: found something that is not a sweep; name a new folder, or that of a sweep, with -o"
        )
    above = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.exists())
    if not above.is_dir() or not os.access(above, os.W_OK):
        raise HeddleError(f"{folder}: cannot be written; name another folder with -o")


def tasks_of(spec: SweepSpec, base: object, base_file: Path) -> list[Task]:
    """Return what is to be computed for each point."""
    rules = (spec.failures or FailureSpec()).model_dump_json()
    points = spec.points(lambda kind: names_of_parts(kind, base, base_file, rules))
    bare = bare_task(base, base_file, tuple(spec.stages), rules)
    try:
        files = files_of(bare, points)
        inputs, code = digest_of_files(files), digest_of_code(spec.stages)
    except OSError as error:
        raise HeddleError(f"{error.filename}: cannot be read ({error.strerror})") from None
    check_values(bare, spec, points)
    currency = currency_of(bare, points) if "design" in spec.stages else None
    shared = replace(bare, inputs=inputs, code=code, files=tuple(map(str, files)), currency=currency)
    return [replace(shared, point=point) for point in points]


def files_of(task: Task, points: Sequence[Point]) -> list[Path]:
    """Return the files that points read and Heddle does not bring: their catalogs, workloads, and the dump."""
    named: dict[str, None] = {} if task.dump is None else {task.dump: None}
    if "play" in task.stages:
        given = dict.fromkeys(str(point.get("workload", "allreduce")) for point in points)
        paths = [find_preset("workloads", name, "workload") for name in given]
        own = [Path(task.place(path)) for path in paths if not path.is_relative_to(config_root())]
        named |= {str(path): None for workload in own for path in (workload, *files_of_workload(workload))}
    if isinstance(task.base, dict):
        catalogs = (point.get("catalog", task.base.get("catalog")) for point in points)
        named |= {catalog: None for catalog in catalogs if isinstance(catalog, str)}
        routing = task.base.get("routing")
        asked = routing.get("for") if isinstance(routing, dict) else None
        for name in {str(point.get("routing.for", asked or "any")) for point in points}.difference(get_args(Purpose)):
            file = Path(task.place(name))
            named |= {str(one): None for one in (file, *(() if file.suffix == ".csv" else files_of_workload(file)))}
    found: list[Path] = []
    for path in sorted({Path(task.place(name)) for name in named}):
        found += sorted(path.glob("*.csv")) if path.is_dir() else [path]
    return found


def files_of_workload(path: Path) -> list[Path]:
    """Return the traces, schedules and servers that jobs of a workload name; of a name that stands for several, all."""
    value = read_yaml(path).value
    jobs = value.get("jobs", ()) if isinstance(value, dict) else ()
    given = [job.get(key) for job in jobs if isinstance(job, dict) for key in ("file", "server")]
    names = [name for name in given if isinstance(name, str)]
    files = [path.parent / name for name in names]
    return [one for file in files for one in (file, *file.parent.glob(f"{glob.escape(file.name)}.*")) if one.is_file()]


def check_values(task: Task, spec: SweepSpec, points: Sequence[Point]) -> None:
    """Refuse a value of a parameter with which no point is a spec: a misspelt key or name, or a value of another kind.

    A value that some other parameter allows passes, as does a design that cannot be built. Of a span, one value must
    pass.
    """
    if task.dump is not None:
        return

    @cache
    def wrong(said: str) -> SpecError | None:
        try:
            plan_of(replace(task, point=json.loads(said)))
        except SpecError as error:
            return error
        except HeddleError:
            pass
        return None

    for name, values in spec.parameters.items():
        if name in SPECIAL:
            continue
        groups: dict[str, list[Point]] = {}
        for point in points:
            groups.setdefault(json.dumps(point[name]) if isinstance(values, list) else "", []).append(point)
        for group in groups.values():
            kept = ({at: one for at, one in point.items() if at not in SPECIAL} for point in group)
            errors = (wrong(json.dumps(point, sort_keys=True)) for point in kept)
            first = next(errors, None)
            if first is not None and all(error is not None for error in errors):
                raise SpecError([replace(one, where=f"parameters: {one.where}") for one in first.findings])


def currency_of(task: Task, points: Sequence[Point]) -> str | None:
    """Return the currency of all costs: that of the first point that can be designed; None where none can."""
    for point in points:
        with suppress(Exception):  # its row will say what is wrong with it
            plan = run_passes(plan_of(replace(task, point=point)), DESIGN)
            return plan.quote.cost.unit if plan.quote else None
    return None


def bare_task(base: object, base_file: Path, stages: tuple[str, ...], rules: str) -> Task:
    """Return what the points of a sweep have in common."""
    place = base_file.absolute()
    return Task(base, str(place.parent), str(place) if base is None else None, stages, {}, "", "", rules)


def names_of_parts(kind: PartKind, base: object, base_file: Path, rules: str) -> list[str]:
    """Return the names of the parts of a kind that a base has."""
    plan = plan_of(bare_task(base, base_file, (), rules))
    return list(parts_of(kind, Reach(plan.fabrics), plan.cluster, FailureSpec.model_validate_json(rules)))
