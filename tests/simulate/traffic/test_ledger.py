"""The ledger of accuracy: its page, its split, its figures by another way, and predictions since the last release."""

import csv
import hashlib
import math
from pathlib import Path

import pytest

from helpers.benchmarks import load

ledger = load("published/ledger")


@pytest.fixture(scope="module")
def points() -> list:
    return ledger.points()


@pytest.mark.slow
def test_the_page_has_the_figures_that_are_computed(points: list, repository: Path) -> None:
    page = (repository / "docs" / "validation" / "accuracy.md").read_text(encoding="utf-8")
    assert ledger.report(points) in page
    front = (repository / "docs" / "index.md").read_text(encoding="utf-8")
    assert ledger.distribution(points) in front
    assert (repository / "docs" / "static" / "accuracy.svg").read_text(encoding="utf-8") == ledger.picture(points)


@pytest.mark.slow
def test_the_front_page_counts_every_held_point_once(points: list) -> None:
    """Figures of two rows by hand, and all points of held sources."""
    rows = [line.split(" | ") for line in ledger.distribution(points).splitlines()[2:]]
    assert sum(int(row[2]) for row in rows) == sum(point.system.split == "held" for point in points)
    for row, network, size in ((rows[4], "NVLink", "above 64 MiB"), (rows[2], "NVLink", "to 64 KiB")):
        mine = [p for p in points if (p.system.split, p.system.network, p.size_class) == ("held", network, size)]
        factors = [max(p.ratio, 1 / p.ratio) for p in mine]
        assert row[6:8] == [
            f"{sum(abs(p.ratio - 1) for p in mine) / len(mine):.0%}",
            f"{math.prod(f ** (1 / len(mine)) for f in factors):.2f}",
        ]


def test_every_point_has_a_system_and_a_source_that_agrees(points: list, repository: Path) -> None:
    folder = repository / "configs" / "published"
    rows = list(csv.DictReader((folder / "collectives.csv").read_text(encoding="utf-8").splitlines()))
    known = ledger.systems()
    assert len(rows) + 6 + 11 == len(points) > 700
    assert all(known[row["model"]].source == row["source"] for row in rows)
    assert {row["model"] for row in rows} == set(known)
    assert len({point.key for point in points}) == len(points)


def test_whole_sources_are_held_back() -> None:
    """The split is by the name of the source alone: parity of the first byte of its digest."""
    sources = {system.source for system in ledger.systems().values()}
    splits = {source: ledger.split_of(source) for source in sources}
    assert set(splits.values()) == {"fit", "held"}
    for source, split in splits.items():
        assert split == ("held" if int(hashlib.sha256(source.encode()).hexdigest()[:2], 16) % 2 else "fit")


def test_a_spread_by_hand() -> None:
    system = next(iter(ledger.systems().values()))
    exact = ledger.Point(system, "allreduce", "auto", 8, 1.0).predicted_s
    chosen = [ledger.Point(system, "allreduce", "auto", 8, exact / ratio) for ratio in (0.5, 0.9, 1.0, 1.1, 1.6)]
    found = ledger.spread(chosen)
    assert (found.points, found.systems) == (5, 1)
    assert found.median == pytest.approx(1.0)
    assert found.worst == pytest.approx(0.5)
    assert found.p90 == pytest.approx(2.0)
    assert found.error == pytest.approx((0.5 + 0.1 + 0 + 0.1 + 0.6) / 5)
    assert found.factor == pytest.approx((2 / 0.9 * 1.1 * 1.6) ** (1 / 5))
    assert ledger.misses("above 64 MiB", found)
    assert not ledger.misses("to 64 KiB", found)
    assert ledger.misses("to 64 KiB", found._replace(factor=1.51))
    assert not ledger.misses("to 64 MiB", found)


def test_what_was_stated_of_the_held_sources_holds(points: list) -> None:
    """The aim of the page, computed in plain Python: mean error of large messages between servers at most 10 %."""
    large = [
        point
        for point in points
        if point.system.split == "held" and point.size_bytes > 2**26 and point.system.network == "InfiniBand or RoCE"
    ]
    errors = [abs(point.predicted_s / point.measured_s - 1) for point in large]
    assert sum(errors) / len(errors) <= 0.10
    small = [
        point
        for point in points
        if point.system.split == "held" and point.size_bytes <= 2**16 and point.system.network != "point to point"
    ]
    inside = [point for point in small if abs(math.log(point.ratio)) <= math.log(1.5)]
    assert len(inside) / len(small) > 0.6


def refuse_changes(points: list, *, played: bool) -> None:
    before = {key: time_us for key, time_us in ledger.recorded().items() if ("hfreduce" in key[1]) == played}
    changed = ledger.unexplained(ledger.predictions(points), before, ledger.reasons())
    assert not changed, "say why in configs/published/reasons.csv:\n" + "\n".join(changed[:20])


def test_predictions_are_those_of_the_last_release_or_a_reason_is_recorded(points: list) -> None:
    refuse_changes(points, played=False)


@pytest.mark.slow
def test_what_is_played_is_that_of_the_last_release_and_of_the_page(repository: Path) -> None:
    played = ledger.played_points()
    refuse_changes(played, played=True)
    assert ledger.played_report(played) in (repository / "docs" / "validation" / "accuracy.md").read_text(
        encoding="utf-8"
    )


def test_a_change_without_a_reason_is_found() -> None:
    before = {("a", "allreduce", "8"): 10.0, ("a", "all-gather", "8"): 10.0, ("b", "allreduce", "8"): 10.0}
    now = {("a", "allreduce", "8"): 10.2, ("a", "all-gather", "8"): 10.05, ("new", "allreduce", "8"): 1.0}
    found = ledger.unexplained(now, before, [])
    assert found == ["a allreduce 8 bytes: 10 us, now 10.2", "b allreduce 8 bytes: 10 us, now nan"]
    assert ledger.unexplained(now, before, [("a", "*")]) == found[1:]
    assert ledger.unexplained(now, before, [("*", "allreduce")]) == []
    assert ledger.unexplained(now, before, [("b", "allreduce")]) == found[:1]


def test_recorded_predictions_are_of_points_that_are_there(points: list) -> None:
    assert {point.key for point in points} <= set(ledger.recorded())
    assert len(ledger.recorded()) > 700
