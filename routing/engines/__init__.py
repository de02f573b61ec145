"""Routing engines, one module each, and the registry that finds them by name."""
