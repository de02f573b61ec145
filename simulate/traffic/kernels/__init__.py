"""Numba kernels of traffic: the order of flows that wait for each other."""

from pathlib import Path

from routing.kernels.machine_code import drop_stale_code

drop_stale_code(Path(__file__).parent)
