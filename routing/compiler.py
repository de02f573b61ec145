"""How Numba compiles kernels, and where their machine code is kept for the next process: its cache, made to last.

Numba's own cache raises where it has no place, where its disk is full and where a file of it is damaged, and runs old
code where a kernel in another file has changed that is compiled into the caller. Here none of these stops a command or
alters a result: what is damaged or stale is compiled anew and replaced, and where nothing can be kept, nothing is.
"""

from __future__ import annotations

import gc
import hashlib
import logging
import mmap
import os
import pickle
import sys
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import cache, cached_property, partial
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, ClassVar

import numba
import numpy as np
from llvmlite.binding import get_host_cpu_features, get_process_triple
from numba import config, types
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile
from numba.core.codegen import JITCodeLibrary, JITCPUCodegen
from numba.core.environment import lookup_environment
from numba.core.registry import CPUDispatcher, cpu_target
from numba.core.runtime.nrt import rtsys
from numba.core.types import int64, unliteral

LOG = logging.getLogger(__name__)
"""Told of each function that has to be compiled, and warned once where the code cannot be kept."""

ROOM = 64 * 2**20
"""Bytes that must be free to load or compile a function: LLVM aborts the process where it gets no memory."""


OURS = ("routing", "simulate")
"""Packages with kernels: what one names in a module of theirs is part of it. All else belongs to its version."""

SHIPPED = Path(sysconfig.get_path("platlib")) / "heddle_kernels"
"""Where an installer puts the code of the distribution heddle-kernels (``make kernels``), and nobody else writes."""
PROCESSOR = "x86-64-v3"
"""What code is shipped for, in words of LLVM: most servers since 2013."""
FEATURES = ("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "popcnt", "sse4.2")
"""What another processor must be able to do to run it."""

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

    def get_filename_base(self, fullname: str, abiflags: str) -> str:
        """Return a name without the number of a line, which every comment above would change."""
        python = f"py{sys.version_info.major}{sys.version_info.minor}{abiflags}"
        return f"{fullname.replace('<', '').replace('>', '')}.{python}"


class CheckedFile(IndexDataCacheFile):
    """Puts a digest before the code: a damaged instruction would not be noticed until it runs.

    And with it what it is the code of: two processes that compile at once may take the same name of a file.
    """

    def __init__(self, folder: str, base: str, stamp: Callable[[], bytes]) -> None:
        super().__init__(folder, base, None)
        del self._source_stamp  # found when it is wanted: by then all that the function calls is there
        self._stamp = stamp

    @cached_property
    def _source_stamp(self) -> bytes:
        return self._stamp()

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
    """Keeps the code of a function for as long as neither it nor anything that it calls changes."""

    _impl_class = Places

    def __init__(self, function: Callable[..., Any], options: Mapping[str, object], family: str = "") -> None:
        super().__init__(function)
        self.family = family
        stamp = partial(digest_of_reach, function, options)
        self._cache_file = CheckedFile(self._cache_path, self._impl.filename_base, stamp)
        folder = os.fspath(SHIPPED / PROCESSOR / function.__module__)
        self._shipped = CheckedFile(folder, self._impl.filename_base, stamp) if runs_shipped_code() else None

    def load_overload(self, sig: object, target_context: object) -> object:
        """Return the code that is kept, None where there is none or it is damaged."""
        check_room()
        try:
            # Numba's own imports all that it could need to compile anything, which takes longer than to load the code.
            rtsys.initialize(target_context)
            found = self._load_shipped(sig, target_context) or self._load_overload(sig, target_context)
        except MemoryError:
            raise
        except Exception:  # whatever a damaged file makes of unpickling
            found = None
            self._try(self.flush)
        if found is None:
            LOG.info("compiling %s, once for this machine", self._py_func.__name__)
            Compiled.begun.add(self.family)
        return found

    def is_filled(self) -> bool:
        """Whether code of any signature is kept."""
        for file in (self._shipped, self._cache_file):
            try:
                if file is not None and file._load_index():
                    return True
            except Exception:  # a damaged file
                LOG.debug("compiled code of %s is damaged", self._py_func.__name__)
        return False

    def _load_shipped(self, sig: object, target_context: Any) -> object:
        """Return the code that was installed with Heddle; None where there is none that this machine can run."""
        if self._shipped is None:
            return None
        try:
            _, _, bytecode = self._index_key(sig, target_context.codegen())
            kept = self._shipped.load((sig, (get_process_triple(), PROCESSOR, ""), bytecode))
            return None if kept is None else self._impl.rebuild(target_context, kept)
        except MemoryError:
            raise
        except Exception:  # whatever a damaged file makes of unpickling
            self._shipped = None
            return None

    def save_overload(self, sig: object, data: object) -> None:
        """Keep the code of a function, if it can be kept."""
        save = super().save_overload
        self._try(lambda: save(sig, data))

    def _try(self, write: Callable[[], None]) -> None:
        try:
            write()
        except OSError as error:
            warn_once(os.fspath(self._cache_path), error.strerror or str(error))


class Library(JITCodeLibrary):
    """What Numba makes of one function: machine code only once somebody asks for its address.

    What only kernels call is compiled with its callers; code of its own, which nobody called, was a third of the work.
    """

    _compiled_object: bytes | None = None  # as the library begins, before Numba decides whether it can be kept
    _is_made = False

    def _optimize_final_module(self) -> None:
        """Leave it to the callers."""

    def _finalize_final_module(self) -> None:
        if self._compiled_object is None:
            self._finalize_dynamic_globals()
            self._finalized = True
        else:  # it was kept
            super()._finalize_final_module()

    def get_pointer_to_function(self, name: str) -> Any:
        """Return the address of a function of the library, 0 for that of another."""
        self._ensure_finalized()
        defined = (function.name for function in self._final_module.functions if not function.is_declaration)
        if not self._is_made and name in defined:
            self._is_made = True
            super()._optimize_final_module()
            super()._finalize_final_module()
            for variable in self._final_module.global_variables:  # those of what it calls, too
                if (environment := lookup_environment(variable.name)) is not None:
                    self.codegen.set_env(variable.name, environment)
        return super().get_pointer_to_function(name)

    def serialize_using_object_code(self) -> Any:
        """Return what is kept of it."""
        return super().serialize_using_object_code() if self._is_made else self.serialize_using_bitcode()


class Codegen(JITCPUCodegen):
    """Makes libraries that wait."""

    _library_class = Library

    def set_env(self, name: str, environment: object) -> None:
        """Give a function its environment, once it has an address."""
        if self._engine.is_symbol_defined(name):
            super().set_env(name, environment)


cpu_target.target_context._internal_codegen = Codegen("heddle.exec")


@cache
def runs_shipped_code() -> bool:
    """Whether code was installed, and this machine's processor can run it."""
    given = config.CPU_NAME is not None  # type: ignore[attr-defined]
    if given or not SHIPPED.is_dir() or not get_process_triple().startswith("x86_64-"):
        return False
    able = get_host_cpu_features()
    return all(able.get(name) for name in FEATURES)


def check_room() -> None:
    """Raise MemoryError where less than `ROOM` is left of what the process may take."""
    try:
        mmap.mmap(-1, ROOM, flags=mmap.MAP_PRIVATE).close()
    except OSError:
        raise MemoryError(f"no memory of {ROOM:,} bytes for compiled code") from None


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


def digest_of_reach(function: Callable[..., Any], options: Mapping[str, object]) -> bytes:
    """Return the SHA-256 of all that the machine code of a function is made from.

    That is the bytecode and the constants of the function and of all functions that it calls, how each is compiled, and
    the versions of NumPy and Numba. A comment, a docstring or another function changes none of it.
    """
    versions = f"numba {numba.__version__}, numpy {np.__version__}, {sorted(options.items())}"
    digest = hashlib.sha256(versions.encode())
    for one in find_reached(function):
        digest.update(_makings(one)[0])
    return digest.digest()


def find_reached(function: Callable[..., Any]) -> list[Callable[..., Any]]:
    """Return a function and all functions of ours that are compiled with it."""
    reached = [function]
    for one in reached:
        reached.extend(other for other in _makings(one)[1] if other not in reached)
    return reached


@cache
def _makings(function: Callable[..., Any]) -> tuple[bytes, tuple[Callable[..., Any], ...]]:
    """Return what a function is made of but for what it calls, and that."""
    codes: list[CodeType] = [function.__code__]
    said: list[str] = [function.__qualname__]
    called: dict[Callable[..., Any], None] = {}
    for code in codes:
        said.append(repr((code.co_code, code.co_varnames, code.co_names)))
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                codes.append(constant)
            elif constant is not function.__doc__:
                said.append(repr(constant))
        said.extend(_meaning(function.__globals__.get(name), code.co_names, called) for name in code.co_names)
    return "\n".join(said).encode(), tuple(called)


def _meaning(value: Any, names: Sequence[str], called: dict[Callable[..., Any], None]) -> str:
    """Return what a global name stands for as text, and add what is compiled with its callers to ``called``."""
    if isinstance(function := getattr(value, "py_func", None), FunctionType):  # of a kernel
        called[function] = None
        return f"{function.__module__}.{function.__qualname__} {sorted(value.options.items())}"
    if isinstance(value, FunctionType):
        called[value] = None
        return f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, ModuleType):
        ours = value.__name__.partition(".")[0] in OURS
        return value.__name__ + "".join(_meaning(vars(value).get(name), names, called) for name in names if ours)
    if isinstance(value, type):
        members = [*value] if issubclass(value, Enum) else getattr(value, "_fields", ())
        return f"{value.__qualname__} {members}"
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape} {value.tobytes().hex()}"
    plain = isinstance(value, int | float | str | bytes | tuple | np.generic)
    return repr(value) if plain else type(value).__qualname__


