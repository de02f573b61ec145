"""docs/validation/routing-compared.md: what it says of our tables is what they are, and no fabric is left out."""

from pathlib import Path

import pytest

import routing
from helpers.benchmarks import load
from helpers.strategies import nightly
from topo.dumps.fabric_file import read_fabric

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs" / "validation" / "routing-compared.md").read_text(encoding="utf-8")

benchmark = load("opensm/compare_engines")

CELLS = [[cell.strip() for cell in line.strip("| ").split("|")] for line in TEXT.splitlines() if line.startswith("| ")]
FABRICS = [*benchmark.REAL, *benchmark.OWN]
ROWS = {cells[0]: cells for cells in reversed(CELLS) if cells[0] in FABRICS}
"""The first row of each fabric: on one lane."""
LARGE = (
    *("Azure HDR pod, 2021", "DGX A100 SuperPOD, 2022", "two CS8500 frames, 2021", "Janus, 2014", "Lassen, 2019"),
    *("three zones of 36-port switches, joined by cables", "the same without 3% of its links and a core"),
)


def test_every_fabric_has_its_row() -> None:
    assert list(reversed(ROWS)) == FABRICS
    assert TEXT.startswith(benchmark.HEAD)
    assert benchmark.TITLES in TEXT
    assert benchmark.RANDOM in TEXT


@pytest.mark.slow
@pytest.mark.parametrize("name", [nightly(name) if name in LARGE else name for name in FABRICS])
def test_our_row_is_what_we_make_of_it_now(name: str, originals: Path) -> None:
    make = benchmark.OWN.get(name) or (lambda: read_fabric(originals / benchmark.REAL[name]))
    routed = routing.route(make(), "auto")
    proof, quality = routing.prove(routed), routing.measure(routed)
    row = ROWS[name]
    assert (proof.lost, proof.credit_loops) == (0, 0)
    assert (row[3], row[4], row[6]) == (routed.tables.engine, str(proof.lanes), f"{quality.max_load:,}")
    assert (row[10], row[13]) == (f"{quality.ebb:.3f}", str(quality.shift.max_load_worst))
    assert int(row[5].replace(",", "")) <= quality.max_load
