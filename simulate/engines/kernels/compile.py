"""How the kernels of the simulation are compiled."""

from __future__ import annotations

from typing import Any

from routing.kernels.machine_code import compiled

# Kernels make no arrays, so they go without Numba's reference counts (`_nrt`): their atomic additions at every call and
# return took half of the time of a simulation.
OPTIONS: dict[str, Any] = {"error_model": "numpy", "_nrt": False}

kernel: Any = compiled(**OPTIONS)
"""For functions that make no arrays."""

INNER: dict[str, Any] = {**OPTIONS, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}

inner: Any = compiled(**INNER)
"""Likewise, for functions that only kernels call: to compile how Python would call them takes longer than the rest."""

inlined: Any = compiled(**INNER, forceinline=True)
"""Likewise, for small functions in the innermost loops."""

scanning: Any = compiled(**OPTIONS, fastmath={"nnan", "nsz"})
"""Likewise, for scans of arrays without NaN, which may then look at several values at once."""
