"""Every export of a small plan, byte for byte as it stands in tests/golden, where a person has read it."""

from pathlib import Path

import pytest

from helpers.golden import FOLDER, build, texts

NAMES = sorted(file.relative_to(FOLDER).as_posix() for file in FOLDER.rglob("*") if file.is_file())


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    out = tmp_path_factory.mktemp("golden") / "out"
    build(out)
    return texts(out)


def test_every_file_has_its_golden_one(written: dict[str, str]) -> None:
    assert sorted(written) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_an_export_is_what_it_was(name: str, written: dict[str, str]) -> None:
    assert written[name] == (FOLDER / Path(name)).read_bytes().decode("utf-8")
