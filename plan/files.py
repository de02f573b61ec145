"""Writes one file: whole or not at all, and never over an input or what somebody else put there."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterable
from pathlib import Path

from topo import Finding, HeddleError, SpecError

Content = bytes | str | Iterable[bytes]
"""Whole, or in chunks where it is large."""


def chunks(content: Content) -> Iterable[bytes]:
    """Return the bytes of a file, piece by piece."""
    if isinstance(content, str):
        return [content.encode()]
    return [content] if isinstance(content, bytes) else content


def check_writable(path: Path, inputs: Iterable[Path] = (), *, kind: str = "", magic: bytes = b"") -> None:
    """Refuse a place for a file before any long work begins.

    Parameters
    ----------
    path : Path
        Of the file to write.
    inputs : iterable of Path
        What the command reads, which must not be written over.
    kind, magic : str, bytes
        Where they are given, only a file of this kind is replaced, such as an SVG, which is known by its first bytes.

    Raises
    ------
    HeddleError
        When nothing can be written there, or what is there must stay.
    """
    if magic and path.exists() and not _begins_with(path, magic):
        found = f"something that is no {kind}"
        raise SpecError([Finding(str(path), found, f"a new name, or an older {kind}", "Choose with -o.")])
    if path.is_dir():
        raise SpecError([Finding(str(path), "a folder", "the name of a file to write")])
    if path.exists() and any(other.exists() and path.samefile(other) for other in inputs):
        raise SpecError([Finding(str(path), "an input of this command", "the name of another file to write")])
    folder = path.absolute().parent
    if not folder.is_dir() or not os.access(path if path.exists() else folder, os.W_OK):
        reason = os.strerror(errno.EACCES if folder.is_dir() else errno.ENOTDIR if folder.exists() else errno.ENOENT)
        raise HeddleError(f"{path}: nothing can be written there ({reason}); name another file")


def _begins_with(path: Path, magic: bytes) -> bool:
    """Whether a file is empty or begins with these bytes."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(magic)) in (magic, b"")


def write_file(path: Path, content: Content, *, new: bool = False) -> None:
    """Write a file: beside its place first, then into it, so that an older one stays until the new one is whole.

    What is no regular file, such as a pipe or a link, is written to directly.

    Parameters
    ----------
    new : bool
        Whether nothing may be there yet.

    Raises
    ------
    HeddleError
        When something is there and must not be, or nothing can be written.
    """
    try:
        # O_EXCL: neither a file nor a link that is there is touched, even if it comes between look and write.
        flags = os.O_WRONLY | os.O_CREAT | (os.O_EXCL if new else os.O_TRUNC)
        replaceable = path.is_file() and os.access(path.absolute().parent, os.W_OK)
        if new or path.is_symlink() or (path.exists() and not replaceable):
            with os.fdopen(os.open(path, flags, 0o666), "wb") as file:
                file.writelines(chunks(content))
            return
        hidden = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        try:
            with os.fdopen(os.open(hidden, flags | os.O_EXCL, 0o666), "wb") as file:
                if path.exists():
                    os.fchmod(file.fileno(), path.stat().st_mode & 0o777)
                file.writelines(chunks(content))
                file.flush()
                os.fsync(file.fileno())
            hidden.replace(path)
        except BaseException:
            hidden.unlink(missing_ok=True)
            raise
    except FileExistsError:
        raise SpecError([Finding(str(path), "a file that exists", "a new name", "Choose one with -o.")]) from None
    except (OSError, ValueError) as error:  # ValueError: a NUL byte in the path
        reason = getattr(error, "strerror", None) or error
        raise HeddleError(f"{path}: cannot be written ({reason}); name another file") from None
