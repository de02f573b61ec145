"""A stopped run as a file: a line that says what it is, a digest of the rest, and NumPy's ``.npz``.

A changed byte is found by the digest. Beyond the bounds on what is read, nothing protects from a file that somebody
forged with a digest of its own: a run goes on from what stands there, as a program goes on from its memory.
"""

from __future__ import annotations

import hashlib
import io
import math
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topo.errors import HeddleError

MAGIC = b"Heddle, saved run 1\n"
MAX_BYTES = 2**31
"""Of the file, and of the arrays in it; a day of Fire-Flyer 2 has some 200 MB, and a tenth of that as a file."""
MAX_ARRAYS = 200
NPY_VERSION = (1, 0)


def format_saved_run(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return the bytes of a saved run; the same arrays give the same bytes.

    Examples
    --------
    >>> import numpy as np, simulate
    >>> simulate.format_saved_run({"steps": np.zeros(3)})[:19]
    b'Heddle, saved run 1'
    """
    out = io.BytesIO()
    np.savez_compressed(out, allow_pickle=False, **arrays)
    return MAGIC + hashlib.sha256(out.getbuffer()).digest() + out.getvalue()


def parse_saved_run(data: bytes, path: str) -> dict[str, NDArray[Any]]:
    """Return the arrays of a saved run.

    Raises
    ------
    HeddleError
        When the bytes are something else, or not as they were saved.
    """
    if not data.startswith(MAGIC):
        raise HeddleError(f"{path}: found no saved run; expected a file that `plan operate --state` wrote")
    start = len(MAGIC) + hashlib.sha256().digest_size
    rest = memoryview(data)[start:]
    if hashlib.sha256(rest).digest() != data[len(MAGIC) : start]:
        raise HeddleError(f"{path}: the saved run is not as it was written, or not all of it; begin anew without it")
    try:
        with zipfile.ZipFile(io.BytesIO(rest)) as archive:
            members = archive.infolist()
            # No member is unpacked further than it says here.
            if len(members) > MAX_ARRAYS or sum(member.file_size for member in members) > MAX_BYTES:
                raise ValueError("found more than a saved run has")
            return {member.filename.removesuffix(".npy"): _parse_array(archive.read(member)) for member in members}
    except (ValueError, OSError, EOFError, NotImplementedError, RuntimeError, zipfile.BadZipFile, zlib.error):
        raise HeddleError(f"{path}: the saved run holds something else than arrays; begin anew without it") from None


def read_saved_run(path: Path) -> dict[str, NDArray[Any]]:
    """Read a saved run.

    Raises
    ------
    HeddleError
        When it cannot be read, or is none.

    Examples
    --------
    >>> import simulate
    >>> from pathlib import Path
    >>> simulate.read_saved_run(Path("no-such-file"))
    Traceback (most recent call last):
    topo.errors.HeddleError: no-such-file: found no regular file; expected one that `plan operate --state` wrote
    """
    try:
        if not path.is_file():
            raise HeddleError(f"{path}: found no regular file; expected one that `plan operate --state` wrote")
        if path.stat().st_size > MAX_BYTES:
            raise HeddleError(f"{path}: found more than {MAX_BYTES:,} bytes; expected a saved run")
        return parse_saved_run(path.read_bytes(), str(path))
    except OSError as error:
        raise HeddleError(f"{path}: cannot be read ({error.strerror or error})") from None


def _parse_array(data: bytes) -> NDArray[Any]:
    """Return the array of NumPy's ``.npy``, when there are as many bytes of it as its head says."""
    stream = io.BytesIO(data)
    if np.lib.format.read_magic(stream) != NPY_VERSION:
        raise ValueError("found another version of .npy")
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
    if dtype.hasobject or fortran or math.prod(shape) * dtype.itemsize != len(data) - stream.tell():
        raise ValueError("found an array of another size than its head says")
    return np.frombuffer(data, dtype, offset=stream.tell()).reshape(shape)
