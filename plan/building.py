"""``plan.build``, ``plan.check`` and ``plan.route``: from a spec or a fabric to a plan, in one call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast, get_args

from plan.checksums import digest
from plan.files import BUILT, check_replaceable, write_folder
from plan.inputs import (
    A_FABRIC,
    SPEC_SUFFIXES,
    RoleFiles,
    catalog_of,
    check_currency,
    give_roles,
    path_of,
    read_cluster,
    read_fabric_argument,
    read_traffic,
    traffic_of,
)
from plan.pipeline import BUILD, CHECK, ROUTE, Options, Plan, Progress, run_passes, silent
from topo import Cluster, Fabric, HeddleError, Purpose, whole


def build(spec: str | Path | Cluster, output: str | Path | None = None, *, seed: int = 0, currency: str | None = None,
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
    currency : str, optional
        Of the cost; by default that of ``budget.price`` or ``owning``, else `costmodel.Bill.currency`.
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
    (True, True, 'USD')
    """
    check_replaceable(output, keep="")
    step("reading")
    plan = _plan_of(spec)
    check_currency(currency, [plan.planned])
    plan = replace(plan, options=Options(seed=seed, traffic=traffic_of(plan.planned, seed), currency=currency))
    plan = run_passes(plan, BUILD, step)
    if output is not None:
        _write(plan, output, step)
    return plan


def check(
    spec: str | Path | Cluster, *, job: int | None = None, currency: str | None = None, step: Progress = silent
) -> Plan:
    """Find everything that follows from a spec without routing it.

    Parameters
    ----------
    spec : str, Path or Cluster
        As `build` takes it.
    job : int, optional
        Compute servers of a job whose bandwidth is asked for: `Plan.job`. Half of all when left out.
    currency : str, optional
        Of the cost, as `build` takes it.
    step : callable
        Progress callback, called as ``step(message)``.

    Returns
    -------
    Plan
        Without tables, proofs and qualities.

    Raises
    ------
    HeddleError
        When the spec cannot be read or built, or has fewer compute servers than the job.

    Examples
    --------
    >>> import plan, topo
    >>> checked = plan.check(topo.preset("lab-20"), job=8)
    >>> checked.counts.switches, checked.verdict.holds, checked.routed
    (4, True, ())
    >>> print(checked.job)
    100.0%
    """
    plan = _plan_of(spec)
    job = None if job is None else whole("job", job, 2)
    if job is not None and not 2 <= job <= plan.planned.counts.gpu_nodes:
        have = plan.planned.counts.gpu_nodes
        raise HeddleError(f"{plan.source}: found a job of {job:,} servers; expected 2 to {have:,}, which compute")
    check_currency(currency, [plan.planned])
    return run_passes(replace(plan, options=Options(job=job, currency=currency)), CHECK, step)


def route(
    fabric: str | Path | Fabric | Sequence[Fabric],
    output: str | Path | None = None,
    *,
    name: str = "",
    source: str | Path = "",
    subnet: str | None = None,
    hosts: RoleFiles | None = None,
    purpose: str | None = None,
    options: Options | None = None,
    step: Progress = silent,
) -> Plan:
    """Route any fabric, prove and measure the tables, and write the files for OpenSM if asked.

    Parameters
    ----------
    fabric : str, Path, Fabric or sequence of Fabric
        A real fabric from ibnetdiscover or OpenSM, a folder of a plan, a spec, or fabrics.
    output : str or Path, optional
        Folder to write.
    name : str
        Of the plan; that of the fabric when left out.
    source : str or Path
        File that fabrics were made from, which the plan names with its digest.
    subnet : str, optional
        Which subnet of a spec or folder that has several.
    hosts : RoleFiles, optional
        Files that say what hosts are for.
    purpose : str, optional
        What the tables are for: ``any``, ``jobs``, ``permutations`` or ``all-pairs``; or a CSV file of a demand, or a
        workload by file or preset, for which paths are moved. As the fabric says when left out.
    options : Options, optional
        Engine, lanes, LMC, end ports, seed, and how many links fail in a study.
    step : callable
        Progress callback, called as ``step(message)``.

    Raises
    ------
    HeddleError
        When a file cannot be read, an engine does not take the fabric, or paths need more lanes than there may be.

    Examples
    --------
    >>> import plan, topo
    >>> routed = plan.route(topo.preset("lab-20").fabric, options=plan.Options(engine="minhop", lanes=1))
    >>> routed.routed[0].tables.engine, routed.proofs[0].holds, routed.qualities[0].max_load
    ('minhop', True, 11)

    See Also
    --------
    routing.route : the tables alone
    """
    check_replaceable(output, keep=BUILT)
    step("reading the fabric")
    if isinstance(fabric, Fabric):
        fabric = [fabric]
    if isinstance(fabric, str) or not isinstance(fabric, Sequence):
        path = path_of(fabric, f"{A_FABRIC}, or several")
        source, fabric = source or path, [read_fabric_argument(path, subnet)]
    fabrics = tuple(give_roles(Fabric.given(one), hosts) for one in fabric)
    if not fabrics:
        raise HeddleError("found no fabric; expected one or more")
    options = options or Options()
    if purpose in get_args(Purpose):
        fabrics = tuple(replace(one, purpose=cast(Purpose, purpose)) for one in fabrics)
    elif purpose is not None:
        options = replace(options, traffic=read_traffic(purpose, catalog_of(Path(source)), options.seed))
    elif Path(source).suffix in SPEC_SUFFIXES:
        options = replace(options, traffic=traffic_of(read_cluster(source), options.seed))
    sha256 = digest(Path(source)) if source else None
    plan = run_passes(Plan(name or fabrics[0].name, None, fabrics, str(source), sha256, options), ROUTE, step)
    if output is not None:
        _write(plan, output, step, routed=True)
    return plan


def _plan_of(spec: str | Path | Cluster) -> Plan:
    cluster = read_cluster(spec)
    return Plan(cluster.name, cluster, source=cluster.name if isinstance(spec, Cluster) else str(spec))


def _write(plan: Plan, folder: str | Path, step: Progress, *, routed: bool = False) -> None:
    from plan.export.registry import OF_BUILD, OF_ROUTE, plan_files  # workbooks and pages, which a check does without

    step("writing")
    write_folder(Path(folder), plan_files(plan, plan.to_dict(), OF_ROUTE if routed else OF_BUILD))
