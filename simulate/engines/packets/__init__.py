"""Packets with credits, buffers and lanes, and the kernels that move them."""
