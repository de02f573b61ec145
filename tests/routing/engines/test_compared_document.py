"""docs/routing-compared.md: what it says of our tables is what they are, and no fabric is left out."""

import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

import routing
from topo.formats.fabric_file import read_fabric

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs" / "routing-compared.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL))

_spec = spec_from_file_location("compare_engines", ROOT / "benchmarks" / "compare_engines.py")
assert _spec and _spec.loader
benchmark = module_from_spec(_spec)
_spec.loader.exec_module(benchmark)


def test_every_fabric_has_its_section() -> None:
    assert list(SECTIONS) == [*benchmark.REAL, *benchmark.OWN, "All at a glance"]
    assert TEXT.startswith(benchmark.HEAD)
    assert benchmark.SUMMARY in TEXT


@pytest.mark.slow
@pytest.mark.parametrize("name", [*benchmark.REAL, *benchmark.OWN])
def test_our_row_is_what_we_make_of_it_now(name: str, originals: Path) -> None:
    make = benchmark.OWN.get(name) or (lambda: read_fabric(originals / benchmark.REAL[name]))
    routed = routing.route(make(), "auto")
    proof, quality = routing.prove(routed), routing.measure(routed)
    row = [cell.strip() for cell in re.findall(r"^\| (\S+, ours \|.*)\|$", SECTIONS[name], re.MULTILINE)[0].split("|")]
    assert row[:8] == [
        f"{routed.tables.engine}, ours",
        f"{proof.missing:,}",
        f"{proof.credit_loops:,}",
        str(proof.lanes),
        str(proof.max_hops),
        f"{quality.max_load:,}",
        f"{quality.ebb:.3f}",
        f"{quality.shift.max_load_median:g} / {quality.shift.max_load_worst}",
    ]
