"""Collectives as NCCL's tuner takes them, beside all published times: rewrites docs/validation/accuracy.md.

Run from the repository, half a minute: python benchmarks/published/ledger.py. It prints one distribution of errors by
kind and size, which also stands on the front page of the manual (docs/index.md), and draws the curves. With --record it
also writes the predictions of a release, from which later ones may not differ without a reason.

Points are rows of `configs/published/collectives.csv` and systems of `systems.csv` beside it: what was measured where,
and what the source does not say; the measured rows of `nccl-tests.csv`, and HFReduce's and NCCL's of `hfreduce.csv`.
Each *source* is either for fitting or held back, by a hash of its name, so that whoever fits a number has points that
it has not seen.
"""

from __future__ import annotations

import csv
import hashlib
import math
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from fire_flyer import Cluster

import costmodel
from routing.routed import Routed
from simulate import play
from simulate.traffic.collectives.algorithms import bus_factor
from simulate.traffic.hfreduce import HFReduce
from simulate.traffic.latency import PUBLISHED
from simulate.traffic.network import Network
from simulate.traffic.tuner import Generation, Tuner, generation_named, generation_of
from topo import palette
from topo.catalog.load import load_catalog
from topo.drawing.charts import Axes, Mark, chart

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "configs" / "published"
PAGE = ROOT / "docs" / "validation" / "accuracy.md"
FRONT = ROOT / "docs" / "index.md"
PICTURE = ROOT / "docs" / "static" / "accuracy.svg"
BEGIN, END = "<!-- computed -->\n", "<!-- /computed -->\n"
KIB, MIB = 2**10, 2**20
SIZES = (("to 64 KiB", 64 * KIB), ("to 64 MiB", 64 * MIB), ("above 64 MiB", np.inf))
"""Classes of sizes: where latency counts, where both do, where bandwidth counts."""
LARGE_ERROR, SMALL_FACTOR = 0.10, 1.5
"""What is aimed at: mean error of large messages, and mean factor of small ones."""
CHANGED = 0.01
"""Part by which a prediction may differ from the recorded one without a reason: rounding of the tables is below it."""
SWITCH_S = 0.2e-6
"""A switch and two cables between two servers, as in `simulate/traffic/latency.py`; sources do not say how many."""
CURVES = ("dgxc-h100-1x8", "aks-ndv4-a100-2x8", "abci-a100-16x8")
"""Sweeps that are shown size by size: allreduces of 8, 16 and 128 GPUs."""
BETWEEN = {
    "point to point": "a pair, MPI and perftest",
    "NVLink": "GPUs of one server",
    "InfiniBand or RoCE": "servers, InfiniBand or RoCE",
    "PCIe and InfiniBand": "servers without NVLink",
    "cloud": "servers of clouds",
}
"""Kinds in the words of the front page."""
FIRE_FLYER = "arXiv 2408.14158 v2"


@dataclass(frozen=True)
class System:
    """Machines that were measured."""

    name: str
    source: str
    network: str
    """``NVLink`` of one server, ``InfiniBand or RoCE``, ``PCIe and InfiniBand``, the transports of a ``cloud``, or
    ``point to point``: a pair of GPUs, or of host memories, over one adapter each."""
    tuner: Tuner
    """Of a pair only the rate of its adapters counts, and whether there are GPUs."""
    unknown: str
    """What the source does not say."""

    @property
    def split(self) -> str:
        """Whether its points may be used to fit numbers, or are held back."""
        return split_of(self.source)


