"""Writes one file: whole or not at all, and never over an input or what somebody else put there.

A drawing is written as the kind of file that its name asks for: SVG as it is, PNG and PDF by CairoSVG.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable
from pathlib import Path

from plan.staging import Content, chunks, make_file, open_staging, put_file, there
from topo import Finding, HeddleError, SpecError


def check_writable(path: Path, inputs: Iterable[Path] = (), *, kind: str = "", magic: bytes = b"") -> None:
    """Refuse a place for a file before any long work begins: HeddleError if it cannot be written, or must stay.

    ``inputs`` are what the command reads, which must not be written over. With ``kind`` and ``magic``, only a file of
    this kind is replaced, such as an SVG, which is known by its first bytes.
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
        raise HeddleError(f"{path}: cannot be written ({reason}); name another file")


SUFFIXES = {
    *[".html", ".svg", ".png", ".pdf", ".jpg", ".csv", ".xlsx", ".json", ".yaml", ".yml", ".conf", ".dot", ".graphml"]
}
"""Suffixes that say what is in a file."""


def check_suffix(path: Path, suffix: str) -> None:
    """Refuse a name that ends like a file of another kind; any other will do."""
    if path.suffix.lower() in SUFFIXES - {suffix}:
        expected = f"one that ends in {suffix}"
        raise SpecError([Finding(str(path), f"the name of a {path.suffix} file", expected, "Nothing else is written.")])


def _begins_with(path: Path, magic: bytes) -> bool:
    """Whether a file is empty or begins with these bytes."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(magic)) in (magic, b"")


def write_file(path: Path, content: Content, *, new: bool = False) -> None:
    """Write a file: out of sight first, then put in its place, so that an older one is there until the new one is.

    A link is followed. What is no regular file, such as a pipe, is written to directly. So is a file in a folder that
    may not be written to, once the whole of the new one is known. HeddleError if nothing can be written, or something
    is there and the file must be ``new``.
    """
    try:
        if new and there(path):
            raise FileExistsError
        opened = path.is_symlink() and path.absolute().is_relative_to("/dev")  # /dev/stdout: by whom we were started
        if opened or (path.exists() and not path.is_file()):
            with path.open("wb") as file:
                file.writelines(chunks(content))
            return
        target = path.absolute() if new else path.resolve()
        if target.exists() and not os.access(target.parent, os.W_OK | os.X_OK):
            whole = b"".join(chunks(content))
            target.write_bytes(whole)
            return
        with open_staging(target.parent) as staging:
            make_file(staging / "file", content)
            put_file(staging / "file", target, new=new)
    except FileExistsError:
        raise SpecError([Finding(str(path), "a file that exists", "a new name", "Choose one with -o.")]) from None
    except (OSError, ValueError) as error:  # ValueError: a NUL byte in the path
        reason = getattr(error, "strerror", None) or error
        raise HeddleError(f"{path}: cannot be written ({reason}); name another file") from None


MAGIC = {".svg": b"<svg", ".png": b"\x89PNG", ".pdf": b"%PDF"}
"""How a file of each kind begins."""
SHARP = 2.0
"""Pixels of a PNG for each unit of the drawing, for screens and paper of today."""
MOST_PIXELS = 16_000
"""Along the longer side of a PNG: Cairo has no larger surfaces, and viewers get slow before that."""
SIZE = re.compile(r'<svg[^>]* width="(\d+)" height="(\d+)"')


def as_kind(svg: str, suffix: str) -> str | bytes:
    """Return a drawing as a file of this suffix, one of `MAGIC`; HeddleError if the library Cairo is missing."""
    if suffix == ".svg":
        return svg
    try:
        import cairosvg
    except OSError:  # a package of Python that opens a library of the system
        raise HeddleError("plan: PNG and PDF need the library Cairo: apt-get install libcairo2") from None
    # CairoSVG would paint the white around letters over the letters.
    plain = re.sub(r"paint-order:stroke;[^}]*", "", svg).encode()
    if suffix == ".pdf":
        return bytes(cairosvg.svg2pdf(bytestring=plain))
    size = SIZE.search(svg)
    longer = max(map(int, size.groups())) if size else MOST_PIXELS
    return bytes(cairosvg.svg2png(bytestring=plain, scale=min(SHARP, MOST_PIXELS / longer)))
