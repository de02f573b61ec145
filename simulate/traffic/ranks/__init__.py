"""Rank orders: which node of a job takes which rank, for the paths that its tables give it."""
