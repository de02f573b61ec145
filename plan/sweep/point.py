"""One point of a sweep: what is computed for it, wherever that is."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plan.sweep.spec import Point, with_values
from topo import HeddleError, ToolError

if TYPE_CHECKING:
    from topo import Fabric

PACKAGES = {"design": ("topo", "costmodel", "plan"), "route": ("topo", "routing", "plan"),
            "play": ("topo", "routing", "simulate", "plan")}  # fmt: skip
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

    @property
    def name(self) -> str:
        """Name of its file: a digest of all of it."""
        said = json.dumps([self.base, self.stages, self.point, self.inputs, self.code], sort_keys=True)
        return hashlib.sha256(said.encode()).hexdigest()[:32]


def digest_of_files(files: Sequence[Path]) -> str:
    """Return a digest of files in their order."""
    digest = hashlib.sha256()
    for path in files:
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def digest_of_code(stages: Sequence[str]) -> str:
    """Return a digest of the sources of the packages that matter to the stages, and of libraries."""
    digest = hashlib.sha256(json.dumps([version(name) for name in LIBRARIES]).encode())
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


def compute(task: Task) -> tuple[str, float, bytes]:
    """Compute a point; return its name, the seconds that it took, and its document as JSON.

    What is wrong with a point is in its document, and stops no other.

    Raises
    ------
    ToolError
        When this process has other code than the command, whose digest names the point.
    """
    if digest_of_code(task.stages) != task.code:
        raise ToolError(
            "a worker of the sweep and the command have different versions of Heddle, NumPy, SciPy or Numba"
        )
    begin = time.perf_counter()
    document: dict[str, Any] = {"point": task.point}
    try:
        document["figures"] = figures_of(task)
    except HeddleError as error:
        document["error"] = str(error)
    except Exception as error:  # a bug of ours in one point must not cost the others
        document["error"] = f"{type(error).__name__}: {error}"
    text = json.dumps(document, sort_keys=True, indent=1, ensure_ascii=False)
    return task.name, time.perf_counter() - begin, text.encode()


def figures_of(task: Task) -> dict[str, Any]:
    """Return the figures of the stages that are asked for.

    Raises
    ------
    HeddleError
        When the spec is refused, a design cannot be built, or a stage cannot do its work.
    """
    import topo
    from plan import pipeline
    from routing import ENGINES

    if task.dump is None:
        cluster = topo.parse(with_values(task.base, task.point), task.folder, tuple(ENGINES))
        plan = pipeline.Plan(cluster.name, cluster, cluster.fabrics)
    else:
        plan = pipeline.Plan("dump", fabrics=(topo.read_fabric(task.dump),))
    figures: dict[str, Any] = {}
    if "design" in task.stages:
        plan = pipeline.run(plan, pipeline.DESIGN)
        assert plan.counts is not None and plan.quote is not None
        figures |= {f"counts.{name}": value for name, value in plan.counts.to_dict().items() if _is_number(value)}
        for name, sums in (("cost", plan.quote.cost.to_dict()), ("power", plan.quote.power.to_dict())):
            lacking = sums.get("at_least", ())
            figures |= {f"{name}.{key}": None if key in lacking else value for key, value in sums.items()
                        if value is None or _is_number(value)}  # fmt: skip
    if "route" not in task.stages and "play" not in task.stages:
        return figures
    plan = _damaged(plan, task.point)
    if "route" in task.stages:
        plan = pipeline.run(plan, [pipeline.prove_tables, pipeline.measure_quality])
        document = plan.to_dict()
        figures |= {f"{part}.{name}": value for part in ("proof", "quality") for name, value in document[part].items()}
        figures["disconnected"] = sum(proof.disconnected for proof in plan.proofs)
    if "play" in task.stages:
        figures |= _play(plan, task)
    return figures


def _damaged(plan: Any, point: Point) -> Any:
    """Return the plan with tables, after failures: made anew for what is left, or those of the whole (kept)."""
    from plan import pipeline

    seed = int(point.get("seed", 0))
    tables = point.get("tables", "anew")
    if tables not in ("anew", "kept"):
        raise HeddleError(f"found the tables {tables!r}; expected anew or kept")
    plan = replace(plan, wishes=replace(plan.wishes, seed=seed))
    left = tuple(
        fail(fabric, int(point.get("failed_links", 0)), int(point.get("failed_switches", 0)), seed)
        for fabric in plan.fabrics
    )
    if tables == "anew":
        return pipeline.route_subnets(replace(plan, fabrics=left), lambda text: None)
    plan = pipeline.route_subnets(plan, lambda text: None)
    routed = tuple(replace(one, fabric=fabric) for one, fabric in zip(plan.routed, left, strict=False))
    return replace(plan, fabrics=left, routed=routed)


def fail(fabric: Fabric, links: int, switches: int, seed: int) -> Fabric:
    """Return the fabric without so many random links between switches, and so many random switches.

    Raises
    ------
    HeddleError
        When it has not so many.
    """
    import numpy as np

    rng = np.random.default_rng(seed)
    inner = fabric.inner_links
    if not (0 <= links <= len(inner) and 0 <= switches <= fabric.n_switches):
        found = f"{links} links and {switches} switches to fail"
        raise HeddleError(f"found {found}; {fabric.name} has {len(inner)} and {fabric.n_switches}")
    # One order of all for a seed: what fails with few failures fails with more, too.
    cut = inner[rng.permutation(len(inner))[:links], 0]
    failing = rng.permutation(fabric.n_switches)[:switches]
    own = np.flatnonzero(np.isin(fabric.port_node, failing) & (fabric.peer >= 0))
    return fabric.without(np.concatenate([cut, own])) if links or switches else fabric


def _play(plan: Any, task: Task) -> dict[str, Any]:
    from plan.inputs import find_preset
    from simulate import Network, play, read_workload

    name = str(task.point.get("workload", "allreduce"))
    path = find_preset("workloads", name, "workload")
    path = path if path.is_absolute() else Path(task.folder) / path
    (routed,) = plan.routed if len(plan.routed) == 1 else _refuse_planes(len(plan.routed))
    catalog = plan.cluster.catalog if plan.cluster is not None else None
    workload = read_workload(path, routed.fabric, int(task.point.get("seed", 0)), catalog)
    return {"makespan_s": float(play(Network.of(routed), workload).outcome.makespan_s)}


def _refuse_planes(count: int) -> Any:
    raise HeddleError(f"found {count} subnets; the stage play takes one")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
