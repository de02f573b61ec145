"""An output folder is written whole or not at all, and never over what somebody else put there."""

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import plan.files
import plan.staging
from plan.checksums import MARK, STAGING
from plan.files import check_replaceable, write_folder
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
    if kind == "link":
        assert "found a symbolic link; name another place" in str(error.value)


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

    assert len(str(error.value)) < 600 and "previous" not in str(error.value), "there was nothing"
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_symlink()) == ["dangling", "loop"]
    assert not list(tmp_path.glob(f"{STAGING}*"))


def test_a_long_name_is_a_name(tmp_path):
    for _ in range(2):
        write_folder(tmp_path / ("x" * 255), {"plan.json": "{}"})

    assert [path.name for path in tmp_path.iterdir()] == ["x" * 255]


def test_a_device_that_fails_is_one_message(tmp_path):
    write_folder(tmp_path / "out", {"plan.json": "old"})

    def full():
        yield b"new"
        raise OSError(28, "No space left on device")

    with pytest.raises(HeddleError, match=r"No space left on device\); nothing was written"):
        write_folder(tmp_path / "out", {"plan.json": full()})

    assert (tmp_path / "out" / "plan.json").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


KILLED = """
import os, signal, sys
from pathlib import Path
import plan.files, plan.staging

def die(*arguments):
    os.kill(os.getpid(), signal.SIGKILL)

def dying():
    yield b"new"
    die()

moment = sys.argv[2]
if moment == "after":
    plan.staging._retire = die
if moment == "between":
    plan.staging._rename = lambda *arguments: False
    rename = Path.rename
    Path.rename = lambda path, target: (rename(path, target), die() if path.name == "out" else None)
if moment.startswith("mounted"):
    plan.files._stays = lambda folder: folder.is_dir()
    moves, rename = iter(range(100)), Path.rename
    Path.rename = lambda path, target: (rename(path, target), die() if next(moves) == int(moment[8:]) else None)
plan.files.write_folder(Path(sys.argv[1]), {"plan.json": dying() if moment == "writing" else "new", "a/b": "new"})
"""


SLOW = [pytest.param(moment, marks=pytest.mark.slow) for moment in ("after", "mounted 1", "mounted 4", "mounted 6")]


@pytest.mark.parametrize("moment", ["writing", "between", *SLOW])
def test_after_a_kill_the_next_plan_puts_things_right(tmp_path, moment, monkeypatch):
    out = tmp_path / "out"
    write_folder(out, {"plan.json": "old", "a/b": "old"})
    done = subprocess.run([sys.executable, "-c", KILLED, str(out), moment], check=False)
    assert done.returncode == -signal.SIGKILL
    assert len(list(tmp_path.rglob(f"{STAGING}*"))) == 1

    with pytest.raises(HeddleError):
        write_folder(tmp_path, {"plan.json": "elsewhere"})
    if moment.startswith("mounted"):
        monkeypatch.setattr(plan.files, "_stays", lambda folder: folder == out)
        check_replaceable(out, keep="")
    else:
        write_folder(tmp_path / "other", {"plan.json": "other"})
        assert (tmp_path / "other" / "plan.json").read_text() == "other"

    whole = {path.relative_to(out).as_posix(): path.read_text() for path in out.rglob("*") if path.is_file()}
    assert whole.pop(MARK)
    assert whole == dict.fromkeys(("plan.json", "a/b"), "new" if moment in ("after", "mounted 6") else "old")
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "other") == ["out"]


@pytest.mark.parametrize("able", [True, False], ids=["exchanged", "moved"])
@pytest.mark.parametrize("put", ["notes.txt", "a/b"], ids=["another file", "a file of the plan"])
def test_what_is_put_into_a_plan_meanwhile_is_kept(tmp_path, able, put, monkeypatch, caplog):
    out = tmp_path / "out"
    write_folder(out, {"plan.json": "old", "a/b": "old"})
    if not able:
        monkeypatch.setattr(plan.staging, "_rename", lambda *arguments: False)

    def meanwhile():
        (out / put).write_text("precious")
        yield b"new"

    write_folder(out, {"plan.json": meanwhile()})

    assert (out / "plan.json").read_text() == "new"
    assert (tmp_path / "out.kept-1" / put).read_text() == "precious"
    assert f"{put}: " in caplog.text
    assert "out.kept-1" in caplog.text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "out.kept-1"]


