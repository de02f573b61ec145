"""How the kernels of the simulation are compiled."""

from __future__ import annotations

from typing import Any

from routing.machine_code import INNER, UNCOUNTED, compiled

MODEL: dict[str, Any] = {"error_model": "numpy"}

kernel: Any = compiled(**MODEL, **UNCOUNTED)
"""For functions that make no arrays."""

inner: Any = compiled(**MODEL, **INNER)
"""Likewise, for functions that only kernels call."""

inlined: Any = compiled(**MODEL, **INNER, forceinline=True)
"""Likewise, for small functions in the innermost loops."""

scanning: Any = compiled(**MODEL, **UNCOUNTED, fastmath={"nnan", "nsz"})
"""Likewise, for scans of arrays without NaN, which may then look at several values at once."""
