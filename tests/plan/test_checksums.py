"""Whoever reads a folder reads one plan, also while others replace it; and what is not of the plan is known."""

import subprocess
import sys
from pathlib import Path

import pytest

from plan.checksums import MARK, find_strangers, of_one_plan, read_sums
from plan.files import write_folder
from topo.errors import HeddleError

WRITER = """
import sys
from pathlib import Path
from random import Random
from time import sleep
import plan.files
if sys.argv[2] == "mounted":
    plan.files._stays = lambda folder: folder.is_dir()
rng = Random(sys.argv[3])
for turn in range(67):
    text = f"{sys.argv[3]} {turn}"
    plan.files.write_folder(Path(sys.argv[1]), {f"{n}/file": text for n in range(4)} | {f"of {sys.argv[3]}": text})
    sleep(rng.random() / 50)
"""
READER = """
import sys
from pathlib import Path
from plan.checksums import MARK, of_one_plan, read_sums
from topo import HeddleError

def read(folder):
    try:
        return {(folder / name).read_text() for name in read_sums(folder)}
    except OSError as error:
        raise HeddleError(str(error)) from None

seen, folder = set(), Path(sys.argv[1])
while not (folder.parent / "end").exists():
    (whole,) = of_one_plan(read)(folder)
    seen.add(whole)
print(len(seen))
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["renamed", "mounted"])
def test_three_writers_and_two_readers(tmp_path: Path, how: str) -> None:
    """For 200 rounds and more; a mount point is filled by renaming what is in it."""
    out = tmp_path / "out"
    write_folder(out, {"0/file": "first"})

    def start(program: str, *arguments: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", program, *map(str, (out, *arguments))]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    readers = [start(READER) for _ in range(2)]
    writers = [start(WRITER, how, number) for number in range(3)]
    ended = [writer.communicate(timeout=600) and writer.returncode for writer in writers]
    (tmp_path / "end").touch()
    assert ended == [0, 0, 0]
    for reader in readers:
        told, _ = reader.communicate(timeout=60)
        assert reader.returncode == 0
        assert int(told) > 1
    (out / "end").unlink(missing_ok=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["end", "out"]
    assert not find_strangers(out)
    assert len(list(out.iterdir())) == 6


def test_a_folder_is_read_again_when_another_plan_took_its_place(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write_folder(out, {"a": "1", "b": "1"})
    turns = []

    @of_one_plan
    def read(folder: Path) -> list[str]:
        turns.append(0)
        first = (folder / "a").read_text()
        if len(turns) == 1:
            write_folder(folder, {"a": "2", "b": "2"})
        if len(turns) == 2:
            write_folder(folder, {"a": "3"})
            raise HeddleError("no b") from None
        return [first, (folder / "a").read_text()]

    assert read(out) == ["3", "3"]
    assert len(turns) == 3


def test_an_error_of_a_plan_that_stays_is_told(tmp_path: Path) -> None:
    @of_one_plan
    def read(folder: Path) -> None:
        raise HeddleError("oops")

    write_folder(tmp_path / "out", {"a": "1"})
    for place in (tmp_path / "out", tmp_path, tmp_path / "out" / "a"):
        with pytest.raises(HeddleError, match="oops"):
            read(place)


def test_a_list_of_a_forger_names_no_file_outside(tmp_path: Path) -> None:
    digest = "0" * 64
    (tmp_path / MARK).write_text(
        f"{digest}  /etc/passwd\n{digest}  ../up\n{digest}  a/../../up\n{digest}  in\nnonsense\n"
    )
    assert read_sums(tmp_path) == {"in": digest}
    (tmp_path / "in").write_text("other")
    (tmp_path / "new\nline").write_text("x")
    found = find_strangers(tmp_path)
    assert (found.foreign, found.changed) == (("new\nline",), ("in",))
