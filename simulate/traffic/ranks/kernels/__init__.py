"""Kernels that search for rank orders."""
