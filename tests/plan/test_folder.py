"""An output folder is written whole or not at all."""

import pytest

from plan.folder import MARK, check_replaceable, write_folder
from topo.errors import HeddleError


def test_writes_text_bytes_and_chunks(tmp_path):
    write_folder(tmp_path / "a" / "out", {MARK: "{}", "opensm/lfts": iter([b"one\n", b"two\n"]), "bom.xlsx": b"\x00"})

    assert (tmp_path / "a" / "out" / "opensm" / "lfts").read_text() == "one\ntwo\n"
    assert (tmp_path / "a" / "out" / "bom.xlsx").read_bytes() == b"\x00"


def test_replaces_an_older_plan_and_its_stale_files(tmp_path):
    write_folder(tmp_path / "out", {MARK: "1", "stale": "x"})
    write_folder(tmp_path / "out", {MARK: "2"})

    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [MARK]
    assert [path.name for path in tmp_path.iterdir()] == ["out"], "no leftover beside it"


def test_a_crash_while_writing_leaves_the_older_plan_whole(tmp_path):
    write_folder(tmp_path / "out", {MARK: "old", "lfts": "old"})

    def crash():
        yield b"new"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_folder(tmp_path / "out", {MARK: "new", "lfts": crash()})

    assert (tmp_path / "out" / "lfts").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("kind", ["file", "foreign folder", "half written", "below a file"])
def test_refuses_what_is_not_a_plan_and_leaves_it_alone(tmp_path, kind):
    out = tmp_path / "out"
    if kind == "file":
        out.write_text("precious")
    elif kind == "below a file":
        out.write_text("precious")
        out = out / "deeper"
    else:
        out.mkdir()
        (out / ("lfts" if kind == "half written" else "thesis.tex")).write_text("precious")
    before = sorted((str(path), path.read_text()) for path in tmp_path.rglob("*") if path.is_file())

    with pytest.raises(HeddleError) as error:
        check_replaceable(out)
    with pytest.raises(HeddleError):
        write_folder(out, {MARK: "{}"})

    assert error.value.exit_code == 2
    assert before == sorted((str(path), path.read_text()) for path in tmp_path.rglob("*") if path.is_file())
