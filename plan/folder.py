"""Writes an output folder whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from topo.errors import HeddleError

__all__ = ["MARK", "Content", "check_replaceable", "write_folder"]

MARK = "plan.json"
"""The file by which a folder is known as ours. It is written last."""

Content = bytes | str | Iterable[bytes]
"""Whole, or in chunks where it is large."""


def check_replaceable(folder: Path) -> None:
    """Refuse a place that a plan may not be written to, before any long work begins.

    Raises
    ------
    HeddleError
        When the place is a file, a folder that Heddle did not make, or below something that is no folder.
    """
    parent = folder.absolute().parent
    while not parent.exists():
        parent = parent.parent
    if not parent.is_dir():
        raise HeddleError(f"{folder}: {parent} is not a folder; name another place with -o")
    if not os.access(parent, os.W_OK):
        raise HeddleError(f"{folder}: no permission to write in {parent}; name another place with -o")
    if not folder.exists() and not folder.is_symlink():
        return
    if not folder.is_dir() or folder.is_symlink():
        raise HeddleError(f"{folder}: found something that is not a folder; name another place with -o, or remove it")
    if any(folder.iterdir()) and not (folder / MARK).is_file():
        raise HeddleError(
            f"{folder}: found a folder without {MARK}, which Heddle did not finish or did not make; nothing in it was "
            "touched. Name another place with -o, or remove it"
        )


def write_folder(folder: Path, files: Mapping[str, Content]) -> None:
    """Write files into a new folder beside ``folder`` and rename it into place; an older plan there is replaced.

    A crash at any moment leaves the older plan whole, in its place or beside it.

    Parameters
    ----------
    folder : Path
        The output folder.
    files : mapping of str to content
        By path relative to the folder.
    """
    check_replaceable(folder)
    folder = folder.absolute()
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f".{folder.name}.new-", dir=folder.parent))
    try:
        fresh.chmod(0o755)
        for name in sorted(files, key=lambda name: (name == MARK, name)):
            _write(fresh / name, files[name])
        _swap(fresh, folder)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise


def _write(path: Path, content: Content) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, str):
        content = content.encode()
    with path.open("wb") as file:
        file.writelines([content] if isinstance(content, bytes) else content)


def _swap(fresh: Path, folder: Path) -> None:
    """Put a finished folder in place of an older one."""
    if not folder.exists():
        fresh.rename(folder)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{folder.name}.old-", dir=folder.parent))
    folder.rename(old / folder.name)
    try:
        fresh.rename(folder)
    except BaseException:
        (old / folder.name).rename(folder)
        raise
    shutil.rmtree(old)
