"""``plan.build`` and ``plan.check``: from a spec to a plan, in one call."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from plan.folder import check_replaceable, write_folder
from plan.inputs import digest, read_cluster
from plan.pipeline import BUILD, CHECK, ROUTE, Options, Plan, Progress, run, silent
from topo import Cluster, Fabric


def build(spec: str | Path | Cluster, output: str | Path | None = None, *, seed: int = 0,
          step: Progress = silent) -> Plan:  # fmt: skip
    """Compile, route, prove, measure, price and, if asked, export a cluster.

    Parameters
    ----------
    spec : str, Path or Cluster
        A YAML file, or a cluster as `topo.preset`, `topo.read` and `topo.parse` return it.
    output : str or Path, optional
        Folder to write, completely or not at all; an older plan there is replaced.
    seed : int
        Seed of the random traffic that quality is measured with.
    step : callable
        Progress callback, called as ``step(message)``.

    Returns
    -------
    Plan
        Also if it is refused: `Plan.verdict` and `Plan.refusals` say so.

    Raises
    ------
    HeddleError
        When the spec cannot be read, built or routed, or the folder must not be replaced.

    Examples
    --------
    >>> import plan, topo
    >>> built = plan.build(topo.preset("lab-20"))
    >>> built.verdict.holds, built.proofs[0].holds, built.quote.cost.unit
    (True, True, 'units')
    """
    if output is not None:
        check_replaceable(Path(output))
    step("reading")
    plan = run(replace(_plan_of(spec), options=Options(seed=seed)), BUILD, step)
    if output is not None:
        _write(plan, output, step)
    return plan


def check(spec: str | Path | Cluster, *, step: Progress = silent) -> Plan:
    """Find everything that follows from a spec without routing it.

    Parameters
    ----------
    spec : str, Path or Cluster
        As `build` takes it.
    step : callable
        Progress callback, called as ``step(message)``.

    Returns
    -------
    Plan
        Without tables, proofs and qualities.

    Raises
    ------
    HeddleError
        When the spec cannot be read or built.

    Examples
    --------
    >>> import plan, topo
    >>> checked = plan.check(topo.preset("lab-20"))
    >>> checked.counts.switches, checked.verdict.holds, checked.routed
    (4, True, ())
    """
    return run(_plan_of(spec), CHECK, step)


def adopt(fabrics: tuple[Fabric, ...], name: str, source: str | Path, folder: Path, step: Progress) -> Plan:
    """Route fabrics that have GUIDs and LIDs already, and write what OpenSM loads."""
    plan = run(Plan(name, None, fabrics, str(source), digest(Path(source)) if source else None), ROUTE, step)
    _write(plan, folder, step, routed=True)
    return plan


def _plan_of(spec: str | Path | Cluster) -> Plan:
    cluster = read_cluster(spec)
    return Plan(cluster.name, cluster, source=cluster.name if isinstance(spec, Cluster) else str(spec))


def _write(plan: Plan, folder: str | Path, step: Progress, *, routed: bool = False) -> None:
    from plan.export.registry import EXPORTS, OF_ROUTE, plan_files  # workbooks and pages, which a check does without

    step("writing")
    write_folder(Path(folder), plan_files(plan, plan.to_dict(), OF_ROUTE if routed else EXPORTS))
