"""The tables of SimAI's examples, on forwarding tables and on hashed paths, are what the benchmark computes."""

import re
import runpy
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.parametrize("mib", [16, 128, 512])
def test_the_pages_have_what_is_computed(mib: int, repository: Path) -> None:
    benchmark = runpy.run_path(str(repository / "benchmarks" / "published" / "compare_simai.py"))
    pages = repository / "docs" / "validation"
    for example in benchmark["EXAMPLES"]:
        (found,) = re.findall(
            rf"^\| {example.name} \|.*\| {mib} \| [\d.]+ \| ([\d.]+) \|", (pages / "nccl.md").read_text(), re.MULTILINE
        )
        assert float(found) == round(benchmark["busbw"](example, mib * benchmark["MIB"]), 1), example.name
    (row,) = re.findall(rf"^\| {mib} \| [\d.]+ \|(.*)$", (pages / "ethernet.md").read_text(), re.MULTILINE)
    tables, *hashed = (float(cell) for cell in re.findall(r"([\d.]+) \(", row))
    assert [benchmark["busbw"](example, mib * benchmark["MIB"], count) for count in (1, 2, 4, 8)] == pytest.approx(
        hashed, abs=0.06
    )
    assert sorted(hashed) == hashed, "more queue pairs, fewer collisions"
    assert hashed[-1] <= tables, "and never more than without any"