class Compiled(CPUDispatcher):
    """What Numba makes of a function; its code is kept."""

    begun: ClassVar[set[str]] = set()
    """Families of which anything was compiled in this process."""

    def __init__(self, function: Callable[..., Any], options: Mapping[str, object], family: str = "") -> None:
        super().__init__(function, targetoptions={"nopython": True, "nogil": True, "boundscheck": None, **options})
        self._cache = KernelCache(function, options, family)

    @property
    def has_code(self) -> bool:
        """Whether there is code of it, for some signature, here or in the cache."""
        return bool(self.overloads) or self._cache.is_filled()

    @property
    def has_begun(self) -> bool:
        """Whether anything of its family was compiled in this process: whoever waits for that shall wait once."""
        return self._cache.family in self.begun

    def compile(self, sig: Any) -> Any:
        """Compile the function for some types. What Numba makes is kept: to look for garbage in it took a tenth."""
        collects = gc.isenabled()
        gc.disable()
        try:
            return super().compile(sig)
        finally:
            if collects:
                gc.enable()

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Compile what another kernel calls once for all integers, not for each constant and each width of them."""
        return super().get_call_template(
            tuple(map(_plain, args)), {name: _plain(kind) for name, kind in dict(kws).items()}
        )


def _plain(kind: Any) -> Any:
    """Return the type that stands for all of its kind: no constants, and signed integers of 64 bits."""
    free: Any = unliteral(kind)
    return int64 if free in types.signed_domain else free
