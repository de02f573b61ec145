"""Numba kernels of traffic: the order of flows that wait for each other."""
