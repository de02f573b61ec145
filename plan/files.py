"""Writes a file or a folder whole or not at all, and never over an input or what somebody else put there."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

from plan.checksums import MARK, STAGING, find_strangers, folders_in, locked, of_one_plan
from plan.signals import UNDIVIDED
from plan.staging import Content, chunks, make_file, open_staging, put_contents, put_file, put_folder, there, tidy
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


SUFFIXES = {".html", ".svg", ".png", ".pdf", ".jpg", ".csv", ".xlsx", ".json", ".yaml", ".yml", ".conf", ".dot",
            ".graphml"}  # fmt: skip
"""Suffixes that say what is in a file."""


def check_suffix(path: Path, *suffixes: str, only: bool = False) -> None:
    """Refuse a name that ends like a file of another kind; any other will do, unless these are the ``only`` ones."""
    if path.suffix.lower() not in suffixes and (only or path.suffix.lower() in SUFFIXES):
        expected = f"one that ends in {', '.join(suffixes)}"
        raise SpecError([Finding(str(path), f"the name of a {path.suffix} file", expected, "Nothing else is written.")])


def _begins_with(path: Path, magic: bytes) -> bool:
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
    with _told(path):
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


def write_together(files: Mapping[Path, Content | Mapping[str, Content]]) -> None:
    """Write new files, and new folders of files by their names in them, beside one another: all of them, or none.

    They are made out of sight and put in their places in order. HeddleError if one cannot be written, or is there.
    """
    placed: list[Path] = []
    first = next(iter(files))
    with _told(first), open_staging(first.absolute().parent) as staging:
        for path, content in files.items():
            with _told(path):
                for name, text in content.items() if isinstance(content, Mapping) else [("", content)]:
                    make_file(staging / path.name / name, text)
        with UNDIVIDED:
            try:
                for path in files:
                    with _told(path):
                        put_file(staging / path.name, path, new=True)
                        placed.append(path)
            except BaseException:
                for path in placed:
                    path.rename(staging / f"{path.name} again")  # where it was made may be a link to it
                raise


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Raise what the block meets as a HeddleError that names a path."""
    try:
        yield
    except FileExistsError:
        raise SpecError([Finding(str(path), "a file that exists", "the name of a new file")]) from None
    except (OSError, ValueError) as error:  # ValueError: a NUL byte in the path
        reason = getattr(error, "strerror", None) or error
        raise HeddleError(f"{path}: cannot be written ({reason}); name another file") from None


BUILT = "bom.csv"
"""What `plan build` writes of every plan, and nothing else does."""


def check_replaceable(output: str | Path | None, *others: object, keep: str = "plan.json") -> None:
    """Refuse a place that an output folder may not be written to, before any long work begins.

    HeddleError for a file, a folder that Heddle did not make, one with files of others in it, one of ``others`` (paths
    that the command reads, or writes otherwise), the folder that the command runs in, a place where nothing can be
    written, and an older plan with the file ``keep``: by default any plan, with `BUILT` one of `plan build`, of which
    tables alone are a part, with nothing none. Nothing for None.
    """
    if output is None:
        return
    folder = Path(output)
    paths = [Path(other) for other in others if isinstance(other, str | Path)]
    if any(
        folder.absolute() == other.absolute() or (other.exists() and folder.resolve() == other.resolve())
        for other in paths
    ):
        raise HeddleError(f"{folder}: would replace what this command reads, or writes otherwise; name another place")
    try:
        with suppress(OSError):  # of places that cannot be, which is told below
            tidy(folder.absolute().parent)
            tidy(folder)
        with locked(folder) if _stays(folder) else nullcontext():
            reason = _obstacle(folder)
    except (OSError, ValueError) as error:  # ValueError: a NUL byte in the path
        reason = f"no folder can be here ({getattr(error, 'strerror', None) or error})"
    if reason:
        shown = str(folder) if len(str(folder)) <= 200 else f"{str(folder)[:200]}..."
        raise HeddleError(f"{shown}: {reason}; name another place")
    if keep and (folder / keep).exists():
        lost = f"found {keep} of a plan, which would be lost"
        raise HeddleError(f"{folder}: {lost}; name another place, or remove it first")