class Point(NamedTuple):
    """A time that was measured, and what the model says."""

    system: System
    collective: str
    algorithm: str
    """``auto`` where NCCL chose."""
    size_bytes: int
    measured_s: float
    played_s: float | None = None
    """What was played, for HFReduce, which has no closed form."""

    @property
    def predicted_s(self) -> float:
        """In closed form, where there is one."""
        if self.played_s is not None:
            return self.played_s
        if self.collective in ("send", "stream"):
            # A message alone takes its latency; of many under way, the bytes count.
            message_s = SWITCH_S + (PUBLISHED.gpu_s if self.system.tuner.gpus else PUBLISHED.host_s)
            alone = self.collective == "send"
            return (message_s if alone else 0.0) + self.size_bytes / self.system.tuner.rail_bytes_s
        return self.system.tuner.choose(self.collective, self.size_bytes, self.algorithm).time_s

    @property
    def ratio(self) -> float:
        """Predicted time over measured time."""
        return self.predicted_s / self.measured_s

    @property
    def size_class(self) -> str:
        """The class of its size."""
        return next(name for name, most in SIZES if self.size_bytes <= most)

    @property
    def key(self) -> tuple[str, str, str]:
        """System, what was done, and size: as in the files."""
        done = self.collective if self.algorithm == "auto" else f"{self.collective} by {self.algorithm}"
        return self.system.name, done, str(self.size_bytes)


def split_of(source: str) -> str:
    """Return ``fit`` or ``held``, by the first byte of the SHA-256 of the name of a source.

    >>> split_of("github.com/Azure/aks-rdma-infiniband"), split_of("github.com/aistabci/abci2.0benchmark")
    ('fit', 'held')
    """
    return ("fit", "held")[hashlib.sha256(source.encode()).digest()[0] % 2]


def systems() -> dict[str, System]:
    """Read what was measured on; the generation of a pair does not matter."""
    found = {}
    for row in _rows(FOLDER / "systems.csv"):
        rate = float(row["adapter_gbyte_per_s"] or 0)
        tuner = Tuner(
            int(row["servers"]),
            int(row["gpus"]),
            generation_named(row["gpu"]) if row["gpu_gbyte_per_s"] else Generation.AMPERE,
            float(row["gpu_gbyte_per_s"] or "inf") * 1e9,
            int(row["adapters"]),
            rate * 1e9,
            amd=row["cpu"] == "EPYC",
            nvswitches=row["nvswitches"] == "yes",
        )
        found[row["model"]] = System(row["model"], row["source"], row["fabric"], tuner, row["unknown"])
    return found


def points() -> list[Point]:
    """Return all published times of NCCL that have a system."""
    found = []
    known = systems()
    for (done, name, size), time_us in costmodel.published("collectives").values.items():
        collective, _, algorithm = done.partition(" by ")
        found.append(Point(known[name], collective, algorithm or "auto", int(size), time_us * 1e-6))
    return found + nccl_tests_points() + [point for point in fire_flyer_points() if point.algorithm == "auto"]


def nccl_tests_points() -> list[Point]:
    """Single bus bandwidths of 8 GB on models of the catalog; what NVIDIA only expects of them is no measurement."""
    made, size = [], 8 * 10**9
    for row in _rows(FOLDER / "nccl-tests.csv"):
        source, _, said = row["source"].partition(":")
        if "expects" in said or source.startswith("as on"):
            continue
        model = load_catalog().node(row["model"])
        servers, adapters = (int(word) for word in row["figure"].split() if word.isdigit())
        tuner = Tuner(
            servers,
            model.gpus,
            generation_of(model),
            (model.nvlink_used_gbyte_per_s or 0) * 1e9,
            adapters,
            (model.gpu_adapter_gbyte_per_s or 0) * 1e9,
            amd="EPYC" in (model.cpu or ""),
            nvswitches=True,
        )
        network = "NVLink" if servers == 1 else "cloud" if "EFA" in said else "InfiniBand or RoCE"
        name = f"{row['model']}-{servers}x{model.gpus}-{adapters}-{row['value']}"
        collective = row["table"] if row["table"] == "all-to-all" else "allreduce"
        algorithm = row["table"] if row["table"] in ("ring", "tree") else "auto"
        measured_s = size * bus_factor(collective, tuner.ranks) / float(row["value"]) * 1e-9
        made.append(Point(System(name, source, network, tuner, "-"), collective, algorithm, size, measured_s))
    return made


