"""Forwarding tables, and the proof that they are right."""
