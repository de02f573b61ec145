"""Machine code that Numba keeps beside kernels, dropped when a kernel has changed.

Numba compiles a function anew when its own file has changed, but does not see a change in another file whose functions
are compiled into it: it would go on with the old ones, or crash where their arguments are others now. So the code of a
folder of kernels is kept only while no file of the folder changes; kernels call none outside of their folder.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

MARK = "kernels.sha256"
"""File beside the machine code: of which sources it was made."""


def drop_stale_code(folder: Path) -> None:
    """Remove what Numba keeps in a folder of kernels if it was made of other sources.

    Where nothing can be written Numba keeps its code elsewhere; there, sources are installed, all at one time.
    """
    digest = sha256()
    for source in sorted(folder.glob("*.py")):
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    kept = folder / "__pycache__"
    mark = kept / MARK
    try:
        if mark.is_file() and mark.read_bytes() == digest.digest():
            return
        kept.mkdir(exist_ok=True)
        for file in kept.glob("*.nb[ci]"):
            file.unlink(missing_ok=True)
        mark.write_bytes(digest.digest())
    except OSError:
        return
