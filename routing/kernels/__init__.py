"""Numba functions on flat arrays."""
