"""A stopped run as a file: a line that says what it is, a digest of the rest, and NumPy's ``.npz``.

The digest finds every changed byte. It is no signature: whoever forges a file can compute it anew, and kernels follow
the indices in it without a check. So resume only files of your own.
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

from topo.budget import SAVED_RUN_ARRAYS, SAVED_RUN_BYTES
from topo.errors import HeddleError
from topo.files.text import read_file

MAGIC = b"Heddle, saved run 1\n"
NPY_VERSION = (1, 0)


def format_saved_run(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return the bytes of a saved run; the same arrays give the same bytes.

    Examples
    --------
    >>> import numpy as np, simulate
    >>> simulate.cluster.format_saved_run({"steps": np.zeros(3)})[:19]
    b'Heddle, saved run 1'
    """
    out = io.BytesIO()
    np.savez_compressed(out, allow_pickle=False, **arrays)
    return MAGIC + hashlib.sha256(out.getbuffer()).digest() + out.getvalue()


def parse_saved_run(data: bytes, path: str) -> dict[str, NDArray[Any]]:
    """Return the arrays of a saved run."""
    if not data.startswith(MAGIC):
        raise HeddleError(f"{path}: found no saved run; expected a file that `plan operate --state` wrote")
    start = len(MAGIC) + hashlib.sha256().digest_size
    rest = memoryview(data)[start:]
    if hashlib.sha256(rest).digest() != data[len(MAGIC) : start]:
        raise HeddleError(f"{path}: the saved run is damaged or incomplete; start again without it")
    try:
        with zipfile.ZipFile(io.BytesIO(rest)) as archive:
            members = archive.infolist()
            # No member is unpacked further than it says here.
            unpacked = sum(member.file_size for member in members)
            if len(members) > SAVED_RUN_ARRAYS.limit or unpacked > SAVED_RUN_BYTES.limit:
                raise ValueError("found more than a saved run has")
            return {member.filename.removesuffix(".npy"): _parse_array(archive.read(member)) for member in members}
    except (ValueError, OSError, EOFError, NotImplementedError, RuntimeError, zipfile.BadZipFile, zlib.error):
        raise HeddleError(f"{path}: the saved run holds something other than arrays; start again without it") from None


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
    >>> simulate.cluster.read_saved_run(Path("no-such-file"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    topo.errors.FormatError: no-such-file: cannot be read: found no such file; ...
    """
    return parse_saved_run(read_file(path, SAVED_RUN_BYTES), str(path))


def _parse_array(data: bytes) -> NDArray[Any]:
    """Return the array of NumPy's ``.npy``, when there are as many bytes of it as its head says."""
    stream = io.BytesIO(data)
    if np.lib.format.read_magic(stream) != NPY_VERSION:
        raise ValueError("found another version of .npy")
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
    if dtype.hasobject or fortran or math.prod(shape) * dtype.itemsize != len(data) - stream.tell():
        raise ValueError("found an array whose size differs from its header")
    return np.frombuffer(data, dtype, offset=stream.tell()).reshape(shape)
