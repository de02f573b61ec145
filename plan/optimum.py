"""``plan.optimise``: the cheapest design for given needs, with what the tables of the best ones give."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from math import inf
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import costmodel
import routing
import simulate
import topo
from costmodel import Needs, Search, job_windows, read_needs
from plan.files import as_kind, write_file
from plan.pipeline import Progress, silent
from topo import Check, Finding, HeddleError, Shown, SpecError, Table, Verdict

if TYPE_CHECKING:
    from costmodel import Design, Tradeoffs
    from routing import Proof, Routed
    from routing.quality import Quality
    from topo import Cluster, Fabric

WORKERS = 2
"""Processes side by side."""
BYTES = 64 << 20
"""That each adapter sends to its partner in the other half of its job."""


@dataclass(frozen=True)
class Finalist:
    """What the tables of a design give, in the worst of its subnets."""

    name: str
    engine: str
    """That `auto` took."""
    proven: bool
    fullest_link: float
    """Pairs of hosts over the fullest link, by those over the mean one in use."""
    effective_bisection: float
    """Mean share of its rate at which a random half sends to the other."""
    jobs: float
    """Share of its rate at which the last pair of the halves of all jobs, at once, ends in the fluid engine."""
    worst_job: str
    """The job of that pair."""


@dataclass(frozen=True, eq=False)
class Optimum(Shown):
    """What `optimise` returns: the search, its best designs with their tables, and what each need costs."""

    search: Search
    finalists: tuple[Finalist, ...] = ()
    trade_offs: Tradeoffs | None = None
    written: tuple[Path, ...] = ()
    """Files: the winner's spec, and drawings of the price over bandwidth."""

    @property
    def verdict(self) -> Verdict:
        """Whether a design is proven to meet the needs and to be the cheapest.

        Cannot tell where a bandwidth is neither proven nor refuted, or where a part has no price.
        """
        found = self.search
        return Verdict.CANNOT_TELL if found.winner and found.unpriced else found.verdict

    @property
    def table(self) -> Table:
        """The winner, and the designs that are cheaper and miss a need."""
        return self.search.table

    def _brief(self) -> str:
        return self.search.certificate

    @property
    def more_tables(self) -> tuple[Table, ...]:
        """What the tables of finalists give; what each need costs, and the price over bandwidth."""
        played = (finalists_table(self.finalists),) if self.finalists else ()
        return (*played, *((self.trade_offs.table, self.trade_offs.curve_table) if self.trade_offs else ()))

    def _shown(self) -> tuple[Table, ...]:
        return (self.table, *self.more_tables)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values, ready for JSON."""
        more = {"trade_offs": self.trade_offs.to_dict()} if self.trade_offs else {}
        played = {"finalists": [asdict(each) for each in self.finalists]} if self.finalists else {}
        return self.search.to_dict() | more | played


def optimise(
    needs: str | Path | Needs,
    output: str | Path | None = None,
    *,
    gap: float = 0.0,
    limit_s: float = inf,
    trade_offs: bool = False,
    finalists: int = 0,
    step: Progress = silent,
) -> Optimum:
    """Find the cheapest network for given needs, and prove it.

    Parameters
    ----------
    needs : str, Path or Needs
        What `costmodel.read_needs` takes or returns.
    output : str or Path, optional
        New file for the winner's spec; prices that the needs quote go to a folder beside it, ``STEM-catalog``, and the
        drawings of ``trade_offs`` to ``STEM.svg`` and ``STEM.png``.
    gap : float
        Share by which the result may cost more than the cheapest design.
    limit_s : float
        Seconds after which the search ends with the best design so far.
    trade_offs : bool
        Whether to search again without each need, and with less bandwidth.
    finalists : int
        How many designs of different shapes to route and to play the jobs on.
    step : callable
        Progress callback, called as ``step(message)``.

    Raises
    ------
    HeddleError
        When the needs cannot be read, a finalist cannot be routed, or a file exists already.

    Examples
    --------
    >>> import costmodel, plan
    >>> needs = costmodel.Needs.model_validate({
    ...     "name": "pod", "nodes": {"gpu": {"model": "pcie-a100", "count": 30}},
    ...     "job": {"nodes": 30}, "switches": ["QM8700"],
    ... })
    >>> found = plan.optimise(needs)
    >>> found.verdict.holds, found.search.proven
    (True, True)
    """
    asked = needs if isinstance(needs, Needs) else read_needs(needs)
    output = None if output is None else Path(output)
    charts = [output.with_suffix(suffix) for suffix in (".svg", ".png")] if output is not None and trade_offs else []
    tables = output.with_name(f"{output.stem}-catalog") if output is not None and asked.quotes else None
    day = asked.quoted or ""
    if tables is not None and not day:
        if isinstance(needs, Needs):
            expected = "`quoted`, the day on which they were quoted, such as 2026-11-20"
            raise SpecError([Finding(f"{asked.name}: quotes", "prices without a day", expected)])
        day = str(datetime.fromtimestamp(Path(needs).stat().st_mtime, UTC).date())
    for file in (output, tables, *charts):
        if file is not None and file.exists():
            raise SpecError([Finding(str(file), "a file that exists", "a new name", "Choose one with -o.")])

    def search(asked: Needs, finalists: int = 1) -> Search:
        return costmodel.optimise(
            asked, progress=step, gap=gap, limit_s=limit_s, judge=judge_tables, finalists=finalists
        )

    found = search(asked, max(finalists, 1))
    best = (*([found.winner] if found.winner else []), *found.others)[:finalists]
    step("routing the finalists")
    played = judge_finalists(best, asked)
    beside = costmodel.trade_off(found, search) if trade_offs else None
    written = []
    if found.winner is not None and output is not None:
        catalog = None if asked.catalog is None else os.path.relpath(asked.catalog, output.parent)
        catalog = tables.name if tables is not None else catalog
        spec = found.winner.spec.model_copy(update={"catalog": catalog} if catalog else {})
        write_file(output, spec.to_yaml(f"For {asked.name}: {found.winner.name}, {found.certificate}"), new=True)
        written.append(output)
        if tables is not None:
            tables.mkdir()
            for name, text in own_tables(asked, day).items():
                write_file(tables / name, text, new=True)
    if beside is not None:
        for file in charts:
            write_file(file, as_kind(beside.drawing.svg, file.suffix), new=True)
            written.append(file)
    return Optimum(found, tuple(played), beside, tuple(written))


def judge_finalists(designs: Sequence[Design], needs: Needs) -> list[Finalist]:
    """Route designs by `auto`, prove and measure their tables, and play the jobs, in processes side by side."""
    catalog = {"catalog": needs.catalog} if needs.catalog else {}
    asked = [
        (design.name, design.spec.model_dump(mode="json", exclude_unset=True) | catalog, needs.job.sizes,
         needs.job.with_storage)
        for design in designs
    ]  # fmt: skip
    if len(asked) < 2:
        return [_judge(*each) for each in asked]
    with ProcessPoolExecutor(min(WORKERS, len(asked)), mp_context=get_context("spawn")) as pool:
        return list(pool.map(_judge, *zip(*asked, strict=True)))


def finalists_table(found: Sequence[Finalist]) -> Table:
    """Show them beside one another."""
    names = ("design", "engine", "proof", "fullest link", "effective bisection", "jobs", "worst job")
    rows = [
        (each.name, each.engine, "holds" if each.proven else "FAILS",
         f"{each.fullest_link:.2f} x mean", f"{each.effective_bisection:.1%}", f"{each.jobs:.1%}", each.worst_job)
        for each in found
    ]  # fmt: skip
    return Table.of_rows("what the tables of finalists give", names, rows)


def judge_tables(needs: Needs, cluster: Cluster) -> list[Check]:
    """Route a design, and compare its proof and its effective bisection with `Needs.tables`; no checks without it."""
    if needs.tables is None:
        return []
    checks = []
    for fabric in cluster.subnets:
        tables, proof, quality = _routed(fabric)
        given = f"the tables of `{tables.tables.engine}` give {quality.ebb:.1%} to random halves"
        text = f"{given}, {needs.tables:.1%} is needed"
        checks.append(Check("proof", Verdict.HOLDS if proof.holds else Verdict.EXCEEDED, f"{fabric.name}: {proof}"))
        checks.append(Check("tables", Verdict.HOLDS if quality.ebb >= needs.tables else Verdict.EXCEEDED, text))
    return checks


def _routed(fabric: Fabric) -> tuple[Routed, Proof, Quality]:
    """Route a fabric as it would be loaded, prove the tables and measure them."""
    tables = routing.route(fabric, "auto")
    proof = routing.prove(tables)
    return tables, proof, routing.measure(tables, proof=proof)


def _judge(name: str, spec: dict[str, Any], sizes: dict[int, float], with_storage: bool) -> Finalist:
    """Judge one design; in a process of its own where there are several."""
    figures = []
    for fabric in topo.parse(spec).subnets:
        tables, proof, quality = _routed(fabric)
        ends, storage = fabric.ends(role="compute"), fabric.ends(role="storage")
        hosts, rank = np.unique(_servers(fabric, ends), return_inverse=True)
        jobs = {
            f"{hosts[a]} to {hosts[b - 1]}": ends[(rank >= a) & (rank < b)] for a, b in job_windows(len(hosts), sizes)
        }
        if with_storage and len(storage):
            jobs["the storage"] = storage
        flows = [*_halves(jobs.values(), np.random.default_rng(0))]
        share, worst = 1.0, ""
        if flows:
            src, dst = (np.concatenate(side) for side in zip(*flows, strict=True))
            outcome = simulate.play(tables, simulate.Flows.of(src, dst, float(BYTES)))
            rates = (fabric.rate_gbps[fabric.port_of(side)] for side in (src, dst))
            sent = BYTES * 8e-9 / outcome.finish_s / np.minimum(*rates)
            share = min(float(sent.min()), 1.0)
            server = _servers(fabric, src[[sent.argmin()]])[0]
            worst = next(job for job, mine in jobs.items() if server in _servers(fabric, mine))
        engine = tables.tables.engine
        figures.append((engine, proof.holds, quality.balance, quality.ebb, (share, worst)))
    if not figures:
        raise HeddleError(f"{name} has no subnet that a subnet manager runs, and so no tables")
    engines, proven, balance, ebb, played = zip(*figures, strict=True)
    return Finalist(name, ", ".join(dict.fromkeys(engines)), all(proven), max(balance), min(ebb), *min(played))


def _servers(fabric: Fabric, ends: Any) -> list[str]:
    return [fabric.hosts[host] for host in fabric.host[fabric.end_node[ends]].tolist()]


def _halves(jobs: Iterable[Any], draw: Any) -> Iterator[tuple[Any, Any]]:
    """Yield senders and receivers: the halves of each job at random, each adapter with a partner, both ways."""
    for ends in jobs:
        mine = draw.permutation(ends)
        half = len(mine) // 2
        yield mine[:half], mine[half : 2 * half]
        yield mine[half : 2 * half], mine[:half]


def own_tables(needs: Needs, day: str) -> dict[str, str]:
    """Return the tables of a catalog with the prices that the needs of a file quote, beside those of before."""
    own = [] if needs.catalog is None else [Path(needs.catalog)]
    files = [file for path in own for file in (sorted(path.glob("*.csv")) if path.is_dir() else [path])]
    found = {file.name: file.read_text(encoding="utf-8") for file in files}
    table = io.StringIO()
    columns = ("model", "currency", "low", "high", "note", "source", "date", "confidence")
    rows = csv.DictWriter(table, columns, restval="", extrasaction="ignore", lineterminator="\n")
    rows.writeheader()
    for row in csv.DictReader(io.StringIO(found.get("prices.csv", ""))):
        if row["model"] not in needs.quotes:
            rows.writerow(row)
    cited = {"source": f"quoted in the needs of {needs.name}", "date": day, "confidence": "own"}
    for name, price in needs.quotes.items():
        rows.writerow({"model": name, "currency": needs.currency, "low": price, "high": price, **cited})
    return found | {"prices.csv": table.getvalue()}
