"""Numba kernels of the simulators, on flat read-only arrays."""

from pathlib import Path

from routing.kernels.machine_code import drop_stale_code

drop_stale_code(Path(__file__).parent)
