"""Fabrics in files: one module for each format of the field, and what follows from wiring alone."""
