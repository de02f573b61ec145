"""What `plan check` says of bad specs, word for word: tests/errors/*.yaml with the text beside each.

To write the texts anew, in tests/errors: for f in *.yaml; do plan check $f 2> ${f%.yaml}.txt; done. Then read the diff.
"""

from pathlib import Path

import pytest

from plan.cli import run

FOLDER = Path(__file__).parents[1] / "errors"


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.yaml")))
def test_bad_spec(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(FOLDER)
    status = run(["check", f"{name}.yaml"])
    said = capsys.readouterr()

    assert (said.err, said.out, status) == ((FOLDER / f"{name}.txt").read_text(encoding="utf-8"), "", 2)


def test_every_text_has_its_spec() -> None:
    assert {path.stem for path in FOLDER.glob("*.txt")} == {path.stem for path in FOLDER.glob("*.yaml")}
