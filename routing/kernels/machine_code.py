"""How kernels are compiled, and where their machine code is kept for the next process: Numba's cache, made to last.

Numba's own cache raises where it has no place, where its disk is full and where a file of it is damaged, and runs old
code where a kernel in another file has changed that is compiled into the caller. Here none of these stops a command or
alters a result: what is damaged or stale is compiled anew and replaced, and where nothing can be kept, nothing is.
"""

from __future__ import annotations

import hashlib
import inspect
import logging
import mmap
import os
import pickle
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from numba import config, njit
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile

if TYPE_CHECKING:
    from numba.core.decorators import _JITWrapper

LOG = logging.getLogger(__name__)
"""Told of each function that has to be compiled, and warned once where the code cannot be kept."""

ROOM = 64 * 2**20
"""Bytes that must be free to load or compile a function: LLVM aborts the process where it gets no memory."""

_told: list[str] = []

GIVEN, BESIDE, OF_USER = CompileResultCacheImpl._locator_classes[:3]
"""Numba's places for code: NUMBA_CACHE_DIR, beside the source, and the user's cache; each where it can be written."""


class ReadOnlyGiven(GIVEN):  # type: ignore[misc, valid-type]
    """NUMBA_CACHE_DIR where it can only be read, as in an image that was made with the code in it."""

    def ensure_cache_path(self) -> None:
        """Take it as it is."""


class ReadOnlyBeside(BESIDE):  # type: ignore[misc, valid-type]
    """Beside the source, likewise."""

    def ensure_cache_path(self) -> None:
        """Take it as it is."""


class Places(CompileResultCacheImpl):
    """Where to look for a place; the last one is always there."""

    def __init__(self, function: Callable[..., Any]) -> None:
        home = os.path.expanduser("~")  # noqa: PTH111  as it is where a user has none; Numba would make a folder ~
        at_home = [OF_USER] if os.path.isabs(home) else []  # noqa: PTH117
        given = bool(config.CACHE_DIR)  # type: ignore[attr-defined]
        self._locator_classes = [GIVEN, ReadOnlyGiven] if given else [BESIDE, *at_home, ReadOnlyBeside]
        super().__init__(function)


class CheckedFile(IndexDataCacheFile):
    """Puts a digest before the code: a damaged instruction would not be noticed until it runs.

    And with it what it is the code of: two processes that compile at once may take the same name of a file.
    """

    def save(self, key: object, data: object) -> None:
        """Keep code."""
        super().save(key, (key, data))

    def load(self, key: object) -> object:
        """Return the code that is kept for a key; None when there is none."""
        kept, data = super().load(key) or (None, None)
        return data if kept == key else None

    def _save_data(self, name: str, data: object) -> None:
        dumped = self._dump(data)
        with self._open_for_write(self._data_path(name)) as file:
            file.write(hashlib.sha256(dumped).digest() + dumped)

    def _load_data(self, name: str) -> object:
        data = Path(self._data_path(name)).read_bytes()
        if hashlib.sha256(data[32:]).digest() != data[:32]:
            raise pickle.UnpicklingError(f"{name} is damaged")
        return pickle.loads(data[32:])


class KernelCache(FunctionCache):
    """Keeps the code of a function for as long as no file of its folder changes; kernels call none outside of it."""

    _impl_class = Places

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        stamp = digest_of_sources(Path(inspect.getfile(function)).parent)
        self._cache_file = CheckedFile(self._cache_path, self._impl.filename_base, stamp)

    def load_overload(self, sig: object, target_context: object) -> object:
        """Return the code that is kept, None where there is none or it is damaged."""
        check_room()
        try:
            found = super().load_overload(sig, target_context)
        except MemoryError:
            raise
        except Exception:  # whatever a damaged file makes of unpickling
            found = None
            self._try(self.flush)
        if found is None:
            LOG.info("compiling %s", self._py_func.__name__)
        return found

    def save_overload(self, sig: object, data: object) -> None:
        """Keep the code of a function, if it can be kept."""
        save = super().save_overload
        self._try(lambda: save(sig, data))

    def _try(self, write: Callable[[], None]) -> None:
        try:
            write()
        except OSError as error:
            warn_once(os.fspath(self._cache_path), error.strerror or str(error))


def check_room() -> None:
    """Raise MemoryError where less than `ROOM` is left of what the process may take."""
    try:
        mmap.mmap(-1, ROOM, flags=mmap.MAP_PRIVATE).close()
    except OSError:
        raise MemoryError(f"no {ROOM:,} bytes for compiled code") from None


def warn_once(place: str, reason: str) -> None:
    """Say that code cannot be kept, the first time."""
    if not _told:
        _told.append(place)
        LOG.warning(
            "compiled code cannot be kept in %s (%s), so each command compiles again; "
            "name a folder for it in NUMBA_CACHE_DIR",
            place,
            reason,
        )


@cache
def digest_of_sources(folder: Path) -> bytes:
    """Return the SHA-256 of all modules in a folder."""
    digest = hashlib.sha256()
    for source in sorted(folder.glob("*.py")):
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    return digest.digest()


def compiled(**options: Any) -> _JITWrapper:
    """Return a decorator that compiles functions with these options of Numba, and keeps their code."""

    def decorate(function: Callable[..., Any]) -> Any:
        dispatcher = njit(nogil=True, **options)(function)
        dispatcher._cache = KernelCache(function)
        return dispatcher

    return cast("_JITWrapper", decorate)


kernel = compiled()
"""For functions on flat arrays; they hold no lock of Python's, so that a signal can end a command while they run."""
