"""Families of topologies, one module each."""
