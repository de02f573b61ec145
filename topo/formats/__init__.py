"""Readers and writers of the files that describe fabrics."""
