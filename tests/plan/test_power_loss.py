"""A file system that is cut off at any moment, as by a loss of power: the older result or the newer one is there."""

import array
import fcntl
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import plan.files
import plan.staging
from plan.checksums import find_strangers, read_sums
from plan.files import write_file, write_folder

SHUTDOWN, NO_FLUSH = 0x8004587D, 2
"""EXT4_IOC_SHUTDOWN (``fs/ext4/ext4.h``): from then on nothing reaches the device, the journal in memory neither."""
OPTIONS = ["data=ordered", "data=writeback,noauto_da_alloc", "data=journal"]
HOWS = ["file", "renamed", "moved", "mounted"]
"""With and without an exchange of names, and in a folder that cannot be renamed."""
CUTS = 25


class Disk:
    """A file system in a file."""

    def __init__(self, folder: Path, options: str) -> None:
        self.image, self.place, self.options = folder / "image", folder / "disk", options
        self.place.mkdir()
        with self.image.open("wb") as file:
            file.truncate(48 * 2**20)
        subprocess.run(["mkfs.ext4", "-q", "-F", self.image], check=True)

    def mount(self) -> bool:
        """Nothing is written but what is asked for, as long as a test takes."""
        command = ["mount", "-o", f"loop,commit=300,{self.options}", self.image, self.place]
        return subprocess.run(command, check=False, capture_output=True).returncode == 0

    def cut(self) -> None:
        opened = os.open(self.place, os.O_RDONLY)
        fcntl.ioctl(opened, SHUTDOWN, array.array("I", [NO_FLUSH]))
        os.close(opened)

    def unmount(self) -> None:
        subprocess.run(["umount", self.place], check=False, capture_output=True)


@pytest.fixture(params=OPTIONS)
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    if os.geteuid() != 0:
        pytest.skip("only root mounts a file system")
    disk = Disk(tmp_path, request.param)
    if not disk.mount():
        pytest.skip("this machine mounts no image")
    yield disk
    disk.unmount()


def write(out: Path, how: str, letter: str) -> None:
    if how == "file":
        write_file(out, letter * 50_000)
        return
    if how == "moved":
        plan.staging._rename = lambda *arguments: False
    if how == "mounted":
        plan.files._stays = lambda folder: folder.is_dir()
    large = {f"{n % 5}/{n}": iter([letter.encode() * 5000] * 3) for n in range(30)}
    write_folder(out, {"plan.json": letter, **large})


def begin(out: Path, how: str, letter: str) -> int:
    """Write in a process of its own, which no signal handler of ours tidies up after."""
    if child := os.fork():
        return child
    try:
        write(out, how, letter)
    finally:
        os._exit(0)


def read(out: Path) -> str:
    """Return the letter of a result, after a look whether it is whole."""
    if out.is_file():
        text = out.read_text(encoding="utf-8")
        assert text == text[0] * 50_000
        return text[0]
    assert not find_strangers(out, but=".heddle")
    assert len(read_sums(out)) == 31
    return (out / "plan.json").read_text(encoding="utf-8")


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.peer("mkfs.ext4")
@pytest.mark.parametrize("how", HOWS)
def test_the_older_result_or_the_newer_one_is_there(disk: Disk, how: str) -> None:
    rng, out = random.Random(7), disk.place / "out"
    for letter in "ab":
        begun = time.monotonic()
        os.waitpid(begin(out, how, letter), 0)
    usual_s, older = time.monotonic() - begun, "b"
    os.sync()
    for number in range(CUTS):
        newer = "cdefg"[number % 5]
        child = begin(out, how, newer)
        time.sleep(rng.uniform(0, 1.2 * usual_s))
        disk.cut()
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        disk.unmount()
        assert disk.mount()
        if how in ("moved", "mounted") and not (out / "SHA256SUMS").exists():  # there may be none for an instant
            os.waitpid(begin(out, how, newer), 0)
        older, before = read(out), older
        assert older in (before, newer), number
