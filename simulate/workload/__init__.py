"""Workloads: what jobs a file describes, and the flows that they become on a fabric."""
