"""Collectives as explicit schedules: pure functions of a number of ranks, which any network can play."""
