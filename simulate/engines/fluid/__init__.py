"""Flows at max-min fair rates, and the kernels that find them."""
