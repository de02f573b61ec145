"""Budgets: each is stated once, in the docs too, and refused by its name before the machine is taken."""

import gzip
import os
import re
import threading
import time
from pathlib import Path

import pytest

import topo
from topo import budget
from topo.dumps.fabric_file import read_dump
from topo.errors import FormatError
from topo.files import text
from topo.files.text import read_file, read_lines

DOCS = Path(__file__).parents[2] / "docs" / "budgets.md"


def test_the_docs_have_every_budget_and_its_limit():
    rows = re.findall(r"^\| `([a-z-]+)` \| ([\d,]+) ([^|]+?) \| ([^|]+?) \| ([^|]+?) \|$", DOCS.read_text(), re.M)
    stated = [(item.name, f"{item.limit:,}", item.unit, item.of, item.why) for item in topo.budgets().values()]
    assert rows == stated


def packed(data: bytes, path: Path) -> Path:
    path.write_bytes(gzip.compress(data))
    return path


def refusal(path: Path) -> str:
    with pytest.raises(FormatError) as caught:
        read_dump(path)
    return str(caught.value)


@pytest.mark.slow
def test_a_bomb_of_blank_lines_is_refused_by_name(tmp_path):
    """A tenth of a megabyte; half of one kept the reader busy for minutes before there was a budget."""
    path = packed(b'Switch 4 "S-1"\n' + b"\n" * 100_000_000, tmp_path / "bomb.gz")
    begin = time.process_time()
    assert "budget text-" in refusal(path)
    assert time.process_time() - begin < 60


@pytest.mark.slow
def test_a_file_that_unpacks_to_hundreds_of_times_its_size(monkeypatch, tmp_path):
    monkeypatch.setattr(text, "FREE_OF_RATIO", 100_000)
    path = packed(b'Switch 4 "S-1"\n' + b"# nothing\n" * 1_000_000, tmp_path / "bomb.gz")
    assert "budget text-ratio" in refusal(path)


def test_lines_are_counted_whether_or_not_they_say_something(monkeypatch, tmp_path):
    monkeypatch.setattr(text, "TEXT_LINES", budget.Budget(3, "lines", "", "", "text-lines"))
    (tmp_path / "three").write_text("a\n\n\n")
    (tmp_path / "four").write_text("\n\n\n\n")
    assert list(read_lines(tmp_path / "three")) == ["a", "", ""]
    with pytest.raises(
        FormatError, match=r"four:4: found more than 3 lines; expected at most .* \(budget text-lines\)"
    ):
        list(read_lines(tmp_path / "four"))


def test_empty_parts_of_a_packed_file_count(monkeypatch, tmp_path):
    monkeypatch.setattr(text, "TEXT_BYTES", budget.Budget(10_000, "bytes", "", "", "text-bytes"))
    (tmp_path / "parts.gz").write_bytes(gzip.compress(b"") * 10_000)
    assert "budget text-bytes" in refusal(tmp_path / "parts.gz")


def test_cpu_seconds_of_a_reader(monkeypatch, tmp_path):
    monkeypatch.setattr(budget, "READER_CPU", budget.Budget(-1, "seconds of CPU", "", "", "reader-cpu"))
    (tmp_path / "long").write_text("\n" * 100_000)
    with pytest.raises(FormatError, match="budget reader-cpu"):
        list(read_lines(tmp_path / "long"))


@pytest.mark.slow
def test_a_pipe_that_nobody_writes_is_refused_and_a_slow_one_is_read(monkeypatch, tmp_path):
    monkeypatch.setattr(text, "PIPE_OPEN", budget.Budget(0.3, "seconds", "", "", "pipe-open"))
    os.mkfifo(tmp_path / "idle")
    with pytest.raises(FormatError, match=r"idle: .*\(budget pipe-open\)"):
        list(read_lines(tmp_path / "idle"))

    def write() -> None:
        with (tmp_path / "slow").open("w") as file:
            for line in ("one\n", "two\n"):
                time.sleep(0.5)
                file.write(line)
                file.flush()

    os.mkfifo(tmp_path / "slow")
    monkeypatch.setattr(text, "PIPE_OPEN", budget.Budget(30, "seconds", "", "", "pipe-open"))
    writer = threading.Thread(target=write)
    writer.start()
    assert list(read_lines(tmp_path / "slow")) == ["one", "two"]
    writer.join()


@pytest.mark.slow
def test_a_pipe_that_falls_silent_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(text, "PIPE_WAIT", budget.Budget(0.2, "seconds", "", "", "pipe-wait"))
    os.mkfifo(tmp_path / "silent")
    holder = os.open(tmp_path / "silent", os.O_RDWR)
    os.write(holder, b"begun\n")
    with pytest.raises(FormatError, match="budget pipe-wait"):
        list(read_lines(tmp_path / "silent"))
    os.close(holder)


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/null", "/"])
def test_devices_and_folders_are_no_input(path):
    with pytest.raises(FormatError, match=r"found a (device|folder); expected a regular file or a pipe"):
        list(read_lines(path))


def test_a_file_beyond_its_budget_is_not_read(tmp_path):
    with (tmp_path / "hole").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(FormatError, match="budget chakra-bytes"):
        read_file(tmp_path / "hole", budget.CHAKRA_BYTES)
