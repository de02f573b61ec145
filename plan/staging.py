"""Makes what `plan.files` writes out of sight, and puts it in its place in one step.

A staging directory is hidden, on the file system of what is made in it, and locked as long as its command lives. What a
kill -9 or a power loss leaves is put right by the next command that writes there. What has been taken out of its place
is removed only if it is what Heddle put there. In ``new/NAME`` is what will be NAME, and after the two have changed
places the older NAME; where a file system cannot let them do so, that is in ``old/NAME`` for a moment. A folder that
cannot be renamed, such as a mount point, has its staging directory inside, with what comes in ``in``, what goes in
``out``.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import hashlib
import logging
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from pathlib import Path

from plan.checksums import MARK, STAGING, find_strangers, locked, opened, read_sums
from plan.signals import UNDIVIDED, tidied
from topo import HeddleError

Content = bytes | str | Iterable[bytes]
"""Of a file: whole, or in chunks where it is large."""

NOREPLACE, EXCHANGE = 1, 2
"""Flags of renameat2(2): nothing may be there yet; both change places."""
UNABLE = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)
"""What a file system answers that knows no such flag."""
AT_FDCWD = -100


def chunks(content: Content) -> Iterable[bytes]:
    """Return the bytes of a file, piece by piece."""
    if isinstance(content, str):
        return [content.encode()]
    return [content] if isinstance(content, bytes) else content


def there(path: Path) -> bool:
    """Say whether anything is there, a dangling link too; an error where nothing ever can be."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


@contextmanager
def open_staging(parent: Path) -> Iterator[Path]:
    """Give a staging directory as long as the block lasts; those of killed commands are cleared away first."""
    tidy(parent)
    with ExitStack() as stack:
        with UNDIVIDED:
            place = None
            while place is None or not there(place):
                stack.close()
                place = Path(tempfile.mkdtemp(prefix=STAGING, dir=parent))
                with suppress(FileNotFoundError):  # somebody has tidied it away before it was locked
                    lock = stack.enter_context(opened(place))
                    with suppress(OSError):  # a file system without locks: nobody will tidy there either
                        fcntl.flock(lock, fcntl.LOCK_SH)
            stack.enter_context(tidied(lambda: _clear(place)))
        try:
            yield place
        finally:
            with UNDIVIDED:
                _clear(place)


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Give a folder where the system keeps temporary ones; nothing stays of it, after a signal neither."""
    place = Path(tempfile.mkdtemp(prefix="heddle-"))
    try:
        with tidied(lambda: shutil.rmtree(place, ignore_errors=True)):
            yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def tidy(parent: Path) -> None:
    """Clear away what killed commands left: staging directories of ours that are not locked."""
    for place in parent.glob(f"{STAGING}*"):
        # Errors: it is gone, not ours to open, or no folder; or somebody is at work there.
        with suppress(OSError), opened(place, os.O_NOFOLLOW) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(lock).st_uid == os.geteuid():
                _clear(place)


def _clear(place: Path) -> None:
    """Remove a staging directory; what cannot be put right before is left for the next command."""
    with suppress(OSError, HeddleError):
        put_right(place)
        shutil.rmtree(place)


def make_file(path: Path, content: Content) -> str:
    """Write a file to the device, and return its SHA-256 in hexadecimal."""
    digest = hashlib.sha256()
    with UNDIVIDED:  # while the command ends nothing new comes into a staging directory
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("xb")
    with file:
        for chunk in chunks(content):
            digest.update(chunk)
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()


def put_file(made: Path, path: Path, *, new: bool = False) -> None:
    """Put a file in its place, with the mode of an older one; FileExistsError if there is one and it must be new.

    A new folder, too.
    """
    with UNDIVIDED:
        if not new:
            if path.exists():
                made.chmod(stat.S_IMODE(path.stat().st_mode))
            made.replace(path)
        elif _rename(made, path, NOREPLACE):
            pass
        elif made.is_dir():
            made.rename(path)  # which replaces an empty folder at most
        else:
            path.hardlink_to(made)  # which replaces nothing either
        sync_folder(path.parent)


def put_folder(made: Path, folder: Path) -> None:
    """Put a folder in its place, with the mode and the owner of an older one there, which it changes places with."""
    with locked(folder.parent), UNDIVIDED:
        _sync_tree(made)
        if not there(folder):
            made.rename(folder)
        else:
            found = folder.stat()
            made.chmod(stat.S_IMODE(found.st_mode))
            with suppress(PermissionError):
                os.chown(made, found.st_uid, found.st_gid)
            if not _rename(made, folder, EXCHANGE):
                old = made.parent.parent / "old" / folder.name
                old.parent.mkdir()
                folder.rename(old)
                made.rename(folder)
        sync_folder(folder.parent)


def put_contents(made: Path, folder: Path) -> None:
    """Put what lies in a folder into another one, whose own contents are taken out; the list of files goes last.

    Every reader sees the list of one plan with its files, or no list. Whatever fails, `put_right` undoes.
    """
    with locked(folder), UNDIVIDED:
        _sync_tree(made)
        out = made.parent / "out"
        out.mkdir()
        for path in _mark_first(folder):
            path.rename(out / path.name)
        for path in reversed(_mark_first(made)):
            path.rename(folder / path.name)
        sync_folder(folder)


def put_right(place: Path) -> None:
    """Finish or undo what a command has begun in a staging directory, so that it can be removed."""
    out, made = place / "out", place / "in"
    if there(made / MARK) and there(out):  # it was ended before the new list was in its place
        for name in {Path(name).parts[0] for name in read_sums(made)}:
            if there(place.parent / name) and not there(made / name):
                (place.parent / name).rename(made / name)
        for path in reversed(_mark_first(out)):
            path.rename(place.parent / path.name)
    elif there(out / MARK):
        _retire(out, place.parent / place.parent.name)
    for old in place.glob("old/*"):
        if not there(place.parent / old.name):
            old.rename(place.parent / old.name)
    for older in (*place.glob("old/*"), *place.glob("new/*")):
        if there(older / MARK):
            _retire(older, place.parent / older.name)


def sync_folder(folder: Path) -> None:
    """Write the names in a folder to the device, if its file system can."""
    with suppress(OSError), opened(folder) as descriptor:
        os.fsync(descriptor)


def _retire(older: Path, folder: Path) -> None:
    """Keep an older plan beside its place if somebody has put or changed something in it."""
    if strangers := find_strangers(older):
        kept = next(path for n in count(1) if not there(path := folder.with_name(f"{folder.name}.kept-{n}")))
        older.rename(kept)
        logging.getLogger(__name__).warning(
            "%s: the older plan there had %s; it is kept in %s", folder, strangers, kept
        )


def _sync_tree(folder: Path) -> None:
    for path in (*folder.rglob("*"), folder):
        if path.is_dir():
            sync_folder(path)


def _mark_first(folder: Path) -> list[Path]:
    """Return what lies in a folder, its list of files first; no staging directories."""
    found = (path for path in folder.iterdir() if not path.name.startswith(STAGING))
    return sorted(found, key=lambda path: (path.name != MARK, path.name))


def _rename(source: Path, target: Path, flag: int) -> bool:
    """Rename with a flag of renameat2; return False where there is no such thing."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    if rename(AT_FDCWD, os.fsencode(source), AT_FDCWD, os.fsencode(target), flag) == 0:
        return True
    number = ctypes.get_errno()
    if number in UNABLE:
        return False
    raise OSError(number, os.strerror(number), str(target))
