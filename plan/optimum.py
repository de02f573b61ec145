"""``plan.optimise``: the cheapest design for given needs, with what the tables of the best ones give."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from math import inf
from pathlib import Path
from typing import Any

import costmodel
import topo
from costmodel import Needs, Networks, Search, read_needs
from plan.files import write_together
from plan.finalists import Finalist, finalists_table, judge_finalists, judge_tables
from plan.inputs import tables_of
from plan.pipeline import Progress, silent
from plan.staging import Content
from topo import Cluster, Finding, Shown, SpecError, Table, Verdict, find_losses, load_catalog, percent


@dataclass(frozen=True, eq=False)
class Optimum(Shown):
    """What `optimise` returns: the search, its best designs with their tables, and what each need costs."""

    search: Search
    finalists: tuple[Finalist, ...] = ()
    trade_offs: costmodel.Tradeoffs | None = None
    vendors: dict[str, Search] = field(default_factory=dict)
    """The search with the quotes of each vendor of the needs; `search` is the cheapest of them."""
    unwritten: tuple[str, ...] = ()
    """Of each stage without a file, why no spec describes it."""
    written: tuple[Path, ...] = ()
    """Files: the winner's spec, those of its stages, and drawings of the price over bandwidth."""
    networks: Networks | None = None
    """The winners of all networks, where the needs have several; `search` is that of the first."""

    @property
    def verdict(self) -> Verdict:
        """Whether a design is proven to meet the needs and to be the cheapest.

        Cannot tell where a bandwidth is neither proven nor refuted, or where a part has no price.
        """
        found = self.search
        if self.networks is not None:
            return self.networks.verdict
        return Verdict.CANNOT_TELL if found.winner and found.unpriced else found.verdict

    @property
    def table(self) -> Table:
        """The winner, and the designs that are cheaper and miss a need."""
        return (self.networks or self.search).table

    def _brief(self) -> str:
        return self.certificate

    @property
    def certificate(self) -> str:
        """What is proven, in one sentence."""
        return (self.networks or self.search).certificate

    @property
    def more_tables(self) -> tuple[Table, ...]:
        """What the tables of finalists give; what each need costs, and the price over bandwidth."""
        played = (finalists_table(self.finalists),) if self.finalists else ()
        offers = (_vendors_table(self.vendors, self.search),) if self.vendors else ()
        return (*offers, *played, *((self.trade_offs.table, self.trade_offs.curve_table) if self.trade_offs else ()))

    def _shown(self) -> tuple[Table, ...]:
        return (self.table, *self.more_tables)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values, ready for JSON."""
        if self.networks is not None:
            return self.networks.to_dict()
        more = {"trade_offs": self.trade_offs.to_dict()} if self.trade_offs else {}
        played = {"finalists": [asdict(each) for each in self.finalists]} if self.finalists else {}
        vendors = {name: search.to_dict() for name, search in self.vendors.items()}
        return self.search.to_dict() | more | played | ({"vendors": vendors} if vendors else {})


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
        New file for the winner's spec; those of its stages are ``STEM-stage1.yaml`` and so on, prices that the needs
        quote go to a folder beside it, ``STEM-catalog``, and the drawings of ``trade_offs`` to ``STEM.svg`` and
        ``STEM.png``.
    gap : float
        Share by which the result may cost more than the cheapest design.
    limit_s : float
        Seconds after which the search ends with the best design so far.
    trade_offs : bool
        Whether to search again without each need, and with less bandwidth.
    finalists : int
        How many designs of different shapes to route and to play the jobs on. Where several are asked for and none is
        proven to meet the needs, the cheapest that is proven comes in addition.
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
    quoted = asked.quotes or asked.vendors
    tables = output.with_name(f"{output.stem}-catalog") if output is not None and quoted else None
    stages = [] if output is None else [
        output.with_name(f"{output.stem}-stage{number}.yaml") for number in range(1, len(asked.stages) + 1)
    ]  # fmt: skip
    day = asked.quoted or ""
    if tables is not None and not day:
        if isinstance(needs, Needs):
            expected = "`quoted`, the day on which they were quoted, such as 2026-11-20"
            raise SpecError([Finding(f"{asked.name}: quotes", "prices without a day", expected)])
        day = str(datetime.fromtimestamp(Path(needs).stat().st_mtime, UTC).date())
    for file in (output, tables, *charts, *stages):
        if file is not None and file.exists():
            raise SpecError([Finding(str(file), "a file that exists", "the name of a new file", "Choose one with -o.")])

    def search(asked: Needs, catalog: topo.Catalog | None = None, finalists: int = 1) -> Search:
        return costmodel.optimise(
            asked, catalog, progress=step, gap=gap, limit_s=limit_s, judge=judge_tables, finalists=finalists
        )

    if asked.networks and (trade_offs or finalists):
        expected = "needs of one network, or neither trade-offs nor finalists"
        raise SpecError([Finding(f"{asked.name}: networks", ", ".join(asked.networks), expected)])
    networks = costmodel.optimise_networks(asked, search) if asked.networks else None
    offers = {
        name: search(
            asked.model_copy(update={"quotes": {**asked.quotes, **quotes}, "vendors": {}}), finalists=max(finalists, 1)
        )
        for name, quotes in asked.vendors.items()
    }
    if networks is not None:
        found = networks.searches[asked.name]
    else:
        found = min(offers.values(), key=_rank) if offers else search(asked, finalists=max(finalists, 1))
        asked = found.needs
    best = (*([found.winner] if found.winner else []), *found.others) if finalists else ()
    step("routing the finalists")
    played = judge_finalists(best, asked)
    beside = costmodel.trade_off(found, search) if trade_offs else None
    files: dict[Path, Content | Mapping[str, Content]] = {}
    specs, unwritten = dict[Path, str](), []
    if networks is not None:
        winner, about = networks.spec, f"For {asked.name}: {networks.certificate}"
    else:
        winner = found.winner.spec if found.winner else None
        about = f"For {asked.name}: {found.winner and found.winner.name}, {found.certificate}"
    if winner is not None and output is not None:
        catalog = None if asked.catalog is None else os.path.relpath(asked.catalog, output.parent)
        catalog = tables.name if tables is not None else catalog
        for file, share, part, text in zip(
            [*stages, output],
            [*asked.stages, 1.0],
            [*(found.stage_specs if stages else ()), _survives(asked, winner)],
            [*(f"The stage of {percent(each)} of the servers of {output.name}" for each in asked.stages), about],
            strict=True,
        ):
            if not isinstance(part, str):
                spec = part.model_copy(update={"catalog": catalog} if catalog else {})
                specs[file] = spec.to_yaml(text)
            else:
                on_its_own = f"the stage of {percent(share)} of the servers has no spec: built as a network of its own"
                unwritten.append(f"{on_its_own}, {part}")
        files |= {tables: own_tables(asked, day)} if tables is not None else {}  # first, for specs name it
    drawn = {file: beside.drawing.as_kind(file.suffix) for file in charts} if beside is not None else {}
    if files := files | specs | drawn:
        write_together(files)
    written = (*specs, *drawn)
    return Optimum(found, tuple(played), beside, offers, tuple(unwritten), written, networks)


def _survives(needs: Needs, spec: topo.ClusterSpec) -> topo.ClusterSpec:
    """Return a spec with the limit that a switch may fail, if the needs do and the servers on it live on too."""
    cluster = Cluster(spec, load_catalog([Path(needs.catalog)] if needs.catalog else []))
    held = needs.survives_a_switch and find_losses(cluster.fabrics, cluster.catalog).survived(["switch"])
    return spec.model_copy(update={"survives": ("switch",)}) if held and held[0].verdict.holds else spec


def _rank(found: Search) -> tuple[bool, bool, float]:
    """Order offers: those that meet the needs, those without an unknown price, the cheapest."""
    return found.winner is None, bool(found.unpriced), found.winner.price if found.winner else inf


def _vendors_table(offers: dict[str, Search], best: Search) -> Table:
    ordered = sorted(offers.items(), key=lambda offer: _rank(offer[1]))
    rows = [
        (name, winner and str(winner.total), winner.name if winner else "none meets the needs", str(found.verdict),
         ", ".join(found.unpriced) or "none")
        for name, found in ordered for winner in [found.winner]
    ]  # fmt: skip
    names = ("vendor", "price", "design", "needs", "no price")
    return Table.of_rows("offers of vendors", names, rows, units=("", best.needs.currency))


def own_tables(needs: Needs, day: str) -> Mapping[str, str]:
    """Return the tables of a catalog with the prices that the needs of a file quote, beside those of before."""
    found = tables_of(None if needs.catalog is None else Path(needs.catalog))
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
