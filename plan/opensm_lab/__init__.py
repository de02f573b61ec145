"""A real OpenSM over a simulated fabric: rehearse a plan's files, and compare its tables with stock engines."""
