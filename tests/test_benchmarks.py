"""Benchmarks still run: each is imported, and some do their smallest case, untimed."""

import pytest

from helpers.benchmarks import FOLDER, load

SCRIPTS = sorted(f"{path.parent.name}/{path.stem}" for path in FOLDER.glob("*/*.py"))


def test_the_readme_lists_every_script() -> None:
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    scripts = [path for path in FOLDER.glob("*/*.py") if '__name__ == "__main__"' in path.read_text(encoding="utf-8")]
    assert len(scripts) > 20
    assert [path.name for path in scripts if f"| `{path.name}` |" not in readme] == []
    assert readme.count("| `") == len(scripts)


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPTS)
def test_every_benchmark_is_imported(name: str) -> None:
    assert load(name).__doc__