def test_a_file_that_was_edited_is_not_replaced(tmp_path):
    write_folder(tmp_path / "out", {"plan.json": "old", "a/b": "old"})
    for kind in ("edited", "a link"):
        (tmp_path / "out" / "a" / "b").unlink()
        if kind == "edited":
            (tmp_path / "out" / "a" / "b").write_text("edited")
        else:
            (tmp_path / "out" / "a" / "b").symlink_to("../plan.json")
        before = contents(tmp_path)
        for write in (check_replaceable, lambda out: write_folder(out, {"plan.json": "new"})):
            with pytest.raises(HeddleError, match="found a/b: changed after it was written; nothing was touched"):
                write(tmp_path / "out")
        assert contents(tmp_path) == before


@pytest.mark.parametrize("mode", [0o750, 0o2775])
def test_the_mode_of_the_folder_is_kept(tmp_path, mode):
    out = tmp_path / "out"
    out.mkdir()
    for _ in range(2):
        out.chmod(mode)
        write_folder(out, {"plan.json": "{}"})
        assert stat.S_IMODE(out.stat().st_mode) == mode


MOUNTED = """
mount --bind "$1/disk" "$1/out" && cd "$1" && "$2" -c 'if True:
    from pathlib import Path
    from plan.files import check_replaceable, write_folder
    for text in ("old", "new"):
        check_replaceable(Path("out"), keep="")
        write_folder(Path("out"), {"plan.json": text, f"{text}/lfts": text})'
"""


@pytest.mark.slow
def test_a_mount_point_is_filled(tmp_path):
    """As with `docker run -v`: the folder cannot be renamed; one of the same file system is the hardest to tell."""
    for name in ("disk", "out"):
        (tmp_path / name).mkdir()
    able = subprocess.run(["unshare", "-rm", "mount", "--bind", tmp_path, tmp_path], capture_output=True, check=False)
    if able.returncode:
        pytest.skip("needs leave to mount in a name space of its own")
    command = ["unshare", "-rm", "sh", "-c", MOUNTED, "sh", str(tmp_path), sys.executable]
    assert subprocess.run(command, check=False).returncode == 0

    assert {path.as_posix() for path in contents(tmp_path / "disk")} == {MARK, "plan.json", "new/lfts"}
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", MARK], cwd=tmp_path / "disk", check=True)
    assert list((tmp_path / "out").iterdir()) == []


def test_a_folder_whose_place_may_not_be_written_to_is_filled(tmp_path, monkeypatch):
    access = os.access  # tests may run as root, whom no permission stops
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path and access(path, mode))
    (tmp_path / "out").mkdir()
    inode = (tmp_path / "out").stat().st_ino
    for text in ("old", "new"):
        write_folder(tmp_path / "out", {"plan.json": text, f"{text}/x": text})

    assert {path.as_posix() for path in contents(tmp_path / "out")} == {MARK, "plan.json", "new/x"}
    assert (tmp_path / "out").stat().st_ino == inode
    with pytest.raises(HeddleError, match="no permission to write"):
        check_replaceable(tmp_path / "other")


def test_a_plan_that_is_being_written_beside_is_left_alone(tmp_path):
    def meanwhile():
        write_folder(tmp_path / "second", {"plan.json": "2"})
        yield b"1"

    write_folder(tmp_path / "first", {"plan.json": meanwhile()})

    assert (tmp_path / "first" / "plan.json").read_text() == "1"
    assert (tmp_path / "second" / "plan.json").read_text() == "2"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first", "second"]


def test_no_file_is_written_outside_of_the_folder(tmp_path: Path) -> None:
    with pytest.raises(HeddleError, match="outside the folder"):
        write_folder(tmp_path / "out", {"../evil": "text"})
    assert list(tmp_path.iterdir()) == []