def fire_flyer_points() -> list[Point]:
    """Fig. 7: allreduces on servers with eight A100 over PCIe and one adapter, with the figures of the catalog."""
    figures, model = costmodel.published("hfreduce").values, load_catalog().node("pcie-a100")
    inside, rail = (model.gpu_host_gbyte_per_s or 0) * 1e9, (model.gpu_adapter_gbyte_per_s or 0) * 1e9
    size = int(figures["IV-B1", "hfreduce", "size_mib"] * MIB)
    made = []
    for (table, name, gpus), gbytes_s in figures.items():
        if table == "Fig. 7":
            tuner = Tuner(int(gpus) // 8, 8, Generation.AMPERE, inside, 1, rail, amd=True, nvlink=False)
            system = System(f"fire-flyer-{gpus}", FIRE_FLYER, "PCIe and InfiniBand", tuner, "version of NCCL")
            algorithm = "auto" if name == "nccl" else name
            made.append(Point(system, "allreduce", algorithm, size, size / gbytes_s * 1e-9))
    return made


def played_points() -> list[Point]:
    """HFReduce of Fig. 7 to 512 GPUs, played on the first servers of a zone with the figures of the catalog."""
    cluster, made = Cluster.compiled(), []
    for point in fire_flyer_points():
        servers = point.system.tuner.servers
        if point.algorithm == "auto" or servers > 64:
            continue
        reduce = HFReduce(nvlink=point.algorithm.endswith("nvlink"))
        on = reduce.servers(cluster.model, cluster.fabric, cluster.ends(servers))
        network = Network.of(Routed(cluster.fabric, cluster.tables), lane_weights=1, devices=on.devices)
        time_s = play(network, reduce.flows(on, point.size_bytes)).makespan_s
        made.append(point._replace(played_s=time_s))
    return made


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


class Spread(NamedTuple):
    """How far a set of points is from what was measured."""

    points: int
    systems: int
    median: float
    """Of predicted over measured time."""
    p90: float
    """Factor within which nine of ten points are, too fast or too slow."""
    factor: float
    """Geometric mean of the factors, each above 1."""
    worst: float
    """The ratio that is farthest from 1."""
    error: float
    """Mean of the size of predicted / measured - 1."""


def spread(chosen: Sequence[Point]) -> Spread:
    """Return the spread of points."""
    ratio = np.array([point.ratio for point in chosen])
    off = np.maximum(ratio, 1 / ratio)
    return Spread(
        len(chosen),
        len({point.system.name for point in chosen}),
        float(np.median(ratio)),
        float(np.percentile(off, 90, method="inverted_cdf")),
        float(np.exp(np.log(off).mean())),
        float(ratio[off.argmax()]),
        float(np.abs(ratio - 1).mean()),
    )


def grouped(chosen: Iterable[Point], by: Callable[[Point], tuple[str, ...]]) -> dict[tuple[str, ...], list[Point]]:
    """Return points by a key, keys in order."""
    groups: dict[tuple[str, ...], list[Point]] = defaultdict(list)
    for point in chosen:
        groups[by(point)].append(point)
    return dict(sorted(groups.items(), key=lambda item: [_place(word) for word in item[0]]))


def _place(word: str) -> tuple[int, str]:
    """Sizes from small to large, networks from near to far."""
    networks = ["point to point", "NVLink", "InfiniBand or RoCE", "PCIe and InfiniBand", "cloud"]
    order = [name for name, _ in SIZES] + networks
    return (order.index(word), "") if word in order else (-1, word)


def misses(size_class: str, found: Spread) -> bool:
    """Say whether a set of points misses what is aimed at."""
    if size_class == SIZES[-1][0]:
        return found.error > LARGE_ERROR
    return size_class == SIZES[0][0] and found.factor > SMALL_FACTOR


def table(chosen: Sequence[Point], by: Callable[[Point], tuple[str, ...]], heads: Sequence[str], at: int) -> str:
    """Spreads of groups of points; `at` is where the size stands in a key."""
    lines = [
        f"| {' | '.join(heads)} | points | systems | median | mean factor | 9 of 10 within | worst | mean error |",
        "|" + "---|" * len(heads) + "---:|" * 7,
    ]
    for key, group in grouped(chosen, by).items():
        found = spread(group)
        mark = " (missed)" if misses(key[at], found) else ""
        lines.append(
            f"| {' | '.join(key)} | {found.points} | {found.systems} | {found.median:.2f} | {found.factor:.2f} "
            f"| {found.p90:.2f} | {found.worst:.2f} | {found.error:.0%}{mark} |"
        )
    return "\n".join(lines) + "\n"


def distribution(chosen: Sequence[Point]) -> str:
    """Errors on sources that were held back, by kind and size."""
    lines = [
        "| between | size | points | 1 of 10 below | median | 1 of 10 above | mean error | mean factor | aim |",
        "|---|---|---:|---:|---:|---:|---:|---:|---|",
    ]
    held = [point for point in chosen if point.system.split == "held"]
    for (network, size), group in grouped(held, lambda point: (point.system.network, point.size_class)).items():
        found, ratio = spread(group), [point.ratio for point in group]
        low, high = np.percentile(ratio, (10, 90))
        aim = f"{LARGE_ERROR:.0%}" if size == SIZES[-1][0] else f"factor {SMALL_FACTOR}" if size == SIZES[0][0] else "-"
        aim += "" if aim == "-" else ": missed" if misses(size, found) else ": reached"
        lines.append(
            f"| {BETWEEN[network]} | {size} | {found.points} | {low:.2f} | {found.median:.2f} | {high:.2f} "
            f"| {found.error:.0%} | {found.factor:.2f} | {aim} |"
        )
    return "\n".join(lines) + "\n"


def picture(chosen: Sequence[Point]) -> str:
    """Curves of allreduces beside what was measured, as SVG: microseconds over bytes, both as powers of ten."""
    axes = Axes(
        "time of an allreduce, as a power of ten of microseconds",
        *((0.9, 10.3), (1.0, 5.0), 360.0),
        x_words="bytes of a GPU, as a power of ten",
    )
    legend: list[Mark] = []
    for name, shade in zip(CURVES, palette.SERIES, strict=False):
        mine = [point for point in chosen if point.system.name == name]
        tuner = mine[0].system.tuner
        edges = np.linspace(*np.log10([min(p.size_bytes for p in mine), max(p.size_bytes for p in mine)]), 200)
        times = [tuner.choose("allreduce", 10**at).time_s * 1e6 for at in (edges[1:] + edges[:-1]) / 2]
        words = f"{tuner.ranks} GPUs ({name})"
        axes.stairs(edges, np.log10(times), shade, words=words)
        for point in mine:
            where = math.log10(point.size_bytes), math.log10(point.measured_s * 1e6)
            axes.dot(*where, shade, f"{words}: {point.size_bytes:,} bytes, {point.measured_s * 1e6:,.1f} us measured")
        legend.append(("line", shade, words))
    about = "dots: measured; lines: predicted, without a look at the dots"
    return chart("allreduces by NCCL", about, [axes], [*legend, ("dot", palette.SERIES[0], "measured")]).svg


def by_network(point: Point) -> tuple[str, ...]:
    return point.system.split, point.system.network, point.size_class


def by_collective(point: Point) -> tuple[str, ...]:
    return point.system.split, point.collective, point.size_class


def by_system(point: Point) -> tuple[str, ...]:
    return point.system.split, point.system.name, point.key[1], point.size_class


def missed_table(chosen: Sequence[Point]) -> str:
    """Every system, collective and class of sizes that misses what is aimed at."""
    lines = [
        "| split | system | what | size | points | median | worst | not known |",
        "|---|---|---|---|---:|---:|---:|---|",
    ]
    for key, group in grouped(chosen, by_system).items():
        found = spread(group)
        if misses(key[3], found):
            unknown = group[0].system.unknown or "-"
            lines.append(f"| {' | '.join(key)} | {found.points} | {found.median:.2f} | {found.worst:.2f} | {unknown} |")
    return "\n".join(lines) + "\n"


def curves(chosen: Sequence[Point]) -> str:
    """Measured and predicted times of some allreduces, and what the tuner takes."""
    lines = []
    for name in CURVES:
        mine = sorted((point for point in chosen if point.system.name == name), key=lambda point: point.size_bytes)
        system = mine[0].system
        lines += [
            f"{system.tuner.ranks} GPUs, `{name}`, {system.split} ({system.source}):\n",
            "| bytes | measured us | predicted us | ratio | by |",
            "|---:|---:|---:|---:|---|",
        ]
        for point in mine:
            choice = system.tuner.choose(point.collective, point.size_bytes, point.algorithm)
            lines.append(
                f"| {point.size_bytes:,} | {point.measured_s * 1e6:,.1f} | {point.predicted_s * 1e6:,.1f} "
                f"| {point.ratio:.2f} | {choice.algorithm} ({choice.protocol.label}) |"
            )
        lines.append("")
    return "\n".join(lines)


def report(chosen: Sequence[Point]) -> str:
    """What the page has between its marks."""
    return "\n".join(
        [
            "## Held sources\n",
            distribution(chosen),
            "## By network\n",
            table(chosen, by_network, ("split", "network", "size"), 2),
            "## By collective\n",
            "Clouds with a transport of their own are left out here.\n",
            table(
                [point for point in chosen if point.system.network != "cloud"],
                by_collective,
                ("split", "collective", "size"),
                2,
            ),
            "## Curves\n",
            curves(chosen),
            "## Every miss\n",
            missed_table(chosen),
        ]
    )


def played_report(chosen: Sequence[Point]) -> str:
    """HFReduce, point by point: algorithm bandwidths."""
    lines = [
        "| algorithm | GPUs | measured GB/s | computed GB/s | ratio of times |",
        "|---|---:|---:|---:|---:|",
    ]
    for point in chosen:
        measured, computed = (point.size_bytes / time_s * 1e-9 for time_s in (point.measured_s, point.predicted_s))
        lines.append(
            f"| {point.algorithm} | {point.system.tuner.ranks} | {measured:.2f} | {computed:.2f} | {point.ratio:.2f} |"
        )
    found = spread(chosen)
    lines.append(f"\nMean error {found.error:.0%}, worst ratio {found.worst:.2f}, on a source for fitting.")
    return "## HFReduce\n\n" + "\n".join(lines) + "\n"


def predictions(chosen: Sequence[Point]) -> dict[tuple[str, str, str], float]:
    """Predicted microseconds by system, what is done, and size."""
    return {point.key: point.predicted_s * 1e6 for point in chosen}


def recorded() -> dict[tuple[str, str, str], float]:
    """Predictions of the last release."""
    rows = _rows(FOLDER / "predictions.csv")
    return {(row["model"], row["table"], row["figure"]): float(row["time_us"]) for row in rows}


def reasons() -> list[tuple[str, str]]:
    """Systems and what they do, for which a change since the last release is explained; ``*`` for all."""
    return [(row["model"], row["table"]) for row in _rows(FOLDER / "reasons.csv") if row["why"].strip()]


def unexplained(
    now: dict[tuple[str, str, str], float],
    before: dict[tuple[str, str, str], float],
    explained: Iterable[tuple[str, str]],
) -> list[str]:
    """Return predictions that changed or vanished since a release without a reason."""
    known = set(explained)
    found = []
    for key, time_us in before.items():
        if now.get(key) is not None and abs(now[key] / time_us - 1) <= CHANGED:
            continue
        if not {(key[0], key[1]), (key[0], "*"), ("*", key[1]), ("*", "*")} & known:
            found.append(f"{' '.join(key)} bytes: {time_us:.6g} us, now {now.get(key, np.nan):.6g}")
    return found


def write_predictions(chosen: Sequence[Point]) -> None:
    """Record the predictions of a release; reasons begin anew."""
    lines = ["model,table,figure,time_us"]
    lines += [f"{','.join(key)},{time_us:.5g}" for key, time_us in sorted(predictions(chosen).items())]
    (FOLDER / "predictions.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (FOLDER / "reasons.csv").write_text("model,table,why,date\n", encoding="utf-8")


def main() -> None:
    chosen, played = points(), played_points()
    computed = f"{report(chosen)}\n{played_report(played)}"
    print(distribution(chosen))
    for page, part in ((PAGE, computed), (FRONT, distribution(chosen))):
        text = page.read_text(encoding="utf-8")
        page.write_text(text[: text.index(BEGIN) + len(BEGIN)] + part + text[text.index(END) :], encoding="utf-8")
    PICTURE.write_text(picture(chosen), encoding="utf-8")
    if "--record" in sys.argv:
        write_predictions(chosen + played)


if __name__ == "__main__":
    main()
