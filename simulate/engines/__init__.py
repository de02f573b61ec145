"""Engines that play flows over a network."""