@of_one_plan
def _obstacle(folder: Path) -> str:
    """Say why a plan may not be written to a folder; nothing when it may."""
    in_place = _stays(folder)
    parent = folder.absolute().parent
    while not there(parent):
        parent = parent.parent
    if not parent.is_dir():
        return f"{parent} is not a folder"
    if not in_place and not os.access(parent, os.W_OK | os.X_OK):
        return f"no permission to write in {parent}"
    if not there(folder):
        return ""
    if folder.is_symlink():
        return "found a symbolic link"
    if not folder.is_dir():
        return "found something that is not a folder"
    if not in_place and Path.cwd().is_relative_to(folder.resolve()):
        return "found the folder that you are in, which would be replaced under your feet"
    making = STAGING if in_place else None  # another command may be at work in it
    for place in folders_in(folder, but=making):
        if not os.access(place, os.R_OK | os.W_OK | os.X_OK):
            return f"no permission to replace what is in {place}"
    strangers = find_strangers(folder, but=making)
    if strangers and not there(folder / MARK):
        return f"found a folder without {MARK}, which Heddle did not finish or did not make; nothing in it was touched"
    return f"found {strangers}; nothing was touched" if strangers else ""


def _stays(folder: Path) -> bool:
    """Say whether a folder cannot be renamed, so that what is in it is replaced instead: a mount point is one."""
    if not folder.is_dir() or folder.is_symlink():
        return False
    return _is_mounted(folder) or not os.access(folder.absolute().parent, os.W_OK | os.X_OK)


def _is_mounted(folder: Path) -> bool:
    """Say whether something is mounted on a folder, a part of the same file system too."""
    with suppress(OSError):  # proc(5): the fifth field, with octal numbers for what would divide fields
        lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
        points = (re.sub(r"\\(\d{3})", lambda found: chr(int(found[1], 8)), line.split(" ")[4]) for line in lines)
        return str(folder.resolve()) in points
    return folder.is_mount()


def write_folder(folder: Path, files: Mapping[str, Content]) -> None:
    """Make a new folder of files, by their paths in it, out of sight, and put it in its place instead of an older plan.

    Whatever ends this early, a signal or a full disk, leaves the older plan in its place. After a kill -9 or a power
    loss the older or the newer one is there, whole; a hidden folder may be left beside it, which the next plan that is
    written there removes. A folder that cannot be renamed, such as a mount point, is the exception: if a kill -9 comes
    in the instant when files change places, it has no `MARK` until the next plan puts the older one back.
    """
    if astray := sorted(name for name in files if Path(name).is_absolute() or ".." in Path(name).parts):
        raise HeddleError(f"{folder}: found a file {astray[0]!r} to write, outside the folder")
    check_replaceable(folder, keep="")
    try:
        folder.absolute().parent.mkdir(parents=True, exist_ok=True)
        folder = folder.resolve()
        in_place = _stays(folder)
        with open_staging(folder if in_place else folder.parent) as staging:
            made = staging / "in" if in_place else staging / "new" / folder.name
            sums = "".join(f"{make_file(made / name, files[name])}  {name}\n" for name in sorted(files))
            make_file(staging / MARK, sums)
            (staging / MARK).rename(made / MARK)  # a list that is there is whole
            (put_contents if in_place else put_folder)(made, folder)
    except OSError as error:
        raise HeddleError(f"{folder}: cannot be written ({error.strerror or error}); nothing was written") from None


MAGIC = {".svg": b"<svg", ".png": b"\x89PNG", ".pdf": b"%PDF"}
"""How a picture of each kind begins."""
