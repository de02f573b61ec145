"""Writes an output folder whole or not at all, and never over what somebody else put there."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from plan.files import Content, chunks
from topo import HeddleError

MARK = "SHA256SUMS"
"""The file by which a folder is known as ours, and which of its files are. ``sha256sum -c`` reads it too."""

WORKSHOP = ".heddle-workshop-"
"""What the names of hidden folders begin with, in which a plan is made before it is put in its place."""


def check_replaceable(folder: Path, *, keep_plan: bool = False) -> None:
    """Refuse a place that an output folder may not be written to, before any long work begins.

    Parameters
    ----------
    keep_plan : bool
        Whether a plan that is there must stay, because what is written is none.

    Raises
    ------
    HeddleError
        When the place is a file, a folder that Heddle did not make, one with files of others in it, the folder that
        the command runs in, or where nothing can be written.
    """
    try:
        reason = _obstacle(folder)
    except (OSError, ValueError) as error:  # ValueError: a NUL byte in the path
        reason = f"no folder can be here ({getattr(error, 'strerror', None) or error})"
    if reason:
        shown = str(folder) if len(str(folder)) <= 200 else f"{str(folder)[:200]}..."
        raise HeddleError(f"{shown}: {reason}; name another place with -o")
    if keep_plan and (folder / "plan.json").exists():
        raise HeddleError(f"{folder}: found a plan, which would be replaced; name another place with -o")


def _obstacle(folder: Path) -> str:
    """Say why a plan may not be written to a folder; nothing when it may."""
    parent = folder.absolute().parent
    while not _there(parent):
        parent = parent.parent
    if not parent.is_dir():
        return f"{parent} is not a folder"
    if not os.access(parent, os.W_OK | os.X_OK):
        return f"no permission to write in {parent}"
    if not _there(folder):
        return ""
    if not folder.is_dir() or folder.is_symlink():
        return "found something that is not a folder"
    if Path.cwd().is_relative_to(folder.resolve()):
        return "found the folder that you are in, which would be replaced under your feet"
    for place in (folder, *(path for path in folder.rglob("*") if path.is_dir() and not path.is_symlink())):
        if not os.access(place, os.R_OK | os.W_OK | os.X_OK):
            return f"no permission to replace what is in {place}"
    found = _files(folder)
    if not found:
        return ""
    if MARK not in found:
        return f"found a folder without {MARK}, which Heddle did not finish or did not make; nothing in it was touched"
    if foreign := sorted(found - _listed(folder) - {MARK}):
        more = f" and {len(foreign) - 3:,} more" if len(foreign) > 3 else ""
        return f"found {', '.join(foreign[:3])}{more}, not of the plan that is there; nothing was touched"
    return ""


def _there(path: Path) -> bool:
    """Say whether anything is there, a dangling link too; an error where nothing ever can be."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _files(folder: Path) -> set[str]:
    """Return all that lies in a folder and is no folder, by path relative to it."""
    found = (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    return {path.relative_to(folder).as_posix() for path in found}


def _listed(folder: Path) -> set[str]:
    """Return the files that a folder's `MARK` lists."""
    with (folder / MARK).open(encoding="utf-8", errors="replace") as lines:
        return {line.rstrip("\n")[66:] for line in lines}


def write_folder(folder: Path, files: Mapping[str, Content]) -> None:
    """Make a new folder out of sight and rename it into place; an older plan there is replaced.

    Whatever ends this early, a signal or a full disk, leaves the older plan in its place. A kill -9 may leave a hidden
    folder beside it, which the next plan that is written there removes, when it has put back what was on its way.

    Parameters
    ----------
    folder : Path
        The output folder.
    files : mapping of str to content
        By path relative to the folder.

    Raises
    ------
    HeddleError
        As `check_replaceable`, and when the device is full or fails.
    """
    if astray := sorted(name for name in files if Path(name).is_absolute() or ".." in Path(name).parts):
        raise HeddleError(f"{folder}: found a file {astray[0]!r} to write, which would be outside of the folder")
    parent = folder.absolute().parent
    with suppress(OSError):  # of places that cannot be, which the check tells
        _tidy(parent)
    check_replaceable(folder)
    try:
        parent.mkdir(parents=True, exist_ok=True)
        folder = folder.resolve()
        with _workshop(folder.parent) as workshop:
            new, old = workshop / "new", workshop / "old"
            new.mkdir()
            old.mkdir()
            sums = "".join(f"{_write(new / name, files[name])}  {name}\n" for name in sorted(files))
            _write(new / MARK, sums)
            if folder.exists():
                folder.rename(old / folder.name)
            new.rename(folder)
    except OSError as error:
        raise HeddleError(
            f"{folder}: cannot be written ({error.strerror or error}); what was there before is untouched"
        ) from None


def _write(path: Path, content: Content) -> str:
    """Write a file and return its SHA-256 in hexadecimal."""
    path.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    with path.open("wb") as file:
        for chunk in chunks(content):
            digest.update(chunk)
            file.write(chunk)
    return digest.hexdigest()


@contextmanager
def _workshop(parent: Path) -> Iterator[Path]:
    """Give a hidden folder, locked as long as we live, and clear it away at the end."""
    workshop = Path(tempfile.mkdtemp(prefix=WORKSHOP, dir=parent))
    lock = os.open(workshop, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with suppress(OSError):  # a file system without locks: nobody will tidy there either
            fcntl.flock(lock, fcntl.LOCK_SH)
        yield workshop
    finally:
        _clear(workshop)
        os.close(lock)


def _clear(workshop: Path) -> None:
    """Put an older plan back whose successor did not arrive, and remove the workshop."""
    for old in workshop.glob("old/*"):
        if not _there(workshop.parent / old.name):
            old.rename(workshop.parent / old.name)
    shutil.rmtree(workshop, ignore_errors=True)


def _tidy(parent: Path) -> None:
    """Clear away what commands left that were killed: a workshop that nobody holds a lock on."""
    for workshop in parent.glob(f"{WORKSHOP}????????"):
        try:
            lock = os.open(workshop, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:  # gone, not ours to open, or no folder
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if any(workshop.iterdir()):  # else it may be so new that its owner has not locked it yet
                _clear(workshop)
        except OSError:  # somebody is at work there
            continue
        finally:
            os.close(lock)
