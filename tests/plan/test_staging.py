"""At every system call that writes: a kill, a signal or a full disk leaves the older result or the newer one, whole."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.faults import ENDS, find_calls, traced
from helpers.strategies import is_nightly
from plan import staging

PROGRAM = """
import sys
from pathlib import Path
import plan.cli, plan.files, plan.staging

place, text, how = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
if how == "mounted":
    plan.files._stays = lambda folder: folder.is_dir()
if how == "moved":
    plan.staging._rename = lambda *arguments: False

def invoke(context):
    if how == "file":
        plan.files.write_file(place, text)
    else:
        plan.files.write_folder(place, {"plan.json": text, "a/b": iter([text.encode()] * 2), "c": text})

plan.cli.plan.make_context = lambda *arguments: plan.cli.click.Context(plan.cli.plan)
plan.cli.plan.invoke = invoke
plan.cli.main()
"""


def write(folder: Path, text: str, how: str, *tracer: str) -> subprocess.CompletedProcess[str]:
    command = [*tracer, sys.executable, "-c", PROGRAM, str(folder / "out"), text, how]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def read(out: Path) -> str:
    """Return the text of a result, after a look whether it is whole."""
    if out.is_file():
        return out.read_text(encoding="utf-8")
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=out, check=True)
    assert sorted(path.name for path in out.iterdir() if not path.name.startswith(".")) == [
        "SHA256SUMS", "a", "c", "plan.json"
    ]  # fmt: skip
    return (out / "c").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.peer("strace")
@pytest.mark.parametrize("how", ["file", "renamed", "moved", "mounted"])
@pytest.mark.parametrize("end", ENDS)
def test_an_end_at_a_system_call(tmp_path: Path, how: str, end: str) -> None:
    """At two calls; at all of them every night."""
    assert write(tmp_path, "old", how).returncode == 0
    assert write(tmp_path, "new", how, *traced(tmp_path / "log")).returncode == 0
    calls = find_calls(tmp_path / "log")
    assert len(calls) > 10
    for name, number in calls if is_nightly() else calls[len(calls) // 4 :: len(calls) // 2]:
        assert write(tmp_path, "old", how).returncode == 0
        what, statuses = ENDS[end]
        inject = ["-e", f"inject={name}:{what}:when={number}"]
        done = write(tmp_path, "new", how, *traced(tmp_path / "log", *inject))
        assert done.returncode in statuses, (name, number, done.stderr)
        assert "Traceback" not in done.stderr
        if end == "SIGKILL" and how in ("moved", "mounted"):  # there may be none for an instant
            assert write(tmp_path, "newest", how).returncode == 0
            assert read(tmp_path / "out") == "newest"
        else:
            allowed = {0: ("new",), 2: ("old",)}.get(done.returncode, ("old", "new"))
            assert read(tmp_path / "out") in allowed, (name, number, done.returncode)
        assert write(tmp_path, "newest", how).returncode == 0
        assert {path.name for path in tmp_path.iterdir()} == {"log", "out"}, "nothing is left beside it"


@pytest.mark.slow
@pytest.mark.parametrize("how", ["file", "renamed"])
def test_a_limit_on_the_size_of_files(tmp_path: Path, how: str) -> None:
    """As by ``ulimit -f``: the older result stays, and it is said."""
    assert write(tmp_path, "old", how).returncode == 0
    done = write(tmp_path, "new" * 5000, how, "prlimit", "--fsize=4096")
    assert done.returncode == 2 and "File too large" in done.stderr and "Traceback" not in done.stderr
    assert read(tmp_path / "out") == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.slow
@pytest.mark.peer("strace")
@pytest.mark.parametrize("how", ["file", "renamed", "moved", "mounted"])
def test_a_power_loss_finds_what_is_renamed_on_the_device(tmp_path: Path, how: str) -> None:
    """What POSIX promises after a power loss: what was synced, and no more.

    So all that comes into its place was synced before, with the folders that name it, and the place itself is synced
    before anything of the older result is deleted.
    """
    assert write(tmp_path, "old", how).returncode == 0
    assert write(tmp_path, "new", how, *traced(tmp_path / "log", "-y")).returncode == 0
    unsynced: set[Path] = set()
    renamed = 0
    for line in (tmp_path / "log").read_text(encoding="utf-8").splitlines():
        if not (call := re.match(r"\d+ +(\w+)\((.*)\) += (\d+)(?:<(.*)>)?$", line)):
            continue
        name, given = call[1], call[2]
        paths = [Path(path) for path in re.findall(r'"(/[^"]*)"', given)]
        held = [Path(path) for path in re.findall(r"^\d+<(/[^>]*)>", given)]
        if name == "mkdir" or "O_CREAT" in given:
            unsynced |= {paths[0], paths[0].parent}
        elif name == "write" and held and held[0].is_relative_to(tmp_path):
            unsynced.add(held[0])
        elif name == "fsync":
            unsynced.discard(held[0])
        elif name.startswith("rename"):
            source, target = paths
            assert not {path for path in unsynced if path.is_relative_to(source)}, line
            unsynced |= {source.parent, target.parent}
            renamed += ".heddle-staging" not in str(target)
        elif name.startswith("unlink") and renamed:
            place = tmp_path / "out" if how == "mounted" else tmp_path
            assert place not in unsynced, line
    assert renamed


@pytest.mark.parametrize("new", [False, True])
def test_what_a_file_is_called_is_on_the_device_before_anybody_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, new: bool
) -> None:
    seen: list[tuple[Path, bool]] = []
    monkeypatch.setattr(staging, "sync_folder", lambda folder: seen.append((folder, (folder / "out").exists())))
    made = tmp_path / "made"
    made.write_text("text")
    staging.put_file(made, tmp_path / "out", new=new)
    assert seen == [(tmp_path, True)]
