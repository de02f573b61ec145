"""Diagnosis: which link or collision explains measured bandwidths."""
