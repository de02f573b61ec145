"""Sweeps: many plans from one spec, each a file named for what it follows from."""
