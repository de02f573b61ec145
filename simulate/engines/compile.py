"""How the kernels of the simulation are compiled, or interpreted where little is simulated."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import numpy as np

from routing.machine_code import INNER, UNCOUNTED, Kernel


class Played(Kernel):
    """A kernel of the simulation. An event looks at few elements of the state, so more of them are small."""

    small = 2**18
    """A kernel that scans an array of so many elements takes a twentieth of a second, interpreted, of `patience_s`."""
    patience_s = 8.0
    """As long as compiling takes: `run` of the packets, with all that it calls, takes 8 s of CPU on an empty cache, and
    `advance` of the fluid engine 18. Whoever waits in vain waits twice as long as he had to, or half as long again.
    """

    def readable(self, given: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the arguments so that Python reads plain numbers from them, and fields of records by their names."""
        return tuple(map(_readable, given))


def _readable(value: Any) -> Any:
    array: Any = value  # mypy does not know that an array has a buffer
    if isinstance(value, np.ndarray):
        records = value.dtype.names is not None
        return (_record(value.dtype) * len(value)).from_buffer(array) if records else memoryview(array)
    if isinstance(value, tuple):  # of a name
        return type(value)(*map(_readable, value))
    return value


_record = cache(np.ctypeslib.as_ctypes_type)

MODEL: dict[str, Any] = {"error_model": "numpy"}

kernel: Any = partial(Played, **MODEL, **UNCOUNTED)
"""For functions that make no arrays."""

inner: Any = partial(Played, **MODEL, **INNER)
"""Likewise, for functions that only kernels call."""

inlined: Any = partial(Played, **MODEL, **INNER, forceinline=True)
"""Likewise, for small functions in the innermost loops."""

scanning: Any = partial(Played, **MODEL, **UNCOUNTED, fastmath={"nnan", "nsz"})
"""Likewise, for scans of arrays without NaN, which may then look at several values at once."""
