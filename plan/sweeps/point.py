"""One point of a sweep: what is computed for it, wherever that is."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

import routing
import simulate
import topo
from plan.inputs import find_preset, traffic_of
from plan.pipeline import DESIGN, JUDGE, Options, Plan, route_subnets, run_passes
from plan.sweeps.spec import FAILED, Point, is_figure, with_values
from simulate.cluster import FailureSpec
from topo import PART_KINDS, HeddleError, ToolError, config_root, did_you_mean, unite

if TYPE_CHECKING:
    from topo import Cluster, Failed, PartKind, Reach

PACKAGES = {"design": ("topo", "costmodel", "plan"), "route": ("topo", "routing", "simulate", "plan"),
            "play": ("topo", "routing", "simulate", "plan"),
            "year": ("topo", "routing", "simulate", "plan")}  # fmt: skip
"""Packages that each stage computes with."""
LIBRARIES = ("numba", "numpy", "scipy")


@dataclass(frozen=True)
class Task:
    """Everything that a point follows from."""

    base: Any
    """Spec as plain values; None where `dump` has the fabric."""
    folder: str
    """What the keys of the spec are relative to, and workloads."""
    dump: str | None
    stages: tuple[str, ...]
    point: Point
    inputs: str
    """Digest of the files that the point reads."""
    code: str
    """Digest of what computes it, see `digest_of_code`."""
    failures: str = "{}"
    """`FailureSpec` as JSON."""
    files: tuple[str, ...] = ()
    """Absolute paths of the files that points of the sweep read."""
    currency: str | None = None
    """Of all costs of the sweep, of the stage ``design``; None where no point can be designed."""
    root: str = ""
    """Folder below which another machine keeps copies of them at their paths; empty where they are themselves."""

    @property
    def name(self) -> str:
        """Name of its file: a digest of all of it."""
        follows = [self.base, self.stages, self.point, self.inputs, self.code, self.failures, self.currency]
        said = json.dumps(follows, sort_keys=True)
        return hashlib.sha256(said.encode()).hexdigest()[:32]

    def place(self, path: str | Path) -> str:
        """Return where a file is read that the spec or the sweep names."""
        return self.root + os.path.normpath(Path(self.folder) / path)


def digest_of_files(files: Sequence[Path]) -> str:
    """Return a digest of files in their order."""
    digest = hashlib.sha256()
    for path in files:
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def digest_of_code(stages: Sequence[str]) -> str:
    """Return a digest of the sources of the packages that matter to the stages, of libraries, and of our catalog."""
    digest = hashlib.sha256(json.dumps([version(name) for name in LIBRARIES]).encode())
    root = config_root()
    digest.update(digest_of_files(sorted([*root.glob("catalog/*.csv"), *root.glob("workloads/*.yaml")])).encode())
    for package in sorted({package for stage in stages for package in PACKAGES[stage]}):
        digest.update(_sources(package))
    return digest.hexdigest()


@cache
def _sources(package: str) -> bytes:
    folder = Path(str(import_module(package).__file__)).parent
    digest = hashlib.sha256()
    for source in sorted(folder.rglob("*.py")):
        digest.update(str(source.relative_to(folder)).encode() + b"\0" + source.read_bytes() + b"\0")
    return digest.digest()


def compute(task: Task, files: Mapping[str, bytes] | None = None) -> tuple[str, float, bytes]:
    """Compute a point; return its name, the seconds that it took, and its document as JSON.

    ``files`` are the contents of its files where a machine computes it that does not have them. What is wrong with a
    point is in its document, and stops no other. ToolError if this process has other code than the command, whose
    digest names the point.
    """
    if digest_of_code(task.stages) != task.code:
        raise ToolError(
            "a worker of the sweep and the command have different versions of Heddle, NumPy, SciPy or Numba"
        )
    name = task.name
    if files is not None:
        task = replace(task, root=_copies(task.inputs, files))
    begin = time.perf_counter()
    document: dict[str, Any] = {"point": task.point}
    try:
        document["figures"] = figures_of(task)
    except HeddleError as error:
        document["error"] = str(error)
    except Exception as error:  # a bug of ours in one point must not cost the others
        document["error"] = f"{type(error).__name__}: {error}"
    if task.root and "error" in document:
        document["error"] = document["error"].replace(task.root, "")
    text = json.dumps(document, sort_keys=True, indent=1, ensure_ascii=False)
    return name, time.perf_counter() - begin, text.encode()


@cache
def _folder_for(inputs: str) -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="heddle-sweep-")


_COPYING = Lock()
"""A worker may have several threads."""


def _copies(inputs: str, files: Mapping[str, bytes]) -> str:
    """Return a folder of this process with files at their absolute paths below it."""
    with _COPYING:
        root = _folder_for(inputs).name
        for path, content in files.items():
            copy = Path(root + path)
            if not copy.exists():
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_bytes(content)
    return root


def figures_of(task: Task) -> dict[str, Any]:
    """Return the figures of the stages that are asked for."""
    figures: dict[str, Any] = {}
    if "design" in task.stages:
        plan = run_passes(plan_of(task), DESIGN)
        assert plan.counts is not None and plan.quote is not None and plan.cluster is not None
        if (named := plan.cluster.spec.priced_in) not in (None, task.currency):
            raise HeddleError(f"found the currency {named}; expected {task.currency}, that of the first point: a sweep "
                              "compares costs in one currency")  # fmt: skip
        figures |= {f"counts.{name}": value for name, value in plan.counts.to_dict().items() if is_figure(value)}
        figures["cost.unit"] = plan.quote.cost.unit
        for name, sums in (("cost", plan.quote.cost.to_dict()), ("power", plan.quote.power.to_dict())):
            for key, bounds in sums["ranges"].items():
                least, most = bounds or (None, None)
                figures |= {f"{name}.{key}.least": least,
                            f"{name}.{key}.most": None if key in sums["at_least"] else most}  # fmt: skip
    seed, fails = int(task.point.get("seed", 0)), any(name in FAILED for name in task.point)
    if "year" in task.stages:
        ground = _ground(task)
        rules = FailureSpec.model_validate_json(task.failures)
        parts = {kind: ground.parts(kind) for kind in rules.parts}
        figures |= {
            f"year.{name}": value
            for name, value in simulate.cluster.play_year(ground.degradation, parts, rules, seed).items()
        }
    if "route" not in task.stages and "play" not in task.stages:
        return figures
    if fails:
        ground = _ground(task)
        failed = ground.failed(task.point, seed)
        routed = ground.degradation.left(failed)
        left = tuple(one.fabric for one in routed) or topo.fail_parts(ground.plan.fabrics, failed)
        plan = replace(ground.plan, fabrics=left, routed=routed)
    else:
        plan = route_subnets(plan_of(task))
    plan = replace(plan, options=replace(plan.options, seed=seed))
    if "route" in task.stages:
        plan = run_passes(plan, JUDGE)
        document = plan.to_dict()
        figures |= {f"{part}.{name}": value for part in ("proof", "quality") for name, value in document[part].items()}
        figures["disconnected"] = sum(proof.disconnected for proof in plan.proofs)
        if fails:
            found = ground.degradation.figures(failed, plan.proofs)
            figures |= {f"left.{name}": value for name, value in found.items()}
    if "play" in task.stages:
        figures |= _play(plan, task)
    return figures


def plan_of(task: Task) -> Plan:
    """Return the cluster of a point, or its dump, without anything else."""
    if task.dump is not None:
        return Plan("dump", fabrics=(topo.read_fabric(task.place(task.dump)),))
    value = with_values(task.base, task.point)
    if isinstance(value.get("catalog"), str):
        value["catalog"] = task.place(value["catalog"])
    cluster = topo.parse(value, task.place("."), tuple(routing.ENGINES))
    fabrics = cluster.cabled if "play" in task.stages else cluster.fabrics  # what is played has lengths of cables
    return Plan(cluster.name, cluster, fabrics, options=Options(traffic=traffic_of(cluster), currency=task.currency))


class Ground:
    """What points share whose seeds and failures alone differ: a routed cluster, and its parts."""

    def __init__(self, task: Task) -> None:
        self.rules = FailureSpec.model_validate_json(task.failures)
        self.plan = route_subnets(plan_of(task))
        nodes = self.rules.jobs.nodes if self.rules.jobs else None
        tables = task.point.get("tables", "anew")
        self.degradation = simulate.cluster.Degradation(topo.Reach(self.plan.fabrics), self.plan.routed, tables, nodes)
        reach, cluster, rules = self.degradation.reach, self.plan.cluster, self.rules
        self.parts = cache(lambda kind: parts_of(kind, reach, cluster, rules))

    def failed(self, point: Point, seed: int) -> Failed:
        """Return what does not work at a point; with a seed, more failures include fewer."""
        chosen = []
        for number, kind in enumerate(PART_KINDS):
            wanted = point.get(f"failed.{kind}", 0)
            parts = self.parts(kind) if wanted != 0 else {}
            if isinstance(wanted, str):
                if wanted not in parts:
                    expected = f"expected one of {len(parts):,} by name. {did_you_mean(wanted, list(parts))}".strip()
                    raise HeddleError(f"found the {kind} {wanted!r}; {expected}")
                chosen.append(parts[wanted])
            elif not isinstance(wanted, int) or not 0 <= wanted <= len(parts):
                raise HeddleError(f"found failed.{kind} {wanted!r}; expected a name, or 0 to {len(parts):,}")
            else:
                order = np.random.default_rng([seed, number]).permutation(len(parts))[:wanted]
                names = list(parts)
                chosen += [parts[names[one]] for one in order.tolist()]
        return unite(chosen)


def parts_of(kind: PartKind, reach: Reach, cluster: Cluster | None, rules: FailureSpec) -> dict[str, Failed]:
    """Return the parts of a kind; HeddleError if they are unknown."""
    catalog, layout = (cluster.catalog, cluster.layout) if cluster else (None, None)
    cablings = cluster.cablings if cluster and kind == "batch" else None
    return topo.list_parts(kind, reach, catalog=catalog, layout=layout, cablings=cablings, batch=rules.batch)


@lru_cache(maxsize=2)
def _ground_of(said: str) -> Ground:
    return Ground(Task(**json.loads(said)))


def draw_first_year(task: Task) -> str:
    """Return what fails in the year of a point, as SVG."""
    rules = FailureSpec.model_validate_json(task.failures)
    plan = plan_of(task)
    reach = topo.Reach(plan.fabrics)
    parts = {kind: parts_of(kind, reach, plan.cluster, rules) for kind in rules.parts}
    seed = int(task.point.get("seed", 0))
    return simulate.cluster.draw_failures(parts, rules, seed, about=f"{plan.name or 'the fabric'}, seed {seed}").svg


def _ground(task: Task) -> Ground:
    """Return the ground of a point, which the one before may have made."""
    point = {name: value for name, value in task.point.items() if name not in ("seed", "workload", *FAILED)}
    return _ground_of(json.dumps(vars(replace(task, point=point)), sort_keys=True))


def _play(plan: Any, task: Task) -> dict[str, Any]:
    name = str(task.point.get("workload", "allreduce"))
    path = find_preset("workloads", name, "workload")
    path = path if path.is_relative_to(config_root()) else Path(task.place(path))
    ecmp, seed = task.point.get("ecmp"), int(task.point.get("seed", 0))
    catalog = plan.catalog
    if ecmp is not None or not plan.routed:
        fabrics = plan.fabrics
        whole = fabrics[0] if len(fabrics) == 1 else routing.studies.join_fabrics(fabrics, plan.name)
        hashed = routing.Hashed(whole, 0 if ecmp == "spray" else int(ecmp or 1))
        workload = simulate.read_workload(path, whole, seed, catalog)
        drawn = simulate.play_draws(simulate.Network.of(hashed, catalog=catalog), workload, seed=seed)
        figures = simulate.workload.percentiles(drawn.makespan_s)
        return dict(zip(("makespan_s", "makespan_s.p5", "makespan_s.p95"), figures, strict=True))
    if len(plan.routed) != 1:
        raise HeddleError(f"found {len(plan.routed)} subnets; the stage play takes one")
    (routed,) = plan.routed
    workload = simulate.read_workload(path, routed.fabric, seed, catalog)
    played = simulate.play(simulate.Network.of(routed, catalog=catalog), workload)
    return {"makespan_s": float(played.outcome.makespan_s)}
