"""Numba kernels of the simulators, on flat read-only arrays."""
