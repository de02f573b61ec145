"""Routing engines, one module each."""
