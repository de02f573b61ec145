"""Published results of nccl-tests beside the model's: the errors that docs/validation/nccl.md states, and its table."""

import pytest

from helpers.benchmarks import load


@pytest.fixture(scope="module")
def points() -> list:
    compare = load("published/compare_nccl_tests")
    return [*compare.points()]


def within(point: object) -> tuple[float, float]:
    """What the manual states of a row."""
    if point.asked in ("ring", "all-to-all"):
        return (-0.01, 0.02) if point.asked == "ring" else (-0.07, 0.075)
    return {
        ("gb200-nvl72", 846.82): (0.22, 0.23),
        ("dgx-h100", 150): (0.15, 0.17),
        ("dgx-h100", 350): (0.08, 0.09),
        ("dgx-h100", 380): (0.26, 0.28),
        ("dgx-h100", 440.58): (0.09, 0.10),
        ("dgx-b200", 690.07): (0.05, 0.06),
    }[point.model, point.published]


@pytest.mark.slow
def test_errors_are_those_of_the_manual(points: list) -> None:
    assert len({point.model for point in points}) >= 4
    assert sum(point.asked == "ring" for point in points) == 5
    assert sum(point.asked == "all-to-all" for point in points) == 3
    assert {point.algorithm for point in points if point.asked == "auto"} == {"nvls", "nvls-tree"}
    for point in points:
        low, high = within(point)
        assert low <= point.error <= high, point


@pytest.mark.slow
def test_the_table_of_the_manual_is_computed(points: list) -> None:
    compare = load("published/compare_nccl_tests")
    assert compare.table(points) in compare.PAGE.read_text(encoding="utf-8")
