"""An output folder is written whole or not at all, and never over what somebody else put there."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from plan.folder import MARK, WORKSHOP, check_replaceable, write_folder
from topo.errors import HeddleError


def contents(folder):
    return {path.relative_to(folder): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_writes_text_bytes_and_chunks(tmp_path):
    out = tmp_path / "a" / "out"
    write_folder(out, {"plan.json": "{}", "opensm/lfts": iter([b"one\n", b"two\n"]), "bom.xlsx": b"\x00"})

    assert (out / "opensm" / "lfts").read_text() == "one\ntwo\n"
    assert (out / "bom.xlsx").read_bytes() == b"\x00"
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", MARK], cwd=out, check=True)
    assert len((out / MARK).read_text().splitlines()) == 3


def test_replaces_an_older_plan_and_its_stale_files(tmp_path):
    write_folder(tmp_path / "out", {"plan.json": "1", "stale": "x"})
    write_folder(tmp_path / "out", {"plan.json": "2"})

    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [MARK, "plan.json"]
    assert [path.name for path in tmp_path.iterdir()] == ["out"], "no leftover beside it"


def test_takes_an_empty_folder(tmp_path):
    (tmp_path / "out" / "opensm").mkdir(parents=True)
    write_folder(tmp_path / "out", {"plan.json": "{}"})

    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [MARK, "plan.json"]


def test_a_crash_while_writing_leaves_the_older_plan_whole(tmp_path):
    write_folder(tmp_path / "out", {"plan.json": "old", "lfts": "old"})

    def crash():
        yield b"new"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_folder(tmp_path / "out", {"plan.json": "new", "lfts": crash()})

    assert (tmp_path / "out" / "lfts").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("kind", ["file", "foreign folder", "half written", "below a file", "notes in a plan", "link"])
def test_refuses_what_is_not_a_plan_and_leaves_it_alone(tmp_path, kind):
    out = tmp_path / "out"
    if kind in ("file", "below a file"):
        out.write_text("precious")
        out = out / "deeper" if kind == "below a file" else out
    elif kind == "link":
        write_folder(tmp_path / "elsewhere", {"plan.json": "precious"})
        out.symlink_to("elsewhere")
    elif kind == "notes in a plan":
        write_folder(out, {"plan.json": "{}"})
        (out / "opensm").mkdir()
        (out / "opensm" / "notes.txt").write_text("precious")
    else:
        out.mkdir()
        (out / ("lfts" if kind == "half written" else "thesis.tex")).write_text("precious")
    before = contents(tmp_path)

    with pytest.raises(HeddleError) as error:
        check_replaceable(out)
    with pytest.raises(HeddleError):
        write_folder(out, {"plan.json": "{}"})

    assert error.value.exit_code == 2
    assert before == contents(tmp_path)
    if kind == "notes in a plan":
        assert "found opensm/notes.txt" in str(error.value)


def test_refuses_the_folder_that_it_runs_in(tmp_path, monkeypatch):
    write_folder(tmp_path / "out", {"plan.json": "{}", "opensm/lfts": "x"})
    monkeypatch.chdir(tmp_path / "out" / "opensm")

    for place in ("..", "../../out", str(tmp_path / "out")):
        with pytest.raises(HeddleError, match="the folder that you are in"):
            check_replaceable(Path(place))


def test_refuses_an_older_plan_that_cannot_be_removed(tmp_path, monkeypatch):
    out = tmp_path / "out"
    write_folder(out, {"plan.json": "old", "opensm/lfts": "x"})
    access = os.access  # tests may run as root, whom no permission stops
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != out / "opensm" and access(path, mode))

    with pytest.raises(HeddleError, match=r"no permission to replace what is in .*out/opensm"):
        check_replaceable(out)


@pytest.mark.parametrize("name", ["dangling/out", "loop/out", "x" * 300, "nul\0byte", "/proc/out", "a/" * 3000 + "out"])
def test_no_place_for_a_folder_is_one_message(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")

    if name != "/proc/out":  # where root may write, as far as its permissions say
        with pytest.raises(HeddleError):
            check_replaceable(Path(name))
    with pytest.raises(HeddleError) as error:
        write_folder(Path(name), {"plan.json": "{}"})

    assert len(str(error.value)) < 600
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_symlink()) == ["dangling", "loop"]
    assert not list(tmp_path.glob(f"{WORKSHOP}*"))


def test_a_long_name_is_a_name(tmp_path):
    for _ in range(2):
        write_folder(tmp_path / ("x" * 255), {"plan.json": "{}"})

    assert [path.name for path in tmp_path.iterdir()] == ["x" * 255]


def test_a_device_that_fails_is_one_message(tmp_path):
    write_folder(tmp_path / "out", {"plan.json": "old"})

    def full():
        yield b"new"
        raise OSError(28, "No space left on device")

    with pytest.raises(HeddleError, match="No space left on device"):
        write_folder(tmp_path / "out", {"plan.json": full()})

    assert (tmp_path / "out" / "plan.json").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


KILLED = """
import os, signal, sys
from pathlib import Path
import plan.folder

def die():
    yield b"new"
    os.kill(os.getpid(), signal.SIGKILL)

def rename(self, target, rename=Path.rename):
    rename(self, target)
    os.kill(os.getpid(), signal.SIGKILL)

if sys.argv[2] == "between":
    Path.rename = rename
plan.folder.write_folder(Path(sys.argv[1]), {"plan.json": die() if sys.argv[2] == "writing" else "new"})
"""


@pytest.mark.parametrize("moment", ["writing", "between"])
def test_after_a_kill_the_next_plan_puts_things_right(tmp_path, moment):
    out = tmp_path / "out"
    write_folder(out, {"plan.json": "old"})
    done = subprocess.run([sys.executable, "-c", KILLED, str(out), moment], check=False)
    assert done.returncode == -signal.SIGKILL
    assert len(list(tmp_path.glob(f"{WORKSHOP}*"))) == 1
    whole = [path.read_text() for path in tmp_path.rglob("plan.json") if (path.parent / MARK).exists()]
    assert "old" in whole, "in its place or beside it"

    with pytest.raises(HeddleError):
        write_folder(tmp_path, {"plan.json": "elsewhere"})
    write_folder(tmp_path / "other", {"plan.json": "other"})

    assert (out / "plan.json").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "out"]


def test_a_plan_that_is_being_written_beside_is_left_alone(tmp_path):
    def meanwhile():
        write_folder(tmp_path / "second", {"plan.json": "2"})
        yield b"1"

    write_folder(tmp_path / "first", {"plan.json": meanwhile()})

    assert (tmp_path / "first" / "plan.json").read_text() == "1"
    assert (tmp_path / "second" / "plan.json").read_text() == "2"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first", "second"]


def test_no_file_is_written_outside_of_the_folder(tmp_path: Path) -> None:
    with pytest.raises(HeddleError, match="outside of the folder"):
        write_folder(tmp_path / "out", {"../evil": "text"})
    assert list(tmp_path.iterdir()) == []
