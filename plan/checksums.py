"""``SHA256SUMS``, which says that a folder is ours, and which of its files are; ``sha256sum -c`` reads it too."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from topo import HeddleError

MARK = "SHA256SUMS"
STAGING = ".heddle-staging-"
"""What the names of hidden folders begin with in which something is made before it is put in its place."""

Given = ParamSpec("Given")
Read = TypeVar("Read")


@dataclass(frozen=True)
class Strangers:
    """What lies in a folder and is not of the plan that Heddle wrote there, by path relative to it, sorted."""

    foreign: tuple[str, ...] = ()
    """Files that are not listed."""
    changed: tuple[str, ...] = ()
    """Files that are listed and have another digest."""

    def __str__(self) -> str:
        shown = [*self.foreign[:3], *self.changed[:3]]
        more = len(self.foreign) + len(self.changed) - len(shown)
        why = "changed after it was written" if self.changed else "not of the plan that is there"
        both = "not of the plan that is there, or changed after it was written"
        shown.append(f"{more:,} more") if more else None
        return f"{', '.join(shown)}: {both if self.foreign and self.changed else why}"

    def __bool__(self) -> bool:
        return bool(self.foreign or self.changed)


def read_sums(folder: Path) -> dict[str, str]:
    """Return the digest of each file that a folder's `MARK` lists, by path below the folder; none outside of it."""
    try:
        text = (folder / MARK).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise HeddleError(f"{folder / MARK}: cannot be read ({error.strerror})") from None
    listed = re.findall(r"^([0-9a-f]{64})  (?!/)(.+)$", text, re.MULTILINE)
    return {name: digest for digest, name in listed if ".." not in Path(name).parts}


def of_one_plan(read: Callable[Concatenate[Path, Given], Read]) -> Callable[Concatenate[Path, Given], Read]:
    """Return a function that reads a folder again if another plan took its place meanwhile: all it gives is of one."""

    @wraps(read)
    def steadily(path: Path, /, *given: Given.args, **options: Given.kwargs) -> Read:
        while True:
            edition = _edition(path)
            try:
                found = read(path, *given, **options)
            except (HeddleError, OSError):
                if edition is not None and _edition(path) == edition:
                    raise
                with locked(path) if path.is_dir() else nullcontext():  # the files of a mount point change places
                    after = _edition(path)
                if after == edition:
                    raise
            else:
                if _edition(path) == edition:
                    return found

    return steadily


@contextmanager
def opened(folder: Path, flags: int = 0) -> Iterator[int]:
    """Give the descriptor of a folder; errors as it is closed are ignored: nothing was written."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | flags)
    try:
        yield descriptor
    finally:
        with suppress(OSError):
            os.close(descriptor)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a lock on a folder that one command at a time has, where there are locks."""
    with opened(folder) as descriptor:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


def _edition(folder: Path) -> bytes | None:
    try:
        return (folder / MARK).read_bytes()
    except OSError:
        return None


def folders_in(folder: Path, *, but: str | None = None) -> dict[Path, list[str]]:
    """Return a folder and all below, ``but`` those at its top that begin so, with the names of what is no folder."""
    found = {}
    for place, folders, files in os.walk(folder):
        if but is not None and place == os.fspath(folder):
            folders[:] = [name for name in folders if not name.startswith(but)]
        here = Path(place)
        found[here] = files + [name for name in folders if (here / name).is_symlink()]
    return found


def find_strangers(folder: Path, *, but: str | None = None) -> Strangers:
    """Return what is not of the plan that a folder holds, everything where it holds none; `but` as in `folders_in`."""
    places = folders_in(folder, but=but)
    found = {(place / name).relative_to(folder).as_posix() for place, names in places.items() for name in names}
    sums = read_sums(folder) if MARK in found else {}
    foreign = sorted(found - sums.keys() - {MARK})
    ours = [name for name in found & sums.keys() if not (folder / name).is_symlink()]
    same = {name for name in ours if digest(folder / name) == sums[name]}
    return Strangers(tuple(foreign), tuple(sorted(found & sums.keys() - same)))


def digest(path: Path) -> str | None:
    """Return the SHA-256 of a file, or of all files of a folder of ours; None for a pipe."""
    if path.is_dir():
        path /= MARK
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
