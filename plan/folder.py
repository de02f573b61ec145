"""Writes an output folder whole or not at all, and never over what somebody else put there."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from pathlib import Path

from plan.checksums import MARK, STAGING, find_strangers, folders_in, locked, of_one_plan
from plan.staging import Content, make_file, open_staging, put_contents, put_folder, there, tidy
from topo import HeddleError


def check_replaceable(folder: Path, *others: Path, keep_plan: bool = False) -> None:
    """Refuse a place that an output folder may not be written to, before any long work begins.

    HeddleError for a file, a folder that Heddle did not make, one with files of others in it, one of ``others`` (which
    the command reads, or writes otherwise), the folder that the command runs in, a place where nothing can be written,
    and, with ``keep_plan``, a plan, because what is written is none.
    """
    if any(
        folder.absolute() == other.absolute() or (other.exists() and folder.resolve() == other.resolve())
        for other in others
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
        raise HeddleError(f"{shown}: {reason}; name another place with -o")
    if keep_plan and (folder / "plan.json").exists():
        raise HeddleError(f"{folder}: found a plan, which would be replaced; name another place with -o")


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
    if not folder.is_dir() or folder.is_symlink():
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

    HeddleError as `check_replaceable`, and if the device is full or fails.
    """
    if astray := sorted(name for name in files if Path(name).is_absolute() or ".." in Path(name).parts):
        raise HeddleError(f"{folder}: found a file {astray[0]!r} to write, outside the folder")
    check_replaceable(folder)
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
        raise HeddleError(
            f"{folder}: cannot be written ({error.strerror or error}); the previous content is unchanged"
        ) from None
